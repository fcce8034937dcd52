"""Every way in which a model's server fails: the run ends soon, what could be done is stored, the rest is asked later.

Over HTTP, through an index, with the client that the command line uses; and with models that a user brings.
"""

import asyncio
import email.utils
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_server import FakeReply, FakeServer, prompt_of
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

from rag_transformers import Chunker, GraphExtractor, GraphIndex
from rag_transformers.arguments import COMMANDS, parser
from rag_transformers.cli import main
from rag_transformers.concurrency import run
from rag_transformers.errors import ContextOverflowError, ModelBusyError, ModelError, ModelUnreachableError, ReplyError
from rag_transformers.extraction.halving import LEAST_TOKENS
from rag_transformers.models.calls import acall, astream, call, stream
from rag_transformers.models.faults import LONGEST_WAIT, Patience, is_overflow, model_error, retry_after
from rag_transformers.models.run import Run
from rag_transformers.models.servers import chat_model, embedding_model

NAMES = ("Hazel Thorne", "Briar Lock", "Cole Vesper", "Marnie Pike", "Dorset Vane", "Orla Finch", "Wren Abbot")
BAD = "Cole Vesper"
LONG_BOOK = tuple(f"Tenant{number:03} Vane" for number in range(30))


def book(names: tuple[str, ...], source: str = "ledger.txt") -> Document:
    """A document of as many chunks as names."""
    text = "\n\n".join(f"{name} rented the boathouse in spring and paid for it in copper coins." for name in names)
    return Document(text, metadata={"source": source})


BOOK, LONG = book(NAMES), book(LONG_BOOK, "long.txt")


def asked_about(prompt: str) -> str:
    """The name in the chunk that a prompt asks about, not in the history."""
    text = re.split(r"\[Text\]:|text:", prompt)[-1]
    return next(name for name in (*NAMES, *LONG_BOOK) if name in text)


def good(body: Any) -> str:
    name = asked_about(prompt_of(body))
    return f"Entities:\n({name}#Tenant)\n\nRelationships:\n({name}#rented#Boathouse#In spring)"


def bad_one(fault: FakeReply) -> Callable[[Any], str | FakeReply]:
    """One chunk always meets this fault."""
    return lambda body: fault if asked_about(prompt_of(body)) == BAD else good(body)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server does not say how long to wait, the first wait is a hundredth of a second."""
    monkeypatch.setattr("rag_transformers.models.faults._FIRST_WAIT", 0.01)


def opened(folder: Path, server: FakeServer, concurrency: int = 4, timeout: float = 0.5, **options: Any) -> GraphIndex:
    llm = chat_model("fake-chat", server.base_url, timeout=timeout)
    chunker = Chunker(chunk_size=24, chunk_overlap=0)
    return GraphIndex.open(
        folder / "index", llm, chunker=chunker, concurrency=concurrency, **{"reports": False, **options}
    )


def tenants(index: GraphIndex) -> list[str]:
    return sorted(vertex.name for vertex in index.graph.vertices() if vertex.name != "Boathouse")


def calls_for(server: FakeServer, name: str = BAD) -> list[float]:
    """When the server was asked about a chunk."""
    asked = [each for each in server.requests if each.path.endswith("/chat/completions")]
    return [each.started for each in asked if asked_about(each.prompt) == name]


CHOICES = '{"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": %s}'
TEXT = "Entities:\n(Wrong Name#cut)"

PASSING = {
    "429 with a wait": FakeReply("slow down", status=429, headers={"Retry-After": "0.2"}),
    "429": FakeReply("slow down", status=429),
    "500": FakeReply("oh", status=500),
    "503": FakeReply("oh", status=503),
    "reset": FakeReply(reset=True),
    "timeout": FakeReply(hang=30),
    "half a body": FakeReply(TEXT, cut=True),
    "a broken chunk": FakeReply(TEXT, cut=True, chunked=True),
    "half of the JSON": FakeReply(body=CHOICES[:40]),
}


@pytest.mark.usefixtures("short_waits")
def test_a_fault_that_passes_costs_one_more_call_and_nothing_else(tmp_path: Path, fake_server: FakeServer) -> None:
    """Each of them meets a chunk of its own, at its first call."""
    left = dict(zip(LONG_BOOK, PASSING.items(), strict=False))
    met = {name: what for name, (what, _) in left.items()}

    def reply(body: Any) -> str | FakeReply:
        _, fault = left.pop(asked_about(prompt_of(body)), ("", None))
        return fault or good(body)

    fake_server.reply = reply
    with opened(tmp_path, fake_server) as index:
        report = index.add(LONG)
        assert (report.failed, report.extracted) == ((), len(LONG_BOOK))
        assert tenants(index) == sorted(LONG_BOOK)
    for name in LONG_BOOK:
        assert len(calls_for(fake_server, name)) == (2 if name in met else 1), met.get(name)
    first, second = calls_for(fake_server, next(name for name in met if met[name] == "429 with a wait"))
    assert second - first >= 0.2
    assert fake_server.peak <= 4


# What stays: the fault, how often the chunk is asked about, and what the report says.
STAYING = {
    **{what: (PASSING[what], 5, word) for what, word in (("429", "429"), ("500", "500"), ("503", "503"))},
    "reset": (PASSING["reset"], 5, "ReadError|reset"),
    "timeout": (PASSING["timeout"], 2, "Timeout"),
    "half a body": (PASSING["half a body"], 5, "peer closed|incomplete"),
    "a broken chunk": (PASSING["a broken chunk"], 5, "peer closed|incomplete"),
    "half of the JSON": (PASSING["half of the JSON"], 2, "cut or garbled"),
    "a wait that is too long": (
        FakeReply("slow down", status=429, headers={"Retry-After": "400"}),
        1,
        "429.*asks for a wait of 400 s",
    ),
    "choices null": (FakeReply(body=CHOICES % "null"), 1, "choices"),
    "choices empty": (FakeReply(choices=False), 1, "choices"),
    "filtered prompt": (FakeReply("The content management policy.", status=400, code="content_filter"), 1, "filter"),
    "filtered reply": (FakeReply("Entities", finish_reason="content_filter"), 1, "filter"),
}


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("fault", STAYING)
def test_a_fault_that_stays_is_one_chunks_failure_and_the_next_run_asks_for_it_alone(
    tmp_path: Path, fake_server: FakeServer, fault: str
) -> None:
    broken, calls, reason = STAYING[fault]
    fake_server.reply = bad_one(broken)
    others = sorted(name for name in NAMES if name != BAD)
    with opened(tmp_path, fake_server) as index:
        report = index.add(BOOK)
        (failure,) = report.failed
        assert (failure.stage, failure.source, failure.chunk) == ("extract", "ledger.txt", NAMES.index(BAD))
        assert BOOK.page_content[failure.start : failure.end].startswith(BAD)
        assert re.search(reason, failure.reason)
        assert tenants(index) == others
        # A try that a busy machine makes time out is made once more only, and may be the last.
        assert min(2, calls) <= len(calls_for(fake_server)) <= calls
        assert fake_server.peak <= 4
    fake_server.requests.clear()
    fake_server.reply = good
    with opened(tmp_path, fake_server) as index:
        assert index.add(BOOK).failed == ()
        assert tenants(index) == sorted(NAMES)
    assert [asked_about(prompt) for prompt in fake_server.prompts] == [BAD]


# A server that stops for good in the middle.

ENDS = {
    "hangs": FakeReply(hang=60),
    "fails": FakeReply("oh", status=503),
    "resets": FakeReply(reset=True),
    "refuses the key": FakeReply("no", status=401),
    "has no credit": FakeReply("You exceeded your current quota.", status=429, code="insufficient_quota"),
}
DONE = 8  # chunks before that


def stopping(fault: FakeReply, after: int = DONE) -> Callable[[Any], str | FakeReply]:
    lock, left = threading.Lock(), [after]

    def reply(body: Any) -> str | FakeReply:
        with lock:
            left[0] -= 1
            return good(body) if left[0] >= 0 else fault

    return reply


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(("fault", "concurrency"), [("hangs", 1), *((fault, 4) for fault in ENDS)])
def test_a_server_that_stops_for_good_is_soon_asked_no_more_and_the_next_run_goes_on(
    tmp_path: Path, fake_server: FakeServer, fault: str, concurrency: int
) -> None:
    """It costs a few timeouts, not one for every chunk that is left; all that came before is stored."""
    fake_server.reply = stopping(ENDS[fault])
    with opened(tmp_path, fake_server, concurrency, timeout=0.25) as index:
        started = time.monotonic()
        report = index.add(LONG)
        assert time.monotonic() - started < 6
        assert (report.extracted, len(report.failed)) == (DONE, len(LONG_BOOK) - DONE)
        assert len(tenants(index)) == DONE
        unasked = [failure for failure in report.failed if failure.reason.startswith("not asked, since")]
        assert len(unasked) >= len(report.failed) - 2 * max(3, concurrency)
        assert [failure.source for failure in report.failed] == ["long.txt"] * len(report.failed)
    assert len(fake_server.prompts) <= DONE + 5 * 2 * max(3, concurrency)
    assert fake_server.peak <= concurrency
    fake_server.requests.clear()
    fake_server.reply = good
    with opened(tmp_path, fake_server, concurrency) as index:
        assert index.add(LONG).failed == ()
        assert tenants(index) == sorted(LONG_BOOK)
    asked = sorted(asked_about(prompt) for prompt in fake_server.prompts)
    assert asked == sorted(LONG_BOOK[failure.chunk] for failure in report.failed)


@pytest.mark.usefixtures("short_waits")
def test_a_server_that_is_gone_in_the_middle_is_asked_no_more(tmp_path: Path) -> None:
    with FakeServer(good) as server:
        with opened(tmp_path, server) as index:
            index.add(BOOK)
        gone = opened(tmp_path, server)
    with gone as index, pytest.raises(ModelUnreachableError, match="no connection"):
        index.add(LONG)
    with FakeServer(good) as server, opened(tmp_path, server) as index:
        assert tenants(index) == sorted(NAMES)


@pytest.mark.usefixtures("short_waits")
def test_where_nothing_at_all_could_be_asked_no_folder_is_made(tmp_path: Path, fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply(hang=60)
    with (
        opened(tmp_path, fake_server, timeout=0.2) as index,
        pytest.raises(ModelUnreachableError, match=r"4 calls in a row .*Timeout"),
    ):
        index.add(LONG)
    assert not (tmp_path / "index").exists()


def test_a_few_bad_calls_in_between_stop_nothing() -> None:
    """Only failures of the server in a row count, and an answer of any kind is one."""
    replies: list[Any] = [TimeoutError(), ReplyError("refused"), TimeoutError(), TimeoutError(), "fine", TimeoutError()]
    llm = RunnableLambda(lambda number: _raised(replies[number])).bind()
    with Run(1).active() as active:
        for number, expected in enumerate(replies):
            if isinstance(expected, str):
                assert call(_without_retries(llm), number).text == expected
            else:
                with pytest.raises(ReplyError if isinstance(expected, ReplyError) else ModelBusyError):
                    call(_without_retries(llm), number)
        assert active.stopped is None


def test_as_many_calls_in_a_row_as_are_in_flight_stop_a_run_but_never_fewer_than_three() -> None:
    llm = _without_retries(RunnableLambda(lambda _: _raised(TimeoutError())))
    for concurrency, most in ((1, 3), (2, 3), (5, 5)):
        with Run(concurrency).active() as active:
            for number in range(most):
                assert active.stopped is None, number
                with pytest.raises(ModelBusyError):
                    call(llm, "Who?")
            with pytest.raises(ModelUnreachableError, match=f"not asked.*{most} calls in a row"):
                call(llm, "Who?")


# A model that a user brings, without retries of its own.


class _Own(RunnableLambda[Any, Any]):
    """A user's model, which counts its calls and when they were made."""

    def __init__(self, *replies: Any) -> None:
        self.times: list[float] = []
        self.left = list(replies)

        def ask(prompt: Any) -> Any:
            self.times.append(time.monotonic())
            return _raised(self.left.pop(0) if len(self.left) > 1 else self.left[0])

        async def aask(prompt: Any) -> Any:
            return ask(prompt)

        super().__init__(ask, aask)


class _TooBusy(Exception):
    """As clients raise it: a status, and a response with headers."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = httpx.Response(status, headers=named)


def _raised(reply: Any) -> Any:
    if isinstance(reply, Exception):
        raise reply
    return reply


def _without_retries(llm: Any) -> Any:
    class Once(RunnableLambda[Any, Any]):
        max_retries = 0

    return Once(llm.invoke, llm.ainvoke)


ASKS: list[Callable[[Any], Any]] = [
    lambda llm: call(llm, "Who?"),
    lambda llm: run(acall(llm, "Who?")),
    lambda llm: list(stream(llm, "Who?"))[-1],
    lambda llm: run(_streamed(llm)),
]


async def _streamed(llm: Any) -> Any:
    return [item async for item in astream(llm, "Who?")][-1]


@pytest.mark.parametrize(("ask", "wait"), list(zip(ASKS, (0.1, 1, 0.1, 0.1), strict=True)))
def test_a_users_own_model_is_asked_again_as_late_as_its_server_says(ask: Callable[[Any], Any], wait: float) -> None:
    """api-08: 429 with a wait, 429 without, then an answer: three calls, the first wait as long as was asked for."""
    llm = _Own(_TooBusy(429, Retry_After=str(wait)), _TooBusy(429), "Ada.")
    assert ask(llm).text == "Ada."
    first, second, third = llm.times
    assert second - first >= wait
    assert third - second >= 0.5


TRANSIENT = [
    httpx.ReadTimeout(""),
    httpx.RemoteProtocolError("peer closed connection"),
    ConnectionResetError("reset"),
    ConnectionError("lost"),
    TimeoutError(),
    _TooBusy(503),
    _TooBusy(529),
]


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("error", TRANSIENT, ids=repr)
def test_what_may_work_later_is_tried_again(error: Exception) -> None:
    for ask in ASKS:
        llm = _Own(error, "Ada.")
        assert ask(llm).text == "Ada."
        assert len(llm.times) == 2


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    ("error", "calls", "kind"),
    [
        (_TooBusy(503), 5, ModelBusyError),
        (ConnectionResetError("reset"), 5, ModelBusyError),
        (ConnectionRefusedError("refused"), 5, ModelUnreachableError),
        (httpx.ReadTimeout(""), 2, ModelBusyError),
        (ValueError("a mistake"), 1, ModelError),
        (_TooBusy(400), 1, ModelError),
        (_TooBusy(401), 1, ModelUnreachableError),
        (_TooBusy(402), 1, ModelUnreachableError),
        (_TooBusy(429, Retry_After="301"), 1, ModelBusyError),
    ],
    ids=repr,
)
def test_tries_are_bounded_by_what_they_are_worth(error: Exception, calls: int, kind: type[ModelError]) -> None:
    for ask in ASKS:
        llm = _Own(error)
        with pytest.raises(ModelError) as caught:
            ask(llm)
        assert type(caught.value) is kind
        assert len(llm.times) == calls


@pytest.mark.usefixtures("short_waits")
def test_a_model_with_retries_of_its_own_is_left_to_them(fake_server: FakeServer) -> None:
    """Be they none; also inside a chain, with something bound to it, and where the client is out of sight."""
    fake_server.reply = lambda body: FakeReply("oh", status=503, headers={"Retry-After": "0"})
    for own in (0, 1):
        llm = ChatOpenAI(model="m", base_url=fake_server.base_url, max_retries=own)
        hidden: Any = RunnableLambda(llm.invoke, llm.ainvoke)
        for each in (llm, llm.bind(stop=["END"]), RunnableLambda(lambda prompt: prompt) | llm):
            fake_server.requests.clear()
            with pytest.raises(ModelBusyError):
                call(each, "Who?")
            assert len(fake_server.requests) == own + 1
        fake_server.requests.clear()
        with pytest.raises(ModelBusyError):
            call(hidden, "Who?")
        assert len(fake_server.requests) == (2 if own else 5)
    patient = _Own(_TooBusy(503)).with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    with pytest.raises(ModelBusyError):
        call(patient, "Who?")
    assert len(patient.bound.times) == 2  # type: ignore[attr-defined]


def test_a_stream_that_has_begun_is_not_begun_again() -> None:
    times = 0

    def pieces(prompt: Any) -> Any:
        nonlocal times
        times += 1
        yield "Ada "
        raise ConnectionResetError("reset")

    with pytest.raises(ModelBusyError):
        list(stream(RunnableLambda(pieces), "Who?"))
    assert times == 1


def test_how_long_a_server_is_left_alone() -> None:
    for wait, said in ((7, "7"), (0, "0"), (2.5, "2.5")):
        assert retry_after(_TooBusy(429, Retry_After=said)) == wait
    assert retry_after(_TooBusy(429, Retry_After_Ms="250")) == 0.25
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 25 < (retry_after(_TooBusy(503, Retry_After=date)) or 0) <= 30
    for nonsense in ("soon", "-5", "nan", ""):
        assert retry_after(_TooBusy(429, Retry_After=nonsense)) in (None, 0)
    long = Patience(4).pause(_TooBusy(429, Retry_After=str(LONGEST_WAIT)))
    assert long is not None
    assert long >= LONGEST_WAIT, "longer than clients wait by themselves, and never earlier"
    assert Patience(4).pause(_TooBusy(429, Retry_After=str(LONGEST_WAIT + 1))) is None


def test_waits_grow_up_to_a_bound() -> None:
    patience = Patience(6)
    waits = [patience.pause(_TooBusy(503)) or 0 for _ in range(6)]
    assert [round(wait, 0) for wait in waits[1:]] == [1, 2, 4, 8, 8]
    assert patience.pause(_TooBusy(503)) is None


async def test_who_waits_keeps_its_place_and_the_loop_is_free() -> None:
    """Two places: one call waits for its next try, so the other calls go through the one that is left."""
    in_flight = most = 0
    first = True

    async def ask(prompt: Any) -> str:
        nonlocal in_flight, most, first
        in_flight += 1
        most = max(most, in_flight)
        try:
            await asyncio.sleep(0.01)
            if prompt == "slow" and first:
                first = False
                raise _TooBusy(429, Retry_After="0.3")
            return "Ada."
        finally:
            in_flight -= 1

    llm: Any = RunnableLambda(lambda prompt: "", ask)
    with Run(2).active() as active:
        started = time.monotonic()
        slow = asyncio.create_task(acall(llm, "slow"))
        await asyncio.sleep(0)
        others = [asyncio.create_task(acall(llm, str(number))) for number in range(8)]
        await asyncio.gather(*others)
        between = time.monotonic() - started
        assert not slow.done(), "the others did not wait for it"
        assert between >= 0.08, "one at a time"
        assert (await slow).text == "Ada."
        assert most <= 2
        assert active._slots.free == 2


async def test_a_call_that_is_cancelled_while_it_waits_gives_its_place_back() -> None:
    llm = _Own(_TooBusy(503, Retry_After="60"))
    with Run(1).active() as active:
        waiting = asyncio.create_task(acall(llm, "Who?"))
        await asyncio.sleep(0.05)
        assert active._slots.free == 0
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert active._slots.free == 1
        assert (await asyncio.wait_for(acall(_Own("Ada."), "Who?"), 1)).text == "Ada."


async def test_a_run_that_stops_wakes_those_who_wait() -> None:
    llm = _Own(_TooBusy(503, Retry_After="60"))
    with Run(4).active() as active:
        tasks = [asyncio.create_task(acall(llm, "Who?")), asyncio.create_task(asyncio.to_thread(call, llm, "Who?"))]
        await asyncio.sleep(0.1)
        active.stop(ModelUnreachableError("gone"))
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 2)
        assert [type(result) for result in results] == [ModelBusyError, ModelBusyError]
        assert len(llm.times) == 2
        assert active._slots.free == 4


# One limiter for all stages.


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("concurrency", [1, 3])
def test_chat_and_embeddings_together_never_exceed_the_limit_whatever_fails(
    tmp_path: Path, fake_server: FakeServer, concurrency: int
) -> None:
    faults = [FakeReply("x", status=503), FakeReply(reset=True), FakeReply(TEXT, cut=True), FakeReply("x", status=429)]
    lock, calls = threading.Lock(), [0]

    def reply(body: Any) -> str | FakeReply:
        with lock:
            calls[0] += 1
            return faults[calls[0] // 3 % 4] if calls[0] % 3 == 0 else good(body)

    def embed(body: Any) -> FakeReply | None:
        with lock:
            calls[0] += 1
            return FakeReply("x", status=503, headers={"Retry-After": "0.01"}) if calls[0] % 4 == 0 else None

    fake_server.reply, fake_server.embed, fake_server.latency = reply, embed, 0.01
    embeddings = embedding_model("fake-embedding", fake_server.base_url)
    with opened(tmp_path, fake_server, concurrency, embeddings=embeddings, embedding_batch_size=3) as index:
        assert index.add(LONG).failed == ()
        assert tenants(index) == sorted(LONG_BOOK)
    assert fake_server.peak == concurrency


# A prompt that is longer than the model's context.

OVERFLOWS = [
    (400, "This model's maximum context length is 4096 tokens. However, your messages resulted in 5012 tokens."),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "the request exceeds the available context size. try increasing the context size or enable context shift"),
    (500, "the request exceeds the available context size (n_ctx=2048)"),
    (400, "Requested tokens (5000) exceed context window of 2048"),
    (400, "The input token count (40000) exceeds the maximum number of tokens allowed (32768)."),
    (400, "Too many tokens in prompt"),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4200"),
    (422, "`inputs` must have less than 1024 tokens. Given: 3000"),
    (413, "Request too large for model in organization on tokens per minute: Limit 6000, Requested 8000"),
    (429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 40000."),
    (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
    (400, "Invalid request: Your request exceeded model token limit: 8192"),
    (400, "invalid params, context window exceeds limit"),
    (400, "Prompt 超长"),
    (400, "输入长度超出模型限制"),
    (400, "请求内容超出最大长度"),
    (400, "输入的 token 数量超过了模型的上下文长度"),
    (400, "文本长度超过限制，请缩短后重试"),
]


@pytest.mark.parametrize(("status", "words"), OVERFLOWS)
def test_a_context_overflow_is_known_in_every_servers_words_and_not_tried_again(status: int, words: str) -> None:
    error = _TooBusy(status)
    error.args = (words,)
    assert is_overflow(error)
    assert type(model_error(error)) is ContextOverflowError
    assert Patience(4).pause(error) is None


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (429, "Rate limit reached: Limit 30000 tokens per minute, used 29000, exceeded by 500 tokens"),
        (400, "temperature must be between 0 and 2"),
        (401, "prompt is too long"),
        (503, "overloaded"),
        (400, "The content management policy forbids this input"),
    ],
)
def test_what_is_no_overflow_is_not_taken_for_one(status: int, words: str) -> None:
    error = _TooBusy(status)
    error.args = (words,)
    assert not isinstance(model_error(error), ContextOverflowError)


# Chunks of fourteen sentences; the server takes so many characters of a chunk.
PEOPLE = LONG_BOOK[:14]
ENGLISH = " ".join(
    f"{name} rented the old boathouse by the weir and paid the miller in copper coins." for name in PEOPLE
)
FAMILIES = tuple(f"{name}氏" for name in "赵钱孙李周吴郑王冯陈褚卫蒋沈")
CHINESE = "".join(f"{name}在春天租下了河边的船坊，用铜钱付了一年的租金，还修好了漏水的屋顶。" for name in FAMILIES)
NAMED = re.compile("|".join((*PEOPLE, *FAMILIES)))


def small_context(room: int, **fault: Any) -> Callable[[Any], str | FakeReply]:
    """A server that refuses a chunk of more characters, and a history."""
    refusal = {"text": "maximum context length", "status": 400, "code": "context_length_exceeded", **fault}

    def reply(body: Any) -> str | FakeReply:
        prompt = prompt_of(body)
        text = re.split(r"\[(?:Text|文本)\]:", prompt)[-1]
        own = re.split(r"\[(?:Results|结果)\]:", text)[0].strip()
        if len(own) > room or re.search(r"Section 1:\n\S", prompt.split("```")[-1]):
            return FakeReply(**refusal)
        rows = [f"({name}#Tenant)" for name in NAMED.findall(own)]
        return "Entities:\n" + "\n".join(rows)

    return reply


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_a_chunk_that_overflows_the_context_is_halved_at_a_sentence_until_it_fits(
    tmp_path: Path, fake_server: FakeServer, text: str
) -> None:
    """The halves' records are one extraction of the chunk, in the order of the text, and are not asked for again."""
    fake_server.reply = small_context(len(text) // 3)
    llm = chat_model("fake-chat", fake_server.base_url)
    with GraphIndex.open(tmp_path / "index", llm, reports=False) as index:
        report = index.add(Document(text, metadata={"source": "weir.txt"}))
        assert (report.failed, report.chunks, report.extracted) == ((), 1, 1)
        assert [vertex.name for vertex in index.graph.vertices()] == NAMED.findall(text)
    assert len(fake_server.prompts) == 7
    texts = [re.split(r"\[(?:Text|文本)\]:", prompt)[-1] for prompt in fake_server.prompts]
    asked = [re.split(r"\[(?:Results|结果)\]:", each)[0].strip() for each in texts]
    assert all(each.endswith((".", "。")) for each in asked)
    assert re.sub(r"\s", "", "".join(asked[2:4] + asked[5:])) == re.sub(r"\s", "", text)
    fake_server.requests.clear()
    with GraphIndex.open(tmp_path / "index", llm, reports=False) as index:
        assert index.add(Document(text, metadata={"source": "weir.txt"})).failed == ()
    assert fake_server.prompts == []


def test_the_history_goes_before_the_chunk_is_halved(fake_server: FakeServer) -> None:
    class Earlier:
        def read(self, chunks: Any) -> Any:
            return [[Document("The weir was built by monks.")] for _ in chunks]

        async def aread(self, chunks: Any) -> Any:
            return self.read(chunks)

    fake_server.reply = small_context(len(ENGLISH))
    stage = GraphExtractor(chat_model("fake-chat", fake_server.base_url), Earlier())  # type: ignore[arg-type]
    for found in (stage.invoke(ENGLISH), run(stage.ainvoke(ENGLISH))):
        assert [name for name, _ in found.entities] == list(PEOPLE)
    assert ["monks" in prompt for prompt in fake_server.prompts] == [True, False] * 2
    fake_server.requests.clear()
    own = GraphExtractor(chat_model("m", fake_server.base_url), Earlier(), prompt="Names?\n[Text]: {text}")  # type: ignore[arg-type]
    fake_server.reply = small_context(10)
    with pytest.raises(ContextOverflowError):
        own.invoke("Tenant000 Vane left the boathouse.")
    assert len(fake_server.prompts) == 1, "a prompt that shows no history is not sent twice"


def test_what_does_not_fit_in_any_part_is_a_failure_that_names_it(tmp_path: Path, fake_server: FakeServer) -> None:
    """Depth first, so that it costs a call for each halving and no more."""
    fake_server.reply = small_context(10)
    with GraphIndex.open(tmp_path / "i", chat_model("m", fake_server.base_url), reports=False) as index:
        report = index.add(
            [Document(ENGLISH, metadata={"source": "weir.txt"}), Document("Hm.", metadata={"source": "n"})]
        )
        (failure,) = report.failed
        assert (failure.source, failure.start, failure.end) == ("weir.txt", 0, len(ENGLISH))
        assert re.search(r"context_length_exceeded.*characters of it, from 'Tenant000 Vane", failure.reason)
    assert len(fake_server.prompts) <= 4


def test_a_prompt_that_the_server_cuts_without_a_word_is_halved_too(fake_server: FakeServer) -> None:
    """api-02, where it helps: the server reads the end of what is too long, and says how much it read."""
    fake_server.reply = small_context(len(ENGLISH) * 6 // 10, text="Hello!", status=200, code=None, prompt_tokens=128)
    found = GraphExtractor(chat_model("m", fake_server.base_url)).invoke(ENGLISH)
    assert [name for name, _ in found.entities] == list(PEOPLE)
    assert len(fake_server.prompts) == 3


def test_a_chunk_whose_records_do_not_fit_into_a_reply_is_halved_after_the_second_try(fake_server: FakeServer) -> None:
    def reply(body: Any) -> str | FakeReply:
        own = re.split(r"\[Text\]:|again", prompt_of(body))[-1]
        names = [name for name in PEOPLE if name in own]
        rows = "Entities:\n" + "\n".join(f"({name}#Tenant)" for name in names)
        return rows if len(names) < 9 else FakeReply(rows[:60], finish_reason="length")

    fake_server.reply = reply
    stage = GraphExtractor(chat_model("m", fake_server.base_url))
    for found in (stage.invoke(ENGLISH), run(stage.ainvoke(ENGLISH))):
        assert [name for name, _ in found.entities] == list(PEOPLE)
    assert len(fake_server.prompts) == 2 * 4, "twice for the whole, once for each half"


def test_a_reply_that_never_ends_is_given_up_with_its_whole_records(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply("Entities:\n(Hazel Thorne#Tenant)\n(Bri", finish_reason="length")
    with pytest.raises(ReplyError, match="token limit") as caught:
        GraphExtractor(chat_model("m", fake_server.base_url)).invoke(ENGLISH)
    assert caught.value.extraction is not None
    assert caught.value.extraction.entities == (("Hazel Thorne", "Tenant"),)
    assert len(fake_server.prompts) <= 6, "two for each halving"


def test_gleaning_and_asking_again_work_on_halves(fake_server: FakeServer) -> None:
    fits = small_context(len(ENGLISH) * 6 // 10)

    def reply(body: Any) -> str | FakeReply:
        turns = body["messages"]
        answer = fits({"messages": turns[:1]})
        if isinstance(answer, FakeReply) or (len(turns) > 1 and not turns[-2]["content"].startswith("Entities")):
            return answer
        return "I cannot see a text." if len(turns) == 1 else "Entities:\n(Weir House#Gleaned)"

    fake_server.reply = reply
    found = GraphExtractor(chat_model("m", fake_server.base_url), max_gleanings=1).invoke(ENGLISH)
    names = [name for name, _ in found.entities]
    assert [name for name in names if name in PEOPLE] == list(PEOPLE)
    assert names.count("Weir House") == 1
    assert len(fake_server.prompts) == 1 + 2 * 3


def test_no_part_is_smaller_than_the_floor() -> None:
    seen: list[str] = []

    def ask(prompt: Any) -> str:
        text = re.split(r"\[Text\]:", prompt.to_string())[-1].split("[Results]:")[0].strip()
        seen.append(text)
        raise ValueError("prompt is too long")

    with pytest.raises(ContextOverflowError):
        GraphExtractor(RunnableLambda(ask), counter=lambda text: len(text) // 4).invoke(ENGLISH * 8)
    assert len(seen) <= 8
    assert len(seen[-1]) // 4 >= LEAST_TOKENS / 2


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    "fault",
    [
        FakeReply("maximum context length", status=400, code="context_length_exceeded"),
        FakeReply(hang=60),
    ],
    ids=["overflow", "hangs"],
)
def test_a_description_and_a_report_that_fail_are_named_and_alone_asked_for_again(
    tmp_path: Path, fake_server: FakeServer, fault: FakeReply
) -> None:
    """Their prompts have budgets of their own; what a server refuses all the same is told."""

    def chunk_reply(body: Any) -> str:
        name = asked_about(prompt_of(body))
        return f"Entities:\n(Boathouse#Rented by {name})\n\nRelationships:\n({name}#rented#Boathouse#)"

    def derives(body: Any) -> bool:
        return "Description List:" in prompt_of(body) or '"findings"' in prompt_of(body)

    def mended(body: Any) -> str:
        finding = {"summary": "Rented by seven", "explanation": "All in spring."}
        report = {"title": "The boathouse", "summary": "Seven tenants.", "rating": 3.0, "rating_explanation": "Small."}
        if '"findings"' in prompt_of(body):
            return json.dumps({**report, "findings": [finding]})
        return "Rented by seven people." if "Description List:" in prompt_of(body) else chunk_reply(body)

    fake_server.reply = lambda body: fault if derives(body) else chunk_reply(body)
    with opened(tmp_path, fake_server, timeout=0.3, reports=True) as index:
        report = index.add(BOOK)
        assert report.extracted == len(NAMES)
        assert {failure.stage for failure in report.failed} == {"describe", "report"}
        assert "Boathouse" in next(failure.item for failure in report.failed if failure.stage == "describe")
        assert tenants(index) == sorted(NAMES)
    fake_server.requests.clear()
    fake_server.reply = mended
    with opened(tmp_path, fake_server, reports=True) as index:
        again = index.add(BOOK)
        assert (again.failed, again.extracted, again.described) == ((), 0, 1)
        assert len(fake_server.prompts) == len(report.failed)
        assert all(derives({"messages": [{"content": prompt}]}) for prompt in fake_server.prompts)


# The command line.


@pytest.mark.usefixtures("short_waits")
def test_the_command_line_takes_a_timeout_and_ends_with_1_where_a_part_was_done(
    tmp_path: Path, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in fake_server.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "ledger.txt").write_text(BOOK.page_content, encoding="utf-8")
    command = ["index", str(tmp_path / "ledger.txt"), "--out", str(tmp_path / "out"), "--model", "m", "--no-reports"]
    sizes = ["--chunk-size", "24", "--chunk-overlap", "0", "--timeout", "0.3"]
    fake_server.reply = bad_one(FakeReply(hang=60))
    assert main([*command, *sizes]) == 1
    told = capsys.readouterr().err
    assert re.search(r"failed: .*ledger\.txt, chunk 2 \(characters \d+ to \d+\): .*Timeout", told)
    assert len(calls_for(fake_server)) == 2
    fake_server.reply = good
    assert main([*command, *sizes]) == 0
    for wrong in ("0", "-1", "soon", "inf", "nan"):
        with pytest.raises(SystemExit):
            main([*command, "--timeout", wrong])
        assert "no number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["index x --out y", "query x y", "summarize x", "rebuild x", "delete x y"])
def test_every_command_that_asks_a_model_has_a_timeout_of_two_minutes(command: str) -> None:
    assert parser(dict.fromkeys(COMMANDS, lambda given: 0)).parse_args(command.split()).timeout == 120
    assert (
        parser(dict.fromkeys(COMMANDS, lambda given: 0)).parse_args([*command.split(), "--timeout", "7.5"]).timeout
        == 7.5
    )


def test_a_prompt_that_the_server_cut_silently_is_the_reason_that_is_told(tmp_path: Path) -> None:
    """A server with too small a context reads the end of the prompt: what is told names that, and both numbers."""
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableLambda

    from rag_transformers import GraphExtractor

    usage = {"input_tokens": 300, "output_tokens": 5, "total_tokens": 305}
    llm: Any = RunnableLambda(lambda prompt: AIMessage("Hello! How can I help?", usage_metadata=usage))
    with pytest.raises(ReplyError, match=r"num_ctx.*and of a half of it: .*no records") as told:
        GraphExtractor(llm, counter=lambda text: len(text.split())).invoke("Ada Moss left for Fen Mill. " * 60)
    assert "300" in str(told.value)
