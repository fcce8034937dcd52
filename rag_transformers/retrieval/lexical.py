"""BM25 over the terms of passages: fast to make again, small enough to keep in a file."""

import io
import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import IndexDamagedError
from rag_transformers.text import terms

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int32]

__all__ = ["Lexical"]

_K1 = 1.5
_B = 0.75
_FORM = 1  # to be raised with every change of what text.terms gives, so that what was kept before is read anew


class Lexical:
    """BM25 over the terms of passages (Robertson and Zaragoza, 2009), k1 1.5 and b 0.75.

    Args:
        passages: (id, text) each, in reading order; an id stands for its text.
        previous: One made before: what it knows by its id is not read again.

    >>> lexical = Lexical([("a", "The mill burned."), ("b", "石桥建于1850年。")])
    >>> [round(float(score), 2) for score in lexical.scores("谁建了石桥？")]
    [0.0, 2.16]
    >>> Lexical.from_bytes(lexical.to_bytes()).ids
    ('a', 'b')
    """

    def __init__(self, passages: Iterable[tuple[str, str]] = (), previous: "Lexical | None" = None) -> None:
        import numpy as np

        self._vocabulary: dict[str, int] = dict(previous._vocabulary) if previous else {}
        known = {id: place for place, id in enumerate(previous.ids)} if previous else {}
        ids: list[str] = []
        rows: list[tuple[Integers, Integers]] = []
        for id, text in passages:
            ids.append(id)
            place = known.get(id)
            rows.append(self._read(text) if previous is None or place is None else previous._row(place))
        self._set(
            tuple(ids),
            np.concatenate([np.zeros(0, np.int32), *(row[0] for row in rows)]),
            np.concatenate([np.zeros(0, np.int32), *(row[1] for row in rows)]),
            np.cumsum([0, *(len(row[0]) for row in rows)]),
        )

    def __len__(self) -> int:
        """How many passages there are."""
        return len(self.ids)

    def scores(self, question: str) -> "npt.NDArray[np.float64]":
        """The BM25 of every passage, in the order of ``ids``."""
        import numpy as np

        total = np.zeros(len(self.ids))
        for term, times in Counter(terms(question)).items():
            if (number := self._vocabulary.get(term)) is not None:
                posted = slice(*self._posted[number : number + 2])
                counts = self._post_counts[posted]
                rows = self._post_rows[posted]
                total[rows] += times * self.idf(term) * counts * (_K1 + 1) / (counts + self._norms[rows])
        return total

    def frequency(self, term: str) -> int:
        """How many passages hold a term, of those that :func:`rag_transformers.text.terms` gives."""
        number = self._vocabulary.get(term)
        return 0 if number is None else int(self._posted[number + 1] - self._posted[number])

    def idf(self, term: str) -> float:
        """How much a term tells: the rarer it is among the passages, the more; above 0 always."""
        found = self.frequency(term)
        return math.log(1 + (len(self.ids) - found + 0.5) / (found + 0.5))

    def to_bytes(self) -> bytes:
        """All of it as bytes, for a file."""
        import numpy as np

        text = json.dumps([_FORM, self.ids, list(self._vocabulary)], ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )
        file = io.BytesIO()
        np.savez(
            file,
            text=np.frombuffer(text, np.uint8),
            terms=self._terms,
            counts=self._counts,
            starts=self._starts,
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Lexical":
        """The reverse of :meth:`to_bytes`.

        Raises:
            IndexDamagedError: The bytes are not what :meth:`to_bytes` gives.
        """
        import numpy as np

        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                form, ids, vocabulary = json.loads(arrays["text"].tobytes())
                if form != _FORM:
                    raise ValueError(f"form {form}, not {_FORM}")
                made = cls()
                made._vocabulary = {term: number for number, term in enumerate(vocabulary)}
                made._set(tuple(ids), arrays["terms"], arrays["counts"], arrays["starts"])
        except Exception as error:
            raise IndexDamagedError(f"the lexical index cannot be read ({type(error).__name__}: {error})") from error
        return made

    def _read(self, text: str) -> "tuple[Integers, Integers]":
        import numpy as np

        counts = Counter(terms(text))
        numbers = [self._vocabulary.setdefault(term, len(self._vocabulary)) for term in counts]
        return np.array(numbers, np.int32), np.array(list(counts.values()), np.int32)

    def _row(self, place: int) -> "tuple[Integers, Integers]":
        row = slice(*self._starts[place : place + 2])
        return self._terms[row], self._counts[row]

    def _set(self, ids: tuple[str, ...], numbers: Any, counts: Any, starts: Any) -> None:
        """Take what passages hold, row by row, and turn it over: for each term, the passages that hold it."""
        import numpy as np

        self.ids = ids
        self._terms, self._counts, self._starts = numbers, counts, starts
        rows = np.repeat(np.arange(len(ids)), np.diff(starts))
        order = np.argsort(numbers, kind="stable")
        self._post_rows, self._post_counts = rows[order], counts[order].astype(np.float64)
        self._posted = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=len(self._vocabulary)))])
        lengths = np.bincount(rows, weights=counts, minlength=len(ids))
        self._norms = _K1 * (1 - _B + _B * lengths / (float(lengths.mean()) or 1.0)) if ids else lengths
