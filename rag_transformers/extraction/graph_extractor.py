"""Extraction with a model: chunk -> Extraction, in the ``#`` record format, with earlier chunks as context."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.documents import Document

from rag_transformers.errors import UsageError, check_count
from rag_transformers.extraction.llm_extractor import LLMExtractor
from rag_transformers.extraction.structured import StructuredModel
from rag_transformers.graph import Extraction
from rag_transformers.models.reading import Reply
from rag_transformers.models.replies import whole, without_example
from rag_transformers.records import parse_records, records_in
from rag_transformers.records.foreign import in_known_words
from rag_transformers.text import sentence_spans

if TYPE_CHECKING:
    from pathlib import Path

    from rag_transformers.prompts import PromptPack
    from rag_transformers.stores import ChunkHistory
    from rag_transformers.tokens import TokenCounter

__all__ = ["GraphExtractor", "LLMExtractor"]


class GraphExtractor(LLMExtractor):
    r"""A chunk's entities and relationships, asked of a model in the ``#`` record format.

    With a history, each chunk is shown with the earlier chunks that are like it. They are chosen for all chunks of a
    batch before any model call, so that prompts are the same whatever runs at one time.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text.
        chunk_history: The chunks read so far; None for no context.
        language: ``auto`` (by the script of each chunk), or one of :func:`rag_transformers.prompts.languages`.
        prompt: Your own, as text, PromptTemplate or ChatPromptTemplate, with the variable ``text`` and, if you like,
            ``history``.
        limit: The most distinct relationships of a chunk, at least 1; None for all. Entities are kept.
        max_history_tokens: The history is cut to whole sentences within so many tokens; None for no limit.
        counter: Counts tokens; the run's one, or None for :func:`rag_transformers.tokens.token_counter`.
        reask: Whether a reply that cannot be read as a whole is asked for once more, with the format named again.
        max_gleanings: How often the model is asked for what it left out, at least 0; it ends when nothing new comes.
        structured: Whether to use the model's tool calling or JSON-schema mode; where it offers none, the ``#`` format
            is what it falls back to. Entities then have types.
        prompts: The prompts to take: a folder of your own, see :class:`rag_transformers.prompts.PromptPack`.
        llm_client: Another name for ``llm``.
        llm_invoker: Another name for ``llm``.

    Raises:
        UsageError: An argument is wrong; the message names it.

    The method is that of DB-GPT's ``GraphExtractor``.

    >>> from langchain_core.runnables import RunnableLambda
    >>> reply = "Entities:\n(Ada Moss#Founder)\nRelationships:\n(Ada Moss#founded#Trust#)"
    >>> model = RunnableLambda(lambda prompt: reply)
    >>> GraphExtractor(llm=model).invoke("Ada Moss founded the Trust.").relationships
    (('Ada Moss', 'founded', 'Trust', ''),)
    """

    stage = "extract_graph"
    reask_stage: ClassVar[str | None] = "reask_records"
    structured_stage = "structured_records"
    optional_variables = ("history",)
    read_words = ("none", "entities", "relationships")
    _reads_records: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        """A subclass that reads replies in its own way says itself how a model is to be asked again."""
        super().__init_subclass__(**options)
        if "_parse_response" in vars(cls):
            cls._reads_records = False
            cls.read_words = vars(cls).get("read_words", ())
            cls.reask_stage = vars(cls).get("reask_stage")

    def __init__(
        self,
        llm: Any = None,
        chunk_history: "ChunkHistory | None" = None,
        language: str = "auto",
        prompt: Any = None,
        limit: int | None = None,
        max_history_tokens: int | None = 1000,
        *,
        counter: "TokenCounter | None" = None,
        reask: bool = True,
        max_gleanings: int = 0,
        structured: bool = False,
        prompts: "PromptPack | str | Path | None" = None,
        llm_client: Any = None,
        llm_invoker: Any = None,
    ) -> None:
        if chunk_history is not None and not hasattr(chunk_history, "read"):
            raise UsageError(f"chunk_history is {type(chunk_history).__name__}; give a ChunkHistory, or None")
        super().__init__(
            llm,
            prompt,
            language=language,
            limit=limit,
            counter=counter,
            reask=reask,
            max_gleanings=max_gleanings,
            prompts=prompts,
            llm_client=llm_client,
            llm_invoker=llm_invoker,
        )
        if structured and not self._reads_records:
            raise UsageError(f"{type(self).__name__} reads replies in its own way; structured cannot be True")
        self._structured = StructuredModel(self.llm) if structured else None
        self.chunk_history = chunk_history
        if max_history_tokens is not None:
            check_count("max_history_tokens", max_history_tokens, 0)
        self.max_history_tokens = max_history_tokens

    def _variables(self, chunks: Sequence[Document]) -> list[dict[str, Any]]:
        sections = self.chunk_history.read(chunks) if self.chunk_history is not None else [[] for _ in chunks]
        return self._with_history(chunks, sections)

    async def _avariables(self, chunks: Sequence[Document]) -> list[dict[str, Any]]:
        sections = await self.chunk_history.aread(chunks) if self.chunk_history is not None else [[] for _ in chunks]
        return self._with_history(chunks, sections)

    def _with_history(self, chunks: Sequence[Document], sections: Sequence[Sequence[Document]]) -> list[dict[str, Any]]:
        # Which sections are shown is settled here; they are cut to the budget when the prompt is made, between calls.
        return [
            {"text": chunk.page_content, "history": partial(self._shown, found)}
            for chunk, found in zip(chunks, sections, strict=True)
        ]

    def _shown(self, sections: Sequence[Document]) -> str:
        """The history as the prompt shows it: the best section first, the last one cut where the budget ends."""
        shown = ""
        for number, section in enumerate(sections, 1):
            head, text = f"{shown}Section {number}:\n", section.page_content.strip()
            end = self._fitting(head, text)
            if not end:
                break
            shown = f"{head}{text[:end]}\n"
            if end < len(text):
                break
        return shown.rstrip("\n")

    def _fitting(self, head: str, text: str) -> int:
        """How much of a text, in whole sentences, can follow the head within the budget."""
        budget = self.max_history_tokens
        if budget is None or (whole := self._count(head + text)) <= budget:
            return len(text)
        ends = [end for _, end in sentence_spans(text)][:-1]
        # Text is about as dense in tokens everywhere, so the place is guessed, and then walked to: two or three counts.
        fitting = bisect_right(ends, len(text) * budget / whole - len(head))
        while fitting < len(ends) and self._count(head + text[: ends[fitting]]) <= budget:
            fitting += 1
        while fitting and self._count(head + text[: ends[fitting - 1]]) > budget:
            fitting -= 1
        return ends[fitting - 1] if fitting else 0

    def _without_model(self, chunk: Document) -> Extraction | None:
        found = super()._without_model(chunk)
        if found is None and self._reads_records and (records := records_in(chunk.page_content)):
            return records.extraction()
        return found

    def _read(self, reply: Reply, chunk: Document, limit: int | None) -> Extraction:
        if not self._reads_records:
            return super()._read(reply, chunk, limit)
        said = in_known_words(reply.text, self.prompts.words(self._language_of(chunk)))
        records = parse_records(said, finish_reason=reply.finish_reason, source=chunk.page_content)
        found = whole(records, reply, said)
        if self.prompts.own_languages:
            found = without_example(found, chunk.page_content, self.prompts)
        return found.limited(limit)

    def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
        return whole(parse_records(text), Reply(text)).limited(limit)

    def truncate(self) -> None:
        """Empty the history."""
        if self.chunk_history is not None:
            self.chunk_history.truncate()

    async def atruncate(self) -> None:
        """Empty the history."""
        if self.chunk_history is not None:
            await self.chunk_history.atruncate()

    def drop(self) -> None:
        """Delete the history's collection."""
        if self.chunk_history is not None:
            self.chunk_history.drop()

    async def adrop(self) -> None:
        """Delete the history's collection."""
        if self.chunk_history is not None:
            await self.chunk_history.adrop()
