"""The walk: it reaches what only names lead to, a hub leads nowhere, and without names it changes nothing."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from rag_transformers.retrieval.mentions import Mentions, Said
from rag_transformers.retrieval.ragged import Ragged
from rag_transformers.retrieval.walk import NameGraph

Floats = npt.NDArray[np.float64]

ENGLISH = [
    Said("Ada Moss", ["Ada Moss founded the Salt Mill.", "She liked rain."], ["Ada Moss", "Salt Mill"]),
    Said("Salt Mill", ["It stands on the River Oswin."], ["River Oswin"]),
    Said("River Oswin", ["It springs near Hollin."], ["Hollin"]),
    Said("Bram Orr", ["Bram Orr founded the Corn Exchange."], ["Bram Orr", "Corn Exchange"]),
    Said("Corn Exchange", ["It stands in Leeds."], ["Leeds"]),
]
CHINESE = [
    Said("苏砚", ["苏砚创办了青石书院。", "她喜欢下雨。"], ["苏砚", "青石书院"]),
    Said("青石书院", ["它在沅水边上。"], ["沅水"]),
    Said("沅水", ["它发源于云雾山。"], ["云雾山"]),
    Said("陆远", ["陆远创办了谷仓。"], ["陆远", "谷仓"]),
    Said("谷仓", ["它在长街。"], ["长街"]),
]


def graph_of(said: Sequence[Said]) -> tuple[Mentions, NameGraph]:
    mentions = Mentions([str(number) for number in range(len(said))], lambda _: said)
    return mentions, NameGraph(mentions)


def evenly(value: float = 0.5) -> Callable[[npt.NDArray[np.int64]], Floats]:
    return lambda sentences: np.full(len(sentences), value)


def walked(said: Sequence[Said], question: str, likeness: Floats) -> Floats:
    mentions, graph = graph_of(said)
    return graph.walk(graph.active(mentions.named_in(question), evenly()), likeness)


class TestWalk:
    @pytest.mark.parametrize(
        ("said", "question"),
        [(ENGLISH, "By which water stands what Ada Moss founded?"), (CHINESE, "苏砚创办的地方在哪条河边？")],
    )
    def test_what_two_names_lead_to_is_found_though_it_is_not_like_the_question(
        self, said: list[Said], question: str
    ) -> None:
        likeness = np.array([1.0, 0.1, 0.1, 0.6, 0.3])  # the wrong founder's chunks are more like the question
        assert np.argsort(-likeness, kind="stable")[:3].tolist() == [0, 3, 4]
        scores = walked(said, question, likeness)
        assert np.argsort(-scores, kind="stable")[:2].tolist() == [0, 1]
        assert scores[2] > max(scores[3], scores[4])

    def test_scores_go_from_0_to_1(self) -> None:
        scores = walked(ENGLISH, "Ada Moss", np.array([0.9, 0.0, 0.4, 0.0, 1.0]))
        assert scores.max() == 1.0
        assert (scores >= 0).all()

    def test_without_a_name_the_likeness_stays_as_it_is(self) -> None:
        likeness = np.array([0.3, 1.0, 0.0, 0.2, 0.7])
        assert walked(ENGLISH, "What burned?", likeness).tolist() == likeness.tolist()

    def test_what_no_name_leads_to_is_ordered_by_likeness(self) -> None:
        said = [*ENGLISH, Said("", ["It rained."], []), Said("", ["It snowed."], [])]
        scores = walked(said, "Ada Moss", np.array([1.0, 0.1, 0.1, 0.1, 0.1, 0.2, 0.4]))
        assert 0 < scores[5] < scores[6] < scores[1]

    def test_a_name_that_all_chunks_hold_leads_nowhere(self) -> None:
        said = [Said("", ["In the Hill County it rained."], ["Hill County"]) for _ in range(5)]
        likeness = np.array([0.3, 1.0, 0.0, 0.2, 0.7])
        scores = walked(said, "Where is the Hill County?", likeness)
        assert np.argsort(scores).tolist() == np.argsort(likeness).tolist()
        assert scores[4] < 0.25 < scores[1]  # nearly all restarts are at the chunk most like the question

    def test_a_common_name_draws_less_than_a_rare_one(self) -> None:
        common = [Said("", [f"Report {n} on Hill County."], ["Hill County"]) for n in range(8)]
        rare = [Said("", ["Report on Dell Lane."], ["Dell Lane"]), *(Said("", [f"Page {n}."], []) for n in range(12))]
        mentions, graph = graph_of([*common, *rare])
        active = graph.active(mentions.named_in("Hill County or Dell Lane?"), evenly())
        scores = graph.walk(active, np.full(len(mentions), 0.5))
        assert scores.argmax() == 8
        assert scores[:8].max() < scores[8] / 4

    def test_of_the_chunks_of_a_name_that_comes_first_which_is_like_the_question(self) -> None:
        said = [Said("", ["Ada Moss."], ["Ada Moss"]) for _ in range(3)] + [Said("", ["It rained."], [])] * 5
        likeness = np.array([0.2, 0.6, 0.4, *[0.0] * 4, 1.0])
        assert np.argsort(-walked(said, "Ada Moss", likeness)).tolist()[1:4] == [1, 2, 0]

    @pytest.mark.parametrize("said", [[], [Said("", [], [])], [Said("", ["It rained."], [])], ENGLISH[:1]])
    def test_small_graphs_are_no_error(self, said: list[Said]) -> None:
        likeness = np.linspace(0.5, 1.0, len(said))
        scores = walked(said, "Ada Moss", likeness)
        assert len(scores) == len(said)
        assert np.isfinite(scores).all()

    def test_nothing_like_the_question_is_no_error(self) -> None:
        scores = walked(ENGLISH, "Ada Moss", np.zeros(5))
        assert scores.argmax() == 0
        assert np.isfinite(scores).all()


class TestActive:
    def test_the_sentence_nearest_to_the_question_passes_on_its_names(self) -> None:
        said = [Said("", ["Ada Moss met Bram Orr.", "Ada Moss left for Hollin Bay."], ["Bram Orr", "Hollin Bay"]),
                Said("", ["Ada Moss."], ["Ada Moss"]), *[Said("", [], [])] * 9]  # fmt: skip
        mentions, graph = graph_of(said)
        active = graph.active(mentions.named_in("Where did Ada Moss go?"), lambda s: np.where(s == 1, 1.0, 0.2))
        by_name = dict(zip(mentions.names, active.tolist(), strict=True))
        assert by_name["bram orr"] == 0
        assert 0 < by_name["hollin bay"] < by_name["ada moss"] <= 1

    def test_a_sentence_that_holds_more_of_the_names_asked_is_better(self) -> None:
        said = [Said("", ["Ada Moss in Hollin Bay.", "Ada Moss and Bram Orr in Dell Lane."],
                     ["Ada Moss", "Hollin Bay", "Bram Orr", "Dell Lane"]), *[Said("", [], [])] * 9]  # fmt: skip
        mentions, graph = graph_of(said)
        active = graph.active(mentions.named_in("Ada Moss, Bram Orr"), evenly())
        assert {mentions.names[name] for name in np.flatnonzero(active)} == {"ada moss", "bram orr", "dell lane"}

    def test_only_sentences_with_names_of_the_question_are_looked_at(self) -> None:
        mentions, graph = graph_of(ENGLISH)
        asked: list[int] = []

        def nearness(sentences: npt.NDArray[np.int64]) -> Floats:
            asked.extend(sentences.tolist())
            return np.ones(len(sentences))

        graph.active(mentions.named_in("Bram Orr"), nearness)
        assert asked == [4]

    def test_of_very_many_sentences_those_with_most_of_the_names(self) -> None:
        said = [Said("", [f"Ada Moss, day {n}." for n in range(3000)], ["Ada Moss"]), *[Said("", [], [])] * 9,
                Said("", ["Ada Moss and Bram Orr."], ["Bram Orr"])]  # fmt: skip
        mentions, graph = graph_of(said)
        seen: list[int] = []

        def nearness(sentences: npt.NDArray[np.int64]) -> Floats:
            seen.extend(sentences.tolist())
            return np.ones(len(sentences))

        graph.active(mentions.named_in("Ada Moss, Bram Orr"), nearness)
        assert len(seen) <= 1000
        assert 3000 in seen


def test_the_same_question_gives_the_same_numbers_however_the_mentions_came() -> None:
    whole = Mentions("01234", lambda _: ENGLISH)
    parts = Mentions(
        "01234", lambda stamps: [ENGLISH[int(s)] for s in stamps], Mentions("42", lambda _: ENGLISH[4:1:-2])
    )
    likeness = np.array([0.9, 0.1, 0.3, 1.0, 0.2])
    results = []
    for mentions in (whole, parts):
        graph = NameGraph(mentions)
        active = graph.active(mentions.named_in("Ada Moss and Bram Orr"), evenly())
        results.append(graph.walk(active, likeness).tolist())
    assert results[0] == results[1]


class TestRagged:
    rows = Ragged.of([[1, 2], [], [3]])

    def test_rows_are_taken_in_any_order(self) -> None:
        assert [row.tolist() for row in self.rows.take([2, 0, 1, 2])] == [[3], [1, 2], [], [3]]
        assert len(self.rows.take([])) == 0

    def test_every_value_knows_its_row(self) -> None:
        assert self.rows.owners.tolist() == [0, 0, 2]

    def test_rows_follow_rows(self) -> None:
        assert [row.tolist() for row in self.rows.followed(Ragged.of([[], [7]]))] == [[1, 2], [], [3], [], [7]]

    def test_values_are_grouped_in_the_order_given(self) -> None:
        grouped = Ragged.grouped(np.array([2, 0, 2]), np.array([5, 6, 4]), 3)
        assert [row.tolist() for row in grouped] == [[6], [], [5, 4]]
