"""Summaries of whole books: calls, rounds and limits with a model over HTTP, names and speed without one.

python benchmarks/book_summaries.py [--data ../shared/data] [--stub ../shared/bench/stub_llm.py] [--characters 300000]
                                    [--latency 0.2] [--concurrency 16] [--megabytes 5]

A book of each language is made of the corpora, repeated to the length that is asked for. It is merged to one summary
without a model, against the stub server of ../shared/bench (which needs aiohttp, and whose replies name at most four
English names), and against a server of the tests that answers with the first seventh of its text. Then the main
people are looked for in summaries of what is said about them, and a long text is timed in a process of its own.
"""

import argparse
import gzip
import json
import math
import os
import random
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import xml.etree.ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from rag_transformers.errors import ConvergenceError
from rag_transformers.models.servers import chat_model
from rag_transformers.prompts import prompt_text
from rag_transformers.summaries.extractive import central_sentences, joined
from rag_transformers.summaries.frequent_names import holds
from rag_transformers.summaries.text_summaries import ExtractiveSummary, Summary
from rag_transformers.text import sentence_spans, sentences

ROOT = Path(__file__).resolve().parents[1]
CORPORA = {
    "en": ("corpus_en/a_christmas_carol.txt", "corpus_en/operation_dulce_v2.md", "corpus_en/dulce.txt"),
    "zh": ("corpus_zh/sanguo_001-020.txt",),
}
LIMIT = 4096
"""Characters that are merged in one call."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    options.add_argument("--stub", type=Path, default=ROOT.parent / "shared" / "bench" / "stub_llm.py")
    options.add_argument("--characters", type=int, default=300_000)
    options.add_argument("--latency", type=float, default=0.2)
    options.add_argument("--concurrency", type=int, default=16)
    options.add_argument("--megabytes", type=float, default=5)
    options.add_argument("--speed", type=Path, help="only time this file, in this process")
    given = options.parse_args()
    if given.speed:
        speed(given.speed)
        return
    os.environ["OPENAI_API_KEY"] = "none"
    for language in CORPORA:
        without_model(given, language)
    with stub_server(given) as url:
        for language in CORPORA:
            with_model(given, language, url, "stub server")
    with sevenths(given) as url:
        for language in CORPORA:
            with_model(given, language, url, "first seventh")
    names_in_summaries(given)
    with tempfile.TemporaryDirectory() as folder:
        for language in CORPORA:
            file = Path(folder, f"long-{language}.txt")
            file.write_text(long_text(given, language), encoding="utf-8")
            subprocess.run([sys.executable, __file__, "--speed", file], check=True)


def book(given: argparse.Namespace, language: str) -> str:
    text = "\n\n".join((given.data / name).read_text(encoding="utf-8-sig") for name in CORPORA[language])
    copies = range(given.characters // len(text) + 1)  # which are told apart, for equal texts are asked about once
    return "\n\n".join(text.replace("\n", f"〔{copy}〕\n") if copy else text for copy in copies)[: given.characters]


def without_model(given: argparse.Namespace, language: str) -> None:
    text = book(given, language)
    began = time.perf_counter()
    summary = ExtractiveSummary().merge_text_summarize([text])
    seconds = time.perf_counter() - began
    number = len(sentences(text))
    print(
        f"{language}, no model: {len(text):,} characters, {number:,} sentences in {seconds:.2f} s "
        f"({number / seconds:,.0f} a second) -> {len(summary)} characters"
    )


class Counting(Summary):
    """Notes the number of calls of each round."""

    rounds: tuple[int, ...] = ()

    def _summaries(self, stage: str, texts: Sequence[str], job: Any) -> Any:
        self.rounds += (len(set(texts)),)
        return (yield from super()._summaries(stage, texts, job))


class Asked(BaseCallbackHandler):
    """The texts that the prompts held."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Keep what stands where a prompt of ours has its variable."""
        prompt = messages[0][0].content
        for stage in ("summarize_text", "merge_summaries"):
            for language in CORPORA:
                before, after = prompt_text(stage, language).split("{text}")
                if prompt.startswith(before) and prompt.endswith(after):
                    self.texts.append(prompt[len(before) : -len(after)])


def with_model(given: argparse.Namespace, language: str, url: str, server: str) -> None:
    text, asked = book(given, language), Asked()
    summary = Counting(chat_model("stub", f"{url}/v1"))
    began = time.perf_counter()
    try:
        made = summary.merge_text_summarize(
            [text], LIMIT, config={"callbacks": [asked], "max_concurrency": given.concurrency}
        )
        end = f"{len(made)} characters"
    except ConvergenceError as error:
        end = f"ConvergenceError: {error}"
    seconds, calls, lengths = time.perf_counter() - began, len(asked.texts), list(map(len, asked.texts))
    ideal = sum(math.ceil(asked / given.concurrency) for asked in summary.rounds) * given.latency
    print(
        f"{language}, {server}: {calls} calls in {len(summary.rounds)} rounds of {summary.rounds}, {seconds:.1f} s "
        f"(latency alone {ideal:.1f} s); longest text of a call "
        f"{max(lengths):,} of {LIMIT:,}, over the limit {sum(length > LIMIT for length in lengths)}; -> {end}",
        flush=True,
    )


def names_in_summaries(given: argparse.Namespace) -> None:
    """How often somebody's name is in the summary of what is said about them, wanted or not."""
    kinds = {
        "en, recorded descriptions (Christmas Carol)": carol(given.data),
        "en, raw descriptions (Dulce)": dulce(given.data),
        "zh, entity descriptions (notes on medicine)": medicine(given.data),
        "zh, sentences of a novel that name somebody": novel(given.data),
    }
    for kind, subjects in kinds.items():
        found = {}
        for wanted in (False, True):
            for limit in (120, 300):
                summed = [
                    joined(central_sentences(texts, limit, names=[name] if wanted else ())) for name, texts in subjects
                ]
                held = sum(holds(name)(summary) for (name, _), summary in zip(subjects, summed, strict=True))
                found[wanted, limit] = f"{held} of {len(subjects)}"
        print(
            f"{kind}: named in 120 characters {found[False, 120]}, in 300 {found[False, 300]}; "
            f"wanted {found[True, 120]}, {found[True, 300]}"
        )


def carol(data: Path) -> list[tuple[str, list[str]]]:
    lines = (data / "recorded_en" / "summaries_qwen3max.jsonl").read_text(encoding="utf-8").splitlines()
    return mentioned((name, row["descriptions"]) for row in map(json.loads, lines) for name in row["entities"])


def dulce(data: Path) -> list[tuple[str, list[str]]]:
    file = data / "recorded_en" / "dulce_graphrag_index" / "create_base_extracted_entities.graphml"
    tree = xml.etree.ElementTree.parse(file)
    space = "{http://graphml.graphdrawing.org/xmlns}"
    keys = {key.get("id"): key.get("attr.name") for key in tree.iter(f"{space}key") if key.get("for") == "node"}
    found = []
    for node in tree.iter(f"{space}node"):
        said = next((item.text for item in node if keys.get(item.get("key")) == "description" and item.text), "")
        found.append((str(node.get("id")).strip('"'), [line.strip('"') for line in said.splitlines()]))
    return mentioned(iter(found))


def medicine(data: Path) -> list[tuple[str, list[str]]]:
    with gzip.open(data / "recorded_zh" / "tcm_graphrag_index" / "entities.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return mentioned((row["title"], [row["description"]]) for row in rows if len(row["description"]) > 300)


def novel(data: Path) -> list[tuple[str, list[str]]]:
    text = (data / CORPORA["zh"][0]).read_text(encoding="utf-8")
    people = json.loads((data / "sanguograph" / "persons.json").read_text(encoding="utf-8"))
    people = people.get("persons", people) if isinstance(people, dict) else people
    names = [person["name"] for person in people if text.count(person["name"]) > 5]
    told = sentences(text)
    return mentioned((name, [sentence for sentence in told if name in sentence]) for name in names)


def mentioned(subjects: Iterator[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Those who are named at all in what is said of them, where there is more than one text of it or a long one."""
    return [
        (name, texts)
        for name, texts in subjects
        if any(map(holds(name), texts)) and (len(texts) > 1 or len(texts[0]) > 300)
    ]


def long_text(given: argparse.Namespace, language: str) -> str:
    """Sentences that are made of two halves of those of the book, by chance, so that hardly any comes twice."""
    told = sentences(book(given, language))
    chance, parts, size = random.Random(1), list[str](), 0
    while size < given.megabytes * 1_000_000:
        first = chance.choice(told)
        parts.append(first[: len(first) // 2] + chance.choice(told))
        size += len(parts[-1].encode())
    return "\n\n".join(parts)


def speed(file: Path) -> None:
    """Time a long text, and how far the memory grows over what the text takes."""
    text = file.read_text(encoding="utf-8")
    central_sentences([text[:50_000]], 1000)  # loads what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    central_sentences([text], 4000)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    number, size = sum(1 for _ in sentence_spans(text)), len(text.encode()) / 1e6
    print(
        f"{file.stem}, no model: {size:.1f} MB, {number:,} sentences in {wall:.1f} s, CPU {cpu:.1f} s "
        f"({number / cpu:,.0f} a CPU second); peak {after / 1024:.0f} MB, before {before / 1024:.0f} MB",
        flush=True,
    )


@contextmanager
def stub_server(given: argparse.Namespace) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, given.stub, "--port", str(port), "--latency", str(given.latency)]) as stub:
        try:
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/stats", timeout=10).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            stub.terminate()


@contextmanager
def sevenths(given: argparse.Namespace) -> Iterator[str]:
    """A server that answers with the first seventh of the text that it is asked about."""
    sys.path.insert(0, str(ROOT / "tests"))
    from fake_server import FakeReply, FakeServer, prompt_of

    def reply(body: dict[str, Any]) -> FakeReply:
        text = re.split(r"\[(?:Text|文本)\]:\n", prompt_of(body))[-1].rpartition("\n\n[")[0]
        return FakeReply(text[: len(text) // 7] or text, hang=given.latency)

    with FakeServer(reply) as server:
        yield server.base_url.removesuffix("/v1")


if __name__ == "__main__":
    main()
