"""Central sentences: word for word, in the order of the text, within the limit, with the names, and the same always."""

import subprocess
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_transformers.errors import UsageError
from rag_transformers.summaries.extractive import central_sentences, joined, shortened
from rag_transformers.summaries.frequent_names import frequent_names, holds
from rag_transformers.text import sentences

SHARED = Path(__file__).resolve().parents[2] / "shared"

HARBOUR = (
    "The harbour of Port Ellery was dug by Orrin Vale in 1820. It rained for most of that year. "
    "Orrin Vale paid for the harbour with money from the salt trade. His sister kept bees. "
    "When the salt trade ended, the harbour of Port Ellery fell silent. Nobody remembers the name of his horse. "
    "Ada Moss bought the harbour in 1901 and brought the salt trade back. She liked plums."
)
BRIDGE = (
    "林晚在青石镇修了一座石桥。那年春天雨水很多。石桥连接青石镇和河对岸的集市。她家养了一只黄猫。"
    "石桥建成以后，青石镇的集市越来越热闹。陈守一写文章称赞林晚修的石桥。茶馆换了新的招牌。"
    "后来洪水冲垮了石桥，陈守一请人重修。林晚晚年住在桥边。"
)


def numbered(number: int, language: str = "en") -> str:
    """A sentence unlike its neighbours."""
    if language == "zh":
        return f"第{number}号仓库的{chr(0x4E00 + number * 7 % 5000)}木在{1000 + number}年运到了青石镇。"
    return f"Barge {number} carried {number * 37 % 1009} sacks of grain{number * 13 % 700} to Port Ellery."


def in_order(found: list[str], text: str) -> bool:
    places = [text.index(sentence) for sentence in found]
    return all(first < second for first, second in pairwise(places))


class TestWhatIsChosen:
    def test_what_the_text_keeps_coming_back_to(self) -> None:
        found = joined(central_sentences([HARBOUR], 200))
        assert "harbour" in found
        for aside in ("rained", "bees", "horse", "plums"):
            assert aside not in found

    def test_in_chinese_too(self) -> None:
        found = joined(central_sentences([BRIDGE], 60))
        assert "石桥" in found
        for aside in ("雨水", "黄猫", "招牌"):
            assert aside not in found

    @pytest.mark.parametrize("text", [HARBOUR, BRIDGE])
    @pytest.mark.parametrize("limit", [20, 60, 150, 300])
    def test_sentences_come_word_for_word_in_their_order_within_the_limit(self, text: str, limit: int) -> None:
        found = central_sentences([text], limit)
        assert found
        assert in_order(found, text)
        assert len(joined(found)) <= limit

    def test_a_sentence_over_two_lines_is_kept_as_it_stands(self) -> None:
        text = "Ada Moss bought the harbour\nof Port Ellery in 1901. It rained."
        assert central_sentences([text], 60)[0] == "Ada Moss bought the harbour\nof Port Ellery in 1901."

    def test_all_is_kept_where_there_is_room(self) -> None:
        assert central_sentences([HARBOUR], len(HARBOUR)) == sentences(HARBOUR)

    def test_each_name_that_is_wanted_gets_a_sentence(self) -> None:
        for name in ("Ada Moss", "ADA MOSS", "bees", "plums"):
            assert any(holds(name)(sentence) for sentence in central_sentences([HARBOUR], 80, names=[name]))
        assert "黄猫" in joined(central_sentences([BRIDGE], 40, names=["黄猫"]))
        both = joined(central_sentences([HARBOUR], 160, names=["plums", "Ada Moss"]))
        assert "plums" in both
        assert "Ada Moss" in both

    def test_the_commonest_names_are_wanted_by_default(self) -> None:
        asides = " ".join(f"The weather of day {day} was much like that of day {day - 1}." for day in range(2, 40))
        told = "So Orrin wept. Then Orrin slept. On Monday Orrin went away to the salt works."
        assert "Orrin" in joined(central_sentences([f"{asides} {told}"], 300))

    def test_what_says_the_same_is_there_once(self) -> None:
        text = (
            "Orrin Vale dug the harbour of Port Ellery in 1820. "
            "In 1820 Orrin Vale dug the harbour of Port Ellery. Ada Moss bought it later and sold salt."
        )
        assert len([sentence for sentence in central_sentences([text], 150) if "dug" in sentence]) == 1
        assert central_sentences(["Ada left.", "Ada  left.", "Ada\nleft."], 100) == ["Ada left."]

    def test_texts_are_taken_together(self) -> None:
        parts = sentences(HARBOUR)
        assert joined(central_sentences(parts, 200)) == joined(central_sentences([HARBOUR], 200))


class TestTheLimit:
    def test_a_sentence_over_the_limit_is_cut_at_a_border(self) -> None:
        text = "Ada Moss, who bought the harbour, brought the salt trade back and ended her days in it"
        assert central_sentences([text], 40) == ["Ada Moss, who bought the harbour,"]
        assert central_sentences(["林晚修了石桥，又修了水渠，还办了学堂，晚年住在桥边"], 14) == [
            "林晚修了石桥，又修了水渠，"
        ]

    def test_a_character_is_never_split(self) -> None:
        family = "👨‍👩‍👧‍👦"
        assert shortened(family * 3, len(family) + 3) == family
        assert shortened("e\u0301" * 9, 5) == "e\u0301e\u0301"

    def test_it_is_counted_as_the_caller_counts(self) -> None:
        def words(text: str) -> int:
            return len(text.split())

        found = central_sentences([HARBOUR], 25, words)
        assert 10 < words(joined(found)) <= 25

    def test_it_holds_where_the_whole_counts_for_more_than_its_parts(self) -> None:
        def doubling(text: str) -> int:
            return len(text) * (1 + text.count(". "))

        assert doubling(joined(central_sentences([HARBOUR], 300, doubling))) <= 300

    @pytest.mark.parametrize("limit", [0, -1, True, 2.5, None])
    def test_another_limit_is_refused(self, limit: int) -> None:
        with pytest.raises(UsageError, match="limit"):
            central_sentences(["Ada left."], limit)

    def test_a_bare_text_is_refused(self) -> None:
        with pytest.raises(UsageError, match="texts"):
            central_sentences("Ada left.", 30)

    @pytest.mark.parametrize("texts", [[], [""], [" \n\t", "\u3000"]])
    def test_nothing_gives_nothing(self, texts: list[str]) -> None:
        assert central_sentences(texts, 30) == []

    @pytest.mark.parametrize("text", ["it is what it is", "***", "🎉🎉", "...", "1984", "\ud800"])
    def test_whatever_is_there_is_not_lost(self, text: str) -> None:
        assert central_sentences([text], 30) == [text]

    def test_one_character_comes_even_where_it_is_over_the_limit(self) -> None:
        assert central_sentences(["林晚走了。"], 1, lambda text: 3 * len(text)) == ["林"]


words = st.sampled_from(
    ["Ada", "Moss", "salt", "harbour", "the", "of", "林晚", "石桥", "修了", "🎉", "e\u0301", "1901"]
)
marks = st.sampled_from([" ", " ", " ", ". ", "。", "，", "? ", "\n", "\n\n", "“", "”", '"'])
texts = st.lists(st.lists(st.tuples(words, marks), max_size=40).map(lambda parts: "".join(a + b for a, b in parts)))
counters = st.sampled_from([len, lambda text: len(text.encode()), lambda text: (len(text) + 3) // 4])


@given(texts=texts, limit=st.integers(1, 200), count=counters, names=st.lists(words, max_size=3))
def test_the_rules_hold_for_any_text(texts: list[str], limit: int, count: object, names: list[str]) -> None:
    assert callable(count)
    found = central_sentences(texts, limit, count, names=names)
    assert bool(found) == any(text.strip() for text in texts)
    assert count(joined(found)) <= limit or (len(found) == 1 and len(found[0]) == 1)
    assert all(any(sentence in text for text in texts) for sentence in found)
    assert found == central_sentences(texts, limit, count, names=names)


@given(st.text(max_size=200), st.integers(1, 60))
def test_any_characters_are_cut_within_the_limit(text: str, limit: int) -> None:
    cut = shortened(text, limit)
    assert len(cut) <= limit
    assert text.strip().startswith(cut)
    assert bool(cut) == bool(text.strip())


class TestLongTexts:
    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_every_part_of_a_long_text_can_be_chosen(self, language: str) -> None:
        told = {"en": "Ada Moss of Port Ellery carried grain on every barge.", "zh": "林晚把木料都运到了青石镇的仓库。"}
        lines = [numbered(number, language) for number in range(5000)]
        lines[4400] = told[language]
        found = central_sentences(["\n\n".join(lines)], 1500, names=["Ada Moss", "林晚"])
        assert told[language] in found
        assert in_order(found, "\n\n".join(lines))
        assert 1000 < len(joined(found)) <= 1500

    def test_memory_does_not_grow_with_the_text(self) -> None:
        texts = ["\n\n".join(map(numbered, range(number))) for number in (5_000, 10_000)]
        central_sentences(texts[1:], 1000)  # loads what is loaded once, and fills the caches
        peaks = []
        for text in texts:
            tracemalloc.start()
            try:
                central_sentences([text], 1000)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        assert peaks[1] < 1.3 * peaks[0]


def test_it_is_the_same_whatever_the_hash_seed() -> None:
    code = (
        "from rag_transformers.summaries.extractive import central_sentences\n"
        f"print(central_sentences([{HARBOUR!r}, {BRIDGE!r}], 200))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "77")
    }
    assert len(told) == 1


class TestNames:
    def test_english_ones_are_capitalised_inside_a_sentence(self) -> None:
        text = "So Orrin came, and Orrin left with Ada. When Orrin and Ada met, Ada sang. On Monday and on Monday."
        assert frequent_names([text]) == ["Ada", "Orrin"]

    def test_chinese_ones_begin_with_a_surname(self) -> None:
        text = "林晚来了，林晚说，见林晚走。诸葛亮到，问诸葛亮，请诸葛亮。王熙凤笑，见王熙凤，请王熙凤。"
        assert set(frequent_names([text])) == {"林晚", "诸葛亮"} | ({"王熙凤"} & set(frequent_names([text])))

    def test_there_are_at_most_so_many(self) -> None:
        text = " ".join(f"so {name} and {name} met {name}." for name in ("Ada", "Bob", "Cid", "Dot"))
        assert len(frequent_names([text], most=2)) == 2

    def test_a_name_is_a_whole_word_or_stands_anywhere_in_chinese(self) -> None:
        assert holds("Ann")("Was Ann there?")
        assert not holds("Ann")("An annual report")
        assert holds("Port Ellery")("the quay of Port\nEllery")
        assert holds("C++")("she wrote C++, fast")
        assert holds("林晚")("后来林晚走了")
        assert not holds("", " ")("anything")


class TestJoined:
    def test_white_space_is_folded_and_blank_ones_leave_no_trace(self) -> None:
        assert joined(["Ada\n left.", " ", "Bob stayed."]) == "Ada left. Bob stayed."
        assert joined([]) == ""

    def test_a_mark_before_a_quote_counts(self) -> None:
        assert joined(["他说：“走吧。”", "她不走。"]) == "他说：“走吧。”她不走。"
        assert joined(['She said "no."', "He went."]) == 'She said "no." He went.'

    def test_what_ends_without_a_mark_is_parted_by_a_semicolon(self) -> None:
        assert joined(["A poet", "Born in Leeds."]) == "A poet; Born in Leeds."
        assert joined(["蜀汉的开国皇帝", "字玄德"]) == "蜀汉的开国皇帝；字玄德"


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
def test_the_main_people_of_a_novel_are_in_its_summary() -> None:
    text = (SHARED / "data" / "corpus_zh" / "sanguo_001-020.txt").read_text(encoding="utf-8")
    found = joined(central_sentences([text], 1000))
    assert all(name in found for name in ("曹操", "吕布", "玄德", "张飞", "袁绍", "孙策"))
    assert all(sentence in text for sentence in central_sentences([text], 1000))


class TestHeadings:
    TEXT = "# The harbour\n\nOrrin Vale dug the harbour. Salt was traded.\n\n## The harbour today\n\nIt is silent."

    def test_a_heading_is_no_sentence_of_a_summary(self) -> None:
        assert not any("#" in found or "today" in found for found in central_sentences([self.TEXT], 500))

    def test_a_first_line_with_an_empty_one_behind_it_is_a_title(self) -> None:
        assert central_sentences(["石桥\n\n林晚在青石镇修了一座石桥。"], 100) == ["林晚在青石镇修了一座石桥。"]

    def test_where_there_is_nothing_else_headings_stand_without_their_marks(self) -> None:
        assert central_sentences(["# The harbour", "## 石桥"], 100) == ["The harbour", "石桥"]
