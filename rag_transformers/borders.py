"""Where a text can be cut, and how well: paragraphs, sentences, clauses, words, characters, in Chinese and English."""

import enum
import re
import unicodedata
from bisect import bisect_right

from rag_transformers.text import CLOSERS, HAN, sentence_spans

__all__ = ["Rank", "borders", "character_border", "finer_border", "first_border", "next_visible"]


class Rank(enum.IntEnum):
    """What ends at a border; the higher, the better to cut there."""

    CHARACTER = 0
    SPACE = 1
    CLAUSE = 2
    SENTENCE = 3
    LINE = 4
    PARAGRAPH = 5


_VISIBLE = re.compile(r"\S")
_NUMERAL = "〇零一二三四五六七八九十百千\\d"
_HEADING = re.compile(
    rf"^[ \t\u3000]*(?:#{{1,6}}[ \t].*|第[{_NUMERAL}]{{1,7}}[回章节節卷部篇](?=\s|$).{{0,60}}"
    rf"|(?:chapter|book|part|stave|act|scene)[ \t]+(?:[ivxlc]+|\d+)\b.{{0,60}})$",
    re.MULTILINE | re.IGNORECASE,
)
_FINER = (
    (Rank.CLAUSE, re.compile(r"\n+")),
    (Rank.CLAUSE, re.compile(rf"(?:[，、：—…]+|[,:;]+(?=[{CLOSERS}]*(?:\s|[{HAN}])))[{CLOSERS}]*\s*")),
    (Rank.SPACE, re.compile(r"\s+")),
)


def borders(text: str, longest: int) -> list[tuple[int, Rank]]:
    r"""The borders of a text in order, from 0 to its length, at most ``longest`` characters apart.

    White space belongs to what stands before it, an indentation to its line. A heading and the text after it have no
    border between them.

    >>> text = "# Mills\n\nAda left. Bob, who stayed,\nwrote a very long letter."
    >>> ends = borders(text, longest=24)
    >>> for (start, _), (end, rank) in zip(ends, ends[1:]):
    ...     print(f"{rank.name:9} {text[start:end]!r}")
    SENTENCE  '# Mills\n\nAda left. '
    CLAUSE    'Bob, who stayed,\n'
    SPACE     'wrote a very long '
    PARAGRAPH 'letter.'
    """
    ranks = _sentence_borders(text)
    _keep_headings(text, ranks)
    ranks[len(text)] = Rank.PARAGRAPH
    visible_end = len(text.rstrip())
    found: list[tuple[int, Rank]] = [(0, Rank.PARAGRAPH)]
    for position in sorted(ranks):
        while position - (last := found[-1][0]) > longest:
            border = finer_border(text, last + longest // 2, last + longest)
            if border[0] >= visible_end:
                break
            found.append(border)
        found.append((position, ranks[position]))
    return found


def finer_border(text: str, first: int, last: int) -> tuple[int, Rank]:
    """The last border after ``first`` and up to ``last`` inside a sentence, of the best rank that there is.

    >>> finer_border("that he came, saw and won", 0, 20), finer_border("新年快乐", 0, 3)
    ((14, <Rank.CLAUSE: 2>), (3, <Rank.CHARACTER: 0>))
    """
    for rank, pattern in _FINER:
        ends = [mark.end() for mark in pattern.finditer(text, first, last)]
        if ends:
            return ends[-1], rank
    return character_border(text, first, last), Rank.CHARACTER


def character_border(text: str, first: int, last: int) -> int:
    """The last place after ``first`` and up to ``last`` between what a reader sees as characters, else ``last``.

    >>> character_border("cafe\u0301", 0, 4)
    3
    """
    position = last
    while position > first and _inside_character(text, position):
        position -= 1
    return position if position > first else last


def first_border(text: str, first: int, last: int) -> int:
    """The first border after ``first`` and up to ``last`` inside a sentence: a clause's, else a word's, else any."""
    for _, pattern in _FINER:
        if mark := pattern.search(text, first, last):
            return mark.end()
    return next((position for position in range(first, last) if not _inside_character(text, position)), last)


def next_visible(text: str, position: int) -> int:
    """The first character from a position that is no white space, or the text's length."""
    mark = _VISIBLE.search(text, position)
    return mark.start() if mark else len(text)


def _sentence_borders(text: str) -> dict[int, Rank]:
    ranks: dict[int, Rank] = {}
    last = 0
    for start, end in sentence_spans(text):
        lines = text.count("\n", last, start)
        border = text.rfind("\n", last, start) + 1 if lines else start
        if last and not _inside_character(text, border):
            ranks[border] = Rank.PARAGRAPH if lines > 1 else Rank.LINE if lines else Rank.SENTENCE
        last = end
    return ranks


def _keep_headings(text: str, ranks: dict[int, Rank]) -> None:
    """Put a border before each heading, and take out those up to the start of the text that follows it."""
    known = sorted(ranks)
    glued = 0
    for heading in _HEADING.finditer(text):
        start, body = heading.start(), next_visible(text, heading.end())
        if start > glued:
            ranks[start] = Rank.PARAGRAPH
        for position in known[bisect_right(known, start) : bisect_right(known, body)]:
            ranks.pop(position, None)
        glued = body


def _inside_character(text: str, position: int) -> bool:
    """Whether a cut here would part what a reader sees as one character: accents, joined emoji, flags, syllables."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if after < "\u0300" and before != "\u200d":
        return before == "\r" and after == "\n"
    if before == "\u200d" or after in _EXTENDERS or unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    return _is_flag(before) and _is_flag(after) and _flags_before(text, position) % 2 == 1


_EXTENDERS = frozenset(
    chr(code)
    for block in ((0x200C, 0x200E), (0x1160, 0x1200), (0x1F3FB, 0x1F400), (0xE0020, 0xE0080))
    for code in range(*block)
)
"""Joiners, the vowels and finals of Korean syllables, skin tones, tags."""


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, position: int) -> int:
    first = position
    while first > 0 and position - first < 64 and _is_flag(text[first - 1]):
        first -= 1
    return position - first
