"""A graph as something else: text in the record format, DOT, networkx, a schema."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rag_transformers.graph import Edge, Extraction, Graph, Vertex

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["format_graph", "graphviz", "schema", "to_networkx"]


def schema(graph: Graph) -> dict[str, Any]:
    """The kinds of things in a graph, how many there are, and the names and types of their props, sorted."""
    kinds = ("VERTEX", graph.vertices()), ("EDGE", graph.edges())
    return {"schema": [_kind(kind, things) for kind, things in kinds]}


def format_graph(vertices: Iterable[Vertex], edges: Iterable[Edge]) -> str:
    """Vertices and edges in the record format, one record for each description."""
    from rag_transformers.records import format_records

    entities = [(vertex.name, text) for vertex in vertices for text in vertex.descriptions or ("",)]
    relationships = [(e.source, e.name, e.target, text) for e in edges for text in e.descriptions or ("",)]
    return format_records(Extraction(entities, relationships))


def graphviz(vertices: Iterable[Vertex], edges: Iterable[Edge]) -> str:
    """A graph in the DOT language, every vertex once and every edge in its direction."""
    nodes = [f"  {_quoted(vertex.name)};" for vertex in vertices]
    arrows = [f"  {_quoted(e.source)} -> {_quoted(e.target)} [label={_quoted(e.name)}];" for e in edges]
    return "\n".join(["digraph {", *nodes, *arrows, "}"])


def to_networkx(vertices: Iterable[Vertex], edges: Iterable[Edge]) -> "nx.MultiDiGraph[str]":
    """A networkx graph with plain attributes: lists and the like are JSON, so that every writer takes them."""
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    graph.add_nodes_from((vertex.name, _plain(vertex.props)) for vertex in vertices)
    rows: Any = ((e.source, e.target, e.name, {"name": e.name, "weight": e.weight, **_plain(e.props)}) for e in edges)
    graph.add_edges_from(rows)
    return graph


def _kind(kind: str, things: Iterable[Vertex | Edge]) -> dict[str, Any]:
    count, types = 0, {}
    for thing in things:
        count += 1
        types.update({name: type(value).__name__ for name, value in thing.props.items()})
    return {
        "type": kind,
        "count": count,
        "properties": [{"name": name, "type": types[name]} for name in sorted(types)],
    }


def _plain(props: dict[str, Any]) -> dict[str, str | int | float | bool]:
    # The descriptions are in ``description`` already, joined.
    return {name: _scalar(value) for name, value in props.items() if name != "descriptions"}


def _scalar(value: Any) -> str | int | float | bool:
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False, default=str)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
