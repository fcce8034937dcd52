"""Rows of whole numbers of different lengths, held in two arrays."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

__all__ = ["Ragged"]


class Ragged:
    """Rows of whole numbers.

    Args:
        values: The numbers of all rows, one row after the other.
        starts: Where each row begins in ``values``; one more than there are rows, the last is where the last one ends.

    >>> rows = Ragged.of([[3, 1], [], [4]])
    >>> len(rows), rows[0].tolist(), [row.tolist() for row in rows.take([2, 1])]
    (3, [3, 1], [[4], []])
    """

    def __init__(self, values: "Integers", starts: "Integers") -> None:
        self.values = values
        self.starts = starts

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "Ragged":
        """Rows given one by one."""
        import numpy as np

        values: list[int] = []
        starts = [0]
        for row in rows:
            values.extend(row)
            starts.append(len(values))
        return cls(np.array(values, np.int64), np.array(starts, np.int64))

    @classmethod
    def grouped(cls, groups: "Integers", values: "Integers", count: int) -> "Ragged":
        """Row i holds the values whose group is i, in the order given.

        Args:
            groups: The group of each value, from 0.
            values: As many.
            count: How many groups there are.
        """
        import numpy as np

        order = np.argsort(groups, kind="stable")
        return cls(values[order], np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=count))]))

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> "Integers":
        """One row."""
        return self.values[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> "Iterator[Integers]":
        """Each row."""
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> "Integers":
        """The length of each row."""
        lengths: Integers = self.starts[1:] - self.starts[:-1]
        return lengths

    @property
    def owners(self) -> "Integers":
        """For each of the values, its row."""
        import numpy as np

        return np.repeat(np.arange(len(self)), self.lengths)

    def take(self, rows: "Sequence[int] | Integers") -> "Ragged":
        """These rows, in this order."""
        import numpy as np

        picked = np.asarray(rows, np.int64)
        lengths = self.lengths[picked]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[picked] - starts[:-1], lengths)
        return Ragged(self.values[places], starts)

    def followed(self, other: "Ragged") -> "Ragged":
        """These rows, and then those of another."""
        import numpy as np

        starts = np.concatenate([self.starts, other.starts[1:] + self.starts[-1]])
        return Ragged(np.concatenate([self.values, other.values]), starts)
