"""A page holds all that it shows and fetches nothing; text of documents stays text; the same graph is the same file."""

import hashlib
import html.parser
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium, find_chromium
from langchain_core.documents import Document

from rag_transformers import GraphIndex
from rag_transformers.cli import main
from rag_transformers.communities import Community, CommunityDetector
from rag_transformers.errors import UsageError
from rag_transformers.graph import Edge, Vertex
from rag_transformers.reports import Report
from rag_transformers.reports.form import ReportFinding
from rag_transformers.stores import MemoryGraph
from rag_transformers.view import view_html, write_view
from rag_transformers.view.colours import colour
from rag_transformers.view.layout import SIDE, places
from rag_transformers.view.page import script_json

ROOT = Path(__file__).resolve().parents[1]
IMAGE, SCRIPT = "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>"
HOSTILE = [
    IMAGE,
    SCRIPT,
    "<!--<script>",
    "a\u2028b\u2029c",
    "&lt;b&gt; & \"q\" 'q'",
    "half \ud83d",
    "@data@",
    "\\u003c/script>",
]


def heroes() -> MemoryGraph:
    """Two groups that one edge joins, and a vertex alone."""
    graph = MemoryGraph()
    told = [
        ("刘备", "结义", "关羽"), ("关羽", "结义", "张飞"), ("张飞", "结义", "刘备"), ("诸葛亮", "辅佐", "刘备"),
        ("Ada Moss", "founded", "Grain Trust"), ("Bo Lindqvist", "audits", "Grain Trust"),
        ("Bo Lindqvist", "knows", "Ada Moss"), ("曹操", "攻打", "刘备"), ("曹操", "的儿子是", "曹丕"),
    ]  # fmt: skip
    for number, (source, relation, target) in enumerate(told):
        said = f"{source}{relation}{target}。"
        graph.upsert_edge(Edge(source, target, relation, description=said, chunks=[f"c{number}"]))
    graph.upsert_vertex(Vertex("Zoë's Café", description="A place in Lisbon."))
    return graph


def hostile() -> tuple[MemoryGraph, tuple[Community, ...], list[Report], dict[str, str]]:
    """A graph whose every text tries to be something else."""
    graph = MemoryGraph()
    for number, name in enumerate(HOSTILE):
        graph.upsert_vertex(Vertex(name, description=f"{IMAGE}{name}", type=SCRIPT, chunks=[f"c{number}"]))
        graph.upsert_edge(Edge(name, "hub", f"{SCRIPT}{number}", description=IMAGE, chunks=[f"c{number}"]))
    communities = CommunityDetector().detect(graph)
    finding = ReportFinding(f"{IMAGE} point", f"{SCRIPT} why")
    reports = [Report(each.id, each.level, f"{SCRIPT}{each.id}", IMAGE, (finding,)) for each in communities]
    return graph, communities, reports, {f"c{number}": f"{name}.txt" for number, name in enumerate(HOSTILE)}


class Elements(html.parser.HTMLParser):
    """The elements of a page and what stands in each script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.scripts[-1] += data


def data_of(page: str) -> dict[str, Any]:
    """The data that a page carries."""
    data: dict[str, Any] = json.loads(Elements(page).scripts[0])
    return data


class TestPage:
    """What stands in the file."""

    def test_vertices_edges_communities_reports_and_sources_are_there(self) -> None:
        graph = heroes()
        communities = CommunityDetector().detect(graph)
        reports = [Report(communities[0].id, 0, "桃园", "三人结义。", (ReportFinding("结义", "在桃园。"),))]
        data = data_of(
            view_html(graph, communities=communities, reports=reports, sources={"c0": "一.txt", "c3": "二.txt"})
        )
        liu = next(vertex for vertex in data["vertices"] if vertex["name"] == "刘备")
        assert liu["degree"] == 4
        assert sorted(data["sources"][number] for number, _ in liu["sources"]) == ["一.txt", "二.txt"]
        first = data["communities"][liu["communities"][0]]
        assert (first["title"], first["summary"], first["findings"]) == ("桃园", "三人结义。", [["结义", "在桃园。"]])
        assert re.fullmatch("#[0-9a-f]{6}", first["colour"])
        names = [vertex["name"] for vertex in data["vertices"]]
        edges = {(names[source], relation, names[target]) for source, target, relation, *_ in data["edges"]}
        assert edges == {(edge.source, edge.name, edge.target) for edge in graph.edges()}
        assert data["all"] == {"vertices": len(graph), "edges": graph.edge_count}

    def test_community_of_one_has_no_colour(self) -> None:
        data = data_of(view_html(heroes()))
        [alone] = [vertex for vertex in data["vertices"] if not vertex["degree"]]
        assert ["colour" in data["communities"][number] for number in alone["communities"]] == [False]

    def test_communities_are_found_where_none_are_given(self) -> None:
        graph = heroes()
        assert view_html(graph) == view_html(graph, communities=CommunityDetector().detect(graph))
        assert data_of(view_html(graph, communities=()))["communities"] == []

    def test_most_connected_are_drawn_of_more(self, tmp_path: Path) -> None:
        graph = MemoryGraph()
        for number in range(30):
            for other in range(number):
                if number % (other + 1) == 0:
                    graph.upsert_edge(Edge(f"v{number}", f"v{other}", "divides"))
        done = write_view(graph, tmp_path / "page.html", most=7)
        data = data_of((tmp_path / "page.html").read_text(encoding="utf-8"))
        degrees = {vertex.name: len(list(graph.get_neighbor_edges(vertex.name, "both"))) for vertex in graph}  # type: ignore[arg-type]
        drawn = {vertex["name"] for vertex in data["vertices"]}
        assert len(drawn) == 7
        assert min(degrees[name] for name in drawn) >= max(degrees[name] for name in degrees.keys() - drawn)
        assert {vertex["name"]: vertex["degree"] for vertex in data["vertices"]} == {n: degrees[n] for n in drawn}
        assert done == (7, len(data["edges"]), len(graph), graph.edge_count)
        assert all(source < 7 and target < 7 for source, target, *_ in data["edges"])

    def test_same_graph_is_same_file_whatever_the_order_and_hash_seed(self) -> None:
        graph, turned = heroes(), MemoryGraph()
        for edge in reversed(list(graph.edges())):
            turned.upsert_edge(edge)
        turned.upsert_vertex(Vertex("Zoë's Café", description="A place in Lisbon."))
        assert data_of(view_html(turned))["vertices"] == data_of(view_html(graph))["vertices"]
        script = (
            "import hashlib, test_view; from rag_transformers.view import view_html;"
            "print(hashlib.sha256(view_html(test_view.heroes()).encode()).hexdigest())"
        )
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": paths}  # here it is a random one
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", env=env)
        assert done.stdout.strip() == hashlib.sha256(view_html(graph).encode()).hexdigest(), done.stderr

    def test_hostile_text_adds_no_element_and_comes_back_as_it_was(self) -> None:
        graph, communities, reports, sources = hostile()
        page = view_html(graph, communities=communities, reports=reports, sources=sources)
        plain = Elements(view_html(heroes()))
        found = Elements(page)
        assert [tag for tag, _ in found.tags] == [tag for tag, _ in plain.tags]
        data = json.loads(found.scripts[0])
        names = {vertex["name"] for vertex in data["vertices"]}
        assert {" ".join(name.split()) for name in HOSTILE} <= names
        assert {source for source in sources.values()} <= set(data["sources"])
        page.encode("utf-8")

    def test_nothing_in_script_json_ends_the_element(self) -> None:
        text = script_json(HOSTILE)
        assert not re.search("[<>&\u2028\u2029\ud800-\udfff]", text)
        assert json.loads(text) == HOSTILE

    def test_page_may_reach_nothing_and_runs_its_own_scripts_alone(self) -> None:
        found = Elements(view_html(heroes()))
        [policy] = [attrs["content"] for _, attrs in found.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
        rules = dict(rule.split(" ", 1) for rule in str(policy).split("; "))
        assert rules.pop("default-src") == "'none'"
        assert set(rules) == {"script-src", "style-src", "base-uri", "form-action"}
        assert "unsafe" not in str(policy)
        assert all(re.fullmatch(r"('none'|'sha256-[\w+/=]{44}'( |$))+", value) for value in rules.values())
        assert not [attrs for _, attrs in found.tags if {"src", "href", "srcset", "action", "style"} & attrs.keys()]
        assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on")]

    def test_page_carries_the_licences_of_what_draws_it(self) -> None:
        page = view_html(heroes())
        for holder in (
            "Alexis Jacomy, Guillaume Plique",
            "Copyright Joyent, Inc.",
            "Copyright (c) 2016-2021 Guillaume Plique",
        ):
            assert holder in page

    def test_page_without_its_data_is_small(self) -> None:
        assert len(view_html(MemoryGraph()).encode()) < 400_000

    def test_layout_is_inside_the_square_and_tells_apart_what_it_can(self) -> None:
        ties = {(number, number + 1): 1.0 for number in range(18)}
        spots = places(20, ties, [0] * 10 + [1] * 9 + [None])
        assert spots == places(20, dict(reversed(ties.items())), [0] * 10 + [1] * 9 + [None])
        assert len(set(spots)) == 20
        assert max(max(spot) for spot in spots) == SIDE
        assert min(min(spot) for spot in spots) == 0
        assert places(0, {}) == []
        assert places(1, {}) == [(0, 0)]

    def test_colours_of_neighbours_differ(self) -> None:
        assert len({colour(number) for number in range(33)}) == 33

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"most": 0}, "most is 0"),
            ({"most": True}, "most is True"),
            ({"communities": [{"id": "0-1"}]}, "communities holds a dict"),
            ({"reports": ["text"]}, "reports holds a str"),
        ],
    )
    def test_wrong_argument_is_named(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(UsageError, match=said):
            view_html(heroes(), **options)

    def test_what_is_no_graph_is_refused(self) -> None:
        with pytest.raises(UsageError, match="graph is a str"):
            view_html("graph")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An index of two documents."""
    folder = str(tmp_path_factory.mktemp("view") / "index")
    english = "Ada Moss founded Grain Trust. Bo Lindqvist left Grain Trust."
    chinese = "曹操的儿子曹丕建立了魏国。刘备在成都建立了蜀国。"
    with GraphIndex.open(folder) as made:
        made.add([Document(english, metadata={"source": "a.txt"}), Document(chinese, metadata={"source": "三国.txt"})])
    return folder


class TestFile:
    """``write_view`` and the command ``view``."""

    def test_command_writes_the_page_with_its_sources(
        self, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        target = tmp_path / "graph.html"
        assert main(["view", index, "-o", str(target)]) == 0
        data = data_of(target.read_text(encoding="utf-8"))
        assert f"{len(data['vertices'])} vertices, {len(data['edges'])} edges: {target}" in capsys.readouterr().out
        assert {"a.txt", "三国.txt"} == set(data["sources"])
        assert any(community.get("summary") for community in data["communities"])
        before = target.read_bytes()
        assert main(["view", index, "-o", str(target)]) == 0
        assert target.read_bytes() == before

    def test_command_says_that_not_all_is_drawn(
        self, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        defaults = write_view.__kwdefaults__
        assert defaults
        monkeypatch.setitem(defaults, "most", 2)
        assert main(["view", index, "-o", str(tmp_path / "graph.html")]) == 0
        assert re.search(
            r"the 2 most connected of \d+ vertices are drawn, with \d of \d+ edges", capsys.readouterr().err
        )

    @pytest.mark.parametrize("kind", ["no index", "a folder", "no such folder", "no graph"])
    def test_mistake_is_one_line(
        self, kind: str, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place, target = index, tmp_path / "graph.html"
        if kind == "no index":
            place = str(tmp_path / "nothing")
        elif kind == "a folder":
            target = tmp_path
        elif kind == "no such folder":
            target = tmp_path / "missing" / "graph.html"
        else:
            place = str(tmp_path / "empty")
            with GraphIndex.open(place) as made:
                made.add([Document("12345.", metadata={"source": "n.txt"})])
        capsys.readouterr()
        assert main(["view", place, "-o", str(target)]) == 2
        said = capsys.readouterr().err.strip()
        assert "\n" not in said
        assert said.startswith("error: ")
        assert not list(tmp_path.glob("*.html"))

    def test_failure_leaves_the_file_that_was_there(self, tmp_path: Path) -> None:
        target = tmp_path / "graph.html"
        target.write_text("before", encoding="utf-8")
        with pytest.raises(UsageError):
            write_view(heroes(), target, communities=[1])  # type: ignore[list-item]
        assert [path.name for path in tmp_path.iterdir()] == ["graph.html"]
        assert target.read_text(encoding="utf-8") == "before"


class TestNotebook:
    """What a graph shows of itself."""

    def test_small_graph_is_a_picture_with_every_name(self) -> None:
        shown = heroes()._repr_html_()
        assert shown.count("<circle") == len(heroes())
        assert shown.count("<line") == heroes().edge_count
        assert "曹操" in shown
        assert "<script" not in shown
        assert shown == heroes()._repr_html_()

    def test_large_graph_is_a_table_of_the_most_connected(self) -> None:
        graph = MemoryGraph()
        for number in range(200):
            graph.upsert_edge(Edge("hub", f"spoke {number}", "holds"))
        shown = graph._repr_html_()
        assert "201 vertices, 200 edges" in shown
        assert "<td>hub</td><td>200</td>" in shown
        assert "<svg" not in shown

    def test_empty_graph_says_so(self) -> None:
        assert "0 vertices, 0 edges" in MemoryGraph()._repr_html_()

    def test_hostile_text_stays_text(self) -> None:
        graph = hostile()[0]
        shown = graph._repr_html_()
        tags = {tag for tag, _ in Elements(shown).tags}
        assert tags <= {"div", "p", "svg", "g", "line", "circle", "text", "title"}
        assert "&lt;img src=x onerror=" in shown
        shown.encode("utf-8")


@pytest.fixture(scope="module")
def program() -> str:
    """A Chromium; without one these tests are skipped."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium: install one (apt-get install chromium), or name it in CHROMIUM")
    return found


@pytest.fixture(scope="module")
def started(program: str) -> Iterator[Chromium]:
    """A headless Chromium that finds no host."""
    with Chromium(program) as browser:
        yield browser


@pytest.fixture
def browser(started: Chromium) -> Iterator[Chromium]:
    """A browser; whatever it was shown, no dialog came up, nothing was asked for and no script failed."""
    started.events.clear()
    yield started
    assert started.params("Page.javascriptDialogOpening") == []
    asked = {params["request"]["url"].partition(":")[0] for params in started.params("Network.requestWillBeSent")}
    assert asked == {"file"}
    assert started.params("Runtime.exceptionThrown") == []
    said = [params["entry"] for params in started.params("Log.entryAdded") if params["entry"]["level"] == "error"]
    assert said == []


def opened(browser: Chromium, folder: Path, graph: MemoryGraph, **options: Any) -> None:
    """Show the page of a graph."""
    write_view(graph, folder / "graph.html", **options)
    browser.open((folder / "graph.html").as_uri())


def panel(browser: Chromium) -> str:
    """The text of the panel, as it is to be seen."""
    return str(browser.run("document.getElementById('panel').innerText"))


def search(browser: Chromium, text: str) -> list[str]:
    """The names that the search lists."""
    browser.run("document.getElementById('search').focus(), document.getElementById('search').value = '', 0")
    browser.write(text)
    found: list[str] = browser.run(
        "[...document.querySelectorAll('#found [role=option] .text')].map((e) => e.textContent)"
    )
    return found


def spot(browser: Chromium, name: str) -> tuple[float, float]:
    """Where in the window a vertex is drawn."""
    x, y = browser.run(
        f"""(() => {{ const {{ data, renderer }} = window.view;
        const box = document.getElementById('stage').getBoundingClientRect();
        const number = data.vertices.findIndex((vertex) => vertex.name === {json.dumps(name)});
        const at = renderer.framedGraphToViewport(renderer.getNodeDisplayData(number));
        return [box.x + at.x, box.y + at.y]; }})()"""
    )
    return x, y


def colours(browser: Chromium) -> dict[str, str]:
    """The colour in which each vertex is drawn."""
    drawn: dict[str, str] = browser.run(
        """(() => { const { data, renderer } = window.view;
        return Object.fromEntries(data.vertices.map((v, n) => [v.name, renderer.getNodeDisplayData(n).color])); })()"""
    )
    return drawn


class TestBrowser:
    """The page in a real Chromium."""

    def test_all_vertices_are_drawn_and_one_line_for_each_pair(self, browser: Chromium, tmp_path: Path) -> None:
        graph = heroes()
        graph.upsert_edge(Edge("关羽", "刘备", "追随"))
        opened(browser, tmp_path, graph)
        assert browser.run("[window.view.graph.order, window.view.graph.size]") == [len(graph), graph.edge_count - 1]
        assert browser.run("document.getElementById('failed').hidden"), "no WebGL in this Chromium"
        lit = browser.run(
            """(() => { const { renderer } = window.view; renderer.refresh();
            const canvas = renderer.getCanvases().nodes;
            const copy = document.createElement('canvas'); copy.width = canvas.width; copy.height = canvas.height;
            const context = copy.getContext('2d'); context.drawImage(canvas, 0, 0);
            const { data } = context.getImageData(0, 0, copy.width, copy.height);
            return data.filter((value, i) => i % 4 === 3 && value).length; })()"""
        )
        assert lit > 500

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("曹操", "曹操"), ("曹 操", "曹操"), ("grain-trust", "Grain Trust"), ("ＧＲＡＩＮ  trust", "Grain Trust"),
            ("moss", "Ada Moss"), ("zoe", "Zoë's Café"), ("moss ada", "Ada Moss"), ("《刘备》", "刘备"),
        ],
    )  # fmt: skip
    def test_search_finds_any_spelling(self, browser: Chromium, tmp_path: Path, text: str, name: str) -> None:
        opened(browser, tmp_path, heroes())
        assert search(browser, text)[:1] == [name]

    def test_search_is_reached_and_used_by_keyboard(self, browser: Chromium, tmp_path: Path) -> None:
        opened(browser, tmp_path, heroes())
        browser.press("/")
        assert browser.run("document.activeElement.id") == "search"
        browser.write("曹")
        assert browser.run("document.querySelectorAll('#found [role=option]').length") == 2
        browser.press("ArrowDown")
        browser.press("Enter")
        assert panel(browser).startswith(("Back\n曹丕", "曹丕"))
        browser.press("Escape")
        assert "10 vertices, 9 edges" in panel(browser)
        assert search(browser, "nobody of that name") == []
        assert "Nothing found" in browser.run("document.getElementById('found').innerText")

    def test_hover_names_and_click_tells_of_a_vertex(self, browser: Chromium, tmp_path: Path) -> None:
        graph = heroes()
        communities = CommunityDetector().detect(graph)
        reports = [Report(each.id, each.level, f"报告 {each.vertices[0]}", "概述。") for each in communities]
        opened(browser, tmp_path, graph, communities=communities, reports=reports, sources={"c7": "三国.txt"})
        x, y = spot(browser, "曹操")
        browser.move(x, y)
        assert browser.run("document.getElementById('stage').className") == "over"
        browser.click(x, y)
        told = panel(browser)
        assert "→ 攻打 刘备" in told
        assert "曹操攻打刘备。" in told
        assert "三国.txt" in told
        assert "1 chunk" in told
        assert "报告" in told
        browser.run("[...document.querySelectorAll('#panel .link')].find((b) => b.textContent === '刘备').click(), 0")
        assert "← 攻打 曹操" in panel(browser)
        browser.run("document.querySelector('#panel .back').click(), 0")
        assert "→ 攻打 刘备" in panel(browser)

    def test_chosen_vertex_and_its_neighbours_stand_out(self, browser: Chromium, tmp_path: Path) -> None:
        opened(browser, tmp_path, heroes())
        before = colours(browser)
        browser.run("window.view.choose('曹操'), 0")
        browser.settle()
        after = colours(browser)
        assert {name for name in before if before[name] == after[name]} == {"曹操", "曹丕", "刘备"}

    def test_level_switch_recolours(self, browser: Chromium, tmp_path: Path) -> None:
        graph = MemoryGraph()
        for side in ("东", "西"):
            for group in range(3):
                for a in range(5):
                    for b in range(a):
                        graph.upsert_edge(Edge(f"{side}{group}-{a}", f"{side}{group}-{b}", "near"))
                graph.upsert_edge(Edge(f"{side}{group}-0", f"{side}{(group + 1) % 3}-0", "near"))
        graph.upsert_edge(Edge("东0-0", "西0-0", "far"))
        halves = [[v.name for v in graph if v.name.startswith(side)] for side in ("东", "西")]
        communities = [
            Community(f"0-{n}", 0, None, tuple(f"1-{n}{g}" for g in range(3)), tuple(sorted(half)))
            for n, half in enumerate(halves)
        ]
        communities += [
            Community(f"1-{n}{g}", 1, f"0-{n}", (), tuple(sorted(name for name in half if name[1] == str(g))))
            for n, half in enumerate(halves)
            for g in range(3)
        ]
        opened(browser, tmp_path, graph, communities=communities)
        counts = []
        for level in ("0", "1", "-1"):
            browser.run(
                f"""(() => {{ const select = document.getElementById('level');
                select.value = '{level}'; select.dispatchEvent(new Event('change')); }})()"""
            )
            browser.settle()
            drawn = colours(browser)
            counts.append(len(set(drawn.values())))
            if level == "1":
                assert drawn["东0-0"] == drawn["东0-4"] != drawn["东1-0"]
        assert counts == [2, 6, 1]
        shown = browser.run("[...document.getElementById('level').options].map((o) => o.textContent)")
        assert shown == ["level 0: 2 communities", "level 1: 6 communities", "none"]

    def test_hostile_text_is_shown_as_text(self, browser: Chromium, tmp_path: Path) -> None:
        graph, communities, reports, sources = hostile()
        opened(browser, tmp_path, graph, communities=communities, reports=reports, sources=sources)
        plain = browser.run("document.querySelectorAll('script, img, iframe, svg, style, link').length")
        assert search(browser, "<img src")[:1] == [IMAGE]
        browser.press("Enter")
        told = panel(browser)
        browser.run("document.querySelectorAll('#panel details').forEach((e) => { e.open = true; }), 0")
        browser.settle()
        told = panel(browser)
        for text in (IMAGE, f"{SCRIPT} · 1 edge", f"{SCRIPT}0", f"{IMAGE}.txt", f"{IMAGE} point", f"{SCRIPT} why"):
            assert text in told
        assert search(browser, "script>")[0] in HOSTILE
        browser.press("Enter")
        browser.run("new Promise((done) => setTimeout(() => done(0), 200))")
        assert browser.run("document.querySelectorAll('script, img, iframe, svg, style, link').length") == plain == 5

    def test_policy_stops_what_would_be_fetched_or_run(self, program: str, tmp_path: Path) -> None:
        with Chromium(program) as browser:
            opened(browser, tmp_path, heroes())
            browser.run(
                """(async () => { window.stopped = []; window.ran = false;
                document.addEventListener('securitypolicyviolation', (e) => window.stopped.push(e.effectiveDirective));
                const image = new Image(); image.src = 'https://example.invalid/a.png'; document.body.append(image);
                const script = document.createElement('script'); script.textContent = 'window.ran = true';
                document.body.append(script);
                await fetch('https://example.invalid/').catch(() => 0);
                await new Promise((done) => setTimeout(done, 200)); })()"""
            )
            assert sorted(browser.run("window.stopped")) == ["connect-src", "img-src", "script-src-elem"]
            assert browser.run("window.ran") is False

    def test_page_says_that_not_all_is_drawn(self, browser: Chromium, tmp_path: Path) -> None:
        opened(browser, tmp_path, heroes(), most=4)
        assert browser.run("window.view.graph.order") == 4
        said = "Drawn are the 4 most connected of 10 vertices, and"
        assert said in browser.run("document.getElementById('count').textContent")
        assert said in panel(browser)
        browser.run("window.view.choose('刘备'), 0")
        assert re.search(r"\d more edges? leads? to", panel(browser))

    def test_page_speaks_chinese_to_a_chinese_browser_and_is_dark_for_who_likes_it(
        self, program: str, tmp_path: Path
    ) -> None:
        with Chromium(program, language="zh-CN", dark=True) as browser:
            opened(browser, tmp_path, heroes())
            assert "10 个顶点，9 条边" in panel(browser)
            assert browser.run("document.documentElement.lang") == "zh-Hans"
            assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"

    def test_page_without_webgl_still_searches_and_tells(self, program: str, tmp_path: Path) -> None:
        with Chromium(program) as browser:
            browser.call(
                "Page.addScriptToEvaluateOnNewDocument",
                source="const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext ="
                " function (kind, ...rest) { return /webgl/.test(kind) ? null : get.call(this, kind, ...rest); };",
            )
            opened(browser, tmp_path, heroes())
            assert "no WebGL" in browser.run("document.getElementById('failed').innerText")
            assert search(browser, "曹操") == ["曹操"]
            browser.press("Enter")
            assert "→ 攻打 刘备" in panel(browser)
