"""One change of an index: what is added, taken out or found anew, and all that follows from it, as the next state.

Everything is made in a draft. What costs something is kept as soon as it is made, under the hash of what it was made
from; what holds is told all at once, in one transaction at the end. So readers see the last finished state until then,
and a change that was stopped at any moment leaves that state and all that was paid for.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable

from rag_transformers.answers.report_selection import full_text
from rag_transformers.chunking import Chunker
from rag_transformers.communities import CommunityDetector
from rag_transformers.concurrency import together
from rag_transformers.graph import Direction, Extraction
from rag_transformers.indexing.deriving import Making, describe, descriptions_of, key_of, to_describe
from rag_transformers.indexing.fold import Folded, folded
from rag_transformers.indexing.ingestion import Extracted, Fresh, Ingestion
from rag_transformers.indexing.outcomes import Failure, IndexReport, Progress, StageReport
from rag_transformers.indexing.reporting import communities_of, find_communities, reports_of, write_reports
from rag_transformers.indexing.search_structure import Embedded, FolderHistory, SearchStructure
from rag_transformers.models.run import Run
from rag_transformers.reports import ReportWriter
from rag_transformers.retrieval.searching import Searcher
from rag_transformers.stores import MemoryGraph

if TYPE_CHECKING:
    from rag_transformers.stores.folder import IndexFolder
    from rag_transformers.stores.records import Draft

__all__ = ["Change", "Stages"]

_STAGES = ("extract", "embed", "describe", "report")


@dataclass(frozen=True)
class Stages:
    """What the stages of a change are done with.

    Args:
        chunker: Cuts documents.
        extractor: Gives the extractor for a history, or for none.
        summarizer: Makes one description of many.
        writer: Writes a report.
        with_model: Whether a model makes descriptions; then those that were made without one are made anew.
        offline: Whether chunks are read without a model, by the offline extractor, which reads their names by itself.
        name: Stands for what descriptions and reports are made with.
    """

    chunker: Chunker
    extractor: Callable[[FolderHistory | None], Runnable[Any, Extraction]]
    summarizer: Runnable[Any, Any]
    writer: ReportWriter
    with_model: bool
    offline: bool
    name: str


class Change:
    """One change of an index, whose lock is held.

    Args:
        folder: The index's folder.
        draft: The next state of its records.
        stages: What is done with what.
        searcher: What finds chunks; it is brought up to date.
        run: The limit on model calls, and what they cost.
        previous: The graph of the state before, where it is at hand.
        on_progress: Called as work is done.
    """

    def __init__(
        self,
        folder: "IndexFolder",
        draft: "Draft",
        stages: Stages,
        searcher: Searcher,
        run: Run,
        previous: Folded | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._folder = folder
        self._draft = draft
        self._made = folder.made
        self._stages = stages
        self._searcher = searcher
        self._run = run
        self._on_progress = on_progress
        self._structure = SearchStructure(folder, draft)
        self._started = time.perf_counter()
        self._seconds: dict[str, float] = {}
        self._results: dict[str, StageReport] = {}
        self._failed: list[Failure] = []
        self._counts: dict[str, int] = {}
        self._before = self._used()
        self._order = draft.extraction_order()
        self._described = draft.current("describe")
        self._state = draft.state()
        self._size = self._state.size
        self._idle = self._embedded = False
        self._derived = self._state.derived  # what all that is made of the graph was made with
        self.folded = previous
        """The graph of the next state, once it is made."""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything that the next state has and the one before has not."""
        changes = self._counts.get("added", 0) + self._counts.get("changed", 0) + self._counts.get("removed", 0)
        derived = self._derived != self._state.derived
        return not self._idle and (changes > 0 or derived or self._used() != self._before or self._embedded)

    async def add(self, given: Sequence[Document], gone: Sequence[str]) -> None:
        """Read documents.

        Args:
            given: The documents.
            gone: The sources of documents to take out.

        Raises:
            ModelUnreachableError: The model could not be reached for a single chunk.
        """
        await asyncio.to_thread(self._structure.heal)
        history = FolderHistory(self._folder, self._draft)
        extractor = self._stages.extractor(history)
        stages = self._stages
        ingestion = Ingestion(
            self._made, self._draft, stages.chunker, extractor, self._run, self._on_progress, offline=stages.offline
        )
        with self._timed("chunk"):
            await asyncio.to_thread(ingestion.leave, given)
            fresh, _ = await together(asyncio.to_thread(ingestion.split, given), self._folder.check_embeddings())
            await asyncio.to_thread(self._store, fresh, gone)
        pending = await asyncio.to_thread(ingestion.pending, given)
        self._counts = {
            "added": fresh.new,
            "changed": fresh.changed,
            "removed": len(gone),
            "unchanged": len(given) - len(fresh.records),
        }
        if not (fresh.records or gone or pending or self._draft.unsearchable()) and self._is_derived():
            self._idle = True
            return
        if pending and self._stages.with_model:
            await asyncio.to_thread(self._look_through)
        if getattr(extractor, "chunk_history", None) is history and pending:
            with self._timed("embed"):
                texts = [chunk.page_content for chunk in pending]
                self._size = (await self._folder.embeddings.prepare(texts, self._size)).size
        extracted, embedded = await together(self._extract(ingestion, pending), self._embed())
        if extracted.made == 0 and extracted.failed and self._run.stopped is not None:
            raise self._run.stopped
        self._size = embedded.size or self._size

    async def remove(self, sources: Sequence[str]) -> None:
        """Take documents out, with all that was made of them."""
        await asyncio.to_thread(self._structure.heal)
        await asyncio.to_thread(self._store, Fresh([], 0, 0), sources)
        self._run.begin()  # nothing is extracted
        await self._embed()  # where the last run was stopped
        self._counts = {"removed": len(sources)}

    async def derive(self, anew: bool = False) -> None:
        """Make what the graph asks for anew: one description of many, communities, and their reports.

        Args:
            anew: Whether communities are found as if the index were new.
        """
        if self._idle:
            return
        self._derived = ""
        with self._timed("fold"):
            self.folded = await asyncio.to_thread(folded, self._draft, self._made, self.folded)
        if self._run.stopped is not None:
            return
        graph = self.folded.graph
        with self._stage("describe"):
            making = Making(
                self._draft, self._made, self._stages.summarizer, self._stages.with_model, self._run, self._on_progress
            )
            wanted = await asyncio.to_thread(to_describe, graph, self._stages.chunker.counter)
            described = await describe(making, wanted)
            await asyncio.to_thread(lambda: graph.summarise(descriptions_of(self._draft, self._made)))
            self.folded = replace(self.folded, version=graph.version)
        self._note("describe", described.made, described.kept, described.failed)
        with self._timed("communities"):
            detector = CommunityDetector()
            communities = await asyncio.to_thread(find_communities, self._draft, self._made, detector, graph, anew=anew)
        with self._stage("report"):
            reported = await write_reports(
                self._draft,
                self._made,
                self._stages.writer,
                graph,
                communities,
                self._run,
                self._on_progress,
                None if anew or not self._is_derived() else await asyncio.to_thread(self._touched, self.folded),
            )
            await self._folder.embeddings.prepare(list(map(full_text, reported.reports.values())), self._size)
        self._note("report", reported.made, reported.kept, reported.failed)
        if not (described.failed or reported.failed or self._run.stopped):
            self._derived = self._stages.name

    async def finish(self) -> None:
        """Make the draft the state that everybody sees; what only a text that is gone had led to is deleted."""
        with self._timed("names"):
            await asyncio.to_thread(self._searcher.keep, self._draft)
        committing = asyncio.ensure_future(asyncio.to_thread(self._commit))
        try:
            await asyncio.shield(committing)
        except asyncio.CancelledError:
            await asyncio.wait([committing])  # it is done in a moment, and the lock is held until then
            raise

    async def settle(self) -> None:
        """See that what is searched is that of the records, where nothing of them changes; the draft is given up."""
        self._draft.close()
        await asyncio.to_thread(self._structure.settle, self._folder.records)

    def _commit(self) -> None:
        try:
            graph = self.folded.graph if self.folded else MemoryGraph()
            self._structure.note()
            self._draft.commit(
                size=self._size,
                units=self._structure.units(),
                vertices=graph.vertex_count,
                edges=graph.edge_count,
                derived=self._derived,
            )
        except BaseException:
            self._searcher.drop_kept()
            raise
        self._structure.settle(self._folder.records)

    def report(self) -> IndexReport:
        """What was done, and what the index holds then."""
        graph = self.folded.graph if self.folded and not self._idle else None
        counts = self._draft.counts()
        results = {
            name: replace(self._results[name], seconds=self._seconds.get(name, 0.0))
            for name in _STAGES
            if name in self._results
        }
        made = {name: result.made for name, result in results.items()}
        return IndexReport(
            **self._counts,
            extracted=made.get("extract", 0),
            described=made.get("describe", 0),
            reported=made.get("report", 0),
            failed=tuple(self._failed),
            documents=counts["documents"],
            chunks=counts["chunks"],
            vertices=graph.vertex_count if graph else self._state.vertices,
            edges=graph.edge_count if graph else self._state.edges,
            usage=self._run.usage,
            seconds={**self._seconds, "all": time.perf_counter() - self._started},
            stages=results,
        )

    def _touched(self, now: Folded) -> set[str]:
        """The names of the vertices of which the graph says anything else than before, and of their neighbours."""
        changed = {key for _, key in set(self._order) ^ set(now.order)}
        names = {name for found in self._made.extractions(changed).values() for name in found.names()}
        described = self._draft.current("describe")
        for item in self._described.keys() | described.keys():
            if self._described.get(item) != described.get(item):
                key = key_of(item)
                names |= {key} if isinstance(key, str) else {key[0], key[2]}
        touched = set()
        for name in names:
            if (vertex := now.graph.get_vertex(name)) is not None:
                touched.add(vertex.name)
                for edge in now.graph.get_neighbor_edges(name, Direction.BOTH):
                    touched |= {edge.source, edge.target}
        return touched

    def _look_through(self) -> None:
        """See that what holds can be read, before anything is paid for what is to come on top of it."""
        self._folder.records.check_all()
        self.folded = folded(self._draft, self._made, self.folded)
        communities_of(self._draft, self._made)
        reports_of(self._draft, self._made)

    def _store(self, fresh: Fresh, gone: Sequence[str]) -> None:
        changed = [record.source for record in fresh.records]
        self._structure.drop(self._draft.chunks_of([*changed, *gone]))
        if gone:
            self._draft.delete_documents(gone)
        if fresh.records:
            self._draft.put_documents(fresh.records)

    async def _extract(self, ingestion: Ingestion, pending: Sequence[Document]) -> Extracted:
        with self._stage("extract"):
            extracted = await ingestion.extract(pending)
        self._note("extract", extracted.made, extracted.kept, extracted.failed)
        return extracted

    async def _embed(self) -> Embedded:
        await self._run.begun()  # what no call waits for is done while the first ones are out
        with self._timed("embed"):
            embedded = await self._structure.embed(self._tell_embedded)
        self._embedded = embedded.made + embedded.kept > 0
        self._results["embed"] = StageReport(embedded.made, embedded.kept)
        if not self._stages.offline:
            await asyncio.to_thread(self._searcher.prepare, self._draft)
        return embedded

    def _tell_embedded(self, done: int, total: int) -> None:
        if self._on_progress:
            self._on_progress(Progress("embed", done, total, self._run.usage))

    def _is_derived(self) -> bool:
        """Whether all that is made of the graph was made, with what it would be made with now."""
        return self._state.derived == self._stages.name

    def _used(self) -> dict[str, set[str]]:
        """The keys of what the draft uses now."""
        extractions = {key for key in self._draft.extraction_keys().values() if key}
        return {"extractions": extractions, "values": self._draft.all_current()}

    def _note(self, stage: str, made: int, kept: int, failed: Sequence[Failure]) -> None:
        self._results[stage] = replace(self._results[stage], made=made, kept=kept, failed=len(failed))
        self._failed += failed

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Note the time that is spent inside, and what models cost meanwhile; one stage at a time asks them."""
        before = self._run.usage
        with self._timed(name):
            yield
        self._results[name] = StageReport(usage=self._run.usage - before)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start
