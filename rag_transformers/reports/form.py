"""What a report is: a community's title, summary and findings, and what each finding rests on."""

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

__all__ = ["EdgeId", "Report", "ReportFinding"]

EdgeId: TypeAlias = tuple[str, str, str]
"""(source, relation, target), as the graph shows them."""


@dataclass(frozen=True)
class ReportFinding:
    """One point of a report.

    Args:
        summary: The point in a line.
        explanation: The same at more length; may be empty.
        vertices: Names of the vertices that it rests on.
        edges: The edges that it rests on, as (source, relation, target).
        reports: Ids of the communities on whose reports it rests; what those rest on stands in the two above.
    """

    summary: str
    explanation: str = ""
    vertices: tuple[str, ...] = ()
    edges: tuple[EdgeId, ...] = ()
    reports: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ReportFinding":
        """The finding of JSON data."""
        edges = tuple((source, relation, target) for source, relation, target in data.get("edges", ()))
        lists = {name: tuple(data.get(name, ())) for name in ("vertices", "reports")}
        return cls(data["summary"], data.get("explanation", ""), edges=edges, **lists)


@dataclass(frozen=True)
class Report:
    """What a community is about.

    Args:
        community: Its id.
        level: Its level, 0 for the coarsest.
        title: A short name for it.
        summary: What it is about.
        findings: The main points.
        rating: How much it matters, from 0 to 10.
        rating_explanation: Why.
        vertices: The names of all its vertices.
        chunks: Ids of the chunks behind its vertices and edges, those behind most of them first.
        offline: Whether it was written without a model.
        failed: Why the model's reply could not be used; None where one could, or none was asked for.
        dropped: How many citations named a record that had not been shown, and were dropped.
        key: The hash of what it was made from and by whom; the same key, the same report.
        content: The hash of what the graph says of the community, whoever writes about it.

    >>> report = Report("0-1", 0, "Grain Trust", "A lender.", (ReportFinding("It lends", "", ("Grain Trust",)),))
    >>> Report.from_dict(report.to_dict()) == report
    True
    >>> print(report.text())
    # Grain Trust
    <BLANKLINE>
    A lender.
    <BLANKLINE>
    ## It lends
    """

    community: str
    level: int
    title: str
    summary: str
    findings: tuple[ReportFinding, ...] = ()
    rating: float = 0.0
    rating_explanation: str = ""
    vertices: tuple[str, ...] = ()
    chunks: tuple[str, ...] = ()
    offline: bool = False
    failed: str | None = None
    dropped: int = 0
    key: str = ""
    content: str = ""

    @property
    def final(self) -> bool:
        """Whether it stands; one that stands in for a failed reply is asked for again next time."""
        return self.failed is None

    def text(self) -> str:
        """The report as one text, in Markdown."""
        points = [f"## {finding.summary}\n\n{finding.explanation}".rstrip() for finding in self.findings]
        return "\n\n".join(part for part in (f"# {self.title}", self.summary, *points) if part)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Report":
        """The reverse of :meth:`to_dict`, from parsed JSON too."""
        findings = tuple(map(ReportFinding.from_dict, data.get("findings", ())))
        lists = {name: tuple(data.get(name, ())) for name in ("vertices", "chunks")}
        return cls(**{**data, **lists, "findings": findings})
