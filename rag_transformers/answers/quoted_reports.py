"""A question about the whole -> an answer without a model: the best sentences of the best reports, quoted."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from langchain_core.documents import Document

from rag_transformers.answers.citations import cite, closest_quote, quoted
from rag_transformers.answers.contexts import ChunkLookup
from rag_transformers.answers.global_answers import report_document
from rag_transformers.answers.modes import asks_for_whole, is_about_nothing
from rag_transformers.answers.querying import Answer, no_data_answer
from rag_transformers.answers.voice import Voice
from rag_transformers.retrieval.evidence import fitness, term_shares
from rag_transformers.retrieval.lexical import Lexical
from rag_transformers.text import language_of, points_back, said_sentences, terms

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
_POINTS_BACK = -0.4
"""What a sentence counts that speaks of what another one named: any that stands by itself is better."""
_SAID = 0.5
"""A term counts this much where a sentence chosen before holds it."""
_MOST_BEHIND = 2000
"""Of a report on more chunks than this, those that are behind most of it are looked at for a quote."""
_END_MARKS = " \t\n;；"  # what joins sentences in a report


class _Sentence(NamedTuple):
    text: str
    report: int
    place: int
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

    To a question on themes or the like each report's sentences stand behind its title, and together; a sentence that
    speaks of what another one named ("It burned.") is passed over there where another one stands by itself.
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
    quotes: dict[tuple[str, int, int], tuple[Document, int]] = {}
    themes = asks_for_whole(question) or is_about_nothing(question)
    best = list(_best(question, chosen[:_READ], limit, nearness, themes))
    for sentence in _by_report(best) if themes else best:
        ids = chosen[sentence.report].report.chunks[:_MOST_BEHIND]
        found = lookup(ids) if lookup and ids else {}
        chunks = [found[id] for id in ids if id in found] or [report_document(chosen[sentence.report])]
        chunk, start, end = _span(sentence.text, chunks)
        quotes.setdefault((str(chunk.id), start, end), (chunk, sentence.report))
    if not quotes:
        return no_data_answer(question, "global", voice=voice)
    cited = tuple(cite(n, chunk, *span) for n, ((_, *span), (chunk, _)) in enumerate(quotes.items(), 1))
    leads = _titles(chosen, [report for _, report in quotes.values()]) if themes else []
    text = quoted(cited, voice.words(question).space, leads)
    context = tuple(map(report_document, chosen))
    return Answer(text, cited, context, mode="global", language=voice.of(question), found=True)


def _by_report(best: Sequence[_Sentence]) -> list[_Sentence]:
    """The sentences of each report together, in their own order; the reports in the order of their best ones."""
    order = list(dict.fromkeys(sentence.report for sentence in best))
    return sorted(best, key=lambda sentence: (order.index(sentence.report), sentence.place))


def _titles(chosen: Sequence["ChosenReport"], reports: Sequence[int]) -> list[str]:
    """The title of each report where its first quote stands; nothing for the others."""
    return [
        "" if at and reports[at - 1] == number else chosen[number].report.title for at, number in enumerate(reports)
    ]


def _best(
    question: str, chosen: Sequence["ChosenReport"], limit: int, nearness: Nearness | None, themes: bool
) -> Iterator[_Sentence]:
    """The sentences that answer best, none twice: of a question that names no subject, the first one of each report."""
    left = list(_sentences(chosen, language_of(question), themes))
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


def _sentences(chosen: Sequence["ChosenReport"], language: str, themes: bool) -> Iterator[_Sentence]:
    """The sentences of summaries and findings, each with what speaks for it beside the question's words."""
    for number, each in enumerate(chosen):
        report = each.report
        texts = [report.summary, *(finding.explanation or finding.summary for finding in report.findings)]
        found = list(dict.fromkeys(sentence.strip(_END_MARKS) for sentence in said_sentences(texts)))
        for place, text in enumerate(filter(None, found)):
            merit = each.score - _PLACE * place + fitness(text, language)
            merit += _POINTS_BACK if themes and points_back(text) else 0.0
            yield _Sentence(text, number, place, merit, frozenset(terms(text)))


def _span(sentence: str, chunks: Sequence[Document]) -> tuple[Document, int, int]:
    """Where a sentence stands, however its white space is; else the sentence that is closest to it."""
    pattern = re.compile(r"\s*".join(map(re.escape, re.sub(r"\s+", "", sentence))))
    for chunk in chunks:
        if found := pattern.search(chunk.page_content):
            return chunk, *found.span()
    return closest_quote(chunks, [sentence])
