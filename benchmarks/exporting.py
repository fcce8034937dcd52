"""How long an export takes, and how much memory beside the graph: python benchmarks/exporting.py [EDGES ...].

Makes a graph of so many edges (default 20,000 and 100,000), five to a vertex, with descriptions of some sixty
characters, and writes it in every format. Prints seconds of the processor, size, and how far the peak of memory rose
above the graph. Then the same for networkx's own GraphML writer.
"""

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import networkx as nx

from rag_transformers.exports import export_graph, formats
from rag_transformers.graph import Extraction
from rag_transformers.stores import MemoryGraph

CHUNK = 25
"""Edges that one chunk tells of."""


def make_graph(edges: int) -> MemoryGraph:
    graph, draw = MemoryGraph(), random.Random(7)
    number = 0
    while graph.edge_count < edges:
        names = [f"Ship {draw.randrange(edges // 5)} 号" for _ in range(10)]
        entities = [(name, f"Reported in letter {number} as «overdue» & still at sea 在海上") for name in names]
        pairs = [draw.sample(names, 2) for _ in range(CHUNK)]
        told = [(a, f"met {draw.randrange(40)}", b, f"Letter {number} says\n that they met 相遇") for a, b in pairs]
        graph.add(Extraction(entities, told), f"{number:040d}")
        number += 1
    return graph


def write_by_networkx(graph: MemoryGraph, path: Path) -> None:
    nx.write_graphml(graph.to_networkx(), path)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure(name: str, write: Callable[[], object], path: Path) -> None:
    before, start = peak(), time.process_time()
    write()
    seconds = time.process_time() - start
    files = path.iterdir() if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files) / 1e6
    print(f"  {name:16} {seconds:6.2f} s  {size:6.1f} MB  peak +{peak() - before} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edges", type=int, nargs="*", default=[20_000, 100_000])
    for edges in parser.parse_args().edges:
        graph = make_graph(edges)
        print(f"{graph.vertex_count:,} vertices, {graph.edge_count:,} edges, {peak()} MB")
        with tempfile.TemporaryDirectory() as folder:
            for name in formats():
                path = Path(folder) / name
                measure(name, partial(export_graph, graph, name, path), path)
            path = Path(folder) / "networkx"
            measure("networkx writer", partial(write_by_networkx, graph, path), path)


if __name__ == "__main__":
    main()
