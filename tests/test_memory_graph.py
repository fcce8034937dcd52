"""Rules of the graph in memory."""

import logging
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_transformers.errors import UsageError
from rag_transformers.graph import MAX_NAME_LENGTH, Direction, Edge, Extraction, Graph, Vertex
from rag_transformers.records import parse_records
from rag_transformers.stores import MemoryGraph

Row = tuple[str, str, str]


def graph_of(*rows: Row, vertices: tuple[str, ...] = ()) -> MemoryGraph:
    """A graph of (source, relation, target) and of vertices without edges."""
    graph = MemoryGraph()
    for name in vertices:
        graph.upsert_vertex(Vertex(name))
    for source, relation, target in rows:
        graph.upsert_edge(Edge(source, target, relation))
    return graph


def names(graph: MemoryGraph) -> list[str]:
    return [vertex.name for vertex in graph]


def rows(graph: MemoryGraph) -> list[Row]:
    return [(edge.source, edge.name, edge.target) for edge in graph.edges()]


def vertex(graph: MemoryGraph, name: str) -> Vertex:
    found = graph.get_vertex(name)
    assert found is not None
    return found


CHAIN = [("a", "next", "b"), ("b", "next", "c"), ("c", "next", "d"), ("d", "next", "e")]


def test_it_is_a_graph_and_starts_empty() -> None:
    graph = MemoryGraph()
    assert isinstance(graph, Graph)
    assert (len(graph), graph.vertex_count, graph.edge_count, graph.version, list(graph.edges())) == (0, 0, 0, 0, [])


class TestKeys:
    def test_an_edge_is_known_by_source_relation_and_target(self) -> None:
        """Parallel relations stay apart, direction counts, and what is said of one relation is collected."""
        graph = MemoryGraph()
        for source, relation, target, text in [
            ("Ines Falk", "opened", "Mill House", "In 1931"),
            ("Ines Falk", "runs", "Mill House", "Until 1950"),
            ("Ines Falk", "runs", "Mill House", "Again from 1954"),
            ("Mill House", "feeds", "Ines Falk", "A pension"),
        ]:
            graph.upsert_edge(Edge(source, target, relation, description=text))
        assert rows(graph) == [
            ("Ines Falk", "opened", "Mill House"),
            ("Ines Falk", "runs", "Mill House"),
            ("Mill House", "feeds", "Ines Falk"),
        ]
        assert [edge.descriptions for edge in graph.edges()][1] == ("Until 1950", "Again from 1954")

    def test_names_that_differ_only_by_case_are_one_vertex(self) -> None:
        graph = MemoryGraph()
        graph.upsert_vertex(Vertex("Harbour Fund", description="A lender"))
        graph.upsert_vertex(Vertex("harbour fund", description="Begun in 1902"))
        graph.upsert_vertex(Vertex("Quay 9", description="A quay"))
        graph.upsert_edge(Edge("HARBOUR FUND", "Quay 9", "pays for", description="A loan"))
        assert names(graph) == ["Harbour Fund", "Quay 9"]
        assert vertex(graph, "harbour FUND").descriptions == ("A lender", "Begun in 1902")
        assert rows(graph) == [("Harbour Fund", "pays for", "Quay 9")]

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("关羽", "关 羽"),
            ("《三国演义》", "三国演义"),
            ("ＡＢＣ银行", "abc银行"),
            ("Mr. Sol", "mr sol"),
            ("Café", "CAFE\u0301"),
        ],
    )
    def test_spellings_of_one_name_meet(self, one: str, other: str) -> None:
        graph = graph_of(vertices=(one, other))
        assert len(graph) == 1
        assert one in graph
        assert other in graph

    def test_different_chinese_names_stay_apart(self) -> None:
        graph = graph_of(("刘备", "结义", "关羽"), ("刘备", "结义", "张飞"), ("关羽", "守", "荆州"))
        assert names(graph) == ["刘备", "关羽", "张飞", "荆州"]
        assert graph.edge_count == 3

    def test_long_names_are_cut_with_one_warning_and_stay_two(self, caplog: pytest.LogCaptureFixture) -> None:
        graph, left, right = MemoryGraph(), "Q" * 4000 + "left", "Q" * 4000 + "right"
        with caplog.at_level(logging.WARNING):
            graph.upsert_vertex(Vertex(left, description="One"))
            graph.upsert_vertex(Vertex(right, description="Two"))
            graph.upsert_edge(Edge(left, right, "meets"))
        assert [len(name) for name in names(graph)] == [MAX_NAME_LENGTH, MAX_NAME_LENGTH]
        assert [each.descriptions for each in graph] == [("One",), ("Two",)]
        assert graph.edge_count == 1
        assert len(caplog.records) == 2
        assert vertex(graph, left).descriptions == ("One",)

    def test_half_an_emoji_in_a_name_is_no_error(self) -> None:
        graph = graph_of(("half \ud83d", "asks", "x" * 300 + "\ud83d"))
        assert graph.edge_count == 1
        assert "half \ud83d" in graph

    def test_a_name_is_kept_on_one_line(self) -> None:
        graph = graph_of((" Ada \n Moss ", " sat\non ", "Pier"))
        assert rows(graph) == [("Ada Moss", "sat on", "Pier")]
        assert " Ada \n Moss " in graph


class TestShownName:
    def test_it_is_the_spelling_of_most_chunks(self) -> None:
        """Ten uses in one chunk count once; the first spelling wins a tie."""
        graph = MemoryGraph()
        for number in range(10):
            graph.upsert_vertex(Vertex("NORTH MOLE", description=f"{number}", chunks=["1"]))
        graph.upsert_vertex(Vertex("North Mole", chunks=["2"]))
        assert names(graph) == ["NORTH MOLE"]
        graph.upsert_edge(Edge("North Mole", "Sea", "breaks", chunks=["3"]))
        assert names(graph) == ["North Mole", "Sea"]
        assert rows(graph) == [("North Mole", "breaks", "Sea")]

    def test_uses_without_a_chunk_decide_between_equals(self) -> None:
        graph = graph_of(vertices=("north mole", "North Mole", "North Mole"))
        assert names(graph) == ["North Mole"]

    def test_reading_a_chunk_again_does_not_change_it(self) -> None:
        graph = MemoryGraph()
        graph.add(Extraction([("iron pit", "")]), "1")
        graph.add(Extraction([("Iron Pit", "")]), "2")
        graph.add(Extraction([("Iron Pit", "")]), "2")
        assert names(graph) == ["iron pit"]


class TestMerging:
    def test_the_same_upserts_twice_change_nothing(self) -> None:
        graph = MemoryGraph()

        def upserts() -> None:
            graph.upsert_vertex(Vertex("Quill Barn", description="A shed by the lock"))
            graph.upsert_vertex(Vertex("Lock", description="An old lock", chunks=["1"], kind="place"))
            graph.upsert_edge(Edge("Quill Barn", "Lock", "stands by", description="Since 1790", weight=2, chunks=["1"]))

        upserts()
        before, version = list(graph.edges()) + list(graph.vertices()), graph.version
        upserts()
        assert list(graph.edges()) + list(graph.vertices()) == before
        assert graph.version == version
        assert vertex(graph, "Quill Barn").descriptions == ("A shed by the lock",)

    def test_a_blank_overwrites_nothing_and_news_does(self) -> None:
        graph = graph_of()
        graph.upsert_vertex(Vertex("Oda", description="A smith", rank=1, town="Aarn"))
        graph.upsert_vertex(Vertex("Oda", description=" ", rank=None, town="", tags=[]))
        assert vertex(graph, "Oda").props == {"description": "A smith", "rank": 1, "town": "Aarn"}
        graph.upsert_vertex(Vertex("Oda", rank=0, descriptions=["A smith ", "Retired"]))
        assert vertex(graph, "Oda").props["rank"] == 0
        assert vertex(graph, "Oda").descriptions == ("A smith", "Retired")
        assert vertex(graph, "Oda").props["description"] == "A smith\nRetired"

    def test_an_edge_adds_the_ends_that_are_missing_and_its_chunks_to_them(self) -> None:
        graph = MemoryGraph()
        graph.upsert_vertex(Vertex("Oda", description="A smith", chunks=["1"]))
        graph.upsert_edge(Edge("Oda", "Aarn", "lives in", chunks=["2"]))
        assert vertex(graph, "Oda").props == {"description": "A smith", "chunks": ["1", "2"]}
        assert vertex(graph, "Aarn").props == {"chunks": ["2"]}

    def test_append_edge_says_whether_it_was_new_and_merges_if_not(self) -> None:
        graph = MemoryGraph()
        assert graph.append_edge(Edge("a", "b", "r", description="one"))
        assert not graph.append_edge(Edge("A", "B", "R", description="two"))
        assert graph.append_edge(Edge("a", "b", "s"))
        assert [edge.descriptions for edge in graph.edges()] == [("one", "two"), ()]

    def test_a_loop_is_dropped_and_counted(self) -> None:
        graph = graph_of(vertices=("Dune Choir",))
        graph.upsert_edge(Edge("Dune Choir", "the dune-choir", "holds", description="Its singers"))
        assert not graph.append_edge(Edge("New", "new", "is"))
        assert (names(graph), rows(graph), graph.skipped) == (["Dune Choir"], [], 2)

    def test_a_vertex_without_an_edge_is_never_lost(self) -> None:
        graph = graph_of(vertices=("Fir Hut", "Ash Hut", "Elm Hut"))
        assert names(graph) == ["Fir Hut", "Ash Hut", "Elm Hut"]
        assert graph.search("Elm Hut").get_vertex("elm hut") == Vertex("Elm Hut")

    @pytest.mark.parametrize(
        "thing",
        [
            Vertex("a", description=5),
            Vertex("a", descriptions="text"),
            Vertex("a", chunks="c1"),
            Vertex("a", chunks=[1]),
            Edge("a", "b", "r", weight=-1),
            Edge("a", "b", "r", weight=float("nan")),
            Edge("a", "b", "r", weight=True),
        ],
    )
    def test_a_prop_of_a_wrong_form_is_refused_and_nothing_is_changed(self, thing: Vertex | Edge) -> None:
        graph = MemoryGraph()
        with pytest.raises(UsageError, match=r"description|chunks|weight"):
            graph.upsert_vertex(thing) if isinstance(thing, Vertex) else graph.upsert_edge(thing)
        assert len(graph) == 0


class TestWeight:
    def test_it_is_the_number_of_chunks_unless_given(self) -> None:
        graph = MemoryGraph()
        for chunk in ("1", "2", "2"):
            graph.upsert_edge(Edge("a", "b", "r", chunks=[chunk]))
        graph.upsert_edge(Edge("b", "c", "r"))
        assert [edge.weight for edge in graph.edges()] == [2, 1]

    def test_that_of_another_chunk_is_added_and_that_of_the_same_counts_once(self) -> None:
        graph = MemoryGraph()
        for chunk, weight in (("1", 7), ("2", 5), ("1", 7), ("1", 3), ("2", 6), ("3", None)):
            graph.upsert_edge(Edge("a", "b", "r", weight=weight, chunks=[chunk]))
        assert next(graph.edges()).weight == 7 + 6 + 1

    def test_one_without_a_chunk_replaces(self) -> None:
        graph = MemoryGraph()
        for weight in (2, 0.5):
            graph.upsert_edge(Edge("a", "b", "r", weight=weight))
        assert next(graph.edges()).weight == 0.5

    def test_what_is_read_can_be_written_back_and_changes_nothing(self) -> None:
        graph = MemoryGraph()
        for chunk, weight in (("1", 7), ("2", 5)):
            graph.upsert_edge(Edge("a", "b", "r", weight=weight, chunks=[chunk], description=chunk))
        before = list(graph.edges())
        for edge in before:
            graph.upsert_edge(edge)
        assert list(graph.edges()) == before


class TestAdd:
    FOUND = Extraction(
        [("刘备", "字玄德"), ("蜀", "")],
        [("刘备", "建立", "蜀", "221 年"), ("蜀", "定都", "成都", ""), ("成都", "是", "成都", "")],
        types=["person", ""],
        weights=[2, 1, 1],
    )

    def test_an_extraction_is_folded_with_its_chunk(self) -> None:
        graph = MemoryGraph()
        assert graph.add(self.FOUND, "c1") == 1
        assert vertex(graph, "刘备").props == {"description": "字玄德", "chunks": ["c1"], "type": "person"}
        assert vertex(graph, "成都") == Vertex("成都", chunks=["c1"])
        assert [edge.props for edge in graph.edges()] == [
            {"description": "221 年", "chunks": ["c1"], "weight": 2.0},
            {"chunks": ["c1"], "weight": 1.0},
        ]

    def test_adding_it_again_changes_nothing(self) -> None:
        once, twice = MemoryGraph(), MemoryGraph()
        once.add(self.FOUND, "c1")
        for _ in range(2):
            twice.add(self.FOUND, "c1")
        assert once == twice
        assert once.version == twice.version

    def test_the_first_type_stays_and_a_blank_is_none(self) -> None:
        graph = MemoryGraph()
        for chunk, kind in (("1", " "), ("2", "person"), ("3", "place"), ("4", "")):
            graph.add(Extraction([("Oda", "")], types=[kind]), chunk)
        assert vertex(graph, "Oda").props["type"] == "person"

    @pytest.mark.parametrize("chunk", ["", " ", None, 7])
    def test_a_chunk_without_an_id_is_refused(self, chunk: Any) -> None:
        with pytest.raises(UsageError, match="chunk is"):
            MemoryGraph().add(self.FOUND, chunk)


class TestSearch:
    def test_a_direction_that_is_none_is_refused_whatever_the_seeds(self) -> None:
        direction: Any = "sideways"
        with pytest.raises(UsageError, match="sideways"):
            MemoryGraph().search("nowhere", direction)

    def test_it_goes_hop_by_hop_and_boundary_vertices_are_whole(self) -> None:
        graph = graph_of(*CHAIN)
        graph.upsert_vertex(Vertex("c", description="the third"))
        found = graph.search(["a"], depth=2)
        assert names(found) == ["a", "b", "c"]
        assert found.get_vertex("c") == Vertex("c", description="the third")
        assert rows(found) == CHAIN[:2]

    def test_a_nearer_way_is_taken_before_a_longer_one(self) -> None:
        graph = graph_of(("s", "r", "a"), ("a", "r", "b"), ("b", "r", "t"), ("s", "r", "t"), ("t", "r", "u"))
        assert names(graph.search("s", depth=2)) == ["s", "a", "t", "b", "u"]

    @pytest.mark.parametrize(
        ("direction", "expected"),
        [
            (Direction.OUT, ["c", "d", "e"]),
            (Direction.IN, ["c", "b", "a"]),
            (Direction.BOTH, ["c", "b", "d", "a", "e"]),
        ],
    )
    def test_direction(self, direction: Direction, expected: list[str]) -> None:
        assert names(graph_of(*CHAIN).search("c", direction)) == expected

    def test_none_is_no_bound_and_zero_is_zero(self) -> None:
        graph = graph_of(*CHAIN)
        assert graph.search("a").edge_count == 4
        for bound in ("depth", "fan", "limit"):
            zero: dict[str, Any] = {bound: 0}
            found = graph.search(["a", "e"], **zero)
            assert (names(found), found.edge_count) == (["a", "e"], 0)

    def test_fan_bounds_the_edges_of_a_vertex_and_limit_those_of_all(self) -> None:
        graph = graph_of(*((hub, "r", f"{hub}{leaf}") for hub in "xy" for leaf in range(3)), ("x0", "r", "y"))
        assert rows(graph.search("x", Direction.OUT, fan=2)) == [
            ("x", "r", "x0"),
            ("x", "r", "x1"),
            ("x0", "r", "y"),
            ("y", "r", "y0"),
            ("y", "r", "y1"),
        ]
        assert rows(graph.search("x", Direction.OUT, limit=4))[-1] == ("x0", "r", "y")
        assert len(list(graph.get_neighbor_edges("x", limit=1))) == 1

    @pytest.mark.parametrize("bound", ["depth", "fan", "limit"])
    @pytest.mark.parametrize("value", [-1, True, 1.5])
    def test_other_bounds_are_refused(self, bound: str, value: Any) -> None:
        with pytest.raises(UsageError, match=bound):
            graph_of(*CHAIN).search("a", **{bound: value})

    def test_unknown_seeds_are_passed_over_and_an_unknown_direction_is_refused(self) -> None:
        graph = graph_of(*CHAIN)
        assert len(graph.search(["nobody", "A"], depth=0)) == 1
        with pytest.raises(UsageError, match="direction is 'up'"):
            graph.search("a", "up")  # type: ignore[arg-type]

    def test_a_long_chain_needs_no_recursion(self) -> None:
        graph = graph_of(*((f"{n}", "next", f"{n + 1}") for n in range(5000)))
        assert graph.search("0").edge_count == 5000

    def test_what_is_found_is_a_copy(self) -> None:
        graph = graph_of(*CHAIN)
        graph.search("a").upsert_vertex(Vertex("a", description="changed"))
        assert vertex(graph, "a").descriptions == ()

    def test_it_does_not_depend_on_the_hash_seed(self) -> None:
        script = (
            "from rag_transformers.graph import Edge\n"
            "from rag_transformers.stores import MemoryGraph\n"
            "g = MemoryGraph()\n"
            "for i in range(300): g.upsert_edge(Edge(f'v{i * 7 % 40}', f'v{i * 11 % 37}', f'r{i % 3}'))\n"
            "print(g.search(['v1', 'v2'], depth=3, fan=3, limit=50).graphviz())"
        )
        outputs = {
            subprocess.run(
                [sys.executable, "-c", script],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
                encoding="utf-8",
            ).stdout
            for seed in ("1", "2")
        }
        assert len(outputs) == 1
        assert "v1" in outputs.pop()


class TestReading:
    def test_edges_of_a_vertex_come_in_the_order_of_insertion(self) -> None:
        graph = graph_of(("b", "1", "a"), ("a", "2", "b"), ("c", "3", "a"), ("a", "4", "b"), ("b", "5", "c"))
        assert [edge.name for edge in graph.get_neighbor_edges("a", Direction.BOTH)] == ["1", "2", "3", "4"]
        assert [edge.name for edge in graph.get_neighbor_edges("A")] == ["2", "4"]
        assert [edge.name for edge in graph.get_neighbor_edges("a", Direction.IN)] == ["1", "3"]
        assert list(graph.get_neighbor_edges("nobody")) == []

    def test_what_is_read_stays_as_it_was(self) -> None:
        """Iterators are snapshots, also of content."""
        graph = graph_of(*CHAIN)
        vertices, edges, first = graph.vertices(), graph.edges(), vertex(graph, "a")
        graph.upsert_edge(Edge("a", "b", "next", description="later"))
        graph.upsert_vertex(Vertex("a", description="later"))
        graph.del_vertices("c")
        assert first == Vertex("a")
        assert [each.name for each in vertices] == ["a", "b", "c", "d", "e"]
        assert [(edge.source, edge.name, edge.target) for edge in edges] == CHAIN
        assert next(graph.edges()).descriptions == ("later",)

    def test_a_caller_cannot_change_the_graph_through_what_was_given_or_read(self) -> None:
        graph, tags = MemoryGraph(), ["red"]
        graph.upsert_vertex(Vertex("a", chunks=["1"], tags=tags))
        tags.append("blue")
        for _ in range(2):
            found = vertex(graph, "a")
            assert found.props == {"chunks": ["1"], "tags": ["red"]}
            found.props["tags"].append("green")
            found.props["chunks"].append("2")

    def test_contains_any_spelling_and_nothing_else(self) -> None:
        graph = graph_of(*CHAIN)
        assert "A" in graph
        assert Vertex("a") in graph
        assert "z" not in graph
        assert 7 not in graph

    def test_version_grows_with_a_change_and_with_nothing_else(self) -> None:
        graph = graph_of(*CHAIN)
        version = graph.version
        graph.upsert_vertex(Vertex("a"))
        graph.del_edges("a", "z")
        list(graph.search("a"))
        assert graph.version == version
        graph.upsert_vertex(Vertex("a", description="new"))
        assert graph.version > version


class TestDeleting:
    def test_counts_are_returned_and_ends_stay(self) -> None:
        graph = graph_of(("a", "r", "b"), ("a", "s", "b"), ("a", "t", "b"), ("b", "r", "a"), ("a", "r", "c"))
        assert graph.del_edges("A", "b", "R") == 1
        assert graph.del_edges("a", "b", "t") == 1
        assert graph.del_edges("a", "b", "none") == 0
        assert graph.del_edges("a", "b") == 1
        assert rows(graph) == [("b", "r", "a"), ("a", "r", "c")]
        assert graph.del_neighbor_edges("a", Direction.IN) == 1
        assert graph.del_neighbor_edges("a") == 1
        assert graph.del_neighbor_edges("nobody", Direction.BOTH) == 0
        assert (names(graph), graph.edge_count) == (["a", "b", "c"], 0)

    def test_a_vertex_goes_with_its_edges(self) -> None:
        graph = graph_of(*CHAIN, ("c", "back", "a"))
        assert graph.del_vertices("C", "c", "nobody") == 1
        assert rows(graph) == [CHAIN[0], CHAIN[3]]
        assert [edge.name for edge in graph.get_neighbor_edges("a", Direction.BOTH)] == ["next"]

    def test_a_vertex_that_comes_again_starts_anew(self) -> None:
        graph = MemoryGraph()
        graph.upsert_vertex(Vertex("OLD", description="old", chunks=["1", "2"]))
        graph.del_vertices("old")
        graph.upsert_vertex(Vertex("Old", chunks=["3"]))
        assert list(graph) == [Vertex("Old", chunks=["3"])]


ITEMS = st.tuples(
    st.sampled_from(["Ada", "ADA", "ada ", "Bo", "bo", "曹操", "曹 操"]),
    st.sampled_from(["knows", "Knows", "pays"]),
    st.sampled_from(["Ada", "Bo", "曹操", "Cy"]),
    st.sampled_from(["", "one", "two"]),
    st.sampled_from(["1", "2", "3"]),
    st.sampled_from([None, 1.0, 4.0]),
)


class TestMerge:
    @given(st.lists(ITEMS, max_size=12), st.lists(ITEMS, max_size=12))
    def test_merging_two_graphs_is_folding_all_that_made_them(self, first: list[Any], second: list[Any]) -> None:
        """Spellings, descriptions, chunks and weights included."""
        ours, theirs, together = MemoryGraph(), MemoryGraph(), MemoryGraph()
        for graph, items in ((ours, first), (theirs, second), (together, first + second)):
            for source, relation, target, text, chunk, weight in items:
                graph.upsert_edge(Edge(source, target, relation, description=text, chunks=[chunk], weight=weight))
        ours.merge(theirs)
        assert ours == together

    @given(st.lists(ITEMS, max_size=12))
    def test_merging_a_graph_with_itself_or_twice_changes_nothing(self, items: list[Any]) -> None:
        graph, copy = MemoryGraph(), MemoryGraph()
        for source, relation, target, text, chunk, weight in items:
            graph.upsert_edge(Edge(source, target, relation, description=text, chunks=[chunk], weight=weight))
        version = graph.version
        graph.merge(graph)
        copy.merge(graph)
        copy.merge(graph)
        assert graph.version == version
        assert list(copy.vertices()) == list(graph.vertices())
        assert list(copy.edges()) == list(graph.edges())

    def test_any_graph_can_be_merged(self) -> None:
        class Other:
            """A graph of somebody else's."""

            def vertices(self) -> Any:
                return iter([Vertex("Lone", description="x"), Vertex("A")])

            def edges(self) -> Any:
                return iter([Edge("A", "B", "r", chunks=["1"])])

        graph = graph_of(("a", "r", "b"))
        graph.merge(Other())  # type: ignore[arg-type]
        assert names(graph) == ["A", "B", "Lone"]
        assert [edge.chunks for edge in graph.edges()] == [("1",)]

    def test_equality_is_by_content_in_any_order(self) -> None:
        assert graph_of(*CHAIN) == graph_of(*reversed(CHAIN))
        assert graph_of(*CHAIN) != graph_of(*CHAIN[:3], vertices=("e",))
        assert graph_of() != "graph"
        with pytest.raises(TypeError, match="unhashable"):
            hash(graph_of())


class TestViews:
    def example(self) -> MemoryGraph:
        graph = MemoryGraph()
        graph.upsert_vertex(Vertex("Oda", descriptions=["A smith", "Retired"], chunks=["1", "2"], tags=["x"]))
        graph.upsert_vertex(Vertex('Lone "Q" \\'))
        graph.upsert_edge(Edge("Oda", "阿恩", "住在", description="Since 1902", chunks=["1", "2"]))
        graph.upsert_edge(Edge("Oda", "阿恩", "left", weight=0.5))
        graph.upsert_edge(Edge("阿恩", "Oda", "honours"))
        return graph

    def test_format_reads_back(self) -> None:
        graph = self.example()
        graph.del_vertices('Lone "Q" \\')
        read = MemoryGraph()
        found = parse_records(graph.format())
        assert found.status == "ok"
        read.add(found.extraction(), "c")
        assert [(v.name, v.descriptions) for v in read] == [(v.name, v.descriptions) for v in graph]
        assert [(rows(read), e.descriptions) for e in read.edges()] == [
            (rows(graph), e.descriptions) for e in graph.edges()
        ]

    def test_an_empty_graph_has_views_too(self) -> None:
        graph = MemoryGraph()
        assert parse_records(graph.format()).skipped == 0
        assert graph.graphviz() == "digraph {\n}"
        assert graph.to_networkx().number_of_nodes() == graph.to_igraph().vcount() == 0

    def test_networkx_gets_every_edge_and_plain_attributes(self, tmp_path: Any) -> None:
        import networkx as nx

        copy = self.example().to_networkx()
        assert list(copy.nodes) == ["Oda", 'Lone "Q" \\', "阿恩"]
        assert copy.nodes["Oda"] == {"description": "A smith\nRetired", "chunks": '["1", "2"]', "tags": '["x"]'}
        assert [(s, t, key, data["weight"]) for s, t, key, data in copy.edges(keys=True, data=True)] == [
            ("Oda", "阿恩", "住在", 2.0),
            ("Oda", "阿恩", "left", 0.5),
            ("阿恩", "Oda", "honours", 1.0),
        ]
        nx.write_graphml(copy, tmp_path / "graph.xml")
        again = nx.read_graphml(tmp_path / "graph.xml", force_multigraph=True)
        assert again.number_of_edges() == 3

    def test_igraph_gets_every_edge_in_order(self) -> None:
        copy = self.example().to_igraph()
        assert copy.is_directed()
        assert copy.vs["name"] == ["Oda", 'Lone "Q" \\', "阿恩"]
        assert copy.get_edgelist() == [(0, 2), (0, 2), (2, 0)]
        assert copy.es["name"] == ["住在", "left", "honours"]
        assert copy.es["weight"] == [edge.weight for edge in self.example().edges()] == [2.0, 0.5, 1.0]

    def test_graphviz_quotes_names(self) -> None:
        lines = self.example().graphviz().splitlines()
        assert lines[2] == r'  "Lone \"Q\" \\";'
        assert lines[4] == '  "Oda" -> "阿恩" [label="住在"];'

    def test_schema_names_the_props(self) -> None:
        vertices, edges = self.example().schema()["schema"]
        assert (vertices["type"], vertices["count"]) == ("VERTEX", 3)
        assert {"name": "tags", "type": "list"} in vertices["properties"]
        assert (edges["type"], edges["count"]) == ("EDGE", 3)
        assert {"name": "weight", "type": "float"} in edges["properties"]


def test_readers_may_work_beside_a_writer() -> None:
    """Every snapshot is whole: no edge without its ends, and no error."""
    graph, stop, faults = MemoryGraph(), threading.Event(), []

    def write() -> None:
        for number in range(1500):
            graph.upsert_edge(Edge(f"v{number % 50}", f"w{number % 70}", f"r{number % 9}", chunks=[f"{number}"]))
            if number % 100 == 99:
                graph.del_vertices(f"v{number % 50}")
        stop.set()

    def read() -> None:
        while not stop.is_set():
            try:
                found = graph.search("v1", depth=2, limit=40)
                assert all(edge.source in found and edge.target in found for edge in found.edges())
                copy = graph.to_igraph()
                assert copy.ecount() == len(copy.es["weight"])
            except BaseException as error:
                faults.append(error)
                raise

    threads = [threading.Thread(target=work) for work in (read, read, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert graph.edge_count == len(list(graph.edges())) > 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["Ada", "ADA", "ada's", "Bo", "阿恩", "阿 恩"]), st.sampled_from(["knows", "met"]))
    .flatmap(lambda pair: st.tuples(*map(st.just, pair), st.sampled_from(["Bo", "Cy", "cy", "Ada"]), st.integers(0, 5)))
    .map(lambda row: (*row[:3], f"c{row[3]}")),
    max_size=12,
)


def told(graph: MemoryGraph, steps: list[tuple[str, str, str, str]]) -> MemoryGraph:
    for number, (source, relation, target, chunk) in enumerate(steps):
        found = Extraction(
            [(source, f"said {number % 4}")],
            [(source, relation, target, f"then {number % 3}")],
            weights=[number] if number % 2 else (),
            unheld=[target] if number % 3 == 0 else (),
        )
        graph.add(found, chunk)
    return graph


def content(graph: MemoryGraph) -> tuple[Any, ...]:
    around = [list(graph.get_neighbor_edges(name, Direction.BOTH)) for name in names(graph)]
    return list(graph.vertices()), list(graph.edges()), around, graph.skipped, list(graph.described(2)), graph.ties()


class TestCopy:
    @given(STEPS, STEPS)
    def test_a_copy_holds_the_same_goes_on_alike_and_shares_nothing(self, first: Any, then: Any) -> None:
        graph = told(MemoryGraph(), first)
        twin, before = graph.copy(), content(graph)
        assert content(twin) == before
        told(twin, then)
        twin.summarise({"ada": "A summary."})
        twin.del_vertices("Bo")
        assert content(graph) == before
        straight = told(told(MemoryGraph(), first), then)
        straight.summarise({"ada": "A summary."})
        straight.del_vertices("Bo")
        assert content(twin) == content(straight)

    @given(STEPS)
    def test_ties_and_descriptions_are_those_of_all_vertices_and_edges(self, steps: Any) -> None:
        graph = told(MemoryGraph(), steps)
        every: list[Vertex | Edge] = [*graph.vertices(), *graph.edges()]
        for least in (0, 1, 2, 3):
            assert list(graph.described(least)) == [each for each in every if len(each.descriptions) >= least]
        assert graph.names() == {each.key: each.name for each in graph.vertices()}
        ends = [(edge.key[0], edge.key[2], edge.chunks, edge.props.get("weight")) for edge in graph.edges()]
        assert [tuple(tie) for tie in graph.ties()] == ends
