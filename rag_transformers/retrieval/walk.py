"""A walk from a question over names and chunks: what two steps away answers it, though it shares no word with it.

    question ─ its names ─ the best sentence that holds them ─ the names in that one ─┐
    question ─ the chunks most like it ───────────────────────────────────────────────┴ personalised PageRank ─ scores

After PPR in HippoRAG 2 (Gutiérrez et al., 2025) and the spreading over sentences in LinearRAG (2025), with names found
by reading alone; there is one parameter set for all languages, and no model.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rag_transformers.retrieval.ragged import Ragged
from rag_transformers.retrieval.ranking import scaled

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_transformers.retrieval.mentions import Mentions

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

__all__ = ["NameGraph"]

# Halves where nothing speaks for another share; the others lie on a plain on which recall changes little.
_TITLE_WEIGHT = 3.0  # of a name that is the chunk's title, where the others have 1
_PASSED_ON = 0.5  # what a sentence passes on to its names, of what it holds
_NAMES_SHARE = 0.5  # of the restarts at names, where the question has a rare one
_SENTENCES = 1000  # that hold a name asked are compared with the question; of more, those with most of the names
_SHARPNESS = 30  # the power of a chunk's likeness by which restarts go to it: nearly all to the best few
_ANY_CHUNK = 0.5  # added to a chunk's likeness where a name chooses among its chunks
_DAMPING = 0.7
_STEPS = 10  # after them 0.7^10, three percent, is left to move
_LIKENESS_SHARE = 0.02  # of likeness in the result: it orders what the walk does not reach


class NameGraph:
    """Chunks, the names in them, and the sentences that tie names to each other.

    Args:
        mentions: Which names stand where.

    >>> from rag_transformers.retrieval.mentions import Mentions, Said
    >>> import numpy as np
    >>> said = [Said("", ["Ada Moss built the Salt Mill."], ["Ada Moss", "Salt Mill"]),
    ...         Said("", ["The Salt Mill fell into the Oswin."], ["Salt Mill", "Oswin"]), Said("", ["It rained."], [])]
    >>> graph = NameGraph(Mentions("abc", lambda _: said))
    >>> active = graph.active([0], lambda sentences: np.array([0.5] * len(sentences)))
    >>> graph.walk(active, np.array([0.9, 0.0, 0.2])).argsort().tolist()
    [2, 1, 0]
    """

    def __init__(self, mentions: "Mentions") -> None:
        import numpy as np

        count, named = len(mentions), mentions.chunk_names
        names, chunks = named.values, named.owners
        self._sentence_names = mentions.sentence_names
        self._name_sentences = Ragged.grouped(
            mentions.sentence_names.values, mentions.sentence_names.owners, len(mentions.names)
        )
        frequency = np.bincount(names, minlength=len(mentions.names))
        rarity = np.log((count + 1) / (frequency + 0.5)) / np.log((count + 1) / 1.5)
        self.rarity: Floats = np.clip(rarity, 0, 1)
        weights = np.where(names == mentions.titles[chunks], _TITLE_WEIGHT, 1.0)
        out = weights * self.rarity[names]
        total = np.where(out > 0, _sums(out, chunks, count)[chunks], 1.0)
        self._to_names = _Sparse(names, chunks, out / total, len(mentions.names))
        self._to_chunks = _Sparse(chunks, names, weights, count)
        self._gathered = _Sparse(names, chunks, weights, len(mentions.names))

    def walk(self, active: "Floats", likeness: "Floats") -> "Floats":
        """A score for every chunk, from 0 to 1; the best has 1. Where no name is active, the likeness as it is.

        Args:
            active: How much the question is about each name, see :meth:`active`.
            likeness: How like the question each chunk is, from 0 to 1.
        """
        if not active.any():
            return likeness
        chunks = likeness**_SHARPNESS
        share = _NAMES_SHARE * float(active.max())  # the commonest names tell next to nothing
        ranks = self._pagerank(
            share * active / active.sum(),
            (1 - share) * chunks / (float(chunks.sum()) or 1.0),
            likeness + _ANY_CHUNK,
        )
        scores: Floats = ranks / ranks.max() + _LIKENESS_SHARE * likeness
        return scaled(scores, 0.0)

    def active(self, asked: Sequence[int], nearness: Callable[["Integers"], "Floats"]) -> "Floats":
        """How much the question is about each name: those asked, and those in the best sentence that holds them.

        Args:
            asked: The numbers of the names in the question.
            nearness: Gives how near to the question sentences are, from 0 to 1, by their numbers.
        """
        import numpy as np

        active = np.zeros(len(self.rarity))
        active[list(asked)] = self.rarity[list(asked)]
        sentences = np.unique(self._name_sentences.take(list(asked)).values)
        if not len(sentences):
            return active
        held = self._sentence_names.take(sentences)
        hits = _sums(active[held.values], held.owners, len(sentences))
        if len(sentences) > _SENTENCES:
            most = np.sort(np.argsort(-hits, kind="stable")[:_SENTENCES])
            sentences, held, hits = sentences[most], held.take(most), hits[most]
        hits *= nearness(sentences) ** 2
        best = int(np.argmax(hits))
        passed = min(float(hits[best]), 1.0) * _PASSED_ON * self.rarity[held[best]]
        active[held[best]] = np.maximum(active[held[best]], passed)
        return active

    def _pagerank(self, names: "Floats", chunks: "Floats", choice: "Floats") -> "Floats":
        """Personalised PageRank of the chunks.

        Args:
            names: The share of restarts at each name.
            chunks: The share at each chunk.
            choice: How much each chunk is chosen where a name leads to several.
        """
        import numpy as np

        gathered = self._gathered @ choice
        outward = 1 / np.where(gathered > 0, gathered, 1.0)
        at_names, at_chunks = names, chunks
        for _ in range(_STEPS):
            at_names, at_chunks = (
                (1 - _DAMPING) * names + _DAMPING * (self._to_names @ at_chunks),
                (1 - _DAMPING) * chunks + _DAMPING * choice * (self._to_chunks @ (at_names * outward)),
            )
        return at_chunks


class _Sparse:
    """A sparse matrix, for products with vectors."""

    def __init__(self, rows: "Integers", columns: "Integers", values: "Floats", height: int) -> None:
        import numpy as np

        order = np.argsort(rows, kind="stable")
        self._columns, self._values = columns[order], values[order]
        counts = np.bincount(rows, minlength=height)
        self._filled = np.flatnonzero(counts)
        self._starts = (np.cumsum(counts) - counts)[self._filled]
        self._height = height

    def __matmul__(self, vector: "Floats") -> "Floats":
        import numpy as np

        product = np.zeros(self._height)
        if len(self._filled):
            product[self._filled] = np.add.reduceat(self._values * vector.take(self._columns), self._starts)
        return product


def _sums(values: "Floats", groups: "Integers", count: int) -> "Floats":
    import numpy as np

    return np.bincount(groups, weights=values, minlength=count).astype(np.float64)
