"""A name that no vertex has -> the names that it may be meant for."""

import heapq
import re
from collections.abc import Iterable, Sequence

from rag_transformers.graph import MAX_NAME_LENGTH, name_key
from rag_transformers.text import HAN

__all__ = ["NearNames"]

_LEAST = 0.25
"""Names that are less alike than this are no help."""
_HAN = re.compile(f"[{HAN}]")


class NearNames:
    """Finds names that are spelled alike, by the pairs of letters that they share (Dice's measure).

    Behind these come names that share Han characters, one of four at least: of a name in traditional characters, the
    simplified spelling often has no pair.

    Args:
        names: All names.

    >>> near = NearNames(["Ada Moss", "Grain Trust", "林晚", "林晓晚", "臺灣大學"])
    >>> near.of("Adda Mos"), near.of("林婉"), near.of("台湾大学"), near.of("Zanzibar")
    (['Ada Moss'], ['林晚', '林晓晚'], ['臺灣大學'], [])
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
        asked = _bounded(name[:MAX_NAME_LENGTH])
        pairs = list(dict.fromkeys(asked[at : at + 2] for at in range(len(asked) - 1)))
        found = self._best(pairs, 1, limit)
        characters = list(dict.fromkeys(_HAN.findall(asked)))
        if characters and len(found) < limit:
            found += self._best(characters, 2, limit)
        return list(dict.fromkeys(self._names[at] for at in found))[:limit]

    def _best(self, parts: Sequence[str], more: int, limit: int) -> list[int]:
        """The places of the names that share most of some parts; a key of n letters has n - ``more`` of them."""
        # Every name is read, which takes less than to keep the parts of all: about 1 s for 300,000 names.
        shared = [sum([part in key for part in parts]) for key in self._keys]
        rows = enumerate(zip(shared, self._keys, strict=True))
        alike = [(2 * count / (len(parts) + len(key) - more), -at) for at, (count, key) in rows]
        return [-at for _, at in heapq.nlargest(limit, (each for each in alike if each[0] >= _LEAST))]


def _bounded(name: str) -> str:
    """The key of a name between marks, so that its ends are part of pairs too."""
    return f"\0{name_key(name)}\0"
