"""Retrieval: what of a chunk is embedded and searched, and how words and meaning become one ranking."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from rag_transformers.embeddings import default_embeddings
from rag_transformers.errors import UsageError
from rag_transformers.retrieval.ranking import (
    NEAREST_SENTENCES,
    TITLE_WEIGHT,
    Lexical,
    dense_scores,
    fused,
    lexical_text,
    rank,
    scaled,
    sentence_texts,
    title_of,
)

SHARED = Path(__file__).resolve().parents[2] / "shared"


def chunk(text: str, start: int = 0, **metadata: str) -> Document:
    return Document(text, metadata={"source": "a", "chunk": 0, "start": start, "end": start + len(text), **metadata})


class TestTitle:
    def test_is_the_first_line_of_a_document_s_first_chunk(self) -> None:
        assert title_of(chunk("The  Lock\nIt has two gates.")) == "The Lock"
        assert title_of(chunk("The Lock\nIt has two gates.", start=80)) == ""

    def test_is_the_metadata_s_where_there_is_one(self) -> None:
        assert title_of(chunk("The Lock\nIt has two gates.", title="Locks of Oswin")) == "Locks of Oswin"
        assert title_of(chunk("It has two gates.", start=80, title="船闸")) == "船闸"
        assert title_of(chunk("It has two gates.", title=" ")) == ""


class TestSentenceTexts:
    def test_the_title_stands_in_front_of_each_sentence_and_is_none_itself(self) -> None:
        text = "船闸\n它有两道门。\n建于1902年。"
        found = sentence_texts(chunk(text))
        assert [sentence.text for sentence in found] == ["船闸\n它有两道门。", "船闸\n建于1902年。"]
        assert [text[sentence.start : sentence.end] for sentence in found] == ["它有两道门。", "建于1902年。"]

    def test_a_first_line_that_is_not_the_given_title_is_a_sentence(self) -> None:
        found = sentence_texts(chunk("The Lock\nIt has two gates and a small house beside it.", title="Locks"))
        assert [sentence.text for sentence in found] == [
            "Locks\nThe Lock",
            "Locks\nIt has two gates and a small house beside it.",
        ]

    def test_a_first_line_that_is_the_given_title_is_not(self) -> None:
        found = sentence_texts(chunk("The Lock\nIt has two gates.", title="The Lock"))
        assert [sentence.text for sentence in found] == ["The Lock\nIt has two gates."]

    def test_white_space_is_folded_in_the_text_and_kept_in_the_span(self) -> None:
        text = "It has two\ngates. It was built of oak."
        found = sentence_texts(chunk(text, start=9))
        assert found[0].text == "It has two gates."
        assert text[found[0].start : found[0].end] == "It has two\ngates."

    def test_a_blank_chunk_has_none(self) -> None:
        assert sentence_texts(chunk(" \n")) == []

    def test_a_document_without_metadata_begins_itself(self) -> None:
        assert sentence_texts(Document("The Lock\nIt has two gates."))[0].text == "The Lock\nIt has two gates."


def test_the_title_s_words_count_more_in_the_lexical_text() -> None:
    text = lexical_text(chunk("Lock\nThe lock has two gates."))
    assert text.count("Lock\n") == TITLE_WEIGHT
    assert text.endswith("\nThe lock has two gates.")
    assert lexical_text(chunk("It has two gates.", start=9)) == "It has two gates."


class TestScaled:
    @given(st.lists(st.floats(-5, 5), min_size=1, max_size=9))
    def test_lies_between_0_and_1_and_keeps_the_order(self, values: list[float]) -> None:
        found = scaled(np.array(values))
        assert ((found >= 0) & (found <= 1)).all()
        order = np.argsort(values, kind="stable")
        assert (np.diff(found[order]) >= 0).all()

    def test_a_floor_is_what_counts_as_nothing(self) -> None:
        assert scaled(np.array([1.0, 3.0]), floor=-1.0).tolist() == [0.5, 1.0]

    def test_equal_values_are_all_or_nothing(self) -> None:
        assert scaled(np.array([2.0, 2.0])).tolist() == [1, 1]
        assert scaled(np.array([0.0, 0.0])).tolist() == [0, 0]

    def test_nothing_stays_nothing(self) -> None:
        assert scaled(np.array([])).tolist() == []


class TestDenseScores:
    def test_a_passage_is_as_near_as_its_nearest_sentence(self) -> None:
        cosines, floor = dense_scores(["a", "b"], [("a", 0.2), ("b", 0.3), ("a", 0.6)])
        assert cosines.tolist() == [0.6, 0.3]
        assert floor == 0.3

    def test_a_passage_that_is_not_among_the_nearest_counts_as_the_furthest_of_them(self) -> None:
        cosines, floor = dense_scores(["a", "b", "c"], [("c", 0.5), ("a", 0.3)])
        assert cosines.tolist() == [0.3, 0.3, 0.5]
        assert floor == pytest.approx(0.1)

    def test_what_the_words_do_not_know_is_passed_over(self) -> None:
        cosines, _ = dense_scores(["a"], [("gone", 0.9), ("a", 0.4)])
        assert cosines.tolist() == [0.4]

    def test_no_sentences_at_all(self) -> None:
        cosines, floor = dense_scores(["a", "b"], [])
        assert (cosines.tolist(), floor) == ([0, 0], 0)


class TestRank:
    LEXICAL = Lexical([("mill", "The mill ground corn."), ("lock", "The lock has gates."), ("桥", "石桥建于河上。")])

    def test_words_and_meaning_add_up(self) -> None:
        found = rank("Which gates has the lock?", self.LEXICAL, [("lock", 0.5), ("mill", 0.2), ("桥", 0.1)])
        assert [scored.id for scored in found] == ["lock", "mill", "桥"]
        assert found[0].score == 1
        assert found[0].lexical > 0
        assert found[1].dense == 0.2

    def test_meaning_alone_finds_what_shares_no_word(self) -> None:
        assert rank("Where does the bridge stand?", self.LEXICAL, [("桥", 0.6), ("mill", 0.1)])[0].id == "桥"

    def test_words_alone_find_what_no_vector_is_near(self) -> None:
        assert rank("corn", self.LEXICAL, [])[0].id == "mill"

    def test_the_earlier_of_equal_ones_comes_first(self) -> None:
        assert [scored.id for scored in rank("nothing", self.LEXICAL, [])] == ["mill", "lock", "桥"]

    def test_k_is_how_many_at_most(self) -> None:
        assert len(rank("lock", self.LEXICAL, [], k=2)) == 2
        assert len(rank("lock", self.LEXICAL, [], k=9)) == 3

    @pytest.mark.parametrize("k", [0, -1, True, 1.5, "2"])
    def test_a_k_that_is_no_number_of_passages_is_refused(self, k: object) -> None:
        with pytest.raises(UsageError, match="k is"):
            rank("lock", self.LEXICAL, [], k=k)  # type: ignore[arg-type]

    def test_an_empty_index_has_nothing(self) -> None:
        assert rank("lock", Lexical(), []) == []

    def test_scores_are_those_of_the_steps(self) -> None:
        nearest = [("lock", 0.4), ("mill", 0.3), ("桥", 0.0)]
        dense, floor = dense_scores(self.LEXICAL.ids, nearest)
        scores = fused(self.LEXICAL.scores("the lock and the bridge"), dense, floor)
        by_id = {scored.id: scored.score for scored in rank("the lock and the bridge", self.LEXICAL, nearest)}
        assert [by_id[id] for id in self.LEXICAL.ids] == scores.tolist()


def test_the_right_passage_is_found_in_either_language() -> None:
    chunks = [
        Document("The Weir\nIt was built of oak by the monks of Oswin.", id="weir", metadata={"source": "1"}),
        Document("The Ferry\nIt ran until 1902. A horse pulled it.", id="ferry", metadata={"source": "2"}),
        Document("石桥\n桥于1902年通车。工匠来自青石镇。", id="桥", metadata={"source": "3"}),
    ]
    lexical = Lexical((str(chunk.id), lexical_text(chunk)) for chunk in chunks)
    owners = [str(chunk.id) for chunk in chunks for _ in sentence_texts(chunk)]
    vectors = default_embeddings().embed_array([each.text for chunk in chunks for each in sentence_texts(chunk)])
    for question, expected in [
        ("Who built the weir?", "weir"),
        ("What animal drew the boat across the river?", "ferry"),
        ("石桥的工匠是哪里人？", "桥"),
    ]:
        cosines = vectors @ np.array(default_embeddings().embed_query(question), np.float32)
        assert rank(question, lexical, zip(owners, map(float, cosines), strict=True))[0].id == expected


def test_words_alone_find_most_passages_of_a_public_set() -> None:
    folder = SHARED / "data" / "qa" / "drcd"
    if not folder.is_dir():
        pytest.skip("../shared with the public question sets is not there")

    def rows(name: str) -> list[dict[str, str]]:
        path = next(folder.glob(f"{name}.jsonl*"))
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return [json.loads(line) for line in data.decode("utf-8").splitlines()]

    lexical = Lexical((row["id"], f"{row['title']}\n" * TITLE_WEIGHT + row["text"]) for row in rows("passages"))
    questions = rows("questions")[:60]
    found = [[each.id for each in rank(row["question"], lexical, [], k=5)] for row in questions]
    assert sum(row["supporting"][0] in ids for row, ids in zip(questions, found, strict=True)) >= 58


def test_enough_sentences_are_asked_for() -> None:
    assert 100 <= NEAREST_SENTENCES <= 300
