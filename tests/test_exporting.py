"""Exports are read back by the tools they are for, whatever the text; they are whole, and the same every time."""

import csv
import datetime
import enum
import io
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import igraph
import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_transformers.communities import CommunityDetector
from rag_transformers.errors import UsageError
from rag_transformers.exports import export_graph, formats
from rag_transformers.exports.escapes import escape, guard, json_text, unescape, unguard
from rag_transformers.graph import Direction, Edge, Extraction, Graph, Vertex, name_key
from rag_transformers.stores import MemoryGraph

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.jsonl"
ONE_FILE = ("graphml", "json", "cypher")
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "=cmd|' /C calc'!A0",
    "+1; =1+1",
    "'=already quoted",
    "＝全角",
    "a]]>b & <![CDATA[c]]>",
    "nul\x00 vt\x0b ffff\uffff",
    "half \ud83d emoji",
    "other half \udc00",
    "abc\u202edcba\u200f",
    "\\u0001 is written here, and \\\\u0027 too",
    'it\'s "quoted" `twice`',
    "'}) DETACH DELETE v //",
    "`}) DETACH DELETE v //",
    "\\",
    "line one\nline two\r\nline three\rend",
    "\ttab first",
    "刘备、關羽 and 삼성 😀 水厂",
    "名" * 10_000,
]


class Listed:
    """A graph that keeps what it is given as it is, where MemoryGraph would fold spaces and cut names."""

    def __init__(self, vertices: Sequence[Vertex] = (), edges: Sequence[Edge] = ()) -> None:
        self._vertices, self._edges = list(vertices), list(edges)

    def upsert_vertex(self, vertex: Vertex) -> None:
        self._vertices.append(vertex)

    def upsert_edge(self, edge: Edge) -> None:
        self._edges.append(edge)

    def get_vertex(self, name: str) -> Vertex | None:
        return next((vertex for vertex in self._vertices if vertex.key == name_key(name)), None)

    def vertices(self) -> Iterator[Vertex]:
        return iter(list(self._vertices))

    def edges(self) -> Iterator[Edge]:
        return iter(list(self._edges))

    def get_neighbor_edges(
        self, name: str, direction: Direction = Direction.OUT, limit: int | None = None
    ) -> Iterator[Edge]:
        return iter([edge for edge in self._edges if name_key(edge.source) == name_key(name)][:limit])


def hostile_graph(texts: Sequence[str] = HOSTILE) -> Listed:
    """Every text as a name, a relation, a description, a chunk and a value, with two edges between each two ends."""
    distinct = list({name_key(text): text for text in texts if text.strip()}.values())
    vertices = [Vertex(text, descriptions=[text, "second"], chunks=[text], **{"note": text}) for text in distinct]
    edges = [
        Edge(one, other, relation, description=relation, chunks=[relation])
        for one, other in itertools.pairwise(distinct)
        for relation in dict.fromkeys((one, "second relation"))
    ]
    return Listed(vertices, edges)


def small_graph() -> MemoryGraph:
    graph = MemoryGraph()
    said = Extraction(
        [("Ada Moss", "Founder of the bank."), ("Pier 6", ""), ("刘备", "字玄德")],
        [
            ("Ada Moss", "owns", "Pier 6", "Since 1998."),
            ("Ada Moss", "sold", "Pier 6", ""),
            ("Pier 6", "hosts", "刘备", ""),
        ],
        types=["person", "place", "person"],
    )
    graph.add(said, "c1")
    graph.add(Extraction([("Ada Moss", "Lives in 杭州.")], []), "c2")
    return graph


def text_of(graph: Graph, format: str, **given: Any) -> str:
    out = io.StringIO()
    export_graph(graph, format, out, **given)
    return out.getvalue()


def read_networkx(graph: Graph, tmp_path: Path) -> Any:
    path = tmp_path / "graph.graphml"
    export_graph(graph, "graphml", path)
    return nx.read_graphml(path, force_multigraph=True)


def read_igraph(graph: Graph, tmp_path: Path) -> igraph.Graph:
    path = tmp_path / "graph.graphml"
    export_graph(graph, "graphml", path)
    return igraph.Graph.Read_GraphML(str(path))


def read_tables(graph: Graph, folder: Path, format: str = "csv", **given: Any) -> tuple[list[Any], list[Any]]:
    export_graph(graph, format, folder, **given)
    tables = []
    for name in ("vertices.csv", "edges.csv"):
        with open(folder / name, encoding="utf-8-sig", newline="") as file:
            tables.append(list(csv.DictReader(file)))
    return tables[0], tables[1]


def read_cypher(script: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of the statements, read as Neo4j does: escapes of characters anywhere first, then the strings' own."""
    rows: dict[str, list[dict[str, Any]]] = {"MERGE": [], "MATCH": []}
    decoded = re.sub(r"\\(u([0-9a-fA-F]{4})|.)", lambda m: chr(int(m[2], 16)) if m[2] else m[0], script, flags=re.S)
    assert decoded.startswith("CREATE CONSTRAINT ")
    place = decoded.index("\n") + 1
    while place < len(decoded):
        assert decoded.startswith("UNWIND ", place)
        value, place = read_value(decoded, place + len("UNWIND "))
        rest = re.compile(r" AS row\n(MERGE|MATCH) [^;']*;\n").match(decoded, place)
        assert rest, decoded[place : place + 80]
        rows[rest[1]] += value
        place = rest.end()
    return rows["MERGE"], rows["MATCH"]


def read_value(text: str, at: int) -> tuple[Any, int]:
    """One literal of Cypher and where it ends."""
    while text[at] in " \n":
        at += 1
    if text[at] == "'":
        found = re.compile(r"'((?:[^\\']|\\[\\'nrt])*)'").match(text, at)
        assert found
        plain = {"n": "\n", "r": "\r", "t": "\t"}
        return re.sub(r"\\(.)", lambda m: plain.get(m[1], m[1]), found[1]), found.end()
    if text[at] in "[{":
        return read_several(text, at)
    word = re.compile(r"true|false|-?[0-9][-0-9.e]*").match(text, at)
    assert word, text[at : at + 40]
    return json.loads(word[0]), word.end()


def read_several(text: str, at: int) -> tuple[Any, int]:
    close, is_map = ("]", False) if text[at] == "[" else ("}", True)
    items: list[Any] = []
    at += 1
    while True:
        while text[at] in " \n,":
            at += 1
        if text[at] == close:
            return (dict(items) if is_map else items), at + 1
        name = ""
        if is_map:
            found = re.compile(r"(?:`((?:[^`]|``)*)`|(\w+)): ").match(text, at)
            assert found, text[at : at + 40]
            name, at = (found[2] or found[1].replace("``", "`")), found.end()
        value, at = read_value(text, at)
        items.append((name, value) if is_map else value)


# GraphML.


def test_networkx_reads_graphml_back(tmp_path: Path) -> None:
    found = read_networkx(small_graph(), tmp_path)
    assert found.is_directed()
    assert sorted(found) == ["Ada Moss", "Pier 6", "刘备"]
    assert sorted(found.edges) == [("Ada Moss", "Pier 6", 0), ("Ada Moss", "Pier 6", 1), ("Pier 6", "刘备", 2)]
    ada = found.nodes["Ada Moss"]
    assert ada["label"] == ada["name"] == "Ada Moss"
    assert ada["type"] == "person"
    assert ada["description"] == "Founder of the bank.\nLives in 杭州."
    assert json.loads(ada["descriptions"]) == ["Founder of the bank.", "Lives in 杭州."]
    assert json.loads(ada["chunks"]) == ["c1", "c2"]
    owns = found.edges["Ada Moss", "Pier 6", 0]
    assert (owns["label"], owns["weight"], owns["description"]) == ("owns", 1.0, "Since 1998.")


def test_igraph_reads_graphml_back(tmp_path: Path) -> None:
    found = read_igraph(small_graph(), tmp_path)
    assert found.is_directed()
    assert found.vs["name"] == ["Ada Moss", "Pier 6", "刘备"]
    ends = [(found.vs[e.source]["name"], e["name"], found.vs[e.target]["name"]) for e in found.es]
    assert ends == [("Ada Moss", "owns", "Pier 6"), ("Ada Moss", "sold", "Pier 6"), ("Pier 6", "hosts", "刘备")]
    assert found.es["weight"] == [1.0, 1.0, 1.0]


def test_both_read_hostile_text_back(tmp_path: Path) -> None:
    graph = hostile_graph()
    names = [vertex.name for vertex in graph.vertices()]
    found = read_networkx(graph, tmp_path)
    assert sorted(map(unescape, found)) == sorted(names)
    assert sorted(unescape(data["note"]) for _, data in found.nodes(data=True)) == sorted(names)
    triples = Counter((unescape(s), unescape(d["name"]), unescape(t)) for s, t, d in found.edges(data=True))
    assert triples == Counter((edge.source, edge.name, edge.target) for edge in graph.edges())
    chunks = {unescape(name): json.loads(data["chunks"]) for name, data in found.nodes(data=True)}
    assert chunks == {name: [name] for name in names}
    twin = read_igraph(graph, tmp_path)
    assert sorted(map(unescape, twin.vs["name"])) == sorted(names)
    assert Counter((unescape(twin.vs[e.source]["name"]), unescape(e["label"])) for e in twin.es) == Counter(
        (edge.source, edge.name) for edge in graph.edges()
    )


def test_xml_illegal_characters_are_replaced_and_told_apart() -> None:
    graph = Listed([Vertex("ore\x01pit"), Vertex("ore\\u0001pit"), Vertex("ore\x02pit")])
    script = text_of(graph, "graphml")
    assert re.findall('node id="(.*?)"', script) == ["ore\\u0001pit", "ore\\u0002pit", "ore\\u005cu0001pit"]


def test_each_attribute_has_one_type(tmp_path: Path) -> None:
    graph = Listed(
        [
            Vertex("a", born=1950, height=2, alive=True, code="x", huge=2**70, mixed=True),
            Vertex("b", born=-3, height=1.5, alive=False, code=7, huge=1, mixed=1),
        ]
    )
    kinds = dict(re.findall('attr.name="(.*?)" attr.type="(.*?)"', text_of(graph, "graphml")))
    expected = {"born": "long", "height": "double", "alive": "boolean", "code": "string", "huge": "string"}
    assert {name: kinds[name] for name in expected} == expected
    assert (kinds["mixed"], kinds["weight"]) == ("string", "double")
    found = read_networkx(graph, tmp_path)
    assert found.nodes["a"]["born"] == 1950
    assert found.nodes["a"]["alive"] is True
    assert found.nodes["b"]["code"] == "7"
    twin = read_igraph(graph, tmp_path)
    assert twin.vs["born"] == [1950, -3]
    assert twin.vs["alive"] == [True, False]


def test_graph_without_anything_is_read_back(tmp_path: Path) -> None:
    assert len(read_networkx(MemoryGraph(), tmp_path)) == 0
    assert read_igraph(MemoryGraph(), tmp_path).vcount() == 0
    data = json.loads(text_of(MemoryGraph(), "json"))
    assert data == {
        "format": "rag-transformers-graph",
        "version": 1,
        **{name: [] for name in ("vertices", "edges", "communities", "reports")},
    }
    assert read_tables(MemoryGraph(), tmp_path / "tables") == ([], [])
    assert read_cypher(text_of(MemoryGraph(), "cypher")) == ([], [])


def test_case_graph_03(tmp_path: Path) -> None:
    if not CASES.exists():
        pytest.skip("the shared cases are not here")
    case = next(c for c in map(json.loads, CASES.read_text("utf-8").splitlines()) if c["id"] == "graph-03")
    graph = MemoryGraph()
    for upsert in case["input"]["upserts"]:
        if "entity" in upsert:
            graph.upsert_vertex(Vertex(upsert["entity"][0], description=upsert["entity"][1]))
        else:
            source, relation, target, said = upsert["relationship"]
            graph.upsert_edge(Edge(source, target, relation, description=said))
    found, expected = read_networkx(graph, tmp_path), case["expected"]
    assert len(found) == expected["reload_node_count"] == read_igraph(graph, tmp_path).vcount()
    assert expected["reload_has_node"] in found
    assert found.number_of_edges() == expected["reload_relationship_count"]


# JSON.


def test_json_gives_all_text_back_exactly() -> None:
    graph = hostile_graph()
    data = json.loads(text_of(graph, "json"))
    by_name = {row["name"]: row for row in data["vertices"]}
    for vertex in graph.vertices():
        row = by_name[vertex.name]
        assert row["description"] == vertex.summary
        assert row["descriptions"] == list(vertex.descriptions)
        assert row["note"] == vertex.props["note"]
    found = Counter((row["source"], row["name"], row["target"], row["description"]) for row in data["edges"])
    assert found == Counter((edge.source, edge.name, edge.target, edge.summary) for edge in graph.edges())


def test_json_holds_communities_and_reports() -> None:
    graph = small_graph()
    communities = [community.to_dict() for community in CommunityDetector().invoke(graph)]
    report = {"community": communities[0]["id"], "title": "桥 <b>", "rating": 7.5, "findings": ({"summary": "s"},)}
    data = json.loads(text_of(graph, "json", communities=communities, reports=[report]))
    assert data["communities"] == json.loads(json.dumps(communities))
    assert data["reports"] == [{**report, "findings": [{"summary": "s"}]}]


def test_merged_description_stands_for_all() -> None:
    graph = small_graph()
    graph.summarise({"ada moss": "A founder in 杭州."})
    row = json.loads(text_of(graph, "json"))["vertices"][0]
    assert row["description"] == "A founder in 杭州."
    assert row["descriptions"] == ["Founder of the bank.", "Lives in 杭州."]
    assert "summary" not in row


# CSV.


def test_csv_makes_two_tables_that_excel_and_pandas_read(tmp_path: Path) -> None:
    vertices, edges = read_tables(small_graph(), tmp_path / "new" / "folder")
    assert [row["name"] for row in vertices] == ["Ada Moss", "Pier 6", "刘备"]
    assert edges[0] == {
        "source": "Ada Moss",
        "target": "Pier 6",
        "name": "owns",
        "weight": "1.0",
        "description": "Since 1998.",
        "descriptions": "",
        "chunks": '["c1"]',
    }
    for name in ("vertices.csv", "edges.csv"):
        assert (tmp_path / "new" / "folder" / name).read_bytes().startswith(b"\xef\xbb\xbf")


def test_stream_gets_the_table_of_edges_alone() -> None:
    lines = text_of(small_graph(), "csv").splitlines()
    assert lines[0] == "source,target,name,weight,description,descriptions,chunks"
    assert len(lines) == 4


def test_csv_gives_all_text_back(tmp_path: Path) -> None:
    graph = hostile_graph()
    vertices, edges = read_tables(graph, tmp_path)
    by_name = {unescape(unguard(row["name"])): row for row in vertices}
    for vertex in graph.vertices():
        row = by_name[vertex.name]
        assert unescape(unguard(row["note"])) == vertex.name
        assert json.loads(unguard(row["chunks"])) == [vertex.name]
        assert json.loads(unguard(row["descriptions"])) == [vertex.name, "second"]
    found = Counter(tuple(unescape(unguard(row[name])) for name in ("source", "name", "target")) for row in edges)
    assert found == Counter((edge.source, edge.name, edge.target) for edge in graph.edges())


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_is_a_formula_whatever_separates_cells(tmp_path: Path, separator: str) -> None:
    """Where the decimal sign is a comma, a spreadsheet splits at semicolons and takes our quotes for text."""
    export_graph(hostile_graph(), "csv", tmp_path)
    for name in ("vertices.csv", "edges.csv"):
        with open(tmp_path / name, encoding="utf-8-sig", newline="") as file:
            cells = [cell for row in csv.reader(file, delimiter=separator) for cell in row]
        assert len(cells) > len(HOSTILE)
        assert not [cell for cell in cells if cell.strip(' "').startswith(("=", "+", "-", "@", "＝", "\t", "\r"))]


def test_formula_in_the_name_of_a_prop_is_guarded(tmp_path: Path) -> None:
    vertices, _ = read_tables(Listed([Vertex("a", **{"=1+1": "x"})]), tmp_path)
    assert vertices[0]["'=1+1"] == "x"


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    vertices, edges = read_tables(Listed([Vertex("a", depth=-3)], [Edge("a", "b", "r", weight=2)]), tmp_path)
    assert vertices[0]["depth"] == "-3"
    assert edges[0]["weight"] == "2.0"


def test_neo4j_tables_have_its_headers(tmp_path: Path) -> None:
    graph = small_graph()
    graph.upsert_vertex(Vertex("Pier 6", built=1890, chunks=["c;9"], **{"a:ID": "x"}))
    vertices, edges = read_tables(graph, tmp_path, "csv-neo4j")
    assert list(vertices[0]) == [
        *("name:ID", "type", "description", "descriptions", "chunks:string[]"),
        *("a\\u003aID", "built:long", ":LABEL"),
    ]
    assert list(edges[0])[:4] == [":START_ID", ":END_ID", "name", "weight:double"]
    assert vertices[1]["chunks:string[]"] == "c1;c\\u003b9"
    assert {row[":LABEL"] for row in vertices} == {"Vertex"}
    assert {row[":TYPE"] for row in edges} == {"EDGE"}
    assert not (tmp_path / "edges.csv").read_bytes().startswith(b"\xef\xbb\xbf")


def test_neo4j_tables_give_all_text_back_without_guards(tmp_path: Path) -> None:
    graph = hostile_graph()
    vertices, edges = read_tables(graph, tmp_path, "csv-neo4j")
    assert sorted(unescape(row["name:ID"]) for row in vertices) == sorted(v.name for v in graph.vertices())
    found = Counter(tuple(unescape(row[name]) for name in (":START_ID", "name", ":END_ID")) for row in edges)
    assert found == Counter((edge.source, edge.name, edge.target) for edge in graph.edges())


# Cypher.


def test_cypher_creates_vertices_and_edges() -> None:
    script = text_of(small_graph(), "cypher")
    assert "\nMERGE (v:Vertex {name: row.name}) SET v += row;\n" in script
    assert "MERGE (a)-[e:EDGE {name: row.name}]->(b) SET e += row.props;\n" in script
    vertices, edges = read_cypher(script)
    assert vertices[2] == {"name": "刘备", "type": "person", "description": "字玄德", "chunks": ["c1"]}
    assert edges[0] == {
        "source": "Ada Moss",
        "target": "Pier 6",
        "name": "owns",
        "props": {"name": "owns", "weight": 1.0, "description": "Since 1998.", "chunks": ["c1"]},
    }


def test_hostile_text_stays_in_its_quotes() -> None:
    graph = hostile_graph()
    vertices, edges = read_cypher(text_of(graph, "cypher"))
    assert sorted(unescape(row["name"]) for row in vertices) == sorted(v.name for v in graph.vertices())
    assert sorted(unescape(row["note"]) for row in vertices) == sorted(v.name for v in graph.vertices())
    found = Counter((unescape(r["source"]), unescape(r["name"]), unescape(r["target"])) for r in edges)
    assert found == Counter((edge.source, edge.name, edge.target) for edge in graph.edges())


def test_every_row_of_cypher_is_one_line() -> None:
    script = text_of(hostile_graph(), "cypher")
    assert sum(line.startswith("{") for line in script.split("\n")) == sum(
        len(list(kind)) for kind in (hostile_graph().vertices(), hostile_graph().edges())
    )


def test_name_of_a_prop_cannot_leave_its_backticks() -> None:
    names = ["a`b", "a\\u0060b", "`}) DETACH DELETE v //", "旧名", "a: 1, b"]
    script = text_of(Listed([Vertex("a", **dict.fromkeys(names, "x"))]), "cypher")
    vertices, _ = read_cypher(script)
    assert sorted(map(unescape, vertices[0])) == sorted(["name", *names])


def test_cypher_comes_in_batches() -> None:
    graph = Listed([Vertex(f"v{number}") for number in range(1201)])
    script = text_of(graph, "cypher")
    assert script.count("UNWIND") == 3
    assert len(read_cypher(script)[0]) == 1201


# What holds for all.

ANY_TEXT = st.text(st.characters(exclude_categories=()), min_size=1, max_size=20) | st.text(
    "'\"`\\u0061{}[]<>&;:,=+-@\n\r\t ＝\x00\ud800刘", min_size=1, max_size=12
)


@given(ANY_TEXT)
def test_escaping_is_undone_and_leaves_nothing_illegal(text: str) -> None:
    assert unescape(escape(text)) == text
    assert unguard(guard(text)) == text
    escape(text).encode("utf-8")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", escape(text))
    if not re.search("[\ud800-\udbff][\udc00-\udfff]", text):  # JSON takes two halves for the whole
        assert json.loads(json_text([text])) == [text]


@given(st.lists(ANY_TEXT, min_size=1, max_size=4))
def test_any_text_comes_back_from_every_format(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    graph = hostile_graph(texts)
    expected = sorted(vertex.name for vertex in graph.vertices())
    folder = tmp_path_factory.mktemp("export")
    assert sorted(map(unescape, read_networkx(graph, folder))) == expected
    assert sorted(map(unescape, read_igraph(graph, folder).vs["note"] if expected else [])) == expected
    assert sorted(unescape(unguard(row["note"])) for row in read_tables(graph, folder)[0]) == expected
    assert sorted(unescape(row["note"]) for row in read_tables(graph, folder, "csv-neo4j")[0]) == expected
    assert sorted(unescape(row["note"]) for row in read_cypher(text_of(graph, "cypher"))[0]) == expected
    halves = re.compile("[\ud800-\udbff][\udc00-\udfff]")
    if not any(map(halves.search, expected)):
        assert sorted(row["note"] for row in json.loads(text_of(graph, "json"))["vertices"]) == expected


@pytest.mark.parametrize("format", formats())
def test_order_of_insertion_does_not_show(tmp_path: Path, format: str) -> None:
    said = small_graph()
    vertices, edges = list(said.vertices()), list(said.edges())
    written = []
    for seed in range(3):
        random.Random(seed).shuffle(vertices)
        random.Random(seed).shuffle(edges)
        target = tmp_path / str(seed)
        export_graph(Listed(vertices, edges), format, target)
        files = sorted(target.iterdir()) if target.is_dir() else [target]
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1] == written[2]


def test_hash_seed_does_not_show(tmp_path: Path) -> None:
    program = """
import sys
from rag_transformers.exports import export_graph, formats
from rag_transformers.graph import Edge, Vertex
from rag_transformers.stores import MemoryGraph
graph = MemoryGraph()
graph.upsert_vertex(Vertex("a", tags={"x", "y", "z", "刘"}, zeta=1, alpha=2, beta=3))
graph.upsert_edge(Edge("a", "b", "knows", since={"year": 1998, "month": 5}))
for name in formats():
    export_graph(graph, name, sys.stdout)
"""
    printed = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"}
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
        printed.add(run.stdout)
    assert len(printed) == 1


def test_edges_name_their_ends_as_the_vertices_are_named() -> None:
    graph = Listed([Vertex("Ada Moss")], [Edge("ADA MOSS", "Pier 6", "owns")])
    data = json.loads(text_of(graph, "json"))
    assert [row["name"] for row in data["vertices"]] == ["Ada Moss", "Pier 6"]
    assert data["edges"][0]["source"] == "Ada Moss"


class Rank(enum.Enum):
    HIGH = "high"


def test_values_of_any_plain_kind_are_written(tmp_path: Path) -> None:
    props: dict[str, Any] = {
        "day": datetime.date(1998, 5, 1),
        "tags": frozenset({"b", "a"}),
        "place": {"z": 1, "a": (1, 2)},
        "rank": Rank.HIGH,
        "score": np.float32(0.5),
        "vector": np.arange(2),
        "endless": float("inf"),
        "nothing": None,
        "empty": [],
    }
    graph = Listed([Vertex("a", **props)])
    row = json.loads(text_of(graph, "json"))["vertices"][0]
    expected = {"day": "1998-05-01", "tags": ["a", "b"], "place": {"a": [1, 2], "z": 1}, "rank": "high"}
    assert row == {"name": "a", **expected, "score": 0.5, "vector": [0, 1], "endless": "inf"}
    node = read_networkx(graph, tmp_path).nodes["a"]
    assert json.loads(node["place"]) == expected["place"]
    assert read_cypher(text_of(graph, "cypher"))[0][0]["tags"] == ["a", "b"]


def test_prop_that_cannot_be_written_is_named() -> None:
    with pytest.raises(UsageError, match=r"prop 'thing' of Vertex\('a'\).*object is no text"):
        text_of(Listed([Vertex("a", thing=object())]), "json")
    with pytest.raises(UsageError, match=r"weight of Edge.*nan"):
        text_of(Listed([], [Edge("a", "b", "r", weight=float("nan"))]), "json")


@pytest.mark.parametrize("format", formats())
def test_props_named_as_what_a_format_needs_are_kept_apart(tmp_path: Path, format: str) -> None:
    names = ["id", "label", "label_", "", "_", "key", "source", "target", "community"]
    graph = Listed([Vertex("a", **{name: f"of {name}" for name in names})], [Edge("a", "b", "r", id="e", label="l")])
    groups = [{"id": "0-1", "level": 0, "vertices": ["a", "b"]}]
    target = tmp_path / "out"
    files = export_graph(graph, format, target, communities=groups).files
    text = files[0].read_text("utf-8")
    assert all(text.count(f"of {name}") >= 1 for name in names)
    if format == "json":
        row = json.loads(text)["vertices"][0]
        assert (row["label_"], row["label__"], row["_"], row["__"]) == ("of label", "of label_", "of ", "of _")
        assert (row["community"], row["community_"]) == ("0-1", "of community")
    if format == "graphml":
        assert nx.read_graphml(target).nodes["a"]["id_"] == "of id"
        assert igraph.Graph.Read_GraphML(str(target)).vs["id"] == ["a", "b"]


def test_vertices_carry_their_community_for_colouring(tmp_path: Path) -> None:
    graph = small_graph()
    communities = [community.to_dict() for community in CommunityDetector().invoke(graph)]
    export_graph(graph, "graphml", tmp_path / "g", communities=communities)
    found = nx.read_graphml(tmp_path / "g")
    top = {name: each["id"] for each in communities if each["level"] == 0 for name in each["vertices"]}
    assert nx.get_node_attributes(found, "community") == top


def test_count_and_files_are_returned(tmp_path: Path) -> None:
    assert export_graph(small_graph(), "json", tmp_path / "g") == (3, 3, (tmp_path / "g",))
    assert export_graph(small_graph(), "csv", str(tmp_path)).files == (
        tmp_path / "vertices.csv",
        tmp_path / "edges.csv",
    )
    assert export_graph(small_graph(), "csv", io.StringIO()).files == ()


# Files.


class Broken(Listed):
    """A graph with a prop that only the writer meets, after it has begun."""

    def edges(self) -> Iterator[Edge]:
        yield Edge("a", "b", "r", weight=float("inf"))


@pytest.mark.parametrize("format", formats())
def test_failure_leaves_what_was_there(tmp_path: Path, format: str) -> None:
    target = tmp_path / "out"
    export_graph(small_graph(), format, target)
    files = sorted(target.iterdir()) if target.is_dir() else [target]
    before = [file.read_bytes() for file in files]
    with pytest.raises(UsageError):
        export_graph(Broken([Vertex("a")]), format, target)
    assert [file.read_bytes() for file in files] == before
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == files
    with pytest.raises(UsageError):
        export_graph(Broken([Vertex("a")]), format, tmp_path / "fresh")
    assert not (tmp_path / "fresh").exists()


@pytest.mark.parametrize("format", ONE_FILE)
def test_folder_is_refused_where_a_file_is_wanted(tmp_path: Path, format: str) -> None:
    with pytest.raises(UsageError, match="is a folder; give a file"):
        export_graph(small_graph(), format, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_file_is_refused_where_a_folder_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    for name in ("taken", "graph.csv"):
        with pytest.raises(UsageError, match=r"vertices.csv and edges.csv: give a folder"):
            export_graph(small_graph(), "csv", tmp_path / name)
    assert (tmp_path / "taken").read_text("utf-8") == "mine"


@pytest.mark.parametrize("format", formats())
@pytest.mark.parametrize("name", ["", "nul\x00", "taken/below/graph"])
def test_path_that_cannot_be_written_is_one_line(tmp_path: Path, format: str, name: str) -> None:
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        export_graph(small_graph(), format, f"{tmp_path}/{name}" if name else "")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_write_protected_place_is_one_line(tmp_path: Path) -> None:
    target = tmp_path / "graph.json"
    target.write_text("mine", encoding="utf-8")
    target.chmod(0o444)
    with pytest.raises(UsageError, match="cannot be written: it is write-protected"):
        export_graph(small_graph(), "json", target)
    tmp_path.chmod(0o555)
    with pytest.raises(UsageError, match="cannot be written: Permission denied"):
        export_graph(small_graph(), "json", tmp_path / "other.json")
    tmp_path.chmod(0o755)


def test_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"graph.json cannot be written: No space left on device"):
        export_graph(small_graph(), "json", tmp_path / "graph.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no device files here")
def test_link_and_device_stay_what_they_are(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old", encoding="utf-8")
    real.chmod(0o640)
    link.symlink_to(real)
    export_graph(small_graph(), "json", link)
    assert link.is_symlink()
    assert json.loads(real.read_text("utf-8"))["format"] == "rag-transformers-graph"
    assert real.stat().st_mode & 0o777 == 0o640
    export_graph(small_graph(), "json", "/dev/null")
    assert not os.path.isfile("/dev/null")


def test_files_are_utf8_whatever_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "gbk")
    monkeypatch.setattr("locale.getencoding", lambda: "gbk")
    graph = MemoryGraph()
    graph.upsert_edge(Edge("삼성 😀", "水厂", "知道"))
    for format in formats():
        files = export_graph(graph, format, tmp_path / format).files
        assert "삼성 😀" in "".join(file.read_text("utf-8") for file in files)


def test_stream_that_cannot_hold_the_text_is_named() -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="gbk")
    with pytest.raises(UsageError, match="the stream is in gbk"):
        export_graph(Listed([Vertex("😀")]), "json", narrow)


@pytest.mark.parametrize("target", [io.BytesIO(), None, 3])
def test_target_of_another_kind_is_refused(target: Any) -> None:
    with pytest.raises(UsageError, match="give a path, or a stream that takes text"):
        export_graph(small_graph(), "json", target)


def test_other_arguments_that_are_wrong_are_named() -> None:
    with pytest.raises(UsageError, match="format is 'gexf'; it must be one of graphml, json, csv, cypher, csv-neo4j"):
        text_of(small_graph(), "gexf")
    with pytest.raises(UsageError, match="graph is a dict"):
        text_of({}, "json")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="communities holds a str; give dicts"):
        text_of(small_graph(), "json", communities=["0-1"])
