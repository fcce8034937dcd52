"""Question -> Answer with citations, from chunks, the graph around them, and reports."""

from rag_transformers.answers.querying import Answer

__all__ = ["Answer"]
