"""The records of an index, and what was made for them: all at once, in reading order, and damage by its name."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document

from rag_transformers.errors import IndexDamagedError, StorageError
from rag_transformers.graph import Extraction
from rag_transformers.stores.made import Made
from rag_transformers.stores.records import Current, DocumentRecord, Draft, Records, held


def chunk(source: str, number: int, text: str) -> Document:
    place = {"source": source, "chunk": number, "start": 0, "end": len(text)}
    return Document(id=f"{source}-{number}", page_content=text, metadata=place)


def record(source: str, *texts: str, fingerprint: str = "f") -> DocumentRecord:
    return DocumentRecord(source, fingerprint, [chunk(source, number, text) for number, text in enumerate(texts)])


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records(tmp_path / "records.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def draft(records: Records) -> Iterator[Draft]:
    with records.draft() as opened:
        yield opened


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    opened = Made(tmp_path / "made.sqlite")
    yield opened
    opened.close()


class TestDraft:
    def test_chunks_come_in_reading_order(self, draft: Draft) -> None:
        draft.put_documents([record("b", "one", "two")])
        draft.put_documents([record("a", "三")])
        assert [chunk.page_content for chunk in draft.chunks()] == ["one", "two", "三"]
        orders = [chunk.metadata["order"] for chunk in draft.chunks()]
        assert orders == sorted(orders)

    def test_a_document_that_is_stored_again_keeps_its_place(self, draft: Draft) -> None:
        draft.put_documents([record("a", "old"), record("b", "other")])
        draft.put_documents([record("a", "new", fingerprint="g")])
        assert [chunk.page_content for chunk in draft.chunks()] == ["new", "other"]
        assert draft.fingerprints() == {"a": "g", "b": "f"}

    def test_deleting_a_document_removes_its_chunks(self, draft: Draft) -> None:
        draft.put_documents([record("a", "one"), record("b", "two")])
        assert draft.delete_documents(["a", "nowhere"]) == 1
        assert [chunk.metadata["source"] for chunk in draft.chunks()] == ["b"]

    def test_chunks_may_share_an_extraction(self, draft: Draft) -> None:
        draft.put_documents([record("a", "same", "same", "other")])
        draft.use_extractions({"a-0": "k", "a-1": "k"})
        assert draft.extraction_order() == [("a-0", "k"), ("a-1", "k")]
        assert draft.extraction_keys() == {"a-0": "k", "a-1": "k", "a-2": None}
        assert draft.counts() == {"documents": 1, "chunks": 3, "pending_chunks": 1}

    def test_metadata_may_hold_what_json_does_not(self, draft: Draft) -> None:
        dated = chunk("a", 0, "text")
        dated.metadata["path"] = Path("somewhere")
        draft.put_documents([DocumentRecord("a", "f", [dated])])
        assert draft.chunks()[0].metadata["path"] == "somewhere"

    def test_a_structure_of_any_length_comes_back(self, draft: Draft, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rag_transformers.stores.records._PART", 7)
        for data in (b"", b"1234567", b"12345678901234567890"):
            draft.put_structure("words", data)
            assert draft.structure("words") == data
        assert draft.structure("names") is None


class TestStates:
    def test_a_draft_is_seen_when_it_is_committed_and_not_before(self, records: Records) -> None:
        with records.draft() as draft:
            draft.put_documents([record("a", "one")])
            assert (draft.chunk_ids(), records.chunk_ids(), records.generation()) == (["a-0"], [], 0)
            assert draft.commit(size=3).generation == 1
        assert records.chunk_ids() == ["a-0"]
        assert records.state()[:5] == (1, 3, 0, 1, 1)

    def test_a_draft_that_is_closed_leaves_nothing(self, records: Records) -> None:
        with records.draft() as draft:
            draft.put_documents([record("a", "one")])
        assert records.chunk_ids() == []

    def test_a_snapshot_stays_what_it_was(self, records: Records) -> None:
        with records.snapshot() as before:
            assert before.generation() == 0
            with records.draft() as draft:
                draft.put_documents([record("a", "one")])
                draft.commit()
            assert (before.chunk_ids(), before.generation()) == ([], 0)
        assert (records.chunk_ids(), records.generation()) == (["a-0"], 1)

    def test_another_connection_sees_what_was_committed(self, records: Records, tmp_path: Path) -> None:
        other = Records(tmp_path / "records.sqlite", create=False)
        with records.draft() as draft:
            draft.put_documents([record("a", "one")])
            assert other.generation() == 0
            draft.commit()
        assert (other.generation(), other.chunk_ids()) == (1, ["a-0"])
        other.close()

    def test_what_holds_and_is_not_there_is_damage(self, draft: Draft, made: Made) -> None:
        made.put_values({"k": "A banker."})
        draft.put_current("describe", {"ada": Current("c", "k")})
        assert held(draft, made, "describe") == {"ada": "A banker."}
        draft.put_current("describe", {"bob": Current("c", "lost")})
        with pytest.raises(IndexDamagedError, match=r"made\.sqlite lacks what was made of 'bob'"):
            held(draft, made, "describe")


class TestMade:
    def test_an_extraction_is_found_by_its_key(self, made: Made) -> None:
        found = Extraction([("林晚", "掌柜")], [("林晚", "开设", "听雨楼", "")])
        made.put_extractions({"k": found})
        assert made.known_extractions(["k", "l"]) == {"k"}
        assert made.extractions(["k", "k"]) == {"k": found}
        with pytest.raises(IndexDamagedError, match="lacks 1 extractions; rag-transformers repair"):
            made.extractions(["k", "l"])

    def test_vectors_keep_their_numbers(self, made: Made) -> None:
        many = {str(i): np.full(4, i, dtype=np.float32) for i in range(1200)}
        made.put_vectors(many)
        made.put_vectors({"3": np.zeros(4, dtype=np.float32)})
        stored = made.vectors([*many, "nowhere"])
        assert stored.keys() == many.keys()
        assert all((stored[key] == many[key]).all() for key in many)

    def test_what_is_forgotten_is_gone_and_nothing_else(self, made: Made) -> None:
        made.put_values({"a": 1, "b": 2})
        made.forget(values=["a", "nowhere"])
        assert made.values(["a", "b"]) == {"b": 2}


class TestDamage:
    @pytest.mark.parametrize("kind", [Records, Made])
    def test_a_file_that_is_no_database_is_named_and_kept(self, tmp_path: Path, kind: type[Records | Made]) -> None:
        path = tmp_path / "some.sqlite"
        path.write_bytes(b"not a database, but a long enough text to look at" * 40)
        before = path.read_bytes()
        with pytest.raises(IndexDamagedError, match=r"some\.sqlite"):
            kind(path)
        assert path.read_bytes() == before

    def test_a_value_that_has_changed_is_noticed(self, made: Made, tmp_path: Path) -> None:
        made.put_extractions({"k": Extraction([("Ada Moss", "Founder")]), "l": Extraction()})
        made.put_vectors({"v": np.ones(4, dtype=np.float32)})
        made.close()
        with sqlite3.connect(tmp_path / "made.sqlite") as connection:
            connection.execute("update extractions set found = replace(found, 'Ada', 'Ida') where key = 'k'")
            connection.execute("update vectors set vector = zeroblob(24)")
        connection.close()
        with pytest.raises(IndexDamagedError, match=r"made\.sqlite is damaged"):
            made.extractions(["k"])
        with pytest.raises(IndexDamagedError, match=r"made\.sqlite is damaged"):
            made.vectors(["v"])
        assert made.extractions(["l"]) == {"l": Extraction()}
        assert made.unreadable() == {"extractions": ["k"], "vectors": ["v"]}

    def test_rows_that_are_gone_are_noticed(self, records: Records, tmp_path: Path) -> None:
        with records.draft() as draft:
            draft.put_documents([record("a", "one", "two")])
            draft.commit()
        records.check_counts()
        with sqlite3.connect(tmp_path / "records.sqlite") as connection:
            connection.execute("update chunks set source = 'b' where number = 1")
        connection.close()
        with pytest.raises(IndexDamagedError, match="1 documents and 1 chunks where 1 and 2 were written"):
            records.check_counts()

    def test_a_full_disk_is_no_damage(self, made: Made) -> None:
        made.close()
        made._engine.dispose()

        def full(connection: sqlite3.Connection, _: object) -> None:
            connection.execute("PRAGMA max_page_count=12")

        from sqlalchemy import event

        event.listen(made._engine, "connect", full)
        with pytest.raises(StorageError, match=r"made\.sqlite cannot be used: database or disk is full"):
            made.put_values({str(i): "x" * 10_000 for i in range(20)})
        assert made.values(["0"]) == {}


def test_what_was_written_is_there_after_reopening(records: Records, tmp_path: Path) -> None:
    with records.draft() as draft:
        draft.put_documents([record("a", "one")])
        draft.commit()
    records.close()
    again = Records(tmp_path / "records.sqlite", create=False)
    assert [chunk.page_content for chunk in again.chunks()] == ["one"]
    again.close()
