"""The folder of an index: its manifest, its records, and Chroma as the search structure made from them."""

import dataclasses
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import (
    IndexDamagedError,
    IndexMismatchError,
    NoIndexError,
    RagTransformersError,
    UsageError,
    check_count,
)
from rag_transformers.models import error_line
from rag_transformers.stores.chunk_history import ChunkHistory
from rag_transformers.stores.manifest import Manifest
from rag_transformers.stores.vectors import StoredEmbeddings, VectorIndex, embeddings_name, text_key

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

    from rag_transformers.stores.database import Database

__all__ = ["IndexFolder"]

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

    Raises:
        UsageError: The path is a file, or a folder that holds something else.
        IndexMismatchError: The index was made with other embeddings, or by a newer version.
        IndexDamagedError: A file of it cannot be read.
    """

    def __init__(
        self, path: Path, embeddings: "Embeddings", language: str = "auto", batch_size: int = 128, client: Any = None
    ) -> None:
        self.path = path
        self.manifest = Manifest.read(path)
        self._given = embeddings
        self._language = language
        self._batch_size = check_count("embedding_batch_size", batch_size)
        self._own_client = client
        self._client: Any = None
        self._lock = threading.RLock()
        self._database: Database | None = None
        self._sentences: VectorIndex | None = None
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
            raise NoIndexError(
                f"there is no index in {self.path}; make one with: rag-transformers index PATH --out {self.path}"
            )
        return self.manifest

    def create(self) -> bool:
        """Make the folder with its manifest, unless it is there; whether it was made."""
        if self.manifest is not None:
            return False
        manifest = Manifest(embeddings_name(self._given), language=self._language)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            manifest.write(self.path)
        except (OSError, ValueError) as error:
            raise UsageError(f"an index cannot be made in {self.path}: {error}") from error
        self.manifest = manifest
        return True

    def discard(self) -> None:
        """Take back a folder that was just made, before anything was stored in it."""
        self.close()
        shutil.rmtree(self.path)
        self.manifest = None

    @property
    def database(self) -> "Database":
        """The records."""
        from rag_transformers.stores.database import Database

        with self._lock:
            if self._database is None:
                # A run may have been stopped between the manifest and the database; after that it is damage.
                create = self.known.generation == 0
                self._database = Database(self.path / "records.sqlite", create)
            return self._database

    @property
    def embeddings(self) -> StoredEmbeddings:
        """The embeddings, with a memory in the records."""
        return StoredEmbeddings(self._given, self.database, self._batch_size)

    @property
    def sentences(self) -> VectorIndex:
        """The search structure over all chunks, or their sentences."""
        with self._lock:
            if self._sentences is None:
                self._sentences = VectorIndex(self._collection("sentences"), self.embeddings)
            return self._sentences

    def chunk_history(self) -> ChunkHistory:
        """The history of the chunks that were read, with the embeddings' own threshold where they have one."""
        threshold = float(getattr(self._given, "score_threshold", 0.3))
        return ChunkHistory(self._collection("history"), score_threshold=threshold, max_chunks_once_load=_WRITE)

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
        vectors = self.database.some_vectors(256)
        if len(vectors) < 16:
            return 0.0
        total = float(np.square(vectors.sum(axis=0)).sum()) - len(vectors)
        return total / (len(vectors) * (len(vectors) - 1))

    def check_size(self, size: int) -> None:
        """Refuse vectors of another size than those of the index.

        Raises:
            IndexMismatchError: The size is another.
        """
        if self.known.size and size != self.known.size:
            raise IndexMismatchError(self._other(f"{self.known.size} numbers each", f"{size}"))

    def generation(self) -> int:
        """How many times the index was changed, by other processes too.

        Raises:
            NoIndexError: There is no index.
        """
        found = Manifest.read(self.path)
        return self.known.generation if found is None else found.generation

    def lacks_vectors(self) -> bool:
        """Whether the search structure holds fewer texts than it did, so that it has to be made anew."""
        return self.sentences.count() < self.known.units

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
        if (stored := self.database.vectors([key]).get(key)) is None:
            self.database.put_vectors({key: vector})
        elif len(stored) != len(vector):
            raise IndexMismatchError(self._other(f"{len(stored)} numbers each", f"{len(vector)}"))
        elif float(stored @ vector) < 0.98:  # servers differ in the last digits from call to call
            raise IndexMismatchError(self._other("another meaning", "the same name"))

    def changed(self, size: int) -> None:
        """Note a finished change, and the size of a vector."""
        units, generation = self.sentences.count(), self.known.generation + 1
        self.manifest = dataclasses.replace(self.known, size=size, units=units, generation=generation)
        self.manifest.write(self.path)

    def close(self) -> None:
        """Give all files back."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            if self._client is not None and self._own_client is None:
                from rag_transformers.stores.chroma import close_chroma

                close_chroma(self._client)
            self._database = self._client = self._sentences = None

    def _collection(self, name: str) -> "VectorStore":
        from rag_transformers.stores.chroma import chroma_store, open_chroma

        with self._lock:
            try:
                if self._client is None:
                    self._client = open_chroma(self.path / "chroma", client=self._own_client)
                return chroma_store(self._client, name, self.embeddings)
            except RagTransformersError:
                raise
            except Exception as error:  # Chroma has no one root for its errors
                raise IndexDamagedError(f"{self.path / 'chroma'} cannot be used: {error_line(error)}") from error

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
