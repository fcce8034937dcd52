"""English sentences by rules: names by their capitals, noun phrases, and the verbs that tie them."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from rag_transformers.phrases.english_names import Name, find_names
from rag_transformers.phrases.english_ties import ties
from rag_transformers.phrases.english_tokens import Text, letter, tokenise
from rag_transformers.phrases.english_words import VAGUE_ADJECTIVES, VAGUE_NOUNS
from rag_transformers.phrases.reading import Mention, Sentence

__all__ = ["TOGETHER", "read"]

TOGETHER = "co-occurs with"
"""The relation of two names that stand side by side in an English sentence without a clear verb between them."""

_PHRASE = re.compile(r"(?<![jwMmiga])[jwi]{1,3}w(?![wjMi])")
_CAPITAL = re.compile("[NUt]")


def read(text: str, spans: Sequence[tuple[int, int]]) -> list[Sentence]:
    """The mentions and ties of the English sentences at these spans of a chunk.

    >>> text = "Ada Moss, who was born in Leeds, founded the Grain Trust."
    >>> (sentence,) = read(text, [(0, len(text))])
    >>> [(sentence.mentions[a].name, relation, sentence.mentions[b].name) for a, relation, b in sentence.ties]
    [('Ada Moss', 'was born in', 'Leeds'), ('Ada Moss', 'founded', 'Grain Trust')]
    """
    items = _Items(text, tokenise(text))
    return [items.sentence(start, end) for start, end in spans]


class _Items:
    """The tokens of a chunk with each name as one item ``M`` and each noun phrase as one item ``P``."""

    def __init__(self, text: str, tokens: Text) -> None:
        names = find_names(tokens)
        letters = _without_names(tokens, names)
        parts = [(name.first, name.last, name.name, "M") for name in names]
        parts += [(*span, "", "P") for span in _phrases(tokens, letters)]
        self._words: list[str] = []
        self._starts: list[int] = []
        self._mentions: list[Mention] = []
        kept: list[str] = []
        place = 0
        for first, last, name, kind in sorted(parts):
            self._keep(tokens, place, first)
            start, end = tokens.starts[first], tokens.starts[last - 1] + len(tokens.words[last - 1])
            name = name or " ".join(tokens.words[first:last])
            self._mentions.append(Mention(text[start:end], start, end, name, kind == "M"))
            self._words.append(name)
            self._starts.append(start)
            kept += [letters[place:first], kind]
            place = last
        self._keep(tokens, place, len(letters))
        self._letters = "".join([*kept, letters[place:]])
        self._mention_starts = [mention.start for mention in self._mentions]

    def _keep(self, tokens: Text, first: int, last: int) -> None:
        self._words += tokens.words[first:last]
        self._starts += tokens.starts[first:last]

    def sentence(self, start: int, end: int) -> Sentence:
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        low, high = bisect_left(self._mention_starts, start), bisect_left(self._mention_starts, end)
        mentions = self._mentions[low:high]
        found = ties(self._letters[first:last], self._words[first:last]) if len(mentions) > 1 else []
        return Sentence(start, end, mentions, found, TOGETHER)


def _phrases(tokens: Text, letters: str) -> Iterator[tuple[int, int]]:
    """Where noun phrases of two words or more stand, without the vague adjectives before them."""
    for found in _PHRASE.finditer(letters):
        first, last = found.span()
        while first < last and tokens.words[first].lower() in VAGUE_ADJECTIVES:
            first += 1
        if last - first > 1 and tokens.words[last - 1].lower() not in VAGUE_NOUNS:
            yield first, last


def _without_names(tokens: Text, names: Sequence[Name]) -> str:
    """The letters with names as ``M``; other capitalised words are the words that they would be in lower case."""
    pieces, place = [], 0
    for name in names:
        pieces += [_plain(tokens, place, name.first), "M" * (name.last - name.first)]
        place = name.last
    return "".join([*pieces, _plain(tokens, place, len(tokens.letters))])


def _plain(tokens: Text, first: int, last: int) -> str:
    letters = tokens.letters[first:last]
    for capital in _CAPITAL.finditer(letters):
        place = capital.start()
        letters = f"{letters[:place]}{letter(tokens.words[first + place].lower())}{letters[place + 1 :]}"
    return letters
