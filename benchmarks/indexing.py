"""How near indexing comes to the time that its model calls take, with a stand-in for the model over HTTP.

python benchmarks/indexing.py [--texts PATH...] [--documents 50] [--latency 0.2] [--concurrency 16]
                              [--embeddings stub|offline] [--runs 3]

Indexes generated articles, or the files and folders that ``--texts`` names, and prints the wall time, the CPU time and
the ideal: the sum over stages of ceil(calls / concurrency) x latency. Imports are done before the clock starts; the
first run of a process also opens its connections, and is printed by itself.
"""

import argparse
import math
import os
import tempfile
import time
from pathlib import Path

from langchain_core.documents import Document
from scale import document
from stub import Stub, served, usual

from rag_transformers import GraphIndex
from rag_transformers.documents import load_documents
from rag_transformers.models.servers import chat_model, embedding_model


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--texts", nargs="+", metavar="PATH", help="files and folders of your own")
    options.add_argument("--documents", type=int, default=50, help="how many articles to generate (default 50)")
    options.add_argument("--latency", type=float, default=0.2)
    options.add_argument("--embed-latency", type=float, default=0.05)
    options.add_argument("--concurrency", type=int, default=16)
    options.add_argument("--embeddings", choices=("stub", "offline"), default="stub")
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    os.environ["OPENAI_API_KEY"] = "none"
    documents = load_documents(given.texts) if given.texts else [document(n, 500) for n in range(given.documents)]
    with tempfile.TemporaryDirectory() as scratch, served(usual, given.latency, given.embed_latency) as stub:
        for run in range(given.runs):
            measure(given, stub, documents, Path(scratch) / f"index-{run}", run)


def measure(given: argparse.Namespace, stub: Stub, documents: list[Document], folder: Path, run: int) -> None:
    embeddings = embedding_model("stub-embed", stub.base_url) if given.embeddings == "stub" else None
    llm = chat_model("stub", stub.base_url)
    wall, cpu = time.perf_counter(), time.process_time()
    with GraphIndex.open(folder, llm, embeddings, concurrency=given.concurrency) as index:
        report = index.add(documents)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    counts = stub.counts()
    ideal = sum(rounds(calls, given.concurrency) for calls in counts["chat"].values()) * given.latency
    ideal += rounds(counts["embed"], given.concurrency) * given.embed_latency
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    print(
        f"run {run}: wall {wall:.2f} s, ideal {ideal:.2f} s, ratio {wall / ideal:.2f}, CPU {cpu:.2f} s; "
        f"{report.chunks} chunks, {report.vertices} vertices, {report.edges} edges, {len(report.failed)} failed; "
        f"calls {counts['chat']}, embedding calls {counts['embed']}, peak {counts['peak']}; {stages}",
        flush=True,
    )


def rounds(calls: int, concurrency: int) -> int:
    return math.ceil(calls / concurrency)


if __name__ == "__main__":
    main()
