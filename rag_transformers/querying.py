"""Question -> Answer with citations: quoted sentences without a model, a checked reply with one.

check_question        refuses an empty question before anything is paid for
offline_answer        the best sentences of the best chunks, quoted
answer_context        numbered passages within a token budget, for a prompt
read_answer           a model's reply: only citations of passages that it was given
no_data_answer        the index holds nothing on the question
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.documents import Document

from rag_transformers.citations import Citation, check_citations, cite, cited_sentences, closest_sentence, unmarked
from rag_transformers.concurrency import Usage
from rag_transformers.errors import UsageError, check_count
from rag_transformers.evidence import UNRELATED_COSINE, Evidence, Finding, best_findings, holds
from rag_transformers.retrieval import title_of
from rag_transformers.text import language_of, sentence_spans

if TYPE_CHECKING:
    from rag_transformers.tokens import TokenCounter

__all__ = [
    "Answer",
    "Citation",
    "Context",
    "answer_context",
    "answer_prompt_inputs",
    "check_citations",
    "check_question",
    "no_data_answer",
    "offline_answer",
    "read_answer",
]

_NO_DATA = {
    "en": "The index holds nothing on this question.",
    "zh": "索引中没有与这个问题有关的内容。",
}
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


class Context(NamedTuple):
    """Numbered passages for a prompt, and the chunks that they are, the last one perhaps cut."""

    text: str
    passages: tuple[Document, ...]


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
    return question.strip()


def no_data_answer(question: str, mode: str = "local", usage: Usage | None = None) -> Answer:
    """The answer where the index holds nothing on the question, in the question's language.

    >>> print(no_data_answer("谁建了这座桥？"))
    索引中没有与这个问题有关的内容。
    """
    language = language_of(question)
    return Answer(_NO_DATA[language], usage=usage or Usage(), mode=mode, language=language)


def offline_answer(
    evidence: Evidence, *, limit: int = 3, mode: str = "local", unrelated: float = UNRELATED_COSINE
) -> Answer:
    """An answer without a model: the sentences that answer best, quoted, each with its citation.

    Sentences that stand beside each other in a chunk are quoted as one. If the chunks hold nothing on the question,
    the answer says so.

    Args:
        evidence: From :func:`rag_transformers.evidence.find_evidence`, of about ten chunks.
        limit: Sentences to quote at most.
        mode: What the answer says of how it was made.
        unrelated: As for :func:`rag_transformers.evidence.holds`.
    """
    if not holds(evidence, unrelated):
        return no_data_answer(evidence.question, mode)
    language = language_of(evidence.question)
    quotes = _neighbours_joined(best_findings(evidence, limit))
    citations = tuple(cite(number, *quote) for number, quote in enumerate(quotes, 1))
    space = "" if language == "zh" else " "
    text = space.join(f"{' '.join(unmarked(quote.quote).split())}{space}[{quote.number}]" for quote in citations)
    context = tuple({finding.place: finding.chunk for finding in evidence.findings}.values())
    return Answer(text, citations, context, mode=mode, language=language, found=True)


def answer_context(chunks: Iterable[Document], budget: int, counter: "TokenCounter") -> Context:
    """Number the passages that fit into a token budget: whole ones, the last one cut at the end of a sentence.

    Where not even a sentence of the first fits, there is a warning, and no passage.

    Args:
        chunks: Best first.
        budget: Tokens of the whole context, numbers and titles counted, at least 1.
        counter: Counts tokens.

    Raises:
        UsageError: ``budget`` is no whole number of at least 1.

    >>> chunks = [Document("Ada left. Bob stayed."), Document("Cy slept. Di read.")]
    >>> print(answer_context(chunks, 8, lambda text: len(text.split())).text)
    [1] Ada left. Bob stayed.
    <BLANKLINE>
    [2] Cy slept.
    """
    check_count("budget", budget)
    text = ""
    passages: list[Document] = []
    for chunk in chunks:
        front = f"{text}\n\n{_numbered(len(passages) + 1, chunk)}" if text else _numbered(1, chunk)
        passage = _fitting(front, chunk, budget, counter)
        if passage is not None:
            passages.append(passage)
            text = front + _shown(passage.page_content)
        elif not passages:
            warnings.warn(f"a budget of {budget} tokens has no room for any passage", stacklevel=2)
        if passage is not chunk:
            break
    return Context(text, tuple(passages))


def answer_prompt_inputs(question: str, context: Context) -> dict[str, str]:
    """The variables of the prompt ``answer_local``."""
    return {"context": context.text, "question": question}


def read_answer(
    question: str, reply: str, context: Context, *, usage: Usage | None = None, mode: str = "local"
) -> Answer:
    """The answer that a model's reply gives: citations that point nowhere removed, after a warning.

    A citation quotes the sentence of its passage that has most in common with what it is cited for.

    Args:
        question: The question.
        reply: The model's reply, its reasoning removed.
        context: The passages that the model was given.
        usage: What the call cost.
        mode: What the answer says of how it was made.

    >>> context = answer_context([Document("Ada left. Bob stayed.", metadata={"source": "a"})], 50, len)
    >>> read_answer("Who stayed?", "It was Bob who stayed [1].", context).citations[0].quote
    'Bob stayed.'
    """
    checked = check_citations(reply, len(context.passages))
    if checked.removed:
        numbers = "".join(f"[{number}]" for number in checked.removed)
        warnings.warn(f"the reply cited passages that it was not given, removed: {numbers}", stacklevel=2)
    cited = cited_sentences(checked.text)
    citations = []
    for number in sorted(checked.used):
        passage = context.passages[number - 1]
        citations.append(cite(number, passage, *closest_sentence(passage, cited.get(number, [checked.text]))))
    return Answer(
        text=checked.text,
        citations=tuple(citations),
        context=context.passages,
        usage=usage or Usage(),
        mode=mode,
        language=language_of(question),
        found=bool(citations),
    )


def _numbered(number: int, chunk: Document) -> str:
    """What stands before a passage: its number, and its title where it does not begin with it."""
    title = title_of(chunk)
    return f"[{number}] {title}\n" if title and not chunk.page_content.lstrip().startswith(title) else f"[{number}] "


def _shown(text: str) -> str:
    """A passage's text for a prompt; what looks like a citation in it, as in an encyclopedia, is none."""
    return unmarked(text, r"(\1)").strip()


def _fitting(front: str, chunk: Document, budget: int, counter: "TokenCounter") -> Document | None:
    """As much of a chunk as fits into the budget behind what is there: all, or up to a sentence's end, or nothing."""
    text = chunk.page_content
    if counter(front + _shown(text)) <= budget:
        return chunk
    ends = [end for _, end in sentence_spans(text)]
    low, high = 0, len(ends)  # the first `low` sentences fit, more than `high` do not
    while low < high:
        middle = (low + high + 1) // 2
        if counter(front + _shown(text[: ends[middle - 1]])) <= budget:
            low = middle
        else:
            high = middle - 1
    if not low:
        return None
    end = ends[low - 1]
    metadata = {**chunk.metadata, "end": chunk.metadata.get("start", 0) + end}
    return Document(id=chunk.id, page_content=text[:end], metadata=metadata)


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
