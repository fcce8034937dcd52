"""The cookbook's store and query engine: the rows of its comparison, each a rule."""

import json
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.documents import Document
from scripted_model import ScriptedChatModel

from rag_transformers.answers.querying import no_data_text
from rag_transformers.errors import ModelError, UsageError
from rag_transformers.graph import Edge, Vertex
from rag_transformers.graphrag_query import GraphRAGQueryEngine
from rag_transformers.graphrag_store import GraphRAGStore
from rag_transformers.stores import MemoryGraph

MILL = [
    Edge("Jory Penn", "Tide mill", "runs", description="Jory Penn runs the tide mill.", chunks=["c1"]),
    Edge("Tide mill", "Inn", "supplies", description="The tide mill supplies the inn.", chunks=["c1"]),
    Edge("Inn", "Jory Penn", "pays", description="The inn pays Jory Penn.", chunks=["c1"]),
]
SCHOOL = [
    Edge("林晚", "济川书院", "执教于", description="林晚在济川书院执教。", chunks=["c2"]),
    Edge("济川书院", "青石镇", "位于", description="济川书院在青石镇。", chunks=["c2"]),
    Edge("林晚", "青石镇", "住在", description="林晚住在青石镇。", chunks=["c2"]),
]
TEXTS = {
    "c1": "Jory Penn runs the tide mill. The tide mill supplies the inn. The inn pays Jory Penn.",
    "c2": "林晚在济川书院执教。济川书院在青石镇。林晚住在青石镇。",
}


def chunks(ids: Sequence[str]) -> dict[str, Document]:
    place = {"chunk": 0, "start": 0}
    return {id: Document(TEXTS[id], id=id, metadata={"source": f"{id}.txt", **place}) for id in ids if id in TEXTS}


def village(*more: Edge) -> MemoryGraph:
    graph = MemoryGraph()
    for edge in (*MILL, *SCHOOL, *more):
        graph.upsert_edge(edge)
    return graph


def reply(prompt: str) -> Any:
    """Reports, points of a score that the report tells, and an answer that shows its passages."""
    if '"findings"' in prompt:
        name = "Mill" if "Tide mill" in prompt else "School"
        return json.dumps({"title": name, "summary": f"About the {name}.", "rating": 5, "findings": []})
    if '"points"' in prompt:
        name = "Mill" if "About the Mill" in prompt else "School"
        return json.dumps({"points": [{"description": f"A point on the {name} [1].", "score": 60}]})
    return "Answer: " + " | ".join(re.findall(r"(?m)^(\[\d+\] .+)$", prompt))


def model() -> ScriptedChatModel:
    return ScriptedChatModel(reply=reply)


class TestCommunities:
    @pytest.mark.parametrize("size", [1, 0, -3, True, 2.5])
    def test_max_cluster_size_is_at_least_two(self, size: Any) -> None:
        with pytest.raises(UsageError, match="max_cluster_size"):
            GraphRAGStore(max_cluster_size=size)

    def test_max_cluster_size_is_five_by_default(self) -> None:
        assert GraphRAGStore().max_cluster_size == 5

    def test_all_levels_are_kept_with_parents_and_children(self) -> None:
        graph = MemoryGraph()
        for ring in range(4):  # rings of five, tied two by two
            for place in range(5):
                graph.upsert_edge(Edge(f"r{ring} {place}", f"r{ring} {(place + 1) % 5}", "next"))
                graph.upsert_edge(Edge(f"r{ring} {place}", f"r{ring} {(place + 2) % 5}", "over"))
        graph.upsert_edge(Edge("r0 0", "r1 0", "tie"))
        graph.upsert_edge(Edge("r2 0", "r3 0", "tie"))
        store = GraphRAGStore(graph=graph, max_cluster_size=5)
        store.build_communities()
        found = {community.id: community for community in store.communities}
        assert sum(len(c.vertices) for c in found.values() if c.level == 0) == 20
        for community in found.values():
            assert community.parent is None or community.id in found[community.parent].children
        assert list(store.get_community_summaries()) == list(found)

    def test_isolated_vertices_are_kept_and_take_no_call(self) -> None:
        graph, llm = village(), model()
        graph.upsert_vertex(Vertex("Orrin Vale", description="A hermit."))
        store = GraphRAGStore(llm, graph)
        summaries = store.get_community_summaries()
        assert any("Orrin Vale" in summary for summary in summaries.values())
        assert len(llm.prompts) == 2

    def test_an_empty_graph_has_no_community_and_takes_no_call(self) -> None:
        llm = model()
        store = GraphRAGStore(llm)
        store.build_communities()
        assert (store.communities, store.get_community_summaries(), llm.prompts) == ((), {}, [])

    def test_every_edge_is_in_a_report_once_in_its_true_direction(self) -> None:
        llm = model()
        GraphRAGStore(llm, village(Edge("Inn", "Tide mill", "feeds"))).build_communities()
        records = [line for prompt in llm.prompts for line in prompt.split("Text:\n")[-1].splitlines() if "->" in line]
        for edge in [*MILL, *SCHOOL]:
            assert sum(f"{edge.source} -> {edge.target} -> {edge.name}" in line for line in records) == 1
        assert any("Inn -> Tide mill -> feeds" in line for line in records), "parallel relations do not collapse"

    async def test_awaited_the_same_is_built(self) -> None:
        first, second = GraphRAGStore(model(), village()), GraphRAGStore(model(), village())
        assert await first.aget_community_summaries() == second.get_community_summaries()
        assert first.communities == second.communities


class TestSummaries:
    def test_they_are_built_when_they_are_first_asked_for(self) -> None:
        llm = model()
        store = GraphRAGStore(llm, village())
        assert store.is_stale
        assert sorted(text.splitlines()[0] for text in store.get_community_summaries().values()) == ["Mill", "School"]
        assert not store.is_stale

    def test_they_belong_to_one_store(self) -> None:
        first, second = GraphRAGStore(model(), village()), GraphRAGStore(model())
        first.build_communities()
        assert second.get_community_summaries() == {}
        assert len(first.get_community_summaries()) == 2

    def test_an_unchanged_graph_takes_no_further_call(self) -> None:
        llm = model()
        store = GraphRAGStore(llm, village())
        first = store.get_community_summaries()
        store.build_communities()
        assert store.get_community_summaries() == first
        assert len(llm.prompts) == 2

    def test_only_what_changed_is_written_anew(self) -> None:
        llm = model()
        store = GraphRAGStore(llm, village())
        store.build_communities()
        store.upsert_relations([Edge("Inn", "Jory Penn", "feeds", description="The inn feeds Jory Penn.")])
        assert store.is_stale
        store.get_community_summaries()
        assert len(llm.prompts) == 3
        assert "The inn feeds Jory Penn." in llm.prompts[-1]

    def test_what_a_model_failed_to_write_is_told_and_asked_again(self) -> None:
        broken = {"Mill"}

        def sometimes(prompt: str) -> Any:
            return ValueError("overloaded") if broken and "Tide mill" in prompt else reply(prompt)

        llm = ScriptedChatModel(reply=sometimes)
        store = GraphRAGStore(llm, village())
        with pytest.warns(UserWarning, match=r"1 of 2 reports were written without the model.*overloaded"):
            store.build_communities()
        assert all(store.get_community_summaries().values())
        broken.clear()
        store.build_communities()
        assert all(report.failed is None for report in store.reports.values())

    def test_without_a_model_reports_are_made_of_what_the_graph_says(self) -> None:
        text = "\n".join(GraphRAGStore(graph=village()).get_community_summaries().values())
        assert "Jory Penn runs the tide mill." in text
        assert "林晚在济川书院执教。" in text

    def test_one_report_is_written_of_relationships_as_text(self) -> None:
        llm = model()
        text = "\n".join(["A -> Tide mill -> runs -> A runs it."] * 2 + ["Tide mill -> B -> feeds -> It feeds B."])
        assert GraphRAGStore(llm).generate_community_summary(text) == "Mill\nAbout the Mill."
        assert llm.prompts[0].count("A -> Tide mill -> runs -> A runs it.") == 1
        assert "Tide mill -> B -> feeds -> It feeds B." in llm.prompts[0]

    async def test_of_other_text_too(self) -> None:
        store, plain = GraphRAGStore(model()), GraphRAGStore()
        assert store.generate_community_summary("The Tide mill ground barley.") == "Mill\nAbout the Mill."
        assert await store.agenerate_community_summary("The Tide mill ground barley.") == "Mill\nAbout the Mill."
        assert plain.generate_community_summary("The Tide mill ground barley.") == "The Tide mill ground barley."
        assert GraphRAGStore(ScriptedChatModel(reply=lambda _: "Plain words.")).generate_community_summary("x") == (
            "Plain words."
        )

    @pytest.mark.parametrize("text", ["", " \n", None])
    def test_an_empty_text_is_refused(self, text: Any) -> None:
        with pytest.raises(UsageError, match="text is empty"):
            GraphRAGStore().generate_community_summary(text)


class TestGraph:
    def test_nodes_and_relations_of_the_cookbook_are_taken(self) -> None:
        store = GraphRAGStore()
        node = SimpleNamespace(name="Jory Penn", label="person", properties={"entity_description": "A miller."})
        tie = {"relationship_description": "He runs it."}
        store.upsert_nodes([node, Vertex("Inn")])
        store.upsert_relations(
            [SimpleNamespace(source_id="Jory Penn", target_id="Tide mill", label="runs", properties=tie), MILL[1]]
        )
        penn = store.graph.get_vertex("Jory Penn")
        assert penn is not None
        assert (penn.props["type"], penn.descriptions) == ("person", ("A miller.",))
        assert [
            (edge.source, edge.name, edge.descriptions) for edge in store.graph.get_neighbor_edges("Jory Penn")
        ] == [("Jory Penn", "runs", ("He runs it.",))]

    def test_what_is_no_graph_or_no_model_is_refused(self) -> None:
        with pytest.raises(UsageError, match="graph is a dict"):
            GraphRAGStore(graph={})  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="llm is str"):
            GraphRAGStore(llm="gpt")


class TestQuery:
    def test_the_result_has_a_response(self) -> None:
        result = GraphRAGQueryEngine(GraphRAGStore(model(), village())).query("What are the main topics?")
        assert result.response.startswith("Answer: [1] ")
        assert str(result) == result.response == result.answer.text

    def test_the_best_reports_are_asked_about_in_one_call(self) -> None:
        store, llm = GraphRAGStore(model(), village()), model()
        answer = GraphRAGQueryEngine(store, llm).query("Who runs the mill?").answer
        assert len(llm.prompts) == answer.usage.calls == 1
        assert "About the School." not in llm.prompts[0]

    def test_mode_all_asks_about_every_community_and_then_for_one_answer(self) -> None:
        store, llm = GraphRAGStore(model(), village()), model()
        result = GraphRAGQueryEngine(store, llm, "all").query("Who runs the mill?")
        assert len(llm.prompts) == len(store.get_community_summaries()) + 1
        assert "A point on the Mill." in result.response
        assert "A point on the School." in result.response

    def test_the_store_s_model_answers_where_none_is_given(self) -> None:
        llm = model()
        GraphRAGQueryEngine(GraphRAGStore(llm, village())).query("Who runs the mill?")
        assert len(llm.prompts) == 3

    def test_answers_cite_chunks_where_these_are_given_and_reports_otherwise(self) -> None:
        store, llm = GraphRAGStore(graph=village()), ScriptedChatModel(reply=lambda _: "Jory Penn runs the mill [1].")
        cited = GraphRAGQueryEngine(store, llm, chunks=chunks).query("Who runs the mill?").answer.citations[0]
        assert (cited.source, cited.quote) == ("c1.txt", "Jory Penn runs the tide mill.")
        assert TEXTS["c1"][cited.start : cited.end] == cited.quote
        cited = GraphRAGQueryEngine(store, llm).query("Who runs the mill?").answer.citations[0]
        assert cited.chunk_id in store.reports

    @pytest.mark.parametrize("mode", ["best", "all"])
    async def test_awaited_it_answers_the_same(self, mode: Any) -> None:
        store = GraphRAGStore(model(), village())
        engines = [GraphRAGQueryEngine(store, model(), mode) for _ in range(2)]
        assert await engines[0].aquery("Who runs the mill?") == engines[1].query("Who runs the mill?")
        assert await engines[0].acustom_query("Who runs the mill?") == engines[1].custom_query("Who runs the mill?")

    @pytest.mark.parametrize("mode", ["best", "all"])
    def test_without_a_model_reports_are_quoted(self, mode: Any) -> None:
        store = GraphRAGStore(graph=village())
        result = GraphRAGQueryEngine(store, mode=mode, chunks=chunks).query("谁在书院执教？")
        assert "林晚在济川书院执教。" in result.response
        assert result.answer.citations[0].source == "c2.txt"

    @pytest.mark.parametrize("question", ["", " \n\t", None])
    def test_an_empty_question_is_refused_before_any_call(self, question: Any) -> None:
        llm = model()
        engine = GraphRAGQueryEngine(GraphRAGStore(llm, village()))
        for ask in (engine.query, engine.custom_query):
            with pytest.raises(UsageError, match="the question is empty"):
                ask(question)
        assert llm.prompts == []

    @pytest.mark.parametrize("mode", ["best", "all"])
    def test_an_empty_graph_or_an_unrelated_question_takes_no_call(self, mode: Any) -> None:
        llm, store = model(), GraphRAGStore(graph=village())
        empty = GraphRAGQueryEngine(GraphRAGStore(), llm, mode).query("What are the main topics?")
        foreign = GraphRAGQueryEngine(store, llm, mode).query("Which enzyme copies DNA?")
        assert empty.response == foreign.response == no_data_text("What?")
        assert llm.prompts == []

    def test_a_failed_call_raises(self) -> None:
        llm = ScriptedChatModel(reply=lambda _: ValueError("overloaded"))
        for mode in ("best", "all"):
            with pytest.raises(ModelError, match="overloaded"):
                GraphRAGQueryEngine(GraphRAGStore(graph=village()), llm, mode).query("Who runs the mill?")

    def test_wrong_arguments_are_refused(self) -> None:
        with pytest.raises(UsageError, match="mode is 'some'; it must be best or all"):
            GraphRAGQueryEngine(GraphRAGStore(), mode="some")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="graph_store is a MemoryGraph"):
            GraphRAGQueryEngine(MemoryGraph())  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="max_context_tokens is True"):
            GraphRAGQueryEngine(GraphRAGStore(), max_context_tokens=True)


class TestSteps:
    ENGINE = GraphRAGQueryEngine(GraphRAGStore(), model())
    PLAIN = GraphRAGQueryEngine(GraphRAGStore())

    async def test_one_report_answers_with_its_helpful_points(self) -> None:
        assert self.ENGINE.generate_answer_from_summary("About the Mill.", "Who?") == "A point on the Mill."
        assert await self.ENGINE.agenerate_answer_from_summary("About the Mill.", "Who?") == "A point on the Mill."

    def test_a_report_that_tells_nothing_says_so(self) -> None:
        none = ScriptedChatModel(reply=lambda _: '{"points": [{"description": "No.", "score": 0}]}')
        engine = GraphRAGQueryEngine(GraphRAGStore(), none)
        assert engine.generate_answer_from_summary("About the Mill.", "Who?") == no_data_text("Who?")
        assert engine.generate_answer_from_summary(" ", "谁？") == no_data_text("谁？")

    async def test_answers_are_brought_together_without_those_that_say_nothing(self) -> None:
        given = ["It ground barley.", "", no_data_text("Who?"), "It fed the inn.", "It ground barley."]
        expected = "Answer:  It ground barley. |  It fed the inn."
        assert self.ENGINE.aggregate_answers(given, "What did it do?") == expected
        assert await self.ENGINE.aaggregate_answers(given) == expected

    def test_one_answer_needs_no_call_and_none_is_no_data(self) -> None:
        assert self.ENGINE.aggregate_answers(["It ground barley."]) == "It ground barley."
        assert self.ENGINE.aggregate_answers([], "谁？") == no_data_text("谁？")

    def test_without_a_model_sentences_are_taken_over(self) -> None:
        assert self.PLAIN.generate_answer_from_summary("It ground barley.", "What?") == "It ground barley."
        assert self.PLAIN.aggregate_answers(["It ground barley.", "It fed."]) == "It ground barley.\nIt fed."

    def test_a_bare_text_is_no_list_of_answers(self) -> None:
        with pytest.raises(UsageError, match="community_answers is one str"):
            self.ENGINE.aggregate_answers("It ground barley.")
