"""Citations: which marks of a reply point at a passage, and what each of them quotes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from rag_transformers.answers.citations import (
    Citation,
    check_citations,
    cite,
    cited_sentences,
    closest_quote,
    closest_sentence,
    label,
    quoted,
    rounded,
    settled_citations,
    unmarked,
)
from rag_transformers.models.streaming import VisibleText


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
        ("A [source: 2].", "A [2].", (2,)),
        ("橋は長い［文章２］。", "橋は長い[2]。", (2,)),
        ("A [\u200b2\u2060].", "A [2].", (2,)),
        ("A [1,\n2].", "A [1][2].", (1, 2)),
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
        ("A [[7]2].", "A [2].", (7,)),
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


PARTS = [
    "[",
    "]",
    "【",
    "】",
    "［",
    "］",
    "(",
    ")",
    "1",
    "2",
    "9",
    "12",
    "٣",
    "３",
    ",",
    "、",
    "-",
    "†",
    "†L1-L4",
    "^",
    "a",
    "。",
    "source",
    "来源",
    "：",
    "#",
]
ANY_TEXT = st.lists(st.sampled_from([*PARTS, " and ", "sources ", " 2", " ", "\n", "\u200b"]), max_size=25).map("".join)
MARK = st.tuples(
    st.sampled_from(["[", "【", "［"]),
    st.sampled_from(["", " ", "\u200b", "\n"]),
    st.sampled_from(["", "^", "source ", "Passages ", "来源 ", "来源：", "文章", "refs #"]),
    st.sampled_from(["2", "２", "1, 2", "1、3", "1-2", "1 and 2", "1；2", "1\n~ 3"]),
    st.sampled_from(["", " ", "†L1-L4", "†mill.txt (1911)"]),
    st.sampled_from(["]", "】", "］"]),
).map("".join)


class TestNoMarkOfADocumentIsACitation:
    """What is read as a citation and what is shown without marks come from one pattern."""

    @given(MARK)
    def test_every_form_that_is_read_is_taken_from_what_is_shown(self, mark: str) -> None:
        assert check_citations(f"It burned{mark}.", 3).used
        for shown in (rounded(f"It burned{mark}."), unmarked(f"It burned{mark}.")):
            assert check_citations(shown, 3) == (shown, (), ())

    @settings(max_examples=500)
    @given(ANY_TEXT)
    def test_of_any_text_no_mark_is_left(self, text: str) -> None:
        for shown in (rounded(text), unmarked(text)):
            assert check_citations(shown, 999).used == check_citations(shown, 999).removed == ()

    @settings(max_examples=500)
    @given(ANY_TEXT)
    def test_a_mark_behind_any_text_is_the_only_one(self, text: str) -> None:
        assert check_citations(f"{rounded(text)} [1]", 999).used == (1,)
        assert check_citations(f"{label(text)} [1]", 999).used == (1,)

    @settings(max_examples=500)
    @given(st.lists(ANY_TEXT, min_size=1, max_size=3), st.sampled_from([" ", ""]))
    def test_an_answer_of_quotes_has_their_marks_and_no_other(self, quotes: list[str], space: str) -> None:
        text = quoted([Citation(n, "a", "", 0, "c", 0, 9, quote) for n, quote in enumerate(quotes, 1)], space)
        assert check_citations(text, 999) == (text.strip(), tuple(range(1, len(quotes) + 1)), ())

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("It burned[2].", "It burned(2)."),
            ("磨坊【2】毁于火。", "磨坊(2)毁于火。"),
            ("In the range ［1, 2］", "In the range (1, 2)"),
            ("See [source 2] and [3†L1].", "See (source 2) and (3†L1)."),
            ("See [4](mills.html).", "See (4)(mills.html)."),
            ("In [1911], [see below], a[i], [1.5]", "In [1911], [see below], a[i], [1.5]"),
        ],
    )
    def test_a_text_stays_readable(self, text: str, shown: str) -> None:
        assert rounded(text) == shown

    def test_of_a_quote_the_marks_of_notes_are_left_out_and_what_may_be_data_is_not(self) -> None:
        assert unmarked("It burned.[2]【3】［４］ At [1, 2] to [source 3]") == "It burned. At (1, 2) to (source 3)"

    def test_a_mark_that_taking_one_out_would_make_is_none(self) -> None:
        assert unmarked("[[1]2] burned") == "(2) burned"


@settings(max_examples=300)
@given(ANY_TEXT, st.integers(0, 4))
def test_of_any_reply_the_marks_are_those_used_and_checking_again_changes_nothing(reply: str, passages: int) -> None:
    checked = check_citations(reply, passages)
    assert check_citations(checked.text, passages) == (checked.text, checked.used, ())
    assert set(cited_sentences(checked.text)) == set(checked.used)


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*PARTS, " ", "\n", "[1]", "【9】", "(x)"]), max_size=25), st.integers(0, 4))
def test_of_any_reply_that_comes_in_pieces_nothing_shown_is_taken_back(pieces: list[str], passages: int) -> None:
    visible = VisibleText(settled_citations, lambda text: check_citations(text, passages).text)
    shown = "".join(map(visible.add, pieces))
    whole = check_citations("".join(pieces), passages).text
    assert shown + visible.end(whole) == whole


class TestLabel:
    def test_it_is_one_line_without_marks_and_without_what_moves_the_cursor(self) -> None:
        assert label("evil\r\nSources: [1] fake.txt\x1b[2K【2】") == "evil Sources: (1) fake.txt\\x1b[2K(2)"

    def test_a_long_one_keeps_its_beginning_and_its_end(self) -> None:
        assert label(f"archive/{'x' * 5000}/letters.txt", 40) == f"archive/{'x' * 12}…{'x' * 7}/letters.txt"
        assert len(label("磨" * 5000)) == 120

    def test_what_joins_letters_stays(self) -> None:
        assert label("پژوهش\u200cگر 👩\u200d🔬") == "پژوهش\u200cگر 👩\u200d🔬"

    @given(st.text(max_size=300))
    def test_it_is_its_own_label(self, text: str) -> None:
        assert label(label(text)) == label(text)


@pytest.mark.parametrize("piece", ["[", "[1", "[ ", "[1,", "【1-", " ", "[1] ", "[1†", "[[9]2]", "[9", "[source"])
def test_long_runs_are_read_in_linear_time(piece: str) -> None:
    for text in (piece * 20_000, piece * 20_000 + "]" * 20_000):
        assert check_citations(check_citations(text, 3).text, 3).removed == ()
        assert unmarked(unmarked(text)) == unmarked(text)


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


@pytest.mark.parametrize(
    "text", ["A mill [1", "A mill [", "磨坊【1", "磨坊［１", "A mill [\n1", "A mill [9]", "A mill [[9]2"]
)
def test_a_bracket_that_may_become_a_mark_or_a_link_is_not_shown_yet(text: str) -> None:
    assert text[: settled_citations(text)].strip() in ("A mill", "磨坊")
