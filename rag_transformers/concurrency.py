"""One run over several stages: its limit on model calls in flight, what they cost, and the loop that it runs on."""

import asyncio
import contextlib
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from rag_transformers.errors import ModelUnreachableError, UsageError, check_count

__all__ = ["Run", "Usage", "arun", "arun_stream", "current_run", "drained", "run", "run_stream", "together"]

T = TypeVar("T")

_PATIENCE = 30.0  # seconds for what was cancelled to stop: a piece of work in a thread is ended first
_FEWEST = 3  # calls that came to nothing, before a run is stopped for it

_current: contextvars.ContextVar["Run | None"] = contextvars.ContextVar("rag_transformers_run", default=None)


@dataclass(frozen=True)
class Usage:
    """What model calls cost: calls, and tokens as the server counted them (0 where it does not say).

    >>> Usage(1, 20, 5) + Usage(2, 10, 5)
    Usage(calls=3, prompt_tokens=30, completion_tokens=10)
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """The sum of two usages."""
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        """What was spent since another usage."""
        return Usage(
            self.calls - other.calls,
            self.prompt_tokens - other.prompt_tokens,
            self.completion_tokens - other.completion_tokens,
        )


class _Slots:
    """A number of places, given to threads and coroutines alike in the order in which they came."""

    def __init__(self, number: int) -> None:
        self.free = number
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    def take(self) -> Future[None]:
        """A place, which is the caller's as soon as the future is done."""
        place: Future[None] = Future()
        with self._lock:
            if self.free:
                self.free -= 1
                place.set_result(None)
            else:
                self._waiting.append(place)
        return place

    def give(self) -> None:
        """Hand a place to the next who still waits for one."""
        with self._lock:
            while self._waiting:
                place = self._waiting.popleft()
                if place.set_running_or_notify_cancel():
                    break
            else:
                self.free += 1
                return
        place.set_result(None)

    def abandon(self, place: Future[None]) -> None:
        """Wait for a place no longer; one that was granted meanwhile goes to the next."""
        if not place.cancel():
            self.give()


class Run:
    """One run over all stages: at most so many model calls in flight at once, and what they have cost so far.

    LangChain's ``max_concurrency`` holds for one batch call and multiplies when batches nest; this one does not.

    Args:
        concurrency: Calls in flight, at least 1.
        on_usage: Called after each model call with the usage so far.

    Raises:
        UsageError: ``concurrency`` is below 1.
    """

    def __init__(self, concurrency: int = 16, on_usage: Callable[[Usage], None] | None = None) -> None:
        self.concurrency = check_count("concurrency", concurrency)
        self.usage = Usage()
        self.stopped: Exception | None = None
        self._on_usage = on_usage
        self._lock = threading.Lock()
        self._slots = _Slots(concurrency)
        self._begun: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._failures = 0

    def begin(self) -> None:
        """Let those go on who wait for the first call, or for its being known that there is none."""
        with self._lock:
            if not self._begun.done():
                self._begun.set_result(None)

    async def begun(self) -> None:
        """Wait until the first call is out: what no call waits for can be done meanwhile."""
        await asyncio.shield(asyncio.wrap_future(self._begun))

    @contextlib.contextmanager
    def active(self) -> Iterator["Run"]:
        """Make this the run that stages below find."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """One place among the calls in flight, for a coroutine; always given back."""
        place = self._slots.take()
        if not self._slots.free:
            self.begin()
        try:
            if not place.done():
                await asyncio.wrap_future(place)
        except BaseException:
            self._slots.abandon(place)
            raise
        try:
            yield
        finally:
            self._slots.give()

    @contextlib.contextmanager
    def thread_slot(self) -> Iterator[None]:
        """One place among the calls in flight, for a thread; always given back."""
        if asyncio._get_running_loop() is not None:
            # The loop stands still meanwhile: to wait here for a place that one of its coroutines holds is for ever.
            yield
            return
        place = self._slots.take()
        try:
            place.result()
        except BaseException:
            self._slots.abandon(place)
            raise
        try:
            yield
        finally:
            self._slots.give()

    def stop(self, error: Exception) -> None:
        """Ask no more: this error would meet every further call too. Those who wait for their next try are woken."""
        with self._lock:
            self.stopped = self.stopped or error
            if not self._ended.done():
                self._ended.set_result(None)

    def failed(self, error: Exception) -> None:
        """Note a call in which the server failed, and stop when nothing speaks for it any more.

        That is when as many calls in a row came to nothing as may be in flight, though each was tried again: then all
        that can be asked at one time met it, and to go on would cost the timeout for every chunk that is left. A few
        bad chunks in a small run do not stop it: fewer than three are never enough.
        """
        with self._lock:
            self._failures += 1
            count = self._failures
        if count >= max(self.concurrency, _FEWEST):
            self.stop(ModelUnreachableError(f"{count} calls in a row came to nothing, the last one with: {error}"))

    def answered(self) -> None:
        """Note that the server gave an answer, be it a refusal."""
        self._failures = 0

    def pause(self, seconds: float) -> None:
        """Wait in a thread, but no longer than the run goes on."""
        wait([self._ended], seconds)

    async def apause(self, seconds: float) -> None:
        """Wait in a coroutine, but no longer than the run goes on."""
        await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=seconds)

    def spent(self, usage: Usage) -> None:
        """Add what a call cost."""
        with self._lock:
            self.usage += usage
            total = self.usage
        if self._on_usage:
            self._on_usage(total)


def current_run() -> Run | None:
    """The run that this stage is part of, or None where it is used by itself."""
    return _current.get()


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
