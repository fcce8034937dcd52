"""The processes that the fault suite starts, kills and asks what came of their work."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from torture.child import CALLS, Outcome, Work, do

__all__ = ["MODEL", "Child", "Done", "calls", "own_process", "run", "side_by_side", "start", "wait_for"]

MODEL = ("--model", "scripted", "--base-url", "http://127.0.0.1:9/v1")
"""Arguments for a command that asks the model."""

T = TypeVar("T")

_one_at_a_time = threading.Lock()  # multiprocessing looks after all children wherever one is started
_PATIENCE = 120.0  # seconds after which a process hangs


@dataclass(frozen=True)
class Done:
    """What came of a process.

    Args:
        status: Its exit status; minus the number of the signal that ended it.
        outcomes: What came of its commands, as far as it came with them.
        reached: The durable writes that it made, in all commands that it finished.
    """

    status: int
    outcomes: Sequence[Outcome] = ()
    reached: Sequence[str] = field(default=(), repr=False)


class Child:
    """A process that works."""

    def __init__(self, process: ForkServerProcess, results: Path) -> None:
        self._process = process
        self._results = results

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it still works."""
        with _one_at_a_time:
            return self._process.is_alive()

    def kill(self, after: float = 0.0) -> None:
        """End it by SIGKILL, if it does not end before that.

        Args:
            after: Seconds.
        """
        self._join(after)
        with _one_at_a_time:
            self._process.kill()

    def wait(self) -> Done:
        """What came of it."""
        if not self._join(_PATIENCE):
            self.kill()
            raise TimeoutError(f"a process has not ended within {_PATIENCE:.0f} s")
        status = self._process.exitcode
        assert status is not None
        self._process.close()
        lines = [json.loads(line) for line in self._results.read_text(encoding="utf-8").splitlines()]
        self._results.unlink()
        reached = lines[-1]["reached"] if lines else ()
        return Done(status, [Outcome(**{k: v for k, v in line.items() if k != "reached"}) for line in lines], reached)

    def _join(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (alive := self.is_alive()) and time.monotonic() < end:
            time.sleep(0.005)
        return not alive


def start(folder: Path, *commands: Sequence[str], **options: Any) -> Child:
    """Start a process that works in a folder; for the options see :class:`~torture.child.Work`."""
    context = _context()
    handle, name = tempfile.mkstemp(suffix=".jsonl")
    os.close(handle)
    process = context.Process(target=do, args=(Work(folder, commands, **options), Path(name)))
    with _one_at_a_time:
        process.start()
    return Child(process, Path(name))


def run(folder: Path, *commands: Sequence[str], **options: Any) -> Done:
    """Let a process do its work in a folder to the end; see :func:`start`."""
    return start(folder, *commands, **options).wait()


def own_process(
    folder: Path, *command: str, delay: float = 0.0, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command line as a process of its own.

    Args:
        folder: Where it works.
        *command: Arguments of the command line.
        delay: Seconds that the model takes for a reply.
        environment: Variables that it has besides this process's.
    """
    program = [sys.executable, "-m", "torture.child", str(folder), str(delay)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})}
    raw = [os.fsencode(part) if part.isascii() else part.encode() for part in (*program, *command)]
    return subprocess.Popen(raw, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def side_by_side(work: Callable[[T], None], items: Iterable[T]) -> None:
    """Do a piece of work for each item, two at a time; the first that fails ends it.

    Args:
        work: The work, most of which other processes do.
        items: What it is done for.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            for _ in pool.map(work, items):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def calls(folder: Path) -> int:
    """How often the model was asked in a folder."""
    log = folder / CALLS
    return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0


@cache
def _context() -> ForkServerContext:
    """What forks processes from one that has imported what they need, with one thread each for what they compute."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torture.preloaded", "torture.child"])
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"):
        forkserver.ensure_running()
    return context


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    end = time.monotonic() + _PATIENCE
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{path} has not come within {_PATIENCE:.0f} s")
        time.sleep(0.005)
