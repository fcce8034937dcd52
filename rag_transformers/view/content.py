"""What a page shows of a graph: the most connected vertices, the edges between them, communities, reports, sources."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_transformers.communities import Community
from rag_transformers.exports.rows import GraphRows, Row
from rag_transformers.graph import name_key
from rag_transformers.reports.form import Report
from rag_transformers.view.colours import colour
from rag_transformers.view.layout import places

__all__ = ["Content"]


@dataclass(frozen=True)
class Content:
    """What a page shows.

    Args:
        data: As JSON-ready data; what :file:`page.js` reads.
        vertices: How many are drawn.
        edges: How many of the graph's edges are between those.
        all_vertices: How many the graph has.
        all_edges: How many edges the graph has.
    """

    data: dict[str, Any]
    vertices: int
    edges: int
    all_vertices: int
    all_edges: int

    @classmethod
    def of(
        cls,
        rows: GraphRows,
        communities: Sequence[Community],
        reports: Iterable[Report],
        sources: Mapping[str, str],
        most: int,
    ) -> "Content":
        """Choose, place and colour what is to be seen of a graph.

        Args:
            rows: The graph.
            communities: Those of all levels.
            reports: Those on the communities.
            sources: The source of the document of each chunk, by the chunk's id; of chunks that are not among them
                nothing is said.
            most: Vertices that are drawn at most.
        """
        numbers = {name: number for number, name in enumerate(rows.names.values())}
        edges = [(numbers[edge["source"]], numbers[edge["target"]], edge) for edge in rows.edge_rows()]
        degrees = Counter(end for source, target, _ in edges for end in {source, target})
        chosen = _most_connected(len(numbers), degrees, most)
        drawn = {vertex: number for number, vertex in enumerate(chosen)}
        between = [(drawn[s], drawn[t], edge) for s, t, edge in edges if s in drawn and t in drawn]
        grouped = _Communities(communities, reports, {key: drawn.get(n) for n, key in enumerate(rows.names)})
        cited = _Sources(sources)
        vertices = _vertices(rows, chosen, degrees, cited)
        spots = places(len(chosen), _ties(between), [chain[0] if chain else None for chain in grouped.chains])
        for vertex, (x, y), chain in zip(vertices, spots, grouped.chains, strict=True):
            vertex.update(x=x, y=y, communities=chain)
        data = {
            "vertices": vertices,
            "edges": [[source, target, *_edge(edge, cited)] for source, target, edge in between],
            "communities": grouped.listed,
            "sources": cited.listed,
            "all": {"vertices": len(numbers), "edges": len(edges)},
        }
        return cls(data, len(chosen), len(between), len(numbers), len(edges))


class _Sources:
    """The documents that are spoken of, each by a number."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._numbers: dict[str, int] = {}

    def cite(self, row: Row) -> list[list[int]]:
        """The documents behind a vertex or edge, each with how many of its chunks, most first."""
        known = (self._sources.get(chunk) for chunk in row.get("chunks", ()))
        counts = Counter(source for source in known if source is not None)
        return [[self._numbers.setdefault(source, len(self._numbers)), n] for source, n in counts.most_common()]

    @property
    def listed(self) -> list[str]:
        return list(self._numbers)


class _Communities:
    """The communities that hold a vertex that is drawn, by number, and those of each vertex, coarsest first."""

    def __init__(
        self, communities: Sequence[Community], reports: Iterable[Report], drawn: Mapping[str, int | None]
    ) -> None:
        written = {report.community: report for report in reports}
        self.chains: list[list[int]] = [[] for number in drawn.values() if number is not None]
        self.listed: list[Row] = []
        # Colours go by level, so that those of one level are told apart best.
        tinted = Counter[int]()
        for community in sorted(communities, key=lambda each: each.level):
            members = [number for name in community.vertices if (number := drawn.get(name_key(name))) is not None]
            for member in members:
                self.chains[member].append(len(self.listed))
            if members:
                row = _community(community, written.get(community.id))
                if row["size"] > 1:  # one vertex alone is no group to be told from others
                    row["colour"] = colour(tinted[community.level])
                    tinted[community.level] += 1
                self.listed.append(row)


def _community(community: Community, report: Report | None) -> Row:
    row: Row = {"level": community.level, "size": len(community.vertices)}
    if report is not None:
        row.update(title=report.title, summary=report.summary)
        row["findings"] = [[finding.summary, finding.explanation] for finding in report.findings]
    return row


def _most_connected(count: int, degrees: Mapping[int, int], most: int) -> list[int]:
    """The vertices that are drawn, in the order of their keys; of equally connected ones the first."""
    return sorted(sorted(range(count), key=lambda vertex: -degrees[vertex])[:most])


def _vertices(rows: GraphRows, chosen: Sequence[int], degrees: Mapping[int, int], cited: _Sources) -> list[Row]:
    listed = list(zip(rows.names, rows.vertex_rows(), strict=True))
    found = []
    for number in chosen:
        key, row = listed[number]
        vertex: Row = {"name": row["name"], "key": key, "degree": degrees[number]}
        vertex.update({name: str(row[name]) for name in ("type", "description") if name in row})
        if row.get("unheld") is True:
            vertex["unheld"] = True
        if sources := cited.cite(row):
            vertex["sources"] = sources
        found.append(vertex)
    return found


def _edge(row: Row, cited: _Sources) -> list[Any]:
    said = [row["name"], str(row.get("description", "")), cited.cite(row)]
    while said and not said[-1]:  # most say no more than the relation
        said.pop()
    return said


def _ties(between: Iterable[tuple[int, int, Row]]) -> dict[tuple[int, int], float]:
    """The weight of each pair of vertices, whichever way the edges lead."""
    ties: dict[tuple[int, int], float] = {}
    for source, target, edge in between:
        if source != target:
            pair = min(source, target), max(source, target)
            ties[pair] = ties.get(pair, 0.0) + max(edge["weight"], 0.0)
    return ties
