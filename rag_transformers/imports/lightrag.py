"""The working folder of LightRAG or nano-graphrag: a GraphML file, and beside it texts as JSON.

The graph is in ``graph_chunk_entity_relation.graphml``: descriptions and the ids of chunks are joined with ``<SEP>``.
It has no directions: an edge gets that of the file. LightRAG's keywords are the relation. Documents are in
``kv_store_full_docs.json``, their pieces in ``kv_store_text_chunks.json``; nano-graphrag keeps reports too.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from rag_transformers.errors import DocumentError, UsageError
from rag_transformers.imports.tables import (
    CommunityRow,
    EntityRow,
    RelationRow,
    Tables,
    TextRow,
    UnitRow,
    as_level,
    as_name,
    as_weight,
)
from rag_transformers.reports import Report, ReportFinding
from rag_transformers.text import encodable

__all__ = ["GRAPH_FILE", "read_lightrag"]

GRAPH_FILE = "graph_chunk_entity_relation.graphml"

_SEPARATOR = "<SEP>"
_NO_PLACE = ("", "unknown_source")  # what LightRAG writes where it was not told a path

Row = Mapping[str, Any]


def read_lightrag(path: Path) -> Tables:
    """Read a GraphML file, and what lies beside it.

    Raises:
        UsageError: No row of a file has a field that nothing can be done without.
        DocumentError: A file is no GraphML or JSON.
    """
    import networkx as nx

    try:
        graph = nx.read_graphml(path, force_multigraph=True)
    except (ParseError, nx.NetworkXError, KeyError, ValueError, OSError) as error:
        raise DocumentError(f"{path} cannot be read as GraphML: {' '.join(str(error).split())[:200]}") from None
    reports, chunks = path.parent / "kv_store_community_reports.json", path.parent / "kv_store_text_chunks.json"
    pieces, reported = _json(chunks), _json(reports)
    units = tuple(_units(chunks, pieces))
    _check_fields(chunks, pieces, needed=["content"], taken=["full_doc_id"])
    _check_fields(reports, reported, needed=["nodes"])
    _check_fields(path, dict(graph.nodes(data=True)), taken=["description", "source_id"])
    return Tables(
        "nano-graphrag" if reported else "lightrag",
        tuple(_documents(path.parent, units)),
        units,
        tuple(_entity(node, dict(said)) for node, said in graph.nodes(data=True)),
        tuple(_relation(source, target, dict(said)) for source, target, said in graph.edges(data=True)),
        tuple(_community(reports, id, row) for id, row in reported.items()),
        tuple(
            _report(reports, id, row)
            for id, row in reported.items()
            if row.get("report_json") or row.get("report_string")
        ),
        len(pieces) - len(units),
    )


def _json(path: Path) -> dict[str, dict[str, Any]]:
    """A store of rows by id, or an empty one where there is none."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DocumentError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(row, dict) for row in found.values()):
        raise DocumentError(f"{path} is no store of LightRAG or nano-graphrag: it must hold rows by id")
    return found


def _check_fields(path: Path, rows: Mapping[str, Row], needed: Sequence[str] = (), taken: Sequence[str] = ()) -> None:
    """Make sure that some row has each field: without one of ``taken`` something is lost, and a warning says so."""
    there = {name: None for row in rows.values() for name, value in row.items() if value not in (None, "")}
    if missing := [name for name in needed if rows and name not in there]:
        raise UsageError(f"{path}: no row has {', '.join(missing)}; there are: {', '.join(there) or 'none'}")
    if missing := [name for name in taken if rows and name not in there]:
        warnings.warn(f"{path}: no row has {', '.join(missing)}: what it would say is lost", stacklevel=2)


def _documents(folder: Path, units: Sequence[UnitRow]) -> Iterator[TextRow]:
    seen = set()
    told = _json(folder / "kv_store_doc_status.json")
    for id, row in _json(folder / "kv_store_full_docs.json").items():
        seen.add(id)
        place = row.get("file_path") or told.get(id, {}).get("file_path")
        title = place if isinstance(place, str) and place not in _NO_PLACE else id
        yield TextRow(id, title, encodable(row["content"]) if isinstance(row.get("content"), str) else None)
    for unit in units:
        if unit.document not in seen:
            seen.add(unit.document)
            yield TextRow(unit.document, unit.document or "texts")


def _units(path: Path, rows: Mapping[str, Row]) -> Iterator[UnitRow]:
    places = {
        id: as_level(row.get("chunk_order_index"), f"{path}: chunk_order_index of {id}") for id, row in rows.items()
    }
    for id, row in sorted(rows.items(), key=lambda item: places[item[0]]):
        if isinstance(text := row.get("content"), str) and text.strip():
            yield UnitRow(id, encodable(text), str(row.get("full_doc_id") or ""))


def _entity(node: Any, said: Row) -> EntityRow:
    name = as_name(str(node))
    return EntityRow(
        name, name, as_name(said.get("entity_type") or said.get("type")), _parts(said, "description"), _units_of(said)
    )


def _relation(source: Any, target: Any, said: Row) -> RelationRow:
    words = str(said.get("keywords") or "").replace(_SEPARATOR, ",").replace("，", ",").split(",")
    relation = as_name(", ".join(dict.fromkeys(filter(None, map(as_name, words)))))
    ends = as_name(str(source)), as_name(str(target))
    return RelationRow(*ends, relation, _parts(said, "description"), _units_of(said), as_weight(said.get("weight")))


def _parts(said: Row, name: str) -> tuple[str, ...]:
    parts = (part.strip() for part in encodable(str(said.get(name) or "")).split(_SEPARATOR))
    return tuple(dict.fromkeys(part.strip('"').strip() for part in parts if part.strip('"').strip()))


def _units_of(said: Row) -> tuple[str, ...]:
    return _parts(said, "source_id")


def _community(path: Path, id: str, row: Row) -> CommunityRow:
    members = tuple(filter(None, map(as_name, row.get("nodes") or ())))
    level = as_level(row.get("level"), f"{path}: level of {id}")
    return CommunityRow(id, level, None, members, tuple(map(str, row.get("chunk_ids") or ())))


def _report(path: Path, id: str, row: Row) -> Report:
    made = row.get("report_json") or {}
    if not isinstance(made, Mapping):
        raise DocumentError(f"{path}: report_json of {id} is a {type(made).__name__}; it must hold fields by name")
    findings = [each if isinstance(each, dict) else {"summary": each} for each in made.get("findings") or ()]
    return Report(
        id,
        as_level(row.get("level"), f"{path}: level of {id}"),
        str(made.get("title") or row.get("title") or id),
        str(made.get("summary") or row.get("report_string") or ""),
        tuple(ReportFinding(str(f.get("summary") or ""), str(f.get("explanation") or "")) for f in findings),
        as_weight(made.get("rating")) or 0.0,
        str(made.get("rating_explanation") or ""),
    )
