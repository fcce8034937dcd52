"""Work in rounds: the same in sync and async, in parallel within the limit, in order, and nothing left behind."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.prompt_values import StringPromptValue
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from scripted_model import ScriptedChatModel

from rag_transformers import Summary
from rag_transformers.errors import ModelError, ReplyError, UsageError
from rag_transformers.models.conversation import Ask
from rag_transformers.models.reading import Reply
from rag_transformers.models.rounds import CONCURRENCY, Rounds, arun_rounds, limited, run_rounds
from rag_transformers.models.run import Run, current_run

Drive = Callable[..., Any]


def in_loop(work: Rounds[Any], config: RunnableConfig, **options: Any) -> Any:
    return asyncio.run(arun_rounds(work, config, **options))


BOTH = pytest.mark.parametrize("drive", [run_rounds, in_loop])


def asks(llm: Runnable[Any, Any], *words: str) -> list[Ask]:
    return [Ask(llm, StringPromptValue(text=word)) for word in words]


def one_round(llm: Runnable[Any, Any], *words: str) -> Rounds[list[Reply | ModelError]]:
    return (yield asks(llm, *words))


def failing_at(*bad: str) -> ScriptedChatModel:
    def reply(prompt: str) -> str | Exception:
        return RuntimeError(f"no {prompt}") if prompt in bad else prompt.upper()

    return ScriptedChatModel(reply=reply)


@BOTH
def test_replies_come_in_the_order_of_the_questions(drive: Drive) -> None:
    def slow_first(prompt: str) -> str:
        time.sleep(0.05 if prompt == "a" else 0)
        return prompt.upper()

    answers = drive(one_round(ScriptedChatModel(reply=slow_first), "a", "b", "c"), {})
    assert [answer.text for answer in answers] == ["A", "B", "C"]


@BOTH
def test_what_came_of_a_round_decides_the_next(drive: Drive) -> None:
    model = ScriptedChatModel(reply=lambda prompt: prompt + "!")

    def work() -> Rounds[str]:
        text = "a"
        while len(text) < 4:
            (reply,) = yield asks(model, text)
            assert isinstance(reply, Reply)
            text = reply.text
        return text

    assert drive(work(), {}) == "a!!!"
    assert model.prompts == ["a", "a!", "a!!"]


@BOTH
def test_work_that_asks_nothing_ends_at_once(drive: Drive) -> None:
    def work() -> Rounds[str]:
        yield from ()
        return "done"

    assert drive(work(), {}) == "done"


@BOTH
@pytest.mark.parametrize(("config", "most"), [({"max_concurrency": 3}, 3), ({}, CONCURRENCY)])
def test_as_many_calls_are_in_flight_as_the_config_says(drive: Drive, config: RunnableConfig, most: int) -> None:
    model = ScriptedChatModel(reply=str.upper, delay=0.03)
    drive(one_round(model, *map(str, range(40))), config)
    assert 1 < model.peak <= most


@BOTH
def test_the_limit_of_the_run_holds(drive: Drive) -> None:
    model = ScriptedChatModel(reply=str.upper, delay=0.02)
    with Run(2).active() as run:
        drive(one_round(model, *"abcdefgh"), {})
    assert model.peak == 2
    assert run.usage.calls == 8


@BOTH
@pytest.mark.parametrize("wrong", [0, -1, True, 1.5])
def test_another_concurrency_is_refused(drive: Drive, wrong: Any) -> None:
    model = ScriptedChatModel(reply=str.upper)
    with pytest.raises(UsageError, match="max_concurrency"):
        drive(one_round(model, "a"), {"max_concurrency": wrong})
    assert not model.calls


@BOTH
def test_options_reach_the_call(drive: Drive) -> None:
    model = ScriptedChatModel(reply=str.upper)

    def work() -> Rounds[Any]:
        return (yield [Ask(model, StringPromptValue(text="a"), {"max_tokens": 7})])

    drive(work(), {})
    assert model.calls[0].settings["max_tokens"] == 7


class TestFailures:
    @BOTH
    def test_they_are_answers_to_their_questions(self, drive: Drive) -> None:
        first, second, third = drive(one_round(failing_at("b"), "a", "b", "c"), {})
        assert (first.text, third.text) == ("A", "C")
        assert isinstance(second, ModelError)
        assert "no b" in str(second)

    @BOTH
    def test_the_first_one_ends_the_work_where_it_is_told_to(self, drive: Drive) -> None:
        model = failing_at("0")
        words = map(str, range(200))
        with pytest.raises(ModelError, match="no 0"):
            drive(one_round(model, *words), {"max_concurrency": 2}, stop_at_error=True)
        asked = len(model.calls)
        assert asked < 100
        time.sleep(0.05)
        assert len(model.calls) == asked, "nothing goes on behind the caller's back"

    @BOTH
    def test_the_work_can_deal_with_the_one_that_ended_its_round(self, drive: Drive) -> None:
        model = failing_at("a")

        def work() -> Rounds[str]:
            try:
                yield asks(model, "a")
            except ModelError as error:
                (reply,) = yield asks(model, "b")
                assert isinstance(reply, Reply)
                return f"{reply.text} after {error}"
            return ""

        assert drive(work(), {}, stop_at_error=True).startswith("B after")

    @BOTH
    def test_an_error_of_the_work_itself_goes_to_the_caller(self, drive: Drive) -> None:
        def work() -> Rounds[str]:
            yield asks(failing_at(), "a")
            raise ReplyError("not what was asked for")

        with pytest.raises(ReplyError, match="not what"):
            drive(work(), {})


async def test_calls_end_with_the_caller() -> None:
    ended = []

    async def hang(prompt: Any) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(prompt)
        return ""

    model = RunnableLambda(lambda prompt: "", afunc=hang)
    task = asyncio.create_task(arun_rounds(one_round(model, *"abc"), {}))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(ended) == 3
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_threads_end_with_the_round() -> None:
    before = threading.active_count()
    run_rounds(one_round(failing_at("b"), *"abcdefgh"), {})
    assert threading.active_count() == before


async def test_what_the_work_does_itself_leaves_the_loop_free() -> None:
    def work() -> Rounds[str]:
        time.sleep(0.2)
        yield from ()
        return "done"

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    assert await arun_rounds(work(), {}) == "done"
    ticking.cancel()
    assert ticks > 3


class TestLimited:
    @pytest.mark.parametrize("config", [{"max_concurrency": 2}, [{"max_concurrency": 2}, {}]])
    def test_one_limit_for_all_inputs_of_a_batch(self, config: Any) -> None:
        model = ScriptedChatModel(reply=str.upper, delay=0.02)
        threads = []
        with limited(config):
            import contextvars

            for _ in range(3):
                context = contextvars.copy_context()
                work = one_round(model, *"abc")
                threads.append(threading.Thread(target=context.run, args=(run_rounds, work, {"max_concurrency": 2})))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(model.calls) == 9
        assert model.peak <= 2

    @pytest.mark.parametrize("config", [None, {}, [], [{}]])
    def test_none_where_the_config_has_none(self, config: Any) -> None:
        from rag_transformers.models.run import current_run

        with limited(config):
            assert current_run() is None


class TestAsCompleted:
    """``max_concurrency`` holds over all inputs where each is given out as soon as it is done, and not beyond."""

    @pytest.fixture
    def given(self) -> list[Any]:
        return [[f"{place} {part} " + "word " * 250 for part in range(4)] for place in range(4)]

    def test_in_threads(self, given: list[Any]) -> None:
        model = ScriptedChatModel(reply=lambda prompt: "Short.", delay=0.02)
        done = []
        for number, summary in Summary(model).batch_as_completed(given, {"max_concurrency": 3}):
            assert current_run() is None
            done.append((number, summary))
        assert sorted(done) == [(number, "Short.") for number in range(4)]
        assert model.peak <= 3

    async def test_in_tasks(self, given: list[Any]) -> None:
        model = ScriptedChatModel(reply=lambda prompt: "Short.", delay=0.02)
        numbers = []
        async for number, _ in Summary(model).abatch_as_completed(given, {"max_concurrency": 3}):
            assert current_run() is None
            numbers.append(number)
        assert sorted(numbers) == [0, 1, 2, 3]
        assert model.peak <= 3

    def test_who_stops_early_leaves_no_limit_behind(self, given: list[Any]) -> None:
        model = ScriptedChatModel(reply=lambda prompt: "Short.")
        items: Any = Summary(model).batch_as_completed(given, {"max_concurrency": 3})
        next(items)
        items.close()
        assert current_run() is None
