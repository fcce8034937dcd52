"""The tables of microsoft/graphrag as rows, and whether they have the columns that are read."""

import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from rag_transformers.errors import DocumentError, UsageError

__all__ = ["PREFIXES", "Row", "read_table"]

PREFIXES = ("", "create_final_")
"""What the name of a file may begin with: the versions from 2 on, and those before."""

Row = Mapping[str, Any]

_NEEDED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "communities": (("community", "id"),),
    "community_reports": (("community",),),
    "documents": (("id",),),
    "entities": (("id",), ("title", "name")),
    "nodes": (("title",), ("community",)),
    "relationships": (("source",), ("target",)),
    "text_units": (("id",), ("text", "chunk")),
}
"""The columns without which a table says nothing; each under the names that versions give it."""

_TAKEN: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "communities": (("level",),),
    "community_reports": (("title",), ("summary",), ("findings",)),
    "entities": (("description",), ("text_unit_ids",), ("human_readable_id",)),
    "relationships": (("description",), ("text_unit_ids",), ("human_readable_id",), ("weight",)),
    "text_units": (("document_ids", "document_id"),),
}
"""The columns without which something is lost."""


def read_table(folder: Path, name: str, wanted: Iterable[tuple[str, ...]] = ()) -> list[dict[str, Any]]:
    """The rows of a table, or none where there is none.

    Args:
        folder: Where it lies.
        name: Its name, such as ``entities``.
        wanted: Further columns without which something is lost, each under all of its names.

    Raises:
        UsageError: pyarrow is not installed, or a column is missing that nothing can be done without.
        DocumentError: The file is no parquet.
    """
    path = next((path for prefix in PREFIXES if (path := folder / f"{prefix}{name}.parquet").is_file()), None)
    if path is None:
        return []
    rows, columns = _read(path)
    if rows:
        _check_columns(path, columns, _NEEDED.get(name, ()), (*_TAKEN.get(name, ()), *wanted))
    return rows


def _read(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UsageError("parquet files need another package: pip install 'rag-transformers[import]'") from None
    try:
        with ParquetFile(path) as file:
            table = file.read()
            return table.to_pylist(), list(table.column_names)
    except (ArrowException, OSError) as error:
        raise DocumentError(f"{path} cannot be read as parquet: {' '.join(str(error).split())[:200]}") from None


def _check_columns(
    path: Path, there: Collection[str], needed: Iterable[tuple[str, ...]], taken: Iterable[tuple[str, ...]]
) -> None:
    if missing := _missing(there, needed):
        raise UsageError(f"{path} has no column {missing}; there are: {', '.join(there)}")
    if missing := _missing(there, taken):
        warnings.warn(f"{path} has no column {missing}: what it would say is lost", stacklevel=2)


def _missing(there: Collection[str], columns: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(" or ".join(names) for names in columns if not any(name in there for name in names))
