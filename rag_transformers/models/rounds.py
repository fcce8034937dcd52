"""Work that asks a model in rounds: the questions of one round in parallel, then what they came to decides the next.

A stage writes its work once, as a generator that yields rounds and is sent replies; :func:`run_rounds` and
:func:`arun_rounds` drive it, so that sync and async share all else.
"""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import Future, as_completed
from typing import Any, TypeAlias, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ContextThreadPoolExecutor

from rag_transformers.errors import ModelError, check_count
from rag_transformers.models.conversation import Ask, Done, aanswered, answered
from rag_transformers.models.reading import Reply
from rag_transformers.models.run import Run, current_run

__all__ = ["Answers", "Rounds", "alimited_items", "arun_rounds", "limited", "limited_items", "run_rounds"]

T = TypeVar("T")

CONCURRENCY = 16
"""Calls in flight where neither the config nor the run says."""

Answers: TypeAlias = list[Reply | ModelError]
"""What came of one round, in the order of its questions."""

Rounds: TypeAlias = Generator[Sequence[Ask], Answers, T]
"""Rounds of questions out, their answers in, and in the end a result."""


def run_rounds(work: Rounds[T], config: RunnableConfig, *, stop_at_error: bool = False) -> T:
    """Carry out work that asks in rounds; to be called within ``_call_with_config``, with the config that it gives.

    Args:
        work: The work; a question that failed is answered by its error.
        config: Its ``max_concurrency`` calls are in flight at once; where it names none, those of the run, else 16.
        stop_at_error: Whether the first failed call ends the work: what has not been asked by then is not asked, and
            the error is raised inside the work.

    Raises:
        ModelError: The work ended with it.

    >>> from langchain_core.prompt_values import StringPromptValue
    >>> from langchain_core.runnables import RunnableLambda
    >>> def shout(*words: str) -> Rounds[list[str]]:
    ...     llm = RunnableLambda(lambda prompt: prompt.to_string().upper())
    ...     replies = yield [Ask(llm, StringPromptValue(text=word)) for word in words]
    ...     return [reply.text for reply in replies]
    >>> run_rounds(shout("ada", "bo"), {})
    ['ADA', 'BO']
    """
    given = _step(work, None)
    while not isinstance(given, Done):
        try:
            answers: Answers | ModelError = _asked(given, config, stop_at_error)
        except ModelError as error:
            answers = error
        given = _step(work, answers)
    result: T = given.result
    return result


async def arun_rounds(work: Rounds[T], config: RunnableConfig, *, stop_at_error: bool = False) -> T:
    """Carry out work that asks in rounds; see :func:`run_rounds`. What the work does itself leaves the loop free."""
    given = await asyncio.to_thread(_step, work, None)
    while not isinstance(given, Done):
        try:
            answers: Answers | ModelError = await _aasked(given, config, stop_at_error)
        except ModelError as error:
            answers = error
        given = await asyncio.to_thread(_step, work, answers)
    result: T = given.result
    return result


@contextlib.contextmanager
def limited(config: Any) -> Iterator[None]:
    """Let ``max_concurrency`` of a batch's config hold for all calls of its inputs, not for each input's own.

    Args:
        config: A config, one for each input, or None; the first that there is counts, as in LangChain.
    """
    first = (config[0] if config else None) if isinstance(config, Sequence) else config
    most = (first or {}).get("max_concurrency")
    if most is None or current_run() is not None:
        yield
        return
    with Run(check_count("max_concurrency", most)).active():
        yield


def limited_items(config: Any, items: Iterator[T]) -> Iterator[T]:
    """The items of a batch as they come, under :func:`limited`; what the caller does between them is not."""
    context, limit = contextvars.copy_context(), contextlib.ExitStack()
    context.run(limit.enter_context, limited(config))
    try:
        while (item := context.run(next, items, _END)) is not _END:
            yield cast(T, item)
    finally:
        context.run(limit.close)


async def alimited_items(config: Any, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """The items of a batch as they come; see :func:`limited_items`."""

    async def come() -> Any:
        return await anext(items, _END)

    context, limit = contextvars.copy_context(), contextlib.ExitStack()
    context.run(limit.enter_context, limited(config))
    try:
        while (item := await asyncio.create_task(come(), context=context)) is not _END:
            yield cast(T, item)
    finally:
        context.run(limit.close)


_END: Any = object()


def _step(work: Rounds[T], answers: Answers | ModelError | None) -> Sequence[Ask] | Done[T]:
    try:
        if isinstance(answers, ModelError):
            return work.throw(answers)
        return next(work) if answers is None else work.send(answers)
    except StopIteration as end:
        return Done(end.value)


def _width(asks: Sequence[Ask], config: RunnableConfig) -> int:
    most, run = config.get("max_concurrency"), current_run()
    limit = CONCURRENCY if run is None else run.concurrency
    return max(1, min(len(asks), limit if most is None else check_count("max_concurrency", most)))


def _asked(asks: Sequence[Ask], config: RunnableConfig, stop_at_error: bool) -> Answers:
    """One round, in threads; all of them have ended when it returns or raises."""
    with ContextThreadPoolExecutor(max_workers=_width(asks, config)) as executor:
        futures = [executor.submit(answered, ask, config) for ask in asks]
        try:
            if stop_at_error:
                _raise_first(futures)
            return [future.result() for future in futures]
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _raise_first(futures: list[Future[Reply | ModelError]]) -> None:
    for future in as_completed(futures):
        if isinstance(answer := future.result(), ModelError):
            raise answer


async def _aasked(asks: Sequence[Ask], config: RunnableConfig, stop_at_error: bool) -> Answers:
    """One round, in tasks; all of them have ended when it returns or raises."""
    places = asyncio.Semaphore(_width(asks, config))

    async def ask_one(ask: Ask) -> Reply | ModelError:
        async with places:
            return await aanswered(ask, config)

    tasks = [asyncio.create_task(ask_one(ask)) for ask in asks]
    try:
        if stop_at_error:
            for task in asyncio.as_completed(tasks):
                if isinstance(answer := await task, ModelError):
                    raise answer
        return await asyncio.gather(*tasks)
    finally:
        for pending in tasks:
            pending.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
