"""Chinese sentences: names, noun phrases, and the verbs that tie them."""

import re
from collections.abc import Iterator, Sequence

from rag_transformers.phrases.chinese_glue import unglued
from rag_transformers.phrases.chinese_names import NAMED, NameBook
from rag_transformers.phrases.chinese_ties import Word, letter_of, ties
from rag_transformers.phrases.chinese_words import ADDRESSES, BODY_WORDS, COMPANY_WORDS, LATIN_STOP_WORDS, VAGUE_NOUNS
from rag_transformers.phrases.english_words import BRIDGES
from rag_transformers.phrases.lac import Token, tag, unified
from rag_transformers.phrases.lines import blocks
from rag_transformers.phrases.reading import Mention, Sentence, Tie
from rag_transformers.text import HAN

__all__ = ["TOGETHER", "read"]

TOGETHER = "同现"
"""The relation of two names that stand side by side in a Chinese sentence without a clear verb between them."""

_URL = re.compile(r"https?://\S+|www\.\S+")
_LETTERS = r"A-Za-z\u00c0-\u024f\u1e00-\u1eff"
_LATIN_WORD = rf"[{_LETTERS}][{_LETTERS}0-9]*(?:[-.&+'’_/][{_LETTERS}0-9]+)*(?:\+\+|\#)?"
_JOINER = "|".join(sorted({"the", "for", *BRIDGES}))
_LATIN = re.compile(rf"{_LATIN_WORD}(?: (?:(?:{_JOINER}) )*(?=[A-Z0-9]){_LATIN_WORD}| \d+(?:\.\d+)*(?!\w))*")
_LETTER = re.compile(f"[{HAN}A-Za-z\u3040-\u30ff]")
_WHOLE = re.compile(r"(?:公司|集团|银行|大学|学院|医院|协会|委员会|\W)$")
_ROLE = re.compile(r"^[一二两三四五六七八九十几每各某本该]|[人员师长者家手生们]$")


def read(text: str, spans: Sequence[tuple[int, int]]) -> list[Sentence]:
    """The mentions and ties of the Chinese sentences at these spans of a chunk.

    >>> text = "曹操大怒，遂攻徐州。操曰：“取陶谦来！”"
    >>> [mention.name for sentence in read(text, [(0, len(text))]) for mention in sentence.mentions]
    ['曹操', '徐州', '曹操', '陶谦']
    """
    chunk = _Chunk(text, spans)
    return [chunk.sentence(place) for place in range(len(spans))]


class _Chunk:
    """A chunk with its words and names; ``_plain`` is its text in simplified characters, as the word lists are."""

    def __init__(self, text: str, spans: Sequence[tuple[int, int]]) -> None:
        self._text, self._plain, self._spans = text, unified(text), spans
        words = unglued(self._plain, [_tagged(text, *span) for span in spans])
        self._tagged = [_joined(self._plain, tokens) for tokens in words]
        book = NameBook(self._plain, [token for tokens in self._tagged for token in tokens])
        self._found = [list(book.find(tokens)) for tokens in self._tagged]
        self._spelled = {name: text[a:b] for names in self._found for a, b, name in names if len(name) == b - a}
        self._places = book.places

    def sentence(self, place: int) -> Sentence:
        """One sentence; ties between names first, then those with the noun phrases that are left."""
        (start, end), tokens = self._spans[place], self._tagged[place]
        names = [
            Mention(self._text[a:b], a, b, self._spelled.get(name, name), is_name=True)
            for a, b, name in self._found[place]
        ]
        names = _with_latin(self._text, start, end, names)
        stated = ties(self._words(tokens, names))
        phrases = list(self._phrases(tokens, names))
        if not phrases:
            return Sentence(start, end, names, stated, TOGETHER)
        mentions = sorted([*names, *phrases], key=lambda mention: mention.start)
        where = {mention: i for i, mention in enumerate(mentions)}
        moved = [Tie(where[names[tie.source]], tie.relation, where[names[tie.target]]) for tie in stated]
        more = ties(self._words(tokens, mentions))
        more = [tie for tie in more if not (mentions[tie.source].is_name and mentions[tie.target].is_name)]
        return Sentence(start, end, mentions, moved + more, TOGETHER)

    def _words(self, tokens: Sequence[Token], mentions: Sequence[Mention]) -> list[Word]:
        """One letter a word, the mentions among them; what is left of a word beside a mention is a word of its own."""
        words = []
        taken = tokens[0].start if tokens else 0
        left = list(mentions)
        for token in tokens:
            start = max(token.start, taken)
            while left and left[0].start < token.end:
                mention = left.pop(0)
                if start < mention.start:
                    words.append(self._word(start, mention.start, token.tag))
                is_place = self._plain[mention.start : mention.end] in self._places
                words.append(Word("L" if is_place else "M", mention.name))
                start = taken = mention.end
            if start < token.end and not self._text[start : token.end].isspace():
                words.append(self._word(start, token.end, token.tag))
        return words

    def _word(self, start: int, end: int, tag: str) -> Word:
        plain = self._plain[start:end]
        return Word("v" if tag == "PER" else letter_of(tag, plain), self._text[start:end], plain)

    def _phrases(self, tokens: Sequence[Token], names: Sequence[Mention]) -> Iterator[Mention]:
        """Runs of nouns that are long enough to mean something of their own: 图数据库, 知识图谱."""
        run: list[Token] = []
        taken = {i for mention in names for i in range(mention.start, mention.end)}
        for token in [*tokens, None]:
            if token and token.tag in {"n", "nz", "vn", "an"} and not taken.intersection(range(token.start, token.end)):
                run.append(token)
                continue
            if run and _says_something([self._plain[part.start : part.end] for part in run]):
                start, end = run[0].start, run[-1].end
                yield Mention(self._text[start:end], start, end, self._text[start:end], is_name=False)
            run = []


def _tagged(text: str, start: int, end: int) -> list[Token]:
    """The words of a sentence; what parts its rows is a mark."""
    tokens: list[Token] = []
    for left, right in blocks(text, start, end):
        if tokens:
            tokens.append(Token(tokens[-1].end, left, "w"))
        tokens += tag(text, left, right)
    return tokens


def _joined(plain: str, tokens: Sequence[Token]) -> list[Token]:
    """Names of companies and bodies in one piece: 中汇/ORG + 医药/n."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        if last and last.tag in {"ORG", "LOC", "nz"} and token.tag not in NAMED and last.end == token.start:
            words = BODY_WORDS if last.tag == "LOC" else COMPANY_WORDS
            if plain[token.start : token.end] in words and not _WHOLE.search(plain, last.start, last.end):
                joined[-1] = Token(last.start, token.end, "ORG")
                continue
        joined.append(token)
    return joined


def _with_latin(text: str, start: int, end: int, mentions: Sequence[Mention]) -> list[Mention]:
    """Names in Latin letters, which the tagger tags at random, beside or in place of what it found there."""
    hidden = [mark.span() for mark in _URL.finditer(text, start, end)]
    found = []
    for mark in _LATIN.finditer(text, start, end):
        a, b = mark.span()
        word = text[a:b]
        plain = len(word) < 2 or word.lower() in LATIN_STOP_WORDS
        if not plain and not any(left <= a < right for left, right in hidden):
            found.append(Mention(word, a, b, word))
    longest = sorted([*mentions, *found], key=lambda mention: (mention.start - mention.end, mention.start))
    kept: list[Mention] = []
    for mention in longest:
        if _LETTER.search(mention.name) and not any(m.start < mention.end and mention.start < m.end for m in kept):
            kept.append(mention)
    return sorted(kept, key=lambda mention: mention.start)


def _says_something(parts: Sequence[str]) -> bool:
    word = "".join(parts)
    heavy = 3 < len(word) < 11 if len(parts) > 1 else 2 < len(word) < 9
    return heavy and word.isalnum() and not (_ROLE.search(word) or ADDRESSES.union(VAGUE_NOUNS).intersection(parts))
