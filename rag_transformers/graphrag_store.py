"""The GraphRAG cookbook's property-graph store on this engine: a graph, its communities and a report on each.

The names are those of LlamaIndex's GraphRAG cookbook; :mod:`rag_transformers.graphrag_query` has its query engine.
"""

import asyncio
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rag_transformers.answers.report_selection import full_text
from rag_transformers.communities import Community, CommunityDetector
from rag_transformers.errors import UsageError
from rag_transformers.graph import Edge, Graph, Vertex
from rag_transformers.models.calls import acall, call
from rag_transformers.models.given import optional_llm
from rag_transformers.models.reading import Reply
from rag_transformers.prompts import PromptPack, as_pack
from rag_transformers.records.json_values import find_object
from rag_transformers.reports.writer import Report, ReportFinding, ReportWriter
from rag_transformers.stores import MemoryGraph
from rag_transformers.summaries.extractive import central_sentences, joined

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.prompt_values import PromptValue
    from langchain_core.runnables import Runnable, RunnableConfig

    from rag_transformers.tokens import TokenCounter

__all__ = ["GraphRAGStore"]

_LENGTH = 600
"""Characters of a report on a plain text without a model."""


@dataclass(frozen=True)
class _Built:
    """What was made of the graph at one moment; replaced as a whole, so that readers never see half of it."""

    version: Any = None
    communities: tuple[Community, ...] = ()
    reports: Mapping[str, Report] = field(default_factory=dict)


class GraphRAGStore:
    """A graph with the reports on its communities, kept up to date with the graph.

    Communities and reports belong to this object. They are made when they are first asked for, and again when the graph
    has changed; a report whose community says what it said is kept.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text; None: reports are written without one.
        graph: The graph, by default a new one.
        max_cluster_size: Vertices of a community that is not split further, at least 2.
        language: Of the reports; ``auto``: by the script of what the graph says.
        max_input_tokens: The most tokens of a prompt for a report.
        counter: Counts tokens.
        llm_client: Another name for ``llm``.
        llm_invoker: Another name for ``llm``.

    Raises:
        UsageError: An argument is wrong; the message names it.

    >>> store = GraphRAGStore()
    >>> store.upsert_relations([Edge("Ada Moss", "Grain Trust", "founded", description="Ada Moss founded it in 1998.")])
    >>> for summary in store.get_community_summaries().values():
    ...     print(summary.splitlines()[0])
    Ada Moss and Grain Trust
    """

    def __init__(
        self,
        llm: Any = None,
        graph: Graph | None = None,
        max_cluster_size: int = 5,
        *,
        language: str = "auto",
        max_input_tokens: int = 8000,
        counter: "TokenCounter | None" = None,
        prompts: "PromptPack | str | Path | None" = None,
        llm_client: Any = None,
        llm_invoker: Any = None,
    ) -> None:
        llm = optional_llm(type(self).__name__, llm, {"llm_client": llm_client, "llm_invoker": llm_invoker})
        if graph is not None and not isinstance(graph, Graph):
            raise UsageError(f"graph is a {type(graph).__name__}; give a MemoryGraph, or another that is a Graph")
        self.llm: Runnable[Any, Any] | None = llm
        self.graph: Graph = MemoryGraph() if graph is None else graph
        self.language = language
        self.prompts = as_pack(prompts)
        self.counter = counter
        self.max_cluster_size = max_cluster_size
        self._detector = CommunityDetector(max_cluster_size)
        self._writer = ReportWriter(llm, language, max_input_tokens, counter=counter, prompts=self.prompts)
        self._built: _Built | None = None

    # The graph.

    def upsert_nodes(self, nodes: Iterable[Any]) -> None:
        """Insert or merge vertices.

        Args:
            nodes: Each a :class:`~rag_transformers.graph.Vertex`, or anything with ``name`` and, if it likes, ``label``
                and ``properties``, such as LlamaIndex's EntityNode.
        """
        for node in nodes:
            self.graph.upsert_vertex(node if isinstance(node, Vertex) else Vertex(node.name, **_props(node, "type")))

    def upsert_relations(self, relations: Iterable[Any]) -> None:
        """Insert or merge edges.

        Args:
            relations: Each an :class:`~rag_transformers.graph.Edge`, or anything with ``source_id``, ``target_id``,
                ``label`` and, if it likes, ``properties``, such as LlamaIndex's Relation.
        """
        for row in relations:
            given = isinstance(row, Edge)
            self.graph.upsert_edge(row if given else Edge(row.source_id, row.target_id, row.label, **_props(row)))

    # Communities.

    @property
    def is_stale(self) -> bool:
        """Whether communities are still to be found, or the graph has changed since; unknown of a graph of your own."""
        version = self._version()
        return self._built is None or version is None or self._built.version != version

    def build_communities(self, config: "RunnableConfig | None" = None) -> None:
        """Find the communities, on all levels, and write the reports that are not written yet.

        A report that a model failed to write is asked for again; until then one without a model stands for it, and a
        warning says so.

        Args:
            config: Its ``max_concurrency`` calls are in flight at once.
        """
        version, before = self._version(), self._built or _Built()
        found = self._detector.invoke(self.graph, previous=before.communities)
        reports = self._writer.write_all(self.graph, found, _by_key(before), config)
        self._take(_Built(version, found, reports))

    async def abuild_communities(self, config: "RunnableConfig | None" = None) -> None:
        """Find the communities and write their reports; see :meth:`build_communities`."""
        version, before = self._version(), self._built or _Built()
        found = await asyncio.to_thread(self._detector.invoke, self.graph, previous=before.communities)
        reports = await self._writer.awrite_all(self.graph, found, _by_key(before), config)
        self._take(_Built(version, found, reports))

    def get_community_summaries(self) -> dict[str, str]:
        """The report on each community as a text, by the community's id, the coarsest level first; built if needed."""
        if self.is_stale:
            self.build_communities()
        return {id: full_text(report) for id, report in self.reports.items()}

    async def aget_community_summaries(self) -> dict[str, str]:
        """The report on each community as a text; see :meth:`get_community_summaries`."""
        if self.is_stale:
            await self.abuild_communities()
        return {id: full_text(report) for id, report in self.reports.items()}

    @property
    def communities(self) -> tuple[Community, ...]:
        """The communities that were found last, of all levels."""
        return self._built.communities if self._built else ()

    @property
    def reports(self) -> dict[str, Report]:
        """The reports that were written last, by the ids of their communities."""
        return dict(self._built.reports) if self._built else {}

    def generate_community_summary(self, text: str, config: "RunnableConfig | None" = None) -> str:
        """One report on relationships that are given as text.

        Args:
            text: One a line: ``source -> target -> relation -> description``; each counts once. Of a text without any
                the report is on the text as it stands.
            config: The caller's config.

        Raises:
            UsageError: The text is empty.
            ModelError: The model failed on a text without relationships; else a report without a model is given.

        >>> print(GraphRAGStore().generate_community_summary("Ada -> Mill -> runs -> Ada runs the mill by the weir."))
        Ada and Mill
        Ada runs the mill by the weir.
        - Ada – runs – Mill: Ada runs the mill by the weir.
        """
        if (given := _community_of(text)) is not None:
            return full_text(self._writer.invoke(given, config))
        return _plain_report(text) if self.llm is None else _read(call(self.llm, self._asked(text), config))

    async def agenerate_community_summary(self, text: str, config: "RunnableConfig | None" = None) -> str:
        """One report on relationships that are given as text; see :meth:`generate_community_summary`."""
        if (given := _community_of(text)) is not None:
            return full_text(await self._writer.ainvoke(given, config))
        return _plain_report(text) if self.llm is None else _read(await acall(self.llm, self._asked(text), config))

    def _asked(self, text: str) -> "PromptValue":
        language = self.prompts.choose(text, self.language)
        words = max(1, int(self._writer.max_report_tokens * self.prompts.words(language).words_per_token))
        return self.prompts.template("community_report", language).invoke({"text": text, "max_report_words": words})

    def _version(self) -> Any:
        return getattr(self.graph, "version", None)

    def _take(self, built: _Built) -> None:
        self._built = built
        failed = [report.failed for report in built.reports.values() if report.failed]
        if failed:
            told = f"{len(failed)} of {len(built.reports)} reports were written without the model"
            warnings.warn(f"{told}, which failed, the first time with: {failed[0]}", stacklevel=3)


def _by_key(built: _Built) -> dict[str, Report]:
    return {report.key: report for report in built.reports.values()}


def _community_of(text: str) -> tuple[MemoryGraph, Community] | None:
    """A graph of the relationships in a text, and all of it as one community; None where there is none."""
    if not isinstance(text, str) or not text.strip():
        raise UsageError("text is empty; give relationships, one a line: source -> target -> relation -> description")
    graph = MemoryGraph()
    for source, target, relation, description in _relationships(text):
        graph.upsert_edge(Edge(source, target, relation, **({"description": description} if description else {})))
    names = tuple(vertex.name for vertex in graph)
    return (graph, Community("0-text", 0, None, (), names)) if graph.edge_count else None


def _plain_report(text: str) -> str:
    return joined(central_sentences([text], _LENGTH))


def _read(reply: Reply) -> str:
    """The report in a reply as a text; a reply that is none, as it stands."""
    found = find_object(reply.text, ("title", "summary"))
    if found is None:
        return reply.text
    fields = {name: str(found.values.get(name) or "") for name in ("title", "summary")}
    rows = found.values.get("findings")
    findings = [
        ReportFinding(str(row.get("summary") or ""), str(row.get("explanation") or ""))
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    ]
    return full_text(Report("0-text", 0, fields["title"], fields["summary"], tuple(findings)))


def _relationships(text: str) -> Iterator[Sequence[str]]:
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("->", 3)]
        if len(fields) >= 3 and all(fields[:3]):
            yield (*fields, "")[:4]


def _props(thing: Any, label: str = "") -> dict[str, Any]:
    """The props of a node or relation of another library; the cookbook's names for a description become ours."""
    props = dict(getattr(thing, "properties", None) or {})
    for name in ("entity_description", "relationship_description"):
        if name in props:
            props.setdefault("description", props.pop(name))
    kind = getattr(thing, "label", None)
    return {label: kind, **props} if label and kind else props
