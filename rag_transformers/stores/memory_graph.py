"""The directed multigraph in memory: what all extractions say, folded."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import UsageError
from rag_transformers.graph import Direction, Edge, Extraction, Graph, Tie, Vertex
from rag_transformers.stores import graph_views
from rag_transformers.stores.graph_records import Facts, check_weight, facts_of
from rag_transformers.stores.multigraph import Multigraph, as_direction

if TYPE_CHECKING:
    import igraph
    import networkx as nx

__all__ = ["MemoryGraph"]


class MemoryGraph:
    """A directed multigraph of vertices and edges in memory; a :class:`~rag_transformers.graph.Graph`.

    A vertex is found under every spelling of its name (:func:`~rag_transformers.graph.name_key`) and shown under the
    one that most chunks use. An edge is known by source, relation and target. To insert what is there already is to
    merge: a blank never overwrites, descriptions and chunks are added, each once. What is read is a copy. Readers may
    work beside one writer in other threads.

    >>> graph = MemoryGraph()
    >>> graph.upsert_vertex(Vertex("Tidewater Bank", description="Lender"))
    >>> graph.append_edge(Edge("TIDEWATER BANK", "Pier 6", "finances", description="Loan"))
    True
    >>> [vertex.name for vertex in graph], "tidewater-bank" in graph
    (['Tidewater Bank', 'Pier 6'], True)
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._graph = Multigraph()

    @property
    def vertex_count(self) -> int:
        """The number of vertices."""
        return len(self._graph.vertices)

    @property
    def edge_count(self) -> int:
        """The number of edges."""
        return len(self._graph.edges)

    @property
    def version(self) -> int:
        """A number that grows with every change, and with nothing else."""
        return self._graph.version

    @property
    def skipped(self) -> int:
        """How many loops (edges from a vertex to itself) were dropped."""
        return self._graph.skipped

    def upsert_vertex(self, vertex: Vertex) -> None:
        """Insert a vertex, or merge it into the one that has its key.

        Raises:
            UsageError: A prop has a wrong form, see :class:`~rag_transformers.graph.Vertex`.
        """
        facts = facts_of(vertex)
        with self._lock:
            self._graph.fold_vertex(vertex.name, facts)

    def upsert_edge(self, edge: Edge) -> None:
        """Insert an edge, or merge it into the one that has its key; missing ends get a vertex.

        The chunks of the edge are added to its ends. The weight given by one chunk adds to that given by another, and
        counts once for the same. A loop is dropped and counted in ``skipped``.

        Raises:
            UsageError: A prop has a wrong form, see :class:`~rag_transformers.graph.Edge`.
        """
        self.append_edge(edge)

    def append_edge(self, edge: Edge) -> bool:
        """As :meth:`upsert_edge`, and say whether the edge is new."""
        facts = facts_of(edge)
        with self._lock:
            return self._graph.fold_edge(edge.source, edge.name, edge.target, facts)

    def add(self, extraction: Extraction, chunk: str) -> int:
        """Fold in what was found in one chunk; adding the same again changes nothing.

        A vertex has the prop ``unheld`` as long as no chunk that speaks of it holds its name, and an edge as long as
        none holds the names of both its ends; the order of folding does not matter.

        Args:
            extraction: What was found. Of several types of one vertex the first one read stays.
            chunk: The id of the chunk.

        Returns:
            The number of loops that were dropped.

        Raises:
            UsageError: ``chunk`` is empty, or a weight is no number from 0.

        >>> graph = MemoryGraph()
        >>> found = Extraction([("刘备", "字玄德")], [("刘备", "结义", "张飞", "桃园"), ("刘备", "是", "刘备", "")])
        >>> graph.add(found, "c1")
        1
        >>> graph.get_vertex("张飞").chunks
        ('c1',)
        """
        if not isinstance(chunk, str) or not chunk.strip():
            raise UsageError(f"chunk is {chunk!r}; give the id of the chunk that the extraction comes from")
        weights = [check_weight(weight) for weight in extraction.weights] or [None] * len(extraction.relationships)
        types = extraction.types or ("",) * len(extraction.entities)
        with self._lock:
            graph, before = self._graph, self._graph.skipped
            unheld = {graph.key(name) for name in extraction.unheld}
            for (name, summary), kind in zip(extraction.entities, types, strict=True):
                record = graph.fold_vertex(name, Facts(_said(summary), (chunk,)))
                if kind.strip() and "type" not in (record.props or {}):
                    graph.version += record.absorb(Facts(props={"type": kind.strip()}))
            for (source, relation, target, summary), weight in zip(extraction.relationships, weights, strict=True):
                lacks = (chunk,) if unheld and not unheld.isdisjoint((graph.key(source), graph.key(target))) else ()
                graph.fold_edge(source, relation, target, Facts(_said(summary), (chunk,), weight, None, lacks))
            graph.note_lacking(unheld, chunk)
            return graph.skipped - before

    def summarise(self, summaries: Mapping[str | tuple[str, str, str], str]) -> None:
        """Set what many descriptions were made into, as the prop ``summary``, in place of all that was set before.

        Args:
            summaries: The text by the key of a vertex, or by that of an edge: (source, relation, target). What the
                graph does not hold is passed over.

        >>> graph = MemoryGraph()
        >>> graph.upsert_vertex(Vertex("Ada Moss", descriptions=["A founder.", "A banker."]))
        >>> graph.summarise({"ada moss": "A founder and banker."})
        >>> graph.get_vertex("Ada Moss").summary
        'A founder and banker.'
        """
        with self._lock:
            self._graph.set_prop("summary", summaries)

    def copy(self) -> "MemoryGraph":
        """A graph that holds the same and shares nothing with this one."""
        twin = MemoryGraph()
        twin._graph = self._copy()
        return twin

    def merge(self, other: Graph) -> None:
        """Fold in another graph, as if its upserts came after those of this one."""
        if not isinstance(other, MemoryGraph):
            for vertex in other.vertices():
                self.upsert_vertex(vertex)
            for edge in other.edges():
                self.upsert_edge(edge)
            return
        twin = other._copy()
        with self._lock:
            for vertex_record in twin.vertices.values():
                self._graph.take_vertex(vertex_record)
            for edge_record in twin.edges.values():
                self._graph.take_edge(edge_record)

    def get_vertex(self, name: str) -> Vertex | None:
        """The vertex of that name in any spelling, or None."""
        with self._lock:
            record = self._graph.vertices.get(self._graph.key(name))
            return None if record is None else Vertex(record.name, **record.freeze().thaw())

    def get_neighbor_edges(
        self, name: str, direction: Direction = Direction.OUT, limit: int | None = None
    ) -> Iterator[Edge]:
        """The edges of one vertex, in the order of their insertion, at most ``limit``; none for an unknown vertex.

        Raises:
            UsageError: ``limit`` is negative.
        """
        _check_bound("limit", limit)
        with self._lock:
            frozen = [record.freeze() for record in self._graph.edges_of(self._graph.key(name), direction, limit)]
        return (Edge(*row.names, **row.thaw()) for row in frozen)

    def strongest_edges(
        self, name: str, limit: int, others: Iterable[str] = (), chunks: Iterable[str] = ()
    ) -> list[Edge]:
        """The edges of one vertex that matter most, both directions; only those that are returned are copied.

        First come those that join it to one of some others, then those that some chunks speak of, then the strongest;
        of equal ones those inserted first.

        Args:
            name: The vertex, in any spelling; none for an unknown one.
            limit: How many at most, at least 0.
            others: Names of other vertices, in any spelling.
            chunks: Ids of chunks.

        Raises:
            UsageError: ``limit`` is negative.
        """
        _check_bound("limit", limit)
        with self._lock:
            near, told = {self._graph.key(other) for other in others}, set(chunks)
            frozen = [edge.freeze() for edge in self._graph.strongest(self._graph.key(name), limit, near, told)]
        return [Edge(*row.names, **row.thaw()) for row in frozen]

    def names_by_chunk(self) -> dict[str, list[str]]:
        """For the id of each chunk the names of the vertices that come from it, both in the order of insertion."""
        found: dict[str, list[str]] = {}
        with self._lock:
            for record in self._graph.vertices.values():
                for chunk in record.said_in():
                    found.setdefault(chunk, []).append(record.name)
        return found

    def search(
        self,
        seeds: str | Iterable[str],
        direction: Direction = Direction.BOTH,
        depth: int | None = None,
        fan: int | None = None,
        limit: int | None = None,
    ) -> "MemoryGraph":
        """What is reached from some vertices, breadth-first by hop and in the order of insertion.

        Args:
            seeds: Names to start from, in any spelling; unknown ones are passed over.
            direction: Which edges to follow.
            depth: How many hops at most; None for no limit, and 0 for the seeds alone, as in the other bounds.
            fan: How many edges of one vertex to follow at most.
            limit: How many edges the result has at most.

        Returns:
            The edges followed and both ends of each, whole; a copy.

        Raises:
            UsageError: A bound is negative, or the direction is none.

        >>> graph = MemoryGraph()
        >>> for source, target in ("ab", "bc", "cd"):
        ...     graph.upsert_edge(Edge(source, target, "next"))
        >>> [vertex.name for vertex in graph.search("a", depth=2)]
        ['a', 'b', 'c']
        """
        direction = as_direction(direction)
        for what, bound in (("depth", depth), ("fan", fan), ("limit", limit)):
            _check_bound(what, bound)
        found = MemoryGraph()
        with self._lock:
            keys = [self._graph.key(name) for name in ([seeds] if isinstance(seeds, str) else seeds)]
            found._graph = self._graph.reach(keys, direction, depth, fan, limit)
        return found

    def vertices(self) -> Iterator[Vertex]:
        """All vertices as they are now, in the order of their insertion."""
        with self._lock:
            frozen = [record.freeze() for record in self._graph.vertices.values()]
        return (Vertex(*row.names, **row.thaw()) for row in frozen)

    def edges(self) -> Iterator[Edge]:
        """All edges as they are now, in the order of their insertion."""
        with self._lock:
            frozen = [record.freeze() for record in self._graph.edges.values()]
        return (Edge(*row.names, **row.thaw()) for row in frozen)

    def described(self, least: int) -> Iterator[Vertex | Edge]:
        """The vertices, and then the edges, that have at least so many descriptions; only those are copied."""
        with self._lock:
            vertices = [each.freeze() for each in self._graph.vertices.values() if each.description_count() >= least]
            edges = [each.freeze() for each in self._graph.edges.values() if each.description_count() >= least]
        for row in vertices:
            yield Vertex(*row.names, **row.thaw())
        for row in edges:
            yield Edge(*row.names, **row.thaw())

    def names(self) -> dict[str, str]:
        """The name shown of each vertex by its key, in the order of insertion."""
        with self._lock:
            return {key: record.name for key, record in self._graph.vertices.items()}

    def ties(self) -> list[Tie]:
        """All edges by the keys of their ends, with what they weigh by: no more of them is copied."""
        with self._lock:
            edges = self._graph.edges.values()
            return [Tie(each.source.key, each.target.key, each.said_in(), each.weight()) for each in edges]

    def del_vertices(self, *names: str) -> int:
        """Delete vertices and all their edges; return how many vertices there were."""
        with self._lock:
            return self._graph.drop_vertices(self._graph.key(name) for name in names)

    def del_edges(self, source: str, target: str, name: str | None = None) -> int:
        """Delete the edges from one vertex to another, all or those of one relation; return how many there were."""
        with self._lock:
            key = self._graph.key
            between = [e for e in self._graph.edges_of(key(source), Direction.OUT) if e.target.key == key(target)]
            return self._graph.drop_edges(e for e in between if name is None or e.relation == key(name))

    def del_neighbor_edges(self, name: str, direction: Direction = Direction.OUT) -> int:
        """Delete the edges of one vertex; return how many there were."""
        with self._lock:
            return self._graph.drop_edges(self._graph.edges_of(self._graph.key(name), direction))

    def schema(self) -> dict[str, Any]:
        """The kinds of things in the graph, how many there are, and the names and types of their props."""
        return graph_views.schema(self)

    def format(self) -> str:
        """The graph as a text in the record format, which ``parse_records`` reads back."""
        return graph_views.format_graph(*self._both())

    def graphviz(self) -> str:
        """The graph in the DOT language of Graphviz."""
        return graph_views.graphviz(*self._both())

    def to_networkx(self) -> "nx.MultiDiGraph[str]":
        """A copy for networkx: node ids are the names shown, edge keys the relations, attributes plain values."""
        return graph_views.to_networkx(*self._both())

    def to_igraph(self) -> "igraph.Graph":
        """A copy for igraph, directed: vertices and edges in the order of this graph, with ``name`` and ``weight``."""
        import igraph

        with self._lock:
            number = {key: place for place, key in enumerate(self._graph.vertices)}
            names = [record.name for record in self._graph.vertices.values()]
            pairs = [(number[source], number[target]) for source, _, target in self._graph.edges]
            records = self._graph.edges.values()
            edge_attrs = {"name": [r.name for r in records], "weight": [r.strength() for r in records]}
        return igraph.Graph(len(names), pairs, directed=True, vertex_attrs={"name": names}, edge_attrs=edge_attrs)

    def __len__(self) -> int:
        return self.vertex_count

    def __contains__(self, name: object) -> bool:
        name = name.name if isinstance(name, Vertex) else name
        return isinstance(name, str) and self._graph.key(name) in self._graph.vertices

    def __iter__(self) -> Iterator[Vertex]:
        return self.vertices()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryGraph) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"MemoryGraph({self.vertex_count} vertices, {self.edge_count} edges)"

    def _repr_html_(self) -> str:
        """What a notebook shows: a picture of a small graph, a table of a large one."""
        from rag_transformers.view.notebook import graph_html

        return graph_html(self)

    def _both(self) -> tuple[Iterator[Vertex], Iterator[Edge]]:
        with self._lock:
            return self.vertices(), self.edges()

    def _copy(self) -> Multigraph:
        with self._lock:
            return self._graph.copy()

    def _content(self) -> tuple[dict[Any, Any], dict[Any, Any]]:
        with self._lock:
            vertices = {key: record.freeze() for key, record in self._graph.vertices.items()}
            return vertices, {record.key: record.freeze() for record in self._graph.edges.values()}


def _said(summary: str) -> tuple[str, ...]:
    summary = summary.strip()
    return (summary,) if summary else ()


def _check_bound(what: str, bound: int | None) -> None:
    if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
        raise UsageError(f"{what} is {bound!r}; give None for no limit, or a whole number from 0")
