"""The folder that Chroma keeps, under a seal: what is in it was written whole, and has not changed since.

Chroma notices few of the bits that change in its files, and some of them end the process. So the digest of each file
is taken when a piece of writing ends, and compared before Chroma is opened. While it is written to, the seal is open;
a process that ends meanwhile leaves it open, and the next one that writes makes the folder anew from the records.
"""

import contextlib
import hashlib
import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_transformers.errors import IndexDamagedError, RagTransformersError, StorageError, UsageError
from rag_transformers.files import replacing
from rag_transformers.models.faults import error_line

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

__all__ = ["FILES", "ChromaFolder"]

_FOLDER, _SEAL, _LOCK = "chroma", "chroma.json", "chroma.lock"

FILES = (_FOLDER, _SEAL, _LOCK)
"""The names in an index folder that belong to Chroma."""


class _Seal(NamedTuple):
    """What is known of the files: whether they were written whole, as of which generation, and their digests.

    While ``ahead``, they hold what belongs to the next generation, and not to this one.
    """

    closed: bool = False
    generation: int = 0
    files: Mapping[str, str] = {}
    ahead: bool = False


class ChromaFolder:
    """Chroma's folder within that of an index.

    Args:
        index: The folder of the index.
        client: The caller's own client, where one is open on the folder already; what it does is not guarded.
    """

    is_own = False

    def __init__(self, index: Path, client: Any = None) -> None:
        self._index = index
        self.path = index / _FOLDER
        self._own = client
        self._client: Any = None
        self._opened: Mapping[str, str] = {}  # the files that the client knows
        self._digests: dict[str, tuple[tuple[int, int], str]] = {}
        self._lock = threading.RLock()
        self._depth = 0
        self._stores: dict[str, VectorStore] = {}

    @property
    def is_sealed(self) -> bool:
        """Whether the last piece of writing ended as it should.

        Raises:
            IndexDamagedError: The seal cannot be read.
        """
        return self._own is not None or self._seal().closed

    def is_settled(self, generation: int) -> bool:
        """Whether it holds what this generation of the records says, and nothing else.

        Args:
            generation: That of the records.

        Raises:
            IndexDamagedError: The seal cannot be read.
        """
        seal = self._seal()
        return self._own is not None or (seal.closed and not seal.ahead and seal.generation == generation)

    def check(self, generation: int) -> None:
        """See that the files are those that were written; nothing is known while somebody writes to them.

        Args:
            generation: That of the records.

        Raises:
            IndexDamagedError: A file is missing, is new, or has changed; or the records are older than the files.
        """
        with self._lock, self._alone() as alone:
            seal = self._seal()
            if self._own is not None or not alone or not seal.closed or self._depth:
                return
            if seal.generation > generation:
                raise IndexDamagedError(
                    f"{self._index / 'records.sqlite'} is older than {self.path}: a part of it was lost; restore it "
                    "from a copy"
                )
            self._compare(seal)

    @contextlib.contextmanager
    def writing(self, generation: int, ahead: bool | None = None) -> Iterator[None]:
        """Write to the folder; at the end the seal is closed, unless something failed.

        Args:
            generation: That of the records.
            ahead: Whether it then holds what belongs to the next generation; by default as before.
        """
        with self._lock, self._alone(wait=60):
            if self._depth == 0:
                self._open_seal()
            self._depth += 1
            try:
                yield
            except RagTransformersError:
                raise
            except Exception as error:  # Chroma has no one root for its errors
                raise StorageError(f"{self.path} cannot be written: {error_line(error)}") from error
            else:
                if self._depth == 1:
                    self._close_seal(generation, ahead)
            finally:
                self._depth -= 1

    def stamp(self, generation: int) -> None:
        """Note that the files hold what a generation of the records says, and nothing else."""
        with self._lock, self._alone(wait=60):
            seal = self._seal()
            if seal.closed and not self.is_settled(generation):
                self._write(seal._replace(generation=generation, ahead=False))

    def collection(self, name: str, embeddings: "Embeddings") -> "VectorStore":
        """A collection, to be read, or within :meth:`writing` to be written.

        Raises:
            IndexDamagedError: A file has changed, or Chroma cannot use the folder.
            StorageError: It is being written by another process.
        """
        from rag_transformers.stores.chroma import chroma_store

        with self._lock:
            client = self._connected()
            try:
                if name not in self._stores:
                    self._stores[name] = chroma_store(client, name, embeddings)
                return self._stores[name]
            except RagTransformersError:
                raise
            except Exception as error:  # Chroma has no one root for its errors
                raise IndexDamagedError(f"{self.path} cannot be used: {error_line(error)}") from error

    def has(self, name: str) -> bool:
        """Whether there is a collection of that name; within :meth:`writing`, or where it can be read."""
        from rag_transformers.stores.chroma import collection_name

        with self._lock:
            return any(each.name == collection_name(name) for each in self._connected().list_collections())

    @property
    def can_be_read(self) -> bool:
        """Whether it can be opened for reading now: nobody else writes to it, and it was written whole."""
        if not self._lock.acquire(blocking=False):
            return False  # a thread of this process writes
        try:
            if self._own is not None or self._depth:
                return True
            with self._alone() as alone:
                return alone and self._seal().closed
        finally:
            self._lock.release()

    def clear(self) -> None:
        """Delete everything, to be made anew; within :meth:`writing` only."""
        with self._lock:
            if self._own is not None:
                for collection in self._own.list_collections():
                    self._own.delete_collection(collection.name)
                self._stores = {}
                return
            self._close_client()
            self._check_closed()
            if self.path.exists():
                shutil.rmtree(self.path)
            self._digests = {}

    def discard(self) -> None:
        """Delete the folder and its seal, whatever state they are in."""
        with self._lock, self._alone(wait=60):
            self._close_client()
            self._check_closed()
            if self.path.is_dir():
                shutil.rmtree(self.path)
            else:
                self.path.unlink(missing_ok=True)
            (self._index / _SEAL).unlink(missing_ok=True)
            self._digests = {}

    def close(self) -> None:
        """Give all files back."""
        with self._lock:
            self._close_client()

    def _check_closed(self) -> None:
        from rag_transformers.stores.chroma import is_open

        if is_open(self.path):  # it would go on with files that are no longer there
            raise StorageError(f"{self.path} is open in this process: close the other index on it first")

    def _check_not_shared(self) -> None:
        """Tell an application's client, which writes to a file when it opens the folder, from damage."""
        from rag_transformers.stores.chroma import is_open

        if self._client is None and is_open(self.path):
            raise UsageError(
                f"a Chroma client is open on {self.path} in this process: pass it in (client=...), or close it first"
            )

    def _connected(self) -> Any:
        """The client, opened anew where others have written since."""
        if self._own is not None:
            return self._own
        if self._depth:
            return self._client or self._open()
        with self._alone() as alone:
            seal = self._seal()
            if not alone or not seal.closed:
                raise StorageError(f"{self.path} is being written; ask again when that is done")
            if self._client is not None and self._opened == seal.files:
                return self._client
            self._compare(seal)
            self._close_client()
            self._write(seal._replace(closed=False, files={}))  # Chroma writes to its files when it opens them
            client = self._open()
            self._close_seal(seal.generation)
            return client

    def _open(self) -> Any:
        from rag_transformers.stores.chroma import open_chroma

        try:
            self._client = open_chroma(self.path)
            for collection in self._client.list_collections():
                collection.get(limit=1)  # the first look at a collection writes what was not written out yet
        except RagTransformersError:
            raise
        except Exception as error:  # Chroma has no one root for its errors
            raise IndexDamagedError(f"{self.path} cannot be used: {error_line(error)}") from error
        return self._client

    def _close_client(self) -> None:
        if self._client is not None:
            from rag_transformers.stores.chroma import close_chroma

            close_chroma(self._client)
        self._client, self._opened, self._stores = None, {}, {}

    # The seal

    def _open_seal(self) -> None:
        seal = self._seal()
        if self._own is None and seal.closed and (self._client is None or self._opened != seal.files):
            self._compare(seal)
            self._close_client()
        self._write(seal._replace(closed=False, files={}))

    def _close_seal(self, generation: int, ahead: bool | None = None) -> None:
        files = self._files()
        self._write(_Seal(True, generation, files, self._seal().ahead if ahead is None else ahead))
        self._opened = files if self._client is not None else {}

    def _seal(self) -> _Seal:
        path = self._index / _SEAL
        if not path.exists():
            if self.path.exists() and self._own is None:
                self._check_not_shared()
                raise IndexDamagedError(f"{path} is missing; {self._way_out()}")
            return _Seal()
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            seal = _Seal(data["closed"], data["generation"], data["files"], data["ahead"])
            if data["check"] != _check(seal):
                raise ValueError("it is not what was written")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IndexDamagedError(f"{path} is damaged ({type(error).__name__}); {self._way_out()}") from error
        return seal

    def _write(self, seal: _Seal) -> None:
        with replacing(self._index / _SEAL) as file:
            json.dump({**seal._asdict(), "check": _check(seal)}, file, ensure_ascii=False)

    def _compare(self, seal: _Seal) -> None:
        found = self._files()  # those that were looked at before, and not touched since, are not read again
        for name in sorted({*found, *seal.files}):
            what = "is missing" if name not in found else "is damaged" if name in seal.files else "does not belong here"
            if found.get(name) != seal.files.get(name):
                self._check_not_shared()
                raise IndexDamagedError(f"{self.path / name} {what}; {self._way_out()}")

    def _files(self) -> dict[str, str]:
        """The digest of each file, by its path within the folder; what was not touched is not read again."""
        known, self._digests = self._digests, {}
        for path in sorted(self.path.rglob("*")) if self.path.exists() else ():
            if path.is_file():
                name, stat = path.relative_to(self.path).as_posix(), path.stat()
                touched = (stat.st_size, stat.st_mtime_ns)
                if known.get(name, (None,))[0] == touched:
                    self._digests[name] = known[name]
                else:
                    with path.open("rb") as file:
                        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
                    self._digests[name] = touched, digest
        return {name: digest for name, (_, digest) in self._digests.items()}

    @contextlib.contextmanager
    def _alone(self, wait: float = 0) -> Iterator[bool]:
        """Keep other processes from opening and writing meanwhile; whether that can be had now."""
        from filelock import FileLock, Timeout

        if self._depth:
            yield True
            return
        lock: FileLock = FileLock(self._index / _LOCK, timeout=wait, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            if wait:
                raise StorageError(f"{self.path} is being opened by another process for {wait:.0f} s now") from None
            yield False
            return
        except OSError:  # a folder that may not be written: nobody writes to it
            yield True
            return
        try:
            yield True
        finally:
            lock.release()

    def _way_out(self) -> str:
        return f"rag-transformers repair {quote(str(self._index))} makes it anew from the records"


def _check(seal: _Seal) -> str:
    return hashlib.blake2b(json.dumps(seal, sort_keys=True).encode(), digest_size=8).hexdigest()
