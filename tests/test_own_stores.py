"""An index over vector stores of one's own: the same answers as over Chroma, whatever keeps the vectors."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from rag_transformers import GraphIndex
from rag_transformers.errors import UsageError

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
