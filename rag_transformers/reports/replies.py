"""A model's reply -> what it says of a community, each finding with the vertices and edges that it rests on."""

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rag_transformers.models.reading import Reply
from rag_transformers.models.replies import unreadable
from rag_transformers.records.json_values import find_object
from rag_transformers.records.text import visible
from rag_transformers.reports.citations import cited
from rag_transformers.reports.context import Shown
from rag_transformers.reports.form import EdgeId, ReportFinding
from rag_transformers.summaries.frequent_names import holds

__all__ = ["Written", "rating_of", "read_report"]

# Keys without case and marks, the best one of each role first.
_TITLES = ("title", "标题", "reporttitle", "communitytitle", "name")
_SUMMARIES = ("summary", "摘要", "总结", "概述", "executivesummary", "overview", "abstract")
_RATINGS = ("rating", "评分", "impactseverityrating", "importance", "score")
_REASONS = ("ratingexplanation", "评分说明", "评分理由", "ratingreason")
_FINDINGS = ("findings", "发现", "keyfindings", "detailedfindings", "主要发现", "要点", "insights")
_POINTS = ("summary", "摘要", "概括", "finding", "headline", "title", "point", "要点", "发现", "标题")
_EXPLANATIONS = ("explanation", "说明", "解释", "description", "details", "detail", "text")
_KEYS = frozenset((*_TITLES[:2], *_SUMMARIES[:2], *_RATINGS[:2], *_REASONS[:2], *_FINDINGS[:2]))

_NUMBER = r"(-?\d{1,6}(?:\.\d{1,6})?)"
_RATED = re.compile(rf"{_NUMBER}(?:\s*(?:/|out\s+of|of|分\s*[(（]?满分)\s*{_NUMBER})?")


class Written(NamedTuple):
    """What a reply says.

    Args:
        title: May be empty.
        summary: What the community is about.
        findings: The points.
        rating: From 0 to 10, or None.
        rating_explanation: May be empty.
        dropped: How many citations named no record that was shown.
    """

    title: str
    summary: str
    findings: tuple[ReportFinding, ...]
    rating: float | None
    rating_explanation: str
    dropped: int


def read_report(reply: Reply, shown: Shown) -> Written:
    """Read a reply in JSON, however its marks are off; of one that is cut, what is whole.

    A finding rests on what it cites. One that cites nothing rests on the vertices that it names, and on the edges
    between them.

    Args:
        reply: The reply.
        shown: What the model was shown.

    Raises:
        ReplyError: It holds no report, or was cut before its first finding.
    """
    found = find_object(reply.text, _KEYS)
    if found is None:
        raise unreadable("it holds no report in JSON", reply)
    summary = cited(_text(found.values, _SUMMARIES))
    title = cited(_text(found.values, _TITLES))
    given = next((found.values[key] for key in _FINDINGS if found.values.get(key)), None)
    rows = _rows(given)
    cut = found.cut or reply.cut
    read = [each for row in rows if (each := _finding(row, shown)) is not None]
    if found.cut and read and isinstance(rows[-1], Mapping) and not read[-1][0].explanation:
        read.pop()  # the end of the reply cuts it
    if not _says(summary.text) or (cut and not read):
        raise unreadable("it was cut off at the token limit" if cut else "its report has no summary", reply)
    dropped = sum(_unknown(marks, shown) for marks in (summary.marks, title.marks))
    return Written(
        title.text if _says(title.text) else "",
        summary.text,
        tuple(finding for finding, _ in read),
        rating_of(next((found.values[key] for key in _RATINGS if key in found.values), None)),
        cited(_text(found.values, _REASONS)).text,
        dropped + sum(unknown for _, unknown in read),
    )


def rating_of(value: Any) -> float | None:
    """A rating from 0 to 10, of a number or a text; None if it is none.

    >>> rating_of("7/10"), rating_of("8.5 (high)"), rating_of(85), rating_of("４分"), rating_of(True), rating_of("high")
    (7.0, 8.5, 8.5, 4.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    found = _RATED.search(unicodedata.normalize("NFKC", str(value)))
    if found is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    rating, scale = float(found.group(1)), float(found.group(2) or 0)
    if scale > 0:
        rating = 10 * rating / scale
    elif 10 < rating <= 100:  # of a hundred
        rating /= 10
    return max(0.0, min(10.0, rating))


def _rows(given: Any) -> list[Any]:
    """The findings: a list of them, one of them, or an object of numbered ones."""
    if isinstance(given, Mapping) and given.keys().isdisjoint((*_POINTS, *_EXPLANATIONS)):
        return list(given.values())
    return given if isinstance(given, list) else [given] if given else []


def _text(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    value = next((values[key] for key in keys if values.get(key) is not None), "")
    if isinstance(value, list):
        value = " ".join(str(item) for item in value if isinstance(item, str | int | float))
    return " ".join(visible(str(value)).split()) if isinstance(value, str | int | float) else ""


def _says(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _finding(row: Any, shown: Shown) -> tuple[ReportFinding, int] | None:
    """A finding, and how many of its citations name nothing; None for a row without words."""
    if isinstance(row, str):
        row = {"summary": row}
    if not isinstance(row, Mapping):
        return None
    point, more = cited(_text(row, _POINTS)), cited(_text(row, _EXPLANATIONS))
    known = {*_POINTS, *_EXPLANATIONS}
    others = json.dumps([value for key, value in row.items() if key not in known], ensure_ascii=False, default=str)
    listed = cited(f"[{re.sub(r'[][{}]', ' ', others)}]") if len(others) > 2 else cited("")
    marks = (*point.marks, *more.marks, *listed.marks)
    summary, explanation = (point.text, more.text) if _says(point.text) else (more.text, "")
    if not _says(summary):
        return None
    vertices, edges, reports = _resolved(marks, shown) if marks else (*_named(f"{summary}\n{explanation}", shown), ())
    return ReportFinding(summary, explanation, vertices, edges, reports), _unknown(marks, shown)


def _item(mark: tuple[str, int], shown: Shown) -> Any:
    """What a mark stands for; None where nothing with this number was shown."""
    rows: Mapping[str, Sequence[Any]] = {
        "v": shown.vertices,
        "e": shown.edges,
        "x": shown.leading,
        "r": shown.reports,
    }
    kind, number = mark
    return rows[kind][number - 1] if kind in rows and 1 <= number <= len(rows[kind]) else None


def _unknown(marks: Sequence[tuple[str, int]], shown: Shown) -> int:
    return sum(_item(mark, shown) is None for mark in marks)


def _resolved(
    marks: Sequence[tuple[str, int]], shown: Shown
) -> tuple[tuple[str, ...], tuple[EdgeId, ...], tuple[str, ...]]:
    vertices: dict[str, None] = {}
    edges: dict[EdgeId, None] = {}
    reports: dict[str, None] = {}
    for mark in marks:
        item = _item(mark, shown)
        if item is None:
            continue
        if mark[0] == "v":
            vertices[item.name] = None
        elif mark[0] == "r":
            reports[item.community] = None
            for finding in item.findings:
                vertices.update(dict.fromkeys(finding.vertices))
                edges.update(dict.fromkeys(finding.edges))
        else:
            edges[item.source, item.name, item.target] = None
    return tuple(vertices), tuple(edges), tuple(reports)


def _named(text: str, shown: Shown) -> tuple[tuple[str, ...], tuple[EdgeId, ...]]:
    """The vertices that a text names, and the edges between them."""
    folded = text.casefold()
    maybe = (vertex.name for vertex in shown.vertices if " ".join(vertex.name.casefold().split()) in folded)
    names = tuple(name for name in maybe if holds(name)(text))
    there = frozenset(names)
    between = [edge for edge in shown.edges if edge.source in there and edge.target in there]
    return names, tuple((edge.source, edge.name, edge.target) for edge in between)
