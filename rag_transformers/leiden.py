"""Weighted links -> nested partitions: one run of Leiden a level for all communities that are to be split.

A community is split by its modularity as a graph of its own. Leiden with the constant Potts model maximises, over
vertices i and j of one community, the sum of w_ij - n_i n_j. With n_i = k_i / sqrt(2m), k and m being taken inside the
community that is split, this is the modularity of every such community at once; so one run on the links that are left
does the work of thousands of runs on small graphs.
"""

import importlib
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["QUALITIES", "Links", "hierarchy", "seeded"]

QUALITIES = ("modularity", "rber", "significance", "surprise")
"""What a partition can be judged by; all but the first need leidenalg.

Each judges a part against the graph that it is a part of, which is what makes splitting a community of its own mean
something. The constant Potts model does not, and is left out: at one resolution it splits nothing twice.
"""

ITERATIONS = (2, 1)
"""Of Leiden, on level 0 and on each below. One more adds under 0.003 of modularity and a fifth of the time."""

TOLERANCE = 0.03
"""How much better, in modularity, a part of the graph must become before stored communities are given up for it.

Measured with benchmarks/communities.py: Leiden nearly always finds something better by less than that, and would
rewrite most reports for it.
"""

# igraph has one random generator a process.
_igraph_generator = threading.Lock()


@dataclass(frozen=True)
class Links:
    """Undirected weighted links among vertices numbered from 0, and the community of each vertex that is to be split.

    Args:
        ends: Two arrays, shape (links,) each: the numbers of both ends; never the same, never in two communities.
        weights: Shape (links,), above 0.
        parents: Shape (vertices,): number of the community of each vertex, from 0, none left out.
    """

    ends: "tuple[Ints, Ints]"
    weights: "Floats"
    parents: "Ints"

    def evened(self) -> "Links":
        """The same with weights that are 1 on average: Leiden makes its random choices at that scale."""
        if not len(self.weights):
            return self
        weights = self.weights / self.weights.max()
        return Links(self.ends, weights / weights.mean(), self.parents)

    def within(self, labels: "Ints", kept: "Ints") -> "Links":
        """What is left of vertices ``kept`` if links between different labels are cut; labels become the parents."""
        import numpy as np

        place = np.full(len(self.parents), -1)
        place[kept] = np.arange(len(kept))
        first, second = self.ends
        inner = np.flatnonzero((labels[first] == labels[second]) & (place[first] >= 0))
        return Links((place[first[inner]], place[second[inner]]), self.weights[inner], _numbered(labels[kept]))

    def degrees(self) -> "Floats":
        """The weighted degree of each vertex."""
        return self.summed(self.weights)

    def summed(self, values: "Floats") -> "Floats":
        """The sum, for each vertex, of a value of its links."""
        count = len(self.parents)
        return _sums(self.ends[0], values, count) + _sums(self.ends[1], values, count)


def hierarchy(
    links: Links,
    *,
    max_size: int = 10,
    resolution: float = 1.0,
    quality: str = "modularity",
    seed: int = 0,
    stored: "Sequence[Ints]" = (),
    tolerance: float = TOLERANCE,
) -> "list[Ints]":
    """Nested partitions, coarsest first, by hierarchical Leiden (Traag, Waltman and van Eck 2019; as in GraphRAG).

    Args:
        links: The graph, with one parent for all.
        max_size: Communities of more vertices are split, as long as Leiden finds parts that are better than the whole.
        resolution: Above 1 for more and smaller communities.
        quality: One of ``QUALITIES``.
        seed: Of the random choices.
        stored: Earlier partitions to start from, in the form of the result.
        tolerance: In modularity; see ``TOLERANCE``.

    Returns:
        For each level the number of each vertex's community there, shape (vertices,); -1 where its community of the
        level before was not split.

    Raises:
        UsageError: leidenalg is needed and missing.

    >>> import numpy as np
    >>> pairs = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)]
    >>> ends = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    >>> [level.tolist() for level in hierarchy(Links(ends, np.ones(7), np.zeros(7, np.int64)), max_size=3)]
    [[0, 0, 0, 1, 1, 1, 2]]
    """
    import numpy as np

    setting = _Setting(quality, resolution, seed, tolerance)
    levels: list[Ints] = []
    ids = np.arange(len(links.parents))
    while len(ids):
        start = stored[len(levels)][ids] if len(levels) < len(stored) else None
        setting.iterations = ITERATIONS[bool(levels)]
        labels = _numbered(_split(links, start, setting))
        sizes = np.bincount(labels)
        # A community whose one part is itself cannot be split; at level 0 there is nothing above that it could repeat.
        whole = (sizes[labels] == np.bincount(links.parents)[links.parents]) & bool(levels)
        if whole.all():
            break
        level = np.full(len(levels[0]) if levels else len(ids), -1)
        level[ids] = np.where(whole, -1, labels)
        levels.append(level)
        large = np.flatnonzero((sizes[labels] > max_size) & ~whole)
        ids, links = ids[large], links.within(labels, large)
    return levels


@dataclass
class _Setting:
    quality: str
    resolution: float
    seed: int
    tolerance: float
    iterations: int = ITERATIONS[0]


def _split(links: Links, start: "Ints | None", setting: _Setting) -> "Ints":
    by = _by_modularity if setting.quality == "modularity" else _by_leidenalg
    return by(links, start, setting)


def _by_modularity(links: Links, start: "Ints | None", setting: _Setting) -> "Ints":
    import numpy as np

    degrees = links.degrees()
    totals = np.bincount(links.parents, degrees)[links.parents]
    masses = degrees * np.sqrt(setting.resolution / np.where(totals > 0, totals, 1.0))
    if start is None:
        return _leiden(links, masses, setting)
    kept = _settled(links, masses, start, setting)
    return _better(links, masses, kept, _leiden(links, masses, setting, kept), setting.tolerance)


def _settled(links: Links, masses: "Floats", start: "Ints", setting: _Setting) -> "Ints":
    """A stored partition made to fit: what fell apart is parted, what is new is placed, and wholes may merge.

    That is Leiden on the graph in which each stored community is one vertex.
    """
    import numpy as np

    alone = np.arange(len(start)) + start.max(initial=-1) + 1
    labels = _numbered(np.where(start >= 0, start, alone), links.parents)
    first, second = links.ends
    inner = labels[first] == labels[second]
    pieces = _components(len(labels), first[inner], second[inner])
    count = int(pieces.max()) + 1
    between = pieces[first] * count + pieces[second]
    pairs, group = np.unique(between[~inner], return_inverse=True)
    weights = _sums(group, links.weights[~inner], len(pairs))
    shrunk = Links((pairs // count, pairs % count), weights, np.zeros(count, np.int64))
    return _leiden(shrunk, _sums(pieces, masses, count), setting)[pieces]


def _better(links: Links, masses: "Floats", kept: "Ints", moved: "Ints", tolerance: float) -> "Ints":
    """``moved`` where it beats ``kept`` by more than the tolerance, for each set of communities that trade vertices."""
    import numpy as np

    kept, moved = _numbered(kept), _numbered(moved)
    blocks = _components(len(kept) and int(kept.max()) + int(moved.max()) + 2, kept, moved + int(kept.max()) + 1)[kept]
    gain = _scores(links, masses, moved, blocks) - _scores(links, masses, kept, blocks)
    taken = gain > tolerance * np.bincount(blocks, links.degrees())
    return np.where(taken[blocks], moved + int(kept.max()) + 1, kept)


def _scores(links: Links, masses: "Floats", labels: "Ints", blocks: "Ints") -> "Floats":
    """For each block, 2m times the modularity of its communities."""
    import numpy as np

    first, second = links.ends
    inner = links.summed(links.weights * (labels[first] == labels[second]))
    expected = masses * np.bincount(labels, masses)[labels]
    return _sums(blocks, inner - expected)


def _leiden(links: Links, masses: "Floats", setting: _Setting, start: "Ints | None" = None) -> "Ints":
    import numpy as np

    if not len(links.weights):
        return np.arange(len(masses))
    graph = _igraph(len(masses), *links.ends)
    with seeded(setting.seed):
        found = graph.community_leiden(
            objective_function="CPM",
            weights=links.weights.tolist(),
            node_weights=masses.tolist(),
            resolution=1.0,
            n_iterations=setting.iterations,
            initial_membership=None if start is None else _numbered(start).tolist(),
        )
    return np.array(found.membership, np.int64)


def _by_leidenalg(links: Links, start: "Ints | None", setting: _Setting) -> "Ints":
    """As :func:`_by_modularity`, by another quality: community by community, as leidenalg takes no masses."""
    import numpy as np

    labels = np.zeros(len(links.parents), np.int64)
    order = np.argsort(links.parents, kind="stable")
    bounds = np.cumsum(np.bincount(links.parents))[:-1]
    owner = links.parents[links.ends[0]]
    by_owner = np.argsort(owner, kind="stable")
    owned = np.split(by_owner, np.cumsum(np.bincount(owner, minlength=len(bounds) + 1))[:-1])
    place = np.empty_like(labels)
    for members, inner in zip(np.split(order, bounds), owned, strict=True):
        place[members] = np.arange(len(members))
        first, second = (place[end[inner]] for end in links.ends)
        begin = None if start is None else start[members]
        part = _one_by_leidenalg((len(members), first, second), links.weights[inner], begin, setting)
        labels[members] = part + labels.max() + 1
    return labels


def _one_by_leidenalg(
    shape: "tuple[int, Ints, Ints]",
    weights: "Floats",
    start: "Ints | None",
    setting: _Setting,
) -> "Ints":
    import numpy as np

    try:
        leidenalg: Any = importlib.import_module("leidenalg")
    except ImportError:
        raise UsageError(
            f"quality {setting.quality!r} needs leidenalg: pip install leidenalg, or take 'modularity'"
        ) from None
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "rber": (
            leidenalg.RBERVertexPartition,
            {"weights": weights.tolist(), "resolution_parameter": setting.resolution},
        ),
        "significance": (leidenalg.SignificanceVertexPartition, {}),
        "surprise": (leidenalg.SurpriseVertexPartition, {"weights": weights.tolist()}),
    }
    kind, options = kinds[setting.quality]
    if start is not None:
        alone = np.arange(len(start)) + start.max(initial=-1) + 1
        options["initial_membership"] = _numbered(np.where(start >= 0, start, alone)).tolist()
    if not len(weights):
        return np.arange(shape[0])
    found = leidenalg.find_partition(_igraph(*shape), kind, n_iterations=ITERATIONS[0], seed=setting.seed, **options)
    return np.array(found.membership, np.int64)


def _igraph(count: int, first: "Ints", second: "Ints") -> Any:
    import igraph

    # A list of tuples: igraph reads an array eight times slower.
    return igraph.Graph(count, list(zip(first.tolist(), second.tolist(), strict=True)))


def _components(count: int, first: "Ints", second: "Ints") -> "Ints":
    import numpy as np

    return np.array(_igraph(count, first, second).connected_components().membership, np.int64)


def _numbered(*labels: "Ints") -> "Ints":
    """Labels, or pairs of labels, as numbers from 0 without a gap, in the order of the labels."""
    import numpy as np

    joined = labels[0]
    for more in labels[1:]:
        joined = joined * (int(more.max(initial=0)) + 1) + more
    return np.unique(joined, return_inverse=True)[1].astype(np.int64)


def _sums(groups: "Ints", values: "Floats", count: int = 0) -> "Floats":
    """The sum of the values of each group."""
    import numpy as np

    # Of nothing, bincount gives whole numbers.
    return np.bincount(groups, values, count).astype(np.float64)


def _own_thread(seed: int) -> SimpleNamespace:
    """A seeded generator for this thread; for any other thread, what igraph has by default.

    Another thread may use igraph while this one waits for the interpreter. Leiden draws millions of times, so each is
    one lean call.
    """
    owner, thread = threading.get_ident(), threading.get_ident
    mine, others = random.Random(seed), random

    def getrandbits(bits: int, own: Any = mine.getrandbits, other: Any = others.getrandbits) -> Any:
        return own(bits) if thread() == owner else other(bits)

    def uniform(own: Any = mine.random, other: Any = others.random) -> Any:
        return own() if thread() == owner else other()

    def randint(least: int, most: int) -> int:
        return (mine if thread() == owner else others).randint(least, most)

    def gauss(mean: float, deviation: float) -> float:
        return (mine if thread() == owner else others).gauss(mean, deviation)

    return SimpleNamespace(getrandbits=getrandbits, random=uniform, randint=randint, gauss=gauss)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Give igraph a seeded generator, and afterwards its default one, the module ``random``."""
    import igraph

    with _igraph_generator:
        igraph.set_random_number_generator(_own_thread(seed))
        try:
            yield
        finally:
            igraph.set_random_number_generator(random)
