"""A stand-in for a model, for the benchmarks that measure over HTTP: the server of the tests, in a process of its own.

It waits as long as it is told and replies the same to the same prompt. To a chunk it replies with the names that its
sentences hold, and which of them stand together; to descriptions and texts with their first words; to a community with
a report of five findings.
"""

import json
import multiprocessing
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from fake_server import FakeReply, FakeServer, prompt_of

__all__ = ["Stub", "first_seventh", "served", "stage_of", "usual"]

_NAME = re.compile(r"[A-Z][\w'-]+(?: [A-Z][\w'-]+)+|[\u4e00-\u9fff]{2,4}")
_SHOWN = re.compile(r"\[(?:Text|文本)\]:|Description List:")
_MOST = 5  # names of one sentence


class Stub:
    """The server, as its clients see it.

    Args:
        base_url: Its address.
        pipe: To its process.
    """

    def __init__(self, base_url: str, pipe: Connection) -> None:
        self.base_url = base_url
        self._pipe = pipe

    def counts(self) -> dict[str, Any]:
        """Since the last time: calls by stage (``chat``), embedding requests (``embed``), most at once (``peak``)."""
        self._pipe.send("counts")
        counts: dict[str, Any] = self._pipe.recv()
        return counts


@contextmanager
def served(reply: Callable[[str], str], latency: float, embed_latency: float = 0.0) -> Iterator[Stub]:
    """A server in a process of its own, so that its processor time is not that of what is measured.

    Args:
        reply: From a prompt to a reply; a function of a module, such as :func:`usual`.
        latency: Seconds that a reply takes.
        embed_latency: Seconds that embeddings take.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, reply, latency, embed_latency), daemon=True)
    process.start()
    try:
        yield Stub(ours.recv(), ours)
    finally:
        ours.send("end")
        process.join()


def usual(prompt: str) -> str:
    """A reply in the form that is asked for."""
    shown = _SHOWN.split(prompt)[-1].split("\n\n[")[0].strip()
    stage = stage_of(prompt)
    return _records(shown) if stage == "extract" else _report(prompt) if stage == "report" else shown[:200]


def first_seventh(prompt: str) -> str:
    """The first seventh of the text that a summary is asked of."""
    text = re.split(r"\[(?:Text|文本)\]:\n", prompt)[-1].rpartition("\n\n[")[0]
    return text[: len(text) // 7] or text


def stage_of(prompt: str) -> str:
    """The stage that a prompt belongs to, by what all prompts of it hold."""
    marks = {"report": '"findings"', "describe": "Description List:", "extract": "Relationships:"}
    return next((stage for stage, mark in marks.items() if mark in prompt), "summarize")


def _records(text: str) -> str:
    entities: dict[str, str] = {}
    ties: dict[tuple[str, str], str] = {}
    for sentence in re.split(r"(?<=[.!?])\s+|(?<=。)|\n+", text):
        said = re.sub(r"[#()]", " ", sentence)[:200]
        names = list(dict.fromkeys(_NAME.findall(sentence)))[:_MOST]
        for name in names:
            entities.setdefault(name, said)
        for pair in combinations(names, 2):
            ties.setdefault(pair, said)
    rows = ["Entities:", *(f"({name}#{said})" for name, said in entities.items()), "", "Relationships:"]
    return "\n".join([*rows, *(f"({a}#is named with#{b}#{said})" for (a, b), said in ties.items())])


def _report(prompt: str) -> str:
    names = [name for name, _ in Counter(_NAME.findall(prompt[-20_000:])).most_common(5)]
    findings = [{"summary": f"{name} is known", "explanation": f"{name} is named in letters. " * 8} for name in names]
    report = {"title": " and ".join(names[:2]), "summary": "They are named together. " * 10, "rating": 4.5}
    return json.dumps({**report, "rating_explanation": "Of local weight.", "findings": findings}, ensure_ascii=False)


def _serve(pipe: Connection, reply: Callable[[str], str], latency: float, embed_latency: float) -> None:
    rest = max(0.0, latency - embed_latency)  # on top of what every answer takes

    def answer(body: dict[str, Any]) -> FakeReply:
        return FakeReply(reply(prompt_of(body)), hang=rest, headers={"Connection": "keep-alive"})

    with FakeServer(answer, latency=embed_latency) as server:
        pipe.send(server.base_url)
        while pipe.recv() != "end":
            requests = [server.requests.pop(0) for _ in range(len(server.requests))]
            chat = Counter(stage_of(request.prompt) for request in requests if "messages" in request.body)
            pipe.send({"chat": dict(chat), "embed": len(requests) - chat.total(), "peak": server.peak})
            server.peak = 0
