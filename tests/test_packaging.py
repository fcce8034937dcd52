"""What is shipped: the sdist, the wheel made from it, the doors at the top level, and an import that stays light."""

import contextlib
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import rag_transformers
from rag_transformers.prompts import languages

ROOT = Path(__file__).resolve().parents[1]
DOORS = ("prompts", "stores")

# What a process should not pay for before it is used, whatever it imports from this package.
HEAVY = (
    *("chromadb", "igraph", "langchain_chroma", "langchain_openai", "networkx", "onnxruntime", "openai", "spacy"),
    *("sqlalchemy", "tiktoken"),
)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of this tree."""
    return _build("build_sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel that is made from the sdist, not from this tree."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    with zipfile.ZipFile(_build("build_wheel", source, tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


def test_sdist_holds_what_is_needed_to_test_it(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "Makefile", "README.md", "pyproject.toml", "tests/conftest.py"} <= names
    examples = {f"examples/{path.name}" for path in (ROOT / "examples").iterdir()}
    assert examples
    assert examples <= names


def test_wheel_installs_one_package_and_no_other_name(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    version = rag_transformers.__version__
    assert tops == {"rag_transformers", f"rag_transformers-{version}.dist-info"}


def test_wheel_holds_every_prompt_of_every_language(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for language in languages():
        files = {path.name for path in (ROOT / "rag_transformers" / "prompts" / language).glob("*.txt")}
        assert "extract_graph.txt" in files
        assert {f"rag_transformers/prompts/{language}/{name}" for name in files} <= names


def test_wheel_holds_all_modules_and_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rag_transformers").rglob("*.py")}
    assert modules | {"rag_transformers/py.typed"} <= set(wheel.namelist())


def test_wheel_holds_what_a_page_is_made_of_and_its_licences(wheel: zipfile.ZipFile) -> None:
    folder = ROOT / "rag_transformers" / "view"
    files = {path.relative_to(ROOT).as_posix() for path in folder.rglob("*.*") if "__pycache__" not in path.parts}
    assert {f"rag_transformers/view/{name}" for name in ("page.html", "page.js", "vendor/LICENSES.txt")} <= files
    assert files <= set(wheel.namelist())


def test_wheel_brings_the_command_and_the_licence(wheel: zipfile.ZipFile) -> None:
    info = f"rag_transformers-{rag_transformers.__version__}.dist-info"
    assert "rag-transformers=rag_transformers.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert "MIT License" in wheel.read(f"{info}/licenses/LICENSE").decode()


@pytest.mark.parametrize("door", DOORS)
def test_door_leads_into_the_package(door: str) -> None:
    path = ROOT / door
    if not path.exists() and not path.is_symlink():
        pytest.skip("an unpacked sdist has no doors")
    place = os.readlink(path) if path.is_symlink() else path.read_text(encoding="utf-8").strip()
    assert place == f"rag_transformers/{door}"
    assert (ROOT / place / "__init__.py").is_file()


def test_public_names_are_sorted_and_all_there() -> None:
    assert rag_transformers.__all__ == sorted(rag_transformers.__all__)
    missing = [name for name in rag_transformers.__all__ if not hasattr(rag_transformers, name)]
    assert missing == []


def test_every_module_keeps_what_its_all_promises() -> None:
    for module in pkgutil.walk_packages(rag_transformers.__path__, "rag_transformers."):
        if not module.name.endswith("__main__"):
            loaded = importlib.import_module(module.name)
            assert [name for name in getattr(loaded, "__all__", ()) if not hasattr(loaded, name)] == [], module.name


def test_importing_the_package_loads_nothing_else() -> None:
    assert _loaded_by("import rag_transformers", (*HEAVY, "langchain_core", "numpy", "pydantic", "tqdm")) == []


@pytest.mark.parametrize(
    "statement", ["from rag_transformers import GraphExtractor, GraphIndex", "import rag_transformers.cli"]
)
def test_importing_the_main_names_loads_nothing_heavy_and_asks_no_server(statement: str) -> None:
    assert _loaded_by(statement, HEAVY) == []


def test_command_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "rag_transformers", "--version"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=ROOT)
    assert done.stdout == f"rag-transformers {rag_transformers.__version__}\n"


def test_changelog_is_of_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", rag_transformers.__version__]


def _build(step: str, source: Path, target: Path) -> Path:
    """Call the build backend itself: ``build`` and ``pip`` would fetch one that is installed already."""
    backend = importlib.import_module("flit_core.buildapi")
    with contextlib.chdir(source):
        return target / str(getattr(backend, step)(str(target)))


def _loaded_by(statement: str, unwanted: tuple[str, ...]) -> list[str]:
    """The unwanted packages that a fresh interpreter holds after a statement; connecting anywhere is an error."""
    script = (
        "import sys\n"
        "def refuse(event, args):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo'):\n"
        "        raise RuntimeError(f'{event} {args}')\n"
        "sys.addaudithook(refuse)\n"
        f"{statement}\n"
        f"print(*[name for name in {unwanted!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
