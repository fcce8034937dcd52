"""Community -> report, with a model or without one."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.communities import Community
from rag_transformers.concurrency import InOrder
from rag_transformers.errors import ModelError, ReplyError, UsageError, check_count
from rag_transformers.graph import Graph
from rag_transformers.models.conversation import Ask, Done, Talk, aanswered, answered, check_context_size, step
from rag_transformers.models.faults import error_line
from rag_transformers.models.given import optional_llm
from rag_transformers.models.rounds import CONCURRENCY
from rag_transformers.models.run import Run, current_run
from rag_transformers.prompts import PromptPack, as_pack
from rag_transformers.reports.asking import Asking, templates
from rag_transformers.reports.content import GraphView
from rag_transformers.reports.form import Report, ReportFinding
from rag_transformers.reports.plan import Plan, Ready, Settling, by_community
from rag_transformers.reports.replies import read_report

if TYPE_CHECKING:
    from pathlib import Path

    from rag_transformers.tokens import TokenCounter

__all__ = ["Report", "ReportFinding", "ReportWriter"]

_log = logging.getLogger(__name__)

_Given: TypeAlias = tuple[Graph, Community] | tuple[Graph, Community, Mapping[str, Report] | Sequence[Report]]


class ReportWriter(InOrder[Any, Report]):
    """Writes the report of a community: asks a model about its vertices and edges, or does it without one.

    The model is shown every vertex and edge of the community once, in its true direction and the most important first,
    and the edges that lead out of it. Where that is more than the budget, the reports of its parts, if they are given,
    stand for their records; see :func:`rag_transformers.reports.context.fit`.

    A reply that cannot be read is asked for once more. What fails for good gets the report that is written without a
    model, with the reason in ``failed``. A community without an inner edge gets that report too, as its proper one.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text; None: no model.
        language: ``auto`` (by the script of what is said), or one of :func:`rag_transformers.prompts.languages`.
        max_input_tokens: The most tokens of a prompt, with all that is in it, that of the second try too.
        prompt: Your own, as text, PromptTemplate or ChatPromptTemplate, with the variable ``text`` and, if you like,
            ``max_report_words``.
        max_report_tokens: How long a report is to be at most; the model is told so in words.
        counter: Counts tokens; the run's one, or None for :func:`rag_transformers.tokens.token_counter`.
        reask: Whether a reply that cannot be read is asked for once more.
        prompts: The prompts to take: a folder of your own, see :class:`rag_transformers.prompts.PromptPack`.
        llm_client: Another name for ``llm``.
        llm_invoker: Another name for ``llm``.

    Raises:
        UsageError: An argument is wrong, or the budget too small for the prompt; the message names it.

    The form of a report is that of Microsoft's GraphRAG.

    >>> from rag_transformers.graph import Edge
    >>> from rag_transformers.stores import MemoryGraph
    >>> graph = MemoryGraph()
    >>> graph.upsert_edge(Edge("Ada Moss", "Grain Trust", "founded", description="Ada Moss founded it in 1998."))
    >>> community = Community("0-1", 0, None, (), ("Ada Moss", "Grain Trust"))
    >>> report = ReportWriter().invoke((graph, community))
    >>> report.title, report.summary, report.findings[0].edges
    ('Ada Moss and Grain Trust', 'Ada Moss founded it in 1998.', (('Ada Moss', 'founded', 'Grain Trust'),))
    """

    def __init__(
        self,
        llm: Any = None,
        language: str = "auto",
        max_input_tokens: int = 8000,
        prompt: Any = None,
        max_report_tokens: int = 1000,
        *,
        counter: "TokenCounter | None" = None,
        reask: bool = True,
        prompts: "PromptPack | str | Path | None" = None,
        llm_client: Any = None,
        llm_invoker: Any = None,
    ) -> None:
        owner, aliases = type(self).__name__, {"llm_client": llm_client, "llm_invoker": llm_invoker}
        self.llm: Runnable[Any, Any] | None = optional_llm(owner, llm, aliases)
        pack = as_pack(prompts)
        self.language = pack.checked(f"{owner}: ", language)
        self.max_input_tokens = check_count("max_input_tokens", max_input_tokens)
        self.max_report_tokens = check_count("max_report_tokens", max_report_tokens)
        self.reask = reask
        self._view: tuple[Graph, int, GraphView] | None = None
        self._asking = Asking(
            self.llm,
            self.language,
            templates(owner, language, prompt, pack),
            max_input_tokens,
            max_report_tokens,
            counter,
            pack,
        )
        self._asking.check_room()

    # The Runnable.

    def invoke(self, input: _Given, config: RunnableConfig | None = None, **kwargs: Any) -> Report:
        """Write the report of one community.

        Args:
            input: (graph, community), or (graph, community, reports of its parts); they serve where it is too large.
            config: Callbacks, tags and the like.
            **kwargs: Not used.

        Raises:
            UsageError: ``input`` is something else.
        """
        ready = self._opened(input)

        def write(community: Community, config: RunnableConfig) -> Report:
            talk = self._talk(ready)
            asked = step(talk)
            while not isinstance(asked, Done):
                asked = step(talk, answered(asked, config))
            return cast(Report, asked.result)

        return self._call_with_config(cast(Any, write), ready.community, config)

    async def ainvoke(self, input: _Given, config: RunnableConfig | None = None, **kwargs: Any) -> Report:
        """Write the report of one community; see :meth:`invoke`."""
        ready = await asyncio.to_thread(self._opened, input)

        async def write(community: Community, config: RunnableConfig) -> Report:
            talk = self._talk(ready)
            asked = await asyncio.to_thread(step, talk)
            while not isinstance(asked, Done):
                asked = await asyncio.to_thread(step, talk, await aanswered(asked, config))
            return cast(Report, asked.result)

        return await self._acall_with_config(cast(Any, write), ready.community, config)

    # Many.

    def write_all(
        self,
        graph: Graph,
        communities: Sequence[Community],
        kept: Mapping[str, Report] | None = None,
        config: RunnableConfig | None = None,
        *,
        on_report: Callable[[Report], None] | None = None,
        settled: Mapping[str, Report] | None = None,
    ) -> dict[str, Report]:
        """Write the reports of all communities, as many at one time as the run or the config allows.

        A community waits for the reports of its parts only where they stand for their records. A model that cannot be
        reached is not asked any more: what is left gets the report without a model, marked as failed.

        Args:
            graph: The graph.
            communities: Those of all levels.
            kept: Reports that were written earlier, by their ``key``; one whose key is still the same is not written
                again, unless it failed.
            config: Its ``max_concurrency`` calls are in flight at once; where it names none, those of the run, else 16.
            on_report: Called with each report that is written anew, as soon as it is, in this thread.
            settled: Reports of further communities, by community, where they are parts of those that are written about.

        Returns:
            The reports by community, in the order given; those that ``failed`` are among them.
        """
        plan = self._plan(graph, communities, kept, on_report, settled)
        run = _run(config)
        with run.active():
            while batch := plan.next_batch():
                for number, report in self.batch_as_completed(batch, _paced(config, run)):
                    plan.take(batch[number], report)
        return _told(plan.finished())

    async def awrite_all(
        self,
        graph: Graph,
        communities: Sequence[Community],
        kept: Mapping[str, Report] | None = None,
        config: RunnableConfig | None = None,
        *,
        on_report: Callable[[Report], None] | None = None,
        settled: Mapping[str, Report] | None = None,
    ) -> dict[str, Report]:
        """Write the reports of all communities; see :meth:`write_all`. ``on_report`` may be called in any thread."""
        plan = await asyncio.to_thread(self._plan, graph, communities, kept, on_report, settled)
        run = _run(config)
        with run.active():
            while batch := await asyncio.to_thread(plan.next_batch):
                async for number, report in self.abatch_as_completed(batch, _paced(config, run)):
                    plan.take(batch[number], cast(Report, report))
        return _told(plan.finished())

    @property
    def cache_key(self) -> str:
        """What a report depends on beside what is shown: prompt, language, length and model."""
        return self._asking.maker_key()

    def report_key(
        self, graph: Graph, community: Community, child_reports: Mapping[str, Report] | Sequence[Report] = ()
    ) -> str:
        """The hash of what a report would be made from: what is shown, the prompt, the model and its parameters."""
        return self._opened((graph, community, child_reports)).key

    # How a community is written about.

    def _talk(self, ready: Ready) -> Talk[Report]:
        """Ask, once more where the reply cannot be read; what fails ends in the report without a model."""
        if self.llm is None or ready.shown is None:
            return ready.offline()
        ask = Ask(self.llm, self._asking.prompt(ready.language, ready.shown.text))
        try:
            reply = yield ask
            try:
                return ready.report(read_report(reply, ready.shown))
            except ReplyError as error:
                check_context_size(ask, reply, error, self._asking.count)
                if not self.reask:
                    raise
            reply = yield Ask(self.llm, self._asking.again(ask.prompt, reply, ready.language))
            return ready.report(read_report(reply, ready.shown))
        except ModelError as error:
            _log.info("community %s has the report without a model: %s", ready.community.id, error_line(error))
            return ready.offline(error_line(error))

    # What is settled before.

    def _opened(self, given: Any) -> Ready:
        if isinstance(given, Ready):
            return given
        if not isinstance(given, tuple) or len(given) not in (2, 3) or not isinstance(given[1], Community):
            raise UsageError(f"input is a {type(given).__name__}; give (graph, community), or its parts' reports too")
        graph, community, *rest = given
        return self._settling(self._view_of(graph)).settled(community, by_community(rest[0] if rest else ()))

    def _settling(self, view: GraphView) -> Settling:
        return Settling(view, self._asking)

    def _view_of(self, graph: Any) -> GraphView:
        """The graph as it is now; the last one is kept, for as long as its version says that it has not changed."""
        version, kept = getattr(graph, "version", None), self._view
        if kept is not None and kept[0] is graph and kept[1] == version:
            return kept[2]
        view = GraphView(_checked(graph))
        if isinstance(version, int):
            self._view = graph, version, view
        return view

    def _plan(
        self,
        graph: Any,
        communities: Sequence[Community],
        kept: Mapping[str, Report] | None,
        on_report: Callable[[Report], None] | None,
        settled: Mapping[str, Report] | None,
    ) -> Plan:
        settling = self._settling(GraphView(_checked(graph)))
        kept = {} if kept is None else kept
        return Plan(settling, communities, kept, on_report, with_model=self.llm is not None, settled=settled)


def _checked(graph: Any) -> Graph:
    if not isinstance(graph, Graph):
        raise UsageError(f"graph is a {type(graph).__name__}; give a MemoryGraph, or another that is a Graph")
    return graph


def _told(reports: dict[str, Report]) -> dict[str, Report]:
    """Say in the log that some failed, in one line for all of them; who runs more than this tells of it himself."""
    failed = [report.failed for report in reports.values() if report.failed]
    if failed:
        message = "%d of %d reports are stand-ins without a model; of the first: %s"
        _log.log(logging.INFO if current_run() else logging.WARNING, message, len(failed), len(reports), failed[0])
    return reports


def _run(config: RunnableConfig | None) -> Run:
    most = (config or {}).get("max_concurrency")
    return current_run() or Run(CONCURRENCY if most is None else check_count("max_concurrency", most))


def _paced(config: RunnableConfig | None, run: Run) -> RunnableConfig:
    most = (config or {}).get("max_concurrency")
    return {**(config or {}), "max_concurrency": run.concurrency if most is None else most}
