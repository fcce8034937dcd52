"""The last question and its answer, at once or streamed; what is shown of a reply while it comes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import Runnable, RunnableGenerator, RunnableLambda
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from rag_transformers.answers.answering import Asking, aanswer, answer, astream_answer, local_asking, stream_answer
from rag_transformers.answers.contexts import answer_context
from rag_transformers.answers.querying import Answer, no_data_text
from rag_transformers.concurrency import arun_stream, run_stream
from rag_transformers.errors import ModelError, ModelUnreachableError, ReplyError, UsageError
from rag_transformers.models.calls import astream, stream
from rag_transformers.models.reading import Reply
from rag_transformers.models.run import Run, Usage

MILL = "The tide mill ground barley. Its last miller was Jory Penn."
CONTEXT = answer_context([Document(MILL, id="c1", metadata={"source": "a.txt", "chunk": 0, "start": 0})], 500, len)


def asking(question: str = "Who was the miller?") -> Asking:
    found = local_asking(question, CONTEXT)
    assert isinstance(found, Asking)
    return found


def speaking(*pieces: Any, usage: bool = True) -> Runnable[Any, Any]:
    """A model that says these pieces one by one, with what it cost in the last one."""

    def spoken(prompts: Iterator[Any]) -> Iterator[Any]:
        for _ in prompts:
            yield from (piece if not isinstance(piece, str) else AIMessageChunk(content=piece) for piece in pieces)
            counted: Any = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10} if usage else None
            yield AIMessageChunk(content="", usage_metadata=counted, response_metadata={"finish_reason": "stop"})

    async def aspoken(prompts: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for prompt in prompts:
            for piece in spoken(iter([prompt])):
                yield piece

    return RunnableGenerator(spoken, aspoken)


async def gathered(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def cut_up(text: str, borders: list[int]) -> list[str]:
    places = [0, *sorted({border % (len(text) + 1) for border in borders}), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


class TestModelStream:
    def test_pieces_come_as_they_are_said_and_the_reply_last(self) -> None:
        expected = ["Jory", " Penn", Reply("Jory Penn", "stop", Usage(1, 7, 3))]
        assert list(stream(speaking("Jory", " Penn"), "Who?")) == expected
        assert asyncio.run(gathered(astream(speaking("Jory", " Penn"), "Who?"))) == expected

    def test_a_model_that_cannot_stream_says_all_in_one_piece(self) -> None:
        message: Runnable[Any, Any] = RunnableLambda(lambda _: AIMessage("Jory Penn"))
        text: Runnable[Any, Any] = RunnableLambda(lambda _: "Jory Penn")
        for llm in (message, text):
            assert list(stream(llm, "Who?")) == ["Jory Penn", Reply("Jory Penn")]

    @pytest.mark.parametrize(
        "tags", [("<think>", "</think>"), ("<|START_THINKING|>", "<|END_THINKING|>"), ("[THINK]", "[/THINK]")]
    )
    @given(borders=st.lists(st.integers(0, 200), max_size=12))
    def test_reasoning_is_in_no_piece_however_it_is_cut_up(self, tags: tuple[str, str], borders: list[int]) -> None:
        text = f"{tags[0]}Was it Penn? So it was.{tags[1]}\n\nJory Penn, if 1 < 2 [1]. {tags[0]}Sure?{tags[1]} Yes."
        *pieces, reply = stream(speaking(*cut_up(text, borders)), "Who?")
        assert isinstance(reply, Reply)
        assert "".join(map(str, pieces)) == reply.text
        assert "Was it" not in reply.text

    def test_a_block_that_is_never_closed_is_in_no_piece(self) -> None:
        assert list(stream(speaking("Yes. ", "<think>", "Or ", "no?"), "Who?"))[:-1] == ["Yes."]

    def test_reasoning_in_blocks_of_its_own_is_in_no_piece(self) -> None:
        thought = AIMessageChunk(content=[{"type": "reasoning", "reasoning": "Penn?"}])
        said = AIMessageChunk(content=[{"type": "text", "text": "Jory Penn", "index": 1}])
        assert next(stream(speaking(thought, said), "Who?")) == "Jory Penn"

    def test_a_tag_that_is_spoken_of_stays(self) -> None:
        assert (
            "".join(map(str, list(stream(speaking("Write ", "`<think>", "` first."), "?"))[:-1]))
            == "Write `<think>` first."
        )

    @pytest.mark.parametrize("pieces", [(), ("<think>Penn?</think>",)])
    def test_an_empty_reply_is_an_error(self, pieces: tuple[str, ...]) -> None:
        with pytest.raises(ReplyError):
            list(stream(speaking(*pieces), "Who?"))

    def test_a_failure_is_translated_and_the_run_s_place_given_back(self) -> None:
        def fail(_: Any) -> Any:
            raise ConnectionError("refused")

        with Run(1).active() as run:
            with pytest.raises(ModelUnreachableError):
                list(stream(RunnableLambda(fail), "Who?"))
            assert run.stopped is not None
            with pytest.raises(ModelUnreachableError, match="not asked"):
                list(stream(speaking("Jory"), "Who?"))

    def test_its_cost_counts_for_the_run_and_a_reader_who_stops_gives_the_place_back(self) -> None:
        with Run(1).active() as run:
            list(stream(speaking("Jory"), "Who?"))
            assert run.usage == Usage(1, 7, 3)
            begun = stream(speaking("Jory", " Penn"), "Who?")
            assert next(begun) == "Jory"
            begun.close()  # type: ignore[attr-defined]
            assert next(stream(speaking("Penn"), "Who?")) == "Penn"

    def test_over_http(self, fake_server: FakeServer) -> None:
        fake_server.reply = lambda body: FakeReply("<think>Penn? Yes.</think>It was Jory Penn [1].")
        llm = ChatOpenAI(
            model="fake-chat",
            api_key=SecretStr("sk-x"),
            base_url=fake_server.base_url,
            max_retries=0,
            stream_usage=True,
        )
        for items in (list(stream(llm, "Who?")), asyncio.run(gathered(astream(llm, "Who?")))):
            *pieces, reply = items
            assert isinstance(reply, Reply)
            assert len(pieces) > 1
            assert "".join(map(str, pieces)) == reply.text == "It was Jory Penn [1]."
            assert reply.usage.prompt_tokens > 0


class TestAnswer:
    async def test_it_is_read_of_the_reply_with_its_citations_and_its_cost(self) -> None:
        llm: Runnable[Any, Any] = RunnableLambda(lambda _: AIMessage("It was Jory Penn [1]."))
        for found in (answer(llm, asking()), await aanswer(llm, asking())):
            assert (found.text, found.usage.calls, found.mode) == ("It was Jory Penn [1].", 1, "local")
            assert found.citations[0].quote == "Its last miller was Jory Penn."

    async def test_what_is_an_answer_already_takes_no_call(self) -> None:
        empty = local_asking("谁？", answer_context([], 9, len))
        assert isinstance(empty, Answer)
        llm: Runnable[Any, Any] = RunnableLambda(lambda _: pytest.fail("asked"))
        assert answer(llm, empty) == await aanswer(llm, empty) == empty
        assert list(stream_answer(llm, empty)) == [no_data_text("谁？"), empty]
        assert await gathered(astream_answer(llm, empty)) == [no_data_text("谁？"), empty]

    def test_an_answer_that_was_cut_off_says_so(self) -> None:
        llm: Runnable[Any, Any] = RunnableLambda(
            lambda _: AIMessage("It was [1]", response_metadata={"finish_reason": "length"})
        )
        with pytest.warns(UserWarning, match="cut off at the model's token limit"):
            answer(llm, asking())

    def test_earlier_calls_are_in_its_cost(self) -> None:
        last = asking()
        whole = Asking(last.question, last.prompt, last.context, usage=Usage(2, 10, 5))
        assert answer(speaking("Penn [1]."), whole).usage == Usage(3, 17, 8)


class TestStreamedAnswer:
    async def test_the_pieces_are_its_text_and_the_last_item_is_the_answer(self) -> None:
        llm = speaking("<think>Hm.</think>It was", " Jory Penn [", "1", "]. Yes [", "9].")
        with pytest.warns(UserWarning, match=r"removed: \[9\]"):
            *pieces, found = stream_answer(llm, asking())
        assert isinstance(found, Answer)
        assert "".join(map(str, pieces)) == found.text == "It was Jory Penn [1]. Yes."
        assert found.usage == Usage(1, 7, 3)
        assert found.citations[0].quote == "Its last miller was Jory Penn."
        with pytest.warns(UserWarning, match=r"removed: \[9\]"):
            assert await gathered(astream_answer(llm, asking())) == [*pieces, found]

    @given(st.lists(st.integers(0, 200), max_size=12))
    def test_however_the_reply_is_cut_up(self, borders: list[int]) -> None:
        text = "It was Jory Penn [1] [1, 1]. 他是磨坊主【1】。 See [the mill](x) and so on. "
        *pieces, found = stream_answer(speaking(*cut_up(text, borders)), asking("Who?"))
        assert isinstance(found, Answer)
        assert "".join(map(str, pieces)) == found.text

    def test_a_failure_after_some_pieces_is_raised(self) -> None:
        def fail(prompts: Iterator[Any]) -> Iterator[Any]:
            yield AIMessageChunk(content="It was")
            raise ValueError("overloaded")

        items = stream_answer(RunnableGenerator(fail), asking())
        assert next(items) == "It was"
        with pytest.raises(ModelError, match="overloaded"):
            next(items)


class TestStreamsOnTheLibrarysLoop:
    @staticmethod
    async def counted(closed: list[bool]) -> AsyncIterator[int]:
        try:
            for number in range(3):
                await asyncio.sleep(0.01)
                yield number
        finally:
            closed.append(True)

    async def test_items_come_in_order_to_threads_and_loops(self) -> None:
        closed: list[bool] = []
        assert await asyncio.to_thread(lambda: list(run_stream(self.counted(closed)))) == [0, 1, 2]
        assert await gathered(arun_stream(self.counted(closed))) == [0, 1, 2]
        assert await gathered(arun_stream(arun_stream(self.counted(closed)))) == [0, 1, 2]
        assert closed == [True] * 3

    def test_one_run_holds_over_all_of_a_stream(self) -> None:
        async def answered() -> AsyncIterator[Any]:
            with Run(2).active() as run:
                async for item in astream_answer(speaking("Penn [1]."), asking()):
                    yield item
                yield run.usage

        *_, found, usage = run_stream(answered())
        assert found.usage == usage == Usage(1, 7, 3)

    def test_a_reader_who_stops_ends_the_generator(self) -> None:
        closed: list[bool] = []
        items = run_stream(self.counted(closed))
        assert next(items) == 0
        items.close()  # type: ignore[attr-defined]
        for _ in range(100):
            if closed:
                break
            asyncio.run(asyncio.sleep(0.01))
        assert closed == [True]

    async def test_an_error_comes_where_it_happened(self) -> None:
        async def broken() -> AsyncIterator[int]:
            yield 1
            raise UsageError("no")

        items = arun_stream(broken())
        assert await anext(items) == 1
        with pytest.raises(UsageError, match="no"):
            await anext(items)
        with pytest.raises(UsageError, match="no"):
            await asyncio.to_thread(lambda: list(run_stream(broken())))

    async def test_a_synchronous_stream_on_the_library_s_own_loop_is_refused(self) -> None:
        async def inside() -> AsyncIterator[int]:
            yield from_sync()

        def from_sync() -> int:
            return next(run_stream(self.counted([])))

        with pytest.raises(UsageError, match="a… form"):
            await gathered(arun_stream(inside()))
