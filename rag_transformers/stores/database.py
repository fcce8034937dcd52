"""The records of an index: documents, chunks, extractions, vectors and what was made of them, in one SQL database.

Everything else in an index is derived from these. The database is reached through SQLAlchemy Core, so that another
one than SQLite is a URL and not a rewrite. Each method that writes is one transaction.
"""

import contextlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from langchain_core.documents import Document
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError

from rag_transformers.errors import IndexDamagedError
from rag_transformers.graph import Extraction

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Current", "Database", "DocumentRecord", "is_partial", "partial_key"]

_PARTIAL = "~"
_BATCH = 500  # values in one statement, under every database's limit

_metadata = MetaData()
_documents = Table(
    "documents",
    _metadata,
    Column("source", Text, primary_key=True),
    Column("position", Integer, nullable=False, unique=True),
    Column("fingerprint", String(64), nullable=False),
)
_chunks = Table(
    "chunks",
    _metadata,
    Column("id", String(64), primary_key=True),
    Column("source", Text, nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("metadata", JSON, nullable=False),
    Column("extraction", String(64)),
    Column("searchable", Boolean, nullable=False),
)
_extractions = Table(
    "extractions", _metadata, Column("key", String(64), primary_key=True), Column("found", JSON, nullable=False)
)
_vectors = Table(
    "vectors", _metadata, Column("key", String(64), primary_key=True), Column("vector", LargeBinary, nullable=False)
)
_made = Table("made", _metadata, Column("key", String(64), primary_key=True), Column("value", JSON, nullable=False))
_current = Table(
    "current",
    _metadata,
    Column("stage", String(32), primary_key=True),
    Column("item", Text, primary_key=True),
    Column("content", String(64), nullable=False),
    Column("key", String(64), nullable=False),
)


@dataclass(frozen=True)
class DocumentRecord:
    """A document as it is stored: its source, its content's fingerprint, and its chunks in order."""

    source: str
    fingerprint: str
    chunks: Sequence[Document] = field(default=(), repr=False)


class Current(NamedTuple):
    """What holds now for an item: the hash of what it was made from, and the key under which it was made."""

    content: str
    key: str


def partial_key(key: str) -> str:
    """The key of what could be read of a reply that could not be read as a whole; the chunk is asked again."""
    return f"{key}{_PARTIAL}"


def is_partial(key: str) -> bool:
    """Whether a key is one of :func:`partial_key`."""
    return key.endswith(_PARTIAL)


class Database:
    """The records of one index.

    Args:
        path: The SQLite file, or any SQLAlchemy URL.
        create: Whether to make what is missing; else it is damage.

    Raises:
        IndexDamagedError: The file is no database, or lacks a table.
    """

    def __init__(self, path: Path | str, create: bool = True) -> None:
        self.name = str(path)
        if not create and isinstance(path, Path) and not (path.is_file() and path.stat().st_size):
            raise IndexDamagedError(
                f"{self.name} is missing or empty; restore it from a copy, or index into a new folder"
            )
        self._engine = _engine(path)
        self._lock = threading.Lock()
        with _named_damage(self.name):
            lacking = set(_metadata.tables) - set(inspect(self._engine).get_table_names())
            if create:
                _metadata.create_all(self._engine)
        if lacking and not create:
            self.close()
            raise IndexDamagedError(
                f"{self.name} lacks the tables {', '.join(sorted(lacking))}; restore it from a copy"
            )

    def close(self) -> None:
        """Give the file back."""
        self._engine.dispose()

    # Documents and chunks

    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of every document, by source, in reading order."""
        rows = select(_documents.c.source, _documents.c.fingerprint).order_by(_documents.c.position)
        return {source: fingerprint for source, fingerprint in self._rows(rows)}

    def put_documents(self, records: Sequence[DocumentRecord]) -> None:
        """Store documents with their chunks; one that is there keeps its place in the reading order."""
        with self._writing() as connection:
            last = connection.execute(select(func.max(_documents.c.position))).scalar()
            position = -1 if last is None else last
            known = {source for (source,) in connection.execute(select(_documents.c.source))}
            for record in records:
                connection.execute(delete(_chunks).where(_chunks.c.source == record.source))
                values: dict[str, Any] = {"fingerprint": record.fingerprint}
                if record.source in known:
                    connection.execute(update(_documents).where(_documents.c.source == record.source).values(values))
                else:
                    position += 1
                    connection.execute(insert(_documents).values(source=record.source, position=position, **values))
                if record.chunks:
                    connection.execute(insert(_chunks), [_chunk_row(chunk) for chunk in record.chunks])

    def delete_documents(self, sources: Iterable[str]) -> int:
        """Remove documents with their chunks; how many there were."""
        with self._writing() as connection:
            removed = 0
            for source in sources:
                connection.execute(delete(_chunks).where(_chunks.c.source == source))
                removed += connection.execute(delete(_documents).where(_documents.c.source == source)).rowcount
            return removed

    def chunks(self, ids: Iterable[str] | None = None) -> list[Document]:
        """Chunks in reading order: all, or those of these ids."""
        query = select(_chunks.c.id, _chunks.c.text, _chunks.c.metadata, _documents.c.position, _chunks.c.number).join(
            _documents, _documents.c.source == _chunks.c.source
        )
        if ids is None:
            rows = self._rows(query.order_by(_documents.c.position, _chunks.c.number))
        else:
            rows = [row for part in _parts(ids) for row in self._rows(query.where(_chunks.c.id.in_(part)))]
            rows.sort(key=lambda row: (row[3], row[4]))
        return [
            Document(id=id, page_content=text, metadata={**metadata, "order": position << 32 | number})
            for id, text, metadata, position, number in rows
        ]

    def chunks_of(self, sources: Iterable[str]) -> list[Document]:
        """The chunks of these documents, in reading order."""
        query = select(_chunks.c.id)
        parts = (self._rows(query.where(_chunks.c.source.in_(part))) for part in _parts(sources))
        return self.chunks(id for part in parts for (id,) in part)

    def chunk_ids(self) -> list[str]:
        """The ids of all chunks, in reading order."""
        query = select(_chunks.c.id).join(_documents, _documents.c.source == _chunks.c.source)
        return [id for (id,) in self._rows(query.order_by(_documents.c.position, _chunks.c.number))]

    def text_length(self) -> int:
        """Characters of all chunks."""
        ((length,),) = self._rows(select(func.coalesce(func.sum(func.length(_chunks.c.text)), 0)))
        return int(length)

    def texts_outside(self, sources: Iterable[str]) -> set[str]:
        """The texts of the chunks of all other documents."""
        inside = set(sources)
        return {text for source, text in self._rows(select(_chunks.c.source, _chunks.c.text)) if source not in inside}

    def unsearchable(self) -> list[Document]:
        """The chunks that the search structure does not hold yet, in reading order."""
        return self.chunks([id for (id,) in self._rows(select(_chunks.c.id).where(_chunks.c.searchable.is_(False)))])

    def set_searchable(self, ids: Iterable[str]) -> None:
        """Note that the search structure holds these chunks."""
        with self._writing() as connection:
            for part in _parts(ids):
                connection.execute(update(_chunks).where(_chunks.c.id.in_(part)).values(searchable=True))

    def forget_searchable(self) -> None:
        """Note that the search structure holds no chunk any more."""
        with self._writing() as connection:
            connection.execute(update(_chunks).values(searchable=False))

    def counts(self) -> dict[str, int]:
        """How many documents, chunks, and chunks without a whole extraction there are."""
        ((documents,),) = self._rows(select(func.count()).select_from(_documents))
        keys = [key for (key,) in self._rows(select(_chunks.c.extraction))]
        failed = sum(key is None or is_partial(key) for key in keys)
        return {"documents": documents, "chunks": len(keys), "pending_chunks": failed}

    # Extractions

    def extraction_keys(self) -> dict[str, str | None]:
        """The key of the extraction that each chunk uses, by chunk id; None where there is none yet."""
        return {id: key for id, key in self._rows(select(_chunks.c.id, _chunks.c.extraction))}

    def known_extractions(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys under which an extraction is stored."""
        query = select(_extractions.c.key)
        return {key for part in _parts(keys) for (key,) in self._rows(query.where(_extractions.c.key.in_(part)))}

    def put_extractions(self, found: Sequence[tuple[str, str, Extraction | None]]) -> None:
        """Store (chunk id, key, extraction) each; with None the chunk takes the one that is stored under the key."""
        with self._writing() as connection:
            new = {key: extraction.to_dict() for _, key, extraction in found if extraction is not None}
            for key, data in new.items():
                connection.execute(delete(_extractions).where(_extractions.c.key == key))
                connection.execute(insert(_extractions).values(key=key, found=data))
            for id, key, _ in found:
                connection.execute(update(_chunks).where(_chunks.c.id == id).values(extraction=key))

    def extraction_order(self) -> list[tuple[str, str]]:
        """(chunk id, extraction key) of every chunk that has one, in reading order."""
        query = (
            select(_chunks.c.id, _chunks.c.extraction)
            .join(_documents, _documents.c.source == _chunks.c.source)
            .where(_chunks.c.extraction.is_not(None))
            .order_by(_documents.c.position, _chunks.c.number)
        )
        return [(id, key) for id, key in self._rows(query)]

    def extractions(self, keys: Iterable[str]) -> dict[str, Extraction]:
        """The extractions stored under these keys."""
        query = select(_extractions.c.key, _extractions.c.found)
        parts = (self._rows(query.where(_extractions.c.key.in_(part))) for part in _parts(keys))
        with _named_damage(self.name):
            return {key: Extraction.from_dict(found) for part in parts for key, found in part}

    # Vectors

    def vectors(self, keys: Iterable[str]) -> "dict[str, npt.NDArray[np.float32]]":
        """The vectors stored under these keys; a key without one is left out."""
        query = select(_vectors.c.key, _vectors.c.vector)
        parts = (self._rows(query.where(_vectors.c.key.in_(part))) for part in _parts(keys))
        with _named_damage(self.name):
            return {key: np.frombuffer(blob, dtype="<f4") for part in parts for key, blob in part}

    def some_vectors(self, count: int) -> "npt.NDArray[np.float32]":
        """As many of the vectors, as rows; the same ones each time."""
        rows = self._rows(select(_vectors.c.vector).order_by(_vectors.c.key).limit(count))
        return np.array([np.frombuffer(blob, dtype="<f4") for (blob,) in rows], dtype=np.float32)

    def known_vectors(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys under which a vector is stored."""
        query = select(_vectors.c.key)
        return {key for part in _parts(keys) for (key,) in self._rows(query.where(_vectors.c.key.in_(part)))}

    def put_vectors(self, vectors: "Mapping[str, npt.NDArray[np.float32]]") -> None:
        """Store vectors under their keys; one that is there stays."""
        with self._writing() as connection:
            stored = self.known_vectors(vectors)
            rows = [
                {"key": key, "vector": np.asarray(vector, dtype="<f4").tobytes()}
                for key, vector in vectors.items()
                if key not in stored
            ]
            if rows:
                connection.execute(insert(_vectors), rows)

    # What was made of the graph

    def made(self, keys: Iterable[str]) -> dict[str, Any]:
        """What was made, as JSON-ready data, by the keys of what it was made from; a key without it is left out."""
        query = select(_made.c.key, _made.c.value)
        parts = (self._rows(query.where(_made.c.key.in_(part))) for part in _parts(keys))
        with _named_damage(self.name):
            return {key: value for part in parts for key, value in part}

    def current(self, stage: str) -> dict[str, Current]:
        """What holds now of a stage, by item."""
        query = select(_current.c.item, _current.c.content, _current.c.key).where(_current.c.stage == stage)
        return {item: Current(content, key) for item, content, key in self._rows(query.order_by(_current.c.item))}

    def held(self, stage: str) -> dict[str, Any]:
        """What was made and holds now of a stage, by item.

        Raises:
            IndexDamagedError: Something that holds is missing.
        """
        current = self.current(stage)
        made = self.made({now.key: None for now in current.values()})
        if lacking := [item for item, now in current.items() if now.key not in made]:
            raise IndexDamagedError(
                f"{self.name}: what was made of {lacking[0]!r} ({stage}) is missing; restore it from a copy"
            )
        return {item: made[now.key] for item, now in current.items()}

    def put_made(self, stage: str, made: Mapping[str, Any], items: Mapping[str, Current]) -> None:
        """Store what was made, by key, and for which items it holds."""
        with self._writing() as connection:
            for part in _parts(made):
                connection.execute(delete(_made).where(_made.c.key.in_(part)))
            if made:
                connection.execute(insert(_made), [{"key": key, "value": value} for key, value in made.items()])
            _forget_items(connection, stage, items)
            if items:
                rows = [{"stage": stage, "item": item, **now._asdict()} for item, now in items.items()]
                connection.execute(insert(_current), rows)

    def forget_made(self, keys: Iterable[str]) -> None:
        """Forget what was made under these keys."""
        with self._writing() as connection:
            for part in _parts(keys):
                connection.execute(delete(_made).where(_made.c.key.in_(part)))

    def forget_current(self, stage: str, items: Iterable[str]) -> None:
        """Note that nothing holds for these items any more; what was made stays known under its key."""
        with self._writing() as connection:
            _forget_items(connection, stage, items)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        """One transaction; the threads of this process write one after the other."""
        with self._lock, _named_damage(self.name), self._engine.begin() as connection:
            yield connection

    def _rows(self, query: Any) -> Sequence[Any]:
        with _named_damage(self.name), self._engine.connect() as connection:
            return connection.execute(query).all()


def _forget_items(connection: Connection, stage: str, items: Iterable[str]) -> None:
    for part in _parts(items):
        connection.execute(delete(_current).where(_current.c.stage == stage, _current.c.item.in_(part)))


@contextlib.contextmanager
def _named_damage(name: str) -> Iterator[None]:
    """Turn the driver's complaint about a broken file into one that names it."""
    try:
        yield
    except DatabaseError as error:
        raise IndexDamagedError(f"{name}: the database cannot be used: {error.orig}") from error
    except (TypeError, ValueError) as error:
        raise IndexDamagedError(f"{name}: a row cannot be read: {error}") from error


def _engine(path: Path | str) -> Engine:
    url = path if isinstance(path, str) and "://" in path else f"sqlite:///{Path(path).as_posix()}"
    engine = create_engine(url, json_serializer=_to_json)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _: object) -> None:
            cursor = connection.cursor()
            cursor.execute("PRAGMA journal_mode=WAL")  # readers and one writer do not wait for each other
            cursor.execute("PRAGMA synchronous=FULL")  # what was committed survives a power cut
            cursor.execute("PRAGMA busy_timeout=10000")
            cursor.close()

    return engine


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)  # metadata may hold dates and the like


def _chunk_row(chunk: Document) -> dict[str, Any]:
    metadata = {name: value for name, value in chunk.metadata.items() if name != "order"}
    return {
        "id": chunk.id,
        "source": metadata["source"],
        "number": metadata["chunk"],
        "text": chunk.page_content,
        "metadata": metadata,
        "extraction": None,
        "searchable": False,
    }


def _parts(values: Iterable[str]) -> Iterator[list[str]]:
    listed = list(values)
    for start in range(0, len(listed), _BATCH):
        yield listed[start : start + _BATCH]
