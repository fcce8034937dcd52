"""What callbacks are told: every model call once, under the stage that makes it, and what it cost."""

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler, get_usage_metadata_callback
from langchain_core.documents import Document
from langchain_core.outputs import LLMResult
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from scripted_model import ScriptedChatModel, prompt_hash, stage_reply

from rag_transformers import (
    Answer,
    Chunker,
    Edge,
    GraphExtractor,
    GraphIndex,
    GraphRetriever,
    MemoryGraph,
    ReportWriter,
    SummarizeExtractor,
    Summary,
)
from rag_transformers.communities import CommunityDetector
from rag_transformers.models.run import Usage


class Recorder(BaseCallbackHandler):
    """Notes every run with its name and the run that it stands under."""

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}
        self.parents: dict[UUID, UUID | None] = {}
        self.models: list[UUID] = []
        self.ended: Counter[UUID] = Counter()
        self.tags: dict[UUID, list[str]] = {}
        self._lock = threading.Lock()

    def _begun(self, run_id: UUID, parent: UUID | None, name: str | None, tags: list[str] | None) -> None:
        with self._lock:
            assert run_id not in self.names
            self.names[run_id], self.parents[run_id], self.tags[run_id] = name or "", parent, tags or []

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        self._begun(run_id, parent_run_id, kwargs.get("name"), kwargs.get("tags"))

    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        self._begun(run_id, parent_run_id, kwargs.get("name"), kwargs.get("tags"))

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        self._begun(run_id, parent_run_id, kwargs.get("name"), kwargs.get("tags"))
        self.models.append(run_id)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        self.ended[run_id] += 1

    def under(self, name: str) -> int:
        """How many model calls stand right under a run of that name."""
        return sum(self.names.get(self.parents[run] or run) == name for run in self.models)

    def roots(self) -> list[str]:
        """The names of the runs that stand under none."""
        return [self.names[run] for run, parent in self.parents.items() if parent is None]


def counted(handler: UsageMetadataCallbackHandler) -> tuple[int, int]:
    found = handler.usage_metadata.values()
    return sum(each["input_tokens"] for each in found), sum(each["output_tokens"] for each in found)


def tokens(usage: Usage) -> tuple[int, int]:
    return usage.prompt_tokens, usage.completion_tokens


TEXTS = {f"note {number}": f"Ada Moss wrote letter {number} to Grain Trust. 林晚在青石镇。" for number in range(6)}
DOCUMENTS = [Document(text, metadata={"source": source}) for source, text in TEXTS.items()]
QUESTIONS = [("Who wrote to Grain Trust?", "local"), ("What are the main themes?", "global")]


def reply(prompt: str) -> str:
    """As the stages ask; long descriptions of Ada Moss, so that they are made into one."""
    if "Entities:" in prompt and "Description List" not in prompt:
        said = prompt_hash(prompt)
        return (
            f"Entities:\n(Ada Moss#Writes, as told in {said})\n(Grain Trust#A lender, as told in {said})\n"
            f"Relationships:\n(Ada Moss#writes to#Grain Trust#As told in {said})"
        )
    return stage_reply(prompt)


@pytest.fixture
def model() -> ScriptedChatModel:
    return ScriptedChatModel(reply=reply)


class TestIndex:
    @pytest.mark.parametrize("awaited", [False, True])
    def test_an_add_is_one_run_with_its_stages_under_it_and_each_call_under_its_stage(
        self, tmp_path: Path, model: ScriptedChatModel, awaited: bool
    ) -> None:
        recorder, usage = Recorder(), UsageMetadataCallbackHandler()
        config: RunnableConfig = {"callbacks": [recorder, usage], "tags": ["mine"]}
        with GraphIndex.open(tmp_path / "index", model) as index:
            report = (
                asyncio.run(index.aadd(DOCUMENTS, config=config)) if awaited else index.add(DOCUMENTS, config=config)
            )
            calls = {name: stage.usage.calls for name, stage in report.stages.items() if stage.usage.calls}
        assert set(calls) == {"extract", "describe", "report"}
        assert recorder.roots() == ["GraphIndex.add"]
        assert recorder.under("GraphExtractor") == calls["extract"]
        assert recorder.under("SummarizeExtractor") == calls["describe"]
        assert recorder.under("ReportWriter") == calls["report"]
        assert len(recorder.models) == len(model.prompts) == report.usage.calls
        assert set(recorder.ended.values()) == {1}
        assert counted(usage) == tokens(report.usage)
        assert all("mine" in tags for tags in recorder.tags.values())

    def test_what_came_from_the_store_is_not_told_as_paid(self, tmp_path: Path, model: ScriptedChatModel) -> None:
        with GraphIndex.open(tmp_path / "index", model) as index:
            index.add(DOCUMENTS)
            usage, recorder = UsageMetadataCallbackHandler(), Recorder()
            report = index.add(DOCUMENTS, config={"callbacks": [usage, recorder]})
        assert report.usage == Usage()
        assert (counted(usage), recorder.models) == ((0, 0), [])

    @pytest.mark.parametrize(("question", "mode"), QUESTIONS)
    @pytest.mark.parametrize("how", ["query", "aquery", "stream", "astream"])
    def test_a_question_is_one_run_with_all_its_calls_under_it(
        self, tmp_path: Path, model: ScriptedChatModel, question: str, mode: str, how: str
    ) -> None:
        recorder, usage = Recorder(), UsageMetadataCallbackHandler()
        config: RunnableConfig = {"callbacks": [recorder, usage]}
        with GraphIndex.open(tmp_path / "index", model) as index:
            index.add(DOCUMENTS)
            before = len(model.prompts)
            answer = ask(index, how, question, mode, config)
        name = "GraphIndex.stream" if "stream" in how else "GraphIndex.query"
        assert recorder.roots() == [name]
        assert recorder.under(name) == len(recorder.models) == len(model.prompts) - before == answer.usage.calls > 0
        assert counted(usage) == tokens(answer.usage)

    def test_usage_is_counted_for_whoever_looks_around_it(self, tmp_path: Path, model: ScriptedChatModel) -> None:
        with GraphIndex.open(tmp_path / "index", model) as index, get_usage_metadata_callback() as usage:
            report = index.add(DOCUMENTS)
            answer = index.query("Who wrote to Grain Trust?")
        assert counted(usage) == tokens(report.usage + answer.usage)

    def test_inside_a_chain_its_run_stands_under_that_of_the_chain(
        self, tmp_path: Path, model: ScriptedChatModel
    ) -> None:
        recorder = Recorder()
        with GraphIndex.open(tmp_path / "index", model) as index:
            index.add(DOCUMENTS)
            asking: Runnable[str, str] = RunnableLambda(lambda question: index.query(question).text, name="asking")
            asking.invoke("Who wrote to Grain Trust?", {"callbacks": [recorder]})
        assert recorder.roots() == ["asking"]
        assert recorder.under("GraphIndex.query") == 1

    def test_delete_and_rebuild_tell_theirs(self, tmp_path: Path, model: ScriptedChatModel) -> None:
        recorder = Recorder()
        with GraphIndex.open(tmp_path / "index", model) as index:
            index.add(DOCUMENTS)
            before = len(model.prompts)
            index.delete("note 0", config={"callbacks": [recorder]})
            assert len(recorder.models) == len(model.prompts) - before > 0
            index.rebuild(config={"callbacks": [recorder]})
        assert recorder.roots() == ["GraphIndex.delete", "GraphIndex.rebuild"]

    def test_a_failed_call_is_told_as_one_and_the_run_ends(self, tmp_path: Path) -> None:
        failed: list[str] = []

        class Watcher(BaseCallbackHandler):
            def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
                failed.append(type(error).__name__)

        model = ScriptedChatModel(reply=lambda prompt: reply(prompt) if "Entities:" in prompt else ValueError("no"))
        with GraphIndex.open(tmp_path / "index", model, reports=False) as index:
            index.add(DOCUMENTS[:1])
            with pytest.raises(Exception, match="no"):
                index.query("Who wrote to Grain Trust?", config={"callbacks": [Watcher()]})
        assert failed == ["ModelError"]


def ask(index: GraphIndex, how: str, question: str, mode: str, config: RunnableConfig) -> Answer:
    async def collected() -> list[str | Answer]:
        return [piece async for piece in index.astream(question, mode, config=config)]

    if how == "aquery":
        return asyncio.run(index.aquery(question, mode, config=config))
    if how == "query":
        return index.query(question, mode, config=config)
    pieces = list(index.stream(question, mode, config=config)) if how == "stream" else asyncio.run(collected())
    last = pieces[-1]
    assert isinstance(last, Answer)
    assert "".join(piece for piece in pieces[:-1] if isinstance(piece, str)) == last.text
    return last


def graph() -> MemoryGraph:
    made = MemoryGraph()
    for source, target in (("Ada", "Bo"), ("Bo", "Cy"), ("Cy", "Ada")):
        made.upsert_edge(Edge(source, target, "knows", description=f"{source} knows {target}."))
    return made


STAGES: list[tuple[str, Any, Any]] = [
    ("GraphExtractor", lambda llm: GraphExtractor(llm=llm), "Ada Moss wrote to Grain Trust."),
    ("SummarizeExtractor", lambda llm: SummarizeExtractor(llm=llm), {"items": "Ada", "descriptions": ["One.", "Two."]}),
    ("Summary", lambda llm: Summary(llm=llm), ["Ada Moss wrote many letters. " * 20, "Bo read them. " * 20]),
    ("ReportWriter", lambda llm: ReportWriter(llm=llm), (graph(), CommunityDetector().invoke(graph())[0])),
]


@pytest.mark.parametrize(("name", "make", "given"), STAGES, ids=[name for name, _, _ in STAGES])
class TestStages:
    def test_a_stage_by_itself_tells_each_of_its_calls_once(
        self, model: ScriptedChatModel, name: str, make: Any, given: Any
    ) -> None:
        recorder, usage = Recorder(), UsageMetadataCallbackHandler()
        make(model).invoke(given, {"callbacks": [recorder, usage]})
        asyncio.run(make(model).ainvoke(given, {"callbacks": [recorder, usage]}))
        assert recorder.roots() == [name, name]
        assert recorder.under(name) == len(recorder.models) == len(model.prompts) >= 2
        assert counted(usage)[0] == sum(len(prompt.encode()) for prompt in model.prompts)

    async def test_its_events_come_once_under_its_name(
        self, model: ScriptedChatModel, name: str, make: Any, given: Any
    ) -> None:
        events = [event async for event in make(model).astream_events(given, version="v2")]
        happened = Counter((event["event"], event["run_id"]) for event in events if "stream" not in event["event"])
        assert set(happened.values()) == {1}
        assert events[0]["event"] == "on_chain_start"
        assert events[-1]["event"] == "on_chain_end"
        assert events[0]["name"] == events[-1]["name"] == name
        asked = [event for event in events if event["event"] == "on_chat_model_start"]
        assert len(asked) == len(model.prompts) > 0
        assert all(event["parent_ids"] == [events[0]["run_id"]] for event in asked)


async def test_the_retrievers_events_come_once_under_its_name(tmp_path: Path) -> None:
    with GraphIndex.open(tmp_path / "index") as index:
        index.add(DOCUMENTS)
        chain: Runnable[str, str] = GraphRetriever(index=index, k=2) | RunnableLambda(
            lambda found: found[0].page_content
        )
        events = [event async for event in chain.astream_events("Who wrote to Grain Trust?", version="v2")]
    told = [event for event in events if event["name"] == "GraphRetriever"]
    assert [event["event"] for event in told] == ["on_retriever_start", "on_retriever_end"]
    assert len(told[1]["data"]["output"]) == 2


async def test_an_index_inside_a_chain_shows_its_events(tmp_path: Path, model: ScriptedChatModel) -> None:
    with GraphIndex.open(tmp_path / "index", model) as index:
        index.add(DOCUMENTS)

        async def asked(question: str) -> str:
            return (await index.aquery(question)).text

        asking: Runnable[str, str] = RunnableLambda(asked)
        events = [event async for event in asking.astream_events("Who wrote to Grain Trust?", version="v2")]
    names = [event["name"] for event in events if event["event"].endswith("_start")]
    assert (names[:2], names.count("GraphIndex.query")) == (["asked", "GraphIndex.query"], 1)
    asked_for = [event for event in events if event["event"] == "on_chat_model_start"]
    assert [event["name"] for event in asked_for] == ["ScriptedChatModel"]
    assert len(asked_for[0]["parent_ids"]) == 2


def test_a_chunker_in_front_shows_both_stages(model: ScriptedChatModel) -> None:
    recorder = Recorder()
    chain = Chunker(8, 0) | GraphExtractor(llm=model).map()
    found = chain.invoke("Ada Moss wrote letters. Grain Trust read them all.", {"callbacks": [recorder]})
    assert recorder.under("GraphExtractor") == len(found) == len(model.prompts) > 1
    assert "Chunker" in recorder.names.values()
