"""Stages in chains: with |, side by side, mapped, with retries and fallbacks; as LangChain's users write them."""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core._api import LangChainBetaWarning
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    Runnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from scripted_model import ScriptedChatModel, stage_reply

import rag_transformers
from rag_transformers import (
    Chunker,
    Community,
    CommunityDetector,
    Edge,
    Extraction,
    ExtractiveSummary,
    GraphExtractor,
    GraphIndex,
    GraphRAGExtractor,
    GraphRAGQueryEngine,
    GraphRAGStore,
    GraphRetriever,
    LLMExtractor,
    MemoryGraph,
    PhraseExtractor,
    Report,
    ReportWriter,
    SummarizationResult,
    SummarizeExtractor,
    Summary,
)
from rag_transformers.errors import ReplyError, UsageError

TEXT = "Ada Moss founded Grain Trust. " * 4 + "林晚在青石镇开了一家客栈。" * 4
JSON = json.dumps({"entities": [{"entity_name": "Ada Moss", "entity_type": "person", "entity_description": ""}]})
GIVEN = {"items": "Ada Moss", "descriptions": ["She founded Grain Trust.", "She left it in 2003."]}


@pytest.fixture
def model() -> ScriptedChatModel:
    return ScriptedChatModel(reply=stage_reply)


@pytest.fixture
def retriever(tmp_path: Path) -> Iterator[GraphRetriever]:
    with GraphIndex.open(tmp_path / "index") as index:
        index.add([Document("Ada Moss founded Grain Trust.", metadata={"source": "note"})])
        index.add([Document("林晚在青石镇开了一家客栈。", metadata={"source": "游记"})])
        yield GraphRetriever(index=index, k=1)


def folded(extractions: Sequence[Extraction]) -> MemoryGraph:
    graph = MemoryGraph()
    for number, extraction in enumerate(extractions):
        graph.add(extraction, f"c{number}")
    return graph


def texts(chunks: Sequence[Document]) -> list[str]:
    return [chunk.page_content for chunk in chunks]


def knowing(*pairs: tuple[str, str]) -> MemoryGraph:
    graph = MemoryGraph()
    for source, target in pairs:
        graph.upsert_edge(Edge(source, target, "knows", description=f"{source} knows {target}."))
    return graph


class TestPipes:
    def test_documents_become_communities_in_one_chain(self, model: ScriptedChatModel) -> None:
        extract: Runnable[str | Document, list[Extraction]] = Chunker(30, 0) | GraphExtractor(llm=model).map()
        detect: Runnable[MemoryGraph, tuple[Community, ...]] = CommunityDetector()
        chain = extract | RunnableLambda(folded) | detect
        communities = chain.invoke(TEXT)
        assert len(model.prompts) > 1
        assert {name for community in communities for name in community.vertices} == {
            vertex.name for vertex in folded(extract.invoke(TEXT))
        }

    async def test_awaited_it_gives_the_same(self, model: ScriptedChatModel) -> None:
        chain = Chunker(30, 0) | GraphExtractor(llm=model).map()
        assert await chain.ainvoke(TEXT) == chain.invoke(TEXT)

    def test_a_report_is_written_behind_the_detector(self, model: ScriptedChatModel) -> None:
        graph = knowing(("A", "B"), ("B", "C"), ("C", "A"))
        first: Runnable[Any, tuple[MemoryGraph, Community]] = CommunityDetector() | RunnableLambda(
            lambda found: (graph, found[0])
        )
        chain: Runnable[MemoryGraph, Report] = first | ReportWriter(llm=model)
        assert chain.invoke(graph).title.startswith("Report ")

    def test_a_question_goes_through_retriever_prompt_and_model(
        self, retriever: GraphRetriever, model: ScriptedChatModel
    ) -> None:
        prompt = PromptTemplate.from_template("Answer from this: {context}\n{question}")
        shown = retriever | RunnableLambda(lambda found: found[0].page_content)
        chain: Runnable[str, str] = (
            {"context": shown, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
        )
        assert chain.invoke("Who founded Grain Trust?").startswith("The answer of prompt ")
        assert model.prompts == ["Answer from this: Ada Moss founded Grain Trust.\nWho founded Grain Trust?"]

    def test_summaries_are_steps_too(self, model: ScriptedChatModel) -> None:
        described: Runnable[Any, SummarizationResult] = SummarizeExtractor(llm=model)
        text: Runnable[Any, str] = described | RunnableLambda(lambda result: result.description)
        assert text.invoke(GIVEN).startswith("One description ")
        summed: Runnable[Any, str] = Chunker(30, 0) | RunnableLambda(texts) | Summary(llm=model)
        assert summed.invoke(TEXT).startswith("The answer of prompt ")


class TestSideBySide:
    def test_extractors_read_one_chunk_at_the_same_time(self, model: ScriptedChatModel) -> None:
        both: Runnable[Any, dict[str, Any]] = RunnableParallel(asked=GraphExtractor(llm=model), read=PhraseExtractor())
        found = both.invoke("Ada Moss founded Grain Trust.")
        assert found["asked"] == GraphExtractor(llm=model).invoke("Ada Moss founded Grain Trust.")
        assert [name for name, _ in found["read"].entities] == ["Ada Moss", "Grain Trust"]

    async def test_retrievers_answer_side_by_side_and_mapped(self, retriever: GraphRetriever) -> None:
        questions = ["Who founded Grain Trust?", "客栈在哪里？"]
        both: Runnable[str, dict[str, Any]] = RunnableParallel(found=retriever, asked=RunnablePassthrough())
        told = await both.ainvoke(questions[0])
        assert ([chunk.metadata["source"] for chunk in told["found"]], told["asked"]) == (["note"], questions[0])
        found = retriever.map().invoke(questions)
        assert [each[0].metadata["source"] for each in found] == ["note", "游记"]
        assert retriever.batch(questions[1:] * 3, {"max_concurrency": 2}) == [found[1]] * 3


class TestTrouble:
    def test_with_retry_a_reply_that_cannot_be_read_is_asked_again(self) -> None:
        replies = iter(["", stage_reply("Entities: Relationships:")])
        model = ScriptedChatModel(reply=lambda prompt: next(replies))
        stage = GraphExtractor(llm=model).with_retry(
            retry_if_exception_type=(ReplyError,), wait_exponential_jitter=False, stop_after_attempt=2
        )
        assert stage.invoke("Ada Moss founded Grain Trust.").entities
        assert len(model.prompts) == 2

    def test_with_fallbacks_another_extractor_takes_over(self) -> None:
        failing = ScriptedChatModel(reply=lambda prompt: ValueError("no"))
        stage: Runnable[Any, Extraction] = GraphExtractor(llm=failing).with_fallbacks([PhraseExtractor()])
        chain = Chunker(1000, 0) | stage.map()
        assert [name for name, _ in chain.invoke("Ada Moss founded Grain Trust.")[0].entities] == [
            "Ada Moss",
            "Grain Trust",
        ]

    async def test_a_summary_without_a_model_stands_in_for_one_with(self) -> None:
        failing = ScriptedChatModel(reply=lambda prompt: ValueError("no"))
        stage: Runnable[Any, str] = Summary(llm=failing).with_fallbacks([ExtractiveSummary()])
        assert "Grain Trust" in await stage.ainvoke(["Ada Moss founded Grain Trust. " * 20])

    @pytest.mark.parametrize("kind", [GraphExtractor, GraphRAGExtractor])
    async def test_a_bad_input_fails_in_its_own_call_and_not_its_batch(
        self, model: ScriptedChatModel, kind: type[GraphExtractor] | type[GraphRAGExtractor]
    ) -> None:
        model.reply = lambda prompt: stage_reply("Entities: Relationships:") if kind is GraphExtractor else JSON
        stage, given = kind(llm=model), cast("list[str | Document]", ["Ada Moss founded it.", 5, Document("Bo left.")])
        wanted = [Extraction, UsageError, Extraction]
        assert list(map(type, stage.batch(given, return_exceptions=True))) == wanted
        assert list(map(type, await stage.abatch(given, return_exceptions=True))) == wanted
        done = list(stage.batch_as_completed(given, return_exceptions=True))
        done_too = [each async for each in stage.abatch_as_completed(given, return_exceptions=True)]
        for found in (done, done_too):
            assert [type(each) for _, each in sorted(found, key=lambda pair: pair[0])] == wanted
        with pytest.raises(UsageError, match="a chunk is int; give a Document or a text"):
            stage.batch(given)
        taken_over = stage.with_fallbacks([RunnableLambda(lambda given: Extraction([(str(given), "")]))])
        assert taken_over.batch(given)[1].names() == ["5"]

    def test_an_index_takes_a_stage_with_fallbacks_as_its_extractor(self, tmp_path: Path) -> None:
        failing = ScriptedChatModel(reply=lambda prompt: ValueError("no"))
        stage = GraphExtractor(llm=failing).with_fallbacks([PhraseExtractor()])
        with GraphIndex.open(tmp_path / "index", extractor=stage) as index:
            report = index.add(Document("Ada Moss founded Grain Trust.", metadata={"source": "note"}))
            assert report.failed == ()
            assert "Grain Trust" in index.graph


class TestConfig:
    def test_a_stage_is_renamed_and_tagged(self, model: ScriptedChatModel) -> None:
        seen: list[tuple[str, list[str]]] = []

        def note(run: Any) -> None:
            seen.append((run.name, run.tags))

        stage = GraphExtractor(llm=model).with_config(run_name="reading", tags=["mine"]).with_listeners(on_start=note)
        stage.invoke("Ada Moss founded Grain Trust.")
        assert [(name, tags) for name, tags in seen] == [("reading", ["mine"])]

    def test_the_retriever_is_configured_for_a_call(self, retriever: GraphRetriever) -> None:
        field = ConfigurableField(id="k")
        stage = retriever.configurable_fields(k=field)
        assert len(stage.invoke("Ada Moss")) == 1
        assert len(stage.with_config(configurable={"k": 2}).invoke("Ada Moss")) == 2

    def test_a_model_with_callbacks_and_bound_arguments_is_a_model(self, model: ScriptedChatModel) -> None:
        bound = model.bind(seed=3).with_config(tags=["paid"])
        assert GraphExtractor(llm=bound).invoke("Ada Moss founded Grain Trust.").entities
        assert model.calls[0].settings == {"seed": 3}


@pytest.mark.parametrize(
    "stage", [Chunker(), PhraseExtractor(), CommunityDetector(), ReportWriter(), ExtractiveSummary()]
)
def test_a_stage_has_its_name_in_the_drawing_of_a_chain(stage: Any) -> None:
    assert stage.get_name() == type(stage).__name__
    assert type(stage).__name__ in (RunnableLambda(str) | stage).get_graph().draw_mermaid()


# What LangChain asks every Runnable: the forms of its input and output, and its place in a drawing.


def exported_runnables() -> list[str]:
    kinds = {name: getattr(rag_transformers, name) for name in rag_transformers.__all__}
    return [name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Runnable)]


@pytest.fixture
def made(model: ScriptedChatModel, retriever: GraphRetriever) -> Callable[[str], Runnable[Any, Any]]:
    """Makes a stage by the name of its class."""

    class Reading(LLMExtractor):
        def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
            return Extraction()

    special: dict[str, Callable[[], Runnable[Any, Any]]] = {
        "GraphRetriever": lambda: retriever,
        "GraphRAGQueryEngine": lambda: GraphRAGQueryEngine(GraphRAGStore(llm=model), llm=model),
        "LLMExtractor": lambda: Reading(model, "{text}"),
    }
    with_model = ("GraphExtractor", "GraphRAGExtractor", "SummarizeExtractor", "Summary", "ReportWriter")

    def make(name: str) -> Runnable[Any, Any]:
        kind = getattr(rag_transformers, name)
        return special[name]() if name in special else kind(llm=model) if name in with_model else kind()

    return make


@pytest.mark.parametrize("name", exported_runnables())
def test_every_stage_says_what_it_takes_and_gives(made: Callable[[str], Runnable[Any, Any]], name: str) -> None:
    stage = made(name)
    chain = stage | RunnablePassthrough()
    for each in (stage, chain):
        assert "title" in each.get_input_jsonschema() or "$defs" in each.get_input_jsonschema()
        assert isinstance(each.get_output_jsonschema(), dict)
        assert len(each.get_graph().nodes) > 2
    if name.endswith("SummarizeExtractor"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LangChainBetaWarning)
            assert set(stage.as_tool(name="describe", description="One description of many").args) == set(GIVEN)


def test_a_graph_has_no_form_in_json_and_its_schema_says_what_it_is() -> None:
    detector = CommunityDetector()
    assert detector.get_input_jsonschema()["description"] == "A graph, such as MemoryGraph"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        assert detector.as_tool(name="detect", description="Communities").args == {}
    graph = knowing(("A", "B"))
    kept: object = detector.get_input_schema().model_validate(graph).model_dump()
    assert kept is graph
