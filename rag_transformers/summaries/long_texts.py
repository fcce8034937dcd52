"""A text of any length -> one summary: in chunks, and in as many calls of a summariser as its ranges ask for."""

from collections.abc import Iterator, Sequence

from langchain_core.runnables import RunnableConfig

from rag_transformers import concurrency
from rag_transformers.errors import ConvergenceError
from rag_transformers.summaries.merging import distinct, pieces
from rag_transformers.summaries.text_summarizer import MOST_CHARACTERS, MOST_TEXTS, TextSummarizer

__all__ = ["CHUNK", "asummarize_chunks", "summarize_chunks", "summary_chunks"]

CHUNK = 4 * 1024
"""Characters of a chunk, and of what is merged in one call."""


def summary_chunks(texts: Sequence[str]) -> list[str]:
    """Texts of any length as chunks that are to be summarised; equal ones count once.

    >>> [len(chunk) for chunk in summary_chunks(["The mill burned. Ada built it again. " * 200, " "])]
    [4086, 3312]
    """
    return pieces(distinct(texts), CHUNK)


def summarize_chunks(summary: TextSummarizer, chunks: Sequence[str], config: RunnableConfig | None = None) -> str:
    """One summary of any number of chunks.

    Args:
        summary: With a model or without.
        chunks: As :func:`summary_chunks` gives them.
        config: Callbacks, ``max_concurrency`` and the like.

    Raises:
        ConvergenceError: The summaries do not get shorter; it carries the last ones.
        ModelError: The model failed.

    >>> from rag_transformers.summaries.text_summaries import ExtractiveSummary
    >>> summarize_chunks(ExtractiveSummary(30), ["The mill at Leeds burned."] * 3000)
    'The mill at Leeds burned.'
    """
    return concurrency.run(asummarize_chunks(summary, chunks, config))


async def asummarize_chunks(
    summary: TextSummarizer, chunks: Sequence[str], config: RunnableConfig | None = None
) -> str:
    """One summary of any number of chunks; see :func:`summarize_chunks`."""
    slices = list(_slices(distinct(chunks)))
    while slices:
        made = [await summary.amerge_text_summarize(part, CHUNK, config=config) for part in slices]
        if len(slices) == 1:
            return made[0]
        before, slices = len(slices), list(_slices(pieces(distinct(made), CHUNK)))
        if len(slices) >= before:
            raise ConvergenceError(f"the summaries of {before} parts of the text are no shorter than these", made)
    return ""


def _slices(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in lists that a summariser accepts in one call."""
    part: list[str] = []
    length = 0
    for text in texts:
        if part and (len(part) == MOST_TEXTS or length + len(text) > MOST_CHARACTERS):
            yield part
            part, length = [], 0
        part.append(text)
        length += len(text)
    if part:
        yield part
