"""Records as they are written: a row as a line of the ``#`` format, and texts that are made of such lines."""

import re

from rag_transformers.records.marks import find_records, row_of
from rag_transformers.records.text import CLOSE, OPEN, Section, clean_field, heading_at, is_blank, visible

__all__ = ["as_record", "is_chiefly_records"]

_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_FORBIDDEN = str.maketrans("#＃:", "___")
_WHOLE = re.compile(r"\s*+[(（].*[)）]\s*+")
_TITLE = re.compile(r"\s*+#{1,6}\s")
_HEADINGS: dict[Section, str] = {"entities": "Entities:", "relationships": "Relationships:"}
_FEWEST: dict[Section | None, int] = {"entities": 1, "relationships": 2, None: 3}
_CHIEFLY = 0.75
"""The share of a text's characters, titles and headings aside, that must stand in records."""


def as_record(section: Section, row: tuple[str, ...]) -> str:
    """A record as a line; marks that would be lost are protected, and brackets that would break it replaced.

    >>> as_record("entities", ("C#", "as of 1)")), as_record("entities", ('"D"', "a) (b"))
    ('(C_#as of 1))', '(""D""#a_ _b)')
    """
    row = tuple(visible(_LINE_BREAK.sub("_", part)).translate(_FORBIDDEN).strip() for part in row)
    quoted = tuple(f'"{part}"' if clean_field(part) != part else part for part in row)
    for fields in (row, quoted):
        line = f"({'#'.join(fields)})"
        found = find_records(f"{_HEADINGS[section]}\n{line}")
        if [row_of(record) for record in found] == [row]:
            return line
    return f"({'#'.join(_balanced(part) for part in quoted)})"


def _balanced(text: str) -> str:
    """A text whose brackets without partner are ``_``."""
    opened: list[int] = []
    marks = list(text)
    for at, mark in enumerate(text):
        if mark in OPEN:
            opened.append(at)
        elif mark in CLOSE and opened:
            opened.pop()
        elif mark in CLOSE:
            marks[at] = "_"
    for at in opened:
        marks[at] = "_"
    return "".join(marks)


def is_chiefly_records(text: str) -> bool:
    r"""Whether nearly all of a text stands in whole records of one line, with fields as their heading asks for.

    >>> is_chiefly_records("Entities:\n(a#b)\n(c#d)"), is_chiefly_records("Entities:\n(a#b)\nWhich is to say, c.")
    (True, False)
    """
    section: Section | None = None
    lines = records = other = 0
    for line in visible(text).split("\n"):
        heading = heading_at(line, 0)
        if heading:
            section = heading.section
        elif is_blank(line) or _TITLE.match(line):
            continue
        elif _WHOLE.fullmatch(line) and line.count("#") + line.count("＃") >= _FEWEST[section]:
            lines, records = lines + 1, records + len(line)
        else:
            other += len(line)
    if section is None:
        return lines > 2 and not other
    return lines > 1 and records >= _CHIEFLY * (records + other)
