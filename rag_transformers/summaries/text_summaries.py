"""Texts -> a summary of each, or one of all of them, whatever their length; with a model, or without one."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.runnables import Runnable

from rag_transformers.errors import ConvergenceError, ModelError, UsageError, check_count
from rag_transformers.models.conversation import Ask
from rag_transformers.models.given import resolve_llm
from rag_transformers.models.parameters import with_parameters
from rag_transformers.models.reading import Reply
from rag_transformers.models.replies import whole_sentences
from rag_transformers.models.rounds import Rounds
from rag_transformers.prompts import PromptPack, as_pack
from rag_transformers.summaries.extractive import central_sentences, joined
from rag_transformers.summaries.merging import SEPARATOR, distinct, packed, pieces, total
from rag_transformers.summaries.text_summarizer import Job, TextSummarizer, checked_template
from rag_transformers.text import sentences

__all__ = ["ExtractiveSummary", "Summary"]

MOST_ROUNDS = 10
"""Rounds of calls one after another, the one that summarises the given texts included."""

_DEFAULTS = {"temperature": 0.5, "top_p": 0.95}


class Summary(TextSummarizer):
    """Summarises texts with a model; as a Runnable, a list of texts to one summary.

    The rules are those of Ascend mxRAG's ``Summary``: what is short stays as it is, and summaries are merged round by
    round as far as ``merge_threshold`` lets them go together. No call is made whose result cannot matter.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text.
        llm_config: Parameters of the calls, in place of temperature 0.5 and top_p 0.95; None for a value leaves it
            out. They are left out too where the model does not take them, or is no chat model.
        prompt: Asks in place of the defaults; its only variable is ``text``.
        language: ``auto`` asks in the language of the text; ``en`` or ``zh`` in that, whatever the text.
        counter: What lengths are counted by, such as a token counter; characters by default.
        prompts: The prompts to take: a folder of your own, see :class:`rag_transformers.prompts.PromptPack`.
        llm_client: Another name for ``llm``.
        llm_invoker: Another name for ``llm``.

    Raises:
        UsageError: An argument is wrong; the message names it.

    >>> from langchain_core.runnables import RunnableLambda
    >>> model = RunnableLambda(lambda prompt: "The mill burned, and Ada built it again.")
    >>> Summary(model).summarize(["Short enough.", "In 1911 the mill at Leeds burned down. " * 9])
    ['Short enough.', 'The mill burned, and Ada built it again.']
    """

    def __init__(
        self,
        llm: Any = None,
        llm_config: Mapping[str, Any] | None = None,
        *,
        prompt: Any = None,
        language: str = "auto",
        counter: Callable[[str], int] = len,
        prompts: PromptPack | str | Path | None = None,
        llm_client: Any = None,
        llm_invoker: Any = None,
    ) -> None:
        owner = type(self).__name__
        self.llm: Runnable[Any, Any] = resolve_llm(owner, llm, {"llm_client": llm_client, "llm_invoker": llm_invoker})
        given = {**_DEFAULTS, **_parameters(owner, llm_config)}
        self.llm_config = {name: value for name, value in given.items() if value is not None}
        self._asked_llm = with_parameters(self.llm, self.llm_config, default=llm_config is None)
        self.prompts = as_pack(prompts)
        self.language = self.prompts.checked(f"{owner}: ", language)
        self.counter = _counter(owner, counter)
        self._prompt = None if prompt is None else checked_template(owner, prompt)

    def _summarized_each(self, job: Job) -> Rounds[list[Any]]:
        return (yield from self._summaries("summarize_text", job.texts, job))

    def _summarized_whole(self, job: Job) -> Rounds[str]:
        """Summarise each text, then neighbours together, until one is left.

        It ends: after the first round each one makes the texts shorter in all, separators counted, or leaves their
        length and makes them fewer. Both are whole numbers, so no state comes twice and there is a last one; a round
        that does neither raises at once. The number of rounds is bounded besides.
        """
        given = pieces(distinct(job.texts), job.limit, self.counter)
        made = yield from self._summaries("summarize_text", given, job)
        turn = 1
        while True:
            texts = pieces(distinct(made), job.limit, self.counter)
            if len(texts) <= 1:
                return "".join(texts)
            groups = packed(texts, job.limit, self.counter)
            self._check_progress(given, texts, groups, turn)
            inputs = [SEPARATOR.join(group) for group in groups]
            if len(groups) == 1:
                (summary,) = yield from self._summaries("merge_summaries", inputs, job)
                return str(summary)
            made = yield from self._next_round(groups, inputs, job)
            given, turn = texts, turn + 1

    def _next_round(self, groups: list[list[str]], inputs: list[str], job: Job) -> Rounds[list[str]]:
        """Summaries of what goes together; what stands alone is one already, unless nothing goes together."""
        if len(groups) == sum(map(len, groups)):
            return (yield from self._summaries("summarize_text", inputs, job))
        several = [text for text, group in zip(inputs, groups, strict=True) if len(group) > 1]
        made = dict(zip(several, (yield from self._summaries("merge_summaries", several, job)), strict=True))
        return [made.get(text, text) for text in inputs]

    def _check_progress(self, before: list[str], now: list[str], groups: list[list[str]], turn: int) -> None:
        """Raise where further calls are of no use.

        Args:
            before: The texts before the last round.
            now: Those after it, two at the least.
            groups: Those of them that go together next.
            turn: How many rounds there were.

        Raises:
            ConvergenceError: The last round made nothing shorter or fewer, or too many are left for the last one.
        """
        was, length = total(before, self.counter), total(now, self.counter)
        going_together = len(groups) < len(now)
        # A first round over short texts may make them longer: what counts is whether they can be put together then.
        useful = going_together and (turn == 1 or (length == was and len(now) < len(before)))
        if length >= was and not useful:
            left = f"{len(now)} texts of {length} in all, after {was}"
            raise ConvergenceError(f"round {turn} made the summaries neither shorter nor fewer: {left}", now)
        if turn == MOST_ROUNDS - 1 and len(groups) > 1:
            raise ConvergenceError(
                f"{MOST_ROUNDS} rounds are not enough: after {turn} there are {len(now)} texts of {length} in all, "
                f"which are too long for one more",
                now,
            )

    def _summaries(self, stage: str, texts: Sequence[str], job: Job) -> Rounds[list[Any]]:
        """A summary of each text, in one round; short ones stay as they are, and equal ones are asked about once."""
        asked = [text for text in dict.fromkeys(texts) if text.strip() and self.counter(text) > job.short]
        if not asked:
            return list(texts)
        answers = yield [self._ask(stage, text, job) for text in asked]
        made = dict(zip(asked, (_summary_in(answer, job.keep_errors) for answer in answers), strict=True))
        return [made.get(text, text) for text in texts]

    def _ask(self, stage: str, text: str, job: Job) -> Ask:
        language = self.prompts.choose(text, self.language)
        prompt = job.prompt or self._prompt or self.prompts.template(stage, language)
        return Ask(self._asked_llm, prompt.format_prompt(text=text))


class ExtractiveSummary(TextSummarizer):
    """Summarises texts without a model: by their most central sentences, word for word, in their order.

    It has the methods of :class:`Summary` and accepts the same; a prompt is checked and not used. See
    :func:`rag_transformers.summaries.extractive.central_sentences`.

    Args:
        max_length: What a summary comes to at the most, at least 1. It has about a third of a short text, and at least
            a sentence.
        counter: What lengths are counted by, such as a token counter; characters by default.
        names: What a summary should name, most important first; by default the commonest names of its texts.

    Raises:
        UsageError: An argument is wrong; the message names it.

    >>> text = "The mill at Leeds burned in 1911. It rained. Ada Moss, who owned the mill, built it again. It stands."
    >>> ExtractiveSummary().summarize([text])
    ['Ada Moss, who owned the mill, built it again.']
    """

    def __init__(
        self, max_length: int = 1000, *, counter: Callable[[str], int] = len, names: Sequence[str] = ()
    ) -> None:
        owner = type(self).__name__
        self.max_length = check_count("max_length", max_length)
        self.counter = _counter(owner, counter)
        if (
            isinstance(names, str)
            or not isinstance(names, Sequence)
            or not all(isinstance(each, str) for each in names)
        ):
            raise UsageError(f"{owner}: names is {names!r}; give a list of str")
        self.names = tuple(names)

    def _summarized_each(self, job: Job) -> Rounds[list[Any]]:
        yield from ()
        return [text if self._is_short(text, job) else self._summary_of([text], job) for text in job.texts]

    def _summarized_whole(self, job: Job) -> Rounds[str]:
        yield from ()
        texts = distinct(job.texts)
        if self._is_short(whole := SEPARATOR.join(texts), job):
            return whole
        return self._summary_of(texts, job)

    def _is_short(self, text: str, job: Job) -> bool:
        return not text.strip() or self.counter(text) <= job.short

    def _summary_of(self, texts: list[str], job: Job) -> str:
        most = max(job.short, sum(map(self.counter, texts)) // 3)
        if most < self.max_length:
            most = max(most, *(self.counter(sentence) for text in texts for sentence in sentences(text)))
        return joined(central_sentences(texts, min(most, self.max_length), self.counter, names=self.names))


def _summary_in(answer: Reply | ModelError, keep_errors: bool) -> str | ModelError:
    try:
        if isinstance(answer, ModelError):
            raise answer
        return whole_sentences(answer)
    except ModelError as error:
        if not keep_errors:
            raise
        return error


def _parameters(owner: str, given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UsageError(f"{owner}: llm_config is {given!r}; give a mapping from names of parameters to their values")
    return given


def _counter(owner: str, counter: Any) -> Callable[[str], int]:
    if not callable(counter):
        raise UsageError(f"{owner}: counter is {counter!r}; give a function from a text to its length")
    counted: Callable[[str], int] = counter
    return counted
