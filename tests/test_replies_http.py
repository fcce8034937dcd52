"""What becomes of every kind of reply that a server gives: over HTTP, through an index, to what its report says."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_server import FakeReply, FakeServer, in_turn, prompt_of
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from rag_transformers import Chunker, GraphIndex, GraphRAGExtractor
from rag_transformers.index import Failure, IndexReport

# A document of five chunks, each with a name that no other has.
NAMES = ("Hazel Thorne", "Briar Lock", "Cole Vesper", "Marnie Pike", "Dorset Vane")
BOOK = Document(
    "\n\n".join(f"{name} rented the boathouse in spring and paid for it in copper coins." for name in NAMES),
    metadata={"source": "ledger.txt"},
)
NOTE = Document("Fen Mill grinds barley beside Fen Road.", metadata={"source": "note.txt"})


def client(server: FakeServer, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="fake-chat", base_url=server.base_url, api_key=SecretStr("k"), **{"max_retries": 0, **options}
    )


def opened(folder: Path, llm: Any, **options: Any) -> GraphIndex:
    chunker = Chunker(chunk_size=24, chunk_overlap=0)
    return GraphIndex.open(folder / "index", llm, reports=False, chunker=chunker, **options)


def asked_about(prompt: str) -> str:
    """The name in the chunk that a prompt asks about, in the last turn, without the history."""
    text = re.split(r"\[Text\]:|text:", prompt)[-1]
    (name,) = [name for name in NAMES if name in text]
    return name


def good(name: str) -> str:
    return f"Entities:\n({name}#Tenant)\n\nRelationships:\n({name}#rented#Boathouse#In spring)"


def only_for(name: str, reply: Any) -> Any:
    """A script that gives this reply where that name is asked about, and a good one elsewhere."""

    def script(body: Any) -> Any:
        asked = asked_about(prompt_of(body))
        return reply if asked == name else good(asked)

    return script


def calls_for(server: FakeServer, name: str) -> int:
    return [asked_about(prompt) for prompt in server.prompts].count(name)


def entities(index: GraphIndex) -> list[tuple[str, tuple[str, ...]]]:
    return [(vertex.name, vertex.descriptions) for vertex in index.graph.vertices()]


def tenants(index: GraphIndex) -> list[str]:
    return [vertex.name for vertex in index.graph.vertices() if vertex.name in NAMES]


def the_failure(report: IndexReport) -> Failure:
    (failure,) = report.failed
    return failure


def test_a_prompt_that_the_server_cut_without_a_word_is_named_with_both_numbers(
    tmp_path: Path, fake_server: FakeServer
) -> None:
    """api-02. A server with a small context reads the end of a prompt, and answers that."""
    fake_server.reply = lambda body: FakeReply("Hello! How can I help?", prompt_tokens=128)
    with opened(tmp_path, client(fake_server)) as index:
        reason = the_failure(index.add(NOTE)).reason
        read, sent = (int(number) for number in re.findall(r"\d+", reason)[:2])
        assert read == 128
        assert 500 < sent < 2000
        assert "num_ctx" in reason
        assert index.stats()["pending_chunks"] == 1
    assert len(fake_server.prompts) == 1, "to ask again would be of no use"


@pytest.mark.parametrize("doubled", [True, False])
def test_a_cut_reply_is_never_taken_for_a_result(tmp_path: Path, fake_server: FakeServer, doubled: bool) -> None:
    """api-03. Its whole records stand until the chunk is asked again, with a larger limit or with the same one."""
    fake_server.reply = lambda body: FakeReply("Entities:\n(Fen Mill#Water mill)\n(Fen Ro", finish_reason="length")
    with opened(tmp_path, client(fake_server, max_tokens=16)) as index:
        assert "token limit" in the_failure(index.add(NOTE)).reason
        assert index.stats()["pending_chunks"] == 1
        assert entities(index) == [("Fen Mill", ("Water mill",))]
    assert len(fake_server.prompts) == 2, "asked for once more, and not again"
    fake_server.reply = lambda body: "Entities:\n(Fen Mill#Water mill)\n(Fen Road#Lane)"
    with opened(tmp_path, client(fake_server, max_tokens=32 if doubled else 16)) as index:
        assert index.add(NOTE).failed == ()
        assert entities(index) == [("Fen Mill", ("Water mill",)), ("Fen Road", ("Lane",))]
    assert len(fake_server.prompts) == 3
    assert fake_server.requests[-1].body["max_completion_tokens"] == (32 if doubled else 16)


FILTERS = [
    FakeReply("Input data may contain inappropriate content.", status=400, code="DataInspectionFailed"),
    FakeReply("The response was filtered by the content management policy.", status=400, code="content_filter"),
    FakeReply("Entities:\n(Bri", finish_reason="content_filter"),
    FakeReply(None, refusal="I will not read this: content_filter"),
]


@pytest.mark.parametrize("refusal", FILTERS)
def test_a_passage_that_is_refused_is_skipped_and_the_rest_goes_on(
    tmp_path: Path, fake_server: FakeServer, refusal: FakeReply
) -> None:
    """api-04. The same text is not sent again, and the provider's own code is shown."""
    fake_server.reply = only_for("Briar Lock", refusal)
    with opened(tmp_path, client(fake_server, max_retries=3)) as index:
        failure = the_failure(index.add(BOOK))
        assert (failure.source, failure.chunk) == ("ledger.txt", 1)
        assert BOOK.page_content[failure.start : failure.end].startswith("Briar Lock")
        assert re.search("DataInspectionFailed|content[_ ]filter", failure.reason)
        assert tenants(index) == [name for name in NAMES if name != "Briar Lock"]
    assert calls_for(fake_server, "Briar Lock") == 1
    assert len(fake_server.prompts) == len(NAMES)


def test_of_content_in_blocks_the_text_alone_counts_in_its_order(tmp_path: Path, fake_server: FakeServer) -> None:
    """api-05. A record may stand in a block of reasoning; it is none."""
    blocks = [
        {"type": "reasoning", "reasoning": "Entities: (Wrong Name#no)"},
        {"type": "thinking", "thinking": "Entities:\n(Other Wrong#no)"},
        {"type": "text", "text": "Entities:\n(Fen Mill#Grinds barley)\n"},
        {"type": "text", "text": "Relationships:\n(Fen Mill#stands beside#Fen Road#All year)"},
    ]
    fake_server.reply = lambda body: FakeReply(blocks=blocks)
    with opened(tmp_path, client(fake_server)) as index:
        assert index.add(NOTE).failed == ()
        assert entities(index) == [("Fen Mill", ("Grinds barley",)), ("Fen Road", ())]
        (edge,) = index.graph.edges()
        assert (edge.source, edge.name, edge.target, edge.descriptions) == (
            *("Fen Mill", "stands beside", "Fen Road"),
            ("All year",),
        )


NO_CHOICES = [
    FakeReply(choices=False),
    FakeReply(body='{"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": null}'),
    FakeReply(body='{"id": "x", "object": "chat.completion", "created": 0, "model": "m"}'),
]


@pytest.mark.parametrize("nothing", NO_CHOICES)
def test_a_response_without_choices_is_a_failed_chunk_and_no_failed_run(
    tmp_path: Path, fake_server: FakeServer, nothing: FakeReply
) -> None:
    """api-07. The report says what is missing, not only that something has no length."""
    fake_server.reply = only_for("Hazel Thorne", nothing)
    with opened(tmp_path, client(fake_server)) as index:
        failure = the_failure(index.add(BOOK))
        assert (failure.chunk, "choices" in failure.reason) == (0, True)
        assert tenants(index) == list(NAMES[1:])


def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(tmp_path: Path, fake_server: FakeServer) -> None:
    """api-08. Nothing is lost, and nothing asked before its time."""
    told = FakeReply("slow down", status=429, headers={"Retry-After": "1"})
    untold = FakeReply("slow down", status=429)
    fake_server.reply = in_turn(told, untold, "Entities:\n(Fen Mill#Grinds barley)")
    with opened(tmp_path, client(fake_server, max_retries=4)) as index:
        report = index.add(NOTE)
        assert report.failed == ()
        assert entities(index) == [("Fen Mill", ("Grinds barley",))]
    asked = [request.started for request in fake_server.requests]
    assert len(asked) == 3
    assert asked[1] - asked[0] >= 1
    assert asked[2] > asked[1]


def test_a_chunk_that_times_out_is_reported_by_that_name_and_alone_asked_again(
    tmp_path: Path, fake_server: FakeServer
) -> None:
    """api-11. The error's own text is of no use, so its type is named; the other chunks are kept."""

    async def ask(value: Any) -> str:
        body = {"model": "m", "messages": [{"role": "user", "content": value.to_string()}]}
        async with httpx.AsyncClient(timeout=httpx.Timeout(10, read=1.5), trust_env=False) as http:
            answer = await http.post(f"{fake_server.base_url}/chat/completions", json=body)
        return str(answer.json()["choices"][0]["message"]["content"])

    llm: Any = RunnableLambda(lambda value: asyncio.run(ask(value)), afunc=ask)
    fake_server.reply = only_for("Cole Vesper", FakeReply(hang=30))
    with opened(tmp_path, llm) as index:
        failure = the_failure(index.add(BOOK))
        assert failure.chunk == 2
        assert "ReadTimeout" in failure.reason
        assert tenants(index) == [name for name in NAMES if name != "Cole Vesper"]
        fake_server.requests.clear()
        fake_server.reply = lambda body: good(asked_about(prompt_of(body)))
        assert index.add(BOOK).failed == ()
        assert [asked_about(prompt) for prompt in fake_server.prompts] == ["Cole Vesper"]
        assert tenants(index) == list(NAMES)


def test_a_timeout_of_the_usual_client_is_named_too(tmp_path: Path, fake_server: FakeServer) -> None:
    """api-11, with the client that the command line uses."""
    fake_server.reply = only_for("Cole Vesper", FakeReply(hang=30))
    with opened(tmp_path, client(fake_server, timeout=1.5)) as index:
        failure = the_failure(index.add(BOOK))
        assert (failure.chunk, "Timeout" in failure.reason) == (2, True)
        assert tenants(index) == [name for name in NAMES if name != "Cole Vesper"]


DRAFT = "Entities:\n(Wrong Name#no)"
REASONING = [f"<think>\n{DRAFT}\n</think>\n\n", f"{DRAFT}\n</think>\n", f"<thinking>{DRAFT}</thinking>"]


@pytest.mark.parametrize("reasoning", REASONING)
def test_reasoning_is_removed_from_every_reply(tmp_path: Path, fake_server: FakeServer, reasoning: str) -> None:
    """summary-08. From the records, from what a model is shown of its own reply, and from the answer."""
    records = "Entities:\n(Fen Mill#Grinds barley)"
    fake_server.reply = in_turn(f"{reasoning}I forgot how.", f"{reasoning}{records}", f"{reasoning}Barley. [1]")
    with opened(tmp_path, client(fake_server)) as index:
        assert index.add(NOTE).failed == ()
        assert entities(index) == [("Fen Mill", ("Grinds barley",))]
        answer = index.query("What does Fen Mill grind?")
        assert answer.text == "Barley. [1]"
        assert [citation.source for citation in answer.citations] == ["note.txt"]
    assert len(fake_server.prompts) == 3
    assert "I forgot how." in fake_server.prompts[1]
    assert not any("Wrong Name" in prompt for prompt in fake_server.prompts)


@pytest.mark.parametrize("reply", [FakeReply(""), FakeReply(None), FakeReply("<think>Fen Mill"), FakeReply(" \n")])
def test_an_empty_reply_or_one_of_reasoning_alone_is_a_failed_chunk(
    tmp_path: Path, fake_server: FakeServer, reply: FakeReply
) -> None:
    fake_server.reply = lambda body: reply
    with opened(tmp_path, client(fake_server)) as index:
        assert re.search("empty|reasoning only", the_failure(index.add(NOTE)).reason)
        fake_server.reply = lambda body: "Entities:\n(Fen Mill#Grinds barley)"
        assert index.add(NOTE).failed == ()


def test_replies_in_json_are_told_the_truth_of_too(tmp_path: Path, fake_server: FakeServer) -> None:
    """The cookbook's format: cut, without records, refused; each is its chunk's failure, the others are kept."""

    def script(body: Any) -> str | FakeReply:
        name = asked_about(prompt_of(body))
        data = json.dumps({"entities": [{"entity_name": name, "entity_type": "person"}], "relationships": []})
        bad = {
            NAMES[0]: FakeReply(data[:50], finish_reason="length"),
            NAMES[1]: FakeReply("I cannot see a text."),
            NAMES[2]: FakeReply(None, refusal="I will not."),
            NAMES[3]: FakeReply(data.replace(f'"{name}"', '""')),
        }
        return bad.get(name, data)

    fake_server.reply = script
    with opened(tmp_path, None, extractor=GraphRAGExtractor(client(fake_server))) as index:
        report = index.add(BOOK)
        assert [failure.chunk for failure in report.failed] == [0, 1, 2, 3]
        for failure, what in zip(report.failed, ["token limit", "no records", "refused", "no name"], strict=True):
            assert what in failure.reason
        assert entities(index) == [(NAMES[4], ())]
        assert index.stats()["pending_chunks"] == 4
    assert [calls_for(fake_server, name) for name in NAMES] == [2, 2, 1, 2, 1]
