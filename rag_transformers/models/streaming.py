"""Replies while they come: what of a text can be shown already, so that nothing shown has to be taken back."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from rag_transformers.records.text import settled, without_reasoning

__all__ = ["Heard", "VisibleText"]

T = TypeVar("T")


class VisibleText:
    """What a text that is still being written shows, piece by piece.

    Args:
        settled: From the text so far to the number of its characters that later ones cannot change.
        cleaned: From such a beginning to what is shown of it, without white space around it.

    >>> shown = VisibleText(settled, without_reasoning)
    >>> [shown.add(piece) for piece in ("<thi", "nk>Who", "?</think>", " Ada", " left. ")], shown.end("Ada left.")
    (['', '', '', 'Ada', ' left.'], '')
    """

    def __init__(self, settled: Callable[[str], int], cleaned: Callable[[str], str]) -> None:
        self._settled = settled
        self._cleaned = cleaned
        self._text = ""
        self._sure = 0
        self._shown = ""

    def add(self, piece: str) -> str:
        """What can be shown now that this piece has come."""
        self._text += piece
        self._sure = max(self._sure, self._settled(self._text))
        return self._new(self._cleaned(self._text[: self._sure]).strip())

    def end(self, whole: str) -> str:
        """What is left to show of the whole text, now that it is known."""
        return self._new(whole)

    def _new(self, text: str) -> str:
        if not text.startswith(self._shown):  # the tag that opened a block was left out: it is all new
            self._shown = ""
        new = text[len(self._shown) :]
        self._shown = text
        return new


class Heard:
    """What a model has said so far in a stream: its messages, to be made one, and its text without reasoning."""

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._visible = VisibleText(settled, without_reasoning)

    def add(self, message: Any, text: str) -> str:
        """What a further message lets show.

        Args:
            message: As the model gave it.
            text: Its text.
        """
        self._messages.append(message)
        return self._visible.add(text) if text else ""

    def message(self) -> Any:
        """All messages as one; a text where they were texts."""
        from langchain_core.messages import AIMessageChunk

        if all(isinstance(message, str) for message in self._messages):
            return "".join(self._messages)
        if len(self._messages) == 1:
            return self._messages[0]
        chunks = [AIMessageChunk(content=each) if isinstance(each, str) else each for each in self._messages]
        if all(isinstance(chunk, AIMessageChunk) for chunk in chunks):
            return chunks[0] + chunks[1:]
        return chunks[-1]  # no pieces of one message

    def end(self, reply: T) -> Iterator[str | T]:
        """What is left to show, and the reply itself."""
        if rest := self._visible.end(str(getattr(reply, "text", ""))):
            yield rest
        yield reply
