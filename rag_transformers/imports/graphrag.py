"""The output folder of microsoft/graphrag: parquet files, whose names and columns differ from version to version.

Read are ``create_final_*.parquet`` (0.3 to 1) and the same without the beginning (2 and 3). An entity's name is in
``title`` or ``name``; members of a community in ``entity_ids``, or in the table of nodes; its parent may be missing.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_transformers.errors import UsageError
from rag_transformers.imports.parquet import PREFIXES, Row, read_table
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
from rag_transformers.reports.form import EdgeId, Report, ReportFinding
from rag_transformers.text import encodable

__all__ = ["find_graphrag", "read_graphrag"]

_PLACES = (".", "output", "artifacts", "output/artifacts")

_ENTITIES = ("Entities", "实体")
_REFERENCE = re.compile(r"(Entities|Relationships|实体|关系)\s*[(（]([\d,，、\s]+)")


def find_graphrag(folder: Path) -> Path | None:
    """Where the tables lie in a folder: in itself, in ``output``, or in the last of the runs in there; None if not."""
    runs = sorted(folder.glob("output/*/artifacts"))
    for place in (*(folder / name for name in _PLACES), *reversed(runs)):
        if any((place / f"{prefix}relationships.parquet").is_file() for prefix in PREFIXES):
            return place
    return None


def read_graphrag(folder: Path) -> Tables:
    """Read the tables of a folder.

    Raises:
        UsageError: pyarrow is not installed, or a table or column is missing that nothing can be done without.
        DocumentError: A file is no parquet.
    """
    entities = read_table(folder, "entities")
    relations = read_table(folder, "relationships")
    if not entities or not relations:
        raise UsageError(f"{folder} has no entities or no relationships; give the output folder of a finished run")
    rows = read_table(folder, "text_units")
    units = tuple(_units(rows))
    named, tied = tuple(map(_entity, entities)), tuple(map(_relation, relations))
    vertices = {_number(row.get("human_readable_id")): each.name for row, each in zip(entities, named, strict=True)}
    edges = {
        _number(row.get("human_readable_id")): (each.source, each.name, each.target)
        for row, each in zip(relations, tied, strict=True)
    }
    return Tables(
        "graphrag",
        tuple(_documents(folder, units)),
        units,
        named,
        tied,
        tuple(_communities(folder, entities)),
        tuple(_reports(folder, _Cited(vertices, edges))),
        len(rows) - len(units),
    )


def _units(rows: Sequence[Row]) -> Iterator[UnitRow]:
    for row in rows:
        owners = [row["document_id"]] if row.get("document_id") else _ids(row.get("document_ids"))
        text = row.get("text", row.get("chunk"))
        if row["id"] is not None and isinstance(text, str) and text.strip():
            yield UnitRow(str(row["id"]), encodable(text), str(owners[0]) if owners else "")


def _documents(folder: Path, units: Sequence[UnitRow]) -> Iterator[TextRow]:
    seen = set()
    for row in read_table(folder, "documents"):
        if row["id"] is None:
            continue  # its pieces point to none either
        id, text = str(row["id"]), row.get("text", row.get("raw_content"))
        seen.add(id)
        said = {"title": str(row["title"])} if row.get("title") else {}
        yield TextRow(id, str(row.get("title") or id), encodable(text) if isinstance(text, str) else None, said)
    for unit in units:
        if unit.document not in seen:  # the table of documents is missing, or not whole
            seen.add(unit.document)
            yield TextRow(unit.document, f"graphrag-{unit.document[:16]}".rstrip("-"))


def _entity(row: Row) -> EntityRow:
    name = as_name(row.get("title") or row.get("name"))
    return EntityRow(str(row.get("id", name)), name, _text(row.get("type")), _said(row), _ids(row.get("text_unit_ids")))


def _relation(row: Row) -> RelationRow:
    source, target = as_name(row.get("source")), as_name(row.get("target"))
    units, weight = _ids(row.get("text_unit_ids")), as_weight(row.get("weight"))
    return RelationRow(source, target, "", _said(row), units, weight)


def _communities(folder: Path, entities: Sequence[Row]) -> Iterator[CommunityRow]:
    names = {str(row.get("id")): as_name(row.get("title") or row.get("name")) for row in entities}
    nodes: dict[str, list[str]] = {}
    of_nodes = read_table(folder, "nodes")
    for row in of_nodes:
        nodes.setdefault(_number(row.get("community")), []).append(as_name(row.get("title")))
    for row in read_table(folder, "communities", () if of_nodes else [("entity_ids",)]):
        id = _number(row.get("community", row.get("id")))
        members = [names[each] for each in _ids(row.get("entity_ids")) if each in names] or nodes.get(id, [])
        parent = _number(row.get("parent"))
        yield CommunityRow(
            id,
            as_level(row.get("level"), f"{folder}: level of community {id}"),
            None if parent in ("", "-1") else parent,
            tuple(dict.fromkeys(filter(None, members))),
            _ids(row.get("text_unit_ids")),
        )


class _Cited(NamedTuple):
    """What the numbers in a report's references stand for: ``[Data: Entities (4); Relationships (6, 79, +more)]``."""

    vertices: Mapping[str, str]
    edges: Mapping[str, EdgeId]

    def finding(self, summary: str, explanation: str = "") -> ReportFinding:
        """A finding with what it refers to."""
        vertices: dict[str, None] = {}
        edges: dict[EdgeId, None] = {}
        for kind, numbers in _REFERENCE.findall(f"{summary} {explanation}"):
            for number in re.findall(r"\d+", numbers):
                if kind in _ENTITIES and number in self.vertices:
                    vertices[self.vertices[number]] = None
                elif kind not in _ENTITIES and number in self.edges:
                    edges[self.edges[number]] = None
        return ReportFinding(summary, explanation, tuple(vertices), tuple(edges))


def _reports(folder: Path, cited: _Cited) -> Iterator[Report]:
    for row in read_table(folder, "community_reports"):
        id = _number(row.get("community"))
        yield Report(
            id,
            as_level(row.get("level"), f"{folder}: level of the report on community {id}"),
            _text(row.get("title")),
            _text(row.get("summary")),
            tuple(_findings(row.get("findings"), cited)),
            as_weight(row.get("rank", row.get("rating"))) or 0.0,
            _text(row.get("rating_explanation", row.get("rank_explanation"))),
        )


def _findings(found: Any, cited: _Cited) -> Iterator[ReportFinding]:
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            found = [found]
    for each in found if isinstance(found, list) else ():
        if isinstance(each, Mapping):
            yield cited.finding(_text(each.get("summary")), _text(each.get("explanation")))
        elif _text(each):
            yield cited.finding(_text(each))


def _said(row: Row) -> tuple[str, ...]:
    return (text,) if (text := _text(row.get("description"))) else ()


def _text(value: Any) -> str:
    return encodable(value).strip() if isinstance(value, str) else ""


def _ids(value: Any) -> tuple[str, ...]:
    """Ids of a list; old versions joined them with commas."""
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
    return tuple(dict.fromkeys(str(each).strip() for each in listed if each is not None and str(each).strip()))


def _number(value: Any) -> str:
    """The id of a community: a number, which old versions wrote as text, or with a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else "" if value is None else str(value)
