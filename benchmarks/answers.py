"""How well chunks are found, how often quoted sentences hold the answer, and when "no data" is said. No model.

    python benchmarks/answers.py --data DIR [--engine parts|index] [--only rows,quotes,gate] [--own FILE]

The public sets come from DATA/qa and the two books from DATA/corpus_en and DATA/corpus_zh. Prints

- rows: recall@2/@5/@10 on each set (60 questions): BM25 alone, nearest sentence alone, both as retrieval ranks them by
  so many nearest sentences; and with all sets in one index;
- quotes: how often the one best sentence, and all quoted ones, hold the gold answer; the questions in two halves, the
  first of which was looked at when the weights were chosen;
- gate: how often the answer is "no data", of questions on other things (wanted: often) and on the index's own passages
  (wanted: never).

With ``--engine index`` the ranking, the answers and the gate are GraphIndex's; with ``parts`` those of retrieval.py and
querying.py over all sentence vectors. ``--own`` adds a JSONL file of {"index", "question", "held"} to the gate, where
index is a set's name, ``carol`` or ``sanguo``.
"""

import argparse
import gzip
import itertools
import json
import tempfile
import time
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from given_data import parsed
from langchain_core.documents import Document

from rag_transformers.answers.querying import Answer, offline_answer
from rag_transformers.chunking import Chunker
from rag_transformers.embeddings import default_embeddings
from rag_transformers.retrieval.evidence import find_evidence
from rag_transformers.retrieval.ranking import (
    NEAREST_SENTENCES,
    Lexical,
    dense_scores,
    lexical_text,
    rank,
    sentence_texts,
)

SETS = ("musique", "hotpotqa", "cmrc2018", "drcd")
BOOKS = {"carol": "corpus_en/a_christmas_carol.txt", "sanguo": "corpus_zh/sanguo_001-020.txt"}
KS = (2, 5, 10)
FOREIGN = (("musique", "carol"), ("hotpotqa", "carol"), ("cmrc2018", "sanguo"), ("drcd", "sanguo"))
ACROSS = (("musique", "sanguo"), ("cmrc2018", "carol"))


class Engine(Protocol):
    """What is measured."""

    def sources(self, question: str, k: int) -> list[str]:
        """The sources of the best chunks, best first, each once."""

    def answer(self, question: str) -> Answer:
        """The answer without a model."""


class Parts:
    """The parts, over all sentence vectors of some documents."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.chunks = [chunk for document in documents for chunk in Chunker().split(document)]
        self.ids = [str(chunk.id) for chunk in self.chunks]
        sentences = [[each.text for each in sentence_texts(chunk)] for chunk in self.chunks]
        self.matrix = default_embeddings().embed_array(list(itertools.chain.from_iterable(sentences)))
        self.owners = np.repeat(np.arange(len(self.chunks)), [len(each) for each in sentences])
        self.vectors = np.split(self.matrix, np.cumsum([len(each) for each in sentences])[:-1])
        self.lexical = Lexical((id, lexical_text(chunk)) for id, chunk in zip(self.ids, self.chunks, strict=True))
        self.places = {id: place for place, id in enumerate(self.ids)}

    def nearest(self, vector: npt.NDArray[np.float32], n: int | None) -> list[tuple[str, float]]:
        """The n nearest sentences."""
        cosines = self.matrix @ vector
        return [(self.ids[self.owners[i]], float(cosines[i])) for i in np.argsort(-cosines, kind="stable")[:n]]

    def ranked(self, question: str, k: int, n: int | None = NEAREST_SENTENCES) -> list[tuple[int, float]]:
        """(place of a chunk, its score), best first."""
        found = rank(question, self.lexical, self.nearest(embedded(question), n), k)
        return [(self.places[scored.id], scored.score) for scored in found]

    def sources(self, question: str, k: int, n: int | None = NEAREST_SENTENCES) -> list[str]:
        """See Engine."""
        return self._sources(place for place, _ in self.ranked(question, 2 * k, n))[:k]

    def by_words(self, question: str, k: int) -> list[str]:
        """As ``sources``, by BM25 alone."""
        return self._sources(np.argsort(-self.lexical.scores(question), kind="stable")[: 2 * k])[:k]

    def by_meaning(self, question: str, k: int) -> list[str]:
        """As ``sources``, by the nearest sentence alone."""
        cosines, _ = dense_scores(self.ids, self.nearest(embedded(question), None))
        return self._sources(np.argsort(-cosines, kind="stable")[: 2 * k])[:k]

    def answer(self, question: str) -> Answer:
        """See Engine."""
        found = self.ranked(question, 10)
        chunks, vectors = [self.chunks[i] for i, _ in found], [self.vectors[i] for i, _ in found]
        scores = [score for _, score in found]
        return offline_answer(
            find_evidence(question, embedded(question).tolist(), chunks, vectors, self.lexical, scores)
        )

    def _sources(self, places: Any) -> list[str]:
        return list(dict.fromkeys(self.chunks[place].metadata["source"] for place in places))


class Whole:
    """GraphIndex, in a folder of its own."""

    def __init__(self, documents: Sequence[Document]) -> None:
        from rag_transformers import GraphIndex

        self._folder = tempfile.TemporaryDirectory()
        self._index = GraphIndex.open(self._folder.name)
        self._index.add(documents)

    def sources(self, question: str, k: int) -> list[str]:
        """See Engine."""
        return list(dict.fromkeys(chunk.metadata["source"] for chunk in self._index.retrieve(question, 2 * k)))[:k]

    def answer(self, question: str) -> Answer:
        """See Engine."""
        return self._index.query(question)


_embedded: dict[str, npt.NDArray[np.float32]] = {}


def embedded(question: str) -> npt.NDArray[np.float32]:
    if question not in _embedded:
        _embedded[question] = default_embeddings().embed_array([question])[0]
    return _embedded[question]


def rows(data: Path, name: str, kind: str) -> list[dict[str, Any]]:
    path = next((data / "qa" / name).glob(f"{kind}.jsonl*"))
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found = [json.loads(line) for line in content.decode("utf-8").splitlines()]
    return [row for row in found if row.get("question", "?").strip()]  # two of cmrc2018 are empty, and are refused


def documents(data: Path, name: str) -> list[Document]:
    if name in BOOKS:
        return [Document((data / BOOKS[name]).read_text(encoding="utf-8-sig"), metadata={"source": name})]
    return [
        Document(f"{row.get('title') or ''}\n{row['text']}".strip(), metadata={"source": f"{name}/{row['id']}"})
        for row in rows(data, name, "passages")
    ]


def questions(data: Path, name: str) -> list[str]:
    return [row["question"] for row in rows(data, name, "questions")]


def recall(found: Sequence[str], row: dict[str, Any], name: str) -> list[float]:
    wanted = {f"{name}/{id}" for id in row["supporting"]}
    return [len(wanted & set(found[:k])) / len(wanted) for k in KS]


def print_row(label: str, name: str, asked: list[dict[str, Any]], search: Any) -> None:
    start = time.perf_counter()
    figures = np.mean([recall(search(row["question"], max(KS)), row, name) for row in asked], axis=0)
    each = 1000 * (time.perf_counter() - start) / len(asked)
    print(
        f"  {label:26} {name:9} {' / '.join(f'{100 * value:5.1f}' for value in figures)}   {each:6.1f} ms", flush=True
    )


def print_rows(data: Path, engines: dict[str, Engine]) -> None:
    print("recall@2 / @5 / @10, 60 questions each")
    for name in SETS:
        asked, engine = rows(data, name, "questions")[:60], engines[name]
        for row in asked:
            embedded(row["question"])
        if not isinstance(engine, Parts):
            print_row("GraphIndex.retrieve", name, asked, engine.sources)
            continue
        print_row("BM25", name, asked, engine.by_words)
        print_row("nearest sentence", name, asked, engine.by_meaning)
        for n in (100, NEAREST_SENTENCES, None):
            print_row(f"both, {n or 'all'} sentences", name, asked, lambda q, k, e=engine, n=n: e.sources(q, k, n))


def print_pooled(data: Path, make: type[Parts] | type[Whole]) -> None:
    pool = make([document for name in SETS for document in documents(data, name)])
    print("all sets in one index")
    for name in SETS:
        print_row("both", name, rows(data, name, "questions")[:60], pool.sources)


def bare(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFKC", text).casefold() if each.isalnum())


def gold(row: dict[str, Any]) -> list[str]:
    given = row.get("answers") or [row["answer"], *row.get("answer_aliases", [])]
    return [text for text in map(bare, given) if text]


def print_quotes(data: Path, engines: dict[str, Engine]) -> None:
    print("gold answer in the first quote / in all quotes; quotes and characters an answer")
    for name in SETS:
        every = rows(data, name, "questions")
        for part, asked in (("questions 1-600", every[:600]), ("the others", every[600:])):
            if not asked:
                continue
            hits, firsts, count, size = 0, 0, 0, 0
            for row in asked:
                quotes = [bare(citation.quote) for citation in engines[name].answer(row["question"]).citations]
                firsts += any(text in quotes[0] for text in gold(row)) if quotes else 0
                hits += any(text in "".join(quotes) for text in gold(row))
                count, size = count + len(quotes), size + sum(map(len, quotes))
            share = f"{100 * firsts / len(asked):5.1f} / {100 * hits / len(asked):5.1f}"
            print(f"  {name:9} {part:16} {share}   {count / len(asked):.2f}, {size / len(asked):.0f}", flush=True)


def no_data(engine: Engine, asked: Sequence[str]) -> str:
    missed = [not engine.answer(question).found for question in asked]
    halves = " ".join(f"{100 * np.mean(half):5.1f}" for half in (missed[::2], missed[1::2]) if half)
    return f"{100 * np.mean(missed):5.1f} % of {len(asked):4} (even and odd ones: {halves})"


def print_gate(data: Path, engines: dict[str, Engine], own: Path | None) -> None:
    print("no-data answers")
    for name in SETS:
        print(f"  {name} asked of its own passages: {no_data(engines[name], questions(data, name))}", flush=True)
    for name, book in (*FOREIGN, *ACROSS):
        print(f"  {name} asked of {book}: {no_data(engines[book], questions(data, name))}", flush=True)
    if own:
        written = [json.loads(line) for line in own.read_text(encoding="utf-8").splitlines()]
        for (index, held), group in grouped(written):
            label = "held by" if held else "foreign to"
            print(f"  own questions {label} {index}: {no_data(engines[index], [row['question'] for row in group])}")


def grouped(written: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, bool], list[dict[str, Any]]]]:
    keys = dict.fromkeys((row["index"], row["held"]) for row in written)
    yield from ((key, [row for row in written if (row["index"], row["held"]) == key]) for key in keys)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engine", choices=("parts", "index"), default="parts")
    options.add_argument("--only", default="rows,quotes,gate")
    options.add_argument("--own", type=Path)
    given = parsed(options, "sets of questions and passages, and two books")
    wanted = given.only.split(",")
    make = Parts if given.engine == "parts" else Whole
    names = (*SETS, *BOOKS) if "gate" in wanted else SETS
    engines: dict[str, Engine] = {}
    for name in names:
        start = time.perf_counter()
        engines[name] = make(documents(given.data, name))
        print(f"{name}: indexed in {time.perf_counter() - start:.1f} s", flush=True)
    if "rows" in wanted:
        print_rows(given.data, engines)
        print_pooled(given.data, make)
    if "quotes" in wanted:
        print_quotes(given.data, engines)
    if "gate" in wanted:
        print_gate(given.data, engines, given.own)


if __name__ == "__main__":
    main()
