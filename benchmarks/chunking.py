"""How fast texts are counted and cut, how full the chunks are, and how near the estimate of tokens is to tiktoken's.

    python benchmarks/chunking.py [--data DIR] [--repeat 3]

Prints, for an English and a Chinese book and each counter, MB and chunks per second of CPU time (the best of some
runs), the mean part of its size that a chunk fills, and the part of the chunks that end where a sentence does. Then
the error of the estimate on each text at hand, in pieces of 1,000 characters. Without tiktoken's tables
(TIKTOKEN_CACHE_DIR) only the estimate is measured; without --data, a text that is written here.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from given_data import parsed

from rag_transformers.chunking import Chunker
from rag_transformers.estimate import Estimate
from rag_transformers.text import sentence_spans
from rag_transformers.tokens import TokenCounter, counter_name, token_counter

BOOKS = {"English": "corpus_en/a_christmas_carol.txt", "Chinese": "corpus_zh/sanguo_001-020.txt"}
WRITTEN = {
    "English": "The keeper climbed the stairs at dusk, as he did each day. He wrote the hour in his log.\n\n" * 2000,
    "Chinese": "守灯人傍晚登上塔楼，点亮了灯。他在日志里记下时辰、风向和所见，天亮以后才下楼休息。\n" * 2500,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    given = parsed(parser, "two books", required=False)
    warnings.simplefilter("ignore")
    books = {name: _book(given.data, name) for name in BOOKS}
    print(
        "text     counter                  size overlap    MB/s  chunks/s  filled  sentence ends  counter alone, MB/s"
    )
    for name, text in books.items():
        for count in _counters():
            for size, overlap in ((1024, 20), (1024, 0), (256, 20)):
                _speed(name, text, count, size, overlap, given.repeat)
    for count in _exact():
        _errors(count, dict(_texts(given.data, books)))


def _counters() -> list[TokenCounter]:
    """Exact ones, estimates, and characters as what all but the counting takes."""
    return [*_exact(), Estimate("o200k_base"), Estimate("cl100k_base"), len]


def _exact() -> list[TokenCounter]:
    """Those of both encodings, where their tables are on this machine."""
    return [count for count in map(token_counter, ("gpt-4o", "gpt-4")) if not isinstance(count, Estimate)]


def _book(data: Path | None, name: str) -> str:
    return (data / BOOKS[name]).read_text(encoding="utf-8") if data else WRITTEN[name]


def _speed(name: str, text: str, count: TokenCounter, size: int, overlap: int, repeat: int) -> None:
    megabytes = len(text.encode()) / 1e6
    count(text[:100])  # reads its tables
    chunker = Chunker(size, overlap, count)
    seconds = _best(lambda: chunker.spans(text), repeat)
    alone = _best(lambda: count(text), repeat)
    spans = chunker.spans(text)
    filled = statistics.mean(count(text[start:end]) / size for start, end in spans[:-1])
    ends = {end for _, end in sentence_spans(text)}
    whole = statistics.mean(len(text[:end].rstrip()) in ends for _, end in spans)
    print(
        f"{name:8} {counter_name(count):24} {size:4} {overlap:7} {megabytes / seconds:7.2f} {len(spans) / seconds:9.0f}"
        f" {filled:7.0%} {whole:14.0%} {megabytes / alone:20.1f}"
    )


def _best(run: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return max(min(times), 1e-6)


def _texts(data: Path | None, books: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield from books.items()
    yield "code", Path(argparse.__file__).read_text(encoding="utf-8")
    if data is None:
        return
    for path in sorted(data.glob("qa/*/passages.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        yield path.parent.name, "\n".join(value for row in rows for value in row.values() if isinstance(value, str))
    for path in sorted([*data.glob("finre/*.jsonl"), *data.glob("graphs/*podcast*"), *data.glob("corpus_en/*.md")]):
        yield path.name, path.read_text(encoding="utf-8")


def _errors(count: TokenCounter, texts: dict[str, str]) -> None:
    estimate = Estimate(counter_name(count))
    print(f"\nestimate against {counter_name(count)}: of the whole, and the 5th and 95th percentile of its pieces")
    for name, text in texts.items():
        pieces = [text[start : start + 1000] for start in range(0, len(text), 1000)]
        parts = statistics.quantiles([estimate(piece) / count(piece) - 1 for piece in pieces], n=20)
        error = estimate(text) / count(text) - 1
        print(f"{name:32} {count(text):8} tokens  {error:+7.1%} {parts[0]:+7.0%} {parts[-1]:+7.0%}")


if __name__ == "__main__":
    main()
