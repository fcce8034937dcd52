"""A graph as LangChain's graph documents, for the ``add_graph_documents`` of its graph stores.

A vertex is a node: its id is the name, its label the type. An edge is a relationship: its type is the relation, in a
form that every database takes as a name, and ``properties["name"]`` the relation as it stands. What a text says never
becomes part of a query: labels and types are made of letters, digits and underscores alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from rag_transformers.errors import UsageError
from rag_transformers.exports.escapes import json_text
from rag_transformers.exports.rows import GraphRows, Row
from rag_transformers.graph import Graph
from rag_transformers.text import encodable

if TYPE_CHECKING:
    from langchain_neo4j.graphs.graph_document import GraphDocument

    from rag_transformers.index import GraphIndex

__all__ = ["to_graph_documents"]

_HOMES = ("langchain_neo4j.graphs.graph_document", "langchain_community.graphs.graph_document")
_NO_WORD = re.compile(r"\W+")


def to_graph_documents(
    graph: "Graph | GraphIndex",
    chunks: Iterable[Document] = (),
    *,
    communities: Iterable[Mapping[str, Any]] = (),
    label: str | None = None,
) -> "list[GraphDocument]":
    """A graph as LangChain's graph documents; needs langchain-neo4j, or langchain-community.

    Without chunks there is one document, with every node and every relationship once. With chunks there is one for each
    that something comes from, with the chunk as its source, so that ``include_source=True`` ties it to all that it
    mentions: a node then stands in the document of each of its chunks, the same each time, and a relationship in that
    of its first. What comes from none of the chunks is in a last document. Descriptions are merged before: a node or
    relationship has one ``description``.

    Args:
        graph: What to give; an index gives its chunks and communities too.
        chunks: The chunks that the graph comes from, with their ids, as ``GraphIndex.chunks`` gives them.
        communities: As dicts; a node gets the id of its community of level 0.
        label: The label of all nodes; by default each has its type, or ``Entity``. Kuzu needs one, for there a type of
            relationship joins two labels alone. The type stands in ``properties["kind"]`` in any case.

    Raises:
        UsageError: No graph, chunks that are none or have no ids, neither package is installed, a label that is no
            name, or a value that cannot be exported.

    >>> from rag_transformers import Edge, MemoryGraph
    >>> graph = MemoryGraph()
    >>> graph.upsert_edge(Edge("Ada Moss", "Grain Trust", "set up"))
    >>> [document] = to_graph_documents(graph)  # doctest: +SKIP
    >>> [(tie.source.id, tie.type, tie.target.id) for tie in document.relationships]  # doctest: +SKIP
    [('Ada Moss', 'SET_UP', 'Grain Trust')]
    """
    if label is not None and not (isinstance(label, str) and label and label == _word(label)):
        raise UsageError(f"label is {label!r}; give a name of letters, digits and underscores, a letter first")
    if not isinstance(graph, Graph):
        if not hasattr(graph, "contents"):
            raise UsageError(f"graph is a {type(graph).__name__}; give an index, or its attribute graph")
        index = graph
        graph, found, _ = index.contents()
        chunks, communities = (
            list(_by_id(chunks).values()) or index.chunks(),
            [community.to_dict() for community in found],
        )
    by_id, rows, kinds = _by_id(chunks), GraphRows.read(graph, communities), _kinds()
    nodes = {row["name"]: _node(row, label, kinds) for row in rows.vertex_rows()}
    ties = list(_relationships(rows, nodes, kinds))
    if not by_id:
        source = Document("", metadata={"id": "graph", "source": "graph"})
        said = [kinds.GraphDocument(nodes=list(nodes.values()), relationships=ties, source=source)]
        return said if nodes else []
    return _by_chunk(nodes, ties, by_id, kinds)


def _by_id(chunks: Any) -> dict[str, Document]:
    """Chunks by their ids."""
    if not isinstance(chunks, Iterable) or isinstance(chunks, str | Document):
        raise UsageError(f"chunks is a {type(chunks).__name__}; give a list of chunks, as GraphIndex.chunks gives it")
    found = {}
    for number, chunk in enumerate(chunks):
        if not isinstance(chunk, Document) or chunk.id is None:
            kind = "a Document without an id" if isinstance(chunk, Document) else f"a {type(chunk).__name__}"
            raise UsageError(f"chunks[{number}] is {kind}; give chunks as GraphIndex.chunks gives them")
        found[str(chunk.id)] = chunk
    return found


def _kinds() -> Any:
    import importlib

    for home in _HOMES:
        try:
            return importlib.import_module(home)
        except ImportError:
            continue
    raise UsageError("graph documents need another package: pip install 'rag-transformers[langchain-graphs]'")


def _node(row: Row, label: str | None, kinds: Any) -> Any:
    label = label or _word(str(row.get("type", ""))) or "Entity"
    return kinds.Node(id=encodable(row["name"]), type=label, properties=_properties(row))


def _relationships(rows: GraphRows, nodes: Mapping[str, Any], kinds: Any) -> Iterator[Any]:
    taken: set[tuple[str, str, str]] = set()
    for row in rows.edge_rows():
        source, target = row.pop("source"), row.pop("target")
        wanted = kind = _word(row["name"]).upper() or "RELATED_TO"
        number = 1
        while (source, kind, target) in taken:  # a store knows a relationship by its ends and its type alone
            number += 1
            kind = f"{wanted}_{number}"
        taken.add((source, kind, target))
        yield kinds.Relationship(source=nodes[source], target=nodes[target], type=kind, properties=_properties(row))


def _by_chunk(nodes: Mapping[str, Any], ties: list[Any], chunks: Mapping[str, Document], kinds: Any) -> list[Any]:
    said: dict[str, tuple[list[Any], list[Any]]] = {id: ([], []) for id in (*chunks, "")}
    for node in nodes.values():
        for id in [id for id in node.properties.get("chunks", ()) if id in chunks] or [""]:
            said[id][0].append(node)
    for tie in ties:
        said[next((id for id in tie.properties.get("chunks", ()) if id in chunks), "")][1].append(tie)
    rest = Document("", metadata={"id": "graph", "source": "graph"})
    return [
        kinds.GraphDocument(nodes=some, relationships=few, source=_source(id, chunks[id]) if id else rest)
        for id, (some, few) in said.items()
        if some or few
    ]


def _source(id: str, chunk: Document) -> Document:
    """A chunk as a source: its id is in the metadata, where stores look for it, and all of these are plain values."""
    metadata = {name: value if _is_plain(value) else json_text(value) for name, value in chunk.metadata.items()}
    return Document(encodable(chunk.page_content), id=id, metadata={**metadata, "id": id})


def _properties(row: Row) -> Row:
    """Plain values: text, numbers, and lists of text; one description, and no list of those that it was made of."""
    kept = {name: value for name, value in row.items() if name not in ("descriptions", "type")}
    if "type" in row:
        kept["kind"] = row["type"]
    return {
        encodable(name): encodable(value) if isinstance(value, str) else value if _is_plain(value) else json_text(value)
        for name, value in kept.items()
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, str | int | float)


def _word(text: str) -> str:
    """A text as one name of a label or type: letters, digits and underscores, a letter first."""
    word = _NO_WORD.sub("_", encodable(text)).strip("_")
    return f"_{word}" if word[:1].isdigit() else word
