"""Which line breaks of a text no name crosses: those of titles, headings, lists, forms and signatures."""

import re
from collections.abc import Iterator, Sequence

from rag_transformers.text import CLOSERS, HAN

__all__ = ["LINE", "ROW", "blocks", "marked"]

LINE = "\x1e"
"""Stands for a line break that ends a sentence without an end mark: before it is a title, a heading, an item."""

ROW = "\x1f"
"""Stands for a line break between the rows of one block: they are one sentence, in which no name crosses it."""

_MOST_WORDS = 6
_FAR = 400  # characters; a row is shorter
_FINISHED = re.compile(rf"[.!?…。！？｡．][{CLOSERS}]*$")
_LABEL = re.compile(r"\w[^\n:：]{0,30}(?::\s+|：)\S")
_HAN_ROW = re.compile(rf"[{HAN}·・ \u3000]{{1,12}}")
_EITHER = re.compile(f"[{LINE}{ROW}]")


def marked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    r"""The text with ``LINE`` and ``ROW`` in place of the line breaks that no name crosses; every place stays.

    Where a line ends a sentence is known from the spans. Inside one a line break only wraps it, and a name may cross
    it, unless it is no prose: names alone on their lines, or labels with what they say.

    Args:
        text: A chunk.
        spans: Its sentences.

    >>> marked("Ada Moss\nGrain Trust was founded by Ada Moss.", [(0, 8), (9, 45)]).index(LINE)
    8
    >>> marked("John Meyer\nHotel Alpina", [(0, 23)]).index(ROW), ROW in marked("Acme\nTrust in 1999", [(0, 18)])
    (10, False)
    """
    if "\n" not in text:
        return text
    pieces, place = [], 0
    for position, mark in _marks(text, spans):
        pieces += [text[place:position], mark]
        place = position + 1
    return "".join([*pieces, text[place:]])


def blocks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    r"""The parts of a span of a marked text that no name leaves, those that are not blank.

    >>> list(blocks("Ada\x1fMoss", 0, 8))
    [(0, 3), (4, 8)]
    """
    for mark in _EITHER.finditer(text, start, end):
        if text[start : mark.start()].strip():
            yield start, mark.start()
        start = mark.end()
    if text[start:end].strip():
        yield start, end


def _marks(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    last = 0
    for start, end in spans:
        gap = text.find("\n", last, start)
        if gap >= 0 and not _FINISHED.search(text, max(0, last - 8), last):
            yield gap, LINE
        place = text.find("\n", start, end)
        while place >= 0:
            if _parts_rows(text, place):
                yield place, ROW
            place = text.find("\n", place + 1, end)
        last = end


def _parts_rows(text: str, place: int) -> bool:
    """Whether a line break stands between two rows, and no line of prose goes on with the second one."""
    line = text[text.rfind("\n", 0, place) + 1 : place].strip()
    following, _, later = text[place + 1 : place + _FAR].partition("\n")
    return _is_row(line) and _is_row(following.strip()) and not later.lstrip()[:1].islower()


def _is_row(line: str) -> bool:
    if _LABEL.match(line):
        return not line[0].islower()
    if _HAN_ROW.fullmatch(line):
        return True
    words = line.split()
    if not (0 < len(words) <= _MOST_WORDS and _is_capital(words[0])):
        return False
    from rag_transformers.phrases.english_words import BRIDGES

    return all(_is_capital(word) or word in BRIDGES for word in words)


def _is_capital(word: str) -> bool:
    first = word.lstrip("(\"'“‘")[:1]
    return first.isupper() or first.isdigit() or bool(first and _HAN_ROW.match(first))
