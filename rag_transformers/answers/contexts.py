"""Numbered passages for a prompt, within a token budget; and what is behind each number.

answer_context    whole passages, the last one cut at the end of a sentence; a warning where nothing fits
filled_context    the same without a warning
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from langchain_core.documents import Document

from rag_transformers.answers.citations import label, rounded
from rag_transformers.errors import check_count
from rag_transformers.retrieval.ranking import title_of
from rag_transformers.text import sentence_spans

if TYPE_CHECKING:
    from rag_transformers.tokens import TokenCounter

__all__ = ["ChunkLookup", "Context", "answer_context", "filled_context", "shown"]

_LONGEST_TITLE = 200
"""Characters of a title; a longer one would take the place of its passage."""


class Context(NamedTuple):
    """Numbered passages for a prompt.

    Args:
        text: All of them, as they stand in the prompt.
        passages: Each as a Document: a chunk, the last one perhaps cut, or what was made of chunks, such as a report.
        behind: For each passage the ids of the chunks that it was made of; none for a chunk. By default all are chunks.
    """

    text: str
    passages: tuple[Document, ...]
    behind: tuple[tuple[str, ...], ...] = ()


ChunkLookup: TypeAlias = Callable[[Sequence[str]], Mapping[str, Document]]
"""From ids of chunks to the chunks that there are."""


def answer_context(chunks: Iterable[Document], budget: int, counter: "TokenCounter") -> Context:
    """Number the passages that fit into a token budget: whole ones, the last one cut at the end of a sentence.

    Where not even a sentence of the first fits, there is a warning, and no passage.

    Args:
        chunks: Best first.
        budget: Tokens of the whole context, numbers and titles counted, at least 1.
        counter: Counts tokens.

    Raises:
        UsageError: ``budget`` is no whole number of at least 1.

    >>> chunks = [Document("Ada left. Bob stayed."), Document("Cy slept. Di read.")]
    >>> print(answer_context(chunks, 8, lambda text: len(text.split())).text)
    [1] Ada left. Bob stayed.
    <BLANKLINE>
    [2] Cy slept.
    """
    check_count("budget", budget)
    context, complete = filled_context(chunks, budget, counter)
    if not context.passages and not complete:
        warnings.warn(f"a budget of {budget} tokens has no room for any passage", stacklevel=2)
    return context


def filled_context(chunks: Iterable[Document], budget: int, counter: "TokenCounter") -> tuple[Context, bool]:
    """As :func:`answer_context`, without a warning; and whether all chunks found room as a whole."""
    text = ""
    passages: list[Document] = []
    for chunk in chunks:
        front = f"{text}\n\n{_numbered(len(passages) + 1, chunk)}" if text else _numbered(1, chunk)
        passage = _fitting(front, chunk, budget, counter)
        if passage is not None:
            passages.append(passage)
            text = front + shown(passage.page_content)
        if passage is not chunk:
            return Context(text, tuple(passages)), False
    return Context(text, tuple(passages)), True


def shown(text: str) -> str:
    """A passage's text for a prompt; what looks like a citation in it, as in an encyclopedia, is none."""
    return rounded(text).strip()


def _numbered(number: int, chunk: Document) -> str:
    """What stands before a passage: its number, and its title where it does not begin with it."""
    title = title_of(chunk)
    untold = title and not chunk.page_content.lstrip().startswith(title)
    return f"[{number}] {label(title, _LONGEST_TITLE)}\n" if untold else f"[{number}] "


def _fitting(front: str, chunk: Document, budget: int, counter: "TokenCounter") -> Document | None:
    """As much of a chunk as fits into the budget behind what is there: all, or up to a sentence's end, or nothing."""
    text = chunk.page_content
    if counter(front + shown(text)) <= budget:
        return chunk
    ends = [end for _, end in sentence_spans(text)]
    low, high = 0, len(ends)  # the first `low` sentences fit, more than `high` do not
    while low < high:
        middle = (low + high + 1) // 2
        if counter(front + shown(text[: ends[middle - 1]])) <= budget:
            low = middle
        else:
            high = middle - 1
    if not low:
        return None
    end = ends[low - 1]
    metadata = {**chunk.metadata, "end": chunk.metadata.get("start", 0) + end}
    return Document(id=chunk.id, page_content=text[:end], metadata=metadata)
