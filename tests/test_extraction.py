"""Extraction with a model: the prompt that is sent, the context it is sent with, and the truth about the reply."""

import asyncio
import itertools
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer, prompt_of
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from scripted_model import ScriptedChatModel, hash_reply

from rag_transformers import ChunkHistory, MemoryGraph
from rag_transformers.concurrency import run
from rag_transformers.errors import ModelError, ReplyError, UsageError
from rag_transformers.extraction.graph_extractor import GraphExtractor, LLMExtractor
from rag_transformers.graph import Extraction
from rag_transformers.models.given import model_key
from rag_transformers.models.run import Run
from rag_transformers.prompts import languages, load_prompt, prompt_text
from rag_transformers.records import format_records
from rag_transformers.stores.chroma import chroma_store, close_chroma, open_chroma
from rag_transformers.text import sentences

ADA = "Ada Moss founded the Grain Trust in Port Ellery."
GOOD = "Entities:\n(Ada Moss#Founder)\n(Grain Trust#)\n\nRelationships:\n(Ada Moss#founded#Grain Trust#In Port Ellery)"
FOUND = Extraction(
    [("Ada Moss", "Founder"), ("Grain Trust", "")], [("Ada Moss", "founded", "Grain Trust", "In Port Ellery")]
)
CUT = AIMessage("Entities:\n(Fen Mill#Water mill)\n(Fen Ro", response_metadata={"finish_reason": "length"})

PEOPLE = ("Ada Moss", "Orrin Vale", "林晚", "Grain Trust", "济川书院")
DEEDS = ("opened a mill on the river", "wrote to the council about rain", "重修了镇上的石桥", "lost a ledger at sea")
CHUNKS = [
    Document(
        f"{person} {deed} in year {year}. The town spoke of {person} for a long time."
        if person.isascii()
        else f"{person}在第{year}年{deed}。镇上的人一直记得{person}。",
        id=f"chunk-{number}",
        metadata={"source": f"doc{number % 3}.txt", "chunk": number // 3},
    )
    for number, (year, person, deed) in enumerate(itertools.islice(itertools.product((1, 2), PEOPLE, DEEDS), 40))
]


class WordEmbeddings(Embeddings):
    """Texts are alike that share words, or characters beyond ASCII."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [0.01] * 96
        for word in [*text.casefold().split(), *(letter for letter in text if not letter.isascii())]:
            vector[sum(word.encode()) % 96] += 1.0
        length = sum(value * value for value in vector) ** 0.5
        return [value / length for value in vector]


class Shelf:
    """A history that is told what it finds, and keeps what it was asked."""

    def __init__(self, *sections: str) -> None:
        self.sections = [Document(section) for section in sections]
        self.reads: list[list[str]] = []
        self.gone: list[str] = []

    def read(self, chunks: Sequence[Document]) -> list[list[Document]]:
        self.reads.append([chunk.page_content for chunk in chunks])
        return [self.sections for _ in chunks]

    async def aread(self, chunks: Sequence[Document]) -> list[list[Document]]:
        return self.read(chunks)

    def truncate(self) -> None:
        self.gone.append("truncate")

    async def atruncate(self) -> None:
        self.gone.append("atruncate")

    def drop(self) -> None:
        self.gone.append("drop")

    async def adrop(self) -> None:
        self.gone.append("adrop")


class Watch(BaseCallbackHandler):
    """The names of runs, each with its parent's."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.seen: list[str] = []
        self.ends: list[str] = []

    def _started(self, name: str, run_id: Any, parent: Any) -> None:
        self.names[run_id] = f"{self.names[parent]}/{name}" if parent else name
        self.seen.append(self.names[run_id])

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        self._started(kwargs["name"], run_id, kwargs["parent_run_id"])

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **kwargs: Any) -> None:
        self._started("model", run_id, kwargs["parent_run_id"])

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.ends.append(type(error).__name__)

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.ends.append(type(outputs).__name__)


def scripted(*replies: Any) -> ScriptedChatModel:
    """A model that gives one reply after another, and the last one ever after."""
    left, lock = list(replies), threading.Lock()

    def reply(prompt: str) -> Any:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return ScriptedChatModel(reply=reply)


def extractor(*replies: Any, **options: Any) -> tuple[GraphExtractor, ScriptedChatModel]:
    model = scripted(*(replies or (GOOD,)))
    return GraphExtractor(llm=model, **{"counter": len, **options}), model


def fresh_history(**options: Any) -> ChunkHistory:
    return ChunkHistory(InMemoryVectorStore(WordEmbeddings()), **{"score_threshold": 0.1, **options})


def outcomes(stage: LLMExtractor, text: str | Document = ADA) -> list[Extraction | Exception]:
    """What comes of invoke and of ainvoke; the model's replies must be the same for both."""
    found: list[Extraction | Exception] = []
    asks: list[Callable[[], Extraction]] = [lambda: stage.invoke(text), lambda: run(stage.ainvoke(text))]
    for ask in asks:
        try:
            found.append(ask())
        except (ModelError, UsageError) as error:
            found.append(error)
    return found


def context_of(prompt: str) -> str:
    """What a prompt shows of the history."""
    return re.split(r"\[(?:Context|上下文)\]:\n|\n\n\[(?:Text|文本)\]:", prompt)[1]


# The prompt that is sent.


def test_a_reply_becomes_an_extraction() -> None:
    stage, model = extractor()
    assert outcomes(stage) == [FOUND, FOUND]
    assert outcomes(stage, Document(ADA)) == [FOUND, FOUND]
    assert set(model.prompts) == {load_prompt("extract_graph", "en").format(history="", text=ADA)}


def test_the_language_of_each_chunk_is_that_of_its_script() -> None:
    stage, model = extractor()
    stage.batch(["刘备在涿县遇到 Ada Moss。", ADA, "林晚"], {"max_concurrency": 1})
    chinese = prompt_text("extract_graph", "zh")[:20]
    assert [prompt.startswith(chinese) for prompt in model.prompts] == [True, False, True]


@pytest.mark.parametrize("language", languages())
def test_a_fixed_language_is_that_of_every_chunk(language: str) -> None:
    stage, model = extractor(language=language)
    stage.batch([ADA, "林晚修了桥。"])
    for prompt in model.prompts:
        assert prompt.startswith(prompt_text("extract_graph", language)[:20])


def test_an_unknown_language_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(UsageError, match=r"language is 'fr'.*auto.*en, ja, zh"):
        extractor(language="fr")


@pytest.mark.parametrize("text", ["{text} {history} {0} {}", "}{", "{{a}}", "%s $text \\1 {曹操}"])
def test_braces_in_text_and_history_are_text(text: str) -> None:
    stage, model = extractor(chunk_history=Shelf(text))
    assert outcomes(stage, text) == [FOUND, FOUND]
    assert f"Section 1:\n{text}\n\n[Text]:\n{text}\n" in model.prompts[0]


@pytest.mark.parametrize(
    "prompt",
    [
        "Graph of {text}, known: {history}",
        PromptTemplate.from_template("Graph of {text}, known: {history}"),
        ChatPromptTemplate.from_messages([("system", "Graph of"), ("human", "{text}, known: {history}")]),
        "Graph of {text}",
    ],
)
def test_a_users_prompt_is_sent_in_place_of_ours(prompt: Any) -> None:
    stage, model = extractor(prompt=prompt, chunk_history=Shelf("Before."))
    assert outcomes(stage) == [FOUND, FOUND]
    assert model.prompts[0].startswith("Graph of")
    assert ADA in model.prompts[0]
    assert ("Section 1:\nBefore." in model.prompts[0]) == ("history" in str(prompt))


@pytest.mark.parametrize(
    ("prompt", "what"), [("Names", "none"), ("{history}", "history;"), ("{text} {chunk}", "chunk, text"), (5, "int")]
)
def test_a_users_prompt_is_checked_when_the_extractor_is_made(prompt: Any, what: str) -> None:
    with pytest.raises(UsageError, match=f"GraphExtractor: prompt.*{what}"):
        extractor(prompt=prompt)


def test_the_model_is_taken_under_the_originals_names() -> None:
    model = scripted(GOOD)
    for given in ({"llm": model}, {"llm_client": model}, {"llm_invoker": model}):
        options: dict[str, Any] = {**given}
        assert GraphExtractor(**options).invoke(ADA) == FOUND
    with pytest.raises(UsageError, match="GraphExtractor takes one model"):
        GraphExtractor()


def test_a_blank_chunk_holds_nothing_and_is_not_asked_about() -> None:
    stage, model = extractor()
    assert outcomes(stage, " \n\t") == [Extraction(), Extraction()]
    assert model.prompts == []


@pytest.mark.parametrize("chunk", [None, 5, ["a"], b"bytes"])
def test_what_is_no_chunk_is_refused(chunk: Any) -> None:
    stage, _ = extractor()
    for ask in (
        lambda: stage.invoke(chunk),
        lambda: stage.batch([ADA, chunk]),
        lambda: run(stage.ainvoke(chunk)),
    ):
        with pytest.raises(UsageError, match="Document or a text"):
            ask()


# Its context.


def test_the_context_is_shown_as_sections_and_is_empty_when_there_is_none() -> None:
    stage, model = extractor(chunk_history=Shelf("One thing.", "另一件事。\n"))
    stage.invoke(ADA)
    assert "[Context]:\nSection 1:\nOne thing.\nSection 2:\n另一件事。\n\n[Text]:\n" in model.prompts[0]
    stage, model = extractor(chunk_history=Shelf())
    stage.invoke(ADA)
    assert "[Context]:\n\n\n[Text]:\n" in model.prompts[0]


SECTIONS = ("Ada met Mr. Vale. They spoke! Nobody heard it?", "林晚看雨。她写信。后来信丢了。", "A third one.")


@pytest.mark.parametrize("budget", [0, 5, 11, 12, 28, 29, 30, 43, 58, 59, 71, 72, 76, 86, 90, 99, 110, 111, 200])
def test_the_context_is_cut_to_whole_sentences_within_the_budget_the_best_section_first(budget: int) -> None:
    stage, model = extractor(chunk_history=Shelf(*SECTIONS), max_history_tokens=budget)
    stage.invoke(ADA)
    shown = context_of(model.prompts[0])
    assert len(shown) <= budget
    whole = "\n".join(f"Section {n}:\n{section}" for n, section in enumerate(SECTIONS, 1))
    assert whole.startswith(shown)
    allowed = [""]
    for number, section in enumerate(SECTIONS, 1):
        before = f"{allowed[-1]}\n" if number > 1 else ""
        start = 0
        for sentence in sentences(section):
            start = section.index(sentence, start) + len(sentence)
            allowed.append(f"{before}Section {number}:\n{section[:start]}")
    assert shown == max((text for text in allowed if len(text) <= budget), key=len)


def test_without_a_limit_the_whole_context_is_shown_and_nothing_is_counted() -> None:
    def refuse(text: str) -> int:
        raise AssertionError("counted")

    stage, model = extractor(chunk_history=Shelf("Long. " * 5000), max_history_tokens=None, counter=refuse)
    stage.invoke(ADA)
    assert "Long. " * 4999 + "Long.\n\n[Text]" in model.prompts[0]


@pytest.mark.parametrize("value", [-1, True, 1.5, "10"])
def test_a_budget_that_is_no_count_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"max_history_tokens is .*at least 0"):
        extractor(max_history_tokens=value)


def test_the_contexts_of_a_batch_are_chosen_before_any_model_call() -> None:
    asked_by_then: list[int] = []

    class Telling(Shelf):
        def read(self, chunks: Sequence[Document]) -> list[list[Document]]:
            asked_by_then.append(len(model.prompts))
            return super().read(chunks)

    shelf = Telling("Before.")
    stage, model = extractor(chunk_history=shelf)
    stage.batch(list(CHUNKS[:5]))
    list(stage.batch_as_completed(CHUNKS[5:9]))
    run(stage.abatch(list(CHUNKS[9:12])))
    assert asked_by_then == [0, 5, 9]
    assert shelf.reads == [[c.page_content for c in part] for part in (CHUNKS[:5], CHUNKS[5:9], CHUNKS[9:12])]


async def as_completed(stage: GraphExtractor, chunks: list[Any], config: Any) -> list[Any]:
    found: dict[int, Any] = {}
    async for number, extraction in stage.abatch_as_completed(chunks, config):
        found[number] = extraction
    return [found[number] for number in range(len(chunks))]


WAYS: dict[str, Callable[[GraphExtractor, list[Any]], list[Any]]] = {
    "one after another": lambda stage, chunks: [stage.invoke(chunk) for chunk in chunks],
    "batch": lambda stage, chunks: stage.batch(chunks, {"max_concurrency": 16}),
    "batch, one at a time": lambda stage, chunks: stage.batch(chunks, {"max_concurrency": 1}),
    "batch_as_completed": lambda stage, chunks: [
        found
        for _, found in sorted(stage.batch_as_completed(chunks, {"max_concurrency": 16}), key=lambda pair: pair[0])
    ],
    "abatch": lambda stage, chunks: run(stage.abatch(chunks, {"max_concurrency": 16})),
    "abatch without limit": lambda stage, chunks: run(stage.abatch(chunks)),
    "abatch_as_completed": lambda stage, chunks: run(as_completed(stage, chunks, {"max_concurrency": 16})),
    "two batches": lambda stage, chunks: [*stage.batch(chunks[:17]), *stage.batch(chunks[17:])],
    "in a chain": lambda stage, chunks: (RunnablePassthrough() | stage).batch(chunks, {"max_concurrency": 16}),
    "with_retry": lambda stage, chunks: stage.with_retry().batch(chunks, {"max_concurrency": 16}),
}


def uneven(prompt: str) -> str:
    """A reply that depends on the whole prompt, after a time that does too, so that calls finish out of order."""
    threading.Event().wait(sum(prompt.encode()) % 7 / 1000)
    return hash_reply(prompt)


@pytest.mark.parametrize("way", WAYS)
def test_at_any_concurrency_the_prompts_are_those_of_one_chunk_after_another(way: str) -> None:
    results, prompts = [], []
    for ask in (WAYS["one after another"], WAYS[way]):
        model = ScriptedChatModel(reply=uneven)
        results.append(ask(GraphExtractor(llm=model, chunk_history=fresh_history(), counter=len), list(CHUNKS)))
        prompts.append(sorted(model.prompts))
    assert results[0] == results[1]
    assert prompts[0] == prompts[1]
    assert sum("Section 2:" in context_of(prompt) for prompt in prompts[0]) > 10


def test_a_chunk_is_shown_earlier_chunks_only() -> None:
    model = ScriptedChatModel(reply=hash_reply)
    stage = GraphExtractor(llm=model, chunk_history=fresh_history(), max_history_tokens=None)
    stage.batch(list(CHUNKS), {"max_concurrency": 1})
    for number, prompt in enumerate(model.prompts):
        assert not any(chunk.page_content in context_of(prompt) for chunk in CHUNKS[number:])


def test_over_chroma_the_prompts_are_those_of_one_chunk_after_another() -> None:
    prompts = []
    for way in ("one after another", "abatch"):
        client = open_chroma()
        model = ScriptedChatModel(reply=uneven)
        history = ChunkHistory(chroma_store(client, "历史", WordEmbeddings()), score_threshold=0.1)
        WAYS[way](GraphExtractor(llm=model, chunk_history=history, counter=len), list(CHUNKS))
        prompts.append(sorted(model.prompts))
        close_chroma(client)
    assert prompts[0] == prompts[1]
    assert sum("Section 2:" in context_of(prompt) for prompt in prompts[0]) > 10


def test_a_chunk_that_is_asked_about_again_is_shown_the_same_context() -> None:
    chunks: list[Any] = [
        Document(chunk.page_content, id=chunk.id, metadata={**chunk.metadata, "order": number})
        for number, chunk in enumerate(CHUNKS)
    ]
    failed: set[str] = set()

    def reply(prompt: str) -> str:
        if sum(prompt.encode()) % 3 == 0 and prompt not in failed:
            failed.add(prompt)
            raise ConnectionError("lost")
        return hash_reply(prompt)

    results, prompts = [], []
    for answer in (hash_reply, reply):
        model = ScriptedChatModel(reply=answer)
        stage = GraphExtractor(llm=model, chunk_history=fresh_history(), counter=len)
        again = stage.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        results.append(again.batch(chunks, {"max_concurrency": 8}))
        prompts.append(set(model.prompts))
    assert failed
    assert results[0] == results[1]
    assert prompts[0] == prompts[1]


def test_over_http_the_prompts_are_those_of_one_chunk_after_another(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: uneven(prompt_of(body))

    def stage() -> GraphExtractor:
        llm = ChatOpenAI(model="fake-chat", api_key="test", base_url=fake_server.base_url, max_retries=0)  # type: ignore[arg-type]
        return GraphExtractor(llm=llm, chunk_history=fresh_history(), counter=len)

    one_by_one = WAYS["one after another"](stage(), list(CHUNKS))
    asked = sorted(fake_server.prompts)
    for way in ("batch", "abatch", "abatch_as_completed"):
        fake_server.requests.clear()
        fake_server.peak = 0
        assert WAYS[way](stage(), list(CHUNKS)) == one_by_one
        assert sorted(fake_server.prompts) == asked
        assert 1 < fake_server.peak <= 16


def test_truncate_and_drop_go_to_the_history() -> None:
    shelf = Shelf()
    stage, _ = extractor(chunk_history=shelf)
    stage.truncate()
    stage.drop()
    run(stage.atruncate())
    run(stage.adrop())
    assert shelf.gone == ["truncate", "drop", "atruncate", "adrop"]


def test_without_a_history_truncate_and_drop_do_nothing() -> None:
    stage, _ = extractor()
    stage.truncate()
    stage.drop()
    run(stage.atruncate())
    run(stage.adrop())
    assert stage.invoke(ADA) == FOUND


# The truth about the reply.

PROSE = "I am sorry, but I cannot see a text."
PARTIAL = "Entities:\n(Ada Moss#Founder)\n( #Somebody)\n\nRelationships:\n(Ada Moss#founded#Grain Trust#)"


@pytest.mark.parametrize("bad", [PROSE, PARTIAL, CUT, "Entities:\n(Ada Moss#Founder)\n(Grain Tr"])
def test_a_reply_that_cannot_be_read_is_asked_for_once_more_in_the_same_conversation(bad: Any) -> None:
    for language, text in (("en", ADA), ("zh", "林晚在青石镇重修了石桥。")):
        stage, model = extractor(bad, GOOD)
        assert stage.invoke(text) == FOUND
        first, second = model.prompts
        said = bad if isinstance(bad, str) else str(bad.content)
        again = load_prompt("reask_records", language).format(text=text)
        assert second == f"{first}\n{said}\n{again}"


async def test_asking_again_is_the_same_in_async() -> None:
    stage, model = extractor(PROSE, GOOD)
    assert await stage.ainvoke(ADA) == FOUND
    stage, other = extractor(PROSE, GOOD)
    assert stage.invoke(ADA) == FOUND
    assert model.prompts == other.prompts


def test_the_turns_of_the_conversation_have_their_roles() -> None:
    seen: list[list[str]] = []

    def reply(value: Any) -> str:
        seen.append([message.type for message in value.to_messages()])
        return PROSE if len(seen) == 1 else GOOD

    assert GraphExtractor(llm=RunnableLambda(reply)).invoke(ADA) == FOUND
    assert seen == [["human"], ["human", "ai", "human"]]


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (PROSE, "record"),
        (PARTIAL, r"\( #Somebody\)|line 3"),
        (CUT, "cut off at the token limit"),
        ("Entities:\n(Ada Moss#Founder)\n(Grain Tr", "Grain Tr|open"),
    ],
)
def test_what_is_still_wrong_is_an_error_that_says_what_and_shows_the_reply(bad: Any, what: str) -> None:
    stage, model = extractor(bad)
    for error in outcomes(stage):
        assert isinstance(error, ReplyError)
        assert re.search(what, str(error))
        assert error.reply == (bad if isinstance(bad, str) else bad.content)
        assert error.finish_reason == ("length" if bad is CUT else "stop")
        assert " ".join(error.reply.split())[:40] in str(error)
    assert len(model.prompts) == 4


def test_what_could_be_read_of_a_bad_reply_goes_with_the_error() -> None:
    stage, _ = extractor(PARTIAL, reask=False)
    for error in outcomes(stage):
        assert isinstance(error, ReplyError)
        assert error.extraction == Extraction([("Ada Moss", "Founder")], [("Ada Moss", "founded", "Grain Trust", "")])


def test_asking_again_can_be_switched_off() -> None:
    stage, model = extractor(PROSE, GOOD, reask=False)
    with pytest.raises(ReplyError):
        stage.invoke(ADA)
    assert len(model.prompts) == 1


@pytest.mark.parametrize(
    "nothing",
    [
        "None",
        "none.",
        "无",
        "无。",
        "N/A",
        "Entities:\n\nRelationships:\n",
        "Entities:\n(none)\n\nRelationships:\nNone",
        "实体：\n无\n\n关系：\n无",
        "```\n**Entities**:\n\n**Relationships**:\n```",
    ],
)
def test_a_reply_that_says_there_is_nothing_is_a_valid_one(nothing: str) -> None:
    stage, model = extractor(nothing)
    assert outcomes(stage) == [Extraction(), Extraction()]
    assert len(model.prompts) == 2


@pytest.mark.parametrize(
    "bad",
    [
        AIMessage(""),
        AIMessage("<think>Only this."),
        AIMessage("", additional_kwargs={"refusal": "No."}),
        AIMessage("Half", response_metadata={"finish_reason": "content_filter"}),
        ValueError("no such model"),
        TypeError("Received response with null value for `choices`."),
    ],
)
def test_a_failed_call_raises_and_is_not_asked_again(bad: Any) -> None:
    stage, model = extractor(bad)
    for error in outcomes(stage):
        assert isinstance(error, ModelError)
    for ask in (lambda: stage.extract(ADA), lambda: stage.batch_extract([ADA])):
        with pytest.raises(ModelError):
            ask()
    assert len(model.prompts) == 4


def test_an_error_notes_the_chunk_that_it_comes_from() -> None:
    stage, _ = extractor(PROSE)
    for error, where in zip(
        [*outcomes(stage, CHUNKS[4]), *outcomes(stage)],
        ["doc1.txt, chunk 1", "doc1.txt, chunk 1", "Ada Moss founded", "Ada Moss founded"],
        strict=True,
    ):
        assert isinstance(error, ReplyError)
        assert [where in note for note in error.__notes__] == [True]


def test_the_example_of_the_prompt_never_becomes_a_fact() -> None:
    example = prompt_text("extract_graph", "en").split("```")[1]
    stage, _ = extractor(f"{example}\n{GOOD}")
    assert outcomes(stage) == [FOUND, FOUND]


def test_a_long_bad_reply_goes_back_in_part() -> None:
    stage, model = extractor("(Ada#" * 100_000, GOOD)
    assert stage.invoke(ADA) == FOUND
    assert len(model.prompts[1]) < len(model.prompts[0]) + 6000


def test_a_prompt_that_the_server_cut_is_named_as_the_likely_cause_and_not_asked_again() -> None:
    usage = {"input_tokens": 1024, "output_tokens": 8, "total_tokens": 1032}
    stage, model = extractor(AIMessage("Hello! How can I help?", usage_metadata=usage), counter=len)
    for error in outcomes(stage):
        assert isinstance(error, ReplyError)
        assert "read 1024 tokens" in str(error)
        assert f"about {len(model.prompts[0])}" in str(error)
        assert "num_ctx" in str(error)
    assert len(model.prompts) == 2


def test_text_that_is_a_graph_is_read_without_a_model_call() -> None:
    text = format_records(
        Extraction([("org/lib-a", "repo"), ("id_42", "")], [("org/lib-a", "uses", "org/lib-b", "since 1_2")])
    )
    stage, model = extractor()
    found = outcomes(stage, text)
    assert found[0] == found[1]
    assert isinstance(found[0], Extraction)
    assert found[0].entities[0] == ("org/lib-a", "repo")
    assert len(found[0].relationships) == 1
    assert model.prompts == []
    assert stage.invoke(f"{ADA} (She was born there.)") == FOUND
    assert len(model.prompts) == 1


# The limit.

MANY = (
    "Entities:\n(A#)\n(B#)\n(C#)\n"
    "Relationships:\n(A#knows#B#)\n(a#Knows#b#Well)\n(B#knows#A#)\n(B#knows#C#)\n(C#sees#A#)"
)


@pytest.mark.parametrize(("limit", "kept"), [(None, 5), (1, 2), (2, 3), (3, 4), (4, 5), (100, 5)])
def test_the_limit_counts_distinct_relationships_and_keeps_entities(limit: int | None, kept: int) -> None:
    stage, _ = extractor(MANY, limit=limit)
    for found in (*outcomes(stage), extractor(MANY)[0].invoke(ADA, limit=limit)):
        assert isinstance(found, Extraction)
        assert (len(found.entities), len(found.relationships)) == (3, kept)


@pytest.mark.parametrize("limit", [0, -1, True, 2.0, "3"])
def test_a_limit_that_is_no_count_is_refused_wherever_it_is_given(limit: Any) -> None:
    stage, model = extractor()
    for ask in (
        lambda: extractor(limit=limit),
        lambda: stage.invoke(ADA, limit=limit),
        lambda: stage.extract(ADA, limit),
        lambda: stage.batch_extract([ADA], limit=limit),
        lambda: run(stage.aextract(ADA, limit)),
    ):
        with pytest.raises(UsageError, match=r"limit is .*at least 1"):
            ask()
    assert model.prompts == []


# The original's verbs.


def test_extract_gives_one_graph_of_what_was_found() -> None:
    stage, _ = extractor(MANY)
    for graphs in (stage.extract(CHUNKS[0], 2), run(stage.aextract(CHUNKS[0], limit=2))):
        (graph,) = graphs
        assert isinstance(graph, MemoryGraph)
        assert [vertex.name for vertex in graph.vertices()] == ["A", "B", "C"]
        assert [(edge.source, edge.target) for edge in graph.edges()] == [("A", "B"), ("B", "A")]
        vertex = graph.get_vertex("a")
        assert vertex is not None
        assert vertex.chunks == ("chunk-0",)


def test_extract_of_a_plain_text_has_provenance_from_its_content() -> None:
    stage, _ = extractor()
    graphs = [*stage.extract(ADA), *stage.extract(ADA), *stage.extract("Another text.")]
    one, same, other = (next(iter(graph.vertices())).chunks for graph in graphs)
    assert one == same != other


def test_batch_extract_gives_a_graph_for_each_text_so_many_at_one_time() -> None:
    model = ScriptedChatModel(reply=hash_reply, delay=0.02)
    stage = GraphExtractor(llm=model)
    texts = [chunk.page_content for chunk in CHUNKS[:12]]
    for found in (stage.batch_extract(texts, batch_size=4), run(stage.abatch_extract(texts, batch_size=4))):
        assert [len(graphs) for graphs in found] == [1] * 12
        shown = [[vertex.name for vertex in graph.vertices()] for (graph,) in found]
        assert shown == [[name for name, _ in stage.invoke(text).entities] for text in texts]
    assert model.peak == 4


@pytest.mark.parametrize(
    ("texts", "size", "what"), [("one text", 1, "list"), ([ADA], 0, "batch_size"), ([ADA], None, "batch_size")]
)
def test_batch_extract_refuses_one_text_and_a_size_that_is_no_count(texts: Any, size: Any, what: str) -> None:
    stage, _ = extractor()
    with pytest.raises(UsageError, match=what):
        stage.batch_extract(texts, size)


# As a Runnable.


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "batch", "abatch", "as_completed"])
def test_callbacks_see_the_model_call_under_the_stages_name(way: str) -> None:
    watch = Watch()
    stage, _ = extractor()
    config: Any = {"callbacks": [watch], "tags": ["mine"]}
    ways: dict[str, Callable[[], Any]] = {
        "invoke": lambda: stage.invoke(ADA, config),
        "ainvoke": lambda: run(stage.ainvoke(ADA, config)),
        "batch": lambda: stage.batch([ADA], config),
        "abatch": lambda: run(stage.abatch([ADA], config)),
        "as_completed": lambda: list(stage.batch_as_completed([ADA], config)),
    }
    ways[way]()
    assert watch.seen == ["GraphExtractor", "GraphExtractor/model"]
    assert watch.ends == ["Extraction"]


def test_callbacks_see_both_calls_where_the_model_is_asked_again_and_the_error() -> None:
    watch = Watch()
    stage, _ = extractor(PROSE)
    with pytest.raises(ReplyError):
        stage.invoke(ADA, {"callbacks": [watch], "run_name": "mine"})
    assert watch.seen == ["mine", "mine/model", "mine/model"]
    assert watch.ends == ["ReplyError"]


def test_with_retry_asks_again_after_a_failure() -> None:
    stage, model = extractor(ConnectionError("lost"), ConnectionError("lost"), GOOD)
    again = stage.with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    assert again.invoke(ADA) == FOUND
    assert len(model.prompts) == 3


def test_a_stage_joins_a_chain() -> None:
    stage, _ = extractor()
    opened: RunnableLambda[str, Document | str] = RunnableLambda(lambda text: Document(f"{text}."))
    counted: RunnableLambda[Extraction, int] = RunnableLambda(lambda found: len(found.entities))
    chain = opened | stage | counted
    assert chain.invoke("Ada Moss founded it") == 2
    assert run(chain.abatch(["a", "b"])) == [2, 2]
    assert "GraphExtractor" in str(chain.get_graph().nodes)


def test_its_input_and_output_types_are_known() -> None:
    stage, _ = extractor()
    assert stage.InputType == Document | str
    assert stage.OutputType is Extraction


def test_in_a_batch_a_failed_chunk_can_be_kept_apart() -> None:
    model = ScriptedChatModel(reply=lambda prompt: PROSE if CHUNKS[2].page_content in prompt else hash_reply(prompt))
    stage = GraphExtractor(llm=model)
    found = stage.batch(list(CHUNKS[:5]), return_exceptions=True)
    assert [isinstance(one, ReplyError) for one in found] == [False, False, True, False, False]
    with pytest.raises(ReplyError):
        run(stage.abatch(list(CHUNKS[:5])))


def test_an_empty_batch_is_empty() -> None:
    stage, _ = extractor(chunk_history=Shelf())
    assert stage.batch([]) == run(stage.abatch([])) == []
    assert list(stage.batch_as_completed([])) == []


@pytest.mark.parametrize("limit", [1, 3])
def test_max_concurrency_is_kept(limit: int) -> None:
    for ask in (
        lambda stage: stage.batch(list(CHUNKS[:12]), {"max_concurrency": limit}),
        lambda stage: run(stage.abatch(list(CHUNKS[:12]), {"max_concurrency": limit})),
        lambda stage: run(as_completed(stage, list(CHUNKS[:12]), {"max_concurrency": limit})),
    ):
        model = ScriptedChatModel(reply=hash_reply, delay=0.01)
        ask(GraphExtractor(llm=model))
        assert model.peak == limit


async def test_in_a_run_all_extractors_share_its_limit_and_its_usage() -> None:
    model = ScriptedChatModel(reply=hash_reply, delay=0.01)
    stages = [GraphExtractor(llm=model), GraphExtractor(llm=model, language="en")]
    with Run(5).active() as active:
        await asyncio.gather(*(stage.abatch(list(CHUNKS[:15])) for stage in stages))
    assert model.peak == 5
    assert active.usage.calls == 30
    assert active.usage.prompt_tokens == sum(len(prompt.encode()) for prompt in model.prompts)


def test_one_extractor_serves_two_loops() -> None:
    model = ScriptedChatModel(reply=hash_reply, delay=0.001)
    stage = GraphExtractor(llm=model, chunk_history=fresh_history(), counter=len)
    for chunks in (CHUNKS[:6], CHUNKS[6:12]):
        assert len(asyncio.run(stage.abatch(list(chunks), {"max_concurrency": 2}))) == 6


def test_one_extractor_serves_many_threads() -> None:
    model = ScriptedChatModel(reply=hash_reply)
    stage = GraphExtractor(llm=model)
    expected = [stage.invoke(chunk) for chunk in CHUNKS]
    assert RunnableLambda(stage.invoke).batch(list(CHUNKS), {"max_concurrency": 16}) == expected


# What it is known by.


def key(**options: Any) -> str:
    return GraphExtractor(**{"llm": ScriptedChatModel(reply=str), **options}).cache_key


def test_the_key_of_an_extractor_changes_with_all_that_the_reply_depends_on() -> None:
    class Other(GraphExtractor):
        pass

    keys = [
        key(),
        key(language="en"),
        key(language="zh"),
        key(limit=3),
        key(prompt="Graph of {text}"),
        key(prompt=ChatPromptTemplate.from_messages([("system", "Graph of {text}")])),
        key(llm=ScriptedChatModel(reply=str, model_name="other")),
        key(llm=ScriptedChatModel(reply=str).bind(temperature=1)),
        Other(llm=ScriptedChatModel(reply=str)).cache_key,
    ]
    assert len(set(keys)) == len(keys)


def test_the_key_of_an_extractor_does_not_depend_on_its_history_nor_on_how_it_is_run() -> None:
    assert key() == key(chunk_history=Shelf("x")) == key(max_history_tokens=5) == key(reask=False) == key(counter=len)


def test_the_key_of_an_extractor_changes_with_our_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    own = PromptTemplate.from_template(prompt_text("extract_graph", "zh") + " ")
    stage = GraphExtractor(llm=ScriptedChatModel(reply=str))
    monkeypatch.setitem(stage._prompts, "zh", own)
    assert stage.cache_key != before


def test_the_key_of_an_extractor_names_its_model_but_no_secret() -> None:
    with_key = key(llm=ChatOpenAI(model="m", api_key="sk-one"))  # type: ignore[arg-type]
    assert with_key == key(llm=ChatOpenAI(model="m", api_key="sk-two"))  # type: ignore[arg-type]
    assert model_key(ScriptedChatModel(reply=str)) not in with_key


# A format of one's own.


class Lines(LLMExtractor):
    """One relationship a line, as ``a -> b``."""

    def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
        pairs = [line.split(" -> ") for line in text.splitlines()]
        return Extraction([(a, "") for a, _ in pairs], [(a, "to", b, "") for a, b in pairs])


def test_a_subclass_fills_in_how_a_reply_is_read_and_nothing_else() -> None:
    stage = Lines(scripted("a -> b\nb -> c"), "Arrows of {text}", limit=1)
    expected = Extraction([("a", ""), ("b", "")], [("a", "to", "b", "")])
    assert outcomes(stage) == [expected, expected]
    assert stage.batch([ADA, ADA]) == [expected, expected]
    assert stage.extract(ADA)[0].get_vertex("a") is not None
    assert (stage.truncate(), stage.drop()) == (None, None)  # type: ignore[func-returns-value]
    assert stage.cache_key != Lines(scripted(""), "Other arrows of {text}").cache_key


@pytest.mark.parametrize(("reply", "what"), [("no arrows", "ValueError"), (CUT, "cut off")])
def test_what_a_subclass_cannot_read_is_a_reply_error(reply: Any, what: str) -> None:
    stage = Lines(scripted(reply), "Arrows of {text}", counter=len)
    for error in outcomes(stage):
        assert isinstance(error, ReplyError)
        assert what in str(error)
        assert error.reply


def test_a_subclass_without_a_prompt_asks_for_one() -> None:
    with pytest.raises(UsageError, match="Lines has no prompt of its own"):
        Lines(scripted(""))
    with pytest.raises(UsageError, match="history"):
        Lines(scripted(""), "{text} {history}")


def test_a_subclass_that_returns_no_extraction_is_told() -> None:
    class Wrong(Lines):
        def _parse_response(self, text: str, limit: int | None = None) -> Any:
            return []

    with pytest.raises(UsageError, match=r"Wrong\._parse_response returned list"):
        Wrong(scripted("x"), "{text}").invoke(ADA)


def test_a_subclass_of_the_graph_extractor_reads_in_its_own_way() -> None:
    class Own(GraphExtractor):
        def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
            return Extraction([(text, "")])

    model = scripted("Grain Trust")
    assert outcomes(Own(llm=model)) == [Extraction([("Grain Trust", "")])] * 2
    assert len(model.prompts) == 2


def test_the_base_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        LLMExtractor(scripted(""), "{text}")  # type: ignore[abstract]


def test_a_cut_reply_over_http_is_an_error(fake_server: FakeServer) -> None:
    fake_server.reply = lambda body: FakeReply("Entities:\n(Fen Mill#Water mill)\n(Fen Ro", finish_reason="length")
    llm = ChatOpenAI(model="fake-chat", api_key="test", base_url=fake_server.base_url)  # type: ignore[arg-type]
    for error in outcomes(GraphExtractor(llm=llm, counter=len)):
        assert isinstance(error, ReplyError)
        assert error.finish_reason == "length"
    assert len(fake_server.prompts) == 4


@pytest.mark.parametrize("history", ["x", object()])
def test_what_is_no_history_is_refused(history: Any) -> None:
    with pytest.raises(UsageError, match="chunk_history"):
        GraphExtractor(ScriptedChatModel(reply=hash_reply), history)
