"""Structured output over HTTP: the model's own mode where its server takes it, read item by item, else the text."""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer, in_turn
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from scripted_model import ScriptedChatModel

from rag_transformers import Extraction, GraphExtractor, GraphIndex, GraphRAGExtractor
from rag_transformers.concurrency import run
from rag_transformers.errors import ModelError, ReplyError, UsageError
from rag_transformers.extraction.structured import SCHEMA, StructuredModel
from rag_transformers.models.run import Run
from rag_transformers.prompts import languages, load_prompt, prompt_text

TEXT = "Wren Holloway steers the ferry Kittiwake."
ENTITIES = [
    {"entity_name": "Wren Holloway", "entity_type": "person", "entity_description": "Rank: no. 1 #pilot"},
    {"entity_name": "Kittiwake", "entity_type": "ferry", "entity_description": ""},
]
TIE = {
    "source_entity": "Wren Holloway",
    "target_entity": "Kittiwake",
    "relation": "steers",
    "relationship_description": "",
}
DATA = json.dumps({"entities": ENTITIES, "relationships": [TIE]})
FOUND = Extraction(
    [("Wren Holloway", "Rank: no. 1 #pilot"), ("Kittiwake", "")],
    [("Wren Holloway", "steers", "Kittiwake", "")],
    ["person", "ferry"],
)
RECORDS = "Entities:\n(Wren Holloway#Pilot)\n\nRelationships:\n(Wren Holloway#steers#Kittiwake#)"
PLAIN = Extraction([("Wren Holloway", "Pilot")], [("Wren Holloway", "steers", "Kittiwake", "")])
NO_TOOLS = FakeReply("This model does not support tools.", status=400)
NO_TOOLS_404 = FakeReply("No endpoints found that support tool use.", status=404)
NO_SCHEMA = FakeReply("This response_format type is unavailable now", status=400)


@pytest.fixture
def llm(fake_server: FakeServer) -> ChatOpenAI:
    return ChatOpenAI(model="fake-chat", base_url=fake_server.base_url, api_key=SecretStr("k"), max_retries=0)


def mode_of(body: Any) -> str:
    return "tool" if body.get("tools") else "schema" if body.get("response_format") else "text"


def modes(server: FakeServer) -> list[str]:
    return [mode_of(request.body) for request in server.requests]


def by_mode(**replies: str | FakeReply) -> Callable[[Any], str | FakeReply]:
    return lambda body: replies[mode_of(body)]


def both(stage: Any) -> list[Extraction]:
    return [stage.invoke(TEXT), run(stage.ainvoke(TEXT))]


def test_by_default_the_records_are_asked_for_as_text(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    fake_server.reply = by_mode(text=RECORDS)
    assert both(GraphExtractor(llm)) == [PLAIN, PLAIN]
    fake_server.reply = by_mode(text=DATA)
    assert both(GraphRAGExtractor(llm)) == [FOUND, FOUND]
    assert set(modes(fake_server)) == {"text"}


@pytest.mark.parametrize("kind", [GraphExtractor, GraphRAGExtractor])
def test_the_models_tool_calling_is_used_with_names_unchanged(
    fake_server: FakeServer, llm: ChatOpenAI, kind: Any
) -> None:
    fake_server.reply = by_mode(tool=FakeReply(tool=DATA))
    assert both(kind(llm, structured=True)) == [FOUND, FOUND]
    (tool,) = fake_server.requests[0].body["tools"]
    assert tool["function"]["name"] == SCHEMA["title"]
    assert tool["function"]["parameters"]["required"] == ["entities", "relationships"]
    assert fake_server.requests[0].body["tool_choice"]["function"]["name"] == SCHEMA["title"]


@pytest.mark.parametrize("refusal", [NO_TOOLS, NO_TOOLS_404])
def test_else_its_json_schema_mode(
    fake_server: FakeServer, llm: ChatOpenAI, refusal: FakeReply, caplog: pytest.LogCaptureFixture
) -> None:
    fake_server.reply = by_mode(tool=refusal, schema=DATA)
    with caplog.at_level(logging.WARNING, "rag_transformers"):
        assert both(GraphExtractor(llm, structured=True)) == [FOUND, FOUND]
    assert modes(fake_server) == ["tool", "schema", "schema"]
    assert fake_server.requests[1].body["response_format"]["json_schema"]["schema"]["required"] == SCHEMA["required"]
    assert caplog.messages == []


def test_else_the_text_after_one_warning(
    fake_server: FakeServer, llm: ChatOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    fake_server.reply = by_mode(tool=NO_TOOLS, schema=NO_SCHEMA, text=RECORDS)
    stage = GraphExtractor(llm, structured=True)
    with caplog.at_level(logging.WARNING, "rag_transformers"):
        assert both(stage) == [PLAIN, PLAIN]
        assert stage.batch([TEXT] * 3) == [PLAIN] * 3
    assert modes(fake_server) == ["tool", "schema", *["text"] * 5]
    assert fake_server.prompts[2] == load_prompt("extract_graph", "en").format(history="", text=TEXT)
    (warning,) = caplog.messages
    assert "no structured output" in warning
    assert "unavailable now" in warning


def test_calls_that_are_refused_at_one_time_warn_once(
    fake_server: FakeServer, llm: ChatOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    meet = threading.Barrier(4, timeout=10)

    def reply(body: Any) -> str | FakeReply:
        if body.get("tools"):
            meet.wait()
        return by_mode(tool=NO_TOOLS, schema=NO_SCHEMA, text=RECORDS)(body)

    fake_server.reply = reply
    with caplog.at_level(logging.WARNING, "rag_transformers"):
        found = GraphExtractor(llm, structured=True).batch([f"{TEXT} {n}" for n in range(4)], {"max_concurrency": 4})
    assert found == [PLAIN] * 4
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("model", [ScriptedChatModel(reply=lambda prompt: RECORDS), RunnableLambda(lambda _: RECORDS)])
def test_a_model_that_offers_no_mode_is_asked_for_text(model: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rag_transformers"):
        assert both(GraphExtractor(model, structured=True)) == [PLAIN, PLAIN]
    (warning,) = caplog.messages
    assert type(model).__name__ in warning


def test_a_bound_models_parameters_are_kept(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    fake_server.reply = by_mode(tool=FakeReply(tool=DATA), text=RECORDS)
    assert GraphExtractor(llm.bind(temperature=0.25), structured=True).invoke(TEXT) == FOUND
    assert fake_server.requests[0].body["temperature"] == 0.25
    fake_server.reply = by_mode(tool=NO_TOOLS, text=RECORDS)
    assert GraphExtractor(llm.bind(temperature=0.25), structured=True).invoke(TEXT) == PLAIN


@pytest.mark.parametrize(
    "failure",
    [
        FakeReply("Your messages and functions exceed the maximum context length.", status=400),
        FakeReply("The response was filtered by the content management policy of the tool.", status=400),
        FakeReply("overloaded: the tool server", status=503),
    ],
)
def test_other_failures_are_the_chunks_and_no_reason_to_change_the_mode(
    fake_server: FakeServer, llm: ChatOpenAI, failure: FakeReply
) -> None:
    fake_server.reply = in_turn(failure, FakeReply(tool=DATA))
    stage = GraphExtractor(llm, structured=True)
    with pytest.raises(ModelError):
        stage.invoke(TEXT)
    assert stage.invoke(TEXT) == FOUND
    assert modes(fake_server) == ["tool", "tool"]


@pytest.mark.parametrize("language", languages())
def test_the_prompt_says_where_the_records_go_and_a_users_own_is_sent_as_it_is(
    fake_server: FakeServer, llm: ChatOpenAI, language: str
) -> None:
    fake_server.reply = by_mode(tool=FakeReply(tool=DATA))
    GraphExtractor(llm, structured=True, language=language).invoke(TEXT)
    GraphExtractor(llm, structured=True, language=language, prompt="Graph of {text}").invoke(TEXT)
    GraphRAGExtractor(llm, structured=True, language=language).invoke(TEXT)
    plain = load_prompt("extract_graph", language).format(history="", text=TEXT)
    assert fake_server.prompts == [
        plain + prompt_text("structured_records", language),
        f"Graph of {TEXT}",
        load_prompt("extract_graph_json", language).format(text=TEXT, max_knowledge_triplets=10),
    ]


# Read item by item.


@pytest.mark.parametrize(
    "reply",
    [
        FakeReply(tool=f'{{"entities": {json.dumps(ENTITIES)},, "relationships": [{json.dumps(TIE)},]}}'),
        FakeReply(tool=f"```json\n{DATA}\n```"),
        FakeReply(f"I need no tool for this.\n{DATA}"),
        FakeReply(f"<think>Which tool?</think>{DATA}"),
        FakeReply("Let me write it down.", tool=DATA),
    ],
)
def test_data_that_is_no_json_or_stands_in_the_text_is_read_all_the_same(
    fake_server: FakeServer, llm: ChatOpenAI, reply: FakeReply
) -> None:
    fake_server.reply = lambda body: reply
    assert both(GraphExtractor(llm, structured=True)) == [FOUND, FOUND]


def test_records_in_the_text_are_read_too(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    fake_server.reply = lambda body: RECORDS
    assert both(GraphExtractor(llm, structured=True)) == [PLAIN, PLAIN]


BAD_ITEM = json.dumps({"entities": [{"entity_name": None}, *ENTITIES], "relationships": [TIE, {"source_entity": "X"}]})


def test_one_bad_item_loses_none_of_the_others(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    fake_server.reply = lambda body: FakeReply(tool=BAD_ITEM)
    with pytest.raises(ReplyError, match="records dropped: 2") as caught:
        GraphExtractor(llm, structured=True).invoke(TEXT)
    assert caught.value.extraction == FOUND


@pytest.mark.parametrize("mode", ["tool", "schema"])
def test_a_cut_reply_keeps_its_whole_items_and_is_asked_for_once_more_in_the_same_mode(
    fake_server: FakeServer, llm: ChatOpenAI, mode: str
) -> None:
    part = DATA[: DATA.index("Kittiwake")]
    cut = FakeReply(tool=part, finish_reason="length") if mode == "tool" else FakeReply(part, finish_reason="length")
    good = FakeReply(tool=DATA) if mode == "tool" else FakeReply(DATA)
    turns = in_turn(cut, good, cut)

    def reply(body: Any) -> str | FakeReply:
        return NO_TOOLS if mode == "schema" and body.get("tools") else turns(body)

    fake_server.reply = reply
    stage = GraphExtractor(llm, structured=True)
    assert stage.invoke(TEXT) == FOUND
    assert modes(fake_server)[-2:] == [mode, mode]
    assert fake_server.prompts[-1] == (
        f"{fake_server.prompts[-2]}\n{part.strip()}\n{load_prompt('reask_json', 'en').format(text=TEXT)}"
    )
    with pytest.raises(ReplyError, match="token limit") as caught:
        stage.invoke(TEXT)
    assert caught.value.finish_reason == "length"
    assert caught.value.extraction is not None
    assert caught.value.extraction.entities == FOUND.entities[:1]


def test_empty_lists_say_that_there_is_nothing(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    fake_server.reply = lambda body: FakeReply(tool='{"entities": [], "relationships": []}')
    assert both(GraphExtractor(llm, structured=True)) == [Extraction(), Extraction()]
    assert len(fake_server.prompts) == 2


@pytest.mark.parametrize("empty", [FakeReply(tool=""), FakeReply(tool="{}"), FakeReply(tool="null")])
def test_a_call_without_data_is_no_empty_result(fake_server: FakeServer, llm: ChatOpenAI, empty: FakeReply) -> None:
    fake_server.reply = lambda body: empty
    with pytest.raises(ReplyError):
        GraphExtractor(llm, structured=True).invoke(TEXT)


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (FakeReply(None, refusal="I will not."), "refused: I will not"),
        (FakeReply("", finish_reason="content_filter"), "filter"),
    ],
)
def test_a_refusal_and_a_content_filter_are_told_as_ever(
    fake_server: FakeServer, llm: ChatOpenAI, reply: FakeReply, what: str
) -> None:
    fake_server.reply = lambda body: reply
    with pytest.raises(ReplyError, match=what):
        GraphExtractor(llm, structured=True).invoke(TEXT)


def test_the_cap_is_kept_in_this_mode_too(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    many = [{**TIE, "relation": f"r{n}"} for n in range(20)]
    fake_server.reply = lambda body: FakeReply(tool=json.dumps({"entities": ENTITIES, "relationships": many}))
    assert len(GraphRAGExtractor(llm, structured=True, max_paths_per_chunk=3).invoke(TEXT).relationships) == 3


def test_it_is_gleaned_in_the_same_mode(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    more = json.dumps({"entities": [{"entity_name": "Gull Quay", "entity_type": "place"}], "relationships": []})
    none = '{"entities": [], "relationships": []}'
    fake_server.reply = in_turn(FakeReply(tool=DATA), FakeReply(tool=more), FakeReply(tool=none))
    found = GraphExtractor(llm, structured=True, max_gleanings=5).invoke(TEXT)
    assert found.entities == (*FOUND.entities, ("Gull Quay", ""))
    assert found.types == ("person", "ferry", "place")
    assert modes(fake_server) == ["tool"] * 3


# The whole.


def test_an_index_takes_it_with_types_usage_and_limit(tmp_path: Any, fake_server: FakeServer, llm: ChatOpenAI) -> None:
    fake_server.reply = lambda body: FakeReply(tool=DATA, hang=0.02)
    documents = [Document(f"{TEXT} {n}", metadata={"source": f"log-{n}"}) for n in range(6)]
    stage = GraphExtractor(llm, structured=True)
    with GraphIndex.open(tmp_path / "index", extractor=stage, concurrency=2) as index:
        report = index.add(documents)
        assert report.failed == ()
        assert report.usage.calls == len(fake_server.prompts) == 6
        assert report.usage.prompt_tokens == sum(len(prompt.encode()) for prompt in fake_server.prompts)
        assert fake_server.peak <= 2
        vertex = index.graph.get_vertex("Kittiwake")
        assert vertex is not None
        assert vertex.props["type"] == "ferry"


def test_a_server_without_tools_does_not_stop_a_run(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    fake_server.reply = by_mode(tool=NO_TOOLS_404, schema=NO_SCHEMA, text=RECORDS)
    with Run(1).active() as active:
        assert GraphExtractor(llm, structured=True).invoke(TEXT) == PLAIN
    assert active.stopped is None
    assert active.usage.calls == 1


def test_callbacks_see_the_model_call_under_the_stages_name(fake_server: FakeServer, llm: ChatOpenAI) -> None:
    seen: list[str] = []
    names: dict[Any, str] = {}

    class Watch(BaseCallbackHandler):
        def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **kwargs: Any) -> None:
            names[run_id] = kwargs["name"]

        def on_chat_model_start(self, serialized: Any, messages: Any, *, parent_run_id: Any = None, **_: Any) -> None:
            seen.append(names[parent_run_id])

    fake_server.reply = lambda body: FakeReply(tool=DATA)
    GraphExtractor(llm, structured=True).invoke(TEXT, {"callbacks": [Watch()]})
    assert seen == ["GraphExtractor"]


def test_it_is_part_of_the_key(llm: ChatOpenAI) -> None:
    for kind in (GraphExtractor, GraphRAGExtractor):
        assert kind(llm, structured=True).cache_key != kind(llm).cache_key


def test_an_extractor_that_reads_in_its_own_way_refuses_it(llm: ChatOpenAI) -> None:
    class Own(GraphExtractor):
        def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
            return Extraction([(text, "")])

    with pytest.raises(UsageError, match=r"Own reads replies in its own way.*structured"):
        Own(llm, structured=True)


def test_a_mode_is_given_up_once_however_many_calls_it_refused(llm: ChatOpenAI) -> None:
    modes = StructuredModel(llm)
    first = modes.model
    assert first is not None
    for _ in range(5):
        modes.give_up(first, ModelError("no tools"))
    assert modes.model not in (None, first)
