"""Changes of an index under odd circumstances: stopped, repeated, nested, beside strangers; nothing is paid or lost."""

import asyncio
import json
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from scripted_model import ScriptedChatModel, hash_reply

from rag_transformers import Chunker, Extraction, GraphIndex, Vertex
from rag_transformers.documents import load_documents, sources_under
from rag_transformers.errors import ModelUnreachableError, StorageError, UsageError

EMBEDDINGS = DeterministicFakeEmbedding(size=8)


def doc(text: str, source: str, **metadata: Any) -> Document:
    return Document(text, metadata={"source": source, **metadata})


def opened(folder: Path, llm: Any = None, **options: Any) -> GraphIndex:
    return GraphIndex.open(folder, llm, EMBEDDINGS, **{"reports": False, **options})


def named(number: int) -> Document:
    return doc(f"Person {chr(65 + number)}mos Vale met Ada Moss at Pier {number}.", f"{number:02}")


async def test_a_change_that_is_cancelled_asks_nothing_more_and_what_came_is_kept(tmp_path: Path) -> None:
    llm = ScriptedChatModel(reply=hash_reply, delay=0.05)
    documents = [named(number) for number in range(16)]
    with opened(tmp_path / "i", llm, concurrency=2) as index:
        adding = asyncio.ensure_future(index.aadd(documents))
        while len(llm.calls) < 4:
            await asyncio.sleep(0.005)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        asked = len(llm.calls)
        await asyncio.sleep(0.3)
        assert len(llm.calls) == asked <= 8
    with opened(tmp_path / "i", llm, concurrency=2) as index:
        assert (await index.aadd(documents)).added == 16
    assert sum("[Text]:" in call.prompt for call in llm.calls) <= 16 + 2  # those in flight, at most, again


def test_without_a_model_what_a_model_extracted_stays(tmp_path: Path) -> None:
    """Also what stays the same of a document that changes; what is new is read without one, and that is said."""
    llm = ScriptedChatModel(reply=lambda prompt: "Entities:\n(Ada Moss#A banker, says the model)")
    chunker = Chunker(8, 0, counter=lambda text: len(text.split()))
    first, last = "Ada Moss founded Grain Trust at Pier 6.", "Bo Vale left Grain Trust at Pier 7."

    def names(index: GraphIndex) -> dict[str, tuple[str, ...]]:
        return {vertex.name: vertex.descriptions for vertex in index.graph.vertices()}

    given, changed = doc(f"{first}\n\n{last}", "a"), doc(f"{first}\n\nCy Dale joined Grain Trust at Pier 8.", "a")
    with opened(tmp_path / "i", llm, chunker=chunker) as index:
        index.add([given, named(1)])
        made = names(index)
    asked = len(llm.calls)
    with opened(tmp_path / "i", chunker=chunker) as index:
        assert index.plan([given, named(1)]).chunks == 0
        assert index.add([given, named(1)]).extracted == 0
        assert names(index) == made
        assert index.plan([changed]).chunks == 1
        with pytest.warns(UserWarning, match="read by a model .* phrases alone: 1. Add their documents again"):
            assert index.add([changed]).extracted == 1
        assert "A banker, says the model" in names(index)["Ada Moss"]
        assert "Cy Dale" in names(index)
        with pytest.warns(UserWarning, match="alone: 1"):
            index.add([doc("Di Hill met Ada Moss.", "d")])
    with opened(tmp_path / "i", llm, chunker=chunker) as index:
        assert index.add([changed, doc("Di Hill met Ada Moss.", "d")]).extracted == 2
        assert len(llm.calls) == asked + 2
        assert names(index).keys() == made.keys()


def test_a_text_that_stands_in_many_places_is_asked_about_once(tmp_path: Path) -> None:
    """Where it stands first: so the graph does not depend on which of several replies comes last."""
    shared = "Ada Moss founded Grain Trust at Pier 6."
    exports = []
    for run in range(3):
        dice = random.Random(run)

        def reply(prompt: str, dice: random.Random = dice) -> str:
            time.sleep(dice.random() / 50)
            return hash_reply(prompt)

        llm = ScriptedChatModel(reply=reply)
        with opened(tmp_path / str(run), llm, chunker=Chunker(12, 0, counter=lambda text: len(text.split()))) as index:
            documents = [doc(f"{shared} Person {end}mos owns the {end} mill of Lane {end}.", end) for end in "BCD"]
            plan = index.plan(documents)
            report = index.add(documents)
            assert plan.calls == report.extracted == len(llm.calls) < index.stats()["chunks"]
            exports.append([(v.name, v.descriptions) for v in index.graph.vertices()])
    assert exports[0] == exports[1] == exports[2]


@pytest.mark.parametrize("name", ["shop?new", "a%20b", "p%41q#r", "a b", "水厂"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    foreign = tmp_path / name.partition("?")[0]
    if "?" in name:
        foreign.write_bytes(b"somebody else's")
    with opened(tmp_path / name) as index:
        index.add(named(1))
    with opened(tmp_path / name) as index:
        assert index.sources() == ["01"]
    assert "?" not in name or foreign.read_bytes() == b"somebody else's"


def test_only_what_a_file_gave_is_taken_out_with_it() -> None:
    sources = ["docs/a.txt", "docs#1/b.txt", "docs/t.csv#7", "t.csv#1", "https://a.org/x.md", "note"]
    assert sources_under(["docs"], sources) == ["docs/a.txt", "docs/t.csv#7"]
    assert sources_under(["t.csv"], sources) == ["t.csv#1"]
    assert sources_under(["."], sources) == ["docs/a.txt", "docs#1/b.txt", "docs/t.csv#7", "t.csv#1"]


def test_an_index_within_the_documents_is_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ada Moss founded Grain Trust.", encoding="utf-8")
    for _ in range(2):
        with opened(tmp_path / "index") as index:
            index.add(tmp_path, sync=tmp_path)
            assert [Path(source).name for source in index.sources()] == ["a.txt"]
    assert len(load_documents(tmp_path)) == 1


def test_repair_is_refused_while_this_process_has_the_index_open(tmp_path: Path) -> None:
    with opened(tmp_path / "i") as index:
        index.add(named(1))
        with pytest.raises(StorageError, match="is open in this process: close the other index"):
            GraphIndex.repair(tmp_path / "i", EMBEDDINGS)
        assert index.add(named(2)).added == 1
    assert GraphIndex.repair(tmp_path / "i", EMBEDDINGS).documents == 2


def test_a_folder_that_was_moved_is_not_written_to(tmp_path: Path) -> None:
    with opened(tmp_path / "i") as index:
        index.add(named(1))
        (tmp_path / "i").rename(tmp_path / "j")
        with pytest.raises(StorageError, match="was moved, deleted or made anew since it was opened"):
            index.add(named(2))


def test_a_change_within_a_change_is_refused(tmp_path: Path) -> None:
    found: list[str] = []

    def nested(chunk: Document) -> Extraction:
        try:
            index.add(named(2))
        except UsageError as error:
            found.append(str(error))
        return Extraction([("Ada Moss", "")])

    with opened(tmp_path / "i", extractor=RunnableLambda(nested)) as index:
        assert index.add(named(1)).added == 1
    assert found == ["the index is being changed here: it cannot be changed within an extractor or a model"]


def test_two_threads_change_one_after_the_other(tmp_path: Path) -> None:
    with opened(tmp_path / "i") as index:
        threads = [threading.Thread(target=index.add, args=[named(number)]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(index.sources()) == ["00", "01", "02", "03"]


def test_a_first_run_that_fails_takes_back_only_what_is_its_own(tmp_path: Path) -> None:
    def unreachable(prompt: Any) -> str:
        raise ModelUnreachableError("no server")

    llm: RunnableLambda[Any, str] = RunnableLambda(unreachable)
    with opened(tmp_path / "i", llm) as index:
        (tmp_path / "i").mkdir()
        (tmp_path / "i" / "mine.txt").write_text("mine", encoding="utf-8")
        with pytest.raises((ModelUnreachableError, UsageError)):
            index.add(named(1))
    assert [path.name for path in (tmp_path / "i").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("metadata", [{("a", 1): "x"}, {"me": []}])
def test_metadata_that_cannot_be_kept_are_named(tmp_path: Path, metadata: dict[Any, Any]) -> None:
    if "me" in metadata:
        metadata["me"].append(metadata["me"])
    bad = Document.model_construct(page_content="Ada left.", metadata={"source": "a.txt", **metadata})
    with opened(tmp_path / "i") as index, pytest.raises(UsageError, match=r"the metadata of 'a\.txt'"):
        index.add(bad)


def test_metadata_are_the_same_in_every_process(tmp_path: Path) -> None:
    tags = doc("Ada left.", "a.txt", tags={"b", "a", "c"}, note="half \ud83d")
    with opened(tmp_path / "i") as index:
        index.add(tags)
        assert index.add(tags).unchanged == 1
        assert json.dumps(index.chunks()[0].metadata["tags"]) == '["a", "b", "c"]'


def test_a_field_of_a_file_cannot_stand_in_for_a_source(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        'id,text,given_metadata,rag_transformers.given\n1,"Ada Moss founded Grain Trust.",x,"{}"\n', encoding="utf-8"
    )
    with opened(tmp_path / "i") as index:
        index.add(tmp_path / "a.csv")
        (citation,) = index.query("Who founded Grain Trust?").citations
        assert citation.source.endswith("a.csv#1")


def test_what_a_user_does_to_the_graph_is_not_the_index_s(tmp_path: Path) -> None:
    with opened(tmp_path / "i") as index:
        index.add(named(1))
        index.graph.upsert_vertex(Vertex("Forged"))
        index.add(named(2))
        assert "Forged" not in index.graph


def test_another_way_to_cut_is_another_document(tmp_path: Path) -> None:
    text = doc("Ada Moss founded Grain Trust. Orrin Vale repaired the mill at Mill Lane.", "a")
    with opened(tmp_path / "i", chunker=Chunker(20, 0, counter=lambda text: len(text.split()))) as index:
        index.add(text)
    with opened(tmp_path / "i", chunker=Chunker(20, 0, counter=len)) as index:
        assert index.add(text).changed == 1


def stored(folder: Path) -> str:
    """All that is stored of what was made."""
    with sqlite3.connect(folder / "made.sqlite") as made:
        return repr([made.execute(f"select * from {table}").fetchall() for table in ("extractions", "made")])


def test_what_another_extractor_found_stays_until_its_text_is_gone(tmp_path: Path) -> None:
    """An edit of one document is no reason to forget what was paid for another; a deletion is one to forget it all."""
    asked: list[str] = []

    def by(name: str) -> RunnableLambda[Document, Extraction]:
        def read(chunk: Document) -> Extraction:
            asked.append(name)
            return Extraction([(f"{name} {chunk.page_content}", "said")])

        extractor = RunnableLambda(read)
        extractor.cache_key = name  # type: ignore[attr-defined]
        return extractor

    one, two = doc("Kiln", "a"), doc("Mill", "b")
    for name in ("first", "second"):
        with opened(tmp_path / "i", extractor=by(name)) as index:
            index.add([one, two])
    with opened(tmp_path / "i", extractor=by("second")) as index:
        index.add([doc("Kiln again", "a")])
    with opened(tmp_path / "i", extractor=by("first")) as index:
        index.add([doc("Kiln again", "a"), two])
        assert asked == ["first", "first", "second", "second", "second", "first"]
        assert '"first Kiln\\' not in stored(tmp_path / "i")
        assert "Mill" in stored(tmp_path / "i")
        index.delete("b")
    assert "Mill" not in stored(tmp_path / "i")


def test_no_description_of_what_is_gone_stays(tmp_path: Path) -> None:
    """Neither the one that holds nor one that a later document had replaced."""
    documents = [doc(f"Ada Moss keeps secret {number} in Grain Trust.", str(number)) for number in range(8)]
    with opened(tmp_path / "i") as index:
        for document in documents:
            index.add(document)
        assert "secret 3" in stored(tmp_path / "i")
        index.delete("3")
    assert "secret 3" not in stored(tmp_path / "i")
    assert "secret 4" in stored(tmp_path / "i")


def test_the_stages_of_a_report_come_in_their_order(tmp_path: Path) -> None:
    with opened(tmp_path / "i") as index:
        assert list(index.add(named(1)).stages) == ["extract", "embed", "describe", "report"]


def test_an_index_that_is_gone_or_was_made_anew_is_not_read_as_it_was(tmp_path: Path) -> None:
    for remade in (False, True):
        with opened(tmp_path / "i") as index:
            index.add(named(1))
            assert index.query("Who met Ada Moss?").found
            shutil.rmtree(tmp_path / "i")
            if remade:
                with opened(tmp_path / "other") as other:
                    other.add(named(2))
                shutil.move(tmp_path / "other", tmp_path / "i")
            for read in (lambda: index.query("Who met Ada Moss?"), lambda: index.graph, index.stats, index.sources):
                with pytest.raises(StorageError, match="was moved, deleted or made anew since it was opened"):
                    read()
        shutil.rmtree(tmp_path / "i", ignore_errors=True)


def test_half_of_a_surrogate_pair_in_a_source_is_found_as_it_was_given(tmp_path: Path) -> None:
    with opened(tmp_path / "i") as index:
        index.add(doc("Ada Moss met Bo Vale.", "a\ud800"))
        assert len(index.documents(["a\ud800"])) == 1
        assert index.delete("a\ud800")
        assert index.sources() == []


@pytest.mark.parametrize("own", [False, True])
def test_chunks_are_asked_about_in_reading_order(tmp_path: Path, own: bool) -> None:
    """By our extractors and by one's own: so what a run that was stopped has done is the beginning."""
    asked: list[str] = []

    def reply(prompt: str) -> str:
        asked.append(prompt.rpartition("Person ")[2][0])
        return hash_reply(prompt)

    def read(chunk: Document) -> Extraction:
        reply(chunk.page_content)
        return Extraction()

    given: dict[str, Any] = {"extractor": RunnableLambda(read)} if own else {"llm": ScriptedChatModel(reply=reply)}
    with opened(tmp_path / "i", **given, concurrency=1) as index:
        index.add([named(number) for number in range(12)])
    assert asked[:12] == list("ABCDEFGHIJKL")


@pytest.mark.parametrize("wrap", ["with_retry", "with_config", "with_fallbacks"])
def test_an_extractor_that_langchain_wrapped_does_what_it_says_in_reading_order(tmp_path: Path, wrap: str) -> None:
    asked: list[str] = []

    def read(chunk: Document) -> Extraction:
        asked.append(chunk.page_content)
        if wrap in ("with_retry", "with_fallbacks") and asked.count(chunk.page_content) == 1:
            raise TimeoutError
        return Extraction([(chunk.page_content, "")])

    plain = RunnableLambda(read)
    wraps: dict[str, Callable[[], Any]] = {
        "with_retry": lambda: plain.with_retry(stop_after_attempt=2, wait_exponential_jitter=False),
        "with_config": lambda: plain.with_config(tags=["x"]),
        "with_fallbacks": lambda: plain.with_fallbacks([plain]),
    }
    with opened(tmp_path / "i", extractor=wraps[wrap](), concurrency=1) as index:
        report = index.add([named(number) for number in range(8)])
    assert (report.extracted, report.failed) == (8, ())
    texts = [named(number).page_content for number in range(8)]
    assert list(dict.fromkeys(asked)) == texts


def test_what_an_extractor_leaves_out_of_a_batch_has_failed(tmp_path: Path) -> None:
    class Forgetful(RunnableLambda[Document, Extraction]):
        async def abatch_as_completed(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            yield 0, Extraction([("Ada", "")])

    extractor = Forgetful(lambda chunk: Extraction())
    with opened(tmp_path / "i", extractor=extractor) as index:
        report = index.add([named(1), named(2)])
        assert (report.extracted, [failure.source for failure in report.failed]) == (1, ["02"])
        assert "gave nothing for it" in report.failed[0].reason


def bytes_of(folder: Path) -> bytes:
    """All of an index but Chroma's files, which keep what it deleted until they are made anew."""
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())


@pytest.mark.parametrize("where", ["forget", "_clean"])
def test_what_is_gone_is_forgotten_whatever_stops_the_process_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The next change, of whatever, goes on with it."""
    secret = doc("Ada Moss keeps Quillwort in Grain Trust.", "a")

    class KilledError(BaseException):
        pass

    def killed(*args: Any, **kwargs: Any) -> None:
        raise KilledError

    with opened(tmp_path / "i") as index:
        index.add([secret, named(1)])
        home = "rag_transformers.stores.made.Made" if where == "forget" else SEARCH
        with monkeypatch.context() as patch:
            patch.setattr(f"{home}.{where}", killed)
            with pytest.raises(KilledError):
                index.delete("a")
        assert index.sources() == ["01"]
    assert b"Quillwort" in bytes_of(tmp_path / "i")
    with opened(tmp_path / "i") as index:
        index.add(named(1))
    assert b"Quillwort" not in bytes_of(tmp_path / "i")


SEARCH = "rag_transformers.indexing.search_structure.SearchStructure"


def test_a_deleted_text_stands_in_no_log_of_an_open_index(tmp_path: Path) -> None:
    with opened(tmp_path / "i") as index:
        index.add([doc("Ada Moss keeps Quillwort in Grain Trust.", "a"), named(1)])
        index.delete("a")
        assert b"Quillwort" not in bytes_of(tmp_path / "i")
