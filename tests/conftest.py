"""What all tests share: no real network, no variables of the user's, hypothesis settings, and the fake server."""

import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from fake_server import FakeServer
from hypothesis import settings

pytest.register_assert_rewrite("store_rules")

settings.register_profile("rag-transformers", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("rag-transformers")

LOOPBACK = ("127.0.0.1", "::1", "localhost")
USERS_OWN = ("OPENAI_", "AZURE_OPENAI_", "LANGCHAIN_", "LANGSMITH_", "CHROMA_", "TIKTOKEN_", "DATA_GYM_")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
TOKEN_TABLES = os.environ.setdefault("RAG_TEST_TOKEN_TABLES", os.environ.get("TIKTOKEN_CACHE_DIR", ""))
_TALLIES = "fault suite"
_told: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """Forget the user's keys, servers, tracing and proxies, before any library reads them.

    tiktoken's tables are hidden, so that chunks are the same on every machine; see ``token_tables``.
    """
    for name in list(os.environ):
        if name.upper().startswith(USERS_OWN) or name.lower() in PROXIES:
            del os.environ[name]
    os.environ["TIKTOKEN_CACHE_DIR"] = str(config.rootpath / "tests" / "no-token-tables")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what the fault suite counted, where several processes share the tests."""
    counted, handed_on = sys.modules.get("torture.tallies"), getattr(session.config, "workeroutput", None)
    if counted and handed_on is not None:
        handed_on[_TALLIES] = counted.lines()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take what one of those processes counted."""
    _told.extend(getattr(node, "workeroutput", {}).get(_TALLIES, ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the fault suite did, and what was lost."""
    counted = sys.modules.get("torture.tallies")
    if told := [*_told, *(counted.lines() if counted else ())]:
        terminalreporter.section(_TALLIES)
        for line in dict.fromkeys(told):
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to look up any host but this one; pytest-socket refuses the connections (see pyproject.toml).

    A name under .invalid is unknown to every resolver (RFC 6761), so tests may use one for a server that is not there.
    """
    resolve = socket.getaddrinfo

    def guarded(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is None or name in LOOPBACK:
            return resolve(host, *args, **kwargs)
        if name.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        raise RuntimeError(f"a test tried to reach {name}; tests may only reach {', '.join(LOOPBACK)}")

    monkeypatch.setattr(socket, "getaddrinfo", guarded)


@pytest.fixture
def token_tables(monkeypatch: pytest.MonkeyPatch) -> str:
    """For this test tiktoken finds the tables that the user has in TIKTOKEN_CACHE_DIR; skipped where there are none."""
    if not os.path.isdir(TOKEN_TABLES):
        pytest.skip("TIKTOKEN_CACHE_DIR names no folder with tiktoken's tables")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", TOKEN_TABLES)
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})  # what is loaded here is forgotten after the test
    return TOKEN_TABLES


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """A running server that speaks the OpenAI protocol; script it through its attributes."""
    with FakeServer() as server:
        yield server
