"""The whole: documents in, a graph and cited answers out; what is stored, and what is derived from it.

Extractions are the truth. Each is stored as soon as its reply is read, under the hash of what it was made from; the
graph is the fold of them in reading order. So it never depends on which call finished first, adding a document twice
changes nothing, and a run that was killed goes on where it stopped.
"""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.answers.asker import Asker
from rag_transformers.answers.querying import Answer
from rag_transformers.answers.voice import Voice
from rag_transformers.chunking import Chunker
from rag_transformers.communities import Community
from rag_transformers.concurrency import arun, arun_stream, run, run_stream
from rag_transformers.documents.given import as_given
from rag_transformers.documents.ids import given_ids
from rag_transformers.documents.inputs import Documents, Paths, given_documents
from rag_transformers.errors import UsageError, check_count
from rag_transformers.graph import Extraction
from rag_transformers.indexing.changes import Changes, Settings
from rag_transformers.indexing.fold import CurrentGraph
from rag_transformers.indexing.outcomes import Failure, IndexPlan, IndexReport, Progress, StageReport
from rag_transformers.indexing.repair import RepairReport, repair
from rag_transformers.indexing.reporting import communities_of, reports_of
from rag_transformers.models.given import optional_llm
from rag_transformers.models.run import Run
from rag_transformers.prompts import PromptPack, as_pack
from rag_transformers.reports import Report
from rag_transformers.retrieval.searching import Searcher, plain_chunk
from rag_transformers.stores.folder import IndexFolder
from rag_transformers.tracing import traced, traced_stream

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from rag_transformers.document_index import GraphDocumentIndex
    from rag_transformers.stores import MemoryGraph
    from rag_transformers.stores.own_stores import MakeStore
    from rag_transformers.tokens import TokenCounter

__all__ = ["Contents", "Failure", "GraphIndex", "IndexPlan", "IndexReport", "Progress", "RepairReport", "StageReport"]


class Contents(NamedTuple):
    """What an index holds beside its documents, as of one state."""

    graph: "MemoryGraph"
    communities: tuple[Community, ...]
    reports: tuple[Report, ...]


class GraphIndex:
    """A folder with documents, the graph made of them, and what answers questions from both.

    Open one with :meth:`open`. With no model everything works offline; with one, the same stages ask it, and what is
    stored stays. One object may be used from several threads and event loops.
    """

    def __init__(self, folder: IndexFolder, settings: Settings, max_context_tokens: int) -> None:
        self._folder = folder
        self._settings = settings
        self._current = CurrentGraph(folder)
        searcher = Searcher(folder)
        self._changes = Changes(folder, settings, searcher, self._current)
        self._asker = Asker(
            folder,
            searcher,
            self._current.graph,
            llm=settings.llm,
            counter=lambda text: settings.chunker.counter(text),  # looked for when something is counted
            voice=Voice(settings.language, settings.prompts),
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
        place, make = _checked_path(path), _checked_maker(vector_store)
        given = embeddings or _default_embeddings()
        folder = IndexFolder(place, given, language, embedding_batch_size, client, make)
        settings = Settings(llm, extractor, chunker or Chunker(), language, pack, concurrency, reports)
        return cls(folder, settings, max_context_tokens)

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
        sync = _places(sync)
        return self._changes.plan(_given(documents, bool(sync)), sync)

    def doubles(self, documents: Documents, *, sync: Paths = ()) -> dict[str, str]:
        """The documents that are new to the index and say what one of it says, which has another source.

        Most often that is one folder named in two ways. An :meth:`add` would keep both.

        Args:
            documents: As for :meth:`add`.
            sync: As for :meth:`add`; what it takes out is no double.

        Returns:
            By the source of each, that of the document in the index.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, GraphIndex.open(folder) as index:
        ...     report = index.add(Document("Ada Moss left.", metadata={"source": "a.txt"}))
        ...     index.doubles(Document("Ada Moss left.", metadata={"source": "/letters/a.txt"}))
        {'/letters/a.txt': 'a.txt'}
        """
        sync = _places(sync)
        return self._changes.doubles(_given(documents, bool(sync)), sync)

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
        return _all_held(*run(self._traced_delete("source", source, config)))

    async def adelete(self, source: str | Iterable[str], *, config: RunnableConfig | None = None) -> bool:
        """Remove a document, or several; see :meth:`delete`."""
        return _all_held(*await arun(self._traced_delete("source", source, config)))

    def remove(self, sources: str | Iterable[str], *, config: RunnableConfig | None = None) -> IndexReport:
        """As :meth:`delete` for several documents, and say what was done; what the index does not hold is passed over.

        Args:
            sources: The documents' ``metadata["source"]``; a text is one source.
            config: As for :meth:`add`.
        """
        return run(self._traced_delete("sources", sources, config))[1]

    async def aremove(self, sources: str | Iterable[str], *, config: RunnableConfig | None = None) -> IndexReport:
        """Remove documents, and say what was done; see :meth:`remove`."""
        return (await arun(self._traced_delete("sources", sources, config)))[1]

    def sources(self) -> list[str]:
        """The sources of all documents, in reading order.

        Raises:
            NoIndexError: There is no index yet.
        """
        return list(self._folder.records.fingerprints())

    def chunks(self, ids: str | Iterable[str] | None = None) -> list[Document]:
        """The chunks, in reading order, each with its document and its place in it.

        Args:
            ids: Those of the chunks wanted, of which unknown ones are passed over; a text is one id. All by default.

        Raises:
            UsageError: Something else than ids.
            NoIndexError: There is no index yet.
        """
        wanted = None if ids is None else given_ids("ids", ids)
        return [plain_chunk(chunk) for chunk in self._folder.records.chunks(wanted)]

    def documents(self, sources: str | Iterable[str]) -> list[Document]:
        """Documents as they were given, put together from their chunks; of a blank one there is none.

        Args:
            sources: Their ``metadata["source"]``, a text being one; those that the index does not hold are passed over.

        Raises:
            UsageError: Something else than sources.
            NoIndexError: There is no index yet.
        """
        return as_given(self._folder.records.chunks_of(given_ids("sources", sources)))

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
        return self._settings.chunker.counter

    @property
    def graph(self) -> "MemoryGraph":
        """The graph: the fold of all extractions in reading order, as of the last finished change.

        Raises:
            NoIndexError: There is no index yet.
        """
        return self._current.graph()

    def stats(self) -> dict[str, Any]:
        """What the index holds, and what it was made with.

        Raises:
            NoIndexError: There is no index yet.
            IndexDamagedError: A file of it has changed or is gone.
        """
        known, state, (graph, communities, reports) = self._folder.known, self._folder.state, self.contents()
        self._folder.stores.check(state.generation)
        return {
            **self._folder.records.counts(),
            "vertices": graph.vertex_count,
            "edges": graph.edge_count,
            "communities": len(communities),
            "reports": len(reports),
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
        return run(traced("GraphIndex.rebuild", lambda: self._changes.rebuild(on_progress), {}, config))

    async def arebuild(
        self, *, on_progress: Callable[[Progress], None] | None = None, config: RunnableConfig | None = None
    ) -> IndexReport:
        """Find the communities as if the index were new; see :meth:`rebuild`."""
        return await arun(traced("GraphIndex.rebuild", lambda: self._changes.rebuild(on_progress), {}, config))

    @staticmethod
    def repair(
        path: str | Path, embeddings: "Embeddings | None" = None, *, vector_store: "MakeStore | None" = None
    ) -> RepairReport:
        """Check the databases of an index, and make its search structure, and a lost manifest, anew from the records.

        Args:
            path: The folder.
            embeddings: Those that the index was made with; they are asked only for vectors that were lost.
            vector_store: As for :meth:`open`, where it was given there.

        Raises:
            NoIndexError: There is no index.
            IndexDamagedError: A database is broken beyond repair; nothing was changed.
            IndexLockedError: Another process writes to the index.
            IndexMismatchError: The index was made with other embeddings, or by another version.
        """
        place, make = _checked_path(path), _checked_maker(vector_store)
        given = embeddings or _default_embeddings()
        return repair(place, lambda: IndexFolder(place, given, make_store=make))

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
        sync = _places(sync)
        given = await asyncio.to_thread(_given, documents, bool(sync))
        told = {"sources": [document.metadata["source"] for document in given]}
        return await traced("GraphIndex.add", lambda: self._changes.add(given, sync, on_progress), told, config)

    async def _traced_delete(
        self, name: str, given: str | Iterable[str], config: RunnableConfig | None
    ) -> tuple[bool, IndexReport]:
        sources = given_ids(name, given)
        return await traced("GraphIndex.delete", lambda: self._changes.delete(sources), {"sources": sources}, config)

    async def _query(self, question: str, mode: str, k: int, config: RunnableConfig | None) -> Answer:
        with Run(self._settings.concurrency).active():
            return await traced(
                "GraphIndex.query", lambda: self._asker.answer(question, mode, k), {"question": question}, config
            )

    async def _streamed(
        self, question: str, mode: str, k: int, config: RunnableConfig | None
    ) -> AsyncIterator[str | Answer]:
        def pieces() -> AsyncIterator[str | Answer]:
            return self._asker.stream(question, mode, k)

        with Run(self._settings.concurrency).active():
            async for piece in traced_stream("GraphIndex.stream", pieces, {"question": question}, config):
                yield piece


def _checked_path(path: Any) -> Path:
    if not isinstance(path, str | Path):
        raise UsageError(f"path is {path!r:.80}; give the folder of the index")
    if not str(path):
        raise UsageError("path is empty; give the folder of the index")
    return Path(path)


def _checked_maker(make: Any) -> "MakeStore | None":
    if make is None or callable(make):
        return cast("MakeStore | None", make)
    kind = type(make).__name__
    raise UsageError(
        f"vector_store is a {kind}; give a function that makes a store of a collection: "
        f"lambda name, embeddings: {kind if hasattr(make, 'similarity_search') else 'Store'}(…)"
    )


def _given(documents: Documents, may_be_empty: bool) -> list[Document]:
    try:
        return given_documents(documents, may_be_empty)
    except UsageError as error:
        if not str(error).endswith(": no such file or folder"):
            raise
        raise UsageError(f"{error}; a text is given as Document(text, metadata={{'source': …}})") from None


def _places(sync: Any) -> list[str | Path]:
    """Files and folders, gone over once."""
    listed = [sync] if isinstance(sync, str | Path) else list(sync) if isinstance(sync, Iterable) else [sync]
    for place in listed:
        if not isinstance(place, str | Path):
            raise UsageError(f"sync is or holds {place!r:.80}; give files and folders")
    return listed


def _default_embeddings() -> "Embeddings":
    from rag_transformers.embeddings import default_embeddings

    return default_embeddings()


def _all_held(held: bool, report: IndexReport) -> bool:
    """Whether all that was to be deleted was there; a warning tells what could not be made of the rest."""
    if report.failed:
        told = f"{len(report.failed)} could not be made, and will be asked for at the next add: {report.failed[0]}"
        warnings.warn(f"after deleting, {told}", stacklevel=3)
    return held
