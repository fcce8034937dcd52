"""A small server that speaks the OpenAI protocol on 127.0.0.1, for tests; standard library only.

``POST /v1/chat/completions`` (streamed too), ``POST /v1/embeddings`` and ``GET /v1/models``. All requests are recorded.

In a test, take the fixture, script what it answers, and look at what it was asked::

    def test_history_is_sent(fake_server):
        fake_server.reply = lambda body: hash_reply(prompt_of(body))
        llm = ChatOpenAI(model="fake-chat", base_url=fake_server.base_url, api_key="test", max_retries=0)
        ...
        assert "Section 1:" in fake_server.prompts[-1]
        assert fake_server.peak <= 16

``reply`` is called with the parsed body of each chat request and returns a text, or a :class:`FakeReply` for anything
else: a refusal, a cut answer, a status, a wait. :func:`in_turn` gives one reply after another:
``in_turn(FakeReply(status=429, headers={"Retry-After": "0"}), "the answer")``. ``embed`` may do the same for
embeddings; it returns None where the vectors are to be made. A command line that is given ``fake_server.environment``
finds the server through the usual variables.

``reply`` runs in the server's threads, several at once. If it raises, the client gets status 500, the exception stands
in ``errors``, and leaving the ``with`` block (or the fixture) raises it.

>>> import json, urllib.request
>>> with FakeServer(lambda body: "Hello to " + prompt_of(body)) as server:
...     body = {"model": "fake-chat", "messages": [{"role": "user", "content": "Ada"}]}
...     request = urllib.request.Request(server.base_url + "/chat/completions", json.dumps(body).encode())
...     with urllib.request.urlopen(request) as response:
...         answer = json.load(response)
>>> answer["choices"][0]["message"]["content"], server.prompts, server.peak
('Hello to Ada', ['Ada'], 1)
"""

import base64
import hashlib
import json
import math
import re
import select
import socket
import socketserver
import struct
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["FakeReply", "FakeServer", "Request", "in_turn", "prompt_of"]

PIECE = 16
"""Characters in one piece of a streamed reply."""


@dataclass(frozen=True)
class FakeReply:
    """What the server answers, where a plain text does not say it.

    Args:
        text: The reply's text; None is a message without content.
        finish_reason: ``stop``, ``length``, ``content_filter``, or None.
        refusal: The text of a refusal, given beside the content.
        reasoning: What a reasoning model thought, given beside the content as ``reasoning_content``.
        blocks: Whether the content is sent as a list of two text blocks, or those that are sent (not when streamed).
        tool: The arguments, as they stand, of a call of the first tool that the request offers (not when streamed).
        usage: Whether the numbers of tokens are sent.
        prompt_tokens: How many tokens the server says it has read; None for one for each UTF-8 byte.
        choices: Whether there is a choice at all.
        status: HTTP status; from 400 on, ``text`` is the error's message and ``code`` its code.
        code: The error's code, such as ``context_length_exceeded``.
        headers: More headers, such as ``{"Retry-After": "1"}``.
        hang: Seconds to wait before anything is sent; ends at once when the server stops or the client goes away.
        reset: Whether to break the connection instead of answering; a stream ends after its first piece.
        cut: Whether the connection is closed after half of the answer (not when streamed).
        chunked: Whether the answer is sent in chunks, without its length beforehand (not when streamed).
        body: Sent as it is instead of an answer, such as half of a JSON text.
    """

    text: str | None = ""
    finish_reason: str | None = "stop"
    refusal: str | None = None
    reasoning: str | None = None
    blocks: bool | Sequence[Mapping[str, str]] = False
    tool: str | None = None
    usage: bool = True
    prompt_tokens: int | None = None
    choices: bool = True
    status: int = 200
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: float = 0.0
    reset: bool = False
    cut: bool = False
    chunked: bool = False
    body: str | None = None


@dataclass(frozen=True)
class Request:
    """One request as it came.

    Args:
        path: Such as ``/v1/chat/completions``.
        headers: By lower-case name.
        body: The parsed JSON; empty for a GET.
        prompt: The text of all messages, see :func:`prompt_of`.
        started: Seconds on the clock of ``time.monotonic``.
    """

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    prompt: str
    started: float


Reply = Callable[[dict[str, Any]], str | FakeReply]
Embed = Callable[[dict[str, Any]], FakeReply | None]


def prompt_of(body: Mapping[str, Any]) -> str:
    """The text of all messages of a chat request, one after another; "" for other requests."""
    contents = [message.get("content") or "" for message in body.get("messages", ())]
    return "\n".join(
        part if isinstance(part, str) else "".join(block.get("text", "") for block in part) for part in contents
    )


def in_turn(*replies: str | FakeReply) -> Reply:
    """A reply function that gives one reply after another, and the last one ever after.

    >>> reply = in_turn(FakeReply(status=503), "fine")
    >>> reply({}).status, reply({}), reply({})
    (503, 'fine', 'fine')
    """
    left, lock = list(replies), threading.Lock()

    def reply(body: dict[str, Any]) -> str | FakeReply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return reply


class FakeServer:
    """The server; it listens from ``with FakeServer() as server`` to the end of the block.

    Args:
        reply: From the parsed body of a chat request to its answer.
        embed: The same for embeddings; None from it, or as it, makes vectors from the texts' words and characters.
        latency: Seconds that every answer takes.
        dimensions: Length of the vectors.
        models: The models that it has, any other is refused with 404; None has every one.
        api_key: The key that it wants, any other is refused with 401; None takes every one.
    """

    def __init__(
        self,
        reply: Reply = lambda body: "ok",
        *,
        embed: Embed | None = None,
        latency: float = 0.0,
        dimensions: int = 64,
        models: Collection[str] | None = None,
        api_key: str | None = None,
    ) -> None:
        self.reply = reply
        self.embed = embed
        self.latency = latency
        self.dimensions = dimensions
        self.models = models
        self.api_key = api_key
        self.requests: list[Request] = []
        self.errors: list[Exception] = []
        self.peak = 0
        """The largest number of chat and embedding requests that were in flight at one time."""
        self._in_flight = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    @property
    def base_url(self) -> str:
        """Such as ``http://127.0.0.1:40123/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which clients find this server."""
        return {"OPENAI_API_KEY": self.api_key or "test-key", "OPENAI_BASE_URL": self.base_url}

    @property
    def prompts(self) -> list[str]:
        """The prompts of the chat requests, in the order of their arrival."""
        with self._lock:
            return [each.prompt for each in self.requests if _plain_path(each.path).endswith("/chat/completions")]

    def __enter__(self) -> Self:
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), name="fake server", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        if self.errors and error is None:
            raise self.errors[0]

    def answer(self, request: Request) -> FakeReply | dict[str, Any]:
        """What to send for a request: a reply, or ready data."""
        path, keys = _plain_path(request.path), (request.headers.get("authorization"), request.headers.get("api-key"))
        if self.api_key is not None and not {f"Bearer {self.api_key}", self.api_key}.intersection(keys):
            return FakeReply("Incorrect API key provided.", status=401, code="invalid_api_key")
        if path == "/v1/models":
            names = ("fake-chat", "fake-embedding") if self.models is None else self.models
            return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "test"} for name in names]}
        if self.models is not None and request.body.get("model") not in self.models:
            message = f"The model `{request.body.get('model')}` does not exist."
            return FakeReply(message, status=404, code="model_not_found")
        if path == "/v1/chat/completions":
            reply = self.reply(dict(request.body))
            return FakeReply(reply) if isinstance(reply, str) else reply
        if path == "/v1/embeddings":
            special = self.embed(dict(request.body)) if self.embed else None
            return special or _embeddings(request.body, self.dimensions)
        return FakeReply(f"Nothing at {request.path}.", status=404)

    def record(self, request: Request) -> None:
        """Keep a request, in the order of arrival."""
        with self._lock:
            self.requests.append(request)

    def failed(self, error: Exception) -> None:
        """Keep what the script raised, for whoever leaves the block."""
        with self._lock:
            self.errors.append(error)

    def wait(self, seconds: float, connection: socket.socket) -> None:
        """Sleep, but not longer than the server lives and the client waits: it sends no more, so it can only close."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._stopping.is_set():
            if select.select([connection], [], [], min(left, 0.05))[0]:
                return

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count a request as being in flight."""
        with self._lock:
            self._in_flight += 1
            self.peak = max(self.peak, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # the default of 5 makes the clients of a burst wait a second for their second try

    def __init__(self, script: FakeServer) -> None:
        self.script = script
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        """Bind without the base class's look-up of the host's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Close the listener and the connections that clients keep alive, so that no thread outlives a test."""
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away in the middle is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._serve(json.loads(raw))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing; everything is in ``requests``."""

    def _serve(self, body: dict[str, Any]) -> None:
        script = self.server.script
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body, prompt_of(body), time.monotonic())
        script.record(request)
        with script.in_flight():
            try:
                answer = script.answer(request)
            except Exception as error:
                script.failed(error)
                answer = FakeReply(f"the script raised {error!r}", status=500)
            reply = FakeReply() if isinstance(answer, dict) else answer
            script.wait(script.latency + reply.hang, self.connection)
        if reply.reset and not body.get("stream"):
            self._break()
        elif reply.status >= 400:
            error_data = {"message": reply.text, "type": "fake_error", "param": None, "code": reply.code}
            self._send(reply, json.dumps({"error": error_data}) if reply.body is None else reply.body)
        elif body.get("stream") and reply.body is None and isinstance(answer, FakeReply):
            self._stream(reply, request)
        else:
            data = answer if isinstance(answer, dict) else _completion(reply, request)
            self._send(reply, json.dumps(data) if reply.body is None else reply.body)

    def _send(self, reply: FakeReply, text: str) -> None:
        data = text.encode()
        length = {"Transfer-Encoding": "chunked"} if reply.chunked else {"Content-Length": str(len(data))}
        self._head(reply, {"Content-Type": "application/json", **length})
        sent = data[: len(data) // 2] if reply.cut else data
        if reply.chunked:
            sent = b"%x\r\n%s\r\n" % (len(sent), sent) + (b"" if reply.cut else b"0\r\n\r\n")
        self.wfile.write(sent)
        self.close_connection = self.close_connection or reply.cut

    def _stream(self, reply: FakeReply, request: Request) -> None:
        self._head(reply, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for number, event in enumerate(_events(reply, request)):
            if reply.reset and number == 2:
                self.close_connection = True
                return
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, reply: FakeReply, headers: dict[str, str]) -> None:
        self.send_response(reply.status)
        # So that no client of a test keeps a connection open, whose socket nobody would close.
        for name, value in {"Connection": "close", **headers, **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _break(self) -> None:
        """Close the connection by a reset, as a server does that dies."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def _plain_path(path: str) -> str:
    """OpenAI's path for one of Azure's, ``/openai/deployments/NAME/chat/completions?api-version=…``; else the same."""
    azure = re.fullmatch(r"/openai/deployments/[^/]+(/.+)\?api-version=[\w-]+", path)
    return f"/v1{azure[1]}" if azure else path


def _usage(reply: FakeReply, request: Request) -> dict[str, int]:
    """Numbers of tokens: one for each UTF-8 byte, which a test can work out."""
    asked = len(request.prompt.encode()) if reply.prompt_tokens is None else reply.prompt_tokens
    answered = len((reply.tool or reply.text or "").encode())
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def _envelope(request: Request, kind: str) -> dict[str, Any]:
    digest = hashlib.blake2b(request.prompt.encode(), digest_size=6).hexdigest()
    return {"id": f"chatcmpl-{digest}", "object": kind, "created": 0, "model": request.body.get("model")}


def _content(reply: FakeReply) -> Any:
    if not isinstance(reply.blocks, bool):
        return list(reply.blocks)
    if not reply.blocks or reply.text is None:
        return None if reply.tool is not None else reply.text
    half = len(reply.text) // 2
    return [{"type": "text", "text": part} for part in (reply.text[:half], reply.text[half:])]


def _completion(reply: FakeReply, request: Request) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": _content(reply), "refusal": reply.refusal}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    finish_reason = reply.finish_reason
    if reply.tool is not None:
        function = {"name": request.body["tools"][0]["function"]["name"], "arguments": reply.tool}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        finish_reason = "tool_calls" if finish_reason == "stop" else finish_reason
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    data = {**_envelope(request, "chat.completion"), "choices": [choice] if reply.choices else []}
    return {**data, "usage": _usage(reply, request)} if reply.usage else data


def _events(reply: FakeReply, request: Request) -> Iterator[str]:
    """The events of a streamed reply: the role, the pieces, the end, the usage where it is asked for."""
    text = reply.text or ""
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": reply.reasoning}] if reply.reasoning else []
    deltas += [{"content": text[start : start + PIECE]} for start in range(0, len(text), PIECE)]
    deltas += [{"refusal": reply.refusal}] if reply.refusal else []
    ends: list[tuple[dict[str, str], str | None]] = [(delta, None) for delta in deltas] + [({}, reply.finish_reason)]
    envelope = _envelope(request, "chat.completion.chunk")
    for delta, finish_reason in ends if reply.choices else ():
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        yield json.dumps({**envelope, "choices": [choice]})
    if reply.usage and (request.body.get("stream_options") or {}).get("include_usage"):
        yield json.dumps({**envelope, "choices": [], "usage": _usage(reply, request)})
    yield "[DONE]"


def _embeddings(body: Mapping[str, Any], dimensions: int) -> dict[str, Any]:
    given = body.get("input", [])
    texts = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given
    data = []
    for index, text in enumerate(texts):
        vector: Any = _vector(str(text), dimensions)
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(array("f", vector).tobytes()).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    tokens = sum(len(str(text).encode()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body.get("model"), "data": data, "usage": usage}


def _vector(text: str, dimensions: int) -> list[float]:
    """A unit vector that texts with common words, or common characters beyond ASCII, have in common in part."""
    vector = [0.0] * dimensions
    for feature in [*text.casefold().split(), *(letter for letter in text if not letter.isascii())]:
        digest = hashlib.blake2b(feature.encode(), digest_size=8).digest()
        vector[int.from_bytes(digest[:4], "big") % dimensions] += 1.0 if digest[4] & 1 else -1.0
    length = math.hypot(*vector)
    return [value / length for value in vector] if length else [1.0] + [0.0] * (dimensions - 1)
