"""Which verbs tie which mentions of a Chinese sentence: patterns over one letter a word."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_transformers.phrases.chinese_words import VAGUE_VERBS
from rag_transformers.phrases.reading import Tie

__all__ = ["Word", "letter_of", "ties"]

_LETTERS = {"v": "v", "d": "d", "ad": "d", "vd": "d", "a": "a", "u": "u", "xc": "u", "p": "p", "c": "c", "r": "r"}
_LETTERS |= {"m": "m", "q": "m", "TIME": "m", "f": "f", "s": "f", "w": "."}
_OWN = {**dict.fromkeys("被遭由受", "b"), **dict.fromkeys("把将", "z"), **dict.fromkeys("与和同跟及", "&"), "以及": "&"}
_OWN |= {"的": "e", "之": "e", "、": "&", "，": ",", ",": ",", **dict.fromkeys("“”‘’「」『』《》\"'", '"')}

_GROUP = re.compile(r'[ML](?:"?&"?[ML])*')
_VERB = re.compile(r'^"?[dmfaur]*(?:v[vdumafrn]{0,7}?)??(v+)(?:[udmafrn"]{0,7}|[vdumafrn"]{0,7}e)$')
_BEFORE_VERB = re.compile(r'^"?[dmf]*([bzp&])[r]?"?$')
_AFTER = re.compile(r'^"?[dmuafr]*(v+)')
_WHAT = re.compile(r"^(?:e?)([an]*n)(?![nMLe])")
_NEW_CLAUSE = re.compile(r'^.*[,]"?[dmcpfr]*?(v+)[vdumafrne"]{0,5}$')
_HEAD = re.compile(r'(?:^|[,.])"?[dmcfrp]*"?$')
_BEING = frozenset(["是", "为", "為", "系", "係", "乃", "任", "担任", "擔任"])
_MAX_VERB = 6


class Word(NamedTuple):
    """A word of a sentence.

    Args:
        letter: What it is: ``M`` a mention, ``L`` one of a place, ``v`` a verb, ``n`` a noun …
        text: The word as written.
        simplified: The word in simplified characters, where it may differ.
    """

    letter: str
    text: str
    simplified: str = ""

    @property
    def plain(self) -> str:
        """What lists of words know it by."""
        return self.simplified or self.text


class _Group(NamedTuple):
    """Mentions that are listed side by side (刘备、关羽和张飞), and where they stand among the words."""

    members: range
    start: int
    end: int


def letter_of(tag: str, text: str) -> str:
    """The letter of a word that is no mention.

    >>> letter_of("v", "收购"), letter_of("p", "被"), letter_of("w", "，")
    ('v', 'b', ',')
    """
    if tag in {"p", "c", "w", "u", "v"} and text in _OWN:
        return _OWN[text]
    return _LETTERS.get(tag, "n")


def ties(words: Sequence[Word]) -> list[Tie]:
    """The relations that a sentence states between its mentions, each numbered by its place among the mentions.

    >>> ties([Word("M", "曹操"), Word("d", "大"), Word("v", "破"), Word("M", "吕布")])
    [Tie(source=0, relation='破', target=1)]
    """
    letters = "".join(word.letter for word in words)
    groups = list(_groups(letters))
    gaps = [letters[a.end : b.start] for a, b in pairwise(groups)]
    gaps += [letters[groups[-1].end :]] if groups else []
    found: list[Tie] = []
    topic = None
    for place, group in enumerate(groups):
        if topic is None or _HEAD.search(letters[: group.start]):
            topic = group
        found += _joint(words, group, gaps[place], groups[place + 1 :])
        if place + 1 < len(groups):
            found += _between(words, topic, group, gaps[place], groups[place + 1], gaps[place + 1])
    return found


def _groups(letters: str) -> Iterator[_Group]:
    seen = 0
    for found in _GROUP.finditer(letters):
        size = sum(map(found.group().count, "ML"))
        yield _Group(range(seen, seen + size), *found.span())
        seen += size


def _joint(words: Sequence[Word], group: _Group, after: str, following: Sequence[_Group]) -> Iterator[Tie]:
    """关羽与张飞交战: what two do with each other, where nobody else follows in the clause."""
    if len(group.members) != 2 or words[group.start + 1].plain not in {"与", "和", "同", "跟"}:
        return
    act = _AFTER.match(after)
    if act and (not following or "," in after or "." in after):
        relation = _relation(words, group.end + act.start(1), group.end + act.end(1))
        if relation not in VAGUE_VERBS:
            yield Tie(group.members[0], relation, group.members[1])


def _between(
    words: Sequence[Word], topic: _Group, source: _Group, gap: str, target: _Group, rest: str
) -> Iterator[Tie]:
    """What one group does to the next: a verb stands between, or after both, or in a clause that goes on about one."""
    if act := _VERB.match(gap):
        relation = _relation(words, source.end + act.start(1), source.end + act.end(1))
        agent = topic if _is_place(words, source) else source
        yield from _pairs(agent, _described(words, relation, target, rest), target)
    elif way := _BEFORE_VERB.match(gap):
        act = _AFTER.match(rest)
        if act:
            relation = _relation(words, target.end + act.start(1), target.end + act.end(1))
            by = words[source.end + way.start(1)].text
            if way.group(1) == "b":
                yield from _pairs(target, relation, source)
            else:
                yield from _pairs(source, f"{by}…{relation}" if way.group(1) == "p" else relation, target)
    elif act := _NEW_CLAUSE.match(gap):
        relation = _relation(words, source.end + act.start(1), source.end + act.end(1))
        if relation not in VAGUE_VERBS:
            yield from _pairs(topic, relation, target)


def _is_place(words: Sequence[Word], group: _Group) -> bool:
    """Whether a group says where something is done, not who does it."""
    after_preposition = group.start > 0 and words[group.start - 1].letter == "p"
    return after_preposition or all(word.letter != "M" for word in words[group.start : group.end])


def _pairs(source: _Group, relation: str, target: _Group) -> Iterator[Tie]:
    """Each member with each, where one side is a single one or both are short; else the nearest two."""
    if len(source.members) * len(target.members) > 4:
        yield Tie(source.members[-1], relation, target.members[0])
        return
    for left in source.members:
        for right in target.members:
            yield Tie(left, relation, right)


def _relation(words: Sequence[Word], start: int, end: int) -> str:
    """The verb: of a run the part that says most, without the weak verbs before it."""
    run = list(words[start:end])
    while len(run) > 1 and run[0].plain in VAGUE_VERBS:
        run.pop(0)
    joined = "".join(word.text for word in run)
    return joined if len(joined) <= _MAX_VERB else run[0].text


def _described(words: Sequence[Word], relation: str, target: _Group, rest: str) -> str:
    """马丁是阿尔法公司的创始人: 是…创始人."""
    what = _WHAT.match(rest) if relation in _BEING else None
    if not what:
        return relation
    return f"{relation}…{''.join(word.text for word in words[target.end + what.start(1) : target.end + what.end(1)])}"
