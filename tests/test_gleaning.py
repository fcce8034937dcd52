"""Gleaning: the model is asked for what it left out, in the same conversation; more comes in, and nothing is lost."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from scripted_model import ScriptedChatModel

from rag_transformers import Extraction, GraphExtractor, GraphRAGExtractor, LLMExtractor
from rag_transformers.concurrency import run
from rag_transformers.errors import ModelError, ReplyError, UsageError
from rag_transformers.extraction.gleaning import adds, merged
from rag_transformers.models.run import Run
from rag_transformers.prompts import languages, load_prompt, prompt_text

TEXT = "Ada Moss founded the Grain Trust in Port Ellery, and Orrin Vale keeps its books."
FIRST = "Entities:\n(Ada Moss#Founder)\n\nRelationships:\n(Ada Moss#founded#Grain Trust#In Port Ellery)"
SECOND = "Entities:\n(Orrin Vale#Bookkeeper)\n(Ada Moss#Founder)\n\n"
SECOND += "Relationships:\n(Orrin Vale#keeps the books of#Grain Trust#)"
THIRD = "Entities:\n(Port Ellery#Town)"
KNOWN = "Entities:\n(ada moss#Who founded it)\n\nRelationships:\n(Ada Moss#founded#Grain Trust#)"
NAMES_OF_BOTH = ["Ada Moss", "Orrin Vale"]


def extractor(*replies: Any, **options: Any) -> tuple[GraphExtractor, ScriptedChatModel]:
    left = list(replies)
    model = ScriptedChatModel(reply=lambda prompt: left.pop(0) if len(left) > 1 else left[0])
    return GraphExtractor(model, **{"counter": len, **options}), model


def names(found: Extraction) -> list[str]:
    return [name for name, _ in found.entities]


def test_by_default_nothing_is_gleaned() -> None:
    stage, model = extractor(FIRST, SECOND)
    assert names(stage.invoke(TEXT)) == ["Ada Moss"]
    assert len(model.prompts) == 1


@pytest.mark.parametrize("language", languages())
def test_it_is_asked_for_in_the_same_conversation(language: str) -> None:
    stage, model = extractor(FIRST, SECOND, THIRD, language=language, max_gleanings=2)
    stage.invoke(TEXT)
    glean = prompt_text("glean_records", language)
    first = load_prompt("extract_graph", language).format(history="", text=TEXT)
    assert model.prompts == [first, f"{first}\n{FIRST}\n{glean}", f"{first}\n{FIRST}\n{glean}\n{SECOND}\n{glean}"]


def test_the_turns_of_the_conversation_have_their_roles() -> None:
    seen: list[list[str]] = []

    def reply(value: Any) -> str:
        seen.append([message.type for message in value.to_messages()])
        return FIRST if len(seen) == 1 else THIRD

    GraphExtractor(RunnableLambda(reply), max_gleanings=1).invoke(TEXT)
    assert seen == [["human"], ["human", "ai", "human"]]


def test_what_is_gleaned_is_added_as_records_of_its_own_and_equal_ones_stand_once() -> None:
    expected = Extraction(
        [("Ada Moss", "Founder"), ("Orrin Vale", "Bookkeeper"), ("Port Ellery", "Town")],
        [
            ("Ada Moss", "founded", "Grain Trust", "In Port Ellery"),
            ("Orrin Vale", "keeps the books of", "Grain Trust", ""),
        ],
    )
    stage, _ = extractor(FIRST, SECOND, THIRD, max_gleanings=2)
    assert stage.invoke(TEXT) == expected
    stage, _ = extractor(FIRST, SECOND, THIRD, max_gleanings=2)
    assert run(stage.ainvoke(TEXT)) == expected


def test_a_reply_without_line_end_is_not_glued_to_what_is_gleaned() -> None:
    stage, _ = extractor("Entities:\n(Ada Moss#Founder)", "(Orrin Vale#Bookkeeper)", max_gleanings=1)
    assert stage.invoke(TEXT).entities == (("Ada Moss", "Founder"), ("Orrin Vale", "Bookkeeper"))


@pytest.mark.parametrize("last", ["none", "无", "Entities:\n\nRelationships:\n", FIRST, KNOWN])
def test_it_ends_early_when_nothing_new_comes(last: str) -> None:
    stage, model = extractor(FIRST, SECOND, last, THIRD, max_gleanings=9)
    assert "Port Ellery" not in names(stage.invoke(TEXT))
    assert len(model.prompts) == 3


def test_other_words_for_what_is_known_are_kept_though_they_end_it() -> None:
    stage, _ = extractor(FIRST, KNOWN, THIRD, max_gleanings=9)
    assert ("ada moss", "Who founded it") in stage.invoke(TEXT).entities


def test_a_chunk_that_holds_nothing_is_not_gleaned() -> None:
    stage, model = extractor("None", FIRST, max_gleanings=3)
    assert stage.invoke(TEXT) == Extraction()
    assert len(model.prompts) == 1


def test_after_a_reply_that_had_to_be_asked_for_again_the_good_one_is_built_on() -> None:
    stage, model = extractor("I cannot see it.", FIRST, SECOND, "none", max_gleanings=2)
    assert names(stage.invoke(TEXT)) == NAMES_OF_BOTH
    assert "I cannot see it." not in model.prompts[2]
    assert FIRST in model.prompts[2]


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("lost"),
        RuntimeError(),
        AIMessage(""),
        AIMessage("", additional_kwargs={"refusal": "No more."}),
        AIMessage("Half", response_metadata={"finish_reason": "content_filter"}),
        "I gave you all there is.",
    ],
)
def test_a_failed_gleaning_loses_nothing_and_is_told_in_the_log(failure: Any, caplog: pytest.LogCaptureFixture) -> None:
    asks: list[Callable[[GraphExtractor], Extraction]] = [
        lambda stage: stage.invoke(TEXT),
        lambda stage: run(stage.ainvoke(TEXT)),
    ]
    for ask in asks:
        caplog.clear()
        stage, model = extractor(FIRST, SECOND, failure, THIRD, max_gleanings=5)
        with caplog.at_level(logging.WARNING):
            assert names(ask(stage)) == NAMES_OF_BOTH
        assert len(model.prompts) == 3, "and it is not asked again"
        (warning,) = caplog.messages
        assert "gleaning ended" in warning
        assert "Ada Moss founded" in warning


def test_of_a_gleaned_reply_that_was_cut_the_whole_records_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    cut = AIMessage("Entities:\n(Orrin Vale#Bookkeeper)\n(Port El", response_metadata={"finish_reason": "length"})
    stage, _ = extractor(FIRST, cut, max_gleanings=5)
    with caplog.at_level(logging.WARNING):
        assert names(stage.invoke(TEXT)) == NAMES_OF_BOTH
    assert "token limit" in caplog.text


def test_a_first_reply_that_fails_is_still_an_error() -> None:
    stage, model = extractor(RuntimeError(), FIRST, max_gleanings=2)
    with pytest.raises(ModelError, match="RuntimeError"):
        stage.invoke(TEXT)
    stage, model = extractor("I cannot see it.", max_gleanings=2)
    with pytest.raises(ReplyError):
        stage.invoke(TEXT)
    assert len(model.prompts) == 2


def test_the_example_of_the_prompt_is_not_gleaned() -> None:
    example = prompt_text("extract_graph", "en").split("```")[1]
    stage, model = extractor(FIRST, example, max_gleanings=3)
    assert names(stage.invoke(TEXT)) == ["Ada Moss"]
    assert len(model.prompts) == 2


def test_the_limit_holds_for_all_together() -> None:
    stage, _ = extractor(FIRST, SECOND, "none", max_gleanings=2, limit=1)
    found = stage.invoke(TEXT)
    assert (names(found), len(found.relationships)) == (NAMES_OF_BOTH, 1)


async def test_every_call_is_counted_and_within_the_limit_of_the_run() -> None:
    model = ScriptedChatModel(reply=lambda prompt: THIRD if FIRST in prompt else FIRST, delay=0.01)
    stage = GraphExtractor(model, max_gleanings=1)
    with Run(3).active() as active:
        await stage.abatch([f"{TEXT} {n}" for n in range(8)])
    assert active.usage.calls == len(model.prompts) == 16
    assert active.usage.prompt_tokens == sum(len(prompt.encode()) for prompt in model.prompts)
    assert model.peak == 3


def test_in_json_it_is_the_same() -> None:
    first = '{"entities": [{"entity_name": "Ada Moss", "entity_type": "person", "entity_description": "Founder"}]}'
    second = '{"entities": [{"entity_name": "Orrin Vale", "entity_type": "", "entity_description": "Bookkeeper"}]}'
    left = [first, second, '{"entities": [], "relationships": []}']
    model = ScriptedChatModel(reply=lambda prompt: left.pop(0))
    found = GraphRAGExtractor(model, max_gleanings=5).invoke(TEXT)
    assert (names(found), found.types) == (NAMES_OF_BOTH, ("person", ""))
    assert left == []


def test_in_a_format_of_ones_own_too() -> None:
    class Names(LLMExtractor):
        def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
            return Extraction([(name, "") for name in text.split(", ") if name != "none"])

    left = ["Ada Moss", "Orrin Vale, Ada Moss", "none"]
    stage = Names(ScriptedChatModel(reply=lambda prompt: left.pop(0)), "Names in {text}", max_gleanings=5)
    assert names(stage.invoke(TEXT)) == NAMES_OF_BOTH


@pytest.mark.parametrize("value", [-1, True, 1.5, "2", None])
def test_a_number_of_gleanings_that_is_no_count_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"max_gleanings is .*at least 0"):
        extractor(FIRST, max_gleanings=value)


def test_the_number_of_gleanings_is_part_of_the_key_and_none_of_the_prompts_length() -> None:
    keys = [extractor(FIRST, max_gleanings=number)[0].cache_key for number in (0, 1, 2)]
    assert len(set(keys)) == 3
    assert keys[0] == extractor(FIRST)[0].cache_key


# How two extractions are one.

NAMES = st.sampled_from(["Ada Moss", "ada moss", "Grain Trust", "林晚"])
TEXTS = st.sampled_from(["", "One", "Two"])
RELATIONS = st.sampled_from(["founded", "Founded", "knows"])


@st.composite
def extractions(draw: st.DrawFn) -> Extraction:
    entities = draw(st.lists(st.tuples(NAMES, TEXTS), max_size=4))
    edges = draw(st.lists(st.tuples(NAMES, RELATIONS, NAMES, TEXTS), max_size=4))
    types = draw(st.sampled_from([(), tuple("ab"[number % 2] for number in range(len(entities)))]))
    weights = draw(st.sampled_from([(), (2.0,) * len(edges)]))
    return Extraction(entities, edges, types, weights)


@given(extractions(), extractions())
def test_all_rows_of_both_stand_once_in_their_order(found: Extraction, more: Extraction) -> None:
    both = merged(found, more)
    assert list(both.entities) == list(dict.fromkeys([*found.entities, *more.entities]))
    assert list(both.relationships) == list(dict.fromkeys([*found.relationships, *more.relationships]))
    assert merged(both, more) == merged(both, found) == both
    assert not adds(both, more)
    assert not adds(found, found)


def test_types_and_weights_go_with_their_rows() -> None:
    one = Extraction([("A", ""), ("B", "")], [("A", "r", "B", "")], ["person", ""])
    two = Extraction([("B", ""), ("C", "")], [("B", "r", "C", "")], ["place", ""], [3.0])
    both = merged(one, two)
    assert (both.types, both.weights) == (("person", "place", ""), (1.0, 3.0))


def test_an_end_of_an_edge_that_was_not_named_is_new() -> None:
    found = Extraction([("A", ""), ("B", "")], [("A", "r", "B", "")])
    assert adds(found, Extraction([], [("A", "r", "C", "")]))
    assert adds(found, Extraction([], [("B", "r", "A", "")]))
    assert not adds(found, Extraction([("a", "more")], [("a", "R", "b", "more")]))
