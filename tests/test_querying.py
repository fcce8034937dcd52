"""Answers: quoted without a model, checked with one, within a budget, and none where the index holds nothing."""

import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from rag_transformers.answers.querying import (
    Answer,
    Citation,
    Context,
    answer_context,
    answer_prompt_inputs,
    check_question,
    no_data_answer,
    offline_answer,
    read_answer,
)
from rag_transformers.embeddings import default_embeddings
from rag_transformers.errors import UsageError
from rag_transformers.models.run import Usage
from rag_transformers.prompts import load_prompt
from rag_transformers.retrieval.evidence import Evidence, find_evidence
from rag_transformers.retrieval.ranking import Lexical, lexical_text, sentence_texts


def words(text: str) -> int:
    return len(text.split())


def passage(text: str, number: int = 0, start: int = 0, source: str = "a.txt") -> Document:
    place = {"source": source, "chunk": number, "start": start, "end": start + len(text)}
    return Document(text, id=f"{source}-{number}", metadata=place)


def evidence(question: str, chunks: list[Document]) -> Evidence:
    lexical = Lexical((str(chunk.id), lexical_text(chunk)) for chunk in chunks)
    vectors = [default_embeddings().embed_array([each.text for each in sentence_texts(chunk)]) for chunk in chunks]
    return find_evidence(question, default_embeddings().embed_query(question), chunks, vectors, lexical)


TIDE = (
    "The tide mill at Brea was built in 1740.\nIt ground barley while the sea ran out. Its last miller was Jory Penn. "
    "He left for Canada in 1921."
)
潮 = "布雷亚的潮汐磨坊建于1740年。退潮时它碾磨大麦。最后一位磨坊主是佐里·潘。"


class TestQuestion:
    @pytest.mark.parametrize("question", ["", "  \n\t", "\u3000", None])
    def test_an_empty_one_is_refused(self, question: object) -> None:
        with pytest.raises(UsageError, match="the question is empty"):
            check_question(question)

    @pytest.mark.parametrize("question", [7, b"Who?", ["Who?"]])
    def test_what_is_no_text_is_refused(self, question: object) -> None:
        with pytest.raises(UsageError, match="give a text"):
            check_question(question)


class TestOfflineAnswer:
    def test_quotes_the_sentence_that_answers_with_its_place_in_the_document(self) -> None:
        before = "Something else stood here. "
        answer = offline_answer(evidence("Who was the last miller?", [passage(TIDE, 2, start=len(before))]), limit=1)
        assert answer.text == "Its last miller was Jory Penn. [1]"
        citation = answer.citations[0]
        assert (citation.source, citation.chunk, citation.chunk_id) == ("a.txt", 2, "a.txt-2")
        assert (before + TIDE)[citation.start : citation.end] == citation.quote == "Its last miller was Jory Penn."
        assert answer.found

    def test_answers_chinese_in_chinese_without_spaces(self) -> None:
        answer = offline_answer(evidence("最后一位磨坊主是谁？", [passage(潮)]), limit=1)
        assert answer.text == "最后一位磨坊主是佐里·潘。[1]"
        assert answer.language == "zh"

    def test_sentences_beside_each_other_are_one_quote(self) -> None:
        question = "When was the tide mill at Brea built, and what did it grind while the sea ran out?"
        answer = offline_answer(evidence(question, [passage(TIDE)]), limit=2)
        assert [citation.quote for citation in answer.citations] == [TIDE[: TIDE.index(" Its last")]]
        assert answer.text == f"{TIDE[: TIDE.index(' Its last')]} [1]".replace("\n", " ")

    def test_each_quote_has_its_number(self) -> None:
        chunks = [
            passage(TIDE),
            passage("Canada took in many people from Brea. They sailed from Falmouth.", source="b.txt"),
        ]
        answer = offline_answer(evidence("Who left for Canada, and from where did they sail?", chunks))
        assert [citation.number for citation in answer.citations] == list(range(1, len(answer.citations) + 1))
        assert all(f"[{citation.number}]" in answer.text for citation in answer.citations)
        assert {citation.source for citation in answer.citations} == {"a.txt", "b.txt"}
        assert answer.context == tuple(chunks)

    def test_marks_in_a_quoted_text_are_not_taken_for_citations(self) -> None:
        answer = offline_answer(
            evidence("Who owned the quay?", [passage("Jory Penn owned the quay.[4] He sold it.")]), limit=1
        )
        assert answer.text == "Jory Penn owned the quay. [1]"
        assert answer.citations[0].quote == "Jory Penn owned the quay.[4]"

    def test_says_so_where_the_chunks_hold_nothing(self) -> None:
        answer = offline_answer(evidence("Which enzyme copies DNA?", [passage(TIDE)]))
        assert answer == no_data_answer("Which enzyme copies DNA?")
        assert offline_answer(evidence("哪种酶复制DNA？", [passage(潮)])).text == no_data_answer("哪").text
        assert not answer.found


class TestContext:
    def test_passages_are_numbered_and_titled(self) -> None:
        titled = passage("It ground barley.", 3, start=90)
        titled.metadata["title"] = "The tide mill"
        text = answer_context([titled, passage(TIDE)], 1000, words).text
        assert text == f"[1] The tide mill\nIt ground barley.\n\n[2] {TIDE}"

    def test_a_title_forges_neither_a_passage_nor_a_citation_and_leaves_room_for_its_passage(self) -> None:
        titled = passage("It ground barley.")
        titled.metadata["title"] = "The mill【2】\n\n[3] A mine."
        assert answer_context([titled], 1000, words).text == "[1] The mill(2) (3) A mine.\nIt ground barley."
        titled.metadata["title"] = "mill" * 1000
        [line, _] = answer_context([titled], 1000, len).text.split("\n")
        assert len(line) == len("[1] ") + 200

    def test_a_title_that_the_passage_begins_with_is_not_repeated(self) -> None:
        assert answer_context([passage("The mill\nIt ground barley.")], 100, words).text.count("The mill") == 1

    def test_the_last_passage_is_cut_at_the_end_of_a_sentence(self) -> None:
        context = answer_context([passage(TIDE, start=50), passage(TIDE)], 20, words)
        assert len(context.passages) == 1
        assert context.passages[0].page_content.endswith("the sea ran out.")
        assert context.passages[0].metadata["end"] == 50 + len(context.passages[0].page_content)

    def test_everything_is_kept_where_there_is_room(self) -> None:
        chunks = [passage(TIDE), passage(潮)]
        assert answer_context(chunks, 1000, words).passages == tuple(chunks)
        assert answer_context([], 10, words) == Context("", ())

    def test_a_budget_too_small_for_any_passage_is_a_warning_and_no_error(self) -> None:
        with pytest.warns(UserWarning, match="no room for any passage"):
            assert answer_context([passage(TIDE)], 3, words) == Context("", ())

    @given(st.integers(1, 70), st.lists(st.sampled_from([TIDE, 潮, "One. Two. Three.", "\n"]), max_size=4))
    def test_the_budget_holds_whatever_is_counted(self, budget: int, texts: list[str]) -> None:
        for counter in (words, len):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context = answer_context([passage(text) for text in texts], budget, counter)
            assert counter(context.text) <= budget
            assert len(context.passages) <= len(texts)

    @pytest.mark.parametrize("budget", [0, -5, True, 2.5])
    def test_a_budget_that_is_no_number_of_tokens_is_refused(self, budget: object) -> None:
        with pytest.raises(UsageError, match="budget is"):
            answer_context([], budget, words)  # type: ignore[arg-type]

    def test_what_looks_like_a_citation_in_a_passage_is_none(self) -> None:
        assert answer_context([passage("The mill burned.[3]")], 50, words).text == "[1] The mill burned.(3)"

    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_the_prompt_takes_what_is_made_for_it(self, language: str) -> None:
        context = answer_context([passage(TIDE)], 100, words)
        prompt = (
            load_prompt("answer_local", language).invoke(answer_prompt_inputs("Who {milled}?", context)).to_string()
        )
        assert context.text in prompt
        assert "Who {milled}?" in prompt


class TestReadAnswer:
    CONTEXT = answer_context([passage(TIDE, 4, start=10), passage(潮, source="潮.txt")], 500, words)

    def test_each_citation_quotes_what_it_is_cited_for(self) -> None:
        reply = "Jory Penn was the last miller [1]. 磨坊建于1740年【2】。"
        answer = read_answer("Who?", reply, self.CONTEXT, usage=Usage(1, 90, 12))
        assert answer.text == "Jory Penn was the last miller [1]. 磨坊建于1740年[2]。"
        assert [(each.number, each.source) for each in answer.citations] == [(1, "a.txt"), (2, "潮.txt")]
        assert answer.citations[0].quote == "Its last miller was Jory Penn."
        assert answer.citations[0].start == 10 + TIDE.index("Its last")
        assert answer.citations[1].quote == "布雷亚的潮汐磨坊建于1740年。"
        assert answer.usage.prompt_tokens == 90
        assert answer.context == self.CONTEXT.passages

    def test_a_citation_that_points_nowhere_is_removed_with_a_warning(self) -> None:
        with pytest.warns(UserWarning, match=r"removed: \[7\]"):
            answer = read_answer("Who?", "Jory Penn [1][7].", self.CONTEXT)
        assert answer.text == "Jory Penn [1][7].".replace("[7]", "")
        assert [each.number for each in answer.citations] == [1]

    def test_a_reply_that_cites_nothing_found_nothing(self) -> None:
        answer = read_answer("Who?", "The passages do not say.", self.CONTEXT)
        assert (answer.text, answer.citations, answer.found) == ("The passages do not say.", (), False)

    def test_a_passage_made_of_chunks_is_cited_by_the_sentence_of_a_chunk(self) -> None:
        made = Context("[1] A mill by the sea", (Document("A mill by the sea"),), (("a.txt-4", "lost"),))
        chunk = passage(TIDE, 4, start=10)
        answer = read_answer("Who?", "Jory Penn [1].", made, lookup=lambda ids: {str(chunk.id): chunk})
        assert (answer.citations[0].source, answer.citations[0].quote) == ("a.txt", "Its last miller was Jory Penn.")
        assert answer.context == made.passages

    def test_it_is_cited_itself_where_no_chunk_of_it_is_found(self) -> None:
        made = Context("[1] A mill by the sea.", (Document("A mill by the sea."),), (("lost",),))
        first, second = (
            read_answer("?", "A mill [1].", made),
            read_answer("?", "A mill [1].", made, lookup=lambda ids: {}),
        )
        assert first.citations == second.citations
        assert first.citations[0].quote == "A mill by the sea."

    def test_a_long_reply_without_any_mark_of_a_sentence(self) -> None:
        answer = read_answer("Who?", "x" * 598 + "[1]" + "x" * 700, self.CONTEXT)
        assert [each.number for each in answer.citations] == [1]


class TestAnswer:
    def test_is_ready_for_json(self) -> None:
        citation = Citation(1, "a.txt", "", 0, "id", 2, 5, "It.")
        context = (passage("It. 它。"),)
        answer = Answer("It. [1]", (citation,), context, Usage(1, 2, 3), "local", "en", True)
        told = json.loads(json.dumps(answer.to_dict(), ensure_ascii=False))
        assert told["citations"] == [vars(citation)]
        assert told["context"][0]["text"] == "It. 它。"
        assert told["usage"] == {"calls": 1, "prompt_tokens": 2, "completion_tokens": 3}
        assert (told["text"], told["found"], told["mode"], told["language"]) == ("It. [1]", True, "local", "en")

    def test_metadata_that_is_no_json_stays_out_of_it(self) -> None:
        chunk = passage("It.")
        chunk.metadata["read"] = object()
        json.dumps(Answer("", context=(chunk,)).to_dict())

    def test_as_text_is_its_text(self) -> None:
        assert str(no_data_answer("Who?")) == no_data_answer("Who?").text

    def test_no_data_is_said_in_the_question_s_language(self) -> None:
        assert no_data_answer("Who?").language == "en"
        assert no_data_answer("谁？").language == "zh"
        assert no_data_answer("谁？").text != no_data_answer("Who?").text
