"""What one description of many costs: calls, rounds one after another, and the longest prompt.

python benchmarks/summaries.py [--data DIR] [--reply 120] [--texts 1000] [--tokens 40] [--limits 4000 700]

Recorded descriptions (recorded_en/summaries_qwen3max.jsonl, and the raw entities of recorded_en/dulce_graphrag_index)
go through SummarizeExtractor with a model that answers with a fixed number of tokens. Beside it stands the original's
rule, which collects descriptions until the budget is full and starts the next call with the summary before it: as it
is, adding before it checks, and with the check made before adding. Both are reckoned with our prompt and our layout.
Then made-up descriptions of one length show how both grow. Tokens are tiktoken's where its tables are on the machine
(TIKTOKEN_CACHE_DIR), else estimated. Where the data is absent, only the made-up ones are shown.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from given_data import parsed
from langchain_core.runnables import RunnableLambda

from rag_transformers.prompts import load_prompt
from rag_transformers.summaries.summarising import SummarizeExtractor
from rag_transformers.tokens import counter_name, token_counter

COUNT = token_counter("gpt-4o")
WORDS = (
    "river",
    "mill",
    "stone",
    "harbour",
    "ledger",
    "copper",
    "lantern",
    "bridge",
    "winter",
    "market",
    "stairs",
    "oath",
)


class Item(NamedTuple):
    """A name, or a pair of names, and its descriptions."""

    items: Any
    descriptions: list[str]


class Model:
    """Answers after a moment, and counts prompts, their tokens, and how often it was asked while it was idle."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.prompts: list[int] = []
        self.rounds = 0
        self._in_flight = 0

    async def answer(self, prompt: Any) -> str:
        """The reply, after a moment in which all others of a round come in."""
        self.rounds += self._in_flight == 0
        self._in_flight += 1
        self.prompts.append(COUNT(prompt.to_string()))
        await asyncio.sleep(0.05)
        self._in_flight -= 1
        return self.reply


def recorded(path: Path) -> list[Item]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    named = [row["entities"] for row in rows]
    names = [found if isinstance(found, str) else tuple(found) for found in named]
    return [Item(found, row["descriptions"]) for found, row in zip(names, rows, strict=True)]


def raw_entities(path: Path) -> list[Item]:
    """The entities of a graph before their descriptions were summarised, which stand one on each line."""
    nodes = ElementTree.parse(path).getroot().iter("{http://graphml.graphdrawing.org/xmlns}node")
    texts = {
        node.attrib["id"]: "\n".join(data.text or "" for data in node if data.get("key") == "d1") for node in nodes
    }
    return [Item(name, text.splitlines()) for name, text in texts.items()]


def made_up(number: int, tokens: int) -> list[Item]:
    chance = random.Random(0)
    texts = []
    for place in range(number):
        text = f"Entry {place}:"
        while COUNT(f"{text}.") < tokens:
            text += f" {chance.choice(WORDS)}"
        texts.append(f"{text}.")
    return [Item("Marle", texts)]


def chain(items: Item, limit: int, summary: int, *, before: bool) -> list[int]:
    """The tokens of the prompts of a chain, which checks the budget before it adds, or after, as the original does."""
    empty = COUNT(load_prompt("summarize_descriptions", "en").format(entity_name=items.items, description_list=""))
    costs = [COUNT(f"{text}\n") for text in sorted({text for text in items.descriptions if text.strip()})]
    prompts, used, held = [], 0, 0
    for place, cost in enumerate(costs):
        if before and held > 1 and empty + used + cost > limit:
            prompts.append(empty + used)
            used, held = summary, 1
        used, held = used + cost, held + 1
        if not before and held > 1 and empty + used > limit and place < len(costs) - 1:
            prompts.append(empty + used)
            used, held = summary, 1
    return [*prompts, empty + used] if len(costs) > 1 else []


async def measure(name: str, items: Sequence[Item], limit: int, reply: str) -> None:
    calls, deepest, longest, total, seconds = 0, 0, 0, 0, 0.0
    rules: dict[bool, list[list[int]]] = {True: [], False: []}
    for item in items:
        model = Model(reply)
        extractor = SummarizeExtractor(RunnableLambda(model.answer), max_input_tokens=limit, counter=COUNT)
        start = time.perf_counter()
        extractor.plan(item.items, item.descriptions)
        seconds += time.perf_counter() - start
        await extractor(item.items, item.descriptions)
        calls, deepest = calls + len(model.prompts), max(deepest, model.rounds)
        longest, total = max([longest, *model.prompts]), total + sum(model.prompts)
        for before, found in rules.items():
            found.append(chain(item, limit, COUNT(reply), before=before))
    texts = sum(len(item.descriptions) for item in items)
    print(f"{name}: {len(items)} items, {texts} descriptions, limit {limit}, replies of {COUNT(reply)} tokens")
    show("here", calls, deepest, longest, total)
    for before, label in ((True, "checked before"), (False, "as the original")):
        flat = [tokens for prompts in rules[before] for tokens in prompts]
        show(label, len(flat), max(map(len, rules[before])), max(flat), sum(flat))
    print(f"  planning all of it took {seconds:.3f} s", flush=True)


def show(label: str, calls: int, rounds: int, longest: int, total: int) -> None:
    print(f"  {label:15} calls {calls:4}  rounds {rounds:3}  longest prompt {longest:5}  tokens sent {total:7}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reply", type=int, nargs="+", default=[120, 500])
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--limits", type=int, nargs="+", default=[4000, 700])
    given = parsed(parser, "recorded descriptions", required=False)
    print(f"tokens counted by {counter_name(COUNT)}")
    sets = {f"made up, {given.tokens} tokens each": made_up(given.texts, given.tokens)}
    if given.data:
        folder = given.data / "recorded_en"
        sets["recorded, qwen3-max"] = recorded(folder / "summaries_qwen3max.jsonl")
        path = folder / "dulce_graphrag_index" / "create_base_extracted_entities.graphml"
        sets["raw entities of dulce"] = raw_entities(path)
    for name, items in sets.items():
        for limit in given.limits:
            for tokens in given.reply:
                await measure(name, items, limit, "word " * (tokens - 1) + ".")


if __name__ == "__main__":
    asyncio.run(main())
