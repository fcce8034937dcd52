"""The JSON object of a reply, as values: whatever stands around it, however its marks are off, wherever it was cut."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from rag_transformers.records.items import after_string, plain_key, string_value

__all__ = ["JsonObject", "find_object"]

_START = re.compile(r"\{(?=\s*+(?:[\"'“]|[^\W\d]\w{0,40}+\s*+[:：]))")
_PASSES = 3
"""A reply of brackets that never close is read so often at most, each time from another bracket on."""
_DEEPEST = 100
"""No reply nests deeper; brackets that do are no JSON."""

_STRING = {
    mark: re.compile(rf"{mark}(?:[^{mark}\\]++|\\.|{mark}(?!{after_string()}))*+({mark}|\\?\Z)", re.DOTALL)
    for mark in "\"'"
}
_BETWEEN = re.compile(r"[\s,;，]*+")
_KEY = re.compile(r"([^\W\d][\w -]{0,40}+)(?=[:：])")
_COLON = re.compile(r"\s*+[:：]\s*+")
_BARE = re.compile(r"[^,\]}\n]*+")
_WORDS = {"true": True, "false": False, "null": None, "none": None, "nan": None, "": None}


class JsonObject(NamedTuple):
    """An object that was found in a reply.

    Args:
        values: Its values under plain keys, without case and marks; so in the objects inside it.
        cut: Whether the reply ends inside it; a string that is cut is None.
    """

    values: dict[str, Any]
    cut: bool


def find_object(reply: str, keys: Collection[str]) -> JsonObject | None:
    r"""The object in a reply that has most of some keys, the last one of those that have as many; None without any.

    Fences, words around it, missing or trailing commas, single quotes, quotes inside strings, bare words and bad
    escapes do not matter, nor does an object around it.

    Args:
        reply: The reply, without reasoning.
        keys: Plain keys, see :func:`rag_transformers.records.items.plain_key`; one of them is enough.

    >>> find_object('Sure!\n```json\n{"Title": "The "Old" Mill", "rating": 7.5,}\n```', {"title", "rating"})
    JsonObject(values={'title': 'The "Old" Mill', 'rating': 7.5}, cut=False)
    >>> find_object('{"title": "Mill", "findings": [{"summary": "Burned"}, {"summary": "Reb', {"title"})
    JsonObject(values={'title': 'Mill', 'findings': [{'summary': 'Burned'}, {'summary': None}]}, cut=True)
    """
    best, most = None, 0
    for found in _objects(reply, keys):
        if (has := _has(found.values, keys)) >= most and has:
            best, most = found, has
    return best


def _has(values: dict[str, Any], keys: Collection[str]) -> int:
    return sum(values.get(key) is not None for key in keys)


def _objects(reply: str, keys: Collection[str]) -> Iterator[JsonObject]:
    """The objects of a reply, and those inside objects that have none of the keys."""
    at = read = 0
    while read <= _PASSES * len(reply) and (start := _START.search(reply, at)):
        values, end, cut = _read(reply, start.start())
        at, read = start.start() + 1, read + end - start.start()
        for inner in _inside(values, 0):
            if _has(inner, keys):
                at = end
                yield JsonObject(inner, cut)


def _read(reply: str, start: int) -> tuple[Any, int, bool]:
    """The value that begins at a place, where it ends, and whether the reply ends inside it."""
    try:
        values, end = _DECODER.raw_decode(reply, start)
        return values, end, False
    except (ValueError, RecursionError):
        reader = _Reader(reply, start)
        return reader.value(0), reader.at, reader.cut


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with plain keys; of two that are the same the first that says something."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if found.get(plain := plain_key(key)) is None:
            found[plain] = value
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_plain, strict=False)


def _inside(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        if depth < 2:
            for inner in value.values():
                yield from _inside(inner, depth + 1) if isinstance(inner, dict) else ()


class _Reader:
    """Reads one value of a text from a place on; ``at`` is then behind it."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.cut = False

    def value(self, depth: int) -> Any:
        mark = self.text[self.at : self.at + 1]
        if depth > _DEEPEST:
            self.at = len(self.text)
        if mark == "{":
            return self._object(depth)
        if mark == "[":
            return self._list(depth)
        return self._string(mark) if mark in _STRING else self._bare()

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        while self._goes_on("}"):
            key = self._key()
            value = self.value(depth + 1) if key is not None else None
            if key and found.get(key) is None:
                found[key] = value
        return found

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        while self._goes_on("]"):
            before = self.at
            found.append(self.value(depth + 1))
            self.at += self.at == before  # a bracket that closes nothing
        return found

    def _goes_on(self, closing: str) -> bool:
        """Whether another item follows; else the bracket is closed, or the text at its end."""
        self.at = self._after(_BETWEEN)
        mark = self.text[self.at : self.at + 1]
        if not mark:
            self.cut = True
        elif mark == closing:
            self.at += 1
        elif mark in "]}" and closing == "]":  # the list was never closed, and the object around it is
            pass
        else:
            return True
        return False

    def _key(self) -> str | None:
        """The key at this place, and go on behind its colon; None, and go on, where there is none."""
        mark = self.text[self.at : self.at + 1]
        bare = None if mark in _STRING else _KEY.match(self.text, self.at)
        name = self._string(mark) if mark in _STRING else bare.group() if bare else None
        if bare:
            self.at = bare.end()
        colon = _COLON.match(self.text, self.at)
        if name is None or colon is None:
            self.at += name is None
            return None
        self.at = colon.end()
        return plain_key(name)

    def _string(self, mark: str) -> str | None:
        found = _STRING[mark].match(self.text, self.at)
        self.at = found.end() if found else len(self.text)
        if found and found.group(1) == mark:
            return string_value(found.group())
        self.cut = True
        return None

    def _bare(self) -> Any:
        text = self.text[self.at : self._after(_BARE)].strip()
        self.at = self._after(_BARE)
        if text.casefold() in _WORDS:
            return _WORDS[text.casefold()]
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def _after(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self.text, self.at)
        return found.end() if found else self.at
