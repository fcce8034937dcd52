"""What chunks say of names, for the search: the same on every machine, and nothing read twice."""

import pytest
from langchain_core.documents import Document

from rag_transformers import phrases
from rag_transformers.graph import Extraction
from rag_transformers.phrases import PhraseExtractor
from rag_transformers.retrieval.name_reading import NameReader
from rag_transformers.stores.keys import extraction_key

CHUNK = Document("Moss founded Finch Mills.", id="a", metadata={"source": "x", "start": 0})


def test_names_are_read_by_rules_though_spacy_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def read(chunk: object, language: str, english: str) -> list[phrases.Mention]:
        asked.append(english)
        return []

    monkeypatch.setattr(phrases, "names", read)
    reader = NameReader()
    reader.prepare([CHUNK])
    reader.said(Document("Moss left.", id="b", metadata={"start": 0}), reader.stamp("b", None))
    assert asked == ["rules", "rules"]


def test_a_stamp_is_the_same_with_spacy_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = []
    for found in (None, object()):
        monkeypatch.setattr("importlib.util.find_spec", lambda package, found=found: found)
        stamps.append(NameReader().stamp("a", "key"))
    assert stamps[0] == stamps[1]


@pytest.mark.parametrize("maker", [PhraseExtractor(english="rules").cache_key, "PhraseExtractor en=spacy-3"])
def test_the_offline_extractors_vertices_are_names_already(maker: str) -> None:
    reader = NameReader()
    stamp = reader.stamp("a", extraction_key(CHUNK.page_content, maker, offline=True))
    assert reader.said(CHUNK, stamp, Extraction([("mill", "")])).names == ["mill"]


def test_the_chunks_of_a_model_are_read_for_names_too() -> None:
    reader = NameReader()
    stamp = reader.stamp("a", extraction_key(CHUNK.page_content, "a model"))
    assert reader.said(CHUNK, stamp, Extraction([("mill", "")])).names == ["mill", "Moss", "Finch Mills"]


def test_names_that_were_read_ahead_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = NameReader()
    reader.prepare([CHUNK])
    monkeypatch.setattr(phrases, "names", None)
    assert reader.said(CHUNK, reader.stamp("a", None)).names == ["Moss", "Finch Mills"]
