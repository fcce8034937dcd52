"""An index over vector stores of one's own: the same answers as over Chroma, whatever keeps the vectors."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from rag_transformers import GraphIndex
from rag_transformers.errors import StorageError, UsageError

EMBEDDINGS = DeterministicFakeEmbedding(size=8)
TEXTS = {
    "pier": "Ada Moss founded Grain Trust at Pier 6. Grain Trust lends to the mill.",
    "mill": "Orrin Vale repaired the mill at Mill Lane. Ada Moss visited the mill.",
    "水厂": "林溪水厂位于北岸。沈若楠创办了林溪水厂。",
}


def documents() -> list[Document]:
    return [Document(text, metadata={"source": source}) for source, text in TEXTS.items()]


class Kept:
    """Stores that outlive the index, as those of a server do."""

    def __init__(self) -> None:
        self.stores: dict[str, VectorStore] = {}

    def __call__(self, name: str, embeddings: Embeddings) -> VectorStore:
        return self.stores.setdefault(name, InMemoryVectorStore(embeddings))


def asked(index: GraphIndex) -> list[tuple[Any, ...]]:
    questions = ("Who founded Grain Trust?", "谁创办了林溪水厂？", "mill")
    return [(index.query(q).text, [(d.id, d.metadata["score"]) for d in index.retrieve(q)]) for q in questions]


@pytest.mark.parametrize("most", [None, 0])
def test_answers_are_those_over_chroma_after_any_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    """With vectors in memory, and with so many that the store itself is asked."""
    if most is not None:
        monkeypatch.setattr("rag_transformers.retrieval.searching.MOST_BYTES", most)
    kept = Kept()
    llm: RunnableLambda[Any, str] = RunnableLambda(
        lambda prompt: "Entities:\n(Ada Moss#Founder)\nRelationships:\n(Ada Moss#knows#Orrin Vale#)"
    )
    own = GraphIndex.open(tmp_path / "own", llm, EMBEDDINGS, reports=False, vector_store=kept)
    other = GraphIndex.open(tmp_path / "chroma", llm, EMBEDDINGS, reports=False)
    with own, other:
        for index in (own, other):
            index.add(documents())
            index.delete("mill")
            index.add(Document("Ada Moss sold the pier.", metadata={"source": "pier"}))
            index.add(documents()[1])
        assert asked(own) == asked(other)
        assert set(kept.stores) == {"sentences", "history"}
        assert not (tmp_path / "own" / "chroma").exists()
    with GraphIndex.open(tmp_path / "own", llm, EMBEDDINGS, reports=False, vector_store=kept) as again:
        assert again.add(documents()[1]).unchanged == 1
        assert asked(again)[0][0]


def test_what_is_no_vector_store_is_named(tmp_path: Path) -> None:
    wrong: Any = lambda name, embeddings: {}  # noqa: E731
    with (
        GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS, vector_store=wrong) as index,
        pytest.raises(UsageError, match="vector_store gave dict for 'sentences'; it must give a VectorStore"),
    ):
        index.add(documents())


def held(kept: Kept, name: str = "sentences") -> list[str]:
    store: Any = kept.stores[name]
    return sorted(entry["text"] for entry in store.store.values())


def test_a_store_that_was_emptied_or_is_another_is_filled_by_the_next_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And until then questions are answered from the vectors that are kept with the index."""
    monkeypatch.setattr("rag_transformers.retrieval.searching.MOST_BYTES", 0)
    kept = Kept()
    with GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS) as index:
        index.add(documents())
        answers = asked(index)
    with GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS, vector_store=kept) as index:
        assert asked(index) == answers
        index.add(documents())
        assert held(kept) == sorted(TEXTS.values())
        assert asked(index) == answers
    with GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS) as index:
        index.add(Document("Bo Wills left.", metadata={"source": "bo"}))
        assert len(index.retrieve("Bo Wills", 9)) == 4
    with GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS, vector_store=kept) as index:
        index.add(documents()[0])
        assert len(index.retrieve("Bo Wills", 9)) == 4


class Failing(InMemoryVectorStore):
    """A store whose server is down when ``down`` names what is asked of it."""

    down = ""

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        if self.down == "delete":
            raise RuntimeError("503: overloaded")
        super().delete(ids, **kwargs)

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        if self.down == "get":
            raise RuntimeError("503: overloaded")
        return super().get_by_ids(ids)

    def similarity_search_by_vector(self, *args: Any, **kwargs: Any) -> list[Document]:
        if self.down == "search":
            raise RuntimeError("503: overloaded")
        return super().similarity_search_by_vector(*args, **kwargs)


def test_a_store_that_fails_is_named_and_what_it_kept_too_long_goes_with_the_next_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_transformers.retrieval.searching.MOST_BYTES", 0)
    kept = Kept()
    kept.stores["sentences"] = store = Failing(EMBEDDINGS)
    with GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS, vector_store=kept) as index:
        index.add(documents())
        answers = asked(index)
        store.down = "search"
        assert asked(index) == answers, "from the vectors that are kept with the index"
        store.down = "get"
        with pytest.raises(StorageError, match="the vector store failed: RuntimeError: 503: overloaded"):
            index.delete("mill")
        assert "mill" in index.sources(), "nothing was changed, since the store could not be asked"
        store.down = "delete"
        with pytest.raises(StorageError, match="the vector store failed"):
            index.delete("mill")
        assert "mill" not in index.sources()
        assert TEXTS["mill"] in held(kept)
        store.down = ""
    with GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS, vector_store=kept) as index:
        assert not index.delete("mill"), "it is gone already"
        assert TEXTS["mill"] not in held(kept)
        assert {chunk.metadata["source"] for chunk in index.retrieve("mill", 9)} == {"pier", "水厂"}


def test_a_deleted_text_goes_from_the_history_of_a_store_too(tmp_path: Path) -> None:
    kept = Kept()
    llm: RunnableLambda[Any, str] = RunnableLambda(lambda prompt: "Entities:\n(Ada Moss#Founder)")
    with GraphIndex.open(tmp_path / "i", llm, EMBEDDINGS, reports=False, vector_store=kept) as index:
        index.add(documents())
        assert held(kept, "history") == sorted(TEXTS.values())
    with GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS, vector_store=kept) as index:
        index.delete("mill")
    assert TEXTS["mill"] not in held(kept, "history")
