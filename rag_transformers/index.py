"""The whole: documents in, a graph and cited answers out; what is stored, and what is derived from it.

Extractions are the truth. Each is stored as soon as its reply is read, under the hash of what it was made from; the
graph is the fold of them in reading order. So it never depends on which call finished first, adding a document twice
changes nothing, and a run that was killed goes on where it stopped.
"""

import asyncio
import contextlib
import contextvars
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.answers.asker import Asker
from rag_transformers.answers.querying import Answer
from rag_transformers.answers.voice import Voice
from rag_transformers.chunking import Chunker, source_of
from rag_transformers.communities import Community
from rag_transformers.concurrency import Run, arun, arun_stream, run, run_stream
from rag_transformers.documents import load_documents, sources_under
from rag_transformers.documents.given import as_given
from rag_transformers.documents.plain import plain_metadata
from rag_transformers.errors import ModelError, UsageError, check_count
from rag_transformers.extraction.llm_extractor import LLMExtractor
from rag_transformers.graph import Extraction
from rag_transformers.indexing.change import Change, Folded, Stages, folded
from rag_transformers.indexing.ingestion import Ingestion
from rag_transformers.indexing.outcomes import Failure, IndexPlan, IndexReport, Progress, StageReport
from rag_transformers.indexing.repair import RepairReport, repair
from rag_transformers.indexing.reporting import communities_of, reports_of
from rag_transformers.models import model_key, optional_llm
from rag_transformers.prompts import PromptPack, as_pack
from rag_transformers.reports import Report, ReportWriter
from rag_transformers.retrieval.searching import Searcher, plain_chunk
from rag_transformers.stores.folder import IndexFolder
from rag_transformers.stores.vectors import text_key
from rag_transformers.text import encodable
from rag_transformers.tracing import traced, traced_stream

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from rag_transformers.document_index import GraphDocumentIndex
    from rag_transformers.stores import MemoryGraph
    from rag_transformers.stores.own_stores import MakeStore
    from rag_transformers.tokens import TokenCounter

__all__ = ["Contents", "Failure", "GraphIndex", "IndexPlan", "IndexReport", "Progress", "RepairReport", "StageReport"]

_changed: contextvars.ContextVar["GraphIndex | None"] = contextvars.ContextVar("rag_transformers_index", default=None)

Documents = str | Path | Document | Iterable[str | Path | Document]
Paths = str | Path | Iterable[str | Path]


class Contents(NamedTuple):
    """What an index holds beside its documents, as of one state."""

    graph: "MemoryGraph"
    communities: tuple[Community, ...]
    reports: tuple[Report, ...]


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
        prompts: PromptPack,
    ) -> None:
        self._folder = folder
        self._llm = llm
        self._extractor = extractor
        self._chunker = chunker
        self._language = language
        self._prompts = prompts
        self._concurrency = concurrency
        self._writing = asyncio.Lock()  # of the library's own loop, on which all writing is done
        self._folding = threading.Lock()
        self._folded: tuple[int, Folded] | None = None  # the graph, and of which generation it is
        self._searcher = Searcher(folder)
        self._reports = reports
        self._asker = Asker(
            folder,
            self._searcher,
            lambda: self.graph,
            llm=llm,
            counter=chunker.counter,
            voice=Voice(language, prompts),
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
        vector_store: "MakeStore | None" = None,
        prompts: PromptPack | str | Path | None = None,
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
            language: ``auto`` (by the script of each text), or one of ``rag_transformers.prompts.languages(prompts)``.
            chunker: Cuts documents; ``Chunker()`` by default.
            concurrency: Model calls in flight, over all stages, at least 1.
            embedding_batch_size: Texts in one request to the embeddings, at least 1.
            max_context_tokens: Tokens of passages that a model gets with a question, at least 1.
            reports: Whether the model writes the reports on communities; without, they are written offline.
            client: Your own Chroma client, where one is open on the folder already.
            vector_store: Makes the vector stores, of any kind that LangChain knows, that take the place of Chroma's
                folder: from the name of a collection (``sentences``, ``history``) and the embeddings to a store.
            prompts: A folder of your own prompts, over the built-in ones; see
                :class:`rag_transformers.prompts.PromptPack`.
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
        pack = as_pack(prompts)
        pack.checked("", language)
        llm = optional_llm("GraphIndex.open", llm, {"llm_client": llm_client, "llm_invoker": llm_invoker})
        if extractor is not None and not isinstance(extractor, Runnable):
            kind = type(extractor).__name__
            raise UsageError(f"extractor is a {kind}; give a Runnable: RunnableLambda makes one of a function")
        given = embeddings or _default_embeddings()
        folder = IndexFolder(Path(path), given, language, embedding_batch_size, client, vector_store)
        return cls(
            folder,
            llm=llm,
            extractor=extractor,
            chunker=chunker or Chunker(),
            language=language,
            concurrency=concurrency,
            max_context_tokens=max_context_tokens,
            reports=reports,
            prompts=pack,
        )

    # Adding

    def add(
        self,
        documents: Documents,
        *,
        sync: Paths = (),
        on_progress: Callable[[Progress], None] | None = None,
        config: RunnableConfig | None = None,
    ) -> IndexReport:
        """Read documents into the index; what it holds already, unchanged, is passed over.

        A document is known by ``metadata["source"]``, and its content by a hash. What is paid for is stored as it
        comes; the documents are to be seen when all is done, at once. A chunk that fails is reported, and asked again
        at the next ``add``. Stopped at any moment, the next ``add`` goes on.

        Args:
            documents: Documents, or paths of files and folders, one or many.
            sync: Files and folders; what the index holds of them and is not among ``documents`` is taken out.
            on_progress: Called as work is done, from another thread.
            config: Callbacks, tags and the like; they see every model call under the stage that makes it.

        Raises:
            UsageError: No documents, or two different ones of the same source.
            IndexLockedError: Another process, or another object, writes to the index.
            IndexMismatchError: The embeddings are not those that the index was made with.
            IndexDamagedError: A file of the index has changed or is gone.
            ModelUnreachableError: The model could not be reached for a single chunk.
            StorageError: The disk is full, or the folder cannot be written.
        """
        return run(self._traced_add(documents, sync, on_progress, config))

    async def aadd(
        self,
        documents: Documents,
        *,
        sync: Paths = (),
        on_progress: Callable[[Progress], None] | None = None,
        config: RunnableConfig | None = None,
    ) -> IndexReport:
        """Read documents into the index; see :meth:`add`."""
        return await arun(self._traced_add(documents, sync, on_progress, config))

    def plan(self, documents: Documents, *, sync: Paths = ()) -> IndexPlan:
        """What an :meth:`add` of these documents would take; nothing is asked, and nothing stored.

        Args:
            documents: As for :meth:`add`.
            sync: As for :meth:`add`.
        """
        given = _documents(documents, may_be_empty=bool(sync))
        exists = self._folder.exists
        records, made = (self._folder.records, self._folder.made) if exists else (None, None)
        work = Ingestion(made, records, self._chunker, self._extracting(), Run(self._concurrency))
        fresh, _, _ = work.fresh(given)
        sources = {document.metadata["source"] for document in fresh}
        unchanged = [document for document in given if document.metadata["source"] not in sources]
        chunks = [chunk for document in fresh for chunk in self._chunker.split(document)] + work.pending(unchanged)
        asked = work.unknown(chunks)
        removed = len(self._gone(given, sync)) if exists else 0
        found = len(chunks) - len(asked)
        return IndexPlan(len(given), len(unchanged), len(asked), *self._cost(asked), found=found, removed=removed)

    def delete(self, source: str | Iterable[str], *, config: RunnableConfig | None = None) -> bool:
        """Remove a document with all that was made of it, or several.

        Args:
            source: The document's ``metadata["source"]``, or those of several.
            config: As for :meth:`add`: what held of others too is made anew.

        Returns:
            Whether the index held it, or all of them.

        Raises:
            NoIndexError: There is no index yet.
            IndexLockedError: Another process, or another object, writes to the index.
        """
        return _all_held(*run(self._traced_delete(source, config)))

    async def adelete(self, source: str | Iterable[str], *, config: RunnableConfig | None = None) -> bool:
        """Remove a document, or several; see :meth:`delete`."""
        return _all_held(*await arun(self._traced_delete(source, config)))

    def remove(self, sources: Iterable[str], *, config: RunnableConfig | None = None) -> IndexReport:
        """As :meth:`delete` for several documents, and say what was done; what the index does not hold is passed over.

        Args:
            sources: The documents' ``metadata["source"]``.
            config: As for :meth:`add`.
        """
        return run(self._traced_delete(sources, config))[1]

    async def aremove(self, sources: Iterable[str], *, config: RunnableConfig | None = None) -> IndexReport:
        """Remove documents, and say what was done; see :meth:`remove`."""
        return (await arun(self._traced_delete(sources, config)))[1]

    def sources(self) -> list[str]:
        """The sources of all documents, in reading order.

        Raises:
            NoIndexError: There is no index yet.
        """
        return list(self._folder.records.fingerprints())

    def chunks(self, ids: Iterable[str] | None = None) -> list[Document]:
        """The chunks, in reading order, each with its document and its place in it.

        Args:
            ids: Those of the chunks wanted, of which unknown ones are passed over; all by default.

        Raises:
            NoIndexError: There is no index yet.
        """
        return [plain_chunk(chunk) for chunk in self._folder.records.chunks(None if ids is None else list(ids))]

    def documents(self, sources: Iterable[str]) -> list[Document]:
        """Documents as they were given, put together from their chunks; of a blank one there is none.

        Args:
            sources: Their ``metadata["source"]``; those that the index does not hold are passed over.

        Raises:
            NoIndexError: There is no index yet.
        """
        return as_given(self._folder.records.chunks_of(list(sources)))

    def as_document_index(self, k: int = 10) -> "GraphDocumentIndex":
        """This index as LangChain's ``DocumentIndex``, for ``langchain_core.indexing.index`` and the like.

        Args:
            k: How many chunks it gives for a question, at least 1.
        """
        from rag_transformers.document_index import GraphDocumentIndex

        return GraphDocumentIndex(index=self, k=k)

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

    def query(self, question: str, mode: str = "auto", k: int = 10, *, config: RunnableConfig | None = None) -> Answer:
        """Answer a question from what the index holds, with citations.

        Args:
            question: Not empty.
            mode: ``local``, from the best chunks and what of the graph goes with them; ``global``, from the reports of
                communities; ``auto`` decides by the question, and the answer says how.
            k: Chunks to answer from, at least 1.
            config: Callbacks, tags and the like, for every model call.

        Raises:
            UsageError: An empty question, or an unknown mode.
            NoIndexError: There is no index yet.
            ModelError: The model failed.
        """
        return run(self._query(question, mode, k, config))

    async def aquery(
        self, question: str, mode: str = "auto", k: int = 10, *, config: RunnableConfig | None = None
    ) -> Answer:
        """Answer a question from what the index holds; see :meth:`query`."""
        return await arun(self._query(question, mode, k, config))

    def stream(
        self, question: str, mode: str = "auto", k: int = 10, *, config: RunnableConfig | None = None
    ) -> Iterator[str | Answer]:
        """The text of an answer piece by piece as it is written, and the answer as the last item; see :meth:`query`."""
        return run_stream(self._streamed(question, mode, k, config))

    def astream(
        self, question: str, mode: str = "auto", k: int = 10, *, config: RunnableConfig | None = None
    ) -> AsyncIterator[str | Answer]:
        """The text of an answer piece by piece; see :meth:`stream`."""
        return arun_stream(self._streamed(question, mode, k, config))

    @property
    def counter(self) -> "TokenCounter":
        """Counts tokens, for all limits of this index."""
        return self._chunker.counter

    @property
    def graph(self) -> "MemoryGraph":
        """The graph: the fold of all extractions in reading order, as of the last finished change.

        Raises:
            NoIndexError: There is no index yet.
        """
        generation = self._folder.records.generation()
        with self._folding:
            if self._folded is None or self._folded[0] != generation:
                previous = self._folded[1] if self._folded else None
                self._folded = self._folder.reading(
                    lambda records: (records.generation(), folded(records, self._folder.made, previous))
                )
            return self._folded[1].graph

    def stats(self) -> dict[str, Any]:
        """What the index holds, and what it was made with.

        Raises:
            NoIndexError: There is no index yet.
            IndexDamagedError: A file of it has changed or is gone.
        """
        known, graph, state = self._folder.known, self.graph, self._folder.state
        self._folder.stores.check(state.generation)
        return {
            **self._folder.records.counts(),
            "vertices": graph.vertex_count,
            "edges": graph.edge_count,
            "communities": len(self.communities),
            "reports": len(self.reports),
            "embeddings": known.embeddings,
            "language": known.language,
            "generation": state.generation,
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
        return self._folder.reading(lambda records: communities_of(records, self._folder.made))

    @property
    def reports(self) -> tuple[Report, ...]:
        """The reports on the communities, in the order of those.

        Raises:
            NoIndexError: There is no index yet.
        """
        made = self._folder.made
        written, communities = self._folder.reading(lambda now: (reports_of(now, made), communities_of(now, made)))
        return tuple(written[community.id] for community in communities if community.id in written)

    def contents(self) -> Contents:
        """The graph, the communities and the reports, all of one state, whatever is committed meanwhile.

        Raises:
            NoIndexError: There is no index yet.
        """
        while True:
            generation = self._folder.records.generation()
            found = Contents(self.graph, self.communities, self.reports)
            if self._folder.records.generation() == generation:
                return found

    def rebuild(
        self, *, on_progress: Callable[[Progress], None] | None = None, config: RunnableConfig | None = None
    ) -> IndexReport:
        """Find the communities as if the index were new, and write the reports that this asks for.

        After adding and deleting, communities start from those that were there, so that few reports change. This makes
        them equal to those of a new index of the same documents.

        Args:
            on_progress: Called as work is done, from another thread.
            config: As for :meth:`add`.

        Raises:
            NoIndexError: There is no index yet.
        """
        return run(traced("GraphIndex.rebuild", lambda: self._rebuild(on_progress), {}, config))

    async def arebuild(
        self, *, on_progress: Callable[[Progress], None] | None = None, config: RunnableConfig | None = None
    ) -> IndexReport:
        """Find the communities as if the index were new; see :meth:`rebuild`."""
        return await arun(traced("GraphIndex.rebuild", lambda: self._rebuild(on_progress), {}, config))

    @staticmethod
    def repair(path: str | Path, embeddings: "Embeddings | None" = None) -> RepairReport:
        """Check the databases of an index, and make its search structure, and a lost manifest, anew from the records.

        Args:
            path: The folder.
            embeddings: Those that the index was made with; they are asked only for vectors that were lost.

        Raises:
            NoIndexError: There is no index.
            IndexDamagedError: A database is broken beyond repair; nothing was changed.
            IndexLockedError: Another process writes to the index.
            IndexMismatchError: The index was made with other embeddings, or by another version.
        """
        given = embeddings or _default_embeddings()
        return repair(Path(path), lambda: IndexFolder(Path(path), given))

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

    async def _traced_add(
        self,
        documents: Documents,
        sync: Paths,
        on_progress: Callable[[Progress], None] | None,
        config: RunnableConfig | None,
    ) -> IndexReport:
        given = await asyncio.to_thread(_documents, documents, bool(sync))
        told = {"sources": [document.metadata["source"] for document in given]}
        return await traced("GraphIndex.add", lambda: self._add(given, sync, on_progress), told, config)

    async def _traced_delete(
        self, source: str | Iterable[str], config: RunnableConfig | None
    ) -> tuple[bool, IndexReport]:
        sources = list(dict.fromkeys([source] if isinstance(source, str) else source))
        return await traced("GraphIndex.delete", lambda: self._delete(sources), {"sources": sources}, config)

    async def _add(
        self, given: list[Document], sync: Paths, on_progress: Callable[[Progress], None] | None
    ) -> IndexReport:
        self._extracting()  # what is wrong with it is said before a folder is made
        async with self._alone():
            with self._folder.locked():
                made_now = await asyncio.to_thread(self._folder.create)
                try:
                    return await self._added(given, sync, on_progress)
                except Exception:
                    if made_now and not await asyncio.to_thread(self._holds_anything):
                        await asyncio.to_thread(self._folder.discard)
                    raise

    async def _added(
        self, given: list[Document], sync: Paths, on_progress: Callable[[Progress], None] | None
    ) -> IndexReport:
        with self._changing(on_progress) as change:
            await change.add(given, await asyncio.to_thread(self._gone, given, sync))
            await change.derive()
            return await self._finished(change)

    async def _delete(self, sources: list[str]) -> tuple[bool, IndexReport]:
        """Whether all were held, and what was done."""
        known = set(await asyncio.to_thread(self.sources))
        held = [each for each in sources if each in known]
        async with self._alone():
            with self._folder.locked(), self._changing() as change:
                await change.remove(held)
                await change.derive()
                return len(held) == len(sources), await self._finished(change)

    async def _rebuild(self, on_progress: Callable[[Progress], None] | None) -> IndexReport:
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
    def _changing(self, on_progress: Callable[[Progress], None] | None = None) -> Iterator[Change]:
        """A change that begins with the last finished state."""
        active = Run(self._concurrency)
        with self._folder.records.draft() as draft, active.active():
            previous = self._folded[1] if self._folded else None
            try:
                yield Change(self._folder, draft, self._stages(), self._searcher, active, previous, on_progress)
            except BaseException:
                active.stop(ModelError("the change was stopped"))  # what is still waiting for its turn is not asked
                raise

    async def _finished(self, change: Change) -> IndexReport:
        report = await asyncio.to_thread(change.report)
        if await asyncio.to_thread(lambda: change.is_needed):
            await change.finish()
            if change.folded:
                with self._folding:
                    self._folded = self._folder.records.generation(), change.folded
        else:
            await change.settle()
        return report

    def _gone(self, given: Sequence[Document], sync: Paths) -> list[str]:
        """The sources of documents that are no longer in the files and folders that they came from."""
        places = [sync] if isinstance(sync, str | Path) else list(sync)
        there = {document.metadata["source"] for document in given}
        return [source for source in sources_under(places, self.sources()) if source not in there]

    def _holds_anything(self) -> bool:
        """Whether a folder that was just made holds anything that was paid for."""
        counts = self._folder.made.counts()
        return self._folder.records.generation() > 0 or counts["extractions"] + counts["values"] > 0

    def _stages(self) -> Stages:
        offline = self._llm is None and self._extractor is None
        return Stages(
            chunker=self._chunker,
            extractor=self._extracting,
            summarizer=self._summarizer(),
            writer=ReportWriter(self._llm if self._reports else None, **self._spoken()),
            with_model=self._llm is not None,
            names_ahead=not offline,  # the offline extractor's vertices are names already
            name=text_key(model_key(self._llm), str(self._reports), self._language, *filter(None, [self._prompts.key])),
        )

    def _spoken(self) -> dict[str, Any]:
        """What all stages have in common."""
        return {"language": self._language, "counter": self._chunker.counter, "prompts": self._prompts}

    def _summarizer(self) -> Runnable[Any, Any]:
        from rag_transformers.summaries.summarising import ExtractiveSummarizeExtractor, SummarizeExtractor

        if self._llm is None:
            return ExtractiveSummarizeExtractor(**self._spoken())
        return SummarizeExtractor(self._llm, **self._spoken())

    def _extracting(self, history: Any = None) -> Runnable[Any, Extraction]:
        if self._extractor is not None:
            return self._extractor
        if self._llm is None:
            from rag_transformers.phrases import PhraseExtractor, offline_language

            return PhraseExtractor(language=offline_language(self._language))
        from rag_transformers.extraction import GraphExtractor

        return GraphExtractor(self._llm, history, **self._spoken())

    async def _query(self, question: str, mode: str, k: int, config: RunnableConfig | None) -> Answer:
        with Run(self._concurrency).active():
            return await traced(
                "GraphIndex.query", lambda: self._asker.answer(question, mode, k), {"question": question}, config
            )

    async def _streamed(
        self, question: str, mode: str, k: int, config: RunnableConfig | None
    ) -> AsyncIterator[str | Answer]:
        def pieces() -> AsyncIterator[str | Answer]:
            return self._asker.stream(question, mode, k)

        with Run(self._concurrency).active():
            async for piece in traced_stream("GraphIndex.stream", pieces, {"question": question}, config):
                yield piece

    def _cost(self, chunks: Sequence[Document]) -> tuple[int, int]:
        """Model calls for the extraction of chunks, and the tokens of their prompts."""
        extractor = self._extracting()
        if not isinstance(extractor, LLMExtractor):
            return 0, 0
        tokens = [extractor.prompt_tokens(chunk) for chunk in chunks]
        return sum(count > 0 for count in tokens), sum(tokens)


def _default_embeddings() -> "Embeddings":
    from rag_transformers.embeddings import default_embeddings

    return default_embeddings()


def _all_held(held: bool, report: IndexReport) -> bool:
    """Whether all that was to be deleted was there; a warning tells what could not be made of the rest."""
    if report.failed:
        told = f"{len(report.failed)} could not be made, and will be asked for at the next add: {report.failed[0]}"
        warnings.warn(f"after deleting, {told}", stacklevel=3)
    return held


def _documents(given: Documents, may_be_empty: bool = False) -> list[Document]:
    """The documents that were given, those of paths loaded; each with a source, and each source once."""
    if not isinstance(given, str | Path | Document | Iterable) or isinstance(given, bytes):
        raise UsageError(f"documents is {type(given).__name__}; give documents or paths, one or many")
    listed = [given] if isinstance(given, str | Path | Document) else list(given)
    for number, item in enumerate(listed):
        if not isinstance(item, str | Path | Document):
            raise UsageError(f"documents[{number}] is {type(item).__name__}; give a Document or a path")
    loaded: dict[str, Document] = {}
    for item in listed:
        for document in [item] if isinstance(item, Document) else load_documents(item, may_be_empty=may_be_empty):
            source = source_of(document)
            if source in loaded and loaded[source].page_content != document.page_content:
                raise UsageError(f"two different documents have the source {source!r}; give each its own")
            source = encodable(source)
            metadata = plain_metadata(source, {**document.metadata, "source": source})
            loaded[source] = Document(encodable(document.page_content), metadata=metadata)
    if not loaded and not may_be_empty:
        raise UsageError("no documents were given")
    return list(loaded.values())
