"""Text: its language by script, sentences as a reader sees them, the title it begins with, and its search terms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_transformers.text import (
    LONGEST_SENTENCE,
    finished,
    key_terms,
    language_of,
    sentence_spans,
    sentences,
    split_title,
    terms,
)

MIXED = st.text(alphabet="aB1 \n\t.!?;:,…。！？；，“”「」《》（）()\"'-#雨山é\u3000", max_size=120)


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


class TestLanguage:
    @pytest.mark.parametrize(
        ("text", "language"),
        [
            ("The pump house stands by the weir.", "en"),
            ("水泵房在堰边。", "zh"),
            ("水泵房使用 Halden Marine 生产的柴油机。", "zh"),
            ("The characters 水 and 火 mean water and fire.", "en"),
            ("", "en"),
            ("1984", "en"),
        ],
    )
    def test_is_that_of_the_script_that_carries_the_text(self, text: str, language: str) -> None:
        assert language_of(text) == language

    def test_text_without_letters_has_the_default_one(self) -> None:
        assert language_of("42 + 1", default="zh") == "zh"


class TestEnglishSentences:
    @pytest.mark.parametrize(
        "text",
        [
            "Dr. Mora met Mr. Quill in St. Oswin.",
            "J. R. Vane wrote to A. B. Lund about it.",
            "The U.S. Mint paid $3.50 for each.",
            "It weighs 2.5 kg (approx. 5 lb) when dry.",
            "See No. 7 and Fig. 12 on pp. 30 and 31.",
            "Bricks, tiles, etc. were sold by Lund & Co. in Oswin.",
            '"Stop!" cried the ferryman.',
            "'Why?' she asked, and he had no answer.",
            "He waited... and waited... until noon.",
            "The firm (it was small. It was old.) made nails.",
            "Read e.g. the second chapter.",
        ],
    )
    def test_marks_inside_a_sentence_do_not_end_it(self, text: str) -> None:
        assert split(text) == [text]

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("It rained. We left.", ["It rained.", "We left."]),
            ("Was it you? No! It was I.", ["Was it you?", "No!", "It was I."]),
            ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
            ("“Come in!” The door was open.", ["“Come in!”", "The door was open."]),
            ("She moved to the U.S. The year was 1950.", ["She moved to the U.S.", "The year was 1950."]),
            ("The first was No. The second was Yes.", ["The first was No.", "The second was Yes."]),
            ("It burned.[3][12] Nobody knew why.", ["It burned.[3][12]", "Nobody knew why."]),
            ("He fell silent... Nobody spoke.", ["He fell silent...", "Nobody spoke."]),
            ("it rained. we left.", ["it rained.", "we left."]),
        ],
    )
    def test_a_sentence_ends_at_its_mark_with_the_quotes_it_closes(self, text: str, parts: list[str]) -> None:
        assert split(text) == parts


class TestChineseSentences:
    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("雨停了。我们走吧！好吗？", ["雨停了。", "我们走吧！", "好吗？"]),
            ("他说：“雨停了。”我们就走了。", ["他说：“雨停了。”", "我们就走了。"]),
            ("「雨停了。」他說。「走吧。」", ["「雨停了。」", "他說。", "「走吧。」"]),
            ("“好！”，他答应了。", ["“好！”，他答应了。"]),
            ("我……我忘了……", ["我……我忘了……"]),
            ("他读过《谁在敲门？》这本书。", ["他读过《谁在敲门？》这本书。"]),
            ("（见下文。）雨停了。", ["（见下文。）", "雨停了。"]),
            ("河长3.5公里；桥建于1902年。", ["河长3.5公里；", "桥建于1902年。"]),
            ("价格涨了.他没有买!", ["价格涨了.", "他没有买!"]),
            ("它毁于大火。[3]原因不明。", ["它毁于大火。[3]", "原因不明。"]),
            ("雨停了｡走吧", ["雨停了｡", "走吧"]),
        ],
    )
    def test_a_sentence_ends_at_its_mark_with_the_quotes_it_closes(self, text: str, parts: list[str]) -> None:
        assert split(text) == parts

    def test_both_languages_in_one_text(self) -> None:
        assert split("桥建于1902年。It was rebuilt in 1950. 如今已不通车。") == [
            "桥建于1902年。",
            "It was rebuilt in 1950.",
            "如今已不通车。",
        ]


class TestLines:
    def test_a_wrapped_sentence_is_one(self) -> None:
        text = "The mill was built in the year when a\nriver was dammed, and it ground corn for\nthe town. It burned."
        assert sentences(text) == [
            "The mill was built in the year when a river was dammed, and it ground corn for the town.",
            "It burned.",
        ]

    def test_a_wrapped_chinese_sentence_is_one(self) -> None:
        text = "堰边的磨坊建于河流筑坝之时，为三个教\n区磨面，直到铁路通车以后才停。后来它\n毁于大火。"
        assert len(sentences(text)) == 2

    def test_a_short_line_before_a_long_one_stands_alone(self) -> None:
        text = "The Old Mill\nIt stands by the weir and ground corn for three parishes until 1911."
        assert split(text)[0] == "The Old Mill"

    def test_blank_lines_headings_and_list_items_are_borders(self) -> None:
        text = "# Mills\nOne\n\nAnother\n- corn\n- oil\n1. first\n2) second\n第三章 水车\n一、总则\n（二）附\n• z"
        assert split(text) == [
            "# Mills",
            "One",
            "Another",
            "- corn",
            "- oil",
            "1. first",
            "2) second",
            "第三章 水车",
            "一、总则",
            "（二）附",
            "• z",
        ]

    def test_rows_of_a_table_are_apart(self) -> None:
        assert split("Weir\t1902\t3 m\nLock\t1911\t5 m") == ["Weir\t1902\t3 m", "Lock\t1911\t5 m"]

    def test_windows_line_ends(self) -> None:
        assert sentences("It rained.\r\n\r\nWe left\r\n\r\nat noon.") == ["It rained.", "We left", "at noon."]


class TestSpans:
    @given(MIXED)
    def test_spans_are_in_order_without_overlap_and_hold_all_that_is_visible(self, text: str) -> None:
        last = 0
        for start, end in sentence_spans(text):
            assert last <= start < end
            assert not text[last:start].strip()
            assert text[start:end] == text[start:end].strip()
            last = end
        assert not text[last:].strip()

    @pytest.mark.parametrize("text", ["", " ", "\n\n \t\n", "\u3000"])
    def test_a_blank_text_has_no_sentence(self, text: str) -> None:
        assert split(text) == []

    def test_a_text_without_marks_is_cut_at_commas(self) -> None:
        parts = split("雨一直下，" * 400)
        assert max(map(len, parts)) <= LONGEST_SENTENCE
        assert all(part.endswith("，") for part in parts)
        assert "".join(parts) == "雨一直下，" * 400

    @pytest.mark.parametrize(
        "piece", ["!", '"', '."', "(", "\n ", "字", "a ", ". ", "..a", "…", "a.\n", "(a", "，", "【"]
    )
    def test_long_runs_of_anything_are_read_in_linear_time(self, piece: str) -> None:
        text = piece * 100_000
        assert sum(end - start for start, end in sentence_spans(text)) <= len(text)


class TestTitle:
    @pytest.mark.parametrize(
        ("text", "title", "rest"),
        [
            ("The Old Mill\nIt burned.", "The Old Mill", "It burned."),
            ("\n  The Old Mill  \n\n\tIt burned.", "The Old Mill", "It burned."),
            ("# The Old Mill\n\nIt burned.", "The Old Mill", "It burned."),
            ("旧磨坊\n它毁于大火。", "旧磨坊", "它毁于大火。"),
            ("Mill (Oswin)\r\nIt burned.", "Mill (Oswin)", "It burned."),
        ],
    )
    def test_is_a_first_line_that_is_no_sentence(self, text: str, title: str, rest: str) -> None:
        found, start = split_title(text)
        assert (found, text[start:]) == (title, rest)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "\n",
            "The Old Mill",
            "The Old Mill\n\n ",
            "It burned.\nTwice.",
            "它毁于大火。\n两次。",
            "Mills:\none",
            "x" * 101 + "\nIt burned.",
        ],
    )
    def test_is_missing_where_the_first_line_is_all_or_a_sentence_or_long(self, text: str) -> None:
        assert split_title(text) == ("", 0)


class TestTerms:
    def test_words_are_folded_and_stemmed_and_stop_words_dropped(self) -> None:
        assert terms("The Ferrymen's boats were CROSSING the rivers") == ["ferrymen", "boat", "cross", "river"]

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("cities", "city"),
            ("boxes", "box"),
            ("churches", "church"),
            ("agreed", "agree"),
            ("running", "run"),
            ("Zürich", "zurich"),
            ("O’Neill", "O'Neill"),
            ("ＡＢＣ１２", "abc12"),
            ("U.S.", "US"),
            ("1,200,000", "1200000"),
            ("mill's", "mills"),
        ],
    )
    def test_spellings_of_one_word_are_one_term(self, one: str, other: str) -> None:
        assert terms(one) == terms(other) != []

    def test_short_words_are_not_stemmed_away(self) -> None:
        assert terms("sing bus red this glass") == ["sing", "bus", "red", "glass"]

    def test_chinese_gives_characters_and_pairs_but_none_over_a_function_word(self) -> None:
        assert terms("石桥的长度") == ["石", "桥", "石桥", "长", "度", "长度"]

    def test_traditional_stays_as_it_is(self) -> None:
        assert "國際" in terms("國際")
        assert "国际" not in terms("國際")

    def test_question_words_are_no_terms(self) -> None:
        assert terms("为什么？怎么？谁？") == []
        assert terms("What is it, and why?") == []

    def test_key_terms_are_pairs_once_each_and_a_lone_character_stays(self) -> None:
        assert key_terms("谁修的桥？石桥的桥") == ["修", "桥", "石桥"]

    @given(st.text(max_size=60))
    def test_any_text_has_terms_in_one_form(self, text: str) -> None:
        assert all(term and term == term.strip() for term in terms(text))
        assert set(key_terms(text)) <= set(terms(text))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("He left. She stayed and", "He left."),
        ("He left. She stayed.", "He left. She stayed."),
        ("他走了。她留下，", "他走了。"),
        ("“他走了。”她", "“他走了。”"),
        ("No end", ""),
        ("", ""),
    ],
)
def test_of_a_cut_text_the_whole_sentences_are_finished(text: str, whole: str) -> None:
    assert finished(text) == whole
