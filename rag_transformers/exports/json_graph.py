"""JSON: one object with all that is known, a line for each vertex, edge, community and report.

``{"format": "rag-transformers-graph", "version": 1, "vertices": [...], "edges": [...], "communities": [...],
"reports": [...]}``. Text comes back exactly, lone surrogates too. Numbers that are not finite are text.
"""

from collections.abc import Iterable
from typing import TextIO

from rag_transformers.exports.escapes import json_text
from rag_transformers.exports.rows import GraphRows, Row

__all__ = ["write_json"]


def write_json(rows: GraphRows, out: TextIO) -> None:
    """Write a graph with its communities and reports as JSON."""
    out.write('{"format": "rag-transformers-graph", "version": 1')
    for name, listed in (
        ("vertices", rows.vertex_rows()),
        ("edges", rows.edge_rows()),
        ("communities", rows.communities),
        ("reports", rows.reports),
    ):
        out.write(f',\n"{name}": [')
        _write_list(listed, out)
        out.write("]")
    out.write("}\n")


def _write_list(listed: Iterable[Row], out: TextIO) -> None:
    separator = "\n"
    for row in listed:
        out.write(f"{separator}{json_text(row)}")
        separator = ",\n"
