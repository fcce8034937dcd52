"""Vectors of texts, computed once and kept among the records, whatever asks for them."""

import asyncio
import contextlib
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from rag_transformers.concurrency import together
from rag_transformers.errors import (
    IndexMismatchError,
    ModelError,
    RagTransformersError,
    StorageError,
    UsageError,
    check_count,
)
from rag_transformers.models.faults import Patience, error_line
from rag_transformers.models.given import retries
from rag_transformers.models.run import current_run
from rag_transformers.stores.keys import text_key

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from langchain_core.vectorstores import VectorStore

    from rag_transformers.stores.made import Made

__all__ = ["StoredEmbeddings", "VectorIndex", "embeddings_name", "named_store"]


def embeddings_name(embeddings: Embeddings) -> str:
    """What names embeddings in a manifest: their own ``name``, else class and model."""
    own = getattr(embeddings, "name", None)
    if isinstance(own, str):
        return own
    model = next((getattr(embeddings, name) for name in ("model", "model_name") if hasattr(embeddings, name)), None)
    kind = type(embeddings).__qualname__
    return f"{kind}({model})" if isinstance(model, str) else kind


class Prepared(NamedTuple):
    """How many vectors were made, and the size of one, or the size that was given where none was."""

    made: int
    size: int


class StoredEmbeddings(Embeddings):
    """Embeddings that compute a text's vector once and keep it among the records of an index.

    Args:
        embeddings: What computes a vector.
        made: Where it is kept.
        batch_size: Texts in one request to ``embeddings``, at least 1.

    Raises:
        UsageError: ``batch_size`` is below 1.
    """

    def __init__(self, embeddings: Embeddings, made: "Made", batch_size: int = 128) -> None:
        self._batch_size = check_count("embedding_batch_size", batch_size)
        self._embeddings = embeddings
        self._made = made

    async def prepare(self, texts: Sequence[str], size: int = 0) -> Prepared:
        """Compute and keep the vectors that are not there yet.

        Args:
            texts: What to embed.
            size: The size that the index already has, 0 where it has none.

        Raises:
            IndexMismatchError: The embeddings give another size.
            ModelError: The embeddings failed.
        """
        missing = await asyncio.to_thread(self._missing, texts)
        batches = [missing[i : i + self._batch_size] for i in range(0, len(missing), self._batch_size)]

        async def one(batch: Sequence[str]) -> int:
            vectors = _matrix(await self._compute(batch), batch)
            _check_size(self._embeddings, vectors.shape[1], size)
            await asyncio.to_thread(self._keep, batch, vectors)
            return int(vectors.shape[1])

        if self._is_remote():
            sizes = await together(*map(one, batches))
        else:  # batches of a computation in this process would only get in each other's way
            sizes = [await one(batch) for batch in batches]
        return Prepared(len(missing), sizes[-1] if sizes else size)

    def matrix(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """The vectors of texts as rows of unit length, computed where they are not stored."""
        import numpy as np

        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        keys = [text_key(text) for text in texts]
        found = self._made.vectors(dict.fromkeys(keys))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        lacking = list(missing.values())
        for start in range(0, len(lacking), self._batch_size):
            batch = lacking[start : start + self._batch_size]
            vectors = _matrix(_embed(self._embeddings, batch), batch)
            self._keep(batch, vectors)
            found |= {text_key(text): row for text, row in zip(batch, vectors, strict=True)}
        return np.stack([found[key] for key in keys])

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts, as LangChain asks for them."""
        rows: list[list[float]] = self.matrix(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question, of unit length; not kept."""
        row: list[float] = _matrix([self._embeddings.embed_query(text)], [text])[0].tolist()
        return row

    async def aembed_query(self, text: str) -> list[float]:
        """The vector of a question, of unit length; not kept."""
        with _named_failure():
            vector = await self._embeddings.aembed_query(text)
        row: list[float] = _matrix([vector], [text])[0].tolist()
        return row

    def _is_remote(self) -> bool:
        return type(self._embeddings).aembed_documents is not Embeddings.aembed_documents

    async def _compute(self, batch: Sequence[str]) -> Any:
        with _named_failure():
            if not self._is_remote():
                return await asyncio.to_thread(_embed, self._embeddings, batch)
            run, patience = current_run(), Patience(retries(self._embeddings))
            async with run.slot() if run else contextlib.nullcontext():
                while True:
                    try:
                        return await self._embeddings.aembed_documents(list(batch))
                    except Exception as error:
                        if (seconds := patience.pause(error)) is None:
                            raise
                        await (run.apause if run else asyncio.sleep)(seconds)

    def _missing(self, texts: Sequence[str]) -> list[str]:
        by_key = {text_key(text): text for text in texts}
        stored = self._made.known_vectors(by_key)
        return [text for key, text in by_key.items() if key not in stored]

    def _keep(self, texts: Sequence[str], vectors: "npt.NDArray[np.float32]") -> None:
        self._made.put_vectors({text_key(text): row for text, row in zip(texts, vectors, strict=True)})


class VectorIndex:
    """The nearest of many texts, over any LangChain VectorStore, by exact cosine.

    Stores differ in what they call a score. Here the store only proposes; the cosine is computed from the vectors that
    are kept among the records.

    Args:
        store: Where the texts are searched.
        embeddings: Where their vectors are kept.
    """

    def __init__(self, store: "VectorStore", embeddings: StoredEmbeddings) -> None:
        self._store = store
        self._embeddings = embeddings

    def add(self, texts: Sequence[Document]) -> None:
        """Insert texts by their ids, or replace them.

        Raises:
            StorageError: The store failed; so too in all else that follows.
        """
        from rag_transformers.stores.chroma import add_documents, is_chroma

        if not is_chroma(self._store):
            self.delete([str(text.id) for text in texts])  # some stores refuse an id that is there
            texts = [_kept(text) for text in texts]
        with named_store():
            add_documents(self._store, texts)

    def delete(self, ids: Sequence[str]) -> None:
        """Remove texts; an id that is not there is no error."""
        from rag_transformers.stores.chroma import is_chroma

        if not is_chroma(self._store):  # some stores refuse an id that is not there
            ids = [_uuid(id) for id in ids]
            with contextlib.suppress(NotImplementedError), named_store():
                ids = [_uuid(_given(found).id or "") for found in self._store.get_by_ids(list(ids))]
        if ids:
            with named_store():
                self._store.delete(list(ids))

    def count(self) -> int | None:
        """How many texts there are; None where the store cannot tell."""
        from rag_transformers.stores.chroma import is_chroma, live_collection

        return live_collection(self._store).count() if is_chroma(self._store) else None

    def ids(self) -> list[str]:
        """The ids of all texts, where the store can list them; else none."""
        from rag_transformers.stores.chroma import is_chroma, live_collection

        return list(live_collection(self._store).get(include=[])["ids"]) if is_chroma(self._store) else []

    def holds(self, texts: Sequence[Document]) -> bool:
        """Whether all of these texts are there, as far as the store can tell."""
        from rag_transformers.stores.chroma import is_chroma

        ids = {str(text.id) for text in texts}
        given = sorted(ids if is_chroma(self._store) else map(_uuid, ids))
        try:
            with named_store():
                return not ids or {str(_given(found).id) for found in self._store.get_by_ids(given)} >= ids
        except NotImplementedError:
            rows = self._embeddings.matrix([text.page_content for text in texts])
            nearest = (self.nearest(row.tolist(), 1) for row in rows)
            return all(
                found and found[0][0].page_content == text.page_content
                for found, text in zip(nearest, texts, strict=True)
            )

    def nearest(self, vector: Sequence[float], n: int) -> list[tuple[Document, float]]:
        """The n nearest texts with the cosine of each, best first."""
        import numpy as np

        with named_store():
            found = [_given(text) for text in self._store.similarity_search_by_vector(list(vector), k=n)]
        if not found:
            return []
        cosines = self._embeddings.matrix([text.page_content for text in found]) @ np.asarray(vector, dtype=np.float32)
        order = sorted(range(len(found)), key=lambda i: (-round(float(cosines[i]), 6), found[i].id or ""))
        return [(found[i], float(cosines[i])) for i in order]


_ID = "text_id"
"""The key in a text's metadata under which its id is kept in stores other than Chroma."""


def _uuid(id: str) -> str:
    """The id of a text in stores other than Chroma, of which some take nothing but a UUID."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, id))


def _kept(text: Document) -> Document:
    """A text as such a store keeps it; not all give the id back."""
    return Document(text.page_content, id=_uuid(str(text.id)), metadata={**text.metadata, _ID: str(text.id)})


def _given(found: Document) -> Document:
    """A text as it was given, from what a store gives back of it."""
    from rag_transformers.stores.shelves import plain

    if _ID not in found.metadata:
        return found
    metadata = plain(found.metadata)
    return Document(found.page_content, id=metadata.pop(_ID), metadata=metadata)


@contextlib.contextmanager
def named_store() -> Iterator[None]:
    """Say of a failure that it was the vector store's; our own errors, and what a store cannot do, are told as such."""
    try:
        yield
    except (RagTransformersError, NotImplementedError):
        raise
    except Exception as error:
        raise StorageError(f"the vector store failed: {error_line(error)}") from error


@contextlib.contextmanager
def _named_failure() -> Iterator[None]:
    """Say of a failure that it was the embeddings'."""
    try:
        yield
    except (ModelError, UsageError):
        raise
    except Exception as error:
        raise ModelError(f"the embeddings failed: {error_line(error)}") from error


def _embed(embeddings: Embeddings, batch: Sequence[str]) -> Any:
    """The vectors of texts, as an array where the embeddings give one."""
    as_array = getattr(embeddings, "embed_array", embeddings.embed_documents)
    return as_array(list(batch))


def _matrix(vectors: Sequence[Sequence[float]], texts: Sequence[str]) -> "npt.NDArray[np.float32]":
    import numpy as np

    matrix: Any = np.asarray(vectors, dtype=np.float32)
    if matrix.ndim != 2 or len(matrix) != len(texts) or not matrix.shape[1]:
        raise ModelError(
            f"the embeddings gave {np.shape(vectors)} for {len(texts)} texts; one vector each was asked for"
        )
    if not np.isfinite(matrix).all():
        raise ModelError("the embeddings gave a vector with numbers that are not finite")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = matrix / np.where(lengths > 0, lengths, 1)
    return unit


def _check_size(embeddings: Embeddings, size: int, expected: int) -> None:
    if expected and size != expected:
        raise IndexMismatchError(
            f"the index was made with vectors of {expected} numbers, {embeddings_name(embeddings)} gives {size}: "
            "open it with the embeddings that it was made with, or index into a new folder"
        )
