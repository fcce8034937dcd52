"""How much of a community reaches its report, and how much of what reaches it is foreign.

On two finished GraphRAG indexes, one Chinese and one English, with the communities recorded in them and with ours:

    python benchmarks/report_coverage.py --data DIR [--max-input-tokens 8000]

A model in the place of a real one keeps every prompt; the records are read from the prompts, as the model gets them,
and held against the graph. *inner* are the inner edges of the communities whose inner edges and vertices all fit into
the budget, and the share of them that is shown; *large* the same of the other communities, where an edge may also be
told by the report of a part that is shown. *leading out* are edges whose source alone is in the community, marked as
such; *foreign* is what has no end in it. The contexts of microsoft/graphrag, measured apart from this, held 61.5 % of
a community's edges, and 22 % of what they showed was foreign.

A last line gives the processor time for a graph of 100,000 edges and 10,000 communities without a model.
"""

import argparse
import gzip
import hashlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from given_data import parsed
from langchain_core.runnables import RunnableLambda

from rag_transformers.communities import Community, CommunityDetector
from rag_transformers.graph import Edge, Vertex, name_key
from rag_transformers.reports.citations import one_line
from rag_transformers.reports.writer import ReportWriter
from rag_transformers.stores import MemoryGraph
from rag_transformers.tokens import TokenCounter, counter_name, token_counter

INDEXES = "recorded_zh/tcm_graphrag_index", "recorded_en/dulce_graphrag_index"
REPLY: dict[str, Any] = {
    "summary": "What stands in for some eighty words of a summary. " * 10,
    "rating": 5,
    "rating_explanation": "None.",
    "findings": [{"summary": f"Point {n}", "explanation": "Some words on it [v1, e1]. " * 12} for n in range(5)],
}

Pair = tuple[str, str]


def rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The records of one table."""
    plain, packed = folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"
    with gzip.open(packed, "rt", encoding="utf-8") if packed.exists() else plain.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def graph_of(folder: Path) -> tuple[MemoryGraph, dict[str, str]]:
    """The graph of an index, and its vertices' names by their ids."""
    graph, names = MemoryGraph(), {}
    for row in rows(folder, "entities"):
        names[row["id"]] = row["title"]
        props = {"description": row["description"] or "", "chunks": list(row["text_unit_ids"])}
        graph.upsert_vertex(Vertex(row["title"], **props, **({"type": row["type"]} if row["type"] else {})))
    for row in rows(folder, "relationships"):
        props = {"description": row["description"] or "", "chunks": list(row["text_unit_ids"])}
        graph.upsert_edge(Edge(row["source"], row["target"], "related to", **props))
    return graph, names


def recorded(folder: Path, names: dict[str, str]) -> list[Community]:
    """The communities that the index has."""
    found = list(rows(folder, "communities"))
    return [
        Community(
            str(row["community"]),
            row["level"],
            str(row["parent"]) if row["parent"] >= 0 else None,
            tuple(map(str, row["children"])),
            tuple(names[id] for id in row["entity_ids"]),
        )
        for row in found
    ]


class Reader:
    """A model that keeps its prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def reply(self, prompt: Any) -> str:
        """A report, whatever was asked."""
        text = prompt.to_string()
        self.prompts.append(text)
        return json.dumps({"title": f"Community {hashlib.sha256(text.encode()).hexdigest()[:12]}", **REPLY})


def records(prompt: str) -> list[tuple[str, list[str]]]:
    """The kind and the fields of each record in a prompt."""
    text = prompt.rpartition("\nText:\n")[2].rpartition("\n\nOutput:")[0]
    split = (line.partition("] ") for line in text.split("\n"))
    return [(mark[1:2], said.split(" -> ")) for mark, _, said in split]


def edges_shown(prompt: str, kind: str) -> set[Pair]:
    return {(name_key(fields[0]), name_key(fields[1])) for mark, fields in records(prompt) if mark == kind}


class Tally:
    """Edges of some communities: those that there are, those shown, and those told by the report of a part."""

    def __init__(self) -> None:
        self.communities = self.edges = self.shown = self.told = 0

    def add(self, there: set[Pair], shown: set[Pair], told: set[Pair]) -> None:
        """Count those of one community."""
        self.communities += 1
        self.edges += len(there)
        self.shown += len(there & shown)
        self.told += len((there & told) - shown)

    def __str__(self) -> str:
        share = f"{self.shown / self.edges:.1%}" if self.edges else "-"
        told = f", {self.told} more told by reports on parts" if self.told else ""
        return f"{self.communities:4} communities, {self.shown:6} of {self.edges:6} edges shown ({share}){told}"


def measure(graph: MemoryGraph, communities: Sequence[Community], budget: int, count: TokenCounter) -> None:
    reader = Reader()
    writer = ReportWriter(RunnableLambda(reader.reply), max_input_tokens=budget, counter=count)
    start = time.process_time()
    reports = writer.write_all(graph, communities)
    seconds = time.process_time() - start
    failed = sum(report.failed is not None for report in reports.values())
    print(f"  {len(communities)} communities, {len(reader.prompts)} calls, {failed} failed, {seconds:.1f} s of CPU")
    asked = sorted(reader.prompts)
    by_source: dict[str, set[Pair]] = {}
    for edge in graph.edges():
        by_source.setdefault(key_of(edge.source), set()).add((key_of(edge.source), key_of(edge.target)))
    keys = {community.id: {key_of(name) for name in community.vertices} for community in communities}
    fitting, large, leading, foreign, all_shown, again = Tally(), Tally(), Tally(), 0, 0, []
    for community in communities:
        own = keys[community.id]
        mine = {pair for key in own for pair in by_source.get(key, ())}
        inner = {pair for pair in mine if pair[1] in own}
        reader.prompts.clear()
        writer.invoke((graph, community, reports))
        if not reader.prompts:
            assert not inner
            continue
        (prompt,) = reader.prompts
        again.append(prompt)
        shown, out = edges_shown(prompt, "e"), edges_shown(prompt, "x")
        parts = [keys[part] for part in community.children if f" {reports[part].title}:" in prompt]
        told = {pair for pair in inner for part in parts if pair[0] in part and pair[1] in part}
        is_large = len(shown) < len(inner) or any(kind == "r" for kind, _ in records(prompt))
        (large if is_large else fitting).add(inner, shown, told)
        leading.add(mine - inner, out, set())
        foreign += sum(pair[0] not in own and pair[1] not in own for pair in shown | out)
        all_shown += len(shown | out)
    assert sorted(again) == asked, "asked one by one, the prompts are the same"
    print(f"  inner, fitting  {fitting}\n  inner, large    {large}\n  leading out     {leading}")
    print(f"  foreign         {foreign} of {all_shown} edges shown")
    print(f"  longest prompt  {max(map(count, asked))} tokens; all prompts {sum(map(count, asked))}")


def key_of(name: str) -> str:
    return name_key(one_line(name))


def without_model(edges: int, communities: int) -> None:
    draw, graph = random.Random(3), MemoryGraph()
    size = edges // communities
    for number in range(edges):
        base = number % communities * size
        first, second = draw.sample(range(base, base + size), 2)
        text = f"Vertex {first} met vertex {second} in the year {number}, and nothing came of it."
        graph.upsert_edge(Edge(f"Vertex {first}", f"Vertex {second}", "met", description=text, chunks=[f"c{number}"]))
    names = [[f"Vertex {v}" for v in range(part * size, (part + 1) * size)] for part in range(communities)]
    parts = [Community(f"0-{n}", 0, None, (), tuple(v for v in each if v in graph)) for n, each in enumerate(names)]
    start = time.process_time()
    reports = ReportWriter().write_all(graph, parts)
    seconds = time.process_time() - start
    print(f"without a model: {graph.edge_count} edges, {len(reports)} reports, {seconds:.1f} s of CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-input-tokens", type=int, default=8000)
    options = parsed(parser, "two recorded indexes of graphrag")
    count = token_counter("gpt-4o")
    print(f"tokens: {counter_name(count)}; budget {options.max_input_tokens}")
    for name in INDEXES:
        graph, names = graph_of(options.data / name)
        for whose, communities in (
            ("recorded communities", recorded(options.data / name, names)),
            ("our communities", list(CommunityDetector().invoke(graph))),
        ):
            print(f"{name}, {graph}, {whose}")
            measure(graph, communities, options.max_input_tokens, count)
    without_model(100_000, 10_000)


if __name__ == "__main__":
    main()
