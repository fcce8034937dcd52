"""Document -> chunks: sized in tokens, cut at paragraphs and sentences of both languages, each with its exact span."""

import functools
import hashlib
import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.borders import Rank, borders, character_border, finer_border, first_border, next_visible
from rag_transformers.errors import UsageError, check_count
from rag_transformers.tokens import TokenCounter, counter_name, token_counter

__all__ = ["Chunker", "source_of"]


class Chunker(Runnable[Document | str, list[Document]]):
    r"""Cuts a document into chunks of at most ``chunk_size`` tokens.

    A chunk ends at a paragraph's end if that leaves it well filled, else at a sentence's, a clause's or a word's end,
    in Chinese and English; a heading stays with what follows it. White space stays with the text before it, an
    indentation with its line, so that the chunks of ``chunk_overlap=0`` joined are the text again; none is blank. The
    limit holds by the counter that was given, and has two exceptions: a chunk has at least one character, and white
    space that no neighbour has room for stays with one all the same.

    A chunk is a Document with the metadata of its document and ``source``, ``chunk`` (its number, from 0), ``start``
    and ``end`` (characters: ``text[start:end]`` is the chunk). A document without ``metadata["source"]``, or a bare
    text, is called by the hash of its text. ``id`` is a hash of the source, the chunk's text, and how often that text
    stood before in the document: an edit elsewhere does not change it.

    Args:
        chunk_size: Tokens of a chunk, at least 1.
        chunk_overlap: Tokens at most of a chunk's end that the next one starts with, at least 0, below ``chunk_size``;
            cut at a sentence or word, so that it is mostly less.
        counter: Counts tokens; ``token_counter()`` by default. Give the one that the limits of the run go by.

    Raises:
        UsageError: A size or an overlap out of its range.

    >>> chunker = Chunker(chunk_size=5, chunk_overlap=0, counter=lambda text: len(text.split()))
    >>> document = Document("Ada left.\n\nBob stayed. He wrote to her.", metadata={"source": "a.txt"})
    >>> for chunk in chunker.invoke(document):
    ...     print(chunk.metadata["start"], chunk.metadata["end"], repr(chunk.page_content))
    0 23 'Ada left.\n\nBob stayed. '
    23 39 'He wrote to her.'
    """

    def __init__(self, chunk_size: int = 1024, chunk_overlap: int = 20, counter: TokenCounter | None = None) -> None:
        check_count("chunk_size", chunk_size)
        check_count("chunk_overlap", chunk_overlap, 0)
        if chunk_overlap >= chunk_size:
            raise UsageError(f"chunk_overlap is {chunk_overlap}; it must be below chunk_size, which is {chunk_size}")
        if counter is not None and not callable(counter):
            raise UsageError(f"counter is {counter!r}; give a function from a text to its number of tokens")
        self.chunk_size = chunk_size
        self.chunk_overlap = chunk_overlap
        self._given = counter

    @functools.cached_property
    def counter(self) -> TokenCounter:
        """The counter; the default one is looked for at its first use."""
        return self._given or token_counter()

    @property
    def cache_key(self) -> str:
        """What its chunks depend on, beside the text.

        The default counter goes by the name ``default``, whatever it finds on the machine: a folder that is taken
        to a machine with other tokenizer tables is not to be indexed anew.
        """
        name = counter_name(self._given) if self._given else "default"
        return f"{self.chunk_size} {self.chunk_overlap} {name}"

    def invoke(self, input: Document | str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """The chunks of one document, in order; none for a blank one."""
        return self._call_with_config(self.split, input, config)

    def split(self, document: Document | str) -> list[Document]:
        """The same as :meth:`invoke`, untraced."""
        if isinstance(document, str):
            document = Document(document)
        if not isinstance(document, Document):
            raise UsageError(f"document is a {type(document).__name__}; give a Document or a str")
        text, source = document.page_content, source_of(document)
        seen: Counter[str] = Counter()
        chunks = []
        for number, (start, end) in enumerate(self.spans(text)):
            content = text[start:end]
            metadata = {**document.metadata, "source": source, "chunk": number, "start": start, "end": end}
            chunks.append(Document(content, id=_digest(source, content, str(seen[content])), metadata=metadata))
            seen[content] += 1
        return chunks

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The (start, end) of each chunk of a text, in characters.

        >>> Chunker(2, 0, counter=len).spans("一二三四五")
        [(0, 2), (2, 4), (4, 5)]
        """
        if not text.strip():
            return []
        return list(_Splitter(text, self.chunk_size, self.chunk_overlap, self.counter).spans())


# A border of a rank is taken if the chunk then has at least this part of its size; the highest rank first, and one that
# comes too early for its rank counts as one of a lower rank.
_FILLED = {
    Rank.PARAGRAPH: 0.7,
    Rank.LINE: 0.8,
    Rank.SENTENCE: 0.6,
    Rank.CLAUSE: 0.5,
    Rank.SPACE: 0.5,
    Rank.CHARACTER: 0.5,
}
_FALLING = sorted(Rank, reverse=True)


class _Splitter:
    """One text on its way into chunks.

    Between two borders lies a unit, a sentence or less. Each is counted once, and units are added up; as tokens can
    reach over a border, a chunk is counted as a whole before it is taken.
    """

    def __init__(self, text: str, size: int, overlap: int, counter: TokenCounter) -> None:
        self._text = text
        self._size = size
        self._overlap = overlap
        self._counter = counter
        self._empty = counter("")  # some tokenizers add marks to every text
        self._visible_end = len(text.rstrip())
        found = borders(text, longest=max(24, size // 4))
        self._borders = [position for position, _ in found]
        self._ranks = [rank for _, rank in found]
        self._sums = list(itertools.accumulate(self._costs(), initial=0))

    def spans(self) -> Iterator[tuple[int, int]]:
        start = done = 0
        while done < len(self._text):
            least = self._least(done)
            end = self._end(start, least)
            if not end and start < done:  # no room beside the overlap
                start, end = done, self._end(done, least)
            end = end or least
            yield start, end
            start, done = self._overlap_start(start, end), end

    def _count(self, start: int, end: int) -> int:
        return self._counter(self._text[start:end])

    def _costs(self) -> Iterator[int]:
        """The tokens of each unit. A space before it counts to it, for a tokenizer too takes that to the next word."""
        text, last = self._text, len(self._text)
        starts = [position - (0 < position < last and text[position - 1] == " ") for position in self._borders]
        for start, end in itertools.pairwise(starts):
            yield max(0, self._counter(text[start:end]) - self._empty)

    def _least(self, done: int) -> int:
        """Where the chunk after ``done`` ends at least: after one character, white space not counted."""
        least = next_visible(self._text, done) + 1
        return least if least < self._visible_end else len(self._text)

    def _end(self, start: int, least: int) -> int:
        """Where the chunk from ``start`` ends, at ``least`` or later, or 0 if even that does not fit."""
        base = self._base(start)
        budget = self._size
        while budget > 0 and (end := self._border(base, least, budget)):
            tokens = self._count(start, end)
            if tokens <= self._size:
                return self._filled(start, end, tokens, self._border(base, least, budget + self._size - tokens))
            reached = self._sums[bisect_left(self._borders, end)] - base
            budget = min(budget, reached) - (tokens - self._size)
        return self._search(start, least)

    def _base(self, start: int) -> int:
        """What to take from the sums to get the tokens from ``start``, which can lie inside a unit."""
        unit = bisect_left(self._borders, start)
        inside = self._borders[unit] > start
        return self._sums[unit] - self._empty - (self._count(start, self._borders[unit]) if inside else 0)

    def _filled(self, start: int, end: int, tokens: int, later: int) -> int:
        """The later end, where the sum of the units was far above the count of the whole."""
        short = tokens < 0.8 * self._size and later > end
        return later if short and self._count(start, later) <= self._size else end

    def _border(self, base: int, least: int, budget: int) -> int:
        """The best border that a budget of tokens reaches, or 0."""
        unit = bisect_right(self._sums, base + budget) - 1
        if unit == len(self._borders) - 1:
            return len(self._text)
        best: dict[Rank, int] = {}
        enough = base + min(_FILLED.values()) * self._size
        while unit > 0 and self._borders[unit] >= least and self._sums[unit] >= enough:
            part = (self._sums[unit] - base) / self._size
            rank = next((rank for rank in _FALLING if rank <= self._ranks[unit] and part >= _FILLED[rank]), None)
            if rank is not None:
                best.setdefault(rank, self._borders[unit])
            unit -= 1
        return best[max(best)] if best else 0

    def _search(self, start: int, least: int) -> int:
        """The end by trial, where no border will do: long runs without one, or a size of few characters."""
        if self._count(start, least) > self._size:
            return 0
        fits, over = least, min(len(self._text), start + 4 * self._size + 64)
        if over == len(self._text) and self._count(start, over) <= self._size:
            return over
        over = min(over, self._visible_end)
        while over - fits > 1:
            middle = (fits + over) // 2
            if self._count(start, middle) <= self._size:
                fits = middle
            else:
                over = middle
        tidy, rank = finer_border(self._text, max(least - 1, (start + fits) // 2), fits)
        if rank is Rank.CHARACTER:
            tidy = character_border(self._text, least - 1, fits)
        return tidy if tidy >= least and self._count(start, tidy) <= self._size else fits

    def _overlap_start(self, start: int, end: int) -> int:
        """Where the chunk after the one from ``start`` to ``end`` starts."""
        if not self._overlap or end == len(self._text):
            return end
        length = min(end - start - 1, 3 * self._overlap)
        while length > 0 and (tokens := self._count(end - length, end)) > self._overlap:
            length = min(length - 1, int(0.95 * length * self._overlap / tokens))
        if length <= 0:
            return end
        first, last = end - length, end - length // 2
        position = self._first_sentence(first, last) or first_border(self._text, first, last)
        fits = next_visible(self._text, position) < end and self._count(position, end) <= self._overlap
        return position if fits else end

    def _first_sentence(self, first: int, last: int) -> int:
        for unit in range(bisect_left(self._borders, first), bisect_right(self._borders, last)):
            if self._ranks[unit] >= Rank.SENTENCE:
                return self._borders[unit]
        return 0


def source_of(document: Document) -> str:
    """What a document is known by: its ``metadata["source"]``, else a name made of its content.

    >>> source_of(Document("Ada left.", metadata={"source": "in/a.txt"})), source_of(Document("Ada left."))
    ('in/a.txt', 'text-f5680d745e8d903d9c920026a752be68')
    """
    source = document.metadata.get("source")
    if isinstance(source, PurePath):
        return source.as_posix()
    return str(source) if source not in (None, "") else f"text-{_digest(document.page_content)}"


def _digest(*parts: str) -> str:
    joined = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=16).hexdigest()
