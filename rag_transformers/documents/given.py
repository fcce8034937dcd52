"""Documents that are known by an id of their own: how they are stored, shown, and given back as they came.

A document is stored under its ``metadata["source"]``. Where it is to be known by an id instead, because several
documents have one source, the id takes that place, and what the user said stands under a name of ours. Whoever is
shown a chunk of it sees the user's own source, and the id in ``metadata["document_id"]``.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

__all__ = ["RESERVED", "as_given", "shown_metadata", "stored_as"]

_GIVEN = "rag_transformers.given"  # what users call a field is theirs
RESERVED = (_GIVEN,)
"""Names in metadata that a field of a file is not let have."""

_OURS = ("source", "chunk", "start", "end")  # what a chunk's metadata say of itself


def stored_as(document: Document, id: str) -> Document:
    """A document as it is stored where it is known by an id.

    Args:
        document: The document as it came.
        id: What it is known by.

    >>> stored_as(Document("Ada left.", metadata={"source": "a.txt", "page": 3}), "7").metadata
    {'source': '7', 'page': 3, 'rag_transformers.given': {'source': 'a.txt'}}
    """
    given = {name: document.metadata[name] for name in _OURS if name in document.metadata}
    metadata = {name: value for name, value in document.metadata.items() if name != _GIVEN} | {"source": id}
    return Document(
        document.page_content, metadata=metadata if given == {"source": id} else {**metadata, _GIVEN: given}
    )


def shown_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a chunk as users see them: the document's own source, and its id where it has one.

    >>> shown_metadata({"source": "7", "chunk": 0, "rag_transformers.given": {"source": "a.txt"}})
    {'source': 'a.txt', 'chunk': 0, 'document_id': '7'}
    """
    shown = {name: value for name, value in metadata.items() if name not in ("order", _GIVEN)}
    if isinstance(given := metadata.get(_GIVEN), Mapping):
        shown["source"] = str(given.get("source") or metadata["source"])
        shown.setdefault("document_id", metadata["source"])
    return shown


def as_given(chunks: Iterable[Document]) -> list[Document]:
    """Documents as they came, put together from their chunks; ``id`` is what each is known by.

    Args:
        chunks: All chunks of each document, in reading order, as they are stored.

    >>> chunks = [Document("Ada left", metadata={"source": "a", "start": 0, "end": 8})]
    >>> chunks += [Document("left. ", metadata={"source": "a", "start": 4, "end": 10})]
    >>> as_given(chunks)
    [Document(id='a', metadata={'source': 'a'}, page_content='Ada left. ')]
    """
    groups = itertools.groupby(chunks, key=lambda chunk: str(chunk.metadata["source"]))
    return [_together(source, list(group)) for source, group in groups]


def _together(source: str, chunks: Sequence[Document]) -> Document:
    text = ""
    for chunk in chunks:
        text += chunk.page_content[len(text) - chunk.metadata["start"] :]  # a chunk may begin with the end of another
    metadata = chunks[0].metadata
    own = {name: value for name, value in metadata.items() if name not in (*_OURS, "order", _GIVEN)}
    return Document(text, id=source, metadata={**metadata.get(_GIVEN, {"source": source}), **own})
