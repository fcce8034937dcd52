"""Descriptions of an entity or a relationship -> one description, made by a model.

The counterpart of Microsoft GraphRAG's ``SummarizeExtractor``. Descriptions that do not fit one prompt are folded in
rounds; see :mod:`rag_transformers.summaries.folding`.
"""

import logging
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.errors import ModelError, ModelUnreachableError, ReplyError, UsageError, check_count
from rag_transformers.models.conversation import Ask
from rag_transformers.models.faults import error_line, without_secrets
from rag_transformers.models.given import model_key, resolve_llm
from rag_transformers.models.parameters import with_parameters
from rag_transformers.models.reading import Reply
from rag_transformers.models.rounds import (
    Answers,
    Rounds,
    alimited_items,
    arun_rounds,
    limited,
    limited_items,
    run_rounds,
)
from rag_transformers.prompts import PromptPack, as_pack
from rag_transformers.records import without_reasoning
from rag_transformers.summaries.description_prompts import DescriptionPrompt, DescriptionPrompts
from rag_transformers.summaries.descriptions import (
    Descriptions,
    DescriptionSummarizer,
    ExtractiveSummarizeExtractor,
    Given,
    Items,
    SummarizationResult,
    as_json,
    check_function,
    digest,
    distinct,
    extract,
    given_of,
)
from rag_transformers.summaries.folding import Round, fold, line, split
from rag_transformers.text import finished

if TYPE_CHECKING:
    from pathlib import Path

    from rag_transformers.tokens import TokenCounter

__all__ = [
    "DescriptionSummarizer",
    "Descriptions",
    "ExtractiveSummarizeExtractor",
    "SummarizationResult",
    "SummarizeExtractor",
    "SummaryPlan",
]

_log = logging.getLogger(__name__)

OnError = Callable[[Exception, str, dict[str, Any]], Any]


class SummaryPlan(NamedTuple):
    """What a summary will cost, reckoned with replies of the greatest length."""

    calls: int = 0
    rounds: int = 0
    prompt_tokens: int = 0


class SummarizeExtractor(DescriptionSummarizer):
    """Asks a model to make one description of many.

    No prompt is longer than ``max_input_tokens``, whatever the descriptions are: those that do not fit one prompt are
    summarised in several, in parallel, and so are the summaries with what was left; a description that is too long is
    split at the ends of sentences. Prompts hold one description a line, sorted, so that the order in which they came
    does not matter.

    ``max_summary_length`` goes to a chat model as ``max_tokens`` of each call, unless the model refuses the parameter;
    any other Runnable has to keep it by itself. Of a reply that was cut there, the whole sentences are kept. A model
    that has spent all of it on reasoning is asked again without it, and so from then on: give such a model a limit of
    its own. An empty reply is asked for once more.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text.
        entity_name_key: The prompt's variable for the name, which is written as JSON: ``"Ada"`` or ``["Ada", "Bo"]``.
        input_descriptions_key: The prompt's variable for the descriptions.
        summarization_prompt: A text with these variables in braces, a PromptTemplate or a ChatPromptTemplate; it may
            have ``{max_length}`` too. Without it, our own in the language of the descriptions.
        on_error: Called with a model's error, its traceback, and the input, a dict of ``items`` and ``descriptions``.
        max_summary_length: Tokens of a reply, at least 1.
        max_input_tokens: Tokens of a prompt, more than the prompt has without a name and descriptions.
        language: ``auto`` (by the script of the descriptions), or one of :func:`rag_transformers.prompts.languages`.
        counter: Counts tokens; the run's one, or None for :func:`rag_transformers.tokens.token_counter`.
        skip_errors: Whether, after ``on_error``, the descriptions stand where a summary failed, as they are or, if
            they are longer than ``max_summary_length``, by their most central sentences. A model that cannot be
            reached is raised all the same, for it would fail for every input.
        undirected: Whether the order of a pair says nothing, so that both orders give the same prompts.
        prompts: The prompts to take: a folder of your own, see :class:`rag_transformers.prompts.PromptPack`.
        llm_client: Another name for ``llm``.
        llm_invoker: Another name for ``llm``.

    Raises:
        UsageError: An argument is wrong; the message names it.

    >>> from langchain_core.runnables import RunnableLambda
    >>> model = RunnableLambda(lambda prompt: "Ada Moss is a miller from Leeds.")
    >>> extractor = SummarizeExtractor(model)
    >>> extractor.invoke({"items": "Ada Moss", "descriptions": ["A miller.", "From Leeds.", "A miller."]}).description
    'Ada Moss is a miller from Leeds.'
    """

    def __init__(
        self,
        llm: Any = None,
        entity_name_key: str = "entity_name",
        input_descriptions_key: str = "description_list",
        summarization_prompt: Any = None,
        on_error: OnError | None = None,
        max_summary_length: int = 500,
        max_input_tokens: int = 4000,
        *,
        language: str = "auto",
        counter: "TokenCounter | None" = None,
        skip_errors: bool = False,
        undirected: bool = False,
        prompts: "PromptPack | str | Path | None" = None,
        llm_client: Any = None,
        llm_invoker: Any = None,
    ) -> None:
        owner = type(self).__name__
        self.llm: Runnable[Any, Any] = resolve_llm(owner, llm, {"llm_client": llm_client, "llm_invoker": llm_invoker})
        keys = _keys(entity_name_key, input_descriptions_key)
        self.entity_name_key, self.input_descriptions_key = keys
        self.on_error = check_function("on_error", on_error)
        self.max_summary_length = check_count("max_summary_length", max_summary_length)
        self.max_input_tokens = check_count("max_input_tokens", max_input_tokens)
        pack = as_pack(prompts)
        self.language = pack.checked(f"{owner}: ", language)
        self.skip_errors = skip_errors
        self.undirected = undirected
        self._counter = check_function("counter", counter)
        self._prompts = DescriptionPrompts(
            keys,
            summarization_prompt,
            self.language,
            self.max_input_tokens,
            self.max_summary_length,
            self._tokens,
            pack,
            counter is not None,
        )
        self._bounded: dict[int, Runnable[Any, Any]] = {}
        self._unbound = False

    # The Runnable.

    def invoke(self, input: Descriptions, config: RunnableConfig | None = None, **kwargs: Any) -> SummarizationResult:
        """Make one description of many.

        Args:
            input: ``items``, a name or a pair of names, and ``descriptions``.
            config: Callbacks and the like; ``max_concurrency`` limits the calls of a round.
            **kwargs: Not used.

        Raises:
            UsageError: The input is wrong, or its name leaves no room in a prompt; no call was made.
            ModelError: The model failed.
        """
        given = given_of(input)

        def summarize(_: Descriptions, config: RunnableConfig) -> SummarizationResult:
            return run_rounds(self._work(given), config)

        return self._call_with_config(cast(Any, summarize), input, config)

    async def ainvoke(
        self, input: Descriptions, config: RunnableConfig | None = None, **kwargs: Any
    ) -> SummarizationResult:
        """Make one description of many; see :meth:`invoke`."""
        given = given_of(input)

        async def summarize(_: Descriptions, config: RunnableConfig) -> SummarizationResult:
            return await arun_rounds(self._work(given), config)

        return await self._acall_with_config(cast(Any, summarize), input, config)

    def batch(self, inputs: list[Descriptions], config: Any = None, **kwargs: Any) -> list[SummarizationResult]:
        """Summarise several in parallel; ``max_concurrency`` limits the calls of all of them together."""
        with limited(config):
            return super().batch(inputs, config, **kwargs)

    async def abatch(self, inputs: list[Descriptions], config: Any = None, **kwargs: Any) -> list[SummarizationResult]:
        """Summarise several in parallel; see :meth:`batch`."""
        with limited(config):
            return await super().abatch(inputs, config, **kwargs)

    def batch_as_completed(  # type: ignore[override]
        self, inputs: Sequence[Descriptions], config: Any = None, **kwargs: Any
    ) -> Iterator[tuple[int, SummarizationResult | Exception]]:
        """Each as soon as it is done, with its number; see :meth:`batch`."""
        yield from limited_items(config, super().batch_as_completed(inputs, config, **kwargs))

    async def abatch_as_completed(  # type: ignore[override]
        self, inputs: Sequence[Descriptions], config: Any = None, **kwargs: Any
    ) -> AsyncIterator[tuple[int, SummarizationResult | Exception]]:
        """Each as soon as it is done, with its number; see :meth:`batch`."""
        async for done in alimited_items(config, super().abatch_as_completed(inputs, config, **kwargs)):
            yield done

    # What can be known before any call.

    def needs_model(self, descriptions: Sequence[str | None]) -> bool:
        """Whether a model is asked about these descriptions: whether they are more than one."""
        return len(distinct(descriptions)) > 1

    def plan(self, items: Items, descriptions: Sequence[str | None]) -> SummaryPlan:
        """What a summary will cost, without any call.

        Raises:
            UsageError: The input is wrong.
        """
        given = given_of({"items": items, "descriptions": descriptions})
        calls = rounds = tokens = 0
        if len(given.texts) > 1:
            prompt = self._prompts.about(given, self._names(given.items))
            work = fold(list(map(line, given.texts)), prompt.room)
            asked: Round | None = next(work)
            while asked is not None:
                calls, rounds = calls + len(asked.batches), rounds + 1
                tokens += sum(map(prompt.tokens, asked.batches))
                limit = self._reply_limit(asked, prompt)
                replies = [_longest_reply(batch, limit, prompt.room.cost) for batch in asked.batches]
                asked = None if asked.last else work.send(replies)
        return SummaryPlan(calls, rounds, tokens)

    @property
    def cache_key(self) -> str:
        """What a summary depends on beside its input: instructions, lengths, language and model."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        keys = [self.entity_name_key, self.input_descriptions_key]
        how = [self.max_summary_length, self.max_input_tokens, self.undirected]
        return digest([kind, self._prompts.texts(), self.language, keys, how, model_key(self.llm)])

    # How a summary is made.

    def _work(self, given: Given) -> Rounds[SummarizationResult]:
        if len(given.texts) < 2:
            return SummarizationResult(given.items, "".join(given.texts))
        try:
            description = yield from self._summary(given)
        except ModelError as error:
            error.add_note(f"in the summary of the descriptions of {as_json(given.items)}")
            self._report(error, given)
            if not self.skip_errors or isinstance(error, ModelUnreachableError):
                raise
            description = extract(given, self.max_summary_length, self._tokens())
        return SummarizationResult(given.items, description)

    def _summary(self, given: Given) -> Rounds[str]:
        prompt = self._prompts.about(given, self._names(given.items))
        work = fold(list(map(line, given.texts)), prompt.room)
        asked = next(work)
        while True:
            summaries = yield from self._replies(asked, prompt, given.items)
            if asked.last:
                return summaries[0]
            asked = work.send(summaries)

    def _reply_limit(self, asked: Round, prompt: DescriptionPrompt) -> int:
        """The tokens of a reply: at most half the room if it does not end the work, so that the rounds have an end."""
        return self.max_summary_length if asked.last else max(1, min(self.max_summary_length, prompt.room.size // 2))

    def _replies(self, asked: Round, prompt: DescriptionPrompt, items: Items) -> Rounds[list[str]]:
        """The summaries of one round; what came empty is asked for once more."""
        limit = self._reply_limit(asked, prompt)
        llm = self._llm_for(limit)
        asks = [Ask(llm, prompt.with_lines(batch)) for batch in asked.batches]
        answers: Answers = list((yield asks))
        again = {place: ask for place, ask in enumerate(asks) if _is_empty(answers[place])}
        if again:
            self._note_lost_in_thought([answers[place] for place in again])
            llm = self._llm_for(limit)
            more = yield [Ask(llm, ask.prompt) for ask in again.values()]
            for place, answer in zip(again, more, strict=True):
                answers[place] = answer
        return [_text(answer, items) for answer in answers]

    def _llm_for(self, limit: int) -> Runnable[Any, Any]:
        """The model with a limit on the tokens of its replies."""
        if self._unbound:
            return self.llm
        if limit not in self._bounded:
            self._bounded[limit] = with_parameters(self.llm, {"max_tokens": limit})
        return self._bounded[limit]

    def _note_lost_in_thought(self, answers: Answers) -> None:
        if not self._unbound and any(getattr(answer, "finish_reason", None) == "length" for answer in answers):
            self._unbound = True
            _log.warning("the model spent max_summary_length on reasoning; it is asked without that limit from now on")

    def _report(self, error: Exception, given: Given) -> None:
        """Tell the caller's function of an error; what that function raises does not take its place."""
        if self.on_error is None:
            return
        try:
            details = {"items": given.items, "descriptions": given.descriptions}
            self.on_error(error, without_secrets("".join(traceback.format_exception(error))), details)
        except Exception as failed:
            _log.warning("on_error failed: %s", error_line(failed))

    def _names(self, items: Items) -> list[str]:
        names = super()._names(items)
        return sorted(names) if self.undirected else names

    def _tokens(self) -> "TokenCounter":
        if self._counter is None:
            from rag_transformers.tokens import token_counter

            self._counter = token_counter(self.llm)
        return cast("TokenCounter", self._counter)


def _keys(name: Any, descriptions: Any) -> tuple[str, str]:
    for key, value in (("entity_name_key", name), ("input_descriptions_key", descriptions)):
        if not isinstance(value, str) or not value:
            raise UsageError(f"{key} is {value!r}; it must be the name of a variable in the prompt")
    if name == descriptions:
        raise UsageError(f"entity_name_key and input_descriptions_key are both {name!r}; they must differ")
    return name, descriptions


def _is_empty(answer: Reply | ModelError) -> bool:
    """Whether a reply has no text, or reasoning alone; a refusal and a filter's block are something else."""
    if not isinstance(answer, ReplyError) or answer.finish_reason == "content_filter":
        return False
    return not without_reasoning(answer.reply).strip()


def _text(answer: Reply | ModelError, items: Items) -> str:
    """The text of a reply; of one that was cut, its whole sentences."""
    if isinstance(answer, ModelError):
        raise answer
    if not answer.cut:
        return answer.text
    if not (whole := finished(answer.text)):
        cause = "the reply was cut off before a sentence was whole; raise max_summary_length"
        raise ReplyError(cause, reply=answer.text, finish_reason=answer.finish_reason)
    if whole != answer.text:
        _log.warning("the summary for %s was cut off at the token limit; its whole sentences stay", as_json(items))
    return whole


def _longest_reply(batch: Sequence[str], limit: int, cost: Callable[[str], int]) -> str:
    """What stands for a reply in a plan: the beginning of what is to be summarised."""
    text = " ".join(batch)
    return text if cost(text) <= limit else split(text, limit, cost, least=1)[0] or text[:1]
