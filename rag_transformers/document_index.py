"""An index as LangChain's ``DocumentIndex``: upsert, get and delete by id, and search."""

import asyncio
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse

from rag_transformers.chunking import source_of
from rag_transformers.documents import fingerprint
from rag_transformers.documents.given import stored_as
from rag_transformers.documents.ids import given_ids
from rag_transformers.errors import NoIndexError, UsageError
from rag_transformers.indexing.outcomes import IndexReport
from rag_transformers.retrieval.graph_retriever import GraphRetriever
from rag_transformers.text import encodable

__all__ = ["GraphDocumentIndex"]


class GraphDocumentIndex(GraphRetriever, DocumentIndex):
    """An index for ``langchain_core.indexing.index(docs, record_manager, document_index, cleanup=...)``.

    A document is known by its ``id``; without one, by its source. Of several documents of one source and without ids in
    one call, such as the pieces that a text splitter makes of a file, each is known by its source and a hash of its
    content, so that all are kept. Citations and what is found show the user's own source; what is found, the id too, as
    ``metadata["document_id"]``.

    Every ``upsert`` and ``delete`` is one change of the index, at whose end descriptions, communities and reports are
    made. With a model, give ``index(…, batch_size=…)`` the number of all documents, so that reports are written once.

    Args:
        index: The index, as ``index.as_document_index()`` gives it.
        k: How many chunks at most are found, at least 1.

    >>> import tempfile
    >>> from rag_transformers import GraphIndex
    >>> with tempfile.TemporaryDirectory() as folder, GraphIndex.open(folder) as index:
    ...     documents = index.as_document_index()
    ...     told = documents.upsert([Document("Ada Moss founded Grain Trust.", id="7", metadata={"source": "a.txt"})])
    ...     found = documents.invoke("Who founded Grain Trust?")
    ...     given = documents.get(["7", "8"])
    >>> told["succeeded"], found[0].metadata["source"], found[0].metadata["document_id"], given[0].metadata
    (['7'], 'a.txt', '7', {'source': 'a.txt'})
    """

    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add documents, or put them in the place of those that have their id.

        Args:
            items: The documents.
            **kwargs: As for :meth:`GraphIndex.add`: ``on_progress``, ``config``.

        Returns:
            The ids that are in the index as a whole; and those with a chunk that the model failed at, of which there is
            a warning too. Such a chunk is asked again at the next upsert, whatever that is of.

        Raises:
            UsageError: Something else than documents, or two different ones that have one id.
            RagTransformersError: As for :meth:`GraphIndex.add`.
        """
        named = _named(items)
        return _upserted(named, self.index.add(list(named.values()), **kwargs) if named else None)

    async def aupsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add documents, or put them in the place of those that have their id; see :meth:`upsert`."""
        named = _named(items)
        return _upserted(named, await self.index.aadd(list(named.values()), **kwargs) if named else None)

    def delete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents by their ids, with all that was made of them; unknown ids are passed over.

        Args:
            ids: The ids; a text is one.
            **kwargs: As for :meth:`GraphIndex.delete`: ``config``.

        Raises:
            UsageError: No ids were given, or something else.
        """
        held = _held(ids, self._ids())
        if held:
            self.index.delete(held, **kwargs)
        return _deleted(held)

    async def adelete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents by their ids; see :meth:`delete`."""
        held = _held(ids, await asyncio.to_thread(self._ids))
        if held:
            await self.index.adelete(held, **kwargs)
        return _deleted(held)

    def get(self, ids: str | Iterable[str], /, **kwargs: Any) -> list[Document]:
        """The documents that have these ids, as they were given; unknown ids are passed over.

        Args:
            ids: The ids; a text is one.
            **kwargs: None is known.

        Raises:
            UsageError: Something else than ids.
        """
        try:
            return self.index.documents(given_ids("ids", ids))
        except NoIndexError:
            return []

    def _ids(self) -> list[str]:
        try:
            return self.index.sources()
        except NoIndexError:
            return []


def _named(items: Any) -> dict[str, Document]:
    """The documents as they are stored, by what each is known by."""
    documents = _documents(items)
    alike = Counter(source_of(item) for item in documents if not item.id)
    named: dict[str, Document] = {}
    for item in documents:
        id = _id_of(item, alike)
        stored = stored_as(item, id)
        if id in named and fingerprint(named[id]) != fingerprint(stored):
            raise UsageError(f"two different documents have the id {id!r}; give each its own")
        named[id] = stored
    return named


def _documents(items: Any) -> list[Document]:
    """What was given, gone over once: a generator holds nothing the second time."""
    if isinstance(items, str | bytes | Document) or not isinstance(items, Iterable):
        raise UsageError(f"items is a {type(items).__name__}; give a list of documents")
    documents = list(items)
    for number, item in enumerate(documents):
        if not isinstance(item, Document):
            raise UsageError(f"items[{number}] is a {type(item).__name__}; it must be a Document")
    return documents


def _id_of(document: Document, alike: Counter[str]) -> str:
    if document.id:
        return encodable(document.id)
    source = source_of(document)
    return encodable(source) if alike[source] == 1 else f"{encodable(source)}#{fingerprint(document)}"


def _upserted(named: dict[str, Document], report: IndexReport | None) -> UpsertResponse:
    failed = {failure.source for failure in report.failed if failure.stage == "extract"} if report else set()
    if report and report.failed:
        warnings.warn(f"{len(report.failed)} could not be made, the first one: {report.failed[0]}", stacklevel=3)
    return UpsertResponse(
        succeeded=[id for id in named if id not in failed], failed=[id for id in named if id in failed]
    )


def _held(ids: str | Iterable[str] | None, known: Sequence[str]) -> list[str]:
    if ids is None:
        raise UsageError("ids is None; say which documents to delete")
    there = set(known)
    return [id for id in given_ids("ids", ids) if id in there]


def _deleted(ids: list[str]) -> DeleteResponse:
    return DeleteResponse(num_deleted=len(ids), succeeded=ids, num_failed=0, failed=[])
