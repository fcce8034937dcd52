"""Community -> Report, with a model and without."""

from rag_transformers.reports.form import Report, ReportFinding
from rag_transformers.reports.writer import ReportWriter

__all__ = ["Report", "ReportFinding", "ReportWriter"]
