"""How a command of the command line opens its index: with the models that its arguments name, or only to be read."""

import argparse
import contextlib
import re
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from rag_transformers.chunking import Chunker
from rag_transformers.embeddings import OfflineEmbeddings
from rag_transformers.errors import IndexMismatchError, RagTransformersError, UsageError
from rag_transformers.index import GraphIndex
from rag_transformers.models.servers import chat_model, check_server, embedding_model
from rag_transformers.stores.manifest import Manifest

__all__ = ["check_models", "open_index", "open_to_read", "options"]

_SERVED = re.compile(r"OpenAIEmbeddings\((.+)\)", re.DOTALL)


def open_index(given: argparse.Namespace) -> GraphIndex:
    """The index that the arguments speak of; whatever they have wrong is found before anything is created.

    Args:
        given: ``out``, the models, and where it is to be added to, how.

    Raises:
        UsageError: An argument is wrong, or the embeddings are not those of the index.
    """
    how = options(given)
    if "chunk_size" in given:
        how["concurrency"] = given.concurrency
        how["chunker"] = Chunker(given.chunk_size, given.chunk_overlap)
        how["reports"] = not given.no_reports
    return GraphIndex.open(given.out, **how)


def open_to_read(given: argparse.Namespace) -> GraphIndex:
    """The index in the folder ``out``, whatever embeddings it was made with, to be read without embedding anything."""
    name = _embeddings_of(given.out)
    return GraphIndex.open(given.out, embeddings=None if name is None else _Unembedded(name))


def options(given: argparse.Namespace) -> dict[str, Any]:
    """The models and the language that the arguments speak of, as ``GraphIndex.open`` takes them."""
    how: dict[str, Any] = {"language": given.language, "prompts": given.prompts}
    waits = {"timeout": given.timeout} if "timeout" in given else {}
    check_models(given)
    if given.model:
        how["llm"] = chat_model(given.model, given.base_url, **waits)
    if given.embedding_model:
        size = how["embedding_batch_size"] = given.embedding_batch_size
        how["embeddings"] = embedding_model(given.embedding_model, given.base_url, batch_size=size, **waits)
    return how


def check_models(given: argparse.Namespace) -> None:
    """See that a server is named for a model, and that the embeddings are those of the index, where there is one.

    Raises:
        UsageError: They are not; it says which option to add, or to leave out.
    """
    chat, embeds = getattr(given, "model", None), getattr(given, "embedding_model", None)
    if chat or embeds:
        check_server(given.base_url)
    elif given.base_url:
        wanted = " or ".join(f"--{name.replace('_', '-')}" for name in ("model", "embedding_model") if name in given)
        raise UsageError(f"--base-url without {wanted}: no model would be asked; name one")
    known = _embeddings_of(given.out) if "out" in given else None
    made = f"{getattr(given, 'out', '')} was made with the embeddings {known}"
    if known and not embeds and (served := _SERVED.fullmatch(known)):
        server = "" if given.base_url else " (and its --base-url, where it is not OpenAI's)"
        raise IndexMismatchError(f"{made}: add --embedding-model {served[1]}{server}")
    if embeds and known == OfflineEmbeddings.name:
        raise IndexMismatchError(f"{made}, which are offline, not with {embeds}: leave out --embedding-model")


def _embeddings_of(out: str) -> str | None:
    """What an index was made with; None where there is none, or none that can be opened, which is told on opening."""
    with contextlib.suppress(RagTransformersError, OSError, ValueError):
        if (manifest := Manifest.read(Path(out))) is not None:
            return manifest.embeddings
    return None


class _Unembedded(Embeddings):
    """Carries the name of the embeddings of an index, and is never asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise UsageError(f"the index was opened to be read: nothing is embedded; that takes its {self.name}")

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]
