"""The names that a text speaks of most, found in one quick pass; hints for what to keep, not an extraction."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from rag_transformers.text import HAN, language_of

__all__ = ["frequent_names", "holds"]

_SAMPLE = 4000
"""Characters of a text that tell its language."""
_LEAST = 3
"""A name stands at least so often in the texts."""

# Where a capital does not begin a sentence it begins a name. Forms of address and months are told from names by a list.
_CAPITALISED = re.compile(r"(?<=[a-z,;] )[A-Z\u00c0-\u00de][a-z\u00df-\u024f]+(?:[-'’][A-Z][a-z]+)*")
_NO_NAME = re.compile(
    "And|But|Chapter|Dr|English|French|God|Good|He|Her|His|How|If|In|It|Lady|Lord|Madam|Miss|Mr|Mrs|My|No|Not|Oh|Old|Our"
    "|She|Sir|So|That|The|There|They|This|Well|What|When|Where|Which|Who|Why|Yes|You|Your|January|February|March|April"
    "|May|June|July|August|September|October|November|December|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
)
_LETTER = re.compile(rf"[^\W{HAN}]")  # of a script that has spaces between words


def frequent_names(texts: Sequence[str], most: int = 12) -> list[str]:
    """The commonest names, the commonest first: capitalised words, and Chinese ones by their surnames.

    Args:
        texts: Any.
        most: How many to give at the most.

    >>> frequent_names(["So Ada left. Then Ada wrote, and Ada came.", "林晚说，林晚走了，后来林晚又来了。"])
    ['Ada', '林晚']
    """
    found: Counter[str] = Counter()
    for text in texts:
        if language_of(text[:_SAMPLE]) in ("zh", "ja"):
            _count_chinese(text, found)
        else:
            words = (match.group() for match in _CAPITALISED.finditer(text))
            found.update(word for word in words if not _NO_NAME.fullmatch(word))
    best = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:most]
    return [name for name, times in best if times >= _LEAST]


def holds(*names: str) -> Callable[[str], bool]:
    """A test whether a sentence holds one of the names: as a whole word, in any case; in Chinese anywhere.

    >>> named = holds("ADA", "林晚")
    >>> named("So Ada left."), named("Adamant."), named("后来林晚来了。")
    (True, False, True)
    """
    pattern = re.compile("|".join(_pattern(name) for name in names if name.strip()) or "(?!)", re.IGNORECASE)
    return lambda sentence: pattern.search(sentence) is not None


def _pattern(name: str) -> str:
    words = name.split()
    start = r"(?<!\w)" if _LETTER.match(words[0]) else ""
    end = r"(?!\w)" if _LETTER.match(words[-1][-1]) else ""
    return start + r"\s+".join(map(re.escape, words)) + end


def _count_chinese(text: str, found: Counter[str]) -> None:
    """Count what begins with a surname; a third character belongs to a name that it follows half of the time."""
    pattern, functions = _chinese()
    pairs: Counter[str] = Counter()
    triples: Counter[str] = Counter()
    for match in pattern.finditer(text):
        after = match.group(1)
        if after[0] not in functions:
            pairs[match.group() + after[0]] += 1
            if len(after) > 1 and after[1] not in functions:
                triples[match.group() + after] += 1
    for name, times in triples.items():
        if times >= _LEAST and 2 * times >= (shorter := pairs[name[:-1]]):
            found[name] += shorter
            del pairs[name[:-1]]
    found.update(pairs)


@cache
def _chinese() -> tuple[re.Pattern[str], frozenset[str]]:
    from rag_transformers.phrases.chinese_words import (
        COMPOUND_SURNAMES,
        FUNCTION_CHARACTERS,
        SURNAMES,
        SURNAMES_THAT_ARE_WORDS,
    )

    plain = "".join(sorted(SURNAMES - SURNAMES_THAT_ARE_WORDS))
    surnames = f"(?:{'|'.join(sorted(COMPOUND_SURNAMES))}|[{plain}])"
    return re.compile(f"{surnames}(?=([{HAN}]{{1,2}}))"), frozenset(FUNCTION_CHARACTERS) | frozenset("的了是在说道")
