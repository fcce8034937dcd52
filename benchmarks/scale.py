"""An index of many documents without a model: seconds and memory for each, and what a change of it costs.

    python benchmarks/scale.py [--sizes 500,5000] [--words 400] [--added 5]

The documents are made up of sentences about people and places, each with names of its own and some that many share, so
that the graph grows as that of a real collection does. Each size is indexed in a process of its own; then documents
are added, edited and deleted one at a time. The figures of one run are to be compared with each other only.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from langchain_core.documents import Document

FIRST = ["Ada", "Bela", "Cyril", "Dora", "Emil", "Flora", "Gregor", "Hanna", "Igor", "Jana", "Karl", "Lena"]
LAST = ["Ashdown", "Birkett", "Crane", "Dunmore", "Ewer", "Flint", "Garrow", "Hollin", "Ives", "Jessop", "Kettle"]
PLACES = [
    "Penwick",
    "Quarry",
    "Rosehill",
    "Saltmarsh",
    "Thornby",
    "Umberleigh",
    "Vale",
    "Westerham",
    "Yarrow",
    "Zennor",
]
DEEDS = ["founded", "bought", "repaired", "sold", "visited", "painted", "described", "inherited"]
GOODS = ["barley", "candles", "cloth", "copper", "flour", "glass", "iron", "lace", "oats", "rope", "salt", "slate"]
KINDS = ["Mill", "Bridge", "Inn", "Quay", "School", "Forge", "Chapel", "Bank"]
ENDS = [
    "al",
    "bo",
    "cu",
    "di",
    "em",
    "fa",
    "go",
    "hu",
    "il",
    "ka",
    "lo",
    "mu",
    "ne",
    "or",
    "pa",
    "ru",
    "si",
    "ta",
    "ul",
]


def document(number: int, words: int) -> Document:
    """One document, the same for the same number; twenty tell of one world, and a few names are known everywhere."""
    dice, end = random.Random(number), end_of(number // 20)
    known = [f"{dice.choice(FIRST)} {dice.choice(LAST)}" for _ in range(2)]
    people = [f"{dice.choice(FIRST)} {dice.choice(LAST)}{end}" for _ in range(6)]
    places = [f"{dice.choice(PLACES)}{end}" for _ in range(3)]
    text: list[str] = []
    while sum(len(sentence.split()) for sentence in text) < words:
        who = dice.choice(known if dice.random() < 0.05 else people)
        goods, kind, year = dice.choice(GOODS), dice.choice(KINDS), dice.randrange(1700, 1900)
        text.append(
            f"{who} {dice.choice(DEEDS)} the {dice.choice(places)} {kind} in {year}. "
            f"The {kind.lower()} was old then, and {dice.randrange(10, 99)} letters tell of its {goods}. "
            f"Nobody in the valley remembered who had paid for the {goods}, or why it was left there."
        )
    return Document(" ".join(text), metadata={"source": f"document {number}"})


def end_of(number: int) -> str:
    """The end of a name, another one for another number."""
    return ENDS[number % len(ENDS)] + (end_of(number // len(ENDS)) if number >= len(ENDS) else "")


def edited(number: int, words: int) -> Document:
    """A document with another text than before."""
    text = document(number, words + 40).page_content
    return Document(text, metadata={"source": f"document {number}"})


def measured(size: int, words: int, added: int) -> dict[str, float]:
    """Index so many documents and change some, and say what that took."""
    from rag_transformers import GraphIndex

    found: dict[str, float] = {"documents": size}
    with tempfile.TemporaryDirectory() as folder, GraphIndex.open(folder) as index:
        index.add([document(0, words)])  # loads what is loaded once
        before = time.process_time(), time.perf_counter()
        report = index.add([document(number, words) for number in range(size)])
        found["cpu"], found["wall"] = time.process_time() - before[0], time.perf_counter() - before[1]
        found |= {f"{stage} s": seconds for stage, seconds in report.seconds.items()}
        found |= {"chunks": report.chunks, "vertices": report.vertices, "edges": report.edges}
        found["reports"] = len(index.reports)
        for what, change in (
            ("add", lambda n: index.add([document(size + n, words)])),
            ("unchanged", lambda n: index.add([document(n, words)])),
            ("edit", lambda n: index.add([edited(n, words)])),
            ("delete", lambda n: index.delete(f"document {n}")),
            ("retrieve", lambda n: index.retrieve("Who repaired the mill of Penwick?")),
        ):
            start = time.perf_counter()
            for number in range(1, added + 1):
                change(number)
            found[f"{what} ms"] = (time.perf_counter() - start) / added * 1000
        found["folder MB"] = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file()) / 1e6
    found["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> None:
    """Measure each size in a process of its own, and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="500,5000")
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--added", type=int, default=5)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one, given.words, given.added)))
        return
    rows = []
    for size in map(int, given.sizes.split(",")):
        command = [
            sys.executable,
            __file__,
            "--one",
            str(size),
            "--words",
            str(given.words),
            "--added",
            str(given.added),
        ]
        rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        print(", ".join(f"{name} {value:,.1f}" for name, value in rows[-1].items()), flush=True)
        each = {name: rows[-1][name] / rows[-1]["documents"] for name in ("cpu", "wall")}
        print(
            "  each document: " + ", ".join(f"{value * 1000:.1f} ms {name}" for name, value in each.items()), flush=True
        )
    first, last = rows[0], rows[-1]
    for name in ("cpu", "wall"):
        ratio = last[name] / last["documents"] / (first[name] / first["documents"])
        print(f"{name} for each document at {last['documents']:,.0f} over {first['documents']:,.0f}: {ratio:.2f}")
    things = [row["vertices"] + row["edges"] for row in (first, last)]
    print(
        f"peak memory: {last['peak MB'] / first['peak MB']:.2f} times for {things[1] / things[0]:.2f} times the graph"
    )


if __name__ == "__main__":
    main()
