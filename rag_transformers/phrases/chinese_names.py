"""Names in Chinese: the tagger's, repaired with what the whole chunk shows."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from rag_transformers.phrases.chinese_glue import RANKS, is_old_prose, is_tale
from rag_transformers.phrases.chinese_words import (
    ADDRESSES,
    COMPOUND_SURNAMES,
    FUNCTION_CHARACTERS,
    SPEECH,
    SURNAMES,
    SURNAMES_THAT_ARE_WORDS,
    TROOPS,
)
from rag_transformers.phrases.lac import Token
from rag_transformers.text import HAN

__all__ = ["NAMED", "NameBook", "surname"]

_LONGEST = 40
NAMED = frozenset({"PER", "LOC", "ORG", "nz", "nw"})
_VERBAL = frozenset({"v", "d", "p", "ad", "vd", "c", "xc"})
_DETERMINERS = frozenset("那这各众某该此")
_HAN = re.compile(f"[{HAN}]")
_FUNCTION = re.compile(f"[{FUNCTION_CHARACTERS}]")
_MOODS = "[大忿佯微急暗冷陪]?[怒喜惊笑哭泣叹惧慌]"
_SPOKEN_TAIL = re.compile(rf"(?:{_MOODS}|厉声|大声|低声)*[{SPEECH}]?$")
_TAIL = re.compile(r"(?:[大忿佯微急暗][怒喜惊笑哭泣叹惧慌]|[怒喜惊笑哭泣叹惧慌]而|[毕罢讫])$")
_SAYS = re.compile(rf"[^{SPEECH}]{{0,2}}[{SPEECH}]$")
_COLON = re.compile(r"[：:，,]?\s*[“「『\"‘：:]|[：:]")
_EDGES = re.compile(rf"^[^\w{HAN}]+|[^\w{HAN}]+$")
_OWNED = re.compile(r"(?:及其|旗下|等|(?<![究易务出会诊待])所)$")
_WHERE = re.compile(r"(?<=[洞河江山城县市省州湖海岛路街港园寺庙宫府])[内里中外上下畔旁]$")
_CROWD = re.compile(r"^[一二两三四五六七八九十百众诸群]|[们等]$|(?:左右|之间)$")
_NAMING = re.compile(r"^(?:姓|名|字|号|名叫|字号)(?=..)")


def surname(name: str) -> str:
    """The surname that a name begins with, or nothing.

    >>> surname("诸葛亮"), surname("曹操"), surname("玄德")
    ('诸葛', '曹', '')
    """
    if name[:2] in COMPOUND_SURNAMES and len(name) > 2:
        return name[:2]
    return name[:1] if name[:1] in SURNAMES else ""


class NameBook:
    """The names of one chunk: which strings are names, and which full name a short one stands for.

    The tagger takes verbs into rare names (布大怒, 玄德曰) and cuts others short. What it says of one sentence is
    checked against the whole chunk: a candidate that begins with a commoner one is cut to it, and a name that is
    known from one place is found in the others.

    Args:
        text: The chunk, in the tagger's characters.
        tokens: Its words.
    """

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._seen: Counter[str] = Counter()  # how often a candidate was tagged as a name
        self._tags: dict[str, str] = {}
        self._alone: Counter[str] = Counter()  # how often a single character stood for somebody
        self._others: Counter[str] = Counter()  # how often the same word was tagged as something else
        self._pointed: Counter[str] = Counter()  # how often it came with a determiner
        self._spoke: Counter[str] = Counter()  # how often it said something without one
        self._acted: Counter[str] = Counter()  # how often a noun did something at the head of a clause
        for place in range(len(tokens)):
            self._note(place)
        believed = {name: tag for name, tag in self._candidates().items() if self._believed(name, tag)}
        self.names = {name: tag for name, tag in believed.items() if not self._is_crossed(name, believed)}
        self.full = self._full_names()
        self.places = {name for name, tag in self.names.items() if tag == "LOC"}
        self._known = re.compile("|".join(map(re.escape, sorted(self.names, key=len, reverse=True))) or "(?!)")
        self._begins = {token.start for token in tokens}
        self._ends = {token.end for token in tokens}

    def find(self, tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
        """The (start, end, name) of each mention in one sentence; a single character's name is the full one."""
        if not tokens:
            return
        taken = tokens[0].start
        for start, end in self._full_mentions(tokens):
            yield from self._short_mentions(tokens, taken, start)
            yield start, end, self._text[start:end]
            taken = end
        yield from self._short_mentions(tokens, taken, tokens[-1].end)

    def _full_mentions(self, tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
        """Every known name that shares a border with a word: 王方 is not in 大王 + 方才."""
        for found in self._known.finditer(self._text, tokens[0].start, tokens[-1].end):
            if found.start() in self._begins or found.end() in self._ends:
                yield found.span()

    def _short_mentions(self, tokens: Sequence[Token], start: int, end: int) -> Iterator[tuple[int, int, str]]:
        for place, token in enumerate(tokens):
            if start <= token.start < end:
                full = self.full.get(self._text[token.start])
                if full and self._stands_alone(tokens, place):
                    yield token.start, token.start + 1, full

    def _stands_alone(self, tokens: Sequence[Token], place: int) -> bool:
        """Whether the first character of a word is somebody: tagged so, or at the head of a clause before its verb."""
        token = tokens[place]
        if token.tag == "PER" or (token.tag in NAMED and token.end - token.start < 4):
            return True
        head = place == 0 or tokens[place - 1].tag == "w"
        if token.end - token.start > 1:
            return head and self._says(token)
        return head and place + 1 < len(tokens) and tokens[place + 1].tag in _VERBAL | {"a"}

    def _says(self, token: Token) -> bool:
        """Whether a word is one character and its verb of speech: 操笑, 操曰."""
        word = self._text[token.start : token.end]
        return bool(_SAYS.match(word, 1)) and len(word) < 4

    def _note(self, place: int) -> None:
        token = self._tokens[place]
        word = self._text[token.start : token.end]
        pointed = place > 0 and self._text[self._tokens[place - 1].start] in _DETERMINERS
        if token.tag in NAMED:
            surface = self._trimmed(token)
            self._alone[surface] += len(surface) == 1 and token.tag == "PER"
            self._seen[surface] += 1
            self._tags.setdefault(surface, token.tag)
            self._pointed[surface] += pointed
        else:
            self._others[word] += 1
            if self._speaks(place, len(word)):
                self._spoke[_SPOKEN_TAIL.sub("", word)] += not pointed
                self._alone[word[0]] += not pointed and (len(word) == 1 or self._says(token))
        if token.tag == "n":
            self._pointed[word] += pointed
            self._acted[word] += not pointed and self._acts(place)

    def _speaks(self, place: int, size: int) -> bool:
        """Whether a word at the head of a clause is followed by a verb of speech and what is said."""
        if place > 0 and self._tokens[place - 1].tag not in {"w", "r"}:
            return False
        after = place + (size == 1 or not self._says(self._tokens[place]))
        for token in self._tokens[after : after + 2]:
            if _COLON.match(self._text, token.end) and self._text[token.end - 1] in SPEECH:
                return True
        return False

    def _acts(self, place: int) -> bool:
        """Whether a word at the head of a clause is followed by a verb."""
        head = place == 0 or self._tokens[place - 1].tag == "w"
        return head and place + 1 < len(self._tokens) and self._tokens[place + 1].tag in {"v", "d"}

    def _trimmed(self, token: Token) -> str:
        """The token without what no name holds, and without the verb of speech before what is said."""
        surface = _NAMING.sub("", _EDGES.sub("", self._text[token.start : token.end]))
        if not _HAN.search(surface):
            return ""
        if token.tag == "PER" and surface[:2] in ADDRESSES and surname(surface[2:]):
            surface = surface[2:]
        if token.tag in {"ORG", "LOC"}:
            return _WHERE.sub("", _OWNED.sub("", surface))
        parts = [part for part in _FUNCTION.split(surface) if part]
        surface = parts[0] if parts else ""
        if token.tag == "PER" and len(surface) > 1:
            tail = (_SPOKEN_TAIL if _COLON.match(self._text, token.end) else _TAIL).search(surface, 1)
            surface = surface[: tail.start()] if tail else surface
        return surface

    def _candidates(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for surface, count in self._seen.items():
            name = self._core(surface)
            if len(name) > 1 and not (self._alone[name[0]] > max(1, count) and self._tags[surface] != "LOC"):
                found.setdefault(name, self._tags.get(name, self._tags[surface]))
        for word, count in self._spoke.items():
            if count > 2 and 1 < len(word) < 4 and self._pointed[word] * 5 < count:
                found.setdefault(word, "PER")
        for word in self._acted:
            if self._is_somebody(word):
                found.setdefault(word, "PER")
        return found

    def _is_somebody(self, word: str) -> bool:
        """Whether a bare noun of a tale is who acts in it: 行者. One that was tagged as a name may act less."""
        if not (self._is_tale and 1 < len(word) < 4) or _CROWD.search(word) or word[-1] in TROOPS:
            return False
        acted = self._acted[word] + (self._tags.get(word) == "PER")
        return acted > 2 and self._pointed[word] * 5 < acted

    def _core(self, surface: str) -> str:
        """The commoner candidate that this one begins or ends with, else itself."""
        tag = self._tags[surface]
        if tag == "nw" or not _HAN.match(surface):
            return surface
        occurs = self._text.count
        for size in range(2, len(surface)):
            head, tail = surface[:size], surface[-size:]
            cuttable = tag == "PER" or size == len(surface) - 1
            if self._tags.get(head) == "PER" and cuttable and occurs(head) > occurs(surface):
                return head
            lone = tag == self._tags.get(tail) == "PER" and not surname(surface[:-size] + "某")
            if lone and occurs(tail) > occurs(surface):
                return tail
        return surface

    def _full_names(self) -> dict[str, str]:
        """For each single character that stands for somebody: the one full name of the chunk that ends in it."""
        owners: defaultdict[str, list[str]] = defaultdict(list)
        for name, tag in self.names.items():
            given = name.removeprefix(surname(name))
            if tag == "PER" and len(given) == 1 != len(name) and given not in RANKS and self._alone[given]:
                owners[given].append(name)
        full = {}
        for given, names in owners.items():
            first, *rest = sorted(names, key=lambda name: -self._seen[name])
            if not rest or self._seen[first] > 2 * self._seen[rest[0]]:
                full[given] = first
        return full

    @cached_property
    def _is_old_prose(self) -> bool:
        """Whether this is old prose."""
        return is_old_prose(self._text)

    @cached_property
    def _is_tale(self) -> bool:
        """Whether somebody is told of."""
        return is_tale(self._text)

    def _is_crossed(self, name: str, others: Mapping[str, str]) -> bool:
        """Whether this rare name is only the border of a verb and a common one: 拉宝 in 拉宝玉, where 宝玉 is known."""
        place = self._text.find(name)
        if self._seen[name] != 1 or place < 0:
            return False
        inside = range(place + 1, place + len(name))
        return any(
            self._text.startswith(other, start) and start + len(other) > place + len(name)
            for other in others
            if self._seen[other] > 1
            for start in inside
        )

    def _believed(self, name: str, tag: str) -> bool:
        seen = self._seen[name]
        if name in ADDRESSES or len(name) > _LONGEST:
            return False
        if self._is_somebody(name):
            return True
        if seen and self._others[name] > seen:
            return False
        if tag == "PER" and not surname(name) and self._pointed[name] * 2 > seen:
            return name in self._spoke and not self._pointed[name]
        if self._is_old_prose and name[-1] in TROOPS and tag != "LOC":
            return False
        if not self._is_old_prose or seen > 1 or "·" in name or name in self._spoke:
            return True
        if tag == "PER":
            return bool(surname(name)) and len(name) < 4 and name[0] not in SURNAMES_THAT_ARE_WORDS
        return tag == "LOC"
