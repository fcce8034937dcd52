"""Which names stand where: the longest match over chunks whose words are numbers."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rag_transformers.retrieval.mention_words import is_short, mention_key, parts, title_key, words
from rag_transformers.retrieval.ragged import Ragged

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

__all__ = ["BORDER", "NOWHERE", "Matcher", "Said", "everywhere", "numbered"]

BORDER = -1
"""Stands after the words of each sentence."""

NOWHERE = -1
"""The sentence of a name that is said of a chunk, but stands in none of its sentences."""


class Said(NamedTuple):
    """What a chunk says of names by itself.

    Args:
        title: Of its document; may be empty.
        sentences: Its text, sentence by sentence.
        names: In any spelling.
    """

    title: str
    sentences: Sequence[str]
    names: Iterable[str]


def numbered(given: Iterable[Said], vocabulary: dict[str, int], numbers: dict[str, int]) -> tuple[Ragged, Ragged]:
    """What chunks say, in numbers: of each its words with a ``BORDER`` after each sentence, and its names.

    The first of a chunk's names is its title, -1 where it has none. A name of one character may mean anything, and is
    dropped.

    Args:
        given: One for each chunk.
        vocabulary: The number of each word; new ones are added.
        numbers: The number of each name's key; new ones are added.
    """
    texts, said = [], []
    for title, sentences, names in given:
        row: list[int] = []
        for sentence in sentences:
            row += (vocabulary.setdefault(word, len(vocabulary)) for word in words(sentence))
            row.append(BORDER)
        texts.append(row)
        keys = {key for key in map(mention_key, names) if len(key) > 1}
        key = title_key(title)
        first = numbers.setdefault(key, len(numbers)) if len(key) > 1 else -1
        said.append([first, *(numbers.setdefault(key, len(numbers)) for key in sorted(keys))])
    return Ragged.of(texts), Ragged.of(said)


def everywhere(names: Sequence[str], titles: Iterable[int]) -> set[int]:
    """The numbers of the names that are looked for in all chunks: not those of one word, unless they are titles."""
    found = {number for number, name in enumerate(names) if not is_short(name)}
    return found.union(title for title in titles if title >= 0)


class Matcher:
    """Finds the names of chunks.

    Args:
        names: All keys, those that no chunk says any more too.
        vocabulary: The number of each word.
        said: For each chunk the numbers of its title and its names, see :func:`numbered`.
    """

    def __init__(self, names: Sequence[str], vocabulary: dict[str, int], said: Ragged) -> None:
        used = sorted(set(said.values.tolist()) - {-1})
        self._words = {number: tuple(vocabulary.get(word, -2) for word in parts(names[number])) for number in used}
        self._everywhere = everywhere(names, said.values[said.starts[:-1]].tolist()).intersection(used)
        self._names, self._lengths = self._table(sorted(self._everywhere))

    def found_in(self, text: Sequence[int], said: Sequence[int]) -> list[int]:
        """(sentence, name) of all names in a chunk, one pair after the other.

        Args:
            text: Its words.
            said: Its own title and names, which are looked for though they are short.
        """
        own, own_lengths = self._table({number for number in said if number >= 0})
        found = set()
        place = sentence = 0
        while place < len(text):
            if text[place] == BORDER:
                sentence += 1
            for length in _longest_first(self._lengths.get(text[place]), own_lengths.get(text[place])):
                name = tuple(text[place : place + length])
                number = self._names.get(name, own.get(name))
                if number is not None:
                    found.add((sentence, number))
                    place += length - 1
                    break
            place += 1
        named = {number for _, number in found}
        found.update((NOWHERE, number) for number in said if number >= 0 and number not in named)
        return [number for pair in sorted(found) for number in pair]

    def stale(self, texts: Ragged, found: Ragged, fresh: "npt.NDArray[np.bool_]", before: set[int]) -> list[int]:
        """The chunks to be matched: those that are new, that held a name that is gone, or that hold a new one.

        Args:
            texts: The words of all chunks.
            found: What was found in them before.
            fresh: Which of them are new.
            before: The names that were looked for in all chunks before.
        """
        import numpy as np

        gone = sorted(before - self._everywhere)
        held = found.owners[1::2][np.isin(found.values[1::2], gone)]
        return sorted({*np.flatnonzero(fresh).tolist(), *held.tolist(), *self._holders(texts, fresh, before)})

    def _holders(self, texts: Ragged, fresh: "npt.NDArray[np.bool_]", before: set[int]) -> Iterator[int]:
        """The chunks, but for the fresh ones, that hold a name which was not looked for before."""
        import numpy as np

        if fresh.all():
            return
        names, lengths = self._table(self._everywhere - before)
        size = 2 + max((max(name) for name in names), default=0)
        alone, first, second = np.zeros((3, size), bool)  # the last flag is never set, and answers for a border
        for name in names:
            (alone if len(name) == 1 else first)[name[0]] = True
            second[name[1:2]] = True
        values = np.append(np.where(texts.values < size, texts.values, BORDER), BORDER)
        for place in np.flatnonzero(alone[values[:-1]] | (first[values[:-1]] & second[values[1:]])).tolist():
            chunk = int(np.searchsorted(texts.starts, place, side="right")) - 1
            ends = (place + length for length in lengths[int(values[place])])
            if not fresh[chunk] and any(tuple(values[place:end].tolist()) in names for end in ends):
                yield chunk

    def _table(self, numbers: Iterable[int]) -> tuple[dict[tuple[int, ...], int], dict[int, list[int]]]:
        """Names by their words, without those in no text; and their lengths by the first word, longest first."""
        names = {self._words[number]: number for number in numbers if min(self._words[number]) >= 0}
        lengths: dict[int, set[int]] = {}
        for name in names:
            lengths.setdefault(name[0], set()).add(len(name))
        return names, {word: sorted(found, reverse=True) for word, found in lengths.items()}


def _longest_first(one: Sequence[int] | None, other: Sequence[int] | None) -> Sequence[int]:
    if one and other:
        return sorted({*one, *other}, reverse=True)
    return one or other or ()
