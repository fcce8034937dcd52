r"""CSV: a table of vertices and one of edges, for spreadsheets and pandas, or for Neo4j's importer.

A list is JSON text, and what XML does not allow is escaped in all other text, as in GraphML. For spreadsheets cells are
guarded against formulas; :func:`rag_transformers.exports.escapes.unguard` and ``unescape`` give the text back.

Cells for Neo4j are not guarded, for there they are data: do not open those in a spreadsheet. Chunks are a list there,
and a ``;`` in the id of one is written ``\u003b``. They are read by ``neo4j-admin database import full
--multiline-fields=true --nodes=vertices.csv --relationships=edges.csv``.
"""

import csv
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from rag_transformers.exports.escapes import cell_text, escape, guard
from rag_transformers.exports.rows import GraphRows, Row

__all__ = ["write_edge_table", "write_neo4j_edges", "write_neo4j_vertices", "write_vertex_table"]

_NEO4J_NAMES = {"name": "name:ID", "source": ":START_ID", "target": ":END_ID", "chunks": "chunks:string[]"}


def write_vertex_table(rows: GraphRows, out: TextIO) -> None:
    """Write the vertices for spreadsheets."""
    header = list(rows.vertex_columns())
    _write([guard(escape(name)) for name in header], _cells(rows.vertex_rows(), header, _spreadsheet_cell), out)


def write_edge_table(rows: GraphRows, out: TextIO) -> None:
    """Write the edges for spreadsheets."""
    header = list(rows.edge_columns())
    _write([guard(escape(name)) for name in header], _cells(rows.edge_rows(), header, _spreadsheet_cell), out)


def write_neo4j_vertices(rows: GraphRows, out: TextIO) -> None:
    """Write the vertices for Neo4j: each has the label Vertex and is known by its name."""
    kinds = rows.vertex_columns()
    header = [_NEO4J_NAMES.get(name) or _neo4j_name(name, kind) for name, kind in kinds.items()]
    cells = _cells(rows.vertex_rows(), list(kinds), _neo4j_cell)
    _write([*header, ":LABEL"], ([*row, "Vertex"] for row in cells), out)


def write_neo4j_edges(rows: GraphRows, out: TextIO) -> None:
    """Write the edges for Neo4j: each has the type EDGE, and its relation as name."""
    kinds = rows.edge_columns()
    names = {**_NEO4J_NAMES, "name": "name"}
    header = [names.get(name) or _neo4j_name(name, kind) for name, kind in kinds.items()]
    cells = _cells(rows.edge_rows(), list(kinds), _neo4j_cell)
    _write([*header, ":TYPE"], ([*row, "EDGE"] for row in cells), out)


class _Lines:
    r"""Ends rows by a line feed alone, which suits pipes and every stream.

    The writer itself must be told ``\r\n``: before Python 3.13 it quotes only those line ends that it writes.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, row: str) -> int:
        return self._out.write(row.removesuffix("\r\n") + "\n")


def _write(header: list[str], cells: Iterable[list[str]], out: TextIO) -> None:
    writer = csv.writer(_Lines(out), lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(cells)


def _cells(rows: Iterable[Row], header: list[str], cell: Callable[[str, Any], str]) -> Iterable[list[str]]:
    for row in rows:
        yield [cell(name, row[name]) if name in row else "" for name in header]


def _spreadsheet_cell(name: str, value: Any) -> str:
    is_number = isinstance(value, int | float)
    return cell_text(value) if is_number else guard(cell_text(value))


def _neo4j_cell(name: str, value: Any) -> str:
    if name == "chunks":
        return ";".join(escape(str(chunk)).replace(";", "\\u003b") for chunk in value)
    return cell_text(value)


def _neo4j_name(name: str, kind: str) -> str:
    plain = escape(name).replace(":", "\\u003a")  # what follows a colon is a type, or makes the column an id
    return plain if kind == "string" else f"{plain}:{kind}"
