"""All changes of an index, one at a time: which stages they go through, and what holds when one has ended."""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable

from rag_transformers.chunking import Chunker
from rag_transformers.documents import sources_under
from rag_transformers.documents.inputs import Paths
from rag_transformers.errors import ModelError, UsageError
from rag_transformers.extraction.llm_extractor import LLMExtractor
from rag_transformers.graph import Extraction
from rag_transformers.indexing.change import Change, Stages
from rag_transformers.indexing.fold import CurrentGraph
from rag_transformers.indexing.ingestion import Ingestion, document_key
from rag_transformers.indexing.outcomes import IndexPlan, IndexReport, Progress
from rag_transformers.models.given import model_key
from rag_transformers.models.run import Run
from rag_transformers.prompts import PromptPack
from rag_transformers.reports import ReportWriter
from rag_transformers.retrieval.searching import Searcher
from rag_transformers.stores.keys import text_key
from rag_transformers.text import encodable

if TYPE_CHECKING:
    from rag_transformers.stores.folder import IndexFolder

__all__ = ["Changes", "Settings"]

Told = Callable[[Progress], None] | None
_changed: contextvars.ContextVar["Changes | None"] = contextvars.ContextVar("rag_transformers_changes", default=None)


@dataclass(frozen=True)
class Settings:
    """What an index is worked on with, as :meth:`rag_transformers.GraphIndex.open` takes it."""

    llm: Runnable[Any, Any] | None
    extractor: Runnable[Any, Extraction] | None
    chunker: Chunker
    language: str
    prompts: PromptPack
    concurrency: int
    reports: bool

    def extracting(self, history: Any = None) -> Runnable[Any, Extraction]:
        """The extractor, with a history of earlier chunks or without."""
        if self.extractor is not None:
            return self.extractor
        if self.llm is None:
            from rag_transformers.phrases import PhraseExtractor, offline_language

            return PhraseExtractor(language=offline_language(self.language))
        from rag_transformers.extraction import GraphExtractor

        return GraphExtractor(self.llm, history, **self._spoken())

    @property
    def offline(self) -> bool:
        """Whether chunks are read without a model, by the offline extractor."""
        return self.llm is None and self.extractor is None

    def stages(self) -> Stages:
        """What the stages of a change are done with."""
        summarizer, writer = self._summarizer(), ReportWriter(self.llm if self.reports else None, **self._spoken())
        return Stages(
            chunker=self.chunker,
            extractor=self.extracting,
            summarizer=summarizer,
            writer=writer,
            with_model=self.llm is not None,
            offline=self.offline,
            name=text_key(model_key(summarizer), model_key(writer)),
        )

    def _summarizer(self) -> Runnable[Any, Any]:
        from rag_transformers.summaries.summarising import ExtractiveSummarizeExtractor, SummarizeExtractor

        if self.llm is None:
            return ExtractiveSummarizeExtractor(**self._spoken())
        return SummarizeExtractor(self.llm, **self._spoken())

    def _spoken(self) -> dict[str, Any]:
        """What all stages have in common."""
        return {"language": self.language, "counter": self.chunker.counter, "prompts": self.prompts}


class Changes:
    """What changes an index: each waits for the one before, and begins with the last finished state.

    Args:
        folder: The index's folder.
        settings: What it is worked on with.
        searcher: What finds chunks; it is brought up to date.
        current: The graph of the last finished state; that of the next is handed to it.
    """

    def __init__(self, folder: "IndexFolder", settings: Settings, searcher: Searcher, current: CurrentGraph) -> None:
        self._folder = folder
        self._settings = settings
        self._searcher = searcher
        self._current = current
        self._writing = asyncio.Lock()  # of the library's own loop, on which all writing is done

    def plan(self, given: Sequence[Document], sync: Paths) -> IndexPlan:
        """What :meth:`add` would take; nothing is asked, and nothing stored."""
        exists, chunker = self._folder.exists, self._settings.chunker
        records, made = (self._folder.records, self._folder.made) if exists else (None, None)
        extractor, run, offline = self._settings.extracting(), Run(self._settings.concurrency), self._settings.offline
        work = Ingestion(made, records, chunker, extractor, run, offline=offline)
        work.leave(given)
        fresh, _, _ = work.fresh(given)
        sources = {document.metadata["source"] for document in fresh}
        unchanged = [document for document in given if document.metadata["source"] not in sources]
        chunks = [chunk for document in fresh for chunk in chunker.split(document)] + work.pending(unchanged)
        asked = work.unknown(chunks)
        removed = len(self._gone(given, sync)) if exists else 0
        found = len(chunks) - len(asked)
        return IndexPlan(len(given), len(unchanged), len(asked), *self._cost(asked), found=found, removed=removed)

    def doubles(self, given: Sequence[Document], sync: Paths) -> dict[str, str]:
        """By the source of each new document whose content is held under another, that other source."""
        held = self._folder.records.fingerprints() if self._folder.exists else {}
        gone = set(self._gone(given, sync)) if held else set()
        named = {content: source for source, content in reversed(held.items()) if source not in gone}
        new = [document for document in given if document.metadata["source"] not in held]
        contents = {each.metadata["source"]: document_key(each, self._settings.chunker) for each in new}
        return {source: named[content] for source, content in contents.items() if content in named}

    async def add(self, given: list[Document], sync: Paths, on_progress: Told) -> IndexReport:
        """Read documents; what is gone from the files and folders of ``sync`` is taken out."""
        self._settings.extracting()  # what is wrong with it is said before a folder is made
        async with self._alone():
            with self._folder.locked():
                made_now = await asyncio.to_thread(self._folder.create)
                try:
                    with self._changing(on_progress) as change:
                        await change.add(given, await asyncio.to_thread(self._gone, given, sync))
                        await change.derive()
                        return await self._finished(change)
                except Exception:
                    if made_now and not await asyncio.to_thread(self._holds_anything):
                        await asyncio.to_thread(self._folder.discard)
                    raise

    async def delete(self, sources: Sequence[str]) -> tuple[bool, IndexReport]:
        """Take documents out; whether all were there, and what was done."""
        _ = self._folder.known
        async with self._alone():
            with self._folder.locked(), self._changing() as change:
                there = await asyncio.to_thread(self._folder.records.fingerprints)
                held = [source for source in map(encodable, sources) if source in there]
                await change.remove(held)
                if held:
                    await change.derive()
                return len(held) == len(sources), await self._finished(change)

    async def rebuild(self, on_progress: Told) -> IndexReport:
        """Find the communities as if the index were new."""
        _ = self._folder.known
        async with self._alone():
            with self._folder.locked(), self._changing(on_progress) as change:
                await change.remove(())
                await change.derive(anew=True)
                return await self._finished(change)

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One change at a time; one within another, such as in an extractor of one's own, would wait for ever."""
        if _changed.get() is self:
            raise UsageError("the index is being changed here: it cannot be changed within an extractor or a model")
        async with self._writing:
            token = _changed.set(self)
            try:
                yield
            finally:
                _changed.reset(token)

    @contextlib.contextmanager
    def _changing(self, on_progress: Told = None) -> Iterator[Change]:
        """A change that begins with the last finished state."""
        run, stages = Run(self._settings.concurrency), self._settings.stages()
        with self._folder.records.draft() as draft, run.active():
            try:
                yield Change(self._folder, draft, stages, self._searcher, run, self._current.folded, on_progress)
            except BaseException:
                run.stop(ModelError("the change was stopped"))  # what is still waiting for its turn is not asked
                raise

    async def _finished(self, change: Change) -> IndexReport:
        report = await asyncio.to_thread(change.report)
        if await asyncio.to_thread(lambda: change.is_needed):
            await change.finish()
            if change.folded:
                self._current.take(self._folder.records.generation(), change.folded)
        else:
            await change.settle()
        return report

    def _gone(self, given: Sequence[Document], sync: Paths) -> list[str]:
        """The sources of documents that are no longer in the files and folders that they came from."""
        places = [sync] if isinstance(sync, str | Path) else list(sync)
        there = {document.metadata["source"] for document in given}
        held = self._folder.records.fingerprints() if places else ()
        return [source for source in sources_under(places, held) if source not in there]

    def _holds_anything(self) -> bool:
        """Whether a folder that was just made holds anything that was paid for."""
        counts = self._folder.made.counts()
        return self._folder.records.generation() > 0 or counts["extractions"] + counts["values"] > 0

    def _cost(self, chunks: Sequence[Document]) -> tuple[int, int]:
        """Model calls for the extraction of chunks, and the tokens of their prompts."""
        extractor = self._settings.extracting()
        if not isinstance(extractor, LLMExtractor):
            return 0, 0
        tokens = [extractor.prompt_tokens(chunk) for chunk in chunks]
        return sum(count > 0 for count in tokens), sum(tokens)
