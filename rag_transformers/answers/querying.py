"""Question -> Answer with citations: quoted sentences without a model, a checked reply with one.

check_question        refuses an empty question before anything is paid for
offline_answer        the best sentences of the best chunks, quoted
answer_context        numbered passages within a token budget, for a prompt
read_answer           a model's reply: only citations of passages that it was given
no_data_answer        the index holds nothing on the question
no_room_answer        it does, and the budget has no room for it
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.documents import Document

from rag_transformers.answers.citations import Citation, check_citations, cite, cited_sentences, closest_quote, quoted
from rag_transformers.answers.contexts import ChunkLookup, Context, answer_context
from rag_transformers.answers.voice import Voice
from rag_transformers.errors import UsageError
from rag_transformers.models.run import Usage
from rag_transformers.retrieval.evidence import UNRELATED_COSINE, Evidence, Finding, best_findings, holds
from rag_transformers.text import encodable

__all__ = [
    "Answer",
    "Citation",
    "Context",
    "answer_context",
    "answer_prompt_inputs",
    "check_citations",
    "check_question",
    "no_data_answer",
    "no_data_text",
    "no_room_answer",
    "offline_answer",
    "read_answer",
]

_MOST_BEHIND = 2000
"""Of what was made of more chunks than this, the first ones are looked at for a quote."""
_TOLD = ("source", "chunk", "start", "end", "score")  # of a chunk's metadata: the rest may be no JSON


@dataclass(frozen=True)
class Answer:
    """An answer, and what it rests on.

    Args:
        text: The answer; marks like ``[1]`` point at ``citations``.
        citations: What the marks point at, by number.
        context: The passages that were given to the model, or from which was quoted.
        usage: Calls and tokens that it cost.
        mode: How it was made, such as ``local``.
        language: Of the question.
        found: Whether it cites anything; False where the index holds nothing on the question.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    context: tuple[Document, ...] = field(default=(), repr=False)
    usage: Usage = field(default=Usage())
    mode: str = "local"
    language: str = "en"
    found: bool = False

    def __str__(self) -> str:
        """The text."""
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-ready data.

        >>> no_data_answer("Who?").to_dict()["found"]
        False
        """
        return {
            "text": self.text,
            "found": self.found,
            "mode": self.mode,
            "language": self.language,
            "citations": [dict(vars(citation)) for citation in self.citations],
            "context": [
                {"id": chunk.id, "text": chunk.page_content}
                | {k: chunk.metadata[k] for k in _TOLD if k in chunk.metadata}
                for chunk in self.context
            ],
            "usage": dict(vars(self.usage)),
        }


def check_question(question: object) -> str:
    """A question without white space around it.

    Raises:
        UsageError: It is empty, or no text.

    >>> check_question(" Who? ")
    'Who?'
    """
    if question is None or (isinstance(question, str) and not question.strip()):
        raise UsageError("the question is empty")
    if not isinstance(question, str):
        raise UsageError(f"the question is a {type(question).__name__}; give a text")
    return encodable(question.strip())


def no_data_answer(
    question: str, mode: str = "local", usage: Usage | None = None, voice: Voice | None = None
) -> Answer:
    """The answer where the index holds nothing on the question, in the question's language.

    >>> print(no_data_answer("谁建了这座桥？"))
    索引中没有与这个问题有关的内容。
    """
    voice = voice or Voice()
    return Answer(no_data_text(question, voice), usage=usage or Usage(), mode=mode, language=voice.of(question))


def no_data_text(question: str, voice: Voice | None = None) -> str:
    """What is said where there is nothing on the question, in the question's language."""
    return (voice or Voice()).words(question).no_data


def no_room_answer(
    question: str, mode: str = "local", usage: Usage | None = None, voice: Voice | None = None
) -> Answer:
    """The answer where the index holds something on the question, and the budget of tokens has no room for any of it.

    >>> print(no_room_answer("Who built the bridge?"))
    The budget of tokens has no room for what the index holds on this question.
    """
    voice = voice or Voice()
    return Answer(voice.words(question).no_room, usage=usage or Usage(), mode=mode, language=voice.of(question))


def offline_answer(
    evidence: Evidence,
    *,
    limit: int = 3,
    mode: str = "local",
    unrelated: float = UNRELATED_COSINE,
    certain: bool = False,
    voice: Voice | None = None,
) -> Answer:
    """An answer without a model: the sentences that answer best, quoted, each with its citation.

    Sentences that stand beside each other in a chunk are quoted as one. If the chunks hold nothing on the question,
    the answer says so.

    Args:
        evidence: From :func:`rag_transformers.retrieval.evidence.find_evidence`, of about ten chunks.
        limit: Sentences to quote at most.
        mode: What the answer says of how it was made.
        unrelated: As for :func:`rag_transformers.retrieval.evidence.holds`.
        certain: Whether it is known already that the chunks hold something on the question.
        voice: The languages that there are.
    """
    voice = voice or Voice()
    if not certain and not holds(evidence, unrelated):
        return no_data_answer(evidence.question, mode, voice=voice)
    language = voice.of(evidence.question)
    quotes = _neighbours_joined(best_findings(evidence, limit))
    citations = tuple(cite(number, *quote) for number, quote in enumerate(quotes, 1))
    text = quoted(citations, voice.words(evidence.question).space)
    context = tuple({finding.place: finding.chunk for finding in evidence.findings}.values())
    return Answer(text, citations, context, mode=mode, language=language, found=True)


def answer_prompt_inputs(question: str, context: Context) -> dict[str, str]:
    """The variables of the prompt ``answer_local``."""
    return {"context": context.text, "question": question}


def read_answer(
    question: str,
    reply: str,
    context: Context,
    *,
    usage: Usage | None = None,
    mode: str = "local",
    lookup: ChunkLookup | None = None,
    voice: Voice | None = None,
) -> Answer:
    """The answer that a model's reply gives: citations that point nowhere removed, after a warning.

    A citation quotes the sentence of its passage that has most in common with what it is cited for; where the passage
    was made of chunks, the sentence of these. If none of them can be found, it quotes the passage.

    Args:
        question: The question.
        reply: The model's reply, its reasoning removed.
        context: The passages that the model was given.
        usage: What the call cost.
        mode: What the answer says of how it was made.
        lookup: Finds the chunks that passages were made of.
        voice: The languages that there are.

    >>> context = answer_context([Document("Ada left. Bob stayed.", metadata={"source": "a"})], 50, len)
    >>> read_answer("Who stayed?", "It was Bob who stayed [1].", context).citations[0].quote
    'Bob stayed.'
    """
    checked = check_citations(reply, len(context.passages))
    if checked.removed:
        numbers = "".join(f"[{number}]" for number in checked.removed)
        warnings.warn(f"the reply cited passages that it was not given, removed: {numbers}", stacklevel=2)
    cited = cited_sentences(checked.text)
    chunks = _cited_chunks(context, sorted(checked.used), lookup)
    citations = []
    for number, found in chunks.items():
        passage = context.passages[number - 1]
        otherwise = () if found == [passage] else (passage.page_content,)
        citations.append(cite(number, *closest_quote(found, cited.get(number, [checked.text]), otherwise)))
    return Answer(
        text=checked.text,
        citations=tuple(citations),
        context=context.passages,
        usage=usage or Usage(),
        mode=mode,
        language=(voice or Voice()).of(question),
        found=bool(citations),
    )


def _cited_chunks(
    context: Context, numbers: Sequence[int], lookup: ChunkLookup | None
) -> dict[int, Sequence[Document]]:
    """What may be quoted for each number: the chunks behind the passage, or the passage itself."""
    behind = {number: context.behind[number - 1][:_MOST_BEHIND] if context.behind else () for number in numbers}
    wanted = list(dict.fromkeys(id for ids in behind.values() for id in ids))
    found = lookup(wanted) if lookup and wanted else {}
    return {
        number: [found[id] for id in ids if id in found] or [context.passages[number - 1]]
        for number, ids in behind.items()
    }


def _neighbours_joined(findings: Sequence[Finding]) -> list[tuple[Document, int, int]]:
    """The spans of sentences in their order; those of a chunk with nothing between them are one."""
    spans: list[tuple[Document, int, int]] = []
    for finding in findings:
        start, end, place = finding.start, finding.end, len(spans)
        for number in reversed(range(len(spans))):
            chunk, low, high = spans[number]
            if chunk is finding.chunk and not chunk.page_content[min(end, high) : max(start, low)].strip():
                start, end, place = min(start, low), max(end, high), number
                del spans[number]
        spans.insert(place, (finding.chunk, start, end))
    return spans
