"""All that an index holds, as JSON-ready data: two indexes that are equal give equal snapshots."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from rag_transformers.exports import export_graph
from rag_transformers.index import GraphIndex
from rag_transformers.indexing.search_structure import FolderHistory
from rag_transformers.retrieval.searching import search_units
from rag_transformers.stores.chroma import live_collection
from torture.corpus import QUESTIONS

__all__ = ["copied", "snapshot"]

_FORMATS = ("json", "graphml", "csv", "cypher")


def snapshot(index: GraphIndex) -> dict[str, Any]:
    """All that an index holds, and what it finds for some questions.

    Args:
        index: The index; its search structure is opened and its history looked through, so give a copy.
    """
    folder = index._folder
    return {
        "graph": _graph(index),
        "exports": _exports(index),
        "communities": [community.to_dict() for community in index.communities],
        "reports": [report.to_dict() for report in index.reports],
        "sources": index.sources(),
        "chunks": [[chunk.id, chunk.page_content, chunk.metadata] for chunk in index.chunks()],
        "extractions": folder.records.extraction_order(),
        "found": {question: _found(index, question) for question in QUESTIONS},
        "searched": _searched(index),
        "history": _history(index),
    }


def copied(index: Path, place: Path) -> Path:
    """A copy of an index's folder, to be looked at without a change of the folder."""
    return Path(shutil.copytree(index, place))


def _exports(index: GraphIndex) -> dict[str, str]:
    """The text of each file that is exported, by its name."""
    communities = [community.to_dict() for community in index.communities]
    reports = [report.to_dict() for report in index.reports]
    with tempfile.TemporaryDirectory() as place:
        for form in _FORMATS:
            target = Path(place, f"graph-{form}")
            export_graph(index.graph, form, target, communities=communities, reports=reports)
        files = sorted(path for path in Path(place).rglob("*") if path.is_file())
        return {path.relative_to(place).as_posix(): path.read_text(encoding="utf-8") for path in files}


def _searched(index: GraphIndex) -> dict[str, str]:
    """The texts that Chroma holds for search, by id, which must be what the records say, and so must their vectors.

    Raises:
        AssertionError: Something is missing, left over, or another.
    """
    folder = index._folder
    units = [unit for chunk in folder.records.chunks() for unit in search_units(chunk, folder.by_sentence)]
    held = _collection(index, "sentences")
    assert {id: text for id, (text, _) in held.items()} == {unit.id: unit.page_content for unit in units}
    kept = folder.embeddings.embed_documents([unit.page_content for unit in units])
    for unit, vector in zip(units, kept, strict=True):
        apart = max(abs(one - other) for one, other in zip(held[str(unit.id)][1], vector, strict=True))
        assert apart < 1e-5, f"the vector of {unit.id} is another"
    assert folder.state.units == len(units)
    return {id: text for id, (text, _) in held.items()}


def _graph(index: GraphIndex) -> list[Any]:
    vertices, edges = index.graph.vertices(), index.graph.edges()
    return [
        *([each.name, each.descriptions, each.summary, each.chunks] for each in vertices),
        *([each.source, each.name, each.target, each.descriptions, each.summary, each.chunks] for each in edges),
    ]


def _collection(index: GraphIndex, name: str) -> dict[str, Any]:
    store: Any = index._folder.stores.collection(name, index._folder.embeddings)
    held: Any = live_collection(store).get(include=["documents", "embeddings"])
    texts, vectors = held["documents"], held["embeddings"]
    return {id: (text, vector.tolist()) for id, text, vector in sorted(zip(held["ids"], texts, vectors, strict=True))}


def _history(index: GraphIndex) -> list[str]:
    """The ids of the history as the next extraction finds it: it is brought into line with the chunks before that."""
    with index._folder.locked(), index._folder.records.draft() as draft:
        FolderHistory(index._folder, draft).read([])
    return sorted(_collection(index, "history"))


def _found(index: GraphIndex, question: str) -> list[Any]:
    return [[found.id, found.metadata] for found in index.retrieve(question)]
