"""A reply in a language of which the parser knows no words -> the same with the words that it knows."""

import re
from functools import lru_cache

from rag_transformers.prompts.words import Words

__all__ = ["in_known_words"]

_BEFORE = r"^(?P<before>[^\w\n()（）]*+(?:\d{1,2}[.)、．]\s?)?[^\w\n()（）]*+)"
_BEHIND = r"(?P<behind>[^\w\n()（）#＃]*+(?=$|[(（]))"


def in_known_words(reply: str, words: Words) -> str:
    r"""A reply in which headings, and words for "none", stand as the parser knows them; lines keep their numbers.

    A heading counts where nothing but decoration, and a record, stands beside it on its line, and a word for "none"
    where it is the whole of a line or of a record.

    Args:
        reply: The reply of a model.
        words: The words of the language in which it was asked.

    >>> words = Words(none=("keine",), entities=("Entitäten",), relationships=("Beziehungen",))
    >>> in_known_words("## Entitäten:\n(Ada#Keine Angabe)\n**Beziehungen:** (keine)", words)
    '## Entities:\n(Ada#Keine Angabe)\n**Relationships:** (none)'
    """
    for pattern, known in _patterns(words.entities, words.relationships, words.none):
        reply = pattern.sub(known, reply)
    return reply


@lru_cache(maxsize=64)
def _patterns(
    entities: tuple[str, ...], relationships: tuple[str, ...], none: tuple[str, ...]
) -> list[tuple[re.Pattern[str], str]]:
    flags = re.MULTILINE | re.IGNORECASE
    found = []
    for said, known in ((entities, "Entities"), (relationships, "Relationships")):
        if said:
            found.append((re.compile(rf"{_BEFORE}(?:{_any(said)}){_BEHIND}", flags), rf"\g<before>{known}\g<behind>"))
    if none:
        found.append((re.compile(rf"{_BEFORE}(?:{_any(none)})[^\w\n()（）]*+$", flags), r"\g<before>none"))
        found.append((re.compile(rf"[(（]\s*+(?:{_any(none)})[\s.。#＃]*+[)）]", flags), "(none)"))
    return found


def _any(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
