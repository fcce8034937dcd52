"""Where records stand in a reply: brackets, sections, lines, and what is mended. One pass, linear in its length."""

import re
from itertools import islice
from typing import NamedTuple

from rag_transformers.records.text import CLOSE, OPEN, TAG, Section, clean_field, heading_at, is_blank, reply_lines

__all__ = ["Found", "fields_of", "find_records", "row_of"]

# Decoration that may stand before a record on its line: bullets, quotes, emphasis, a tag, a check box, a number.
_DECOR = rf"(?:{TAG}|[^\w()（）#＃]|_)*+"
_LABEL = (
    r"(?:#?\d{1,4}\s?[.)）:：、．|\]-]|(?:[A-Za-z]|[ivxIVX]{1,4}|[一二三四五六七八九十]{1,3})[.)）:：、．\]]"
    r"|[(（](?:\d{1,3}|[一二三四五六七八九十]{1,3})[)）]|[①-⒛])?"
)
_START = re.compile(rf"{_DECOR}(?:#{{1,6}}(?=[\s*(（]))?{_DECOR}{_LABEL}{_DECOR}(?=[{OPEN}])")
# A number in brackets before what is no record, and none itself.
_REMARK = re.compile(rf"{_DECOR}[(（]\d{{1,3}}[)）]\s*+[^\W\d]")
_BULLET = re.compile(r"\s*+(?:[*+•·●>-]\s++)*+(?:\d{1,3}(?:[.)）]\s++|[、．]\s*+))?")

# A record with brackets inside brackets, to three levels; deeper ones are counted.
_INNER = r"[(（](?:[^()（）]++|[(（][^()（）]*+[)）])*+[)）]"
_BALANCED = re.compile(rf"[(（](?:[^()（）]++|{_INNER})*+[)）]")
_BRACKET = re.compile(r"[()（）]")
_MARK = re.compile(r"[#＃)）]")
_SEPARATOR = re.compile(r"[#＃]")
# What may stand between two records of a line, and the start of the next one.
_BETWEEN = re.compile(r"[\s,;，；、*_`\"'“”‘’]*+")
_NEXT = re.compile(rf"{_BETWEEN.pattern}[(（][^()（）#＃]*+[#＃]")
_REST = " \u00a0\u3000,;.，；。、*_`\"'“”’|]"
_MOST_LINES = 20
"""A record that is never closed is looked for on so many lines, so that each line is read only so often."""
_GLUED = re.compile(
    r"(?<!\w)(?:Entities|Relationships|ENTITIES|RELATIONSHIPS|实体|关系)[*_\s]{0,4}[:：][*_\s]{0,4}(?=[(（])"
)


class Found(NamedTuple):
    """A record as it stands in a reply.

    Args:
        line: The line where it starts, from 1.
        section: The heading that it stands under; None before any known one.
        text: What stands between its brackets, line breaks as spaces.
        cut: Whether the reply ends inside it.
    """

    line: int
    section: Section | None
    text: str
    cut: bool


def find_records(text: str, *, cut: bool = False) -> list[Found]:
    r"""All records of a reply, in its order.

    Args:
        text: The reply, without invisible marks.
        cut: Whether the model was stopped at its token limit.

    >>> [found.text for found in find_records("Entities: (Lyle Rail#Branch line\nto the coast), (Moor Gate#Halt")]
    ['Lyle Rail#Branch line to the coast', 'Moor Gate#Halt']
    """
    return _Reader(text, cut).read()


class _Reader:
    """Goes through the lines of one reply; ``row`` is where it stands, ``section`` what the last heading said."""

    def __init__(self, text: str, cut: bool) -> None:
        numbered = reply_lines(text)
        self.numbers = [number for number, _ in numbered]
        self.lines = [line for _, line in numbered]
        self.cut = cut
        self.row = 0
        self.section: Section | None = None
        self.found: list[Found] = []
        self._stray = (-1, -1)
        self._going_on: dict[int, bool] = {}

    def read(self) -> list[Found]:
        while self.row < len(self.lines):
            if self.lines[self.row]:
                self._read_line(self.lines[self.row])
            self.row += 1
        return self.found

    def _read_line(self, line: str) -> None:
        start = _START.match(line)
        if start and (len(line) > 60 or _SEPARATOR.search(line)):
            return self._read_run(start.end())
        heading = heading_at(line, 0)
        if heading:
            self.section = heading.section
            return self._read_rest(line, heading.end)
        if start and not _REMARK.match(line):
            return self._read_run(start.end())
        glued = _GLUED.search(line)
        if glued:
            self.section = "entities" if glued.group()[0] in "E实" else "relationships"
            return self._read_run(glued.end())
        return self._read_unopened(line, 0)

    def _read_rest(self, line: str, start: int) -> None:
        """What stands behind a heading on its line."""
        opening = _START.match(line, start)
        if opening:
            self._read_run(opening.end())
        else:
            self._read_unopened(line, start)

    def _read_run(self, at: int) -> None:
        """Records that follow each other, from the opening bracket at this place of the line."""
        while at >= 0:
            at = self._read_record(at)
            if self.section is None and not _SEPARATOR.search(self.found[-1].text):
                self.found.pop()  # prose, and so is what follows it
                return
            at = self._next_start(at)

    def _next_start(self, at: int) -> int:
        """Where the next record of this line opens, behind a record that ended here; -1 if there is none."""
        line = self.lines[self.row]
        if at == len(line):
            return -1
        between = _BETWEEN.match(line, at)
        at = between.end() if between else at
        if at == len(line) or line[at] in OPEN:
            return at if at < len(line) else -1
        heading = heading_at(line, at)
        opening = _START.match(line, heading.end) if heading else None
        if heading and (opening or line[heading.end - 1] in ":："):
            self.section = heading.section
        return opening.end() if opening else -1

    def _read_record(self, at: int) -> int:
        """Read the record that opens here; where it ends on the line that ``row`` then names."""
        line = self.lines[self.row]
        balanced = _BALANCED.match(line, at)
        end, depth = (balanced.end() - 1, 0) if balanced else _matching(line, at, 0)
        if end < 0:
            return self._read_open(at, depth)
        if end + 1 < len(line):
            end = self._end_of_line(end)
        return self._keep(self.row, line[at + 1 : end], end + 1)

    def _keep(self, row: int, text: str, end: int, *, cut: bool = False) -> int:
        self.found.append(Found(self.numbers[row], self.section, text, cut))
        return end

    def _end_of_line(self, end: int) -> int:
        """Where a record ends whose brackets match here: further right if a bracket without partner follows."""
        line = self.lines[self.row]
        stray = self._last_stray(end + 1)
        if stray <= end or _NEXT.match(line, end + 1):
            return end
        # A record that starts right behind the bracket without partner is one of its own.
        return stray if _NEXT.match(line, stray + 1) else max(line.rfind(mark) for mark in CLOSE)

    def _last_stray(self, start: int) -> int:
        """The last closing bracket without partner on this line; found once, for the records before are balanced."""
        if self._stray[0] != self.row:
            self._stray = (self.row, _last_stray(self.lines[self.row], start))
        return self._stray[1]

    def _read_open(self, at: int, depth: int) -> int:
        """Read a record that is still open at the end of its line."""
        first, parts = self.row, [self.lines[self.row][at + 1 :]]
        row = first + 1
        while row < min(len(self.lines), first + _MOST_LINES) and self._continues(row):
            line = self.lines[row]
            end, depth = _matching(line, 0, depth)
            if end >= 0 and _ends_closed(parts[-1]) and not _is_natural(line, end + 1):
                break
            if end >= 0:
                self.row = row
                end = self._end_of_line(end)
                return self._keep(first, _joined([*parts, line[:end]]), end + 1)
            parts.append(line)
            row += 1
        return self._read_unclosed(first, at, parts)

    def _continues(self, row: int) -> bool:
        """Whether a line can go on with a record; found once, for the records before may all ask it."""
        if row not in self._going_on:
            self._going_on[row] = _goes_on(self.lines[row])
        return self._going_on[row]

    def _read_unclosed(self, first: int, at: int, parts: list[str]) -> int:
        """Read a record whose matching bracket is missing: to the last bracket of a line that ends in one, or all."""
        self.row = first + len(parts) - 1
        at_end = self.row == len(self.lines) - 1
        for count, part in ((1, parts[0]), (len(parts), parts[-1])):
            if _ends_closed(part):
                kept = [*parts[: count - 1], part[: max(part.rfind(mark) for mark in CLOSE)]]
                self.row = first + count - 1
                cut = self.cut and self.row == len(self.lines) - 1
                return self._keep(first, _joined(kept), len(self.lines[self.row]), cut=cut)
        return self._keep(first, _joined(parts), len(self.lines[self.row]), cut=at_end)

    def _read_unopened(self, line: str, start: int) -> None:
        """Read a record whose opening bracket is missing, if the line is one."""
        if not any(mark in line for mark in CLOSE) or not _SEPARATOR.search(line, start):
            return
        bullet = _BULLET.match(line, start)
        start = bullet.end() if bullet else start
        end = _last_stray(line, start)
        text = line[start:end]
        separators = len(list(islice(_SEPARATOR.finditer(text), 2)))
        if end < 0 or text[:1] in "#＃" or separators < (2 if self.section == "relationships" else 1):
            return
        if not line[end + 1 :].strip(_REST) or _NEXT.match(line, end + 1):
            self._keep(self.row, text, end)
            self._read_run(self._next_start(end + 1))


def _goes_on(line: str) -> bool:
    """Whether a line can go on with an open record: it is no start of anything, and closes before it separates."""
    mark = _MARK.search(line)
    if mark and mark.group() not in CLOSE:
        return False
    return not (is_blank(line) or _START.match(line) or heading_at(line, 0) or _GLUED.search(line))


def _matching(line: str, start: int, depth: int) -> tuple[int, int]:
    """The bracket that closes a record which is open to this depth, or -1, and the depth at the end."""
    for bracket in _BRACKET.finditer(line, start):
        depth += 1 if bracket.group() in OPEN else -1
        if not depth:
            return bracket.start(), 0
    return -1, depth


def _last_stray(line: str, start: int) -> int:
    """The last closing bracket without partner from this place on, or -1."""
    depth, stray = 0, -1
    for bracket in _BRACKET.finditer(line, start):
        if bracket.group() in OPEN:
            depth += 1
        elif depth:
            depth -= 1
        else:
            stray = bracket.start()
    return stray


def _ends_closed(line: str) -> bool:
    return line.rstrip(_REST)[-1:] in tuple(CLOSE)


def _is_natural(line: str, start: int) -> bool:
    return not line[start:].strip(_REST) or _NEXT.match(line, start) is not None


def _joined(parts: list[str]) -> str:
    return " ".join(part.strip() for part in parts)


# ── Fields ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# A field in quotes or code marks that holds a separator: `"C#"`, a whole field and no more.
_QUOTED = re.compile(r"(?:^|(?<=[#＃]))\s*+(?:\"[^\"]*+\"|“[^“”]*+”|`[^`]*+`)\s*+(?=[#＃]|$)")
_AMBIGUOUS = re.compile(r"[#＃]{2}|[\"“`]")
_ENOUGH = 8
"""The first separators settle the fields: at most two for each of three borders, and what may follow."""


def fields_of(text: str, section: Section | None) -> list[str]:
    """The fields of a record: name and summary, or source, relation, target and summary, as far as it has them.

    Two separators in a row are read as a name that ends in one where that gives two fields, or four; else the field
    between them is empty.

    >>> fields_of("C##Language", "entities"), fields_of("Desk#uses#C##Since #4", None)
    (['C#', 'Language'], ['Desk', 'uses', 'C#', 'Since #4'])
    >>> fields_of("Desk##C", "relationships")
    ['Desk', '', 'C']
    """
    if not _AMBIGUOUS.search(text):
        return _SEPARATOR.split(text, 1 if section == "entities" else 3)
    marks = [mark.start() for mark in islice(_SEPARATOR.finditer(text), _ENOUGH)]
    if any(quote in text for quote in '"“`'):
        marks = _outside_quotes(text, marks)
    if section == "entities":
        return _split(text, _borders(text, marks, 1))
    doubled = _borders(text, marks, 3)
    if len(doubled) == 3 or (section is None and len(doubled) == 1):
        return _split(text, doubled)
    return _split(text, marks[:3])


def row_of(found: Found) -> tuple[str, ...]:
    """The cleaned fields of a record, two for an entity and four for a relationship; fewer if it lacks some.

    >>> row_of(Found(1, "relationships", " Ada Moss # **founded** # Grain Trust ", False))
    ('Ada Moss', 'founded', 'Grain Trust', '')
    """
    row = tuple([clean_field(field) for field in fields_of(found.text, found.section)])
    if found.section == "entities" and len(row) == 1:
        return (*row, "")
    return (*row, "") if len(row) == 3 else row


def _outside_quotes(text: str, marks: list[int]) -> list[int]:
    spans = [(quoted.start(), quoted.end()) for quoted in islice(_QUOTED.finditer(text), _ENOUGH)]
    return [mark for mark in marks if not any(start <= mark < end for start, end in spans)]


def _borders(text: str, marks: list[int], wanted: int) -> list[int]:
    """The first borders between fields, the first of two separators in a row taken into the name before it."""
    borders: list[int] = []
    start = 0
    remaining = iter(enumerate(marks))
    for number, mark in remaining:
        if marks[number + 1 : number + 2] == [mark + 1] and text[start:mark].strip():
            mark = next(remaining)[1]
        borders.append(mark)
        start = mark + 1
        if len(borders) == wanted:
            break
    return borders


def _split(text: str, borders: list[int]) -> list[str]:
    starts = [0, *(border + 1 for border in borders)]
    return [text[start:end] for start, end in zip(starts, [*borders, len(text)], strict=True)]
