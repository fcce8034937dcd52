"""Community -> report without a model: its best-connected names, its most central sentences, its strongest edges."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from rag_transformers.graph import Edge
from rag_transformers.prompts import Words
from rag_transformers.reports.citations import one_line
from rag_transformers.reports.content import Content, Record
from rag_transformers.reports.form import ReportFinding
from rag_transformers.reports.replies import Written
from rag_transformers.summaries.extractive import central_sentences, joined
from rag_transformers.text import said_sentences

__all__ = ["OFFLINE", "WORDS", "sample", "weigh", "write_offline"]

OFFLINE = "offline 3"
"""Names this way to write a report in the keys of those that were written so; another number, another way."""

WORDS = ("comma", "and_", "more", "counts_all", "members", "rating", "tie", "summary_length")
"""The words of a language that such a report is made with."""

_IN_TITLE = 3
_FINDINGS = 5
_TEXTS = 200
"""The descriptions that are read for the most central sentences: the most important ones."""
_RECORDS, _SAMPLE = 12, 200
"""The vertices and edges that tell the language, and characters of each of their fields."""
_SHORT = 120
"""A description of so few characters explains a finding as it is; of a longer one its first two sentences do."""


def sample(content: Content) -> str:
    """What is said of a community, as much of it as tells the language."""
    rows = [record.fields for record in content.vertices[:_RECORDS]]
    rows += [record.fields for record in (content.edges or content.leading)[:_RECORDS]]
    return " ".join(field[:_SAMPLE] for row in rows for field in row)


def weigh(content: Content, total: float) -> float:
    """A rating from 0 to 10 by the weight of a community's edges, on a logarithmic scale up to that of the graph.

    Args:
        content: What the graph says of the community.
        total: The weight of all edges of the graph.
    """
    if not 0 < total < math.inf:
        return 0.0
    return round(10 * math.log1p(min(content.weight, total)) / math.log1p(total), 1)


def write_offline(content: Content, words: Words, total: float) -> Written:
    """What can be said of a community word for word.

    Args:
        content: What the graph says of it.
        words: The few words between, of one language.
        total: The weight of all edges of the graph.
    """
    names = [record.fields[0] for record in content.vertices]
    texts = list(map(one_line, said_sentences(islice(_texts(content), _TEXTS))))
    limit = words.summary_length
    said = joined(texts)
    if len(said) > limit:
        said = joined(central_sentences(texts, limit, names=names[:1]))
    ties = sorted(content.edges or content.leading, key=lambda record: -record.weight)[:_FINDINGS]
    return Written(
        _listed(names[:_IN_TITLE], words),
        said or words.members.format(names=_with_rest(names, words)),
        tuple(_finding(record, content, words) for record in ties),
        weigh(content, total),
        words.rating.format(weight=content.weight, total=total),
        0,
    )


def _texts(content: Content) -> Iterator[str]:
    """What is said of a community, its lines as they stand: by them a title is told from the sentence behind it."""
    of_vertices = (record.item.summary for record in content.vertices)
    of_edges = (record.item.summary for record in chain(content.edges, content.leading))
    return filter(str.strip, chain(of_vertices, of_edges))


def _finding(record: Record[Edge], content: Content, words: Words) -> ReportFinding:
    source, target, relation, _ = record.fields
    edge = record.item
    about = {vertex.key[0]: vertex for vertex in content.vertices}
    ends = [about[end] for end in dict.fromkeys(record.ends) if end in about]
    texts = [edge.summary] if edge.summary.strip() else [vertex.item.summary for vertex in ends]
    explanation = joined(map(_beginning, texts))
    point = words.tie.format(source=source, relation=relation, target=target)
    vertices = tuple(vertex.item.name for vertex in ends)
    return ReportFinding(point, one_line(explanation), vertices, ((edge.source, edge.name, edge.target),))


def _beginning(text: str) -> str:
    said = said_sentences([text])
    return joined(said if len(text) <= _SHORT else said[:2])


def _listed(names: Sequence[str], words: Words) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{words.comma.join(names[:-1])}{words.and_}{names[-1]}"


def _with_rest(names: Sequence[str], words: Words, most: int = 8) -> str:
    """Names, and how many more there are; in some languages the number is that of all."""
    if len(names) <= most:
        return _listed(names, words)
    count = len(names) if words.counts_all else len(names) - most
    return words.more.format(names=words.comma.join(names[:most]), count=count)
