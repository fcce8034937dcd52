"""The command line: what it prints, and that a user's mistake is one line, exit code 2, and changes nothing."""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_server import FakeReply, FakeServer, in_turn, prompt_of
from scripted_model import stage_reply
from tqdm import tqdm

from rag_transformers.cli import main
from rag_transformers.errors import UsageError
from rag_transformers.opening import open_to_read

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of two short texts, made offline."""
    here = tmp_path_factory.mktemp("cli")
    (here / "texts").mkdir()
    (here / "texts" / "pier.txt").write_text("Ada Moss founded Grain Trust in 1998.", encoding="utf-8")
    (here / "texts" / "客栈.txt").write_text("林晚在青石镇开了一家客栈，名叫听雨楼。", encoding="utf-8")
    assert main(["index", str(here / "texts"), "--out", str(here / "index")]) == 0
    return here


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, fake_server: FakeServer) -> FakeServer:
    """A server that answers every stage, found through the usual variables."""
    for name, value in fake_server.environment.items():
        monkeypatch.setenv(name, value)
    fake_server.reply = lambda body: stage_reply(prompt_of(body))
    return fake_server


class Refused:
    """The outcome of a command that was wrong: exit code 2, one line, nothing made."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            raise SystemExit(main(arguments))
        code = stopped.value.code
        told = self._capsys.readouterr().err
        assert code == 2, told
        assert "Traceback" not in told
        assert len(told.strip().splitlines()) == 1, told
        return told


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    return Refused(capsys)


class TestIndex:
    def test_it_says_what_was_found_and_answers_as_the_readme_shows(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(EXAMPLES.parent)
        out = str(tmp_path / "index")
        assert main(["index", "examples", "--out", out]) == 0
        told = capsys.readouterr().out
        for word in ("documents", "chunks", "vertices", "edges", "time"):
            assert word in told
        assert main(["index", "examples", "--out", out]) == 0
        assert "0 new" in capsys.readouterr().out
        readme = Path("README.md").read_text(encoding="utf-8")
        (shown,) = re.findall(r'(?ms)^\$ rag-transformers query demo-index "([^"\n]+)"\n(?!\$)(.*?)^```$', readme)
        assert main(["query", out, shown[0]]) == 0
        assert capsys.readouterr().out == shown[1]

    def test_with_a_model_calls_and_tokens_are_counted(
        self, tmp_path: Path, model: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["index", str(EXAMPLES), "--out", str(tmp_path / "index"), "--model", "fake-chat"]) == 0
        told = capsys.readouterr().out
        assert f"{len(model.prompts)} calls" in told
        assert model.peak <= 16

    @pytest.mark.parametrize("usage", [True, False])
    def test_tokens_are_told_where_the_server_tells_them(
        self,
        folder: Path,
        tmp_path: Path,
        model: FakeServer,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        usage: bool,
    ) -> None:
        shown: list[str] = []
        monkeypatch.setattr(tqdm, "set_postfix_str", lambda bar, said, refresh=True: shown.append(said))
        model.reply = lambda body: FakeReply(stage_reply(prompt_of(body)), usage=usage)
        asked = ["--model", "fake-chat"]
        assert main(["index", str(folder / "texts"), "--out", str(tmp_path / "index"), *asked]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if re.search(r" calls?, ", line)]
        assert {line.split()[0] for line in lines} >= {"extract", "model"}
        told = r" calls?, [\d,]+ \+ [\d,]+ tokens$" if usage else r" calls?, tokens not told by the server$"
        assert all(re.search(told, line) for line in lines)
        assert any(said.endswith(" tokens") for said in shown) is usage
        assert re.fullmatch(r"\d+ calls, [\d,]+ tokens" if usage else r"\d+ calls", shown[-1])
        shown.clear()
        assert main(["summarize", str(folder / "texts" / "pier.txt"), *asked]) == 0
        assert re.fullmatch(r"[\d,]+ tokens" if usage else "", shown[-1])

    def test_a_dry_run_tells_the_cost_and_makes_nothing(
        self, tmp_path: Path, model: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "index"
        assert main(["index", str(EXAMPLES), "--out", str(out), "--model", "fake-chat", "--dry-run"]) == 0
        told = capsys.readouterr().out
        assert not out.exists()
        assert not model.prompts
        assert main(["index", str(EXAMPLES), "--out", str(out), "--model", "fake-chat"]) == 0
        asked = sum("[Results]:" in prompt or "[结果]:" in prompt for prompt in model.prompts)
        assert 0 < asked < len(model.prompts)
        assert f"{asked} model calls for extraction" in told

    def test_what_failed_is_told_and_the_exit_code_is_1(
        self, folder: Path, tmp_path: Path, model: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def reply(body: dict[str, object]) -> str | FakeReply:
            prompt = prompt_of(body)
            filtered = FakeReply(status=400, text="content filter", code="content_filter")
            return filtered if "听雨楼" in prompt.split("[文本]:")[-1] else stage_reply(prompt)

        model.reply = reply
        assert main(["index", str(folder / "texts"), "--out", str(tmp_path / "i"), "--model", "fake-chat"]) == 1
        told = capsys.readouterr()
        assert "客栈.txt, chunk 0" in told.err
        assert "content filter" in told.err
        assert "1 failed" in told.out

    def test_all_chunks_that_were_not_asked_about_are_one_line(
        self, tmp_path: Path, model: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for number in range(9):
            (tmp_path / f"{number}.txt").write_text(f"Tenant{number} rented the mill.", encoding="utf-8")
        model.reply = in_turn("Entities:\n(Tenant0#Rents)", FakeReply("no", status=401))
        command = ["index", str(tmp_path / "*.txt"), "--out", str(tmp_path / "i"), "--concurrency", "1"]
        assert main([*command, "--model", "fake-chat"]) == 1
        told = capsys.readouterr()
        refused = "the server refused the key (401): Error code: 401 - no; check OPENAI_API_KEY"
        asked, unasked = sorted(told.err.splitlines(), key=lambda line: "not asked" in line)
        assert re.fullmatch(rf"failed: \S+/\d.txt, chunk 0 \(characters 0 to 24\): {re.escape(refused)}", asked)
        assert unasked == f"failed: 7 chunks were not asked, since an earlier call failed: {refused}"
        assert "8 failed" in told.out

    def test_a_report_and_a_description_that_fail_are_told_once_and_by_name(
        self, tmp_path: Path, model: FakeServer, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        for number in range(5):
            (tmp_path / f"{number}.txt").write_text(f"{number} Ada Moss founded Grain Trust.", encoding="utf-8")

        def reply(body: dict[str, object]) -> str | FakeReply:
            prompt = prompt_of(body)
            if "Description List:" in prompt or '"findings"' in prompt:
                return FakeReply("unfit", status=400)
            said = prompt.split("[Text]:")[-1].strip()[:1]
            return f"Entities:\n(Ada Moss#Said {said})\nRelationships:\n(Ada Moss#founded#Grain Trust#Told {said})"

        model.reply = reply
        assert main(["index", str(tmp_path / "*.txt"), "--out", str(tmp_path / "i"), "--model", "fake-chat"]) == 1
        failed = [line.partition(": Error code: 400 - unfit")[0] for line in capsys.readouterr().err.splitlines()]
        assert failed == [
            "failed: the descriptions of Ada Moss",
            "failed: the descriptions of Ada Moss → Grain Trust",
            "failed: the report of the community 'Ada Moss and Grain Trust'",
        ]
        assert not [record for record in caplog.records if record.levelname == "WARNING"]


class TestQuery:
    def test_the_answer_comes_with_its_sources(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["query", str(folder / "index"), "Who founded Grain Trust?"]) == 0
        told = capsys.readouterr().out
        assert "[1]" in told
        assert "pier.txt" in told
        assert "Ada Moss founded Grain Trust in 1998." in told

    def test_json_is_the_same_as_data(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["query", str(folder / "index"), "林晚在哪里开了客栈？", "--json"]) == 0
        text = capsys.readouterr().out
        assert "听雨楼" in text  # as itself, not escaped
        (citation, *_) = json.loads(text)["citations"]
        read = (folder / "texts" / "客栈.txt").read_text(encoding="utf-8")
        assert read[citation["start"] : citation["end"]] == citation["quote"]

    def test_a_model_is_asked_with_the_passages(
        self, folder: Path, model: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["query", str(folder / "index"), "Who founded Grain Trust?", "--model", "fake-chat"]) == 0
        assert "[1] " in model.prompts[-1]
        assert "pier.txt" in capsys.readouterr().out

    def test_what_is_not_in_the_index_is_said_to_be_missing(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["query", str(folder / "index"), "How do submarines hold their depth?", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["found"] is False
        assert answer["citations"] == []


class TestSummarize:
    BOOK = "\n\n".join(f"In year {year} the mill of Orrin Vale at Leeds burned down again." for year in range(400))

    @pytest.fixture
    def books(self, tmp_path: Path) -> Path:
        (tmp_path / "mill.txt").write_text(self.BOOK, encoding="utf-8")
        (tmp_path / "石桥.txt").write_text("林晚在青石镇修了一座石桥。石桥连接集市。她养了猫。" * 9, encoding="utf-8")
        return tmp_path

    def test_one_file_gives_its_summary_and_nothing_else(self, books: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["summarize", str(books / "mill.txt")]) == 0
        told = capsys.readouterr()
        assert 0 < len(told.out.strip()) <= 1000
        assert all(sentence in self.BOOK for sentence in told.out.strip().split(". "))
        assert told.err == ""

    def test_several_files_give_one_each_under_its_name(self, books: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["summarize", str(books)]) == 0
        told = capsys.readouterr().out
        (before, mill, bridge) = told.split("==> ")
        assert before == ""
        assert mill.startswith(f"{(books / 'mill.txt').as_posix()} <==\nIn year")
        assert bridge.startswith(f"{(books / '石桥.txt').as_posix()} <==\n")
        assert "石桥" in bridge.splitlines()[1]

    def test_json_says_what_it_took(self, books: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["summarize", str(books / "石桥.txt"), "--json"]) == 0
        text = capsys.readouterr().out
        assert "石桥" in text  # as itself, not escaped
        found = json.loads(text)
        assert list(found) == ["file", "summary", "language", "chunks", "calls", "tokens", "seconds"]
        assert (found["language"], found["chunks"], found["calls"], found["tokens"]) == ("zh", 1, 0, 0)
        assert main(["summarize", str(books), "--json"]) == 0
        assert [Path(one["file"]).name for one in json.loads(capsys.readouterr().out)] == ["mill.txt", "石桥.txt"]

    def test_a_table_is_one_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "mills.csv").write_text("title,text\nLeeds,It burned.\nYork,It stands.\n", encoding="utf-8")
        assert main(["summarize", str(tmp_path / "mills.csv"), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["chunks"] == 2
        assert "It burned." in found["summary"] or "It stands." in found["summary"]

    def test_with_a_model_all_of_a_book_is_read_within_the_limit(
        self, books: Path, model: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def reply(body: dict[str, object]) -> FakeReply:
            year = prompt_of(body).partition("year ")[2][:3]
            return FakeReply(f"The mill burned in year {year} and again.", hang=0.05)

        model.reply = reply
        arguments = ["--model", "fake-chat", "--json", "--concurrency", "3", "--language", "en"]
        assert main(["summarize", str(books / "mill.txt"), *arguments]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["summary"].startswith("The mill burned in year")
        assert found["calls"] == len(model.prompts) == found["chunks"] + 1
        assert found["tokens"] > 20_000
        assert all(f"In year {year} " in "".join(model.prompts) for year in range(400))
        assert max(map(len, model.prompts)) < 4096 + 1500
        assert 1 < model.peak <= 3

    def test_a_book_that_fails_is_told_and_the_others_are_summed_up(
        self, books: Path, model: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def reply(body: dict[str, object]) -> str | FakeReply:
            filtered = FakeReply(status=400, text="content filter", code="content_filter")
            return filtered if "mill" in prompt_of(body) else "林晚修了石桥。"

        model.reply = reply
        assert main(["summarize", str(books), "--model", "fake-chat"]) == 1
        told = capsys.readouterr()
        assert told.out.endswith("石桥.txt <==\n林晚修了石桥。\n")
        assert "mill.txt" in told.err
        assert "content filter" in told.err
        assert "Traceback" not in told.err

    def test_a_model_that_does_not_shorten_is_told(
        self, books: Path, model: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        model.reply = prompt_of
        assert main(["summarize", str(books / "mill.txt"), "--model", "fake-chat"]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert "neither shorter nor fewer" in told.err
        assert len(told.err.strip().splitlines()) == 1

    @pytest.mark.parametrize(
        "wrong", [["--language", "tlh"], ["--concurrency", "0"], ["--embedding-model", "m"], ["--model", ""]]
    )
    def test_wrong_options(self, books: Path, refused: Refused, wrong: list[str]) -> None:
        refused("summarize", str(books / "mill.txt"), *wrong)

    def test_files_that_cannot_be_read(self, books: Path, refused: Refused) -> None:
        assert "nowhere" in refused("summarize", str(books / "nowhere.txt"))
        (books / "empty.txt").write_text(" \n", encoding="utf-8")
        assert "empty.txt" in refused("summarize", str(books / "empty.txt"))
        assert "--model" not in refused("summarize", str(books / "mill.exe"))

    def test_no_key(self, books: Path, refused: Refused) -> None:
        assert "OPENAI_API_KEY" in refused("summarize", str(books / "mill.txt"), "--model", "m")


def test_stats_says_what_the_index_holds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(folder / "index"), "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert (stats["documents"], stats["chunks"], stats["pending_chunks"]) == (2, 2, 0)
    assert main(["stats", str(folder / "index")]) == 0
    assert "documents" in capsys.readouterr().out


def test_stats_names_the_documents(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = [(folder / "texts" / name).as_posix() for name in ("pier.txt", "客栈.txt")]
    assert main(["stats", str(folder / "index"), "--sources"]) == 0
    assert capsys.readouterr().out.splitlines() == held
    assert main(["stats", str(folder / "index"), "--sources", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == held


class TestEmbeddingsOfAServer:
    """What embeds nothing needs neither the embeddings that an index was made with nor a key."""

    @pytest.fixture
    def index(self, folder: Path, tmp_path: Path, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> str:
        out = str(tmp_path / "index")
        with monkeypatch.context() as there:
            for name, value in fake_server.environment.items():
                there.setenv(name, value)
            assert main(["index", str(folder / "texts"), "--out", out, "--embedding-model", "fake-embedding"]) == 0
        fake_server.requests.clear()
        return out

    def test_it_is_read_without_them(
        self, index: str, tmp_path: Path, fake_server: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        capsys.readouterr()
        assert main(["stats", index, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["embeddings"] == "OpenAIEmbeddings(fake-embedding)"
        assert main(["export", index, "--format", "json"]) == 0
        assert "听雨楼" in capsys.readouterr().out
        assert main(["view", index, "-o", str(tmp_path / "graph.html")]) == 0
        assert not fake_server.requests

    @pytest.mark.parametrize(
        "command", [["query", "Who?"], ["delete", "x"], ["rebuild"], ["repair"], ["mcp"], ["index", "texts"]]
    )
    def test_what_embeds_says_what_to_add(
        self, index: str, folder: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, command: list[str]
    ) -> None:
        monkeypatch.chdir(folder)
        name, *rest = command
        told = refused(name, *(["--out"] if name == "index" else []), index, *rest)
        assert "made with the embeddings OpenAIEmbeddings(fake-embedding): add --embedding-model fake-embedding" in told

    def test_what_stands_in_for_them_embeds_nothing(self, index: str) -> None:
        with open_to_read(argparse.Namespace(out=index)) as opened:
            assert len(opened.sources()) == 2
            with pytest.raises(UsageError, match=r"opened to be read.*OpenAIEmbeddings\(fake-embedding\)"):
                opened.query("Who founded Grain Trust?")


class TestDoubles:
    """A folder named in two ways is told, before everything is there twice."""

    @pytest.fixture
    def named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "我的 docs").mkdir()
        for number in range(4):
            (tmp_path / "我的 docs" / f"{number}.txt").write_text(f"Ada{number} left.", encoding="utf-8")
        assert main(["index", "我的 docs", "--out", "i"]) == 0
        assert "same text" not in capsys.readouterr().err
        return tmp_path / "我的 docs"

    @pytest.mark.parametrize("options", [[], ["--sync"], ["--dry-run"]])
    def test_new_documents_that_say_what_others_say_are_a_warning(
        self, named: Path, capsys: pytest.CaptureFixture[str], options: list[str]
    ) -> None:
        assert main(["index", str(named), "--out", "i", *options]) == 0
        assert (
            "warning: 4 new documents have the same text as ones under other names (我的 docs/0.txt, 我的 docs/1.txt, "
            "我的 docs/2.txt, …); give the paths as before, or delete those\n"
        ) in capsys.readouterr().err

    def test_a_file_that_was_renamed_is_none_with_sync(self, named: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (named / "0.txt").rename(named / "new.txt")
        assert main(["index", "我的 docs", "--out", "i", "--sync"]) == 0
        assert "same text" not in capsys.readouterr().err
        (named / "new.txt").rename(named / "0.txt")
        assert main(["index", "我的 docs", "--out", "i"]) == 0
        told = "warning: 1 new document has the same text as one under another name (我的 docs/new.txt);"
        assert told in capsys.readouterr().err

    def test_the_same_paths_again_are_no_doubles(self, named: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["index", "我的 docs", "--out", "i"]) == 0
        assert "same text" not in capsys.readouterr().err


class TestDryRun:
    def test_one_is_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "docs").mkdir()
        for name in ("a.txt", "b.txt"):
            (tmp_path / "docs" / name).write_text(f"Ada Moss left {name}.", encoding="utf-8")
        assert main(["index", "docs", "--out", "i"]) == 0
        (tmp_path / "docs" / "b.txt").unlink()
        capsys.readouterr()
        assert main(["index", "docs", "--out", "i", "--sync", "--dry-run"]) == 0
        told = capsys.readouterr()
        assert told.out.splitlines() == [
            "1 document, 1 of them unchanged; 0 chunks to extract",
            "1 document that is gone would be removed",
            "no model call for extraction; nothing was done",
        ]

    def test_that_tokens_are_estimates_is_told_where_it_matters(self, folder: Path) -> None:
        def told(*options: str) -> str:
            command = [sys.executable, "-m", "rag_transformers", *options]
            return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stderr

        out, texts = str(folder / "index"), str(folder / "texts")
        assert told("query", out, "Who founded Grain Trust?") == ""
        assert "token counts are estimates" in told("index", texts, "--out", str(folder / "new"), "--dry-run")


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            ("query i Who --base-url http://127.0.0.1:9/v1", "--model or --embedding-model"),
            ("index texts --out i --base-url http://127.0.0.1:9/v1", "--model or --embedding-model"),
            ("summarize texts --base-url http://127.0.0.1:9/v1", "--model"),
            ("repair i --base-url http://127.0.0.1:9/v1", "--embedding-model"),
        ],
    )
    def test_a_server_without_a_model(
        self, folder: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, arguments: str, wanted: str
    ) -> None:
        monkeypatch.chdir(folder)
        assert f"--base-url without {wanted}: no model would be asked" in refused(*arguments.split())

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (
                "query i Who opened it",
                "query: put the question in quotes: 'Who opened it' (see rag-transformers query --h",
            ),
            ("indx", "there is no 'indx'; did you mean index? (see rag-transformers --help)"),
            (
                "query i Who --mode globl",
                "argument --mode: there is no 'globl'; did you mean global? (see rag-transformers q",
            ),
            (
                "query i Who --jsn",
                "unrecognized arguments: --jsn; did you mean --json? (see rag-transformers query --help)",
            ),
            ("stats i --modle", "unrecognized arguments: --modle (see rag-transformers stats --help)"),
            ("export i --format zzz", "invalid choice: 'zzz' (choose from "),
            ("stats i extra", "unrecognized arguments: extra (see rag-transformers stats --help)"),
        ],
    )
    def test_what_was_meant_is_told(self, refused: Refused, arguments: str, told: str) -> None:
        assert told in refused(*arguments.split())

    def test_a_suggested_command_can_be_typed(self, tmp_path: Path, refused: Refused) -> None:
        place = str(tmp_path / "我的 索引")
        assert f"rag-transformers index PATH --out '{place}'" in refused("stats", place)
        (tmp_path / "我的 索引").mkdir()
        (tmp_path / "我的 索引" / "a.txt").write_text("mine", encoding="utf-8")
        assert f"rag-transformers repair '{place}'" in refused("stats", place)
        (tmp_path / "我的 索引" / "manifest.json").write_text("{", encoding="utf-8")
        assert f"rag-transformers repair '{place}' makes it anew" in refused("stats", place)

    def test_no_files_of_a_known_kind(self, tmp_path: Path, refused: Refused) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "readme.doc").write_text("x", encoding="utf-8")
        told = refused("index", str(tmp_path / "in"), "--out", str(tmp_path / "out"))
        assert "in" in told
        assert ".txt" in told
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("name", "content"),
        [("empty.txt", b""), ("blank.md", b" \n\t\n"), ("image.txt", b"\x89PNG\r\n\x1a\n" + bytes(64))],
    )
    def test_files_without_a_text(self, tmp_path: Path, refused: Refused, name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        assert name in refused("index", str(tmp_path / name), "--out", str(tmp_path / "out"))
        assert not (tmp_path / "out").exists()

    def test_a_path_that_is_not_there(self, tmp_path: Path, refused: Refused) -> None:
        assert "nowhere" in refused("index", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out"))

    def test_a_folder_that_holds_something_else(self, tmp_path: Path, folder: Path, refused: Refused) -> None:
        (tmp_path / "notes.md").write_text("mine", encoding="utf-8")
        assert "no index" in refused("index", str(folder / "texts"), "--out", str(tmp_path))
        assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]

    @pytest.mark.parametrize(
        "command",
        [
            "index x --out",
            "import x --out",
            "query  x",
            "delete  x",
            "stats ",
            "rebuild ",
            "repair ",
            "mcp ",
            "view x -o",
        ],
    )
    def test_an_empty_folder_or_file(
        self, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        """It is not taken for the current folder."""
        monkeypatch.chdir(tmp_path)
        arguments = command.split(" ") if "  " in command or command.endswith(" ") else [*command.split(), ""]
        assert re.search(r"(--out|DIR|--output): it is empty; name a (folder|file) ", refused(*arguments))
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path, folder: Path, refused: Refused) -> None:
        (tmp_path / "file").write_text("mine", encoding="utf-8")
        refused("index", str(folder / "texts"), "--out", str(tmp_path / "file" / "below"))
        refused("index", str(folder / "texts"), "--out", str(tmp_path / ("n" * 300)))

    @pytest.mark.parametrize("command", [["query", "x"], ["stats"]])
    def test_a_folder_without_an_index(self, tmp_path: Path, refused: Refused, command: list[str]) -> None:
        told = refused(command[0], str(tmp_path / "empty"), *command[1:])
        assert "no index" in told
        assert "rag-transformers index" in told
        assert not (tmp_path / "empty").exists()

    @pytest.mark.parametrize("question", ["", " \n\t"])
    def test_an_empty_question(self, folder: Path, refused: Refused, question: str) -> None:
        assert "question" in refused("query", str(folder / "index"), question)

    def test_other_embeddings(self, folder: Path, model: FakeServer, refused: Refused) -> None:
        told = refused("query", str(folder / "index"), "Who?", "--embedding-model", "fake-embedding")
        assert "fake-embedding" in told
        assert "use-multilingual" in told
        assert not model.requests

    def test_no_key(self, folder: Path, tmp_path: Path, refused: Refused) -> None:
        told = refused("index", str(folder / "texts"), "--out", str(tmp_path / "out"), "--model", "m")
        assert "OPENAI_API_KEY" in told
        assert not (tmp_path / "out").exists()

    def test_no_server(self, folder: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        url = "http://127.0.0.1:9/v1"
        told = refused(
            "index", str(folder / "texts"), "--out", str(tmp_path / "out"), "--model", "m", "--base-url", url
        )
        assert url in told
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        "url", ["nonsense", "ftp://host/v1", "http://", "http://[::1", "http://127.0.0.1:99999/v1"]
    )
    def test_no_address(
        self, folder: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, url: str
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        out = str(tmp_path / "out")
        assert "--base-url" in refused("index", str(folder / "texts"), "--out", out, "--model", "m", "--base-url", url)
        assert not (tmp_path / "out").exists()

    def test_a_refused_key_is_said_and_not_shown(
        self, folder: Path, tmp_path: Path, model: FakeServer, refused: Refused, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-mine-1234")
        model.reply = lambda body: FakeReply(
            status=401, text="wrong key sk-secret-of-mine-1234", code="invalid_api_key"
        )
        told = refused("index", str(folder / "texts"), "--out", str(tmp_path / "out"), "--model", "m")
        assert "key" in told
        assert "secret" not in told

    @pytest.mark.parametrize(
        "wrong",
        [
            ["--chunk-size", "0"],
            ["--chunk-size", "10", "--chunk-overlap", "10"],
            ["--chunk-overlap", "-1"],
            ["--concurrency", "0"],
            ["--language", "tlh"],
            ["--colour", "red"],
            ["--model", ""],
            ["--embedding-model", " "],
        ],
    )
    def test_wrong_options(self, folder: Path, tmp_path: Path, refused: Refused, wrong: list[str]) -> None:
        refused("index", str(folder / "texts"), "--out", str(tmp_path / "out"), *wrong)
        assert not (tmp_path / "out").exists()

    def test_a_damaged_manifest_is_named(self, tmp_path: Path, folder: Path, refused: Refused) -> None:
        (tmp_path / "i").mkdir()
        (tmp_path / "i" / "manifest.json").write_text('{"format": 1, "embed', encoding="utf-8")
        assert "manifest.json" in refused("query", str(tmp_path / "i"), "Who?")
        assert "manifest.json" in refused("index", str(folder / "texts"), "--out", str(tmp_path / "i"))

    def test_a_newer_format_is_refused(self, tmp_path: Path, folder: Path, refused: Refused) -> None:
        manifest = json.loads((folder / "index" / "manifest.json").read_text(encoding="utf-8"))
        (tmp_path / "i").mkdir()
        newer = json.dumps({**manifest, "format": 99})
        (tmp_path / "i" / "manifest.json").write_text(newer, encoding="utf-8")
        assert "99" in refused("stats", str(tmp_path / "i"))


def test_it_works_on_a_console_that_cannot_show_chinese(folder: Path) -> None:
    environment = {**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "rag_transformers", "query", str(folder / "index"), "林晚在哪里开了客栈？"]
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert "听雨楼" in done.stdout.decode("utf-8")


class TestChanging:
    """``delete``, ``rebuild`` and ``export`` on an index of the command line."""

    @pytest.fixture
    def index(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
        for name, text in (("pier", "Ada Moss founded Grain Trust."), ("inn", "林晚在青石镇开了听雨楼。")):
            (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
        out = str(tmp_path / "index")
        assert main(["index", str(tmp_path / "*.txt"), "--out", out]) == 0
        capsys.readouterr()
        return out

    def test_a_document_is_deleted_by_its_source_and_an_unknown_one_is_named(
        self, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = (tmp_path / "inn.txt").as_posix()
        assert main(["delete", index, source, "nowhere.txt"]) == 1
        told = capsys.readouterr()
        assert told.out == "1 document removed\n"
        assert told.err == "not in the index: nowhere.txt\n"
        assert main(["delete", index, source]) == 2
        capsys.readouterr()
        for meant in ("pier.txt", "docs/pier.txt", "peir.txt"):
            assert main(["delete", index, meant]) == 2
            near = (tmp_path / "pier.txt").as_posix()
            assert capsys.readouterr().err == f"not in the index: {meant}; did you mean {near}?\n"
        assert main(["stats", index, "--json"]) == 0
        assert '"documents": 1' in capsys.readouterr().out

    def test_it_is_rebuilt_and_says_so(self, index: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["rebuild", index]) == 0
        assert re.fullmatch(r"\d+ communities, 0 reports written\n", capsys.readouterr().out)

    def test_every_format_is_exported(self, index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        from rag_transformers.exports import formats

        for format in formats():
            target = tmp_path / f"graph-{format}"
            assert main(["export", index, "--format", format, "-o", str(target)]) == 0
            assert target.exists()
            assert "vertices" in capsys.readouterr().out
            assert main(["export", index, "--format", format]) == 0
            assert "听雨楼" in capsys.readouterr().out

    @pytest.mark.parametrize("command", [["delete", "x"], ["rebuild"], ["export", "--format", "json"]])
    def test_a_folder_without_an_index_is_named_in_one_line(
        self, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        name, *rest = command
        assert main([name, str(tmp_path / "none"), *rest]) == 2
        told = capsys.readouterr()
        assert told.err.startswith("error: there is no index in ")
        assert told.err.count("\n") == 1
