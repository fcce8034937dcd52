"""What is given: one thing where many may be, a generator for a list, and other things than are wanted."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from rag_transformers import Edge, GraphIndex, MemoryGraph
from rag_transformers.documents.ids import given_ids
from rag_transformers.errors import UsageError
from rag_transformers.exports import export_graph, to_graph_documents
from rag_transformers.imports import import_source, read_source
from rag_transformers.view import view_html, write_view


@pytest.fixture
def index(tmp_path: Path) -> Iterator[GraphIndex]:
    """An index of the documents A, B and AB."""
    with GraphIndex.open(tmp_path / "index") as opened:
        opened.add(Document(f"Ada Moss founded House {name}.", metadata={"source": name}) for name in ("A", "B", "AB"))
        yield opened


def graph() -> MemoryGraph:
    made = MemoryGraph()
    made.upsert_edge(Edge("Ada", "Fen Mill", "runs"))
    return made


# One text is one id or source, never its characters.


def test_a_text_is_one_source_wherever_an_index_takes_several(index: GraphIndex) -> None:
    assert [document.id for document in index.documents("AB")] == ["AB"]
    chunk = index.chunks()[0]
    assert [found.id for found in index.chunks(str(chunk.id))] == [chunk.id]
    documents = index.as_document_index()
    assert [document.id for document in documents.get("AB")] == ["AB"]
    assert documents.delete("AB")["succeeded"] == ["AB"]
    assert index.remove("B").removed == 1
    assert index.sources() == ["A"]
    assert index.delete("A")


async def test_so_it_is_when_it_is_awaited(index: GraphIndex) -> None:
    assert (await index.as_document_index().adelete("AB"))["succeeded"] == ["AB"]
    assert (await index.aremove("A")).removed == 1
    assert await index.adelete("B")


def test_a_generator_does_for_several(index: GraphIndex) -> None:
    assert [document.id for document in index.documents(name for name in "AB")] == ["A", "B"]
    assert len(index.chunks(chunk.id or "" for chunk in index.chunks())) == 3
    documents = index.as_document_index()
    assert [document.id for document in documents.get(name for name in "AB")] == ["A", "B"]
    assert documents.delete(name for name in "AB")["succeeded"] == ["A", "B"]
    assert index.plan(iter([Document("New.", metadata={"source": "n"})]), sync=iter(["."])).documents == 1
    assert index.remove(name for name in ("AB", "gone")).removed == 1


def test_half_a_surrogate_pair_names_what_was_stored_without_it(index: GraphIndex) -> None:
    broken = "a\ud800"
    index.add(Document("Ada left Fen Mill.", metadata={"source": broken}))
    assert [document.page_content for document in index.documents(broken)] == ["Ada left Fen Mill."]
    assert index.chunks(broken) == []
    assert index.as_document_index().delete(broken)["num_deleted"] == 1
    told = index.as_document_index().upsert([Document("Ada left.", id=broken, metadata={"source": "x"})])
    assert index.as_document_index().get(told["succeeded"])[0].page_content == "Ada left."


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (None, "ids is None; give a text, or a list of texts"),
        (5, "ids is a int"),
        (b"A", "ids is a bytes"),
        (["A", 5], r"ids\[1\] is a int; it must be a text"),
        ([None], r"ids\[0\] is None"),
    ],
)
def test_what_is_no_id_is_named(given: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        given_ids("ids", given)
    assert given_ids("ids", Path("in") / "a.txt") == ["in/a.txt"]


@pytest.mark.parametrize("given", [None, 5, ["A", None], b"A"])
def test_an_index_refuses_what_is_no_source_and_changes_nothing(index: GraphIndex, given: Any) -> None:
    calls: list[Callable[[Any], Any]] = [index.documents, index.delete, index.remove, index.as_document_index().get]
    for call in (*calls, index.as_document_index().delete, *([index.chunks] if given else [])):
        with pytest.raises(UsageError, match=r"sources?|ids"):
            call(given)
    for sync in (5, ["a.txt", None]):
        with pytest.raises(UsageError, match=r"sync is or holds (5|None); give files and folders"):
            index.add(Document("New."), sync=sync)  # type: ignore[arg-type]
    assert index.sources() == ["A", "B", "AB"]


@pytest.mark.parametrize("given", ["Ada Moss left.", ["Ada Moss left."]])
def test_a_text_in_the_place_of_a_document_is_told_how_it_is_given(index: GraphIndex, given: Any) -> None:
    for call in (index.add, index.plan, index.doubles):
        told = (
            r"^Ada Moss left\.: no such file or folder; a text is given as Document\(text, metadata=\{'source': …\}\)$"
        )
        with pytest.raises(UsageError, match=told):
            call(given)


# The folder and its stores.


@pytest.mark.parametrize(("path", "what"), [("", "path is empty"), (None, "path is None"), (5, "path is 5")])
def test_an_index_wants_a_folder(path: Any, what: str) -> None:
    for call in (GraphIndex.open, GraphIndex.repair):
        with pytest.raises(UsageError, match=f"{what}; give the folder of the index"):
            call(path)


def test_a_store_in_the_place_of_what_makes_one_is_told_how_it_is_given(tmp_path: Path) -> None:
    store: Any = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    for call in (GraphIndex.open, GraphIndex.repair):
        with pytest.raises(UsageError, match=r"a InMemoryVectorStore; .*lambda name, embeddings: InMemoryVectorStore"):
            call(tmp_path / "index", vector_store=store)
        with pytest.raises(UsageError, match="vector_store is a str; give a function"):
            call(tmp_path / "index", vector_store="chroma")  # type: ignore[arg-type]
    assert not (tmp_path / "index").exists()


# Graphs that come and go.


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "no graph as documents": (lambda: to_graph_documents(None), "graph is a NoneType; give an index"),  # type: ignore[arg-type]
    "chunks as a text": (lambda: to_graph_documents(graph(), "abc"), "chunks is a str; give a list"),  # type: ignore[arg-type]
    "no chunks": (lambda: to_graph_documents(graph(), [5]), r"chunks\[0\] is a int; give chunks"),  # type: ignore[list-item]
    "chunks without ids": (
        lambda: to_graph_documents(graph(), [Document("Ada.")]),
        r"chunks\[0\] is a Document without an id",
    ),
    "communities": (lambda: to_graph_documents(graph(), communities=5), "communities is a int; give"),  # type: ignore[arg-type]
    "reports": (lambda: export_graph(graph(), "json", sys.stdout, reports=None), "reports is a NoneType"),  # type: ignore[arg-type]
    "a list of formats": (lambda: export_graph(graph(), ["json"], "x"), r"format is \['json'\]; it must be one of"),  # type: ignore[arg-type]
    "no file for a page": (lambda: write_view(graph(), None), "target is a NoneType; give a path"),  # type: ignore[arg-type]
    "a stream for a page": (lambda: write_view(graph(), sys.stdout), "target is a .*; give a path"),  # type: ignore[arg-type]
    "reports of a page": (lambda: view_html(graph(), reports=None), "reports is a NoneType; give those of an index"),  # type: ignore[arg-type]
    "communities of a page": (lambda: view_html(graph(), communities=5), "communities is a int; give those"),  # type: ignore[arg-type]
    "sources of a page": (lambda: view_html(graph(), sources=["a"]), "sources is a list; give a dict"),  # type: ignore[arg-type]
    "no source": (lambda: read_source(None), "path is None; give a folder that graphrag"),  # type: ignore[arg-type]
    "a blank source": (lambda: import_source("", "x"), "path is ''; give a folder that graphrag"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_wanted_instead_is_said(name: str) -> None:
    call, what = CALLS[name]
    with pytest.raises(UsageError, match=what):
        call()
