"""Which names stand where: what counts as a name, which one wins, and that adding and deleting leave no trace."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_transformers.errors import IndexDamagedError
from rag_transformers.retrieval.mention_words import is_short, joined, mention_key, parts, title_key, words
from rag_transformers.retrieval.mentions import Mentions, Said


def mentions(*said: Said) -> Mentions:
    return Mentions([str(number) for number in range(len(said))], lambda stamps: [said[int(s)] for s in stamps])


def names_of(found: Mentions, chunk: int) -> set[str]:
    return {found.names[name] for name in found.chunk_names[chunk]}


def sentence_names(found: Mentions) -> list[set[str]]:
    return [{found.names[name] for name in row} for row in found.sentence_names]


class TestKeys:
    @pytest.mark.parametrize(
        "spelling", ["the Salt Mill", "SALT-MILL", "Salt  Mill's", "“Salt Mill”", "Ｓａｌｔ Mill", "Salt Mill’s"]
    )
    def test_spellings_of_one_name_have_one_key(self, spelling: str) -> None:
        assert mention_key(spelling) == "salt mill"

    def test_names_that_differ_keep_their_own(self) -> None:
        keys = [mention_key(name) for name in ("C", "C#", "C++", "刘备", "劉備", "Åland", "Aland", "The")]
        assert len(set(keys)) == len(keys)

    def test_points_of_initials_do_not_count(self) -> None:
        assert mention_key("J. K. Orr") == mention_key("J K Orr")
        assert words("the U.S. mint") == words("the US mint")

    def test_chinese_is_read_by_the_character_whatever_the_spacing(self) -> None:
        assert mention_key("《石 桥镇》") == mention_key("石桥镇") == "石桥镇"
        assert mention_key("石桥 Bank") == "石桥 bank" != mention_key("石桥Bank2")

    def test_a_bracket_at_the_end_of_a_title_does_not_count(self) -> None:
        assert title_key("Lock (novel)") == title_key("The Lock") == "lock"
        assert title_key("船闸（小说）") == "船闸"

    @given(st.lists(st.sampled_from(["ada", "moss", "c#", "o'neil", "刘", "备", "7"]), max_size=6))
    def test_a_key_gives_its_words_back(self, found: list[str]) -> None:
        assert parts(joined(found)) == found

    def test_one_word_may_mean_anything_but_two_han_characters_do_not(self) -> None:
        assert [is_short(key) for key in ("moss", "1902", "刘", "刘备", "ada moss")] == [True, True, True, False, False]


class TestWhatStandsWhere:
    def test_a_name_of_one_chunk_is_found_in_all(self) -> None:
        found = mentions(
            Said("", ["Ada Moss built it."], ["Ada Moss"]), Said("", ["It rained.", "The widow of ADA MOSS left."], [])
        )
        assert sentence_names(found) == [{"ada moss"}, set(), {"ada moss"}]
        assert names_of(found, 1) == {"ada moss"}

    def test_the_same_in_chinese(self) -> None:
        found = mentions(Said("", ["苏砚修了石桥。"], ["苏砚"]), Said("", ["石桥由苏砚所建。"], ["石桥"]))
        assert sentence_names(found) == [{"苏砚", "石桥"}, {"石桥", "苏砚"}]

    def test_one_word_is_looked_for_in_its_own_chunk_only(self) -> None:
        found = mentions(Said("", ["Moss built it."], ["Moss"]), Said("", ["Moss grew on the wall."], []))
        assert sentence_names(found) == [{"moss"}, set()]

    def test_but_a_title_of_one_word_everywhere(self) -> None:
        found = mentions(Said("Oswin (river)", ["It is long."], []), Said("", ["They crossed the Oswin."], []))
        assert names_of(found, 1) == {"oswin"}
        assert found.names[found.titles[0]] == "oswin"
        assert found.titles[1] == -1

    def test_the_longest_name_counts(self) -> None:
        found = mentions(
            Said("", ["Salt Mill Road is long."], ["Salt Mill Road", "Salt Mill"]), Said("", ["The Salt Mill."], [])
        )
        assert sentence_names(found) == [{"salt mill road"}, {"salt mill"}]

    def test_no_name_reaches_over_the_end_of_a_sentence(self) -> None:
        found = mentions(Said("", ["She met Ada.", "Moss grew there."], []), Said("", ["Ada Moss."], ["Ada Moss"]))
        assert sentence_names(found) == [set(), set(), {"ada moss"}]

    def test_a_name_that_stands_in_no_sentence_belongs_to_its_chunk(self) -> None:
        found = mentions(Said("", ["She built it."], ["Ada Moss"]))
        assert sentence_names(found) == [set()]
        assert names_of(found, 0) == {"ada moss"}

    @pytest.mark.parametrize("name", ["", " ", "!?", "a", "桥", "\ud800"])
    def test_what_names_nothing_is_dropped(self, name: str) -> None:
        assert mentions(Said(name, ["A bridge, 一座桥."], [name])).names == ()

    def test_nothing_is_no_error(self) -> None:
        assert (len(Mentions()), Mentions().names, Mentions().named_in("Who was Ada Moss?")) == (0, (), [])


class TestQuestions:
    found = mentions(
        Said("Oswin", ["Ada Moss built the Salt Mill on Salt Mill Road."], ["Ada Moss", "Salt Mill", "Salt Mill Road"]),
        Said("", ["苏砚住在青石巷。", "Brandt came."], ["苏砚", "青石巷", "Brandt"]),
    )

    def asked(self, question: str, also: Sequence[str] = ()) -> list[str]:
        return [self.found.names[name] for name in self.found.named_in(question, also)]

    def test_names_known_are_found_the_longest_only(self) -> None:
        assert self.asked("who lived in SALT-MILL road by the oswin?") == ["oswin", "salt mill road"]
        assert self.asked("苏砚住在哪里？") == ["苏砚"]

    def test_one_word_only_if_it_was_read_as_a_name(self) -> None:
        assert self.asked("Where did Brandt live?") == []
        assert self.asked("Where did Brandt live?", ["Brandt", "Nobody Known"]) == ["brandt"]


SENTENCES = ["ada moss", "salt mill road", "ada moss salt mill", "moss ada", "石桥镇", "石桥", "镇石桥", "oswin mill"]
NAMES = ["ada moss", "salt mill", "salt mill road", "mill", "石桥", "石桥镇", "moss", "oswin mill", "unheard of"]
chunk = st.builds(
    Said,
    st.sampled_from(["", "", "mill", "oswin", "石桥"]),
    st.lists(st.sampled_from(SENTENCES), max_size=3),
    st.lists(st.sampled_from(NAMES), max_size=2),
)


def content(found: Mentions) -> list[object]:
    rows = [[row.tolist() for row in rows] for rows in (found.chunk_names, found.sentence_names)]
    return [found.stamps, found.names, *rows, found.titles.tolist(), found.chunk_sentences.tolist()]


class TestChange:
    @given(st.lists(chunk, min_size=1, max_size=7), st.data())
    def test_after_any_adding_and_deleting_it_is_as_from_scratch(self, chunks: list[Said], data: st.DataObject) -> None:
        reads: list[str] = []

        def read(stamps: Sequence[str]) -> list[Said]:
            reads.extend(stamps)
            return [chunks[int(stamp)] for stamp in stamps]

        numbers = [str(number) for number in range(len(chunks))]
        kept: Mentions | None = None
        for stamps in data.draw(st.lists(st.lists(st.sampled_from(numbers), unique=True), min_size=2, max_size=4)):
            known = set(kept.stamps) if kept else set()
            reads.clear()
            kept = Mentions(stamps, read, kept)
            assert reads == [stamp for stamp in stamps if stamp not in known]
            assert content(kept) == content(Mentions(stamps, read))
            kept = Mentions.from_bytes(kept.to_bytes())
            assert content(kept) == content(Mentions(stamps, read))

    def test_a_name_that_nobody_says_any_more_goes_and_the_shorter_one_counts_again(self) -> None:
        said = {
            "long": Said("", ["Salt Mill Road."], ["Salt Mill Road"]),
            "short": Said("", ["Salt Mill."], ["Salt Mill"]),
            "both": Said("", ["On Salt Mill Road."], []),
        }

        def read(stamps: Sequence[str]) -> list[Said]:
            return [said[stamp] for stamp in stamps]

        found = Mentions(said, read)
        assert names_of(found, 2) == {"salt mill road"}
        found = Mentions(["short", "both"], read, found)
        assert names_of(found, 1) == {"salt mill"}
        assert found.names == ("salt mill",)

    def test_only_chunks_that_hold_a_new_name_are_matched_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said = [Said("", ["It rained on the mill."], []), Said("", ["The salt mill."], []), Said("", [], ["Salt Mill"])]
        old = Mentions("01", lambda stamps: [said[int(s)] for s in stamps])
        from rag_transformers.retrieval.mention_matching import Matcher

        matched, found_in = [], Matcher.found_in

        def counted(self: Matcher, text: Sequence[int], own: Sequence[int]) -> list[int]:
            matched.append(len(text))
            return found_in(self, text, own)

        monkeypatch.setattr(Matcher, "found_in", counted)
        new = Mentions("012", lambda stamps: [said[int(s)] for s in stamps], old)
        assert [names_of(new, chunk) for chunk in range(3)] == [set(), {"salt mill"}, {"salt mill"}]
        assert len(matched) == 2


class TestBytes:
    @pytest.mark.parametrize("data", [b"", b"PK", Mentions().to_bytes()[:-40]])
    def test_what_is_broken_is_refused(self, data: bytes) -> None:
        with pytest.raises(IndexDamagedError, match="mentions"):
            Mentions.from_bytes(data)

    def test_what_another_version_wrote_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = mentions(Said("", ["Ada Moss."], ["Ada Moss"])).to_bytes()
        monkeypatch.setattr("rag_transformers.retrieval.mentions._FORM", 0)
        with pytest.raises(IndexDamagedError, match="form"):
            Mentions.from_bytes(data)

    def test_half_a_surrogate_pair_is_kept(self) -> None:
        found = mentions(Said("", ["\ud83d moss x\ud83dy"], ["x\ud83dy moss"]))
        assert content(Mentions.from_bytes(found.to_bytes())) == content(found)


def test_names_are_numbered_in_order_of_their_text() -> None:
    found = mentions(Said("", ["Zed Orr, Ada Moss."], ["Zed Orr", "Ada Moss"]))
    assert found.names == ("ada moss", "zed orr")
    assert np.array_equal(found.sentence_names.values, [0, 1])
