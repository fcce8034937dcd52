"""What of a community its report is written from: every vertex and edge once, most important first, within a budget."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_transformers.graph import Edge, Vertex
from rag_transformers.reports.citations import one_line
from rag_transformers.reports.content import Content, Record
from rag_transformers.summaries.extractive import shortened

if TYPE_CHECKING:
    from rag_transformers.reports.form import Report

__all__ = ["Budget", "Shown", "fit", "whole"]

_CAPS = (8, 32)
"""Where records do not fit, each field is cut to this part of the room before any record is left out."""
_LEAST_FIELD = 16
"""Tokens to which a field is cut at the most."""
_MISSES = 20
"""After so many records in a row for which there is no room, it is used up."""
_DENSE = 3
"""A text of so few characters for each token of the room is counted as a whole at once."""


@dataclass(frozen=True, eq=False)
class _Line:
    """One record of the text.

    Args:
        kind: ``v`` a vertex, ``e`` an inner edge, ``x`` one that leads out, ``r`` a report on a part.
        fields: What it says; the last field is its description.
        ends: Keys of the vertices that it is about.
        item: What it stands for.
    """

    kind: str
    fields: tuple[str, ...]
    ends: tuple[str, str]
    item: "Vertex | Edge | Report"

    @cached_property
    def text(self) -> str:
        """The record without its number."""
        if self.kind in "ex":
            return " -> ".join(field.replace("->", "→") for field in self.fields if field)
        name, kind, said = self.fields
        head = f"{name} ({kind})" if kind else name
        return f"{head}: {said}" if said else head

    def capped(self, cap: int | None, count: Callable[[str], int]) -> "_Line":
        """The same with each field of at most so many tokens."""
        if cap is None:
            return self
        fields = tuple(_cut(field, cap, count) for field in self.fields)
        return self if fields == self.fields else _Line(self.kind, fields, self.ends, self.item)


def _cut(field: str, cap: int, count: Callable[[str], int]) -> str:
    if count(field) <= cap:
        return field
    return f"{shortened(field[: 12 * cap], max(1, cap - 1), count)}…"


def _lines(kind: str, records: Iterable[Record[Any]]) -> list[_Line]:
    return [_Line(kind, record.fields, record.ends, record.item) for record in records]


def _all_lines(content: Content) -> list[_Line]:
    return [*_lines("v", content.vertices), *_lines("e", content.edges), *_lines("x", content.leading)]


def _report_line(report: "Report", brief: bool) -> _Line:
    points = () if brief else (f"{finding.summary}: {finding.explanation}" for finding in report.findings)
    said = " ".join((report.summary, *points))
    return _Line("r", (one_line(report.title) or "?", "", one_line(said)), ("", ""), report)


# What is shown


@dataclass(frozen=True)
class Shown:
    """What a report is written from.

    Args:
        text: The records, one a line, numbered in each kind from 1.
        vertices: What the marks v1, v2, … stand for.
        edges: What e1, e2, … stand for.
        leading: What x1, x2, … stand for.
        reports: What r1, r2, … stand for.
        left_out: How many vertices and inner edges are neither shown nor told by a report that is.
        records: The records without numbers, in order of their text.
    """

    text: str
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    leading: tuple[Edge, ...]
    reports: tuple["Report", ...]
    left_out: int
    records: tuple[str, ...]


class Budget(NamedTuple):
    """How much may be shown.

    Args:
        limit: The most tokens of the whole prompt.
        room: Those that are left beside an empty text.
        measure: Counts the tokens of the prompt that shows a text.
        count: Counts those of a text alone.
    """

    limit: int
    room: int
    measure: Callable[[str], int]
    count: Callable[[str], int]

    def has_room(self, text: str) -> bool:
        """Whether the prompt may show a text."""
        return self.measure(text) <= self.limit


def whole(content: Content, budget: Budget) -> Shown | None:
    """All vertices and inner edges of a community, and as many of the edges that lead out as fit; None if they do not.

    Args:
        content: What the graph says of it.
        budget: How much may be shown.
    """
    lines = [*_lines("v", content.vertices), *_lines("e", content.edges)]
    leading = _lines("x", content.leading)
    room = budget.room
    if _length(lines) > _DENSE * room and not _fits(lines, room, budget.count, slack=1.1):
        return None
    if _length(lines) + _length(leading) <= 2 * _DENSE * room and budget.has_room(_text([*lines, *leading])):
        return _shown([*lines, *leading], 0)
    return _with_leading(lines, leading, budget) if budget.has_room(_text(lines)) else None


def fit(content: Content, parts: "Sequence[tuple[frozenset[str], Report]]", budget: Budget) -> Shown:
    """What of a community is shown where all of it does not fit.

    The parts whose own records are longest are replaced by their reports, until what is left fits. Where it still does
    not, or there are none, fields are cut, and then the least important records are left out. As in Microsoft's
    GraphRAG, but for the cutting, and for the best-connected vertex, which is shown in any case.

    Args:
        content: What the graph says of it.
        parts: The keys of the vertices of each part, and its report.
        budget: How much may be shown.
    """
    room = budget.room
    lines = _with_parts(_all_lines(content), parts, room, budget.count)
    inner = [line for line in lines if line.kind != "x"]
    every = [line for line in inner if line.kind != "r"]
    for cap in (None, *(max(_LEAST_FIELD, room // part) for part in _CAPS), _LEAST_FIELD):
        capped = _capped_within(inner, cap, room, budget.count)
        if capped is not None and budget.has_room(_text(capped)):
            return _with_leading(capped, [line for line in lines if line.kind == "x"], budget, cap)
    cap = max(_LEAST_FIELD, min(room // _CAPS[1], 4 * _LEAST_FIELD))
    chosen = list(_chosen(_units(inner), cap, room, budget.count))
    while not budget.has_room(_text(chosen)):
        chosen = chosen[: -max(1, len(chosen) // 20)]
    return _shown(chosen, len(every) - sum(line.kind != "r" for line in chosen))


def _fits(lines: Iterable[_Line], room: int, count: Callable[[str], int], slack: float = 1.0) -> bool:
    """Whether lines count for no more than the room; it stops counting where they do."""
    return _capped_within(lines, None, room, count, slack) is not None


def _capped_within(
    lines: Iterable[_Line], cap: int | None, room: int, count: Callable[[str], int], slack: float = 1.0
) -> list[_Line] | None:
    used, found = 0, []
    for line in lines:
        found.append(line.capped(cap, count))
        used += _cost(found[-1], count)
        if used > room * slack:
            return None
    return found


def _cost(line: _Line, count: Callable[[str], int]) -> int:
    return count(f"[{line.kind}100] {line.text}\n")


def _length(lines: Iterable[_Line]) -> int:
    return sum(len(line.text) + 8 for line in lines)


def _with_leading(lines: list[_Line], leading: Sequence[_Line], budget: Budget, cap: int | None = None) -> Shown:
    """Add what leads out, as far as there is room."""
    left = budget.limit - budget.measure(_text(lines)) if leading else 0
    chosen = list(_chosen(([line] for line in leading), cap, left, budget.count))
    while chosen and not budget.has_room(_text([*lines, *chosen])):
        chosen = chosen[: -max(1, len(chosen) // 20)]
    return _shown([*lines, *chosen], 0)


def _with_parts(
    lines: list[_Line], parts: "Sequence[tuple[frozenset[str], Report]]", room: int, count: Callable[[str], int]
) -> list[_Line]:
    """The lines with the records of the longest parts replaced by reports, of as few parts as it takes."""
    owner = {key: number for number, (members, _) in enumerate(parts) for key in members}
    first = next((line.ends[0] for line in lines if line.kind == "v"), None)
    of_part: list[list[int]] = [[] for _ in parts]
    for place, line in enumerate(lines):
        part = owner.get(line.ends[0])
        inside = part is not None and (line.kind == "x" or owner.get(line.ends[-1]) == part)
        if part is not None and inside and (line.kind != "v" or line.ends[0] != first):
            of_part[part].append(place)
    sizes = [sum(len(lines[place].text) for place in places) for places in of_part]
    order = sorted(range(len(parts)), key=lambda number: (-sizes[number], number))
    order = [n for n in order if len(_report_line(parts[n][1], True).text) < sizes[n]]

    def replaced(many: int, brief: bool) -> list[_Line]:
        gone = {place for number in order[:many] for place in of_part[number]}
        kept = [line for place, line in enumerate(lines) if place not in gone]
        return [*kept, *(_report_line(parts[number][1], brief) for number in order[:many])]

    for brief in (False, True):
        few, many = 0, len(order)
        while few < many:
            middle = (few + many) // 2
            inner = (line for line in replaced(middle, brief) if line.kind != "x")
            few, many = (few, middle) if _fits(inner, room, count) else (middle + 1, many)
        if _fits((line for line in replaced(many, brief) if line.kind != "x"), room, count):
            return replaced(many, brief)
    return replaced(len(order), True)


def _units(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """What is shown together, most important first: the hub, reports, each edge with its ends, and what is left."""
    vertices = {line.ends[0]: line for line in lines if line.kind == "v"}
    yield [*vertices.values()][:1]
    yield from ([line] for line in lines if line.kind == "r")
    for line in lines:
        if line.kind == "e":
            yield [*(vertices[end] for end in dict.fromkeys(line.ends) if end in vertices), line]
    yield from ([line] for line in vertices.values())


def _chosen(units: Iterable[list[_Line]], cap: int | None, room: int, count: Callable[[str], int]) -> Iterator[_Line]:
    """The lines for which there is room, each once."""
    taken: set[_Line] = set()
    left, misses = room, 0
    for unit in units:
        new = [line for line in unit if line not in taken]
        capped = [line.capped(4 * cap if cap and line.kind == "r" else cap, count) for line in new]
        cost = sum(_cost(line, count) for line in capped)
        if cost <= left:
            left, misses = left - cost, 0
            taken.update(new)
            yield from capped
        elif (misses := misses + 1) > _MISSES:
            return


def _numbered(lines: Sequence[_Line]) -> list[_Line]:
    """The lines in the order in which they are numbered: vertices, edges, what leads out, reports."""
    return [line for kind in "vexr" for line in lines if line.kind == kind]


def _text(lines: Sequence[_Line]) -> str:
    numbers = Counter[str]()
    rows = []
    for line in _numbered(lines):
        numbers[line.kind] += 1
        rows.append(f"[{line.kind}{numbers[line.kind]}] {line.text}")
    return "\n".join(rows)


def _shown(lines: Sequence[_Line], left_out: int) -> Shown:
    ordered = _numbered(lines)
    items = {kind: tuple(line.item for line in ordered if line.kind == kind) for kind in "vexr"}
    records = tuple(sorted(f"{line.kind} {line.text}" for line in ordered))
    return Shown(_text(lines), items["v"], items["e"], items["x"], items["r"], left_out, records)  # type: ignore[arg-type]
