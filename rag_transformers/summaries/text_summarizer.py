"""What summarising texts with and without a model share: the methods, and what they accept."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from rag_transformers.concurrency import InOrder
from rag_transformers.errors import UsageError, check_count
from rag_transformers.models.rounds import Rounds, alimited_items, arun_rounds, limited, limited_items, run_rounds
from rag_transformers.prompts import checked_prompt, template_text

if TYPE_CHECKING:
    from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

__all__ = ["Job", "TextSummarizer", "checked_template"]

T = TypeVar("T")
Texts = Sequence[str | Document]

MOST_CHARACTERS = 1024 * 1024
"""Of all texts of a call together, of a template, and of a threshold."""
MOST_TEXTS = 1024
LEAST_MERGED = 1024


@dataclass(frozen=True)
class Job:
    """What one call is to do, checked.

    Args:
        texts: From 1 to 1,024.
        short: What is no longer stays as it is.
        limit: What the texts of one call to the model come to at the most.
        prompt: Asks in place of the default.
        keep_errors: Whether a failed call is reported in its summary's place.
    """

    texts: list[str]
    short: int
    limit: int = MOST_CHARACTERS
    prompt: "PromptTemplate | ChatPromptTemplate | None" = None
    keep_errors: bool = False


class TextSummarizer(InOrder[Texts, str]):
    """What summarising with and without a model share: the methods, and what they accept."""

    counter: Callable[[str], int]

    @abstractmethod
    def _summarized_each(self, job: Job) -> Rounds[list[Any]]:
        """A summary of each text, in their order."""

    @abstractmethod
    def _summarized_whole(self, job: Job) -> Rounds[str]:
        """One summary of all texts."""

    def summarize(
        self,
        texts: Texts,
        not_summarize_threshold: int = 30,
        prompt: Any = None,
        *,
        return_exceptions: bool = False,
        config: RunnableConfig | None = None,
    ) -> list[str]:
        """A summary of each text.

        Args:
            texts: From 1 to 1,024 texts or Documents, of 1 to 1,048,576 characters in all.
            not_summarize_threshold: A text of up to so many characters (or units of ``counter``), from 1 to
                1,048,576, is returned as it is.
            prompt: Asks in place of the default; its only variable is ``text``.
            return_exceptions: Whether a failed call gives its error in the summary's place, instead of raising it.
            config: Callbacks, ``max_concurrency`` and the like.

        Returns:
            The summaries, as many as texts, in their order.

        Raises:
            UsageError: An argument is wrong; no call was made.
            ModelError: The model failed. Of calls that were not out yet, none is made.
        """
        job = self._job(texts, not_summarize_threshold, prompt, return_exceptions)
        return self._carried_out(self._summarized_each(job), job, config)

    async def asummarize(
        self,
        texts: Texts,
        not_summarize_threshold: int = 30,
        prompt: Any = None,
        *,
        return_exceptions: bool = False,
        config: RunnableConfig | None = None,
    ) -> list[str]:
        """A summary of each text; see :meth:`summarize`."""
        job = self._job(texts, not_summarize_threshold, prompt, return_exceptions)
        return await self._acarried_out(self._summarized_each(job), job, config)

    def merge_text_summarize(
        self,
        texts: Texts,
        merge_threshold: int = 4 * 1024,
        not_summarize_threshold: int = 30,
        prompt: Any = None,
        *,
        config: RunnableConfig | None = None,
    ) -> str:
        """One summary of all texts: each is summarised, then neighbours are put together and summarised, to the last.

        Equal texts count once and blank ones not at all.

        Args:
            texts: From 1 to 1,024 texts or Documents, of 1 to 1,048,576 characters in all.
            merge_threshold: What the texts of one call come to at the most, in characters (or units of ``counter``),
                from 1,024 to 1,048,576 and above ``not_summarize_threshold``; a longer text is split.
            not_summarize_threshold: What is no longer than this, from 1 to 1,048,576, is not summarised.
            prompt: Asks in place of both defaults; its only variable is ``text``.
            config: Callbacks, ``max_concurrency`` and the like.

        Raises:
            UsageError: An argument is wrong; no call was made.
            ConvergenceError: A round made nothing shorter or fewer, or 10 rounds are not enough; it carries the last
                summaries.
            ModelError: The model failed.
        """
        job = self._merge_job(texts, merge_threshold, not_summarize_threshold, prompt)
        return self._carried_out(self._summarized_whole(job), job, config)

    async def amerge_text_summarize(
        self,
        texts: Texts,
        merge_threshold: int = 4 * 1024,
        not_summarize_threshold: int = 30,
        prompt: Any = None,
        *,
        config: RunnableConfig | None = None,
    ) -> str:
        """One summary of all texts; see :meth:`merge_text_summarize`."""
        job = self._merge_job(texts, merge_threshold, not_summarize_threshold, prompt)
        return await self._acarried_out(self._summarized_whole(job), job, config)

    # The Runnable.

    def invoke(self, input: Texts, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """The same as :meth:`merge_text_summarize`, whose other arguments are taken by name."""
        return self.merge_text_summarize(input, config=config, **kwargs)

    async def ainvoke(self, input: Texts, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """The same as :meth:`amerge_text_summarize`, whose other arguments are taken by name."""
        return await self.amerge_text_summarize(input, config=config, **kwargs)

    def batch(self, inputs: list[Texts], config: Any = None, **kwargs: Any) -> list[str]:
        """One summary of each list of texts; ``max_concurrency`` is the number of calls in flight over all of them."""
        with limited(config):
            return super().batch(inputs, config, **kwargs)

    async def abatch(self, inputs: list[Texts], config: Any = None, **kwargs: Any) -> list[str]:
        """One summary of each list of texts; ``max_concurrency`` is the number of calls in flight over all of them."""
        with limited(config):
            return await super().abatch(inputs, config, **kwargs)

    def batch_as_completed(  # type: ignore[override]
        self, inputs: Sequence[Texts], config: Any = None, **kwargs: Any
    ) -> Iterator[tuple[int, str | Exception]]:
        """Each as soon as it is done, with its number; see :meth:`batch`."""
        yield from limited_items(config, super().batch_as_completed(inputs, config, **kwargs))

    async def abatch_as_completed(  # type: ignore[override]
        self, inputs: Sequence[Texts], config: Any = None, **kwargs: Any
    ) -> AsyncIterator[tuple[int, str | Exception]]:
        """Each as soon as it is done, with its number; see :meth:`batch`."""
        async for done in alimited_items(config, super().abatch_as_completed(inputs, config, **kwargs)):
            yield done

    def _carried_out(self, work: Rounds[T], job: Job, config: RunnableConfig | None) -> T:
        def carry_out(texts: list[str], config: RunnableConfig) -> T:
            return run_rounds(work, config, stop_at_error=not job.keep_errors)

        return cast(T, self._call_with_config(cast(Any, carry_out), job.texts, config))

    async def _acarried_out(self, work: Rounds[T], job: Job, config: RunnableConfig | None) -> T:
        async def carry_out(texts: list[str], config: RunnableConfig) -> T:
            return await arun_rounds(work, config, stop_at_error=not job.keep_errors)

        return cast(T, await self._acall_with_config(cast(Any, carry_out), job.texts, config))

    def _job(self, texts: Texts, not_summarize_threshold: int, prompt: Any, keep_errors: bool = False) -> Job:
        short = check_count("not_summarize_threshold", not_summarize_threshold, 1, MOST_CHARACTERS)
        template = None if prompt is None else checked_template(type(self).__name__, prompt)
        return Job(_checked_texts(texts), short, prompt=template, keep_errors=keep_errors)

    def _merge_job(self, texts: Texts, merge_threshold: int, not_summarize_threshold: int, prompt: Any) -> Job:
        limit = check_count("merge_threshold", merge_threshold, LEAST_MERGED, MOST_CHARACTERS)
        job = self._job(texts, not_summarize_threshold, prompt)
        if limit <= job.short:
            raise UsageError(
                f"merge_threshold is {limit}; it must be above not_summarize_threshold, which is {job.short}"
            )
        return replace(job, limit=limit)


def checked_template(owner: str, prompt: Any) -> "PromptTemplate | ChatPromptTemplate":
    """A user's own prompt, if its only variable is ``text`` and it is neither empty nor too long.

    Args:
        owner: The class that takes it, for the message.
        prompt: A text with ``{text}`` in it, a PromptTemplate or a ChatPromptTemplate.

    Raises:
        UsageError: It is none of these, has other variables, or a length out of the range.

    >>> checked_template("Summary", "In one line: {text}").input_variables
    ['text']
    """
    template = None if prompt == "" else checked_prompt(owner, prompt, {"text"})
    length = 0 if template is None else len(template_text(template))
    if template is None or not 0 < length <= MOST_CHARACTERS:
        raise UsageError(f"{owner}: prompt has {length} characters; it must have from 1 to {MOST_CHARACTERS}")
    return template


def _checked_texts(texts: Any) -> list[str]:
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise UsageError(f"texts is a {type(texts).__name__}; give a list of texts or Documents")
    if not 0 < len(texts) <= MOST_TEXTS:
        raise UsageError(f"texts holds {len(texts)} of them; it must hold from 1 to {MOST_TEXTS}")
    found = [text.page_content if isinstance(text, Document) else text for text in texts]
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise UsageError(f"texts[{number}] is {text!r}; it must be a text or a Document")
    length = sum(map(len, found))
    if not 0 < length <= MOST_CHARACTERS:
        raise UsageError(f"texts has {length} characters in all; it must have from 1 to {MOST_CHARACTERS}")
    return found
