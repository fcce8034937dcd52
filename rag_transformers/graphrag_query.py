"""The GraphRAG cookbook's query engine on this engine: a question -> an answer from the reports on communities."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.answers.answering import aanswer, answer
from rag_transformers.answers.citations import check_citations, unmarked
from rag_transformers.answers.contexts import ChunkLookup, Context, answer_context
from rag_transformers.answers.global_answers import global_work
from rag_transformers.answers.map_points import read_points
from rag_transformers.answers.modes import is_about_nothing
from rag_transformers.answers.querying import Answer, answer_prompt_inputs, check_question, no_data_answer, no_data_text
from rag_transformers.answers.quoted_reports import offline_global_answer
from rag_transformers.answers.report_selection import (
    ChosenReport,
    full_text,
    report_lexical,
    report_suits,
    select_reports,
)
from rag_transformers.answers.voice import Voice
from rag_transformers.errors import UsageError, check_count
from rag_transformers.models.calls import acall, call
from rag_transformers.models.given import optional_llm
from rag_transformers.models.reading import Reply
from rag_transformers.models.rounds import arun_rounds, run_rounds
from rag_transformers.retrieval.evidence import UNRELATED_COSINE
from rag_transformers.summaries.extractive import central_sentences, joined

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from langchain_core.embeddings import Embeddings
    from langchain_core.prompt_values import PromptValue

    from rag_transformers.graphrag_store import GraphRAGStore
    from rag_transformers.reports.writer import Report
    from rag_transformers.retrieval.lexical import Lexical
    from rag_transformers.tokens import TokenCounter

__all__ = ["GraphRAGQueryEngine", "QueryResult"]

_NEAR = 0.3
"""A report this near to a question, counted so that unrelated texts have 0, bears on it without sharing a word."""
_QUOTED = 3  # sentences of a summary that answer without a model


@dataclass(frozen=True)
class QueryResult:
    """What a query came to.

    Args:
        response: The answer's text.
        answer: The answer with its citations, its context and what it cost.
    """

    response: str
    answer: Answer = field(repr=False)

    def __str__(self) -> str:
        """The response."""
        return self.response


class _Reports(NamedTuple):
    """The reports of a store at one moment, with what is needed to search them."""

    reports: "list[Report]"
    lexical: "Lexical"
    vectors: "npt.NDArray[np.float32]"


class GraphRAGQueryEngine(Runnable[str, QueryResult]):
    """Answers questions from the reports of a store: points from reports in parallel, then one answer.

    Args:
        graph_store: The store; its communities are built if needed.
        llm: The model; None: the store's, and if it has none, the reports are quoted.
        mode: ``best`` reads the reports that suit the question, within ``max_context_tokens`` for all, in one call;
            ``all`` asks about every community in a call of its own, and then for one answer.
        embeddings: To find the best reports; the offline default where none are given.
        chunks: From ids of chunks to chunks, for citations; without it answers cite the reports.
        max_context_tokens: Tokens of passages in one prompt, at least 1.
        language: Of the prompts; ``auto``: that of the question.
        counter: Counts tokens.
        llm_client: Another name for ``llm``.
        llm_invoker: Another name for ``llm``.

    Raises:
        UsageError: An argument is wrong; the message names it.

    The names are those of LlamaIndex's GraphRAG cookbook, which asks about every community for every question.

    >>> from rag_transformers.graph import Edge
    >>> from rag_transformers.graphrag_store import GraphRAGStore
    >>> store = GraphRAGStore()
    >>> store.upsert_relations([Edge("Ada Moss", "Grain Trust", "founded", description="Ada Moss founded it in 1998.")])
    >>> GraphRAGQueryEngine(store).query("What are the main topics?").response
    'Ada Moss and Grain Trust: Ada Moss founded it in 1998. [1]'
    """

    def __init__(
        self,
        graph_store: "GraphRAGStore",
        llm: Any = None,
        mode: Literal["best", "all"] = "best",
        *,
        embeddings: "Embeddings | None" = None,
        chunks: ChunkLookup | None = None,
        max_context_tokens: int = 6000,
        language: str = "auto",
        counter: "TokenCounter | None" = None,
        llm_client: Any = None,
        llm_invoker: Any = None,
    ) -> None:
        llm = optional_llm(type(self).__name__, llm, {"llm_client": llm_client, "llm_invoker": llm_invoker})
        if not hasattr(graph_store, "get_community_summaries"):
            raise UsageError(f"graph_store is a {type(graph_store).__name__}; give a GraphRAGStore")
        if mode not in ("best", "all"):
            raise UsageError(f"mode is {mode!r}; it must be best or all")
        self.graph_store = graph_store
        self.llm: Runnable[Any, Any] | None = graph_store.llm if llm is None else llm
        self.mode = mode
        self.max_context_tokens = check_count("max_context_tokens", max_context_tokens)
        self.language = language
        self.prompts = graph_store.prompts
        self._chunks = chunks
        self._embeddings = embeddings
        self._counter = counter or graph_store.counter
        self._known: _Reports | None = None

    # Asking.

    def query(self, query: str, config: RunnableConfig | None = None) -> QueryResult:
        """Answer a question.

        Args:
            query: The question, not empty.
            config: Callbacks and the like; its ``max_concurrency`` calls are in flight at once.

        Raises:
            UsageError: The question is empty.
            ModelError: No call succeeded.
        """
        return self.invoke(query, config)

    async def aquery(self, query: str, config: RunnableConfig | None = None) -> QueryResult:
        """Answer a question; see :meth:`query`."""
        return await self.ainvoke(query, config)

    def custom_query(self, query_str: str) -> str:
        """The text of the answer to a question; see :meth:`query`."""
        return self.query(query_str).response

    async def acustom_query(self, query_str: str) -> str:
        """The text of the answer to a question; see :meth:`query`."""
        return (await self.aquery(query_str)).response

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> QueryResult:
        """Answer a question; see :meth:`query`."""
        question = check_question(input)

        def ask(question: str, config: RunnableConfig) -> QueryResult:
            if self.graph_store.is_stale:
                self.graph_store.build_communities(config)
            chosen = self._chosen(question)
            if self.llm is None or not chosen:
                return self._without_model(question, chosen)
            last = run_rounds(global_work(self.llm, question, chosen, **self._options()), config)
            found = answer(self.llm, last, config)
            return QueryResult(found.text, found)

        return self._call_with_config(cast(Any, ask), question, config)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> QueryResult:
        """Answer a question; see :meth:`query`."""
        question = check_question(input)

        async def ask(question: str, config: RunnableConfig) -> QueryResult:
            if self.graph_store.is_stale:
                await self.graph_store.abuild_communities(config)
            chosen = await asyncio.to_thread(self._chosen, question)
            if self.llm is None or not chosen:
                return await asyncio.to_thread(self._without_model, question, chosen)
            last = await arun_rounds(global_work(self.llm, question, chosen, **self._options()), config)
            found = await aanswer(self.llm, last, config)
            return QueryResult(found.text, found)

        return await self._acall_with_config(cast(Any, ask), question, config)

    # The cookbook's two steps, one by one.

    def generate_answer_from_summary(self, community_summary: str, query: str) -> str:
        """What one report tells on a question; where it tells nothing, the text that says so.

        Args:
            community_summary: The report as a text.
            query: The question, not empty.
        """
        asked = self._about_summary(community_summary, check_question(query))
        return asked if isinstance(asked, str) else _told(call(asked[0], asked[1]), query)

    async def agenerate_answer_from_summary(self, community_summary: str, query: str) -> str:
        """What one report tells on a question; see :meth:`generate_answer_from_summary`."""
        asked = self._about_summary(community_summary, check_question(query))
        return asked if isinstance(asked, str) else _told(await acall(asked[0], asked[1]), query)

    def aggregate_answers(self, community_answers: Sequence[str], query: str = "") -> str:
        """One answer of several; empty ones and those that say that there is nothing are left out.

        Args:
            community_answers: The answers, best first.
            query: The question that they answer, if it is known.
        """
        asked = self._about_answers(community_answers, query)
        return asked if isinstance(asked, str) else _plain(call(asked[0], asked[1]).text)

    async def aaggregate_answers(self, community_answers: Sequence[str], query: str = "") -> str:
        """One answer of several; see :meth:`aggregate_answers`."""
        asked = self._about_answers(community_answers, query)
        return asked if isinstance(asked, str) else _plain((await acall(asked[0], asked[1])).text)

    # How it is done.

    def _without_model(self, question: str, chosen: Sequence[ChosenReport]) -> QueryResult:
        if not chosen:
            found = no_data_answer(question, "global", voice=self._voice())
        else:
            asked = _unit([self._embedder().embed_query(question)])[0]

            def nearness(texts: Sequence[str]) -> list[float]:
                return [float(cosine) for cosine in _unit(self._embedder().embed_documents(list(texts))) @ asked]

            found = offline_global_answer(question, chosen, self._chunks, nearness=nearness, voice=self._voice())
        return QueryResult(found.text, found)

    def _options(self) -> dict[str, Any]:
        return {
            "counter": self._count(),
            "max_context_tokens": self.max_context_tokens,
            "lookup": self._chunks,
            "voice": self._voice(),
            "each": self.mode == "all",
        }

    def _chosen(self, question: str) -> list[ChosenReport]:
        """The reports to read for a question, best first; none, where none bears on it."""
        known = self._searchable()
        if not known.reports:
            return []
        vector = _unit([self._embedder().embed_query(question)])[0]
        if not (is_about_nothing(question) or known.lexical.scores(question).any()):
            near = (float((known.vectors @ vector).max()) - UNRELATED_COSINE) / (1 - UNRELATED_COSINE)
            if near < _NEAR:
                return []
        if self.mode == "all":
            suits = report_suits(question, vector, known.reports, known.vectors, known.lexical)
            order = sorted(range(len(suits)), key=lambda place: -suits[place])
            return [ChosenReport(known.reports[n], suits[n], full_text(known.reports[n])) for n in order]
        return select_reports(
            question,
            vector,
            known.reports,
            known.vectors,
            self.graph_store.communities,
            budget=self.max_context_tokens,
            counter=self._count(),
            lexical=known.lexical,
        )

    def _searchable(self) -> _Reports:
        """The reports as they are now, read and embedded once for as long as they stay the same."""
        reports = list(self.graph_store.reports.values())
        if self._known is None or self._known.reports != reports:
            texts = [full_text(report) for report in reports]
            vectors = _unit(self._embedder().embed_documents(texts) if texts else [])
            self._known = _Reports(reports, report_lexical(reports), vectors)
        return self._known

    def _about_summary(self, summary: str, query: str) -> "str | tuple[Runnable[Any, Any], PromptValue]":
        if not summary.strip():
            return no_data_text(query, self._voice())
        if self.llm is None:
            return joined(central_sentences([summary], 400, names=query.split())[:_QUOTED])
        context = answer_context([Document(summary)], self.max_context_tokens, self._count())
        return self.llm, self._prompt("answer_map", query, context)

    def _about_answers(self, answers: Sequence[str], query: str) -> "str | tuple[Runnable[Any, Any], PromptValue]":
        """One text, where no call is needed for it; else the model and its prompt."""
        if isinstance(answers, str):
            raise UsageError("community_answers is one str; give a list of them")
        nothing = {self.prompts.words(language).no_data for language in self.prompts.languages}
        told = [text for text in dict.fromkeys(map(str.strip, answers)) if text and text not in nothing]
        question = query.strip() or self._voice().words(" ".join(told)).together
        if not told:
            return no_data_text(question, self._voice())
        if len(told) == 1 or self.llm is None:
            return "\n".join(told)
        context = answer_context(map(Document, told), self.max_context_tokens, self._count())
        return self.llm, self._prompt("answer_reduce", question, context)

    def _prompt(self, stage: str, question: str, context: Context) -> "PromptValue":
        return self._voice().prompt(stage, question).invoke(answer_prompt_inputs(question, context))

    def _voice(self) -> Voice:
        return Voice(self.language, self.prompts)

    def _embedder(self) -> "Embeddings":
        if self._embeddings is None:
            from rag_transformers.embeddings import default_embeddings

            self._embeddings = default_embeddings()
        return self._embeddings

    def _count(self) -> "TokenCounter":
        if self._counter is None:
            from rag_transformers.tokens import token_counter

            self._counter = token_counter(self.llm)
        return self._counter


def _unit(rows: Sequence[Sequence[float]]) -> "npt.NDArray[np.float32]":
    """Rows of length 1."""
    import numpy as np

    matrix = np.array(rows, np.float32).reshape(len(rows), -1 if rows else 0)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _told(reply: Reply, query: str) -> str:
    """The points of a reply with a score above 0, best first, as one text."""
    points = sorted(read_points(reply.text, 1).points, key=lambda point: -point.score)
    return "\n".join(point.text for point in points if point.score > 0) or no_data_text(query)


def _plain(text: str) -> str:
    """An answer without its marks, which point at answers that nobody has any more."""
    return unmarked(check_citations(text, 999).text).strip()
