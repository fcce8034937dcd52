"""A question about the whole -> an answer without a model: the best sentences of the best reports, quoted."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from langchain_core.documents import Document

from rag_transformers.answers.citations import cite, closest_quote, quoted
from rag_transformers.answers.contexts import ChunkLookup
from rag_transformers.answers.global_answers import report_document
from rag_transformers.answers.modes import is_about_nothing
from rag_transformers.answers.querying import Answer, no_data_answer
from rag_transformers.answers.voice import Voice
from rag_transformers.retrieval.evidence import fitness, term_shares
from rag_transformers.retrieval.lexical import Lexical
from rag_transformers.text import language_of, sentences, terms

if TYPE_CHECKING:
    from rag_transformers.answers.report_selection import ChosenReport

__all__ = ["Nearness", "offline_global_answer"]

Nearness: TypeAlias = Callable[[Sequence[str]], Sequence[float]]
"""From sentences to the cosine of each with the question."""

_READ = 12
"""Of so many of the best reports sentences are looked at."""
_AGAIN = 0.3
"""What a further sentence of a report that was quoted already loses."""
_PLACE = 0.02
"""What a sentence loses for each one before it in its report: the first ones are the most central."""
_SAID = 0.5
"""A term counts this much where a sentence chosen before holds it."""
_MOST_BEHIND = 2000
"""Of a report on more chunks than this, those that are behind most of it are looked at for a quote."""
_END_MARKS = " \t\n;；"  # what joins sentences in a report


class _Sentence(NamedTuple):
    text: str
    report: int
    merit: float
    held: frozenset[str]


def offline_global_answer(
    question: str,
    chosen: Sequence["ChosenReport"],
    lookup: ChunkLookup | None = None,
    *,
    limit: int = 5,
    nearness: Nearness | None = None,
    voice: Voice | None = None,
) -> Answer:
    """An answer about the whole without a model: sentences of the reports, quoted from the chunks behind them.

    A report made without a model consists of sentences of its chunks; of another, the closest sentences are quoted.
    Where the chunks behind a report cannot be found, the report is quoted itself.

    Args:
        question: The question.
        chosen: The reports, best first; none: there is nothing on the question.
        lookup: Finds the chunks behind reports, for citations.
        limit: Sentences to quote at most.
        nearness: From sentences to their cosines with the question; by default only the words decide.
        voice: The languages that there are.
    """
    voice = voice or Voice()
    quotes: dict[tuple[str, int, int], Document] = {}
    for sentence in _best(question, chosen[:_READ], limit, nearness):
        ids = chosen[sentence.report].report.chunks[:_MOST_BEHIND]
        found = lookup(ids) if lookup and ids else {}
        chunks = [found[id] for id in ids if id in found] or [report_document(chosen[sentence.report])]
        chunk, start, end = _span(sentence.text, chunks)
        quotes.setdefault((str(chunk.id), start, end), chunk)
    if not quotes:
        return no_data_answer(question, "global", voice=voice)
    cited = tuple(cite(n, chunk, start, end) for n, ((_, start, end), chunk) in enumerate(quotes.items(), 1))
    text = quoted(cited, voice.words(question).space)
    context = tuple(map(report_document, chosen))
    return Answer(text, cited, context, mode="global", language=voice.of(question), found=True)


def _best(
    question: str, chosen: Sequence["ChosenReport"], limit: int, nearness: Nearness | None
) -> Iterator[_Sentence]:
    """The sentences that answer best, none twice: of a question that names no subject, the first one of each report."""
    left = list(_sentences(chosen, language_of(question)))
    if nearness and left and not is_about_nothing(question):
        cosines = nearness([sentence.text for sentence in left])
        left = [each._replace(merit=each.merit + float(near)) for each, near in zip(left, cosines, strict=True)]
    lexical = Lexical((str(number), sentence.text) for number, sentence in enumerate(left))
    shares = {} if is_about_nothing(question) else term_shares(question, lexical)
    used: dict[int, int] = {}
    said: set[str] = set()

    def worth(sentence: _Sentence) -> float:
        told = sum(share * (_SAID if term in said else 1) for term, share in shares.items() if term in sentence.held)
        return told + sentence.merit - _AGAIN * used.get(sentence.report, 0)

    for _ in range(limit):
        if not left:
            return
        best = max(left, key=worth)
        left = [each for each in left if each.text not in best.text and best.text not in each.text]
        used[best.report] = used.get(best.report, 0) + 1
        said |= best.held
        yield best


def _sentences(chosen: Sequence["ChosenReport"], language: str) -> Iterator[_Sentence]:
    """The sentences of summaries and findings, each with what speaks for it beside the question's words."""
    for number, each in enumerate(chosen):
        report = each.report
        texts = [report.summary, *(finding.explanation or finding.summary for finding in report.findings)]
        found = list(dict.fromkeys(sentence.strip(_END_MARKS) for text in texts for sentence in sentences(text)))
        for place, text in enumerate(filter(None, found)):
            merit = each.score - _PLACE * place + fitness(text, language)
            yield _Sentence(text, number, merit, frozenset(terms(text)))


def _span(sentence: str, chunks: Sequence[Document]) -> tuple[Document, int, int]:
    """Where a sentence stands, however its white space is; else the sentence that is closest to it."""
    pattern = re.compile(r"\s*".join(map(re.escape, re.sub(r"\s+", "", sentence))))
    for chunk in chunks:
        if found := pattern.search(chunk.page_content):
            return chunk, *found.span()
    return closest_quote(chunks, [sentence])
