"""Documents into a knowledge graph, summaries and cited answers, as LangChain Runnables, in Chinese and English.

documents ─ Chunker ─ chunks ─ history context ─ GraphExtractor ─ extractions ─ fold ─ MemoryGraph
question ─ retrieval (lexical and dense) ─ context within a token budget ─ Answer with citations

GraphIndex is the whole; each stage is a Runnable of its own. Names load when they are used, so that importing is fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_transformers.answers import Answer
    from rag_transformers.chunking import Chunker
    from rag_transformers.communities import Community, CommunityDetector
    from rag_transformers.embeddings import default_embeddings
    from rag_transformers.extraction import GraphExtractor, GraphRAGExtractor, LLMExtractor
    from rag_transformers.graph import Direction, Edge, Extraction, Vertex
    from rag_transformers.graphrag_query import GraphRAGQueryEngine
    from rag_transformers.graphrag_store import GraphRAGStore
    from rag_transformers.index import GraphIndex, IndexReport
    from rag_transformers.phrases import PhraseExtractor
    from rag_transformers.reports import Report, ReportWriter
    from rag_transformers.retrieval.graph_retriever import GraphRetriever
    from rag_transformers.stores import ChunkHistory, MemoryGraph
    from rag_transformers.summaries import (
        ExtractiveSummarizeExtractor,
        ExtractiveSummary,
        SummarizationResult,
        SummarizeExtractor,
        Summary,
    )
    from rag_transformers.tools import graph_tools

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "ChunkHistory",
    "Chunker",
    "Community",
    "CommunityDetector",
    "Direction",
    "Edge",
    "Extraction",
    "ExtractiveSummarizeExtractor",
    "ExtractiveSummary",
    "GraphExtractor",
    "GraphIndex",
    "GraphRAGExtractor",
    "GraphRAGQueryEngine",
    "GraphRAGStore",
    "GraphRetriever",
    "IndexReport",
    "LLMExtractor",
    "MemoryGraph",
    "PhraseExtractor",
    "Report",
    "ReportWriter",
    "SummarizationResult",
    "SummarizeExtractor",
    "Summary",
    "Vertex",
    "default_embeddings",
    "graph_tools",
]

_HOMES = {
    "Answer": "answers",
    "ChunkHistory": "stores",
    "Chunker": "chunking",
    "Community": "communities",
    "CommunityDetector": "communities",
    "Direction": "graph",
    "Edge": "graph",
    "Extraction": "graph",
    "ExtractiveSummarizeExtractor": "summaries",
    "ExtractiveSummary": "summaries",
    "GraphExtractor": "extraction",
    "GraphIndex": "index",
    "GraphRAGExtractor": "extraction",
    "GraphRAGQueryEngine": "graphrag_query",
    "GraphRAGStore": "graphrag_store",
    "GraphRetriever": "retrieval.graph_retriever",
    "IndexReport": "index",
    "LLMExtractor": "extraction",
    "MemoryGraph": "stores",
    "PhraseExtractor": "phrases",
    "Report": "reports",
    "ReportWriter": "reports",
    "SummarizationResult": "summaries",
    "SummarizeExtractor": "summaries",
    "Summary": "summaries",
    "Vertex": "graph",
    "default_embeddings": "embeddings",
    "graph_tools": "tools",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
