"""GraphIndex: documents in, a graph and cited answers out."""

import asyncio
import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer, in_turn, prompt_of
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import SecretStr
from scripted_model import ScriptedChatModel, hash_reply, prompt_hash, stage_reply

from rag_transformers import Answer, Extraction, GraphIndex
from rag_transformers.errors import (
    IndexDamagedError,
    IndexMismatchError,
    ModelError,
    ModelUnreachableError,
    NoIndexError,
    UsageError,
)
from rag_transformers.index import Progress
from rag_transformers.text import sentences

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def doc(text: str, source: str) -> Document:
    return Document(text, metadata={"source": source})


def opened(path: Path, *given: Any, **options: Any) -> GraphIndex:
    """An index whose reports are written without a model: what is asked is about chunks, where no test says else."""
    return GraphIndex.open(path, *given, **{"reports": False, **options})


PIER = doc("Ada Moss founded Grain Trust in 1998. Grain Trust pays for the pier at Port Ellery.", "pier")
INN = doc("林晚在青石镇开了一家客栈。客栈的名字叫听雨楼。", "inn")
MILL = doc("Orrin Vale repaired the mill at Mill Lane. Ada Moss visited the mill in 2003.", "mill")


class SizedEmbeddings(Embeddings):
    """Letters counted, in vectors of a given size; says how often it was asked."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.requests: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.requests.append(texts)
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0 + text.lower().count(chr(97 + i)) for i in range(self.size)]


def triples(index: GraphIndex) -> list[tuple[str, str, str]]:
    return [(edge.source, edge.name, edge.target) for edge in index.graph.edges()]


def content(index: GraphIndex) -> tuple[Any, ...]:
    graph = index.graph
    return (
        [(vertex.name, vertex.descriptions, vertex.chunks) for vertex in graph.vertices()],
        [(edge.source, edge.name, edge.target, edge.descriptions, edge.chunks) for edge in graph.edges()],
    )


def own_text(prompt: str) -> str:
    """The chunk that a prompt asks about, without the history that it shows."""
    return re.split(r"\[(?:Text|文本)\]:", prompt)[-1]


def scripted(**options: Any) -> ScriptedChatModel:
    return ScriptedChatModel(reply=hash_reply, **options)


class TestAdding:
    def test_offline_the_documents_become_a_graph(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            report = index.add([PIER, INN, MILL])
            assert (report.documents, report.added, report.failed) == (3, 3, ())
            assert report.usage.calls == 0
            assert {"Ada Moss", "Grain Trust", "Orrin Vale", "林晚"} <= {v.name for v in index.graph.vertices()}
            assert (report.vertices, report.edges) == (index.graph.vertex_count, index.graph.edge_count)

    def test_a_document_that_is_unchanged_is_passed_over(self, tmp_path: Path) -> None:
        llm = scripted()
        with opened(tmp_path / "index", llm) as index:
            index.add([PIER, INN])
            before, calls = content(index), len(llm.calls)
            report = index.add([PIER, INN])
            assert (report.added, report.unchanged, report.extracted) == (0, 2, 0)
            assert len(llm.calls) == calls
            assert content(index) == before

    def test_an_edited_document_keeps_its_place_and_only_its_new_text_is_asked(self, tmp_path: Path) -> None:
        llm = scripted()
        edited = doc(INN.page_content + "听雨楼有三层。", "inn")
        with opened(tmp_path / "one", llm) as index:
            index.add([PIER, INN, MILL])
            calls = len(llm.calls)
            report = index.add([edited])
            assert (report.changed, report.extracted) == (1, 1)
            assert len(llm.calls) == calls + 1
            sources = [chunk.metadata["source"] for chunk in index.chunks()]
            assert sources == ["pier", "inn", "mill"]

    def test_the_graph_does_not_depend_on_which_call_finishes_first(self, tmp_path: Path) -> None:
        documents = [doc(f"{PIER.page_content} Note {n}. 第{n}条，青石镇。", f"note-{n}") for n in range(24)]
        graphs = []
        for concurrency in (1, 16):
            llm = scripted(delay=0.001 * concurrency)
            with opened(tmp_path / f"c{concurrency}", llm, concurrency=concurrency) as index:
                index.add(documents)
                graphs.append(content(index))
                assert llm.peak <= concurrency
                assert any("Section 1:" in prompt for prompt in llm.prompts)
        assert graphs[0] == graphs[1]

    def test_history_holds_earlier_chunks_only(self, tmp_path: Path) -> None:
        llm = scripted()
        with opened(tmp_path / "index", llm) as index:
            index.add([doc(f"The mill at Mill Lane, part {n}.", f"part-{n}") for n in range(4)])
        for prompt in llm.prompts:
            text = prompt.split("[Text]:")[1]
            own = int(text.split("part ")[1][0])
            shown = prompt.split("[Context]:")[1].split("[Text]:")[0]
            assert all(f"part {later}" not in shown for later in range(own, 4))

    def test_a_failed_chunk_is_reported_and_alone_asked_again(self, tmp_path: Path) -> None:
        broken = {"now": True}

        def reply(prompt: str) -> str | Exception:
            return TimeoutError() if broken["now"] and "听雨楼" in own_text(prompt) else hash_reply(prompt)

        llm = ScriptedChatModel(reply=reply)
        with opened(tmp_path / "index", llm) as index:
            report = index.add([PIER, INN, MILL])
            (failure,) = report.failed
            assert (failure.source, failure.start, failure.end) == ("inn", 0, len(INN.page_content))
            assert "TimeoutError" in failure.reason
            assert index.stats()["pending_chunks"] == 1
            broken["now"], calls = False, len(llm.calls)
            assert index.add([PIER, INN, MILL]).failed == ()
            assert len(llm.calls) == calls + 1
        with opened(tmp_path / "whole", scripted()) as whole, opened(tmp_path / "index") as index:
            whole.add([PIER, INN, MILL])
            assert content(index) == content(whole)

    def test_a_run_that_was_stopped_goes_on_from_there(self, tmp_path: Path) -> None:
        def stop(progress: Progress) -> None:
            if progress.stage == "extract":
                raise RuntimeError("stopped")

        documents = [PIER, INN, MILL]
        with opened(tmp_path / "index", scripted(delay=0.01), concurrency=1) as index:
            with pytest.raises(RuntimeError, match="stopped"):
                index.add(documents, on_progress=stop)
            done = index._folder.made.counts()["extractions"]
            assert (index.stats()["chunks"], done > 0) == (0, True)  # nothing is to be seen of it yet, and it is paid
        llm = scripted()
        with opened(tmp_path / "index", llm) as index, opened(tmp_path / "w", scripted()) as whole:
            index.add(documents)
            whole.add(documents)
            assert 0 < len(llm.calls) == 3 - done
            assert content(index) == content(whole)

    def test_text_that_is_a_graph_already_is_read_without_a_model(self, tmp_path: Path) -> None:
        llm = scripted()
        text = "Entities:\n(eosq/tide-db#repository)\n(eosq#organisation)\n\nRelationships:\n(eosq#owns#eosq/tide-db#)"
        with opened(tmp_path / "index", llm) as index:
            index.add([doc(text, "graph")])
            assert triples(index) == [("eosq", "owns", "eosq/tide-db")]
            assert not llm.calls

    def test_a_users_own_extractor_is_any_runnable(self, tmp_path: Path) -> None:
        def extract(chunk: Document) -> Extraction:
            return Extraction([], [(chunk.metadata["source"], "says", chunk.page_content[:3], "")])

        with opened(tmp_path / "index", extractor=RunnableLambda(extract)) as index:
            index.add([PIER, INN])
            assert triples(index) == [("pier", "says", "Ada"), ("inn", "says", "林晚在")]

    def test_an_extractor_that_returns_something_else_is_named(self, tmp_path: Path) -> None:
        wrong: Any = RunnableLambda(lambda chunk: "no extraction")
        with opened(tmp_path / "index", extractor=wrong) as index, pytest.raises(UsageError, match="str"):
            index.add([PIER])

    def test_deleting_a_document_equals_never_having_added_it(self, tmp_path: Path) -> None:
        with opened(tmp_path / "a", scripted()) as index, opened(tmp_path / "b", scripted()) as other:
            index.add([PIER, MILL])
            index.add([INN])
            assert index.delete("inn")
            assert not index.delete("inn")
            other.add([PIER, MILL])
            assert content(index) == content(other)
            assert "inn" not in {d.metadata["source"] for d in index.retrieve("林晚的客栈在哪里？")}

    def test_two_documents_of_one_source_are_refused_if_they_differ(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            with pytest.raises(UsageError, match="pier"):
                index.add([PIER, doc("Another text.", "pier")])
            assert index.add([PIER, PIER]).documents == 1

    @pytest.mark.parametrize("wrong", [None, 3, b"bytes", [None], ["text.txt", 3]])
    def test_what_is_no_document_is_refused(self, tmp_path: Path, wrong: Any) -> None:
        with opened(tmp_path / "index") as index, pytest.raises(UsageError, match="documents"):
            index.add(wrong)

    def test_a_surrogate_pair_is_the_character_that_it_means(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            index.add([doc("Ada Moss built a rocket \ud83d\ude80 in 1998.", "rocket")])
            assert "\U0001f680" in index.chunks()[0].page_content

    def test_nothing_is_made_where_nothing_is_given(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index, pytest.raises(UsageError, match="no documents"):
            index.add([])
        assert not (tmp_path / "index").exists()

    def test_metadata_that_chroma_refuses_is_no_fault(self, tmp_path: Path) -> None:
        odd = Document(PIER.page_content, metadata={"source": "odd", "author": None, "place": {"file": "g"}, "page": 3})
        with opened(tmp_path / "index", scripted()) as index:
            assert index.add([odd]).failed == ()
            (found,) = index.retrieve("Grain Trust")
            assert found.metadata["place"] == {"file": "g"}
            assert found.metadata["page"] == 3

    def test_special_tokens_and_broken_characters_are_text(self, tmp_path: Path) -> None:
        text = "The tag <|endoftext|> closes a sample of Ada Moss. Half a pair: \ud83d. NUL: \x00. {braces}"
        with opened(tmp_path / "index", scripted()) as index:
            assert index.add([doc(text, "odd")]).failed == ()
            assert "<|endoftext|>" in index.chunks()[0].page_content

    def test_what_could_be_read_of_a_bad_reply_is_kept_until_a_whole_one_comes(self, tmp_path: Path) -> None:
        replies = ["Entities:\n(Ada Moss#Founder)\nRelationships:\n(Ada##Trust#d)\n(Ada Moss#founded#Grain Trust#)"] * 2
        whole = "Entities:\n(Ada Moss#Founder)\n(Grain Trust#Lender)\nRelationships:\n(Ada Moss#founded#Grain Trust#)"
        llm = ScriptedChatModel(reply=lambda prompt: replies.pop() if replies else whole)
        with opened(tmp_path / "index", llm) as index:
            assert len(index.add([PIER]).failed) == 1
            assert triples(index) == [("Ada Moss", "founded", "Grain Trust")]
            assert index.stats()["pending_chunks"] == 1
            assert index.add([PIER]).failed == ()
            assert index.stats()["pending_chunks"] == 0
            lender = index.graph.get_vertex("Grain Trust")
            assert lender is not None
            assert lender.descriptions == ("Lender",)


class TestAsking:
    def test_the_best_chunks_come_first_with_their_source(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
            found = index.retrieve("Who repaired the mill?", k=2)
            assert found[0].metadata["source"] == "mill"
            assert len(found) == 2
            assert found[0].metadata["score"] >= found[1].metadata["score"]

    def test_offline_answers_quote_and_cite(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
            answer = index.query("客栈叫什么名字？")
            assert "听雨楼" in answer.text
            citation = answer.citations[0]
            assert INN.page_content[citation.start : citation.end] == citation.quote
            assert answer.usage.calls == 0

    def test_a_model_answers_from_numbered_passages_and_cites_only_those(self, tmp_path: Path) -> None:
        llm = ScriptedChatModel(reply=lambda prompt: "It was Orrin Vale [1]. More is known [9].")
        with opened(tmp_path / "index", llm, extractor=RunnableLambda(lambda chunk: Extraction())) as index:
            index.add([PIER, INN, MILL])
            with pytest.warns(UserWarning, match=r"\[9\]"):
                answer = index.query("Who repaired the mill?")
            assert "[9]" not in answer.text
            assert [citation.source for citation in answer.citations] == ["mill"]
            assert answer.usage.calls == 1
            assert "[1] Orrin Vale repaired" in llm.prompts[0]

    def test_the_context_keeps_to_its_budget(self, tmp_path: Path) -> None:
        llm = ScriptedChatModel(reply=lambda prompt: "Yes [1].")
        options: dict[str, Any] = {"extractor": RunnableLambda(lambda chunk: Extraction()), "max_context_tokens": 60}
        with opened(tmp_path / "index", llm, **options) as index:
            index.add([doc(f"The mill at Mill Lane has a wheel, number {n}. " * 5, f"d{n}") for n in range(8)])
            answer = index.query("Where is the mill with the wheel?")
            assert 0 < sum(len(passage.page_content) for passage in answer.context) < 60 * 6

    def test_what_is_not_there_is_said_without_a_call(self, tmp_path: Path) -> None:
        llm = scripted()
        with opened(tmp_path / "index", llm) as index:
            index.add([PIER, INN, MILL])
            calls = len(llm.calls)
            answer = index.query("How do submarines hold their depth?")
            assert not answer.found
            assert not answer.citations
            assert len(llm.calls) == calls

    @pytest.mark.parametrize("question", ["", "  \n\t", None])
    def test_an_empty_question_is_refused_before_anything_is_asked(self, tmp_path: Path, question: Any) -> None:
        embeddings = SizedEmbeddings(4)
        llm = scripted()
        with opened(tmp_path / "index", llm, embeddings) as index:
            index.add([PIER])
            asked, calls = len(embeddings.requests), len(llm.calls)
            for ask in (index.query, index.retrieve):
                with pytest.raises(ValueError, match="question is empty"):
                    ask(question)
            assert (len(embeddings.requests), len(llm.calls)) == (asked, calls)

    def test_where_there_is_no_index_it_says_how_to_make_one(self, tmp_path: Path) -> None:
        with opened(tmp_path / "none") as index:
            for ask in (index.query, index.retrieve):
                with pytest.raises(NoIndexError, match="rag-transformers index"):
                    ask("Who?")
            with pytest.raises(NoIndexError):
                index.stats()
        assert not (tmp_path / "none").exists()

    @pytest.mark.parametrize("wrong", [{"mode": "sideways"}, {"k": 0}, {"k": True}])
    def test_wrong_arguments_are_named(self, tmp_path: Path, wrong: dict[str, Any]) -> None:
        with opened(tmp_path / "index") as index:
            index.add([PIER])
            with pytest.raises(UsageError, match=next(iter(wrong))):
                index.query("Who?", **wrong)


class TestLoops:
    def test_one_object_in_two_loops(self, tmp_path: Path) -> None:
        index = opened(tmp_path / "index", scripted(delay=0.01), concurrency=2)
        asyncio.run(index.aadd([doc("Alpha one.", "a"), doc("Beta two.", "b"), doc("Gamma three.", "c")]))
        asyncio.run(index.aadd([doc("Delta four.", "d")]))
        assert [chunk.metadata["source"] for chunk in index.chunks()] == ["a", "b", "c", "d"]
        assert index.stats()["pending_chunks"] == 0
        index.close()

    async def test_the_sync_form_works_within_a_running_loop(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            assert index.add([PIER]).documents == 1
            assert index.query("Who founded Grain Trust?").found

    async def test_the_async_forms_do_the_same(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            await index.aadd([PIER, INN])
            found, answer, stats = await asyncio.gather(
                index.aretrieve("Grain Trust", 1), index.aquery("Who founded Grain Trust?"), index.astats()
            )
            assert found == index.retrieve("Grain Trust", 1)
            assert answer == index.query("Who founded Grain Trust?")
            assert stats == index.stats()
            assert await index.adelete("pier")


class TestFolder:
    def test_it_can_be_deleted_and_made_again_in_one_process(self, tmp_path: Path) -> None:
        folder = tmp_path / "index"
        for source in ("a", "b"):
            with opened(folder) as index:
                index.add([doc(f"Ada Moss lives in house {source}.", source)])
                assert [chunk.metadata["source"] for chunk in index.chunks()] == [source]
            shutil.rmtree(folder)

    def test_it_is_the_same_after_reopening(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
            before = content(index), index.query("Who repaired the mill?")
        with opened(tmp_path / "index") as index:
            assert (content(index), index.query("Who repaired the mill?")) == before

    def test_embeddings_of_another_size_are_refused_before_any_model_call(self, tmp_path: Path) -> None:
        llm = scripted()
        with opened(tmp_path / "index", llm, SizedEmbeddings(8)) as index:
            index.add([PIER])
            before, calls = content(index), len(llm.calls)
        with opened(tmp_path / "index", llm, SizedEmbeddings(5)) as index:
            with pytest.raises(IndexMismatchError, match=r"8.*5") as refused:
                index.add([INN])
            assert "collection" in str(refused.value)
            assert "new folder" in str(refused.value)
            assert len(llm.calls) == calls
            assert content(index) == before

    def test_embeddings_that_have_a_name_are_refused_by_size_too(self, tmp_path: Path) -> None:
        class Named(SizedEmbeddings):
            name = "named"

        with opened(tmp_path / "index", None, Named(8)) as index:
            index.add([PIER])
        with opened(tmp_path / "index", None, Named(5)) as index:
            with pytest.raises(IndexMismatchError, match=r"8.*5"):
                index.add([INN])
            assert index.stats()["documents"] == 1

    def test_other_embeddings_are_refused_and_both_are_named(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            index.add([PIER])
        with pytest.raises(IndexMismatchError, match=r"use-multilingual.*SizedEmbeddings"):
            opened(tmp_path / "index", embeddings=SizedEmbeddings(8))

    def test_requests_to_the_embeddings_hold_no_more_texts_than_told(self, tmp_path: Path) -> None:
        embeddings = SizedEmbeddings(8)
        documents = [doc(f"Lamp number {n} stands at the quay", f"d{n}") for n in range(25)]
        options: dict[str, Any] = {"embedding_batch_size": 10}
        with opened(tmp_path / "index", None, embeddings, **options) as index:
            index.add(documents)
            chunks_and_report = [10, 10, 5, 1]
            assert [len(texts) for texts in embeddings.requests] == chunks_and_report
            index.add(documents)
            assert len(embeddings.requests) == 4

    def test_what_a_service_says_against_a_request_is_shown(self, tmp_path: Path, fake_server: FakeServer) -> None:
        fake_server.embed = lambda body: FakeReply(status=400, text="batch size is invalid, at most 10 texts")
        embeddings = OpenAIEmbeddings(
            model="m", base_url=fake_server.base_url, api_key=SecretStr("k"), check_embedding_ctx_length=False
        )
        with (
            opened(tmp_path / "index", None, embeddings) as index,
            pytest.raises(ModelError, match="10 texts"),
        ):
            index.add([PIER])
        assert not (tmp_path / "index").exists()

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": 2}'])
    def test_a_damaged_manifest_is_named_and_not_overwritten(self, tmp_path: Path, damage: bytes) -> None:
        with opened(tmp_path / "index") as index:
            index.add([PIER])
        manifest = tmp_path / "index" / "manifest.json"
        manifest.write_bytes(damage)
        with pytest.raises(IndexDamagedError, match=r"manifest\.json"):
            opened(tmp_path / "index")
        assert manifest.read_bytes() == damage

    @pytest.mark.parametrize("damage", [None, b"", b"no database" * 100])
    def test_lost_records_are_no_empty_index(self, tmp_path: Path, damage: bytes | None) -> None:
        with opened(tmp_path / "index") as index:
            index.add([PIER])
        records = tmp_path / "index" / "records.sqlite"
        for beside in tmp_path.glob("index/records.sqlite*"):
            beside.unlink()
        if damage is not None:
            records.write_bytes(damage)
        with opened(tmp_path / "index") as index:
            for act in (lambda: index.query("Who?"), index.stats, lambda: index.add([PIER])):
                with pytest.raises(IndexDamagedError, match=r"records\.sqlite"):
                    act()
        assert (records.read_bytes() if records.exists() else None) == damage

    def test_a_lost_search_structure_is_named_and_made_anew_without_embedding(self, tmp_path: Path) -> None:
        embeddings = SizedEmbeddings(8)
        with opened(tmp_path / "index", None, embeddings) as index:
            index.add([PIER, INN])
            before = index.query("Who founded Grain Trust?")
        shutil.rmtree(tmp_path / "index" / "chroma")
        requests = len(embeddings.requests)
        with opened(tmp_path / "index", None, embeddings) as index:
            for act in (lambda: index.query("Who founded Grain Trust?"), index.stats, lambda: index.add([MILL])):
                with pytest.raises(IndexDamagedError, match=r"chroma.* is missing; rag-transformers repair"):
                    act()
        repaired = GraphIndex.repair(tmp_path / "index", embeddings)
        assert (repaired.documents, repaired.embedded, repaired.lost) == (2, 0, {})
        with opened(tmp_path / "index", None, embeddings) as index:
            assert index.query("Who founded Grain Trust?") == before
        assert len(embeddings.requests) == requests

    def test_a_question_is_refused_with_embeddings_of_another_size(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index", None, SizedEmbeddings(8)) as index:
            index.add([PIER])
        other = opened(tmp_path / "index", None, SizedEmbeddings(5))
        with other, pytest.raises(IndexMismatchError, match=r"8.*5"):
            other.query("Who founded Grain Trust?")

    def test_a_place_where_no_folder_can_be_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x", encoding="utf-8")
        for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("n" * 300), tmp_path / "nul\0"):
            with pytest.raises(UsageError):
                opened(place).add([PIER])

    def test_a_newer_format_is_refused(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index") as index:
            index.add([PIER])
        manifest = tmp_path / "index" / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 3}), encoding="utf-8")
        with pytest.raises(IndexMismatchError, match="update"):
            opened(tmp_path / "index")
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 1}), encoding="utf-8")
        with pytest.raises(IndexMismatchError, match="index the documents again"):
            opened(tmp_path / "index")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"concurrency": 0},
            {"language": "tlh"},
            {"embedding_batch_size": 0},
            {"max_context_tokens": True},
            {"llm": 3},
            {"extractor": print},
        ],
    )
    def test_wrong_arguments_are_named_when_it_is_opened(self, tmp_path: Path, wrong: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match=next(iter(wrong))):
            opened(tmp_path / "index", **wrong)


def told(prompt: str) -> str:
    """A reply that says the same five things of Ada Moss in every chunk, and what the summary's prompt asks for."""
    if "Description List:" in prompt:
        return f"One text of {prompt_hash(prompt)}."
    number = prompt_hash(own_text(prompt))
    return f"Entities:\n(Ada Moss#She did {number}.)\nRelationships:\n(Ada Moss#owns#Pier 6#Since {number}.)\n"


class TestSideBySide:
    def test_chunks_are_embedded_while_an_extractor_without_a_model_works(self, tmp_path: Path) -> None:
        """No call is waited for where none comes: the extraction goes on beside the embeddings, not before them."""
        embedded, seen = threading.Event(), []

        class Telling(SizedEmbeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                if any(PIER.page_content in text for text in texts):
                    embedded.set()
                return super().embed_documents(texts)

        def extract(chunk: Document) -> Extraction:
            seen.append(embedded.wait(20))
            return Extraction([("Ada Moss", "")])

        with opened(tmp_path / "index", None, Telling(8), RunnableLambda(extract)) as index:
            assert index.add([PIER]).failed == ()
        assert seen == [True]


class TestDescriptions:
    """Many descriptions of a vertex or an edge become one; it is asked for again only where they changed."""

    def notes(self, count: int, first: int = 0) -> list[Document]:
        return [Document(f"Note {n} on Ada.", metadata={"source": f"n{n}"}) for n in range(first, first + count)]

    def test_each_is_asked_for_once_and_kept(self, tmp_path: Path) -> None:
        llm = ScriptedChatModel(reply=told)
        with opened(tmp_path / "index", llm) as index:
            report = index.add(self.notes(5))
            assert (report.described, report.failed, report.usage.calls) == (2, (), 7)
            vertex = index.graph.get_vertex("Ada Moss")
            assert vertex is not None
            assert vertex.summary.startswith("One text of ")
            assert len(vertex.descriptions) == 5
            assert index.add(self.notes(5)).usage.calls == 0
            assert index.add(self.notes(1, first=5)).usage.calls == 3
        with opened(tmp_path / "index", llm) as index:
            again = index.graph.get_vertex("Ada Moss")
            assert again is not None
            assert again.summary.startswith("One text of ")
            assert again.summary != vertex.summary

    def test_few_are_joined_without_a_call(self, tmp_path: Path) -> None:
        with opened(tmp_path / "index", ScriptedChatModel(reply=told)) as index:
            report = index.add(self.notes(4))
            assert (report.described, report.usage.calls) == (0, 4)
            vertex = index.graph.get_vertex("Ada Moss")
            assert vertex is not None
            assert vertex.summary == "\n".join(vertex.descriptions)

    def test_they_are_those_of_a_new_index_whatever_was_added_and_deleted(self, tmp_path: Path) -> None:
        llm = ScriptedChatModel(reply=told)
        with opened(tmp_path / "index", llm) as index, opened(tmp_path / "new", llm) as new:
            for note in self.notes(7):
                index.add(note)
            index.delete("n2")
            new.add([note for note in self.notes(7) if note.metadata["source"] != "n2"])
            assert [v.props for v in index.graph.vertices()] == [v.props for v in new.graph.vertices()]
            assert [e.props for e in index.graph.edges()] == [e.props for e in new.graph.edges()]
            index.delete("n3")
            index.delete("n4")
            vertex = index.graph.get_vertex("Ada Moss")
            assert vertex is not None
            assert "summary" not in vertex.props

    def test_a_failure_is_reported_and_asked_again(self, tmp_path: Path) -> None:
        llm = ScriptedChatModel(reply=lambda prompt: "" if "Description List:" in prompt else told(prompt))
        with opened(tmp_path / "index", llm) as index:
            report = index.add(self.notes(5))
            assert [failure.stage for failure in report.failed] == ["describe", "describe"]
            assert str(report.failed[0]).startswith("the descriptions of Ada Moss: ")
            assert report.described == 0
        with opened(tmp_path / "index", ScriptedChatModel(reply=told)) as index:
            report = index.add(self.notes(5))
            assert (report.described, report.failed, report.usage.calls) == (2, (), 2)

    def test_without_a_model_they_are_sentences_of_the_descriptions(self, tmp_path: Path) -> None:
        facts = [f"Ada Moss bought the {what} in {1990 + n}." for n, what in enumerate(("mill", "inn", "pier", "lock"))]
        facts += ["Ada Moss left Port Ellery in spring.", "Ada Moss never came back to Port Ellery."]

        def extract(chunk: Document) -> Extraction:
            return Extraction([("Ada Moss", chunk.page_content)])

        documents = [Document(fact, metadata={"source": str(n)}) for n, fact in enumerate(facts)]
        with opened(tmp_path / "index", extractor=RunnableLambda(extract)) as index:
            assert index.add(documents).described == 1
            vertex = index.graph.get_vertex("Ada Moss")
            assert vertex is not None
            assert vertex.props["summary"]
            assert all(sentence in facts for sentence in sentences(vertex.props["summary"]))


class TestReports:
    """Each community gets a report; one is written anew only where what it rests on changed."""

    def notes(self, who: str, count: int = 2) -> list[Document]:
        return [doc(f"{who} note {number}.", f"{who}{number}") for number in range(count)]

    def model(self, **options: Any) -> ScriptedChatModel:
        def reply(prompt: str) -> str:
            if '"findings"' in prompt or "Description List:" in prompt:
                return stage_reply(prompt)
            who = own_text(prompt).split()[0]
            known = f"({who} A#knows#{who} B#Both {who})\n({who} B#pays#{who} C#)\n"
            return f"Entities:\n({who} A#One)\nRelationships:\n{known}"

        return ScriptedChatModel(reply=reply, **options)

    def test_they_are_written_once_and_kept(self, tmp_path: Path) -> None:
        llm = self.model()
        with GraphIndex.open(tmp_path / "index", llm) as index:
            report = index.add(self.notes("Moss") + self.notes("Vale"))
            assert (report.extracted, report.reported, report.failed) == (4, 2, ())
            assert report.usage.calls == len(llm.calls) == 6
            assert sorted(each.vertices for each in index.reports) == [
                ("Moss A", "Moss B", "Moss C"),
                ("Vale A", "Vale B", "Vale C"),
            ]
            assert {each.title[:7] for each in index.reports} == {"Report "}
            assert index.add(self.notes("Moss")).usage.calls == 0
            assert index.stats()["reports"] == index.stats()["communities"] == 2

    def test_a_new_document_asks_for_itself_and_for_the_reports_that_it_changes(self, tmp_path: Path) -> None:
        with GraphIndex.open(tmp_path / "index", self.model()) as index:
            index.add(self.notes("Moss") + self.notes("Vale"))
            before = {report.community: report for report in index.reports}
            report = index.add(self.notes("Dale", 1))
            assert (report.reported, report.usage.calls) == (1, 2)
            after = {report.community: report for report in index.reports}
            assert len(after) == 3
            assert all(after[id] == before[id] for id in before)

    def test_a_deleted_document_takes_its_community_with_it(self, tmp_path: Path) -> None:
        with GraphIndex.open(tmp_path / "index", self.model()) as index:
            index.add(self.notes("Moss") + self.notes("Vale", 1))
            index.delete("Vale0")
            assert [set(each.vertices) for each in index.reports] == [{"Moss A", "Moss B", "Moss C"}]
            assert len(index.communities) == 1

    def test_a_reply_that_cannot_be_read_is_reported_and_asked_again(self, tmp_path: Path) -> None:
        llm = self.model()
        good = llm.reply
        llm.reply = lambda prompt: "no JSON" if '"findings"' in prompt or "JSON" in prompt else good(prompt)
        with GraphIndex.open(tmp_path / "index", llm) as index:
            report = index.add(self.notes("Moss"))
            assert [failure.stage for failure in report.failed] == ["report"]
            (stand_in,) = index.reports
            assert stand_in.offline
            assert stand_in.summary
            llm.reply = good
            again = index.add(self.notes("Moss"))
            assert (again.reported, again.failed, again.usage.calls) == (1, (), 1)
            assert not index.reports[0].offline

    def test_a_failure_after_deleting_is_told(self, tmp_path: Path) -> None:
        with GraphIndex.open(tmp_path / "index", self.model()) as index:
            index.add(self.notes("Moss", 3))
        broken = ScriptedChatModel(reply=lambda prompt: TimeoutError(), model_name="another")
        told = pytest.warns(UserWarning, match="1 could not be made.*the report of the community")
        with GraphIndex.open(tmp_path / "index", broken) as index, told:
            assert index.delete("Moss2")

    def test_rebuilding_gives_the_communities_of_a_new_index(self, tmp_path: Path) -> None:
        kinds = ("Moss", "Vale", "Dale", "Hill")
        with GraphIndex.open(tmp_path / "index", self.model()) as index:
            for kind in kinds:
                index.add(self.notes(kind))
            index.delete("Vale0")
            index.delete("Vale1")
            rebuilt = index.rebuild()
            assert rebuilt.failed == ()
        with GraphIndex.open(tmp_path / "scratch", self.model()) as scratch:
            scratch.add([note for kind in kinds if kind != "Vale" for note in self.notes(kind)])
            with GraphIndex.open(tmp_path / "index", self.model()) as index:
                assert index.communities == scratch.communities
                assert [each.to_dict() for each in index.reports] == [each.to_dict() for each in scratch.reports]

    def test_without_a_model_what_a_model_wrote_stays_while_it_holds(self, tmp_path: Path) -> None:
        with GraphIndex.open(tmp_path / "index", self.model()) as index:
            index.add(self.notes("Moss"))
            (written,) = index.reports
        with GraphIndex.open(tmp_path / "index") as index:
            index.rebuild()
            assert index.reports == (written,)


class TestModes:
    """A question about the whole is answered from reports, one about something in it from chunks."""

    QUESTIONS = (("What are the main themes?", "global"), ("Who founded Grain Trust?", "local"))

    @pytest.mark.parametrize(
        ("question", "mode"), [*QUESTIONS, ("这些文档主要讲了什么？", "global"), ("客栈叫什么名字？", "local")]
    )
    @pytest.mark.parametrize("with_model", [False, True])
    def test_the_answer_says_how_it_was_made_and_cites_chunks(
        self, tmp_path: Path, question: str, mode: str, with_model: bool
    ) -> None:
        with GraphIndex.open(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
        llm = ScriptedChatModel(reply=stage_reply) if with_model else None
        with GraphIndex.open(tmp_path / "index", llm) as index:
            answer = index.query(question)
            assert (answer.mode, answer.found, answer.usage.calls) == (mode, True, int(with_model))
            texts = {chunk.metadata["source"]: chunk.page_content for chunk in index.chunks()}
            assert answer.citations
            for citation in answer.citations:
                assert texts[citation.source][citation.start : citation.end] == citation.quote

    @pytest.mark.parametrize(
        "question",
        ["Tell me about Grain Trust", "Please say something about Mill Lane.", "请介绍听雨楼", "Tell me about 林晚"],
    )
    @pytest.mark.parametrize("mode", ["auto", "local", "global"])
    def test_what_it_holds_is_told_however_politely_it_is_asked_for(
        self, tmp_path: Path, question: str, mode: str
    ) -> None:
        with GraphIndex.open(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
            answer = index.query(question, mode=mode)
            assert answer.found
            assert answer.citations

    @pytest.mark.parametrize("question", ["What topics are covered?", "Summarize everything", "这些资料讲了什么？"])
    def test_a_question_of_general_words_is_answered_from_the_reports(self, tmp_path: Path, question: str) -> None:
        with GraphIndex.open(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
            for mode in ("auto", "global"):
                answer = index.query(question, mode=mode)
                assert (answer.mode, answer.found) == ("global", True)

    def test_what_it_holds_nothing_on_costs_no_call_in_any_mode(self, tmp_path: Path) -> None:
        llm = ScriptedChatModel(reply=stage_reply)
        with GraphIndex.open(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
        with GraphIndex.open(tmp_path / "index", llm) as index:
            for mode in ("auto", "local", "global"):
                assert not index.query("Which enzyme copies DNA in bacteria?", mode=mode).found
            with pytest.raises(UsageError, match="auto, local, global"):
                index.query("Why?", mode="both")
            assert not llm.calls

    def test_a_budget_too_small_for_anything_is_named_as_the_reason(self, tmp_path: Path) -> None:
        llm = ScriptedChatModel(reply=stage_reply)
        with GraphIndex.open(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
        with (
            GraphIndex.open(tmp_path / "index", llm, max_context_tokens=1) as index,
            pytest.warns(UserWarning, match="budget"),
        ):
            answer = index.query("Who founded Grain Trust?")
        assert not answer.found
        assert "no room" in answer.text
        assert not llm.calls

    async def test_a_stream_gives_the_text_and_then_the_answer(self, tmp_path: Path) -> None:
        llm = ScriptedChatModel(reply=stage_reply)
        with GraphIndex.open(tmp_path / "index") as index:
            index.add([PIER, INN, MILL])
        with GraphIndex.open(tmp_path / "index", llm) as index:
            for question, mode in self.QUESTIONS:
                *pieces, answer = list(index.stream(question))
                assert isinstance(answer, Answer)
                assert ("".join(map(str, pieces)), answer.mode) == (answer.text, mode)
                *pieces, answer = [piece async for piece in index.astream(question)]
                assert "".join(map(str, pieces)) == str(answer)


class TestOverHttp:
    @pytest.fixture
    def llm(self, fake_server: FakeServer) -> ChatOpenAI:
        fake_server.reply = lambda body: hash_reply(prompt_of(body))
        return ChatOpenAI(model="fake-chat", base_url=fake_server.base_url, api_key=SecretStr("k"), max_retries=2)

    def test_the_examples_become_the_same_graph_as_with_a_model_in_the_process(
        self, tmp_path: Path, fake_server: FakeServer, llm: ChatOpenAI
    ) -> None:
        fake_server.reply = lambda body: FakeReply(hash_reply(prompt_of(body)), hang=0.1)
        with opened(tmp_path / "http", llm) as index, opened(tmp_path / "own", scripted()) as own:
            report = index.add(EXAMPLES)
            own.add(EXAMPLES)
            assert report.failed == ()
            assert report.usage.calls == len(fake_server.prompts) == report.chunks + report.described
            assert 1 < fake_server.peak <= 16
            assert content(index) == content(own)

    def test_a_rate_limit_is_waited_for(self, tmp_path: Path, fake_server: FakeServer, llm: ChatOpenAI) -> None:
        busy = FakeReply(status=429, text="slow down", headers={"Retry-After": "0"})
        fake_server.reply = in_turn(busy, busy, "Entities:\n(Ada Moss#Founder)\nRelationships:\n")
        with opened(tmp_path / "index", llm) as index:
            assert index.add([PIER]).failed == ()
            assert len(fake_server.prompts) == 3

    def test_a_refused_key_ends_the_run_at_once(self, tmp_path: Path, fake_server: FakeServer, llm: ChatOpenAI) -> None:
        fake_server.reply = lambda body: FakeReply(status=401, text="wrong key")
        with opened(tmp_path / "index", llm, concurrency=1) as index:
            with pytest.raises(ModelUnreachableError, match="key"):
                index.add([PIER, INN, MILL])
            assert len(fake_server.prompts) == 1
        assert not (tmp_path / "index").exists()

    def test_what_cannot_be_read_is_reported_and_asked_again_next_time(
        self, tmp_path: Path, fake_server: FakeServer, llm: ChatOpenAI
    ) -> None:
        def cut(body: dict[str, Any]) -> str | FakeReply:
            text = hash_reply(prompt_of(body))
            return FakeReply(text[:40], finish_reason="length") if "Mill Lane" in own_text(prompt_of(body)) else text

        fake_server.reply = cut
        with opened(tmp_path / "index", llm) as index:
            (failure,) = index.add([PIER, INN, MILL]).failed
            assert failure.source == "mill"
            assert "token limit" in failure.reason
            fake_server.reply = lambda body: hash_reply(prompt_of(body))
            asked = len(fake_server.prompts)
            assert index.add([PIER, INN, MILL]).failed == ()
            assert len(fake_server.prompts) == asked + 1
