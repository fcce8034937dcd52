"""Passages for an agent: each numbered, with its source, and cut to what speaks to the question."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from langchain_core.documents import Document

from rag_transformers.agents.cited_text import place
from rag_transformers.answers.contexts import shown
from rag_transformers.summaries.extractive import shortened
from rag_transformers.text import printable

if TYPE_CHECKING:
    from rag_transformers.retrieval.evidence import Evidence, Finding
    from rag_transformers.tokens import TokenCounter

__all__ = ["excerpts"]

_LEAST = 24
"""Tokens below which an excerpt tells nothing."""


def excerpts(
    passages: Sequence[Document], evidence: "Evidence", *, budget: int, counter: "TokenCounter"
) -> tuple[str, int]:
    """The passages as one text, and how many of them there was room for.

    A passage that is longer than its share is cut to the sentence that speaks best to the question and those around it.

    Args:
        passages: Best first.
        evidence: What their sentences hold on the question.
        budget: Tokens of the whole.
        counter: Counts tokens.
    """
    told: list[str] = []
    for number, passage in enumerate(passages, 1):
        left = budget - counter("\n".join(told))
        front = f"[{number}] {place(passage)}: "
        taken = counter(front)
        if told and left < max(_LEAST, taken + _LEAST // 2):
            break
        room = max(1, left // (len(passages) - number + 1) - taken)
        findings = [finding for finding in evidence.findings if finding.place == number - 1]
        told.append(front + shown(_excerpt(passage, findings, evidence, room, counter)))
    return "\n".join(told), len(told)


def _excerpt(
    passage: Document, findings: Sequence["Finding"], evidence: "Evidence", room: int, counter: "TokenCounter"
) -> str:
    whole = _plain(passage.page_content)
    if counter(whole) <= room:
        return whole
    if not findings:
        return f"{shortened(whole, room, counter)} …"
    best = max(range(len(findings)), key=lambda at: (evidence.coverage(findings[at]) + findings[at].merit, -at))
    first = last = best
    text = passage.page_content

    def part(first: int, last: int) -> str:
        start, end = findings[first].start, findings[last].end
        front, back = "… " if first else "", " …" if last < len(findings) - 1 else ""
        return f"{front}{_plain(text[start:end])}{back}"

    sides = [(0, 1), (-1, 0)]  # the next sentence, the one before, and so on in turn
    while sides:
        before, after = sides.pop(0)
        wider = first + before, last + after
        if wider[0] >= 0 and wider[1] < len(findings) and counter(part(*wider)) <= room:
            first, last = wider
            sides.append((before, after))
    found = part(first, last)
    return found if counter(found) <= room else f"{shortened(found, room, counter)} …"


def _plain(text: str) -> str:
    return shown(printable(text))
