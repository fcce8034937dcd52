"""The base of the extractors that ask a model: chunk -> prompt -> reply -> Extraction.

The format of a reply is a pair: a prompt, and what reads its replies. A subclass names the one and fills in the other.
"""

import asyncio
import hashlib
import json
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.errors import ModelError, ReplyError, UsageError, check_count
from rag_transformers.extraction.extractor import Extractor, chunk_of
from rag_transformers.extraction.gleaning import adds, merged
from rag_transformers.extraction.halving import asked_in_parts
from rag_transformers.extraction.holding import marked
from rag_transformers.extraction.structured import NotOfferedError, StructuredModel
from rag_transformers.graph import Extraction
from rag_transformers.models.conversation import (
    Ask,
    Done,
    Talk,
    aanswered,
    answered,
    check_context_size,
    next_turn,
    noted,
    place_of,
    step,
    with_note,
)
from rag_transformers.models.faults import error_line
from rag_transformers.models.given import model_key, resolve_llm
from rag_transformers.models.reading import Reply
from rag_transformers.models.replies import unreadable
from rag_transformers.prompts import PromptPack, as_pack, checked_prompt, template_text

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.prompt_values import PromptValue
    from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

    from rag_transformers.tokens import TokenCounter

__all__ = ["LLMExtractor"]

_log = logging.getLogger(__name__)

_BACK = 4000  # characters of a reply that go back to the model when it is asked again: enough to see what was wrong


@dataclass(frozen=True)
class _Ready:
    """A chunk with what its prompt takes, chosen before any model call of its batch."""

    chunk: Document
    variables: Mapping[str, Any]


class LLMExtractor(Extractor):
    """The base of extractors that ask a model; a subclass fills in ``_parse_response``.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text.
        prompt: A text with variables in braces, a PromptTemplate or a ChatPromptTemplate; without it, the one of the
            class's ``stage`` in the chunk's language.
        language: ``auto`` (by the script of each chunk), or one of :func:`rag_transformers.prompts.languages`.
        limit: The most distinct relationships of a chunk, at least 1; None for all. Entities are kept.
        counter: Counts tokens; the run's one, or None for :func:`rag_transformers.tokens.token_counter`.
        reask: Whether a reply that cannot be read is asked for once more.
        max_gleanings: How often the model is asked for what it left out, at least 0; it ends when nothing new comes.
        prompts: The prompts to take: a folder of your own, see :class:`rag_transformers.prompts.PromptPack`.
        llm_client: Another name for ``llm``.
        llm_invoker: Another name for ``llm``.

    Raises:
        UsageError: An argument is wrong; the message names it.

    >>> from langchain_core.runnables import RunnableLambda
    >>> class NameExtractor(LLMExtractor):
    ...     def _parse_response(self, text, limit=None):
    ...         return Extraction([(name.strip(), "") for name in text.split(",")])
    >>> model = RunnableLambda(lambda prompt: "Ada Moss, Grain Trust")
    >>> NameExtractor(model, "List the names, parted by commas: {text}").invoke("Ada Moss founded it.").entities
    (('Ada Moss', ''), ('Grain Trust', ''))
    """

    stage: ClassVar[str | None] = None
    """The prompt's file; None where a subclass has no prompt of its own."""
    reask_stage: ClassVar[str | None] = None
    """The file of what is said to a model whose reply cannot be read; None: it is not asked again."""
    glean_stage: ClassVar[str] = "glean_records"
    """The file of what is said to a model that is to add what it left out, in the format that it was asked for."""
    structured_stage: ClassVar[str | None] = None
    """The file of what stands at the end of our own prompt in a mode for structured output."""
    optional_variables: ClassVar[tuple[str, ...]] = ()
    """The variables that a prompt may have beside ``text``."""
    read_words: ClassVar[tuple[str, ...]] = ()
    """The words of a language, of :class:`rag_transformers.prompts.Words`, that its replies are read with."""
    num_workers: int | None = None
    """How many chunks of a batch are asked about at one time, where its config does not say; None for no limit."""
    _structured: StructuredModel | None = None

    def __init__(
        self,
        llm: Any = None,
        prompt: Any = None,
        *,
        language: str = "auto",
        limit: int | None = None,
        counter: "TokenCounter | None" = None,
        reask: bool = True,
        max_gleanings: int = 0,
        prompts: "PromptPack | str | Path | None" = None,
        llm_client: Any = None,
        llm_invoker: Any = None,
    ) -> None:
        owner = type(self).__name__
        self.llm: Runnable[Any, Any] = resolve_llm(owner, llm, {"llm_client": llm_client, "llm_invoker": llm_invoker})
        self.prompts: PromptPack = as_pack(prompts)
        self.language = self.prompts.checked(f"{owner}: ", language)
        self.limit = None if limit is None else check_count("limit", limit)
        self.reask = reask
        self.max_gleanings = check_count("max_gleanings", max_gleanings, 0)
        self._counter = counter
        self._own_prompt = prompt is not None
        self._prompts = self._templates(owner, prompt)

    # What a subclass fills in, or changes.

    @abstractmethod
    def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
        """Read a reply.

        Args:
            text: The reply, without reasoning.
            limit: The most distinct relationships; None for all. It is also kept by the caller.

        Raises:
            ReplyError: The reply is not what was asked for. Any other exception is reported as one.
        """

    def _variables(self, chunks: Sequence[Document]) -> list[dict[str, Any]]:
        """What the prompts of these chunks take, for all of them before any model call."""
        return [{"text": chunk.page_content} for chunk in chunks]

    async def _avariables(self, chunks: Sequence[Document]) -> list[dict[str, Any]]:
        return self._variables(chunks)

    def _without_model(self, chunk: Document) -> Extraction | None:
        """What a chunk says without being asked about; None where the model is to be asked."""
        return None if chunk.page_content.strip() else Extraction()

    def _read(self, reply: Reply, chunk: Document, limit: int | None) -> Extraction:
        if reply.cut:
            raise unreadable("it was cut off at the token limit", reply)
        try:
            found = self._parse_response(reply.text, limit)
        except ReplyError:
            raise
        except Exception as error:
            raise unreadable(error_line(error), reply) from error
        if not isinstance(found, Extraction):
            kind = f"{type(self).__name__}._parse_response"
            raise UsageError(f"{kind} returned {type(found).__name__}; it must return an Extraction")
        return found.limited(limit)

    # The Runnable.

    def invoke(self, input: Document | str, config: RunnableConfig | None = None, **kwargs: Any) -> Extraction:
        """Extract one chunk.

        Args:
            input: A chunk, or a text.
            config: Callbacks, tags and the like.
            **kwargs: ``limit``, in place of the extractor's own.

        Raises:
            ModelError: The model failed, or its reply cannot be read.
        """
        chunk, variables = _opened(input)
        limit = self._limit(**kwargs)

        def extract(chunk: Document, config: RunnableConfig) -> Extraction:
            talk = self._talk(chunk, variables or self._variables([chunk])[0], limit)
            asked = step(talk)
            while not isinstance(asked, Done):
                asked = step(talk, answered(asked, config))
            return cast(Extraction, asked.result)

        with noted(chunk):
            return self._call_with_config(cast(Any, extract), chunk, config)

    async def ainvoke(self, input: Document | str, config: RunnableConfig | None = None, **kwargs: Any) -> Extraction:
        """Extract one chunk; see :meth:`invoke`."""
        chunk, variables = _opened(input)
        limit = self._limit(**kwargs)

        async def extract(chunk: Document, config: RunnableConfig) -> Extraction:
            chosen = variables or (await self._avariables([chunk]))[0]
            if any(map(callable, chosen.values())):  # counting tokens leaves the loop free in another thread
                chosen = await asyncio.to_thread(_settled, chosen)
            talk = self._talk(chunk, chosen, limit)
            asked = step(talk)
            while not isinstance(asked, Done):
                asked = step(talk, await aanswered(asked, config))
            return cast(Extraction, asked.result)

        with noted(chunk):
            return await self._acall_with_config(cast(Any, extract), chunk, config)

    def batch(self, inputs: list[Document | str], config: Any = None, **kwargs: Any) -> list[Extraction]:
        """Extract chunks in parallel; the prompts are those of one chunk after another."""
        return super().batch(self._ready(inputs), self._paced(config), **kwargs)

    async def abatch(self, inputs: list[Document | str], config: Any = None, **kwargs: Any) -> list[Extraction]:
        """Extract chunks in parallel; the prompts are those of one chunk after another."""
        return await super().abatch(await self._aready(inputs), self._paced(config), **kwargs)

    def batch_as_completed(  # type: ignore[override]
        self, inputs: Sequence[Document | str], config: Any = None, **kwargs: Any
    ) -> Iterator[tuple[int, Extraction | Exception]]:
        """Extract chunks in parallel, each given out with its number as soon as it is done."""
        yield from super().batch_as_completed(self._ready(inputs), self._paced(config), **kwargs)

    async def abatch_as_completed(  # type: ignore[override]
        self, inputs: Sequence[Document | str], config: Any = None, **kwargs: Any
    ) -> AsyncIterator[tuple[int, Extraction | Exception]]:
        """Extract chunks in parallel, each given out with its number as soon as it is done."""
        async for done in super().abatch_as_completed(await self._aready(inputs), self._paced(config), **kwargs):
            yield done

    @property
    def cache_key(self) -> str:
        """What an extraction depends on beside the chunk's text: instructions, language, limit and model."""
        return hashlib.blake2b(json.dumps(self._key_parts(), sort_keys=True).encode(), digest_size=20).hexdigest()

    def _key_parts(self) -> list[Any]:
        pack = self.prompts
        # The name of a folder that is the one language is in no prompt: a folder that moves asks nothing anew.
        texts = {"" if pack.fixed else language: template_text(prompt) for language, prompt in self._prompts.items()}
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        stages = [self.glean_stage if self.max_gleanings else None, self.structured_stage if self._structured else None]
        more = [[pack.text(stage, language) for language in self._prompts] for stage in stages if stage]
        words = pack.key_of(*self.read_words, languages=self._prompts)
        how = [self.max_gleanings, self._structured is not None, more, *filter(None, [words])]
        return [kind, texts, self.language, self.limit, model_key(self.llm), how]

    def prompt_tokens(self, chunk: Document) -> int:
        """The tokens of the prompt that asks about a chunk, without a history; 0 where no model is asked."""
        if self._without_model(chunk) is not None:
            return 0
        variables = {"text": chunk.page_content, **dict.fromkeys(self.optional_variables, "")}
        return self._count(self._prompts[self._language_of(chunk)].format_prompt(**variables).to_string())

    # How a chunk is asked about.

    def _talk(self, chunk: Document, variables: Mapping[str, Any], limit: int | None) -> Talk[Extraction]:
        """Ask about a chunk, in halves where it is too much, and note the names that it does not hold."""
        if (found := self._without_model(chunk)) is not None:
            return found.limited(limit)
        try:
            found = yield from asked_in_parts(
                lambda part, variables: self._asked(part, variables, limit),
                chunk,
                self._shown_variables(chunk, variables),
                self._count,
                replies_too=self.reask,
            )
        except ReplyError as error:
            if error.extraction:
                error.extraction = marked(error.extraction, chunk.page_content)
            raise
        return marked(found.limited(limit), chunk.page_content)

    def _shown_variables(self, chunk: Document, variables: Mapping[str, Any]) -> dict[str, Any]:
        """What the prompt takes, without a history that a user's own does not show."""
        prompt = self._prompts[self._language_of(chunk)]
        shows = "history" in (*prompt.input_variables, *prompt.optional_variables)
        return {name: value for name, value in _settled(variables).items() if shows or name != "history"}

    def _asked(self, chunk: Document, variables: Mapping[str, Any], limit: int | None) -> Talk[Extraction]:
        """Ask, once more where the reply cannot be read, and then for what was left out, in one conversation."""
        prompt = self._prompts[self._language_of(chunk)].format_prompt(**variables)
        ask, reply = yield from self._first_reply(prompt, chunk)
        try:
            found = self._read(reply, chunk, limit)
        except ReplyError as error:
            check_context_size(ask, reply, error, self._count)
            again = self._asked_again(ask, reply, chunk)
            if again is None:
                raise
        else:
            return (yield from self._gleaned(ask, reply, chunk, found)).limited(limit)
        reply = yield again
        found = self._read(reply, chunk, limit)
        return (yield from self._gleaned(ask, reply, chunk, found)).limited(limit)

    def _first_reply(self, prompt: "PromptValue", chunk: Document) -> Talk[tuple[Ask, Reply]]:
        """Ask in the best mode that the model offers."""
        while self._structured is not None and (model := self._structured.model) is not None:
            ask = Ask(model, self._structured_prompt(prompt, chunk))
            try:
                return ask, (yield ask)
            except NotOfferedError as error:
                self._structured.give_up(model, error)
        ask = Ask(self.llm, prompt)
        return ask, (yield ask)

    def _structured_prompt(self, prompt: "PromptValue", chunk: Document) -> "PromptValue":
        if self._own_prompt or self.structured_stage is None:
            return prompt
        return with_note(prompt, self.prompts.text(self.structured_stage, self._language_of(chunk)))

    def _asked_again(self, ask: Ask, reply: Reply, chunk: Document) -> Ask | None:
        stage = self.reask_stage if ask.llm is self.llm else "reask_json"
        if not self.reask or stage is None:
            return None
        said = reply.text if len(reply.text) <= _BACK else f"{reply.text[:_BACK]} …"
        again = self.prompts.template(stage, self._language_of(chunk)).format(text=chunk.page_content)
        return Ask(ask.llm, next_turn(ask.prompt, said, again))

    def _gleaned(self, ask: Ask, reply: Reply, chunk: Document, found: Extraction) -> Talk[Extraction]:
        """What was found, with what the model adds; a failure ends it and takes nothing away."""
        for _ in range(self.max_gleanings if found else 0):
            more = self.prompts.template(self.glean_stage, self._language_of(chunk)).format()
            ask = Ask(ask.llm, next_turn(ask.prompt, reply.text, more))
            try:
                reply = yield ask
                added = self._read(reply, chunk, None)
            except ModelError as error:
                _log.warning("gleaning ended %s, what was found is kept: %s", place_of(chunk), error_line(error))
                return merged(found, getattr(error, "extraction", None) or Extraction())
            before, found = found, merged(found, added)
            if not adds(before, added):
                break
        return found

    def _count(self, text: str) -> int:
        if self._counter is None:
            from rag_transformers.tokens import token_counter

            self._counter = token_counter(self.llm)
        return self._counter(text)

    def _language_of(self, chunk: Document) -> str:
        return self.prompts.choose(chunk.page_content, self.language)

    def _templates(self, owner: str, prompt: Any) -> "dict[str, PromptTemplate | ChatPromptTemplate]":
        chosen = self.prompts.in_use(self.language)
        if prompt is not None:
            return dict.fromkeys(chosen, checked_prompt(owner, prompt, {"text"}, self.optional_variables))
        if self.stage is None:
            raise UsageError(f"{owner} has no prompt of its own; give one as prompt")
        return {language: self.prompts.template(self.stage, language) for language in chosen}

    def _limit(self, limit: int | None = None) -> int | None:
        return self.limit if limit is None else check_count("limit", limit)

    def _paced(self, config: Any) -> Any:
        """The config of a batch, with the extractor's own concurrency where it names none."""
        if self.num_workers is None:
            return config
        if isinstance(config, Sequence):
            return [self._paced(one) for one in config]
        named = (config or {}).get("max_concurrency")
        return {**(config or {}), "max_concurrency": self.num_workers if named is None else named}

    def _ready(self, inputs: Sequence[Document | str]) -> list[Document | str]:
        given = list(inputs)
        chunks = _chunks_in(given)
        return _together(given, self._variables(chunks) if chunks else [])

    async def _aready(self, inputs: Sequence[Document | str]) -> list[Document | str]:
        given = list(inputs)
        chunks = _chunks_in(given)
        return _together(given, await self._avariables(chunks) if chunks else [])


def _settled(variables: Mapping[str, Any]) -> dict[str, Any]:
    """What a prompt takes, with what was left to be worked out when it is made."""
    return {name: value() if callable(value) else value for name, value in variables.items()}


def _opened(given: Any) -> tuple[Document, Mapping[str, Any] | None]:
    """The chunk, and what its prompt takes where that was chosen for the whole batch."""
    if isinstance(given, _Ready):
        return given.chunk, given.variables
    return chunk_of(given), None


def _chunks_in(given: Sequence[Any]) -> list[Document]:
    """The chunks of a batch, without what is none: that fails in its own call, and not the batch."""
    return [_opened(each)[0] for each in given if _is_chunk(each)]


def _is_chunk(given: Any) -> bool:
    return isinstance(given, Document | str | _Ready)


def _together(given: Sequence[Any], variables: Sequence[Mapping[str, Any]]) -> list[Document | str]:
    chosen = iter(variables)
    ready = [_Ready(_opened(each)[0], next(chosen)) if _is_chunk(each) else each for each in given]
    return cast("list[Document | str]", ready)  # they come back to invoke and ainvoke, which open them
