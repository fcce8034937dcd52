"""Citations: which marks of a reply point at a passage, and what each of them quotes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from rag_transformers.answers.citations import (
    check_citations,
    cite,
    cited_sentences,
    closest_quote,
    closest_sentence,
    settled_citations,
    unmarked,
)


@pytest.mark.parametrize(
    ("reply", "text", "used"),
    [
        ("A [1].", "A [1].", (1,)),
        ("A [1][3].", "A [1][3].", (1, 3)),
        ("A [1, 2] B [3]", "A [1][2] B [3]", (1, 2, 3)),
        ("A [1-3].", "A [1][2][3].", (1, 2, 3)),
        ("A [1–3].", "A [1][2][3].", (1, 2, 3)),
        ("A [3-1].", "A [1][2][3].", (1, 2, 3)),
        ("桥很长【1】。", "桥很长[1]。", (1,)),
        ("桥很长［１，２］。", "桥很长[1][2]。", (1, 2)),
        ("桥很长[1、3]。", "桥很长[1][3]。", (1, 3)),
        ("桥很长[段落2]。", "桥很长[2]。", (2,)),
        ("A [passage 2].", "A [2].", (2,)),
        ("A [Passages 1 and 2].", "A [1][2].", (1, 2)),
        ("A 【2†source】.", "A [2].", (2,)),
        ("A [^3].", "A [3].", (3,)),
        ("A [2, 2].", "A [2].", (2,)),
    ],
)
def test_every_form_is_understood_and_written_in_one(reply: str, text: str, used: tuple[int, ...]) -> None:
    assert check_citations(reply, 3) == (text, used, ())


@pytest.mark.parametrize(
    ("reply", "text", "removed"),
    [
        ("A [7].", "A.", (7,)),
        ("A [0].", "A.", (0,)),
        ("A [1, 7].", "A [1].", (7,)),
        ("A [2-5].", "A [2][3].", (5,)),
        ("A [8-9].", "A.", (8, 9)),
        ("A [4-900].", "A.", (4, 900)),
        ("桥很长【4】。", "桥很长。", (4,)),
        ("[9] A", "A", (9,)),
        ("A [7] B", "A B", (7,)),
    ],
)
def test_a_citation_of_no_passage_is_removed_and_reported(reply: str, text: str, removed: tuple[int, ...]) -> None:
    checked = check_citations(reply, 3)
    assert (checked.text, checked.removed) == (text, removed)


@pytest.mark.parametrize("text", ["In [2021] it rose.", "A [x] B [ ] C", "See [1](page.html).", "x = [1.5]", "(1)", ""])
def test_what_is_no_citation_stays(text: str) -> None:
    assert check_citations(text, 3) == (text, (), ())


REPLIES = st.lists(
    st.sampled_from(["Ada left", "桥塌了。", "[1]", "[7]", " [1, 2]", "【3】", "[2-9]", " ", ". ", "\n"]), max_size=9
)


@given(REPLIES.map("".join), st.integers(0, 4))
def test_what_is_left_points_at_passages_and_checking_again_changes_nothing(reply: str, passages: int) -> None:
    checked = check_citations(reply, passages)
    assert all(1 <= number <= passages for number in checked.used)
    assert all(not 1 <= number <= passages for number in checked.removed)
    assert check_citations(checked.text, passages) == (checked.text, checked.used, ())
    assert set(cited_sentences(checked.text)) == set(checked.used)


@given(st.text(alphabet="a [](){}【】［］0123,-–、；† \n", max_size=60), st.integers(0, 4))
def test_any_reply_can_be_checked(reply: str, passages: int) -> None:
    assert all(1 <= number <= passages for number in check_citations(reply, passages).used)


@pytest.mark.parametrize("piece", ["[", "[1", "[ ", "[1,", "【1-", " ", "[1] "])
def test_long_runs_are_read_in_linear_time(piece: str) -> None:
    check_citations(piece * 20_000, 3)


def test_a_mark_is_for_the_sentence_it_stands_in_or_behind() -> None:
    assert cited_sentences("The mill burned [2]. It was rebuilt. [1][3]") == {
        2: ["The mill burned"],
        1: ["It was rebuilt"],
        3: ["It was rebuilt"],
    }
    assert cited_sentences("磨坊毁于大火。[1]后来重建[2]。") == {1: ["磨坊毁于大火"], 2: ["后来重建"]}


PASSAGE = Document(
    "The mill burned in 1911. It was rebuilt by Hanna Quist.\nCorn is no longer ground there.",
    id="c3",
    metadata={"source": "mills.txt", "title": "Mills", "chunk": 3, "start": 200, "end": 290},
)


def test_the_sentence_that_shares_most_with_what_it_is_cited_for_is_quoted() -> None:
    start, end = closest_sentence(PASSAGE, ["Quist had the mill rebuilt"])
    assert PASSAGE.page_content[start:end] == "It was rebuilt by Hanna Quist."


def test_the_first_sentence_is_quoted_where_nothing_is_shared() -> None:
    start, end = closest_sentence(PASSAGE, ["磨坊后来重建"])
    assert PASSAGE.page_content[start:end] == "The mill burned in 1911."
    assert closest_sentence(Document(""), ["x"]) == (0, 0)


def test_a_citation_tells_the_place_in_the_document() -> None:
    found = cite(2, PASSAGE, 25, 55)
    assert (found.number, found.source, found.title, found.chunk, found.chunk_id) == (2, "mills.txt", "Mills", 3, "c3")
    assert (found.start, found.end, found.quote) == (225, 255, "It was rebuilt by Hanna Quist.")


def test_marks_of_a_quoted_text_are_none_of_the_answer_s() -> None:
    assert unmarked("The mill[12] burned.[3]") == "The mill burned."


class TestClosestQuote:
    CHUNKS = tuple(Document(f"Nothing of it. Ship {n} left port {n}.", id=str(n)) for n in range(60))

    def test_of_many_chunks_the_one_that_says_it_is_quoted(self) -> None:
        chunk, start, end = closest_quote(self.CHUNKS, ["It was ship 41"])
        assert (chunk.id, chunk.page_content[start:end]) == ("41", "Ship 41 left port 41.")

    def test_other_texts_decide_where_none_of_the_first_has_anything_in_common(self) -> None:
        chunk, start, end = closest_quote(self.CHUNKS, ["船离开了"], ["port 7"])
        assert (chunk.id, chunk.page_content[start:end]) == ("7", "Ship 7 left port 7.")

    def test_of_equal_sentences_the_first_is_quoted(self) -> None:
        assert closest_quote(self.CHUNKS[:3], ["?"])[1:] == (0, 14)


@pytest.mark.parametrize("text", ["A mill [1", "A mill [", "磨坊【1", "磨坊［１"])
def test_an_open_bracket_is_not_shown_yet(text: str) -> None:
    assert text[: settled_citations(text)].strip() in ("A mill", "磨坊")
