"""A graph as LangChain's graph documents: each thing once, whole, and safe to be written into a query."""

import re
from collections.abc import Iterable
from typing import Any

import networkx as nx
import pytest
from langchain_core.documents import Document

from rag_transformers import Edge, GraphIndex, MemoryGraph, Vertex
from rag_transformers.errors import UsageError
from rag_transformers.exports.graph_documents import to_graph_documents

langchain_neo4j = pytest.importorskip("langchain_neo4j", reason="the extra langchain-graphs is not installed")


class NetworkxStore:
    """A graph store as LangChain's are: nodes are merged by label and id, relationships by their ends and type."""

    def __init__(self) -> None:
        self.graph: Any = nx.MultiDiGraph()
        self.mentions: set[tuple[str, str]] = set()
        self.writes = 0

    def add_graph_documents(self, documents: Iterable[Any], include_source: bool = False) -> None:
        for document in documents:
            for node in document.nodes:
                assert self.graph.nodes.get(node.id, node.properties) == node.properties, "a node that says two things"
                self.graph.add_node(node.id, **node.properties)
                if include_source:
                    self.mentions.add((document.source.metadata["id"], node.id))
            for tie in document.relationships:
                self.writes += 1
                assert {tie.source.id, tie.target.id} <= set(self.graph)
                self.graph.add_edge(tie.source.id, tie.target.id, tie.type, **tie.properties)


def small_graph() -> MemoryGraph:
    graph = MemoryGraph()
    graph.upsert_vertex(Vertex("Ada Moss", descriptions=["A founder.", "A banker."], chunks=["c0"], type="person"))
    graph.upsert_edge(Edge("Ada Moss", "听雨楼", "拥有", description="She bought it.", chunks=["c1"]))
    graph.upsert_edge(Edge("Ada Moss", "Grain Trust", "set up", description="In 1998.", chunks=["c0", "c1"], weight=3))
    return graph


CHUNKS = [
    Document("Ada Moss set up Grain Trust.", id="c0", metadata={"source": "a.txt", "pages": {"first": 1}}),
    Document("She owns 听雨楼.", id="c1", metadata={"source": "b.txt"}),
    Document("Nothing.", id="c2", metadata={"source": "c.txt"}),
]


def test_without_chunks_each_node_and_relationship_comes_once_in_one_document() -> None:
    graph = small_graph()
    graph.summarise({"ada moss": "A founder and banker."})
    [document] = to_graph_documents(graph)
    nodes = {node.id: node for node in document.nodes}
    assert sorted(nodes) == ["Ada Moss", "Grain Trust", "听雨楼"]
    assert (nodes["Ada Moss"].type, nodes["Grain Trust"].type) == ("person", "Entity")
    assert nodes["Ada Moss"].properties["description"] == "A founder and banker."
    assert "descriptions" not in nodes["Ada Moss"].properties
    ties = [(tie.source.id, tie.type, tie.target.id, tie.properties["name"]) for tie in document.relationships]
    assert ties == [
        ("Ada Moss", "SET_UP", "Grain Trust", "set up"),
        ("Ada Moss", "拥有", "听雨楼", "拥有"),
    ]
    assert document.relationships[0].properties["weight"] == 3.0


def test_with_chunks_a_store_gets_each_relationship_once_and_all_mentions() -> None:
    graph, store = small_graph(), NetworkxStore()
    documents: list[Any] = to_graph_documents(graph, CHUNKS)
    assert [document.source.page_content for document in documents] == [chunk.page_content for chunk in CHUNKS[:2]]
    store.add_graph_documents(documents, include_source=True)
    assert store.writes == graph.edge_count == store.graph.number_of_edges()
    assert store.mentions == {(chunk, vertex.name) for vertex in graph for chunk in vertex.chunks}
    assert documents[0].source.metadata == {"source": "a.txt", "pages": '{"first": 1}', "id": "c0"}


def test_what_comes_from_no_chunk_is_not_lost() -> None:
    graph = small_graph()
    graph.upsert_edge(Edge("Bo", "Di", "knows"))
    documents = to_graph_documents(graph, CHUNKS)
    assert [node.id for node in documents[-1].nodes] == ["Bo", "Di"]
    assert len(documents[-1].relationships) == 1


def test_an_index_gives_its_chunks_and_communities(tmp_path: Any) -> None:
    with GraphIndex.open(tmp_path / "index") as index:
        index.add([Document("Ada Moss founded Grain Trust.", metadata={"source": "letters.txt"})])
        document: Any = to_graph_documents(index)[0]
        assert document.source.metadata["source"] == "letters.txt"
        assert {node.properties["community"] for node in document.nodes} == {index.communities[0].id}


@pytest.mark.parametrize("name", ["a`) DETACH DELETE n //", "}) RETURN 1", "1st", "works\nfor", "…", "\ud800"])
def test_labels_and_types_are_safe_names_whatever_a_text_says(name: str) -> None:
    graph = MemoryGraph()
    graph.upsert_vertex(Vertex("Ada", type=name))
    graph.upsert_edge(Edge("Ada", "Bo", name))
    [document] = to_graph_documents(graph)
    for word in (document.nodes[0].type, document.relationships[0].type):
        assert re.fullmatch(r"[^\W\d]\w*", word), word


def test_relations_that_look_alike_as_types_stay_apart() -> None:
    graph, store = MemoryGraph(), NetworkxStore()
    for relation in ("is: part of", "is / part of", "is? part of"):
        graph.upsert_edge(Edge("Ada", "Bo", relation))
    store.add_graph_documents(to_graph_documents(graph))
    assert sorted(store.graph["Ada"]["Bo"]) == ["IS_PART_OF", "IS_PART_OF_2", "IS_PART_OF_3"]


def test_one_label_for_all_keeps_the_type_as_a_property() -> None:
    [document] = to_graph_documents(small_graph(), label="Entity")
    assert {node.type for node in document.nodes} == {"Entity"}
    assert document.nodes[0].properties["kind"] == "person"
    for label in ("", "a b", "1st", 7):
        with pytest.raises(UsageError, match="label is"):
            to_graph_documents(small_graph(), label=label)  # type: ignore[arg-type]


def test_properties_are_plain_values() -> None:
    graph = MemoryGraph()
    graph.upsert_vertex(Vertex("Ada", spans=[[1, 2]], score=0.5, born=1990, aliases=["A.", "Moss"]))
    properties = to_graph_documents(graph)[0].nodes[0].properties
    assert {name: properties[name] for name in ("spans", "score", "born", "aliases")} == {
        "spans": "[[1, 2]]",
        "score": 0.5,
        "born": 1990,
        "aliases": ["A.", "Moss"],
    }


def test_an_empty_graph_has_no_documents() -> None:
    assert to_graph_documents(MemoryGraph()) == []


def test_neo4j_is_sent_every_node_and_relationship(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    store = langchain_neo4j.Neo4jGraph.__new__(langchain_neo4j.Neo4jGraph)
    monkeypatch.setattr(store, "_check_driver_state", lambda: None, raising=False)
    monkeypatch.setattr(store, "query", lambda text, params=None: sent.append(params), raising=False)
    store.add_graph_documents(to_graph_documents(small_graph(), CHUNKS), include_source=True)
    rows = [row for params in sent for row in params["data"]]
    assert [row["type"] for row in rows if "source" in row] == ["SET_UP", "拥有"]
    assert {row["id"] for row in rows if "id" in row} == {"Ada Moss", "Grain Trust", "听雨楼"}
    assert [params["document"]["metadata"]["id"] for params in sent if "document" in params] == ["c0", "c1"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = __import__("sys").modules
    for home in ("langchain_neo4j", "langchain_community"):
        for name in [name for name in modules if name.split(".")[0] == home]:
            monkeypatch.delitem(modules, name)
        monkeypatch.setitem(modules, home, None)
    with pytest.raises(UsageError, match=r"pip install 'rag-transformers\[langchain-graphs\]'"):
        to_graph_documents(small_graph())
