"""Names in Chinese tales that the tagger glued to a verb: 樊稠闻, 卓怒, 谢孙坚."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rag_transformers.phrases.chinese_words import (
    ADDRESSES,
    COMPOUND_SURNAMES,
    GLUED_VERBS,
    LEADING_VERBS,
    OLD_PROSE,
    SPEECH,
    SURNAMES,
    WEAK_GLUED_VERBS,
)
from rag_transformers.phrases.lac import Token, tag

__all__ = ["RANKS", "is_old_prose", "is_tale", "unglued"]

RANKS = frozenset("帝后公妻氏卿侯王妃儿子母父兄弟")
"""Characters that end what somebody is called after a surname, and are no given name."""

_SOMEBODY = ("曹操", "武松")  # names that the tagger knows, whatever surrounds them; both are of one length
_NAMES = frozenset({"PER", "LOC", "ORG", "nz"})
_VERBS = GLUED_VERBS | WEAK_GLUED_VERBS
_VERBAL = frozenset({"v", "d", "p", "ad", "vd", "vn", "a"})
_CLAUSE = re.compile(r"[^，。！？；：“”‘’「」『』\s]+")
_SAID = re.compile(rf"[{SPEECH}]{{0,2}}[：:，]?\s*[“「『\"‘]")
_MOOD = re.compile("[大忿佯][怒喜惊笑叫骂哭]")
_TALE = re.compile(r"[曰道][：:，]?\s*[“「『\"]")


def is_old_prose(text: str) -> bool:
    """Whether a text has the particles of old prose in numbers.

    >>> is_old_prose("操曰：“善。”乃去，遂不还。吾知之矣。"), is_old_prose("他说他明天再来。")
    (True, False)
    """
    marks = sum(map(text.count, OLD_PROSE))
    return marks > 2 and marks * 200 > len(text)


def is_tale(text: str) -> bool:
    """Whether a text is old prose, or tells in the old way who speaks.

    >>> is_tale("行者道：“我去。”"), is_tale("公司表示：“不予置评。”")
    (True, False)
    """
    return is_old_prose(text) or bool(_TALE.search(text))


def unglued(text: str, sentences: Sequence[Sequence[Token]]) -> list[list[Token]]:
    """The words of a chunk with verbs parted from the names they were tagged into; only tales are changed.

    Where a name may end is proposed by lists of verbs and by the other names of the chunk. The tagger then decides:
    it reads the clause again with a well-known name in place of the rare one.

    Args:
        text: The chunk, in the tagger's characters.
        sentences: The words of each of its sentences.

    >>> from rag_transformers.phrases.lac import tag
    >>> text = "武松笑道：“酒来。”"
    >>> [text[a:b] for a, b, _ in unglued(text, [tag(text, 0, len(text))])[0]][:2]
    ['武松', '笑']
    """
    if not is_tale(text):
        return [list(tokens) for tokens in sentences]
    glue = _Glue(text, [token for tokens in sentences for token in tokens])
    return [[part for place in range(len(tokens)) for part in glue.parts(tokens, place)] for tokens in sentences]


class _Glue:
    """What one chunk shows about which of its words are a name and a verb."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._seen = Counter(text[token.start : token.end] for token in tokens if token.tag == "PER")
        self._given = {name[-1] for name in self._seen if len(_family(name)) == len(name) - 1 > 0} - RANKS

    def parts(self, tokens: Sequence[Token], place: int) -> Iterator[Token]:
        """The word, or what it is made of."""
        token = tokens[place]
        word = self._text[token.start : token.end]
        if token.tag not in _NAMES | {"n"} or len(word) < 2:
            yield token
        elif token.tag != "PER" and self._speaks(token, word):
            yield from _split(token, len(word) - 1, self._kind(word[:-1], "n"), "v")
        elif token.tag == "n":
            yield token
        elif self._leads(token, word):
            yield from _split(token, 1, "v", "PER" if token.tag == "LOC" else token.tag)
        elif self._is_naming(token, word):
            yield from _split(token, word.index("名") + 1, "v", "PER")
        elif token.tag == "PER" and (size := self._size(tokens, place, word)):
            yield from _split(token, size, self._kind(word[:size], "PER" if size > 1 else "n"), "v")
        elif token.tag == "PER" and not _family(word) and word[-1] in GLUED_VERBS and self._text.count(word) == 1:
            yield token._replace(tag="v")
        else:
            yield token

    def _kind(self, head: str, otherwise: str) -> str:
        return "PER" if head in self._given else otherwise

    def _speaks(self, token: Token, word: str) -> bool:
        """酒家道, 辽曰: the last character says what follows."""
        return word[-1] == "曰" or (word[-1] in SPEECH and bool(_SAID.match(self._text, token.end)))

    def _is_naming(self, token: Token, word: str) -> bool:
        """姓关名羽, 名云: how somebody is called, where the word is not a name that comes again."""
        before = self._text[max(0, token.start - 1) : token.start]
        if "名" not in word[:2] or len(word) not in {2, 3} or word[-1] == "名" or self._seen[word] > 1:
            return False
        return word[1] == "名" or not before or before in "，姓、；“「"

    def _size(self, tokens: Sequence[Token], place: int, word: str) -> int:
        """How many characters of the word are the name; 0 where all of it is."""
        token = tokens[place]
        short = word[0] in self._given and self._text.count(word[0]) > 4 * self._text.count(word)
        if self._seen[word] > 1 and not short and not any(self._seen[word[:size]] for size in range(2, len(word))):
            return 0
        sizes = [1] if self._is_paired(tokens, place) else []
        for size in [*sizes, *self._sizes(word)]:
            sure = size > 1 and self._seen[word[:size]] and _family(word) and word[size] in _VERBS
            if sure or (sizes and size == 1 and word[1] in _VERBS) or self._reads_on(token, size):
                return size
        return 0

    def _sizes(self, word: str) -> Iterator[int]:
        """Where the name may end, the likeliest first."""
        family = _family(word)
        short = word[0] in self._given and word[1] in _VERBS
        if short or (len(family) == 1 and (word[1] in GLUED_VERBS or _MOOD.match(word, 1))):
            yield 1
        for size in range(2, len(word)):
            head = word[:size]
            commoner = self._text.count(head) > self._text.count(word)
            acts = word[size] in _VERBS or len(word) - size > 1
            whole = family and size == len(family) + 1
            known = self._seen[head] or not family
            if (commoner and acts and known) or (whole and (commoner or acts)):
                yield size

    def _is_paired(self, tokens: Sequence[Token], place: int) -> bool:
        """Whether two surnames stand for two people: 关、张."""
        start = tokens[place].start
        if place < 2 or self._text[start - 1] != "、" or self._text[start] not in SURNAMES:
            return False
        before = tokens[place - 2]
        return self._text[start - 2] in SURNAMES and (before.tag != "PER" or before.end - before.start == 1)

    def _reads_on(self, token: Token, size: int) -> bool:
        """Whether the tagger, with somebody well known for the name, sees a word that acts begin after it."""
        cut = token.start + size
        left, right = self._clause(token)
        border = token.start - left + len(_SOMEBODY[0])
        if self._text[cut : token.end] in ADDRESSES:
            return False
        words = list(_probes(self._text[left : token.start], self._text[cut:right]))
        votes = sum(word.start == border and word.tag in _VERBAL for word in words)
        return votes == len(_SOMEBODY) or (votes > 0 and self._text[cut] in _VERBS)

    def _leads(self, token: Token, word: str) -> bool:
        """Whether the word is a verb and the name of whom it is done to: 谢孙坚."""
        rest = word[1:]
        if len(rest) < 2 or word[0] not in LEADING_VERBS or self._seen[word] > 1:
            return False
        if self._seen[rest]:
            return True
        if word[0] in SURNAMES or token.tag == "LOC":
            return False
        left, right = self._clause(token)
        border = token.start + 1 - left
        somebody = Token(border, border + len(_SOMEBODY[0]), "PER")
        return somebody in _probes(self._text[left : token.start + 1], self._text[token.end : right])

    def _clause(self, token: Token) -> tuple[int, int]:
        left = token.start
        while left > 0 and token.start - left < 30 and _CLAUSE.match(self._text[left - 1]):
            left -= 1
        found = _CLAUSE.match(self._text, token.end, token.end + 30)
        return left, found.end() if found else token.end


def _probes(before: str, after: str) -> Iterator[Token]:
    for name in _SOMEBODY:
        clause = before + name + after
        yield from tag(clause, 0, len(clause))


def _split(token: Token, size: int, head: str, tail: str) -> tuple[Token, Token]:
    cut = token.start + size
    return Token(token.start, cut, head), Token(cut, token.end, tail)


def _family(name: str) -> str:
    if name[:2] in COMPOUND_SURNAMES:
        return name[:2]
    return name[:1] if name[:1] in SURNAMES else ""
