"""What a process of the fault suite does: commands of the command line, with a model and embeddings that are scripted.

It is forked, see :mod:`torture.processes`; or run as ``python -m torture.child FOLDER DELAY COMMAND [++ COMMAND ...]``,
with an environment and an exit code of its own.
"""

import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from langchain_core.embeddings import Embeddings
from scripted_model import ScriptedChatModel, stage_reply

from rag_transformers import cli
from rag_transformers.errors import RagTransformersError
from rag_transformers.index import GraphIndex
from torture.corpus import QUESTIONS
from torture.failpoints import Failpoints
from torture.snapshots import copied, snapshot

__all__ = ["CALLS", "ENOUGH", "INDEX", "NEXT", "WATCHING", "LetterEmbeddings", "Outcome", "Work", "do"]

CALLS, INDEX = "calls.log", "index"
NEXT = "++"  # between two commands
WATCHING, ENOUGH = "watching", "enough"  # files by which one who watches is told, and tells
_fsync = os.fsync  # that of the log is no point to die at

Command = Sequence[str]


@dataclass(frozen=True)
class Work:
    """What a process is to do in a folder.

    Args:
        folder: Where it does it; the index is in ``index``.
        commands: Arguments of the command line; or ``snapshot``, which tells all that the index holds, or ``watch``.
        deadly: The number of the durable write before which the process dies; see :class:`Failpoints`.
        file_size: Bytes that a file may have, which fails beyond that as on a full disk; 0 for no limit.
        delay: Seconds that the model takes for a reply.
    """

    folder: Path
    commands: Sequence[Command]
    deadly: int = 0
    file_size: int = 0
    delay: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What came of a command: its exit code and output, or a traceback; of a snapshot, its data."""

    command: Sequence[str]
    code: int | None = None
    out: str = ""
    err: str = ""
    raised: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class LetterEmbeddings(Embeddings):
    """Letters counted: cheap, and the same in every process."""

    name = "letters"
    size = 16
    by_sentence = True

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts."""
        return list(map(self.embed_query, texts))

    def embed_query(self, text: str) -> list[float]:
        """How often letters of each of 16 classes are in a text."""
        counts = [0.25] * self.size
        for letter in text.casefold():
            counts[ord(letter) % self.size] += 1.0
        return counts


def do(work: Work, results: Path) -> None:
    """Do the work; what came of each command is a line of JSON in a file, written when the command is done.

    Args:
        work: What is to be done.
        results: The file.
    """
    os.chdir(work.folder)
    failpoints = Failpoints(work.deadly)
    failpoints.install()
    if work.file_size:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (work.file_size, work.file_size))
    with results.open("a", encoding="utf-8") as file, _scripted(work.delay):
        for command in work.commands:
            outcome = asdict(_outcome(command)) | {"reached": failpoints.reached}
            file.write(json.dumps(outcome, ensure_ascii=True) + "\n")
            file.flush()


def _outcome(command: Command) -> Outcome:
    try:
        if command[0] == "snapshot":
            return Outcome(command, 0, data=_snapshot())
        if command[0] == "watch":
            return Outcome(command, 0, data=_watch())
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(command)
        return Outcome(command, code, out.getvalue(), err.getvalue())
    except RagTransformersError as error:
        return Outcome(command, 2, err=f"{type(error).__name__}: {error}")
    except BaseException:
        return Outcome(command, raised=traceback.format_exc())


@contextlib.contextmanager
def _scripted(delay: float) -> Iterator[None]:
    """Let the command line have the scripted model and embeddings; a call is logged before it is made."""

    def reply(prompt: str) -> str:
        log = os.open(CALLS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(log, f"{len(prompt)}\n".encode())
        _fsync(log)
        os.close(log)
        return stage_reply(prompt)

    model = ScriptedChatModel(reply=reply, delay=delay)
    with (
        patch("rag_transformers.models.servers.check_server", lambda _: None),
        patch("rag_transformers.models.servers.chat_model", lambda *_, **__: model),
        patch("rag_transformers.index._default_embeddings", LetterEmbeddings),
    ):
        yield


def _snapshot() -> dict[str, Any]:
    """All that the index holds; of a copy, so that it stays as it is."""
    with (
        tempfile.TemporaryDirectory() as place,
        GraphIndex.open(copied(Path(INDEX), Path(place, INDEX)), embeddings=LetterEmbeddings()) as index,
    ):
        return snapshot(index)


def _watch() -> dict[str, Any]:
    """Ask and export again and again, until a file says that it is enough; all that was to be seen, and what failed."""
    seen: dict[str, list[str]] = {"query": [], "export": [], "kept": [], "failed": []}
    rounds = 0
    with GraphIndex.open(INDEX, embeddings=LetterEmbeddings()) as kept:
        is_last = False
        while not is_last:
            is_last = Path(ENOUGH).exists()  # one round more begins after the writer has ended
            answer = _outcome(("query", INDEX, QUESTIONS[0], "--json"))
            export = _outcome(("export", INDEX, "--format", "json"))
            told = [("query", answer.out), ("export", export.out), ("kept", kept.query(QUESTIONS[0]).text)]
            told += [("failed", f"{each.err}{each.raised}") for each in (answer, export) if each.code != 0]
            for what, text in told:
                if text not in seen[what]:
                    seen[what].append(text)
            rounds += 1
            Path(WATCHING).touch()
    return {**seen, "rounds": rounds}


def _main(arguments: Sequence[str]) -> int:
    """The exit code of the first of some commands that fails, else 0."""
    commands: list[list[str]] = [[]]
    for argument in arguments:
        commands.append([]) if argument == NEXT else commands[-1].append(argument)
    return next((code for command in commands if (code := cli.main(command))), 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
    os.chdir(sys.argv[1])
    with _scripted(float(sys.argv[2])):
        sys.exit(_main(sys.argv[3:]))
