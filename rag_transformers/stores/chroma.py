"""Everything that is to be known about Chroma: its clients, names, sizes, batches and metadata."""

import hashlib
import json
import math
import os
import re
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from langchain_core.documents import Document

from rag_transformers.errors import IndexMismatchError, StorageError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection
    from langchain_chroma import Chroma
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

    Vectors = npt.NDArray[np.float32] | Sequence[Sequence[float]]

__all__ = [
    "add_documents",
    "add_texts_in_batches",
    "batches",
    "check_size",
    "chroma_store",
    "clean_text",
    "close_chroma",
    "collection_name",
    "content_id",
    "is_chroma",
    "is_open",
    "live_collection",
    "open_chroma",
    "plain_metadata",
]

_MEMORY = "memory-"
_opening = threading.Lock()  # Chroma counts the clients of a folder, but makes the first one unguarded


def open_chroma(path: str | Path | None = None, client: "ClientAPI | None" = None) -> "ClientAPI":
    """A Chroma client for a folder, or one in memory that shares nothing with others; telemetry is off.

    Clients of one folder in one process share its files, which are given back when the last of them is closed.

    Args:
        path: The folder, made if it is missing; None for memory.
        client: Your own client, which is returned as it is and stays yours to close.

    Raises:
        UsageError: It is no folder, or open in this process with other settings.
        StorageError: It cannot be opened.

    >>> client = open_chroma()
    >>> client.count_collections()
    0
    >>> close_chroma(client)
    """
    if client is not None:
        return client
    if path is None:
        with _opening:
            return _open_in_memory()
    import chromadb
    from chromadb.config import Settings
    from chromadb.errors import ChromaError

    folder = os.path.realpath(path)
    with _opening:
        if set(_open_names(folder)) - {folder}:  # two systems on one folder would not see each other's writes
            raise UsageError(_already_open(folder))
        try:
            return chromadb.PersistentClient(path=folder, settings=Settings(anonymized_telemetry=False))
        except ChromaError as error:
            failed = StorageError if os.path.isdir(folder) else UsageError
            raise failed(f"Chroma cannot open {folder}: {error}") from error
        except ValueError as error:
            raise UsageError(_already_open(folder)) from error


def is_open(path: str | Path) -> bool:
    """Whether a client of this process is open on a folder."""
    return bool(_open_names(os.path.realpath(path)))


def close_chroma(client: "ClientAPI") -> None:
    """Give back what a client of :func:`open_chroma` holds; closing twice is no error.

    After the last client of a folder is closed, it may be deleted and made again in the same process.
    """
    closing: Any = client
    with _opening:
        if getattr(closing, "_closed", False):
            return
        if closing.database.startswith(_MEMORY):
            closing._admin_client.delete_database(closing.database)
        closing.close()


def collection_name(name: str) -> str:
    """The name of a collection in Chroma, which takes ASCII only: valid, stable, and another one for another name.

    Raises:
        UsageError: The name is empty.

    >>> collection_name("history"), collection_name("知识库") == collection_name("客户资料")
    ('history-3925bc58ff834191', False)
    """
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"the name of a collection is {name!r}; give one that is not empty")
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-") or "c"
    return f"{readable}-{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def clean_text(text: str) -> str:
    """The text with half emoji and their like (lone surrogates), which no store takes, as question marks."""
    return text.encode("utf-8", "replace").decode()


def content_id(text: str) -> str:
    """The id of a text, made from its content; a UUID, since some stores take nothing else.

    >>> content_id("Page footer") == content_id("Page footer") != content_id("page footer")
    True
    """
    return str(uuid.UUID(bytes=hashlib.blake2b(clean_text(text).encode(), digest_size=16).digest(), version=5))


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Metadata that every store takes: None and numbers that are not finite dropped, anything nested as JSON.

    >>> plain_metadata({"author": None, "page": 3, "src": {"file": "甲.txt"}})
    {'page': 3, 'src': '{"file": "甲.txt"}'}
    """
    plain: dict[str, str | int | float | bool] = {}
    for key, value in metadata.items():
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            continue
        name = clean_text(str(key))
        # Chroma keeps these to itself.
        plain[f"_{name}" if name.startswith(("#", "$", "chroma:")) or not name else name] = _plain(value)
    return plain


def chroma_store(client: "ClientAPI", name: str, embeddings: "Embeddings", size: int | None = None) -> "Chroma":
    """A LangChain store over one collection, made with cosine space if it is missing.

    Args:
        client: See :func:`open_chroma`.
        name: Any name, see :func:`collection_name`.
        embeddings: What its vectors are made with; Chroma's own default, which downloads a model, is never used.
        size: The size of their vectors, to have it checked now; else it is checked before the first write.

    Raises:
        IndexMismatchError: The collection holds vectors of another size.
    """
    if embeddings is None:
        raise UsageError("embeddings is None; give the embeddings that the vectors are made with")
    from langchain_chroma import Chroma

    store = Chroma(
        collection_name=collection_name(name),
        embedding_function=embeddings,
        client=client,
        collection_metadata={"name": clean_text(name)},
        collection_configuration={"hnsw": {"space": "cosine"}},
    )
    if size is not None:
        check_size(store, size)
    return store


def check_size(store: "Chroma", size: int) -> None:
    """Refuse vectors of another size than those that a collection holds; an empty collection is made anew for them.

    Raises:
        IndexMismatchError: It holds others; both sizes, the collection and the way out are named.
    """
    collection = live_collection(store)
    # Chroma tells the size nowhere else, and an empty collection keeps the size of what was in it.
    held = store._client.get_collection(collection.name, embedding_function=None)._model.dimension
    if held is None or held == size:
        return
    if collection.count() == 0:
        store.reset_collection()
        return
    name = (collection.metadata or {}).get("name", collection.name)
    raise IndexMismatchError(
        f"the collection {name!r} holds vectors of {held} numbers, the embeddings given now make {size}: use those "
        "that it was made with, take another name, or rebuild it"
    )


def add_texts_in_batches(
    store: "Chroma",
    texts: Sequence[str],
    metadatas: Sequence[Mapping[str, Any]] | None = None,
    ids: Sequence[str] | None = None,
    vectors: "Vectors | None" = None,
) -> list[str]:
    """Insert or replace texts, in batches that the client accepts; of equal ids in one call the first counts.

    Args:
        store: Where to.
        texts: Texts.
        metadatas: One for each text, see :func:`plain_metadata`.
        ids: One for each text; :func:`content_id` by default.
        vectors: One for each text, where they are known; else the store's embeddings make each once.

    Returns:
        The ids that were written, each once.

    Raises:
        UsageError: The arguments do not line up.
        IndexMismatchError: See :func:`check_size`; nothing was written.
    """
    for what, given in (("metadatas", metadatas), ("ids", ids), ("vectors", vectors)):
        if given is not None and len(given) != len(texts):
            raise UsageError(f"{what} has {len(given)} items for {len(texts)} texts; give one each, or None")
    names = [content_id(text) for text in texts] if ids is None else list(ids)
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    for batch in batches(list(places.values()), store._client.get_max_batch_size()):
        rows = [clean_text(texts[place]) for place in batch]
        made: Any = _embed(store, rows) if vectors is None else [vectors[place] for place in batch]
        check_size(store, len(made[0]))
        kept: Any = [plain_metadata(metadatas[place]) or None for place in batch] if metadatas is not None else None
        written = [names[place] for place in batch]
        live_collection(store).upsert(ids=written, embeddings=made, documents=rows, metadatas=kept)
    return list(places)


def add_documents(store: "VectorStore", documents: Sequence[Document]) -> list[str]:
    """Insert or replace documents by their ids (:func:`content_id` for those without) in any store."""
    texts = [document.page_content for document in documents]
    metadatas = [plain_metadata(document.metadata) for document in documents]
    ids = [document.id or content_id(document.page_content) for document in documents]
    if is_chroma(store):
        return add_texts_in_batches(store, texts, metadatas, ids)
    return store.add_texts(texts, metadatas, ids=ids) if texts else []


def is_chroma(store: object) -> "TypeGuard[Chroma]":
    """Whether a store is LangChain's Chroma; imports nothing."""
    module = sys.modules.get("langchain_chroma")
    return module is not None and isinstance(store, module.Chroma)


def live_collection(store: "Chroma") -> "Collection":
    """The collection behind a store, made again if it was dropped; LangChain shows it only as a private name."""
    if store._chroma_collection is None:
        store._chroma_collection = store._client.get_or_create_collection(
            store._collection_name,
            embedding_function=None,
            metadata=store._collection_metadata,
            configuration=store._collection_configuration,
        )
    return store._chroma_collection


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Slices of at most ``size``.

    >>> list(batches("abcde", 2))
    ['ab', 'cd', 'e']
    """
    return (items[start : start + size] for start in range(0, len(items), size))


def _open_in_memory() -> "ClientAPI":
    import chromadb
    from chromadb.config import Settings

    # Chroma has one system in memory for a process and refuses other settings while it is open. So its defaults are
    # taken, as LangChain does (no telemetry is sent since 1.5.4), or else those of whoever turned telemetry off; and a
    # database of its own keeps this client apart.
    for settings in (Settings(), Settings(anonymized_telemetry=False)):
        try:
            first: Any = chromadb.EphemeralClient(settings)
        except ValueError:
            continue
        database = _MEMORY + uuid.uuid4().hex
        first._admin_client.create_database(database)
        client = chromadb.EphemeralClient(settings, database=database)
        first.close()
        return client
    raise UsageError(_already_open("memory"))


def _already_open(where: str) -> str:
    return (
        f"a Chroma client with other settings is open on {where} in this process: "
        "pass that client in (client=...), or close it first"
    )


def _open_names(folder: str) -> list[str]:
    """The names under which a folder is open in this process; Chroma compares them as they were spelled."""
    system = sys.modules.get("chromadb.api.shared_system_client")
    names = list(getattr(system.SharedSystemClient, "_identifier_to_system", {})) if system else []
    return [name for name in names if name != "ephemeral" and os.path.realpath(name) == folder]


def _embed(store: "Chroma", texts: list[str]) -> "Vectors":
    if store.embeddings is None:
        raise UsageError("the store has no embeddings; make it with chroma_store, or give the vectors")
    return store.embeddings.embed_documents(texts)


def _plain(value: Any) -> str | int | float | bool:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    return clean_text(json.dumps(value, ensure_ascii=False, default=str))
