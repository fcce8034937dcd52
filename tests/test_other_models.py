"""Servers that are not OpenAI's: what Ollama, vLLM, DeepSeek, DashScope and Azure do otherwise, played by the fake."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer
from langchain_core.documents import Document
from langchain_core.output_parsers import JsonOutputParser
from langchain_openai import AzureChatOpenAI, ChatOpenAI

from rag_transformers import Answer, GraphExtractor, GraphIndex, cli
from rag_transformers.concurrency import run
from rag_transformers.errors import ContextOverflowError, ModelError, ModelUnreachableError, ReplyError
from rag_transformers.models.calls import acall, astream, call, stream
from rag_transformers.models.given import model_key
from rag_transformers.models.openai_chat import ForgivingChatOpenAI
from rag_transformers.models.parameters import with_parameters
from rag_transformers.models.reading import Reply
from rag_transformers.models.run import Usage
from rag_transformers.models.servers import chat_model, embedding_model

RECORDS = "Entities:\n(Ada Moss#Founder)\n(Grain Trust#)\nRelationships:\n(Ada Moss#founded#Grain Trust#)"
TEXT = "Ada Moss founded Grain Trust."


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")


def client(server: FakeServer, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model="fake-chat", base_url=server.base_url, max_retries=0, **options)


async def streamed(llm: Any) -> list[str | Reply]:
    return [piece async for piece in astream(llm, "Who?")]


@pytest.mark.parametrize(
    "reply",
    [
        FakeReply("Ada.", reasoning="Could it be Bo?"),  # DeepSeek, vLLM with a parser
        FakeReply("<think>\nCould it be Bo?\n</think>\n\nAda."),  # Ollama, vLLM without one
        FakeReply("Could it be Bo?\n</think>\n\nAda."),  # where the template opens the block
        FakeReply("<think>\n\n</think>\n\nAda."),  # Qwen3 that was told not to think
        FakeReply("Ada.\n<think>\nCould it be Bo?"),  # never closed
    ],
)
def test_reasoning_beside_the_content_or_in_it_is_left_out_in_streams_too(
    fake_server: FakeServer, reply: FakeReply
) -> None:
    fake_server.reply = lambda body: reply
    llm = client(fake_server)
    assert [call(llm, "Who?").text, run(acall(llm, "Who?")).text] == ["Ada.", "Ada."]
    for *pieces, whole in (list(stream(llm, "Who?")), run(streamed(llm))):
        assert isinstance(whole, Reply)
        assert whole.text == "Ada."
        assert "".join(map(str, pieces)).endswith("Ada.")


def test_reasoning_that_took_all_tokens_is_no_empty_answer(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply(None, "length", reasoning="Let me think about")
    with pytest.raises(ReplyError, match=r"the reply is empty \(finish_reason 'length'\)"):
        call(client(fake_server), "Who?")


def test_reasoning_that_is_never_closed_is_no_answer_and_holds_no_records(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply(f"<think>\nI could write:\n{RECORDS}", "length")
    llm, told = client(fake_server), r"the reply holds reasoning only \(finish_reason 'length'\)"
    for ask in (lambda: GraphExtractor(llm).invoke(TEXT), lambda: call(llm, "Who?"), lambda: list(stream(llm, "Who?"))):
        with pytest.raises(ReplyError, match=told):
            ask()
    shown: list[Any] = []
    with pytest.raises(ReplyError, match=told):
        shown.extend(stream(llm, "Who?"))
    assert shown == []


def test_an_answer_that_is_streamed_without_usage_counts_its_call(fake_server: FakeServer, tmp_path: Path) -> None:
    """Also where the server refuses to be asked for it, which ChatOpenAI does only when it is told to."""

    def answered(body: dict[str, Any]) -> FakeReply:
        if "stream_options" in body:
            return FakeReply("Unknown parameter: stream_options", status=400)
        return FakeReply("Ada Moss did. [1]" if body.get("stream") else RECORDS, usage=False)

    fake_server.reply = answered
    with GraphIndex.open(tmp_path, llm=client(fake_server), reports=False) as index:
        index.add([Document(TEXT, metadata={"source": "a"})])
        for *pieces, answer in (list(index.stream("Who founded Grain Trust?")), run(answer_of(index))):
            assert "".join(map(str, pieces)).startswith("Ada Moss did.")
            assert isinstance(answer, Answer)
            assert answer.usage == Usage(calls=1)
            assert str(answer.usage) == "1 call, tokens not told by the server"


async def answer_of(index: GraphIndex) -> list[Any]:
    return [piece async for piece in index.astream("Who founded Grain Trust?")]


@pytest.mark.parametrize("told", [True, False])
def test_usage_in_streams_is_counted_where_it_is_asked_for_and_told(fake_server: FakeServer, told: bool) -> None:
    fake_server.reply = lambda body: FakeReply("Ada.", usage=told)
    *_, whole = stream(client(fake_server, stream_usage=True), "Who?")
    assert isinstance(whole, Reply)
    assert whole.usage.calls == 1
    assert (whole.usage.completion_tokens > 0) is told


def test_a_server_that_refuses_stream_options_is_not_sent_any(fake_server: FakeServer) -> None:
    def reply(body: dict[str, Any]) -> str | FakeReply:
        return FakeReply("Unknown parameter: stream_options", status=400) if "stream_options" in body else "Ada."

    fake_server.reply = reply
    assert next(iter(stream(chat_model("fake-chat", fake_server.base_url), "Who?"))) == "Ada."


def test_a_prompt_that_was_cut_without_a_word_is_named_as_the_cause(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply("How can I help you today?", prompt_tokens=64)
    extractor = GraphExtractor(client(fake_server))
    with pytest.raises(ContextOverflowError, match=r"the server read 64 tokens of a prompt of about \d+, .*num_ctx"):
        extractor.invoke(TEXT)


@pytest.mark.parametrize("refused", ["tools", "response_format"])
def test_a_server_without_tools_or_schemas_is_asked_for_text(fake_server: FakeServer, refused: str) -> None:
    def reply(body: dict[str, Any]) -> str | FakeReply:
        if "tools" in body or "response_format" in body:
            return FakeReply(f"fake-chat does not support {refused}", status=400)
        return RECORDS

    fake_server.reply = reply
    found = GraphExtractor(client(fake_server), structured=True).invoke(TEXT)
    assert [name for name, _ in found.entities] == ["Ada Moss", "Grain Trust"]


def test_an_address_without_v1_is_told_what_may_be_missing(fake_server: FakeServer) -> None:
    llm = chat_model("fake-chat", fake_server.base_url.removesuffix("/v1"))
    with pytest.raises(ModelUnreachableError, match=r"\(404; most addresses end in /v1\)"):
        call(llm, "Who?")


# A web page where data should be.

PAGE = "<!DOCTYPE html>\n<html><body>Open WebUI</body></html>"


@pytest.mark.parametrize("kind", ["application/json", "text/html; charset=utf-8"])
def test_a_web_page_is_told_as_such_and_asked_for_once(fake_server: FakeServer, tmp_path: Path, kind: str) -> None:
    fake_server.reply = lambda body: FakeReply(body=PAGE, headers={"Content-Type": kind})
    llm = chat_model("fake-chat", fake_server.base_url)
    told = r"^a web page came instead of data \(\w+\): is it the address of an API\? most end in /v1(\n|$)"
    asks: list[Any] = [lambda: call(llm, "Who?"), lambda: run(acall(llm, "Who?"))]
    for ask in asks:
        with pytest.raises(ModelUnreachableError, match=told):
            ask()
    assert len(fake_server.prompts) == 2
    with pytest.raises(ModelError, match=r"most end in /v1"):  # of a page, a stream keeps nothing
        list(stream(llm, "Who?"))
    with (
        GraphIndex.open(tmp_path, llm=llm, reports=False, concurrency=2) as index,
        pytest.raises(ModelUnreachableError, match=told),
    ):
        index.add([Document(f"Mill {number} burned.", metadata={"source": str(number)}) for number in range(9)])
    assert len(fake_server.prompts) <= 2 + 1 + 2, "a run whose address is wrong is asked no more"


@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_a_web_page_instead_of_vectors_is_told_as_such(fake_server: FakeServer, tmp_path: Path, kind: str) -> None:
    fake_server.embed = lambda body: FakeReply(body=PAGE, headers={"Content-Type": kind})
    embeddings = embedding_model("e", fake_server.base_url)
    with (
        GraphIndex.open(tmp_path, embeddings=embeddings) as index,
        pytest.raises(ModelError, match=r"embeddings failed: .*is it the address of an API\? most end in /v1"),
    ):
        index.add([Document(TEXT, metadata={"source": "a"})])
    assert len(fake_server.requests) == 1


def test_a_page_that_a_model_wrote_is_not_taken_for_the_servers(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: PAGE
    with pytest.raises(ModelError) as caught:
        call(client(fake_server) | JsonOutputParser(), "Who?")
    assert not isinstance(caught.value, ModelUnreachableError)


def test_an_unknown_model_is_told_as_such(fake_server: FakeServer) -> None:
    fake_server.models = ["other"]
    with pytest.raises(ModelUnreachableError, match=r"\(404\): .*`fake-chat` does not exist"):
        call(client(fake_server), "Who?")


# A model that takes no temperature, under a name that does not tell.

UNSUPPORTED = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is supported."


class NoTemperature:
    """A server's answers; the first ``together`` calls come before any of them is answered."""

    def __init__(self, together: int = 1) -> None:
        self.refused = 0
        self._lock = threading.Lock()
        self._first = [threading.Barrier(together, timeout=20)]

    def __call__(self, body: dict[str, Any]) -> str | FakeReply:
        if "temperature" not in body:
            return "Ada." if body.get("stream") else RECORDS
        with self._lock:
            self.refused += 1
        self._first[0].wait()
        return FakeReply(UNSUPPORTED, status=400, code="unsupported_value")


def test_a_refused_temperature_is_left_out_and_costs_no_more_calls_than_are_in_flight(
    fake_server: FakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was made is found again where it is taken, and the other way round."""
    texts = [Document(f"{number} {TEXT}", metadata={"source": str(number)}) for number in range(24)]
    fake_server.reply = script = NoTemperature(together=8)
    with GraphIndex.open(tmp_path, llm=chat_model("chat", fake_server.base_url), reports=False, concurrency=8) as index:
        report = index.add(texts)
    assert (report.failed, report.extracted) == ((), 24)
    assert script.refused == 8
    assert fake_server.peak <= 8
    (warning,) = (record.message for record in caplog.records if "temperature" in record.message)
    assert warning.startswith("the model does not take temperature, which is left out from now on; ")
    assert warning.endswith(UNSUPPORTED)
    fake_server.requests.clear()
    fake_server.reply = lambda body: RECORDS
    taking = ChatOpenAI(model="chat", base_url=fake_server.base_url, max_retries=0, temperature=0)
    with GraphIndex.open(tmp_path, llm=taking, reports=False) as index:
        assert index.add([*texts, Document(TEXT, metadata={"source": "new"})]).failed == ()
    assert len(fake_server.prompts) == 1


def test_it_is_left_out_of_every_kind_of_call(fake_server: FakeServer) -> None:
    kinds: list[Any] = [
        lambda llm: call(llm, "Who?").text,
        lambda llm: run(acall(llm, "Who?")).text,
        lambda llm: next(iter(stream(llm, "Who?"))),
        lambda llm: run(streamed(llm))[0],
        lambda llm: call(with_parameters(llm, {"max_tokens": 9}), "Who?").text,
        lambda llm: run(acall(with_parameters(llm, {"temperature": 0.5, "seed": 1}), "Who?")).text,
    ]
    for ask in kinds:
        fake_server.reply = script = NoTemperature()
        llm = chat_model("chat", fake_server.base_url)
        key = model_key(llm)
        assert [ask(llm) in ("Ada.", RECORDS) for _ in range(3)] == [True] * 3
        assert script.refused <= 4  # a stage's own temperature, in each of three stages, and the model's
        assert "temperature" not in fake_server.requests[-1].body
        assert model_key(llm) == key


def test_its_key_is_that_of_the_client_it_stands_for() -> None:
    options: dict[str, Any] = {"model": "chat", "base_url": "http://127.0.0.1:9/v1", "max_retries": 0}
    for more in ({}, {"temperature": 0}, {"temperature": 0.7, "seed": 3}):
        own = ForgivingChatOpenAI(**options, **more)
        assert model_key(own) == model_key(ChatOpenAI(**options, **more))
        assert model_key(own.bind(stop=["x"])) == model_key(ChatOpenAI(**options, **more).bind(stop=["x"]))
    taking = chat_model("chat", "http://127.0.0.1:9/v1")
    assert model_key(taking) == model_key(ChatOpenAI(**options, temperature=0))


def test_a_temperature_that_was_asked_for_by_the_call_is_no_matter_of_the_model(fake_server: FakeServer) -> None:
    fake_server.reply = NoTemperature()
    with pytest.raises(ModelError, match="temperature"):
        call(chat_model("chat", fake_server.base_url), "Who?", temperature=0.5)
    assert len(fake_server.prompts) == 1


def test_other_refusals_are_not_taken_for_it(fake_server: FakeServer) -> None:
    for status in (400, 500):
        fake_server.reply = lambda body, status=status: FakeReply(  # type: ignore[misc]
            "no temper" if status == 400 else UNSUPPORTED, status=status
        )
        fake_server.requests.clear()
        with pytest.raises(ModelError):
            call(chat_model("chat", fake_server.base_url, max_retries=0), "Who?")
        assert ["temperature" in request.body for request in fake_server.requests] == [True]


# DashScope's embeddings.


def ten_at_most(body: dict[str, Any]) -> FakeReply | None:
    if len(body["input"]) > 10:
        return FakeReply("batch size is invalid, it should not be larger than 10.", status=400)
    return FakeReply("encoding_format should be float", status=400) if body.get("encoding_format") != "float" else None


def test_embeddings_are_asked_for_in_batches_of_the_size_that_is_set_as_plain_numbers(
    fake_server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_server.embed = ten_at_most
    (tmp_path / "a.txt").write_text("\n".join(f"Mill {n} stands at Pier {n}." for n in range(40)), encoding="utf-8")
    where = ["index", str(tmp_path / "a.txt"), "--base-url", fake_server.base_url, "--embedding-model", "e"]
    assert cli.main([*where, "--out", str(tmp_path / "i"), "--embedding-batch-size", "10"]) == 0
    assert cli.main([*where, "--out", str(tmp_path / "j")]) == 2
    assert "should not be larger than 10" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main([*where, "--out", str(tmp_path / "k"), "--embedding-batch-size", "0"])
    assert len(embedding_model("e", fake_server.base_url, batch_size=10).embed_documents(["a"] * 25)) == 25


# Azure.


def azure(server: FakeServer) -> AzureChatOpenAI:
    endpoint = server.base_url.removesuffix("v1")
    where = {"azure_endpoint": endpoint, "azure_deployment": "chat", "api_version": "2024-10-21"}
    return AzureChatOpenAI(**where, api_key="test", max_retries=0)  # type: ignore[arg-type]


def test_azure_is_asked_by_deployment_version_and_key(fake_server: FakeServer, tmp_path: Path) -> None:
    fake_server.api_key = "test"
    fake_server.reply = lambda body: RECORDS
    with GraphIndex.open(tmp_path, llm=azure(fake_server), reports=False) as index:
        report = index.add([Document(TEXT, metadata={"source": "a"})])
    assert (report.failed, report.vertices, report.usage.calls) == ((), 2, 1)
    (request,) = fake_server.requests
    assert request.path == "/openai/deployments/chat/chat/completions?api-version=2024-10-21"
    assert request.headers["api-key"] == "test"


def test_what_azures_filter_refuses_fails_for_its_chunk_alone(fake_server: FakeServer) -> None:
    message = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
    error = {"error": {"message": message, "code": "content_filter", "status": 400, "innererror": inner}}
    fake_server.reply = lambda body: FakeReply(status=400, body=json.dumps(error))
    with pytest.raises(ReplyError, match="content filter refused the prompt") as caught:
        call(azure(fake_server), "Who?")
    assert caught.value.finish_reason == "content_filter"
    fake_server.reply = lambda body: FakeReply("Ada", "content_filter")
    with pytest.raises(ReplyError, match="content filter stopped the reply"):
        call(azure(fake_server), "Who?")


def test_a_wrong_deployment_stops_the_run(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply(
        "The API deployment for this resource does not exist.", status=404, code="DeploymentNotFound"
    )
    with pytest.raises(ModelError, match="DeploymentNotFound"):
        call(azure(fake_server), "Who?")
