"""One home for model calls: what a reply is, what is none, whose fault a failure is, and what names a model."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer, in_turn
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from scripted_model import ScriptedChatModel

from rag_transformers.concurrency import run
from rag_transformers.errors import ModelError, ModelUnreachableError, ReplyError, UsageError
from rag_transformers.models.calls import acall, call
from rag_transformers.models.faults import error_line
from rag_transformers.models.given import model_key, resolve_llm
from rag_transformers.models.reading import Reply, read_message
from rag_transformers.models.run import Run, Usage
from rag_transformers.models.servers import chat_model, embedding_model

KEY = "sk-test-0123456789abcdef"


def client(server: FakeServer, **options: Any) -> ChatOpenAI:
    settings: dict[str, Any] = {"model": "fake-chat", "api_key": KEY, "max_retries": 0, **options}
    return ChatOpenAI(base_url=server.base_url, **settings)


def both(llm: Runnable[Any, Any], prompt: str = "Who?") -> list[Reply]:
    """The replies to a call and to an awaited call."""
    return [call(llm, prompt), run(acall(llm, prompt))]


def failures(llm: Runnable[Any, Any]) -> list[ModelError]:
    """The errors of a call and of an awaited call."""
    errors: list[ModelError] = []
    asks: list[Callable[[], Reply]] = [lambda: call(llm, "Who?"), lambda: run(acall(llm, "Who?"))]
    for ask in asks:
        with pytest.raises(ModelError) as caught:
            ask()
        errors.append(caught.value)
    return errors


# What a reply is.


def test_text_blocks_are_joined_in_their_order_and_reasoning_is_left_out() -> None:
    content: list[str | dict[Any, Any]] = [
        {"type": "reasoning", "reasoning": "Entities: (Wrong#no)"},
        {"type": "thinking", "thinking": "(Wrong#no)"},
        {"type": "text", "text": "Entities:\n(Holt Dairy#Cheese maker)\n"},
        "Relationships:\n",
        {"type": "text", "text": "(Holt Dairy#supplies#Market#Weekly)"},
    ]
    expected = "Entities:\n(Holt Dairy#Cheese maker)\nRelationships:\n(Holt Dairy#supplies#Market#Weekly)"
    assert read_message(AIMessage(content=content)).text == expected


def test_reasoning_inside_the_text_is_removed() -> None:
    assert read_message(AIMessage("<think>\nMerge both.\n</think>\n\nOrin Fell weaves.")).text == "Orin Fell weaves."


def test_a_plain_text_is_a_reply() -> None:
    assert both(RunnableLambda(lambda prompt: f"<think>…</think> {prompt} ")) == [Reply("Who?")] * 2


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "length"},
        {"stop_reason": "max_tokens"},
        {"finish_reason": "MAX_TOKENS"},
        {"done_reason": "length"},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    ],
)
def test_a_cut_reply_says_so_whatever_the_providers_word(metadata: dict[str, Any]) -> None:
    reply = read_message(AIMessage("(Fen Mill#Water", response_metadata=metadata))
    assert (reply.cut, reply.finish_reason) == (True, "length")


def test_a_whole_reply_keeps_its_finish_reason() -> None:
    reply = read_message(AIMessage("fine", response_metadata={"finish_reason": "stop"}))
    assert (reply.cut, reply.finish_reason) == (False, "stop")


def test_tokens_are_those_that_the_server_counted() -> None:
    usage = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
    assert read_message(AIMessage("fine", usage_metadata=usage)).usage == Usage(1, 12, 3)
    assert read_message(AIMessage("fine")).usage == Usage(1)


# What a failure says.


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (FakeReply("boom", status=500), "the server failed, asked 3 times: Error code: 500 - boom"),
        (FakeReply("", status=502, body=""), "the server failed, asked 3 times: Error code: 502"),
        (FakeReply("slow", status=429), "the rate limit is reached, asked 3 times: Error code: 429 - slow"),
        (FakeReply("no", status=401), "the server refused the key (401): Error code: 401 - no; check OPENAI_API_KEY"),
    ],
)
@pytest.mark.parametrize("ours", [True, False], ids=["asked again by us", "by the client"])
def test_a_failure_says_how_often_it_was_met_and_what_helps(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, reply: FakeReply, said: str, ours: bool
) -> None:
    monkeypatch.setattr("rag_transformers.models.faults._FIRST_WAIT", 0.001)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    fake_server.reply = lambda body: reply
    llm = chat_model("m", fake_server.base_url, max_retries=2) if ours else client(fake_server, max_retries=2)
    assert [str(error) for error in failures(llm)] == [said] * 2


def test_where_nothing_is_known_of_the_key_no_variable_is_named() -> None:
    class Refused(Exception):
        status_code = 403

    assert str(failures(RunnableLambda(lambda _: _raise(Refused("not you"))))[0]).endswith("not you; check the key")


def _raise(error: Exception) -> None:
    raise error


# What is none.


@pytest.mark.parametrize("content", ["", " \n\t", [], [{"type": "image", "url": "x"}]])
def test_an_empty_reply_is_an_error(content: Any) -> None:
    with pytest.raises(ReplyError, match="empty"):
        read_message(AIMessage(content=content))


def test_a_reply_of_reasoning_only_is_an_error_that_keeps_it() -> None:
    message = AIMessage("<think>All of it.</think>", response_metadata={"finish_reason": "length"})
    with pytest.raises(ReplyError, match=r"reasoning only.*length") as caught:
        read_message(message)
    assert (caught.value.reply, caught.value.finish_reason) == ("<think>All of it.</think>", "length")


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"refusal": "I cannot help with that."}),
        AIMessage([{"type": "refusal", "refusal": "I cannot help with that."}]),
        AIMessage("I cannot help with that.", response_metadata={"stop_reason": "refusal"}),
    ],
)
def test_a_refusal_is_an_error_with_its_words(message: AIMessage) -> None:
    with pytest.raises(ReplyError, match=r"refused: I cannot help"):
        read_message(message)


@pytest.mark.parametrize("word", ["content_filter", "SAFETY", "PROHIBITED_CONTENT", "guardrail_intervened"])
def test_a_filtered_reply_is_an_error_even_where_it_holds_text(word: str) -> None:
    with pytest.raises(ReplyError, match="content filter") as caught:
        read_message(AIMessage("Half a sen", response_metadata={"finish_reason": word}))
    assert (caught.value.reply, caught.value.finish_reason) == ("Half a sen", "content_filter")


@pytest.mark.parametrize("answer", [None, 5, {"text": "fine"}])
def test_what_is_no_message_is_an_error_that_names_its_type(answer: Any) -> None:
    for error in failures(RunnableLambda(lambda prompt: answer)):
        assert type(answer).__name__ in str(error)


# Over HTTP.


def test_a_reply_comes_over_http_with_its_usage(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply("Ada founded it.", finish_reason="length")
    for reply in both(client(fake_server)):
        assert reply == Reply("Ada founded it.", "length", Usage(1, 4, 15))


def test_a_refusal_comes_over_http(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply(None, refusal="I will not.")
    assert ["refused: I will not." in str(error) for error in failures(client(fake_server))] == [True, True]


def test_a_refused_prompt_is_a_reply_error_with_the_providers_code_and_is_not_sent_again(
    fake_server: FakeServer,
) -> None:
    message = "Input data may contain inappropriate content."
    fake_server.reply = lambda body: FakeReply(message, status=400, code="DataInspectionFailed")
    for error in failures(client(fake_server, max_retries=3)):
        assert isinstance(error, ReplyError)
        assert error.finish_reason == "content_filter"
        assert "DataInspectionFailed" in str(error)
    assert len(fake_server.prompts) == 2


def test_a_context_overflow_is_an_error_and_is_not_sent_again(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply("Too long.", status=400, code="context_length_exceeded")
    for error in failures(client(fake_server, max_retries=3)):
        assert not isinstance(error, ReplyError | ModelUnreachableError)
        assert "context_length_exceeded" in str(error)
    assert len(fake_server.prompts) == 2


def test_a_response_without_choices_is_an_error_that_says_so(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply("lost", choices=False)
    for error in failures(client(fake_server)):
        assert "choices" in str(error)
    for null in failures(RunnableLambda(_raises(TypeError("Received response with null value for `choices`.")))):
        assert "null value for `choices`" in str(null)


def test_rate_limits_are_waited_out_as_the_server_says(fake_server: FakeServer) -> None:
    busy = FakeReply("slow down", status=429, headers={"Retry-After": "1"})
    fake_server.reply = in_turn(busy, FakeReply("once more", status=503, headers={"Retry-After": "0"}), "fine")
    assert call(client(fake_server, max_retries=4), "Who?").text == "fine"
    first, second, _ = (request.started for request in fake_server.requests)
    assert second - first >= 1


def test_a_timeout_is_named_though_its_text_is_empty(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply("late", hang=5)
    for error in failures(client(fake_server, timeout=0.1)):
        assert "Timeout" in str(error)
    assert str(failures(RunnableLambda(_raises(TimeoutError())))[0]) == "TimeoutError"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_and_an_unknown_model_are_the_way_to_the_model(fake_server: FakeServer, status: int) -> None:
    fake_server.reply = lambda body: FakeReply(f"No: {KEY}", status=status)
    for error in failures(client(fake_server)):
        assert isinstance(error, ModelUnreachableError)
        assert str(status) in str(error)
        assert KEY not in str(error)


def test_a_server_that_is_not_there_is_the_way_to_the_model() -> None:
    llm = ChatOpenAI(model="m", api_key=KEY, base_url="http://nowhere.invalid/v1", max_retries=0)  # type: ignore[arg-type]
    for error in failures(llm):
        assert isinstance(error, ModelUnreachableError)


def test_a_run_whose_model_cannot_be_reached_asks_nothing_more(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply("No.", status=401)
    with Run(1).active():
        first, second = failures(client(fake_server))
    assert isinstance(second, ModelUnreachableError)
    assert "not asked" in str(second)
    assert str(first) in str(second)
    assert len(fake_server.prompts) == 1


def test_a_run_goes_on_after_other_failures(fake_server: FakeServer) -> None:
    fake_server.reply = in_turn(FakeReply("No.", status=500), FakeReply("", status=200), "fine")
    with Run(1).active():
        failures(client(fake_server))
        assert call(client(fake_server), "Who?").text == "fine"


# Keys stay out of errors.


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}.",
        "Incorrect API key provided: my-own-server-key. Try again.",
        f"header Authorization: Bearer {KEY}",
        "Bearer abcdef",
        f"key={KEY}",
    ],
)
def test_keys_are_masked_in_errors(text: str) -> None:
    line = error_line(RuntimeError(text))
    assert "***" in line
    assert not any(secret in line for secret in (KEY, "my-own-server-key", "abcdef"))


def test_an_error_is_one_line_with_its_type() -> None:
    assert error_line(ValueError("two\n  lines")) == "ValueError: two lines"
    assert error_line(UsageError("limit is 0")) == "limit is 0"


# What names a model.


def named(**options: Any) -> str:
    return model_key(ChatOpenAI(model="m", api_key=KEY, **options))  # type: ignore[arg-type]


def test_the_key_of_a_model_holds_its_class_name_and_parameters() -> None:
    assert "ChatOpenAI" in named()
    assert '"m"' in named()
    assert named() == named(max_retries=9, timeout=5)
    assert len({named(), named(temperature=0), named(temperature=1), named(max_tokens=5)}) == 4


def test_the_key_of_a_model_holds_no_secret_and_does_not_depend_on_one() -> None:
    other = ChatOpenAI(model="m", api_key="sk-another", default_headers={"X-Api-Key": "hidden"})  # type: ignore[arg-type]
    assert model_key(other) == named()
    bound = ChatOpenAI(model="m", api_key=KEY).bind(  # type: ignore[arg-type]
        extra_headers={"Authorization": f"Bearer {KEY}"}, stop=["END"], user={"api_key": KEY, "name": "Ada"}
    )
    assert KEY not in model_key(bound)
    assert "END" in model_key(bound)
    assert "Ada" in model_key(bound)


def test_what_is_bound_to_a_model_counts_and_retries_do_not() -> None:
    model = ScriptedChatModel(reply=str)
    assert model_key(model.bind(max_tokens=5)) != model_key(model.bind(max_tokens=6)) != model_key(model)
    assert model_key(model) in model_key(model.with_retry())


def test_chains_fallbacks_and_functions_are_told_apart() -> None:
    one, two = (ScriptedChatModel(reply=str, model_name=name) for name in ("one", "two"))
    keys = [
        model_key(one),
        model_key(one.with_fallbacks([two])),
        model_key(two.with_fallbacks([one])),
        model_key(RunnablePassthrough() | one),
        model_key(RunnablePassthrough() | two),
        model_key(RunnableLambda(both)),
        model_key(RunnableLambda(failures)),
    ]
    assert len(set(keys)) == len(keys)


def test_a_model_may_name_itself() -> None:
    class Own(ScriptedChatModel):
        cache_key: str = "my model, version 3"

    model = Own(reply=str)
    assert model_key(model) == model_key(model.with_config(tags=["x"])) == "my model, version 3"
    assert model_key(model.bind(stop=["x"])) == 'my model, version 3+{"stop": ["x"]}'


def test_the_key_of_a_model_is_the_same_in_every_process() -> None:
    build = (
        f"ChatOpenAI(model='m', api_key='{KEY}', temperature=0).bind(stop=['a', 'b'], seed=3, tags={{'b', 'a', 'c'}})"
    )
    script = (
        "from langchain_openai import ChatOpenAI; from rag_transformers.models.given import model_key;"
        f"print(model_key({build}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONUTF8": "1"}
    found = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True, encoding="utf-8"
    )
    assert found.stdout.strip() == model_key(eval(build))


# How a model is given, and how the command line builds one.


def test_a_model_is_taken_under_one_of_its_names() -> None:
    model = ScriptedChatModel(reply=str)
    assert resolve_llm("Stage", None, {"llm_client": model, "llm_invoker": None}) is model


@pytest.mark.parametrize(
    ("llm", "alias", "what"),
    [
        (None, None, "got none"),
        (1, None, "llm is int"),
        (None, "gpt", "llm_client is str"),
        (str, str, "llm, llm_client"),
    ],
)
def test_no_model_two_models_or_something_else_is_refused(llm: Any, alias: Any, what: str) -> None:
    with pytest.raises(UsageError, match=f"Stage.*{what}"):
        resolve_llm("Stage", llm, {"llm_client": alias})


def test_without_a_key_the_command_lines_models_say_which_variable_to_set() -> None:
    for build in (chat_model, embedding_model):
        with pytest.raises(UsageError, match="OPENAI_API_KEY"):
            build("m")


def test_the_command_lines_models_speak_to_the_server_that_is_named(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fake_server.environment.items():
        monkeypatch.setenv(name, value)
    fake_server.reply = lambda body: f"temperature {body.get('temperature')}"
    assert call(chat_model("any-model"), "Who?").text == "temperature 0.0"
    assert call(chat_model("openai/o3-mini"), "Who?").text == "temperature None"
    embeddings = embedding_model("any-embedding", batch_size=2)
    assert isinstance(embeddings, OpenAIEmbeddings)
    assert len(embeddings.embed_documents(["one", "二", "three"])) == 3
    inputs = [request.body["input"] for request in fake_server.requests if request.path.endswith("/embeddings")]
    assert inputs == [["one", "二"], ["three"]]


def test_a_prompt_may_be_a_text_messages_or_a_prompt_value() -> None:
    model = ScriptedChatModel(reply=lambda prompt: f"Seen: {prompt}")
    assert call(model, "Ada").text == call(model, [HumanMessage("Ada")]).text == "Seen: Ada"


def _raises(error: Exception) -> Callable[[Any], str]:
    def fail(prompt: Any) -> str:
        raise error

    return fail


@pytest.mark.parametrize(
    "prompt",
    ["half a pair \ud83d here", StringPromptValue(text="\ud83d"), ChatPromptValue(messages=[HumanMessage("\ud83d")])],
)
async def test_half_a_surrogate_pair_is_sent_as_a_mark_and_no_prompt_is_lost(prompt: Any) -> None:
    model = ScriptedChatModel(reply=lambda prompt: "Read.")
    assert call(model, prompt).text == (await acall(model, prompt)).text == "Read."
    assert all("\ufffd" in sent and "\ud83d" not in sent for sent in model.prompts)
