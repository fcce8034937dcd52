"""Question -> the reports that suit it, from the coarsest level down only where that helps, within a token budget."""

import heapq
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from rag_transformers.answers.contexts import filled_context
from rag_transformers.answers.modes import is_about_nothing
from rag_transformers.errors import UsageError, check_count
from rag_transformers.retrieval.evidence import TERMS_WEIGHT, UNRELATED_COSINE
from rag_transformers.retrieval.lexical import Lexical
from rag_transformers.text import terms

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_transformers.communities import Community
    from rag_transformers.reports.writer import Report
    from rag_transformers.tokens import TokenCounter

    Floats = npt.NDArray[np.float64]

__all__ = [
    "ChosenReport",
    "brief_text",
    "full_text",
    "report_budget",
    "report_lexical",
    "report_suits",
    "select_reports",
]

_RATING_WEIGHT = 0.1
"""What the highest rating counts for, beside the question's similarity, which goes up to about 1."""
_LEAST = 0.5
"""A report that suits a question less than this share of the best one does is left out."""
_BRIEF_SHARE = 0.6
"""So much of the budget is for titles and summaries of many; the rest is for the findings of the best."""
_BROAD_SHARE = 0.9
"""The same for a question that names no subject, which many parts answer."""
_MISSES = 5
"""After so many reports in a row that find no room, it is used up."""
_SOURCE_SHARE = 8
"""Reports come to an eighth of the source at most: with the prompts and notes a question reads under a fifth."""
_LEAST_BUDGET = 1000


class ChosenReport(NamedTuple):
    """A report that is to be read for a question.

    Args:
        report: The report.
        score: How well it suits the question, its rating counted.
        text: As much of it as there is room for: all, or its title and summary.
    """

    report: "Report"
    score: float
    text: str


def report_budget(source_tokens: int, most: int) -> int:
    """The tokens of reports that a question about the whole may read: an eighth of the source, at most so many.

    A small source is read in full measure: never less than 1,000 tokens, or ``most``.

    >>> report_budget(36_000, 24_000), report_budget(900_000, 24_000), report_budget(500, 24_000)
    (4500, 24000, 1000)
    """
    return min(most, max(_LEAST_BUDGET, source_tokens // _SOURCE_SHARE))


def report_lexical(reports: Sequence["Report"]) -> Lexical:
    """The words of reports, for :func:`select_reports`, to be made once for as long as the reports stay the same."""
    return Lexical((report.community, full_text(report)) for report in reports)


def brief_text(report: "Report") -> str:
    """The title and the summary of a report."""
    return f"{report.title}\n{report.summary}".strip()


def full_text(report: "Report") -> str:
    """The title, the summary and the findings of a report, one a line."""
    findings = (": ".join(filter(None, (finding.summary, finding.explanation))) for finding in report.findings)
    return "\n".join([brief_text(report), *(f"- {finding}" for finding in findings)])


def report_suits(
    question: str,
    vector: Sequence[float] | None,
    reports: Sequence["Report"],
    vectors: "npt.NDArray[np.float32] | None",
    lexical: Lexical | None = None,
    unrelated: float = UNRELATED_COSINE,
) -> list[float]:
    """How well each report suits a question, from 0 to about 1: by its vector and by the words they share.

    Args:
        question: The question; one that names no subject suits none.
        vector: Its vector, of unit length; or None.
        reports: The reports.
        vectors: The vector of each, rows of unit length; or None.
        lexical: As for :func:`select_reports`.
        unrelated: The mean cosine of unrelated texts.
    """
    import numpy as np

    total = np.zeros(len(reports))
    if not reports or is_about_nothing(question):
        return [0.0] * len(reports)
    if vector is not None and vectors is not None:
        total += (vectors @ np.asarray(vector, np.float32) - unrelated) / (1 - unrelated)
    lexical = lexical or report_lexical(reports)
    ideal = sum(lexical.idf(term) for term in terms(question))
    if ideal:
        scores = dict(zip(lexical.ids, (lexical.scores(question) / ideal).tolist(), strict=True))
        total += TERMS_WEIGHT * np.array([min(1.0, scores.get(report.community, 0.0)) for report in reports])
    return [max(0.0, float(each)) for each in total]


def select_reports(
    question: str,
    vector: Sequence[float] | None,
    reports: Sequence["Report"],
    vectors: "npt.NDArray[np.float32] | None",
    communities: Sequence["Community"],
    *,
    budget: int,
    counter: "TokenCounter",
    lexical: Lexical | None = None,
    unrelated: float = UNRELATED_COSINE,
) -> list[ChosenReport]:
    """The reports to read for a question, best first.

    It begins with those of the coarsest level. One is passed over for its children where any of them suits the question
    better than it does. A question that names no subject ("What are the main themes?") stays on the coarsest level,
    and there the rating decides. The more reports, the fewer are given with their findings, the others by title and
    summary.

    Args:
        question: The question.
        vector: Its vector, of unit length; None where there are no vectors.
        reports: One a community.
        vectors: The vector of each report, rows of unit length in the order of ``reports``; or None.
        communities: What the reports are about; those without a report are passed over for their children.
        budget: Tokens of all that is chosen, at least 1.
        counter: Counts tokens.
        lexical: The words of the reports, as :func:`report_lexical` gives them; made here where there is none.
        unrelated: The mean cosine of unrelated texts.

    Raises:
        UsageError: The arguments do not fit each other, or ``budget`` is no whole number from 1.

    Going down where it helps is as in Microsoft GraphRAG's dynamic community selection, which asks a model for it.
    """
    check_count("budget", budget)
    if vectors is not None and len(vectors) != len(reports):
        raise UsageError(f"vectors has {len(vectors)} rows for {len(reports)} reports; give one each")
    suits = report_suits(question, vector, reports, vectors, lexical, unrelated)
    pool = _Pool(reports, communities, suits)
    broad = is_about_nothing(question)
    room = budget * (_BROAD_SHARE if broad else _BRIEF_SHARE)
    least = _LEAST * max(suits, default=0.0)
    chosen: list[int] = []
    misses = 0
    while misses < _MISSES and (place := pool.take()) is not None:
        cost = _cost(brief_text(reports[place]), counter)
        if suits[place] < least or (broad and chosen and len(reports[place].vertices) == 1):
            continue  # a vertex alone tells nothing on the whole
        fits = cost <= room or (not chosen and cost <= budget)
        misses = 0 if fits else misses + 1
        if fits:
            chosen.append(place)
            room -= cost
    if not chosen:
        return _cut(pool, budget, counter)
    return _with_texts([pool.chosen(place) for place in chosen], budget, counter)


class _Pool:
    """The reports that may be chosen next: those of the coarsest level, and children that suit better than a parent."""

    def __init__(self, reports: Sequence["Report"], communities: Sequence["Community"], suits: Sequence[float]) -> None:
        self.reports = reports
        self._suits = suits
        self._places = {report.community: place for place, report in enumerate(reports)}
        self._children = {community.id: community.children for community in communities}
        self._heap: list[tuple[float, int, str]] = []
        known = set(self._children)
        roots = [each.id for each in communities if each.parent is None]
        for id in [*roots, *(report.community for report in reports if report.community not in known)]:
            self._push(id)

    def take(self) -> int | None:
        """The place of the best report that is left."""
        while self._heap:
            id = heapq.heappop(self._heap)[-1]
            place = self._places[id]
            inner = [child for child in self._children.get(id, ()) if child in self._places]
            if not any(self._suits[self._places[child]] > self._suits[place] for child in inner):
                return place
            for child in inner:
                self._push(child)
        return None

    def chosen(self, place: int) -> ChosenReport:
        """A report with its score and its brief text."""
        report = self.reports[place]
        return ChosenReport(report, self._score(place), brief_text(report))

    def _push(self, id: str) -> None:
        if (place := self._places.get(id)) is not None:
            heapq.heappush(self._heap, (-self._score(place), -len(self.reports[place].chunks), id))
            return
        for child in self._children.get(id, ()):
            self._push(child)

    def _score(self, place: int) -> float:
        rating = self.reports[place].rating
        return self._suits[place] + _RATING_WEIGHT * (rating if math.isfinite(rating) else 0.0) / 10


def _with_texts(chosen: list[ChosenReport], budget: int, counter: "TokenCounter") -> list[ChosenReport]:
    """The same, the first ones with their findings as far as the budget goes."""
    room = budget - sum(_cost(each.text, counter) for each in chosen)
    for place, each in enumerate(chosen):
        whole = full_text(each.report)
        more = _cost(whole, counter) - _cost(each.text, counter)
        if more <= room:
            chosen[place] = each._replace(text=whole)
            room -= more
    return chosen


def _cut(pool: _Pool, budget: int, counter: "TokenCounter") -> list[ChosenReport]:
    """The best report, cut to the budget, where it has no room for a whole one."""
    if not pool.reports:
        return []
    best = max(range(len(pool.reports)), key=lambda place: (pool._score(place), -place))
    chosen = pool.chosen(best)
    context, _ = filled_context([Document(chosen.text)], budget, counter)
    warnings.warn(f"a budget of {budget} tokens is too small for any report", stacklevel=4)
    return [chosen._replace(text=passage.page_content) for passage in context.passages]


def _cost(text: str, counter: "TokenCounter") -> int:
    return counter(f"[100] {text}\n\n")
