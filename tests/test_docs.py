"""What the pages of docs/ show is run, with a fake server in the place of every other."""

import doctest
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeReply, FakeServer
from test_imports import write_graphrag, write_lightrag

from rag_transformers import cli

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"(?ms)^```(python|console)\n(.*?)^```$")
AZURE = re.compile(r"https://your-name\.openai\.azure\.com/(?=\")")
SERVER = re.compile(r"https?://[\w.:-]+(?:/[\w.-]+)*/v1\b")
RECORDS = "Entities:\n(Ada Moss#Founder)\n(Grain Trust#)\nRelationships:\n(Ada Moss#founded#Grain Trust#)"
REPORT = json.dumps({"title": "Trust", "summary": "Ada founded it.", "rating": 5, "findings": []})


def answer(body: dict[str, Any]) -> FakeReply:
    """A reply of a reasoning model to any stage."""
    prompt = body["messages"][0]["content"]
    said = RECORDS if "knowledge-graph engineer" in prompt else REPORT if "community" in prompt else "Ada Moss. [1]"
    return FakeReply(said, reasoning="Let me see.")


def blocks(page: str) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
@pytest.mark.filterwarnings("ignore:.* lacks .*:UserWarning")
@pytest.mark.filterwarnings("ignore:this index was read by a model:UserWarning")
def test_every_command_and_block_of_a_page_runs(
    page: str,
    tmp_path: Path,
    fake_server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("Ada Moss founded Grain Trust in 1998.", encoding="utf-8")
    if page == "moving.md":
        write_graphrag(tmp_path / "ragtest" / "output")
        write_lightrag(tmp_path / "rag_storage")
    fake_server.reply = answer
    names: dict[str, Any] = {}
    for kind, text in blocks(page):
        text = SERVER.sub(fake_server.base_url, AZURE.sub(fake_server.base_url.removesuffix("v1"), text))
        if kind == "python":
            run_python(text, page, names)
            continue
        for command, *arguments in (shlex.split(line.removeprefix("$ "), comments=True) for line in text.splitlines()):
            if command == "export":
                monkeypatch.setenv(*arguments[0].split("=", 1))
            else:
                assert cli.main(arguments) == 0, (arguments, capsys.readouterr().err)
    if page == "models.md":
        assert names["answer"].text == "Ada Moss. [1]"
        assert {request.body.get("encoding_format") for request in fake_server.requests} <= {None, "float"}
        sizes = [len(request.body["input"]) for request in fake_server.requests if "input" in request.body]
        assert sizes
        assert max(sizes) <= 10
        assert any("/deployments/chat/" in request.path for request in fake_server.requests)
    if page == "prompts.md":
        assert names["report"].documents == 1


def run_python(text: str, page: str, names: dict[str, Any]) -> None:
    """A block as it stands, or one of ``>>>`` lines with what they show."""
    if not text.lstrip().startswith(">>>"):
        exec(compile(text, f"docs/{page}", "exec"), names)
        return
    example = doctest.DocTestParser().get_doctest(text, names, page, f"docs/{page}", 0)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    runner.run(example, out=told.append, clear_globs=False)
    names.update(example.globs)
    assert not runner.failures, "".join(told)
