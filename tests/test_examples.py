"""The documents of ``make demo``: small, in both languages, tied to each other, and with an answer to what it asks."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

from rag_transformers import GraphIndex
from rag_transformers.documents import load_documents
from rag_transformers.text import language_of

ROOT = Path(__file__).resolve().parents[1]
TEXTS = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (".md", ".txt"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphIndex]:
    """The index that ``make demo`` makes."""
    with GraphIndex.open(tmp_path_factory.mktemp("examples") / "index") as index:
        index.add(load_documents(ROOT / "examples"))
        yield index


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_document_is_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if language_of(text) == "zh":
        assert 250 <= len(text) <= 700
    else:
        assert 120 <= len(text.split()) <= 350


def test_about_half_of_the_documents_are_chinese() -> None:
    languages = [language_of(path.read_text(encoding="utf-8")) for path in TEXTS]
    assert (languages.count("en"), languages.count("zh")) == (7, 6)


def test_every_document_shares_a_vertex_with_another(index: GraphIndex) -> None:
    neighbours: dict[str, set[str]] = defaultdict(set)
    for sources in _sources_of_vertices(index).values():
        for source in sources:
            neighbours[source] |= sources - {source}
    assert [path.name for path in TEXTS if not neighbours[path.name]] == []


def test_one_part_of_the_graph_spans_nearly_all_documents_of_both_languages(index: GraphIndex) -> None:
    largest = max(networkx.weakly_connected_components(index.graph.to_networkx()), key=len)
    reached = set().union(*(sources for name, sources in _sources_of_vertices(index).items() if name in largest))
    assert len(reached & {path.name for path in TEXTS}) >= len(TEXTS) - 2


@pytest.mark.parametrize(
    ("variable", "source", "told"), [("ENGLISH", "leibniz.md", "Joachim Bouvet"), ("CHINESE", "huozi.md", "胶泥")]
)
def test_the_questions_of_make_demo_are_answered(index: GraphIndex, variable: str, source: str, told: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (question,) = re.findall(rf"^{variable} := (.+)$", makefile, re.MULTILINE)
    answer = index.query(question)
    assert told in answer.text
    assert Path(answer.citations[0].source).name == source


def _sources_of_vertices(index: GraphIndex) -> dict[str, set[str]]:
    """The names of the files that each vertex comes from, by its name."""
    homes = {chunk.id: Path(chunk.metadata["source"]).name for chunk in index.chunks()}
    return {vertex.name: {homes[chunk] for chunk in vertex.chunks} for vertex in index.graph.vertices()}
