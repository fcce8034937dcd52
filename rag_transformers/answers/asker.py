"""Question -> answer from an index: which mode, what is read for it, and the last question to the model."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_core.documents import Document
from langchain_core.runnables import Runnable

from rag_transformers.answers.answering import Asking, aanswer, astream_answer, local_asking
from rag_transformers.answers.global_answers import global_work
from rag_transformers.answers.local_context import local_context
from rag_transformers.answers.modes import choose_mode, is_about_nothing, subject_terms
from rag_transformers.answers.querying import Answer, check_question, no_data_answer, no_room_answer, offline_answer
from rag_transformers.answers.quoted_reports import offline_global_answer
from rag_transformers.answers.report_selection import (
    ChosenReport,
    full_text,
    report_budget,
    report_lexical,
    select_reports,
)
from rag_transformers.answers.vertex_finder import VertexFinder
from rag_transformers.answers.voice import Voice
from rag_transformers.communities import Community
from rag_transformers.errors import IndexDamagedError, UsageError, check_count
from rag_transformers.indexing.reporting import communities_of, reports_of
from rag_transformers.models.rounds import Rounds, arun_rounds
from rag_transformers.reports.form import Report
from rag_transformers.retrieval.evidence import Evidence, holds
from rag_transformers.retrieval.searching import Found, Searcher, plain_chunk

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_transformers.retrieval.lexical import Lexical
    from rag_transformers.stores import MemoryGraph
    from rag_transformers.stores.folder import IndexFolder
    from rag_transformers.tokens import TokenCounter

__all__ = ["MODES", "Asker"]

MODES = ("auto", "local", "global")

_SAMPLED = 64  # chunks whose tokens are counted, to know how long the source is


class _Told(NamedTuple):
    """The reports of one generation of an index, and what their selection needs."""

    generation: int
    communities: tuple[Community, ...]
    reports: list[Report]
    vectors: "npt.NDArray[np.float32]"
    lexical: "Lexical"
    source_tokens: int


class Asker:
    """Answers questions from an index.

    Args:
        folder: The index's folder.
        searcher: Finds chunks.
        graph: Gives the graph as it is now.
        llm: The model; None where none is asked.
        counter: Counts tokens.
        voice: The language of prompts and answers.
        max_context_tokens: Tokens of what a model is shown at one time.
    """

    def __init__(
        self,
        folder: "IndexFolder",
        searcher: Searcher,
        graph: Callable[[], "MemoryGraph"],
        *,
        llm: Runnable[Any, Any] | None,
        counter: "TokenCounter",
        voice: Voice,
        max_context_tokens: int,
    ) -> None:
        self._folder = folder
        self._searcher = searcher
        self._graph = graph
        self._llm = llm
        self._counter = counter
        self._voice = voice
        self._max_context_tokens = max_context_tokens
        self._lock = threading.Lock()
        self._finder: tuple[MemoryGraph, VertexFinder] | None = None
        self._told: _Told | None = None

    async def passages(self, question: str, k: int) -> list[Document]:
        """The k chunks that suit a question best."""
        question, k = check_question(question), check_count("k", k)
        return await asyncio.to_thread(self._searcher.passages, question, await self._vector(question), k)

    async def search(self, question: str, k: int) -> tuple[Found, bool]:
        """What suits a question best, at most k chunks of it, and whether it holds anything on the question."""
        question, k = check_question(question), check_count("k", k)
        found = await asyncio.to_thread(self._searcher.find, question, await self._vector(question), k)
        return found, holds(found.evidence, self._folder.unrelated_cosine) or _is_told(question, found.evidence)

    async def answer(self, question: str, mode: str, k: int) -> Answer:
        """The answer to a question."""
        return await aanswer(cast(Any, self._llm), await self._settled(question, mode, k))

    async def stream(self, question: str, mode: str, k: int) -> AsyncIterator[str | Answer]:
        """The text of the answer piece by piece, and then the answer."""
        async for piece in astream_answer(cast(Any, self._llm), await self._settled(question, mode, k)):
            yield piece

    async def _settled(self, question: str, mode: str, k: int) -> Asking | Answer:
        """The answer, or the last question to the model for it."""
        question, k = check_question(question), check_count("k", k)
        if mode not in MODES:
            raise UsageError(f"mode is {mode!r}; it must be one of {', '.join(MODES)}")
        vector = await self._vector(question)
        work = await asyncio.to_thread(self._of_one_state, question, vector, mode, k)
        return work if isinstance(work, Asking | Answer) else await arun_rounds(work, {})

    def _of_one_state(
        self, question: str, vector: Sequence[float], mode: str, k: int
    ) -> Rounds[Asking | Answer] | Asking | Answer:
        """What is read for an answer, all of it of one state of the index, however often it changes meanwhile."""
        while True:
            generation = self._folder.records.generation()
            try:
                work = self._work(question, vector, self._searcher.find(question, vector, k), mode)
            except IndexDamagedError:
                if self._folder.records.generation() == generation:
                    raise
                continue
            if self._folder.records.generation() == generation:
                return work

    def _work(
        self, question: str, vector: Sequence[float], found: Found, mode: str
    ) -> Rounds[Asking | Answer] | Asking | Answer:
        unrelated, evidence = self._folder.unrelated_cosine, found.evidence
        finder = self._vertices()
        if mode == "auto":
            mode = choose_mode(question, evidence, finder.named(question), unrelated)
        whole = mode == "global" and is_about_nothing(question) and bool(evidence.findings)
        if not whole and not holds(evidence, unrelated) and not _is_told(question, evidence):
            return no_data_answer(question, mode, voice=self._voice)
        if mode == "global" and (told := self._reports()).reports:
            return self._global(question, vector, told, unrelated)
        if self._llm is None:
            return offline_answer(evidence, unrelated=unrelated, certain=True, voice=self._voice)
        budget, counter = self._max_context_tokens, self._counter
        context = local_context(
            question, found.passages, finder, self._reports().reports, budget=budget, counter=counter
        )
        if not context.passages:
            return no_room_answer(question, voice=self._voice)
        return local_asking(question, context, voice=self._voice, lookup=self._chunks)

    def _global(
        self, question: str, vector: Sequence[float], told: _Told, unrelated: float
    ) -> Rounds[Asking | Answer] | Answer:
        chosen: list[ChosenReport] = select_reports(
            question,
            vector,
            told.reports,
            told.vectors,
            told.communities,
            budget=report_budget(told.source_tokens, 4 * self._max_context_tokens),
            counter=self._counter,
            lexical=told.lexical,
            unrelated=unrelated,
        )
        if self._llm is None:

            def nearness(texts: Sequence[str]) -> Any:
                return self._folder.embeddings.matrix(list(texts)) @ vector

            return offline_global_answer(question, chosen, self._chunks, nearness=nearness, voice=self._voice)
        return global_work(
            self._llm,
            question,
            chosen,
            counter=self._counter,
            max_context_tokens=self._max_context_tokens,
            lookup=self._chunks,
            voice=self._voice,
        )

    async def _vector(self, question: str) -> list[float]:
        vector = await self._folder.embeddings.aembed_query(question)
        self._folder.check_size(len(vector))
        return vector

    def _chunks(self, ids: Sequence[str]) -> Mapping[str, Document]:
        return {str(chunk.id): plain_chunk(chunk) for chunk in self._folder.records.chunks(list(ids))}

    def _vertices(self) -> VertexFinder:
        graph = self._graph()
        with self._lock:
            if self._finder is None or self._finder[0] is not graph or self._finder[1].version != graph.version:
                self._finder = graph, VertexFinder(graph)
            return self._finder[1]

    def _reports(self) -> _Told:
        generation = self._folder.records.generation()
        with self._lock:
            if self._told is None or self._told.generation != generation:
                made = self._folder.made
                communities, kept = self._folder.reading(lambda now: (communities_of(now, made), reports_of(now, made)))
                reports = [kept[community.id] for community in communities if community.id in kept]
                vectors = self._folder.embeddings.matrix(list(map(full_text, reports)))
                lexical = report_lexical(reports)
                self._told = _Told(generation, communities, reports, vectors, lexical, self._source_tokens())
            return self._told

    def _source_tokens(self) -> int:
        """How long all chunks are, by the tokens of some of them: the budget of a global question is a share of it."""
        records = self._folder.records
        ids = records.chunk_ids()
        sample = [chunk.page_content for chunk in records.chunks(ids[:: max(1, len(ids) // _SAMPLED)])]
        counted = sum(map(self._counter, sample))
        return round(counted * records.text_length() / max(1, sum(map(len, sample))))


def _is_told(question: str, evidence: Evidence) -> bool:
    """Whether one sentence holds all that a question is about, however much is said around it: "Tell me about …"."""
    subject = set(subject_terms(question))
    return bool(subject) and any(subject <= set(finding.held) for finding in evidence.findings)
