"""Parameters of a stage's own: sent to chat models as far as they take them, and to nothing else."""

import logging
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from scripted_model import ScriptedChatModel

from rag_transformers.errors import ModelBusyError
from rag_transformers.models.calls import call
from rag_transformers.models.given import model_key
from rag_transformers.models.parameters import with_parameters
from rag_transformers.models.servers import chat_model

SAMPLING = {"temperature": 0.5, "top_p": 0.95}


def settings(llm: Any, model: ScriptedChatModel) -> dict[str, Any]:
    llm.invoke("Who?")
    return {name: value for name, value in model.calls[-1].settings.items() if name in {*SAMPLING, "seed"}}


@pytest.fixture
def model() -> ScriptedChatModel:
    return ScriptedChatModel(reply=str.upper)


def test_a_chat_model_is_called_with_them(model: ScriptedChatModel) -> None:
    assert settings(with_parameters(model, SAMPLING), model) == SAMPLING


async def test_in_async_too(model: ScriptedChatModel) -> None:
    await with_parameters(model, SAMPLING).ainvoke("Who?")
    assert model.calls[0].settings["temperature"] == 0.5


def test_what_wraps_a_chat_model_passes_them_on(model: ScriptedChatModel) -> None:
    other = ScriptedChatModel(reply=str.upper)
    for wrapped in (model.bind(seed=3), model.with_retry(), model.with_fallbacks([other])):
        assert settings(with_parameters(wrapped, SAMPLING), model).items() >= SAMPLING.items()


def test_defaults_leave_what_is_bound_already(model: ScriptedChatModel) -> None:
    bound = model.bind(temperature=0.1)
    assert settings(with_parameters(bound, SAMPLING, default=True), model) == {"temperature": 0.1, "top_p": 0.95}
    assert settings(with_parameters(bound, SAMPLING), model) == SAMPLING


def test_any_other_runnable_is_left_as_it_is(model: ScriptedChatModel) -> None:
    for other in (RunnableLambda(str.upper), RunnableLambda(str.upper) | model):
        assert with_parameters(other, SAMPLING) is other


def test_none_change_nothing(model: ScriptedChatModel) -> None:
    assert with_parameters(model, {}) is model


def test_they_are_part_of_the_models_key(model: ScriptedChatModel) -> None:
    keys = {model_key(with_parameters(model, {"temperature": value})) for value in (0.1, 0.2)}
    assert len(keys | {model_key(model)}) == 3


class TestOverHttp:
    @pytest.fixture(autouse=True)
    def _key(self, monkeypatch: pytest.MonkeyPatch, fake_server: FakeServer) -> None:
        for name, value in fake_server.environment.items():
            monkeypatch.setenv(name, value)

    def test_they_stand_in_the_request(self, fake_server: FakeServer) -> None:
        with_parameters(chat_model("any-model"), SAMPLING).invoke("Who?")
        body = fake_server.requests[0].body
        assert (body["temperature"], body["top_p"]) == (0.5, 0.95)

    @pytest.mark.parametrize("name", ["o3-mini", "openai/gpt-5"])
    def test_a_reasoning_model_is_not_sent_what_it_refuses(self, fake_server: FakeServer, name: str) -> None:
        with_parameters(chat_model(name), {**SAMPLING, "seed": 3}).invoke("Who?")
        assert fake_server.requests[0].body["seed"] == 3
        assert not {"temperature", "top_p"} & set(fake_server.requests[0].body)

    def test_what_a_server_refuses_is_left_out_from_then_on(
        self, fake_server: FakeServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        def reply(body: dict[str, Any]) -> FakeReply | str:
            if "temperature" in body and "top_p" in body:
                return FakeReply(status=400, text="`temperature` and `top_p` cannot both be specified")
            return "An answer."

        fake_server.reply = reply
        llm = with_parameters(ChatOpenAI(model="m", base_url=fake_server.base_url, max_retries=0), SAMPLING)
        with caplog.at_level(logging.WARNING, "rag_transformers"):
            assert [llm.invoke("Who?").content for _ in range(2)] == ["An answer."] * 2
        assert [sorted({"temperature", "top_p"} & set(request.body)) for request in fake_server.requests] == [
            ["temperature", "top_p"],
            ["temperature"],
            ["temperature"],
        ]
        assert len(caplog.records) == 1
        assert "top_p" in caplog.text

    @pytest.mark.parametrize("own", [0, 2])
    def test_the_models_own_retries_stay_the_only_ones(
        self, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, own: int
    ) -> None:
        monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
        fake_server.reply = lambda body: FakeReply("busy", status=503)
        llm = ChatOpenAI(model="m", base_url=fake_server.base_url, max_retries=own)
        with pytest.raises(ModelBusyError):
            call(with_parameters(llm, SAMPLING), "Who?")
        assert len(fake_server.requests) == 1 + own

    def test_another_error_is_not_taken_for_it(self, fake_server: FakeServer) -> None:
        fake_server.reply = lambda body: FakeReply(status=400, text="the context is too long")
        llm = with_parameters(ChatOpenAI(model="m", base_url=fake_server.base_url, max_retries=0), SAMPLING)
        with pytest.raises(Exception, match="too long"):
            llm.invoke("Who?")
        assert len(fake_server.requests) == 1


def test_a_client_that_does_not_know_a_name_is_called_without_it(caplog: pytest.LogCaptureFixture) -> None:
    class Strict(ScriptedChatModel):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            if unknown := {"top_p"} & set(kwargs):
                raise TypeError(f"chat() got an unexpected keyword argument {unknown.pop()!r}")
            return super()._generate(messages, stop, run_manager, **kwargs)

    model = Strict(reply=str.upper)
    assert settings(with_parameters(model, SAMPLING), model) == {"temperature": 0.5}
    assert "top_p" in caplog.text
