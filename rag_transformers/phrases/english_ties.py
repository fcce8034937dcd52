"""Which verbs tie which mentions of English sentences: patterns over one letter a word."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_transformers.phrases.english_words import WEAK_VERBS
from rag_transformers.phrases.reading import Tie

__all__ = ["ties"]

_GROUP = re.compile(r"[MP](?:(?:,|,?c)[de]?[MP])*")
_NOUNS = "[jwmibn]"
_ACT = r"((?:x+a*)+(?:[vbi]a*)?(?:[vbi])?[pTo]{0,2}|[vbi](?:a?T?[vb])?a*[pTo]{0,2})"
_REST = rf'[de]?{_NOUNS}{{0,2}}"?$'
# What a subject does: "founded", "was born in", "has never worked for", "is a member of the"; "who" may come first.
_VERB = re.compile(rf'^(,?)[)("]?(s?)[,"]?a*{_ACT}[de]?({_NOUNS}{{0,3}}[pToy]?){_REST}')
_NOUN = re.compile(rf"^(?:,[de]?|g)()()({_NOUNS}{{1,4}}[op]?)()[de]?,?$")  # , the founder of; 's nephew
_GOES_ON = re.compile(rf"^.*?[,c]()()a*{_ACT}[de]?({_NOUNS}{{0,2}}[pTo]?){_REST}")
_SAID = re.compile(r'"([vb])a?$')
_SAID_TO = re.compile(r"^a?([Tp])[de]?$")
_HEAD = re.compile(r'(?:^|[.|/;"])[acspde]*$')
_WHERE = re.compile(r"[po][de]?")
_BY = re.compile(r"p[de]?$")
_MAX_WORDS = 5
_COPULA = frozenset(["is", "was", "are", "were"])


class _Group(NamedTuple):
    """Mentions that are listed side by side, whether "and" joins them, and where they stand among the items."""

    members: range
    joined: bool
    start: int
    end: int


def ties(letters: str, words: Sequence[str]) -> list[Tie]:
    """The relations stated between the mentions of one sentence, each numbered by its place among them.

    Args:
        letters: One for each item: ``M`` a name, ``P`` a noun phrase, else the letter of a word.
        words: The items' words.

    >>> ties("MxvpM", ["Moss", "was", "born", "in", "Leeds"])
    [Tie(source=0, relation='was born in', target=1)]
    """
    groups = list(_groups(letters))
    found: list[Tie] = []
    topic = None
    for place, source in enumerate(groups[:-1]):
        if topic is None or _HEAD.search(letters[: source.start]):
            topic = source
        target = groups[place + 1]
        found += _between(letters, words, topic, _agent(letters, groups, place), source, target)
    return found


def _groups(letters: str) -> Iterator[_Group]:
    seen = 0
    for found in _GROUP.finditer(letters):
        size = sum(map(found.group().count, "MP"))
        yield _Group(range(seen, seen + size), "c" in found.group(), *found.span())
        seen += size


def _agent(letters: str, groups: Sequence[_Group], place: int) -> _Group:
    """Who does what the group goes on to: itself, or what it says the place of: the mill in Leeds was sold."""
    where = place and _WHERE.fullmatch(letters, groups[place - 1].end, groups[place].start)
    return groups[place - 1] if where else groups[place]


def _between(
    letters: str, words: Sequence[str], topic: _Group, agent: _Group, source: _Group, target: _Group
) -> Iterator[Tie]:
    """What the gap before the target says; the agent is the source, or what the source says the place of."""
    gap = letters[source.end : target.start]
    done_by = _BY.search(letters, 0, topic.start)  # reported by Moss and fixed by Finch: nothing was done to Moss
    for pattern, doer in ((_VERB, agent), (_NOUN, source), (_GOES_ON, topic)):
        if act := pattern.match(gap):
            if pattern is _GOES_ON and done_by:
                return
            if act.group(1) and not act.group(2):
                doer = topic  # Moss, born in Leeds, founded: the comma ends what was said of Leeds
            if relation := _relation(words, source.end, act):
                yield from _pairs(doer, relation, target)
                return
    said, to = _SAID.search(letters[: source.start]), _SAID_TO.match(gap)
    if said and to:
        yield from _pairs(source, f"{words[said.start(1)]} {words[source.end + to.start(1)]}", target)


def _relation(words: Sequence[str], start: int, act: re.Match[str]) -> str:
    """The verb with its particles, and the noun after it where both together are short: is member of."""
    head, tail = (words[start + act.start(group) : start + act.end(group)] for group in (3, 4))
    if len(head) == 1 and not tail and head[0].lower() in WEAK_VERBS - _COPULA:
        return ""
    whole = [*head, *tail] if len(head) + len(tail) <= _MAX_WORDS else head
    return " ".join(whole[:_MAX_WORDS]).lower().replace("’", "'")


def _pairs(source: _Group, relation: str, target: _Group) -> Iterator[Tie]:
    """Each member with each, where "and" joins them and both lists are short; else the nearest two."""
    sources = source.members if source.joined else source.members[-1:]
    targets = target.members if target.joined else target.members[:1]
    if len(sources) * len(targets) > 4:
        sources, targets = sources[-1:], targets[:1]
    for left in sources:
        for right in targets:
            yield Tie(left, relation, right)
