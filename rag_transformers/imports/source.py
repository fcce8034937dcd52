"""A source as it is taken over: what it says of each chunk, the graph that this makes, and an index of it."""

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from rag_transformers.chunking import Chunker
from rag_transformers.communities import Community
from rag_transformers.concurrency import InOrder
from rag_transformers.errors import DocumentError, RagTransformersError, UsageError
from rag_transformers.extraction.holding import marked
from rag_transformers.graph import Edge, Extraction, Vertex
from rag_transformers.imports.communities import communities_of, reports_of
from rag_transformers.imports.graphrag import find_graphrag, read_graphrag
from rag_transformers.imports.layout import Layout, lay_out
from rag_transformers.imports.lightrag import GRAPH_FILE, read_lightrag
from rag_transformers.imports.tables import EntityRow, RelationRow, Tables
from rag_transformers.reports import Report

if TYPE_CHECKING:
    from rag_transformers.index import IndexReport
    from rag_transformers.stores import MemoryGraph

__all__ = ["ImportedSource", "SourceExtractor", "import_source", "read_source"]

_Row = TypeVar("_Row", EntityRow, RelationRow)


class SourceExtractor(InOrder[Document | str, Extraction]):
    """Gives for a chunk what a source says of it; no model is asked.

    Args:
        extractions: What is said, by the text of the chunk.
        cache_key: Stands for the source as it is now.
    """

    def __init__(self, extractions: Mapping[str, Extraction], cache_key: str) -> None:
        self._extractions = extractions
        self.cache_key = cache_key

    def invoke(self, input: Document | str, config: RunnableConfig | None = None, **kwargs: Any) -> Extraction:
        """What the source says of a chunk.

        Raises:
            UsageError: The source has no such chunk.
        """
        return self._call_with_config(self._look_up, input, config)

    def _look_up(self, chunk: Document | str) -> Extraction:
        text = chunk if isinstance(chunk, str) else chunk.page_content
        if text not in self._extractions:
            raise UsageError(f"the imported source has no such chunk: {text[:60]!r}; add other documents without it")
        return self._extractions[text]


@dataclass(frozen=True)
class ImportedSource:
    """What another system made, read.

    ``GraphIndex.open(folder, extractor=source.extractor, chunker=source.chunker).add(source.documents)`` is the index.

    Args:
        kind: ``graphrag``, ``lightrag`` or ``nano-graphrag``.
        tables: What it says, row by row.
        layout: Its documents and their chunks.
    """

    kind: str
    tables: Tables = field(repr=False)
    layout: Layout = field(repr=False)

    @property
    def documents(self) -> tuple[Document, ...]:
        """Its documents; none where the source holds no texts."""
        return self.layout.documents

    @property
    def chunker(self) -> Chunker:
        """Cuts its documents as the source did."""
        return self.layout.chunker

    @cached_property
    def chunks(self) -> tuple[Document, ...]:
        """Their chunks, as an index of them would have them."""
        return tuple(chunk for document in self.documents for chunk in self.chunker.split(document))

    @cached_property
    def extractor(self) -> SourceExtractor:
        """Gives what the source says of each chunk.

        An entity or relationship is said by each of its chunks, with all that the source says of it, for the source
        does not keep what each said; a weight is shared among them, so that it adds up again.
        """
        return SourceExtractor(self._extractions, f"imported {self.kind} {_digest(self.tables)}")

    @cached_property
    def graph(self) -> "MemoryGraph":
        """The graph: what the chunks say, folded as an index does it, and what the source ties to none of its texts."""
        from rag_transformers.stores import MemoryGraph

        graph = MemoryGraph()
        for chunk in self.chunks:
            graph.add(self._extractions[chunk.page_content], str(chunk.id))
        for entity in self._untied(self.tables.entities):
            descriptions = list(entity.descriptions)
            graph.upsert_vertex(Vertex(entity.name, descriptions=descriptions, type=entity.type))
        for tie in self._untied(self.tables.relations):
            props: dict[str, Any] = {"descriptions": list(tie.descriptions), "weight": tie.weight}
            graph.upsert_edge(Edge(tie.source, tie.target, tie.name, **props))
        return graph

    @cached_property
    def communities(self) -> tuple[Community, ...]:
        """The communities that the source found, the coarsest first."""
        return communities_of(self.tables, self.graph)

    @cached_property
    def reports(self) -> tuple[Report, ...]:
        """The reports that the source wrote on them."""
        ids: dict[str, list[str]] = {}
        for chunk in self.chunks:
            ids.setdefault(chunk.page_content, []).append(str(chunk.id))
        chunks = {unit: ids[text] for unit, text in self.layout.texts.items() if text in ids}
        return reports_of(self.tables, self.communities, chunks, self.graph)

    @property
    def untied(self) -> int:
        """How many entities and relationships come from no text that the source holds; an index cannot have them."""
        return sum(1 for _ in self._untied(self.tables.entities)) + sum(1 for _ in self._untied(self.tables.relations))

    def _untied(self, rows: Sequence[_Row]) -> Iterator[_Row]:
        return (row for row in rows if _is_named(row) and not self._texts(row.units))

    def _texts(self, units: Sequence[str]) -> list[str]:
        """The chunk texts that units became, each once."""
        texts = self.layout.texts
        return list(dict.fromkeys(texts[unit] for unit in units if unit in texts))

    @cached_property
    def _extractions(self) -> dict[str, Extraction]:
        counts = Counter(chunk.page_content for chunk in self.chunks)
        said: dict[str, _Said] = {text: _Said() for text in counts}
        for entity in filter(_is_named, self.tables.entities):
            for text in filter(said.__contains__, self._texts(entity.units)):
                said[text].name(entity)
        for tie in filter(_is_named, self.tables.relations):
            texts = [text for text in self._texts(tie.units) if text in said]
            share = (1.0 if tie.weight is None else tie.weight / sum(map(counts.__getitem__, texts))) if texts else 0.0
            for text in texts:
                said[text].tie(tie, share)
        return {text: marked(each.extraction(), text) for text, each in said.items()}


class _Said:
    """What a source says of one chunk, row by row."""

    def __init__(self) -> None:
        self._entities: list[tuple[str, str]] = []
        self._types: list[str] = []
        self._relationships: list[tuple[str, str, str, str]] = []
        self._weights: list[float] = []

    def name(self, entity: EntityRow) -> None:
        """Add an entity, once for each description."""
        for text in entity.descriptions or ("",):
            self._entities.append((entity.name, text))
            self._types.append(entity.type)

    def tie(self, relation: RelationRow, share: float) -> None:
        """Add a relationship, once for each description; its weight counts once for a chunk all the same."""
        for text in relation.descriptions or ("",):
            self._relationships.append((relation.source, relation.name, relation.target, text))
            self._weights.append(share)

    def extraction(self) -> Extraction:
        """All of it."""
        types = self._types if any(self._types) else ()
        return Extraction(self._entities, self._relationships, types, self._weights)


def read_source(path: str | Path) -> ImportedSource:
    """Read what microsoft/graphrag, LightRAG or nano-graphrag made.

    One warning says how many rows nothing comes of, such as relationships without both ends; others name columns that
    are missing, where something is lost with them.

    Args:
        path: A folder, or a GraphML file of LightRAG or nano-graphrag.

    Raises:
        UsageError: There is no such thing, a package is missing that reads it, or a column is that is needed.
        DocumentError: A file of it cannot be read.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise UsageError(f"path is {path!r:.80}; give a folder that graphrag, LightRAG or nano-graphrag made")
    given = Path(path)
    if not given.exists():
        raise UsageError(f"{given} does not exist; give a folder that graphrag, LightRAG or nano-graphrag made")
    try:
        tables = _read(given)
    except RagTransformersError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DocumentError(f"{given} holds a table of a form that is not known ({reason[:200]})") from error
    if fruitless := tables.fruitless():
        told = ", ".join(f"{count} {what}" for what, count in fruitless.items())
        warnings.warn(f"{given}: nothing is taken over from {told}", stacklevel=2)
    return ImportedSource(tables.kind, tables, lay_out(tables))


def import_source(path: str | Path, out: str | Path, **options: Any) -> "IndexReport":
    """Make an index of what another system made, or add it to one; its communities and reports are made as usual.

    No model is asked for what the source says; one that is given writes descriptions and reports. The same source again
    changes nothing, and one that has grown brings what is new. Documents that are added later are read by whatever the
    index is opened with then; those of the source stay as they are, unless they are given again themselves.

    Args:
        path: As for :func:`read_source`.
        out: The folder of the index.
        **options: As for :meth:`~rag_transformers.GraphIndex.open`; ``extractor`` and ``chunker`` are the source's.
            ``on_progress`` goes to :meth:`~rag_transformers.GraphIndex.add`.

    Raises:
        UsageError: The source holds no texts, so that only its graph can be read; or as ``read_source``, ``open`` and
            ``add`` raise it.
    """
    from rag_transformers.index import GraphIndex

    on_progress = options.pop("on_progress", None)
    if taken := sorted({"extractor", "chunker"} & options.keys()):
        raise UsageError(f"{taken[0]} cannot be given to an import: the source says what its chunks hold")
    source = read_source(path)
    if not source.documents:
        raise UsageError(
            f"{path} holds no texts, which an index needs; read_source gives its graph, communities and reports"
        )
    if count := source.untied:
        warnings.warn(
            f"{count} entities and relationships come from no text of the source, and are left out", stacklevel=2
        )
    with GraphIndex.open(out, extractor=source.extractor, chunker=source.chunker, **options) as index:
        return index.add(source.documents, on_progress=on_progress)


def _read(given: Path) -> Tables:
    if given.is_dir() and (folder := find_graphrag(given)) is not None:
        return read_graphrag(folder)
    return read_lightrag(_graph_file(given))


def _graph_file(given: Path) -> Path:
    """The GraphML file that was given, or that lies in a folder under its usual name."""
    if given.is_file() and given.suffix.lower() in (".graphml", ".xml"):
        return given
    if given.is_dir() and (found := given / GRAPH_FILE).is_file():
        return found
    raise UsageError(
        f"{given} is not known: give a folder with parquet files of graphrag (entities, relationships) or with "
        f"{GRAPH_FILE} of LightRAG or nano-graphrag, or such a GraphML file"
    )


def _is_named(row: EntityRow | RelationRow) -> bool:
    return bool(row.name) if isinstance(row, EntityRow) else bool(row.source and row.target)


def _digest(tables: Tables) -> str:
    """A hash of what a source says of its texts, wherever it lies."""
    rows = [
        [(row.name, row.type, row.descriptions, row.units) for row in tables.entities],
        [(row.source, row.target, row.name, row.descriptions, row.units, row.weight) for row in tables.relations],
        [(row.id, row.text) for row in tables.units],
    ]
    said = json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, digest_size=12).hexdigest()
