"""A question about the whole -> an answer from reports: points noted from parts of them in parallel, then one answer.

global_work                       the rounds of it, up to the last question
global_answer, aglobal_answer     all of it
offline_global_answer             without a model: the best sentences of the best reports, quoted from their chunks

Reports that fit into one prompt are given to the last question as they are: one call instead of two, and nothing lost
between them. Only beyond that the reports are shared out, and points with a score of 0 are dropped.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.answers.answering import Asking, aanswer, answer
from rag_transformers.answers.contexts import ChunkLookup, Context, filled_context
from rag_transformers.answers.map_points import Point, read_points
from rag_transformers.answers.querying import Answer, answer_prompt_inputs, no_data_answer
from rag_transformers.answers.voice import Voice
from rag_transformers.errors import ModelError, check_count
from rag_transformers.models.conversation import Ask
from rag_transformers.models.faults import error_line
from rag_transformers.models.reading import Reply
from rag_transformers.models.rounds import Rounds, arun_rounds, run_rounds
from rag_transformers.models.run import Usage

if TYPE_CHECKING:
    from rag_transformers.answers.report_selection import ChosenReport
    from rag_transformers.tokens import TokenCounter

__all__ = ["aglobal_answer", "global_answer", "global_work", "report_document"]


_POINTS_SHARE = 3
"""Points come to a third of the reports at most, so that both together stay under a fifth of the source."""
_LEAST_ROOM = 1000
"""Tokens that points may have in any case."""


class _Noted(NamedTuple):
    """A point, and the ids of the chunks behind the reports that it rests on."""

    point: Point
    chunks: tuple[str, ...]


def global_work(
    llm: Runnable[Any, Any],
    question: str,
    chosen: Sequence["ChosenReport"],
    *,
    counter: "TokenCounter",
    max_context_tokens: int = 6000,
    lookup: ChunkLookup | None = None,
    voice: Voice | None = None,
    each: bool = False,
) -> Rounds[Asking | Answer]:
    """The rounds of an answer from reports, up to the last question; to be driven by ``run_rounds`` or ``arun_rounds``.

    Args:
        llm: The model.
        question: The question.
        chosen: The reports to read, best first; none: there is nothing on the question.
        counter: Counts tokens.
        max_context_tokens: Tokens of passages in one prompt, at least 1.
        lookup: Finds the chunks behind reports, for citations; without it they quote the reports.
        voice: In which language is asked; by default in that of the question.
        each: Whether each report gets a call of its own, even where all fit into one prompt.

    Returns:
        The last question, or the answer that there is nothing, where no point has a score above 0.

    Raises:
        ModelError: No call succeeded, or some failed and the others told nothing.
    """
    check_count("max_context_tokens", max_context_tokens)
    voice = voice or Voice()
    parts = list(_parts(chosen, max_context_tokens, counter, each))
    usage = Usage()
    if len(parts) == 1 and not each:
        context = parts[0]
    elif parts:
        prompt = voice.prompt("answer_map", question)
        replies = yield [Ask(llm, prompt.invoke(answer_prompt_inputs(question, part))) for part in parts]
        usage = sum((reply.usage for reply in replies if isinstance(reply, Reply)), Usage())
        room = max(_LEAST_ROOM, sum(counter(part.text) for part in parts) // _POINTS_SHARE)
        context = _noted_context(_noted(parts, replies), min(max_context_tokens, room), counter)
    if not parts or not context.passages:
        return no_data_answer(question, "global", usage, voice)
    last = voice.prompt("answer_reduce", question).invoke(answer_prompt_inputs(question, context))
    return Asking(question, last, context, "global", lookup, usage, voice)


def global_answer(
    llm: Runnable[Any, Any],
    question: str,
    chosen: Sequence["ChosenReport"],
    *,
    config: RunnableConfig | None = None,
    **options: Any,
) -> Answer:
    """Answer a question from reports.

    Args:
        llm: The model.
        question: The question.
        chosen: The reports to read, best first.
        config: The caller's config; its ``max_concurrency`` calls are in flight at once.
        **options: As for :func:`global_work`.

    Raises:
        ModelError: No call succeeded.
    """
    return answer(llm, run_rounds(global_work(llm, question, chosen, **options), config or {}), config)


async def aglobal_answer(
    llm: Runnable[Any, Any],
    question: str,
    chosen: Sequence["ChosenReport"],
    *,
    config: RunnableConfig | None = None,
    **options: Any,
) -> Answer:
    """Answer a question from reports; see :func:`global_answer`."""
    work = global_work(llm, question, chosen, **options)
    return await aanswer(llm, await arun_rounds(work, config or {}), config)


def report_document(chosen: "ChosenReport") -> Document:
    """A report as a passage: its text, its community's id, and where it stands among the others."""
    report = chosen.report
    metadata = {"title": report.title, "report": report.community, "level": report.level, "score": chosen.score}
    return Document(chosen.text, id=report.community, metadata=metadata)


def _parts(chosen: Sequence["ChosenReport"], budget: int, counter: "TokenCounter", each: bool) -> Iterator[Context]:
    """The reports as numbered passages, in as few contexts as they need, or one each."""
    part: list[ChosenReport] = []
    room = 0
    for report in chosen:
        cost = counter(f"[{len(chosen)}] {report.text}\n\n")
        if part and (each or cost > room):
            yield from _context(part, budget, counter)
            part, room = [], 0
        room = (room if part else budget) - cost
        part.append(report)
    if part:
        yield from _context(part, budget, counter)


def _context(part: Sequence["ChosenReport"], budget: int, counter: "TokenCounter") -> Iterator[Context]:
    context, complete = filled_context(map(report_document, part), budget, counter)
    if not complete:
        warnings.warn(f"a budget of {budget} tokens is too small for any report", stacklevel=2)
    if context.passages:
        behind = tuple(report.report.chunks for report in part[: len(context.passages)])
        yield context._replace(behind=behind)


def _noted(parts: Sequence[Context], replies: Sequence[Reply | ModelError]) -> list[_Noted]:
    """The points of all replies with a score above 0, best first; what could not be read is told by a warning."""
    failed = [reply for reply in replies if isinstance(reply, ModelError)]
    found: dict[str, _Noted] = {}
    for part, reply in zip(parts, replies, strict=True):
        if isinstance(reply, ModelError):
            continue
        points, is_prose = read_points(reply.text, len(part.passages))
        if is_prose:
            warnings.warn(f"a reply with points is no JSON, used as text: {reply.text[:60]!r}", stacklevel=2)
        for point in points:
            if point.score > 0 and (point.text not in found or found[point.text].point.score < point.score):
                numbers = point.reports or range(1, len(part.passages) + 1)
                chunks = dict.fromkeys(id for number in numbers for id in part.behind[number - 1])
                found[point.text] = _Noted(point, tuple(chunks))
    if failed and not found:
        raise failed[0]
    if failed:
        line = error_line(failed[0])
        warnings.warn(f"of {len(replies)} calls for points {len(failed)} failed, the first: {line}", stacklevel=2)
    return sorted(found.values(), key=lambda each: -each.point.score)


def _noted_context(noted: Sequence[_Noted], budget: int, counter: "TokenCounter") -> Context:
    documents = (Document(each.point.text, metadata={"score": each.point.score}) for each in noted)
    context, _ = filled_context(documents, budget, counter)
    if noted and not context.passages:
        warnings.warn(f"a budget of {budget} tokens has no room for any point", stacklevel=2)
    return context._replace(behind=tuple(each.chunks for each in noted[: len(context.passages)]))
