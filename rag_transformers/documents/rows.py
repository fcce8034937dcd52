"""The rows of .csv, .json and .jsonl files: which field is the text, the title, the id."""

import contextlib
import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_transformers.documents.decoding import clean
from rag_transformers.errors import DocumentError, UsageError

__all__ = ["Row", "read_rows"]

_TEXT_NAMES = ("text", "content", "page_content", "body", "正文", "内容", "內容", "文本", "全文")
_TITLE_NAMES = ("title", "标题", "標題", "题目", "題目")
_ID_NAMES = ("id", "_id", "编号", "編號")
_NOT_KEPT = {"source", "title", "chunk", "start", "end", "score", "encoding"}  # names that the library itself gives
_LONGEST_KEPT = 1000  # characters; what is kept is kept with every chunk


@dataclass(frozen=True)
class Row:
    """One row: the name of its document, its text and title, and its other short fields."""

    source: str
    text: str
    title: str = ""
    others: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Item:
    number: int  # from 1; 0 for the only one of a file
    place: str
    fields: Mapping[str, Any]


def read_rows(
    text: str, name: str, suffix: str, text_column: str | None = None, title_column: str | None = None
) -> list[Row]:
    r"""The rows of a file, in order.

    Args:
        text: What the file holds.
        name: The file's name; those of its rows start with it.
        suffix: ``.csv``, ``.json`` or ``.jsonl``.
        text_column: The text's column or field; by default one of the usual names, or the only one that there is.
        title_column: The title's; by default one of the usual names, if there is one.

    Raises:
        DocumentError: The file is not what its suffix says; the message names the line or item.
        UsageError: No such column; the message names those that there are.

    >>> read_rows("id,text\n7,Ada left.\n", "a.csv", ".csv")
    [Row(source='a.csv#7', text='Ada left.', title='', others={'id': '7'})]
    """
    parse = {".csv": _csv_items, ".json": _json_items, ".jsonl": _jsonl_items}[suffix]
    items = list(parse(text, name))
    columns = list(dict.fromkeys(column for item in items for column in item.fields))
    if not columns:
        return []
    texts = _column(name, "text column", columns, text_column, _TEXT_NAMES)
    if texts is None:
        how = "--text-column, in Python load_documents(text_column=…)"
        raise UsageError(f"{name}: which column is the text? Name one of {', '.join(columns)}: {how}")
    titles = _column(name, "title column", columns, title_column, _TITLE_NAMES)
    return [
        Row(
            source=f"{name}#{key}" if item.number else name,
            text=_as_text(item, texts),
            title=" ".join(_as_text(item, titles).split()),
            others={column: value for column, value in item.fields.items() if column != texts and _kept(column, value)},
        )
        for key, item in zip(_keys(items, columns), items, strict=True)
    ]


def _column(name: str, role: str, columns: list[str], wanted: str | None, usual: Iterable[str]) -> str | None:
    if wanted is not None:
        if wanted not in columns:
            raise UsageError(f"{name}: has no {role} {wanted!r}; its columns are {', '.join(columns)}")
        return wanted
    folded = {column.strip().casefold(): column for column in reversed(columns)}
    found = next((folded[each] for each in usual if each in folded), None)
    return columns[0] if found is None and usual is _TEXT_NAMES and len(columns) == 1 else found


def _keys(items: list[_Item], columns: list[str]) -> list[str]:
    """What the rows are called by: their ids, if each has one of its own, for a new row then renames no other."""
    column = _column("", "id", columns, None, _ID_NAMES)
    ids = [str(item.fields.get(column) or "").strip() for item in items] if column else []
    return ids if all(ids) and len(set(ids)) == len(items) else [str(item.number) for item in items]


def _as_text(item: _Item, column: str | None) -> str:
    value = item.fields.get(column) if column else None
    if value is None:
        return ""
    if isinstance(value, dict | list | bool):
        raise DocumentError(f"{item.place}: {column} is a {type(value).__name__}, not a text")
    return clean(str(value))


def _kept(column: str, value: Any) -> bool:
    short = isinstance(value, int | float | str) and value != "" and len(str(value)) <= _LONGEST_KEPT
    return short and column not in _NOT_KEPT


def _csv_items(text: str, name: str) -> Iterator[_Item]:
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number = 0
    try:
        with _long_fields():
            for number, row in enumerate(reader, 1):
                place = f"{name}, row {number} (up to line {reader.line_num})"
                if None in row:
                    raise DocumentError(f"{place}: has more fields than the first row; quote what holds {delimiter!r}")
                yield _Item(number, place, row)
    except csv.Error as error:
        raise DocumentError(f"{name}, after row {number} (line {reader.line_num}): is no CSV: {error}") from None


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Let fields be longer than the csv module's 131,072 characters: whole texts stand in them."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _json_items(text: str, name: str) -> Iterator[_Item]:
    if not text.strip():
        return
    data = _parsed(text, name)
    if isinstance(data, list):
        for number, item in enumerate(data, 1):
            yield _item(number, f"{name}, item {number}", item)
    else:
        yield _item(0, name, data)


def _jsonl_items(text: str, name: str) -> Iterator[_Item]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _item(number, f"{name}, line {number}", _parsed(line, name, number))


def _parsed(text: str, name: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        hint = "; with one object a line, name it .jsonl" if error.msg == "Extra data" and line is None else ""
        raise DocumentError(f"{name}, line {line or error.lineno}: is no JSON: {error.msg}{hint}") from None
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of thousands of digits
        raise DocumentError(f"{name}, line {line or 1}: cannot be read: {error}") from None


def _item(number: int, place: str, value: Any) -> _Item:
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, dict):
        raise DocumentError(f"{place}: is a {type(value).__name__}; an object or a text was expected")
    return _Item(number, place, value)
