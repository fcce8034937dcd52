"""What was made at a price, by the hash of what it was made from: extractions, vectors, descriptions, reports.

Each is stored as soon as it is made, so that a run that was stopped goes on where it stopped. Nothing in here says what
holds now: that is told by :mod:`rag_transformers.stores.records`, all at once at the end of a run.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Column, MetaData, String, Table, delete, func, insert, select

from rag_transformers.errors import IndexDamagedError
from rag_transformers.graph import Extraction
from rag_transformers.stores.keys import TEXT_KEY
from rag_transformers.stores.sql import (
    CheckedBytes,
    CheckedJSON,
    faults_of,
    named_damage,
    parts,
    prepare,
    trim_log,
    way_out,
)

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Made"]

_metadata = MetaData()
_extractions = Table(
    "extractions",
    _metadata,
    Column("key", String(64), primary_key=True),
    Column("found", CheckedJSON, nullable=False),
)
_vectors = Table(
    "vectors", _metadata, Column("key", String(64), primary_key=True), Column("vector", CheckedBytes, nullable=False)
)
_values = Table(
    "made", _metadata, Column("key", String(64), primary_key=True), Column("value", CheckedJSON, nullable=False)
)


class Made:
    """A database of things by their keys; each write is one transaction, and safe on disk when it returns.

    Args:
        path: A file of SQLite, or the URL of any database that SQLAlchemy knows.
        create: Whether to make tables that are missing; else they are damage.

    Raises:
        IndexDamagedError: The file is broken; nothing was changed.
    """

    def __init__(self, path: Path | str, create: bool = True) -> None:
        self.name = str(path)
        self._engine = prepare(path, _metadata, create)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Give the file back."""
        self._engine.dispose()

    def extractions(self, keys: Iterable[str]) -> dict[str, Extraction]:
        """The extractions of these keys.

        Raises:
            IndexDamagedError: One is missing or cannot be read.
        """
        asked = list(dict.fromkeys(keys))
        found = self._found(_extractions.c.key, _extractions.c.found, asked)
        if lacking := [key for key in asked if key not in found]:
            raise IndexDamagedError(f"{self.name} lacks {len(lacking)} extractions; {way_out(self.name)}")
        with named_damage(self.name):
            return {key: Extraction.from_dict(data) for key, data in found.items()}

    def known_extractions(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys under which an extraction is stored."""
        return self._known(_extractions.c.key, keys)

    def put_extractions(self, found: Mapping[str, Extraction]) -> None:
        """Store extractions under their keys."""
        self._put(_extractions, {key: {"found": extraction.to_dict()} for key, extraction in found.items()})

    def vectors(self, keys: Iterable[str]) -> "dict[str, npt.NDArray[np.float32]]":
        """The vectors stored under these keys; a key without one is left out."""
        found = self._found(_vectors.c.key, _vectors.c.vector, keys)
        with named_damage(self.name):
            return {key: np.frombuffer(blob, dtype="<f4") for key, blob in found.items()}

    def some_vectors(self, count: int) -> "npt.NDArray[np.float32]":
        """As many of the vectors, as rows; the same ones each time."""
        rows = self._rows(select(_vectors.c.vector).order_by(_vectors.c.key).limit(count))
        return np.array([np.frombuffer(blob, dtype="<f4") for (blob,) in rows], dtype=np.float32)

    def known_vectors(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys under which a vector is stored."""
        return self._known(_vectors.c.key, keys)

    def put_vectors(self, vectors: "Mapping[str, npt.NDArray[np.float32]]") -> None:
        """Store vectors under their keys; one that is there stays."""
        known = self.known_vectors(vectors)
        new = {
            key: {"vector": np.asarray(vector, dtype="<f4").tobytes()}
            for key, vector in vectors.items()
            if key not in known
        }
        self._put(_vectors, new)

    def values(self, keys: Iterable[str]) -> dict[str, Any]:
        """Descriptions, reports and the like, as JSON-ready data, by key; a key without one is left out."""
        return self._found(_values.c.key, _values.c.value, keys)

    def put_values(self, values: Mapping[str, Any]) -> None:
        """Store descriptions, reports and the like under their keys."""
        self._put(_values, {key: {"value": value} for key, value in values.items()})

    def value_keys(self) -> set[str]:
        """The keys of all descriptions, reports and the like."""
        return {key for (key,) in self._rows(select(_values.c.key))}

    def forget(
        self,
        *,
        texts: Iterable[str] = (),
        extractions: Iterable[str] = (),
        vectors: Iterable[str] = (),
        values: Iterable[str] = (),
    ) -> None:
        """Forget what is stored under these keys.

        Args:
            texts: Keys of texts: all that any extractor has found in them goes.
            extractions: Keys of single extractions.
            vectors: Keys of vectors.
            values: Keys of descriptions, reports and the like.
        """
        key = _extractions.c.key
        what = [
            (_extractions, func.substr(key, 1, TEXT_KEY), texts),
            (_extractions, key, extractions),
            (_vectors, _vectors.c.key, vectors),
            (_values, _values.c.key, values),
        ]
        with self._lock, named_damage(self.name), self._engine.begin() as connection:
            for table, column, keys in what:
                for part in parts(keys):
                    connection.execute(delete(table).where(column.in_(part)))

    def trim(self) -> None:
        """See :func:`~rag_transformers.stores.sql.trim_log`."""
        trim_log(self._engine)

    def unreadable(self) -> dict[str, list[str]]:
        """The keys of what cannot be read any more, by table; nothing is changed.

        Raises:
            IndexDamagedError: The database itself is broken.
        """
        found: dict[str, list[str]] = {}
        for table in (_extractions, _vectors, _values):
            keys = [key for (key,) in self._rows(select(table.c.key).order_by(table.c.key))]
            for key in keys:
                try:
                    self._rows(select(table).where(table.c.key == key))
                except IndexDamagedError:
                    found.setdefault(table.name, []).append(key)
        return found

    def faults(self) -> list[str]:
        """What is wrong with the file, in words."""
        return faults_of(self._engine, self.name)

    def counts(self) -> dict[str, int]:
        """How many extractions, vectors and other things there are."""
        tables = {"extractions": _extractions, "vectors": _vectors, "values": _values}
        return {name: int(self._rows(select(func.count()).select_from(table))[0][0]) for name, table in tables.items()}

    def _found(self, key: Column[str], value: Column[Any], keys: Iterable[str]) -> dict[str, Any]:
        query = select(key, value)
        return {name: data for part in parts(keys) for name, data in self._rows(query.where(key.in_(part)))}

    def _known(self, key: Column[str], keys: Iterable[str]) -> set[str]:
        return {name for part in parts(keys) for (name,) in self._rows(select(key).where(key.in_(part)))}

    def _put(self, table: Table, rows: Mapping[str, Mapping[str, Any]]) -> None:
        if not rows:
            return
        with self._lock, named_damage(self.name), self._engine.begin() as connection:
            for part in parts(rows):
                connection.execute(delete(table).where(table.c.key.in_(part)))
            connection.execute(insert(table), [{"key": key, **row} for key, row in rows.items()])

    def _rows(self, query: Any) -> Sequence[Any]:
        with named_damage(self.name), self._engine.connect() as connection:
            return connection.execute(query).all()
