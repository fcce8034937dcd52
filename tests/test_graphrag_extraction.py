"""Extraction in JSON, as in the cookbook: types and cap kept, a user's own reader of replies, and what is reported."""

import asyncio
import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from scripted_model import ScriptedChatModel

from rag_transformers import Extraction, GraphIndex, GraphRAGExtractor, MemoryGraph
from rag_transformers.concurrency import run
from rag_transformers.errors import ReplyError, UsageError
from rag_transformers.prompts import languages, load_prompt

TEXT = "Tamsin Rook keeps the lighthouse at Skerry Point."
ENTITIES = [
    {"entity_name": "Tamsin Rook", "entity_type": "person", "entity_description": "Keeper"},
    {"entity_name": "Skerry Point", "entity_type": "place", "entity_description": ""},
]
TIE = {
    "source_entity": "Tamsin Rook",
    "target_entity": "Skerry Point",
    "relation": "keeps the light at",
    "relationship_description": "For years",
}
GOOD = json.dumps({"entities": ENTITIES, "relationships": [TIE]})
FOUND = Extraction(
    [("Tamsin Rook", "Keeper"), ("Skerry Point", "")],
    [("Tamsin Rook", "keeps the light at", "Skerry Point", "For years")],
    ["person", "place"],
)


def extractor(*replies: Any, **options: Any) -> tuple[GraphRAGExtractor, ScriptedChatModel]:
    left = list(replies or (GOOD,))
    model = ScriptedChatModel(reply=lambda prompt: left.pop(0) if len(left) > 1 else left[0])
    return GraphRAGExtractor(model, **{"counter": len, **options}), model


def ties(number: int) -> str:
    return json.dumps({"entities": ENTITIES, "relationships": [{**TIE, "relation": f"r{n}"} for n in range(number)]})


def test_names_types_descriptions_and_relations_are_kept() -> None:
    stage, model = extractor()
    assert stage.invoke(TEXT) == run(stage.ainvoke(Document(TEXT))) == FOUND
    assert set(model.prompts) == {load_prompt("extract_graph_json", "en").format(text=TEXT, max_knowledge_triplets=10)}


def test_the_type_stands_on_the_vertex_of_an_index(tmp_path: Any) -> None:
    stage, _ = extractor()
    with GraphIndex.open(tmp_path / "index", extractor=stage) as index:
        assert index.add([Document(TEXT, metadata={"source": "light"})]).failed == ()
        vertex = index.graph.get_vertex("tamsin rook")
        assert vertex is not None
        assert (vertex.props["type"], vertex.descriptions) == ("person", ("Keeper",))
        (edge,) = index.graph.edges()
        assert (edge.source, edge.name, edge.target) == ("Tamsin Rook", "keeps the light at", "Skerry Point")
        assert edge.descriptions == ("For years",)


def test_an_untyped_mention_does_not_overwrite_a_type() -> None:
    graph = MemoryGraph()
    graph.add(FOUND, "a")
    graph.add(Extraction([], [("Tamsin Rook", "left", "Skerry Point", "")]), "b")
    vertex = graph.get_vertex("Tamsin Rook")
    assert vertex is not None
    assert vertex.props["type"] == "person"


@pytest.mark.parametrize("language", languages())
def test_the_chunks_language_chooses_the_prompt(language: str) -> None:
    stage, model = extractor()
    text = {"en": TEXT, "ja": "蔦森が岬の灯台を守っている。", "zh": "林晚守着石岬的灯塔。"}[language]
    stage.invoke(text)
    assert model.prompts == [load_prompt("extract_graph_json", language).format(text=text, max_knowledge_triplets=10)]


@pytest.mark.parametrize(("cap", "kept"), [(1, 1), (3, 3), (10, 10), (12, 12), (50, 14)])
def test_the_cap_is_kept_after_parsing_and_said_in_the_prompt(cap: int, kept: int) -> None:
    stage, model = extractor(ties(14), max_paths_per_chunk=cap)
    found = stage.invoke(TEXT)
    assert (len(found.entities), len(found.relationships)) == (2, kept)
    assert f": {cap}\n" in model.prompts[0]
    own, _ = extractor(ties(14), max_paths_per_chunk=cap, extract_prompt="JSON of {text}")
    assert len(own.invoke(TEXT).relationships) == kept


@pytest.mark.parametrize("name", ["max_paths_per_chunk", "num_workers"])
@pytest.mark.parametrize("value", [0, -1, True, 2.5, "4", None])
def test_numbers_out_of_range_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} is .*at least 1"):
        extractor(**{name: value})


@pytest.mark.parametrize(
    "prompt",
    [
        "Graph of {text}, {max_knowledge_triplets} ties",
        PromptTemplate.from_template("Graph of {text}, {max_knowledge_triplets} ties"),
        ChatPromptTemplate.from_messages([("system", "Graph of"), ("human", "{text}, {max_knowledge_triplets} ties")]),
        'Graph of {text} as {{"entities": []}}',
    ],
)
def test_a_users_prompt_is_sent_in_place_of_ours(prompt: Any) -> None:
    stage, model = extractor(extract_prompt=prompt)
    assert stage.invoke(TEXT) == FOUND
    assert model.prompts[0].startswith("Graph of")
    assert TEXT in model.prompts[0]
    assert ("10 ties" in model.prompts[0]) == ("triplets" in str(prompt))


def test_a_users_prompt_is_checked_when_the_extractor_is_made() -> None:
    with pytest.raises(UsageError, match=r"GraphRAGExtractor: prompt.*history, text"):
        extractor(extract_prompt="{text} {history}")


def test_the_model_is_taken_under_the_originals_names() -> None:
    _, model = extractor()
    for given in ({"llm_client": model}, {"llm_invoker": model}):
        options: dict[str, Any] = {**given}
        assert GraphRAGExtractor(**options).invoke(TEXT) == FOUND


# The truth about the reply.

CUT = AIMessage(GOOD[: GOOD.index(' "place"')], response_metadata={"finish_reason": "length"})
ONE_BAD = json.dumps({"entities": [ENTITIES[0], {"entity_name": "", "entity_type": "place"}], "relationships": []})


@pytest.mark.parametrize("bad", ["I see no text here.", CUT, ONE_BAD, "{}", '[{"color": "red", "size": 3}]'])
@pytest.mark.parametrize("language", languages())
def test_a_reply_that_cannot_be_read_is_asked_for_once_more_with_the_format_named(language: str, bad: Any) -> None:
    stage, model = extractor(bad, GOOD, language=language)
    assert stage.invoke(TEXT) == FOUND
    first, second = model.prompts
    said = bad if isinstance(bad, str) else str(bad.content)
    assert second == f"{first}\n{said}\n{load_prompt('reask_json', language).format(text=TEXT)}"


@pytest.mark.parametrize(
    ("bad", "what", "kept"),
    [
        ("I see no text here.", "no records", ()),
        (CUT, "token limit", (("Tamsin Rook", "Keeper"),)),
        (ONE_BAD, "no name", (("Tamsin Rook", "Keeper"),)),
    ],
)
def test_what_is_still_wrong_is_an_error_with_what_could_be_read(bad: Any, what: str, kept: Any) -> None:
    stage, model = extractor(bad)
    with pytest.raises(ReplyError, match=what) as caught:
        stage.invoke(TEXT)
    assert caught.value.extraction is not None
    assert caught.value.extraction.entities == kept
    assert len(model.prompts) == 2
    stage, model = extractor(bad, reask=False)
    with pytest.raises(ReplyError, match=what):
        stage.invoke(TEXT)
    assert len(model.prompts) == 1


@pytest.mark.parametrize(
    "nothing",
    [
        '{"entities": [], "relationships": []}',
        '```json\n{"entities": [], "relationships": []}\n```',
        'Nothing here: {"entities": [], "relationships": []}',
        "[]",
        "None",
        "无",
    ],
)
def test_a_reply_that_says_there_is_nothing_is_a_valid_one(nothing: str) -> None:
    stage, model = extractor(nothing)
    assert stage.invoke(TEXT) == Extraction()
    assert len(model.prompts) == 1


def test_a_prompt_that_the_server_cut_is_named_and_not_asked_again() -> None:
    usage = {"input_tokens": 512, "output_tokens": 8, "total_tokens": 520}
    stage, model = extractor(AIMessage("Hello!", usage_metadata=usage))
    with pytest.raises(ReplyError, match=r"read 512 tokens.*num_ctx"):
        stage.invoke(TEXT)
    assert len(model.prompts) == 1


@pytest.mark.parametrize("language", languages())
def test_the_example_of_the_prompt_never_becomes_a_fact(language: str) -> None:
    example = load_prompt("extract_graph_json", language).format(text="", max_knowledge_triplets=1).split("```")[1]
    stage, _ = extractor(f"{example}\n{GOOD}")
    assert stage.invoke(TEXT) == FOUND

    def everything(reply: str) -> Any:
        first, _ = json.JSONDecoder().raw_decode(reply.strip())
        rows = [tuple(row.values()) for row in (*first["entities"], *ENTITIES)]
        return rows, [tuple(row.values()) for row in first["relationships"]]

    stage, _ = extractor(f"{example}\n{GOOD}", parse_fn=everything)
    found = stage.invoke(TEXT)
    assert (found.entities, found.types, found.relationships) == (FOUND.entities, FOUND.types, ())


# A reader of one's own.


def lines(reply: str) -> Any:
    """Entities as ``name/type/description``, relationships as ``source>target>relation>description``."""
    rows = reply.splitlines()
    return [row.split("/") for row in rows if "/" in row], [row.split(">") for row in rows if ">" in row]


LINES = "Tamsin Rook/person/Keeper\nSkerry Point/place/\nTamsin Rook>Skerry Point>keeps the light at>For years"


def test_a_users_parse_fn_reads_the_reply_without_its_reasoning() -> None:
    stage, _ = extractor(f"<think>a/b/c</think>{LINES}", parse_fn=lines, extract_prompt="Lines of {text}")
    assert stage.invoke(TEXT) == run(stage.ainvoke(TEXT)) == FOUND


def test_the_cap_is_kept_with_a_users_parse_fn() -> None:
    many = "\n".join(f"A>B>r{n}>" for n in range(30))
    stage, _ = extractor(many, parse_fn=lines, max_paths_per_chunk=4)
    assert len(stage.invoke(TEXT).relationships) == 4


def failing(reply: str) -> Any:
    raise KeyError("entity_description")


@pytest.mark.parametrize(
    ("parse_fn", "what"),
    [
        (failing, "KeyError: 'entity_description'"),
        (lambda reply: ([("Tamsin Rook", "Keeper")], []), r"name, type, description"),
        (lambda reply: ([], [("a", "b", "c")]), r"source, target, relation, description"),
        (lambda reply: ([("", "person", "")], []), "name that is not empty"),
        (lambda reply: None, "TypeError"),
        (lambda reply: ([], []), "found nothing"),
    ],
)
def test_the_errors_of_a_users_parse_fn_are_reported_for_the_chunk(tmp_path: Any, parse_fn: Any, what: str) -> None:
    stage, model = extractor("Sure!", parse_fn=parse_fn)
    with pytest.raises(ReplyError, match=what) as caught:
        stage.invoke(TEXT)
    assert caught.value.reply == "Sure!"
    assert len(model.prompts) == 1, "only the user knows the format"
    with GraphIndex.open(tmp_path / "index", extractor=stage) as index:
        (failure,) = index.add([Document(TEXT, metadata={"source": "light"})]).failed
        assert failure.source == "light"
        assert index.stats()["pending_chunks"] == 1


def test_a_users_parse_fn_may_find_nothing_where_the_prompt_is_the_users_or_the_reply_says_so() -> None:
    stage, _ = extractor("NO ENTITIES", parse_fn=lambda reply: ([], []), extract_prompt="Lines of {text}")
    assert stage.invoke(TEXT) == Extraction()
    stage, _ = extractor("None", parse_fn=lambda reply: ([], []))
    assert stage.invoke(TEXT) == Extraction()


def test_descriptions_without_value_are_empty() -> None:
    stage, _ = extractor(parse_fn=lambda reply: ([("A", None, None)], [("A", "B", "knows", None)]))
    assert stage.invoke(TEXT) == Extraction([("A", "")], [("A", "knows", "B", "")])


def test_a_cut_reply_is_not_given_to_a_users_parse_fn() -> None:
    seen: list[str] = []
    stage, _ = extractor(CUT, parse_fn=lambda reply: seen.append(reply))
    with pytest.raises(ReplyError, match="token limit"):
        stage.invoke(TEXT)
    assert seen == []


def test_what_is_no_function_is_refused_as_parse_fn() -> None:
    with pytest.raises(UsageError, match="parse_fn is 5"):
        extractor(parse_fn=5)


# Workers.


@pytest.mark.parametrize("workers", [1, 3])
def test_num_workers_is_how_many_chunks_of_a_batch_are_asked_about_at_one_time(workers: int) -> None:
    texts: list[Any] = [f"{TEXT} {n}" for n in range(9)]

    async def as_completed(stage: GraphRAGExtractor) -> None:
        async for _ in stage.abatch_as_completed(texts):
            pass

    for ask in (
        lambda stage: stage.batch(texts),
        lambda stage: asyncio.run(stage.abatch(texts)),
        lambda stage: list(stage.batch_as_completed(texts)),
        lambda stage: asyncio.run(as_completed(stage)),
        lambda stage: stage.batch(texts, [{"tags": ["mine"]}] * 9),
    ):
        model = ScriptedChatModel(reply=lambda prompt: GOOD, delay=0.02)
        ask(GraphRAGExtractor(model, num_workers=workers))
        assert model.peak == workers
    model = ScriptedChatModel(reply=lambda prompt: GOOD, delay=0.02)
    GraphRAGExtractor(model, num_workers=workers).batch(texts, {"max_concurrency": 5})
    assert model.peak == 5


# What it is known by.


def test_the_key_changes_with_all_that_the_reply_depends_on_and_not_with_how_it_is_run() -> None:
    def key(**options: Any) -> str:
        return GraphRAGExtractor(ScriptedChatModel(reply=str), **options).cache_key

    keys = [
        key(),
        key(max_paths_per_chunk=3),
        key(parse_fn=lines),
        key(parse_fn=failing),
        key(extract_prompt="JSON of {text}"),
        key(max_gleanings=1),
        key(language="zh"),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == key(num_workers=9) == key(reask=False) == key(counter=len)


def test_a_subclass_may_read_replies_in_its_own_way() -> None:
    class Own(GraphRAGExtractor):
        def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
            return Extraction([(text, "")])

    _, model = extractor("Skerry Point")
    assert Own(model).invoke(TEXT) == Extraction([("Skerry Point", "")])
