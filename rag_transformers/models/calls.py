"""A call of a model, whole or piece by piece: the one way to it.

Every model call of the library goes through :func:`call`, :func:`acall`, :func:`stream` or :func:`astream`, so that
cleaning, counting, limits and errors have one home.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.errors import ModelBusyError, ModelError, ModelUnreachableError
from rag_transformers.models.faults import Patience, error_line, model_error
from rag_transformers.models.given import retries
from rag_transformers.models.reading import Reply, read_message, text_of, usage_of
from rag_transformers.models.run import NOT_ASKED, Run, current_run
from rag_transformers.models.streaming import Heard
from rag_transformers.text import encodable

__all__ = [
    "acall",
    "astream",
    "call",
    "stream",
]

_log = logging.getLogger(__name__)

_NONE = Patience(0)  # of a stream that has begun: what was shown cannot be taken back


def call(llm: Runnable[Any, Any], prompt: Any, config: RunnableConfig | None = None, **options: Any) -> Reply:
    """Ask a model once, within the limit of the current run.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text.
        prompt: What it takes: a prompt value, a list of messages, or a text.
        config: The caller's config, so that callbacks see the call under its stage.
        **options: Passed on to the model's ``invoke``.

    Raises:
        ModelUnreachableError: No server, a refused key, or an unknown model; or an earlier call stopped the run.
        ModelBusyError: The server failed, had no room, or did not answer in time, and so in all tries.
        ContextOverflowError: The prompt is longer than the model takes.
        ReplyError: A refusal, a content filter, or an empty reply.
        ModelError: Any other failure of the call.

    A model without retries of its own (no ``max_retries``, as LangChain's models call it) is asked again: up to
    ``RETRIES`` times after a rate limit, a failure of the server or a lost connection, once after a timeout. A
    Retry-After of up to ``faults.LONGEST_WAIT`` seconds is kept to. Whoever waits keeps its place among the calls in
    flight: given back, the place would send the next call into the same limit.
    """
    run, patience, sent = current_run(), Patience(retries(llm)), _sendable(prompt)
    with run.thread_slot() if run else contextlib.nullcontext(), _told(run):
        while True:
            try:
                message = llm.invoke(sent, config, **options)
                break
            except Exception as error:
                (run.pause if run else time.sleep)(_pause(patience, error))
                _check_going_on(run, error, patience)
    return _counted(message)


async def acall(llm: Runnable[Any, Any], prompt: Any, config: RunnableConfig | None = None, **options: Any) -> Reply:
    """Ask a model once, within the limit of the current run; see :func:`call`."""
    run, patience, sent = current_run(), Patience(retries(llm)), _sendable(prompt)
    async with run.slot() if run else contextlib.nullcontext():
        with _told(run):
            while True:
                try:
                    message = await llm.ainvoke(sent, config, **options)
                    break
                except Exception as error:
                    await (run.apause if run else asyncio.sleep)(_pause(patience, error))
                    _check_going_on(run, error, patience)
    return _counted(message)


def stream(
    llm: Runnable[Any, Any], prompt: Any, config: RunnableConfig | None = None, **options: Any
) -> Iterator[str | Reply]:
    """Ask a model once, and give the text of its reply as it comes; the last item is the whole :class:`Reply`.

    Reasoning is in no piece: what may be the beginning of some is held back until it is clear. Only where a server
    leaves out the opening tag, reasoning cannot be told from text before its closing tag comes; the reply is clean.

    Args:
        llm: A chat model, or any Runnable in its place; one that cannot stream gives its reply in one piece.
        prompt: What it takes: a prompt value, a list of messages, or a text.
        config: The caller's config.
        **options: Passed on to the model's ``stream``.

    Raises:
        ModelError: As for :func:`call`; pieces may have come before.

    >>> from langchain_core.runnables import RunnableLambda
    >>> list(stream(RunnableLambda(lambda prompt: "<think>Hm.</think>Ada."), "Who?"))[0]
    'Ada.'
    """
    run, patience, sent = current_run(), Patience(retries(llm)), _sendable(prompt)
    heard, ended = Heard(), False
    with run.thread_slot() if run else contextlib.nullcontext(), _told(run):
        while not ended:
            try:
                for message in llm.stream(sent, config, **options):
                    patience = _NONE
                    if piece := heard.add(message, text_of(message)):
                        yield piece
                ended = True
            except Exception as error:
                (run.pause if run else time.sleep)(_pause(patience, error))
                _check_going_on(run, error, patience)
    yield from heard.end(_counted(heard.message()))


async def astream(
    llm: Runnable[Any, Any], prompt: Any, config: RunnableConfig | None = None, **options: Any
) -> AsyncIterator[str | Reply]:
    """Ask a model once, and give the text of its reply as it comes; see :func:`stream`."""
    run, patience, sent = current_run(), Patience(retries(llm)), _sendable(prompt)
    heard, ended = Heard(), False
    async with run.slot() if run else contextlib.nullcontext():
        with _told(run):
            while not ended:
                try:
                    async for message in llm.astream(sent, config, **options):
                        patience = _NONE
                        if piece := heard.add(message, text_of(message)):
                            yield piece
                    ended = True
                except Exception as error:
                    await (run.apause if run else asyncio.sleep)(_pause(patience, error))
                    _check_going_on(run, error, patience)
    for item in heard.end(_counted(heard.message())):
        yield item


def _sendable(prompt: Any) -> Any:
    """A prompt without halves of surrogate pairs, which no client can encode; nearly always the prompt itself."""
    text = prompt if isinstance(prompt, str) else prompt.to_string() if hasattr(prompt, "to_string") else ""
    try:
        text.encode()
    except UnicodeEncodeError:
        if isinstance(prompt, str):
            return encodable(prompt)
        return [
            message.model_copy(update={"content": encodable(message.content)})
            if isinstance(message.content, str)
            else message
            for message in prompt.to_messages()
        ]
    return prompt


def _counted(message: Any) -> Reply:
    if run := current_run():
        run.spent(usage_of(message))
    return read_message(message)


@contextlib.contextmanager
def _told(run: Run | None) -> Iterator[None]:
    """Tell the run what a call comes to, and ask nothing more in one that was stopped: it would be in vain."""
    _check_going_on(run)
    try:
        yield
    except ModelUnreachableError as error:
        if run:
            run.stop(error)
        raise
    except ModelBusyError as error:
        if run:
            run.failed(error)
        raise
    except ModelError:
        if run:
            run.answered()
        raise
    if run:
        run.answered()


def _check_going_on(run: Run | None, error: Exception | None = None, patience: Patience = _NONE) -> None:
    """Go no further in a run that was stopped; a call that was tried already ends with what came of it."""
    if run and run.stopped is not None:
        if error is not None:
            raise model_error(error, patience.tries - 1) from error  # the next one was waited for, and is not made
        raise ModelUnreachableError(f"{NOT_ASKED}{run.stopped}")


def _pause(patience: Patience, error: Exception) -> float:
    """Seconds to the next try; where there is to be none, the error goes up."""
    if isinstance(error, ModelError):
        raise error
    seconds = patience.pause(error)
    if seconds is None:
        raise model_error(error, patience.tries) from error
    _log.info("asking again in %.1f s: %s", seconds, error_line(error))
    return seconds
