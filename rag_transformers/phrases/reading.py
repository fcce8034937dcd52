"""What both languages share: mentions, sentences, and how sentences become an extraction. Pure functions."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import NamedTuple

from rag_transformers.graph import Extraction, name_key, shorten_name
from rag_transformers.text import HAN

__all__ = ["Mention", "Sentence", "Tie", "extraction_of"]

_MAX_SUMMARY = 300
_FEW = 3
_CJK = rf"{HAN}\u3000-\u303f\uff00-\uffef“”‘’"
_BROKEN_LINE = re.compile(rf"(?<=[{_CJK}])\s+(?=[{_CJK}])")
_CLAUSE_END = re.compile(r"[，、；：。！？…]|[,;:.!?](?=\s)|\s[-–—]+\s|——|--")


class Mention(NamedTuple):
    """A name or noun phrase where it stands in a text.

    Args:
        surface: The words as written: ``text[start:end]``.
        start: Where it begins, in characters.
        end: Where it ends.
        name: What it is called in the graph: without a title, and for a short Chinese name the full one.
        is_name: Whether it is a name; a noun phrase is not.
    """

    surface: str
    start: int
    end: int
    name: str
    is_name: bool = True


class Tie(NamedTuple):
    """A relation that a sentence states between two of its mentions, given by their places in ``Sentence.mentions``."""

    source: int
    relation: str
    target: int


class Sentence(NamedTuple):
    """What was read in one sentence.

    Args:
        start: Where it begins in the text.
        end: Where it ends.
        mentions: In reading order, none overlapping another.
        ties: The relations that it states.
        together: The relation of two names that stand in it side by side, with no clear verb between them.
    """

    start: int
    end: int
    mentions: Sequence[Mention]
    ties: Sequence[Tie]
    together: str


def extraction_of(text: str, sentences: Iterable[Sentence]) -> Extraction:
    """Entities with the sentence that names them, relations with the sentence that states them.

    A noun phrase becomes an entity where a relation holds it or where it is said twice. Names that no verb
    ties are tied as neighbours: a list of n names gives n - 1 edges, not n(n - 1) / 2.

    >>> ada, finch = Mention("Ada", 0, 3, "Ada"), Mention("Finch", 8, 13, "Finch")
    >>> extraction_of("Ada met Finch.", [Sentence(0, 14, [ada, finch], [Tie(0, "met", 1)], "with")]).relationships
    (('Ada', 'met', 'Finch', 'Ada met Finch.'),)
    """
    read = [_Keyed(sentence, [_key(mention.name) for mention in sentence.mentions]) for sentence in sentences]
    names = _shown_names(read)
    said = Counter(key for keyed in read for key in keyed.keys)
    summary = _Summaries(text)
    entities: dict[str, tuple[str, str]] = {}
    relationships: dict[tuple[str, str, str], tuple[str, str, str, str]] = {}
    for sentence, keys in read:
        tied = {place for tie in sentence.ties for place in (tie.source, tie.target)}
        for place, (key, mention) in enumerate(zip(keys, sentence.mentions, strict=True)):
            if key not in entities and (mention.is_name or place in tied or said[key] > 1):
                entities[key] = names[key], summary(sentence, mention.start, mention.end)
    for source, relation, target, sentence, span in _related(read):
        edge = source, _key(relation), target
        if edge not in relationships:
            relationships[edge] = names[source], relation, names[target], summary(sentence, *span)
    return Extraction(tuple(entities.values()), tuple(relationships.values()))


class _Keyed(NamedTuple):
    """A sentence with the keys of its mentions."""

    sentence: Sentence
    keys: list[str]


_key = lru_cache(maxsize=1 << 14)(name_key)


def _shown_names(read: Sequence[_Keyed]) -> dict[str, str]:
    """The commonest spelling of each key; of equally common ones the first."""
    spellings = Counter(mention.name for keyed in read for mention in keyed.sentence.mentions)
    shown: dict[str, str] = {}
    for spelling, _ in spellings.most_common():
        shown.setdefault(_key(spelling), shorten_name(spelling))
    return shown


def _related(read: Sequence[_Keyed]) -> Iterator[tuple[str, str, str, Sentence, tuple[int, int]]]:
    """Stated relations in reading order, then neighbours that nothing else ties; each pair of keys once."""
    tied = set()
    for sentence, keys in read:
        for tie in sentence.ties:
            ends = keys[tie.source], keys[tie.target]
            if ends[0] != ends[1]:
                tied.add(frozenset(ends))
                yield ends[0], tie.relation, ends[1], sentence, _span(sentence, tie.source, tie.target)
    for sentence, keys in read:
        for left, right in _neighbours(sentence.mentions, keys):
            low, high = sorted((keys[left], keys[right]))
            if low != high and frozenset((low, high)) not in tied:
                tied.add(frozenset((low, high)))
                yield low, sentence.together, high, sentence, _span(sentence, left, right)


def _neighbours(mentions: Sequence[Mention], keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Each name with the next; where a sentence names few, each with each, so that a list grows no dense cluster."""
    named = [place for place, mention in enumerate(mentions) if mention.is_name]
    few = len({keys[place] for place in named}) <= _FEW
    return combinations(named, 2) if few else pairwise(named)


def _span(sentence: Sentence, one: int, other: int) -> tuple[int, int]:
    first, last = sentence.mentions[min(one, other)], sentence.mentions[max(one, other)]
    return first.start, last.end


class _Summaries:
    """Sentences on one line each; of a long one the clauses round what is summarised."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded: dict[tuple[int, int], str] = {}

    def __call__(self, sentence: Sentence, start: int, end: int) -> str:
        span = sentence.start, sentence.end
        if span[1] - span[0] > _MAX_SUMMARY:
            span = _clauses(self._text, sentence, start, end)
        if span not in self._folded:
            self._folded[span] = " ".join(_BROKEN_LINE.sub("", self._text[span[0] : span[1]]).split())
        return self._folded[span]


def _clauses(text: str, sentence: Sentence, start: int, end: int) -> tuple[int, int]:
    borders = [mark.end() for mark in _CLAUSE_END.finditer(text, sentence.start, sentence.end)]
    end = min(end, start + _MAX_SUMMARY)
    left = max((b for b in borders if b <= start), default=sentence.start)
    left = left if end - left <= _MAX_SUMMARY else start
    room = left + _MAX_SUMMARY
    right = max((b for b in borders if end <= b <= room), default=min(room, sentence.end))
    earlier = [b for b in [sentence.start, *borders] if b < left and right - b <= _MAX_SUMMARY]
    return (earlier[0] if earlier else left), right
