"""The communities and reports of a source, in the names and chunks of the graph that was made of it."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_transformers.communities import Community
from rag_transformers.graph import name_key
from rag_transformers.imports.tables import CommunityRow, Tables
from rag_transformers.reports.form import Report, ReportFinding

if TYPE_CHECKING:
    from rag_transformers.stores import MemoryGraph

__all__ = ["communities_of", "reports_of"]


def communities_of(tables: Tables, graph: "MemoryGraph") -> tuple[Community, ...]:
    """The communities of a source that have a vertex in the graph, the coarsest first, in the source's order.

    Where the source does not say which is the parent, it is the one a level up that holds the most of the members.

    Args:
        tables: The source.
        graph: The graph made of it.
    """
    shown = {vertex.key: vertex.name for vertex in graph}
    members = {
        row.id: sorted({key for name in row.members if (key := name_key(name)) in shown}) for row in tables.communities
    }
    rows = sorted((row for row in tables.communities if members[row.id]), key=lambda row: row.level)
    parents = _parents(rows, members)
    children: dict[str, list[str]] = {}
    for row in rows:
        if (parent := parents[row.id]) is not None:
            children.setdefault(parent, []).append(row.id)
    return tuple(
        Community(
            row.id,
            row.level,
            parents[row.id],
            tuple(children.get(row.id, ())),
            tuple(shown[key] for key in members[row.id]),
        )
        for row in rows
    )


def reports_of(
    tables: Tables, communities: Sequence[Community], chunks: Mapping[str, Sequence[str]], graph: "MemoryGraph"
) -> tuple[Report, ...]:
    """The reports of a source on communities, in their order; vertices and chunks are those of the graph.

    Args:
        tables: The source.
        communities: As :func:`communities_of` gives them.
        chunks: The ids of the chunks that a unit became, by the unit's id.
        graph: The graph made of it.
    """
    written = {report.community: report for report in tables.reports}
    units = {row.id: row.units for row in tables.communities}
    found = []
    for community in communities:
        if (report := written.get(community.id)) is not None:
            behind = [id for unit in units[community.id] for id in chunks.get(unit, ())]
            behind = behind or _behind(community, graph)
            chunk_ids = tuple(dict.fromkeys(behind))
            findings = tuple(_shown(finding, graph) for finding in report.findings)
            said: dict[str, Any] = {"findings": findings, "vertices": community.vertices, "chunks": chunk_ids}
            found.append(dataclasses.replace(report, level=community.level, **said))
    return tuple(found)


def _shown(finding: ReportFinding, graph: "MemoryGraph") -> ReportFinding:
    """A finding with the names of what it rests on as the graph shows them, without what the graph does not hold."""
    names = {name for edge in finding.edges for name in (edge[0], edge[2])} | set(finding.vertices)
    shown = {name: vertex.name for name in names if (vertex := graph.get_vertex(name)) is not None}
    edges = ((shown[s], relation, shown[t]) for s, relation, t in finding.edges if s in shown and t in shown)
    vertices = (shown[name] for name in finding.vertices if name in shown)
    return dataclasses.replace(finding, vertices=tuple(dict.fromkeys(vertices)), edges=tuple(dict.fromkeys(edges)))


def _parents(rows: Sequence[CommunityRow], members: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
    known = {row.id for row in rows}
    holders: dict[tuple[int, str], str] = {}
    for row in rows:
        for key in members[row.id]:
            holders.setdefault((row.level, key), row.id)
    parents: dict[str, str | None] = {}
    for row in rows:
        held = Counter(holders[row.level - 1, key] for key in members[row.id] if (row.level - 1, key) in holders)
        guess = held.most_common(1)[0][0] if held else None
        parents[row.id] = row.parent if row.parent in known else guess
    return parents


def _behind(community: Community, graph: "MemoryGraph") -> list[str]:
    """The chunks behind the vertices of a community, those behind most of them first."""
    vertices = (graph.get_vertex(name) for name in community.vertices)
    return [id for id, _ in Counter(id for vertex in vertices if vertex for id in vertex.chunks).most_common()]
