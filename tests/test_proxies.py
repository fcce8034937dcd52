"""Proxies of the environment: which requests go through one, and that one that is of no use is named, in one line."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_server import FakeReply, FakeServer

from rag_transformers.cli import main
from rag_transformers.concurrency import run
from rag_transformers.errors import ModelError, ModelUnreachableError, UsageError
from rag_transformers.models.calls import acall, call
from rag_transformers.models.proxies import check_proxies, proxy_of
from rag_transformers.models.servers import chat_model, check_server, embedding_model

DEAD = "http://127.0.0.1:9"  # the port that takes and drops what it is sent, and is open nowhere
OLLAMA = "http://localhost:11434/v1"
needs_no_socks = pytest.mark.skipif(bool(importlib.util.find_spec("socksio")), reason="the package for SOCKS is here")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A proxy for everything; what it is asked for stands in its requests."""
    with FakeServer() as server:
        server.reply = lambda body: FakeReply("Forbidden by the proxy", status=403)
        monkeypatch.setenv("ALL_PROXY", server.base_url.removesuffix("/v1"))
        yield server


@pytest.mark.parametrize(
    ("url", "left_out", "goes"),
    [
        ("http://model.invalid/v1", "", True),
        ("http://model.invalid/v1", "other.invalid, localhost", True),
        ("http://model.invalid/v1", "model.invalid", False),
        ("http://model.invalid/v1", "localhost,.INVALID ", False),
        ("http://model.invalid/v1", "del.invalid", True),
        ("http://127.0.0.1:1/v1", "", True),
        ("http://127.0.0.1:1/v1", "127.0.0.1", False),
        ("http://127.0.0.1:1/v1", "127.0.0.0/8", True),
        ("http://localhost:1/v1", "127.0.0.1", True),
        ("http://localhost:1/v1", "*", False),
    ],
)
def test_which_requests_go_through_it_is_known_as_the_client_knows_it(
    proxy: FakeServer, monkeypatch: pytest.MonkeyPatch, url: str, left_out: str, goes: bool
) -> None:
    monkeypatch.setenv("NO_PROXY", left_out)
    with httpx.Client() as client:
        if goes:
            client.get(url)
        else:
            with pytest.raises(httpx.ConnectError):
                client.get(url)
    assert bool(proxy.requests) is goes
    assert bool(proxy_of(url)) is goes


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_the_variable_that_names_it_is_told_in_either_case(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "user:secret@proxy.invalid:3128")
    found = proxy_of(OLLAMA)
    assert found is not None
    assert (found.host, found.port, found.variable.lower()) == ("proxy.invalid", 3128, name.lower())
    assert "secret" not in str(found)


def test_one_for_another_protocol_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", DEAD)
    assert proxy_of(OLLAMA) is None
    assert proxy_of("https://api.openai.com/v1") is not None


@needs_no_socks
@pytest.mark.parametrize("name", ["ALL_PROXY", "all_proxy", "HTTPS_PROXY"])
@pytest.mark.parametrize("kind", ["--model", "--embedding-model"])
def test_a_socks_proxy_without_its_package_is_one_line_that_says_what_to_install(
    tmp_path: Path,
    fake_server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    kind: str,
) -> None:
    """Also for a server on this machine, and one that NO_PROXY names: the client loads the proxy all the same."""
    monkeypatch.setenv(name, "socks5://user:secret@127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "a.txt").write_text("Ada left.", encoding="utf-8")
    command = ["index", str(tmp_path / "a.txt"), "--out", str(tmp_path / "i"), "--base-url", fake_server.base_url]
    assert main([*command, kind, "m"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.lower().startswith(f"error: {name.lower()} names a socks proxy")
    assert "pip install 'httpx[socks]'" in line
    assert "NO_PROXY=*" in line
    assert "secret" not in line
    assert not (tmp_path / "i").exists()


@needs_no_socks
def test_what_the_message_says_of_a_socks_proxy_helps(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[Any] = [chat_model, embedding_model]
    monkeypatch.setenv("ALL_PROXY", "socks5h://127.0.0.1")
    for build in builds:
        with pytest.raises(UsageError, match="SOCKS"):
            build("m", fake_server.base_url)
    monkeypatch.setenv("NO_PROXY", "*")
    check_server(fake_server.base_url)
    assert call(chat_model("m", fake_server.base_url), "Who?").text == "ok"
    assert len(embedding_model("m", fake_server.base_url).embed_query("Who?")) == 64


@pytest.mark.parametrize(
    "value", ["socks4://u:secret@h:1", "ftp://secret@h", "http://", "http://h:secret", "http://[x"]
)
def test_what_is_no_proxy_is_named_by_its_variable_alone(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("https_proxy", value)
    with pytest.raises(UsageError, match=r"(?i)^https_proxy is no address of a proxy") as caught:
        check_proxies()
    assert "secret" not in str(caught.value)


def test_a_dead_proxy_is_named_before_a_run(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", DEAD)
    with pytest.raises(
        UsageError, match=r"(?i)no proxy answers at 127\.0\.0\.1:9 .*all_proxy, or set NO_PROXY=localhost"
    ):
        check_server(OLLAMA)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    check_server(fake_server.base_url)


def test_a_server_that_no_proxy_leads_to_is_looked_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", DEAD)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(UsageError, match=r"no server answers at http://127\.0\.0\.1:9/v1"):
        check_server("http://127.0.0.1:9/v1")


def both_failures(url: str) -> list[ModelError]:
    llm = chat_model("m", url, max_retries=0)
    asks: list[Any] = [lambda: call(llm, "Who?"), lambda: run(acall(llm, "Who?"))]
    errors: list[ModelError] = []
    for ask in asks:
        with pytest.raises(ModelError) as caught:
            ask()
        errors.append(caught.value)
    return errors


def test_a_call_through_a_dead_proxy_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", DEAD)
    for error in both_failures("http://model.invalid/v1"):
        assert isinstance(error, ModelUnreachableError)
        assert str(error).endswith("through the proxy of HTTP_PROXY, which NO_PROXY=model.invalid leaves out")


def test_what_a_proxy_says_of_a_server_on_this_machine_is_not_taken_for_the_servers_words(proxy: FakeServer) -> None:
    for error in both_failures(OLLAMA):
        assert "asked through the proxy of ALL_PROXY, which NO_PROXY=localhost leaves out" in str(error)
    assert proxy.requests[0].path == f"{OLLAMA}/chat/completions"


def test_without_a_proxy_none_is_spoken_of() -> None:
    for error in both_failures("http://127.0.0.1:9/v1"):
        assert "proxy" not in str(error)
