"""Community -> what its graph says of it, most important first."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from rag_transformers.graph import Edge, Graph, TiedGraph, Vertex, name_key
from rag_transformers.reports.citations import one_line
from rag_transformers.stores.keys import text_key

if TYPE_CHECKING:
    from rag_transformers.communities import Community

__all__ = ["Content", "GraphView", "Record"]

T = TypeVar("T", Vertex, Edge)


@dataclass(frozen=True, eq=False)
class Record(Generic[T]):
    """A vertex or an edge with its key.

    Args:
        key: (name,) of a vertex, (source, relation, target) of an edge.
        item: The vertex or the edge.
    """

    key: tuple[str, ...]
    item: T

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """What it says, each on one line: name and type, or source, target and relation; its description at the end."""
        return _fields(self.item)

    @cached_property
    def weight(self) -> float:
        """What an edge counts for; 0 for a vertex."""
        return self.item.weight if isinstance(self.item, Edge) else 0.0

    @property
    def ends(self) -> tuple[str, str]:
        """The keys of the vertices that it is about; of a vertex its own."""
        return self.key[0], self.key[-1]


class GraphView:
    """A graph for reading many of its communities: each vertex, and the edges that leave it, are read once, if at all.

    Args:
        graph: The graph; it should not change meanwhile.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._keys: dict[str, str] = {}
        self._vertices: dict[str, Record[Vertex]] = {}
        self._leaving: dict[str, Sequence[Record[Edge]]] = {}

    @cached_property
    def weight(self) -> float:
        """The weight of all edges."""
        if isinstance(self._graph, TiedGraph):
            return sum(max(1, len(tie.chunks)) if tie.weight is None else tie.weight for tie in self._graph.ties())
        return sum({edge.key: edge.weight for edge in self._graph.edges()}.values())

    def content(self, community: "Community") -> "Content":
        """What the graph says of a community."""
        vertices: dict[str, Record[Vertex]] = {}
        for name in community.vertices:
            key = self._key(name)
            vertices.setdefault(key, self._vertex(key, name))
        inner: list[Record[Edge]] = []
        leading: list[Record[Edge]] = []
        for source in vertices.values():
            for edge in self._edges_of(source):
                (inner if edge.key[2] in vertices else leading).append(edge)
        return _ranked(vertices, inner, leading)

    def keys(self, names: Iterable[str]) -> frozenset[str]:
        """The keys of vertices."""
        return frozenset(map(self._key, names))

    def _vertex(self, key: str, name: str) -> Record[Vertex]:
        if key not in self._vertices:
            self._vertices[key] = Record((key,), self._graph.get_vertex(name) or Vertex(name))
        return self._vertices[key]

    def _edges_of(self, vertex: Record[Vertex]) -> Sequence[Record[Edge]]:
        """The edges that leave a vertex, each once."""
        (key,) = vertex.key
        if key not in self._leaving:
            found: dict[tuple[str, ...], Record[Edge]] = {}
            for edge in self._graph.get_neighbor_edges(vertex.item.name):
                record = Record((key, self._key(edge.name), self._key(edge.target)), edge)
                found.setdefault(record.key, record)
            self._leaving[key] = tuple(found.values())
        return self._leaving[key]

    def _key(self, name: str) -> str:
        known = self._keys.get(name)
        if known is None:
            known = self._keys[name] = name_key(name)
        return known


@dataclass(frozen=True)
class Content:
    """What a graph says of a community.

    Args:
        vertices: Its vertices, the best-connected inside it first.
        edges: Its inner edges, those between the best-connected vertices first, then the weightiest.
        leading: The edges that lead out of it, in the same order.
    """

    vertices: Sequence[Record[Vertex]]
    edges: Sequence[Record[Edge]]
    leading: Sequence[Record[Edge]]

    @property
    def weight(self) -> float:
        """The weight of its inner edges."""
        return sum(record.weight for record in self.edges)

    def chunks(self) -> tuple[str, ...]:
        """The ids of the chunks behind its vertices and inner edges, those behind most of them first."""
        records: Iterable[Record[Vertex] | Record[Edge]] = chain(self.vertices, self.edges)
        counts = Counter(chunk for record in records for chunk in record.item.chunks)
        return tuple(sorted(counts, key=lambda chunk: (-counts[chunk], chunk)))

    def texts(self) -> Iterator[str]:
        """What is said of its vertices, then of its edges, most important first."""
        records: Iterable[Record[Vertex] | Record[Edge]] = chain(self.vertices, self.edges, self.leading)
        return (record.fields[-1] for record in records if record.fields[-1])

    @cached_property
    def key(self) -> str:
        """The hash of all that is said, in whatever order."""
        kinds = (("v", self.vertices), ("e", self.edges), ("x", self.leading))
        return text_key(*sorted("\n".join((kind, *record.fields)) for kind, records in kinds for record in records))


def _fields(item: Vertex | Edge) -> tuple[str, ...]:
    said = one_line(item.summary)
    if isinstance(item, Edge):
        return *_names(item.source, item.target, item.name), said
    return *_names(item.name), one_line(str(item.props.get("type") or "")), said


def _names(*names: str) -> tuple[str, ...]:
    return tuple(one_line(name) or "?" for name in names)


def _ranked(vertices: dict[str, Record[Vertex]], inner: list[Record[Edge]], leading: list[Record[Edge]]) -> Content:
    """Importance is counted inside the community, so that it changes with what is in it alone."""
    degree, weight = dict.fromkeys(vertices, 0), dict.fromkeys(vertices, 0.0)
    outside = Counter(record.key[0] for record in leading)
    for record in inner:
        for end in record.ends:
            degree[end] += 1
            weight[end] += record.weight
    order = sorted(vertices, key=lambda key: (-degree[key], -weight[key], -outside[key], key))
    inner.sort(key=lambda each: (-degree[each.key[0]] - degree[each.key[2]], -each.weight, each.key))
    leading.sort(key=lambda each: (-degree[each.key[0]], -each.weight, each.key))
    return Content([vertices[key] for key in order], inner, leading)
