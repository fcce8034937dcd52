"""What is made of the graph is kept while its content is the same, made anew where it changed, lost by no failure."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.runnables import RunnableLambda

from rag_transformers import Edge, MemoryGraph, Vertex
from rag_transformers.errors import IndexDamagedError, ReplyError
from rag_transformers.indexing.deriving import Making, describe, descriptions_of, to_describe
from rag_transformers.models.run import Run
from rag_transformers.stores.made import Made
from rag_transformers.stores.records import Draft, Records


class Asked:
    """A maker that counts what it is asked for, and fails for some."""

    def __init__(self, fails: tuple[Any, ...] = ()) -> None:
        self.items: list[Any] = []
        self.fails = fails

    def __call__(self, given: dict[str, Any]) -> Any:
        from rag_transformers.summaries.summarising import SummarizationResult

        self.items.append(given["items"])
        if given["items"] in self.fails:
            raise ReplyError("the reply is empty")
        return SummarizationResult(given["items"], " ".join(sorted(given["descriptions"])))


class Kept(NamedTuple):
    """The next state of an index, and what was made for it."""

    draft: Draft
    made: Made


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    records, made = Records(tmp_path / "records.sqlite"), Made(tmp_path / "made.sqlite")
    with records.draft() as draft:
        yield Kept(draft, made)
    records.close()
    made.close()


def words(text: str) -> int:
    return len(text.split())


def graph_of(*facts: str, name: str = "Ada Moss") -> MemoryGraph:
    graph = MemoryGraph()
    for number, fact in enumerate(facts):
        graph.upsert_vertex(Vertex(name, description=fact, chunks=[f"c{number}"]))
    return graph


FACTS = ("Founded it.", "Left it.", "Sold it.", "Bought it.", "Burned it.")


def making(kept: Kept, maker: Asked, *, renews: bool = True) -> Making:
    return Making(*kept, RunnableLambda(maker), renews, Run())


def test_few_and_short_descriptions_are_joined_and_no_maker_is_asked() -> None:
    """Four of them, or one however long, need none; five do, and two with more than 500 tokens."""
    assert not to_describe(graph_of(*FACTS[:4]), words)
    assert not to_describe(graph_of("word " * 600), words)
    assert list(to_describe(graph_of(*FACTS), words)) == ['["ada moss"]']
    assert not to_describe(graph_of("a " * 250, "b " * 250), words)
    assert to_describe(graph_of("a " * 250, "b " * 251), words)


def test_an_edge_is_described_under_both_its_names_in_its_direction() -> None:
    graph = MemoryGraph()
    for fact in FACTS:
        graph.upsert_edge(Edge("Moss", "Ada", "knows", description=fact))
    ((item, wanted),) = to_describe(graph, words).items()
    assert item == '["moss", "knows", "ada"]'
    assert wanted.items == ("Moss", "Ada")


async def test_what_is_unchanged_is_asked_for_once(kept: Kept) -> None:
    """A second run with nothing new asks nothing; a new description asks for its vertex alone, and in any order."""
    maker = Asked()
    graph = graph_of(*FACTS)
    graph.merge(graph_of(*FACTS, name="刘备"))
    first = await describe(making(kept, maker), to_describe(graph, words))
    assert (first.made, first.kept) == (2, 0)
    turned = graph_of(*reversed(FACTS))
    turned.merge(graph_of(*FACTS, name="刘备"))
    again = await describe(making(kept, maker), to_describe(turned, words))
    assert (again.made, again.kept, len(maker.items)) == (0, 2, 2)
    graph.upsert_vertex(Vertex("刘备", description="字玄德。"))
    await describe(making(kept, maker), to_describe(graph, words))
    assert sorted(maker.items) == ["Ada Moss", "刘备", "刘备"]


async def test_going_back_to_an_earlier_content_asks_nothing(kept: Kept) -> None:
    maker = Asked()
    for facts in (FACTS, (*FACTS, "Built it."), FACTS):
        await describe(making(kept, maker), to_describe(graph_of(*facts), words))
    assert len(maker.items) == 2
    assert descriptions_of(*kept) == {"ada moss": " ".join(sorted(FACTS))}


async def test_what_no_longer_needs_a_description_has_none(kept: Kept) -> None:
    """A vertex that lost descriptions with a document is described by those that remain."""
    await describe(making(kept, Asked()), to_describe(graph_of(*FACTS), words))
    await describe(making(kept, Asked()), to_describe(graph_of(*FACTS[:2]), words))
    assert descriptions_of(*kept) == {}


async def test_a_failure_is_reported_and_asked_again_and_takes_nothing_from_the_others(kept: Kept) -> None:
    graph = graph_of(*FACTS)
    graph.merge(graph_of(*FACTS, name="刘备"))
    failing = await describe(making(kept, Asked(fails=("刘备",))), to_describe(graph, words))
    assert [failure.item for failure in failing.failed] == ["the descriptions of 刘备"]
    assert failing.failed[0].reason == "the reply is empty"
    assert list(descriptions_of(*kept)) == ["ada moss"]
    maker = Asked()
    await describe(making(kept, maker), to_describe(graph, words))
    assert maker.items == ["刘备"]


async def test_a_failure_names_a_vertex_and_an_edge_as_the_graph_shows_them(kept: Kept) -> None:
    graph = graph_of(*FACTS)
    for fact in FACTS:
        graph.upsert_edge(Edge("Ada Moss", "Grain Trust", "founded", description=fact))
        graph.upsert_edge(Edge("林晚", "青石镇 Inn", "开", description=fact))
    fails = ("Ada Moss", ("Ada Moss", "Grain Trust"), ("林晚", "青石镇 Inn"))
    described = await describe(making(kept, Asked(fails)), to_describe(graph, words))
    assert [failure.item for failure in described.failed] == [
        "the descriptions of Ada Moss",
        "the descriptions of Ada Moss → Grain Trust",
        "the descriptions of 林晚 → 青石镇 Inn",
    ]


async def test_no_description_says_what_is_gone_when_its_successor_fails(kept: Kept) -> None:
    await describe(making(kept, Asked()), to_describe(graph_of(*FACTS), words))
    changed = graph_of(*FACTS[1:], "Built it.")
    await describe(making(kept, Asked(fails=("Ada Moss",))), to_describe(changed, words))
    assert descriptions_of(*kept) == {}


async def test_a_description_that_was_lost_is_damage_and_no_missing_description(kept: Kept) -> None:
    await describe(making(kept, Asked()), to_describe(graph_of(*FACTS), words))
    kept.made.forget(values=[now.key for now in kept.draft.current("describe").values()])
    with pytest.raises(IndexDamagedError, match=r"made\.sqlite lacks what was made of .*ada moss"):
        descriptions_of(*kept)


async def test_a_maker_without_a_model_leaves_what_a_model_made_and_a_model_makes_anew(kept: Kept) -> None:
    wanted = to_describe(graph_of(*FACTS), words)
    model, offline = Asked(), Asked()
    await describe(Making(*kept, RunnableLambda(model), True, Run()), wanted)

    def without_model(given: dict[str, Any]) -> Any:
        return offline(given)

    await describe(Making(*kept, RunnableLambda(without_model), False, Run()), wanted)
    assert offline.items == []
    await describe(Making(*kept, RunnableLambda(without_model), True, Run()), wanted)
    assert offline.items == ["Ada Moss"]


def test_summaries_are_set_and_taken_back_on_the_graph() -> None:
    """A graph shows what descriptions were made into, keeps the descriptions, and forgets what no longer holds."""
    graph = graph_of(*FACTS[:2])
    graph.upsert_edge(Edge("Ada Moss", "Trust", "founded", description="In 1998"))
    version = graph.version
    graph.summarise({"ada moss": "Founder.", ("ada moss", "founded", "trust"): "Founded in 1998.", "nobody": "x"})
    assert graph.version > version
    vertex, (edge,) = graph.get_vertex("ADA MOSS"), graph.edges()
    assert vertex is not None
    assert (vertex.summary, vertex.descriptions, edge.summary) == ("Founder.", FACTS[:2], "Founded in 1998.")
    graph.summarise({})
    vertex = graph.get_vertex("Ada Moss")
    assert vertex is not None
    assert vertex.summary == "Founded it.\nLeft it."
    assert "summary" not in vertex.props
