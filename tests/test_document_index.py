"""The index as LangChain's DocumentIndex: its standard rules, and the indexing API on top of it."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_tests.integration_tests.indexer import AsyncDocumentIndexTestSuite, DocumentIndexerTestSuite
from scripted_model import ScriptedChatModel, hash_reply, stage_reply

from rag_transformers import Chunker, GraphIndex, GraphRetriever
from rag_transformers.document_index import GraphDocumentIndex
from rag_transformers.errors import NoIndexError, UsageError


class TestStandard(DocumentIndexerTestSuite):
    @pytest.fixture
    def index(self, tmp_path: Path) -> Generator[GraphDocumentIndex, None, None]:
        with GraphIndex.open(tmp_path / "index") as opened:
            yield opened.as_document_index()


class TestStandardAsync(AsyncDocumentIndexTestSuite):
    @pytest.fixture
    async def index(self, tmp_path: Path) -> AsyncGenerator[GraphDocumentIndex, None]:
        with GraphIndex.open(tmp_path / "index") as opened:
            yield opened.as_document_index()


def doc(text: str, source: str, **metadata: Any) -> Document:
    return Document(text, metadata={"source": source, **metadata})


PIER = doc("Ada Moss founded Grain Trust in 1998.", "letters.txt", page=1)
INN = doc("林晚在青石镇开了一家客栈。", "游记.txt")
MILL = doc("Orrin Vale repaired the mill at Mill Lane.", "letters.txt", page=2)


@pytest.fixture
def model() -> ScriptedChatModel:
    return ScriptedChatModel(reply=stage_reply)


@pytest.fixture
def opened(tmp_path: Path, model: ScriptedChatModel) -> Generator[GraphIndex, None, None]:
    with GraphIndex.open(tmp_path / "index", model) as index:
        yield index


@pytest.fixture
def manager() -> InMemoryRecordManager:
    manager = InMemoryRecordManager("letters")
    manager.create_schema()
    return manager


def run(documents: list[Document], manager: InMemoryRecordManager, opened: GraphIndex, **options: Any) -> list[int]:
    settings: dict[str, Any] = {
        "cleanup": "incremental",
        "source_id_key": "source",
        "key_encoder": "blake2b",
        **options,
    }
    done = index(documents, manager, opened.as_document_index(), **settings)
    return [done["num_added"], done["num_updated"], done["num_skipped"], done["num_deleted"]]


def extractions(model: ScriptedChatModel) -> list[str]:
    return [prompt for prompt in model.prompts if "Entities:" in prompt]


class TestIndexing:
    @pytest.mark.parametrize("cleanup", ["incremental", "full", "scoped_full"])
    def test_first_all_are_added_and_then_all_skipped(
        self, manager: InMemoryRecordManager, opened: GraphIndex, model: ScriptedChatModel, cleanup: str
    ) -> None:
        assert run([PIER, INN, MILL], manager, opened, cleanup=cleanup) == [3, 0, 0, 0]
        asked = len(model.prompts)
        assert run([PIER, INN, MILL], manager, opened, cleanup=cleanup) == [0, 0, 3, 0]
        assert len(model.prompts) == asked

    @pytest.mark.parametrize("cleanup", ["incremental", "full"])
    def test_an_edit_replaces_and_only_the_edited_text_is_asked(
        self, manager: InMemoryRecordManager, opened: GraphIndex, model: ScriptedChatModel, cleanup: str
    ) -> None:
        run([PIER, INN, MILL], manager, opened, cleanup=cleanup)
        before = len(extractions(model))
        edited = doc("Orrin Vale sold the mill at Mill Lane.", "letters.txt", page=2)
        assert run([PIER, INN, edited], manager, opened, cleanup=cleanup) == [1, 0, 2, 1]
        texts = [chunk.page_content for chunk in opened.chunks()]
        assert sorted(texts) == sorted([PIER.page_content, INN.page_content, edited.page_content])
        assert len(extractions(model)) == before + 1
        assert len(set(model.prompts)) == len(model.prompts)

    def test_a_document_that_is_gone_is_deleted(self, manager: InMemoryRecordManager, opened: GraphIndex) -> None:
        run([PIER, INN, MILL], manager, opened, cleanup="full")
        assert run([PIER, MILL], manager, opened, cleanup="full") == [0, 0, 2, 1]
        assert [chunk.metadata["source"] for chunk in opened.chunks()] == ["letters.txt", "letters.txt"]
        assert run([], manager, opened, cleanup="full") == [0, 0, 0, 2]
        assert opened.sources() == []

    async def test_awaited_it_does_the_same(
        self, manager: InMemoryRecordManager, opened: GraphIndex, model: ScriptedChatModel
    ) -> None:
        destination = opened.as_document_index()
        options: dict[str, Any] = {"cleanup": "full", "source_id_key": "source", "key_encoder": "blake2b"}
        assert (await aindex([PIER, INN], manager, destination, **options))["num_added"] == 2
        assert (await aindex([PIER, INN], manager, destination, **options))["num_skipped"] == 2
        assert (await aindex([PIER], manager, destination, **options))["num_deleted"] == 1
        assert len(opened.sources()) == 1

    def test_the_graph_is_that_of_documents_added_without_it(
        self, manager: InMemoryRecordManager, opened: GraphIndex, tmp_path: Path
    ) -> None:
        run([PIER, INN], manager, opened)
        plain = ScriptedChatModel(reply=stage_reply)
        with GraphIndex.open(tmp_path / "plain", plain) as other:
            other.add([PIER, INN])
            assert {vertex.name for vertex in other.graph} == {vertex.name for vertex in opened.graph}


class TestIds:
    def test_pieces_of_one_source_are_all_kept_with_and_without_ids(self, opened: GraphIndex) -> None:
        documents = opened.as_document_index()
        told = documents.upsert([PIER, MILL])
        assert len(set(told["succeeded"])) == 2
        assert all(id.startswith("letters.txt#") for id in told["succeeded"])
        assert {found.page_content for found in documents.get(told["succeeded"])} == {
            PIER.page_content,
            MILL.page_content,
        }
        assert documents.upsert([MILL, PIER])["succeeded"] == told["succeeded"][::-1]
        assert len(opened.sources()) == 2

    def test_without_an_id_a_document_is_known_by_its_source_as_when_it_is_added(self, opened: GraphIndex) -> None:
        documents = opened.as_document_index()
        assert documents.upsert([PIER])["succeeded"] == ["letters.txt"]
        assert opened.add([PIER]).unchanged == 1
        assert documents.upsert([MILL])["succeeded"] == ["letters.txt"]
        assert documents.get(["letters.txt"]) == [MILL.model_copy(update={"id": "letters.txt"})]
        assert documents.delete(["letters.txt"]).get("num_deleted") == 1

    def test_what_is_found_and_cited_shows_the_users_own_source(self, tmp_path: Path) -> None:
        with GraphIndex.open(tmp_path / "index") as opened:
            opened.as_document_index().upsert([PIER.model_copy(update={"id": "7"})])
            [found] = opened.as_document_index(k=1).invoke("Who founded Grain Trust?")
            assert (found.metadata["source"], found.metadata["document_id"]) == ("letters.txt", "7")
            [cited] = opened.query("Who founded Grain Trust?").citations
            assert (cited.source, cited.quote) == ("letters.txt", PIER.page_content)

    def test_a_document_comes_back_as_it_was_given_also_in_many_chunks(self, tmp_path: Path) -> None:
        text = " ".join(f"Sentence {number} is about the mill and the inn by the river." for number in range(60))
        given = Document(text, id="7", metadata={"source": "a", "start": 5, "chunk": "third", "tags": ["x", "磨坊"]})
        with GraphIndex.open(tmp_path / "index", chunker=Chunker(50, 15)) as opened:
            documents = opened.as_document_index()
            documents.upsert([given])
            assert len(opened.chunks()) > 5
            assert documents.get(["7"]) == [given]
            assert documents.upsert([given])["succeeded"] == ["7"]

    def test_two_different_documents_of_one_id_are_refused(self, opened: GraphIndex) -> None:
        same = [PIER.model_copy(update={"id": "7"}), MILL.model_copy(update={"id": "7"})]
        with pytest.raises(UsageError, match="'7'"):
            opened.as_document_index().upsert(same)
        assert opened.as_document_index().upsert([same[0], same[0]])["succeeded"] == ["7"]

    def test_a_generator_is_gone_over_once_and_nothing_of_it_is_lost(self, opened: GraphIndex) -> None:
        documents = opened.as_document_index()
        assert len(documents.upsert(each for each in (PIER, INN, MILL))["succeeded"]) == 3  # type: ignore[arg-type]
        assert len(opened.sources()) == 3
        named = (each.model_copy(update={"id": each.page_content[:3]}) for each in (PIER, MILL))
        assert documents.upsert(named)["succeeded"] == ["Ada", "Orr"]  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("items", "what"),
        [
            (PIER, "items is a Document; give a list of documents"),
            ("Ada left.", "items is a str"),
            (None, "items is a NoneType"),
            ([PIER, "Ada left."], r"items\[1\] is a str; it must be a Document"),
        ],
    )
    async def test_what_is_no_document_is_named_and_nothing_is_stored(
        self, opened: GraphIndex, items: Any, what: str
    ) -> None:
        with pytest.raises(UsageError, match=what):
            opened.as_document_index().upsert(items)
        with pytest.raises(UsageError, match=what):
            await opened.as_document_index().aupsert(items)
        with pytest.raises(NoIndexError):
            opened.sources()

    def test_nothing_to_do_makes_no_index(self, opened: GraphIndex) -> None:
        documents = opened.as_document_index()
        assert documents.upsert([]) == {"succeeded": [], "failed": []}
        assert documents.delete(["7"])["succeeded"] == []
        with pytest.raises(NoIndexError):
            documents.invoke("Who?")

    def test_a_document_whose_chunk_failed_is_told_and_asked_again_at_the_next_upsert(self, tmp_path: Path) -> None:
        replies = {"bad": True}

        def reply(prompt: str) -> str | Exception:
            return ValueError("no") if replies["bad"] and "Ada Moss founded" in prompt else hash_reply(prompt)

        with GraphIndex.open(tmp_path / "index", ScriptedChatModel(reply=reply), reports=False) as opened:
            documents = opened.as_document_index()
            with pytest.warns(UserWarning, match="1 could not be made"):
                told = documents.upsert([PIER.model_copy(update={"id": "1"}), INN.model_copy(update={"id": "2"})])
            assert told == {"succeeded": ["2"], "failed": ["1"]}
            replies["bad"] = False
            assert documents.upsert([MILL.model_copy(update={"id": "3"})]) == {"succeeded": ["3"], "failed": []}
            assert sum(vertex.name.startswith("Prompt ") for vertex in opened.graph) == 3


def test_it_finds_what_the_retriever_finds(opened: GraphIndex) -> None:
    documents = opened.as_document_index(k=2)
    documents.upsert([PIER, INN, MILL])
    question = "Who founded Grain Trust?"
    assert documents.invoke(question) == GraphRetriever(index=opened, k=2).invoke(question)
    assert len(documents.invoke(question, k=1)) == 1
    with pytest.raises(ValueError, match="k"):
        opened.as_document_index(k=0)
