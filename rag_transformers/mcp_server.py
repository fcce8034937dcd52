"""An index for agents over the Model Context Protocol, with the official SDK: the tools of ``graph_tools``.

Over standard input and output, as agents start it; or over HTTP on this machine.
"""

import asyncio
import contextlib
import errno
import importlib
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import rag_transformers
from rag_transformers.answers.citations import label
from rag_transformers.errors import UsageError
from rag_transformers.tools import graph_tools

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from mcp.server import Server

    from rag_transformers.index import GraphIndex

__all__ = ["mcp_server", "serve"]

_HOST = "127.0.0.1"
_ABOUT = (
    "Searches an index of documents and the graph of what they speak of. Begin with list_themes for a broad question, "
    "with search_documents or look_up_entity for a narrow one. Cite the sources that the results name."
)


def mcp_server(tools: "Sequence[BaseTool]") -> "Server[Any]":
    """A server of the MCP SDK that offers tools, with the names, arguments and texts that they have in LangChain.

    Args:
        tools: The tools.

    Raises:
        UsageError: The extra ``mcp`` is not installed.

    >>> import tempfile
    >>> from rag_transformers import GraphIndex
    >>> with tempfile.TemporaryDirectory() as folder, GraphIndex.open(folder) as index:
    ...     mcp_server(graph_tools(index)).name
    'rag-transformers'
    """
    _check_installed("mcp.server", "mcp_types")  # the second is of version 2 and newer
    import mcp_types as types
    from mcp.server import Server

    known = {tool.name: tool for tool in tools}
    listed = [
        types.Tool(name=name, description=tool.description, input_schema=tool.get_input_jsonschema())
        for name, tool in known.items()
    ]

    async def list_tools(context: Any, given: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: Any, given: types.CallToolRequestParams) -> types.CallToolResult:
        text, failed = await _called(known, given.name, given.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    return Server(
        "rag-transformers",
        version=rag_transformers.__version__,
        instructions=_ABOUT,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve(index: "GraphIndex", port: int | None = None, *, answers: bool = False) -> None:
    """Offer an index until the client goes away, or until it is interrupted.

    Args:
        index: The index.
        port: Where to listen for HTTP on this machine, 0 for any free port; None for standard input and output.
        answers: Whether to offer ``answer_question`` too.

    Raises:
        UsageError: The extra ``mcp`` is not installed or not whole, or the port is in use.
        KeyboardInterrupt: It was interrupted; over standard input and output the process ends at once, with code 130.
    """
    server = mcp_server(graph_tools(index, answers=answers))
    if port is None:
        with _stopped_at_once():
            asyncio.run(_over_standard_streams(server))
    else:
        _check_installed("uvicorn", "starlette")
        with _listening(port) as listener:
            asyncio.run(_over_http(server, listener))


async def _called(tools: "dict[str, BaseTool]", name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """What a tool says, and whether it says what went wrong."""
    if name not in tools:
        return f"There is no tool {label(name)!r}; there are {', '.join(tools)}.", True
    call = {"name": name, "args": arguments, "id": "mcp", "type": "tool_call"}
    message = await tools[name].ainvoke(call)
    return str(message.content), message.status == "error"


async def _over_standard_streams(server: "Server[Any]") -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _over_http(server: "Server[Any]", listener: socket.socket) -> None:
    import uvicorn

    app = server.streamable_http_app(host=_HOST)
    config = uvicorn.Config(app, log_config=None, log_level="warning", timeout_graceful_shutdown=2)
    print(f"http://{_HOST}:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    await uvicorn.Server(config).serve(sockets=[listener])


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        if os.name != "nt":  # there it would let two programs have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
            listener.listen()
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            why = "is in use" if error.errno == errno.EADDRINUSE else "may not be used"
            raise UsageError(f"--port {port}: the port {why}; give another, or 0 for any free one") from error
        yield listener


@contextlib.contextmanager
def _stopped_at_once() -> Iterator[None]:
    """Let an interrupt end the process: the thread that waits for a line of input cannot be woken."""

    def stop(number: int, frame: Any) -> None:
        sys.stderr.flush()
        os._exit(128 + signal.SIGINT)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _check_installed(*modules: str) -> None:
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError:
        raise UsageError("the MCP server needs another package: pip install 'rag-transformers[mcp]'") from None
