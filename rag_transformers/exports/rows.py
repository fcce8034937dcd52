"""A graph as rows of plain values in the order of their keys: what all formats are written from."""

import datetime
import decimal
import enum
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeAlias

from rag_transformers.errors import UsageError
from rag_transformers.exports.escapes import json_text
from rag_transformers.graph import Edge, Graph, Vertex, name_key

__all__ = ["GraphRows", "Row"]

Row: TypeAlias = dict[str, Any]
"""Values by name: str, bool, int, finite float, and lists and dicts of them. What is blank is not there."""

_VERTEX_FIELDS = ("name", "type", "description", "descriptions", "chunks")
_EDGE_FIELDS = ("source", "target", "name", "weight", "description", "descriptions", "chunks")
_KNOWN = frozenset({"type", "description", "descriptions", "summary", "chunks"})
_TAKEN_IN_VERTEX = frozenset({"", "id", "label", "name", "community"})
_TAKEN_IN_EDGE = frozenset({"", "id", "label", "name", "source", "target"})
_BY_TEXT = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID, PurePath)
_LONG = 2**63


@dataclass(frozen=True)
class GraphRows:
    """A graph at one moment, in the order of the keys.

    A row of a vertex or edge has ``description`` (the one that many were made into, else all of them, one a line),
    ``descriptions`` where that is not the only one, ``chunks``, and all other props by name. A prop whose name a format
    needs itself gets a ``_`` behind it.

    Args:
        vertices: Sorted by key.
        edges: Sorted by source, relation and target; both ends are among the vertices.
        communities: As JSON-ready dicts.
        reports: As JSON-ready dicts.
        names: The name shown of every vertex, by key.
        groups: The community of level 0 by key of a vertex.
    """

    vertices: Sequence[Vertex]
    edges: Sequence[Edge]
    communities: Sequence[Row]
    reports: Sequence[Row]
    names: Mapping[str, str]
    groups: Mapping[str, str]

    @classmethod
    def read(
        cls, graph: Graph, communities: Iterable[Mapping[str, Any]] = (), reports: Iterable[Mapping[str, Any]] = ()
    ) -> "GraphRows":
        """Read a graph once.

        Raises:
            UsageError: A community or report is no dict.
        """
        for what, given in (("communities", communities), ("reports", reports)):
            if not isinstance(given, Iterable):
                raise UsageError(f"{what} is a {type(given).__name__}; give a list of dicts, as to_dict makes them")
        edges, vertices = graph.edges(), graph.vertices()  # both are taken now, before anything is read
        keys = _Keys()
        by_key = {keys[vertex.name]: vertex for vertex in vertices}
        ordered = sorted(edges, key=lambda edge: (keys[edge.source], keys[edge.name], keys[edge.target]))
        for name in (name for edge in ordered for name in (edge.source, edge.target)):
            if keys[name] not in by_key:  # deleted between the two
                by_key[keys[name]] = Vertex(name)
        names = {key: by_key[key].name for key in sorted(by_key)}
        grouped = [_json_ready("communities", each) for each in communities]
        return cls(
            [by_key[key] for key in names],
            ordered,
            grouped,
            [_json_ready("reports", each) for each in reports],
            names,
            {name_key(n): str(g["id"]) for g in grouped if g.get("level") == 0 for n in g.get("vertices", ())},
        )

    def vertex_columns(self) -> dict[str, str]:
        """The columns of a table of vertices and their types: ``boolean``, ``long``, ``double`` or ``string``."""
        fields = (*_VERTEX_FIELDS, "community") if self.groups else _VERTEX_FIELDS
        return _columns(fields, self.vertices)

    def edge_columns(self) -> dict[str, str]:
        """The columns of a table of edges and their types."""
        return {**_columns(_EDGE_FIELDS, self.edges), "weight": "double"}

    def vertex_rows(self) -> Iterator[Row]:
        """A row for each vertex."""
        for key, vertex in zip(self.names, self.vertices, strict=True):
            row = {"name": vertex.name}
            _add_known(row, vertex)
            if key in self.groups:
                row["community"] = self.groups[key]
            yield row | _others(vertex)

    def edge_rows(self) -> Iterator[Row]:
        """A row for each edge; its ends are named as their vertices are."""
        keys = _Keys()
        for edge in self.edges:
            row: Row = {"source": self.names[keys[edge.source]], "target": self.names[keys[edge.target]]}
            row["name"], row["weight"] = edge.name, _weight(edge)
            _add_known(row, edge)
            yield row | _others(edge)


class _Keys(dict[str, str]):
    """The key of each name, worked out once: an edge has three."""

    def __missing__(self, name: str) -> str:
        key = self[name] = name_key(name)
        return key


def _columns(fields: Sequence[str], things: Iterable[Vertex | Edge]) -> dict[str, str]:
    """The fields, which are there when no row has them, and then the other props by name."""
    found: dict[str, str] = {}
    for thing in things:
        for name, value in (_typed(thing) | _others(thing)).items():
            kind = _kind(value)
            known = found.setdefault(name, kind)
            if known != kind:
                found[name] = "double" if {known, kind} == {"long", "double"} else "string"
    first = {name: found.get(name, "string") for name in fields}
    return {**first, **{name: found[name] for name in sorted(found) if name not in first}}


def _add_known(row: Row, thing: Vertex | Edge) -> None:
    summary, descriptions, chunks = thing.summary, thing.descriptions, thing.chunks
    row.update(_typed(thing))
    if summary:
        row["description"] = summary
    if len(descriptions) > 1 or (descriptions and descriptions[0] != summary):
        row["descriptions"] = [_plain(text) for text in descriptions]
    if chunks:
        row["chunks"] = [_plain(chunk) for chunk in chunks]


def _typed(thing: Vertex | Edge) -> Row:
    kind = _value(thing, "type")
    return {} if _blank(kind) else {"type": kind}


def _weight(edge: Edge) -> float:
    weight = edge.weight
    if not math.isfinite(weight):
        raise UsageError(f"the weight of {edge!r} is {weight}; it must be a finite number")
    return weight


def _others(thing: Vertex | Edge) -> Row:
    names = thing.props.keys() - _KNOWN
    taken = _TAKEN_IN_VERTEX
    if isinstance(thing, Edge):
        names.discard("weight")
        taken = _TAKEN_IN_EDGE
    row = {}
    for name in sorted(names):
        value = _value(thing, name)
        if not _blank(value):
            row[f"{name}_" if name.rstrip("_") in taken else name] = value
    return row


def _value(thing: Vertex | Edge, name: str) -> Any:
    value = thing.props.get(name)
    if value is None or type(value) is str:
        return value
    try:
        return _plain(value)
    except TypeError as error:
        raise UsageError(f"the prop {name!r} of {thing!r} cannot be exported: {error}") from None


def _blank(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _plain(value: Any) -> Any:
    """A value as JSON has it; what is not finite becomes text, for JSON has no number for it."""
    if value is None or type(value) in (str, int, bool):
        return value
    for kinds, convert in _CONVERSIONS:
        if isinstance(value, kinds):
            return convert(value)
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        return _plain(value.tolist())
    raise TypeError(f"{type(value).__name__} is no text, number, list or dict")


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (enum.Enum, lambda value: _plain(value.value)),
    (str, str),
    (int, int),
    (float, lambda value: float(value) if math.isfinite(value) else str(float(value))),
    (Mapping, lambda value: {str(key): _plain(value[key]) for key in sorted(value, key=str)}),
    (list | tuple, lambda value: [_plain(each) for each in value]),
    (frozenset | set, lambda value: sorted(map(_plain, value), key=json_text)),
    (_BY_TEXT, str),
)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) and -_LONG <= value < _LONG:
        return "long"
    return "double" if isinstance(value, float) else "string"


def _json_ready(what: str, item: Mapping[str, Any]) -> Row:
    if not isinstance(item, Mapping):
        raise UsageError(f"{what} holds a {type(item).__name__}; give dicts, as to_dict makes them")
    try:
        ready: Row = {str(name): _plain(value) for name, value in item.items()}
    except TypeError as error:
        raise UsageError(f"{what} cannot be exported: {error}") from None
    return ready
