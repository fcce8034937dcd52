"""Where things are kept: the graph in memory, the history of chunks and the vectors over LangChain's VectorStore."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_transformers.stores.chroma import chroma_store, close_chroma, open_chroma
    from rag_transformers.stores.chunk_history import ChunkHistory
    from rag_transformers.stores.memory_graph import MemoryGraph

__all__ = ["ChunkHistory", "MemoryGraph", "chroma_store", "close_chroma", "open_chroma"]

_HOMES = {
    "ChunkHistory": "chunk_history",
    "MemoryGraph": "memory_graph",
    "chroma_store": "chroma",
    "close_chroma": "chroma",
    "open_chroma": "chroma",
}


def __getattr__(name: str) -> Any:
    """Load a store at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
