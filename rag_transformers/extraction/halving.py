"""A chunk that is too much for a model, asked about in two: where it is cut, and when it is cut no more."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document

from rag_transformers.borders import Rank, borders
from rag_transformers.errors import ContextOverflowError, ModelError, ReplyError
from rag_transformers.extraction.gleaning import merged
from rag_transformers.graph import Extraction
from rag_transformers.models.conversation import Talk, place_of

__all__ = ["LEAST_TOKENS", "asked_in_parts", "halves"]

_log = logging.getLogger(__name__)

LEAST_TOKENS = 64
"""No half is meant to have fewer tokens: a model that cannot take as many cannot take our instructions either."""


def halves(chunk: Document, count: Callable[[str], int]) -> tuple[Document, Document] | None:
    """The two halves of a chunk, cut at the sentence border nearest to its middle; None for one that is too small.

    Where no sentence ends in the middle half of it, as in a table, it is cut at a clause or a word.

    Args:
        chunk: The chunk; its halves have its metadata, and no id.
        count: Counts tokens.

    >>> text = "Ada left for Fen Mill. Bob stayed. 他走了。她也走了。" * 8
    >>> one, two = halves(Document(text), len)
    >>> one.page_content + two.page_content == text, one.page_content[-5:], halves(Document("Ada left."), len)
    (True, '她也走了。', None)
    """
    text = chunk.page_content
    if count(text) < 2 * LEAST_TOKENS:
        return None
    middle, length = len(text) / 2, len(text)
    inside = [
        (place, rank) for place, rank in borders(text, max(2, length // 4)) if length / 4 < place < length * 3 / 4
    ]
    if not inside:
        return None
    place, _ = min(inside, key=lambda border: (border[1] < Rank.SENTENCE, abs(border[0] - middle)))
    first, second = text[:place], text[place:]
    if not first.strip() or not second.strip():
        return None
    return Document(first, metadata=dict(chunk.metadata)), Document(second, metadata=dict(chunk.metadata))


def asked_in_parts(
    asked: Callable[[Document, Mapping[str, Any]], Talk[Extraction]],
    chunk: Document,
    variables: Mapping[str, Any],
    count: Callable[[str], int],
    *,
    replies_too: bool = True,
    is_part: bool = False,
) -> Talk[Extraction]:
    """Ask without the history where the prompt is too long with it, and then by halves, down to a floor.

    The first half that cannot be asked about ends it, so that a hopeless chunk costs one call for each halving.

    Args:
        asked: The talk about a chunk, or a part of one, from what its prompt takes.
        chunk: The chunk.
        variables: What the prompt takes: ``text``, and perhaps ``history``.
        count: Counts tokens.
        replies_too: Whether halves are also asked about where a reply does not fit into the model's limit, however
            often it is asked for.
        is_part: Whether it is a half already.

    Raises:
        ModelError: What came of the chunk, or of the first part that failed; a ReplyError has what was read before it.
    """
    cause: ModelError | None = None
    try:
        return (yield from asked(chunk, variables))
    except ContextOverflowError as error:
        cause = error
        if variables.get("history"):
            variables = {**variables, "history": ""}
            return (yield from asked_in_parts(asked, chunk, variables, count, replies_too=replies_too, is_part=is_part))
        if (parts := halves(chunk, count)) is None:
            if is_part:
                raise _too_long_still(chunk, error) from error
            raise
    except ReplyError as error:
        if error.finish_reason != "length" or not replies_too or (parts := halves(chunk, count)) is None:
            raise
    _log.info("%s is too much for the model, and asked about in halves", place_of(chunk))
    found = Extraction()
    for part in parts:
        try:
            own = {**variables, "text": part.page_content}
            more = yield from asked_in_parts(asked, part, own, count, replies_too=replies_too, is_part=True)
        except ReplyError as error:
            said = merged(found, error.extraction or Extraction())
            if cause is None or str(cause) in str(error):
                error.extraction = said
                raise
            raise ReplyError(
                f"{cause}; and of a half of it: {error}",
                reply=error.reply,
                finish_reason=error.finish_reason,
                extraction=said,
            ) from error
        found = merged(found, more)
    return found


def _too_long_still(part: Document, error: ContextOverflowError) -> ContextOverflowError:
    """The error of a part of a chunk that is halved no more."""
    start = " ".join(part.page_content.split())[:40]
    return ContextOverflowError(f"{error}; so it is for {len(part.page_content)} characters of it, from {start!r}")
