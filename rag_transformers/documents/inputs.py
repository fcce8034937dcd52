"""What a user gives to be indexed -> documents that can be kept, each with a source of its own."""

from collections.abc import Iterable
from pathlib import Path

from langchain_core.documents import Document

from rag_transformers.chunking import source_of
from rag_transformers.documents import load_documents
from rag_transformers.documents.plain import plain_metadata
from rag_transformers.errors import UsageError
from rag_transformers.text import encodable

__all__ = ["Documents", "Paths", "given_documents"]

Documents = str | Path | Document | Iterable[str | Path | Document]
Paths = str | Path | Iterable[str | Path]


def given_documents(given: Documents, may_be_empty: bool = False) -> list[Document]:
    """The documents that were given, those of paths loaded; each with a source, and each source once.

    Args:
        given: Documents, or paths of files and folders, one or many.
        may_be_empty: Whether none at all are no error.

    Raises:
        UsageError: None, something else, two different ones of one source, or metadata that cannot be kept.
    """
    if not isinstance(given, str | Path | Document | Iterable) or isinstance(given, bytes):
        raise UsageError(f"documents is {type(given).__name__}; give documents or paths, one or many")
    listed = [given] if isinstance(given, str | Path | Document) else list(given)
    for number, item in enumerate(listed):
        if not isinstance(item, str | Path | Document):
            raise UsageError(f"documents[{number}] is {type(item).__name__}; give a Document or a path")
    loaded: dict[str, Document] = {}
    for item in listed:
        for document in [item] if isinstance(item, Document) else load_documents(item, may_be_empty=may_be_empty):
            source = source_of(document)
            if source in loaded and loaded[source].page_content != document.page_content:
                raise UsageError(f"two different documents have the source {source!r}; give each its own")
            source = encodable(source)
            metadata = plain_metadata(source, {**document.metadata, "source": source})
            loaded[source] = Document(encodable(document.page_content), metadata=metadata)
    if not loaded and not may_be_empty:
        raise UsageError("no documents were given")
    return list(loaded.values())
