"""The benchmarks run from a clone: none needs a file beside it, and one that needs data says which in one line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def ran(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / name), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment, timeout=120)


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "examples"])
def test_nothing_names_a_folder_beside_the_repository(folder: str) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / folder).iterdir() if path.is_file()}
    assert not [path for path, text in texts.items() if "../shared" in text or re.search(r"[\"/]shared[\"/]", text)]


def test_one_that_needs_data_says_which_and_where_its_form_is_told() -> None:
    done = ran("damage.py")
    assert done.returncode == 2
    form = "docs/benchmarks.md tells its form"
    assert done.stderr == f"damage.py: --data DIR is needed, a folder with recorded replies; {form}\n"


def test_indexing_needs_nothing_and_takes_texts_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mill.txt").write_text("Ada Moss sold the Low Mill to Orrin Vale.", encoding="utf-8")
    options = ["--latency", "0.01", "--embed-latency", "0.01", "--runs", "1"]
    done = ran("indexing.py", "--documents", "2", *options)
    assert re.match(r"run 0: .*; 2 chunks, [1-9]\d* vertices, [1-9]\d* edges, 0 failed; .*'extract': 2", done.stdout)
    done = ran("indexing.py", "--texts", str(tmp_path), *options)
    assert re.match(r"run 0: .*; 1 chunks, 3 vertices, 3 edges, 0 failed; .*{'extract': 1, 'report': 1}", done.stdout)
