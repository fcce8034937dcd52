"""What a question about the whole of a book costs: tokens read, beside the tokens of the source. A stub for the model.

    python benchmarks/global_question.py --text FILE [--context 6000]

The book is cut, its graph is made of phrases, and every community gets a report: without a model, and with a stub that
writes reports as long as it is allowed to. Then each question is answered: the reports that are chosen, the model
calls, the tokens of all prompts and replies, and their share of the source. Tokens are counted by the library's counter
(exactly where TIKTOKEN_CACHE_DIR names tiktoken's tables).
"""

import argparse
import json
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from rag_transformers.answers.global_answers import global_answer
from rag_transformers.answers.modes import asks_for_whole
from rag_transformers.answers.quoted_reports import offline_global_answer
from rag_transformers.answers.report_selection import full_text, report_budget, report_lexical, select_reports
from rag_transformers.chunking import Chunker
from rag_transformers.communities import Community, CommunityDetector
from rag_transformers.embeddings import default_embeddings
from rag_transformers.phrases import PhraseExtractor
from rag_transformers.reports.writer import Report, ReportWriter
from rag_transformers.stores import MemoryGraph
from rag_transformers.tokens import TokenCounter, token_counter

QUESTIONS = {
    "en": (
        "What are the main themes?",
        "Summarize the story.",
        "How does the old man change in the course of the book as a whole?",
        "What does the book as a whole say about poverty?",
    ),
    "zh": ("这部书的主要内容是什么？", "全书有哪些主要人物？", "全书怎样看待战争？"),
}


class Stub:
    """A model that writes reports of about 600 tokens out of the records it is shown, points, and an answer."""

    def __init__(self, counter: TokenCounter) -> None:
        self.counter = counter
        self.read = self.written = self.calls = 0
        self._lock = threading.Lock()

    def __call__(self, prompt: Any) -> AIMessage:
        """Reply, and count the tokens of both."""
        text = prompt.to_string()
        reply = self.reply(text)
        with self._lock:
            self.calls += 1
            self.read += self.counter(text)
            self.written += self.counter(reply)
        return AIMessage(reply)

    def reply(self, text: str) -> str:
        """A reply of the form that the prompt asks for."""
        if '"findings"' in text:
            return self.report(re.findall(r"(?m)^[- ]*\[([vexr]\d+)\] (.+)$", text.split("Text:\n")[-1]))
        if '"points"' in text:
            numbers = re.findall(r"(?m)^\[(\d+)\] (.+)$", text)
            points = [{"description": f"{said[:120]} [{number}]", "score": 60} for number, said in numbers]
            return json.dumps({"points": points}, ensure_ascii=False)
        return "One after the other, the parts of the whole are told of [1][2]. Then it ends [3]."

    def report(self, records: list[tuple[str, str]]) -> str:
        """A report on the records, by their marks."""
        said = [(mark, record[:220]) for mark, record in records]
        findings = [{"summary": text[:60], "explanation": f"{text} [{mark}]"} for mark, text in said[:7]]
        summary = " ".join(text for _, text in said[7:9]) or said[0][1]
        title = said[0][1].split(":")[0][:60]
        rated = {"rating": min(10, len(records) / 4), "rating_explanation": "By its records."}
        return json.dumps({"title": title, "summary": summary, **rated, "findings": findings}, ensure_ascii=False)


class Near:
    """The cosines of sentences with a question."""

    def __init__(self, question: str) -> None:
        self.vector = default_embeddings().embed_array([question])[0]

    def __call__(self, texts: Sequence[str]) -> list[float]:
        """One for each."""
        cosines: list[float] = (default_embeddings().embed_array(list(texts)) @ self.vector).tolist()
        return cosines


def graph_of(chunks: list[Document]) -> MemoryGraph:
    graph = MemoryGraph()
    extractor = PhraseExtractor()
    for chunk, found in zip(chunks, extractor.batch(list(chunks)), strict=True):
        graph.add(found, str(chunk.id))
    return graph


def ask(
    questions: tuple[str, ...],
    reports: list[Report],
    communities: tuple[Community, ...],
    chunks: dict[str, Document],
    source_tokens: int,
    stub: Stub | None,
    context_tokens: int,
) -> None:
    counter = token_counter()
    vectors = default_embeddings().embed_array([full_text(report) for report in reports])
    lexical = report_lexical(reports)

    def lookup(ids: Any) -> dict[str, Document]:
        return {id: chunks[id] for id in ids if id in chunks}

    for question in questions:
        started = time.perf_counter()
        budget = report_budget(source_tokens, 4 * context_tokens)
        vector = default_embeddings().embed_query(question)
        chosen = select_reports(
            question, vector, reports, vectors, communities, budget=budget, counter=counter, lexical=lexical
        )
        took = time.perf_counter() - started
        levels = sorted({each.report.level for each in chosen})
        print(f"  {question} (asks for the whole: {asks_for_whole(question)}; chosen in {1000 * took:.0f} ms)")
        tokens = sum(counter(each.text) for each in chosen)
        print(f"    {len(chosen)} reports of levels {levels}, {tokens} tokens of them", end="; ")
        if stub is None:
            answer = offline_global_answer(question, chosen, lookup, nearness=Near(question))
            print(f"{len(answer.citations)} quotes: {answer.text[:300]}")
            continue
        stub.read = stub.written = stub.calls = 0
        options: dict[str, Any] = {"counter": counter, "max_context_tokens": context_tokens, "lookup": lookup}
        answer = global_answer(RunnableLambda(stub), question, chosen, **options)
        share = 100 * (stub.read + stub.written) / source_tokens
        print(
            f"{stub.calls} calls, {stub.read} tokens read and {stub.written} written, {share:.1f} % of the source; "
            f"{len(answer.citations)} citations"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--text", type=Path, metavar="FILE", help="a book in UTF-8, in English or Chinese")
    options.add_argument("--context", type=int, default=6000)
    given = options.parse_args()
    if given.text is None:
        options.exit(2, f"{options.prog}: --text FILE is needed, a book in UTF-8, see docs/benchmarks.md\n")
    text = given.text.read_text(encoding="utf-8-sig")
    counter = token_counter()
    source_tokens = counter(text)
    chunks = Chunker().split(Document(text, metadata={"source": given.text.name}))
    graph = graph_of(chunks)
    communities = CommunityDetector().invoke(graph)
    print(f"{given.text.name}: {source_tokens} tokens, {len(chunks)} chunks, {graph}, {len(communities)} communities")
    by_id = {str(chunk.id): chunk for chunk in chunks}
    questions = QUESTIONS["zh" if any("\u4e00" <= mark <= "\u9fff" for mark in text[:2000]) else "en"]
    for label, stub in (("without a model", None), ("with a stub", Stub(counter))):
        writer = ReportWriter(RunnableLambda(stub) if stub else None, counter=counter)
        started = time.perf_counter()
        reports = list(writer.write_all(graph, communities).values())
        sizes = [counter(full_text(report)) for report in reports]
        took = time.perf_counter() - started
        print(f"{label}: {len(reports)} reports, {sum(sizes)} tokens, the longest {max(sizes)}, {took:.1f} s")
        ask(questions, reports, communities, by_id, source_tokens, stub, given.context)
        if stub:
            print("  the same, so little room in one prompt that points are noted first")
            ask(questions, reports, communities, by_id, source_tokens, stub, given.context // 4)


if __name__ == "__main__":
    main()
