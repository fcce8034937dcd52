"""Question -> ranked chunks: words and meaning, each scaled to the same range and added.

The steps are functions of their own, and the walk over the graph (:mod:`~rag_transformers.retrieval.walk`) starts from
what :func:`fused` gives:

    Lexical.scores   BM25 of every chunk
    dense_scores     cosine of every chunk's nearest sentence, from the nearest sentences of the whole index
    fused            both scaled and added
    rank             the chunks in order

Scores are added, not ranks: on multi-hop questions reciprocal ranks were worse than the better of their two halves.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from rag_transformers.errors import check_count
from rag_transformers.retrieval.lexical import Lexical
from rag_transformers.text import sentence_spans, split_title

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

__all__ = [
    "NEAREST_SENTENCES",
    "TITLE_WEIGHT",
    "Lexical",
    "Scored",
    "SentenceText",
    "dense_scores",
    "fused",
    "lexical_text",
    "ordered",
    "rank",
    "scaled",
    "sentence_texts",
    "title_of",
]

NEAREST_SENTENCES = 200
"""How many of the nearest sentences of an index to give to :func:`rank`; from 100 on, more change nothing."""

TITLE_WEIGHT = 3
"""How often the words of a title count."""


class SentenceText(NamedTuple):
    """A sentence of a chunk: its place in the chunk's text, and the text whose vector stands for it."""

    start: int
    end: int
    text: str


class Scored(NamedTuple):
    """A chunk's place in an answer to a question.

    Args:
        id: The chunk's id.
        score: From 0 to 1; the best chunk has 1.
        lexical: Its BM25.
        dense: The cosine of its nearest sentence; for a chunk that has none among those given, of the furthest given.
    """

    id: str
    score: float
    lexical: float
    dense: float


def title_of(chunk: Document) -> str:
    r"""The title of the document that a chunk is from: its metadata's, else the first line of its first chunk.

    >>> title_of(Document("Salt roads\nThey led to the sea.", metadata={"source": "a", "start": 0}))
    'Salt roads'
    """
    title = chunk.metadata.get("title")
    if not (isinstance(title, str) and title.strip()):
        title = "" if chunk.metadata.get("start") else split_title(chunk.page_content)[0]
    return " ".join(title.split())


def sentence_texts(chunk: Document) -> list[SentenceText]:
    r"""The sentences of a chunk, and for each the text to embed: the title in front, for "it" and "he" have no vector.

    >>> chunk = Document("Salt roads\nThey led to the sea. Mules used them.", metadata={"source": "a", "start": 0})
    >>> for sentence in sentence_texts(chunk):
    ...     print(sentence)
    SentenceText(start=11, end=31, text='Salt roads\nThey led to the sea.')
    SentenceText(start=32, end=48, text='Salt roads\nMules used them.')
    """
    title, body = _title_and_body(chunk)
    text = chunk.page_content[body:]
    front = f"{title}\n" if title else ""
    return [
        SentenceText(body + start, body + end, front + " ".join(text[start:end].split()))
        for start, end in sentence_spans(text)
    ]


def lexical_text(chunk: Document) -> str:
    """The text of a chunk for a :class:`Lexical`: its title counts ``TITLE_WEIGHT`` times."""
    title, body = _title_and_body(chunk)
    return f"{title}\n" * TITLE_WEIGHT + chunk.page_content[body:] if title else chunk.page_content


def scaled(values: "Floats", floor: float | None = None) -> "Floats":
    """Values scaled so that the largest is 1 and ``floor``, by default the smallest, is 0.

    Values that are all the same become 1 where they are above 0, else 0.

    >>> import numpy as np
    >>> scaled(np.array([2.0, 4.0, 3.0])).tolist(), scaled(np.array([3.0, 3.0])).tolist()
    ([0.0, 1.0, 0.5], [1.0, 1.0])
    """
    import numpy as np

    if not len(values):
        return values
    low, high = float(values.min()) if floor is None else floor, float(values.max())
    return (values - low) / (high - low) if high > low else (values > 0).astype(np.float64)


def dense_scores(ids: Sequence[str], nearest: Iterable[tuple[str, float]]) -> tuple["Floats", float]:
    """The cosine of every passage's nearest sentence, and the cosine that counts as nothing.

    A passage without a sentence among the nearest counts as the furthest of them: it is not nearer. Where there are
    such passages, the scale goes on below that as far as it reaches above it; with 100 of 4,000 sentences this ranks
    as well as with all of them.

    Args:
        ids: The ids of all passages.
        nearest: (id of the passage, cosine) of the sentences nearest to the question.
    """
    import numpy as np

    places = {id: place for place, id in enumerate(ids)}
    found = [(places[id], cosine) for id, cosine in nearest if id in places]
    if not found:
        return np.zeros(len(ids)), 0.0
    furthest, best = min(cosine for _, cosine in found), max(cosine for _, cosine in found)
    cosines = np.full(len(ids), furthest)
    np.maximum.at(cosines, [place for place, _ in found], [cosine for _, cosine in found])
    seen = len({place for place, _ in found})
    return cosines, float(cosines.min()) if seen == len(ids) else 2 * furthest - best


def fused(lexical: "Floats", dense: "Floats", floor: float | None = None) -> "Floats":
    """Lexical and dense scores of the same passages, each scaled to one range, added, and scaled again."""
    return scaled(0.5 * scaled(lexical) + 0.5 * scaled(dense, floor))


def rank(question: str, lexical: Lexical, nearest: Iterable[tuple[str, float]], k: int | None = None) -> list[Scored]:
    """The passages that suit a question best, best first; of equal ones the earlier first.

    Args:
        question: The question.
        lexical: All passages of the index.
        nearest: (id of the passage, cosine) of the ``NEAREST_SENTENCES`` sentences nearest to the question.
        k: How many at most; all by default.

    Raises:
        UsageError: ``k`` is no whole number of at least 1.

    >>> lexical = Lexical([("a", "The mill burned."), ("b", "The bridge fell.")])
    >>> [scored.id for scored in rank("What happened to the bridge?", lexical, [("a", 0.2), ("b", 0.5)])]
    ['b', 'a']
    """
    if k is not None:
        check_count("k", k)
    words = lexical.scores(question)
    dense, floor = dense_scores(lexical.ids, nearest)
    return ordered(lexical.ids, fused(words, dense, floor), words, dense, k)


def ordered(
    ids: Sequence[str], scores: "Floats", lexical: "Floats", dense: "Floats", k: int | None = None
) -> list[Scored]:
    """The passages in order of their scores, best first; of equal ones the earlier first."""
    import numpy as np

    best = np.argsort(-scores, kind="stable")[:k]
    return [Scored(ids[i], float(scores[i]), float(lexical[i]), float(dense[i])) for i in best]


def _title_and_body(chunk: Document) -> tuple[str, int]:
    """The title, and where the text after it begins: a first line that is the title is no sentence."""
    title = title_of(chunk)
    first, body = ("", 0) if chunk.metadata.get("start") else split_title(chunk.page_content)
    return title, body if " ".join(first.split()) == title else 0
