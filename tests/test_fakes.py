"""The fakes that other tests stand on, tried with the real clients, and the refusal of the real network."""

import asyncio
import os
import socket
import time

import openai
import pytest
from fake_server import FakeReply, FakeServer, in_turn, prompt_of
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import SecretStr
from scripted_model import ScriptedChatModel, hash_reply, prompt_hash, stage_reply


def chat(server: FakeServer, retries: int = 0, timeout: float | None = None, key: str = "test-key") -> ChatOpenAI:
    return ChatOpenAI(
        model="fake-chat", base_url=server.base_url, api_key=SecretStr(key), max_retries=retries, timeout=timeout
    )


def test_reply_is_a_function_of_the_prompt(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: prompt_of(body)[::-1]
    message = chat(fake_server).invoke([("system", "甲"), ("human", "abc")])
    assert message.text == "cba\n甲"
    assert message.response_metadata["finish_reason"] == "stop"
    assert message.usage_metadata is not None
    assert message.usage_metadata["input_tokens"] == len("甲\nabc".encode())
    assert fake_server.prompts == ["甲\nabc"]
    assert fake_server.requests[0].headers["authorization"] == "Bearer test-key"
    assert fake_server.requests[0].body["model"] == "fake-chat"


async def test_calls_in_flight_are_counted(fake_server: FakeServer) -> None:
    fake_server.latency = 0.2
    llm = chat(fake_server)
    await llm.abatch([f"prompt {number}" for number in range(12)], {"max_concurrency": 5})
    assert fake_server.peak == 5
    assert sorted(fake_server.prompts) == sorted(f"prompt {number}" for number in range(12))


async def test_stream_gives_the_same_text_and_finish_reason(fake_server: FakeServer) -> None:
    text = "一段很长的回答，不止一个片段。" * 5
    fake_server.reply = lambda body: FakeReply(text, finish_reason="length")
    pieces = list(chat(fake_server).stream("q"))
    assert "".join(piece.text for piece in pieces) == text
    assert len(pieces) > 5
    assert [
        piece.response_metadata["finish_reason"] for piece in pieces if piece.response_metadata.get("finish_reason")
    ]
    assert "".join([piece.text async for piece in chat(fake_server).astream("q")]) == text


def test_faults_reach_the_client(fake_server: FakeServer) -> None:
    llm = chat(fake_server)
    fake_server.reply = lambda body: FakeReply("slow down", status=429, headers={"Retry-After": "7"}, code="rate_limit")
    with pytest.raises(openai.RateLimitError, match="slow down") as caught:
        llm.invoke("q")
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.code == "rate_limit"
    fake_server.reply = lambda body: FakeReply(reset=True)
    with pytest.raises(openai.APIConnectionError):
        llm.invoke("q")
    fake_server.reply = lambda body: FakeReply("long enough to be streamed in two", reset=True)
    pieces = llm.stream("q")
    assert [next(pieces).text, next(pieces).text] == ["", "long enough to b"]
    with pytest.raises(openai.APIConnectionError):
        next(pieces)
    fake_server.reply = lambda body: FakeReply(hang=30)
    with pytest.raises(openai.APITimeoutError):
        chat(fake_server, timeout=0.2).invoke("q")
    fake_server.reply = lambda body: FakeReply(body='{"choices": [')
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        llm.invoke("q")
    fake_server.reply = lambda body: FakeReply(choices=False)
    with pytest.raises((TypeError, IndexError, ValueError)):
        llm.invoke("q")


def test_odd_replies_reach_the_client(fake_server: FakeServer) -> None:
    llm = chat(fake_server)
    fake_server.reply = in_turn(
        FakeReply(None, refusal="I will not."),
        FakeReply("one text", blocks=True),
        FakeReply("no numbers", usage=False, finish_reason="content_filter"),
    )
    refused, blocks, unmetered = (llm.invoke("q") for _ in range(3))
    assert (refused.content, refused.additional_kwargs["refusal"]) == ("", "I will not.")
    assert isinstance(blocks.content, list)
    assert blocks.text == "one text"
    assert unmetered.usage_metadata is None
    assert unmetered.response_metadata["finish_reason"] == "content_filter"


def test_a_call_of_the_tool_that_was_offered_and_blocks_of_ones_own_reach_the_client(fake_server: FakeServer) -> None:
    llm = chat(fake_server)
    tools = llm.bind_tools([{"title": "names", "description": "All names", "type": "object", "properties": {}}])
    fake_server.reply = in_turn(FakeReply(tool='{"names": []}'), FakeReply(tool='{"na', finish_reason="length"))
    whole, cut = tools.invoke("q"), tools.invoke("q")
    assert [call["name"] for call in whole.tool_calls] == ["names"]
    assert whole.response_metadata["finish_reason"] == "tool_calls"
    assert [call["args"] for call in cut.invalid_tool_calls] == ['{"na']
    assert cut.response_metadata["finish_reason"] == "length"
    fake_server.reply = lambda body: FakeReply(blocks=[{"type": "text", "text": "one"}], prompt_tokens=7)
    own = llm.invoke("q")
    assert own.content == [{"type": "text", "text": "one"}]
    assert own.usage_metadata is not None
    assert own.usage_metadata["input_tokens"] == 7


def test_a_client_that_tries_again_gets_the_next_reply(fake_server: FakeServer) -> None:
    fake_server.reply = in_turn(FakeReply(status=503, headers={"retry-after-ms": "1"}), "the answer")
    assert chat(fake_server, retries=2).invoke("q").text == "the answer"
    assert len(fake_server.prompts) == 2


def test_unknown_model_and_wrong_key_are_refused() -> None:
    with FakeServer(models=["other"]) as server, pytest.raises(openai.NotFoundError, match="fake-chat"):
        chat(server).invoke("q")
    with FakeServer(api_key="right") as server:
        with pytest.raises(openai.AuthenticationError):
            chat(server, key="wrong").invoke("q")
        assert server.environment["OPENAI_API_KEY"] == "right"
        assert chat(server, key="right").invoke("q").text == "ok"


def test_embeddings_are_alike_for_texts_that_share_words(fake_server: FakeServer) -> None:
    embeddings = OpenAIEmbeddings(
        model="fake-embedding",
        base_url=fake_server.base_url,
        api_key=SecretStr("test-key"),
        check_embedding_ctx_length=False,
        max_retries=0,
    )
    mill, mill_again, other, water = embeddings.embed_documents(["the old mill", "the old mill", "青石镇的水", "水"])
    assert len(mill) == 64
    assert mill == mill_again
    assert sum(a * b for a, b in zip(other, water, strict=True)) > 0.3
    assert sum(value * value for value in mill) == pytest.approx(1.0, abs=1e-6)
    fake_server.embed = lambda body: FakeReply("no quota", status=429) if "x" in body["input"] else None
    with pytest.raises(openai.RateLimitError):
        embeddings.embed_query("x")


def test_an_error_of_the_script_is_not_lost() -> None:
    def broken(body: dict[str, object]) -> str:
        raise KeyError("no such reply")

    server = FakeServer(broken)
    with pytest.raises(KeyError, match="no such reply"), server:  # noqa: SIM117
        with pytest.raises(openai.InternalServerError):
            chat(server).invoke("q")


def test_a_hanging_request_does_not_keep_the_server_from_stopping() -> None:
    started = time.monotonic()
    with FakeServer(lambda body: FakeReply(hang=60)) as server, pytest.raises(openai.APITimeoutError):
        chat(server, timeout=0.1).invoke("q")
    assert time.monotonic() - started < 10


async def test_scripted_model_is_the_same_sync_and_async_and_counts_what_is_in_flight() -> None:
    model = ScriptedChatModel(reply=hash_reply, delay=0.05)
    prompts: list[LanguageModelInput] = [f"text {number}" for number in range(8)]
    messages = await model.abatch(prompts, {"max_concurrency": 4})
    assert model.peak == 4
    assert [message.text for message in messages] == [hash_reply(str(prompt)) for prompt in prompts]
    assert [message.text for message in await asyncio.to_thread(model.batch, prompts)] == [m.text for m in messages]
    assert sorted(model.prompts) == sorted(str(prompt) for prompt in 2 * prompts)
    bound = model.bind(max_tokens=50).invoke("q")
    assert model.calls[-1].settings == {"max_tokens": 50}
    assert bound.response_metadata["finish_reason"] == "stop"


def test_scripted_model_raises_or_gives_a_message_as_told() -> None:
    replies: list[Exception | AIMessage] = [TimeoutError("too slow"), AIMessage(content="", response_metadata={"a": 1})]
    model = ScriptedChatModel(reply=lambda prompt: replies.pop(0))
    with pytest.raises(TimeoutError, match="too slow"):
        model.invoke("q")
    assert model.invoke("q").response_metadata["a"] == 1


@given(st.text(), st.text())
def test_other_prompts_get_other_replies(one: str, other: str) -> None:
    for reply in (hash_reply, stage_reply):
        assert (reply(one) == reply(other)) == (one == other)


def test_reply_does_not_depend_on_the_process() -> None:
    assert prompt_hash("same") == "5bf1936c"


def test_the_real_network_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"tried to reach api\.openai\.com"):
        socket.create_connection(("api.openai.com", 443))
    with pytest.raises((RuntimeError, UserWarning), match=r"203\.0\.113\.1"):
        socket.create_connection(("203.0.113.1", 443))
    with pytest.raises(socket.gaierror):
        socket.create_connection(("models.invalid", 443))


def test_no_variable_of_the_users_is_seen() -> None:
    assert [name for name in os.environ if name.startswith(("OPENAI_", "LANGSMITH_"))] == []


def test_token_tables_are_there_only_for_a_test_that_asks(token_tables: str) -> None:
    assert os.environ["TIKTOKEN_CACHE_DIR"] == token_tables


def test_token_tables_are_hidden_otherwise() -> None:
    assert not os.path.exists(os.environ["TIKTOKEN_CACHE_DIR"])
