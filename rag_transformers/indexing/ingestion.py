"""Documents -> chunks -> extractions: what is new is extracted, each reply stored as soon as it is read."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBinding

from rag_transformers.chunking import Chunker
from rag_transformers.concurrency import InOrder, drained
from rag_transformers.documents import fingerprint
from rag_transformers.errors import ReplyError, UsageError
from rag_transformers.extraction.llm_extractor import LLMExtractor
from rag_transformers.graph import Extraction
from rag_transformers.indexing.outcomes import Failure, Progress
from rag_transformers.models.faults import error_line
from rag_transformers.models.given import model_key
from rag_transformers.models.run import Run
from rag_transformers.stores.keys import extraction_key, is_offline, is_partial, partial_key, text_key

if TYPE_CHECKING:
    from rag_transformers.stores.made import Made
    from rag_transformers.stores.records import DocumentRecord, Draft, Records

__all__ = ["Extracted", "Fresh", "Ingestion", "document_key"]

_BESIDE_MODEL = (
    "this index was read by a model or an extractor of your own, and without one now; new chunks that are read by "
    "names and phrases alone: {count}. Add their documents again with the model to have them read by it"
)


def document_key(document: Document, chunker: Chunker) -> str:
    """What a document's content is known by, cut as the chunker cuts it."""
    return text_key(fingerprint(document), chunker.cache_key)


class Fresh(NamedTuple):
    """Documents that are new or changed, with their chunks, and how many there are of each."""

    records: "list[DocumentRecord]"
    new: int
    changed: int


class Extracted(NamedTuple):
    """What came of the chunks that have no extraction yet."""

    made: int = 0
    kept: int = 0
    failed: tuple[Failure, ...] = ()


class Ingestion:
    """Which documents are new or changed, their chunks and extractions; what is changed, is changed in a draft.

    Args:
        made: What was made before, by key; None for an index that does not exist yet.
        records: The records, a draft where they are to be changed; None for an index that does not exist yet.
        chunker: Cuts a document.
        extractor: Any Runnable from a chunk to an :class:`Extraction`.
        run: The limit on model calls, and what they cost.
        on_progress: Called as work is done.
        offline: Whether the extractor stands in for a model that was not given; then what one made is left as it is.
    """

    def __init__(
        self,
        made: "Made | None",
        records: "Records | None",
        chunker: Chunker,
        extractor: Runnable[Document, Extraction],
        run: Run,
        on_progress: Callable[[Progress], None] | None = None,
        *,
        offline: bool = False,
    ) -> None:
        self._made = made
        self._records = records
        self._chunker = chunker
        self._extractor = extractor
        self._run = run
        self._on_progress = on_progress
        self._offline = offline
        self._left: dict[str, str] = {}  # the keys of what a model extracted and is to stay, by text
        self._beside_model = False

    def leave(self, documents: Sequence[Document]) -> None:
        """Leave what a model extracted from the chunks of these documents, where the extractor only stands in for one.

        It is called before anything is stored: then it holds for what stays the same in a changed document too.
        """
        if not self._offline or self._records is None:
            return
        keys = {id: key for id, key in self._records.extraction_keys().items() if key and not is_offline(key)}
        self._beside_model = bool(keys)
        for chunk in self._records.chunks_of([document.metadata["source"] for document in documents]) if keys else ():
            if (key := keys.get(str(chunk.id))) is not None:
                self._left[chunk.page_content] = key

    def fresh(self, documents: Sequence[Document]) -> tuple[list[Document], int, int]:
        """The documents that are new or changed, how many are new, and how many are changed."""
        stored = self._records.fingerprints() if self._records else {}
        known = [stored.get(document.metadata["source"]) for document in documents]
        fresh = [document for document, now in zip(documents, known, strict=True) if now != self._fingerprint(document)]
        new = sum(document.metadata["source"] not in stored for document in fresh)
        return fresh, new, len(fresh) - new

    def pending(self, documents: Sequence[Document]) -> list[Document]:
        """The stored chunks to extract: those that have no extraction, and of these documents those made otherwise."""
        if self._records is None:
            return []
        keys = self._records.extraction_keys()
        used = {id: None if key is None or is_partial(key) else key for id, key in keys.items()}
        given = self._records.chunks_of([document.metadata["source"] for document in documents])
        asked = {str(chunk.id) for chunk in given if used[str(chunk.id)] != self._extraction_key(chunk)}
        return self._records.chunks(id for id, key in used.items() if key is None or id in asked)

    def split(self, documents: Sequence[Document]) -> Fresh:
        """Chunk the documents that are new or changed; nothing is stored yet."""
        from rag_transformers.stores.records import DocumentRecord

        fresh, new, changed = self.fresh(documents)
        records = [
            DocumentRecord(document.metadata["source"], self._fingerprint(document), self._chunker.split(document))
            for document in fresh
        ]
        return Fresh(records, new, changed)

    async def extract(self, chunks: Sequence[Document]) -> Extracted:
        """Extract chunks, storing each result as it comes; the failures are in reading order."""
        if new := sum(chunk.page_content not in self._left for chunk in chunks) if self._beside_model else 0:
            warnings.warn(_BESIDE_MODEL.format(count=new), stacklevel=2)
        if not isinstance(self._extractor, LLMExtractor):
            self._run.begin()  # only our own extractors' calls are seen by the run: nothing is there to be waited for
        try:
            return await self._extract(chunks)
        finally:
            self._run.begin()

    async def _extract(self, chunks: Sequence[Document]) -> Extracted:
        made, draft = self._to_change()
        keys = {str(chunk.id): self._extraction_key(chunk) for chunk in chunks}
        known = await asyncio.to_thread(made.known_extractions, keys.values())
        await asyncio.to_thread(draft.use_extractions, {id: key for id, key in keys.items() if key in known})
        due = _by_key(chunks, keys, known)
        order = list(due)
        failed: dict[str, Exception] = dict.fromkeys(order, UsageError("the extractor gave nothing for it"))
        done = 0
        async for batch in drained(self._results([same[0] for same in due.values()])):
            results = {order[number]: result for number, result in batch}
            await asyncio.to_thread(self._put, due, results)
            failed |= {key: result for key, result in results.items() if isinstance(result, Exception)}
            for key in [key for key in results if not isinstance(results[key], Exception)]:
                del failed[key]
            done += len(batch)
            self._report("extract", done, len(due))
        kept = len(chunks) - sum(map(len, due.values()))
        failures = [_failure(chunk, failed[key]) for chunk in chunks if (key := keys[str(chunk.id)]) in failed]
        return Extracted(len(due) - len(failed), kept, tuple(failures))

    def _put(self, due: Mapping[str, Sequence[Document]], results: Mapping[str, Any]) -> None:
        """Store what was extracted, and of the others what could be read; a whole extraction that is there stays."""
        made, draft = self._to_change()
        good = {key: result for key, result in results.items() if isinstance(result, Extraction)}
        uses = {str(chunk.id): key for key in good for chunk in due[key]}
        if errors := {key: result for key, result in results.items() if key not in good}:
            used = draft.extraction_keys()
            for key, error in errors.items():
                lacking = [id for chunk in due[key] if (now := used[id := str(chunk.id)]) is None or is_partial(now)]
                if isinstance(error, ReplyError) and error.extraction and lacking:
                    good[partial_key(key)] = error.extraction
                    uses |= dict.fromkeys(lacking, partial_key(key))
        made.put_extractions(good)
        draft.use_extractions(uses)

    def unknown(self, chunks: Sequence[Document]) -> list[Document]:
        """Of each text whose extraction is not stored under any document the first chunk."""
        keys = {str(chunk.id): self._extraction_key(chunk) for chunk in chunks}
        known = self._made.known_extractions(keys.values()) if self._made else set()
        return [same[0] for same in _by_key(chunks, keys, known).values()]

    async def _results(self, chunks: Sequence[Document]) -> AsyncIterator[tuple[int, Any]]:
        config = {"max_concurrency": self._run.concurrency}
        batch = _batch_of(self._extractor)
        async for number, result in batch(self._extractor, list(chunks), config, return_exceptions=True):
            if not isinstance(result, Extraction | Exception):
                kind = type(result).__name__
                raise UsageError(f"the extractor returned {kind} for a chunk; it must return an Extraction")
            yield number, result

    def _to_change(self) -> "tuple[Made, Draft]":
        from rag_transformers.stores.records import Draft

        assert self._made is not None
        assert isinstance(self._records, Draft)
        return self._made, self._records

    def _fingerprint(self, document: Document) -> str:
        return document_key(document, self._chunker)

    def _extraction_key(self, chunk: Document) -> str:
        left = self._left.get(chunk.page_content)
        return left or extraction_key(chunk.page_content, self._name, offline=self._offline)

    @cached_property
    def _name(self) -> str:
        return model_key(self._extractor)

    def _report(self, stage: str, done: int, total: int) -> None:
        if self._on_progress:
            self._on_progress(Progress(stage, done, total, self._run.usage))


def _batch_of(extractor: Runnable[Any, Any]) -> Any:
    """How an extractor is asked about many chunks: in its own way if it has one, else one by one, in reading order.

    LangChain's own ways begin in any order, and with ``with_retry`` they do not retry.
    """
    inner: Any = extractor
    while type(inner) is RunnableBinding:  # which only hands on: with_config, bind
        inner = inner.bound
    owner = next(kind for kind in type(inner).__mro__ if "abatch_as_completed" in vars(kind))
    return (InOrder if owner.__module__.startswith("langchain_core.") else type(extractor)).abatch_as_completed


def _by_key(chunks: Sequence[Document], keys: Mapping[str, str], known: Set[str]) -> dict[str, list[Document]]:
    """The chunks whose extraction is not known, by its key: the same text is asked about once, where it is first."""
    found: dict[str, list[Document]] = {}
    for chunk in chunks:
        if (key := keys[str(chunk.id)]) not in known:
            found.setdefault(key, []).append(chunk)
    return found


def _failure(chunk: Document, error: Exception) -> Failure:
    source, number, start, end = (chunk.metadata[name] for name in ("source", "chunk", "start", "end"))
    item = f"{source}, chunk {number} (characters {start} to {end})"
    return Failure("extract", item, error_line(error), source, number, start, end)
