"""Servers that are not OpenAI's: what Ollama, vLLM, DeepSeek, DashScope and Azure do otherwise, played by the fake."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer
from langchain_core.documents import Document
from langchain_openai import AzureChatOpenAI, ChatOpenAI

from rag_transformers import GraphExtractor, GraphIndex, cli
from rag_transformers.concurrency import run
from rag_transformers.errors import ContextOverflowError, ModelError, ModelUnreachableError, ReplyError
from rag_transformers.models.calls import acall, astream, call, stream
from rag_transformers.models.reading import Reply
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


def test_an_unknown_model_is_told_as_such(fake_server: FakeServer) -> None:
    fake_server.models = ["other"]
    with pytest.raises(ModelUnreachableError, match=r"\(404\): .*`fake-chat` does not exist"):
        call(client(fake_server), "Who?")


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
