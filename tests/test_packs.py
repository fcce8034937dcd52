"""Packs: a folder of one's own prompts is checked when it is loaded, stands over the built-in ones, and is used."""

import json
from pathlib import Path

import pytest
from fake_server import FakeServer
from langchain_core.documents import Document
from scripted_model import ScriptedChatModel

from rag_transformers import (
    GraphExtractor,
    GraphIndex,
    GraphRAGExtractor,
    PhraseExtractor,
    SummarizeExtractor,
    Summary,
    cli,
)
from rag_transformers.errors import UsageError
from rag_transformers.prompts import PromptPack, languages, load_prompt, prompt_text
from rag_transformers.records.foreign import in_known_words
from rag_transformers.records.words import example_rows

EXTRACT = """Finde die Dinge und ihre Beziehungen.

```
Entitäten:
(Rosa Wendt#Müllerin)

Beziehungen:
(Rosa Wendt#führt#Holmer Mühle#)
```

{history}
{text}
"""
WORDS = """base = "en"
none = ["keine"]
entities = ["Entitäten"]
relationships = ["Beziehungen"]
no_data = "Dazu steht nichts im Index."
sources = "Quellen:"
"""
REPLY = "**Entitäten:**\n(Rosa Wendt#Müllerin in Holm)\n\n**Beziehungen:**\n(keine)"


@pytest.fixture
def german(tmp_path: Path) -> Path:
    """A folder that is one language, de, and leaves most prompts to English."""
    return folder(tmp_path / "de", extract_graph=EXTRACT, words=WORDS)


def saying(reply: str) -> ScriptedChatModel:
    return ScriptedChatModel(reply=lambda prompt: reply)


def folder(path: Path, words: str = "", **prompts: str) -> Path:
    path.mkdir(parents=True)
    for stage, text in prompts.items():
        (path / f"{stage}.txt").write_text(text, encoding="utf-8")
    if words:
        (path / "words.toml").write_text(words, encoding="utf-8")
    return path


# Which prompts there are.


def test_a_folder_of_files_is_one_language_in_which_everything_is_asked(german: Path) -> None:
    pack = PromptPack(german)
    assert (pack.fixed, pack.own_languages, pack.languages) == ("de", ("de",), ("de", "en", "ja", "zh"))
    assert pack.choose("谁建了桥？") == pack.choose("Wer?", "de") == "de"
    assert pack.text("extract_graph", "de") == EXTRACT
    assert pack.text("answer_local", "de") == prompt_text("answer_local", "en")
    with pytest.raises(UsageError, match=r"language is 'zh'; it must be auto or one of de"):
        GraphExtractor(saying(REPLY), language="zh", prompts=german)


def test_a_folder_of_folders_holds_several_over_the_built_in_ones(tmp_path: Path, german: Path) -> None:
    folder(tmp_path / "zh", answer_local="只用以下内容回答。\n{context}\n{question}")
    pack = PromptPack(tmp_path)
    assert (pack.fixed, pack.own_languages) == (None, ("de", "zh"))
    assert pack.choose("谁建了桥？") == "zh"
    assert pack.text("answer_local", "zh").startswith("只用以下内容")
    assert pack.text("extract_graph", "zh") == prompt_text("extract_graph", "zh")
    assert pack.words("zh").sources == "来源："
    assert languages(tmp_path) == ("de", "en", "ja", "zh")
    assert load_prompt("extract_graph", "de", german).input_variables == ["history", "text"]
    assert languages() == ("en", "ja", "zh"), "a pack changes nothing for others"


def test_a_new_language_that_leaves_files_out_and_names_no_base_is_told_which(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"de lacks answer_local.txt, .*: those of English are taken"):
        PromptPack(folder(tmp_path / "de", extract_graph=EXTRACT.replace("Entitäten", "Entities")[:40] + "{text}"))


# What is wrong is named when a pack is loaded.

FAULTS = [
    ({"answer_local": "Antworte: {question}"}, r"answer_local.txt lacks the variable context; it must have context,"),
    ({"summarize_text": "{text} {style}"}, r"summarize_text.txt has the unknown variable style; it must have text"),
    ({"summarize_text": "{text} {}"}, r"summarize_text.txt has \{\}, which is no variable"),
    ({"summarize_text": "{text"}, r"summarize_text.txt is no template"),
    ({"summarize_text": " \n"}, r"summarize_text.txt is empty"),
    ({"extract_grahp": "{text}"}, r"extract_grahp.txt is the prompt of no stage; there are: answer_local,"),
    ({"extract_graph": "{text}\n```\nAda - Fen\n```\n"}, r"extract_graph.txt: its example does not parse"),
    ({"extract_graph": "{text}\n```\nEntities:\n(Ada#Fen)\n(#x)\n```\n"}, r"extract_graph.txt: line 3 of its example"),
    ({"extract_graph_json": "{text}\n```\n[1, 2]\n```\n"}, r"extract_graph_json.txt: its example does not parse"),
    ({"words": "sorces = 'x'"}, r"words.toml: unknown words sorces; there are: base, spaced,"),
    ({"words": "spaced = 1"}, r"words.toml: spaced is 1; it must be true or false"),
    ({"words": "none = 'keine'"}, r"words.toml: none is 'keine'; it must be a list of words"),
    ({"words": "words_per_token = 0"}, r"words.toml: words_per_token is 0; it must be above 0"),
    ({"words": "tie = '{source} zu {target}'"}, r"words.toml: tie has the variables source, target; it must have"),
    ({"words": "base = 'fr'"}, r"words.toml: base is 'fr'; it must be one of en, ja, zh"),
    ({"words": "base = "}, r"words.toml is no TOML in UTF-8"),
    ({"words": "words_per_token = inf"}, r"words.toml: words_per_token is inf; it must be above 0, and at most 10"),
    ({"words": "words_per_token = nan"}, r"words_per_token is nan; it must be above 0, and at most 10"),
    ({"words": "no_data = ' '"}, r"words.toml: no_data is ' '; it must say something"),
    ({"words": "comma = ''"}, r"words.toml: comma is ''; it must say something"),
    ({"words": "members = '{names:>10}'"}, r"members is no template \(\{names\} cannot be formatted so\)"),
    ({"words": "tie = '{source!r} {relation} {target}'"}, r"tie is no template \(\{source\} cannot be"),
    ({"words": "rating = '{weight:d} {total}'"}, r"rating is no template"),
    ({"words": "rating = '{weight:>100000000} {total}'"}, r"rating is no template"),
    ({"summarize_text": "{text:d}"}, r"summarize_text.txt has \{text:d\}; it must be \{text\}, which keeps a text"),
    ({"summarize_text": "{text!r}"}, r"summarize_text.txt has \{text!r\}; it must be \{text\}"),
    ({"extract_graph": "{text:{history}}"}, r"extract_graph.txt has \{text:\{history\}\}; it must be \{text\}"),
    ({"extract_graph": "{text}\n~~~\nAda - Fen\n~~~\n"}, r"extract_graph.txt: its example does not parse"),
    ({"extract_graph": "{text}\n  ```\n  Ada - Fen\n  ```\n"}, r"extract_graph.txt: its example does not parse"),
    ({}, r"de holds no prompts"),
]


@pytest.mark.parametrize(("files", "what"), FAULTS)
@pytest.mark.filterwarnings("ignore:.* lacks .*:UserWarning")
def test_what_is_wrong_is_named_with_its_file_before_anything_is_asked(
    tmp_path: Path, files: dict[str, str], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        GraphIndex.open(tmp_path / "index", prompts=folder(tmp_path / "de", **files))
    assert not (tmp_path / "index").exists()


@pytest.mark.filterwarnings("ignore:.* lacks .*:UserWarning")
def test_a_folder_that_is_none_mixed_or_in_another_encoding_is_named(tmp_path: Path, german: Path) -> None:
    with pytest.raises(UsageError, match="'nowhere', which is no folder"):
        PromptPack("nowhere")
    with pytest.raises(UsageError, match="prompts is int; give a folder or a PromptPack"):
        languages(3)  # type: ignore[arg-type]
    folder(german / "en", summarize_text="{text}")
    with pytest.raises(UsageError, match=r"holds prompts and folders of them \(en\)"):
        PromptPack(german)
    (tmp_path / "fr").mkdir()
    (tmp_path / "fr" / "summarize_text.txt").write_bytes("Résumé {text}".encode("latin-1"))
    with pytest.raises(UsageError, match=r"summarize_text.txt cannot be read as UTF-8"):
        PromptPack(tmp_path / "fr")


def test_auto_is_no_name_of_a_language(tmp_path: Path) -> None:
    own = folder(tmp_path / "auto", summarize_text="{text}")
    for given in (own, tmp_path):
        with pytest.raises(UsageError, match="auto is no name of a language"):
            PromptPack(given)


def test_an_empty_path_is_not_the_folder_one_is_in(german: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(german)
    with pytest.raises(UsageError, match="prompts is an empty path; give a folder"):
        PromptPack("")
    with pytest.raises(UsageError, match="prompts is an empty path; give a folder"):
        languages("")


def test_names_that_begin_with_a_dot_are_passed_over(tmp_path: Path, german: Path) -> None:
    folder(tmp_path / ".git", extract_graph="kept from an older day")
    (german / "._extract_graph.txt").write_bytes(b"\x00\x05\x16\x07")
    assert PromptPack(tmp_path).own_languages == ("de",)
    assert PromptPack(german).text("extract_graph", "de") == EXTRACT
    with pytest.raises(UsageError, match="holds no prompts"):
        PromptPack(folder(tmp_path / "zh", **{"._extract_graph": "x"}))


@pytest.mark.parametrize("fence", ["```", "~~~", "  ```", "~~~~records"])
def test_an_example_is_read_in_any_fence(tmp_path: Path, fence: str) -> None:
    closed = fence.removesuffix("records")
    text = f"{{text}}\n{fence}\nEntities:\n(Rosa Wendt#Müllerin)\n{closed}\n"
    pack = PromptPack(folder(tmp_path / "en", extract_graph=text))
    assert ("Rosa Wendt", "Müllerin") in example_rows(pack)


def test_a_description_may_be_told_its_length(tmp_path: Path) -> None:
    own = folder(tmp_path / "en", summarize_descriptions="{entity_name} in {max_length} tokens: {description_list}")
    model = saying("Ada runs it.")
    SummarizeExtractor(model, max_summary_length=77, prompts=own).invoke(
        {"items": "Ada", "descriptions": ["Runs it.", "Owns it."]}
    )
    assert "in 77 tokens" in model.prompts[0]


# How a pack is used.


def mill(prompt: str) -> str:
    if '"findings"' in prompt:
        return json.dumps({"title": "Mill", "summary": "Ada runs it.", "rating": 5, "findings": []})
    if "Description List:" in prompt:
        return "Ada runs the mill."
    number = prompt.rpartition("Note ")[2][0]
    return f"Entities:\n(Ada#Runs {number})\n(Mill#)\nRelationships:\n(Ada#runs#Mill#)"


NOTES = [Document(f"Note {n}: Ada runs the mill.", metadata={"source": str(n)}) for n in range(6)]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("no_data = 'Nope.'\nsources = 'From:'\ntogether = 'What?'", ()),
        ("comma = '; '\nsummary_length = 50", ()),
        ("none = ['nix']", ("extract",)),
        ("entities = ['Things']", ("extract",)),
        ("words_per_token = 0.5", ("report",)),
    ],
)
def test_changed_words_have_asked_again_only_what_they_are_used_for(
    tmp_path: Path, words: str, asked: tuple[str, ...]
) -> None:
    llm = ScriptedChatModel(reply=mill)
    with GraphIndex.open(tmp_path / "index", llm) as index:
        index.add(NOTES)
    before = len(llm.prompts)
    own = folder(tmp_path / "own" / "en", words).parent
    with GraphIndex.open(tmp_path / "index", llm, prompts=own) as index:
        assert bool(index.plan(NOTES).calls) == ("extract" in asked)
        index.add(NOTES)
    new = ["report" if '"findings"' in prompt else "extract" for prompt in llm.prompts[before:]]
    assert tuple(dict.fromkeys(new)) == asked
    if "summary_length" in words:
        with GraphIndex.open(tmp_path / "offline") as index:
            index.add(NOTES)
        with GraphIndex.open(tmp_path / "offline", prompts=own) as index:
            assert index.add(NOTES).reported > 0, "reports without a model are made with them, and cost nothing"


def test_a_prompt_that_an_extraction_is_not_made_with_asks_no_chunk_again(tmp_path: Path, german: Path) -> None:
    plain = GraphExtractor(saying(REPLY)).cache_key
    own = folder(tmp_path / "own" / "en", summarize_text="{text}")
    assert GraphExtractor(saying(REPLY), prompts=own.parent).cache_key == plain
    moved = german.rename(tmp_path / "moved")
    assert PromptPack(moved).fixed == "moved"
    before = GraphExtractor(saying(REPLY), prompts=moved).cache_key
    assert GraphExtractor(saying(REPLY), prompts=moved.rename(tmp_path / "again")).cache_key == before
    read_as_json = GraphRAGExtractor(saying("{}")).cache_key
    folder(own.parent / "zh", words="none = ['nix']")
    assert GraphRAGExtractor(saying("{}"), prompts=own.parent).cache_key == read_as_json, "JSON has no such words"


@pytest.mark.parametrize("stage", ["community_report", "summarize_descriptions"])
def test_a_changed_prompt_is_noticed_and_nothing_else_is_asked(tmp_path: Path, stage: str) -> None:
    llm = ScriptedChatModel(reply=mill)
    with GraphIndex.open(tmp_path / "index", llm) as index:
        index.add(NOTES)
    asked = len(llm.calls)
    for text in ("", "Be brief.\n"):
        own = folder(tmp_path / f"own{len(text)}" / "en", **{stage: text + prompt_text(stage, "en")}).parent
        with GraphIndex.open(tmp_path / "index", llm, prompts=own) as index:
            index.add(NOTES)
        new = llm.calls[asked:]
        asked += len(new)
        assert all(("Be brief." in call.prompt) or stage != "community_report" for call in new)
        assert bool(new) == bool(text), "the built-in prompt in a folder of one's own is the built-in prompt"
        assert not any("[Text]:" in call.prompt for call in new)
        assert any("Be brief." in call.prompt for call in new) == bool(text)


def test_headings_and_none_in_the_packs_language_are_read(german: Path) -> None:
    model = saying(REPLY)
    found = GraphExtractor(model, prompts=german).invoke("Rosa Wendt mahlt in Holm.")
    assert (found.entities, found.relationships) == ((("Rosa Wendt", "Müllerin in Holm"),), ())
    assert model.prompts == [EXTRACT.format(history="", text="Rosa Wendt mahlt in Holm.")]
    assert GraphExtractor(saying("Keine."), prompts=german).invoke("Es regnet.").entities == ()


def test_a_packs_example_that_leaks_into_a_reply_is_dropped(german: Path) -> None:
    leaked = "Entitäten:\n(Rosa Wendt#Müllerin)\n(Ada#Gast)\n"
    assert GraphExtractor(saying(leaked), prompts=german).invoke("Ada kam.").names() == ["Ada"]


def test_a_word_inside_a_record_is_no_heading_and_no_none() -> None:
    words = PromptPack().words("ja")
    reply = "エンティティ：\n(関係#なし崩し)\n(なし#)\n(梨#なし)\n### 関係\n(梨#関係#桃#)"
    assert in_known_words(reply, words).splitlines() == [
        *("Entities：", "(関係#なし崩し)", "(none)", "(梨#なし)", "### Relationships", "(梨#関係#桃#)"),
    ]


def test_another_pack_asks_anew_and_the_same_one_does_not(tmp_path: Path, german: Path) -> None:
    plain, own = (GraphExtractor(saying(REPLY), prompts=given).cache_key for given in (None, german))
    assert plain != own == GraphExtractor(saying(REPLY), prompts=PromptPack(german)).cache_key
    text = "Fasse zusammen: {text}"
    summary = Summary(saying("Kurz."), prompts=folder(tmp_path / "x" / "en", summarize_text=text))
    assert summary.summarize(["lang " * 200]) == ["Kurz."]
    assert summary.llm.prompts[0].startswith("Fasse zusammen: lang")  # type: ignore[attr-defined]


def test_an_index_asks_and_answers_with_the_pack(tmp_path: Path, german: Path) -> None:
    def reply(prompt: str) -> str:
        return REPLY if prompt.startswith("Finde die Dinge") else "Rosa Wendt mahlt dort. [1]"

    model = ScriptedChatModel(reply=reply)
    with GraphIndex.open(tmp_path / "index", llm=model, prompts=german, language="de") as index:
        assert index.add([Document("Rosa Wendt mahlt in Holm.", metadata={"source": "a"})]).failed == ()
        vertex = index.graph.get_vertex("Rosa Wendt")
        assert vertex is not None
        assert vertex.props["description"] == "Müllerin in Holm"
        answer = index.query("Wer mahlt in Holm?", mode="local")
        assert (answer.text, answer.language) == ("Rosa Wendt mahlt dort. [1]", "de")
        assert index.query("Quantenchromodynamik der Gluonen?").text == "Dazu steht nichts im Index."
    with GraphIndex.open(tmp_path / "index", llm=model, prompts=german, language="de") as again:
        asked = len(model.prompts)
        assert again.add([Document("Rosa Wendt mahlt in Holm.", metadata={"source": "a"})]).unchanged == 1
    assert len(model.prompts) == asked


# Japanese, which is a folder and no more.

JAPANESE = "蔦森さんは汐見硝子工房の主人である。1962年、蔦森さんは菱川さんとともに炉を築いた。"


def test_japanese_is_known_by_its_kana() -> None:
    pack = PromptPack()
    texts = (JAPANESE, "炉を誰が築いた？", "谁砌了炉？", "Who?")
    assert [pack.choose(text) for text in texts] == ["ja", "ja", "zh", "en"]


def test_without_a_model_japanese_names_are_found_by_script(tmp_path: Path) -> None:
    found = PhraseExtractor().invoke(JAPANESE)
    assert [name for name, _ in found.entities] == ["蔦森", "汐見硝子工房", "菱川"]
    assert [edge[:3] for edge in found.relationships] == [("汐見硝子工房", "共起", "蔦森"), ("菱川", "共起", "蔦森")]
    with GraphIndex.open(tmp_path, language="ja") as index:
        index.add([Document(JAPANESE, metadata={"source": "ja.txt"})])
        answer = index.query("炉を築いたのは誰ですか？")
        assert (answer.text, answer.language) == ("1962年、蔦森さんは菱川さんとともに炉を築いた。[1]", "ja")
        assert index.reports[0].title == "蔦森、汐見硝子工房と菱川"
        assert "重み" in index.reports[0].rating_explanation


def test_the_command_line_asks_and_answers_in_japanese(
    fake_server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in fake_server.environment.items():
        monkeypatch.setenv(name, value)
    report = {"title": "工房", "summary": "蔦森は工房を営む。", "rating": 5, "findings": []}

    def reply(body: dict[str, object]) -> str:
        prompt = str(body["messages"])
        if "[文脈]" in prompt:
            return "エンティティ：\n（蔦森#主人）\n（汐見硝子工房#工房）\n関係：\n（蔦森#営む#汐見硝子工房#）"
        return json.dumps(report, ensure_ascii=False) if "コミュニティ" in prompt else "蔦森です。[1]"

    fake_server.reply = reply
    (tmp_path / "a.txt").write_text(JAPANESE, encoding="utf-8")
    options = ["--model", "fake-chat", "--language", "ja"]
    assert cli.main(["index", str(tmp_path / "a.txt"), "--out", str(tmp_path / "i"), *options]) == 0
    assert cli.main(["query", str(tmp_path / "i"), "工房の主人は誰ですか？", *options]) == 0
    printed = capsys.readouterr().out
    assert "蔦森です。[1]\n\n出典：\n[1] " in printed
    assert all("[Text]" not in prompt and "[文本]" not in prompt for prompt in fake_server.prompts)


def test_the_command_line_takes_a_folder_of_prompts(
    tmp_path: Path, german: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("Rosa Wendt mahlt in Holm.", encoding="utf-8")
    where = ["--prompts", str(german)]
    assert cli.main(["index", str(tmp_path / "a.txt"), "--out", str(tmp_path / "i"), *where]) == 0
    assert cli.main(["query", str(tmp_path / "i"), "Wer mahlt in Holm?", *where]) == 0
    assert "\n\nQuellen:\n[1] " in capsys.readouterr().out
    (german / "answer_local.txt").write_text("{question}", encoding="utf-8")
    assert cli.main(["query", str(tmp_path / "i"), "Wer mahlt?", *where]) == 2
    assert "answer_local.txt lacks the variable context" in capsys.readouterr().err
