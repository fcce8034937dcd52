"""The records of an index: its documents and chunks, and which extraction, description and report holds for each.

A run changes them in a :class:`Draft`, one transaction from its first change to its end. Until then every reader, in
this process or another, sees the last finished state, and after it the new one.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from langchain_core.documents import Document
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from rag_transformers.errors import IndexDamagedError
from rag_transformers.stores.keys import is_partial
from rag_transformers.stores.sql import (
    CheckedBytes,
    CheckedJSON,
    CheckedText,
    faults_of,
    named_damage,
    parts,
    prepare,
    trim_log,
    way_out,
)

if TYPE_CHECKING:
    from rag_transformers.stores.made import Made

__all__ = [
    "Current",
    "DocumentRecord",
    "Draft",
    "Records",
    "State",
    "held",
]

_PART = 64 << 20  # bytes of a search structure in one row

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
    Column("length", Integer, nullable=False),
    Column("text", CheckedText, nullable=False),
    Column("metadata", CheckedJSON, nullable=False),
    Column("extraction", String(64)),
    Column("searchable", Boolean, nullable=False),
)
_current = Table(
    "current",
    _metadata,
    Column("stage", String(32), primary_key=True),
    Column("item", Text, primary_key=True),
    Column("content", String(64), nullable=False),
    Column("key", String(64), nullable=False),
    Column("placed", CheckedJSON, nullable=False),
)
_structures = Table(
    "structures",
    _metadata,
    Column("name", String(32), primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("data", CheckedBytes, nullable=False),
)
_state = Table(
    "state", _metadata, Column("name", String(32), primary_key=True), Column("value", CheckedJSON, nullable=False)
)
_in_order = (_documents.c.position, _chunks.c.number)


@dataclass(frozen=True)
class DocumentRecord:
    """A document as it is stored: its source, its content's fingerprint, and its chunks in order."""

    source: str
    fingerprint: str
    chunks: Sequence[Document] = field(default=(), repr=False)


class Current(NamedTuple):
    """What holds now for an item.

    Args:
        content: The hash of what it was made from.
        key: The key under which it was made.
        placed: What the graph says of it now beside what was made, as JSON-ready data.
    """

    content: str
    key: str
    placed: Any = None


class State(NamedTuple):
    """What an index says of itself as a whole.

    Args:
        generation: How many times it was changed; 0 before the first finished run. Readers look again when it grows.
        size: How many numbers one vector has; 0 before the first one.
        units: How many texts the search structure holds.
        documents: How many documents there are.
        chunks: How many chunks there are.
        vertices: How many vertices the graph has.
        edges: How many edges.
        derived: What descriptions and reports were made with, if all of them could be made; else empty.
        facts: What the manifest says too, so that it can be made again.
    """

    generation: int = 0
    size: int = 0
    units: int = 0
    documents: int = 0
    chunks: int = 0
    vertices: int = 0
    edges: int = 0
    derived: str = ""
    facts: Mapping[str, Any] = {}


def held(records: "Records", made: "Made", stage: str) -> dict[str, Any]:
    """What was made and holds now of a stage, by item.

    Raises:
        IndexDamagedError: Something that holds is missing.
    """
    current = records.current(stage)
    values = made.values({now.key: None for now in current.values()})
    if lacking := [item for item, now in current.items() if now.key not in values]:
        raise IndexDamagedError(f"{made.name} lacks what was made of {lacking[0]!r} ({stage}); {way_out(made.name)}")
    return {item: values[now.key] for item, now in current.items()}


class Records:
    """The last finished state, for readers.

    Args:
        path: A file of SQLite, or the URL of any database that SQLAlchemy knows.
        create: Whether to make tables that are missing; else they are damage.

    Raises:
        IndexDamagedError: The file is broken; nothing was changed.
    """

    def __init__(self, path: Path | str, create: bool = True) -> None:
        self.name = str(path)
        self._engine: Engine = prepare(path, _metadata, create)
        self._connected: Callable[[], AbstractContextManager[Connection]] = self._engine.connect

    def close(self) -> None:
        """Give the file back."""
        self._engine.dispose()

    def draft(self) -> "Draft":
        """The next state, to be changed and then committed or closed; one at a time, which a lock sees to."""
        return Draft(self)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator["Records"]:
        """One state, whatever is committed meanwhile; for any thread."""
        with self._engine.connect() as connection:
            yield _bound(Records, self, connection)

    # The whole

    def state(self) -> State:
        """What the index says of itself.

        Raises:
            IndexDamagedError: It cannot be read.
        """
        rows = self._rows(select(_state.c.value).where(_state.c.name == "state"))
        return State(**rows[0][0]) if rows else State()

    def generation(self) -> int:
        """How many times the index was changed, by other processes too."""
        return self.state().generation

    def counts(self) -> dict[str, int]:
        """How many documents, chunks, and chunks without a whole extraction there are."""
        ((documents,),) = self._rows(select(func.count()).select_from(_documents))
        keys = [key for (key,) in self._rows(select(_chunks.c.extraction))]
        failed = sum(key is None or is_partial(key) for key in keys)
        return {"documents": documents, "chunks": len(keys), "pending_chunks": failed}

    # Documents and chunks

    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of every document, by source, in reading order."""
        rows = select(_documents.c.source, _documents.c.fingerprint).order_by(_documents.c.position)
        return {source: fingerprint for source, fingerprint in self._rows(rows)}

    def chunks(self, ids: Iterable[str] | None = None) -> list[Document]:
        """Chunks in reading order: all, or those of these ids."""
        query = select(_chunks.c.id, _chunks.c.text, _chunks.c.metadata, *_in_order).join(
            _documents, _documents.c.source == _chunks.c.source
        )
        if ids is None:
            rows = self._rows(query.order_by(*_in_order))
        else:
            rows = [row for part in parts(ids) for row in self._rows(query.where(_chunks.c.id.in_(part)))]
            rows.sort(key=lambda row: (row[3], row[4]))
        return [
            Document(id=id, page_content=text, metadata={**metadata, "order": position << 32 | number})
            for id, text, metadata, position, number in rows
        ]

    def chunks_of(self, sources: Iterable[str]) -> list[Document]:
        """The chunks of these documents, in reading order."""
        query = select(_chunks.c.id)
        found = (self._rows(query.where(_chunks.c.source.in_(part))) for part in parts(sources))
        return self.chunks(id for part in found for (id,) in part)

    def chunk_ids(self) -> list[str]:
        """The ids of all chunks, in reading order.

        Raises:
            IndexDamagedError: There are fewer or more than were written.
        """
        query = select(_chunks.c.id).join(_documents, _documents.c.source == _chunks.c.source)
        return [id for (id,) in self._rows(query.order_by(*_in_order))]

    def check_counts(self) -> None:
        """See that there are as many documents and chunks as were committed.

        Raises:
            IndexDamagedError: There are not.
        """
        state, ids, documents = self.state(), self.chunk_ids(), self.fingerprints()
        if (len(documents), len(ids)) != (state.documents, state.chunks):
            raise IndexDamagedError(
                f"{self.name} is damaged: it holds {len(documents)} documents and {len(ids)} chunks where "
                f"{state.documents} and {state.chunks} were written; restore it from a copy"
            )

    def check_all(self) -> None:
        """See that every document, chunk and search structure is what was written.

        Raises:
            IndexDamagedError: One is not.
        """
        self.check_counts()
        self.chunks()
        for (name,) in self._rows(select(_structures.c.name).distinct()):
            self.structure(name)

    def text_length(self) -> int:
        """Characters of all chunks."""
        ((length,),) = self._rows(select(func.coalesce(func.sum(_chunks.c.length), 0)))
        return int(length)

    def unsearchable(self) -> list[str]:
        """The ids of the chunks that the search structure does not hold yet, in reading order."""
        query = select(_chunks.c.id).join(_documents, _documents.c.source == _chunks.c.source)
        rows = self._rows(query.where(_chunks.c.searchable.is_(False)).order_by(*_in_order))
        return [id for (id,) in rows]

    def extraction_keys(self) -> dict[str, str | None]:
        """The key of the extraction that each chunk uses, by chunk id; None where there is none yet."""
        return {id: key for id, key in self._rows(select(_chunks.c.id, _chunks.c.extraction))}

    def extraction_order(self) -> list[tuple[str, str]]:
        """(chunk id, extraction key) of every chunk that has one, in reading order."""
        query = (
            select(_chunks.c.id, _chunks.c.extraction)
            .join(_documents, _documents.c.source == _chunks.c.source)
            .where(_chunks.c.extraction.is_not(None))
            .order_by(*_in_order)
        )
        return [(id, key) for id, key in self._rows(query)]

    # What was made of them

    def current(self, stage: str) -> dict[str, Current]:
        """What holds of a stage, by item."""
        columns = (_current.c.item, _current.c.content, _current.c.key, _current.c.placed)
        rows = self._rows(select(*columns).where(_current.c.stage == stage).order_by(_current.c.item))
        return {item: Current(*now) for item, *now in rows}

    def all_current(self) -> set[str]:
        """The keys of all that holds, of every stage."""
        return {key for (key,) in self._rows(select(_current.c.key))}

    def structure(self, name: str) -> bytes | None:
        """A search structure as it was kept, or None."""
        rows = self._rows(select(_structures.c.data).where(_structures.c.name == name).order_by(_structures.c.part))
        return b"".join(data for (data,) in rows) if rows else None

    def current_stages(self) -> list[str]:
        """The stages of which something holds."""
        return [stage for (stage,) in self._rows(select(_current.c.stage).distinct().order_by(_current.c.stage))]

    def trim(self) -> None:
        """See :func:`~rag_transformers.stores.sql.trim_log`."""
        trim_log(self._engine)

    def faults(self) -> list[str]:
        """What is wrong with the file, in words."""
        return faults_of(self._engine, self.name)

    def _rows(self, query: Any) -> Sequence[Any]:
        with named_damage(self.name), self._connected() as connection:
            return connection.execute(query).all()


class Draft(Records):
    """The next state of an index: what is read includes what was changed; nobody else sees it until it is committed."""

    def __init__(self, records: Records) -> None:
        self.name = records.name
        self._engine = records._engine
        self._connection = records._engine.connect()
        self._connected = _shared(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what was not committed."""
        with self._connected() as connection:
            connection.close()

    def commit(self, **changes: Any) -> State:
        """Make this the state that everybody sees, with one more generation.

        Args:
            **changes: What else of :class:`State` changes.
        """
        counts = self.counts()
        state = self.state()._replace(documents=counts["documents"], chunks=counts["chunks"], **changes)
        state = state._replace(generation=state.generation + 1)
        self.set_state(state)
        self.save()
        return state

    def save(self) -> None:
        """Make this what everybody sees, as the same generation."""
        with named_damage(self.name), self._connected() as connection:
            connection.commit()

    def set_state(self, state: State) -> None:
        """Write what the index says of itself."""
        self._execute(delete(_state).where(_state.c.name == "state"))
        self._execute(insert(_state).values(name="state", value=state._asdict()))

    def put_documents(self, records: Sequence[DocumentRecord]) -> None:
        """Store documents with their chunks; one that is there keeps its place in the reading order."""
        known = self.fingerprints()
        rows = self._rows(select(func.max(_documents.c.position)))
        position = -1 if rows[0][0] is None else int(rows[0][0])
        self._delete_chunks([record.source for record in records])
        for record in records:
            values: dict[str, Any] = {"fingerprint": record.fingerprint}
            if record.source in known:
                self._execute(update(_documents).where(_documents.c.source == record.source).values(values))
            else:
                position += 1
                self._execute(insert(_documents).values(source=record.source, position=position, **values))
        if rows := [_chunk_row(chunk) for record in records for chunk in record.chunks]:
            self._execute(insert(_chunks), rows)

    def delete_documents(self, sources: Iterable[str]) -> int:
        """Remove documents with their chunks; how many there were."""
        sources = list(sources)
        there = self.fingerprints().keys() & set(sources)
        self._delete_chunks(sources)
        for part in parts(sources):
            self._execute(delete(_documents).where(_documents.c.source.in_(part)))
        return len(there)

    def use_extractions(self, keys: Mapping[str, str]) -> None:
        """Let chunks, by their ids, use the extractions of these keys."""
        if keys:
            query = update(_chunks).where(_chunks.c.id == bindparam("chunk")).values(extraction=bindparam("used"))
            self._execute(query, [{"chunk": id, "used": key} for id, key in keys.items()])

    def drop_extractions(self, ids: Iterable[str]) -> None:
        """Let chunks use no extraction, so that they are extracted again."""
        for part in parts(ids):
            self._execute(update(_chunks).where(_chunks.c.id.in_(part)).values(extraction=None))

    def set_searchable(self, ids: Iterable[str] | None, searchable: bool = True) -> None:
        """Note whether the search structure holds these chunks; None for all."""
        for part in [None] if ids is None else parts(ids):
            query = update(_chunks).values(searchable=searchable)
            self._execute(query if part is None else query.where(_chunks.c.id.in_(part)))

    def put_current(self, stage: str, items: Mapping[str, Current]) -> None:
        """Let what was made hold for these items."""
        self.forget_current(stage, items)
        if items:
            rows = [{"stage": stage, "item": item, **now._asdict()} for item, now in items.items()]
            self._execute(insert(_current), rows)

    def forget_current(self, stage: str, items: Iterable[str]) -> None:
        """Note that nothing holds for these items any more."""
        for part in parts(items):
            self._execute(delete(_current).where(_current.c.stage == stage, _current.c.item.in_(part)))

    def put_structure(self, name: str, data: bytes) -> None:
        """Keep a search structure."""
        self._execute(delete(_structures).where(_structures.c.name == name))
        starts = range(0, max(1, len(data)), _PART)
        rows = [{"name": name, "part": i, "data": data[start : start + _PART]} for i, start in enumerate(starts)]
        self._execute(insert(_structures), rows)

    def drop_structures(self) -> int:
        """Forget the search structures that cannot be read, to have them made anew; how many."""
        dropped = 0
        for name in [name for (name,) in self._rows(select(_structures.c.name).distinct())]:
            try:
                self.structure(name)
            except IndexDamagedError:
                self._execute(delete(_structures).where(_structures.c.name == name))
                dropped += 1
        return dropped

    def _delete_chunks(self, sources: Iterable[str]) -> None:
        for part in parts(sources):
            self._execute(delete(_chunks).where(_chunks.c.source.in_(part)))

    def _execute(self, statement: Any, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
        with named_damage(self.name), self._connected() as connection:
            connection.execute(statement, rows)


def _bound(kind: type[Records], records: Records, connection: Connection) -> Records:
    """Records that are read through one connection."""
    bound = kind.__new__(kind)
    bound.name, bound._engine, bound._connected = records.name, records._engine, _shared(connection)
    return bound


def _shared(connection: Connection) -> Callable[[], AbstractContextManager[Connection]]:
    """One connection for any thread, used by one at a time."""
    lock = threading.RLock()

    @contextlib.contextmanager
    def taken() -> Iterator[Connection]:
        with lock:
            yield connection

    return taken


def _chunk_row(chunk: Document) -> dict[str, Any]:
    metadata = {name: value for name, value in chunk.metadata.items() if name != "order"}
    return {
        "id": chunk.id,
        "source": metadata["source"],
        "number": metadata["chunk"],
        "length": len(chunk.page_content),
        "text": chunk.page_content,
        "metadata": metadata,
        "extraction": None,
        "searchable": False,
    }
