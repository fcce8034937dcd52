"""Communities cover, nest, stay within their size where they can, and do not depend on order, hash seed or thread."""

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import igraph
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler

from rag_transformers.communities import Community, CommunityDetector, project
from rag_transformers.errors import UsageError
from rag_transformers.graph import Direction, Edge, Vertex, name_key
from rag_transformers.stores import MemoryGraph

Pair = tuple[str, str]
CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.jsonl"


def graph_of(pairs: Iterable[Pair], alone: Iterable[str] = ()) -> MemoryGraph:
    graph = MemoryGraph()
    for name in alone:
        graph.upsert_vertex(Vertex(name))
    for source, target in pairs:
        graph.upsert_edge(Edge(source, target, "knows"))
    return graph


def towns(groups: int = 12, size: int = 14, seed: int = 3) -> list[Pair]:
    """Groups of people who mostly know each other, in clusters of three groups that know each other a little."""
    draw = random.Random(seed)
    people = [[f"person {g}-{i}" for i in range(size)] for g in range(groups)]
    pairs = []
    for g, group in enumerate(people):
        pairs += [(a, b) for i, a in enumerate(group) for b in group[:i] if draw.random() < 0.5]
        near = people[g - g % 3 + (g + 1) % 3]
        pairs += [(draw.choice(group), draw.choice(near)) for _ in range(size)]
        pairs += [(draw.choice(group), draw.choice(draw.choice(people))) for _ in range(3)]
    return [(a, b) for a, b in pairs if a != b]


def check(graph: MemoryGraph, communities: Sequence[Community]) -> None:
    """The rules that hold for any graph."""
    by_id = {community.id: community for community in communities}
    assert len(by_id) == len(communities)
    top = [name for each in communities if each.level == 0 for name in each.vertices]
    assert sorted(top) == sorted(vertex.name for vertex in graph)
    for each in communities:
        assert each.vertices
        assert list(each.vertices) == sorted(each.vertices, key=name_key)
        assert (each.parent is None) == (each.level == 0)
        if each.parent is not None:
            assert each.id in by_id[each.parent].children
        children = [by_id[id] for id in each.children]
        assert len(children) != 1
        if children:
            assert {child.level for child in children} == {each.level + 1}
            assert {child.parent for child in children} == {each.id}
            assert Counter(name for child in children for name in child.vertices) == Counter(each.vertices)
    assert list(communities) == sorted(communities, key=lambda each: (each.level, -len(each.vertices), each.id))


names = st.sampled_from([f"name {letter}" for letter in "abcdefghijklmnopqrstuvwx"] + ["刘备", "关羽", "张飞", "曹操"])
pair_lists = st.lists(st.tuples(names, names), max_size=90)


@settings(max_examples=120, deadline=None)
@given(pair_lists, st.lists(names, max_size=5), st.integers(2, 12), st.floats(0.2, 4))
def test_any_graph_is_covered_and_its_levels_nest(
    pairs: list[Pair], alone: list[str], size: int, resolution: float
) -> None:
    graph = graph_of(pairs, alone)
    communities = CommunityDetector(size, resolution).invoke(graph)
    check(graph, communities)
    assert all(len(each.vertices) > size for each in communities if each.children)


@settings(max_examples=60, deadline=None)
@given(pair_lists.flatmap(lambda pairs: st.tuples(st.just(pairs), st.permutations(pairs))), st.integers(0, 9))
def test_order_and_direction_of_insertion_do_not_matter(orders: tuple[list[Pair], list[Pair]], seed: int) -> None:
    detector = CommunityDetector(3, seed=seed)
    turned = [(b, a) for a, b in orders[1]]
    # A pair in both directions weighs 2 and twice in one direction 1: each is given both ways.
    first = detector.invoke(graph_of(orders[0] + [(b, a) for a, b in orders[0]]))
    second = detector.invoke(graph_of(turned + orders[1]))
    assert first == second


@settings(max_examples=60, deadline=None)
@given(pair_lists, pair_lists, st.integers(2, 6))
def test_a_stored_partition_of_any_other_graph_is_a_fine_start(
    before: list[Pair], after: list[Pair], size: int
) -> None:
    detector = CommunityDetector(size)
    graph = graph_of(after)
    communities = detector.invoke(graph, previous=detector.invoke(graph_of(before)))
    check(graph, communities)


def test_order_does_not_matter_on_a_graph_with_fractional_weights_and_many_levels() -> None:
    draw = random.Random(1)
    edges = [
        Edge(*pair, f"relation {number}", weight=draw.random())
        for pair in dict.fromkeys(towns())
        for number in range(3)
    ]
    results = []
    for _ in range(3):
        draw.shuffle(edges)
        graph = MemoryGraph()
        for edge in edges:
            graph.upsert_edge(edge)
        results.append(CommunityDetector(5).invoke(graph))
    assert results[0] == results[1] == results[2]
    assert max(each.level for each in results[0]) >= 2


def test_large_communities_are_split_and_small_ones_are_not() -> None:
    graph = graph_of(towns())
    communities = CommunityDetector(10).invoke(graph)
    check(graph, communities)
    leaves = [each for each in communities if not each.children]
    assert max(len(each.vertices) for each in leaves) <= 10
    assert max(len(each.vertices) for each in communities if each.level == 0) > 28


def test_planted_groups_are_found() -> None:
    communities = CommunityDetector(14).invoke(graph_of(towns()))
    groups = [{f"person {g}-{i}" for i in range(14)} for g in range(12)]
    found = [set(each.vertices) for each in communities]
    assert sum(group in found for group in groups) >= 10


def test_what_has_no_better_parts_stays_whole_whatever_its_size() -> None:
    clique = [(f"n{a}", f"n{b}") for a in range(30) for b in range(a)]
    star = [("hub", f"leaf {i}") for i in range(500)]
    for pairs in (clique, star):
        (only,) = CommunityDetector(2).invoke(graph_of(pairs))
        assert only.children == ()


def test_a_long_chain_is_split_without_recursion() -> None:
    chain = [(f"n{i:05}", f"n{i + 1:05}") for i in range(5000)]
    limit = sys.getrecursionlimit()
    graph = graph_of(chain)
    communities = CommunityDetector(2).invoke(graph)
    check(graph, communities)
    assert sys.getrecursionlimit() == limit
    assert max(len(each.vertices) for each in communities if not each.children) <= 4


def test_an_empty_graph_has_no_communities() -> None:
    assert CommunityDetector().invoke(MemoryGraph()) == ()


@pytest.mark.parametrize("count", [1, 4])
def test_vertices_without_edges_are_communities_of_one(count: int) -> None:
    shown = ["Fir Hut", "Ash Hut", "Elm Hut", "Oak Hut"][:count]
    communities = CommunityDetector().invoke(graph_of([], shown))
    assert sorted(each.vertices for each in communities) == sorted((name,) for name in shown)
    assert {(each.level, each.parent, each.children) for each in communities} == {(0, None, ())}


class Loose:
    """A user's own graph: loops, ends that are no vertices, and any weight."""

    def __init__(self, vertices: list[Vertex], edges: list[Edge]) -> None:
        self._vertices, self._edges = vertices, edges

    def upsert_vertex(self, vertex: Vertex) -> None:
        self._vertices.append(vertex)

    def upsert_edge(self, edge: Edge) -> None:
        self._edges.append(edge)

    def get_vertex(self, name: str) -> Vertex | None:
        return next((vertex for vertex in self._vertices if vertex.key == name_key(name)), None)

    def vertices(self) -> Iterator[Vertex]:
        return iter(self._vertices)

    def edges(self) -> Iterator[Edge]:
        return iter(self._edges)

    def get_neighbor_edges(
        self, name: str, direction: Direction = Direction.OUT, limit: int | None = None
    ) -> Iterator[Edge]:
        return iter(())


def test_loops_and_ends_that_are_no_vertices_are_no_error() -> None:
    edges = [Edge("a", "a", "is"), Edge("b", "C", "knows"), Edge("c", "B", "knows", weight=0)]
    communities = CommunityDetector().invoke(Loose([Vertex("a")], edges))
    assert [each.vertices for each in communities] == [("b", "C"), ("a",)]
    assert [each.vertices for each in CommunityDetector().invoke(Loose([], [Edge("a", "a", "is")]))] == [("a",)]


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_named(weight: float) -> None:
    with pytest.raises(UsageError, match=r"Edge\('a', 'b', 'r'\)"):
        CommunityDetector().invoke(Loose([], [Edge("a", "b", "r", weight=weight)]))


def test_extreme_weights_are_no_error_and_their_scale_does_not_matter() -> None:
    pairs = towns(6)
    results = []
    for scale in (1e-300, 1.0, 1e300):
        edges = [Edge(a, b, "knows", weight=scale * (1 + i % 3)) for i, (a, b) in enumerate(dict.fromkeys(pairs))]
        results.append(CommunityDetector().invoke(Loose([], edges)))
    tops = [[each.vertices for each in result if each.level == 0] for result in results]
    assert tops[0] == tops[1] == tops[2]


def test_weight_counts_distinct_chunks_by_direction_and_adds_what_was_given() -> None:
    graph = MemoryGraph()
    graph.upsert_edge(Edge("a", "b", "knows", chunks=["c1", "c2"]))
    graph.upsert_edge(Edge("a", "b", "pays", chunks=["c2", "c3"]))
    graph.upsert_edge(Edge("b", "a", "owes", chunks=["c3"]))
    graph.upsert_edge(Edge("a", "c", "knows"))
    graph.upsert_edge(Edge("c", "a", "likes", weight=2.5))
    graph.upsert_edge(Edge("b", "c", "ignores", weight=0))
    names, links = project(graph)
    keys = list(names)
    found = {(keys[a], keys[b]): w for a, b, w in zip(*links.ends, links.weights, strict=True)}
    assert found == {("a", "b"): 4.0, ("a", "c"): 3.5}


def test_chunks_behind_an_edge_pull_its_ends_together() -> None:
    ring = ["a", "b", "c", "d"]
    graph = MemoryGraph()
    for place, name in enumerate(ring):
        chunks = [f"c{number}" for number in range(9 if place % 2 else 1)]
        graph.upsert_edge(Edge(name, ring[(place + 1) % 4], "next", chunks=chunks))
    assert sorted(each.vertices for each in CommunityDetector().invoke(graph)) == [("a", "d"), ("b", "c")]


def test_a_higher_resolution_gives_more_communities() -> None:
    graph = graph_of(towns())
    counts = [
        sum(each.level == 0 for each in CommunityDetector(resolution=resolution).invoke(graph)) for resolution in (1, 5)
    ]
    assert counts[0] < counts[1]


def test_an_id_is_that_of_its_level_and_vertices() -> None:
    graph = graph_of(towns())
    found = CommunityDetector().invoke(graph)
    for name in ("PERSON 0-1", "Person 0-1"):
        graph.upsert_vertex(Vertex(name, chunks=["c1", "c2"]))
    assert graph.get_vertex("person 0-1").name == "PERSON 0-1"  # type: ignore[union-attr]
    again = CommunityDetector().invoke(graph)
    assert [each.id for each in again] == [each.id for each in found]
    assert all(each.id.startswith(f"{each.level}-") for each in found)
    assert any("PERSON 0-1" in each.vertices for each in again)


def test_another_order_of_hashing_gives_the_same_communities() -> None:
    code = (
        "import json, sys\n"
        "from test_communities import CommunityDetector, graph_of, towns\n"
        "pairs = list(set(towns()))\n"
        "found = CommunityDetector(5).invoke(graph_of(pairs))\n"
        "more = CommunityDetector(5).invoke(graph_of(pairs + [('person 0-0', '新人')]), previous=found)\n"
        "print(json.dumps([each.to_dict() for each in found + more]))\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parent,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{Path(__file__).parents[1]}:{Path(__file__).parent}"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "7")
    ]
    assert outputs[0] == outputs[1]
    assert len(json.loads(outputs[0])) > 50


def test_threads_do_not_disturb_each_other_nor_other_users_of_igraph() -> None:
    graph, detector = graph_of(towns()), CommunityDetector(5)
    expected = detector.invoke(graph)

    def work(number: int) -> Any:
        if number % 2:
            igraph.Graph.Erdos_Renyi(300, 0.1)
            return expected
        return detector.invoke(graph)

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(work, range(40)))


def test_igraph_draws_from_its_default_generator_afterwards() -> None:
    CommunityDetector().invoke(graph_of(towns()))
    random.seed(5)
    first = igraph.Graph.Erdos_Renyi(50, 0.2).get_edgelist()
    random.seed(5)
    assert igraph.Graph.Erdos_Renyi(50, 0.2).get_edgelist() == first


def content(graph: MemoryGraph, community: Community) -> tuple[Any, ...]:
    """What a report on a community is written from."""
    inside = set(community.vertices)
    edges = (each for name in community.vertices for each in graph.get_neighbor_edges(name))
    return community.id, tuple(sorted(each.key for each in edges if each.target in inside))


def test_a_stored_partition_of_the_same_graph_comes_back() -> None:
    graph = graph_of(towns())
    found = CommunityDetector(5).invoke(graph)
    assert CommunityDetector(5, seed=9).invoke(graph, previous=found) == found
    assert CommunityDetector(5, seed=9).invoke(graph) != found


def test_adding_one_percent_rewrites_little_and_less_than_a_start_from_scratch() -> None:
    pairs = list(dict.fromkeys(towns(60)))
    random.Random(2).shuffle(pairs)
    few = len(pairs) // 100
    before, after = graph_of(pairs[few:]), graph_of(pairs)
    detector = CommunityDetector(5)
    found = detector.invoke(before)
    old = {content(before, each) for each in found}
    warm, cold = detector.invoke(after, previous=found), detector.invoke(after)
    shares = [sum(content(after, each) not in old for each in new) / len(new) for new in (warm, cold)]
    assert shares[0] < shares[1] / 2


def test_what_is_new_is_placed_and_the_rest_keeps_its_ids() -> None:
    pairs = towns()
    found = CommunityDetector(5).invoke(graph_of(pairs))
    more = [("新人", f"person 0-{i}") for i in range(4)] + [("Zoe", "Yan"), ("Yan", "Xia"), ("Xia", "Zoe")]
    graph = graph_of(pairs + more, ["Nobody"])
    grown = CommunityDetector(5).invoke(graph, previous=found)
    check(graph, grown)
    tops = [each for each in grown if each.level == 0]
    home = next(each for each in tops if "新人" in each.vertices)
    assert {"person 0-0", "person 0-3"} <= set(home.vertices)
    assert {("Nobody",), ("Xia", "Yan", "Zoe")} <= {each.vertices for each in tops}
    kept = {each.id for each in found} & {each.id for each in grown}
    assert len(kept) > 0.8 * len(found)


def test_a_stored_community_that_fell_apart_is_parted() -> None:
    whole = graph_of([("a", "b"), ("b", "c"), ("c", "d")])
    found = CommunityDetector().invoke(whole)
    forced = (Community("0-x", 0, None, (), ("a", "b", "c", "d")),)
    for previous in (found, forced):
        apart = CommunityDetector().invoke(graph_of([("a", "b"), ("c", "d")]), previous=previous)
        assert [each.vertices for each in apart] in ([("a", "b"), ("c", "d")], [("c", "d"), ("a", "b")])


def test_a_stored_partition_that_the_graph_no_longer_bears_out_is_given_up() -> None:
    graph = graph_of(towns())
    draw = random.Random(4)
    shuffled = sorted((vertex.name for vertex in graph), key=lambda name: draw.random())
    wrong = [Community(f"0-{i}", 0, None, (), tuple(shuffled[i::8])) for i in range(8)]
    fresh = {each.vertices for each in CommunityDetector().invoke(graph) if each.level == 0}
    found = {each.vertices for each in CommunityDetector().invoke(graph, previous=wrong) if each.level == 0}
    assert len(found & fresh) >= len(fresh) / 2


@pytest.mark.parametrize("quality", ["rber", "significance", "surprise"])
def test_other_qualities_hold_the_same_rules(quality: str) -> None:
    pytest.importorskip("leidenalg", reason="the other qualities need leidenalg")
    graph = graph_of(towns(6), ["Nobody"])
    detector = CommunityDetector(6, quality=quality)
    found = detector.invoke(graph)
    check(graph, found)
    assert detector.invoke(graph) == found
    assert len([each for each in found if each.level == 0]) > 2
    assert detector.invoke(MemoryGraph()) == ()


def test_a_quality_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "leidenalg", None)
    with pytest.raises(UsageError, match="pip install leidenalg"):
        CommunityDetector(quality="surprise").invoke(graph_of([("a", "b")]))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"max_cluster_size": 1}, "max_cluster_size is 1"),
        ({"max_cluster_size": True}, "max_cluster_size is True"),
        ({"resolution": 0}, "resolution is 0"),
        ({"resolution": float("nan")}, "resolution is nan"),
        ({"seed": -1}, "seed is -1"),
        ({"quality": "cpm"}, "quality is 'cpm'; it must be one of modularity"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        CommunityDetector(**arguments)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(UsageError, match="graph is a list"):
        CommunityDetector().invoke([("a", "b")])  # type: ignore[arg-type]


def test_a_community_survives_json() -> None:
    for community in CommunityDetector(5).invoke(graph_of(towns())):
        assert Community.from_dict(json.loads(json.dumps(community.to_dict()))) == community


class Started(BaseCallbackHandler):
    def __init__(self) -> None:
        self.names: list[str] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.names.append(kwargs["name"])


async def test_it_is_a_runnable_in_every_way_that_one_is_called() -> None:
    graph, detector, seen = graph_of(towns(3)), CommunityDetector(5), Started()
    found = detector.invoke(graph, {"callbacks": [seen]})
    assert seen.names == ["CommunityDetector"]
    ticks: list[int] = []
    ticker = asyncio.create_task(_ticking(ticks))
    assert await detector.ainvoke(graph, previous=found) == found
    ticker.cancel()
    assert ticks
    assert detector.batch([graph, MemoryGraph()]) == [found, ()]
    assert await detector.abatch([graph]) == [found]


async def _ticking(ticks: list[int]) -> None:
    while True:
        ticks.append(1)
        await asyncio.sleep(0)


def test_importing_the_module_does_not_import_igraph() -> None:
    code = "import sys, rag_transformers.communities; print([m for m in ('igraph', 'leidenalg') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("case", ["graph-08", "graph-09"])
def test_shared_cases(case: str) -> None:
    if not CASES.exists():
        pytest.skip("the shared cases are not on this machine")
    with CASES.open(encoding="utf-8") as lines:
        row = next(row for row in map(json.loads, lines) if row["id"] == case)
    shown = [name for upsert in row["input"]["upserts"] for name in upsert["entity"][:1]]
    communities = CommunityDetector().invoke(graph_of([], shown))
    assert sorted(each.vertices for each in communities) == sorted((name,) for name in shown)
