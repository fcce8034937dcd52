"""Names in English by their capitals, checked against the whole chunk."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_transformers.phrases.english_tokens import Text
from rag_transformers.phrases.english_words import (
    BODIES,
    EPITHETS,
    KEPT_TITLES,
    LETTERS,
    NO_NAMES,
    NUMBERED,
    OWNERS,
    SHED_TITLES,
)

__all__ = ["Name", "find_names"]

_RUN = re.compile(r"t+[NU]+(?:y{1,2}[NU]+)*|[NU]+(?:(?:oe?|y{1,2}|oy{1,2}|k)t*[NU]+)*(?:m(?![wjmbNU|/]|$))?|H")
_MORE = re.compile(r"[cpo]e?[NU]+(?:oe?[NU]+)*")
_BREAK = re.compile(r"[|]")
_LONGEST = 12
_FORMS_OF_ADDRESS = frozenset(("Old", "Young", "Dear"))
_JOINING = frozenset(("and", "for", "on"))
_STARTS = frozenset('.|/":-(')
_COMMON_ENDING = re.compile(
    r"(?:ing|ly|ed|tion|sion|ness|ment|ity|ance|ence|ism|ship|hood|ful|less|able|ible|ous|ive)s?$"
)
_PLURAL = re.compile(r"(?<![suioa])(?<!me)(?<!le)s$")
_PLURAL_VERBS = frozenset(("are", "were", "have", "do"))
_DOES = re.compile(r"g|,?[xv]|a[xv]|b|,s")
_SUBJECT = re.compile(r"(?:g|[()]|,?[xv]|a[xv]|c[NUt]|b|,s|,[de][jwb]+[op])")
_DEMONYM = re.compile(r"(?:ish|ese|[^aeiou]ian|[^aeiou]ean|ican|rench|erman|reek|wiss|utch|elsh)$")


class Name(NamedTuple):
    """A name among the tokens of a text: those from ``first`` to before ``last``, and what it is called."""

    first: int
    last: int
    name: str


class _Run(NamedTuple):
    """Capitalised words in a row; ``opens`` says that the first stands where any word is capitalised."""

    first: int
    last: int
    opens: bool
    heading: bool


def find_names(text: Text) -> list[Name]:
    """The names of a chunk in reading order.

    A word at the start of a sentence counts only if it is no stop word, is not seen in lower case, and is either
    capitalised elsewhere too or stands before a verb; a heading's words count where the body names them.

    >>> from rag_transformers.phrases.english_tokens import tokenise
    >>> text = tokenise("Yesterday Ada Moss met Mr. Finch of the Grain Trust. Moss laughed. Nothing came of it.")
    >>> [name.name for name in find_names(text)]
    ['Ada Moss', 'Finch', 'Grain Trust', 'Moss']
    """
    seen = set(text.words)
    runs = list(_runs(text))
    inside = {word for run in runs if not run.heading for word in text.words[run.first + run.opens : run.last]}
    runs = [_peeled(text, run, seen, inside) if run.opens else run for run in runs]
    runs = [run for run in runs if run.first < run.last]
    body = [run for run in runs if not run.heading]
    sure = Counter(_key(text.words[run.first : run.last]) for run in body if not run.opens or run.last - run.first > 1)
    words = {word for run in body if not run.opens for word in text.words[run.first : run.last]}
    return [name for run in runs for name in _accepted(text, run, sure, words)]


def _runs(text: Text) -> Iterator[_Run]:
    letters = text.letters
    begin = 0
    for end in [*(mark.start() for mark in _BREAK.finditer(letters)), len(letters)]:
        heading = _is_heading(letters[begin:end]) and end - begin < len(letters)
        place = begin
        while found := _RUN.search(letters, place, end):
            first, place = found.start(), _extended(text, found.start(), found.end())
            opens = first == begin or letters[first - 1] in _STARTS
            if place - first <= _LONGEST:
                yield _Run(first, place, opens, heading or letters.startswith("UUU", first))
        begin = end + 1


def _extended(text: Text, first: int, last: int) -> int:
    """Where the name ends: the Department of Health and Human Services, Henry the Elder."""
    following = text.letters[last : last + 2]
    if following[:1] == "e" and following[1:] in ("m", "j", "N"):
        epithet = text.words[last + 1]
        return last + 2 if epithet.lower() in EPITHETS and epithet[0].isupper() else last
    if following in ("gN", "gU") and (text.words[last - 1].lower() in OWNERS or text.words[first] == "St."):
        run = _RUN.match(text.letters, last + 1)
        return run.end() if run else last
    if following[:1] in ("c", "p") and any(word.lower() in BODIES for word in text.words[first:last]):
        more = _MORE.match(text.letters, last)
        if more and text.words[last] in _JOINING and not text.letters.startswith(("c", "p"), more.end()):
            return more.end()
    return last


def _is_heading(line: str) -> bool:
    """Whether a line has no end mark, no verb, and mostly capitalised words; or capitals only."""
    if ("." in line[1:] and "U" not in line) or ("/" in line and ":" in line):
        return False  # a sentence, or a form
    words = [letter for letter in line if letter.isalpha()]
    capitals = sum(letter in "NUtm" for letter in words)
    if words and line.count("U") > 0.7 * len(words):
        return len(words) > 1
    return "." not in line[1:] and len(words) < 16 and capitals > 0.5 * len(words) and not re.search("[xvr]", line)


def _peeled(text: Text, run: _Run, seen: set[str], inside: set[str]) -> _Run:
    """The run without the words before it that are capitalised for their place only."""
    first, opens = run.first, run.opens and text.letters[run.first] != "H"
    while first < run.last and opens and _is_common(text, run, first, seen, inside):
        first, opens = first + 1, False
        while first < run.last and text.letters[first] not in "NUtH":
            first += 1
    return _Run(first, run.last, opens, run.heading)


def _is_common(text: Text, run: _Run, place: int, seen: set[str], inside: set[str]) -> bool:
    """Whether a word at a start is no name; Mark is one if a sentence has it inside, or if it does something."""
    word = text.words[place]
    plain = _plain(word)
    if plain in SHED_TITLES or plain in KEPT_TITLES:
        return False
    known = LETTERS.get(plain, "w")
    if known not in "bvjw" or plain in seen:
        return True
    does = run.last - place > 1 and _DOES.match(text.letters, run.last)
    return known != "w" and word not in inside and not (known == "b" and does)


def _key(words: Sequence[str]) -> str:
    return " ".join(words).casefold()


def _accepted(text: Text, run: _Run, sure: Counter[str], words: set[str]) -> Iterator[Name]:
    first, last = run.first, run.last
    while first + 1 < last and _plain(text.words[first]) in SHED_TITLES and text.letters[first + 1] in "NUt":
        first += 1
    titled = first > run.first
    if first + 1 < last and text.words[first] in _FORMS_OF_ADDRESS and text.words[first + 1] in words:
        first += 1  # Old Marley
    parts = text.words[first:last]
    if run.opens and not titled and len(parts) > 1 and parts[0] not in words and sure[_key(parts[1:])]:
        first, parts = first + 1, parts[1:]
    if not parts or _names_nobody(parts) or (run.heading and not sure[_key(parts)]):
        return
    if set(text.letters[first:last]) <= {"U", "m"} and not sure[_key(parts)] and not _is_acronym(parts):
        return
    if len(parts) == 1 and not titled and not _is_name_alone(text, run, first, words):
        return
    yield Name(run.first if titled else first, last, " ".join(parts).replace(" 's", "'s").replace(" ’s", "’s"))


def _plain(word: str) -> str:
    return word.lower().replace("’", "'").rstrip(".")


def _names_nobody(parts: Sequence[str]) -> bool:
    plain = [_plain(part) for part in parts]
    if all(part in NO_NAMES or len(part) < 2 or part.isdigit() for part in plain):
        return not any(part >= "\u3400" for part in plain)
    if plain[0] in NUMBERED and len(parts) < 3:
        return True
    return len(plain[0]) == 1 and LETTERS.get(plain[1], "w") in "xrdspcea"


def _is_acronym(parts: Sequence[str]) -> bool:
    return len(parts) < 3 and all(part.lower() not in LETTERS for part in parts)


def _is_name_alone(text: Text, run: _Run, place: int, words: set[str]) -> bool:
    """Whether one word is a name: not Many, not British before a noun, and at a start only with a reason to be one."""
    word = text.words[place]
    if text.letters[place] == "H":
        return True
    if LETTERS.get(_plain(word), "w") in "xrdspcaemTs":
        return False
    if _DEMONYM.search(word) and text.letters[place + 1 : place + 2] in {"w", "j", "b"}:
        return False
    if not run.opens or word in words or not (word.isupper() or word[1:].islower()):
        return True
    common = _COMMON_ENDING.search(word.lower()) or word.lower() in NO_NAMES or _is_plural(text, place)
    return not common and bool(_SUBJECT.match(text.letters, place + 1))


def _is_plural(text: Text, place: int) -> bool:
    """Whether a word is rather a plural than a name like Moss, Thomas or James."""
    verb = text.words[place + 1] if place + 1 < len(text.words) else ""
    return bool(_PLURAL.search(text.words[place])) or (text.words[place].endswith("s") and verb in _PLURAL_VERBS)
