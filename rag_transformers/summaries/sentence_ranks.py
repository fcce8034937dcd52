"""How central sentences are: a graph rank over their likeness, in time and memory that grow with their words."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rag_transformers.summaries.frequent_names import holds
from rag_transformers.text import CLOSERS, terms

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

__all__ = ["RankedSentences", "Sentence"]

_DAMPING = 0.85
_TURNS = 30
_SHORT, _LONG = 60, 240
"""Bytes of UTF-8, which weigh a Chinese character about as much as half a word: a shorter sentence is mostly a cry or
a greeting, a longer one takes the room of two."""
_PART = 0.6
"""What the rank of half a sentence, of a heading and of what begins as somebody's words is multiplied by."""
_NAMED = 1.5
"""What the rank of a sentence that names somebody is multiplied by."""
_SENTENCE_END = re.compile(rf"[。！？｡….!?；;][{CLOSERS}]*$")


class Sentence(NamedTuple):
    """A sentence as it stands, and its number among all."""

    place: int
    text: str


class RankedSentences:
    """Sentences with the tf-idf vectors of their terms, each of length 1, and their numbers from best to least.

    The rank is that of LexRank with continuous weights, see :func:`~.extractive.central_sentences`.

    Args:
        sentences: At least one.
        named: Whether a sentence names somebody who is to be named, which raises its rank.

    >>> told = ["The mill at Leeds burned.", "It rained.", "Ada rebuilt the mill at Leeds."]
    >>> RankedSentences([Sentence(place, text) for place, text in enumerate(told)], lambda text: "Ada" in text).order
    [2, 0, 1]
    """

    def __init__(self, sentences: Sequence[Sentence], named: Callable[[str], bool]) -> None:
        import numpy as np

        self.all = sentences
        vocabulary: dict[str, int] = {}
        counts = [Counter(_features(sentence.text)) for sentence in sentences]
        lengths = np.array([len(counted) for counted in counts])
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        found = (vocabulary.setdefault(term, len(vocabulary)) for counted in counts for term in counted)
        self.terms = np.fromiter(found, np.int64, self.starts[-1])
        times = np.fromiter(itertools.chain.from_iterable(map(Counter.values, counts)), np.float64, self.starts[-1])
        self.weights = _unit(times * _idf(self.terms, len(sentences)), self.starts)
        fitness = np.array([_fitness(sentence.text) for sentence in sentences])
        boost = np.array([_NAMED if named(sentence.text) else 1.0 for sentence in sentences])
        score = _centrality(self.terms, self.weights, self.starts) * fitness * boost
        # Sums come out a little different from one machine to the next: what is equal but for that goes by its place.
        self.order: list[int] = np.argsort(-score.round(10), kind="stable").tolist()

    def holding(self, name: str) -> Iterator[int]:
        """The sentences that hold a name, from best to least."""
        named = holds(name)
        return (number for number in self.order if named(self.all[number].text))

    def row(self, number: int) -> "list[tuple[int, float]]":
        """The terms of a sentence and their weights."""
        part = slice(*self.starts[number : number + 2])
        return list(zip(self.terms[part].tolist(), self.weights[part].tolist(), strict=True))


def _fitness(sentence: str) -> float:
    """How well it serves in a summary by its length, and by being a whole sentence of the narrator's."""
    length = len(sentence.encode("utf-8", "surrogatepass"))
    size = min(1.0, length / _SHORT, _LONG / length)
    spoken = sentence[0] in "\"'“‘「『" or sentence.count('"') % 2
    half = spoken or not _SENTENCE_END.search(sentence)
    half = half or any(sentence.count(opener) != sentence.count(closer) for opener, closer in ("“”", "「」", "『』"))
    return size * _PART if half else size


def _features(sentence: str) -> list[str]:
    """What two sentences can share: search terms, else words, else the whole."""
    return terms(sentence) or sentence.casefold().split() or [sentence]


def _idf(numbers: "Integers", sentences: int) -> "Floats":
    import numpy as np

    found: Floats = np.log((1 + sentences) / (1 + np.bincount(numbers))) + 1
    return found[numbers]


def _unit(weights: "Floats", starts: "Integers") -> "Floats":
    import numpy as np

    norms = np.sqrt(np.add.reduceat(weights**2, starts[:-1]))
    found: Floats = weights / np.repeat(norms, np.diff(starts))
    return found


def _centrality(numbers: "Integers", weights: "Floats", starts: "Integers") -> "Floats":
    """PageRank over the cosines of all pairs, as two products with the sparse matrix of the vectors a turn."""
    import numpy as np

    lengths = np.diff(starts)

    def among_others(values: "Floats") -> "Floats":
        """For each sentence the sum of values over all others, each times its cosine with it."""
        by_term = np.bincount(numbers, weights * np.repeat(values, lengths))
        found: Floats = np.maximum(np.add.reduceat(weights * by_term[numbers], starts[:-1]) - values, 0)
        return found

    degrees = among_others(np.ones(len(lengths)))
    share = np.divide(1, degrees, out=np.zeros(len(lengths)), where=degrees > 1e-9)
    rank = np.full(len(lengths), 1.0)  # 1 on the average, whatever their number
    for _ in range(_TURNS):
        rank = 1 - _DAMPING + _DAMPING * among_others(rank * share)
    return rank
