"""Documents into the records of an index: chunked, embedded, extracted, each reply stored as soon as it is read."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.runnables import Runnable

from rag_transformers.chunking import Chunker
from rag_transformers.concurrency import Run, Usage, drained
from rag_transformers.documents import fingerprint
from rag_transformers.errors import ReplyError, UsageError
from rag_transformers.extraction.llm_extractor import LLMExtractor
from rag_transformers.graph import Extraction
from rag_transformers.models import error_line, model_key
from rag_transformers.retrieval.searching import search_units
from rag_transformers.stores.vectors import text_key

if TYPE_CHECKING:
    from rag_transformers.stores.database import DocumentRecord
    from rag_transformers.stores.folder import IndexFolder

__all__ = ["Failure", "IndexPlan", "IndexReport", "Ingestion", "Progress"]


@dataclass(frozen=True)
class Progress:
    """How far a run is: a stage's name, how much of it is done, and what models have cost so far."""

    stage: str
    done: int
    total: int
    usage: Usage


@dataclass(frozen=True)
class Failure:
    """What could not be made, and why; it is asked again at the next ``add``.

    Args:
        stage: ``extract`` for a chunk, ``describe`` for a vertex or an edge, ``report`` for a community.
        item: Which one.
        reason: Why.
        source: The document of a chunk.
        chunk: Its number in the document.
        start: Where it starts there, in characters.
        end: Where it ends.
    """

    stage: str
    item: str
    reason: str
    source: str = ""
    chunk: int = 0
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        return f"{self.item}: {self.reason}"


@dataclass(frozen=True)
class IndexPlan:
    """What an ``add`` would take, before anything is done.

    Args:
        documents: How many were given.
        unchanged: How many of them the index holds as they are.
        chunks: Chunks of the others, with those that failed before.
        calls: Model calls for extraction.
        prompt_tokens: Tokens of their prompts, the history that is shown to them not counted.
    """

    documents: int
    unchanged: int
    chunks: int
    calls: int = 0
    prompt_tokens: int = 0


@dataclass(frozen=True)
class IndexReport:
    """What an ``add`` did, and what the index holds now.

    Args:
        added: Documents that were new.
        changed: Documents whose content was another before.
        unchanged: Documents that were there as they are.
        extracted: Chunks whose extraction was made now.
        described: Vertices and edges whose many descriptions were made into one now.
        reported: Communities whose report was written now.
        failed: Chunks that have no extraction, and what else could not be made, each with why.
        documents: All documents of the index.
        chunks: All chunks of the index.
        vertices: All vertices of the graph.
        edges: All edges of the graph.
        usage: What models have cost.
        seconds: Time, by stage.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    extracted: int = 0
    described: int = 0
    reported: int = 0
    failed: tuple[Failure, ...] = ()
    documents: int = 0
    chunks: int = 0
    vertices: int = 0
    edges: int = 0
    usage: Usage = field(default=Usage())
    seconds: Mapping[str, float] = field(default_factory=dict)


class Fresh(NamedTuple):
    """Documents that are new or changed, with their chunks, and how many there are of each."""

    records: "list[DocumentRecord]"
    new: int
    changed: int


class Ingestion:
    """One ``add``: which documents are new or changed, their chunks, vectors and extractions.

    Args:
        folder: The index's folder.
        chunker: Cuts a document.
        extractor: Any Runnable from a chunk to an :class:`Extraction`.
        run: The limit on model calls, and what they cost.
        on_progress: Called as work is done.
    """

    def __init__(
        self,
        folder: "IndexFolder",
        chunker: Chunker,
        extractor: Runnable[Document, Extraction],
        run: Run,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._folder = folder
        self._chunker = chunker
        self._extractor = extractor
        self._run = run
        self._on_progress = on_progress
        self.seconds: dict[str, float] = {}

    def fresh(self, documents: Sequence[Document]) -> tuple[list[Document], int, int]:
        """The documents that are new or changed, how many are new, and how many are changed."""
        stored = self._folder.database.fingerprints() if self._folder.exists else {}
        new = [document for document in documents if document.metadata["source"] not in stored]
        changed = [
            document
            for document in documents
            if (known := stored.get(document.metadata["source"])) is not None and known != self._fingerprint(document)
        ]
        order = {document.metadata["source"]: number for number, document in enumerate(documents)}
        return sorted(new + changed, key=lambda d: order[d.metadata["source"]]), len(new), len(changed)

    def pending(self, documents: Sequence[Document]) -> list[Document]:
        """The stored chunks to extract: those that have no extraction, and of these documents those made otherwise."""
        from rag_transformers.stores.database import is_partial

        database = self._folder.database
        used = {id: None if key is None or is_partial(key) else key for id, key in database.extraction_keys().items()}
        given = {document.metadata["source"] for document in documents}
        return [
            chunk
            for chunk in database.chunks(id for id, key in used.items() if key is None or given)
            if used[str(chunk.id)] is None
            or (chunk.metadata["source"] in given and used[str(chunk.id)] != self._extraction_key(chunk))
        ]

    def split(self, documents: Sequence[Document]) -> Fresh:
        """Chunk the documents that are new or changed; nothing is stored yet."""
        from rag_transformers.stores.database import DocumentRecord

        with self.timed("chunk"):
            fresh, new, changed = self.fresh(documents)
            records = [
                DocumentRecord(document.metadata["source"], self._fingerprint(document), self._chunker.split(document))
                for document in fresh
            ]
        return Fresh(records, new, changed)

    def store(self, fresh: Fresh) -> None:
        """Store documents with their chunks, in place of what the index held of them."""
        if fresh.changed:
            forget(self._folder, [record.source for record in fresh.records])
        if fresh.records:
            self._folder.database.put_documents(fresh.records)

    async def prepare_history(self, chunks: Sequence[Document]) -> None:
        """Embed the chunks, where the extractor looks earlier ones up that are like them."""
        if getattr(self._extractor, "chunk_history", None) is not None:
            with self.timed("embed"):
                texts = [chunk.page_content for chunk in chunks]
                await self._folder.embeddings.prepare(texts, self._folder.known.size)

    async def make_searchable(self) -> int:
        """Embed the chunks that the search structure lacks, once the first model call is out; the size of a vector."""
        await self._run.begun()
        if await asyncio.to_thread(self._folder.lacks_vectors):
            await asyncio.to_thread(self._folder.database.forget_searchable)
        chunks = await asyncio.to_thread(self._folder.database.unsearchable)
        size = self._folder.known.size
        with self.timed("embed"):
            for start in range(0, len(chunks), _WINDOW):
                part = chunks[start : start + _WINDOW]
                units = [unit for chunk in part for unit in search_units(chunk, self._folder.by_sentence)]
                size = await self._folder.embeddings.prepare([unit.page_content for unit in units], size)
                await asyncio.to_thread(self._folder.sentences.add, units)
                await asyncio.to_thread(self._folder.database.set_searchable, [str(chunk.id) for chunk in part])
                self._report("embed", start + len(part), len(chunks))
        return size

    async def extract(self, chunks: Sequence[Document]) -> tuple[int, list[Failure]]:
        """Extract chunks, storing each result as it comes; how many were made, and the failures in reading order."""
        if not isinstance(self._extractor, LLMExtractor):
            self._run.begin()  # only our own extractors' calls are seen by the run: nothing is there to be waited for
        try:
            return await self._extract(chunks)
        finally:
            self._run.begin()

    async def _extract(self, chunks: Sequence[Document]) -> tuple[int, list[Failure]]:
        database = self._folder.database
        keys = {str(chunk.id): self._extraction_key(chunk) for chunk in chunks}
        known = await asyncio.to_thread(database.known_extractions, keys.values())
        stored = [(id, key, None) for id, key in keys.items() if key in known]
        await asyncio.to_thread(database.put_extractions, stored)
        asked = [chunk for chunk in chunks if keys[str(chunk.id)] not in known]
        failed: dict[int, Failure] = {}
        made = 0
        with self.timed("extract"):
            async for batch in drained(self._results(asked)):
                good = [(str(asked[i].id), keys[str(asked[i].id)], x) for i, x in batch if isinstance(x, Extraction)]
                errors = {i: x for i, x in batch if not isinstance(x, Extraction)}
                await asyncio.to_thread(self._put, good, [(asked[i], x) for i, x in errors.items()])
                failed |= {i: _failure(asked[i], x) for i, x in errors.items()}
                made += len(good)
                self._report("extract", made + len(failed), len(asked))
        return made, [failed[i] for i in sorted(failed)]

    def _put(self, good: Sequence[tuple[str, str, Extraction]], failed: Sequence[tuple[Document, Exception]]) -> None:
        """Store what was extracted, and of the others what could be read; a whole extraction that is there stays."""
        from rag_transformers.stores.database import is_partial, partial_key

        database = self._folder.database
        used = database.extraction_keys() if failed else {}
        read = [
            (str(chunk.id), partial_key(self._extraction_key(chunk)), error.extraction)
            for chunk, error in failed
            if isinstance(error, ReplyError)
            and error.extraction
            and ((key := used.get(str(chunk.id))) is None or is_partial(key))
        ]
        database.put_extractions([*good, *read])

    def unknown(self, chunks: Sequence[Document]) -> list[Document]:
        """Those of the chunks whose extraction is not stored under any document."""
        keys = [self._extraction_key(chunk) for chunk in chunks]
        known = self._folder.database.known_extractions(keys) if self._folder.exists else set()
        return [chunk for chunk, key in zip(chunks, keys, strict=True) if key not in known]

    async def _results(self, chunks: Sequence[Document]) -> AsyncIterator[tuple[int, Any]]:
        config = {"max_concurrency": self._run.concurrency}
        results = self._extractor.abatch_as_completed(list(chunks), config, return_exceptions=True)  # type: ignore[call-overload]
        async for number, result in results:
            if not isinstance(result, Extraction | Exception):
                kind = type(result).__name__
                raise UsageError(f"the extractor returned {kind} for a chunk; it must return an Extraction")
            yield number, result

    def _fingerprint(self, document: Document) -> str:
        return text_key(fingerprint(document), f"{self._chunker.chunk_size}/{self._chunker.chunk_overlap}")

    def _extraction_key(self, chunk: Document) -> str:
        return text_key(model_key(self._extractor), chunk.page_content)

    def _report(self, stage: str, done: int, total: int) -> None:
        if self._on_progress:
            self._on_progress(Progress(stage, done, total, self._run.usage))

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time that is spent inside to that of a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def forget(folder: "IndexFolder", sources: Sequence[str]) -> None:
    """Take the chunks of these documents out of the search structures, before their records go."""
    chunks = folder.database.chunks_of(sources)
    units = [unit for chunk in chunks for unit in search_units(chunk, folder.by_sentence)]
    folder.sentences.delete([str(unit.id) for unit in units])
    gone = {chunk.page_content for chunk in chunks}
    kept = folder.database.texts_outside(sources)
    folder.chunk_history().delete(sorted(gone - kept))


def _failure(chunk: Document, error: Exception) -> Failure:
    source, number, start, end = (chunk.metadata[name] for name in ("source", "chunk", "start", "end"))
    item = f"{source}, chunk {number} (characters {start} to {end})"
    return Failure("extract", item, error_line(error), source, number, start, end)


_WINDOW = 256  # chunks whose sentences are embedded and stored at a time
