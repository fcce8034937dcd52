"""English text as one letter a word: what lets patterns over a whole chunk run at the speed of a regular expression."""

import re
from typing import NamedTuple

from rag_transformers.phrases.english_words import BRIDGES, KEPT_TITLES, LETTERS, SHED_TITLES
from rag_transformers.phrases.lines import LINE, ROW
from rag_transformers.text import HAN

__all__ = ["Text", "letter", "tokenise"]

_LETTER = r"A-Za-z\u00c0-\u024f\u0370-\u052f\u1e00-\u1eff"
_TITLE = "|".join(sorted((title.capitalize() for title in SHED_TITLES | KEPT_TITLES), key=lambda it: (-len(it), it)))
# Guards of one character spare most words the rarer patterns.
_TOKEN = re.compile(
    rf"[\n{LINE}](?:[ \t]*(?:\n\s*|(?:[-*•>|]|\#+|\d+[.)])[ \t]+))"  # a blank line, a list item, a Markdown heading
    rf"|[{LINE}{ROW}]"
    r"|(?=N)Nos?\.\s?\d+"
    r"|(?=[hw])(?:https?://|www\.)\S+"
    rf"|(?=[A-Z])(?:(?:[A-Z]\.){{2,}}|(?:{_TITLE})\.|[A-Z]\.(?=\s?[A-Z]))"
    rf"|[{_LETTER}][{_LETTER}0-9]*(?:[-&+](?=[{_LETTER}0-9])[{_LETTER}0-9]+|['’](?![sS]\b)(?=[{_LETTER}])[{_LETTER}]+)*"
    rf"|['’][sS]\b|\d+(?:[.,]\d+)*[{_LETTER}]*|[{HAN}]+|[^\w\s*_#]"
)
_MOST_KNOWN = 1 << 16
_LINE_ENDS = f"\n{LINE}"
_HAN = re.compile(f"[{HAN}]")
_NOUN_PLACE = re.compile(r"(?<=[djeogmy])b|(?<=[pw])b(?=[.,;:)])")  # the works, at work.
_ADJECTIVE_PLACE = re.compile(r"(?<=[djeg])[vi](?=[wj])")  # the acquired bank
_MARKS = {
    ",": ",",
    "(": "(",
    ")": ")",
    "[": "(",
    "]": ")",
    "&": "k",
    ";": ";",
    ":": ":",
    "-": "-",
    "–": "-",
    "—": "-",
    "'": '"',
}
_MARKS |= dict.fromkeys('“”‘’«»"`', '"') | dict.fromkeys(".!?…", ".")


class Text(NamedTuple):
    """The tokens of a text.

    Args:
        words: The tokens.
        starts: Where each begins, in characters.
        letters: One letter for each: ``N`` capitalised, ``U`` all capitals, ``w`` a noun or unknown …
    """

    words: list[str]
    starts: list[int]
    letters: str


def tokenise(text: str) -> Text:
    """The words and marks of a text.

    >>> tokenise("Mr. Lane's bank was founded in Leeds.").letters
    'tNgwxvpN.'
    """
    words = _TOKEN.findall(text)
    starts = [found.start() for found in _TOKEN.finditer(text)]
    letters = "".join(map(_known.__getitem__, words))
    letters = _NOUN_PLACE.sub("w", letters)
    return Text(words, starts, _ADJECTIVE_PLACE.sub("j", letters))


class _Known(dict[str, str]):
    """The letters of words that were met; a dictionary of its own, for it is asked at every word."""

    def __missing__(self, word: str) -> str:
        if len(self) > _MOST_KNOWN:
            self.clear()
        self[word] = found = letter(word)
        return found


_known = _Known()


def letter(word: str) -> str:
    """The letter of one token.

    >>> "".join(map(letter, ["Leeds", "NASA", "the", "quickly", "founded", "graph", "1998", ","]))
    'NUeavwm,'
    """
    first = word[0]
    if not first.isalnum():
        return "|" if first in _LINE_ENDS else "/" if first == ROW else "g" if len(word) > 1 else _MARKS.get(first, ".")
    if first.isdigit() or (word[-1].isdigit() and word.startswith(("No.", "Nos."))):
        return "m"
    if "/" in word or word.startswith("www."):
        return ","
    if _HAN.match(first):
        return "H"
    if word.endswith(".") and word[:-1].lower() in SHED_TITLES | KEPT_TITLES:
        return "t"
    if first.isupper():
        if "'" in word.replace("’", "'") and (known := LETTERS.get(word.replace("’", "'").lower())):
            return known  # I'll
        return {"I": "r", "A": "d", "O": "a"}.get(word) or ("U" if word.isupper() and len(word) > 1 else "N")
    return _lower(word.replace("’", "'"))


def _lower(word: str) -> str:
    if not word.islower():
        return "N"  # iPhone
    if word == "the":
        return "e"
    if word in BRIDGES and word != "of":
        return "y"
    if known := LETTERS.get(word):
        return known
    if word.endswith("ly"):
        return "a"
    if word.endswith("ed") and len(word) > 4:
        return "v"
    return "i" if word.endswith("ing") and len(word) > 5 else "w"
