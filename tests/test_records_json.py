"""Replies in JSON: read item by item, what is whole is kept, and nothing of what was cut."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_transformers.prompts import languages, prompt_text
from rag_transformers.records import Records, parse_json_records, parse_records
from rag_transformers.records.json_records import find_items
from rag_transformers.records.text import visible

GRAPH = {
    "entities": [
        {"entity_name": "Ada Moss", "entity_type": "Person", "entity_description": 'Calls it "home", {so} [they] say'},
        {"entity_name": "Grain Trust", "entity_type": "Company", "entity_description": ""},
    ],
    "relationships": [
        {
            "source_entity": "Ada Moss",
            "target_entity": "Grain Trust",
            "relation": "founded",
            "relationship_description": "In 1998\nwith others",
        }
    ],
}
ENTITIES = (("Ada Moss", 'Calls it "home", {so} [they] say'), ("Grain Trust", ""))
RELATIONSHIPS = (("Ada Moss", "founded", "Grain Trust", "In 1998 with others"),)


def read(reply: str) -> Records:
    """A reply that both readers read alike."""
    assert parse_json_records(reply) == parse_records(reply)
    return parse_json_records(reply)


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(GRAPH),
        json.dumps(GRAPH, indent=2, ensure_ascii=False),
        f"```json\n{json.dumps(GRAPH)}\n```",
        f'Here is "the graph" {{as asked}}:\n{json.dumps(GRAPH)}\nAnything [else]?',
        f"<think>{{'name': 'Draft'}}</think>{json.dumps(GRAPH)}",
        json.dumps(GRAPH).replace("}]", "},]").replace('"}', '",}'),
        json.dumps(GRAPH["entities"]) + json.dumps(GRAPH["relationships"]),
        "\n".join(json.dumps(item) for items in GRAPH.values() for item in items),
        json.dumps({"graph": {"entities": GRAPH["entities"]}, "edges": GRAPH["relationships"]}),
        json.dumps(GRAPH) * 2,
    ],
)
def test_the_cookbooks_format_is_read_whatever_stands_around_it(reply: str) -> None:
    records = read(reply)
    assert (records.entities, records.relationships) == (ENTITIES, RELATIONSHIPS)
    assert (records.types, records.weights) == (("Person", "Company"), ())
    assert (records.status, records.skipped) == ("ok", 0)


@pytest.mark.parametrize(
    ("reply", "rows"),
    [
        ('[{"name": "Ada" "summary": "Weaver"}]', [("Ada", "Weaver")]),
        ('[{"name": "Ada", "summary": "Weaver", {"name": "Bo"}]', [("Ada", "Weaver"), ("Bo", "")]),
        ('[{"name": "Ada", "summary": "Weaver"]', [("Ada", "Weaver")]),
        ("[{'name': 'O\\'Neil', 'summary': \"it's\"}]", [("O'Neil", "it's")]),
        ('{entities: [{name: "Ada", summary: "Weaver"}]}', [("Ada", "Weaver")]),
        ('[{"name": "The "Gold" Cup", "summary": "5" pipe, 3" valve"}]', [('The "Gold" Cup', '5" pipe, 3" valve')]),
        ('[{"name": "Ada\nMoss", "summary": "a\\tb \\d"}]', [("Ada Moss", "a b \\d")]),
        ('[{"name": "\\u0000Ada\\ud800\\u200b"}]', [("Ada", "")]),
        ('[{"name": "**Ada**", "summary": "\\"Weaver\\""}]', [("Ada", "Weaver")]),
        ('[{"name": 1984, "summary": null, "year": true}]', [("1984", "")]),
        ('{"entities": ["Ada", "Bo"], "relationships": []}', [("Ada", ""), ("Bo", "")]),
        ('[{"name": "Ada", "attributes": {"home": {"name": "Vale"}, "friends": [{"name": "Bo"}]}}]', [("Ada", "")]),
        ('[{"名称": "甲", "描述": "人"}]', [("甲", "人")]),
        ('[{"name": "Ada", "summary": "see\n(Bo#Weaver)\n"}]', [("Ada", "see (Bo#Weaver)")]),
    ],
)
def test_what_is_nearly_json_is_read_item_by_item(reply: str, rows: list[tuple[str, str]]) -> None:
    records = read(reply)
    assert (list(records.entities), records.status) == (rows, "ok")


@pytest.mark.parametrize(
    "item",
    [
        {"source": "Ada", "relation": "knows", "target": "Bo", "summary": "Since May"},
        {"subject": "Ada", "predicate": "knows", "object": "Bo", "description": "Since May"},
        {"Head": "Ada", "Relation": "knows", "Tail": "Bo", "explanation": "Since May"},
        {
            "source_entity_name": "Ada",
            "relation_name": "knows",
            "target_entity_name": "Bo",
            "relation_summary": "Since May",
        },
        {"source": {"id": "Ada", "type": "Person"}, "target": {"id": "Bo"}, "type": "knows", "desc": "Since May"},
        {"源实体": "Ada", "关系": "knows", "目标实体": "Bo", "描述": "Since May"},
    ],
)
def test_a_relationship_is_known_by_its_keys(item: dict[str, object]) -> None:
    assert read(json.dumps([item])).relationships == (("Ada", "knows", "Bo", "Since May"),)


def test_ends_may_be_named_by_ids_of_entities() -> None:
    records = read(
        '{"entities": [{"id": 1, "name": "Ada"}, {"id": "e2", "name": "Bo"}],'
        ' "relationships": [{"source": 1, "target": "e2", "relation": "knows"}]}'
    )
    assert records.relationships == (("Ada", "knows", "Bo", ""),)


def test_types_and_weights_stand_beside_their_rows() -> None:
    records = read(
        '[{"name": "Ada", "type": "Person"}, {"name": "Bo"}, {"name": "Ada", "type": "Boat"},'
        ' {"source": "Ada", "target": "Bo", "relation": "knows", "weight": "7"},'
        ' {"source": "Bo", "target": "Ada", "relation": "knows"},'
        ' {"source": "Ada", "target": "Bo", "relation": "knows", "weight": 2}]'
    )
    assert (records.types, records.weights) == (("Person", ""), (7.0, 1.0))
    assert records.extraction().types == ("Person", "")
    assert records.extraction().weights == (7.0, 1.0)


def test_an_item_that_lacks_a_name_or_an_end_is_dropped_and_counted() -> None:
    records = read(
        '{"entities": [\n{"entity_type": "Person"},\n{"name": " "},\n{"name": "Ada"}],\n"relationships": ['
        '{"source": "Ada", "relation": "knows"},\n{"source": "Ada", "target": "Bo"}, ["Ada", "knows", "Bo"]]}'
    )
    assert (records.entities, records.status) == ((("Ada", ""),), "partial")
    assert [(line, reason) for line, _, reason in records.rejected] == [
        (2, "no name"),
        (3, "no name"),
        (5, "no target"),
        (6, "no relation"),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        '{"relationships": [["Ada", "knows", "Bo"]]}',
        '{"error": "there is no text to read"}',
        '[{"title": "A report", "findings": []}]',
    ],
)
def test_json_of_which_nothing_can_be_read_is_a_format_error(reply: str) -> None:
    """Never an empty success; what the order of fields is that have no keys, nobody knows."""
    assert read(reply).status == "format_error"


@pytest.mark.parametrize("reply", ['{"entities": [], "relationships": []}', "{}", "[]", "[1]", '{"entities": [{}]}'])
def test_json_that_says_that_there_is_nothing_is_empty(reply: str) -> None:
    assert read(reply) == Records()


def test_placeholders_are_no_data() -> None:
    reply = '[{"entity_name": "entity_name", "entity_description": "..."}, {"name": "none"}, {"name": "Ada"}]'
    records = read(reply)
    assert (records.entities, records.status, records.skipped) == ((("Ada", ""),), "ok", 0)


@pytest.mark.parametrize("language", languages())
def test_the_example_of_our_prompt_is_dropped_where_the_chunk_does_not_hold_its_names(language: str) -> None:
    try:
        prompt = prompt_text("extract_graph_json", language)
    except ValueError:
        pytest.skip("there is no prompt for JSON")
    if not find_items(prompt.replace("{{", "{").replace("}}", "}")).items:
        pytest.skip("the prompt has no example")
    reply = prompt.replace("{{", "{").replace("}}", "}") + '\n{"name": "Ada Moss"}'
    records = parse_json_records(reply, source="Ada Moss is a weaver.")
    assert (records.entities, records.relationships) == ((("Ada Moss", ""),), ())


@pytest.mark.parametrize("reply", [json.dumps(GRAPH), f"Sure:\n```json\n{json.dumps(GRAPH, indent=1)}\n```"])
def test_a_cut_at_any_character_keeps_every_whole_item_and_nothing_of_the_last(reply: str) -> None:
    ends = [reply.index("}", reply.index(text)) for text in ('say"', '"Company"', "others")]
    rows = [*ENTITIES, *RELATIONSHIPS]
    for cut in range(reply.rindex("}")):
        records = parse_json_records(reply[:cut], finish_reason="length")
        whole = sum(end < cut for end in ends)
        assert [*records.entities, *records.relationships] == rows[:whole]
        assert records.status == ("partial" if whole else "empty")
        assert records.skipped <= 1


def test_the_item_that_was_cut_is_counted_even_where_the_server_says_nothing() -> None:
    records = parse_json_records('{"entities": [{"name": "Ada"},\n{"name": "B')
    assert (records.entities, records.status) == ((("Ada", ""),), "partial")
    assert records.rejected == ((2, '{"name": "B', "cut off at the end of the reply"),)


def test_records_are_read_where_json_was_asked_for() -> None:
    reply = "Entities:\n(Ada#Weaver)\nRelationships:\n(Ada#knows#Bo)"
    assert parse_json_records(reply) == parse_records(reply)
    assert parse_json_records(reply).entities == (("Ada", "Weaver"),)


TEXT = st.text(max_size=8)
ITEMS = st.lists(
    st.fixed_dictionaries({"entity_name": TEXT, "entity_type": TEXT, "entity_description": TEXT})
    | st.fixed_dictionaries({"source_entity": TEXT, "relation": TEXT, "target_entity": TEXT}),
    max_size=4,
)


@settings(max_examples=60)
@given(ITEMS, st.booleans())
def test_what_json_says_is_what_is_read(items: list[dict[str, str]], ascii_only: bool) -> None:
    """The count is right for any text: each item is kept, a repeat, no data, or dropped with its reason."""
    reply = json.dumps({"items": items}, ensure_ascii=ascii_only)
    records = parse_json_records(reply)
    assert len(records.entities) + len(records.relationships) + records.skipped <= len(items)
    for (name, _), kind in zip(records.entities, records.types or [""] * len(records.entities), strict=True):
        assert any(name in visible(item.get("entity_name", "")).replace("\n", " ") for item in items)
        assert not kind or any(kind in visible(item.get("entity_type", "")) for item in items)
