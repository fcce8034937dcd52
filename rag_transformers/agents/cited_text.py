"""Lines with citations, as many as fit into a token budget, and at the end the sources that they cite."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from rag_transformers.answers.citations import Citation, label
from rag_transformers.answers.contexts import shown
from rag_transformers.summaries.extractive import shortened
from rag_transformers.text import printable

if TYPE_CHECKING:
    from rag_transformers.tokens import TokenCounter

__all__ = ["Line", "cited_text", "in_a_line", "listed", "place"]

_MOST = 2
"""Sources of one line; more would be longer than what they are for."""
_LONGEST = 2000
"""Characters of a text that are looked at."""


class Line(NamedTuple):
    """A line, and the ids of the chunks that it comes from, the most important first."""

    text: str
    chunks: Sequence[str] = ()


def cited_text(
    lines: Iterable[Line],
    lookup: Callable[[Sequence[str]], Mapping[str, Document]],
    *,
    budget: int,
    counter: "TokenCounter",
    what: str = "lines",
) -> str:
    """The lines that fit, each with the numbers of its sources, and the list of these.

    Args:
        lines: The most important first; the first is given whatever it takes.
        lookup: Finds chunks by their ids.
        budget: Tokens of the whole.
        counter: Counts tokens.
        what: What the lines are, where it is said that some found no room.

    >>> chunk = Document("Ada founded it.", id="c", metadata={"source": "a.txt", "chunk": 2})
    >>> lines = [Line("Ada founded Grain Trust.", ["c"]), Line("It lends money.", ["c"]), Line("Too long " * 9)]
    >>> print(cited_text(lines, lambda ids: {"c": chunk}, budget=25, counter=lambda text: len(text.split())))
    Ada founded Grain Trust. [1]
    It lends money. [1]
    (1 more of the lines left out, for lack of room)
    Sources: [1] a.txt, chunk 2
    """
    rows = list(lines)
    known = lookup(list(dict.fromkeys(id for row in rows for id in row.chunks[:_MOST])))
    sources: list[str] = []
    said: list[str] = []
    text = ""
    for number, row in enumerate(rows, 1):
        cited = [place(known[id]) for id in row.chunks[:_MOST] if id in known]
        now = list(dict.fromkeys([*sources, *cited]))
        marks = "".join(f"[{now.index(each) + 1}]" for each in dict.fromkeys(cited))
        longer = [*said, f"{row.text} {marks}".rstrip()]
        whole = _whole(longer, now, len(rows) - number, what)
        if said and counter(whole) > budget:
            break
        sources, said, text = now, longer, whole
    return text


def place(chunk: Document) -> str:
    r"""Where a chunk stands, for a list of sources, of which no source can make two.

    >>> place(Document("Ada left.", metadata={"source": "a.txt;\n[2] b.txt", "chunk": 3}))
    'a.txt; (2) b.txt, chunk 3'
    """
    return _place(chunk.metadata.get("source", ""), chunk.metadata.get("chunk", 0))


def listed(citations: Iterable[Citation]) -> str:
    """The list of what an answer cites."""
    return _listed((each.number, _place(each.source, each.chunk)) for each in citations)


def in_a_line(text: str, limit: int, counter: "TokenCounter") -> str:
    r"""A text in one line and within a limit of tokens, without what looks like a citation, to put a mark behind.

    >>> in_a_line("Ada left [3],\nand Bob stayed.", 4, lambda text: len(text.split()))
    'Ada left (3), …'
    """
    whole = shown(printable(text[:_LONGEST]))
    short = shortened(whole, limit, counter)
    return short if short == whole and len(text) <= _LONGEST else shown(f"{short} …")


def _whole(said: Sequence[str], sources: Sequence[str], left: int, what: str) -> str:
    """The whole text; a last line tells what was left out."""
    note = [f"({left} more of the {what} left out, for lack of room)"] if left else []
    return "\n".join([*said, *note, *([_listed(enumerate(sources, 1))] if sources else [])])


def _listed(sources: Iterable[tuple[int, str]]) -> str:
    return f"Sources: {'; '.join(f'[{number}] {source}' for number, source in sources)}"


def _place(source: object, chunk: object) -> str:
    return f"{label(str(source))}, chunk {chunk}"
