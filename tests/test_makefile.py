"""The Makefile says what a machine lacks, before anything is made; in a folder with spaces in its name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not on this machine")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile alone."""
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    return folder


def make(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env={**outer, **environment}, capture_output=True, encoding="utf-8"
    )


def interpreter(folder: Path, *lines: str) -> str:
    """A stand-in for a Python, in a path with a space."""
    path = folder / "some python"
    path.write_text("\n".join(("#!/bin/sh", *lines)), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_make_alone_says_what_there_is_to_make(checkout: Path) -> None:
    done = make(checkout)
    assert done.returncode == 0
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["make", target] for target in ("demo", "test", "torture", "check", "clean")
    ]


def test_an_old_python_is_refused_with_what_to_install(checkout: Path) -> None:
    old = interpreter(checkout, "exit 1  # as sys.version_info < (3, 11) makes it")
    done = make(checkout, "demo", f"PYTHON={old}")
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "make demo PYTHON=" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_missing_python_is_named_likewise(checkout: Path) -> None:
    done = make(checkout, "test", "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr


def test_a_python_without_venv_is_refused_with_what_to_install(checkout: Path) -> None:
    shadow = checkout / "shadow"
    shadow.mkdir()
    (shadow / "ensurepip.py").write_text("raise ImportError('as on Debian')\n", encoding="utf-8")
    python = interpreter(checkout, f'PYTHONPATH="{shadow}" exec "{sys.executable}" "$@"')
    done = make(checkout, "demo", f"PYTHON={python}")
    assert done.returncode != 0
    assert "apt install python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_the_demo_asks_its_questions_and_ends_with_what_to_do_next(checkout: Path) -> None:
    (checkout / "pyproject.toml").touch()
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "place").write_text(f"{checkout}\n", encoding="utf-8")
    for name, line in (("python", "exit 0"), ("rag-transformers", 'echo "did $1"')):
        Path(interpreter(checkout, line)).rename(checkout / ".venv" / "bin" / name)
    (checkout / ".venv" / "installed").touch()
    done = make(checkout, "demo")
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert [line for line in told if line.startswith("did ")] == ["did index", "did query", "did query"]
    assert told[-2:] == [
        "The command is there after: . .venv/bin/activate",
        "A page to look round in:    rag-transformers view demo-index -o graph.html",
    ]


def test_clean_leaves_the_sources(checkout: Path) -> None:
    for name in ("demo-index", ".venv", "tests/__pycache__", "tests/sources"):
        (checkout / name).mkdir(parents=True)
    assert make(checkout, "clean").returncode == 0
    assert sorted(path.name for path in checkout.rglob("*")) == ["Makefile", "sources", "tests"]
