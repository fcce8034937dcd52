"""How fast a MemoryGraph fills, and what it holds in memory.

A million edges among a hundred thousand vertices, at random, each with a description and a chunk of its own, beside a
bare networkx MultiDiGraph that is given the same and merges nothing:

    python benchmarks/memory_graph.py [--edges 1000000] [--vertices 100000] [--only NAME]

Each line is measured in a process of its own: seconds of this thread's processor time, and how much more memory the
process holds at its peak than before.
"""

import argparse
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from rag_transformers.graph import Edge, Extraction
from rag_transformers.stores import MemoryGraph

Row = tuple[str, str, str, str, str]
RELATIONS = 50
EDGES_A_CHUNK = 20


def rows(edges: int, vertices: int) -> list[Row]:
    """(source, relation, target, description, chunk) at random; names and ids are shared as in real input."""
    draw = random.Random(7)
    names = [f"Vertex {number}" for number in range(vertices)]
    relations = [f"relation {number}" for number in range(RELATIONS)]
    chunks = [f"chunk {number}" for number in range(edges // EDGES_A_CHUNK + 1)]
    return [
        (draw.choice(names), draw.choice(relations), draw.choice(names), f"said in {i}", chunks[i // EDGES_A_CHUNK])
        for i in range(edges)
    ]


def networkx_alone(given: list[Row]) -> Any:
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for source, relation, target, text, chunk in given:
        graph.add_edge(source, target, key=relation, description=text, chunks=[chunk])
    return graph


def upsert_edge(given: list[Row]) -> MemoryGraph:
    graph = MemoryGraph()
    for source, relation, target, text, chunk in given:
        graph.upsert_edge(Edge(source, target, relation, description=text, chunks=[chunk]))
    return graph


def upsert_edge_twice(given: list[Row]) -> MemoryGraph:
    graph = upsert_edge(given)
    version = graph.version
    with timed("  the same once more", len(given)):
        for source, relation, target, text, chunk in given:
            graph.upsert_edge(Edge(source, target, relation, description=text, chunks=[chunk]))
    assert graph.version == version
    return graph


def upsert_edge_bare(given: list[Row]) -> MemoryGraph:
    graph = MemoryGraph()
    for source, relation, target, _, _ in given:
        graph.upsert_edge(Edge(source, target, relation))
    return graph


def add_extractions(given: list[Row]) -> MemoryGraph:
    graph = MemoryGraph()
    for start in range(0, len(given), EDGES_A_CHUNK):
        part = given[start : start + EDGES_A_CHUNK]
        names = dict.fromkeys(name for row in part for name in (row[0], row[2]))
        entities = [(name, "") for name in names]
        graph.add(Extraction(entities, [(s, r, t, text) for s, r, t, text, _ in part]), part[0][4])
    return graph


def reading(given: list[Row]) -> MemoryGraph:
    graph = upsert_edge(given)
    count = graph.edge_count
    with timed("  edges(), all read", count):
        assert sum(1 for _ in graph.edges()) == count
    with timed("  to_igraph()", count):
        assert graph.to_igraph().ecount() == count
    with timed("  to_networkx()", count):
        assert graph.to_networkx().number_of_edges() == count
    with timed("  1,000 searches of 2 hops", 1000):
        for number in range(1000):
            graph.search(f"Vertex {number}", depth=2, fan=10)
    return graph


WORK: dict[str, Callable[[list[Row]], Any]] = {
    work.__name__: work
    for work in (networkx_alone, upsert_edge, upsert_edge_twice, upsert_edge_bare, add_extractions, reading)
}


class timed:
    """Print the time of a piece of work on some items, and the memory that it took."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = name, count

    def __enter__(self) -> None:
        self.memory, self.start = peak(), time.process_time()

    def __exit__(self, *_: object) -> None:
        seconds = time.process_time() - self.start
        rate, memory = self.count / seconds, peak() - self.memory
        print(f"{self.name:28} {seconds:8.2f} s {rate:12,.0f} a second {memory:8,.0f} MB", flush=True)


def peak() -> float:
    """The most memory that this process held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--vertices", type=int, default=100_000)
    parser.add_argument("--only", choices=WORK)
    options = parser.parse_args()
    if options.only:
        given = rows(options.edges, options.vertices)
        with timed(options.only, len(given)):
            WORK[options.only](given)
        return
    for name in WORK:
        subprocess.run([sys.executable, *sys.argv, "--only", name], check=True)


if __name__ == "__main__":
    main()
