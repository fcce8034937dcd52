"""How long a history over many chunks takes, beside the embeddings.

Made-up chunks of 150 words in two hundred subjects, vectors of 512 numbers that cost next to nothing, and Chroma in a
folder that is deleted afterwards:

    python benchmarks/chunk_history.py [--chunks 10000] [--write 10 512]

Printed are seconds a thousand chunks for reading in one batch, by the number of texts in one write; how many of the
sections that an exact search shows were shown; then what a few chunks of an early place cost, one chunk alone, and
emptying. Times are of the clock.
"""

import argparse
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from rag_transformers.stores import ChunkHistory
from rag_transformers.stores.chroma import chroma_store, close_chroma, open_chroma

SIZE, SUBJECTS = 512, 200


class Subjects(Embeddings):
    """A vector near that of the subject that a text begins with."""

    def __init__(self) -> None:
        self.centres = np.random.default_rng(0).normal(size=(SUBJECTS, SIZE)).astype(np.float32)
        self.seconds = 0.0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Made from the text alone; the time that it takes is noted."""
        start = time.perf_counter()
        rows = [
            self.centres[int(text.split()[1])]
            + np.random.default_rng(zlib.crc32(text.encode())).normal(size=SIZE).astype(np.float32)
            for text in texts
        ]
        vectors: list[list[float]] = np.stack(rows).tolist()
        self.seconds += time.perf_counter() - start
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The same as for a document."""
        return self.embed_documents([text])[0]


def made_up(count: int) -> list[Document]:
    """Chunks in reading order, their subjects mixed."""
    words = "words and more words " * 37
    return [
        Document(f"subject {place * 7919 % SUBJECTS} part {place} {words}", metadata={"order": place})
        for place in range(count)
    ]


def took(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def exact(chunks: list[Document], topk: int) -> list[set[str]]:
    """The nearest earlier chunks of each, by comparing all with all."""
    vectors = np.asarray(Subjects().embed_documents([chunk.page_content for chunk in chunks]), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    best = []
    for place, vector in enumerate(vectors):
        cosines = vectors[:place] @ vector
        nearest = np.argsort(-cosines)[:topk]
        best.append({chunks[i].page_content for i in nearest if cosines[i] >= 0.3})
    return best


def measure(chunks: list[Document], size: int, expected: list[set[str]]) -> None:
    folder, embeddings = tempfile.mkdtemp(), Subjects()
    client = open_chroma(folder)
    history = ChunkHistory(chroma_store(client, "history", embeddings), max_chunks_once_load=size)
    seconds, contexts = took(lambda: history.read(chunks))
    own = seconds - embeddings.seconds
    per = 1000 / len(chunks)
    print(f"{len(chunks)} chunks, {size} texts a write: {own * per:.2f} s a thousand, without embedding", flush=True)
    shown = [{section.page_content for section in sections} for sections in contexts]
    hits = sum(len(a & b) for a, b in zip(shown, expected, strict=True))
    print(f"  sections of an exact search that were shown: {hits / max(1, sum(map(len, expected))):.4f}")
    early = [Document(f"subject {n} again", metadata={"order": 50}) for n in range(10)]
    print(f"  10 chunks of place 50 among {len(chunks)}: {took(lambda: history.read(early))[0]:.2f} s")
    print(f"  one chunk alone: {took(lambda: history.read(['subject 3 alone']))[0]:.3f} s")
    print(f"  truncate: {took(history.truncate)[0]:.2f} s", flush=True)
    close_chroma(client)
    shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--write", type=int, nargs="+", default=[10, 512])
    options = parser.parse_args()
    chunks = made_up(options.chunks)
    expected = exact(chunks, topk=5)
    for size in options.write:
        measure(chunks, size, expected)


if __name__ == "__main__":
    main()
