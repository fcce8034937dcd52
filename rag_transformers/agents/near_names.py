"""A name that no vertex has -> the names that it may be meant for."""

import heapq
from collections.abc import Iterable

from rag_transformers.graph import name_key

__all__ = ["NearNames"]

_LEAST = 0.25
"""Names that are less alike than this are no help."""


class NearNames:
    """Finds names that are spelled alike, by the pairs of letters that they share (Dice's measure).

    Args:
        names: All names.

    >>> near = NearNames(["Ada Moss", "Grain Trust", "林晚", "林晓晚"])
    >>> near.of("Adda Mos"), near.of("林婉"), near.of("Zanzibar")
    (['Ada Moss'], ['林晚', '林晓晚'], [])
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._keys = [_bounded(name) for name in self._names]

    def of(self, name: str, limit: int = 5) -> list[str]:
        """The names most like a name, best first.

        Args:
            name: Any text.
            limit: How many at most.
        """
        asked = _bounded(name)
        pairs = list(dict.fromkeys(asked[at : at + 2] for at in range(len(asked) - 1)))
        # Every name is read, which takes less than to keep the pairs of all: about 1 s for 300,000 names.
        shared = [sum([pair in key for pair in pairs]) for key in self._keys]
        rows = enumerate(zip(shared, self._keys, strict=True))
        alike = [(2 * count / (len(pairs) + len(key) - 1), -at) for at, (count, key) in rows]
        best = heapq.nlargest(limit, (each for each in alike if each[0] >= _LEAST))
        return [self._names[-at] for _, at in best]


def _bounded(name: str) -> str:
    """The key of a name between marks, so that its ends are part of pairs too."""
    return f"\0{name_key(name)}\0"
