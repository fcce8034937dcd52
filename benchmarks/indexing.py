"""How near indexing comes to the time that its model calls take, against the stub server of ../shared/bench.

python benchmarks/indexing.py [--shared ../shared] [--documents 50] [--latency 0.2] [--concurrency 16]
                              [--embeddings stub|offline] [--runs 3]

Starts the stub (which needs aiohttp), indexes generated articles over HTTP, and prints the wall time, the CPU time and
the ideal: the sum over stages of ceil(calls / concurrency) x latency. Imports are done before the clock starts; the
first run of a process also opens its connections, and is printed by itself.
"""

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from rag_transformers import GraphIndex
from rag_transformers.models.servers import chat_model, embedding_model


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    options.add_argument("--documents", type=int, default=50)
    options.add_argument("--latency", type=float, default=0.2)
    options.add_argument("--embed-latency", type=float, default=0.05)
    options.add_argument("--concurrency", type=int, default=16)
    options.add_argument("--embeddings", choices=("stub", "offline"), default="stub")
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    os.environ["OPENAI_API_KEY"] = "none"
    with tempfile.TemporaryDirectory() as scratch, stub_server(given) as url:
        documents = articles(given.shared / "bench", Path(scratch) / "articles", given.documents)
        for run in range(given.runs):
            measure(given, url, documents, Path(scratch) / f"index-{run}", run)


def measure(given: argparse.Namespace, url: str, documents: list[Document], folder: Path, run: int) -> None:
    embeddings = embedding_model("stub-embed", f"{url}/v1") if given.embeddings == "stub" else None
    llm = chat_model("stub", f"{url}/v1")
    _ask(f"{url}/reset", b"")
    wall, cpu = time.perf_counter(), time.process_time()
    with GraphIndex.open(folder, llm, embeddings, concurrency=given.concurrency) as index:
        report = index.add(documents)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    stats = _ask(f"{url}/stats")
    ideal = sum(rounds(calls, given.concurrency) for calls in stats["calls_by_kind"].values()) * given.latency
    ideal += rounds(stats["embedding_calls"], given.concurrency) * given.embed_latency
    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    print(
        f"run {run}: wall {wall:.2f} s, ideal {ideal:.2f} s, ratio {wall / ideal:.2f}, CPU {cpu:.2f} s; "
        f"{report.chunks} chunks, {report.vertices} vertices, {report.edges} edges, {len(report.failed)} failed; "
        f"calls {stats['calls_by_kind']}, embedding calls {stats['embedding_calls']}, "
        f"peak {stats['peak_in_flight']}; {stages}",
        flush=True,
    )


def rounds(calls: int, concurrency: int) -> int:
    return math.ceil(calls / concurrency)


def articles(bench: Path, folder: Path, number: int) -> list[Document]:
    subprocess.run([sys.executable, bench / "corpus.py", folder, "--n", str(number)], check=True, capture_output=True)
    return [
        Document(path.read_text(encoding="utf-8"), metadata={"source": path.name})
        for path in sorted(folder.glob("*.txt"))
    ]


@contextmanager
def stub_server(given: argparse.Namespace) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    timing = ["--latency", str(given.latency), "--embed-latency", str(given.embed_latency)]
    stub = [sys.executable, str(given.shared / "bench" / "stub_llm.py"), "--port", str(port), *timing]
    with subprocess.Popen(stub) as process:
        try:
            for _ in range(100):
                try:
                    _ask(f"http://127.0.0.1:{port}/stats")
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _ask(url: str, data: bytes | None = None) -> dict[str, Any]:
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as response:
        answer: dict[str, Any] = json.load(response)
        return answer


if __name__ == "__main__":
    main()
