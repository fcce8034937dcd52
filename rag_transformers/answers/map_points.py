"""The reply to a map call <-> points: what reports tell on a question, each with its score from 0 to 100."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from rag_transformers.answers.citations import check_citations, unmarked
from rag_transformers.records.json_values import JsonObject, find_object
from rag_transformers.records.words import is_no_data

__all__ = ["Point", "PointsRead", "read_points"]

_UNSCORED = 50.0
_KEYS = ("points", "keypoints", "要点")
_TEXTS = ("description", "point", "answer", "text", "summary", "描述", "要点")
_SCORES = ("score", "rating", "helpfulness", "分数", "评分", "得分")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LIST = re.compile(r"\[\s*+[{\"]")


class Point(NamedTuple):
    """What reports tell on a question.

    Args:
        text: One statement, without marks.
        score: How much it helps to answer, from 0 to 100.
        reports: The numbers of the reports that it rests on.
    """

    text: str
    score: float
    reports: tuple[int, ...] = ()


class PointsRead(NamedTuple):
    """The points of a reply, in its order; whether it was no JSON and is one point as a whole."""

    points: tuple[Point, ...]
    is_prose: bool = False


def read_points(reply: str, reports: int) -> PointsRead:
    r"""The points of a reply to a map call, in JSON as it was asked for, or near to it; prose is one point.

    Args:
        reply: The reply, without reasoning.
        reports: How many reports the model was given, numbered from 1.

    >>> read_points('Sure:\n```json\n{"points": [{"description": "Trade grew [2].", "score": "80"}]}', 3).points
    (Point(text='Trade grew.', score=80.0, reports=(2,)),)
    >>> read_points("Mostly it is about trade by sea [1].", 3)
    PointsRead(points=(Point(text='Mostly it is about trade by sea.', score=50.0, reports=(1,)),), is_prose=True)
    """
    found = _listed(reply)
    if found is None:
        if is_no_data(reply.strip(" \t\n.。")):
            return PointsRead(())
        return PointsRead((_point(reply, _UNSCORED, reports),), True)
    points = (_point(*item, reports) for item in map(_item, found) if item)
    return PointsRead(tuple(point for point in points if point.text))


def _listed(reply: str) -> Sequence[Any] | None:
    """The items of the list of points in a reply, or None where there is no such list."""
    found = find_object(reply, _KEYS)
    if found is None and (start := _LIST.search(reply)):
        found = find_object(f'{{"points": {reply[start.start() :]}}}', _KEYS)
    if found is None:
        single = find_object(reply, _TEXTS)
        return [single.values] if single else _empty(reply)
    value = _value(found)
    return value if isinstance(value, list) else [] if value is None else [value]


def _value(found: JsonObject) -> Any:
    return next((found.values[key] for key in _KEYS if found.values.get(key) is not None), None)


def _empty(reply: str) -> Sequence[Any] | None:
    """No points, where a reply is JSON that holds none."""
    bare = re.sub(r"```\w*|\s", "", reply)
    return [] if re.fullmatch(r"\{(?:[\"']?\w+[\"']?[:：](?:\[\]|null)?)?\}|\[\]", bare) else None


def _item(value: Any) -> tuple[str, float] | None:
    """The text and the score of one item of the list; a text alone has the middle score."""
    if isinstance(value, str):
        return value, _UNSCORED
    if not isinstance(value, dict):
        return None
    text = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), None)
    return (text, _score(next((value[key] for key in _SCORES if key in value), None))) if text else None


def _score(value: Any) -> float:
    """A score from 0 to 100; of "80/100" it is the first number. What is no number is in the middle."""
    if isinstance(value, str) and (number := _NUMBER.search(value)):
        value = float(number.group())
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return _UNSCORED
    return float(min(100, max(0, value)))


def _point(text: str, score: float, reports: int) -> Point:
    checked = check_citations(text, reports)
    plain = " ".join(unmarked(checked.text).split())
    return Point(re.sub(r"\s+([.。,，;；!！?？])", r"\1", plain), score, tuple(sorted(checked.used)))
