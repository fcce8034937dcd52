"""Answers from reports: which are read, points noted in parallel, one cited answer, and quotes without a model."""

import json
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from scripted_model import ScriptedChatModel, stage_reply

from rag_transformers.answers.global_answers import aglobal_answer, global_answer
from rag_transformers.answers.map_points import Point, read_points
from rag_transformers.answers.querying import Answer, no_data_text
from rag_transformers.answers.quoted_reports import offline_global_answer
from rag_transformers.answers.report_selection import (
    ChosenReport,
    brief_text,
    full_text,
    report_budget,
    report_lexical,
    select_reports,
)
from rag_transformers.answers.voice import Voice
from rag_transformers.communities import Community
from rag_transformers.errors import ModelError, UsageError
from rag_transformers.models.run import Run, Usage
from rag_transformers.reports.writer import Report, ReportFinding

TEXTS = {
    "c1": "The tide mill ground barley. Its miller was Jory Penn.\nHe left in 1921.",
    "c2": "Hanna Roe owned the inn. She brewed beer of the barley.",
    "c3": "渡口在青石镇。林晚在渡口撑船。",
}
CHUNKS = {
    id: Document(text, id=id, metadata={"source": f"{id}.txt", "chunk": 0, "start": 0, "end": len(text)})
    for id, text in TEXTS.items()
}
MILL = Report(
    "0-mill",
    0,
    "The mill",
    "The tide mill ground barley.",
    (ReportFinding("Jory Penn – ran – mill", "Its miller was Jory Penn. He left in 1921."),),
    6.0,
    chunks=("c1",),
)
INN = Report("0-inn", 0, "The inn", "Hanna Roe owned the inn.", (), 4.0, chunks=("c2",))
FERRY = Report("0-ferry", 0, "渡口", "林晚在渡口撑船。", (), 2.0, chunks=("c3",))
REPORTS = [MILL, INN, FERRY]


def words(text: str) -> int:
    return len(text.split())


def lookup(ids: Sequence[str]) -> dict[str, Document]:
    return {id: CHUNKS[id] for id in ids if id in CHUNKS}


def chosen(*reports: Report) -> list[ChosenReport]:
    return [ChosenReport(report, 0.5, full_text(report)) for report in reports]


def community(id: str, *children: str, parent: str | None = None) -> Community:
    return Community(id, int(id[0]), parent, children, ())


def communities() -> list[Community]:
    return [community(report.community) for report in REPORTS]


def select(question: str, budget: int = 1000, **given: Any) -> list[ChosenReport]:
    options: dict[str, Any] = {"reports": REPORTS, "communities": communities(), "vectors": None, **given}
    return select_reports(question, None, budget=budget, counter=words, **options)


def names(found: Sequence[ChosenReport]) -> list[str]:
    return [each.report.community for each in found]


def points(*rows: tuple[str, float]) -> str:
    return json.dumps({"points": [{"description": text, "score": score} for text, score in rows]}, ensure_ascii=False)


def scripted(*replies: Any, last: Any = "Barley was ground [1].") -> ScriptedChatModel:
    """A model that answers the calls for points in the order of the reports, and then the last question."""
    by_title = dict(zip([report.title for report in REPORTS], replies, strict=False))

    def reply(prompt: str) -> Any:
        if '"points"' not in prompt:
            return last(prompt) if callable(last) else last
        return next(given for title, given in by_title.items() if f"] {title}\n" in prompt)

    return ScriptedChatModel(reply=reply)


def ask(model: Any, question: str = "What are the main themes?", *reports: Report, **options: Any) -> Answer:
    """One call for each report, since no two fit into one prompt."""
    given: dict[str, Any] = {"counter": words, "lookup": lookup, "each": True, **options}
    return global_answer(model, question, chosen(*(reports or REPORTS)), **given)


class TestWhichReportsAreRead:
    def test_those_that_the_question_is_about(self) -> None:
        assert names(select("Who owned the inn?")) == ["0-inn"]
        assert names(select("谁在渡口撑船？")) == ["0-ferry"]

    def test_a_question_without_a_subject_reads_all_of_the_coarsest_level_by_rating(self) -> None:
        assert names(select("What are the main themes?")) == ["0-mill", "0-inn", "0-ferry"]
        assert names(select("主要内容是什么？")) == ["0-mill", "0-inn", "0-ferry"]

    def test_vectors_find_what_shares_no_word_with_the_question(self) -> None:
        rows = np.array([[1, 0], [0, 1], [0, 1]], np.float32)
        found = select_reports(
            "Who is it?", [1.0, 0.0], REPORTS, rows, communities(), budget=100, counter=words, lexical=None
        )
        assert names(found) == ["0-mill"]

    def test_children_are_read_where_one_suits_better_than_its_parent(self) -> None:
        whole = Report("0-all", 0, "The village", "A mill, an inn and much else that is told at length.", rating=9.0)
        parts = [Report(f"1-{r.community[2:]}", 1, r.title, r.summary, rating=r.rating) for r in (MILL, INN)]
        tree = [community("0-all", "1-mill", "1-inn"), *(community(each.community, parent="0-all") for each in parts)]
        given: dict[str, Any] = {"reports": [whole, *parts], "communities": tree}
        assert names(select("Who owned the inn?", **given)) == ["1-inn"]
        assert names(select("What are the main themes?", **given)) == ["0-all"]

    def test_a_community_without_a_report_is_passed_over_for_its_children(self) -> None:
        tree = [community("0-all", "1-inn"), community("1-inn", parent="0-all")]
        part = Report("1-inn", 1, "The inn", "Hanna Roe owned the inn.")
        assert names(select("What are the main themes?", reports=[part], communities=tree)) == ["1-inn"]

    def test_the_more_reports_the_fewer_are_given_with_their_findings(self) -> None:
        assert [each.text for each in select("What are the main themes?", 1000)] == [
            full_text(each) for each in REPORTS
        ]
        assert select("What are the main themes?", 30)[0].text == brief_text(MILL)

    def test_too_small_a_budget_is_a_warning_and_the_best_report_cut(self) -> None:
        long = Report("0-mill", 0, "The mill", "It ground barley. " + "It stood by the sea and ran with the tide. " * 9)
        with pytest.warns(UserWarning, match="too small for any report"):
            found = select("The mill?", 12, reports=[long], communities=[community("0-mill")])
        assert 0 < words(found[0].text) <= 12
        with pytest.warns(UserWarning, match="too small for any report"):
            assert select("The mill?", 1, reports=[long], communities=[community("0-mill")]) == []

    def test_no_reports_give_none(self) -> None:
        assert select("The mill?", reports=[], communities=[]) == []

    @given(st.integers(1, 120), st.sampled_from(["What are the main themes?", "The inn?", "渡口？"]))
    def test_the_budget_holds(self, budget: int, question: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = select(question, budget)
        assert sum(words(each.text) for each in found) <= budget

    def test_the_choice_does_not_depend_on_the_order_of_the_reports(self) -> None:
        question = "What did the mill and the inn do with barley?"
        assert names(select(question)) == names(select(question, reports=REPORTS[::-1]))
        assert select(question, lexical=report_lexical(REPORTS)) == select(question)

    def test_vectors_that_do_not_fit_and_a_budget_that_is_none_are_refused(self) -> None:
        with pytest.raises(UsageError, match="vectors has 1 rows for 3 reports"):
            select("?", vectors=np.zeros((1, 2), np.float32))
        with pytest.raises(UsageError, match="budget is 0"):
            select("?", 0)

    def test_reports_come_to_an_eighth_of_the_source_and_a_little_in_any_case(self) -> None:
        assert [report_budget(tokens, 24_000) for tokens in (0, 8_000, 40_000, 10**6)] == [1000, 1000, 5000, 24_000]
        assert report_budget(40_000, 50) == 50


class TestPoints:
    @pytest.mark.parametrize(
        "reply",
        [
            '{"points": [{"description": "Trade grew [2].", "score": 80}]}',
            '```json\n{"points": [{"description": "Trade grew [2].", "score": "80"}]}\n```',
            'Here: {"Points": [{"description": "Trade grew [2].", "score": "80/100"},]} Done.',
            '[{"description": "Trade grew [2].", "score": 80}]',
            '{"description": "Trade grew [2].", "score": 80}',
            '{"points": {"description": "Trade grew [2].", "score": 80}}',
            '{"points": [{"description": "Trade grew [2].", "score": 80}, {"description": "Ships w',
        ],
    )
    def test_json_is_read_however_it_is_written(self, reply: str) -> None:
        assert read_points(reply, 3).points == (Point("Trade grew.", 80.0, (2,)),)

    @pytest.mark.parametrize(
        "reply", ['{"points": []}', '{"points": null}', "{}", "[]", "```json\n[]\n```", "None", "无"]
    )
    def test_a_reply_can_say_that_there_are_none(self, reply: str) -> None:
        assert read_points(reply, 3) == ((), False)

    def test_prose_is_one_point_in_the_middle(self) -> None:
        found = read_points("Mostly it is about trade\nby sea [1].", 3)
        assert found == ((Point("Mostly it is about trade by sea.", 50.0, (1,)),), True)

    @pytest.mark.parametrize(
        ("score", "read"), [(-5, 0), (250, 100), (None, 50), ("high", 50), (True, 50), ("7.5", 7.5)]
    )
    def test_scores_are_from_0_to_100(self, score: Any, read: float) -> None:
        assert read_points(json.dumps({"points": [{"description": "x", "score": score}]}), 1).points[0].score == read

    def test_a_point_without_words_is_none(self) -> None:
        assert read_points('{"points": [{"description": "[1]", "score": 9}, {"score": 3}, 7, "Barley"]}', 1).points == (
            Point("Barley", 50.0, ()),
        )

    @given(st.text(), st.integers(1, 5))
    def test_any_text_is_read(self, reply: str, reports: int) -> None:
        for point in read_points(reply, reports).points:
            assert 0 <= point.score <= 100
            assert set(point.reports) <= set(range(1, reports + 1))


class TestGlobalAnswer:
    def test_reports_that_fit_into_one_prompt_take_one_call(self) -> None:
        model = scripted(last="Barley was ground at the mill [1], and an inn stood there [2].")
        answer = ask(model, each=False)
        assert len(model.prompts) == answer.usage.calls == 1
        assert all(f"] {report.title}\n" in model.prompts[0] for report in REPORTS)
        assert (answer.mode, answer.found) == ("global", True)

    def test_more_reports_are_shared_out_and_the_best_points_come_first(self) -> None:
        model = scripted(points(("Barley was ground.", 40)), points(("Hanna Roe owned an inn.", 90)), points())
        answer = ask(model, each=False, max_context_tokens=24)
        assert len(model.prompts) == answer.usage.calls == 3, "the inn and the ferry fit into one prompt"
        assert "[1] Hanna Roe owned an inn.\n\n[2] Barley was ground." in model.prompts[-1]

    def test_points_without_help_are_dropped(self) -> None:
        model = scripted(points(("Barley was ground.", 40), ("Nothing of it.", 0)), points(("No.", 0)), points())
        ask(model)
        assert "Nothing of it" not in model.prompts[-1]

    def test_without_any_helpful_point_there_is_no_further_call(self) -> None:
        model = scripted(points(("Nothing of it.", 0)), points(), points())
        answer = ask(model)
        assert answer.text == no_data_text("What?")
        assert (answer.found, answer.usage.calls, len(model.prompts)) == (False, 3, 3)

    def test_no_reports_take_no_call(self) -> None:
        model = scripted()
        answer = global_answer(model, "主要内容是什么？", [], counter=words)
        assert (answer.text, answer.mode, model.prompts) == (no_data_text("主"), "global", [])

    def test_one_odd_reply_does_not_empty_the_answer(self) -> None:
        replies = ('```json\n{"points": [{"description": "Trade grew", "score": 80}]}\n```', "Mostly trade by sea.")
        model = scripted(*replies, points(), last=lambda prompt: prompt.split("[Passages]:")[1])
        with pytest.warns(UserWarning, match="no JSON, used as text: 'Mostly trade by sea.'"):
            answer = ask(model)
        assert "[1] Trade grew\n\n[2] Mostly trade by sea." in answer.text

    def test_one_failed_call_does_not_lose_the_others_and_is_named(self) -> None:
        model = scripted(points(("Barley was ground [1].", 70)), ValueError("overloaded"), points())
        with pytest.warns(UserWarning, match=r"of 3 calls for points 1 failed.*overloaded"):
            assert ask(model).found

    def test_where_all_calls_fail_the_error_is_raised(self) -> None:
        with pytest.raises(ModelError, match="overloaded"):
            ask(scripted(*[ValueError("overloaded")] * 3))

    def test_no_data_is_not_said_where_a_call_failed(self) -> None:
        with pytest.raises(ModelError, match="overloaded"):
            ask(scripted(points(), ValueError("overloaded"), points()))

    def test_a_failed_last_call_is_raised(self) -> None:
        with pytest.raises(ModelError, match="overloaded"):
            ask(scripted(points(("Barley.", 5)), points(), points(), last=ValueError("overloaded")))

    def test_equal_points_are_one_with_its_best_score(self) -> None:
        model = scripted(points(("Barley.", 5)), points(("Barley.", 90)), points(("林晚撑船。", 50)))
        ask(model)
        assert "[1] Barley.\n\n[2] 林晚撑船。\n\n[Question]" in model.prompts[-1]

    @given(st.integers(1, 60))
    def test_no_prompt_has_more_passages_than_the_budget(self, budget: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = scripted(*[points(("Barley was ground at length.", 5))] * 3)
            ask(model, each=False, max_context_tokens=budget)
        for prompt in model.prompts:
            context = prompt.split("]:\n")[1].rsplit("\n\n[", 1)[0]
            assert words(context) <= budget

    def test_the_prompts_are_in_the_question_s_language_or_in_the_one_that_is_set(self) -> None:
        model = scripted()
        ask(model, "主要内容是什么？", each=False)
        ask(model, "主要内容是什么？", each=False, voice=Voice("en"))
        assert ["[段落]:" in prompt for prompt in model.prompts] == [True, False]

    async def test_awaited_it_asks_the_same_and_answers_the_same(self) -> None:
        models = [ScriptedChatModel(reply=stage_reply) for _ in range(2)]
        given: dict[str, Any] = {"counter": words, "lookup": lookup, "each": True}
        first = global_answer(models[0], "What are the main themes?", chosen(*REPORTS), **given)
        second = await aglobal_answer(models[1], "What are the main themes?", chosen(*REPORTS), **given)
        assert first == second
        assert sorted(models[0].prompts) == sorted(models[1].prompts)

    def test_calls_for_points_are_in_flight_together_within_the_run_s_limit(self) -> None:
        for limit, peak in ((1, 1), (3, 3)):
            model = scripted(*[points(("Barley.", 5))] * 3)
            model.delay = 0.05
            with Run(limit).active():
                ask(model)
            assert model.peak == peak


class TestCitations:
    def test_a_number_leads_to_the_sentence_of_a_chunk_behind_its_report(self) -> None:
        answer = ask(scripted(last="An inn belonged to Hanna Roe [2]. The miller was called Penn [1]."), each=False)
        found = {citation.number: citation for citation in answer.citations}
        assert found[2].quote == "Hanna Roe owned the inn."
        assert found[1].quote == "Its miller was Jory Penn."
        for citation in answer.citations:
            assert TEXTS[citation.chunk_id][citation.start : citation.end] == citation.quote
            assert citation.source == f"{citation.chunk_id}.txt"

    def test_through_a_point_too(self) -> None:
        model = scripted(points(("Penn left [1].", 40)), points(("Beer was brewed [1].", 90)), points())
        model.reply, inner = (lambda p: "Beer was brewed [1]." if '"points"' not in p else inner(p)), model.reply
        answer = ask(model)
        assert answer.citations[0].quote == "She brewed beer of the barley."

    def test_a_citation_that_points_nowhere_is_removed_with_a_warning(self) -> None:
        with pytest.warns(UserWarning, match=r"removed: \[9\]"):
            answer = ask(scripted(last="An inn [2][9]."), each=False)
        assert answer.text == "An inn [2]."

    def test_where_the_words_differ_the_report_s_own_decide(self) -> None:
        answer = ask(scripted(last="有一家客栈 [2]。"), "主要内容是什么？", each=False)
        assert answer.citations[0].quote == "Hanna Roe owned the inn."

    def test_without_the_chunks_the_report_is_quoted(self) -> None:
        answer = ask(scripted(last="An inn [2]."), each=False, lookup=None)
        assert answer.citations[0].quote in brief_text(INN)


class TestWithoutAModel:
    def test_sentences_of_reports_are_quoted_from_their_chunks(self) -> None:
        answer = offline_global_answer("Who was the miller, and who owned the inn?", chosen(MILL, INN), lookup, limit=2)
        assert {citation.quote for citation in answer.citations} == {
            "Its miller was Jory Penn.",
            "Hanna Roe owned the inn.",
        }
        for citation in answer.citations:
            assert TEXTS[citation.chunk_id][citation.start : citation.end] == citation.quote
        assert (answer.mode, answer.found, answer.usage) == ("global", True, Usage())

    def test_a_question_without_a_subject_has_the_first_sentence_of_each_report(self) -> None:
        answer = offline_global_answer("主要内容是什么？", chosen(FERRY, MILL), lookup, limit=2)
        assert answer.text == "渡口：林晚在渡口撑船。[1]The mill：The tide mill ground barley.[2]"

    def test_of_a_report_that_a_model_wrote_the_closest_sentence_is_quoted(self) -> None:
        written = Report("0-1", 0, "An inn", "In this place Hanna Roe was the owner of an inn.", chunks=("c1", "c2"))
        answer = offline_global_answer("Who owned the inn?", chosen(written), lookup)
        assert [citation.quote for citation in answer.citations] == ["Hanna Roe owned the inn."]

    def test_a_sentence_is_found_though_its_white_space_differs(self) -> None:
        spaced = {"c1": Document("So: Hanna\nRoe  owned the inn. Yes.", id="c1", metadata={"source": "a"})}
        report = Report("0-1", 0, "Inn", "Hanna Roe owned the inn.", chunks=("c1",))
        answer = offline_global_answer("Who owned the inn?", chosen(report), lambda ids: spaced)
        assert answer.citations[0].quote == "Hanna\nRoe  owned the inn."

    def test_nearness_decides_where_words_do_not(self) -> None:
        near = {"Hanna Roe owned the inn.": 0.9}
        answer = offline_global_answer(
            "Whose was it?", chosen(MILL, INN), lookup, limit=1, nearness=lambda texts: [near.get(t, 0) for t in texts]
        )
        assert answer.citations[0].quote == "Hanna Roe owned the inn."

    def test_no_reports_are_no_data(self) -> None:
        assert offline_global_answer("Who?", [], lookup).text == no_data_text("Who?")

    def test_without_chunks_the_reports_are_quoted(self) -> None:
        answer = offline_global_answer("What are the main themes?", chosen(INN))
        assert (answer.text, answer.citations[0].chunk_id) == ("The inn: Hanna Roe owned the inn. [1]", "0-inn")

    @pytest.mark.parametrize(
        ("question", "back", "alone"),
        [
            ("What are the main themes?", "Its roof was of slate.", "The weir at Oswin was built by monks."),
            ("What are the main themes?", "Jory Penn answered that remark.", "The weir at Oswin was built by monks."),
            ("主要内容是什么？", "它的屋顶是石板的。", "青石镇的堤坝由僧人修建。"),
            ("主なテーマは何ですか？", "その屋根は石でできていた。", "堰は僧侶たちによって築かれた。"),
        ],
    )
    def test_to_a_question_on_themes_a_sentence_that_points_back_is_passed_over_for_one_that_stands_alone(
        self, question: str, back: str, alone: str
    ) -> None:
        join = " " if back.isascii() else ""
        report = Report("0-weir", 0, "Weir", f"{back}{join}{alone}")
        answer = offline_global_answer(question, chosen(report), limit=1)
        assert [citation.quote for citation in answer.citations] == [alone]

    def test_where_every_sentence_points_back_one_is_quoted_all_the_same(self) -> None:
        report = Report("0-weir", 0, "Weir", "It was of stone. They built it.")
        assert offline_global_answer("What are the main themes?", chosen(report), limit=1).found

    def test_the_title_stands_once_before_the_sentences_of_its_report(self) -> None:
        report = Report("0-weir", 0, "Weir [3]", "Monks built the weir. Salmon leap the weir.")
        answer = offline_global_answer("What are the main themes?", chosen(report), limit=2)
        assert answer.text == "Weir (3): Monks built the weir. [1] Salmon leap the weir. [2]"

    def test_to_a_question_on_one_thing_no_titles_are_put_in(self) -> None:
        assert offline_global_answer("Who owned the inn?", chosen(INN), limit=1).text == "Hanna Roe owned the inn. [1]"

    def test_a_heading_is_not_quoted_where_anything_else_is_said(self) -> None:
        report = Report("0-weir", 0, "Weir", "# The weir of Oswin\n\nMonks built the weir.")
        answer = offline_global_answer("What are the main themes?", chosen(report))
        assert [citation.quote for citation in answer.citations] == ["Monks built the weir."]

    def test_a_heading_alone_is_quoted_without_its_marks(self) -> None:
        report = Report("0-weir", 0, "Weir", "# The weir of Oswin")
        assert offline_global_answer("What are the main themes?", chosen(report)).text == "Weir: The weir of Oswin [1]"
