"""The whole: documents in, a graph and cited answers out; what is stored, and what is derived from it.

Extractions are the truth. Each is stored as soon as its reply is read, under the hash of what it was made from; the
graph is the fold of them in reading order. So it never depends on which call finished first, adding a document twice
changes nothing, and a run that was killed goes on where it stopped.
"""

import asyncio
import dataclasses
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from langchain_core.documents import Document
from langchain_core.runnables import Runnable

from rag_transformers.answers.asker import Asker
from rag_transformers.answers.querying import Answer
from rag_transformers.answers.report_selection import full_text
from rag_transformers.chunking import Chunker, source_of
from rag_transformers.communities import Community, CommunityDetector
from rag_transformers.concurrency import Run, arun, arun_stream, run, run_stream
from rag_transformers.documents import load_documents
from rag_transformers.errors import UsageError, check_count
from rag_transformers.extraction.llm_extractor import LLMExtractor
from rag_transformers.graph import Extraction
from rag_transformers.indexing.deriving import Described, Making, describe, descriptions_of, to_describe
from rag_transformers.indexing.ingestion import Failure, IndexPlan, IndexReport, Ingestion, Progress, forget
from rag_transformers.indexing.reporting import Reported, communities_of, find_communities, reports_of, write_reports
from rag_transformers.models import optional_llm
from rag_transformers.prompts import languages
from rag_transformers.reports.form import Report
from rag_transformers.reports.writer import ReportWriter
from rag_transformers.retrieval.searching import Searcher, plain_chunk
from rag_transformers.stores import MemoryGraph
from rag_transformers.stores.folder import IndexFolder
from rag_transformers.text import encodable

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

__all__ = ["Failure", "GraphIndex", "IndexPlan", "IndexReport", "Progress"]

A = TypeVar("A")
B = TypeVar("B")
Documents = str | Path | Document | Iterable[str | Path | Document]


class GraphIndex:
    """A folder with documents, the graph made of them, and what answers questions from both.

    Open one with :meth:`open`. With no model everything works offline; with one, only the stages change, never what is
    stored. One object may be used from several threads and event loops.
    """

    def __init__(
        self,
        folder: IndexFolder,
        *,
        llm: Runnable[Any, Any] | None,
        extractor: Runnable[Any, Extraction] | None,
        chunker: Chunker,
        language: str,
        concurrency: int,
        max_context_tokens: int,
        reports: bool,
    ) -> None:
        self._folder = folder
        self._llm = llm
        self._extractor = extractor
        self._chunker = chunker
        self._language = language
        self._concurrency = concurrency
        self._writing = asyncio.Lock()  # of the library's own loop, on which all writing is done
        self._folding = threading.Lock()
        self._graph = MemoryGraph()
        self._folded: list[tuple[str, str]] = []
        self._described = -1  # the generation whose descriptions the graph has
        self._searcher = Searcher(folder)
        self._reports = reports
        self._asker = Asker(
            folder,
            self._searcher,
            lambda: self.graph,
            llm=llm,
            counter=chunker.counter,
            language=language,
            max_context_tokens=max_context_tokens,
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        llm: Runnable[Any, Any] | None = None,
        embeddings: "Embeddings | None" = None,
        extractor: Runnable[Any, Extraction] | None = None,
        language: str = "auto",
        *,
        chunker: Chunker | None = None,
        concurrency: int = 16,
        embedding_batch_size: int = 128,
        max_context_tokens: int = 6000,
        reports: bool = True,
        client: Any = None,
        llm_client: Runnable[Any, Any] | None = None,
        llm_invoker: Runnable[Any, Any] | None = None,
    ) -> Self:
        """Open the index of a folder; a new one is made at the first :meth:`add`.

        Args:
            path: The folder.
            llm: A chat model, or any Runnable in its place; none: everything works offline.
            embeddings: Any LangChain embeddings; the offline default where none are given, with a model too.
            extractor: Any Runnable from a chunk to an :class:`Extraction`; by default ``GraphExtractor`` with a model
                and ``PhraseExtractor`` without.
            language: ``auto`` (by the script of each text), or one of ``rag_transformers.prompts.languages()``.
            chunker: Cuts documents; ``Chunker()`` by default.
            concurrency: Model calls in flight, over all stages, at least 1.
            embedding_batch_size: Texts in one request to the embeddings, at least 1.
            max_context_tokens: Tokens of passages that a model gets with a question, at least 1.
            reports: Whether the model writes the reports on communities; without, they are written offline.
            client: Your own Chroma client, where one is open on the folder already.
            llm_client: Another name for ``llm``.
            llm_invoker: Another name for ``llm``.

        Raises:
            UsageError: A wrong argument, or a path that is no folder for an index.
            IndexMismatchError: The index was made with other embeddings, or by a newer version.
            IndexDamagedError: A file of it cannot be read.

        >>> import tempfile
        >>> from langchain_core.documents import Document
        >>> with tempfile.TemporaryDirectory() as folder, GraphIndex.open(folder) as index:
        ...     report = index.add([Document("Ada Moss founded Grain Trust.", metadata={"source": "note"})])
        ...     answer = index.query("Who founded Grain Trust?")
        >>> answer.text
        'Ada Moss founded Grain Trust. [1]'
        """
        Run(concurrency)
        check_count("max_context_tokens", max_context_tokens)
        if language != "auto" and language not in languages():
            raise UsageError(f"language is {language!r}; it must be auto or one of {', '.join(languages())}")
        llm = optional_llm("GraphIndex.open", llm, {"llm_client": llm_client, "llm_invoker": llm_invoker})
        if extractor is not None and not isinstance(extractor, Runnable):
            kind = type(extractor).__name__
            raise UsageError(f"extractor is a {kind}; give a Runnable: RunnableLambda makes one of a function")
        if embeddings is None:
            from rag_transformers.embeddings import default_embeddings

            embeddings = default_embeddings()
        folder = IndexFolder(Path(path), embeddings, language, embedding_batch_size, client)
        return cls(
            folder,
            llm=llm,
            extractor=extractor,
            chunker=chunker or Chunker(),
            language=language,
            concurrency=concurrency,
            max_context_tokens=max_context_tokens,
            reports=reports,
        )

    # Adding

    def add(self, documents: Documents, *, on_progress: Callable[[Progress], None] | None = None) -> IndexReport:
        """Read documents into the index; what it holds already, unchanged, is passed over.

        A document is known by ``metadata["source"]``, and its content by a hash. A chunk that fails is reported, and
        asked again at the next ``add``; the others are stored as they come.

        Args:
            documents: Documents, or paths of files and folders, one or many.
            on_progress: Called as work is done, from another thread.

        Raises:
            UsageError: No documents, or two different ones of the same source.
            IndexMismatchError: The embeddings are not those that the index was made with.
            ModelUnreachableError: The model could not be reached for a single chunk.
        """
        return run(self._add(documents, on_progress))

    async def aadd(self, documents: Documents, *, on_progress: Callable[[Progress], None] | None = None) -> IndexReport:
        """Read documents into the index; see :meth:`add`."""
        return await arun(self._add(documents, on_progress))

    def plan(self, documents: Documents) -> IndexPlan:
        """What an :meth:`add` of these documents would take; nothing is asked, and nothing stored.

        Args:
            documents: As for :meth:`add`.
        """
        given = _documents(documents)
        work = Ingestion(self._folder, self._chunker, self._extracting(history=False), Run(self._concurrency))
        fresh, _, _ = work.fresh(given)
        unchanged = [document for document in given if document not in fresh]
        chunks = [chunk for document in fresh for chunk in self._chunker.split(document)]
        if self._folder.exists:
            chunks += work.pending(unchanged)
        asked = work.unknown(chunks)
        return IndexPlan(len(given), len(unchanged), len(asked), *self._cost(asked))

    def delete(self, source: str) -> bool:
        """Remove a document with all that was made of it.

        Args:
            source: The document's ``metadata["source"]``.

        Returns:
            Whether the index held it.

        Raises:
            NoIndexError: There is no index yet.
        """
        return run(self._delete(source))

    async def adelete(self, source: str) -> bool:
        """Remove a document; see :meth:`delete`."""
        return await arun(self._delete(source))

    def chunks(self) -> list[Document]:
        """All chunks, in reading order, each with its document and its place in it.

        Raises:
            NoIndexError: There is no index yet.
        """
        return [plain_chunk(chunk) for chunk in self._folder.database.chunks()]

    # Asking

    def retrieve(self, question: str, k: int = 10) -> list[Document]:
        """The chunks that suit a question best, best first, with ``metadata["source"]`` and ``metadata["score"]``.

        Args:
            question: Not empty.
            k: How many at most, at least 1.

        Raises:
            UsageError: An empty question.
            NoIndexError: There is no index yet.
        """
        return run(self._asker.passages(question, k))

    async def aretrieve(self, question: str, k: int = 10) -> list[Document]:
        """The chunks that suit a question best; see :meth:`retrieve`."""
        return await arun(self._asker.passages(question, k))

    def query(self, question: str, mode: str = "auto", k: int = 10) -> Answer:
        """Answer a question from what the index holds, with citations.

        Args:
            question: Not empty.
            mode: ``local``, from the best chunks and what of the graph goes with them; ``global``, from the reports of
                communities; ``auto`` decides by the question, and the answer says how.
            k: Chunks to answer from, at least 1.

        Raises:
            UsageError: An empty question, or an unknown mode.
            NoIndexError: There is no index yet.
            ModelError: The model failed.
        """
        return run(self._query(question, mode, k))

    async def aquery(self, question: str, mode: str = "auto", k: int = 10) -> Answer:
        """Answer a question from what the index holds; see :meth:`query`."""
        return await arun(self._query(question, mode, k))

    def stream(self, question: str, mode: str = "auto", k: int = 10) -> Iterator[str | Answer]:
        """The text of an answer piece by piece as it is written, and the answer as the last item; see :meth:`query`."""
        return run_stream(self._streamed(question, mode, k))

    def astream(self, question: str, mode: str = "auto", k: int = 10) -> AsyncIterator[str | Answer]:
        """The text of an answer piece by piece; see :meth:`stream`."""
        return arun_stream(self._streamed(question, mode, k))

    @property
    def graph(self) -> MemoryGraph:
        """The graph: the fold of all extractions in reading order.

        Raises:
            NoIndexError: There is no index yet.
        """
        with self._folding:
            database = self._folder.database
            order = database.extraction_order()
            if order[: len(self._folded)] != self._folded:
                self._graph, self._folded = MemoryGraph(), []
            new = order[len(self._folded) :]
            found = database.extractions({key: None for _, key in new})
            for id, key in new:
                self._graph.add(found[key], id)
            self._folded = order
            if new or self._described != self._folder.known.generation:
                self._graph.summarise(descriptions_of(database))
                self._described = self._folder.known.generation
            return self._graph

    def stats(self) -> dict[str, Any]:
        """What the index holds, and what it was made with.

        Raises:
            NoIndexError: There is no index yet.
        """
        known, graph = self._folder.known, self.graph
        counts = self._folder.database.counts()
        return {
            **counts,
            "vertices": graph.vertex_count,
            "edges": graph.edge_count,
            "communities": len(self.communities),
            "reports": len(self.reports),
            "embeddings": known.embeddings,
            "language": known.language,
            "generation": known.generation,
            "format": known.format,
        }

    async def astats(self) -> dict[str, Any]:
        """What the index holds; see :meth:`stats`."""
        return await asyncio.to_thread(self.stats)

    @property
    def communities(self) -> tuple[Community, ...]:
        """The communities of the graph, those of the coarsest level first.

        Raises:
            NoIndexError: There is no index yet.
        """
        return communities_of(self._folder.database)

    @property
    def reports(self) -> tuple[Report, ...]:
        """The reports on the communities, in the order of those.

        Raises:
            NoIndexError: There is no index yet.
        """
        written = reports_of(self._folder.database)
        return tuple(written[community.id] for community in self.communities if community.id in written)

    def rebuild(self, *, on_progress: Callable[[Progress], None] | None = None) -> IndexReport:
        """Find the communities as if the index were new, and write the reports that this asks for.

        After adding and deleting, communities start from those that were there, so that few reports change. This makes
        them equal to those of a new index of the same documents.

        Args:
            on_progress: Called as work is done, from another thread.

        Raises:
            NoIndexError: There is no index yet.
        """
        return run(self._rebuild(on_progress))

    async def arebuild(self, *, on_progress: Callable[[Progress], None] | None = None) -> IndexReport:
        """Find the communities as if the index were new; see :meth:`rebuild`."""
        return await arun(self._rebuild(on_progress))

    def close(self) -> None:
        """Give all files of the folder back, so that it may be moved or deleted."""
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # How it is done

    async def _add(self, documents: Documents, on_progress: Callable[[Progress], None] | None) -> IndexReport:
        started = time.perf_counter()
        given = await asyncio.to_thread(_documents, documents)
        async with self._writing:
            self._extracting(history=False)  # what is wrong with it is said before a folder is made
            made_now = await asyncio.to_thread(self._folder.create)
            active = Run(self._concurrency)
            work = Ingestion(self._folder, self._chunker, self._extracting(), active, on_progress)
            with active.active():
                try:
                    fresh, _ = await _both(asyncio.to_thread(work.split, given), self._folder.check_embeddings())
                except BaseException:
                    if made_now:
                        await asyncio.to_thread(self._folder.discard)
                    raise
                await asyncio.to_thread(work.store, fresh)
                pending = await asyncio.to_thread(work.pending, given)
                if self._extractor is None:
                    await work.prepare_history(pending)
                (made, failed), size = await _both(work.extract(pending), self._make_searchable(work))
            if made == 0 and failed and active.stopped is not None:
                if made_now:
                    await asyncio.to_thread(self._folder.discard)
                raise active.stopped
            described, reported = await self._derive(work, active, on_progress)
            if fresh.records or pending or described.made or reported.made:
                with work.timed("names"):
                    await asyncio.to_thread(self._searcher.keep)
                await asyncio.to_thread(self._folder.changed, size)
            report = IndexReport(
                added=fresh.new,
                changed=fresh.changed,
                unchanged=len(given) - len(fresh.records),
                extracted=made,
                described=described.made,
                reported=reported.made,
                failed=(*failed, *described.failed, *reported.failed),
                usage=active.usage,
            )
            return await asyncio.to_thread(self._with_totals, report, work, started)

    async def _make_searchable(self, work: Ingestion) -> int:
        size = await work.make_searchable()
        if self._llm is not None or self._extractor is not None:  # the offline extractor's vertices are names already
            await asyncio.to_thread(self._searcher.prepare)
        return size

    def _with_totals(self, report: IndexReport, work: Ingestion, started: float) -> IndexReport:
        """A report with what the index holds now, and the time that everything took."""
        with work.timed("fold"):
            graph = self.graph
        counts = self._folder.database.counts()
        return dataclasses.replace(
            report,
            documents=counts["documents"],
            chunks=counts["chunks"],
            vertices=graph.vertex_count,
            edges=graph.edge_count,
            seconds={**work.seconds, "all": time.perf_counter() - started},
        )

    async def _delete(self, source: str) -> bool:
        async with self._writing:
            known = source in await asyncio.to_thread(self._folder.database.fingerprints)
            if known:
                active = Run(self._concurrency)
                work = Ingestion(self._folder, self._chunker, self._extracting(history=False), active)
                await asyncio.to_thread(forget, self._folder, [source])
                await asyncio.to_thread(self._folder.database.delete_documents, [source])
                described, reported = await self._derive(work, active)
                await asyncio.to_thread(self._folder.changed, self._folder.known.size)
                if failed := (*described.failed, *reported.failed):
                    warnings.warn(
                        f"{len(failed)} could not be made after deleting {source}, and will be asked for at the next "
                        f"add: {failed[0]}",
                        stacklevel=2,
                    )
            return known

    async def _rebuild(self, on_progress: Callable[[Progress], None] | None) -> IndexReport:
        started = time.perf_counter()
        async with self._writing:
            active = Run(self._concurrency)
            known = self._folder.known
            work = Ingestion(self._folder, self._chunker, self._extracting(history=False), active)
            described, reported = await self._derive(work, active, on_progress, anew=True)
            await asyncio.to_thread(self._folder.changed, known.size)
            report = IndexReport(
                described=described.made,
                reported=reported.made,
                failed=(*described.failed, *reported.failed),
                usage=active.usage,
            )
            return await asyncio.to_thread(self._with_totals, report, work, started)

    async def _derive(
        self,
        work: Ingestion,
        active: Run,
        on_progress: Callable[[Progress], None] | None = None,
        *,
        anew: bool = False,
    ) -> tuple[Described, Reported]:
        """Make what the graph asks for anew: one description of many, communities, and their reports."""
        if active.stopped is not None:
            return Described(), Reported()
        database = self._folder.database
        with active.active():
            with work.timed("describe"):
                making = Making(database, self._summarizer(), self._llm is not None, active, on_progress)
                wanted = await asyncio.to_thread(lambda: to_describe(self.graph, self._chunker.counter))
                described = await describe(making, wanted)
                self._described = -1
            with work.timed("communities"):
                graph = await asyncio.to_thread(getattr, self, "graph")
                detector = CommunityDetector()
                communities = await asyncio.to_thread(find_communities, database, detector, graph, anew=anew)
            with work.timed("report"):
                writer = ReportWriter(
                    self._llm if self._reports else None, self._language, counter=self._chunker.counter
                )
                reported = await write_reports(database, writer, graph, communities, active, on_progress)
                texts = [full_text(report) for report in reports_of(database).values()]
                await self._folder.embeddings.prepare(texts, self._folder.known.size)
        return described, reported

    def _summarizer(self) -> Runnable[Any, Any]:
        from rag_transformers.summaries.summarising import ExtractiveSummarizeExtractor, SummarizeExtractor

        options: dict[str, Any] = {"language": self._language, "counter": self._chunker.counter}
        if self._llm is None:
            return ExtractiveSummarizeExtractor(**options)
        return SummarizeExtractor(self._llm, **options)

    def _extracting(self, history: bool = True) -> Runnable[Any, Extraction]:
        if self._extractor is not None:
            return self._extractor
        if self._llm is None:
            from rag_transformers.phrases import PhraseExtractor

            return PhraseExtractor(language=self._language)
        from rag_transformers.extraction.graph_extractor import GraphExtractor

        earlier = self._folder.chunk_history() if history else None
        return GraphExtractor(self._llm, earlier, language=self._language, counter=self._chunker.counter)

    async def _query(self, question: str, mode: str, k: int) -> Answer:
        with Run(self._concurrency).active():
            return await self._asker.answer(question, mode, k)

    async def _streamed(self, question: str, mode: str, k: int) -> AsyncIterator[str | Answer]:
        with Run(self._concurrency).active():
            async for piece in self._asker.stream(question, mode, k):
                yield piece

    def _cost(self, chunks: Sequence[Document]) -> tuple[int, int]:
        """Model calls for the extraction of chunks, and the tokens of their prompts."""
        extractor = self._extracting(history=False)
        if not isinstance(extractor, LLMExtractor):
            return 0, 0
        tokens = [extractor.prompt_tokens(chunk) for chunk in chunks]
        return sum(count > 0 for count in tokens), sum(tokens)


async def _both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Two pieces of work at one time; if one fails, the other is stopped before the failure goes up."""
    tasks = (asyncio.ensure_future(first), asyncio.ensure_future(second))
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _documents(given: Documents) -> list[Document]:
    """The documents that were given, those of paths loaded; each with a source, and each source once."""
    if not isinstance(given, str | Path | Document | Iterable) or isinstance(given, bytes):
        raise UsageError(f"documents is {type(given).__name__}; give documents or paths, one or many")
    listed = [given] if isinstance(given, str | Path | Document) else list(given)
    for number, item in enumerate(listed):
        if not isinstance(item, str | Path | Document):
            raise UsageError(f"documents[{number}] is {type(item).__name__}; give a Document or a path")
    loaded: dict[str, Document] = {}
    for item in listed:
        for document in [item] if isinstance(item, Document) else load_documents(item):
            source = source_of(document)
            if source in loaded and loaded[source].page_content != document.page_content:
                raise UsageError(f"two different documents have the source {source!r}; give each its own")
            loaded[source] = Document(
                encodable(document.page_content), metadata={**document.metadata, "source": source}
            )
    if not loaded:
        raise UsageError("no documents were given")
    return list(loaded.values())
