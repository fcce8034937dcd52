"""The folder of an index: its manifest, its records, what was made for them, and Chroma as the search structure."""

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from rag_transformers.errors import (
    IndexDamagedError,
    IndexMismatchError,
    NoIndexError,
    StorageError,
    UsageError,
    check_count,
)
from rag_transformers.stores import chroma_folder, lock
from rag_transformers.stores.chroma_folder import ChromaFolder
from rag_transformers.stores.chunk_history import ChunkHistory
from rag_transformers.stores.keys import text_key
from rag_transformers.stores.manifest import NAME, Manifest
from rag_transformers.stores.own_stores import MakeStore, OwnStores
from rag_transformers.stores.vectors import StoredEmbeddings, VectorIndex, embeddings_name

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

    from rag_transformers.stores.made import Made
    from rag_transformers.stores.records import Records, State

__all__ = ["IndexFolder", "restore_manifest"]

T = TypeVar("T")

_RECORDS, _MADE = "records.sqlite", "made.sqlite"
_DATABASES = {f"{name}{end}" for name in (_RECORDS, _MADE) for end in ("", "-wal", "-shm", "-journal")}
_OURS = frozenset({*_DATABASES, *chroma_folder.FILES, *lock.FILES})
_WRITE = 512  # texts of the history in one write: Chroma takes about as long for one as for many
_PROBE = "A short text by which embeddings are known again."


class IndexFolder:
    """What an index keeps on disk; opened where it exists, made at the first :meth:`create`.

    Args:
        path: The folder.
        embeddings: What the vectors are made with.
        language: ``auto``, or the language that is fixed for a new index.
        batch_size: Texts in one request to the embeddings.
        client: The caller's own Chroma client, where one is open on the folder already.
        make_store: Makes the vector stores that take the place of Chroma's folder.

    Raises:
        UsageError: The path is a file, or a folder that holds something else.
        IndexMismatchError: The index was made with other embeddings, or by another version.
        IndexDamagedError: A file of it cannot be read.
    """

    def __init__(
        self,
        path: Path,
        embeddings: "Embeddings",
        language: str = "auto",
        batch_size: int = 128,
        client: Any = None,
        make_store: MakeStore | None = None,
    ) -> None:
        self.path = path
        self.manifest = Manifest.read(path, _OURS)
        self.stores = ChromaFolder(path, client) if make_store is None else OwnStores(make_store)
        self._given = embeddings
        self._language = language
        self._batch_size = check_count("embedding_batch_size", batch_size)
        self._lock = threading.RLock()
        self._records: Records | None = None
        self._made: Made | None = None
        self._sentences: tuple[VectorStore, VectorIndex] | None = None
        self._opened: tuple[int, int] | None = None  # which file the records are
        self._strange: set[str] = set()  # what was there before the index was made
        if self.manifest is None:
            self._check_unfinished()
        self._check_name()

    @property
    def exists(self) -> bool:
        """Whether the folder holds an index."""
        return self.manifest is not None

    @property
    def known(self) -> Manifest:
        """The manifest of an index that exists.

        Raises:
            NoIndexError: There is none.
        """
        if self.manifest is None:
            self.manifest = Manifest.read(self.path, _OURS)  # another process may have made it meanwhile
            self._check_name()
        if self.manifest is None:
            raise NoIndexError(
                f"there is no index in {self.path}; make one with: rag-transformers index PATH --out "
                f"{quote(str(self.path))}"
            )
        return self.manifest

    # Writing

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one process, and the one object, that writes to the folder.

        Raises:
            IndexLockedError: Another one writes to it.
            UsageError: The folder cannot be made.
            StorageError: It cannot be written.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lock.write_lock(self.path))
            except (OSError, ValueError) as error:
                if isinstance(error, UsageError):
                    raise
                if self.exists:
                    raise StorageError(f"{self.path} cannot be written: {error}") from error
                raise UsageError(f"an index cannot be made in {self.path}: {error}") from error
            self._check_there()
            yield

    def create(self) -> bool:
        """Make the databases and the manifest, unless they are there; whether they were made."""
        if self.manifest is not None:
            return False
        self._check_unfinished()
        self._strange = {each.name for each in self.path.iterdir()} - set(lock.FILES)
        manifest = Manifest(embeddings_name(self._given), language=self._language)
        try:
            self._open(create=True)
            with self.records.draft() as draft:
                facts = {"embeddings": manifest.embeddings, "language": manifest.language}
                draft.set_state(draft.state()._replace(facts=facts))
                draft.save()
            manifest.write(self.path)
        except OSError as error:
            raise UsageError(f"an index cannot be made in {self.path}: {error}") from error
        self.manifest = manifest
        return True

    def discard(self) -> None:
        """Take back a folder that was just made, before anything was stored in it."""
        self.close()
        for name in sorted({NAME, *_OURS} - self._strange):
            place = self.path / name
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody else keeps something in it
            self.path.rmdir()
        self.manifest = None

    # What it holds

    @property
    def records(self) -> "Records":
        """The documents and chunks, and what holds of them now.

        Raises:
            StorageError: The folder is not the one that was opened.
        """
        with self._lock:
            self._check_there()
            if self._records is None:
                self._open(create=False)
            assert self._records is not None
            return self._records

    @property
    def made(self) -> "Made":
        """What was made at a price, by key."""
        with self._lock:
            if self._made is None:
                self._open(create=False)
            assert self._made is not None
            return self._made

    def reading(self, read: "Callable[[Records], T]") -> T:
        """What ``read`` makes of one state of the records; of a newer one, if it came while it read.

        Args:
            read: A function of the records; what it reads of :attr:`made` belongs to them.
        """
        while True:
            with self.records.snapshot() as now:
                generation = now.generation()
                try:
                    return read(now)
                except IndexDamagedError:
                    # What a newer state does not use any more may be gone; then this one is over.
                    if self.records.generation() == generation:
                        raise

    @property
    def state(self) -> "State":
        """What the index says of itself.

        Raises:
            NoIndexError: There is none.
        """
        return self.records.state()

    @property
    def embeddings(self) -> StoredEmbeddings:
        """The embeddings, with a memory in the records."""
        return StoredEmbeddings(self._given, self.made, self._batch_size)

    @property
    def sentences(self) -> VectorIndex:
        """The search structure over all chunks, or their sentences.

        Raises:
            StorageError: It is being written by another process.
            IndexDamagedError: It is not what was written.
        """
        with self._lock:
            store = self.stores.collection("sentences", self.embeddings)
            if self._sentences is None or self._sentences[0] is not store:
                self._sentences = store, VectorIndex(store, self.embeddings)
            return self._sentences[1]

    def chunk_history(self) -> ChunkHistory:
        """The history of the chunks that were read, with the embeddings' own threshold where they have one."""
        threshold = float(getattr(self._given, "score_threshold", 0.3))
        store = self.stores.collection("history", self.embeddings)
        return ChunkHistory(store, score_threshold=threshold, max_chunks_once_load=_WRITE)

    @property
    def by_sentence(self) -> bool:
        """Whether chunks are searched by their sentences; embeddings that do not ask for it get whole chunks."""
        return bool(getattr(self._given, "by_sentence", False))

    @property
    def unrelated_cosine(self) -> float:
        """The mean cosine of texts that have nothing to do with each other.

        The embeddings' own, else that of some hundred texts of the index, which are the best guess at it.
        """
        import numpy as np

        own = getattr(self._given, "unrelated_cosine", None)
        if own is not None:
            return float(own)
        vectors = self.made.some_vectors(256)
        if len(vectors) < 16:
            return 0.0
        total = float(np.square(vectors.sum(axis=0)).sum()) - len(vectors)
        return total / (len(vectors) * (len(vectors) - 1))

    def check_size(self, size: int) -> None:
        """Refuse vectors of another size than those of the index.

        Raises:
            IndexMismatchError: The size is another.
        """
        if (known := self.state.size) and size != known:
            raise IndexMismatchError(self._other(f"{known} numbers each", f"{size}"))

    async def check_embeddings(self) -> None:
        """Refuse embeddings of the same name that give other vectors than those the index was made with.

        Raises:
            IndexMismatchError: They do; both are named.
        """
        if isinstance(getattr(self._given, "name", None), str) and hasattr(self._given, "size"):
            return self.check_size(self._given.size)  # these say themselves who they are
        import numpy as np

        vector = np.asarray(await self.embeddings.aembed_query(_PROBE), dtype=np.float32)
        key = text_key("probe", _PROBE)
        if (stored := self.made.vectors([key]).get(key)) is None:
            self.made.put_vectors({key: vector})
        elif len(stored) != len(vector):
            raise IndexMismatchError(self._other(f"{len(stored)} numbers each", f"{len(vector)}"))
        elif float(stored @ vector) < 0.98:  # servers differ in the last digits from call to call
            raise IndexMismatchError(self._other("another meaning", "the same name"))

    def close(self) -> None:
        """Give all files back."""
        with self._lock:
            for database in (self._records, self._made):
                if database is not None:
                    database.close()
            self.stores.close()
            self._records = self._made = self._sentences = None

    def _open(self, create: bool) -> None:
        from rag_transformers.stores.made import Made
        from rag_transformers.stores.records import Records

        if not create:
            _ = self.known
        self._records = self._records or Records(self.path / _RECORDS, create)
        self._made = self._made or Made(self.path / _MADE, create)
        self._opened = _identity(self.path / _RECORDS)

    def _check_there(self) -> None:
        """See that the folder is the one that was opened, and has not been moved or deleted since."""
        if self._records is not None and _identity(self.path / _RECORDS) != self._opened:
            raise StorageError(f"{self.path} was moved, deleted or made anew since it was opened: open the index again")

    def _check_unfinished(self) -> None:
        """Tell a folder whose making was stopped from one that has lost its manifest."""
        from rag_transformers.stores.records import Records

        path, generation = self.path / _RECORDS, 0
        with contextlib.suppress(IndexDamagedError, StorageError):  # it is being made now, or its making was stopped
            records = Records(path, create=False)
            try:
                generation = records.generation()
            finally:
                records.close()
        if generation:
            raise IndexDamagedError(
                f"{self.path / NAME} is missing: rag-transformers repair {quote(str(self.path))} makes it anew"
            )

    def _check_name(self) -> None:
        if self.manifest and self.manifest.embeddings != embeddings_name(self._given):
            raise IndexMismatchError(
                f"{self.path} was made with the embeddings {self.manifest.embeddings}, not "
                f"{embeddings_name(self._given)}: name those (--embedding-model), or index into a new folder"
            )

    def _other(self, made: str, given: str) -> str:
        return (
            f"the collection in {self.path} was made with {embeddings_name(self._given)} vectors of {made}, the "
            f"embeddings given now have {given}: open it with those it was made with, or index into a new folder"
        )


def restore_manifest(path: Path) -> bool:
    """Make a manifest that was lost or damaged anew from the records; whether that was needed.

    Args:
        path: The folder of an index, whose lock is held.

    Raises:
        NoIndexError: There are no records of a finished index.
        IndexDamagedError: The records cannot be read.
        IndexMismatchError: Another version of this package made it.
    """
    with contextlib.suppress(IndexDamagedError, NoIndexError):
        if Manifest.read(path, _OURS) is not None:
            return False
    from rag_transformers.stores.records import Records

    if not (path / _RECORDS).is_file():
        raise NoIndexError(f"there is no index in {path}: {_RECORDS} is missing")
    records = Records(path / _RECORDS, create=False)
    try:
        facts = records.state().facts
    finally:
        records.close()
    if not facts:
        raise NoIndexError(f"there is no finished index in {path}")
    Manifest(facts["embeddings"], language=facts["language"]).write(path)
    return True


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
