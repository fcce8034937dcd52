"""The folder of an index: one writer, a seal on Chroma's files, damage is named, what is derived comes back."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda

from rag_transformers import GraphIndex
from rag_transformers.errors import (
    IndexDamagedError,
    IndexLockedError,
    NoIndexError,
    RagTransformersError,
    StorageError,
    UsageError,
)
from rag_transformers.files import replacing
from rag_transformers.stores.chroma_folder import ChromaFolder
from rag_transformers.stores.keys import text_key
from rag_transformers.stores.lock import write_lock

EMBEDDINGS = DeterministicFakeEmbedding(size=8)
TEXTS = {
    "pier": "Ada Moss founded Grain Trust at Pier 6. Grain Trust lends to the mill.",
    "mill": "Orrin Vale repaired the mill at Mill Lane. Ada Moss visited the mill.",
    "水厂": "林溪水厂位于北岸。沈若楠创办了林溪水厂。",
}


def documents(texts: dict[str, str] = TEXTS) -> list[Document]:
    return [Document(text, metadata={"source": source}) for source, text in texts.items()]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared") / "index"
    with GraphIndex.open(folder, embeddings=EMBEDDINGS) as index:
        index.add(documents())
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "index"))


def opened(folder: Path) -> GraphIndex:
    return GraphIndex.open(folder, embeddings=EMBEDDINGS)


class TestLock:
    def test_a_second_writer_is_told_at_once_who_writes(self, folder: Path) -> None:
        with write_lock(folder), opened(folder) as index:
            for act in (lambda: index.add(documents()), lambda: index.delete("pier"), index.rebuild):
                with pytest.raises(IndexLockedError, match=r"is being written by process \d+ on .+ since \d{4}-"):
                    act()
            with pytest.raises(IndexLockedError):
                GraphIndex.repair(folder, EMBEDDINGS)
            assert index.query("Who founded Grain Trust?").text  # reading goes on
        with opened(folder) as index:
            assert index.delete("pier")

    def test_the_lock_of_a_process_that_died_is_taken_over(self, folder: Path) -> None:
        hold = (
            "import sys, time; from pathlib import Path; from rag_transformers.stores.lock import write_lock\n"
            "with write_lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
        )
        child = subprocess.Popen([sys.executable, "-c", hold, str(folder)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline().split() == [b"held"]
        with opened(folder) as index, pytest.raises(IndexLockedError, match=rf"process {child.pid} "):
            index.delete("pier")
        child.kill()
        child.wait()
        child.stdout.close()
        with opened(folder) as index:
            assert index.delete("pier")
        assert not (folder / "writer.json").exists()

    def test_asking_makes_no_folder_and_takes_no_lock(self, tmp_path: Path) -> None:
        with opened(tmp_path / "new") as index:
            for act in (index.stats, index.rebuild, lambda: index.delete("pier"), lambda: index.query("Who?")):
                with pytest.raises(NoIndexError):
                    act()
        assert not (tmp_path / "new").exists()


@pytest.fixture
def chroma(tmp_path: Path) -> Iterator[ChromaFolder]:
    made = ChromaFolder(tmp_path)
    with made.writing(1):
        made.collection("sentences", EMBEDDINGS).add_texts(["one", "two"], [{"n": 1}, {"n": 2}], ids=["1", "2"])
    yield made
    made.close()


class TestSeal:
    def test_what_was_written_is_sealed_and_opened_again(self, chroma: ChromaFolder, tmp_path: Path) -> None:
        assert chroma.is_sealed
        chroma.close()
        for _ in range(2):  # opening changes a file of Chroma's, and the seal with it
            again = ChromaFolder(tmp_path)
            again.check(1)
            assert len(again.collection("sentences", EMBEDDINGS).get_by_ids(["1", "2"])) == 2
            again.close()

    def test_one_bit_in_any_file_is_noticed_before_chroma_is_opened(self, chroma: ChromaFolder, tmp_path: Path) -> None:
        chroma.close()
        files = [path for path in chroma.path.rglob("*") if path.is_file() and path.stat().st_size]
        assert len(files) > 2
        for path in files:
            whole = path.read_bytes()
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            for act in (lambda: chroma.check(1), lambda: chroma.collection("sentences", EMBEDDINGS)):
                with pytest.raises(IndexDamagedError, match=rf"{path.name} is damaged; rag-transformers repair"):
                    act()
            with pytest.raises(IndexDamagedError, match=path.name), chroma.writing(1):
                pytest.fail("written to")
            path.write_bytes(whole)
        chroma.check(1)

    def test_a_file_that_is_gone_or_does_not_belong_is_named(self, chroma: ChromaFolder) -> None:
        chroma.close()
        stranger = chroma.path / "stranger.bin"
        stranger.write_bytes(b"x")
        with pytest.raises(IndexDamagedError, match=r"stranger\.bin does not belong here"):
            chroma.check(1)
        stranger.unlink()
        (chroma.path / "chroma.sqlite3").unlink()
        with pytest.raises(IndexDamagedError, match=r"chroma\.sqlite3 is missing"):
            chroma.check(1)

    def test_a_failure_leaves_the_seal_open(self, chroma: ChromaFolder) -> None:
        with pytest.raises(StorageError, match="cannot be written: OSError: no room"), chroma.writing(1):
            raise OSError("no room")
        assert not chroma.is_sealed
        with pytest.raises(StorageError, match="is being written"):
            chroma.collection("sentences", EMBEDDINGS)
        chroma.check(1)  # nothing is known of it
        with chroma.writing(1):
            chroma.clear()
        assert chroma.is_sealed

    def test_records_that_are_older_than_the_files_have_lost_a_part(self, chroma: ChromaFolder) -> None:
        chroma.check(1)
        chroma.stamp(2)
        chroma.check(2)
        with pytest.raises(IndexDamagedError, match=r"records\.sqlite is older"):
            chroma.check(1)

    def test_while_another_writes_it_cannot_be_read(self, chroma: ChromaFolder, tmp_path: Path) -> None:
        other = ChromaFolder(tmp_path)
        assert other.can_be_read
        with chroma.writing(1):
            assert not other.can_be_read
            other.check(1)
        assert other.can_be_read
        other.close()


class TestRepair:
    def test_all_that_is_derived_comes_back(self, folder: Path) -> None:
        with opened(folder) as index:
            question = "Who founded Grain Trust?"
            before = index.query(question), index.stats(), index.retrieve(question)
        (folder / "manifest.json").unlink()
        (folder / "chroma.json").write_text("{", encoding="utf-8")
        (folder / "chroma" / "chroma.sqlite3").write_bytes(b"")
        with pytest.raises(RagTransformersError):
            opened(folder)
        report = GraphIndex.repair(folder, EMBEDDINGS)
        assert (report.documents, report.embedded, report.manifest, report.lost) == (3, 0, True, {})
        with opened(folder) as index:
            stats = {**index.stats(), "generation": before[1]["generation"]}
            assert (index.query(question), stats, index.retrieve(question)) == (before[0], before[1], before[2])

    def test_a_reply_that_cannot_be_read_is_forgotten_and_asked_for_again(self, folder: Path) -> None:
        with opened(folder) as index:
            whole = index.graph
        with sqlite3.connect(folder / "made.sqlite") as connection:
            connection.execute("update extractions set found = '0' where key in (select key from extractions limit 1)")
            connection.execute("update vectors set vector = zeroblob(3)")
            connection.execute("update made set value = 'x'")
        connection.close()
        with opened(folder) as index, pytest.raises(IndexDamagedError, match=r"made\.sqlite"):
            _ = index.graph
        report = GraphIndex.repair(folder, EMBEDDINGS)
        assert report.lost["extractions"] == 1
        assert report.embedded == report.vectors == 3
        with opened(folder) as index:
            assert index.stats()["pending_chunks"] == 1
            assert index.add(documents()).extracted == 1
            assert index.graph == whole

    def test_records_that_are_broken_stay_as_they_are(self, folder: Path) -> None:
        path = folder / "records.sqlite"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file() and "lock" not in each.name}
        with pytest.raises(IndexDamagedError, match=r"records\.sqlite"):
            GraphIndex.repair(folder, EMBEDDINGS)
        assert {each: each.read_bytes() for each in before} == before

    def test_where_there_is_none_there_is_nothing_to_repair(self, tmp_path: Path) -> None:
        for place in (tmp_path / "none", tmp_path):
            with pytest.raises(NoIndexError, match="no index"):
                GraphIndex.repair(place, EMBEDDINGS)
        assert not (tmp_path / "none").exists()


class TestSync:
    @pytest.fixture
    def docs(self, tmp_path: Path) -> Path:
        place = tmp_path / "docs"
        place.mkdir()
        for source, text in TEXTS.items():
            (place / f"{source}.txt").write_text(text, encoding="utf-8")
        return place

    def test_what_is_gone_from_a_folder_goes_and_nothing_else(self, docs: Path, tmp_path: Path) -> None:
        other = Document("Jon Ewer sold the barge.", metadata={"source": "another"})
        with opened(tmp_path / "i") as index, opened(tmp_path / "j") as fresh:
            index.add([docs, other])
            (docs / "mill.txt").unlink()
            assert index.add(docs).removed == 0
            plan = index.plan(docs, sync=docs)
            assert (plan.removed, plan.chunks) == (1, 0)
            report = index.add(docs, sync=docs)
            assert (report.removed, report.unchanged, report.extracted) == (1, 2, 0)
            fresh.add([docs])
            fresh.add([other])
            assert set(index.sources()) == set(fresh.sources())
            assert not any("mill" in vertex.name.lower() and len(vertex.name) < 5 for vertex in index.graph.vertices())

    def test_a_folder_that_was_emptied_leaves_nothing(self, docs: Path, tmp_path: Path) -> None:
        with opened(tmp_path / "i") as index:
            index.add(docs)
            for path in docs.iterdir():
                path.unlink()
            assert index.add(docs, sync=docs).removed == 3
            assert (index.sources(), len(index.graph), index.communities, index.reports) == ([], 0, (), ())
            index.add(documents())
            assert index.stats()["documents"] == 3


def test_an_unchanged_document_costs_nothing(folder: Path) -> None:
    """No call, no vector, no new generation, and no graph is even read."""
    with opened(folder) as index:
        before = index.stats()
    with opened(folder) as index:
        report = index.add(documents())
        assert (report.unchanged, report.vertices) == (3, before["vertices"])
        assert set(report.stages) == set()
        assert index.stats() == before


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError), replacing(path) as file:
        file.write(json.dumps({"new": "中"}) + "half \ud83d")
    assert path.read_text(encoding="utf-8") == "old"
    with replacing(path) as file:
        file.write("新")
    assert [each.name for each in tmp_path.iterdir()] == ["some.json"]
    assert path.read_text(encoding="utf-8") == "新"


def test_a_deleted_text_is_in_no_file_of_the_history(tmp_path: Path) -> None:
    """What an extractor looks back on forgets a document with it, and not what another document says too."""
    reply = "Entities:\n(Ada Moss#Founder)\nRelationships:\n(Ada Moss#founded#Grain Trust#)"
    llm: RunnableLambda[str, str] = RunnableLambda(lambda prompt: reply)
    shared = {**TEXTS, "copy": TEXTS["pier"]}
    with GraphIndex.open(tmp_path / "i", llm, EMBEDDINGS, reports=False) as index:
        index.add(documents(shared))
        for gone, left in (("copy", 3), ("mill", 2), ("pier", 1)):
            index.delete(gone)
            found = index._folder.chunk_history().vectorstore.get(include=["documents"])  # type: ignore[attr-defined]
            assert len(found["documents"]) == left
        assert found["documents"] == [TEXTS["水厂"]]


def test_a_deleted_document_leaves_no_reply_and_no_vector(tmp_path: Path) -> None:
    """All that only it led to is forgotten; what another document led to as well stays."""
    shared = {**TEXTS, "copy": TEXTS["pier"]}
    with opened(tmp_path / "i") as index, opened(tmp_path / "j") as fresh:
        index.add(documents(shared))
        for source in ("copy", "mill", "水厂"):
            index.delete(source)
        fresh.add(documents({"pier": TEXTS["pier"]}))
        assert index._folder.made.counts()["extractions"] == fresh._folder.made.counts()["extractions"] == 1
        held = index._folder.made.vectors([text_key(text) for text in shared.values()])
        assert list(held) == [text_key(TEXTS["pier"])]
        assert "沈若楠" not in (tmp_path / "i" / "made.sqlite").read_bytes().decode("utf-8", "ignore")


def test_an_application_s_own_client_is_passed_in_or_named(tmp_path: Path) -> None:
    import chromadb
    from chromadb.config import Settings

    app: Any = chromadb.PersistentClient(str(tmp_path / "i" / "chroma"), Settings(anonymized_telemetry=False))
    with opened(tmp_path / "i") as index, pytest.raises(UsageError, match="pass it in"):
        index.add(documents())
    with GraphIndex.open(tmp_path / "i", embeddings=EMBEDDINGS, client=app) as index:
        index.add(documents())
        assert index.delete("pier")
        assert index.retrieve("mill")
    app.close()
