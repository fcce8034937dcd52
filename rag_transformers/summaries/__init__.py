"""Many texts -> one: the descriptions of an entity or a pair, and documents of any length; with a model and without."""

from rag_transformers.summaries.descriptions import SummarizationResult
from rag_transformers.summaries.summarising import ExtractiveSummarizeExtractor, SummarizeExtractor
from rag_transformers.summaries.text_summaries import ExtractiveSummary, Summary

__all__ = ["ExtractiveSummarizeExtractor", "ExtractiveSummary", "SummarizationResult", "SummarizeExtractor", "Summary"]
