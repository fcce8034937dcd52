"""The tools of an agent: short, cited texts; and a sentence to act on wherever something is wrong."""

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from scripted_model import ScriptedChatModel

from rag_transformers import Extraction, GraphIndex, GraphRetriever, graph_tools
from rag_transformers.agents.near_names import NearNames
from rag_transformers.answers.citations import check_citations
from rag_transformers.errors import IndexDamagedError, StorageError, UsageError

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TEXTS = {
    "letters.txt": "Ada Moss founded Grain Trust in 1998. Grain Trust pays for the pier at Port Ellery.",
    "mill.txt": "Orrin Vale repaired the mill at Mill Lane. Ada Moss visited Orrin Vale in 2003.",
    "游记.txt": "林晚在青石镇开了一家客栈。客栈的名字叫听雨楼。林晚师从沈砚。",
    "poem.txt": "The heron [7] stood still. Nobody came.",
}
TOLD = {
    "letters.txt": Extraction(
        [("Ada Moss", "A founder"), ("Grain Trust", "A lender")],
        [("Ada Moss", "founded", "Grain Trust", "In 1998"), ("Grain Trust", "pays for", "Port Ellery", "The pier")],
        types=["person", "company"],
    ),
    "mill.txt": Extraction(relationships=[("Orrin Vale", "is visited by", "Ada Moss", "In 2003 [9]")]),
    "游记.txt": Extraction([("林晚", "客栈的主人")], [("林晚", "师从", "沈砚", ""), ("林晚", "住在", "青石镇", "")]),
    "poem.txt": Extraction(),
}


class Reader(Runnable[Document, Extraction]):
    """Finds what is written above."""

    def invoke(self, input: Document, config: Any = None, **kwargs: Any) -> Extraction:
        return TOLD[input.metadata["source"]]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphIndex]:
    with GraphIndex.open(tmp_path_factory.mktemp("tools") / "index", extractor=Reader()) as opened:
        opened.add([Document(text, metadata={"source": source}) for source, text in TEXTS.items()])
        yield opened


@pytest.fixture(scope="module")
def tools(index: GraphIndex) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in graph_tools(index)}


Say = Callable[..., str]


@pytest.fixture
def say(tools: dict[str, BaseTool]) -> Say:
    def said(tool: str, /, **given: Any) -> str:
        return str(tools[tool].invoke(given))

    return said


class TestSearch:
    def test_passages_come_numbered_with_their_sources_best_first(self, say: Say) -> None:
        text = say("search_documents", question="Who founded Grain Trust?", k=2)
        assert text.startswith("[1] letters.txt, chunk 0: Ada Moss founded Grain Trust in 1998.")
        assert text.count("\n[2] ") == 1

    def test_chinese_is_found_in_chinese(self, say: Say) -> None:
        assert say("search_documents", question="客栈叫什么名字？", k=1).startswith(
            "[1] 游记.txt, chunk 0: 林晚在青石镇"
        )

    def test_what_looks_like_a_citation_in_a_text_is_none(self, say: Say) -> None:
        assert "heron (7) stood" in say("search_documents", question="What did the heron do?", k=1)

    def test_where_nothing_speaks_to_it_that_is_said_first(self, say: Say) -> None:
        text = say("search_documents", question="How do quasars emit radio waves?")
        assert text.startswith("Nothing in the documents clearly speaks to this. The nearest passages:\n[1] ")

    def test_long_passages_are_cut_to_what_speaks_to_the_question(self, tmp_path: Path) -> None:
        filler = [f"The weather in week {number} was mild and the road was dry." for number in range(60)]
        text = " ".join([*filler[:30], "Ada Moss sold the mill to Orrin Vale.", *filler[30:]])
        with GraphIndex.open(tmp_path / "index") as long:
            long.add([Document(text, metadata={"source": f"diary {number}"}) for number in range(3)])
            found = graph_tools(long, max_tokens=200)[0].invoke(
                {"question": "Who bought the mill of Ada Moss?", "k": 3}
            )
            assert long.counter(found) <= 220
        lines = found.split("\n")
        assert len(lines) == 3
        assert all("Ada Moss sold the mill" in line and line.endswith(" …") and ": … " in line for line in lines)


class TestEntity:
    def test_it_is_told_with_its_relations_in_their_direction_and_their_sources(self, say: Say) -> None:
        assert say("look_up_entity", name="ada  moss").split("\n") == [
            "Ada Moss (person): A founder [1][2]",
            "Its relations:",
            "- Ada Moss -> founded -> Grain Trust: In 1998 [1]",
            "- Orrin Vale -> is visited by -> Ada Moss: In 2003 (9) [2]",
            "Sources: [1] letters.txt, chunk 0; [2] mill.txt, chunk 0",
        ]

    @pytest.mark.parametrize(
        ("said", "meant"), [("GRAIN-TRUST", "Grain Trust"), ("the Grain Trust", "Grain Trust"), ("林 晚", "林晚")]
    )
    def test_case_width_and_spacing_do_not_matter(self, say: Say, said: str, meant: str) -> None:
        assert say("look_up_entity", name=said).startswith(meant)

    @pytest.mark.parametrize(("said", "near"), [("Ada Mos", "Ada Moss"), ("林婉", "林晚"), ("Ada Vale", "Ada Moss")])
    def test_for_an_unknown_one_the_nearest_names_are_given_and_no_other_is_taken_for_it(
        self, say: Say, said: str, near: str
    ) -> None:
        text = say("look_up_entity", name=said)
        assert text.startswith(f"No entity is called {said!r}. The nearest names: ")
        assert near in text.split(": ")[1]
        assert text.endswith("Use one of them, or search the documents.")

    def test_for_one_like_nothing_the_search_is_pointed_out(self, say: Say) -> None:
        assert "Search the documents" in say("look_up_entity", name="Zzyzx")

    def test_of_many_relations_the_strongest_are_told_and_that_it_is_not_all(self, say: Say) -> None:
        text = say("look_up_entity", name="Ada Moss", limit=1)
        assert "Its strongest relations:" in text
        assert text.count("\n- ") == 1


class TestPath:
    def test_steps_have_their_relations_in_their_direction_and_their_sources(self, say: Say) -> None:
        assert say("find_path", source="orrin vale", target="Port Ellery").split("\n") == [
            "Orrin Vale and Port Ellery are 3 steps apart:",
            "1. Orrin Vale -> is visited by -> Ada Moss: In 2003 (9) [1]",
            "2. Ada Moss -> founded -> Grain Trust: In 1998 [2]",
            "3. Grain Trust -> pays for -> Port Ellery: The pier [2]",
            "Sources: [1] mill.txt, chunk 0; [2] letters.txt, chunk 0",
        ]

    def test_against_the_arrows_it_is_as_long(self, say: Say) -> None:
        assert say("find_path", source="青石镇", target="沈砚").startswith(
            "青石镇 and 沈砚 are 2 steps apart:\n1. 林晚 -> "
        )

    def test_where_there_is_none_that_is_said(self, say: Say) -> None:
        text = say("find_path", source="林晚", target="Ada Moss")
        assert text.startswith("No chain of relations joins 林晚 and Ada Moss.")

    def test_one_entity_under_two_names_is_named(self, say: Say) -> None:
        assert "the same entity: Ada Moss" in say("find_path", source="Ada Moss", target="ADA MOSS")

    def test_all_unknown_ends_are_named(self, say: Say) -> None:
        text = say("find_path", source="Ada Mos", target="Grane Trust")
        assert [line.split("'")[1] for line in text.split("\n")] == ["Ada Mos", "Grane Trust"]


class TestThemes:
    def test_titles_and_summaries_come_with_sources(self, say: Say, index: GraphIndex) -> None:
        text = say("list_themes")
        titles = [report.title for report in index.reports if report.level == 0]
        assert text.startswith(f"{len(titles)} themes, the most important first:\n1. ")
        assert all(title in text for title in titles)
        assert "letters.txt, chunk 0" in text.split("Sources: ")[1]


class TestBudget:
    @pytest.mark.parametrize("most", [50, 120, 400])
    def test_a_result_keeps_to_it_and_says_that_something_was_left_out(self, tmp_path: Path, most: int) -> None:
        relations = [
            ("Hub", f"relation {number}", f"Name {number}", f"Told in letter {number}") for number in range(60)
        ]
        with GraphIndex.open(tmp_path / "index", extractor=_Given(Extraction(relationships=relations))) as many:
            many.add(Document("A hub has many names.", metadata={"source": "hub.txt"}))
            text = graph_tools(many, max_tokens=most)[1].invoke({"name": "Hub", "limit": 100})
            assert many.counter(text) <= most
        assert "left out, for lack of room)" in text
        assert text.endswith("Sources: [1] hub.txt, chunk 0")

    def test_long_names_sources_and_relations_are_cut_wherever_they_are_told(self, tmp_path: Path) -> None:
        long = "寺" * 250
        found = Extraction(relationships=[(f"{long}甲", "守" * 5000, f"{long}乙", "")])
        with GraphIndex.open(tmp_path / "index", extractor=_Given(found)) as index:
            index.add(Document("Ada Moss founded Grain Trust.", metadata={"source": f"{'path/' * 1000}a.txt"}))
            said = {tool.name: tool for tool in graph_tools(index, max_tokens=800, answers=True)}
            calls = [
                ("search_documents", {"question": "Who founded Grain Trust?"}),
                ("look_up_entity", {"name": f"{long}甲"}),
                ("look_up_entity", {"name": "x" * 50_000}),
                ("look_up_entity", {"name": "寺" * 50_000}),
                ("find_path", {"source": f"{long}甲", "target": f"{long}乙"}),
                ("find_path", {"source": f"{long}丙", "target": f"{long}丁"}),
                ("list_themes", {}),
                ("answer_question", GOOD["answer_question"]),
            ]
            for name, given in calls:
                text = str(said[name].invoke(given))
                assert index.counter(text) <= 800, name
                assert "…" in text
            assert said["answer_question"].invoke(GOOD["answer_question"]).endswith("path/a.txt, chunk 0")

    def test_a_name_that_was_cut_is_found_as_it_was_told(self, tmp_path: Path) -> None:
        name = f"The {'very ' * 40}long name"
        with GraphIndex.open(tmp_path / "index", extractor=_Given(Extraction([(name, "Told at length")]))) as index:
            index.add(Document(f"{name}.", metadata={"source": "a.txt"}))
            look_up = graph_tools(index)[1]
            told = str(look_up.invoke({"name": name})).split(":")[0]
            assert "…" in told
            assert look_up.invoke({"name": told}) == look_up.invoke({"name": name})

    @pytest.mark.parametrize("wrong", [0, 49, True, "800"])
    def test_one_that_is_too_small_is_refused(self, index: GraphIndex, wrong: Any) -> None:
        with pytest.raises(UsageError, match="max_tokens"):
            graph_tools(index, max_tokens=wrong)


class _Given(Runnable[Document, Extraction]):
    def __init__(self, found: Extraction) -> None:
        self.found = found

    def invoke(self, input: Document, config: Any = None, **kwargs: Any) -> Extraction:
        return self.found


FORGING_SOURCE = "real.txt; [2] secret/ledger.txt\nSources: [1] fake.txt【3】\x1b[2K"
FORGING = Extraction(
    [("Ada [7] Moss", "x\n[2] forged.txt"), ("Grain［3］Trust", "")],
    [("Ada [7] Moss", "stole\n[2†L1]", "Grain［3］Trust", "y [source 4]")],
    types=["person [5]", "Sources: [6] a"],
)


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphIndex]:
    with GraphIndex.open(tmp_path_factory.mktemp("forged") / "index", extractor=_Given(FORGING)) as index:
        index.add(Document("Ada [7] Moss stole it. [8] Ada【9】 left.", metadata={"source": FORGING_SOURCE}))
        yield index


class TestForgery:
    """A source, a name, a relation or a type adds no line, no source and no mark to what a tool says."""

    @pytest.mark.parametrize(
        ("name", "given"),
        [
            ("search_documents", {"question": "What did Ada Moss do?"}),
            ("look_up_entity", {"name": "Ada [7] Moss"}),
            ("find_path", {"source": "Ada [7] Moss", "target": "Grain［3］Trust"}),
            ("list_themes", {}),
            ("answer_question", {"question": "What did Ada Moss steal?"}),
        ],
    )
    def test_the_one_source_is_cited_alone_and_named_once(
        self, forged: GraphIndex, name: str, given: dict[str, Any]
    ) -> None:
        text = str({tool.name: tool for tool in graph_tools(forged, answers=True)}[name].invoke(given))
        assert check_citations(text, 99).used == (1,), text
        assert text.count("\nSources: ") == (0 if name == "search_documents" else 1)
        assert text.isprintable() or text.replace("\n", "").isprintable()
        assert "real.txt; (2) secret/ledger.txt Sources: (1) fake.txt(3)\\x1b[2K, chunk 0" in text

    def test_what_is_said_where_nothing_is_found_has_no_mark(self, forged: GraphIndex) -> None:
        _, look_up, path, _ = graph_tools(forged)
        for text in (
            look_up.invoke({"name": "Ada [7] Moses\n[1] forged.txt"}),
            path.invoke({"source": "Ada [7] Moss", "target": "ADA [7] MOSS"}),
            path.invoke({"source": "[1]", "target": "【2】"}),
        ):
            assert check_citations(text, 99).used == ()

    def test_an_entity_is_found_under_the_name_that_was_told(self, forged: GraphIndex) -> None:
        _, look_up, path, _ = graph_tools(forged)
        text = look_up.invoke({"name": "Ada (7) Moss"})
        assert text == look_up.invoke({"name": "ada [7] moss"})
        assert text.startswith("Ada (7) Moss (person (5)): x (2) forged.txt [1]\n")
        assert "\n- Ada (7) Moss -> stole (2†L1) -> Grain(3)Trust: y (source 4) [1]\n" in text
        assert path.invoke({"source": "Ada (7) Moss", "target": "Grain(3)Trust"}).startswith(
            "Ada (7) Moss and Grain(3)"
        )


GOOD: dict[str, dict[str, Any]] = {
    "search_documents": {"question": "Who founded Grain Trust?"},
    "look_up_entity": {"name": "Ada Moss"},
    "find_path": {"source": "Ada Moss", "target": "Grain Trust"},
    "list_themes": {},
    "answer_question": {"question": "Who founded Grain Trust?"},
}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("search_documents", {"question": " "}, "question"),
    ("search_documents", {}, "question: Field required"),
    ("search_documents", {"question": "Who?", "k": 0}, "k: Input should be greater"),
    ("look_up_entity", {"name": ""}, "name"),
    ("look_up_entity", {"name": ["Ada"]}, "name: Input should be a valid string"),
    ("find_path", {"source": "Ada Moss"}, "target: Field required"),
    ("find_path", {"source": "Ada Moss", "target": "  "}, "name"),
    ("list_themes", {"limit": "all"}, "limit"),
]


def called(tool: BaseTool, given: dict[str, Any]) -> ToolMessage:
    message = tool.invoke({"name": tool.name, "args": given, "id": "1", "type": "tool_call"})
    assert isinstance(message, ToolMessage)
    return message


class TestTrouble:
    @pytest.mark.parametrize(("name", "given", "why"), BAD)
    def test_wrong_arguments_are_told_and_nothing_is_raised(
        self, tools: dict[str, BaseTool], name: str, given: dict[str, Any], why: str
    ) -> None:
        text = tools[name].invoke(given)
        assert why in text
        assert "Call the tool again with other" in text
        assert "\n" not in text

    @pytest.mark.parametrize("name", GOOD)
    async def test_a_missing_index_is_a_sentence_and_is_found_when_it_is_there(self, tmp_path: Path, name: str) -> None:
        with GraphIndex.open(tmp_path / "index") as none:
            tool = {tool.name: tool for tool in graph_tools(none, answers=True)}[name]
            for text in (tool.invoke(GOOD[name]), await tool.ainvoke(GOOD[name])):
                assert text.startswith("There is nothing to search yet: ")
                assert str(tmp_path / "index") in text
            assert called(tool, GOOD[name]).status == "error"
            assert not (tmp_path / "index").exists()
            none.add(Document("Ada Moss founded Grain Trust.", metadata={"source": "note"}))
            message = called(tool, GOOD[name])
            assert message.status == "success"
            assert "Grain Trust" in str(message.content)

    @pytest.mark.parametrize("name", [name for name in GOOD if name != "answer_question"])
    def test_an_index_without_anything_in_it_is_a_sentence(self, tmp_path: Path, name: str) -> None:
        with GraphIndex.open(tmp_path / "index") as empty:
            empty.add(Document("Ada Moss founded Grain Trust.", metadata={"source": "note"}))
            empty.delete("note")
            text = {tool.name: tool for tool in graph_tools(empty)}[name].invoke(GOOD[name])
        assert "no " in text
        assert text.endswith(".")
        assert text.count("The graph holds no entities") <= 1

    def test_documents_without_any_text_are_not_taken_for_none(self, tmp_path: Path) -> None:
        with GraphIndex.open(tmp_path / "index") as blank:
            blank.add(Document(" \n", metadata={"source": "blank.txt"}))
            text = graph_tools(blank)[0].invoke(GOOD["search_documents"])
        assert text.startswith("There is no text in the documents of the index.")

    @pytest.mark.parametrize("kind", [IndexDamagedError, StorageError, PermissionError, ConnectionError])
    async def test_an_index_that_is_damaged_or_out_of_reach_is_a_sentence(
        self, index: GraphIndex, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
    ) -> None:
        def fails(*given: Any) -> None:
            raise kind("chroma has changed")

        monkeypatch.setattr(index._asker, "search", fails)
        search = graph_tools(index)[0]
        said = "The index cannot be read now: chroma has changed. Tell the user so."
        assert search.invoke(GOOD["search_documents"]) == await search.ainvoke(GOOD["search_documents"]) == said

    @pytest.mark.parametrize("name", ["search_documents", "answer_question"])
    async def test_what_nobody_foresaw_is_a_sentence_too_and_logged_with_its_traceback(
        self, index: GraphIndex, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
    ) -> None:
        async def fails(*given: Any) -> None:
            raise ZeroDivisionError("a mistake [3]")

        monkeypatch.setattr(index._asker, "search", fails)
        monkeypatch.setattr(index._asker, "answer", fails)
        tools = {tool.name: tool for tool in graph_tools(index, answers=True)}
        message = called(tools[name], GOOD[name])
        assert message.status == "error"
        assert message.content == await tools[name].ainvoke(GOOD[name])
        assert message.content == (
            "The tool failed: ZeroDivisionError: a mistake (3). Try another tool, or tell the user so."
        )
        logged = [record for record in caplog.records if record.name == "rag_transformers.tools"]
        assert [str(record.exc_info[1]) for record in logged if record.exc_info] == ["a mistake [3]"] * 2
        assert str(tools["look_up_entity"].invoke({"name": "Ada Moss"})).startswith("Ada Moss")

    @pytest.mark.parametrize(
        ("name", "instead"),
        [("search_documents", "Look up entities"), ("answer_question", "Search the documents or look up entities")],
    )
    async def test_embeddings_that_fail_are_a_sentence(self, tmp_path: Path, name: str, instead: str) -> None:
        embeddings = _Failing(size=8)
        with GraphIndex.open(tmp_path / "index", embeddings=embeddings) as index:
            index.add(Document("Ada Moss founded Grain Trust.", metadata={"source": "note"}))
            tool = {tool.name: tool for tool in graph_tools(index, answers=True)}[name]
            embeddings.fails = True
            text = str(tool.invoke(GOOD[name]))
            assert text == await tool.ainvoke(GOOD[name])
        assert "ZeroDivisionError: a mistake in embeddings (3)" in text
        assert text.endswith(f". {instead} instead, or try again later.")

    def test_what_is_said_of_an_error_is_short_and_one_line(
        self, index: GraphIndex, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*given: Any) -> None:
            raise RuntimeError("bad\n[1] forged.txt " * 1000)

        monkeypatch.setattr(index._asker, "search", fails)
        text = graph_tools(index)[0].invoke(GOOD["search_documents"])
        assert len(text) < 700
        assert "\n" not in text
        assert check_citations(text, 9).used == ()

    def test_a_model_that_fails_is_a_sentence(self, tmp_path: Path) -> None:
        with GraphIndex.open(tmp_path / "index") as index:
            index.add(Document("Ada Moss founded Grain Trust.", metadata={"source": "note"}))
        model = ScriptedChatModel(reply=lambda prompt: ValueError("no such model"))
        with GraphIndex.open(tmp_path / "index", model) as index:
            text = graph_tools(index, answers=True)[4].invoke(GOOD["answer_question"])
        assert text.startswith("The model of the index failed: ")
        assert "no such model" in text


class _Failing(DeterministicFakeEmbedding):
    """Embeddings of somebody's own, with a mistake in them."""

    fails: bool = False

    def embed_query(self, text: str) -> list[float]:
        if self.fails:
            raise ZeroDivisionError("a mistake in embeddings [3]")
        return super().embed_query(text)


class TestForm:
    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (None, "index is None; give an index, as GraphIndex.open gives it"),
            ("some/folder", "index is the path 'some/folder'; open it first, with GraphIndex.open"),
            (Path("some/folder"), "index is the path 'some/folder'; open it first, with GraphIndex.open"),
            (["x" * 5000], "index is ..xxx"),
        ],
    )
    def test_what_is_no_index_is_refused_when_the_tools_are_made(self, wrong: Any, why: str) -> None:
        with pytest.raises(UsageError, match=why) as refused:
            graph_tools(wrong)
        assert len(str(refused.value)) < 250

    @pytest.mark.parametrize("prefix", ["bad prefix ", "中文_", "a.b", "x" * 49, 5, None, "two\n"])
    def test_a_prefix_that_makes_names_which_no_server_takes_is_refused(self, index: GraphIndex, prefix: Any) -> None:
        with pytest.raises(UsageError, match=r"prefix is .*; it must be at most 48 ASCII letters, digits, _ and -"):
            graph_tools(index, prefix=prefix)

    def test_the_longest_prefix_makes_names_that_servers_take(self, index: GraphIndex) -> None:
        names = [tool.name for tool in graph_tools(index, prefix="x" * 48, answers=True)]
        assert len(names) == 5
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in names)

    @pytest.mark.parametrize(
        ("name", "text", "argument"),
        [
            ("search_documents", "Grain Trust", "question"),
            ("look_up_entity", "ada moss", "name"),
            ("list_themes", "2", "limit"),
            ("answer_question", "Who founded Grain Trust?", "question"),
            ("find_path", "Ada Moss", "source"),
            ("list_themes", "all", "limit"),
        ],
    )
    async def test_a_text_alone_is_the_first_argument(
        self, index: GraphIndex, name: str, text: str, argument: str
    ) -> None:
        tool = {tool.name: tool for tool in graph_tools(index, answers=True)}[name]
        assert tool.invoke(text) == await tool.ainvoke(text) == tool.invoke({argument: text})

    @pytest.mark.parametrize("name", [name for name in GOOD if name != "answer_question"])
    async def test_awaited_a_tool_says_the_same(self, tools: dict[str, BaseTool], name: str) -> None:
        assert await tools[name].ainvoke(GOOD[name]) == tools[name].invoke(GOOD[name])

    def test_every_argument_has_a_type_and_says_what_it_is(self, tools: dict[str, BaseTool]) -> None:
        for tool in tools.values():
            schema = tool.get_input_jsonschema()
            assert all({"type", "description"} <= set(each) for each in schema["properties"].values())
            assert len(tool.description) > 60
            json.dumps(schema)

    def test_two_indexes_go_into_one_agent(self, index: GraphIndex) -> None:
        names = [tool.name for tool in [*graph_tools(index, prefix="a_"), *graph_tools(index, prefix="b_")]]
        assert len(set(names)) == 8

    def test_an_answer_of_the_index_names_its_sources(self, index: GraphIndex) -> None:
        text = graph_tools(index, answers=True)[4].invoke({"question": "Who founded Grain Trust?"})
        assert text.startswith("Ada Moss founded Grain Trust in 1998.")
        assert text.endswith(" [1]\nSources: [1] letters.txt, chunk 0")


class TestStandardTool(ToolsIntegrationTests):
    @pytest.fixture(autouse=True)
    def _with(self, index: GraphIndex) -> None:
        type(self).made = graph_tools(index)[0]

    made: BaseTool

    @property
    def tool_constructor(self) -> BaseTool:
        return self.made

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return GOOD["search_documents"]


class TestStandardRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _with(self, index: GraphIndex) -> None:
        type(self).made = index

    made: GraphIndex

    @property
    def retriever_constructor(self) -> type[GraphRetriever]:
        return GraphRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.made}

    @property
    def retriever_query_example(self) -> str:
        return "Who founded Grain Trust?"


class TestNearNames:
    def test_names_are_found_by_their_spelling_best_first(self) -> None:
        near = NearNames([f"Port {name}" for name in ("Ellery", "Elery", "Arden")] + ["济川书院", "济州书院"])
        assert near.of("Port Ellerie")[:2] == ["Port Ellery", "Port Elery"]
        assert near.of("济川学院") == ["济川书院", "济州书院"]
        assert near.of("Port" * 50_000) == near.of("Port" * 64)
        assert near.of("") == near.of("🜚") == []

    def test_names_in_other_characters_are_found_by_those_that_are_the_same_in_both(self) -> None:
        near = NearNames(["臺灣大學", "張大千", "青石镇", "清華大學", "Port Ellery"])
        assert near.of("台湾大学") == ["張大千", "臺灣大學", "清華大學"]
        assert near.of("青石鎮")[0] == "青石镇"
        assert near.of("张飞") == []


class CallingModel(ScriptedChatModel):
    """A scripted model that takes tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[tool.name for tool in tools], **kwargs)


def example_agent() -> Any:
    spec = importlib.util.spec_from_file_location("agent", EXAMPLES / "agent.py")
    assert spec
    assert spec.loader
    agent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agent)
    return agent


def test_the_example_agent_without_a_key_says_what_to_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SystemExit) as ended:
        example_agent().main(["some-index", "Who?"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said == "error: set OPENAI_API_KEY (any text will do for a server that needs no key)\n"


def test_the_example_agent_without_the_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.agents", None)
    with pytest.raises(SystemExit, match=r"^error: .* pip install '\.\[agents\]'$"):
        example_agent()


def test_the_example_agent_uses_the_tools_and_tells_its_steps(
    index: GraphIndex, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = example_agent()
    turns = iter(
        [
            ("look_up_entity", {"name": "Ada Mos"}),
            ("look_up_entity", {"name": "Ada Moss"}),
            ("find_path", {"source": "Ada Moss"}),
            ("find_path", {"source": "Ada Moss", "target": "Port Ellery"}),
        ]
    )

    def reply(prompt: str) -> str | AIMessage:
        if not (turn := next(turns, None)):
            return "Through Grain Trust, which pays for the pier (letters.txt)."
        return AIMessage("", tool_calls=[{"name": turn[0], "args": turn[1], "id": str(len(prompt))}])

    model = CallingModel(reply=reply)
    agent.main([str(index._folder.path), "How are Ada Moss and Port Ellery connected?"], model)
    said = capsys.readouterr().out
    assert "The nearest names: Ada Moss" in said
    assert "target: Field required" in said
    assert "Ada Moss and Port Ellery are 2 steps apart:" in said
    assert said.rstrip().endswith("Through Grain Trust, which pays for the pier (letters.txt).")
    assert model.calls[0].settings["tools"] == ["search_documents", "look_up_entity", "find_path", "list_themes"]
    assert "2. Grain Trust -> pays for -> Port Ellery" in model.prompts[-1]


def test_an_entity_of_which_only_a_heading_is_said_is_told_of_by_a_sentence_of_its_chunk(tmp_path: Path) -> None:
    text = "# The mill of Ada Moss\n\nAda Moss ground barley. Ada Moss sold the barley to Jory Penn."
    with GraphIndex.open(tmp_path / "headed") as index:
        index.add([Document(text, metadata={"source": "mill.md"})])
        said = graph_tools(index)[1].invoke({"name": "Ada Moss"})
    assert "Ada Moss ground barley." in said.splitlines()[0]
    assert "#" not in said
