"""What every extractor is: a Runnable from a chunk to an Extraction, with the verbs of DB-GPT's extractors."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from rag_transformers.concurrency import InOrder
from rag_transformers.errors import UsageError, check_count
from rag_transformers.graph import Extraction

if TYPE_CHECKING:
    from rag_transformers.stores import MemoryGraph

__all__ = ["Extractor", "chunk_of"]


class Extractor(InOrder[Document | str, Extraction]):
    """From a chunk to an Extraction; a subclass fills in ``invoke``, which takes a ``limit`` of relationships.

    >>> class Shouting(Extractor):
    ...     def invoke(self, input, config=None, *, limit=None):
    ...         return Extraction([(word, "") for word in chunk_of(input).page_content.split() if word.isupper()])
    >>> (graph,) = Shouting().extract("They said STOP at the BRIDGE")
    >>> [vertex.name for vertex in graph.vertices()]
    ['STOP', 'BRIDGE']
    """

    def extract(self, text: Document | str, limit: int | None = None) -> "list[MemoryGraph]":
        """One graph of what a text says.

        Args:
            text: A chunk, or a text.
            limit: The most distinct relationships, at least 1; None for the extractor's own.

        Raises:
            ModelError: The model failed, or its reply cannot be read.
        """
        return _graphs(text, self.invoke(text, limit=limit))

    async def aextract(self, text: Document | str, limit: int | None = None) -> "list[MemoryGraph]":
        """One graph of what a text says; see :meth:`extract`."""
        return _graphs(text, await self.ainvoke(text, limit=limit))

    def batch_extract(
        self, texts: Sequence[Document | str], batch_size: int = 1, limit: int | None = None
    ) -> "list[list[MemoryGraph]]":
        """One graph of each text.

        Args:
            texts: Chunks, or texts.
            batch_size: How many are asked about at one time, at least 1.
            limit: The most distinct relationships of each; None for the extractor's own.
        """
        texts, config = _batch(texts, batch_size)
        return list(map(_graphs, texts, self.batch(texts, config, limit=limit)))

    async def abatch_extract(
        self, texts: Sequence[Document | str], batch_size: int = 1, limit: int | None = None
    ) -> "list[list[MemoryGraph]]":
        """One graph of each text; see :meth:`batch_extract`."""
        texts, config = _batch(texts, batch_size)
        return list(map(_graphs, texts, await self.abatch(texts, config, limit=limit)))

    def truncate(self) -> None:
        """Forget what was read; there is nothing to forget here."""

    async def atruncate(self) -> None:
        """Forget what was read; see :meth:`truncate`."""

    def drop(self) -> None:
        """Forget what was read, and give up where it was kept; there is nothing here."""

    async def adrop(self) -> None:
        """Forget what was read; see :meth:`drop`."""


def chunk_of(given: Any) -> Document:
    """The chunk that was given to an extractor, a text as one without an id.

    Raises:
        UsageError: It is neither.

    >>> chunk_of("Ada Moss left.").page_content
    'Ada Moss left.'
    """
    if isinstance(given, str):
        return Document(given)
    if isinstance(given, Document):
        return given
    raise UsageError(f"a chunk is {type(given).__name__}; give a Document or a text")


def _batch(texts: Sequence[Document | str], batch_size: int) -> tuple[list[Document | str], RunnableConfig]:
    if isinstance(texts, str):
        raise UsageError("texts is one text; give a list of texts")
    return list(texts), {"max_concurrency": check_count("batch_size", batch_size)}


def _graphs(text: Document | str, found: Extraction) -> "list[MemoryGraph]":
    from rag_transformers.stores import MemoryGraph

    chunk = chunk_of(text)
    graph = MemoryGraph()
    graph.add(
        found,
        chunk.id or hashlib.blake2b(chunk.page_content.encode(errors="surrogatepass"), digest_size=16).hexdigest(),
    )
    return [graph]
