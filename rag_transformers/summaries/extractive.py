"""Texts -> their most central sentences, word for word; no model, nothing invented."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from rag_transformers.borders import character_border, finer_border
from rag_transformers.errors import UsageError, check_count
from rag_transformers.summaries.frequent_names import frequent_names, holds
from rag_transformers.summaries.sentence_ranks import RankedSentences, Sentence
from rag_transformers.text import is_heading, sentence_spans, split_title, unheaded

__all__ = ["central_sentences", "joined", "shortened"]

_EMPTY_LINE = re.compile(r"\n[ \t]*\r?\n")
_BLOCK = 2000
"""Sentences that are ranked together; of a longer text each block sends its best into a last ranking."""
_SPARE = 4
"""The last ranking has sentences for so many times the limit to choose from."""
_LEAST = 8
"""A block sends at least so many sentences."""
_ALIKE = 0.7
"""Sentences of at least this cosine say the same: one of them is enough."""
_MISSES = 50
"""After so many sentences in a row for which there is no room, it is used up."""


def central_sentences(
    texts: Sequence[str], limit: int, count: Callable[[str], int] = len, *, names: Sequence[str] = ()
) -> list[str]:
    """The sentences that say best what texts are about, word for word, in their order.

    Sentences are ranked as in LexRank with continuous weights (Erkan and Radev, 2004; the same idea as TextRank,
    Mihalcea and Tarau, 2004): PageRank over the cosines of their tf-idf vectors. The cosines are never written out,
    for a product of the vectors' matrix with itself needs none of them; so time and memory grow with the words and
    not with the pairs of sentences, and blocks of a long text are ranked one after another. Names come first: each
    gets the best sentence that holds it. What says nearly the same as a better sentence is left out, and so are
    headings where anything else is said; else they stand without their marks.

    Args:
        texts: Texts in reading order, in Chinese, English or both.
        limit: The most that the sentences may come to when they are :func:`joined`, at least 1, in units of ``count``.
        count: Counts them; characters by default.
        names: What the sentences should name, most important first; by default the commonest names of the texts.

    Returns:
        The sentences. There is at least one where any text has more than white space: if none fits, the best one is
        cut, at the least to its first character.

    Raises:
        UsageError: ``texts`` is one str, or ``limit`` is out of its range.

    >>> texts = ["The mill at Leeds burned in 1911.", "Ada rebuilt the mill. It rained.", "The mill at Leeds closed."]
    >>> central_sentences(texts, 60)
    ['The mill at Leeds burned in 1911.', 'The mill at Leeds closed.']
    >>> central_sentences(texts, 60, names=["Ada"])
    ['The mill at Leeds burned in 1911.', 'Ada rebuilt the mill.']
    """
    if isinstance(texts, str):
        raise UsageError("texts is one str; give a list of them")
    check_count("limit", limit)
    named = [name for name in (names or frequent_names(texts)) if name.strip()]
    pool = _candidates(texts, limit, count, named)
    if not pool:
        return []
    ranked = RankedSentences(pool, holds(*named))
    choice = _Choice(ranked, limit, count)
    choice.name_each(named, limit if names else limit // 2)
    choice.take(ranked.order, limit)
    return choice.sentences() or [shortened(pool[ranked.order[0]].text, limit, count)]


def joined(sentences: Iterable[str]) -> str:
    r"""Sentences as one text: no space after a Chinese mark, a semicolon after one without a mark.

    White space inside a sentence is folded to one space.

    >>> joined(["他走了。", "她留下。"]), joined(["Ada left.", "Bob\nstayed."]), joined(["A poet", "Born in Leeds"])
    ('他走了。她留下。', 'Ada left. Bob stayed.', 'A poet; Born in Leeds')
    """
    parts: list[str] = []
    for sentence in sentences:
        folded = " ".join(sentence.split())
        if parts and folded:
            parts.append(_separator(parts[-1]))
        parts += [folded] if folded else []
    return "".join(parts)


def shortened(text: str, limit: int, count: Callable[[str], int] = len) -> str:
    """The longest beginning of a text within a limit that ends well: with a clause, a word, at the least a character.

    It has one character where even that is over the limit.

    >>> shortened("He came, saw, and won.", 14), shortened("新年快乐", 3)
    ('He came, saw,', '新年快')
    """
    text = text.strip()
    if count(text) <= limit:
        return text
    fits, over = 1, len(text)
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if count(text[:middle].rstrip()) <= limit else (fits, middle)
    for end in (finer_border(text, fits // 2, fits)[0], character_border(text, 0, fits)):
        if (cut := text[:end].rstrip()) and count(cut) <= limit:
            return cut
    return text[:fits]


def _separator(before: str) -> str:
    last = before.rstrip("\"'”’」』）)》〉】］]»*_")[-1:] or before[-1]
    if last in "。！？｡；…，、：":
        return ""
    if last in ".!?;:,":
        return " "
    return "；" if "\u2e80" < last < "\ua000" or last >= "\uf900" else "; "


# What is ranked.


def _candidates(texts: Sequence[str], limit: int, count: Callable[[str], int], named: Sequence[str]) -> list[Sentence]:
    """The sentences of short texts; of long ones the best of each block, several times as many as there is room for."""
    blocks = _blocks(texts)
    pool, second = next(blocks, []), next(blocks, [])
    if not second:
        return pool
    length = sum(map(len, texts))
    best: list[Sentence] = []
    for block in itertools.chain([pool, second], blocks):
        room = _SPARE * limit * sum(len(sentence.text) for sentence in block) / length
        best += _best(block, room, count, named)
    return _distinct(best)


def _blocks(texts: Sequence[str]) -> Iterator[list[Sentence]]:
    said = (sentence for text in texts for sentence in _said(text))
    first = next(said, None)
    found = (unheaded(text[start:end]) for text in texts for start, end in sentence_spans(text))
    sentences = itertools.starmap(Sentence, enumerate(found if first is None else itertools.chain([first], said)))
    while block := list(itertools.islice(sentences, _BLOCK)):
        yield _distinct(block)


def _said(text: str) -> Iterator[str]:
    """The sentences of a text but for its headings, and its title: a first line with an empty one behind it."""
    title, body = split_title(text)
    begin = body if title and _EMPTY_LINE.search(text, 0, body) else 0
    spans = sentence_spans(text[begin:])
    return (sentence for start, end in spans if not is_heading(sentence := text[begin + start : begin + end]))


def _distinct(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Each sentence once, where it stands first: what a text repeats is no more central for it."""
    return list({" ".join(sentence.text.split()): sentence for sentence in reversed(list(sentences))}.values())[::-1]


def _best(block: Sequence[Sentence], room: float, count: Callable[[str], int], named: Sequence[str]) -> list[Sentence]:
    """The best sentences of a block, and for each name the best that holds it."""
    ranked = RankedSentences(block, holds(*named))
    best: set[Sentence] = set()
    for number in ranked.order:
        if len(best) >= _LEAST and room <= 0:
            break
        best.add(block[number])
        room -= count(block[number].text)
    for name in named:
        best.update(block[number] for number in itertools.islice(ranked.holding(name), 1))
    return sorted(best)


# What is chosen.


class _Choice:
    """Sentences that are taken one by one, as long as there is room for them and they say something new."""

    def __init__(self, ranked: RankedSentences, limit: int, count: Callable[[str], int]) -> None:
        self._ranked = ranked
        self._limit = limit
        self._count = count
        self._chosen: list[int] = []
        self._used = 0  # with a separator after each
        self._holders: dict[int, list[tuple[int, float]]] = {}

    def name_each(self, names: Sequence[str], limit: int) -> None:
        """Take for each name the best sentence that holds it, unless one that was taken does."""
        for name in names:
            named = holds(name)
            if not any(named(self._ranked.all[number].text) for number in self._chosen):
                self.take(self._ranked.holding(name), limit, most=1)

    def take(self, numbers: Iterable[int], limit: int, most: int | None = None) -> None:
        """Take sentences in this order."""
        taken = misses = 0
        for number in numbers:
            if taken == most or misses == _MISSES:
                return
            cost = self._count(joined([self._ranked.all[number].text])) + self._after(number)
            if self._used + cost - self._after(max(*self._chosen, number, number)) > limit:
                misses += 1
            elif self._is_new(number):
                self._add(number, cost)
                taken, misses = taken + 1, 0

    def sentences(self) -> list[str]:
        """What was taken, in the order of the text; without the last if the whole counts for more than its parts."""
        while self._chosen:
            texts = [self._ranked.all[number].text for number in sorted(self._chosen)]
            if self._count(joined(texts)) <= self._limit:
                return texts
            self._chosen.pop()
        return []

    def _after(self, number: int) -> int:
        return self._count(_separator(self._ranked.all[number].text))

    def _is_new(self, number: int) -> bool:
        cosines: dict[int, float] = {}
        for term, weight in self._ranked.row(number):
            for holder, other in self._holders.get(term, ()):
                cosines[holder] = cosines.get(holder, 0.0) + weight * other
        return max(cosines.values(), default=0.0) < _ALIKE

    def _add(self, number: int, cost: int) -> None:
        self._chosen.append(number)
        self._used += cost
        for term, weight in self._ranked.row(number):
            self._holders.setdefault(term, []).append((number, weight))
