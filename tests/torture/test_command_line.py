"""The command line as a process: stopped by Ctrl-C, and in a locale that knows no UTF-8."""

import json
import shutil
import signal
from pathlib import Path

from rag_transformers import GraphIndex
from torture.child import CALLS, INDEX, NEXT, LetterEmbeddings
from torture.corpus import write_documents
from torture.processes import calls, own_process, run, wait_for
from torture.scenes import INDEX_COMMAND, SNAPSHOT, Prepared, paid, succeeded
from torture.tallies import count

_TEXTS = {
    "서울.txt": "삼성은 서울에 있다. 민지는 삼성에서 일한다. 😀 민지는 김치를 좋아한다.",
    "水厂.txt": "水厂在青石镇的河边。林晚每天去水厂取水，水很甜。",
}
_ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_ctrl_c_is_one_line_and_the_same_command_goes_on(prepared: Prepared, place: Path) -> None:
    scene = prepared.scene("index")
    shutil.copytree(scene.before, place)
    stopped = own_process(place, *INDEX_COMMAND, delay=2.0)
    wait_for(place / CALLS)
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate(timeout=60)
    assert stopped.returncode == 130, err
    assert not out
    said = [line for line in err.decode().splitlines() if not line.startswith("warning:")]
    assert said == ["stopped; what was done is stored, and the same command goes on from there"]
    asked, kept = calls(place), paid(place)
    _, snapshot = succeeded(run(place, INDEX_COMMAND, SNAPSHOT).outcomes)
    assert calls(place) - asked == scene.calls - kept
    assert snapshot.data == scene.whole
    count("command line", "stopped by Ctrl-C")


def test_all_text_comes_back_exactly_in_a_locale_without_utf8(place: Path) -> None:
    write_documents(place / "docs", _TEXTS)
    query = ("query", INDEX, "민지는 어디에서 일하나? 😀 水厂", "--json")
    export = ("export", INDEX, "--format", "json", "-o", "graph.json")
    process = own_process(place, *INDEX_COMMAND, NEXT, *query, NEXT, *export, environment=_ASCII)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    said = out.decode("utf-8")
    answer, _ = json.JSONDecoder().raw_decode(said[said.index("{") :])
    held = {Path(citation["source"]).name: citation["quote"] for citation in answer["citations"]}
    assert held
    assert all(quote in _TEXTS[name] for name, quote in held.items())
    exported = json.loads((place / "graph.json").read_text(encoding="utf-8"))
    with GraphIndex.open(place / INDEX, embeddings=LetterEmbeddings()) as index:
        chunks = {Path(chunk.metadata["source"]).name: chunk.page_content for chunk in index.chunks()}
        assert chunks == _TEXTS
        names = sorted(vertex.name for vertex in index.graph.vertices())
    assert sorted(vertex["name"] for vertex in exported["vertices"]) == names
    count("command line", "commands in a locale without UTF-8", 3)
