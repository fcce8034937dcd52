"""One object of a JSON reply: the entity or relationship that it is by its keys, however it is written."""

import json
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from rag_transformers.records.text import Section

__all__ = [
    "CONTAINERS",
    "ITEM_KEYS",
    "JsonItem",
    "after_string",
    "item_of",
    "keys_in",
    "names_of",
    "plain_key",
    "string_value",
]

# The keys of an item, without case and marks, the best one of each role first.
_NAMES = ("entityname", "name", "entity", "实体名", "实体名称", "实体", "名称", "title", "node", "id")
_SUMMARIES = (
    *("entitydescription", "relationshipdescription", "relationdescription", "entitysummary", "relationsummary"),
    *("description", "summary", "relationshipsummary", "desc", "explanation", "描述", "摘要", "总结", "说明"),
)
_TYPES = ("entitytype", "type", "category", "实体类型", "类型", "label")
_SOURCES = (
    *("sourceentity", "sourceentityname", "source", "sourcename", "sourcenode", "subject", "head", "from"),
    *("源实体", "头实体", "来源实体", "源", "主语"),
)
_TARGETS = (
    *("targetentity", "targetentityname", "target", "targetname", "targetnode", "object", "tail", "to"),
    *("目标实体", "尾实体", "目标", "宾语"),
)
_RELATIONS = (
    *("relation", "relationname", "relationship", "relationshipname", "relationtype", "relationshiptype", "predicate"),
    *("关系名", "关系名称", "关系类型", "关系", "type", "label", "name"),
)
_WEIGHTS = ("weight", "relationshipstrength", "strength", "权重")
# What an object is that has one of these keys, if it lacks others.
_OF_EDGES = frozenset((*_SOURCES, *_TARGETS, *_RELATIONS[:-3], "relationshipdescription"))
_OF_VERTICES = frozenset((*_NAMES[:-3], "entitytype", "entitydescription"))
ITEM_KEYS = _OF_EDGES | _OF_VERTICES
CONTAINERS: dict[str, Section] = {
    **dict.fromkeys(("entities", "nodes", "实体", "实体列表"), "entities"),
    **dict.fromkeys(("relationships", "relations", "edges", "triples", "关系", "关系列表"), "relationships"),
}


class JsonItem(NamedTuple):
    """One entity or relationship as it stands in the reply.

    Args:
        line: The line where it starts, from 1.
        section: What it is, by its keys.
        text: The item as it came.
        fields: Name and summary, or source, relation, target and summary; empty where there is none.
        type: The entity's type, or "".
        weight: The relationship's weight, or None.
        id: What the entity is called by in the ends of relationships, if not by its name.
        fault: Why it cannot be read, or "".
    """

    line: int
    section: Section
    text: str
    fields: tuple[str, ...] = ()
    type: str = ""
    weight: float | None = None
    id: str = ""
    fault: str = ""


def item_of(text: str, line: int) -> JsonItem | None:
    """The item that an object is by its keys, or None.

    >>> item_of('{"source": "Ada Moss", "relation": "founded", "target": "Grain Trust",}', 1).fields
    ('Ada Moss', 'founded', 'Grain Trust', '')
    """
    values: dict[str, Any] = {}
    for key, value in _pairs(text):
        values.setdefault(plain_key(key), value)
    ends = _first(values, _SOURCES), _first(values, _TARGETS)
    if all(ends) or (not _OF_EDGES.isdisjoint(values) and _OF_VERTICES.isdisjoint(values)):
        row = (ends[0], _first(values, _RELATIONS), ends[1], _first(values, _SUMMARIES))
        return JsonItem(line, "relationships", text, row, weight=_weight(values))
    if not _OF_VERTICES.isdisjoint(values) or ("id" in values and _first(values, _TYPES)):
        name = _first(values, _NAMES), _first(values, _SUMMARIES)
        return JsonItem(line, "entities", text, name, _first(values, _TYPES), id=_text(values.get("id")))
    return None


def names_of(text: str) -> list[str] | None:
    """The names in a list of nothing but names, or None."""
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, list) and all(isinstance(name, str) for name in data) else None


def keys_in(text: str) -> list[str]:
    """The keys of an object that was cut off."""
    return [plain_key(key) for key in _KEY.findall(text)]


@lru_cache(maxsize=1024)
def plain_key(key: str) -> str:
    """A key without case and marks.

    >>> plain_key("Entity_Name")
    'entityname'
    """
    return "".join(character for character in key.casefold() if character.isalnum())


# ── Reading what is no JSON ──────────────────────────────────────────────────────────────────────────────────────────


def after_string(marks: str = "\"'") -> str:
    """What of JSON's structure follows a string: a colon, a bracket, or a comma and what may stand behind it."""
    key = rf"(?:[{marks}]\w{{1,40}}[{marks}]\s*+:|\w{{1,40}}\s*+:\s*+[{marks}\[{{])"
    return rf"\s*+(?:[:}}\]]|,\s*+[{marks}{{\[}}\]]|,?\s*+{key}|\{{\s*+[{marks}]|,?\s*+\Z)"


def string_value(text: str) -> str | None:
    """What a quoted string says, its bad escapes and inner quotes too; None if it has no quote at its end.

    >>> string_value('"The "Old" Hand"'), string_value('"The Old Ha')
    ('The "Old" Hand', None)
    """
    if len(text) < 2 or text[-1] != text[0]:
        return None
    inner = _BAD_ESCAPE.sub(r"\\\\", text[1:-1].replace(f"\\{text[0]}", text[0])).replace('"', '\\"')
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError:
        return text[1:-1]


# Inside an object a string that never ends goes to the end of the object, and is no value.
_DOUBLE = rf'"(?:[^"\\]++|\\.|"(?!{after_string()}))*+(?:"|\\?\Z)'
_SINGLE = rf"'(?:[^'\\]++|\\.|'(?!{after_string()}))*+(?:'|\\?\Z)"
_PAIR = re.compile(
    r"[\"']?(?P<key>[^\W\d][\w -]{0,40}+)[\"']?\s*+[:：]\s*+"
    rf"(?:(?P<text>{_DOUBLE}|{_SINGLE})|(?P<bare>[-+.\w]++))",
    re.DOTALL,
)
_KEY = re.compile(r"[\"']([^\W\d][\w -]{0,40}+)[\"']\s*+:")
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu])')


def _pairs(text: str) -> Iterable[tuple[str, Any]]:
    """The keys and values of an object, those of one that is no JSON too."""
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return [(pair["key"], _value(pair)) for pair in _PAIR.finditer(text)]
    return data.items() if isinstance(data, dict) else ()


def _value(pair: re.Match[str]) -> Any:
    if pair["bare"]:
        return None if pair["bare"].lower() in ("null", "none", "nan") else pair["bare"]
    return string_value(pair["text"])


def _first(values: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        if key in values and (text := _text(values[key])):
            return text
    return ""


def _text(value: Any) -> str:
    """A value as text: an end may be an object that has a name; numbers are names too; what else there is, is none."""
    if isinstance(value, dict):
        inner = {plain_key(key): text for key, text in value.items()}
        value = next((inner[key] for key in _NAMES if isinstance(inner.get(key), str)), "")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()


def _weight(values: dict[str, Any]) -> float | None:
    try:
        weight = float(_first(values, _WEIGHTS))
    except ValueError:
        return None
    return weight if math.isfinite(weight) else None
