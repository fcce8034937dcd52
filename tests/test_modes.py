"""Which questions are about the whole, which name no subject, and how a question is answered."""

import pytest
from langchain_core.documents import Document

from rag_transformers.answers.modes import asks_for_whole, choose_mode, is_about_nothing, is_general
from rag_transformers.retrieval.evidence import Evidence, Finding

WHOLE = [
    "What are the main themes?",
    "Summarize the story.",
    "What is this book about?",
    "What's it about?",
    "What happens in the story?",
    "Give an overview of the documents.",
    "Which topics recur across all documents?",
    "Who are the main characters and how are they related?",
    "What are the main news discussed in the document?",
    "哪些主题贯穿全书？",
    "这些文档主要讲了什么？",
    "请概括全书的主要人物",
    "这本书主要讲什么？",
    "请用三句话概括这个故事",
    "文章的中心思想是什么",
    "本书的主要内容是什么？",
]
WHOLE_WITH_SUBJECT = [
    "What are the main themes of botany?",
    "How do the documents as a whole portray women?",
    "What themes connect medicine and trade?",
    "概括一下植物学的主要内容。",
    "中国的主要思想是什么？",
    "对上海的总体印象如何？",
]
ONE_THING = [
    "Who built the mill?",
    "What did Jory Penn do in the story?",
    "When did the bridge over the Fal open?",
    "What does this collection tell about trade?",
    "谁建了磨坊？",
    "佐里·潘什么时候离开的？",
]


def evidence(question: str, cosine: float, held: float) -> Evidence:
    """What one sentence holds on a question: its cosine, and the share of the question's terms that it has."""
    found = Finding(Document("The mill was built in 1740."), 0, 0, 27, cosine, ("mill",) if held else (), 0.0)
    return Evidence(question, {"mill": held, "rest": 1 - held}, 0.0, (found,))


@pytest.mark.parametrize("question", WHOLE)
def test_a_question_on_themes_or_the_whole_is_known_and_names_no_subject(question: str) -> None:
    assert asks_for_whole(question)
    assert is_about_nothing(question)


@pytest.mark.parametrize(
    "question",
    ["What topics are covered?", "What are these documents about?", "Summarize everything", "作者想表达什么？"],
)
def test_one_of_general_words_alone_names_no_subject_however_it_is_put(question: str) -> None:
    assert is_about_nothing(question)


def test_a_question_without_a_word_is_about_nothing_that_can_be_told() -> None:
    assert not is_about_nothing("Why?")
    assert not is_about_nothing("？")


@pytest.mark.parametrize("question", WHOLE_WITH_SUBJECT)
def test_one_with_a_subject_needs_something_on_that_subject(question: str) -> None:
    assert asks_for_whole(question)
    assert not is_about_nothing(question)


@pytest.mark.parametrize("question", ONE_THING)
def test_a_question_on_one_thing_is_not_about_the_whole(question: str) -> None:
    assert not asks_for_whole(question)
    assert not is_about_nothing(question)


@pytest.mark.parametrize("name", ["林晚", "中国", "上海", "Ada Moss", "Main Street mill"])
def test_names_are_no_general_words(name: str) -> None:
    assert not is_general(name)


class TestChooseMode:
    @pytest.mark.parametrize("question", [*WHOLE, *WHOLE_WITH_SUBJECT])
    def test_the_whole_is_global_however_well_a_sentence_suits(self, question: str) -> None:
        assert choose_mode(question, evidence(question, 0.9, 1.0)) == "global"

    @pytest.mark.parametrize("question", ONE_THING)
    def test_a_sentence_that_stands_out_makes_it_local(self, question: str) -> None:
        assert choose_mode(question, evidence(question, 0.5, 0.6)) == "local"

    @pytest.mark.parametrize("question", ["How did people live?", "百姓怎样生活？"])
    def test_where_no_sentence_stands_out_it_is_global(self, question: str) -> None:
        assert choose_mode(question, evidence(question, 0.15, 0.0)) == "global"

    @pytest.mark.parametrize("question", ["How did Jory Penn live?", "佐里·潘怎样生活？"])
    def test_a_name_makes_it_local(self, question: str) -> None:
        assert choose_mode(question, evidence(question, 0.15, 0.0), ["Jory Penn"]) == "local"

    @pytest.mark.parametrize("question", ["Summarize the life of Jory Penn.", "总结一下佐里·潘的一生。"])
    def test_a_summary_of_somebody_is_local_and_of_nobody_global(self, question: str) -> None:
        assert choose_mode(question, evidence(question, 0.5, 0.6), ["Jory Penn"]) == "local"
        assert choose_mode(question, evidence(question, 0.5, 0.6)) == "global"

    def test_without_a_sentence_it_is_global(self) -> None:
        assert choose_mode("Who?", Evidence("Who?", {}, 0.0, ())) == "global"
