"""The MCP server, tried with the SDK's own client: over standard streams, over HTTP, and where something is wrong."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from rag_transformers import GraphIndex, graph_tools
from rag_transformers.cli import main
from rag_transformers.errors import StorageError
from rag_transformers.mcp_server import mcp_server

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    Document("Ada Moss founded Grain Trust in 1998.", metadata={"source": "letters.txt"}),
    Document("林晚在青石镇开了一家客栈。", metadata={"source": "游记.txt"}),
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search_documents", {"question": "客栈在哪里？", "k": 1}),
    ("look_up_entity", {"name": "ada moss"}),
    ("find_path", {"source": "Ada Moss", "target": "Grain Trust"}),
    ("list_themes", {}),
    ("list_themes", {"limit": 0}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mcp") / "index"
    with GraphIndex.open(made) as index:
        index.add(DOCUMENTS)
    return made


@pytest.fixture(scope="module")
def index(folder: Path) -> Iterator[GraphIndex]:
    with GraphIndex.open(folder) as opened:
        yield opened


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "rag_transformers", "mcp", *map(str, arguments)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}


async def said_by(target: Any, calls: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, bool]]:
    """What a server says to calls, and whether it calls that an error."""
    async with Client(target) as client:
        results = [await client.call_tool(name, given) for name, given in calls]
    return [(getattr(result.content[0], "text", ""), bool(result.is_error)) for result in results]


def expected(index: GraphIndex) -> list[tuple[str, bool]]:
    tools = {tool.name: tool for tool in graph_tools(index)}
    return [(tools[name].invoke(given), given == {"limit": 0}) for name, given in CALLS]


async def test_the_tools_are_those_of_langchain_with_their_arguments_and_texts(index: GraphIndex) -> None:
    tools = graph_tools(index)
    async with Client(mcp_server(tools)) as client:
        listed = (await client.list_tools()).tools
        assert "search_documents" in (client.instructions or "")
    assert [tool.name for tool in listed] == [tool.name for tool in tools]
    assert [tool.input_schema for tool in listed] == [tool.get_input_jsonschema() for tool in tools]
    assert await said_by(mcp_server(tools), CALLS) == expected(index)


async def test_an_unknown_tool_is_told_with_those_that_there_are(index: GraphIndex) -> None:
    [(text, failed)] = await said_by(mcp_server(graph_tools(index)), [("find_pth", {})])
    assert failed
    assert "find_path" in text


async def test_over_standard_streams_it_says_the_same_and_ends_with_its_client(folder: Path, index: GraphIndex) -> None:
    program, *arguments = command(folder)
    server = StdioServerParameters(command=program, args=arguments, env=ENVIRONMENT)
    assert await said_by(server, CALLS) == expected(index)


class _Http:
    """A server over HTTP in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            command(folder, "--port", "0"), env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stderr
        self.url = next((line.strip() for line in self.process.stderr if line.startswith("http")), "")

    def interrupted(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        out, errors = self.process.communicate(timeout=30)
        said = [line for line in (out + errors).splitlines() if "token counts are estimates" not in line]
        return self.process.returncode, "\n".join(said)


@pytest.mark.skipif(os.name == "nt", reason="interrupts are sent in another way there")
async def test_over_http_it_says_the_same_and_ends_quietly_when_interrupted(folder: Path, index: GraphIndex) -> None:
    server = await asyncio.to_thread(_Http, folder)
    try:
        assert server.url.startswith("http://127.0.0.1:")
        assert await said_by(server.url, CALLS) == expected(index)
    finally:
        code, said = await asyncio.to_thread(server.interrupted)
    assert (code, said) == (130, "")


@pytest.mark.skipif(os.name == "nt", reason="interrupts are sent in another way there")
def test_over_standard_streams_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(tmp_path / "none"),
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr
    first = process.stderr.readline().decode()  # it serves when it has said that there is no index yet
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert first.startswith("warning: ")
    assert (process.returncode, out, errors) == (130, b"", b"")


async def test_a_missing_index_is_a_sentence_for_the_agent(tmp_path: Path) -> None:
    with GraphIndex.open(tmp_path / "none") as none:
        [(text, failed)] = await said_by(mcp_server(graph_tools(none)), CALLS[:1])
    assert failed
    assert text.startswith("There is nothing to search yet: ")


@pytest.mark.parametrize("error", [StorageError("qdrant: 503"), OSError("qdrant: 503"), RuntimeError("qdrant: 503")])
async def test_whatever_fails_is_a_sentence_for_the_agent_and_the_server_goes_on(
    index: GraphIndex, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*given: Any) -> None:
        raise error

    monkeypatch.setattr(index._asker, "search", fails)
    told, (text, _) = await said_by(mcp_server(graph_tools(index)), CALLS[:2])
    assert told[1]
    assert "qdrant: 503" in told[0]
    assert told[0].endswith("ell the user so.")
    assert text.startswith("Ada Moss")


class TestTrouble:
    def test_a_port_in_use_is_one_line(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            assert main(["mcp", str(folder), "--port", str(port)]) == 2
        line = f"error: --port {port}: the port is in use; give another, or 0 for any free one\n"
        assert capsys.readouterr().err == line

    @pytest.mark.parametrize("port", ["-1", "65536", "http", "٣", ""])
    def test_what_is_no_port_is_one_line(self, folder: Path, capsys: pytest.CaptureFixture[str], port: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["mcp", str(folder), "--port", port])
        assert ended.value.code == 2
        assert "is no port" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("missing", "options"), [("mcp.server", []), ("mcp_types", []), ("uvicorn", ["--port", "0"])]
    )
    def test_a_missing_package_is_one_line_that_says_what_to_install(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        missing: str,
        options: list[str],
    ) -> None:
        monkeypatch.setitem(sys.modules, missing, None)
        assert main(["mcp", str(folder), *options]) == 2
        line = "error: the MCP server needs another package: pip install 'rag-transformers[mcp]'\n"
        assert capsys.readouterr().err == line
