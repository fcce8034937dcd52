"""Fuzz the reply parser: nothing raises, nothing takes more than linear time.

    python benchmarks/fuzz_records.py [--minutes 10] [--seed 0]

Texts are made of the pieces that the parser looks for, at random and in endless repeats. Each is read whole and cut.
A repeat is read at two lengths, and again if the longer one took out of proportion; what stays so is printed and ends
the run with exit code 1.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable

from rag_transformers.records import (
    Records,
    format_records,
    parse_json_records,
    parse_records,
    records_in,
    without_reasoning,
)

PIECES = (
    *"()（）#＃:：,;，；\n\r\t \"'“”‘’`*_-~<>[]{}\\/|.…0a名\x00\x85\u200b\u200d\u2028\ud800\ude00\ufeff😀",
    *("Entities:", "Relationships:", "实体：", "关系", "**Entities**", "entity_name", "entity_summary", "none", "N/A"),
    *("<think>", "</think>", "[THINK]", "```", "```json", "~~~", "\n\n", "\r\n", "1. ", "(1) ", "- ", "##", "..."),
    *('{"name": "', '"}', '{"source": "', '", "target": "', '"relation": ', '": ', '{"entities": [', "]}", "\\u00"),
    *("(Ada Moss#Founder)", "(Ada#knows#Bo#since)", "(Ada#", "#Bo)", "Ada Moss", "Grain Trust", "<|COMPLETE|>", "<|>"),
)
SHORT, TIMES = 20_000, 4
SLACK = 2.5
"""A text four times as long may take 2.5 times its share, for caches and a busy machine."""


def mixed(rng: random.Random) -> str:
    return "".join(rng.choices(PIECES, k=rng.randint(0, 60)))


def repeated(rng: random.Random) -> tuple[str, str, str]:
    """What stands before, in, and behind a repeat."""
    before, pattern, behind = ("".join(rng.choices(PIECES, k=rng.randint(*size))) for size in ((0, 3), (1, 5), (0, 2)))
    return before, pattern, behind


def check(text: str) -> None:
    """Read a text in every way; what is read must be sound."""
    for parse in (parse_records, parse_json_records):
        for finish_reason in (None, "length"):
            sound(parse(text, finish_reason=finish_reason, source="Ada Moss"))
    without_reasoning(text)
    found = records_in(text)
    if found is not None:
        sound(found)
    extraction = parse_records(text).extraction()
    if format_records(extraction):
        parse_records(format_records(extraction))


def sound(records: Records) -> None:
    extraction = records.extraction()
    repr(extraction).encode()
    assert records.skipped == len(records.rejected), records
    assert (records.status in ("empty", "format_error")) == (not extraction), records
    assert records.status != "ok" or not records.rejected, records
    assert len(set(records.entities)) == len(records.entities), records
    assert len(set(records.relationships)) == len(records.relationships), records


def seconds(read: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    read(text)
    return time.process_time() - start


def is_linear(before: str, pattern: str, behind: str) -> bool:
    """Whether a repeat is read in linear time; a doubtful one is measured again, and again at a larger size."""
    for read in (parse_records, parse_json_records, records_in, without_reasoning):
        for size in (SHORT, SHORT, SHORT * 4):
            count = size // len(pattern) + 1
            short = seconds(read, before + pattern * count + behind)
            long = seconds(read, before + pattern * count * TIMES + behind)
            if long < 0.05 or long < SLACK * TIMES * short:
                break
        else:
            print(f"{read.__name__} is slow: {short:.3f}s, {long:.3f}s for", repr((before, pattern, behind)))
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    texts = repeats = slow = 0
    while time.monotonic() < end:
        for _ in range(200):
            text = mixed(rng)
            try:
                check(text)
            except Exception:
                print("raised for", repr(text))
                raise
            texts += 1
        slow += not is_linear(*repeated(rng))
        repeats += 1
    print(f"{texts} texts, none raised; {repeats} repeats, {slow} not linear")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
