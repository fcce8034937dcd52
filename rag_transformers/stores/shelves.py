"""Where the texts of a history lie: the few verbs that it needs, over Chroma in bulk, or over any VectorStore."""

import contextlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from rag_transformers.errors import ModelError, UsageError
from rag_transformers.stores.chroma import (
    add_texts_in_batches,
    batches,
    check_size,
    content_id,
    is_chroma,
    live_collection,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from langchain_chroma import Chroma

    Matrix = npt.NDArray[np.float32]
    Found = list[tuple[Document, npt.NDArray[np.float32]]]

__all__ = ["AnyShelf", "ChromaShelf", "Shelf", "embed", "plain", "shelf_for"]

_CACHED_VECTORS = 4096
_DELETED_AT_ONCE = 1000
_ADDED = ("_id", "_collection_name")  # by Qdrant


class Shelf(Protocol):
    """What a history asks of the place where its texts lie; a text's id is made from its content."""

    @property
    def overfetch(self) -> int:
        """How many times more to ask for than are wanted: more where the store may order by another distance."""

    def check_size(self, size: int) -> None:
        """Refuse vectors of another size than those that are there."""

    def known(self, texts: Sequence[str], vectors: "Matrix") -> dict[str, Document]:
        """Those of some texts that are there, by id."""

    def ids(self) -> list[str] | None:
        """The ids of all texts; None where the store cannot say."""

    def nearest(self, texts: Sequence[str], vectors: "Matrix", k: int) -> "list[Found]":
        """For each text and its vector the nearest k documents, each with its vector."""

    def write(self, documents: Sequence[Document], vectors: "Matrix") -> None:
        """Write documents, which have ids, and their vectors; none of the ids is there."""

    def delete(self, ids: Sequence[str]) -> None:
        """Delete what is there of these ids."""

    def clear(self) -> None:
        """Delete everything."""

    def drop(self) -> None:
        """Delete everything, and the collection with it where there is one."""


def shelf_for(store: VectorStore, embeddings: Embeddings) -> Shelf:
    """The shelf that suits a store."""
    return ChromaShelf(store) if is_chroma(store) else AnyShelf(store, embeddings)


def embed(embeddings: Embeddings, texts: Sequence[str]) -> "Matrix":
    """The vectors of texts, as rows of length 1: so every distance orders them as the cosine does.

    Raises:
        ModelError: The embeddings gave something else than one finite vector for each.
    """
    import numpy as np

    vectors = np.asarray(embeddings.embed_documents(list(texts)), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
        raise ModelError(f"the embeddings gave {vectors.shape} numbers for {len(texts)} texts, or some not finite")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: Matrix = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return units


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as it was given, without what a store added to it."""
    return {name: value for name, value in metadata.items() if name not in _ADDED}


class ChromaShelf:
    """A Chroma collection: one query for many vectors, and writing without embedding again, as vectors of length 1."""

    def __init__(self, store: "Chroma") -> None:
        self._store = store

    @property
    def overfetch(self) -> int:
        """Little where the collection orders by cosine itself."""
        hnsw: Any = live_collection(self._store).configuration.get("hnsw") or {}
        return 2 if hnsw.get("space") == "cosine" else 4

    def check_size(self, size: int) -> None:
        """See :func:`~rag_transformers.stores.chroma.check_size`."""
        check_size(self._store, size)

    def known(self, texts: Sequence[str], vectors: "Matrix") -> dict[str, Document]:
        """One lookup for all."""
        ids = [content_id(text) for text in texts]
        found: Any = live_collection(self._store).get(ids=ids, include=["documents", "metadatas"])
        rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
        return {id: Document(text or "", id=id, metadata=dict(metadata or {})) for id, text, metadata in rows}

    def ids(self) -> list[str] | None:
        """All ids."""
        return list(live_collection(self._store).get(include=[])["ids"])

    def nearest(self, texts: Sequence[str], vectors: "Matrix", k: int) -> "list[Found]":
        """One query for all vectors."""
        columns = ["documents", "metadatas", "embeddings"]
        collection: Any = live_collection(self._store)
        found = collection.query(query_embeddings=vectors, n_results=k, include=columns)
        return [
            [
                (Document(text, metadata=dict(metadata or {})), vector)
                for text, metadata, vector in zip(*row, strict=True)
                if text is not None
            ]
            for row in zip(*(found[column] for column in columns), strict=True)
        ]

    def write(self, documents: Sequence[Document], vectors: "Matrix") -> None:
        """Written with the vectors given, in batches that the client accepts."""
        texts, metadatas = [each.page_content for each in documents], [each.metadata for each in documents]
        add_texts_in_batches(self._store, texts, metadatas, [each.id or "" for each in documents], vectors)

    def delete(self, ids: Sequence[str]) -> None:
        """In batches that the client accepts."""
        for batch in batches(ids, self._store._client.get_max_batch_size()):
            live_collection(self._store).delete(ids=list(batch))

    def clear(self) -> None:
        """The collection stays, for others may hold it open."""
        self.delete(self.ids() or [])

    def drop(self) -> None:
        """The next use makes the collection anew."""
        from chromadb.errors import NotFoundError

        if self._store._chroma_collection is not None:
            with contextlib.suppress(NotFoundError):
                self._store._client.delete_collection(self._store._chroma_collection.name)
            self._store._chroma_collection = None


class AnyShelf:
    """Any VectorStore: one query for each vector, and vectors of what is found from the embeddings or a cache.

    What a store says of a document's id is not asked: some say nothing, and the id is made from the content.
    """

    overfetch = 4

    def __init__(self, store: VectorStore, embeddings: Embeddings) -> None:
        self._store = store
        self._embeddings = embeddings
        self._vectors: OrderedDict[str, Any] = OrderedDict()

    def check_size(self, size: int) -> None:
        """A VectorStore does not say what it holds."""

    def known(self, texts: Sequence[str], vectors: "Matrix") -> dict[str, Document]:
        """By id, or by a search for each where the store cannot look up ids."""
        try:
            found = self._store.get_by_ids([content_id(text) for text in texts])
            found = [Document(each.page_content, id=each.id, metadata=plain(each.metadata)) for each in found]
        except NotImplementedError:
            pairs = zip(texts, vectors, strict=True)
            near = [(text, self._nearest(text, vector.tolist(), self.overfetch)) for text, vector in pairs]
            found = [each for text, documents in near for each in documents if each.page_content == text]
        return {content_id(each.page_content): each for each in found}

    def ids(self) -> list[str] | None:
        """A VectorStore does not list what it holds."""
        return None

    def nearest(self, texts: Sequence[str], vectors: "Matrix", k: int) -> "list[Found]":
        """Asked by vector, or by text where the store cannot."""
        found = [self._nearest(text, vector.tolist(), k) for text, vector in zip(texts, vectors, strict=True)]
        self._embed_new([document.page_content for documents in found for document in documents])
        return [[(each, self._vectors[each.page_content]) for each in documents] for documents in found]

    def write(self, documents: Sequence[Document], vectors: "Matrix") -> None:
        """The store embeds the texts itself; their vectors are remembered."""
        texts, metadatas = [each.page_content for each in documents], [dict(each.metadata) for each in documents]
        self._store.add_texts(texts, metadatas, ids=[each.id or "" for each in documents])
        self._remember(texts, vectors)

    def delete(self, ids: Sequence[str]) -> None:
        """Only what is there, for some stores refuse other ids."""
        with contextlib.suppress(NotImplementedError):
            ids = [content_id(each.page_content) for each in self._store.get_by_ids(list(ids))]
        if ids:
            self._store.delete(list(ids))

    def clear(self) -> None:
        """Whatever a search finds is deleted, until it finds nothing: a VectorStore cannot list what it holds."""
        probe, before = "history", None
        vector = embed(self._embeddings, [probe])[0].tolist()
        while found := [content_id(each.page_content) for each in self._nearest(probe, vector, _DELETED_AT_ONCE)]:
            if found == before:
                name = type(self._store).__name__
                raise UsageError(
                    f"{name} cannot be emptied through the VectorStore interface; empty it by its own means"
                )
            self._store.delete(found)
            before = found
        self._vectors.clear()

    def drop(self) -> None:
        """By the store's own ``delete_collection`` if it has one."""
        delete_collection = getattr(self._store, "delete_collection", None)
        if callable(delete_collection):
            delete_collection()
        else:
            self.clear()

    def _nearest(self, text: str, vector: list[float], k: int) -> list[Document]:
        try:
            found = self._store.similarity_search_by_vector(vector, k=k)
        except NotImplementedError:
            found = self._store.similarity_search(text, k=k)
        return [Document(each.page_content, id=each.id, metadata=plain(each.metadata)) for each in found]

    def _embed_new(self, texts: Sequence[str]) -> None:
        new = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if new:
            self._remember(new, embed(self._embeddings, new), keep=len(set(texts)))
        for text in texts:
            self._vectors.move_to_end(text)

    def _remember(self, texts: Sequence[str], vectors: "Matrix", keep: int = 0) -> None:
        self._vectors.update(zip(texts, vectors, strict=True))
        while len(self._vectors) > max(_CACHED_VECTORS, keep):
            self._vectors.popitem(last=False)
