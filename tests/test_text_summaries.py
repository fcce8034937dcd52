"""Summaries of texts: every row of the table of the original, hard limits, and an end that is proved, not hoped for."""

import asyncio
import logging
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnableLambda
from scripted_model import ScriptedChatModel

from rag_transformers.errors import ConvergenceError, ModelError, ReplyError, UsageError
from rag_transformers.models.run import Run
from rag_transformers.models.servers import chat_model
from rag_transformers.prompts import load_prompt
from rag_transformers.summaries.long_texts import summarize_chunks, summary_chunks
from rag_transformers.summaries.merging import SEPARATOR, packed, pieces, total
from rag_transformers.summaries.text_summaries import MOST_ROUNDS, ExtractiveSummary, Summary
from rag_transformers.summaries.text_summarizer import TextSummarizer

MOST = 1024 * 1024
LONG = "The mill at Leeds burned down in 1911, and Ada Moss, who owned it, built it up again. "
LONG_ZH = "一九一一年，青石镇的磨坊毁于大火，磨坊主林晚筹款重建，两年后磨坊重新开张。"


def own_text(prompt: str) -> str:
    """What a prompt of ours holds of the texts; any other prompt as it is."""
    found = re.search(r"(?s)\[(?:Text|文本)\]:\n(.*)\n\n\[", prompt)
    return found.group(1) if found else prompt


def texts(number: int, length: int) -> list[str]:
    """Texts of one length, each unlike the others."""
    return [f"{place:04} ".ljust(length, chr(97 + place % 26)) for place in range(number)]


class Model:
    """A scripted model, and what texts it was shown."""

    def __init__(self, reply: Callable[[str], str | AIMessage | Exception], **options: Any) -> None:
        self.llm = ScriptedChatModel(reply=lambda prompt: reply(own_text(prompt)), **options)

    @property
    def texts(self) -> list[str]:
        return [own_text(prompt) for prompt in self.llm.prompts]


def halving() -> Model:
    return Model(lambda text: text[: len(text) // 2])


def numbering() -> Model:
    """Each summary is short, and tells of which text it is."""
    return Model(lambda text: f"Summary of the text that begins with {text[:4]!r}, at some length.")


def echo() -> Model:
    return Model(lambda text: text)


def unasked() -> Model:
    return Model(lambda text: AssertionError("the model was asked"))


Summarizers = Callable[[], TextSummarizer]
BOTH = pytest.mark.parametrize("make", [lambda: Summary(unasked().llm), ExtractiveSummary], ids=["model", "extractive"])


class TestArguments:
    """What is wrong is refused before any call, with its name, its value and the range; the edges are accepted."""

    def refused(self, call: Callable[..., Any], *told: str, **arguments: Any) -> None:
        with pytest.raises(UsageError, match=re.escape(told[0])) as caught:
            call(**{"texts": ["A text."], **arguments})
        assert isinstance(caught.value, ValueError)
        for part in told:
            assert part in str(caught.value)

    @BOTH
    @pytest.mark.parametrize("wrong", [0, -1, MOST + 1, True, 30.0, "30", None])
    def test_not_summarize_threshold(self, make: Summarizers, wrong: Any) -> None:
        for call in (make().summarize, make().merge_text_summarize):
            self.refused(
                call, "not_summarize_threshold", repr(wrong), "from 1 to 1048576", not_summarize_threshold=wrong
            )

    @BOTH
    @pytest.mark.parametrize("right", [1, MOST])
    def test_not_summarize_threshold_at_its_edges(self, make: Summarizers, right: int) -> None:
        assert make().summarize(["A"], not_summarize_threshold=right) == ["A"]

    @BOTH
    @pytest.mark.parametrize("wrong", [1023, 0, -4096, MOST + 1, True, 4096.0, "4096", None])
    def test_merge_threshold(self, make: Summarizers, wrong: Any) -> None:
        told = ("merge_threshold", repr(wrong), "from 1024 to 1048576")
        self.refused(make().merge_text_summarize, *told, merge_threshold=wrong)

    @BOTH
    @pytest.mark.parametrize("right", [1024, MOST])
    def test_merge_threshold_at_its_edges(self, make: Summarizers, right: int) -> None:
        assert make().merge_text_summarize(["A text."], merge_threshold=right) == "A text."

    @BOTH
    @pytest.mark.parametrize("short", [2000, 2001])
    def test_merge_threshold_is_above_the_other(self, make: Summarizers, short: int) -> None:
        told = ("merge_threshold is 2000", f"not_summarize_threshold, which is {short}")
        self.refused(make().merge_text_summarize, *told, merge_threshold=2000, not_summarize_threshold=short)
        assert make().merge_text_summarize(["A"], 2000, 1999) == "A"

    @BOTH
    def test_the_length_of_all_texts(self, make: Summarizers) -> None:
        for call in (make().summarize, make().merge_text_summarize):
            self.refused(call, "texts", "1048577", "from 1 to 1048576", texts=["x" * MOST, "y"])
            self.refused(call, "texts", "0 characters", "from 1 to 1048576", texts=["", ""])
        assert make().summarize(["x" * MOST], not_summarize_threshold=MOST) == ["x" * MOST]

    @BOTH
    def test_the_number_of_texts(self, make: Summarizers) -> None:
        for call in (make().summarize, make().merge_text_summarize):
            self.refused(call, "texts", "1025", "from 1 to 1024", texts=["x"] * 1025)
            self.refused(call, "texts", "holds 0", "from 1 to 1024", texts=[])
        assert make().summarize(["x"] * 1024) == ["x"] * 1024
        assert make().summarize(["x"]) == ["x"]

    @BOTH
    def test_a_bare_text_is_refused(self, make: Summarizers) -> None:
        for call in (make().summarize, make().merge_text_summarize, lambda texts: make().invoke(texts)):
            for wrong in ("a bare text", b"bytes", None, 7, {"a": "b"}, iter(["A"]), Document("A")):
                self.refused(call, "texts", type(wrong).__name__, texts=wrong)

    @BOTH
    @pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["A"]])
    def test_what_is_no_text_is_refused_with_its_place(self, make: Summarizers, wrong: Any) -> None:
        self.refused(make().summarize, "texts[1]", repr(wrong), texts=["A", wrong])

    @BOTH
    @pytest.mark.parametrize(
        "wrong",
        [
            "no variable",
            "{text} {more}",
            "{other}",
            "{text",
            "",
            7,
            PromptTemplate.from_template("{question}"),
            ChatPromptTemplate.from_messages([("human", "{text} {question}")]),
        ],
    )
    def test_a_prompt_with_other_variables_is_refused(self, make: Summarizers, wrong: Any) -> None:
        self.refused(make().summarize, "prompt", prompt=wrong)
        self.refused(make().merge_text_summarize, "prompt", prompt=wrong)

    @BOTH
    def test_the_length_of_a_template(self, make: Summarizers) -> None:
        longest = "{text}" + "x" * (MOST - 6)
        assert make().summarize(["A"], prompt=longest) == ["A"]
        self.refused(make().summarize, "prompt", "1048577", "from 1 to 1048576", prompt=longest + "x")
        chat = ChatPromptTemplate.from_messages([("system", "x" * MOST), ("human", "{text}")])
        self.refused(make().summarize, "prompt", "from 1 to 1048576", prompt=chat)

    def test_what_is_wrong_is_refused_when_it_is_made(self) -> None:
        llm = unasked().llm
        wrong: list[dict[str, Any]] = [
            {},
            {"llm": "gpt-4o"},
            {"llm": llm, "llm_client": llm},
            {"llm": llm, "prompt": "no variable"},
            {"llm": llm, "prompt": "{text}" + "x" * MOST},
            {"llm": llm, "language": "tlh"},
            {"llm": llm, "counter": 7},
            {"llm": llm, "llm_config": 0.5},
            {"llm": llm, "llm_config": {1: 2}},
        ]
        for arguments in wrong:
            with pytest.raises(UsageError):
                Summary(**arguments)
        for options in ({"max_length": 0}, {"max_length": True}, {"names": "Ada"}, {"counter": None}):
            with pytest.raises(UsageError):
                ExtractiveSummary(**options)

    async def test_async_methods_refuse_the_same(self) -> None:
        summary = Summary(unasked().llm)
        with pytest.raises(UsageError, match="texts"):
            await summary.asummarize("bare")
        with pytest.raises(UsageError, match="merge_threshold"):
            await summary.amerge_text_summarize(["A"], 7)
        with pytest.raises(UsageError, match="texts"):
            await summary.ainvoke([None])  # type: ignore[list-item]


class TestParameters:
    def sent(self, summary: Summary, model: Model) -> dict[str, Any]:
        summary.summarize([LONG])
        return {name: model.llm.calls[-1].settings.get(name) for name in ("temperature", "top_p")}

    def test_temperature_and_top_p_are_bound_to_the_calls(self) -> None:
        model = halving()
        assert self.sent(Summary(model.llm), model) == {"temperature": 0.5, "top_p": 0.95}

    def test_they_can_be_changed_and_left_out(self) -> None:
        model = halving()
        assert self.sent(Summary(model.llm, {"temperature": 0.1}), model) == {"temperature": 0.1, "top_p": 0.95}
        assert self.sent(Summary(model.llm, llm_config={"top_p": None}), model) == {"temperature": 0.5, "top_p": None}

    def test_a_plain_runnable_works(self) -> None:
        assert Summary(RunnableLambda(lambda prompt: "The mill.")).summarize([LONG]) == ["The mill."]

    def test_the_originals_names_for_the_model_are_taken(self) -> None:
        for name in ("llm", "llm_client", "llm_invoker"):
            given: dict[str, Any] = {name: halving().llm}
            assert Summary(**given).summarize([LONG]) == [LONG[: len(LONG) // 2].strip()]


class TestSummarize:
    def test_as_many_summaries_as_texts_in_their_order(self) -> None:
        given = texts(40, 100)
        found = Summary(numbering().llm).summarize(given)
        assert [re.findall(r"'(\d+)'", summary) for summary in found] == [[text[:4]] for text in given]

    def test_up_to_the_threshold_a_text_is_returned_as_it_is(self) -> None:
        model = halving()
        given = ["x" * 30, "y" * 31, "", " " * 99, " short "]
        assert Summary(model.llm).summarize(given) == ["x" * 30, "y" * 15, "", " " * 99, " short "]
        assert model.texts == ["y" * 31]
        assert Summary(model.llm).summarize(["z" * 50], 50) == ["z" * 50]

    def test_equal_texts_are_asked_about_once(self) -> None:
        model = numbering()
        first, second, third = Summary(model.llm).summarize([LONG, LONG_ZH, LONG])
        assert first == third != second
        assert len(model.llm.calls) == 2

    def test_documents_are_accepted(self) -> None:
        model = halving()
        assert Summary(model.llm).summarize([Document("x" * 40), "y" * 40]) == ["x" * 20, "y" * 20]

    def test_it_asks_in_the_language_of_the_text(self) -> None:
        model = halving()
        Summary(model.llm).summarize([LONG, LONG_ZH], config={"max_concurrency": 1})
        assert model.llm.prompts == [
            load_prompt("summarize_text", "en").format(text=LONG),
            load_prompt("summarize_text", "zh").format(text=LONG_ZH),
        ]
        assert "in English" in model.llm.prompts[0]
        assert "用中文作答" in model.llm.prompts[1]

    def test_or_in_the_one_that_it_is_told(self) -> None:
        model = halving()
        Summary(model.llm, language="zh").summarize([LONG])
        assert "用中文作答" in model.llm.prompts[0]

    def test_a_users_own_prompt_asks_in_place_of_it(self) -> None:
        chat = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "Sum up: {text}")])
        for prompt, sent in [
            ("In a word: {text}", f"In a word: {LONG}"),
            (PromptTemplate.from_template("Now: {text}"), f"Now: {LONG}"),
            (chat, f"Be brief.\nSum up: {LONG}"),
        ]:
            model = halving()
            Summary(model.llm).summarize([LONG], prompt=prompt)
            Summary(model.llm, prompt=prompt).summarize([LONG])
            assert model.llm.prompts == [sent, sent]

    def test_braces_and_marks_in_a_text_reach_the_model_as_they_are(self) -> None:
        model = halving()
        nasty = "{text} {{history}} {0} } { %s 刘备{曹操} " * 3
        Summary(model.llm).summarize([nasty])
        assert nasty in model.llm.prompts[0]

    def test_reasoning_is_no_part_of_a_summary(self) -> None:
        model = Model(lambda text: "<think>\nI should be brief.\n</think>\n\nThe mill burned.")
        assert Summary(model.llm).summarize([LONG]) == ["The mill burned."]


class TestFailures:
    def failing(self) -> Model:
        return Model(lambda text: RuntimeError("the model is ill") if "0002" in text else text[:9])

    def test_a_failed_call_raises(self) -> None:
        with pytest.raises(ModelError, match="ill"):
            Summary(self.failing().llm).summarize(texts(5, 50))
        with pytest.raises(ModelError, match="ill"):
            Summary(self.failing().llm).merge_text_summarize(texts(5, 50))

    def test_or_is_given_in_its_place(self) -> None:
        found = Summary(self.failing().llm).summarize(texts(5, 50), return_exceptions=True)
        assert [isinstance(summary, ModelError) for summary in found] == [False, False, True, False, False]
        assert [summary for summary in found if isinstance(summary, str)] == [
            text[:9] for place, text in enumerate(texts(5, 50)) if place != 2
        ]

    async def test_in_async_too(self) -> None:
        summary = Summary(self.failing().llm)
        with pytest.raises(ModelError, match="ill"):
            await summary.asummarize(texts(5, 50))
        found = await summary.asummarize(texts(5, 50), return_exceptions=True)
        assert isinstance(found[2], ModelError)

    def test_after_a_failure_no_more_is_asked(self) -> None:
        model = Model(lambda text: RuntimeError("ill"), delay=0.01)
        with pytest.raises(ModelError):
            Summary(model.llm).summarize(texts(300, 50), config={"max_concurrency": 2})
        assert len(model.llm.calls) < 20

    @pytest.mark.parametrize("reply", ["", "  ", "<think>Hm.</think>"])
    def test_an_empty_reply_is_an_error_and_no_summary(self, reply: str) -> None:
        with pytest.raises(ReplyError):
            Summary(Model(lambda text: reply).llm).summarize([LONG])
        (error,) = Summary(Model(lambda text: reply).llm).summarize([LONG], return_exceptions=True)
        assert isinstance(error, ReplyError)

    def test_a_cut_reply_is_kept_to_its_last_whole_sentence_and_the_log_says_so(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = Model(lambda text: "The mill burned. Ada built it up ag", finish_reason="length")
        with caplog.at_level(logging.WARNING, "rag_transformers"):
            assert Summary(model.llm).summarize([LONG]) == ["The mill burned."]
        assert "cut off" in caplog.text
        model = Model(lambda text: "磨坊毁于大火。林晚筹款重", finish_reason="length")
        assert Summary(model.llm).summarize([LONG_ZH]) == ["磨坊毁于大火。"]

    def test_a_reply_cut_in_its_first_sentence_is_an_error(self) -> None:
        model = Model(lambda text: "The mill at Leeds, which", finish_reason="length")
        with pytest.raises(ReplyError, match="cut off"):
            Summary(model.llm).summarize([LONG])
        (error,) = Summary(model.llm).summarize([LONG], return_exceptions=True)
        assert isinstance(error, ReplyError)


class TestMerge:
    """Every text is summarised, then neighbours are merged and summarised, until one summary is left."""

    @pytest.mark.parametrize(
        ("given", "summary"),
        [(["Only one."], "Only one."), (["Same.", "Same."], "Same."), (["\n", "", " ", "A."], "A."), ([" "], "")],
    )
    def test_nothing_one_or_equal_texts_need_no_call(self, given: list[str], summary: str) -> None:
        assert Summary(unasked().llm).merge_text_summarize(given) == summary

    def test_one_long_text_takes_one_call(self) -> None:
        model = numbering()
        assert (
            Summary(model.llm).merge_text_summarize([LONG, LONG])
            == numbering().llm.invoke(load_prompt("summarize_text", "en").format(text=LONG.strip())).content
        )
        assert len(model.llm.calls) == 1

    def test_each_is_summarised_and_then_all_together_in_their_order(self) -> None:
        model = Model(lambda text: f"Short: {text[:40]}")
        given = texts(3, 100)
        summary = Summary(model.llm).merge_text_summarize(given, config={"max_concurrency": 1})
        firsts = [f"Short: {text[:40]}" for text in given]
        assert model.texts == [*given, SEPARATOR.join(firsts)]
        assert model.llm.prompts[-1] == load_prompt("merge_summaries", "en").format(text=SEPARATOR.join(firsts))
        assert summary == f"Short: {SEPARATOR.join(firsts)[:40]}"

    def test_a_users_own_prompt_asks_every_time(self) -> None:
        model = halving()
        Summary(model.llm).merge_text_summarize(texts(3, 100), prompt="Now: {text}")
        assert len(model.llm.prompts) == 4
        assert all(prompt.startswith("Now: ") for prompt in model.llm.prompts)

    def test_texts_that_together_are_short_are_not_summarised(self) -> None:
        assert Summary(unasked().llm).merge_text_summarize(["A mill.", "It burned."]) == "A mill.\n\nIt burned."

    @pytest.mark.parametrize("threshold", [1024, 4096])
    def test_no_merged_input_is_longer_than_the_threshold_separators_counted(self, threshold: int) -> None:
        """1,024 is 2 x 511 and the separator of 2: two such texts go together, and no more."""
        model = Model(lambda text: text[: 511 if len(text) == 600 else len(text) // 2])
        Summary(model.llm).merge_text_summarize(texts(9, 600), threshold)
        assert max(map(len, model.texts)) <= threshold
        assert max(map(len, model.texts)) == {1024: 1024, 4096: 7 * 511 + 6 * 2}[threshold]
        model = Model(lambda text: text[: 512 if len(text) == 600 else 100])
        Summary(model.llm).merge_text_summarize(texts(4, 600), 1025)
        assert [len(text) for text in model.texts] == [600] * 4 + [512] * 4 + [406], "2 x 512 + 2 is over 1,025"

    def test_a_text_above_the_threshold_is_split_and_all_of_it_is_read(self) -> None:
        sentences = [f"In year {year} the mill at Leeds burned down again and was built up." for year in range(300)]
        model = halving()
        Summary(model.llm).merge_text_summarize([" ".join(sentences), "x" * 50], 1024)
        assert max(map(len, model.texts)) <= 1024
        read = "".join(model.texts)
        assert all(sentence in read for sentence in sentences)
        assert "x" * 50 in read

    def test_a_token_counter_may_take_the_place_of_characters(self) -> None:
        def tokens(text: str) -> int:
            return 3 * len(text)

        model = halving()
        Summary(model.llm, counter=tokens).merge_text_summarize([LONG * 50, "y" * 17, *texts(9, 11)], 1024)
        assert max(map(tokens, model.texts)) <= 1024
        assert "y" * 17 in model.texts, "51 tokens are above 30"
        assert Summary(unasked().llm, counter=tokens).summarize(["x" * 10]) == ["x" * 10]

    def test_a_summary_that_stands_alone_waits_for_the_others(self) -> None:
        """What is a summary already is not asked about again, while others can still be put together."""
        model = Model(lambda text: text[: 900 if text.startswith("0002") and len(text) == 1000 else len(text) // 3])
        Summary(model.llm).merge_text_summarize(texts(5, 1000), 1024, config={"max_concurrency": 1})
        asked = [re.findall(r"\b\d{4}\b", text) for text in model.texts]
        assert asked[5:7] == [["0000", "0001"], ["0003", "0004"]]

    def test_equal_summaries_are_one(self) -> None:
        model = Model(lambda text: "All of them say the same, at some length, again and again.")
        assert Summary(model.llm).merge_text_summarize(texts(50, 100)) == model.llm.reply("")
        assert len(model.llm.calls) == 50

    def test_the_arguments_are_checked_once(self) -> None:
        """Merged texts may come to more than a call's range without an error of the range."""
        model = Model(lambda text: text[: len(text) * 9 // 10])
        assert Summary(model.llm).merge_text_summarize(texts(1024, 1024), MOST)


class TestTheEnd:
    def test_texts_that_never_get_shorter_are_noticed_after_the_first_round(self) -> None:
        model, given = echo(), texts(6, 900)
        with pytest.raises(ConvergenceError) as caught:
            Summary(model.llm).merge_text_summarize(given, 1024)
        assert caught.value.summaries == tuple(given)
        assert isinstance(caught.value, ValueError)
        assert len(model.llm.calls) == 6

    def test_a_model_that_only_copies_is_noticed_when_nothing_goes_together_any_more(self) -> None:
        model = echo()
        with pytest.raises(ConvergenceError, match="neither shorter nor fewer"):
            Summary(model.llm).merge_text_summarize(texts(100, 100), 1024)
        assert len(model.llm.calls) == 100 + 10

    def test_a_model_that_doubles_is_noticed_at_once(self) -> None:
        model = Model(lambda text: text + text)
        with pytest.raises(ConvergenceError) as caught:
            Summary(model.llm).merge_text_summarize(texts(6, 400), 1024)
        assert len(model.llm.calls) == 6
        assert len(caught.value.summaries) == 6

    def test_short_texts_may_grow_in_the_first_round(self) -> None:
        model = Model(lambda text: f"This is what the text says: {text[:60]}.")
        assert Summary(model.llm).merge_text_summarize(texts(60, 50), 1024).startswith("This is")

    def test_there_are_ten_rounds_at_most_and_no_call_for_an_eleventh(self) -> None:
        model = Model(lambda text: text[:-1], delay=0.0)
        with pytest.raises(ConvergenceError, match="10 rounds"):
            Summary(model.llm).merge_text_summarize(texts(6, 900), 1024)
        assert len(model.llm.calls) == 6 * (MOST_ROUNDS - 1), "a tenth round could not be the last"

    def test_rounds_are_counted_for_each_call(self) -> None:
        summary = Summary(Model(lambda text: text[: len(text) // 2]).llm)
        for _ in range(2 * MOST_ROUNDS):
            assert summary.merge_text_summarize(texts(3, 900), 1024)

    def test_texts_that_may_not_be_summarised_and_do_not_go_together_cost_no_call(self) -> None:
        with pytest.raises(ConvergenceError):
            Summary(unasked().llm).merge_text_summarize(texts(3, 900), 1024, 1000)

    @given(
        lengths=st.lists(st.integers(1, 1500), min_size=1, max_size=30),
        factor=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.999, 1.0, 1.5, 2.0]),
        threshold=st.integers(1024, 3000),
        short=st.integers(1, 1023),
    )
    def test_it_ends_whatever_the_model_does(
        self, lengths: list[int], factor: float, threshold: int, short: int
    ) -> None:
        given = [f"{place} ".ljust(length, "x") for place, length in enumerate(lengths)]
        model = Model(lambda text: (text * 2)[: max(1, int(len(text) * factor))].strip() or "x")
        summary = Summary(model.llm)
        try:
            left: Any = summary.merge_text_summarize(given, threshold, short)
        except ConvergenceError as error:
            stays_apart = 2 * short + 2 > threshold  # two texts that may not be summarised, and together are too long
            left = error.summaries if factor > 0.1 or stays_apart else ()
        assert left
        assert all(short < len(text) <= threshold for text in model.texts)
        first = sum(-(-length // 500) for length in lengths)
        assert len(model.texts) <= first * MOST_ROUNDS

    @given(
        lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=12),
        replies=st.lists(st.integers(1, 2500), min_size=1, max_size=20),
    )
    def test_it_ends_with_a_model_without_rules(self, lengths: list[int], replies: list[int]) -> None:
        given = [f"{place} ".ljust(length, "x") for place, length in enumerate(lengths)]
        model = Model(lambda text: f"{len(text)} ".ljust(replies[len(text) % len(replies)], "y"))
        try:
            left: Any = Summary(model.llm).merge_text_summarize(given, 1024)
        except ConvergenceError as error:
            left = error.summaries
        assert left
        assert all(len(text) <= 1024 for text in model.texts)


class Names(BaseCallbackHandler):
    def __init__(self) -> None:
        self.started: list[Any] = []
        self.asked: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.started.append((kwargs.get("name"), kwargs["run_id"], kwargs.get("parent_run_id")))

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.asked.append(kwargs.get("parent_run_id"))


class TestAsARunnable:
    def test_invoke_is_merge_text_summarize(self) -> None:
        given = texts(5, 100)
        assert Summary(halving().llm).invoke(given) == Summary(halving().llm).merge_text_summarize(given)
        model = halving()
        Summary(model.llm).invoke(texts(9, 900), merge_threshold=1024)
        assert max(map(len, model.texts)) <= 1024

    async def test_sync_and_async_are_alike(self) -> None:
        given = texts(30, 200)
        models = [halving() for _ in range(4)]
        found = [
            Summary(models[0].llm).merge_text_summarize(given, 1024),
            await Summary(models[1].llm).amerge_text_summarize(given, 1024),
            await Summary(models[2].llm).ainvoke(given, merge_threshold=1024),
            (await Summary(models[3].llm).abatch([given], merge_threshold=1024))[0],
        ]
        assert len(set(found)) == 1
        assert len({tuple(sorted(model.texts)) for model in models}) == 1
        assert await Summary(halving().llm).asummarize(given) == Summary(halving().llm).summarize(given)

    @pytest.mark.parametrize("most", [1, 3])
    def test_max_concurrency_holds_for_one_call_and_for_a_batch(self, most: int) -> None:
        model = Model(lambda text: text[:40], delay=0.01)
        Summary(model.llm).summarize(texts(12, 50), config={"max_concurrency": most})
        Summary(model.llm).batch([texts(6, 50), texts(6, 60)], {"max_concurrency": most})
        asyncio.run(Summary(model.llm).abatch([texts(6, 50), texts(6, 60)], {"max_concurrency": most}))
        assert model.llm.peak == most

    def test_the_runs_limit_holds(self) -> None:
        model = Model(lambda text: text[:40], delay=0.01)
        with Run(2).active() as run:
            Summary(model.llm).batch([texts(6, 50), texts(6, 60)])
        assert model.llm.peak == 2
        assert run.usage.calls == len(model.llm.calls)

    def test_a_batch_may_give_errors_in_their_places(self) -> None:
        found = Summary(echo().llm).batch([texts(3, 900), ["Short."]], return_exceptions=True, merge_threshold=1024)
        assert isinstance(found[0], ConvergenceError)
        assert found[1] == "Short."

    @pytest.mark.parametrize("call", ["invoke", "summarize", "merge_text_summarize"])
    def test_callbacks_see_the_calls_under_the_stages_name(self, call: str) -> None:
        seen = Names()
        getattr(Summary(halving().llm), call)(texts(3, 100), config={"callbacks": [seen]})
        (name, run_id, parent), *others = seen.started
        assert (name, parent, others) == ("Summary", None, [])
        assert set(seen.asked) == {run_id}

    def test_it_goes_into_a_chain(self) -> None:
        chain: Any = RunnableLambda(lambda text: [text, text[:9]]) | Summary(halving().llm) | str.upper
        assert chain.invoke("z" * 100).startswith("Z")


class TestExtractive:
    TEXT = (
        "The harbour of Port Ellery was dug by Orrin Vale in 1820. It rained for most of that year. "
        "Orrin Vale paid for the harbour with money from the salt trade. His sister kept bees. "
        "When the salt trade ended, the harbour of Port Ellery fell silent. She liked plums."
    )

    def test_a_summary_is_some_of_the_sentences_word_for_word(self) -> None:
        (summary,) = ExtractiveSummary().summarize([self.TEXT])
        assert 0 < len(summary) <= len(self.TEXT) / 2
        assert all(sentence in self.TEXT for sentence in summary.split(". "))
        assert "harbour" in summary

    def test_as_many_as_texts_in_their_order_and_short_ones_as_they_are(self) -> None:
        found = ExtractiveSummary().summarize([self.TEXT, " short ", "", Document(self.TEXT)])
        assert found[1:3] == [" short ", ""]
        assert found[0] == found[3]

    def test_all_texts_come_to_one_summary_within_its_length(self) -> None:
        summary = ExtractiveSummary(150).merge_text_summarize([self.TEXT, LONG_ZH * 3, self.TEXT])
        assert 50 < len(summary) <= 150
        assert ExtractiveSummary().merge_text_summarize(["Same.", "Same.", " "]) == "Same."
        assert ExtractiveSummary().merge_text_summarize([" "]) == ""

    def test_names_can_be_wanted(self) -> None:
        assert "bees" in ExtractiveSummary(100, names=["bees"]).merge_text_summarize([self.TEXT])

    async def test_the_methods_are_those_of_the_summary_with_a_model(self) -> None:
        summary, given = ExtractiveSummary(), [self.TEXT, LONG_ZH]
        merged = summary.merge_text_summarize(given)
        assert await summary.amerge_text_summarize(given) == merged
        assert summary.invoke(given) == await summary.ainvoke(given) == merged
        assert summary.batch([given]) == await summary.abatch([given]) == [merged]
        assert await summary.asummarize(given) == summary.summarize(given)

    def test_callbacks_see_it_under_its_name(self) -> None:
        seen = Names()
        ExtractiveSummary().invoke([self.TEXT], config={"callbacks": [seen]})
        assert [name for name, _, _ in seen.started] == ["ExtractiveSummary"]


class TestMerging:
    @given(st.lists(st.integers(1, 40), max_size=30), st.integers(40, 120))
    def test_neighbours_keep_their_order_and_the_limit(self, lengths: list[int], limit: int) -> None:
        given = [f"{place % 10}" * length for place, length in enumerate(lengths)]
        groups = packed(given, limit)
        assert [text for group in groups for text in group] == given
        assert all(len(SEPARATOR.join(group)) <= limit for group in groups)
        for group, following in pairwise(groups):
            assert len(SEPARATOR.join([*group, following[0]])) > limit

    def test_where_the_whole_counts_for_more_the_limit_holds_too(self) -> None:
        def count(text: str) -> int:
            return len(text) + 10 * text.count(SEPARATOR)

        assert all(count(SEPARATOR.join(group)) <= 50 for group in packed(["x" * 9] * 20, 50, count))

    def test_joining_does_not_change_the_total(self) -> None:
        given = texts(7, 50)
        assert total(given) == total([SEPARATOR.join(group) for group in packed(given, 120)])

    @given(st.lists(st.text(max_size=300), max_size=5), st.integers(5, 60))
    def test_pieces_keep_the_limit_and_all_that_can_be_seen(self, given: list[str], limit: int) -> None:
        found = pieces(given, limit)
        assert all(0 < len(piece) <= limit for piece in found)
        seen = "".join("".join(found).split())
        assert set(seen) == set("".join("".join(given).split()))


class TestLongTexts:
    def test_a_book_over_the_ranges_goes_through_in_slices(self) -> None:
        book = "\n\n".join(
            f"Chapter {number}. In year {number} the mill of Miller {number} burned down, was built up, and burned."
            for number in range(15_000)
        )
        assert len(book) > MOST
        model = Model(lambda text: text[:100])
        chunks = summary_chunks([book])
        assert max(map(len, chunks)) <= 4096
        assert summarize_chunks(Summary(model.llm), chunks).startswith("Chapter 0.")
        assert max(map(len, model.texts)) <= 4096
        read = "".join(model.texts)
        assert all(f"Miller {number} " in read for number in range(0, 15_000, 333))

    def test_more_chunks_than_a_call_takes(self) -> None:
        chunks = [f"Line {number} of the list of mills and millers." for number in range(2500)]
        summary = summarize_chunks(ExtractiveSummary(200), chunks)
        assert 100 < len(summary) <= 200

    @pytest.mark.parametrize("chunks", [[], [" "], ["Only one."], ["Same.", "Same."]])
    def test_little_needs_no_call(self, chunks: list[str]) -> None:
        assert summarize_chunks(Summary(unasked().llm), chunks) == "".join(dict.fromkeys(chunks)).strip()

    def test_a_failure_goes_to_the_caller(self) -> None:
        with pytest.raises(ModelError):
            summarize_chunks(Summary(Model(lambda text: RuntimeError("ill")).llm), [LONG, LONG_ZH])


def test_over_http_with_a_server_that_limits_and_cuts(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 texts, some replies cut, one call refused for its rate: all of it is read, within the limits."""
    for name, value in fake_server.environment.items():
        monkeypatch.setenv(name, value)
    seen: list[str] = []

    def reply(body: dict[str, Any]) -> FakeReply:
        text = own_text(body["messages"][-1]["content"])
        seen.append(text)
        if len(seen) == 3:
            return FakeReply(status=429, text="slow down", headers={"Retry-After": "0"})
        said = f"This is about {text[:4]}. And then it goes on for a"
        return FakeReply(said, finish_reason="length") if text.startswith("000") else FakeReply(f"{said} while.")

    fake_server.reply = reply
    summary = asyncio.run(
        Summary(chat_model("fake-chat")).amerge_text_summarize(texts(60, 400), 1024, config={"max_concurrency": 4})
    )
    assert summary.startswith("This is about This.")
    assert fake_server.peak <= 4
    assert max(map(len, seen)) <= 1024
    assert {text[:4] for text in texts(60, 400)} <= {text[:4] for text in seen}
    assert {request.body["temperature"] for request in fake_server.requests} == {0.5}
