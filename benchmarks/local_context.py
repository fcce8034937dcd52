"""How long the context of a question takes on a large graph with a hub, and what is in it. No model.

    python benchmarks/local_context.py [--edges 100000] [--hub 10000] [--vertices 40000]

A graph of so many edges is made, one vertex of which has ``--hub`` of them, each edge and vertex with a description and
chunks. Prints the seconds for the finder (once for each state of the graph) and for one context, of the hub and of a
vertex beside it, and what the context holds.
"""

import argparse
import random
import time

from langchain_core.documents import Document

from rag_transformers.answers.local_context import local_context
from rag_transformers.answers.vertex_finder import VertexFinder
from rag_transformers.graph import Edge
from rag_transformers.stores import MemoryGraph
from rag_transformers.tokens import token_counter


def made(edges: int, hub: int, vertices: int) -> MemoryGraph:
    """A random graph with a hub."""
    rng = random.Random(7)
    names = [f"Harbour {number}" for number in range(vertices)]
    graph = MemoryGraph()
    for number in range(edges):
        source = "Main Harbour" if number < hub else rng.choice(names)
        said = f"In year {number} goods went from {source} to another harbour, and the toll was paid in silver."
        target = names[number] if number < hub else rng.choice(names)
        graph.upsert_edge(Edge(source, target, "ships to", description=said, chunks=[f"c{number // 5}"]))
    return graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--hub", type=int, default=10_000)
    parser.add_argument("--vertices", type=int, default=40_000)
    given = parser.parse_args()
    graph = made(given.edges, given.hub, given.vertices)
    print(f"{graph.vertex_count} vertices, {graph.edge_count} edges")
    counter = token_counter()
    counter("warm up")
    started = time.perf_counter()
    finder = VertexFinder(graph)
    finder.named("Warm Up")
    print(f"finder: {time.perf_counter() - started:.3f} s, once for each state of the graph")
    chunks = [
        Document(f"Ships went out of Main Harbour in the year {number}.", id=f"c{number}", metadata={"source": "log"})
        for number in range(10)
    ]
    for question in ("What goes out of Main Harbour?", "What reaches Harbour 77?"):
        started = time.perf_counter()
        context = local_context(question, chunks, finder, budget=6000, counter=counter)
        took = time.perf_counter() - started
        kinds = [passage.metadata.get("kind", "chunk") for passage in context.passages]
        held = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("chunk", "vertex", "edge", "report"))
        print(f"{question} {took:.3f} s, {counter(context.text)} tokens: {held}")


if __name__ == "__main__":
    main()
