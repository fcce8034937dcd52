"""The talk with a model about one chunk: its turns, and what drives it, so that sync and async share all else."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.errors import ContextOverflowError, ModelError, ReplyError
from rag_transformers.models.calls import acall, call
from rag_transformers.models.reading import Reply

if TYPE_CHECKING:
    from langchain_core.prompt_values import PromptValue

__all__ = [
    "Ask",
    "Done",
    "Talk",
    "aanswered",
    "answered",
    "check_context_size",
    "next_turn",
    "noted",
    "place_of",
    "step",
    "with_note",
]

T = TypeVar("T")


class Ask(NamedTuple):
    """One question: the model, the whole conversation so far, and what else the call takes, such as a token limit."""

    llm: Runnable[Any, Any]
    prompt: "PromptValue"
    options: Mapping[str, Any] = MappingProxyType({})


class Done(NamedTuple, Generic[T]):
    """The end of a talk, and what it came to."""

    result: T


Talk: TypeAlias = Generator[Ask, Reply, T]
"""Questions out, replies in (or a ModelError, raised inside), and in the end a result."""


def step(talk: Talk[T], answer: Reply | ModelError | None = None) -> Ask | Done[T]:
    """The next question of a talk, or what it came to.

    Args:
        talk: The talk.
        answer: What came of its last question; None to begin.

    Raises:
        ModelError: The talk ended with it.
    """
    try:
        if isinstance(answer, ModelError):
            return talk.throw(answer)
        return next(talk) if answer is None else talk.send(answer)
    except StopIteration as end:
        return Done(end.value)


def answered(ask: Ask, config: RunnableConfig) -> Reply | ModelError:
    """Ask a model; a failure of it is an answer too, for the talk to deal with."""
    try:
        return call(ask.llm, ask.prompt, config, **ask.options)
    except ModelError as error:
        return error


async def aanswered(ask: Ask, config: RunnableConfig) -> Reply | ModelError:
    """Ask a model; see :func:`answered`."""
    try:
        return await acall(ask.llm, ask.prompt, config, **ask.options)
    except ModelError as error:
        return error


class _CutPromptError(ContextOverflowError, ReplyError):
    """The reply to a prompt of which the server read only a part, and did not say so."""


def next_turn(prompt: "PromptValue", said: str, text: str) -> "PromptValue":
    """The conversation with what the model said, and what it is told then.

    >>> from langchain_core.prompt_values import StringPromptValue
    >>> [message.type for message in next_turn(StringPromptValue(text="Who?"), "Ada.", "Who else?").to_messages()]
    ['human', 'ai', 'human']
    """
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.prompt_values import ChatPromptValue

    return ChatPromptValue(messages=[*prompt.to_messages(), AIMessage(said), HumanMessage(text)])


def with_note(prompt: "PromptValue", note: str) -> "PromptValue":
    """A prompt of one text with a note at its end."""
    from langchain_core.prompt_values import StringPromptValue

    return StringPromptValue(text=f"{prompt.to_string()}{note}")


def check_context_size(ask: Ask, reply: Reply, error: ReplyError, count: Callable[[str], int]) -> None:
    """Name the likely cause where a server read only the end of a prompt; to ask the same again would be of no use.

    Args:
        ask: What was asked.
        reply: What came, with the tokens that the server read.
        error: What is wrong with it.
        count: Counts tokens.

    Raises:
        ContextOverflowError: The server read less than half of what was sent.
    """
    read = reply.usage.prompt_tokens
    if read and read < (sent := count(ask.prompt.to_string())) / 2:
        cause = f"the server read {read} tokens of a prompt of about {sent}, so its context (num_ctx) is too small"
        raise _CutPromptError(f"{cause}; {error}", reply=error.reply, finish_reason=error.finish_reason) from error


@contextlib.contextmanager
def noted(chunk: Document) -> Iterator[None]:
    """Say of a model's error in which chunk it came up."""
    try:
        yield
    except ModelError as error:
        error.add_note(place_of(chunk))
        raise


def place_of(chunk: Document) -> str:
    """Where a chunk stands, in words.

    >>> place_of(Document("Ada left.", metadata={"source": "a.txt", "chunk": 3})), place_of(Document("Ada left."))
    ('in a.txt, chunk 3', "in the text 'Ada left.'")
    """
    source, number = chunk.metadata.get("source"), chunk.metadata.get("chunk", "?")
    return f"in {source}, chunk {number}" if source else f"in the text {chunk.page_content[:60]!r}"
