"""The history of chunks: for each chunk the similar ones read before it, chosen before any model call."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from rag_transformers.errors import UsageError, check_count
from rag_transformers.stores.chroma import batches, clean_text, content_id, plain_metadata
from rag_transformers.stores.shelves import Shelf, embed, shelf_for

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_transformers.stores.shelves import Found

    Vectors = npt.NDArray[np.float32]

__all__ = ["ChunkHistory"]

_log = logging.getLogger(__name__)

_WINDOW = 512
"""Chunks that are embedded, looked up and compared at once: 1 MB of cosines, and one query of the store."""

_DIGITS = 4
"""Digits of a cosine that count: embeddings give the same text other last digits in another batch."""


class ChunkHistory:
    """The texts of the chunks read so far, over any LangChain VectorStore, and what in them is like a new chunk.

    The context of a chunk is what was read before it: stored chunks, and earlier ones of the same batch. It is the
    same whether chunks come in one batch or one after another. A text is stored once, under an id made from its
    content, and never meets itself. A chunk with an int in ``metadata["order"]`` sees, of those that have one too,
    only chunks of a smaller order, so that an edited document keeps its place.

    Args:
        vectorstore: Where texts and vectors are kept; it must have embeddings. With
            :func:`~rag_transformers.stores.chroma.chroma_store` many chunks are looked up in one query.
        topk: The most similar chunks of one chunk, from 0.
        score_threshold: The smallest cosine, from -1 to 1. It means the same in every store, whatever the store calls
            a score and however long its vectors are; but useful values differ by embeddings.
        max_chunks_once_load: Texts in one write, at least 1.
        max_threads: Writes at one time, at least 1.

    Raises:
        UsageError: An argument is out of its range, or the store has no embeddings.

    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from langchain_core.vectorstores import InMemoryVectorStore
    >>> history = ChunkHistory(InMemoryVectorStore(DeterministicFakeEmbedding(size=8)), score_threshold=-1)
    >>> [[section.page_content for section in sections] for sections in history.read(["甲", "乙", "甲"])]
    [[], ['甲'], ['乙']]
    """

    def __init__(
        self,
        vectorstore: VectorStore,
        topk: int = 5,
        score_threshold: float = 0.3,
        max_chunks_once_load: int = 10,
        max_threads: int = 1,
    ) -> None:
        if not isinstance(vectorstore, VectorStore) or vectorstore.embeddings is None:
            raise UsageError(f"vectorstore is {vectorstore!r}; give a LangChain VectorStore with embeddings")
        self.vectorstore = vectorstore
        self.topk = check_count("topk", topk, 0)
        self.score_threshold = _check_threshold(score_threshold)
        self.max_chunks_once_load = check_count("max_chunks_once_load", max_chunks_once_load)
        self.max_threads = check_count("max_threads", max_threads)
        self._embeddings = vectorstore.embeddings
        self._shelf = shelf_for(vectorstore, self._embeddings)
        self._lock = threading.Lock()

    def read(self, chunks: Sequence[Document | str]) -> list[list[Document]]:
        """The context of each chunk; then the chunks are history too.

        Args:
            chunks: In reading order.

        Returns:
            For each chunk its similar earlier ones, best first, with the cosine in ``metadata["score"]``.

        Raises:
            UsageError: ``chunks`` is no sequence of documents or texts.
            IndexMismatchError: The store holds vectors of another size; nothing was written.
            ModelError: The embeddings gave no vectors. That texts cannot be written is a warning in the log.
        """
        if isinstance(chunks, str | Document):
            raise UsageError("chunks is one text; give a list of them")
        entries = [_entry(chunk) for chunk in chunks]
        with self._lock:
            return [found for window in batches(entries, _WINDOW) for found in self._read_window(window)]

    async def aread(self, chunks: Sequence[Document | str]) -> list[list[Document]]:
        """As :meth:`read`, without blocking the event loop."""
        return await asyncio.to_thread(self.read, chunks)

    def delete(self, texts: Iterable[Document | str] | Document | str) -> None:
        """Forget texts, or one; one that is not there is no error."""
        given = [texts] if isinstance(texts, Document | str) else texts
        with self._lock:
            self._shelf.delete(list(dict.fromkeys(_entry(text).id for text in given)))

    async def adelete(self, texts: Iterable[Document | str] | Document | str) -> None:
        """As :meth:`delete`, without blocking the event loop."""
        await asyncio.to_thread(self.delete, texts)

    def retain(self, chunks: Sequence[Document]) -> list[Document]:
        """Forget all texts but those of some chunks.

        Args:
            chunks: In reading order.

        Returns:
            Those of them whose texts the history does not hold, in reading order; none where a store cannot say.
        """
        entries = {_entry(chunk).id: chunk for chunk in reversed(chunks) if chunk.page_content.strip()}
        with self._lock:
            if (there := self._shelf.ids()) is None:
                return []
            self._shelf.delete([id for id in there if id not in entries])
        known = set(there)
        return [chunk for id, chunk in reversed(entries.items()) if id not in known]

    def truncate(self) -> None:
        """Empty the history; doing so twice is no error."""
        with self._lock:
            self._shelf.clear()

    async def atruncate(self) -> None:
        """As :meth:`truncate`, without blocking the event loop."""
        await asyncio.to_thread(self.truncate)

    def drop(self) -> None:
        """Empty the history and delete its collection, where the store has one; doing so twice is no error."""
        with self._lock:
            self._shelf.drop()

    async def adrop(self) -> None:
        """As :meth:`drop`, without blocking the event loop."""
        await asyncio.to_thread(self.drop)

    def _read_window(self, entries: Sequence["_Entry"]) -> list[list[Document]]:
        filled = [entry for entry in entries if entry.text.strip()]
        if not filled:
            return [[] for _ in entries]
        rows = {text: row for row, text in enumerate(dict.fromkeys(entry.text for entry in filled))}
        vectors = embed(self._embeddings, list(rows))
        self._shelf.check_size(vectors.shape[1])
        known = self._shelf.known(list(rows), vectors)
        vectors = vectors[[rows[entry.text] for entry in filled]]
        window = _Window(filled, vectors, known, self.topk, self.score_threshold)
        contexts = iter(window.contexts(self._shelf))
        self._write(window)
        return [next(contexts) if entry.text.strip() else [] for entry in entries]

    def _write(self, window: "_Window") -> None:
        if replaced := [id for id in window.fresh if id in window.known]:
            _attempt(len(replaced), self._shelf.delete, replaced)
        documents = [window.current[id] for id in window.fresh]
        places = list(window.fresh.values())
        jobs = [
            (len(batch), self._shelf.write, batch, window.vectors[list(where)])
            for batch, where in zip(
                batches(documents, self.max_chunks_once_load), batches(places, self.max_chunks_once_load), strict=True
            )
        ]
        if self.max_threads == 1:
            for job in jobs:
                _attempt(*job)
        else:
            with ThreadPoolExecutor(self.max_threads) as pool:
                list(pool.map(lambda job: _attempt(*job), jobs))


class _Entry(NamedTuple):
    """A chunk as the history keeps it."""

    id: str
    text: str
    order: int | None
    metadata: dict[str, Any]

    def may_see(self, id: str, document: Document) -> bool:
        """Whether a text is another one, and earlier as far as both say."""
        order = _order(document.metadata)
        return id != self.id and (order is None or self.order is None or order < self.order)


class _Hit(NamedTuple):
    score: float
    id: str
    document: Document


class _Window:
    """Some chunks against what is stored and against each other, as if they came one after another.

    ``current`` is what the history holds of their texts, ``fresh`` where in the window each of its new texts was read.
    """

    def __init__(
        self,
        entries: Sequence[_Entry],
        vectors: "Vectors",
        known: dict[str, Document],
        topk: int,
        threshold: float,
    ) -> None:
        self.entries = entries
        self.vectors = vectors
        self.known = known
        self.current = dict(known)
        self.fresh: dict[str, int] = {}
        self._units = _units(vectors)
        self._topk = topk
        self._threshold = threshold

    def contexts(self, shelf: Shelf) -> list[list[Document]]:
        """What each chunk is shown, best first."""
        cosines = (self._units @ self._units.T).round(_DIGITS)
        found = []
        for place, (entry, hits) in enumerate(zip(self.entries, self._stored(shelf), strict=True)):
            hits = [hit for hit in hits if hit.id not in self.fresh] + self._earlier(place, cosines[place, :place])
            best = sorted(hits, key=lambda hit: (-hit.score, hit.id))[: self._topk]
            found.append([_section(hit) for hit in best])
            self._enter(place, entry, len(best))
        return found

    def _stored(self, shelf: Shelf) -> list[list[_Hit]]:
        """What is near each chunk in the store; asked again for more where later chunks took the places."""
        hits: list[list[_Hit]] = [[] for _ in self.entries]
        asked, k = list(range(len(self.entries))) if self._topk else [], shelf.overfetch * self._topk + 1
        while asked:
            short = []
            texts = [self.entries[place].text for place in asked]
            for place, found in zip(asked, shelf.nearest(texts, self.vectors[asked], k), strict=True):
                scored = self._scored(place, found)
                may_see = self.entries[place].may_see
                hits[place] = [hit for hit in scored if hit.score >= self._threshold and may_see(hit.id, hit.document)]
                if len(found) == k and not self._is_enough(hits[place], min(hit.score for hit in scored)):
                    short.append(place)
            asked, k = short, 4 * k
        return hits

    def _is_enough(self, hits: list[_Hit], lowest: float) -> bool:
        """Whether nothing that the store kept back, as it is no nearer than ``lowest``, can belong to the best."""
        best = sorted((hit.score for hit in hits), reverse=True)[: self._topk]
        return lowest < self._threshold or (len(best) == self._topk and lowest < best[-1])

    def _scored(self, place: int, found: "Found") -> list[_Hit]:
        if not found:
            return []
        cosines = (_units([vector for _, vector in found]) @ self._units[place]).round(_DIGITS).tolist()
        hits = [
            _Hit(cosine, content_id(each.page_content), each) for cosine, (each, _) in zip(cosines, found, strict=True)
        ]
        return list({hit.id: hit for hit in hits}.values())

    def _earlier(self, place: int, cosines: "npt.NDArray[np.float64]") -> list[_Hit]:
        """What is near a chunk among the earlier ones of this window."""
        found = []
        for other in (cosines >= self._threshold).nonzero()[0].tolist():
            id = self.entries[other].id
            if self.fresh.get(id) == other and self.entries[place].may_see(id, self.current[id]):
                found.append(_Hit(float(cosines[other]), id, self.current[id]))
        return found

    def _enter(self, place: int, entry: _Entry, shown: int) -> None:
        """Note a chunk as read, unless its text was read before at the same place or an earlier one."""
        there = self.current.get(entry.id)
        if there is not None:
            order = _order(there.metadata)
            if order is None or entry.order is None or entry.order >= order:
                return
        metadata = {**entry.metadata, "relevant_cnt": shown}
        self.current[entry.id] = Document(entry.text, id=entry.id, metadata=metadata)
        self.fresh[entry.id] = place


def _entry(chunk: Document | str) -> _Entry:
    if not isinstance(chunk, str | Document):
        raise UsageError(f"a chunk is {chunk!r}; give a Document or a str")
    chunk = Document(chunk) if isinstance(chunk, str) else chunk
    text, metadata = clean_text(chunk.page_content), plain_metadata(chunk.metadata)
    return _Entry(content_id(text), text, _order(metadata), metadata)


def _order(metadata: dict[str, Any]) -> int | None:
    order = metadata.get("order")
    return order if isinstance(order, int) and not isinstance(order, bool) else None


def _section(hit: _Hit) -> Document:
    return Document(hit.document.page_content, id=hit.id, metadata={**hit.document.metadata, "score": hit.score})


def _units(vectors: Any) -> "npt.NDArray[np.float64]":
    """The vectors with length 1, a zero vector as it is."""
    import numpy as np

    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    units: npt.NDArray[np.float64] = wide / np.where(lengths > 0, lengths, 1)
    return units


def _attempt(count: int, write: Callable[..., None], *what: Any) -> None:
    """Write to a store; that it cannot be written costs context later on, but no extraction now."""
    try:
        write(*what)
    except Exception as error:  # whatever the store raises
        _log.warning("%d chunks could not be written to the history: %s: %s", count, type(error).__name__, error)


def _check_threshold(threshold: float) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not -1 <= threshold <= 1:
        raise UsageError(f"score_threshold is {threshold!r}; it must be a number from -1 to 1")
    return float(threshold)
