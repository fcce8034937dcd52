"""The loop on which every run is carried out, the ways to it from threads and other loops, and work side by side."""

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from langchain_core.runnables import Runnable
from langchain_core.runnables.config import get_config_list
from langchain_core.runnables.utils import Input, Output

from rag_transformers.errors import UsageError, check_count

__all__ = ["InOrder", "arun", "arun_stream", "drained", "run", "run_stream", "together"]

T = TypeVar("T")

_PATIENCE = 30.0  # seconds for what was cancelled to stop: a piece of work in a thread is ended first


class _Loop:
    """The event loop, in a thread of its own, on which every run of this process is carried out.

    Model clients keep connections that belong to the loop that opened them. With one loop for all, an index can be
    used from any number of event loops and threads, a notebook's included.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=[self._loop], name="rag-transformers", daemon=True).start()
            return self._loop

    def _forget(self) -> None:
        """A forked process has the loop but not its thread, and perhaps a lock that nobody will open."""
        self._lock = threading.Lock()
        self._loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):  # raised by a task, which its caller is told of
            loop.run_forever()


_loop = _Loop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Carry out a coroutine and wait for it, from any thread, with or without a running loop.

    Args:
        work: The coroutine; it runs on the library's own loop.

    Raises:
        UsageError: It is called on that loop itself, where it would wait for ever.

    >>> async def two() -> int: return 2
    >>> run(two())
    2
    """
    loop = _loop.get()
    if asyncio._get_running_loop() is loop:
        work.close()
        raise UsageError(
            "a synchronous method was called within an asynchronous one of this library; await its a… form"
        )
    future, ended = _begun_on(loop, work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        ended.wait(_PATIENCE)
        raise


async def arun(work: Coroutine[Any, Any, T]) -> T:
    """Carry out a coroutine on the library's own loop and await it on the caller's."""
    loop = _loop.get()
    if asyncio.get_running_loop() is loop:
        return await work
    future, ended = _begun_on(loop, work)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        await asyncio.to_thread(ended.wait, _PATIENCE)
        raise


def _begun_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> tuple[Future[T], threading.Event]:
    """What a coroutine will give, and the event of its end: a caller who cancels it waits until it has stopped."""
    ended = threading.Event()

    async def watched() -> T:
        try:
            return await work
        finally:
            ended.set()

    return asyncio.run_coroutine_threadsafe(watched(), loop), ended


def run_stream(items: AsyncIterator[T]) -> Iterator[T]:
    """Carry out an asynchronous generator on the library's own loop, and give each item as it comes, in any thread.

    Where the caller stops before the end, so does the generator.

    Args:
        items: The generator.

    Raises:
        UsageError: It is called on that loop itself, where it would wait for ever.

    >>> async def counted() -> AsyncIterator[int]:
    ...     yield 1
    ...     yield 2
    >>> list(run_stream(counted()))
    [1, 2]
    """
    if asyncio._get_running_loop() is _loop.get():
        raise UsageError("a synchronous stream was read within an asynchronous method of this library; use its a… form")
    arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
    future = _filling(items, arrived.put)
    try:
        while (item := arrived.get()) is not _END:
            yield item
        future.result()
    finally:
        future.cancel()


async def arun_stream(items: AsyncIterator[T]) -> AsyncIterator[T]:
    """Carry out an asynchronous generator on the library's own loop, and give each item on the caller's."""
    mine = asyncio.get_running_loop()
    if mine is _loop.get():
        async for item in items:
            yield item
        return
    arrived: asyncio.Queue[Any] = asyncio.Queue()
    future = _filling(items, lambda item: mine.call_soon_threadsafe(arrived.put_nowait, item))
    try:
        while (item := await arrived.get()) is not _END:
            yield item
        await asyncio.wrap_future(future)
    finally:
        future.cancel()


def _filling(items: AsyncIterator[T], put: Callable[[Any], Any]) -> Future[None]:
    """Read an asynchronous generator on the library's loop, in one task; ``_END`` comes last, whatever happens."""

    async def fill() -> None:
        async for item in items:
            put(item)

    def ended(_: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed, and waits for nothing any more
            put(_END)

    future = asyncio.run_coroutine_threadsafe(fill(), _loop.get())
    future.add_done_callback(ended)
    return future


async def together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Pieces of work at one time, and what they give; if one fails, the others are stopped before it goes up.

    Args:
        *work: Coroutines.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class InOrder(Runnable[Input, Output]):
    """A Runnable whose batches begin with the first input: LangChain's start theirs in another order each time.

    So a batch that was stopped has done the first ones, and what is asked of a model comes in reading order.
    """

    async def abatch_as_completed(  # type: ignore[override]
        self, inputs: Sequence[Input], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> AsyncIterator[tuple[int, Output | Exception]]:
        """Each output as soon as it is done, with its number; where the caller stops before the end, so does the rest.

        Args:
            inputs: What is begun in this order, as many at a time as the config's ``max_concurrency`` says.
            config: A config, or one for each input.
            return_exceptions: Whether an error is given out in the place of an output.
            **kwargs: Passed on to ``ainvoke``.

        Raises:
            UsageError: ``max_concurrency`` is below 1.
        """
        configs = get_config_list(config, len(inputs))
        most = configs[0].get("max_concurrency") if configs else None
        places: Any = contextlib.nullcontext()
        if most is not None:
            places = asyncio.Semaphore(check_count("max_concurrency", most))
        arrived: asyncio.Queue[tuple[int, asyncio.Task[Output]]] = asyncio.Queue()

        async def one(number: int) -> Output:
            async with places:
                return await self.ainvoke(inputs[number], configs[number], **kwargs)

        def ended(number: int, task: asyncio.Task[Output]) -> None:
            arrived.put_nowait((number, task))

        tasks = [asyncio.ensure_future(one(number)) for number in range(len(inputs))]
        for number, task in enumerate(tasks):
            task.add_done_callback(partial(ended, number))
        try:
            for _ in tasks:
                number, task = await arrived.get()
                error = None if task.cancelled() else task.exception()
                yield number, error if return_exceptions and isinstance(error, Exception) else task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def drained(results: AsyncIterator[T]) -> AsyncIterator[list[T]]:
    """Results in batches of all that have come, so that one transaction stores what came while the last one ran.

    Where the caller stops before the end, so does what gives the results.
    """
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def fill() -> None:
        async for result in results:
            queue.put_nowait(result)

    filling = asyncio.ensure_future(fill())
    filling.add_done_callback(lambda _: queue.put_nowait(_END))
    try:
        ended = False
        while not ended:
            batch = [await queue.get()]
            while not queue.empty():
                batch.append(queue.get_nowait())
            ended = any(result is _END for result in batch)
            if batch := [result for result in batch if result is not _END]:
                yield batch
        await filling  # raises what stopped it
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)


_END: Any = object()
