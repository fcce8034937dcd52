r"""Cypher statements that create the graph in Neo4j, or add it to what is there.

Vertices are ``(:Vertex {name})`` and edges ``[:EDGE {name}]``: relations are free text, of which there may be more than
a database has types for. All statements may be run again, and change nothing then. What XML does not allow is escaped
as in GraphML; a list of texts is a list, any other list or dict JSON text.

Run them with ``cypher-shell -f graph.cypher``.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, TextIO

from rag_transformers.exports.escapes import cell_text, escape
from rag_transformers.exports.rows import GraphRows, Row

__all__ = ["write_cypher"]

_BATCH = 500
"""Rows of one statement, which is one transaction."""

_CONSTRAINT = "CREATE CONSTRAINT vertex_name IF NOT EXISTS FOR (v:Vertex) REQUIRE v.name IS UNIQUE;\n"
_VERTICES = "MERGE (v:Vertex {name: row.name}) SET v += row;\n"
_EDGES = """MATCH (a:Vertex {name: row.source}), (b:Vertex {name: row.target})
MERGE (a)-[e:EDGE {name: row.name}]->(b) SET e += row.props;
"""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONG = 2**63
# A database may read \u anywhere, before it looks for escapes: so no u is left behind a backslash.
_IN_QUOTES = re.compile(r"\\u|[\\'\n\r\t]")
_QUOTED = {"\\u": r"\\\u0075", "\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def write_cypher(rows: GraphRows, out: TextIO) -> None:
    """Write a graph as Cypher."""
    out.write(_CONSTRAINT)
    _write(rows.vertex_rows(), _VERTICES, out)
    _write(map(_edge, rows.edge_rows()), _EDGES, out)


def _write(rows: Iterator[Row], statement: str, out: TextIO) -> None:
    while batch := list(islice(rows, _BATCH)):
        listed = ",\n".join(map(_literal_map, batch))
        out.write(f"UNWIND [\n{listed}\n] AS row\n{statement}")


def _edge(row: Row) -> Row:
    ends = {name: row.pop(name) for name in ("source", "target")}
    return {**ends, "name": row["name"], "props": _Map(row)}


class _Map(dict[str, Any]):
    """A dict that is to be a map of Cypher, which no property can hold."""


def _literal_map(row: Row) -> str:
    return "{" + ", ".join(f"{_name(name)}: {_literal(value)}" for name, value in row.items()) + "}"


def _literal(value: Any) -> str:
    if isinstance(value, _Map):
        return _literal_map(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return f"[{', '.join(_quoted(escape(each)) for each in value)}]"
    if isinstance(value, float):
        return repr(value).replace("e+", "e")
    is_word = isinstance(value, bool) or (isinstance(value, int) and -_LONG < value < _LONG)
    return cell_text(value) if is_word else _quoted(cell_text(value))


def _quoted(text: str) -> str:
    return f"'{_IN_QUOTES.sub(lambda match: _QUOTED[match[0]], text)}'"


def _name(name: str) -> str:
    """A name of a property, in backticks unless it is plain; a bare backslash in them could start an escape."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    return "`" + escape(name).replace("`", "``").replace("\\", "\\u005c") + "`"
