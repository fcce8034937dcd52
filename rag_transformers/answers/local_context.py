"""Chunks, and what the graph knows around them, as one numbered context within one token budget.

Of the budget chunks have 60 %, vertices and edges 25 %, reports 15 %. What reports leave over goes to the graph, and
what both leave over to the chunks; what the chunks leave over goes back to the graph.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from rag_transformers.answers.citations import label
from rag_transformers.answers.contexts import Context, filled_context, shown
from rag_transformers.answers.report_selection import brief_text
from rag_transformers.errors import check_count
from rag_transformers.graph import Edge, Vertex, name_key
from rag_transformers.summaries.extractive import shortened

if TYPE_CHECKING:
    from rag_transformers.answers.vertex_finder import VertexFinder
    from rag_transformers.reports.writer import Report
    from rag_transformers.stores import MemoryGraph
    from rag_transformers.tokens import TokenCounter

__all__ = ["local_context"]

_GRAPH_SHARE, _REPORT_SHARE = 0.25, 0.15
_SEEDS = 16
"""Vertices around which edges are looked for: those that the question names, then those of the chunks."""
_EDGES = 12
"""Edges of one vertex that are looked at."""
_REPORTS = 3
_ABOUT, _BRIEFLY = 60, 25
"""Tokens of what is said of a vertex or an edge, and of a vertex that only stands at the end of an edge."""
_LONGEST = 2000
"""Characters of a description that are looked at."""
_MISSES = 5
"""After so many in a row that find no room, it is used up."""


class _Entry(NamedTuple):
    """A numbered line of the context."""

    text: str
    chunks: tuple[str, ...]
    kind: str


def local_context(
    question: str,
    chunks: Sequence[Document],
    finder: "VertexFinder",
    reports: Iterable["Report"] = (),
    *,
    budget: int,
    counter: "TokenCounter",
) -> Context:
    """The context of a question about something: chunks, then vertices, edges and reports around what it names.

    All are numbered in one sequence; behind a vertex, an edge or a report are the chunks that it comes from. Both ends
    of every edge that is given stand among the vertices. Where not even a sentence of a chunk fits, there is a warning.

    Args:
        question: The question.
        chunks: Those that suit it best, best first.
        finder: Of the graph.
        reports: All reports on the graph.
        budget: Tokens of the whole context, at least 1.
        counter: Counts tokens.

    Raises:
        UsageError: ``budget`` is no whole number from 1.
    """
    check_count("budget", budget)
    named = finder.named(question)
    seeds = list(dict.fromkeys([*named, *finder.of_chunks([str(chunk.id) for chunk in chunks], _SEEDS)]))[:_SEEDS]
    told = _fitting(_reports(seeds, reports), int(budget * _REPORT_SHARE), counter)
    around = _Around(finder.graph, seeds, len(named) or 1, [str(chunk.id) for chunk in chunks], counter)
    room = int(budget * (_GRAPH_SHARE + _REPORT_SHARE)) - _cost(told, counter)
    facts = around.within(room)
    passages, complete = filled_context(chunks, max(1, budget - _cost([*facts, *told], counter)), counter)
    if chunks and not passages.passages:
        passages, complete = filled_context(chunks, budget, counter)
    left = budget - counter(passages.text) - _cost(told, counter)
    if complete or _cost(facts, counter) > left:
        facts = around.within(left)
    context = _joined(passages, [*facts, *told], budget, counter)
    if not context.passages and (chunks or seeds):
        warnings.warn(f"a budget of {budget} tokens has no room for any passage", stacklevel=2)
    return context


class _Around:
    """The vertices and edges around some vertices, as many as fit."""

    def __init__(
        self, graph: "MemoryGraph", seeds: Sequence[str], named: int, chunks: Sequence[str], counter: "TokenCounter"
    ) -> None:
        self._graph = graph
        self._seeds = seeds
        self._named = named  # how many of the seeds are told of first, at more length
        self._counter = counter
        self._edges = list(_edges_around(graph, seeds, chunks))
        self._told: dict[tuple[str, int], _Entry | None] = {}

    def within(self, room: int) -> list[_Entry]:
        """Vertices first, then edges, each of these with both ends among those."""
        found = _Facts(room, self._counter)
        for name in self._seeds[: self._named]:
            found.add([self._vertex(name, _ABOUT)])
        misses = 0
        for edge in self._edges:
            ends = [self._vertex(name, _BRIEFLY) for name in (edge.source, edge.target)]
            misses = 0 if found.add([*ends, self._edge(edge)]) else misses + 1
            if misses == _MISSES:
                break
        for name in self._seeds:
            found.add([self._vertex(name, _ABOUT)])
        return found.entries()

    def _vertex(self, name: str, limit: int) -> tuple[str, _Entry | None]:
        key = (name, limit)
        if key not in self._told:
            vertex = self._graph.get_vertex(name)
            self._told[key] = None if vertex is None else _vertex_entry(vertex, limit, self._counter)
        return name_key(name), self._told[key]

    def _edge(self, edge: Edge) -> tuple[str, _Entry]:
        way = " -> ".join(map(label, (edge.source, edge.target, edge.name)))
        return "\n".join(edge.key), _Entry(_said(way, edge.summary, _ABOUT, self._counter), edge.chunks, "edge")


class _Facts:
    """Entries within a room, each once; those that belong together are added together or not at all."""

    def __init__(self, room: int, counter: "TokenCounter") -> None:
        self._room = room
        self._counter = counter
        self._entries: dict[str, _Entry] = {}

    def add(self, group: Iterable[tuple[str, _Entry | None]]) -> bool:
        """Add what is new of a group, if all of it fits and all of it is there."""
        new: dict[str, _Entry] = {}
        for key, entry in group:
            if entry is None:
                return False
            if key not in self._entries:
                new.setdefault(key, entry)
        cost = _cost(new.values(), self._counter)
        if cost > self._room:
            return False
        self._room -= cost
        self._entries.update(new)
        return True

    def entries(self) -> list[_Entry]:
        """Vertices, then edges."""
        return sorted(self._entries.values(), key=lambda entry: entry.kind == "edge")


def _edges_around(graph: "MemoryGraph", seeds: Sequence[str], chunks: Sequence[str]) -> Iterator[Edge]:
    """The edges around some vertices: those between two of them, then of each in turn the one that matters most."""
    keys = {name_key(name) for name in seeds}
    found = [graph.strongest_edges(name, _EDGES, seeds, chunks) for name in seeds]
    turns = [edge for turn in zip_longest(*found) for edge in turn if edge is not None]
    inner = [edge for edge in turns if edge.key[0] in keys and edge.key[2] in keys]
    yield from {edge.key: edge for edge in [*inner, *turns]}.values()


def _reports(seeds: Sequence[str], reports: Iterable["Report"]) -> Iterator[list[_Entry]]:
    """The reports that are most of all about some vertices, none about what a better one is about too."""
    weights = {name: 1 / (1 + place) for place, name in enumerate(seeds)}
    rows = []
    for place, report in enumerate(reports):
        held = sum(weights[name] for name in report.vertices if name in weights)
        if held and len(report.vertices) > 1:
            rows.append((-held / len(report.vertices) ** 0.5, place, report))
    chosen: list[Report] = []
    for _, _, report in sorted(rows, key=lambda row: row[:2]):
        if len(chosen) < _REPORTS and not any(set(report.vertices) & set(other.vertices) for other in chosen):
            chosen.append(report)
            yield [_Entry(shown(brief_text(report)), report.chunks, "report")]


def _fitting(groups: Iterable[list[_Entry]], room: int, counter: "TokenCounter") -> list[_Entry]:
    found: list[_Entry] = []
    for group in groups:
        if _cost([*found, *group], counter) <= room:
            found += group
    return found


def _vertex_entry(vertex: Vertex, limit: int, counter: "TokenCounter") -> _Entry:
    kind = vertex.props.get("type")
    name = label(vertex.name)
    name = f"{name} ({label(kind)})" if isinstance(kind, str) and kind else name
    return _Entry(_said(name, vertex.summary, limit, counter), vertex.chunks, "vertex")


def _said(what: str, about: str, limit: int, counter: "TokenCounter") -> str:
    """Something and what is said of it, shortened, in a line."""
    text = shown(" ".join(about[:_LONGEST].split()))
    return f"{what}: {shortened(text, limit, counter)}" if text else what


def _cost(entries: Iterable[_Entry], counter: "TokenCounter") -> int:
    return sum(counter(_line(100, entry)) for entry in entries)


def _line(number: int, entry: _Entry) -> str:
    return f"\n\n[{number}] {entry.text}" if entry.kind == "report" else f"\n[{number}] {entry.text}"


def _joined(passages: Context, entries: Sequence[_Entry], budget: int, counter: "TokenCounter") -> Context:
    """One context of all; if a counter counts more for the whole than for its parts, the last entries are left out."""
    first = len(passages.passages)
    entries = list(entries)
    while True:
        lines = (_line(first + number, entry) for number, entry in enumerate(entries, 1))
        text = f"{passages.text}\n{''.join(lines)}".strip() if entries else passages.text
        if not entries or counter(text) <= budget:
            break
        entries.pop()
    documents = (Document(entry.text, metadata={"kind": entry.kind}) for entry in entries)
    behind = (*((),) * first, *(entry.chunks for entry in entries))
    return Context(text, (*passages.passages, *documents), behind)
