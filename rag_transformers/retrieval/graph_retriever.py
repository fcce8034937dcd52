"""The search over an index as a LangChain retriever."""

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import field_validator

from rag_transformers.errors import check_count
from rag_transformers.index import GraphIndex

__all__ = ["GraphRetriever"]


class GraphRetriever(BaseRetriever):
    """Finds the chunks of an index that suit a question: by words, by vectors, and by a walk over the names in both.

    The same chunks in the same order as :meth:`GraphIndex.retrieve`, each with ``metadata["source"]`` and
    ``metadata["score"]``, from 0 to 1. A walk goes from the names in the question over the chunks that hold them to
    what those name in turn, so that a chunk is found which answers the question and shares no word with it.

    Args:
        index: The index.
        k: How many chunks at most, at least 1; ``invoke(question, k=3)`` for one question.

    Raises:
        UsageError: An empty question, or a ``k`` below 1.
        NoIndexError: There is no index yet.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, GraphIndex.open(folder) as index:
    ...     _ = index.add([Document("Ada Moss founded Grain Trust.", metadata={"source": "note"})])
    ...     found = GraphRetriever(index=index, k=3).invoke("Who founded Grain Trust?")
    >>> [(chunk.metadata["source"], chunk.metadata["score"]) for chunk in found]
    [('note', 1.0)]
    """

    index: GraphIndex
    k: int = 10

    @field_validator("k", mode="before")
    @classmethod
    def _checked(cls, k: Any) -> int:
        return check_count("k", k)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self.index.retrieve(query, self.k if k is None else k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self.index.aretrieve(query, self.k if k is None else k)
