"""A graph in the formats of other tools: GraphML, JSON, CSV, Cypher, CSV for Neo4j, LangChain's graph documents.

The same graph gives the same bytes: vertices and edges are in the order of their keys, whatever the order of insertion,
and nothing depends on time or place. What each format holds is said in its module.
"""

import io
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from rag_transformers.errors import UsageError
from rag_transformers.exports.cypher import write_cypher
from rag_transformers.exports.graph_documents import to_graph_documents
from rag_transformers.exports.graphml import write_graphml
from rag_transformers.exports.json_graph import write_json
from rag_transformers.exports.rows import GraphRows
from rag_transformers.exports.tables import (
    write_edge_table,
    write_neo4j_edges,
    write_neo4j_vertices,
    write_vertex_table,
)
from rag_transformers.files import replacing, usage_errors
from rag_transformers.graph import Graph

__all__ = ["Exported", "export_graph", "formats", "to_graph_documents"]


class Exported(NamedTuple):
    """What was written: the number of vertices and of edges, and the files; no file where it went to a stream."""

    vertices: int
    edges: int
    files: tuple[Path, ...]


class _Format(NamedTuple):
    """How a format is written: the tables of a folder by file name, or one writer under the name ""."""

    writers: dict[str, Callable[[GraphRows, TextIO], None]]
    # Excel on Windows takes CSV without the mark for the code page of the system, which breaks Chinese.
    encoding: str = "utf-8"


_FORMATS = {
    "graphml": _Format({"": write_graphml}),
    "json": _Format({"": write_json}),
    "csv": _Format({"vertices.csv": write_vertex_table, "edges.csv": write_edge_table}, "utf-8-sig"),
    "cypher": _Format({"": write_cypher}),
    "csv-neo4j": _Format({"vertices.csv": write_neo4j_vertices, "edges.csv": write_neo4j_edges}),
}


def formats() -> tuple[str, ...]:
    """The names of the formats.

    >>> formats()
    ('graphml', 'json', 'csv', 'cypher', 'csv-neo4j')
    """
    return tuple(_FORMATS)


def export_graph(
    graph: Graph,
    format: str,
    target: str | Path | TextIO,
    *,
    communities: Iterable[Mapping[str, Any]] = (),
    reports: Iterable[Mapping[str, Any]] = (),
) -> Exported:
    """Write a graph in one of :func:`formats`.

    A file is written beside and renamed when it is whole, so that a failure leaves the one that was there. The two CSV
    formats make two tables: the target is a folder, made if it is missing, which gets ``vertices.csv`` and
    ``edges.csv``; a stream gets the table of edges alone. Files are UTF-8; those of ``csv`` start with a byte order
    mark, by which Excel knows it. A stream gets text without a mark.

    Args:
        graph: What to write, as it is now; it may change meanwhile.
        format: One of :func:`formats`.
        target: A path, or a text stream that can write Unicode and stays open.
        communities: As dicts (``Community.to_dict``). JSON holds them whole; in the others each vertex gets the id of
            its community of level 0 as ``community``.
        reports: As dicts, for JSON; the other formats have no place for them.

    Returns:
        How much was written, and where.

    Raises:
        UsageError: An unknown format, a target that cannot be written, or a prop that no format can hold.

    >>> import sys
    >>> from rag_transformers.graph import Edge
    >>> from rag_transformers.stores import MemoryGraph
    >>> graph = MemoryGraph()
    >>> graph.upsert_edge(Edge("刘备", "张飞", "结义", description="桃园"))
    >>> written = export_graph(graph, "csv", sys.stdout)
    source,target,name,weight,description,descriptions,chunks
    刘备,张飞,结义,1.0,桃园,,
    >>> written.vertices, written.edges
    (2, 1)
    """
    if not isinstance(format, str) or format not in _FORMATS:
        raise UsageError(f"format is {format!r}; it must be one of {', '.join(_FORMATS)}")
    if not isinstance(graph, Graph):
        raise UsageError(f"graph is a {type(graph).__name__}; give a graph, such as the attribute graph of an index")
    is_stream = _check_target(target)
    rows = GraphRows.read(graph, communities, reports)
    files: tuple[Path, ...] = ()
    with usage_errors("the stream" if is_stream else target):
        if is_stream:
            *_, write = _FORMATS[format].writers.values()
            write(rows, target)  # type: ignore[arg-type]
        else:
            files = _write_files(rows, _FORMATS[format], Path(target))  # type: ignore[arg-type]
    return Exported(len(rows.vertices), len(rows.edges), files)


def _check_target(target: Any) -> bool:
    """Whether the target is a stream."""
    if isinstance(target, str | os.PathLike):
        if not os.fspath(target):
            raise UsageError("target is an empty path; give a file")
        return False
    if isinstance(target, io.RawIOBase | io.BufferedIOBase) or not hasattr(target, "write"):
        raise UsageError(f"target is a {type(target).__name__}; give a path, or a stream that takes text")
    return True


def _write_files(rows: GraphRows, form: _Format, target: Path) -> tuple[Path, ...]:
    if "" in form.writers:
        with replacing(target, form.encoding) as out:
            form.writers[""](rows, out)
        return (target,)
    if target.suffix.lower() == ".csv" or (target.exists() and not target.is_dir()):
        raise UsageError(f"{target} is one file, but the format makes {' and '.join(form.writers)}: give a folder")
    made = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as stack:  # all are whole before the first is renamed
            outs = {name: stack.enter_context(replacing(target / name, form.encoding)) for name in form.writers}
            for name, write in form.writers.items():
                write(rows, outs[name])
    except BaseException:
        if made:
            with suppress(OSError):
                target.rmdir()
        raise
    return tuple(target / name for name in form.writers)
