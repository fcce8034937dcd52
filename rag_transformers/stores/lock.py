"""One writer at a time: a lock on the folder of an index, with its owner's name, over processes."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_transformers.errors import IndexLockedError
from rag_transformers.files import replacing, sweep

__all__ = ["FILES", "write_lock"]

_LOCK, _OWNER = "writer.lock", "writer.json"

FILES = (_LOCK, _OWNER)
"""The files of a folder that belong to its lock."""


@contextlib.contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is missing.

    The operating system gives the lock back when its owner ends, however it ends, so that a dead owner's lock is taken
    over. Who owns it stands in a file beside it.

    Raises:
        IndexLockedError: Another one holds it; told at once, with its process, its machine and since when.
        OSError: The folder cannot be made or written.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock: FileLock = FileLock(folder / _LOCK, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise IndexLockedError(
            f"{folder} is being written by {_owner(folder)}: wait until it is done, or stop it"
        ) from None
    try:
        sweep(folder)
        owner = {"process": os.getpid(), "host": socket.gethostname(), "since": _now()}
        with replacing(folder / _OWNER) as file:
            json.dump(owner, file)
        yield
    finally:
        with contextlib.suppress(OSError):  # the folder may be gone by now
            (folder / _OWNER).unlink()
        lock.release()


def _owner(folder: Path) -> str:
    try:
        owner: dict[str, Any] = json.loads((folder / _OWNER).read_text(encoding="utf-8"))
        return f"process {owner['process']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"  # it has just begun, or is just ending


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
