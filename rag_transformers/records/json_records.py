"""Replies in JSON, read item by item: what is whole is kept, whatever stands around it or was cut off behind it."""

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

from rag_transformers.records.items import (
    CONTAINERS,
    ITEM_KEYS,
    JsonItem,
    after_string,
    item_of,
    keys_in,
    names_of,
    plain_key,
)
from rag_transformers.records.text import Section

__all__ = ["CUT_OFF", "JsonFound", "find_items", "starts_as_json"]

CUT_OFF = "cut off at the end of the reply"
_UNORDERED = "fields without keys"

# A string ends at a quote behind which JSON's structure goes on; any other quote is text, as in "The "Gold" Prize".
_STRING = re.compile(rf'"(?:[^"\\]++|\\.|"(?!{after_string()}))*+"', re.DOTALL)
_TOKEN = re.compile(r"[{}\[\]\"]")
_OPENING = re.compile(r"\{(?=\s*+[\"'\w])|\[(?=\s*+[\[{\"'])")
_START = re.compile(r"\s*+(?:`{3,}\w*+\s*+)?(?:\{\s*+[\"'\w]|\[\s*+[{\[])")
_COLON = re.compile(r"\s*+:\s*+(\[?)")
_ANY_KEY = re.compile(
    r"name|entity|node|source|subject|head|from|target|object|tail|to|relation|predicate|id|实体|名称|关系|源|主语|目标|宾语|\\u",
    re.IGNORECASE,
)
_LEVELS = 3
"""An object that is no item is looked into, and looked at, to this depth: each character is read at most so often."""
_DEEPEST = 100
"""No reply nests deeper; brackets that do are no JSON."""


class JsonFound(NamedTuple):
    """What the JSON of a reply holds: its items, whether it was cut, and whether it has objects that are no items."""

    items: list[JsonItem]
    cut: bool
    foreign: bool


@dataclass(slots=True)
class _Frame:
    """An open bracket.

    Args:
        mark: Which one.
        start: Where it stands.
        key: The key that it is the value of, or "".
        inside: Whether it stands inside an item, and is none itself.
        keyed: Whether a key of an item was seen in it.
        has_item: Whether an item stands inside.
        levels: How many levels of objects that are no items stand inside.
    """

    mark: str
    start: int
    key: str = ""
    inside: bool = False
    keyed: bool = False
    has_item: bool = False
    levels: int = 0


def find_items(text: str) -> JsonFound:
    """All entities and relationships of a reply in JSON, in its order.

    Args:
        text: The reply, with anything around its JSON.

    >>> found = find_items('Sure: [{"name": "Ada Moss", "summary": "The "Old Hand""}, {"name": "Grain T')
    >>> [item.fields for item in found.items], found.cut
    ([('Ada Moss', 'The "Old Hand"'), ()], True)
    """
    reader = _Reader(text)
    reader.read()
    return JsonFound(reader.items, bool(reader.stack), reader.foreign)


def starts_as_json(text: str) -> bool:
    r"""Whether a reply is JSON from its start on, so that records inside its strings are none.

    >>> starts_as_json('```json\n{"entities": []}'), starts_as_json("[1] (Ada Moss#Founder)")
    (True, False)
    """
    return _START.match(text) is not None


class _Reader:
    """Goes once through the brackets of one reply and reads each object as it closes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stack: list[_Frame] = []
        self.lists = 0
        self.key = ""
        self.items: list[JsonItem] = []
        self.foreign = False
        self._breaks = [found.start() for found in re.finditer("\n", text)]

    def read(self) -> None:
        at = 0
        while at >= 0 and len(self.stack) < _DEEPEST:
            token = (_TOKEN if self.stack else _OPENING).search(self.text, at)
            if token is None:
                break
            at = self._read_token(token.group(), at, token.start())
        self._read_rest()

    def _read_token(self, mark: str, last: int, at: int) -> int:
        """Read one mark, the one before it having ended at ``last``; where to go on, or -1 in a string without end."""
        if mark == '"':
            return self._read_string(at)
        if mark in "{[":
            if mark == "{" and self.stack and self.stack[-1].mark == "{" and ":" not in self.text[last:at]:
                self._close("{", at)  # the item before lacks its closing bracket
            self._open(mark, at)
        elif mark == "]" and self.lists:
            self._close("[", at + 1)
        elif mark == "}" and self.lists < len(self.stack):
            self._close("{", at + 1)
        return at + 1

    def _read_string(self, at: int) -> int:
        string = _STRING.match(self.text, at)
        if string is None:
            return -1
        frame = self.stack[-1]
        colon = _COLON.match(self.text, string.end()) if frame.mark == "{" else None
        if colon:
            self.key = plain_key(string.group()[:60])
            frame.keyed = frame.keyed or (self.key in ITEM_KEYS and not colon.group(1))
        return string.end()

    def _open(self, mark: str, at: int) -> None:
        outer = self.stack[-1] if self.stack else None
        inside = outer is not None and (outer.inside or outer.keyed)
        self.stack.append(_Frame(mark, at, self.key if outer and outer.mark == "{" else "", inside))
        self.lists += mark == "["

    def _close(self, mark: str, end: int) -> None:
        """Close the innermost such bracket, and what was left open inside it."""
        frame = None
        while frame is None or frame.mark != mark:
            frame = self.stack.pop()
            self.lists -= frame.mark == "["
            if not (frame.inside or frame.has_item):
                self._read_closed(frame, end)
            if self.stack:
                outer = self.stack[-1]
                outer.levels = max(outer.levels, frame.levels)
                outer.has_item = outer.has_item or frame.has_item

    def _read_closed(self, frame: _Frame, end: int) -> None:
        if frame.mark == "{":
            frame.has_item = frame.levels < _LEVELS and self._read_object(frame.start, end)
            frame.levels += 1
        elif frame.key in CONTAINERS:
            frame.has_item = self._read_list(frame, end)

    def _read_object(self, start: int, end: int) -> bool:
        """Read one object as an item; whether it is one."""
        item = item_of(self.text[start:end], self._line(start)) if _ANY_KEY.search(self.text, start, end) else None
        if item:
            self.items.append(item)
        elif end - start > len('{"a":1}') and not all(key in CONTAINERS for key in keys_in(self.text[start:end])):
            self.foreign = True
        return item is not None

    def _read_list(self, frame: _Frame, end: int) -> bool:
        """Read a list that holds no objects: entities by their names alone, or rows of which nobody says the order."""
        text, line, section = self.text[frame.start : end], self._line(frame.start), CONTAINERS[frame.key]
        names = names_of(text) if section == "entities" else None
        if names is not None:
            self.items += [JsonItem(line, section, name, (name, "")) for name in names]
        elif len(text) > len("[ [] ]"):
            self.items.append(JsonItem(line, section, text, fault=_UNORDERED))
            self.foreign = True
        return len(text) > len("[ [] ]")

    def _read_rest(self) -> None:
        """The item that the end of the reply cuts: it is counted, and nothing of it kept."""
        frame = next((frame for frame in reversed(self.stack) if frame.mark == "{" and not frame.inside), None)
        if frame is None or frame.has_item:
            return
        text = self.text[frame.start : frame.start + 2000]
        keys = keys_in(text)
        if not any(key in CONTAINERS for key in keys) and (keys or len(self.stack) > 1):
            section: Section = "entities"
            outer = [frame.key for frame in self.stack if frame.key in CONTAINERS]
            section = CONTAINERS[outer[-1]] if outer else section
            self.items.append(JsonItem(self._line(frame.start), section, text, fault=CUT_OFF))

    def _line(self, at: int) -> int:
        return bisect_left(self._breaks, at) + 1
