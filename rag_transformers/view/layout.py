"""Where each vertex stands: igraph's force-directed layout, the same for the same graph."""

import math
from collections.abc import Mapping, Sequence

from rag_transformers.leiden import seeded

__all__ = ["SIDE", "places"]

SIDE = 2000
"""Of the square in which all vertices stand."""

_STEPS = 2_000_000  # of one vertex each, shared by all
_ROUNDS = (300, 1500)
_BETWEEN = 0.35  # what a tie between two communities pulls, against one inside
_ALONE = 0.2  # what the tie pulls that keeps a component near the middle
_TURN = math.pi * (3 - math.sqrt(5))


def places(
    count: int, ties: Mapping[tuple[int, int], float], groups: Sequence[int | None] = (), seed: int = 0
) -> list[tuple[int, int]]:
    """A place for each vertex, as whole numbers from 0 to :data:`SIDE`.

    Vertices that are tied attract each other, ties inside a community more than others, and all push each other away
    (Fruchterman and Reingold). An unseen vertex in the middle holds on to one vertex of each component, without which
    the components would drift apart. Communities start as neighbours, which fewer rounds then untangle.

    Args:
        count: Vertices.
        ties: The weight, above 0, of each pair of vertices that is tied.
        groups: The community of each vertex; empty where none are known.
        seed: Of the random choices.

    >>> places(3, {(0, 1): 1.0, (1, 2): 1.0}) == places(3, {(1, 2): 1.0, (0, 1): 1.0})
    True
    """
    import igraph

    pairs = sorted(ties)
    groups = groups or [None] * count
    graph = igraph.Graph(count, pairs)
    degrees = graph.degree()
    hubs = [max(part, key=lambda vertex: (degrees[vertex], -vertex)) for part in graph.connected_components()]
    graph.add_vertex()
    graph.add_edges([(hub, count) for hub in hubs])
    pulls = [_pull(ties[pair], groups[pair[0]] == groups[pair[1]]) for pair in pairs] + [_ALONE] * len(hubs)
    with seeded(seed):
        found = graph.layout_fruchterman_reingold(
            weights=pulls,
            niter=min(max(_STEPS // max(count, 1), _ROUNDS[0]), _ROUNDS[1]),
            seed=[*_start(groups), (0.0, 0.0)],
            # Those that are far apart do not push each other: ten times as fast, and chains do not reach out of sight.
            grid="grid",
        )
    return _squared(found.coords[:count])


def _pull(weight: float, inside: bool) -> float:
    """A tie of a hundred chunks pulls more than one of one, but not a hundred times."""
    return (1.0 + math.log(max(weight, 1.0))) * (1.0 if inside else _BETWEEN)


def _start(groups: Sequence[int | None]) -> list[tuple[float, float]]:
    """The seeds of a sunflower, community by community."""
    order = sorted(range(len(groups)), key=lambda vertex: (groups[vertex] is None, groups[vertex] or 0, vertex))
    start = [(0.0, 0.0)] * len(groups)
    for place, vertex in enumerate(order):
        far, turn = math.sqrt(place + 1), place * _TURN
        start[vertex] = (far * math.cos(turn), far * math.sin(turn))
    return start


def _squared(coords: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    if not coords:
        return []
    left, low = (min(point[axis] for point in coords) for axis in (0, 1))
    extent = max(max(point[axis] for point in coords) - least for axis, least in ((0, left), (1, low)))
    scale = SIDE / extent if extent > 0 else 0.0
    return [(round((x - left) * scale), round((y - low) * scale)) for x, y in coords]
