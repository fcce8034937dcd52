"""What the fault suite disturbs: a folder before a command, the command, and what it leads to undisturbed."""

import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torture.child import INDEX, Outcome
from torture.corpus import CHANGED, FIRST, write_documents
from torture.processes import MODEL, calls, run

__all__ = ["EXPORT", "INDEX_COMMAND", "QUERY", "READERS", "SNAPSHOT", "STATS", "SYNC", "Prepared", "Scene", "paid"]

INDEX_COMMAND = ("index", "docs", "--out", INDEX, "--chunk-size", "48", "--chunk-overlap", "4", *MODEL)
MORE = ("index", "docs/ferry.txt", *INDEX_COMMAND[2:])
SYNC = (*INDEX_COMMAND, "--sync")
DELETE = ("delete", INDEX, "docs/inn.txt", *MODEL)
REBUILD = ("rebuild", INDEX, *MODEL)
QUERY = ("query", INDEX, "Who repaired the wheel of the mill?", "--json")
STATS = ("stats", INDEX)
EXPORT = ("export", INDEX, "--format", "json")
SNAPSHOT = ("snapshot",)
READERS = (QUERY, STATS, EXPORT)


@dataclass(frozen=True)
class Scene:
    """A command in a folder, and what comes of it if nobody disturbs it.

    Args:
        command: The command.
        before: The folder before it.
        after: The folder after it.
        old: The export before it; None where there is no index yet.
        new: The export after it.
        whole: All that the index holds after it.
        calls: How often it asks the model.
        writes: How many durable writes it makes.
        seconds: How long it takes.
    """

    command: Sequence[str]
    before: Path
    after: Path
    old: str | None
    new: str
    whole: Mapping[str, Any]
    calls: int
    writes: int
    seconds: float


class Prepared:
    """Scenes, each made when it is first asked for.

    Args:
        root: An empty folder for them.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._scene = cache(self._made)
        self._lock = threading.RLock()

    def scene(self, name: str) -> Scene:
        """The scene of this name: ``index``, ``more``, ``add``, ``delete`` or ``rebuild``."""
        with self._lock:
            return self._scene(name)

    def _made(self, name: str) -> Scene:
        before = self._root / name / "before"
        if name == "index":
            write_documents(before / "docs", FIRST)
            return _played(INDEX_COMMAND, before)
        shutil.copytree(self.scene("add" if name == "rebuild" else "index").after, before)
        if name in ("add", "more"):
            write_documents(before / "docs", CHANGED)
        return _played({"more": MORE, "add": SYNC, "delete": DELETE, "rebuild": REBUILD}[name], before)


def _played(command: Sequence[str], before: Path) -> Scene:
    """Do the command in a copy of the folder, and note what comes of it."""
    after = before.with_name("after")
    shutil.copytree(before, after)
    old = None
    if (before / INDEX).exists():
        (export,) = succeeded(run(after, EXPORT).outcomes)
        old = export.out
    run(after)  # the first process of all takes long to start
    asked, start = calls(after), time.monotonic()
    done = run(after, command)
    seconds = time.monotonic() - start
    succeeded(done.outcomes)
    made = calls(after) - asked
    export, whole = succeeded(run(after, EXPORT, SNAPSHOT).outcomes)
    return Scene(command, before, after, old, export.out, whole.data, made, len(done.reached), seconds)


def succeeded(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    """The outcomes, if all commands ended as they should.

    Raises:
        AssertionError: One did not.
    """
    for outcome in outcomes:
        assert outcome.code == 0, f"{' '.join(outcome.command)}: {outcome.err}{outcome.raised}"
    assert outcomes
    return outcomes


def paid(folder: Path) -> int:
    """How many replies of the model the index in a folder keeps: extractions, descriptions and reports."""
    if not (folder / INDEX / "made.sqlite").exists():
        return 0
    with tempfile.TemporaryDirectory() as place:
        for path in (folder / INDEX).glob("made.sqlite*"):  # to look into them here would mend what a kill left behind
            shutil.copy(path, place)
        connection = sqlite3.connect(Path(place, "made.sqlite"))
        try:
            # Before the value stands its hash, and communities are a list.
            parts = ("extractions", "made where substr(value, 17, 1) != '['")
            return sum(int(connection.execute(f"select count(*) from {part}").fetchone()[0]) for part in parts)
        except sqlite3.OperationalError:  # it has no tables yet
            return 0
        finally:
            connection.close()
