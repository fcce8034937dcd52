"""The records of an index: what is written is there, in reading order, and a broken file is named."""

from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document

from rag_transformers.errors import IndexDamagedError
from rag_transformers.graph import Extraction
from rag_transformers.stores.database import Database, DocumentRecord


def chunk(source: str, number: int, text: str) -> Document:
    place = {"source": source, "chunk": number, "start": 0, "end": len(text)}
    return Document(id=f"{source}-{number}", page_content=text, metadata=place)


def record(source: str, *texts: str, fingerprint: str = "f") -> DocumentRecord:
    return DocumentRecord(source, fingerprint, [chunk(source, number, text) for number, text in enumerate(texts)])


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "records.sqlite")


def test_chunks_come_in_reading_order(database: Database) -> None:
    database.put_documents([record("b", "one", "two")])
    database.put_documents([record("a", "三")])
    assert [chunk.page_content for chunk in database.chunks()] == ["one", "two", "三"]
    orders = [chunk.metadata["order"] for chunk in database.chunks()]
    assert orders == sorted(orders)


def test_a_document_that_is_stored_again_keeps_its_place(database: Database) -> None:
    database.put_documents([record("a", "old"), record("b", "other")])
    database.put_documents([record("a", "new", fingerprint="g")])
    assert [chunk.page_content for chunk in database.chunks()] == ["new", "other"]
    assert database.fingerprints() == {"a": "g", "b": "f"}


def test_deleting_a_document_removes_its_chunks(database: Database) -> None:
    database.put_documents([record("a", "one"), record("b", "two")])
    assert database.delete_documents(["a", "nowhere"]) == 1
    assert [chunk.metadata["source"] for chunk in database.chunks()] == ["b"]


def test_equal_texts_share_one_extraction(database: Database) -> None:
    found = Extraction([("林晚", "掌柜")], [("林晚", "开设", "听雨楼", "")])
    database.put_documents([record("a", "same", "same")])
    database.put_extractions([("a-0", "k", found)])
    assert database.known_extractions(["k", "l"]) == {"k"}
    database.put_extractions([("a-1", "k", None)])
    assert database.extraction_order() == [("a-0", "k"), ("a-1", "k")]
    assert database.extractions(["k"]) == {"k": found}
    assert database.counts() == {"documents": 1, "chunks": 2, "pending_chunks": 0}


def test_a_chunk_without_an_extraction_is_counted(database: Database) -> None:
    database.put_documents([record("a", "one", "two")])
    database.put_extractions([("a-0", "k", Extraction())])
    assert database.extraction_keys() == {"a-0": "k", "a-1": None}
    assert database.counts()["pending_chunks"] == 1


def test_vectors_keep_their_numbers(database: Database) -> None:
    many = {str(i): np.full(4, i, dtype=np.float32) for i in range(1200)}
    database.put_vectors(many)
    database.put_vectors({"3": np.zeros(4, dtype=np.float32)})
    stored = database.vectors([*many, "nowhere"])
    assert stored.keys() == many.keys()
    assert all((stored[key] == many[key]).all() for key in many)


def test_metadata_may_hold_what_json_does_not(database: Database) -> None:
    dated = chunk("a", 0, "text")
    dated.metadata["path"] = Path("somewhere")
    database.put_documents([DocumentRecord("a", "f", [dated])])
    assert database.chunks()[0].metadata["path"] == "somewhere"


def test_a_file_that_is_no_database_is_named_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    path.write_bytes(b"not a database, but a long enough text to look at" * 40)
    before = path.read_bytes()
    with pytest.raises(IndexDamagedError, match=r"records\.sqlite"):
        Database(path)
    assert path.read_bytes() == before


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    database = Database(tmp_path / "records.sqlite")
    database.put_documents([record("a", "one")])
    database.close()
    assert [chunk.page_content for chunk in Database(tmp_path / "records.sqlite").chunks()] == ["one"]
