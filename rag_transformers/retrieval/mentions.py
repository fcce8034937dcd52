"""The graph of name mentions: which names stand in which sentences of which chunks.

A name is whatever an extraction calls a vertex, what the offline reader takes for a name, and every title. Each is
looked for in its own chunk; one of several words, one of two Han characters or more, and a title in all chunks. Where
names overlap the longest counts. So a chunk is tied to a vertex that its own extraction forgot, and two chunks that
name the same thing are two steps apart.

What a chunk says is read once. When chunks come or go, only those are matched again that hold a name that is new, or
held one that is gone; the result is the same as from scratch.
"""

import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import IndexDamagedError
from rag_transformers.retrieval.mention_matching import BORDER, NOWHERE, Matcher, Said, everywhere, numbered
from rag_transformers.retrieval.mention_words import joined, mention_key, words
from rag_transformers.retrieval.ragged import Ragged

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

__all__ = ["Mentions", "Said"]

_FORM = 1  # to be raised with every change of what stands in the file or of how names are found


class Mentions:
    """Which names stand in which sentences of which chunks.

    Args:
        stamps: One for each chunk, in reading order; it stands for all that the chunk says.
        read: Gives what each of the chunks of these stamps says, in their order.
        previous: One made before; what it knows by its stamp is not read again.

    >>> said = {"a": Said("", ["Ada Moss built the Salt Mill."], ["Ada Moss", "Salt Mill"]),
    ...         "b": Said("", ["It burned.", "The salt mill of 1902 was of oak."], ["1902"])}
    >>> mentions = Mentions(said, lambda stamps: [said[stamp] for stamp in stamps])
    >>> mentions.names
    ('1902', 'ada moss', 'salt mill')
    >>> mentions.sentence_names.lengths.tolist()
    [2, 0, 2]
    >>> [mentions.names[name] for name in mentions.named_in("Who made the Salt-Mill?")]
    ['salt mill']
    """

    stamps: tuple[str, ...]
    names: tuple[str, ...]
    chunk_sentences: "Integers"
    """How many sentences each chunk has."""
    chunk_names: Ragged
    """For each chunk, the numbers of the names in it."""
    sentence_names: Ragged
    """For each sentence, the numbers of the names in it; the sentences of all chunks in one row."""
    titles: "Integers"
    """For each chunk, the number of its title; -1 where it has none."""

    def __init__(
        self,
        stamps: Iterable[str] = (),
        read: Callable[[Sequence[str]], Iterable[Said]] = lambda _: (),
        previous: "Mentions | None" = None,
    ) -> None:
        import numpy as np

        old = Mentions._nothing() if previous is None else previous
        stamps = tuple(stamps)
        places = {stamp: place for place, stamp in enumerate(old.stamps)}
        new = [stamp for stamp in dict.fromkeys(stamps) if stamp not in places]
        places |= {stamp: len(places) + place for place, stamp in enumerate(new)}
        vocabulary = {word: number for number, word in enumerate(old._vocabulary)}
        numbers = {name: number for number, name in enumerate(old.names)}
        texts, said = numbered(read(new), vocabulary, numbers)
        rows = [places[stamp] for stamp in stamps]
        texts, said = old._texts.followed(texts).take(rows), old._said.followed(said).take(rows)
        found = old._found.followed(Ragged.of([] for _ in new)).take(rows)
        matcher = Matcher(list(numbers), vocabulary, said)
        fresh = np.array(rows, np.int64) >= len(old.stamps)
        stale = matcher.stale(texts, found, fresh, old._everywhere)
        matched = Ragged.of(matcher.found_in(texts[row].tolist(), said[row].tolist()) for row in stale)
        order = np.arange(len(rows))
        order[stale] = len(rows) + np.arange(len(stale))
        found = found.followed(matched).take(order)
        self._set(stamps, list(vocabulary), list(numbers), texts, said, found)

    def __len__(self) -> int:
        """How many chunks there are."""
        return len(self.stamps)

    def named_in(self, text: str, also: Iterable[str] = ()) -> list[int]:
        """The numbers of the names that stand in a question, in order of number.

        Args:
            text: The question; where names overlap the longest counts.
            also: Further names that were read in it, in any spelling.
        """
        found = {self._numbers.get(mention_key(name), -1) for name in also} - {-1}
        asked = words(text)
        place = 0
        while place < len(asked):
            number, place = self._longest_at(asked, place)
            if number is not None:
                found.add(number)
        return sorted(found)

    def _longest_at(self, asked: Sequence[str], place: int) -> tuple[int | None, int]:
        """The number of the longest name that begins at a word, and where to go on."""
        number, end, key = None, place + 1, ""
        for last in range(place, min(len(asked), place + self._most_words)):
            key = joined([key, asked[last]]) if key else asked[last]
            if (known := self._numbers.get(key)) in self._everywhere:
                number, end = known, last + 1
        return number, end

    def to_bytes(self) -> bytes:
        """All of it as bytes, for a file."""
        import numpy as np

        text = json.dumps([_FORM, self.stamps, self.names, self._vocabulary], ensure_ascii=False)
        arrays: dict[str, Any] = {"text": np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)}
        for name, rows in zip(_ROWS, (self._texts, self._said, self._found), strict=True):
            arrays |= {name: rows.values.astype(np.int32), f"{name}_starts": rows.starts}
        file = io.BytesIO()
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Mentions":
        """The reverse of :meth:`to_bytes`.

        Raises:
            IndexDamagedError: The bytes are not what :meth:`to_bytes` gives.
        """
        import numpy as np

        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                form, stamps, names, vocabulary = json.loads(arrays["text"].tobytes())
                if form != _FORM:
                    raise ValueError(f"form {form}, not {_FORM}")
                rows = [Ragged(arrays[name].astype(np.int64), arrays[f"{name}_starts"]) for name in _ROWS]
                made = cls.__new__(cls)
                made._take(tuple(stamps), vocabulary, tuple(names), *rows)
        except Exception as error:
            raise IndexDamagedError(f"the mentions cannot be read ({type(error).__name__}: {error})") from error
        return made

    @classmethod
    def _nothing(cls) -> "Mentions":
        made = cls.__new__(cls)
        made._take((), [], (), *(Ragged.of([]) for _ in _ROWS))
        return made

    def _set(
        self,
        stamps: tuple[str, ...],
        vocabulary: list[str],
        names: list[str],
        texts: Ragged,
        said: Ragged,
        found: Ragged,
    ) -> None:
        """Take rows whose numbers have gaps, and number anew: words as they came, names in order of their text."""
        import numpy as np

        used = np.bincount(texts.values[texts.values >= 0], minlength=len(vocabulary)) > 0
        texts = Ragged(_renumbered(texts.values, np.cumsum(used) - 1), texts.starts)
        kept = sorted({number for number in said.values.tolist() if number >= 0}, key=names.__getitem__)
        numbers = np.full(len(names), -1, np.int64)
        numbers[kept] = np.arange(len(kept))
        said = Ragged(_renumbered(said.values, numbers), said.starts)
        pairs = found.values.copy()
        pairs[1::2] = _renumbered(pairs[1::2], numbers)
        words_left = [word for word, use in zip(vocabulary, used, strict=True) if use]
        self._take(stamps, words_left, tuple(names[i] for i in kept), texts, said, Ragged(pairs, found.starts))

    def _take(
        self,
        stamps: tuple[str, ...],
        vocabulary: list[str],
        names: tuple[str, ...],
        texts: Ragged,
        said: Ragged,
        found: Ragged,
    ) -> None:
        import numpy as np

        self.stamps, self.names, self._vocabulary = stamps, names, vocabulary
        self._texts, self._said, self._found = texts, said, found
        self._numbers = {name: number for number, name in enumerate(names)}
        self._most_words = max((name.count(" ") + 1 if name.isascii() else len(name) for name in names), default=0)
        self.titles = said.values[said.starts[:-1]]
        self._everywhere = everywhere(names, self.titles.tolist())
        borders = np.flatnonzero(texts.values == BORDER)
        self.chunk_sentences = np.diff(np.searchsorted(borders, texts.starts))
        first = np.cumsum(self.chunk_sentences) - self.chunk_sentences
        chunks, pairs = found.owners[::2], found.values.reshape(-1, 2)
        placed = pairs[:, 0] != NOWHERE
        sentences = (pairs[:, 0] + first[chunks])[placed]
        self.sentence_names = _grouped(sentences, pairs[placed, 1], int(self.chunk_sentences.sum()))
        self.chunk_names = _grouped(chunks, pairs[:, 1], len(stamps))


def _renumbered(values: "Integers", numbers: "Integers") -> "Integers":
    """The new number of each value; -1 stays."""
    import numpy as np

    found: Integers = np.append(numbers, -1)[values]
    return found


def _grouped(groups: "Integers", names: "Integers", count: int) -> Ragged:
    """The names of each group, each once, in order of number."""
    import numpy as np

    many = int(names.max(initial=0)) + 1
    pairs = np.unique(groups * many + names)
    return Ragged.grouped(pairs // many, pairs % many, count)


_ROWS = ("texts", "said", "found")
