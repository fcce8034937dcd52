"""Runs that callbacks see: what an index does is a run with a name, and all that it asks models stands under it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig, RunnableGenerator, RunnableLambda

__all__ = ["traced", "traced_stream"]

T = TypeVar("T")


async def traced(name: str, work: Callable[[], Awaitable[T]], given: Any, config: RunnableConfig | None = None) -> T:
    """Carry out work as a run with a name: its callbacks, tags and metadata hold for every call inside.

    Args:
        name: What callbacks are told that it is.
        work: The work; stages and models in it find the run by themselves.
        given: What callbacks are told that it was given.
        config: The caller's config; without one that of the run around it, where there is one.

    >>> import asyncio
    >>> async def two() -> int: return 2
    >>> asyncio.run(traced("counting", two, "one"))
    2
    """

    async def carried_out(_: Any) -> T:
        return await work()

    run: Runnable[Any, T] = RunnableLambda(carried_out, name=name)
    return await run.ainvoke(given, config)


def traced_stream(
    name: str, items: Callable[[], AsyncIterator[T]], given: Any, config: RunnableConfig | None = None
) -> AsyncIterator[T]:
    """Give the items of a generator as they come, as a run with a name; see :func:`traced`."""

    async def carried_out(_: AsyncIterator[Any]) -> AsyncIterator[T]:
        async for item in items():
            yield item

    return RunnableGenerator(carried_out, name=name).astream(given, config)
