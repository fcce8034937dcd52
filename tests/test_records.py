"""The reply parser: the rules by which a reply is read, each by its number, and what holds for every text."""

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag_transformers.graph import Extraction
from rag_transformers.prompts import languages, prompt_text
from rag_transformers.records import (
    Records,
    format_records,
    is_records_text,
    parse_records,
    records_in,
    without_reasoning,
)

E, R = "Entities:\n", "Relationships:\n"
SHARED = Path(__file__).resolve().parents[2] / "shared"


def entities(reply: str) -> list[tuple[str, str]]:
    """The entities of a reply that has nothing else, and nothing wrong."""
    records = parse_records(reply)
    assert (records.status, records.skipped, records.relationships) == ("ok", 0, ())
    return list(records.entities)


def edges(reply: str) -> list[tuple[str, str, str, str]]:
    """The relationships of a reply that has nothing else, and nothing wrong."""
    records = parse_records(reply)
    assert (records.status, records.skipped, records.entities) == ("ok", 0, ())
    return list(records.relationships)


def faults(records: Records) -> list[tuple[int, str]]:
    """Line and reason of what was dropped."""
    assert records.skipped == len(records.rejected)
    return [(rejected.line, rejected.reason) for rejected in records.rejected]


# ── Rule 1: what is removed first ────────────────────────────────────────────────────────────────────────────────────

DRAFT = "Draft:\nEntities:\n(Vale Ferry#maybe)\n"
DOCK = f"{E}(Ore Dock#Pier)"


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>\n{DRAFT}</think>\n{DOCK}",
        f"<THINKING effort='high'>{DRAFT}</THINKING>{DOCK}",
        f"[THINK]{DRAFT}[/THINK]\n{DOCK}",
        f"◁think▷{DRAFT}◁/think▷\n{DOCK}",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{DOCK}",
        f"<思考>{DRAFT}</思考>\n{DOCK}",
        f"{DRAFT}</think>\n{DOCK}",
        f"{DOCK}\n<think>\n{DRAFT}",
        f"<think>one</think>\n{DOCK}\n<reasoning>{DRAFT}</reasoning>",
        f"<think>I write <think> tags, then {DRAFT}</think>{DOCK}",
        f"I write <think> tags.\n{DOCK}\n<think>{DRAFT}",
        f"{DOCK}\nSure.<think>{DRAFT}",
    ],
)
def test_rule_1_reasoning_is_removed_complete_or_not(reply: str) -> None:
    assert entities(reply) == [("Ore Dock", "Pier")]


def test_rule_1_a_reply_that_is_only_reasoning_is_empty() -> None:
    assert parse_records(f"<think>\n{DRAFT}", finish_reason="length").status == "empty"
    assert parse_records(f"<think>\n{DRAFT}</think>\n").status == "empty"


def test_rule_1_a_tag_that_is_spoken_of_is_no_reasoning() -> None:
    reply = f"{E}(Parser#Drops <think> and </think> tags)\n(Ore Dock#Pier)\n(Guide#Shows `<think>` too)"
    assert [name for name, _ in entities(reply)] == ["Parser", "Ore Dock", "Guide"]
    for text in ("The tag is `<think>`, and no other.", "It writes <think> tags.", "a < b > c"):
        assert without_reasoning(text) == text


@pytest.mark.parametrize("fence", ["```", "```text", "~~~", "  ```markdown", "````", "``` text", "```graph-records"])
def test_rule_1_fence_lines_are_removed(fence: str) -> None:
    assert entities(f"{fence}\n{DOCK}\n{fence.strip()[:3]}\n") == [("Ore Dock", "Pier")]


def test_rule_1_what_stands_on_a_fence_line_is_read() -> None:
    reply = "```Entities:\n(Ore Dock#Pier)```\n```text (Vale#Valley)\n```"
    assert entities(reply) == [("Ore Dock", "Pier"), ("Vale", "Valley")]


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n", "\u2028"])
def test_rule_1_byte_order_marks_and_carriage_returns_are_removed(end: str) -> None:
    reply = "\ufeffEntities:\n\ufeff(Ore Dock#Pier at\nthe mill)\n(Vale#Valley)".replace("\n", end)
    assert entities(reply) == [("Ore Dock", "Pier at the mill"), ("Vale", "Valley")]


# ── Rule 2: headings ─────────────────────────────────────────────────────────────────────────────────────────────────

ENTITY_HEADINGS = (
    *("Entities", "entities:", "ENTITIES：", "**Entities:**", "**Entities**:", "### Entities", "__Entities__"),
    *("1. Entities:", "I. Entities", "Part 1: Entities", "- Entities:", "> *Entities*", "=== Entities ==="),
    *("[Entities]:", "(Entities)", "<entities>", "<b>Entities</b>", "Entities (3):", "Entities list:", "Entity:"),
    *("Extracted Entities:", "List of entities:", "Here are the entities:", "Entities found in the text:"),
    *("实体", "实体：", "### 实体：", "**实体**：", "【实体】", "一、实体列表：", "（一）实体", "實體："),
    *("以下是实体：", "Entities（实体）：", "实体 / Entities：", "抽取到的实体：", "Entities:\u200b", "✅ Entities"),
    *("Entities -", "`Entities`", "\tEntities :"),
)
RELATIONSHIP_HEADINGS = (
    *("Relationships", "relationships:", "Relations：", "**Relationships:**", "## 2. Relationships"),
    *("Relationship:", "Relationship list", "Entity Relationships:", "The relationships are as follows:"),
    *("Edges:", "Triples:", "关系", "关系：", "### 关系：", "实体关系：", "实体之间的关系", "二、关系列表："),
    *("關係：", "Relationships（关系）："),
)
NO_HEADINGS = ("Entities are things.", "Entities and relationships:", "Foreign relations", "Entités:", "实体与关系")


@pytest.mark.parametrize("heading", ENTITY_HEADINGS)
def test_rule_2_under_entities_every_record_is_an_entity(heading: str) -> None:
    """One without separator is a name without summary; the heading may have any decoration."""
    assert entities(f"{heading}\n(Ore Dock#Pier#A#b)\n(Vale)") == [("Ore Dock", "Pier#A#b"), ("Vale", "")]


@pytest.mark.parametrize("heading", RELATIONSHIP_HEADINGS)
def test_rule_2_under_relationships_fewer_than_three_fields_are_dropped(heading: str) -> None:
    records = parse_records(f"{heading}\n(Ore Dock#serves#Vale)\n(Ore Dock#Vale)")
    assert records.relationships == (("Ore Dock", "serves", "Vale", ""),)
    assert faults(records) == [(3, "fewer than three fields")]


@pytest.mark.parametrize("line", NO_HEADINGS)
def test_rule_2_prose_and_unknown_headings_are_no_headings(line: str) -> None:
    records = parse_records(f"{line}\n(Ore Dock#Pier)\n(Ore Dock#serves#Vale#Daily)\n(a remark)")
    assert records.entities == (("Ore Dock", "Pier"),)
    assert records.relationships == (("Ore Dock", "serves", "Vale", "Daily"),)
    assert records.skipped == 0


def test_rule_2_sections_come_in_any_order_and_more_than_once() -> None:
    reply = f"{R}(Dock#serves#Vale)\n{E}(Dock#Pier)\n## 关系\n(Vale#feeds#Dock#Ore)\n实体\n(Vale)\n"
    records = parse_records(reply)
    assert records.entities == (("Dock", "Pier"), ("Vale", ""))
    assert records.relationships == (("Dock", "serves", "Vale", ""), ("Vale", "feeds", "Dock", "Ore"))


def test_rule_2_a_tag_may_be_a_heading_or_decoration() -> None:
    reply = "<answer>\n<entities>\n<li>(Dock#Pier)</li>\n</entities>\n<relationships>(Dock#serves#Vale)</relationships>"
    records = parse_records(reply)
    assert records.entities == (("Dock", "Pier"),)
    assert records.relationships == (("Dock", "serves", "Vale", ""),)


def test_rule_2_a_heading_holds_until_the_next_known_one() -> None:
    reply = f"{E}(Ore Dock#Pier)\n\nI found some more further down.\n\n### Places\n(Vale)\n(Hill#x#y#z)"
    assert entities(reply) == [("Ore Dock", "Pier"), ("Vale", ""), ("Hill", "x#y#z")]


def test_rule_2_before_any_heading_the_fields_decide() -> None:
    reply = "(Sure, here it is)\n(Ore Dock#Pier)\n(Ore Dock#serves#Vale)\n(Vale#feeds#Ore Dock#Ore#5)"
    records = parse_records(reply)
    assert records.entities == (("Ore Dock", "Pier"),)
    assert records.relationships == (("Ore Dock", "serves", "Vale", ""), ("Vale", "feeds", "Ore Dock", "Ore#5"))
    assert (records.status, records.skipped) == ("ok", 0)


# ── Rule 3: where a record starts and ends ───────────────────────────────────────────────────────────────────────────

BULLETS = (
    *("- ", "* ", "+ ", "• ", "  - ", "> ", "1. ", "12) ", "(3) ", "（四）", "五、", "① ", "a) ", "- [ ] ", "- [x] "),
    *("| ", "**1.** ", "- **", "`", '"', "## ", "#1. ", "- - ", "\u3000", "——", "1：", "[2] "),
)
TAILS = (" and more text", "<|COMPLETE|>", "</s>", " -- done.", "**", "` |", " [a remark", "。", " see (Hill#Lookout)")


@pytest.mark.parametrize("bullet", BULLETS)
def test_rule_3_a_record_starts_after_bullets_and_numbers(bullet: str) -> None:
    assert entities(f"{E}{bullet}(Ore Dock#Pier)") == [("Ore Dock", "Pier")]


def test_rule_3_a_numbered_remark_is_prose() -> None:
    assert entities(f"{E}(1) I merged two names.\n(2) (Ore Dock#Pier)\n(4)") == [("Ore Dock", "Pier"), ("4", "")]


def test_rule_3_a_record_starts_after_a_heading_or_another_record() -> None:
    reply = "Entities: (Dock#Pier), (Vale);（Hill＃Lookout），(Cove)\tRelationships: (Cove#faces#Hill)"
    records = parse_records(reply)
    assert records.entities == (("Dock", "Pier"), ("Vale", ""), ("Hill", "Lookout"), ("Cove", ""))
    assert records.relationships == (("Cove", "faces", "Hill", ""),)


def test_rule_3_a_bracket_elsewhere_is_prose() -> None:
    reply = f"{E}I read (see note #4) all of it.\n(Dock#Pier) and also (Vale#Valley)\nAs Hill (Lookout#Tower) says"
    assert entities(reply) == [("Dock", "Pier")]


@pytest.mark.parametrize("left", "(（")
@pytest.mark.parametrize("right", ")）")
@pytest.mark.parametrize("mark", "#＃")
def test_rule_3_brackets_and_separators_may_be_ascii_or_full_width(left: str, right: str, mark: str) -> None:
    reply = f"{R}{left}甲{mark}认识{mark}乙（人）{mark}旧交{right}"
    assert edges(reply) == [("甲", "认识", "乙（人）", "旧交")]


@pytest.mark.parametrize(
    ("record", "summary"),
    [
        ("(Kiln#Fired (twice (at night)) in May)", "Fired (twice (at night)) in May"),
        ("(Kiln#a (b (c (d (e (f))))) g)", "a (b (c (d (e (f))))) g"),
        ("(Kiln#Steps: 1) load 2) fire 3) cool)", "Steps: 1) load 2) fire 3) cool"),
        ("(Kiln#As of rev. b) of the plan)", "As of rev. b) of the plan"),
        ("(Kiln#Fired at (900 degrees)", "Fired at (900 degrees"),
        ("(Kiln#Smiles :) often) and so on", "Smiles :) often"),
        ("（Kiln#见（图2）", "见（图2"),
    ],
)
def test_rule_3_a_record_ends_at_its_bracket_or_at_the_last_of_the_line(record: str, summary: str) -> None:
    assert entities(f"{E}{record}\n(Vale)") == [("Kiln", summary), ("Vale", "")]


def test_rule_3_a_record_behind_brackets_that_do_not_balance_is_its_own() -> None:
    """No record is swallowed where the next one starts right behind it."""
    kiln, vale = ("Kiln", "1) load 2) fire"), ("Vale", "Valley")
    assert entities(f"{E}(Kiln#1) load 2) fire), (Vale#Valley)") == [kiln, vale]
    assert entities(f"{E}(Vale#Valley), (Kiln#1) load 2) fire)") == [vale, kiln]


@pytest.mark.parametrize("tail", TAILS)
def test_rule_3_what_follows_a_record_on_its_line_is_ignored(tail: str) -> None:
    assert entities(f"{E}(Ore Dock#Pier){tail}") == [("Ore Dock", "Pier")]


# ── Rule 4: fields ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_rule_4_an_entity_is_split_once_and_a_relationship_three_times() -> None:
    assert entities(f"{E}(Desk#Files #1 and #2)") == [("Desk", "Files #1 and #2")]
    assert edges(f"{R}(Desk#files#Form#See rule #3, #4)") == [("Desk", "files", "Form", "See rule #3, #4")]


@pytest.mark.parametrize(
    ("record", "row"),
    [
        ("(Desk#uses#C##Since #4)", ("Desk", "uses", "C#", "Since #4")),
        ("(C##uses#Desk#Daily)", ("C#", "uses", "Desk", "Daily")),
        ("(C##is like#F##Both)", ("C#", "is like", "F#", "Both")),
        ("(C＃#uses#Desk#)", ("C＃", "uses", "Desk", "")),
        ("(Desk#uses#C##)", ("Desk", "uses", "C#", "")),
        ("(Desk#uses#Form#a##b)", ("Desk", "uses", "Form", "a##b")),
    ],
)
def test_rule_4_two_separators_are_a_name_that_ends_in_one(record: str, row: tuple[str, str, str, str]) -> None:
    assert edges(R + record) == edges(record) == [row]


@pytest.mark.parametrize("heading", [E, ""])
def test_rule_4_and_so_they_are_in_an_entity(heading: str) -> None:
    assert entities(f"{heading}(C##Language)") == [("C#", "Language")]


@pytest.mark.parametrize(
    ("record", "fault"),
    [("(C##uses#Desk)", "no relation"), ("(Desk#uses##Daily)", "no target"), ("(Desk##Form#Daily)", "no relation")],
)
def test_rule_4_but_only_where_four_fields_remain_else_a_field_is_empty(record: str, fault: str) -> None:
    assert faults(parse_records(R + record)) == [(2, fault)]


def test_rule_4_a_quoted_field_may_hold_separators() -> None:
    assert entities(f'{E}("C#"#"Language #1")\n(`F#`#Language)') == [("C#", "Language #1"), ("F#", "Language")]


# ── Rule 5: one missing bracket, and line breaks ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("after", ["\n(Vale)", "\n\nSo much.", f"\n{R}", "\n- (Vale)", "\n---\nSo much.", "\n关系："])
def test_rule_5_a_missing_closing_bracket_is_forgiven(after: str) -> None:
    records = parse_records(f"{E}(Ore Dock (old)#Pier of the mill{after}")
    assert records.entities[0] == ("Ore Dock (old)", "Pier of the mill")
    assert records.status == "ok"


@pytest.mark.parametrize("after", ["", "\n", "\n```\n", "\n\n  \n"])
def test_rule_5_but_at_the_end_of_the_reply_the_record_was_cut(after: str) -> None:
    records = parse_records(f"{E}(Vale)\n(Ore Dock#Pier of{after}")
    assert (records.entities, records.status) == ((("Vale", ""),), "partial")
    assert records.rejected == ((3, "Ore Dock#Pier of", "cut off at the end of the reply"),)


def test_rule_5_a_last_record_that_ends_in_a_bracket_was_not_cut_unless_the_server_says_so() -> None:
    reply = f"{E}(Vale)\n(Ore Dock#Pier (old)"
    assert entities(reply) == [("Vale", ""), ("Ore Dock", "Pier (old")]
    records = parse_records(reply, finish_reason="length")
    assert (records.entities, records.status, records.skipped) == ((("Vale", ""),), "partial", 1)


def test_rule_5_a_missing_opening_bracket_is_forgiven() -> None:
    records = parse_records(
        f"{E}Ore Dock#Pier (old))\n1. **Vale**#Valley)\n- Hill#Tickets #1 and #2),\n3.5 mm jack#Plug)\n"
        f"{R}Ore Dock#serves#Vale)\nHill#faces#Vale#Always)"
    )
    assert [name for name, _ in records.entities] == ["Ore Dock", "Vale", "Hill", "3.5 mm jack"]
    assert records.entities[0] == ("Ore Dock", "Pier (old)")
    assert records.relationships == (("Ore Dock", "serves", "Vale", ""), ("Hill", "faces", "Vale", "Always"))
    assert records.status == "ok"


def test_rule_5_without_headings_the_fields_decide_there_too() -> None:
    records = parse_records("Ore Dock#Pier)\nOre Dock#serves#Vale)\nOre Dock#serves#Vale#Daily)")
    assert records.entities == (("Ore Dock", "Pier"),)
    assert records.relationships == (("Ore Dock", "serves", "Vale", ""), ("Ore Dock", "serves", "Vale", "Daily"))


@pytest.mark.parametrize(
    "line", ["Ore Dock is a pier)", "Ore Dock#Pier) and so on", "Ore Dock (Pier #4)", "Ore Dock#Pier", "# Old notes)"]
)
def test_rule_5_no_opening_bracket_is_missing_in_prose(line: str) -> None:
    assert parse_records(E + line) == Records()


def test_rule_5_under_relationships_two_fields_without_bracket_are_prose() -> None:
    assert parse_records(f"{R}Ore Dock#Vale)") == Records()


@pytest.mark.parametrize(
    ("record", "row"),
    [
        ("(Kiln#Fired with\nbirch wood)", ("Kiln", "Fired with birch wood")),
        ("(Kiln#Fired with  \r\n   birch\n\twood)", ("Kiln", "Fired with birch wood")),
        ("(Kiln#Fired (with\nbirch) wood #4)", ("Kiln", "Fired (with birch) wood #4")),
        ("(Kiln (the\nold one)#big)", ("Kiln (the old one)", "big")),
        ("(Kiln#烧\n陶)", ("Kiln", "烧 陶")),
    ],
)
def test_rule_5_a_line_break_inside_a_record_becomes_one_space(record: str, row: tuple[str, str]) -> None:
    assert entities(E + record) == [row]


@pytest.mark.parametrize("stop", ["\n\n", f"\n{R}", "\n(Vale#Valley)\n", "\n2. (Vale#Valley)\n", "\nVale#Valley)\n"])
def test_rule_5_an_empty_line_a_heading_or_a_record_never_continues_one(stop: str) -> None:
    assert parse_records(f"{E}(Kiln#Fired with{stop}birch wood)").entities[0] == ("Kiln", "Fired with")


def test_rule_5_records_follow_a_wrapped_one_on_its_last_line() -> None:
    reply = f"{E}(Kiln#Fired with\nbirch), (Vale#Valley\nof ore); (Hill)"
    assert entities(reply) == [("Kiln", "Fired with birch"), ("Vale", "Valley of ore"), ("Hill", "")]


# ── Rule 6: cleaning of fields ───────────────────────────────────────────────────────────────────────────────────────

WRAPPED = {
    **{'"Ada Moss"': "Ada Moss", "“Ada Moss”": "Ada Moss", "'Ada Moss'": "Ada Moss", "‘Ada Moss’": "Ada Moss"},
    **{"**Ada Moss**": "Ada Moss", "*Ada Moss*": "Ada Moss", "***Ada Moss***": "Ada Moss", "_Ada Moss_": "Ada Moss"},
    **{"`Ada Moss`": "Ada Moss", "``Ada``": "Ada", '" Ada Moss "': "Ada Moss", "  Ada \u3000": "Ada"},
    **{'""Ada""': '"Ada"', '"The "Gold" Cup"': 'The "Gold" Cup', "'The girls' hall'": "The girls' hall"},
    **{"“甲“乙”丙”": "甲“乙”丙", "“Ada’s”": "Ada’s", "‘Ada’s boat’": "Ada’s boat", "\u00a0Ada": "Ada"},
    **{"__Ada__": "Ada"},
}
KEPT = (
    *("《红楼梦》", "「甲」", '"Ada" and "Bo"', "“Ada”与“Bo”", "‘Ada’ and ‘Bo’", "**Ada** and **Bo**"),
    *('The "Gold" Cup', '5" pipe', "snake_case_", '"Ada', "ＡＢＣ", "aDa", "a  b", "_a_b_", "O'Neil", "é", "e\u0301"),
    *("*", "**"),
)


@pytest.mark.parametrize(("written", "name"), [*WRAPPED.items(), *((name, name) for name in KEPT)])
def test_rule_6_one_pair_of_marks_round_a_field_goes_and_nothing_else(written: str, name: str) -> None:
    assert entities(f"{E}({written}#Weaver)") == [(name, "Weaver")]
    assert edges(f"{R}(Bo#{written}#Bo#{written})") == [("Bo", name, "Bo", name)]


# ── Rule 7: marks that cannot be seen ────────────────────────────────────────────────────────────────────────────────


def test_rule_7_control_and_invisible_marks_go_without_a_space() -> None:
    marks = "\x00\x07\x0b\x0c\x1b\x7f\x85\x9f\xad\u200b\u200e\u202a\u2060\u2066\ufeff\ufff9\U000e0001\ufffe"
    for mark in marks + "\ud800\udfff":
        assert entities(f"{E}(Ore{mark} Do{mark}ck#Pi{mark}er{mark})") == [("Ore Dock", "Pier")], ascii(mark)


def test_rule_7_a_tab_counts_as_a_space() -> None:
    assert entities(f"{E}(\tOre\tDock\t#\tPier)") == [("Ore Dock", "Pier")]


def test_rule_7_joiners_stay_but_are_no_name() -> None:
    family, word = "👩\u200d🌾", "می\u200cخواهم"
    assert entities(f"{E}({family}#{word})") == [(family, word)]
    assert faults(parse_records(f"{E}(\u200d#Pier)")) == [(2, "no name")]


def test_rule_7_results_can_be_encoded_and_two_halves_of_a_character_are_joined() -> None:
    records = parse_records(f"{E}(\ud83d\ude00 Inn#\ud83dTavern)")
    assert records.entities == (("😀 Inn", "Tavern"),)
    assert repr(records).encode("utf-8")


# ── Rule 8: what is missing ──────────────────────────────────────────────────────────────────────────────────────────


def test_rule_8_a_missing_summary_is_empty() -> None:
    assert entities(f"{E}(Ore Dock)\n(Vale#)\n(Hill#  )") == [("Ore Dock", ""), ("Vale", ""), ("Hill", "")]
    assert edges(f"{R}(Dock#serves#Vale)\n(Vale#feeds#Hill#)") == [
        ("Dock", "serves", "Vale", ""),
        ("Vale", "feeds", "Hill", ""),
    ]


def test_rule_8_a_record_with_an_empty_field_is_dropped_and_counted() -> None:
    records = parse_records(
        f'{E}( #Pier)\n()\n(""#Pier)\n(Vale)\n{R}(#a#b#c)\n(a# #b#c)\n(a#b# #c)\n(a#b#\u200b #c)\n(a)\n(a#b)\n'
    )
    assert (records.entities, records.relationships, records.status) == ((("Vale", ""),), (), "partial")
    assert faults(records) == [
        *((2, "no name"), (3, "no name"), (4, "no name"), (7, "no source"), (8, "no relation")),
        *((9, "no target"), (10, "no target"), (11, "fewer than three fields"), (12, "fewer than three fields")),
    ]


# ── Rule 9: what is no data ──────────────────────────────────────────────────────────────────────────────────────────

NO_DATA = (
    *("(entity_name#entity_summary)", "(Entity_Name)", "(<entity_name>#<entity_summary>)", "(entity name 1#...)"),
    *("(source_entity_name#relation_name#target_entity_name#relation_summary)", "(**entity_name**#)", "（…＃…）"),
    *("(实体名#实体摘要)", "（源实体名#关系名#目标实体名#）", "(...)", "(...#...)", "(……#……)", "(...#...#...#...)"),
    *("(none)", "(None.)", "(N/A)", "(无)", "（无。）", "None", "N/A", "无", "- none", "(none#none)", "..."),
    *('("none")', "**None**", "(No entities found.)", "(no relationships)", "（未发现关系）", "(无#无#无#无)"),
)


@pytest.mark.parametrize("record", NO_DATA)
@pytest.mark.parametrize("heading", [E, R, ""])
def test_rule_9_placeholders_and_nothing_are_no_data(heading: str, record: str) -> None:
    assert entities(f"{heading}{record}\n\n{DOCK}\n") == [("Ore Dock", "Pier")]


@pytest.mark.parametrize("language", languages())
def test_rule_9_the_placeholders_of_every_prompt_are_known(language: str) -> None:
    text = prompt_text("extract_graph", language)
    described = text[: text.rindex("```", 0, text.rindex("```"))]
    placeholders = re.findall(r"(?m)^\([^()\n]*#[^()\n]*\)$", described)
    assert len(placeholders) == 2
    assert parse_records("\n".join(placeholders)) == Records()


def test_rule_9_a_placeholder_beside_data_is_data() -> None:
    """A document may be about prompts."""
    rows = [("entity_name", "Takes the name"), ("Ore Dock", "..."), ("None Such", "Farm"), ("2024", "Year")]
    assert entities(E + "\n".join(f"({name}#{summary})" for name, summary in rows)) == rows


# ── The example of our own prompt ────────────────────────────────────────────────────────────────────────────────────


def echo(language: str) -> str:
    """The answer in a prompt's example, as a lazy model gives it back."""
    return str(re.findall(r"(?ms)^```\n(.*?)^```$", prompt_text("extract_graph", language))[-1])


@pytest.mark.parametrize("language", languages())
def test_the_example_of_our_prompt_is_dropped_where_the_chunk_does_not_hold_its_names(language: str) -> None:
    assert parse_records(echo(language)).status == "ok"
    records = parse_records(f"{echo(language)}\n{DOCK}", source="The Ore Dock is a pier.")
    assert (records.entities, records.relationships) == ((("Ore Dock", "Pier"),), ())
    assert (records.status, records.skipped) == ("ok", 0)


@pytest.mark.parametrize("language", languages())
def test_the_example_of_our_prompt_is_kept_where_the_chunk_holds_its_names(language: str) -> None:
    """For a relationship those of both its ends."""
    whole = parse_records(echo(language))
    source, _, target, _ = edge = whole.relationships[0]
    kept = parse_records(echo(language), source=f"On {source.upper()}.")
    assert [name for name, _ in kept.entities] == [source]
    assert not kept.relationships
    assert edge in parse_records(echo(language), source=f"{source} and {target}").relationships


# ── Status ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "reply", [None, "", " \n", "I am sorry, there is no text.", E + R, f"{E}None\n\n{R}None", "(x", "(x)", "无"]
)
def test_a_reply_without_records_is_empty(reply: str | None) -> None:
    assert parse_records(reply) == Records(status="empty")


@pytest.mark.parametrize("finish_reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_a_cut_reply_is_partial_even_where_every_record_is_whole(finish_reason: str) -> None:
    assert parse_records(DOCK, finish_reason=finish_reason).status == "partial"
    assert parse_records(DOCK, finish_reason="stop").status == "ok"


def test_equal_records_stand_once_and_are_not_counted() -> None:
    reply = f"{E}(Ore Dock#Pier)\n(**Ore Dock**# Pier )\n(Ore Dock#Quay)\n"
    assert entities(reply * 3) == [("Ore Dock", "Pier"), ("Ore Dock", "Quay")]


def test_the_records_of_another_system_are_not_read_as_ours() -> None:
    reply = '("entity"<|>"Ore Dock"<|>"place"<|>"Pier")##\n("relationship"<|>"Ore Dock"<|>"Vale"<|>"serves"<|>5)'
    assert parse_records(reply) == Records(status="empty")


def test_what_is_rejected_is_named_by_its_line_in_the_reply() -> None:
    reply = f"<think>\nHm.\n</think>\n```text\n{E}(Vale)\n( #Pier)\n```\n{R}(Vale#Hill)\n(Vale#is\nlost"
    assert parse_records(reply).rejected == (
        (7, " #Pier", "no name"),
        (10, "Vale#Hill", "fewer than three fields"),
        (11, "Vale#is lost", "cut off at the end of the reply"),
    )


def test_records_become_an_extraction() -> None:
    found = parse_records(f"{E}(Ore Dock#Pier)\n{R}(Ore Dock#serves#Vale)").extraction()
    assert found == Extraction([("Ore Dock", "Pier")], [("Ore Dock", "serves", "Vale", "")])


# ── What holds for every reply ───────────────────────────────────────────────────────────────────────────────────────

PIECES = (
    *"()（）#＃:：\n\r\t ,;\"'*_`-<>[]{}0a名\x00\u200b\ud800",
    *("\n\n", "##", "...", "```", "<think>", "</think>", "Entities:", "Relationships:", "实体：", "关系", "none"),
    *("Ada Moss", "(Ada#Founder)", '{"name": "', '"}', '", "target": "', "1. "),
)
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@given(ANY_TEXT, st.sampled_from([None, "length", "stop"]), st.sampled_from([None, "Ada Moss"]))
@example("(" * 2000, None, None)
@example('{"name": "' * 200, "length", None)
@example('（": |＃a[b"\n(Ada#Founder)', None, None)
def test_no_text_makes_the_parser_raise(text: str, finish_reason: str | None, source: str | None) -> None:
    records = parse_records(text, finish_reason=finish_reason, source=source)
    found = records.extraction()
    repr(records).encode("utf-8")
    assert records.skipped == len(records.rejected)
    assert (records.status in ("empty", "format_error")) == (not found)
    assert is_records_text(text) in (True, False)
    assert isinstance(without_reasoning(text), str)
    assert parse_records(format_records(found)).status != "format_error"


WORDS = ("Ada", "Moss", "grain mill", "é", "C++", "刘备", "书房", "x1", "2024", "ＡＢ", "😀", "O'Neil", "《书》")
JOINTS = ("", " ", "  ", ", ", "; ", ". ", "' ", ' "', "-", "/", "、", "。", "*", "_", " <", "> ", "：", "—", "…", "|")


PLAIN = st.builds("{}{}{}".format, st.sampled_from(WORDS), st.sampled_from(JOINTS), st.sampled_from(WORDS))
NAMES = PLAIN | st.builds("{} ({}) {}".format, PLAIN, PLAIN, st.sampled_from(WORDS))
SUMMARIES = NAMES | st.just("")
EXTRACTIONS = st.builds(
    Extraction,
    st.lists(st.tuples(NAMES, SUMMARIES), max_size=3, unique=True),
    st.lists(st.tuples(NAMES, NAMES, NAMES, SUMMARIES), max_size=3, unique=True),
)


@given(EXTRACTIONS)
def test_what_is_written_is_read_back(found: Extraction) -> None:
    assert parse_records(format_records(found)).extraction() == found


def before_records(mark: str) -> Callable[[str], str]:
    return lambda text: re.sub(r"(?m)^\(", f"{mark}(", text)


def bold(text: str) -> str:
    return re.sub(r"(?m)^(Entities|Relationships):$", r"**\1:**", re.sub(r"(?m)^\(([^#\n]+)#", r"(**\1**#", text))


def full_width(text: str) -> str:
    wide = re.sub(r"(?m)^\((.*)\)$", lambda record: f"（{record[1].replace('#', '＃')}）", text)
    return re.sub(r"(?m)^(Entities|Relationships):$", r"\1：", wide)


def swapped(text: str) -> str:
    first, second = text.split("\n\nRelationships:")
    return f"Relationships:{second}\n\n{first}"


DECORATIONS: dict[str, Callable[[str], str]] = {
    "sections swapped": swapped,
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "old line endings": lambda text: text.replace("\n", "\r"),
    "full-width marks": full_width,
    "fence": lambda text: f"Sure:\n```text\n{text}\n```\nDone.",
    "bullets": before_records("- "),
    "numbering": before_records("12. "),
    "indents": before_records("\t  "),
    "bold": bold,
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "twice": lambda text: f"{text}\n\n{text}",
    "commas": lambda text: text.replace(")\n", "),\n"),
    "translated": lambda text: text.replace("Entities:", "### 实体：").replace("Relationships:", "### 关系："),
    "reasoning": lambda text: f"<think>\nEntities:\n(Some Draft#x)\n</think>\n{text}",
}


@pytest.mark.parametrize("decoration", DECORATIONS)
@settings(max_examples=20)
@given(found=EXTRACTIONS)
def test_decoration_changes_nothing(decoration: str, found: Extraction) -> None:
    assert parse_records(DECORATIONS[decoration](format_records(found))).extraction() == found


@settings(max_examples=30)
@given(EXTRACTIONS, st.randoms(use_true_random=False))
def test_unseen_marks_change_nothing(found: Extraction, chance: random.Random) -> None:
    text = "".join(mark + chance.choice(["", "", "\x00", "\u200b", "\ufeff"]) for mark in format_records(found))
    assert parse_records(text).extraction() == found


@settings(max_examples=60)
@given(found=EXTRACTIONS, share=st.floats(0, 1))
def test_a_cut_keeps_every_whole_record_before_it_and_says_so(found: Extraction, share: float) -> None:
    text = format_records(found)
    cut = round(share * len(text))
    lines = text.split("\n")
    ends = accumulate(len(line) + 1 for line in lines)
    whole = sum(end - 1 <= cut for line, end in zip(lines, ends, strict=True) if line.startswith("("))
    records = parse_records(text[:cut], finish_reason="length")
    assert [*records.entities, *records.relationships] == [*found.entities, *found.relationships][:whole]
    assert records.status == ("partial" if whole else "empty")


# ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_separators_colons_and_line_breaks_are_written_as_the_prompt_asks_for() -> None:
    found = Extraction([("C#", "a: b\nc\r\nd＃"), ("刘备：主公", "")], [("C#", "is: like", "F#", "x\u2028y")])
    lines = ["Entities:", "(C_#a_ b_c_d_)", "(刘备：主公#)", "", "Relationships:", "(C_#is_ like#F_#x_y)"]
    assert format_records(found).split("\n") == lines


MARKED = (
    *('"Heroes"', "*x*", "“a”", "`code`", "__init__", "Smile )", "1) a 2) b", "a ( b", "Entities", "none such", "- x"),
    *("1. x", "（a）", "```", "a, b; c", "{x}", "a <think> b", "Ore (Dock", "x)y", "<|COMPLETE|>", "(a)(b)", "'tis"),
    *("...x", "《书》", "12", '"a" and "b"', "it's'"),
)


@pytest.mark.parametrize("name", MARKED)
def test_names_full_of_marks_are_written_so_that_they_are_read_back(name: str) -> None:
    found = Extraction([(name, name), (name, ""), ("Vale", name)], [(name, name, name, name), (name, name, name, "")])
    assert parse_records(format_records(found)).extraction() == found


@pytest.mark.parametrize("name", ["a) (b", "x)\n(evil", ")(", "a) b (c", "))(("])
def test_no_text_of_a_field_can_make_a_record_of_its_own(name: str) -> None:
    """Brackets that would break a record become ``_``, too."""
    found = Extraction([(name, "x"), ("Vale", name)], [(name, name, name, name)])
    records = parse_records(format_records(found))
    assert (len(records.entities), len(records.relationships), records.status) == (2, 1, "ok")


def test_an_empty_extraction_is_written_and_read() -> None:
    assert parse_records(format_records(Extraction())).extraction() == Extraction()


# ── Text that already is a graph ─────────────────────────────────────────────────────────────────────────────────────

GRAPH = (
    "# 港口 map\nEntities:\n(ore/dock-1#pier)\n(vale.hill#village)\n\n"
    "Relationships:\n(ore/dock-1#serves#vale.hill#2 a day)\n"
)


def test_text_that_is_a_graph_is_read_with_names_unchanged() -> None:
    records = records_in(GRAPH * 2)
    assert records is not None
    assert records.entities == (("ore/dock-1", "pier"), ("vale.hill", "village"))
    assert records.relationships == (("ore/dock-1", "serves", "vale.hill", "2 a day"),)


@pytest.mark.parametrize(
    "text",
    [
        GRAPH,
        GRAPH + "\n# About\nMade by hand.",
        "(a#x#b#1)\n(a#x#c#2)\n(b#x#c#)",
        "实体：\n（甲＃人）\n（乙＃人）\n",
    ],
)
def test_which_texts_are_graphs(text: str) -> None:
    assert is_records_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The tower (see plan #4) leans.",
        "(see plan #4)",
        "(see plan #4)\n(see plan #5)\n(see plan #6)",
        "Entities: these are things (in plan #4).\nRelationships: those are ties (in plan #5).",
        "Entities:\n(a#b)\n" + "A long story follows, in prose, with few marks in it. " * 3,
        "Entities:\n(a#b)\n(c#d",
        "Entities:\n(a)\n(b)\n(c)",
        "A list:\n(a#x#b#1)\n(a#x#c#2)\nand that is it",
        "#include (x#y)\n#define (a#b)",
        "- see (issue #4)\n- see (issue #5)",
    ],
)
def test_prose_with_brackets_is_no_graph(text: str) -> None:
    assert not is_records_text(text)


# ── Speed ────────────────────────────────────────────────────────────────────────────────────────────────────────────

SLOW = (
    *("(", "(#", "()#（）＃\n", "(a#b\n", "(a#b) ", "(a#b) Entities: ", "x) y#z) (B#a ((( c)\n", "a#\n", "<x"),
    *('{"name":"', '{"name":"A"},', "[{"),
)


@pytest.mark.parametrize("pattern", SLOW)
def test_a_reply_of_marks_takes_linear_time(pattern: str) -> None:
    """Sixteen times the text takes about sixteen times as long; it would be 256 times in quadratic time."""

    def seconds(size: int) -> float:
        text = E + pattern * (size // len(pattern))
        start = time.process_time()
        parse_records(text)
        return time.process_time() - start

    assert min(seconds(64_000) for _ in range(2)) < 100 * min(seconds(4_000) for _ in range(3)) + 0.1


# ── What all implementations share ───────────────────────────────────────────────────────────────────────────────────


def shared(path: str) -> Path:
    found = SHARED / path
    if not found.is_file():
        pytest.skip(f"what is shared is not here: {found}")
    return found


def test_all_shared_parser_cases_pass() -> None:
    script = shared("cases/check_parser.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_shared_graph_in_record_format_is_read_directly() -> None:
    text = shared("data/hash_format/dbgpt_graphrag-mini.md").read_text(encoding="utf-8")
    records = records_in(text)
    assert records is not None
    lines = {line[1:-1] for line in text.split("\n") if line.startswith("(")}
    assert {"#".join(row) for row in (*records.entities, *records.relationships)} == lines


def test_recorded_replies_in_json_are_read() -> None:
    for line in shared("data/recorded_en/dulce_llama31_8b.jsonl").read_text(encoding="utf-8").strip().split("\n"):
        reply = json.loads(line)["output_stage_one"]
        assert len(parse_records(reply).relationships) == len(json.loads(reply))
