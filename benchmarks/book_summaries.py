"""Summaries of whole books: calls, rounds and limits with a model over HTTP, names and speed without one.

python benchmarks/book_summaries.py [--texts FILE...] [--data DIR] [--characters 300000] [--latency 0.2]
                                    [--concurrency 16] [--megabytes 5]

The books are generated, one in English and one in Chinese; or they are the files that ``--texts`` names, or those of
``--data``, each repeated to the length that is asked for. Each is merged to one summary without a model, with a
stand-in for a model that replies with the first 200 characters of its text, and with one that replies with the first
seventh. With ``--data`` the main people are looked for in summaries of what is said about them. In the end a long text
is timed in a process of its own.
"""

import argparse
import gzip
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from given_data import parsed
from langchain_core.callbacks import BaseCallbackHandler
from scale import document
from stub import first_seventh, served, usual

from rag_transformers.errors import ConvergenceError
from rag_transformers.models.servers import chat_model
from rag_transformers.prompts import prompt_text
from rag_transformers.summaries.extractive import central_sentences, joined
from rag_transformers.summaries.frequent_names import holds
from rag_transformers.summaries.text_summaries import ExtractiveSummary, Summary
from rag_transformers.text import sentence_spans, sentences

CORPORA = {
    "en": ("corpus_en/a_christmas_carol.txt", "corpus_en/operation_dulce_v2.md", "corpus_en/dulce.txt"),
    "zh": ("corpus_zh/sanguo_001-020.txt",),
}
LIMIT = 4096
"""Characters that are merged in one call."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--texts", type=Path, nargs="+", metavar="FILE", help="books of your own, in UTF-8")
    options.add_argument("--characters", type=int, default=300_000)
    options.add_argument("--latency", type=float, default=0.2)
    options.add_argument("--concurrency", type=int, default=16)
    options.add_argument("--megabytes", type=float, default=5)
    options.add_argument("--speed", type=Path, help="only time this file, in this process")
    given = parsed(options, "books, and recorded descriptions of who is in them", required=False)
    if given.speed:
        speed(given.speed)
        return
    os.environ["OPENAI_API_KEY"] = "none"
    found = books(given)
    for name, text in found.items():
        without_model(name, text)
    for label, reply in (("first 200 characters", usual), ("first seventh", first_seventh)):
        with served(reply, given.latency) as stub:
            for name, text in found.items():
                with_model(given, name, text, stub.base_url, label)
    if given.data:
        names_in_summaries(given)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in found.items():
            file = Path(folder, f"long-{name}.txt")
            file.write_text(long_text(text, given.megabytes), encoding="utf-8")
            subprocess.run([sys.executable, __file__, "--speed", file], check=True)


def books(given: argparse.Namespace) -> dict[str, str]:
    """The books by name, each as long as is asked for."""
    length = given.characters
    if given.texts:
        return {file.stem: repeated(file.read_text(encoding="utf-8-sig"), length) for file in given.texts}
    if given.data:
        read = [[(given.data / name).read_text(encoding="utf-8-sig") for name in names] for names in CORPORA.values()]
        return {name: repeated("\n\n".join(texts), length) for name, texts in zip(CORPORA, read, strict=True)}
    english = "\n\n".join(document(number, 500).page_content for number in range(length // 2000 + 1))
    return {"en": english[:length], "zh": chinese(length)}


def repeated(text: str, length: int) -> str:
    copies = range(length // len(text) + 1)  # which are told apart, for equal texts are asked about once
    return "\n\n".join(text.replace("\n", f"〔{copy}〕\n") if copy else text for copy in copies)[:length]


def chinese(length: int) -> str:
    """A made-up book: the same two hundred people, buying, mending and leaving things."""
    chance, parts = random.Random(2), list[str]()
    people = [chance.choice("林周陈沈苏陆") + "".join(chance.sample("安川云岚松月青舟", 2)) for _ in range(200)]
    while sum(map(len, parts)) < length:
        one, two = chance.sample(people, 2)
        deed, place = chance.choice(("买下", "修好", "离开", "画过")), chance.choice(("石桥", "水磨坊", "书院", "茶馆"))
        parts.append(f"{chance.randrange(1700, 1900)}年，{one}{deed}了{two}家的{place}。")
        parts.append(f"镇上的人后来再也没有提起这件事，只有{two}在信里写过{chance.randrange(99)}次。")
        if chance.random() < 0.2:
            parts.append("\n\n")
    return "".join(parts)[:length]


def without_model(name: str, text: str) -> None:
    began = time.perf_counter()
    summary = ExtractiveSummary().merge_text_summarize([text])
    seconds = time.perf_counter() - began
    number = len(sentences(text))
    print(
        f"{name}, no model: {len(text):,} characters, {number:,} sentences in {seconds:.2f} s "
        f"({number / seconds:,.0f} a second) -> {len(summary)} characters"
    )


class Counting(Summary):
    """Notes the number of calls of each round."""

    rounds: tuple[int, ...] = ()

    def _summaries(self, stage: str, texts: Sequence[str], job: Any) -> Any:
        self.rounds += (len(set(texts)),)
        return (yield from super()._summaries(stage, texts, job))


class Asked(BaseCallbackHandler):
    """The texts that the prompts held."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Keep what stands where a prompt of ours has its variable."""
        prompt = messages[0][0].content
        for stage in ("summarize_text", "merge_summaries"):
            for language in CORPORA:
                before, after = prompt_text(stage, language).split("{text}")
                if prompt.startswith(before) and prompt.endswith(after):
                    self.texts.append(prompt[len(before) : -len(after)])


def with_model(given: argparse.Namespace, name: str, text: str, url: str, server: str) -> None:
    asked, summary = Asked(), Counting(chat_model("stub", url))
    began = time.perf_counter()
    try:
        made = summary.merge_text_summarize(
            [text], LIMIT, config={"callbacks": [asked], "max_concurrency": given.concurrency}
        )
        end = f"{len(made)} characters"
    except ConvergenceError as error:
        end = f"ConvergenceError: {error}"
    seconds, calls, lengths = time.perf_counter() - began, len(asked.texts), list(map(len, asked.texts))
    ideal = sum(math.ceil(asked / given.concurrency) for asked in summary.rounds) * given.latency
    print(
        f"{name}, {server}: {calls} calls in {len(summary.rounds)} rounds of {summary.rounds}, {seconds:.1f} s "
        f"(latency alone {ideal:.1f} s); longest text of a call "
        f"{max(lengths):,} of {LIMIT:,}, over the limit {sum(length > LIMIT for length in lengths)}; -> {end}",
        flush=True,
    )


def names_in_summaries(given: argparse.Namespace) -> None:
    """How often somebody's name is in the summary of what is said about them, wanted or not."""
    kinds = {
        "en, recorded descriptions (Christmas Carol)": carol(given.data),
        "en, raw descriptions (Dulce)": dulce(given.data),
        "zh, entity descriptions (notes on medicine)": medicine(given.data),
        "zh, sentences of a novel that name somebody": novel(given.data),
    }
    for kind, subjects in kinds.items():
        found = {}
        for wanted in (False, True):
            for limit in (120, 300):
                summed = [
                    joined(central_sentences(texts, limit, names=[name] if wanted else ())) for name, texts in subjects
                ]
                held = sum(holds(name)(summary) for (name, _), summary in zip(subjects, summed, strict=True))
                found[wanted, limit] = f"{held} of {len(subjects)}"
        print(
            f"{kind}: named in 120 characters {found[False, 120]}, in 300 {found[False, 300]}; "
            f"wanted {found[True, 120]}, {found[True, 300]}"
        )


def carol(data: Path) -> list[tuple[str, list[str]]]:
    lines = (data / "recorded_en" / "summaries_qwen3max.jsonl").read_text(encoding="utf-8").splitlines()
    return mentioned((name, row["descriptions"]) for row in map(json.loads, lines) for name in row["entities"])


def dulce(data: Path) -> list[tuple[str, list[str]]]:
    file = data / "recorded_en" / "dulce_graphrag_index" / "create_base_extracted_entities.graphml"
    tree = xml.etree.ElementTree.parse(file)
    space = "{http://graphml.graphdrawing.org/xmlns}"
    keys = {key.get("id"): key.get("attr.name") for key in tree.iter(f"{space}key") if key.get("for") == "node"}
    found = []
    for node in tree.iter(f"{space}node"):
        said = next((item.text for item in node if keys.get(item.get("key")) == "description" and item.text), "")
        found.append((str(node.get("id")).strip('"'), [line.strip('"') for line in said.splitlines()]))
    return mentioned(iter(found))


def medicine(data: Path) -> list[tuple[str, list[str]]]:
    with gzip.open(data / "recorded_zh" / "tcm_graphrag_index" / "entities.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return mentioned((row["title"], [row["description"]]) for row in rows if len(row["description"]) > 300)


def novel(data: Path) -> list[tuple[str, list[str]]]:
    text = (data / CORPORA["zh"][0]).read_text(encoding="utf-8")
    people = json.loads((data / "sanguograph" / "persons.json").read_text(encoding="utf-8"))
    people = people.get("persons", people) if isinstance(people, dict) else people
    names = [person["name"] for person in people if text.count(person["name"]) > 5]
    told = sentences(text)
    return mentioned((name, [sentence for sentence in told if name in sentence]) for name in names)


def mentioned(subjects: Iterator[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Those who are named at all in what is said of them, where there is more than one text of it or a long one."""
    return [
        (name, texts)
        for name, texts in subjects
        if any(map(holds(name), texts)) and (len(texts) > 1 or len(texts[0]) > 300)
    ]


def long_text(book: str, megabytes: float) -> str:
    """Sentences that are made of two halves of those of the book, by chance, so that hardly any comes twice."""
    told = sentences(book)
    chance, parts, size = random.Random(1), list[str](), 0
    while size < megabytes * 1_000_000:
        first = chance.choice(told)
        parts.append(first[: len(first) // 2] + chance.choice(told))
        size += len(parts[-1].encode())
    return "\n\n".join(parts)


def speed(file: Path) -> None:
    """Time a long text, and how far the memory grows over what the text takes."""
    text = file.read_text(encoding="utf-8")
    central_sentences([text[:50_000]], 1000)  # loads what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    central_sentences([text], 4000)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    number, size = sum(1 for _ in sentence_spans(text)), len(text.encode()) / 1e6
    print(
        f"{file.stem}, no model: {size:.1f} MB, {number:,} sentences in {wall:.1f} s, CPU {cpu:.1f} s "
        f"({number / cpu:,.0f} a CPU second); peak {after / 1024:.0f} MB, before {before / 1024:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
