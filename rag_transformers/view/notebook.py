"""What a notebook shows of a graph: a picture of a small one, a table of a large one; no script, nothing fetched."""

import html
import math
from collections import Counter
from collections.abc import Sequence

from rag_transformers.communities import CommunityDetector
from rag_transformers.exports.escapes import escape
from rag_transformers.exports.rows import GraphRows
from rag_transformers.graph import Graph, name_key
from rag_transformers.view.colours import colour
from rag_transformers.view.layout import SIDE, places

__all__ = ["graph_html"]

_FEW = 100  # vertices of a picture in which names can still be read
_FEW_EDGES = 400
_ROWS = 10
_WIDTH, _HEIGHT = 760, 520
_BESIDE, _ABOVE = 80, 30  # room for names


def graph_html(graph: Graph) -> str:
    """A graph as HTML for a notebook: up to 100 vertices are drawn, of more the most connected are listed.

    >>> from rag_transformers.graph import Edge
    >>> from rag_transformers.stores import MemoryGraph
    >>> graph = MemoryGraph()
    >>> graph.upsert_edge(Edge("Ada <b>", "张飞", "knows"))
    >>> "<svg" in graph_html(graph), "Ada &lt;b&gt;" in graph_html(graph)
    (True, True)
    """
    rows = GraphRows.read(graph)
    numbers = {name: number for number, name in enumerate(rows.names.values())}
    edges = [(numbers[row["source"]], numbers[row["target"]], str(row["name"])) for row in rows.edge_rows()]
    degrees = Counter(end for source, target, _ in edges for end in {source, target})
    said = f"{len(numbers):,} vertices, {len(edges):,} edges"
    if not numbers or len(numbers) > _FEW or len(edges) > _FEW_EDGES:
        return f"<div><p>{said}</p>{_table(rows, degrees)}</div>"
    return f"<div><p>{said}</p>{_picture(graph, rows, edges, degrees)}</div>"


def _table(rows: GraphRows, degrees: Counter[int]) -> str:
    if not degrees:
        return ""
    most = sorted(degrees, key=lambda number: (-degrees[number], number))[:_ROWS]
    lines = [
        f"<tr><td>{_text(rows.vertices[n].name, 60)}</td><td>{degrees[n]:,}</td>"
        f"<td style='text-align:left'>{_text(' '.join(rows.vertices[n].summary.split()), 120)}</td></tr>"
        for n in most
    ]
    head = "<tr><th>most connected</th><th>edges</th><th style='text-align:left'>description</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"


def _picture(graph: Graph, rows: GraphRows, edges: Sequence[tuple[int, int, str]], degrees: Counter[int]) -> str:
    groups = _groups(graph, rows)
    ties = {(min(edge[:2]), max(edge[:2])): 1.0 for edge in edges if edge[0] != edge[1]}
    spots = [_spot(x, y) for x, y in places(len(rows.vertices), ties, groups)]
    lines = "".join(_line(spots[source], spots[target], name) for source, target, name in edges)
    discs = "".join(
        _disc(spot, degrees[number], group, rows.vertices[number].name, rows.vertices[number].summary)
        for number, (spot, group) in enumerate(zip(spots, groups, strict=True))
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" style="width:100%;max-width:{_WIDTH}px" font-size="11" '
        f'font-family="sans-serif" text-anchor="middle" role="img">'
        f'<g stroke="currentColor" stroke-opacity="0.3">{lines}</g>{discs}</svg>'
    )


def _groups(graph: Graph, rows: GraphRows) -> list[int | None]:
    """The community of each vertex, by number."""
    found = [each for each in CommunityDetector().detect(graph) if each.level == 0]
    of = {name_key(name): number for number, each in enumerate(found) for name in each.vertices}
    return [of.get(key) for key in rows.names]


def _spot(x: int, y: int) -> tuple[int, int]:
    wide, high = _WIDTH - 2 * _BESIDE, _HEIGHT - 2 * _ABOVE
    return round(_BESIDE + x / SIDE * wide), round(_ABOVE + y / SIDE * high)


def _line(start: tuple[int, int], end: tuple[int, int], name: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"><title>{_text(name, 80)}</title></line>'


def _disc(spot: tuple[int, int], degree: int, group: int | None, name: str, summary: str) -> str:
    (x, y), radius = spot, round(3 + 1.5 * math.sqrt(degree), 1)
    told = f"<title>{_text(f'{name}: {summary}' if summary else name, 300)}</title>"
    fill = "#8a94a1" if group is None else colour(group)
    disc = f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}"/>'
    return f'<g>{told}{disc}<text x="{x}" y="{y + radius + 10:g}" fill="currentColor">{_text(name, 24)}</text></g>'


def _text(text: str, most: int) -> str:
    """A text as HTML, in at most so many characters."""
    shown = text if len(text) <= most else text[: most - 1] + "…"
    return html.escape(escape(shown))
