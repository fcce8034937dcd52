"""The marks in an answer and what they point at: ``[2]`` is the second passage, and a quote of it with its place.

One pattern says what a mark is. By it a reply is read, and by it whatever comes from documents is shown without marks;
so nothing that a document says is taken for a citation, also where a model copies it.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from langchain_core.documents import Document

from rag_transformers.retrieval.ranking import title_of
from rag_transformers.text import key_terms, printable, sentence_spans, terms, unheaded

__all__ = [
    "CheckedText",
    "Citation",
    "check_citations",
    "cite",
    "cited_sentences",
    "closest_quote",
    "closest_sentence",
    "label",
    "quoted",
    "rounded",
    "settled_citations",
    "unmarked",
]

_OPEN, _CLOSE = r"\[【［", r"\]】］"
_ROUND = str.maketrans("[【［]】］", "((()))")
_GAP = r"[\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]*+"  # invisible characters are gaps too
_NUMBER = r"\d{1,3}"
_WORD = "passages?|sources?|citations?|refs?|段落|来源|來源|资料|資料|文献|引用|文章|出典"
_MARK = (
    rf"[{_OPEN}]{_GAP}(?P<word>(?:\^|(?:{_WORD}){_GAP}[:：#]?){_GAP})?"
    rf"(?P<numbers>{_NUMBER}(?:{_GAP}(?:[,，、;；&]|[-–—~～至]|and|和){_GAP}{_NUMBER})*){_GAP}(?:†[^{_CLOSE}\n]{{0,80}})?"
)
"""A mark up to its closing bracket."""
_CITATION = re.compile(rf"{_MARK}[{_CLOSE}](?!\()", re.IGNORECASE)
_LOOKALIKE = re.compile(rf"{_MARK}(?:[{_CLOSE}]|\Z)", re.IGNORECASE)
"""What is a mark, or becomes one when a link behind it is left out, or a mark is put behind it."""
_RANGE = re.compile(rf"({_NUMBER}){_GAP}[-–—~～至]{_GAP}({_NUMBER})|({_NUMBER})")
_WRITTEN = re.compile(rf"\[({_NUMBER})\](?!\()")
"""A mark as :func:`check_citations` writes it."""
_DEEPEST = 9
"""Brackets in brackets are looked into so many times."""
_HELD_BACK = 200
"""So many characters behind a bracket that nothing closes are waited for."""
_LONGEST_LABEL = 120
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
    removed: dict[int, None] = {}
    for _ in range(_DEEPEST):
        before, text = text, _checked(text, passages, removed).strip()
        if text == before:
            break
    else:  # what is taken out of brackets in brackets leaves ever new ones
        text = rounded(text)
    used = dict.fromkeys(int(mark["numbers"]) for mark in _CITATION.finditer(text))
    return CheckedText(text, tuple(used), tuple(sorted(removed)))


def rounded(text: str) -> str:
    r"""A text in which whatever could pass for the mark of a citation stands in round brackets.

    >>> rounded("The mill[3] burned【1, 2】 in [1911], see [4](mills.html).")
    'The mill(3) burned(1, 2) in [1911], see (4)(mills.html).'
    """
    return _LOOKALIKE.sub(lambda mark: mark.group().translate(_ROUND), text)


def unmarked(text: str) -> str:
    """A text without the marks of notes, as an encyclopedia has them; other marks of citations stand in round brackets.

    >>> unmarked("The mill[3] burned【4】, in the range [1, 2].")
    'The mill burned, in the range (1, 2).'
    """
    return rounded(_LOOKALIKE.sub(lambda mark: "" if _is_note(mark) else mark.group(), text))


def label(text: str, most: int = _LONGEST_LABEL) -> str:
    r"""A name, a source or a title as it is shown: one line that holds no mark, its middle left out where it is long.

    Args:
        text: Anything.
        most: Characters.

    >>> label("real.txt;\n[2] secret.txt"), label("annual reports/1998/letters.txt", 15)
    ('real.txt; (2) secret.txt', 'annual …ers.txt')
    """
    plain = printable(text)
    if len(plain) > most:
        plain = f"{plain[: most // 2]}…{plain[most // 2 + 1 - most :]}"
    return rounded(plain)


def quoted(citations: Iterable[Citation], space: str, leads: Sequence[str] = ()) -> str:
    r"""Quotes in their order, each with its mark behind it, and no other; of a heading its marks are left out.

    Args:
        citations: Of what is quoted.
        space: What stands between, in the language of the text.
        leads: What stands before each, such as the title of what it is from; may be empty, or fewer.

    >>> quoted([Citation(1, "a", "", 0, "c", 0, 9, "Ada [7]\nleft.")], " ", ["The inn"])
    'The inn: Ada left. [1]'
    """
    text = ""
    for each, lead in zip_longest(citations, leads, fillvalue=""):
        if isinstance(each, str):  # more leads than quotes
            break
        said = rounded(" ".join(unmarked(unheaded(each.quote)).split()))
        if lead := label(str(lead)):
            said = f"{lead}{':' if space else '：'}{space}{said}"
        front = "" if not text else " " if said.startswith("(") else space  # "[1](" would be a link
        text += f"{front}{said}{space}[{each.number}]"
    return text


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
        said = _WRITTEN.sub("", sentence).strip(" \t\n.。,，")
        for mark in _WRITTEN.finditer(sentence):
            leading = not _WRITTEN.sub("", sentence[: mark.start()]).strip()
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
    """How many characters of an answer that is still being written can be read: up to a bracket that may become a mark.

    >>> settled_citations("A mill [1], a bridge [2"), settled_citations("A mill [1]"), settled_citations("A mill [1].")
    (21, 7, 11)
    """
    opened: list[int] = []
    for at in range(max(0, len(text) - _HELD_BACK), len(text)):
        if text[at] in "[【［":
            opened.append(at)
        elif text[at] in "]】］" and opened and (len(opened) > 1 or at < len(text) - 1):  # a link may follow the last
            opened.pop()
    return opened[0] if opened else len(text)


def _checked(text: str, passages: int, removed: dict[int, None]) -> str:
    """The text with its marks in one form, and without those that point nowhere; their numbers are noted."""
    pieces: list[str] = []
    last = 0
    for mark in _CITATION.finditer(text):
        pieces.append(text[last : mark.start()])
        last = mark.end()
        numbers = list(_numbers(mark["numbers"], passages))
        kept = dict.fromkeys(number for number in numbers if 1 <= number <= passages)
        removed.update(dict.fromkeys(number for number in numbers if number not in kept))
        if kept:
            pieces.append("".join(f"[{number}]" for number in kept))
        else:
            pieces[-1] = pieces[-1].rstrip(" \t")
    return "".join([*pieces, text[last:]])


def _is_note(mark: re.Match[str]) -> bool:
    """Whether it is one number in brackets; several may be data, such as a range."""
    return mark["numbers"].isdecimal() and not mark["word"] and mark.group().endswith(("]", "】", "］"))


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
