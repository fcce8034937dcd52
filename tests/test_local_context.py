"""The context of a local question: chunks, vertices, edges and reports, numbered in one sequence, within one budget."""

import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from rag_transformers.answers.contexts import Context
from rag_transformers.answers.local_context import local_context
from rag_transformers.answers.querying import read_answer
from rag_transformers.answers.vertex_finder import VertexFinder
from rag_transformers.errors import UsageError
from rag_transformers.graph import Edge, Vertex
from rag_transformers.reports.writer import Report
from rag_transformers.stores import MemoryGraph


def words(text: str) -> int:
    return len(text.split())


TEXTS = {
    "c1": "Jory Penn ran the tide mill at Brea. He ground barley for the inn.",
    "c2": "The inn at Brea belonged to Hanna Roe. She brewed beer of the barley.",
    "c3": "渡口在青石镇。林晚在渡口撑船。",
}
CHUNKS = {
    id: Document(text, id=id, metadata={"source": f"{id}.txt", "chunk": 0, "start": 0, "end": len(text)})
    for id, text in TEXTS.items()
}
REPORT = Report(
    "0-1", 0, "Brea and its mill", "The mill feeds the inn.", vertices=("Jory Penn", "Tide mill"), chunks=("c1", "c2")
)


def lookup(ids: object) -> dict[str, Document]:
    return {id: CHUNKS[id] for id in ids if id in CHUNKS}  # type: ignore[attr-defined]


def village() -> MemoryGraph:
    graph = MemoryGraph()
    graph.upsert_vertex(Vertex("Jory Penn", description="The last miller.", type="person", chunks=["c1"]))
    graph.upsert_edge(Edge("Jory Penn", "Tide mill", "runs", description="He runs it alone.", chunks=["c1"]))
    graph.upsert_edge(Edge("Hanna Roe", "Inn at Brea", "owns", description="She brews there.", chunks=["c2"]))
    graph.upsert_edge(Edge("Jory Penn", "Inn at Brea", "supplies", description="With barley flour.", chunks=["c1"]))
    graph.upsert_edge(Edge("林晚", "青石镇", "撑船于", description="林晚在渡口撑船。", chunks=["c3"]))
    return graph


def hub(edges: int, said: str = "") -> MemoryGraph:
    graph = MemoryGraph()
    for number in range(edges):
        graph.upsert_edge(Edge("Hub", f"Spoke {number}", "joins", description=f"{said} {number}", chunks=["c1"]))
    return graph


def lines(context: Context, kind: str) -> list[str]:
    return [each.page_content for each in context.passages if each.metadata.get("kind") == kind]


def ends_are_there(context: Context) -> bool:
    vertices = {line.split(":")[0].split(" (")[0] for line in lines(context, "vertex")}
    ends = {end for line in lines(context, "edge") for end in line.split(":")[0].split(" -> ")[:2]}
    return ends <= vertices


def asked(question: str, chunks: list[str], budget: int = 400, graph: MemoryGraph | None = None) -> Context:
    finder = VertexFinder(village() if graph is None else graph)
    return local_context(question, [CHUNKS[id] for id in chunks], finder, [REPORT], budget=budget, counter=words)


class TestWhatIsInIt:
    def test_chunks_vertices_edges_and_reports_are_numbered_in_one_sequence(self) -> None:
        context = asked("What does Jory Penn do?", ["c1", "c2"])
        assert [f"[{n}] " in context.text for n in range(1, len(context.passages) + 1)] == [True] * len(
            context.passages
        )
        kinds = [each.metadata.get("kind", "chunk") for each in context.passages]
        assert kinds == sorted(kinds, key=["chunk", "vertex", "edge", "report"].index)
        assert set(kinds) == {"chunk", "vertex", "edge", "report"}
        for number, passage in enumerate(context.passages, 1):
            assert f"[{number}] {passage.page_content}" in context.text

    def test_an_edge_stands_in_its_true_direction_with_what_is_said_of_it(self) -> None:
        assert "Jory Penn -> Tide mill -> runs: He runs it alone." in asked("Jory Penn?", ["c1"]).text

    def test_a_vertex_has_its_type_and_what_is_said_of_it(self) -> None:
        assert "Jory Penn (person): The last miller." in asked("Jory Penn?", ["c1"]).text

    def test_vertices_of_the_chunks_are_told_of_though_the_question_names_nobody(self) -> None:
        assert "Hanna Roe -> Inn at Brea -> owns: She brews there." in asked("Who brews?", ["c2"]).text

    def test_chinese_names_are_found_in_a_chinese_question(self) -> None:
        assert "林晚 -> 青石镇 -> 撑船于: 林晚在渡口撑船。" in asked("林晚在哪里撑船？", ["c3"]).text

    def test_a_graph_that_knows_nothing_of_it_leaves_the_chunks(self) -> None:
        context = asked("Jory Penn?", ["c1"], graph=MemoryGraph())
        assert context.passages[0].id == "c1"
        assert not lines(context, "vertex")

    def test_what_looks_like_a_citation_in_a_description_is_none(self) -> None:
        graph = MemoryGraph()
        graph.upsert_vertex(Vertex("Jory Penn", description="A miller.[7]", chunks=["c1"]))
        assert "A miller.(7)" in asked("Jory Penn?", ["c1"], graph=graph).text


class TestCitations:
    def test_every_number_leads_to_a_document_a_chunk_and_a_span(self) -> None:
        context = asked("What does Jory Penn do?", ["c1", "c2"])
        reply = " ".join(f"The mill [{n}]." for n in range(1, len(context.passages) + 1))
        answer = read_answer("What?", reply, context, lookup=lookup)
        assert len(answer.citations) == len(context.passages)
        for citation in answer.citations:
            assert citation.source == f"{citation.chunk_id}.txt"
            assert TEXTS[citation.chunk_id][citation.start : citation.end] == citation.quote

    def test_an_edge_is_cited_by_the_sentence_that_says_it(self) -> None:
        context = asked("Who owns the inn?", ["c1"])
        number = 1 + [each.page_content.startswith("Hanna Roe -> ") for each in context.passages].index(True)
        answer = read_answer("Who owns the inn?", f"Hanna Roe owns the inn [{number}].", context, lookup=lookup)
        assert answer.citations[0].quote == "The inn at Brea belonged to Hanna Roe."

    def test_without_its_chunks_a_fact_is_cited_itself(self) -> None:
        context = asked("Jory Penn?", ["c1"])
        number = 1 + [each.metadata.get("kind") for each in context.passages].index("edge")
        answer = read_answer("Jory Penn?", f"He runs it [{number}].", context)
        assert answer.citations[0].quote in context.passages[number - 1].page_content


class TestBudget:
    def test_both_ends_of_every_edge_are_in_the_context_whatever_the_room(self) -> None:
        graph = hub(40, "a long description " * 12)
        seen = set()
        for budget in range(20, 500, 40):
            context = asked("What does the Hub join?", ["c1"], budget, graph)
            assert ends_are_there(context)
            assert words(context.text) <= budget
            seen.add(len(lines(context, "edge")))
        assert max(seen) > 5

    def test_too_small_a_budget_is_a_warning_and_no_error(self) -> None:
        with pytest.warns(UserWarning, match="no room for any passage"):
            assert asked("Jory Penn?", ["c1"], 2) == Context("", (), ())

    def test_a_chunk_that_only_fits_into_the_whole_budget_has_it(self) -> None:
        context = asked("Jory Penn?", ["c1"], 9)
        assert context.passages[0].page_content == "Jory Penn ran the tide mill at Brea."

    def test_what_chunks_leave_over_goes_to_the_graph(self) -> None:
        few, many = (
            len(lines(asked("The Hub?", ids, 300, hub(60)), "edge")) for ids in (["c1"], ["c1", "c2", "c3"] * 6)
        )
        assert few > many > 0

    def test_what_the_graph_leaves_over_goes_to_the_chunks(self) -> None:
        context = asked("Jory Penn?", ["c1", "c2"] * 3, 80, MemoryGraph())
        assert words(" ".join(each.page_content for each in context.passages if each.id)) > 0.6 * 80

    @given(st.integers(1, 120), st.sampled_from(["Jory Penn?", "Hub?", "林晚？", "Who?"]), st.integers(0, 30))
    def test_the_budget_holds_whatever_is_counted(self, budget: int, question: str, edges: int) -> None:
        graph = village()
        graph.merge(hub(edges, "said of it"))
        finder = VertexFinder(graph)
        for counter in (words, len):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context = local_context(
                    question, list(CHUNKS.values()), finder, [REPORT], budget=budget, counter=counter
                )
            assert counter(context.text) <= budget
            assert len(context.behind) == len(context.passages)
            assert ends_are_there(context)

    @pytest.mark.parametrize("budget", [0, True, 1.5])
    def test_a_budget_that_is_no_number_of_tokens_is_refused(self, budget: object) -> None:
        with pytest.raises(UsageError, match="budget is"):
            local_context("?", [], VertexFinder(MemoryGraph()), budget=budget, counter=words)  # type: ignore[arg-type]

    def test_a_hub_of_thousands_costs_little(self) -> None:
        finder = VertexFinder(hub(5000))
        started = time.perf_counter()
        context = local_context("What does the Hub join?", [CHUNKS["c1"]], finder, budget=300, counter=words)
        assert lines(context, "edge")
        assert time.perf_counter() - started < 2


class TestFinder:
    FINDER = VertexFinder(village())

    @pytest.mark.parametrize(
        ("question", "names"),
        [
            ("What did JORY PENN do at the tide-mill?", ["Jory Penn", "Tide mill"]),
            ("Does Hanna own it?", ["Hanna Roe"]),
            ("林晚和青石镇有什么关系？", ["林晚", "青石镇"]),
            ("Who is it?", []),
            ("", []),
        ],
    )
    def test_names_are_found_in_any_spelling_in_the_question_s_order(self, question: str, names: list[str]) -> None:
        assert self.FINDER.named(question) == names

    def test_a_longer_name_hides_those_inside_it(self) -> None:
        graph = MemoryGraph()
        graph.upsert_edge(Edge("Brea", "Inn at Brea", "has"))
        assert VertexFinder(graph).named("Who owns the Inn at Brea?") == ["Inn at Brea"]

    def test_general_words_name_nobody_though_they_are_vertices(self) -> None:
        graph = MemoryGraph()
        graph.upsert_edge(Edge("story", "people", "about", chunks=["c1"]))
        assert VertexFinder(graph).named("Summarize the story of these people.") == []

    def test_a_word_that_many_names_share_stands_for_none(self) -> None:
        graph = MemoryGraph()
        for name in ("Ada Penn", "Bo Penn", "Cy Penn", "Di Penn"):
            graph.upsert_vertex(Vertex(name, chunks=["c1"]))
        assert VertexFinder(graph).named("What did Penn do?") == []

    def test_vertices_of_earlier_and_of_more_chunks_come_first(self) -> None:
        assert self.FINDER.of_chunks(["c2", "c1"], 2) == ["Inn at Brea", "Hanna Roe"]


class TestStrongestEdges:
    def test_edges_to_others_then_of_the_chunks_then_the_heaviest_come_first(self) -> None:
        graph = hub(50)
        graph.upsert_edge(Edge("Hub", "Spoke 7", "joins", weight=9))
        graph.upsert_edge(Edge("Spoke 9", "Hub", "is fed by", chunks=["c2"]))
        found = graph.strongest_edges("hub", 3, ["SPOKE 3"], ["c2"])
        assert [(edge.source, edge.target) for edge in found] == [
            ("Hub", "Spoke 3"),
            ("Spoke 9", "Hub"),
            ("Hub", "Spoke 7"),
        ]

    def test_an_unknown_vertex_has_none_and_a_negative_limit_is_refused(self) -> None:
        assert hub(2).strongest_edges("Nobody", 5) == []
        with pytest.raises(UsageError, match="limit is -1"):
            hub(2).strongest_edges("Hub", -1)

    def test_names_by_chunk_are_in_the_order_of_insertion(self) -> None:
        assert village().names_by_chunk()["c2"] == ["Hanna Roe", "Inn at Brea"]
