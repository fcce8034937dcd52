"""Extractions -> the graph: their fold in reading order, taken over from one state to the next where that only adds."""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_transformers.indexing.deriving import descriptions_of
from rag_transformers.stores import MemoryGraph

if TYPE_CHECKING:
    from rag_transformers.stores.folder import IndexFolder
    from rag_transformers.stores.made import Made
    from rag_transformers.stores.records import Records

__all__ = ["CurrentGraph", "Folded", "folded"]

Order = list[tuple[str, str]]


@dataclass(frozen=True)
class Folded:
    """A graph, and the extractions that it is the fold of, by chunk, in reading order."""

    graph: MemoryGraph
    order: Order
    version: int = 0

    @property
    def is_pure(self) -> bool:
        """Whether nobody has changed the graph since."""
        return self.graph.version == self.version


def folded(records: "Records", made: "Made", previous: Folded | None = None) -> Folded:
    """The fold of all extractions of one state in reading order, with the descriptions that hold.

    Args:
        records: The state.
        made: Where the extractions are.
        previous: Another fold, which is taken over where the new one only adds to it; it stays as it is.

    Raises:
        IndexDamagedError: An extraction is missing or cannot be read.
    """
    order = records.extraction_order()
    graph, new = MemoryGraph(), order
    if previous is not None and previous.is_pure and order[: len(previous.order)] == previous.order:
        graph, new = previous.graph.copy(), order[len(previous.order) :]
    found = made.extractions(key for _, key in new)
    for id, key in new:
        graph.add(found[key], id)
    graph.summarise(descriptions_of(records, made))
    return Folded(graph, order, graph.version)


class CurrentGraph:
    """The graph of the last finished state, folded anew when that has changed, in this process or another.

    Args:
        folder: The index's folder.
    """

    def __init__(self, folder: "IndexFolder") -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._now: tuple[int, Folded] | None = None  # of which generation, and the fold

    @property
    def folded(self) -> Folded | None:
        """The last fold, of whatever state; None before the first."""
        return self._now[1] if self._now else None

    def graph(self) -> MemoryGraph:
        """The graph as it is now.

        Raises:
            NoIndexError: There is no index yet.
        """
        generation = self._folder.records.generation()
        with self._lock:
            if self._now is None or self._now[0] != generation:
                previous = self.folded
                self._now = self._folder.reading(
                    lambda records: (records.generation(), folded(records, self._folder.made, previous))
                )
            return self._now[1].graph

    def take(self, generation: int, made: Folded) -> None:
        """Take over the fold of a state that was just committed."""
        with self._lock:
            self._now = generation, made
