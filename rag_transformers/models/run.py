"""One run over several stages: its limit on model calls in flight, what they cost, and when it stops asking."""

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass

from rag_transformers.errors import ModelUnreachableError, check_count

__all__ = ["NOT_ASKED", "Run", "Usage", "current_run"]

NOT_ASKED = "not asked, since an earlier call failed: "
"""How it is told that a run was stopped before a call was made; the reason follows."""

_FEWEST = 3  # calls that came to nothing, before a run is stopped for it

_current: contextvars.ContextVar["Run | None"] = contextvars.ContextVar("rag_transformers_run", default=None)


@dataclass(frozen=True)
class Usage:
    """What model calls cost: calls, and tokens as the server counted them (0 where it does not say).

    >>> Usage(1, 20, 5) + Usage(2, 10, 5)
    Usage(calls=3, prompt_tokens=30, completion_tokens=10)
    >>> print(Usage(3, 1030, 10)), print(Usage(3))
    3 calls, 1,030 + 10 tokens
    3 calls, tokens not told by the server
    (None, None)
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Those of prompts and replies; 0 where the server does not say."""
        return self.prompt_tokens + self.completion_tokens

    def __str__(self) -> str:
        """What was spent, in words."""
        calls = f"{self.calls} call{'' if self.calls == 1 else 's'}"
        told = f"{self.prompt_tokens:,} + {self.completion_tokens:,} tokens"
        return f"{calls}, {told if self.tokens else 'tokens not told by the server'}"

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
