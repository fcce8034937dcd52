"""What both databases of an index stand on: how one is opened, values that prove whole, and damage by its name."""

import contextlib
import hashlib
import json
import os
import sqlite3
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from shlex import quote
from typing import Any

from sqlalchemy import URL, Engine, LargeBinary, MetaData, Text, TypeDecorator, create_engine, event, inspect
from sqlalchemy.exc import DatabaseError

from rag_transformers.errors import IndexDamagedError, StorageError
from rag_transformers.text import encodable

__all__ = [
    "CheckedBytes",
    "CheckedJSON",
    "CheckedText",
    "faults_of",
    "named_damage",
    "open_engine",
    "parts",
    "prepare",
    "trim_log",
    "way_out",
]

_PATIENCE = 10_000  # milliseconds that one connection waits for another
_BATCH = 500  # values in one statement, under every database's limit
_CHECK = 8  # bytes of the hash that stands before a value
# What SQLite says where the disk or the machine is at fault, and not the file.
_NOT_DAMAGE = ("disk is full", "disk I/O error", "readonly database", "database is locked", "unable to open")


class CheckedBytes(TypeDecorator[bytes]):
    """Bytes with a hash before them: a database does not notice a bit that has changed in a value, this does."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Any) -> bytes | None:
        """Put the hash before the value."""
        return None if value is None else _check(value) + value

    def process_result_value(self, value: bytes | None, dialect: Any) -> bytes | None:
        """The value, if it is the one that was written."""
        if value is None:
            return None
        held = bytes(value[_CHECK:])
        if value[:_CHECK] != _check(held):
            raise ValueError("it is not what was written")
        return held


class CheckedText(TypeDecorator[str]):
    """Text with a hash before it, see :class:`CheckedBytes`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        """Put the hash before the value."""
        return None if value is None else _check(value.encode("utf-8", "surrogatepass")).hex() + value

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        """The value, if it is the one that was written."""
        if value is None:
            return None
        held = value[2 * _CHECK :]
        if value[: 2 * _CHECK] != _check(held.encode("utf-8", "surrogatepass")).hex():
            raise ValueError("it is not what was written")
        return held


class CheckedJSON(CheckedText):
    """JSON-ready data as text with a hash before it; what JSON lacks, such as a date, becomes its text."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        """The value as text, with the hash before it."""
        return super().process_bind_param(json.dumps(value, ensure_ascii=False, default=str), dialect)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        """The value, if it is the one that was written."""
        text = super().process_result_value(value, dialect)
        return None if text is None else json.loads(text)


def open_engine(path: Path | str) -> Engine:
    """The way to a database: a file of SQLite, or the URL of a server.

    A transaction sees one state from its first statement on, whatever others commit meanwhile; what was committed
    survives a power cut. A file in a folder that may not be written is read as it is.
    """
    if isinstance(path, str) and "://" in path:
        return create_engine(path)
    file = Path(path).absolute()
    fixed = not os.access(file.parent, os.W_OK)
    engine = create_engine(URL.create("sqlite", database=str(file)))
    if fixed:
        query = {"mode": "ro", "uri": "true", **({} if _has_log(file) else {"immutable": "1"})}
        place = f"file:{urllib.parse.quote(file.as_posix())}"
        engine = create_engine(URL.create("sqlite", database=place, query=query))

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver would begin a transaction at the first write, not the first read
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_PATIENCE}")
        if not fixed:
            cursor.execute("PRAGMA journal_mode=WAL")  # readers and one writer do not wait for each other
            cursor.execute("PRAGMA synchronous=FULL")  # what was committed survives a power cut
            cursor.execute("PRAGMA secure_delete=ON")  # what was deleted is not to be read in the file
        cursor.close()

    @event.listens_for(engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def prepare(path: Path | str, metadata: MetaData, create: bool) -> Engine:
    """Open a database and see to its tables.

    Args:
        path: A file, or the URL of a server.
        metadata: Its tables.
        create: Whether to make what is missing; else it is damage.

    Raises:
        IndexDamagedError: The file is missing or broken, or lacks a table; nothing was changed.
        StorageError: It cannot be used now.
    """
    name = str(path)
    if not create and isinstance(path, Path) and not (path.is_file() and path.stat().st_size):
        raise IndexDamagedError(f"{name} is missing or empty; restore it from a copy, or index into a new folder")
    engine = open_engine(path)
    with named_damage(name):
        lacking = set(metadata.tables) - set(inspect(engine).get_table_names())
        if create:
            metadata.create_all(engine)
    if lacking and not create:
        engine.dispose()
        raise IndexDamagedError(f"{name} lacks the tables {', '.join(sorted(lacking))}; restore it from a copy")
    return engine


def trim_log(engine: Engine) -> None:
    """Empty SQLite's log, where deleted texts still stand, unless it is read now; it is emptied when all close it."""
    if engine.dialect.name != "sqlite":
        return
    with contextlib.closing(engine.raw_connection()) as connection, contextlib.closing(connection.cursor()) as cursor:
        cursor.execute("PRAGMA busy_timeout=0")
        try:
            with contextlib.suppress(sqlite3.Error):
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            cursor.execute(f"PRAGMA busy_timeout={_PATIENCE}")


def faults_of(engine: Engine, name: str) -> list[str]:
    """What SQLite finds wrong with a file, in words; nothing for the database of a server.

    Raises:
        IndexDamagedError: It cannot even be looked through.
    """
    if engine.dialect.name != "sqlite":
        return []
    with named_damage(name), engine.connect() as connection:
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
    return [] if found == ["ok"] else found


@contextlib.contextmanager
def named_damage(name: str) -> Iterator[None]:
    """Turn the driver's complaint about a broken file, or about a full disk, into one that names it."""
    try:
        yield
    except DatabaseError as error:
        said = str(error.orig)
        if any(words in said for words in _NOT_DAMAGE):
            raise StorageError(
                f"{name} cannot be used: {said}; what was stored before is there, and the same command goes on from it"
            ) from error
        raise IndexDamagedError(f"{name}: the database cannot be used: {said}; {way_out(name)}") from error
    except (TypeError, ValueError) as error:
        raise IndexDamagedError(f"{name} is damaged: a value cannot be read: {error}; {way_out(name)}") from error


def parts(values: Iterable[str]) -> Iterator[list[str]]:
    """Values in lists that one statement takes, as they are stored: no database takes half of a surrogate pair."""
    listed = list(map(encodable, values))
    for start in range(0, len(listed), _BATCH):
        yield listed[start : start + _BATCH]


def way_out(name: str) -> str:
    """What to do about damage: what was made can be made again, what was given cannot."""
    folder = os.path.dirname(name) or "."
    return f"rag-transformers repair {quote(folder)} mends what can be mended; else restore it from a copy"


def _check(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=_CHECK).digest()


def _has_log(file: Path) -> bool:
    log = file.with_name(f"{file.name}-wal")
    return log.exists() and log.stat().st_size > 0
