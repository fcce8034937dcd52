"""A graph as a picture: one HTML file to look round in, and what a notebook shows.

The file holds all that it needs and fetches nothing. sigma.js draws it; the vertices stand where igraph puts them, the
same for the same graph, so that the file is too, byte for byte.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rag_transformers.communities import Community, CommunityDetector
from rag_transformers.errors import UsageError, check_count
from rag_transformers.exports.rows import GraphRows
from rag_transformers.files import replacing, usage_errors
from rag_transformers.graph import Graph
from rag_transformers.reports.form import Report
from rag_transformers.view.content import Content
from rag_transformers.view.page import page

__all__ = ["MOST", "Viewed", "view_html", "write_view"]

MOST = 5000
"""Vertices that a browser still draws and redraws without a pause."""


class Viewed(NamedTuple):
    """What a page draws, and of how much."""

    vertices: int
    edges: int
    all_vertices: int
    all_edges: int


def view_html(
    graph: Graph,
    *,
    communities: Iterable[Community] | None = None,
    reports: Iterable[Report] = (),
    sources: Mapping[str, str] | None = None,
    most: int = MOST,
) -> str:
    """A graph as an HTML page: a picture to move and search in, with all that is known of what is clicked.

    Vertices are coloured by community, on the level that is chosen, and sized by the number of their edges. Text of
    documents is shown as text, whatever it holds, and the page may reach no address.

    Args:
        graph: What to show, as it is now.
        communities: Those of all levels; by default ``CommunityDetector()`` finds them.
        reports: On the communities.
        sources: The source of the document of each chunk, by the chunk's id: ``{chunk.id: chunk.metadata["source"]
            for chunk in index.chunks()}``.
        most: Vertices that are drawn at most, at least 1; of more, the most connected are, and the page says so.

    Raises:
        UsageError: No graph, or an argument of a wrong form.

    >>> from rag_transformers.graph import Edge
    >>> from rag_transformers.stores import MemoryGraph
    >>> graph = MemoryGraph()
    >>> graph.upsert_edge(Edge("刘备", "张飞", "结义"))
    >>> "刘备" in view_html(graph)
    True
    """
    return page(_content(graph, communities, reports, sources, most).data)


def write_view(
    graph: Graph,
    target: str | Path,
    *,
    communities: Iterable[Community] | None = None,
    reports: Iterable[Report] = (),
    sources: Mapping[str, str] | None = None,
    most: int = MOST,
) -> Viewed:
    """Write :func:`view_html` into a file, whole or not at all.

    Args:
        graph: What to show, as it is now.
        target: The file; its folder must be there.
        communities: As for :func:`view_html`.
        reports: As for :func:`view_html`.
        sources: As for :func:`view_html`.
        most: As for :func:`view_html`.

    Returns:
        How much the page draws.

    Raises:
        UsageError: As for :func:`view_html`, or the file cannot be written.
    """
    if not isinstance(target, str | os.PathLike):
        raise UsageError(f"target is a {type(target).__name__}; give a path")
    if not os.fspath(target):
        raise UsageError("target is an empty path; give a file")
    with usage_errors(target), replacing(Path(target)) as out:  # before the work is done
        content = _content(graph, communities, reports, sources, most)
        out.write(page(content.data))
    return Viewed(content.vertices, content.edges, content.all_vertices, content.all_edges)


def _content(
    graph: Graph,
    communities: Iterable[Community] | None,
    reports: Iterable[Report],
    sources: Mapping[str, str] | None,
    most: int,
) -> Content:
    if not isinstance(graph, Graph):
        raise UsageError(f"graph is a {type(graph).__name__}; give a graph, such as the attribute graph of an index")
    check_count("most", most)
    for what, given in (("communities", communities or ()), ("reports", reports)):
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise UsageError(f"{what} is a {type(given).__name__}; give those of an index")
    if sources is not None and not isinstance(sources, Mapping):
        raise UsageError(f"sources is a {type(sources).__name__}; give a dict from a chunk's id to its source")
    found = CommunityDetector().detect(graph) if communities is None else tuple(communities)
    written = tuple(reports)
    for what, kind, listed in (("communities", Community, found), ("reports", Report, written)):
        for each in listed:
            if not isinstance(each, kind):
                raise UsageError(f"{what} holds a {type(each).__name__}; give those of an index")
    return Content.of(GraphRows.read(graph), found, written, sources or {}, most)
