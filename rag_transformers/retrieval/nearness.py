"""How near to a question the sentences of an index are: by all their vectors, in memory as long as they are few."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from rag_transformers.errors import StorageError
from rag_transformers.retrieval.ranking import NEAREST_SENTENCES, dense_scores, sentence_texts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_transformers.stores.folder import IndexFolder

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    Vectors = npt.NDArray[np.float32]

__all__ = ["MOST_BYTES", "Near", "SearchedVectors", "SentenceVectors", "unit_texts"]

_log = logging.getLogger(__name__)

MOST_BYTES = 256 << 20
"""Vectors of up to so many bytes are held in memory (131,072 of 512 numbers); more are searched where they are."""

_WINDOW = 256  # chunks whose vectors are looked at together


class Near(NamedTuple):
    """How near to a question an index is.

    Args:
        chunks: The cosine of the nearest sentence of each chunk.
        floor: The cosine that counts as nothing; None for the smallest of ``chunks``.
        sentences: Gives for sentences, by their numbers, how near they are, from 0 to 1.
    """

    chunks: "Floats"
    floor: float | None
    sentences: "Callable[[Integers], Floats]"


class SentenceVectors:
    """The vectors of all chunks in memory: of their sentences, or one for each chunk.

    Args:
        ids: The chunks, in reading order.
        counts: How many sentences each chunk has.
        read: Gives the vectors of chunks by their ids, as rows of unit length; a chunk that is gone is left out.
        by_sentence: Whether there is one for each sentence.
        previous: One made before: what it holds is not read again.

    >>> import numpy as np
    >>> made = SentenceVectors("ab", [2, 1], lambda ids: {"a": np.eye(2, 3), "b": np.eye(1, 3)}, True)
    >>> near = made.near([0.0, 1.0, 0.0])
    >>> near.chunks.tolist(), near.sentences(np.array([1, 2])).tolist(), made.of("b").tolist()
    ([1.0, 0.0], [1.0, 0.0], [[1.0, 0.0, 0.0]])
    """

    def __init__(
        self,
        ids: Sequence[str],
        counts: "Sequence[int] | Integers",
        read: "Callable[[Sequence[str]], Mapping[str, Vectors]]",
        by_sentence: bool,
        previous: "SentenceVectors | None" = None,
    ) -> None:
        import numpy as np

        sentences = np.asarray(counts, np.int64)
        self._ids = tuple(ids)
        self._units = sentences if by_sentence else np.ones(len(ids), np.int64)
        ends = np.cumsum(self._units)
        self._starts = ends - self._units
        self._ranges = {id: slice(*place) for id, *place in zip(ids, self._starts.tolist(), ends.tolist(), strict=True)}
        self._unit_of = None if by_sentence else np.repeat(np.arange(len(ids)), sentences)
        rows = dict(read([id for id in ids if previous is None or id not in previous]))
        rows |= {id: previous.of(id) for id in ids if previous is not None and id in previous}
        size = next((array.shape[1] for array in rows.values() if len(array)), 0)
        self._matrix: Vectors = np.zeros((int(self._units.sum()), size), np.float32)
        for id, place in self._ranges.items():
            if (array := rows.get(id)) is not None and len(array):
                self._matrix[place] = array

    def near(self, vector: Sequence[float]) -> Near:
        """How near to a question the index is.

        Args:
            vector: The question's, of unit length.
        """
        import numpy as np

        if not self._matrix.size:
            return Near(np.zeros(len(self._ids)), None, lambda numbers: np.zeros(len(numbers)))
        cosines = (self._matrix @ np.asarray(vector, np.float32)).astype(np.float64)
        low, high = float(cosines.min()), float(cosines.max())
        chunks = np.full(len(self._ids), low)
        filled = np.flatnonzero(self._units)
        chunks[filled] = np.maximum.reduceat(cosines, self._starts[filled])
        unit_of = self._unit_of
        return Near(chunks, None, lambda n: _between(cosines[n if unit_of is None else unit_of[n]], low, high))

    def of(self, id: str) -> "Vectors":
        """The vectors of one chunk."""
        return self._matrix[self._ranges[id]]

    def __contains__(self, id: str) -> bool:
        """Whether the vectors of a chunk are held."""
        return id in self._ranges


class SearchedVectors:
    """The same for more vectors than are held in memory: by what the search structure finds near.

    Args:
        folder: The index's folder.
        ids: The chunks, in reading order.
        counts: How many sentences each chunk has.
    """

    def __init__(self, folder: "IndexFolder", ids: Sequence[str], counts: "Sequence[int] | Integers") -> None:
        import numpy as np

        self._folder = folder
        self._ids = ids
        self._ends = np.cumsum(counts)

    def near(self, vector: Sequence[float]) -> Near:
        """How near to a question the index is; see :meth:`SentenceVectors.near`."""
        import numpy as np

        chunks, floor = dense_scores(self._ids, self._nearest(vector))
        high = float(chunks.max(initial=0.0))
        asked = np.asarray(vector, np.float32)
        return Near(chunks, floor, lambda numbers: _between(self._vectors(numbers) @ asked, floor, high))

    def _nearest(self, vector: Sequence[float]) -> list[tuple[str, float]]:
        """The chunks of the nearest texts, each with its cosine, best first."""
        there = set(self._ids)
        try:
            found = self._searched(vector)
        except StorageError as error:  # somebody began to write to it just now, or a store of the user's own fails
            _log.info("every vector is looked at: %s", error)
            found = []
        near = [(str(text.metadata["chunk"]), cosine) for text, cosine in found if text.metadata["chunk"] in there]
        return near or self._nearest_of_all(vector)

    def _searched(self, vector: Sequence[float]) -> list[tuple[Document, float]]:
        """The nearest texts; none where the structure is being written, or does not hold the index."""
        if not self._folder.stores.can_be_read:
            return []
        searched = self._folder.sentences
        count = searched.count()
        if count is not None and count < self._folder.state.units:
            return []
        return searched.nearest(vector, NEAREST_SENTENCES)

    def _nearest_of_all(self, vector: Sequence[float]) -> list[tuple[str, float]]:
        """The same without the search structure, where it is being written or empty: every vector is looked at."""
        import numpy as np

        best: list[tuple[str, float]] = []
        for start in range(0, len(self._ids), _WINDOW):
            chunks = self._folder.records.chunks(self._ids[start : start + _WINDOW])
            texts = [(str(chunk.id), text) for chunk in chunks for text in unit_texts(chunk, self._folder.by_sentence)]
            cosines = self._folder.embeddings.matrix([text for _, text in texts]) @ np.asarray(vector, np.float32)
            best += [(id, float(cosine)) for (id, _), cosine in zip(texts, cosines, strict=True)]
            best = sorted(best, key=lambda found: -found[1])[:NEAREST_SENTENCES]
        return best

    def _vectors(self, sentences: "Integers") -> "Vectors":
        import numpy as np

        owners = np.searchsorted(self._ends, sentences, side="right")
        numbers = sentences - np.concatenate([[0], self._ends])[owners]
        ids = dict.fromkeys(self._ids[owner] for owner in owners.tolist())
        texts = {chunk.id: unit_texts(chunk, self._folder.by_sentence) for chunk in self._folder.records.chunks(ids)}
        by_sentence = self._folder.by_sentence
        asked = [
            texts[self._ids[owner]][number if by_sentence else 0]
            for owner, number in zip(owners.tolist(), numbers.tolist(), strict=True)
        ]
        return self._folder.embeddings.matrix(asked)


def unit_texts(chunk: Document, by_sentence: bool) -> list[str]:
    """The texts whose vectors stand for a chunk: of its sentences, or its own."""
    return [sentence.text for sentence in sentence_texts(chunk)] if by_sentence else [chunk.page_content]


def _between(cosines: "npt.NDArray[np.floating]", low: float, high: float) -> "Floats":
    """Cosines scaled so that ``low`` and what is below is 0, and ``high`` 1."""
    import numpy as np

    if high <= low:
        return np.ones(len(cosines))
    return np.clip((cosines.astype(np.float64) - low) / (high - low), 0.0, 1.0)
