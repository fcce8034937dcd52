"""One limit for a run, kept by threads and coroutines alike; one loop for the process, from any loop or thread."""

import asyncio
import contextvars
import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from scripted_model import ScriptedChatModel

from rag_transformers.concurrency import arun, run
from rag_transformers.errors import ModelError, UsageError
from rag_transformers.models.calls import acall, call
from rag_transformers.models.run import Run, Usage, current_run


def model(delay: float = 0.01) -> ScriptedChatModel:
    return ScriptedChatModel(reply=lambda prompt: f"Seen: {prompt}", delay=delay)


async def nested(llm: Any, outer: int, inner: int) -> list[str]:
    """Batches of batches, each level as wide as it likes."""

    async def one(prompt: str) -> str:
        return (await acall(llm, prompt)).text

    async def many(number: int) -> list[str]:
        return await RunnableLambda(one).abatch([f"{number}-{i}" for i in range(inner)])

    return [text for texts in await asyncio.gather(*map(many, range(outer))) for text in texts]


@pytest.mark.parametrize("concurrency", [1, 3, 16])
async def test_the_limit_is_kept_over_nested_batches(concurrency: int) -> None:
    llm = model()
    with Run(concurrency).active():
        texts = await nested(llm, 5, 8)
    assert sorted(texts) == sorted(f"Seen: {i}-{j}" for i in range(5) for j in range(8))
    assert llm.peak == concurrency


async def test_without_a_run_nothing_is_limited() -> None:
    llm = model()
    await nested(llm, 5, 8)
    assert llm.peak == 40


def test_the_limit_is_kept_by_threads_too() -> None:
    llm = model()
    with Run(3).active():
        asked: RunnableLambda[str, str] = RunnableLambda(lambda prompt: call(llm, prompt).text)
        asked.batch([str(i) for i in range(20)], {"max_concurrency": 12})
    assert llm.peak == 3


async def test_threads_and_coroutines_share_one_limit() -> None:
    llm = model()

    async def in_thread(number: int) -> str:
        return (await asyncio.to_thread(call, llm, f"thread {number}")).text

    with Run(4).active():
        await asyncio.gather(nested(llm, 4, 5), *map(in_thread, range(10)))
    assert llm.peak == 4
    assert len(llm.prompts) == 30


async def test_a_blocking_call_on_the_loop_itself_does_not_wait_for_the_loops_own_calls() -> None:
    llm = model()
    with Run(1).active() as active:
        async with active.slot():
            assert call(llm, "now").text == "Seen: now"


async def test_a_place_is_given_back_after_errors() -> None:
    llm = ScriptedChatModel(reply=lambda prompt: ValueError("broken"))
    fine = model()
    with Run(2).active():
        for _ in range(5):
            with pytest.raises(ModelError, match="broken"):
                await acall(llm, "x")
            with pytest.raises(ModelError, match="broken"):
                await asyncio.to_thread(call, llm, "x")
        await nested(fine, 2, 3)
    assert fine.peak == 2


async def test_a_place_is_given_back_by_cancelled_calls_whether_they_had_it_or_waited_for_it() -> None:
    llm = model(delay=0.05)
    with Run(2).active():
        calls = [asyncio.create_task(acall(llm, str(i))) for i in range(8)]
        await asyncio.sleep(0.02)
        for task in calls[1:6]:
            task.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(result, asyncio.CancelledError) for result in results] == [False, *[True] * 5, False, False]
        await asyncio.wait_for(nested(llm, 1, 4), 2)
    assert llm.peak == 2


async def test_places_survive_a_storm_of_cancellations() -> None:
    slots = Run(3)
    inside = most = 0

    async def visit(number: int) -> None:
        nonlocal inside, most
        async with slots.slot():
            inside += 1
            most = max(most, inside)
            try:
                await asyncio.sleep(number % 3 / 1000)
            finally:
                inside -= 1

    for round in range(20):
        visits = [asyncio.create_task(visit(number)) for number in range(12)]
        await asyncio.sleep(round % 5 / 1000)
        for task in visits[round % 4 :: 2]:
            task.cancel()
        await asyncio.gather(*visits, return_exceptions=True)
    assert most == 3
    await asyncio.wait_for(asyncio.gather(*map(visit, range(6))), 2)


async def test_the_usage_of_all_calls_is_added_up_and_told() -> None:
    told: list[Usage] = []
    llm = model()
    with Run(4, told.append).active() as active:
        await nested(llm, 2, 3)
        await asyncio.to_thread(call, llm, "last")
    asked = sum(len(prompt.encode()) for prompt in llm.prompts)
    assert active.usage == Usage(7, asked, asked + 7 * len("Seen: "))
    assert told[-1] == active.usage
    assert [usage.calls for usage in told] == list(range(1, 8))


async def test_the_usage_of_a_reply_that_cannot_be_used_counts() -> None:
    llm = ScriptedChatModel(reply=lambda prompt: "   ")
    with Run().active() as active, pytest.raises(ModelError, match="empty"):
        await acall(llm, "what?")
    assert active.usage == Usage(1, 5, 3)


def test_a_run_is_found_only_while_it_is_active() -> None:
    assert current_run() is None
    with Run().active() as outer:
        with Run().active() as inner:
            assert current_run() is inner
        assert current_run() is outer
    assert current_run() is None


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "4", None])
def test_a_concurrency_that_is_no_count_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"concurrency .*at least 1"):
        Run(value)


async def where() -> tuple[str, str]:
    await asyncio.sleep(0)
    return threading.current_thread().name, str(id(asyncio.get_running_loop()))


def test_run_works_from_a_thread_without_a_loop() -> None:
    name, loop = run(where())
    assert name == "rag-transformers"
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: run(where()), range(8))) == {(name, loop)}


async def test_run_works_where_a_loop_is_running() -> None:
    """As in a notebook's cell."""
    assert run(where())[0] == "rag-transformers"


def test_arun_works_from_one_loop_and_then_another() -> None:
    llm = model(delay=0.001)

    async def cell() -> tuple[str, str]:
        await arun(nested(llm, 2, 2))
        return await arun(where())

    with Run(2).active():
        assert asyncio.run(cell()) == asyncio.run(cell())
    assert llm.peak == 2


def test_a_run_goes_with_the_work_to_the_librarys_loop() -> None:
    async def found() -> Run | None:
        return current_run()

    with Run().active() as active:
        assert run(found()) is active
        assert asyncio.run(arun(found())) is active


def test_errors_come_out_of_run_and_arun_as_they_are() -> None:
    async def fails() -> None:
        raise ModelError("no")

    with pytest.raises(ModelError, match="no"):
        run(fails())
    with pytest.raises(ModelError, match="no"):
        asyncio.run(arun(fails()))


def test_cancelling_what_awaits_cancels_the_work() -> None:
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def impatient() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(arun(work()), 0.05)

    asyncio.run(impatient())
    assert cancelled.wait(2)


def test_run_inside_the_librarys_own_loop_is_an_error_and_not_a_standstill() -> None:
    async def wrong() -> None:
        run(where())

    with pytest.raises(UsageError, match="await"):
        run(wrong())


def test_arun_inside_the_librarys_own_loop_goes_on_there() -> None:
    async def inner() -> tuple[str, str]:
        return await arun(where())

    assert run(inner()) == run(where())


def test_context_variables_of_the_caller_are_seen() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="")

    async def seen() -> str:
        return name.get()

    name.set("Ada")
    assert run(seen()) == "Ada"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_gets_a_loop_of_its_own() -> None:
    run(where())
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(run(where())[0]), daemon=True)
    child.start()
    child.join(10)
    assert child.exitcode == 0
    assert answers.get() == "rag-transformers"


def test_waiting_calls_are_served_in_the_order_in_which_they_came() -> None:
    served: list[int] = []
    slots = Run(1)

    def visit(number: int) -> None:
        with slots.thread_slot():
            served.append(number)

    with slots.thread_slot():
        threads = []
        for number in range(6):
            threads.append(threading.Thread(target=visit, args=(number,)))
            threads[-1].start()
            while len(slots._slots._waiting) <= number:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert served == list(range(6))


async def test_what_no_call_waits_for_begins_when_the_places_are_taken() -> None:
    """``begun`` returns once every place is taken, and stays so; a run without calls lets it go on by ``begin``."""
    active = Run(concurrency=2)
    waiting = asyncio.ensure_future(active.begun())
    async with active.slot():
        await asyncio.sleep(0.01)
        assert not waiting.done()
        async with active.slot():
            await asyncio.wait_for(waiting, 1)
    await asyncio.wait_for(active.begun(), 1)
    idle = Run(concurrency=2)
    idle.begin()
    idle.begin()
    await asyncio.wait_for(idle.begun(), 1)


async def test_who_gives_up_waiting_for_the_first_call_takes_nothing_from_others() -> None:
    """A cancelled wait leaves the others waiting, and ``begin`` still works."""
    active = Run(concurrency=1)
    first, second = (asyncio.ensure_future(active.begun()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    assert (first.cancelled(), second.done()) == (True, False)
    active.begin()
    await asyncio.wait_for(second, 1)
