"""Points between two durable writes of a process, at one of which it may be told to die as by a power cut."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Failpoints"]

_FILES = ("fsync", "mkdir", "rename", "replace", "rmdir", "truncate", "unlink")
_COLLECTION = ("add", "delete", "update", "upsert")
_CLIENT = ("create_collection", "delete_collection", "get_or_create_collection")


class Failpoints:
    """Counts the durable writes of this process, and kills it right before one of them.

    Those are what changes a folder: files that are forced to disk, replaced, made and deleted, what SQLAlchemy commits,
    and what Chroma is told. What SQLite and Chroma do within one of them is left to kills at random times.

    Args:
        deadly: The number of the write that is not done any more, from 1; 0 for none.
    """

    def __init__(self, deadly: int = 0) -> None:
        self.reached: list[str] = []
        self._deadly = deadly
        self._lock = threading.Lock()

    def install(self) -> None:
        """Be told of all writes of this process from now on."""
        from chromadb.api.models.Collection import Collection
        from chromadb.api.rust import RustBindingsAPI
        from sqlalchemy import Engine, event

        for name in _FILES:
            self._watch(os, name)
        for name in _COLLECTION:
            self._watch(Collection, name)
        for name in (*_CLIENT, "start"):
            self._watch(RustBindingsAPI, name)
        event.listen(Engine, "connect", lambda *_: self._reach("connect"))
        event.listen(Engine, "commit", lambda _: self._reach("commit"))

    def _watch(self, owner: Any, name: str) -> None:
        write: Callable[..., Any] = getattr(owner, name)

        def watched(*given: Any, **options: Any) -> Any:
            self._reach(name)
            return write(*given, **options)

        setattr(owner, name, watched)

    def _reach(self, name: str) -> None:
        with self._lock:
            self.reached.append(name)
            if len(self.reached) == self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)
