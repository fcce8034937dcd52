"""The marks in an answer and what they point at: ``[2]`` is the second passage, and a quote of it with its place."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.documents import Document

from rag_transformers.retrieval.ranking import title_of
from rag_transformers.text import key_terms, sentence_spans, terms

__all__ = [
    "CheckedText",
    "Citation",
    "check_citations",
    "cite",
    "cited_sentences",
    "closest_quote",
    "closest_sentence",
    "settled_citations",
    "unmarked",
]

_NUMBER = r"\d{1,3}"
_CITATION = re.compile(
    rf"[\[【［]\s*(?:\^|(?:passages?|sources?|citations?|refs?|段落|来源|來源|资料|資料|文献|引用)\s*)?"
    rf"({_NUMBER}(?:\s*(?:[,，、;；&]|[-–—~～至]|and|和)\s*{_NUMBER})*)\s*(?:†[^\]】］\n]{{0,80}})?[\]】］](?!\()",
    re.IGNORECASE,
)
_RANGE = re.compile(rf"({_NUMBER})\s*[-–—~～至]\s*({_NUMBER})|({_NUMBER})")
_MARKS = re.compile(r"\[(\d{1,3})\]")
_OPEN = re.compile(r"[\[【［][^\]】］\n]{0,100}\Z")
_FEW = 20
"""So many chunks are read sentence by sentence for a quote; beyond, only the likely ones are."""


@dataclass(frozen=True)
class Citation:
    """What a mark like ``[2]`` in an answer points at.

    Args:
        number: The number in the mark.
        source: The document's ``metadata["source"]``.
        title: The document's title, empty where it has none.
        chunk: The chunk's number in its document.
        chunk_id: The chunk's id.
        start: Where the quote starts in the document's text, in characters.
        end: Where it ends.
        quote: The document's text from ``start`` to ``end``.
    """

    number: int
    source: str
    title: str
    chunk: int
    chunk_id: str
    start: int
    end: int
    quote: str


class CheckedText(NamedTuple):
    """A reply with only those citations that point at a passage, the numbers used by first use, and those removed."""

    text: str
    used: tuple[int, ...]
    removed: tuple[int, ...]


def check_citations(text: str, passages: int) -> CheckedText:
    """Keep only the citations of a reply that point at a passage, all in the form ``[1][2]``.

    Understood are ``[1]``, ``[1, 2]``, ``[1-3]``, ``[1][2]``, full-width digits and brackets, and a word such as
    "passage" before the number. A number of four digits is a year and no citation.

    Args:
        text: The reply.
        passages: How many passages there are, numbered from 1.

    >>> check_citations("A mill［１］, a bridge [1, 7]. A road [9].", 3)
    CheckedText(text='A mill[1], a bridge [1]. A road.', used=(1,), removed=(7, 9))
    """
    pieces: list[str] = []
    used: dict[int, None] = {}
    removed: dict[int, None] = {}
    last = 0
    for mark in _CITATION.finditer(text):
        pieces.append(text[last : mark.start()])
        last = mark.end()
        numbers = list(_numbers(mark.group(1), passages))
        kept = [number for number in numbers if 1 <= number <= passages]
        used.update(dict.fromkeys(kept))
        removed.update(dict.fromkeys(number for number in numbers if number not in kept))
        if kept:
            pieces.append("".join(f"[{number}]" for number in dict.fromkeys(kept)))
        else:
            pieces[-1] = pieces[-1].rstrip(" \t")
    return CheckedText("".join([*pieces, text[last:]]).strip(), tuple(used), tuple(sorted(removed)))


def unmarked(text: str, instead: str = "") -> str:
    r"""A text without what looks like the mark of a citation.

    >>> unmarked("The mill[3] burned."), unmarked("The mill[3] burned.", r"(\1)")
    ('The mill burned.', 'The mill(3) burned.')
    """
    return _MARKS.sub(instead, text)


def cite(number: int, chunk: Document, start: int, end: int) -> Citation:
    """The citation of a span of a chunk's text, its place told in the document's.

    >>> chunk = Document("Ada left.", id="x", metadata={"source": "a.txt", "chunk": 2, "start": 50, "end": 59})
    >>> cite(1, chunk, 0, 3)
    Citation(number=1, source='a.txt', title='', chunk=2, chunk_id='x', start=50, end=53, quote='Ada')
    """
    metadata = chunk.metadata
    offset = metadata.get("start", 0)
    return Citation(
        number=number,
        source=str(metadata.get("source", "")),
        title=title_of(chunk),
        chunk=metadata.get("chunk", 0),
        chunk_id=str(chunk.id or ""),
        start=offset + start,
        end=offset + end,
        quote=chunk.page_content[start:end],
    )


def cited_sentences(text: str) -> dict[int, list[str]]:
    """For each number in an answer, what it is cited for: the sentence that it stands in, or stands behind.

    >>> cited_sentences("Ada left [1]. Bob stayed. [2]")
    {1: ['Ada left'], 2: ['Bob stayed']}
    """
    found: dict[int, list[str]] = {}
    before = ""
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        said = _MARKS.sub("", sentence).strip(" \t\n.。,，")
        for mark in _MARKS.finditer(sentence):
            leading = not _MARKS.sub("", sentence[: mark.start()]).strip()
            found.setdefault(int(mark.group(1)), []).append(before if leading and before else said)
        before = said or before
    return found


def closest_sentence(passage: Document, cited: Sequence[str]) -> tuple[int, int]:
    """The span of that sentence of a passage that shares most terms with one of the texts, rare ones before all.

    >>> closest_sentence(Document("Ada left. Bob stayed."), ["It was Bob"])
    (10, 21)
    """
    _, start, end = closest_quote([passage], cited)
    return start, end


def closest_quote(
    chunks: Sequence[Document], cited: Sequence[str], otherwise: Sequence[str] = ()
) -> tuple[Document, int, int]:
    """The chunk and the span in it of the sentence that shares most terms with one of the texts, rare ones before all.

    Args:
        chunks: Where the sentence may stand, at least one. Of many those that hold most of the terms are read.
        cited: The texts that it may be cited for.
        otherwise: Texts that decide where sentences share as much with those.

    >>> chunks = [Document("Ada left.", id="a"), Document("Cy slept. Bob stayed.", id="b")]
    >>> closest_quote(chunks, ["It was Bob"])[1:]
    (10, 21)
    """
    texts = [key_terms(text) for text in cited], [key_terms(text) for text in otherwise]
    spans = [
        (chunk, start, end)
        for chunk in _likely(chunks, {term for group in texts for text in group for term in text})
        for start, end in (list(sentence_spans(chunk.page_content)) or [(0, len(chunk.page_content))])
    ]
    held = [set(terms(chunk.page_content[start:end])) for chunk, start, end in spans]
    found = Counter(term for each in held for term in each)

    def shared(place: int, group: Sequence[Sequence[str]]) -> float:
        return max((sum(1 / found[term] for term in text if term in held[place]) for text in group), default=0.0)

    return spans[max(range(len(spans)), key=lambda place: (*(shared(place, group) for group in texts), -place))]


def settled_citations(text: str) -> int:
    """How many characters of an answer that is still being written can be read: up to a bracket still open.

    >>> settled_citations("A mill [1], a bridge [2"), settled_citations("A mill [1].")
    (21, 11)
    """
    bracket = _OPEN.search(text, max(0, len(text) - 120))
    return bracket.start() if bracket else len(text)


def _likely(chunks: Sequence[Document], wanted: Collection[str]) -> list[Document]:
    """Of many chunks those that hold most of the terms, as far as that is seen without reading word by word."""
    if len(chunks) <= _FEW:
        return list(chunks)
    texts = [chunk.page_content.casefold() for chunk in chunks]
    counts = [sum(term in text for term in wanted) for text in texts]
    best = sorted(range(len(chunks)), key=lambda place: (-counts[place], place))[:_FEW]
    return [chunks[place] for place in sorted(best)]


def _numbers(group: str, passages: int) -> Iterator[int]:
    """The numbers of one citation; of a range, its ends and those between them that are passages."""
    for low, high, single in _RANGE.findall(group):
        first, last = sorted((int(low or single), int(high or single)))
        yield from dict.fromkeys((first, *range(first, min(last, passages) + 1), last))
