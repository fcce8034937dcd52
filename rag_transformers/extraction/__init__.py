"""Chunk -> Extraction with a model: the base, and the extractors of two formats."""

from rag_transformers.extraction.graph_extractor import GraphExtractor
from rag_transformers.extraction.graphrag_extractor import GraphRAGExtractor
from rag_transformers.extraction.llm_extractor import LLMExtractor

__all__ = ["GraphExtractor", "GraphRAGExtractor", "LLMExtractor"]
