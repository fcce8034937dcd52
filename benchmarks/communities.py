"""How fast and how good the hierarchy of communities is, and how much of it changes when a little is added.

Graphs: the edge lists of ``--data`` and a made one of 100,000 vertices and 544,000 edges, with groups and degrees that
are distributed as a power. Graspologic-native's hierarchical Leiden (what Microsoft's GraphRAG uses) and leidenalg run
beside ours in the same process where they are installed:

    pip install graspologic-native leidenalg
    python benchmarks/communities.py [--data DIR] [--only hierarchy | change] [--graphs NAME...] [--runs 3]

``hierarchy`` prints for each graph the least processor time of some runs (one thread each), from names to the
hierarchy and without the numbering of names; modularity of level 0 and of the leaves (the communities that are not
split); and how many leaves there are. For ``CommunityDetector`` it then prints the time with reading a MemoryGraph,
and checks that levels nest and cover.

``change`` drops 1 % of the edges at random, finds the communities of what is left, adds the edges again, and prints
which share of the reports would be rewritten: those of communities whose vertices or inner edges changed. ``dropped``
is the same the other way round. ``frozen`` is the least that is possible: no vertex moves. Of the two runs on the
changed graph, one starts from the stored partition and one from scratch.
"""

import argparse
import gzip
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from given_data import parsed

from rag_transformers.communities import Community, CommunityDetector
from rag_transformers.graph import Edge
from rag_transformers.leiden import Links, hierarchy
from rag_transformers.stores import MemoryGraph

Pairs = list[tuple[str, str]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Found = tuple[float, float, Ints, Ints]
"""Seconds from names, and from numbers where names can be left out; labels of level 0, and of the leaves."""
MAX_SIZE = 10


def read(path: Path) -> Pairs:
    """The distinct pairs of an edge list, in its order."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    rows = (line.split("\t")[:2] for line in text.split("\n") if line)
    return list(dict.fromkeys((first, second) for first, second in rows if first != second))


def made(vertices: int = 100_000, edges: int = 544_000, inner: float = 0.7, seed: int = 5) -> Pairs:
    """A graph with planted groups: sizes and degrees are Pareto-distributed, ``inner`` of the edges stay in a group."""
    draw = np.random.default_rng(seed)
    sizes: list[int] = []
    while sum(sizes) < vertices:
        sizes.append(int(min(2000, 20 * (draw.pareto(1.5) + 1))))
    groups = np.repeat(np.arange(len(sizes)), sizes)[:vertices]
    degrees = np.minimum(draw.pareto(2.0, vertices) + 1, 60)
    reach = np.cumsum(degrees)
    ends = np.searchsorted(groups, np.arange(len(sizes)), side="right")
    tops = reach[ends - 1]
    floors = np.concatenate([[0.0], tops[:-1]])
    tries = int(edges * 1.35)
    source = draw.choice(vertices, tries, p=degrees / degrees.sum())
    owner = groups[source]
    stays = draw.random(tries) < inner
    low, high = np.where(stays, floors[owner], 0.0), np.where(stays, tops[owner], reach[-1])
    target = np.minimum(np.searchsorted(reach, low + draw.random(tries) * (high - low)), vertices - 1)
    pairs = np.minimum(source, target) * vertices + np.maximum(source, target)
    pairs = np.unique(pairs[source != target])
    draw.shuffle(pairs)
    return [
        (f"v{a}", f"v{b}") for a, b in zip(*(part.tolist() for part in divmod(pairs[:edges], vertices)), strict=True)
    ]


class Numbered:
    """Pairs of names as arrays."""

    def __init__(self, pairs: Pairs) -> None:
        self.names = sorted(set(itertools.chain.from_iterable(pairs)))
        self.number = {name: place for place, name in enumerate(self.names)}
        ends = map(self.number.__getitem__, itertools.chain.from_iterable(pairs))
        flat = np.fromiter(ends, np.int64, 2 * len(pairs))
        self.first, self.second = flat[::2].copy(), flat[1::2].copy()

    def links(self) -> Links:
        """With a weight of 1 each."""
        return Links((self.first, self.second), np.ones(len(self.first)), np.zeros(len(self.names), np.int64))

    def modularity(self, labels: Ints) -> float:
        """Of a partition, every edge weighing 1."""
        first, second, total = labels[self.first], labels[self.second], len(self.first)
        degrees = np.bincount(np.concatenate([first, second])).astype(float)
        return float((first == second).sum() / total - (degrees**2).sum() / (2 * total) ** 2)


def ours(pairs: Pairs) -> Found:
    start = time.process_time()
    links = Numbered(pairs).links()
    numbered = time.process_time()
    levels = hierarchy(links, max_size=MAX_SIZE)
    end = time.process_time()
    leaves = levels[0].copy()
    for number, labels in enumerate(levels[1:], 1):
        leaves = np.where(labels >= 0, labels + number * len(leaves), leaves)
    return end - start, end - numbered, levels[0], leaves


def graspologic(pairs: Pairs) -> Found:
    """With the settings of Microsoft's GraphRAG; it takes names, and numbers them itself."""
    import graspologic_native  # type: ignore[import-untyped, import-not-found, unused-ignore]

    edges = [(a, b, 1.0) for a, b in pairs]
    start = time.process_time()
    found = graspologic_native.hierarchical_leiden(edges, None, 1.0, 0.001, 1, True, MAX_SIZE, 1)
    seconds = time.process_time() - start
    number = Numbered(pairs).number
    top, leaves = np.zeros(len(number), np.int64), np.zeros(len(number), np.int64)
    for row in found:
        if row.level == 0:
            top[number[row.node]] = row.cluster
        if row.is_final_cluster:
            leaves[number[row.node]] = row.cluster
    return seconds, seconds, top, leaves


def leidenalg(pairs: Pairs) -> Found:
    """One level, timed; and as its leaves one with ``max_comm_size``, which bounds nothing here."""
    import igraph
    import leidenalg as library  # type: ignore[import-untyped, import-not-found, unused-ignore]

    numbered = Numbered(pairs)
    kind = library.ModularityVertexPartition
    start = time.process_time()
    graph = igraph.Graph(len(numbered.names), list(zip(numbered.first.tolist(), numbered.second.tolist(), strict=True)))
    top = library.find_partition(graph, kind, n_iterations=2, seed=1)
    seconds = time.process_time() - start
    bound = library.find_partition(graph, kind, n_iterations=2, seed=1, max_comm_size=MAX_SIZE)
    return seconds, seconds, np.array(top.membership), np.array(bound.membership)


def compare(pairs: Pairs, runs: int) -> None:
    numbered = Numbered(pairs)
    found: dict[str, list[Found]] = {}
    for run in range(runs):  # in turns, for a machine is not equally fast all the time
        for work in (ours, graspologic, leidenalg):
            if work is leidenalg and run:
                continue
            try:
                found.setdefault(work.__name__, []).append(work(pairs))
            except ImportError:
                found[work.__name__] = []
    print(f"  {'':12} {'seconds':>8} {'w/o names':>9} {'Q level 0':>9} {'Q leaves':>9} {'leaves':>7} {'over 10':>8}")
    for name, results in found.items():
        if not results:
            print(f"  {name:12} not installed")
            continue
        seconds, core = (min(each[place] for each in results) for place in (0, 1))
        _, _, top, leaves = results[0]
        sizes = np.bincount(leaves)
        print(f"  {name:12} {seconds:8.2f} {core:9.2f} {numbered.modularity(top):9.4f}", end="")
        over = (sizes > MAX_SIZE).sum()
        print(f" {numbered.modularity(leaves):9.4f} {(sizes > 0).sum():7,} {over:8,}", flush=True)


def graph_of(pairs: Pairs) -> MemoryGraph:
    graph = MemoryGraph()
    for source, target in pairs:
        graph.upsert_edge(Edge(source, target, "tied"))
    return graph


def detect(pairs: Pairs) -> None:
    graph = graph_of(pairs)
    start = time.process_time()
    communities = CommunityDetector(MAX_SIZE).invoke(graph)
    seconds = time.process_time() - start
    levels = max(each.level for each in communities) + 1
    print(f"  CommunityDetector    {seconds:8.2f} s, {len(communities):,} communities on {levels} levels, ", end="")
    faults = list(broken(graph, communities))
    print(faults[:3] or "every vertex once a level, children hold their parents' vertices", flush=True)


def broken(graph: MemoryGraph, communities: tuple[Community, ...]) -> Iterator[str]:
    """What is wrong with a hierarchy."""
    by_id = {each.id: each for each in communities}
    top = Counter(name for each in communities if each.level == 0 for name in each.vertices)
    if top != Counter(vertex.name for vertex in graph):
        yield "level 0 does not hold every vertex once"
    for each in communities:
        held = Counter(name for child in each.children for name in by_id[child].vertices)
        if each.children and held != Counter(each.vertices):
            yield f"the children of {each.id} do not hold its vertices once"
        if each.children and len(each.vertices) <= MAX_SIZE:
            yield f"{each.id} was split without need"
        if each.parent is not None and each.id not in by_id[each.parent].children:
            yield f"{each.id} is no child of its parent"


def change(name: str, pairs: Pairs) -> None:
    draw = np.random.default_rng(3)
    kept = np.sort(draw.permutation(len(pairs))[len(pairs) // 100 :])
    fewer = [pairs[place] for place in kept]
    for what, before, after in (("added", fewer, pairs), ("dropped", pairs, fewer)):
        old, new = graph_of(before), graph_of(after)
        detector = CommunityDetector(MAX_SIZE)
        found = detector.invoke(old)
        contents = set(content(found, before))
        runs = {"frozen": found, "stored": detector.invoke(new, previous=found), "scratch": detector.invoke(new)}
        numbered = Numbered(after)
        print(f"  {name:28} {what:8}", end="")
        for run, communities in runs.items():
            now = content(communities, after)
            share = sum(each not in contents for each in now) / len(now)
            top = quality(numbered, communities, leaves=False), quality(numbered, communities, leaves=True)
            print(f"  {run} {share:6.1%} (Q {top[0]:.4f} {top[1]:.4f})", end="")
        print(flush=True)


def content(communities: tuple[Community, ...], pairs: Pairs) -> list[tuple[Any, ...]]:
    """What the report of each community is written from: its vertices and its inner edges."""
    edges: dict[str, list[tuple[str, str]]] = {each.id: [] for each in communities}
    for level in range(max(each.level for each in communities) + 1):
        owner = {name: each.id for each in communities if each.level == level for name in each.vertices}
        for source, target in pairs:
            home = owner.get(source)
            if home is not None and home == owner.get(target):
                edges[home].append((source, target))
    return [(each.id, tuple(sorted(edges[each.id]))) for each in communities]


def quality(numbered: Numbered, communities: tuple[Community, ...], *, leaves: bool) -> float:
    labels = np.arange(len(numbered.names)) + len(communities)
    for label, each in enumerate(communities):
        if (leaves and not each.children) or (not leaves and each.level == 0):
            labels[[numbered.number[name] for name in each.vertices if name in numbered.number]] = label
    return numbered.modularity(np.unique(labels, return_inverse=True)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["hierarchy", "change"])
    parser.add_argument("--graphs", nargs="+", help="stems of the files, or made")
    parser.add_argument("--runs", type=int, default=3)
    options = parsed(parser, "graphs as lists of edges", required=False)
    sources: dict[str, Callable[[], Pairs]] = {"made": made}
    for path in sorted((options.data / "graphs").glob("*.tsv*")) if options.data else ():
        sources[path.name.split(".")[0]] = lambda path=path: read(path)  # type: ignore[misc]
    for name in options.graphs or sources:
        pairs = sources[name]()
        print(f"{name}: {len({end for pair in pairs for end in pair}):,} vertices, {len(pairs):,} edges", flush=True)
        if options.only != "change":
            compare(pairs, options.runs)
            detect(pairs)
        if options.only != "hierarchy":
            change(name, pairs)


if __name__ == "__main__":
    main()
