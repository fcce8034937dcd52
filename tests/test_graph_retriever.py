"""The search over an index: two hops, the same from every door, and the same after any change as from scratch."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda

from rag_transformers import Extraction, GraphIndex
from rag_transformers.errors import NoIndexError, UsageError
from rag_transformers.retrieval.graph_retriever import GraphRetriever
from rag_transformers.retrieval.nearness import SentenceVectors
from rag_transformers.retrieval.ranking import fused
from rag_transformers.retrieval.searching import Found, Searcher

ENGLISH = {
    "quill": "Marta Quill\nMarta Quill was a clockmaker who learned her trade with Osbert Flint.",
    "flint": "Osbert Flint\nThe old man kept a workshop in Penwick all his life.",
    "penwick": "Penwick\nThis small town lies on the River Sorrel, below the moor.",
    "arden": "Tom Arden\nTom Arden was a clockmaker in the town of Harle, where rivers meet.",
    "clocks": "Clocks\nA clockmaker learns the trade in seven years in a town workshop.",
    "rivers": "Rivers\nMany a town lies by a river, and many a river gives its town a name.",
}
CHINESE = {
    "苏砚": "苏砚\n苏砚是钟表匠，师从老匠人顾远山。",
    "顾远山": "顾远山\n他一生没有离开过临溪镇。",
    "临溪镇": "临溪镇\n这里靠着沅江，背后是山。",
    "陆明": "陆明\n陆明是钟表匠，他的老师住在一座小城，城边有河。",
    "钟表": "钟表\n钟表匠的老师住在城里，要教七年手艺。",
    "河流": "河流\n许多小镇在河边，镇名也从河名来。",
}
TWO_HOPS = [(ENGLISH, "In which town was the teacher of Marta Quill at work?", "flint"),
            (CHINESE, "苏砚的老师住在哪座小城？", "顾远山")]  # fmt: skip


def documents(texts: dict[str, str]) -> list[Document]:
    return [Document(text, metadata={"source": source}) for source, text in texts.items()]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[GraphIndex]:
    with GraphIndex.open(tmp_path / "index") as opened:
        opened.add(documents(ENGLISH))
        yield opened


def sources(found: list[Document]) -> list[str]:
    return [chunk.metadata["source"] for chunk in found]


def content(found: list[Document]) -> list[tuple[str, float]]:
    return [(chunk.metadata["source"], round(chunk.metadata["score"], 9)) for chunk in found]


class TestTwoHops:
    @pytest.mark.parametrize(("texts", "question", "wanted"), TWO_HOPS)
    def test_a_chunk_is_found_that_only_a_name_leads_to(
        self, tmp_path: Path, texts: dict[str, str], question: str, wanted: str
    ) -> None:
        with GraphIndex.open(tmp_path / "index") as index:
            index.add(documents(texts))
            found = sources(GraphRetriever(index=index, k=3).invoke(question))
            known, vectors = Searcher(index._folder)._state()
            near = vectors.near(index._folder.embeddings.embed_query(question))
            halves = (known.words.scores(question), near.chunks, fused(known.words.scores(question), near.chunks))
            place = list(texts).index(wanted)
            assert [place in np.argsort(-half, kind="stable")[:3] for half in halves] == [False] * 3
        assert wanted in found

    def test_a_user_s_own_extraction_leads_there_too(self, tmp_path: Path) -> None:
        texts = {
            "a": "the red house belongs to ana.",
            "b": "the house is by the weir, says the red book.",
            "c": "belongs, belonging, to whom a house belongs.",
            "d": "ana, who else?",
        }
        told = {"a": ("ana", "the red house"), "b": ("the house", "weir")}

        def read(chunk: Document) -> Extraction:
            ends = told.get(chunk.metadata["source"])
            return Extraction(relationships=[(ends[0], "has", ends[1], "")] if ends else ())

        with GraphIndex.open(tmp_path / "index", extractor=RunnableLambda(read)) as index:
            index.add(documents(texts))
            vector = index._folder.embeddings.embed_query("what is Ana's?")
            found: Found = Searcher(index._folder).find("what is Ana's?", vector, 4)
            assert found.names[:1] == ("ana",)
            assert "red house" in found.names
            assert index.graph.get_vertex("red house") is not None


class TestRetriever:
    question = "Who taught Marta Quill?"

    def test_it_gives_what_the_index_gives(self, index: GraphIndex) -> None:
        retriever = GraphRetriever(index=index, k=4)
        assert content(retriever.invoke(self.question)) == content(index.retrieve(self.question, 4))

    async def test_awaited_it_gives_the_same(self, index: GraphIndex) -> None:
        retriever = GraphRetriever(index=index)
        assert content(await retriever.ainvoke(self.question)) == content(retriever.invoke(self.question))
        assert content(await index.aretrieve(self.question)) == content(retriever.invoke(self.question))

    def test_every_chunk_has_source_score_and_place_best_first(self, index: GraphIndex) -> None:
        found = GraphRetriever(index=index).invoke(self.question)
        scores = [chunk.metadata["score"] for chunk in found]
        assert len(found) == 6
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == 1.0
        assert all(chunk.id and set(chunk.metadata) >= {"source", "chunk", "start", "end"} for chunk in found)
        assert all("order" not in chunk.metadata for chunk in found)

    @pytest.mark.parametrize("k", [1, 3, 6])
    def test_k_is_how_many_given_once_or_for_one_question(self, index: GraphIndex, k: int) -> None:
        assert len(GraphRetriever(index=index, k=k).invoke(self.question)) == k
        assert len(GraphRetriever(index=index).invoke(self.question, k=k)) == k

    @pytest.mark.parametrize("k", [0, -1, True, "3", 2.0])
    def test_any_other_k_is_refused(self, index: GraphIndex, k: object) -> None:
        with pytest.raises(ValueError, match="k"):
            GraphRetriever(index=index, k=k)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="k is"):
            GraphRetriever(index=index).invoke(self.question, k=k)

    def test_an_empty_question_or_a_missing_index_is_refused(self, index: GraphIndex, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="question"):
            GraphRetriever(index=index).invoke(" ")
        with GraphIndex.open(tmp_path / "none") as none, pytest.raises(NoIndexError):
            GraphRetriever(index=none).invoke(self.question)

    @pytest.mark.parametrize("question", ["?!", "the", "Zanzibar", "桥", "\ud83d", "a" * 3000])
    def test_odd_questions_are_answered(self, index: GraphIndex, question: str) -> None:
        assert len(GraphRetriever(index=index).invoke(question)) == 6

    def test_it_is_a_step_of_a_chain(self, index: GraphIndex) -> None:
        chain = GraphRetriever(index=index, k=1) | (lambda found: found[0].metadata["source"])
        assert chain.invoke(self.question) == "quill"


FAKE = DeterministicFakeEmbedding(size=16)
TEXTS = [
    "Ada Moss left Hollin Bay.",
    "Hollin Bay\nIt is cold. Ada Moss knew.",
    "苏砚在石桥镇。",
    "石桥镇\n石桥镇很小。",
]
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, *TEXTS])), min_size=1, max_size=6)


class TestChange:
    @settings(max_examples=8)
    @given(STEPS)
    def test_after_any_changes_it_answers_as_if_it_were_made_from_scratch(
        self, steps: list[tuple[str, str | None]]
    ) -> None:
        with tempfile.TemporaryDirectory() as folder, GraphIndex.open(Path(folder, "one"), embeddings=FAKE) as index:
            index.add(Document("It rained on Ada Moss.", metadata={"source": "first"}))
            held = {"first": "It rained on Ada Moss."}
            for source, text in steps:
                if text is not None:
                    index.add(Document(text, metadata={"source": source}))
                    held[source] = text
                elif held.pop(source, None):
                    index.delete(source)
                index.retrieve("Ada Moss")
            with GraphIndex.open(Path(folder, "two"), embeddings=FAKE) as fresh:
                fresh.add(documents(held))
                for question in ("Where did Ada Moss go?", "石桥镇在哪里？", "Hollin Bay", "rain"):
                    assert dict(content(index.retrieve(question))) == dict(content(fresh.retrieve(question)))

    def test_another_process_s_changes_are_seen(self, index: GraphIndex, tmp_path: Path) -> None:
        question = "Who sold the barge Lotte?"
        assert len(index.retrieve(question)) == 6
        with GraphIndex.open(tmp_path / "index") as other:
            other.add(Document("Jon Ewer sold the barge Lotte.", metadata={"source": "new"}))
        assert sources(index.retrieve(question, 1)) == ["new"]

    @pytest.mark.parametrize("other", [b"", b"no archive", None])
    def test_what_is_derived_and_of_another_version_is_made_anew(
        self, index: GraphIndex, tmp_path: Path, other: bytes | None
    ) -> None:
        before = content(index.retrieve("Where did Osbert Flint work?"))
        with index._folder.records.draft() as draft:
            for name in ("words", "names"):
                if other is not None:
                    draft.put_structure(name, other)
            draft.commit()
        again = Searcher(index._folder)
        vector = index._folder.embeddings.embed_query("Where did Osbert Flint work?")
        assert content(again.passages("Where did Osbert Flint work?", vector, 10)) == before

    def test_nothing_of_the_chunks_is_read_again_for_a_second_question(
        self, index: GraphIndex, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index.retrieve("Penwick")
        monkeypatch.setattr(type(index._folder.records), "chunk_ids", lambda self: pytest.fail("read again"))
        assert sources(index.retrieve("Where is Penwick?", 1)) == ["penwick"]


@pytest.mark.parametrize(("texts", "question", "wanted"), TWO_HOPS)
def test_with_too_many_vectors_for_memory_the_search_structure_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], question: str, wanted: str
) -> None:
    with GraphIndex.open(tmp_path / "index") as index:
        index.add(documents(texts))
        held = content(index.retrieve(question))
    monkeypatch.setattr("rag_transformers.retrieval.searching.MOST_BYTES", 0)
    monkeypatch.setattr(SentenceVectors, "near", lambda self, vector: pytest.fail("held in memory"))
    with GraphIndex.open(tmp_path / "index") as index:
        searched = content(index.retrieve(question))
        assert index.query(question).text
    assert [source for source, _ in searched[:3]] == [source for source, _ in held[:3]]
    assert wanted in dict(searched[:3])
