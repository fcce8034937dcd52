"""Extraction with a model in JSON: chunk -> Extraction with types, as in LlamaIndex's GraphRAG cookbook."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from langchain_core.documents import Document

from rag_transformers.errors import UsageError, check_count
from rag_transformers.extraction.llm_extractor import LLMExtractor
from rag_transformers.extraction.structured import StructuredModel
from rag_transformers.graph import Extraction
from rag_transformers.models.reading import Reply
from rag_transformers.models.replies import says_nothing, unreadable, whole, without_example
from rag_transformers.records import parse_json_records

if TYPE_CHECKING:
    from pathlib import Path

    from rag_transformers.prompts import PromptPack
    from rag_transformers.tokens import TokenCounter

__all__ = ["GraphRAGExtractor"]

_Rows: TypeAlias = Iterable[Sequence[str | None]]
ParseFn: TypeAlias = Callable[[str], tuple[_Rows, _Rows]]


class GraphRAGExtractor(LLMExtractor):
    r"""A chunk's typed entities and its relationships, asked of a model in JSON.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text.
        extract_prompt: Your own, as text, PromptTemplate or ChatPromptTemplate, with the variable ``text`` and, if you
            like, ``max_knowledge_triplets``.
        parse_fn: Your own reader of replies, from text to entities (name, type, description) and relationships
            (source, target, relation, description). What it raises is reported as the chunk's error, and the model is
            not asked again, for only you know its format.
        max_paths_per_chunk: The most distinct relationships of a chunk, at least 1, kept whatever the model does.
            Entities are kept.
        num_workers: How many chunks of a batch are asked about at one time, at least 1, where neither the config's
            ``max_concurrency`` nor an index says so.
        language: ``auto`` (by the script of each chunk), or one of :func:`rag_transformers.prompts.languages`.
        counter: Counts tokens; the run's one, or None for :func:`rag_transformers.tokens.token_counter`.
        reask: Whether a reply that cannot be read as a whole is asked for once more, with the format named again.
        max_gleanings: How often the model is asked for what it left out, at least 0.
        structured: Whether to use the model's tool calling or JSON-schema mode, where it offers one.
        prompts: The prompts to take: a folder of your own, see :class:`rag_transformers.prompts.PromptPack`.
        llm_client: Another name for ``llm``.
        llm_invoker: Another name for ``llm``.

    Raises:
        UsageError: An argument is wrong; the message names it.

    The format is that of LlamaIndex's GraphRAG cookbook.

    >>> from langchain_core.runnables import RunnableLambda
    >>> reply = '{"entities": [{"entity_name": "Ada Moss", "entity_type": "person", "entity_description": "Founder"}]}'
    >>> found = GraphRAGExtractor(RunnableLambda(lambda prompt: reply)).invoke("Ada Moss founded the Trust.")
    >>> found.entities, found.types
    ((('Ada Moss', 'Founder'),), ('person',))
    """

    stage = "extract_graph_json"
    reask_stage: ClassVar[str | None] = "reask_json"
    optional_variables = ("max_knowledge_triplets",)

    def __init__(
        self,
        llm: Any = None,
        extract_prompt: Any = None,
        parse_fn: ParseFn | None = None,
        max_paths_per_chunk: int = 10,
        num_workers: int = 4,
        *,
        language: str = "auto",
        counter: "TokenCounter | None" = None,
        reask: bool = True,
        max_gleanings: int = 0,
        structured: bool = False,
        prompts: "PromptPack | str | Path | None" = None,
        llm_client: Any = None,
        llm_invoker: Any = None,
    ) -> None:
        super().__init__(
            llm,
            extract_prompt,
            language=language,
            limit=check_count("max_paths_per_chunk", max_paths_per_chunk),
            counter=counter,
            reask=reask,
            max_gleanings=max_gleanings,
            prompts=prompts,
            llm_client=llm_client,
            llm_invoker=llm_invoker,
        )
        if parse_fn is not None and not callable(parse_fn):
            raise UsageError(f"parse_fn is {parse_fn!r}; give a function from a reply to (entities, relationships)")
        self.parse_fn = parse_fn
        self.max_paths_per_chunk = max_paths_per_chunk
        self.num_workers = check_count("num_workers", num_workers)
        self._reads_json = parse_fn is None and type(self)._parse_response is GraphRAGExtractor._parse_response
        self.reask = reask and self._reads_json
        self._structured = StructuredModel(self.llm) if structured else None

    def _variables(self, chunks: Sequence[Document]) -> list[dict[str, Any]]:
        return [{"text": chunk.page_content, "max_knowledge_triplets": self.max_paths_per_chunk} for chunk in chunks]

    def _read(self, reply: Reply, chunk: Document, limit: int | None) -> Extraction:
        if self._reads_json:
            records = parse_json_records(reply.text, finish_reason=reply.finish_reason, source=chunk.page_content)
            return whole(records, reply).limited(limit)
        found = super()._read(reply, chunk, None)
        if not found and not self._own_prompt and not says_nothing(reply.text):
            raise unreadable("parse_fn found nothing in it", reply)
        return without_example(found, chunk.page_content, self.prompts).limited(limit)

    def _parse_response(self, text: str, limit: int | None = None) -> Extraction:
        if self.parse_fn is None:
            return whole(parse_json_records(text), Reply(text)).limited(limit)
        entities, relationships = self.parse_fn(text)
        rows = [_fields(row, "name, type, description") for row in entities]
        ties = [_fields(row, "source, target, relation, description") for row in relationships]
        types = [kind for _, kind, _ in rows]
        return Extraction(
            [(name, description) for name, _, description in rows],
            [(source, relation, target, description) for source, target, relation, description in ties],
            types if any(types) else (),
        ).limited(limit)

    def _key_parts(self) -> list[Any]:
        function = self.parse_fn
        name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        return [*super()._key_parts(), name if function else None]


def _fields(row: Sequence[str | None], columns: str) -> list[str]:
    """A row of parse_fn; what has no value is empty."""
    if isinstance(row, str) or len(row) != columns.count(",") + 1:
        raise ValueError(f"parse_fn gave the row {row!r}; it must be ({columns})")
    return ["" if value is None else value for value in row]
