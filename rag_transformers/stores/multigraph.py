"""A directed multigraph of records: keys, merging and order. What :class:`MemoryGraph` stands on."""

import heapq
import itertools
import logging
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter

from rag_transformers.errors import UsageError
from rag_transformers.graph import MAX_NAME_LENGTH, Direction, name_key, shorten_name
from rag_transformers.stores.graph_records import EdgeRecord, Facts, VertexRecord

__all__ = ["Multigraph", "as_direction"]

_log = logging.getLogger(__name__)
_order = attrgetter("order")


class Multigraph:
    """Vertices and edges by their keys, in the order of their insertion, for one thread at a time.

    One dict of edges and a list of them at each end is all. In a networkx ``MultiDiGraph`` every edge needs two dicts
    and three entries in others: twice the memory, and half the speed before anything is merged.
    """

    def __init__(self) -> None:
        self.vertices: dict[str, VertexRecord] = {}
        self.edges: dict[tuple[str, str, str], EdgeRecord] = {}
        self.version = 0
        self.skipped = 0
        self._spelled: dict[str, VertexRecord] = {}
        self._relations: dict[str, tuple[str, str]] = {}
        self._next_order = 0
        self._cut: set[str] = set()

    def copy(self) -> "Multigraph":
        """The same once more, sharing nothing that changes."""
        twin = Multigraph()
        twin.vertices = {key: record.copy() for key, record in self.vertices.items()}
        for key, edge in self.edges.items():
            tail, head = twin.vertices[edge.source.key], twin.vertices[edge.target.key]
            twin.edges[key] = copied = edge.copy(tail, head)
            tail.leaving.append(copied)
            head.reaching.append(copied)
        twin.version, twin.skipped, twin._next_order = self.version, self.skipped, self._next_order
        twin._spelled = {
            name: twin.vertices[record.key] for name, record in self._spelled.items() if record.key in self.vertices
        }
        twin._relations, twin._cut = dict(self._relations), set(self._cut)
        return twin

    def key(self, name: str) -> str:
        """The key of a name, for looking it up."""
        known = self._spelled.get(name)
        return known.key if known else name_key(shorten_name(" ".join(name.split())))

    def fold_vertex(self, name: str, facts: Facts) -> VertexRecord:
        """Insert or merge a vertex."""
        name = self._kept_name(name)
        record = self._vertex(name)
        self.version += record.mention(name, facts.chunks, not facts.chunks)
        self.version += record.absorb(facts)
        return record

    def fold_edge(self, source: str, relation: str, target: str, facts: Facts) -> bool:
        """Insert or merge an edge and its ends; say whether it is new. A loop is dropped and counted."""
        tail, head = self._spelled.get(source), self._spelled.get(target)
        if tail is None or head is None:
            source, target = self._kept_name(source), self._kept_name(target)
            if name_key(source) == name_key(target):
                self.skipped += 1
                return False
            tail, head = self._vertex(source), self._vertex(target)
        elif tail is head:
            self.skipped += 1
            return False
        chunks = facts.chunks
        self.version += tail.mention(source, chunks, not chunks) + head.mention(target, chunks, not chunks)
        relation_key, relation = self._relations.get(relation) or self._related(relation)
        return self._link(tail, head, relation_key, relation, facts)

    def note_lacking(self, keys: Collection[str], chunk: str) -> None:
        """Note of vertices that a chunk speaks of them and does not hold their names."""
        for key in keys:
            record = self.vertices.get(key)
            if record is not None and chunk in record.said_in():
                self.version += record.lack((chunk,))

    def set_prop(self, prop: str, values: Mapping[str | tuple[str, str, str], object]) -> None:
        """Give each vertex and edge the value under its key, and take the prop from those that have none."""
        records: Iterable[VertexRecord | EdgeRecord] = itertools.chain(self.vertices.values(), self.edges.values())
        for record in records:
            value, props = values.get(record.key), record.props or {}
            if props.get(prop) != value:
                others = {name: kept for name, kept in props.items() if name != prop}
                record.props = ({**others, prop: value} if value is not None else others) or None
                self.version += 1

    def take_vertex(self, theirs: VertexRecord) -> None:
        """Copy in a vertex of another graph, or merge it."""
        record = self.vertices.get(theirs.key) or self._insert(theirs.key, theirs.spelled()[0][0])
        self.version += record.take(theirs)

    def take_edge(self, theirs: EdgeRecord) -> None:
        """Copy in an edge of another graph whose ends are here, or merge it."""
        tail, head = self.vertices[theirs.source.key], self.vertices[theirs.target.key]
        self._link(tail, head, theirs.relation, theirs.name, theirs.said())

    def edges_of(self, key: str, direction: Direction, limit: int | None = None) -> list[EdgeRecord]:
        """The edges of one vertex in the order of their insertion."""
        direction, vertex = as_direction(direction), self.vertices.get(key)
        if vertex is None:
            return []
        if direction is Direction.BOTH:
            return sorted((*vertex.leaving[:limit], *vertex.reaching[:limit]), key=_order)[:limit]
        return (vertex.leaving if direction is Direction.OUT else vertex.reaching)[:limit]

    def strongest(self, key: str, limit: int, near: Collection[str], chunks: set[str]) -> list[EdgeRecord]:
        """The edges of one vertex that matter most; see :meth:`MemoryGraph.strongest_edges`."""
        vertex = self.vertices.get(key)
        if vertex is None:
            return []

        def rank(edge: EdgeRecord) -> tuple[bool, bool, float, int]:
            end = edge.target if edge.source is vertex else edge.source
            return end.key not in near, chunks.isdisjoint(edge.said_in()), -edge.strength(), edge.order

        return heapq.nsmallest(limit, itertools.chain(vertex.leaving, vertex.reaching), key=rank)

    def reach(
        self,
        seeds: Iterable[str],
        direction: Direction = Direction.BOTH,
        depth: int | None = None,
        fan: int | None = None,
        limit: int | None = None,
    ) -> "Multigraph":
        """What is reached from the vertices of some keys, breadth-first; see :meth:`MemoryGraph.search`."""
        found, hop = Multigraph(), 0
        frontier = [self.vertices[key] for key in dict.fromkeys(seeds) if key in self.vertices]
        for record in frontier:
            found.take_vertex(record)
        while frontier and (depth is None or hop < depth):
            reached = []
            for record in frontier:
                if limit is not None and len(found.edges) >= limit:
                    return found
                reached += found._follow(record, self.edges_of(record.key, direction, fan), limit)
            frontier, hop = reached, hop + 1
        return found

    def drop_vertices(self, keys: Iterable[str]) -> int:
        """Delete vertices and their edges; return how many vertices there were."""
        there = dict.fromkeys(key for key in keys if key in self.vertices)
        self.drop_edges(edge for key in there for edge in self.edges_of(key, Direction.BOTH))
        for key in there:
            for name, _, _ in self.vertices.pop(key).spelled():
                self._spelled.pop(name, None)
        self.version += bool(there)
        return len(there)

    def drop_edges(self, edges: Iterable[EdgeRecord]) -> int:
        """Delete edges; return how many there were."""
        gone = dict.fromkeys(edges)
        for edge in gone:
            del self.edges[edge.key]
        for tail in {edge.source.key: edge.source for edge in gone}.values():
            tail.leaving = [edge for edge in tail.leaving if edge not in gone]
        for head in {edge.target.key: edge.target for edge in gone}.values():
            head.reaching = [edge for edge in head.reaching if edge not in gone]
        self.version += bool(gone)
        return len(gone)

    def _vertex(self, name: str) -> VertexRecord:
        """The vertex of a name, made if it is missing; the name must be one that :meth:`_kept_name` gave."""
        record = self._spelled.get(name)
        if record is None:
            key = name_key(name)
            record = self._spelled[name] = self.vertices.get(key) or self._insert(key, name)
        return record

    def _insert(self, key: str, name: str) -> VertexRecord:
        record = self.vertices[key] = VertexRecord(key, name)
        self.version += 1
        return record

    def _related(self, relation: str) -> tuple[str, str]:
        name = self._kept_name(relation)
        self._relations[relation] = name_key(name), name
        return self._relations[relation]

    def _kept_name(self, name: str) -> str:
        """A name on one line and cut if it is too long, with one warning for each."""
        plain = " ".join(name.split())
        short = shorten_name(plain)
        if len(plain) > MAX_NAME_LENGTH and short not in self._cut:
            self._cut.add(short)
            _log.warning("a name of %d characters was cut to %d: %s", len(plain), len(short), short)
        return short

    def _link(self, tail: VertexRecord, head: VertexRecord, relation: str, name: str, facts: Facts) -> bool:
        key = (tail.key, relation, head.key)
        record, is_new = self.edges.get(key), False
        if record is None:
            record, is_new = EdgeRecord(tail, head, relation, name, self._next_order), True
            self.edges[key] = record
            tail.leaving.append(record)
            head.reaching.append(record)
            self._next_order += 1
        self.version += record.absorb(facts) or is_new
        return is_new

    def _follow(self, start: VertexRecord, edges: list[EdgeRecord], limit: int | None) -> list[VertexRecord]:
        """Copy in edges of ``start`` of another graph up to the limit, and return the vertices that they reach anew."""
        reached = []
        for edge in edges:
            if limit is not None and len(self.edges) >= limit:
                break
            end = edge.target if edge.source is start else edge.source
            if end.key not in self.vertices:
                self.take_vertex(end)
                reached.append(end)
            self.take_edge(edge)
        return reached


def as_direction(direction: Direction | str) -> Direction:
    """A direction, given as such or by its value.

    Raises:
        UsageError: There is none of that name.
    """
    try:
        return Direction(direction)
    except ValueError:
        raise UsageError(f"direction is {direction!r}; give Direction.OUT, Direction.IN or Direction.BOTH") from None
