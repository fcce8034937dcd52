"""Gleaning: what a model adds when it is asked for what it left out."""

from collections.abc import Sequence

from rag_transformers.graph import Edge, Extraction, name_key

__all__ = ["adds", "merged"]


def merged(found: Extraction, more: Extraction) -> Extraction:
    """Two extractions of one chunk as one; rows that are equal stand once, and the first one's come first.

    Args:
        found: What was found before.
        more: What came then.

    >>> one = Extraction([("Ada Moss", "Founder")], types=["person"])
    >>> both = merged(one, Extraction([("Ada Moss", "Founder"), ("Grain Trust", "")]))
    >>> both.entities, both.types
    ((('Ada Moss', 'Founder'), ('Grain Trust', '')), ('person', ''))
    """
    entities: dict[tuple[str, str], str] = {}
    relationships: dict[tuple[str, str, str, str], float | None] = {}
    for part in (found, more):
        for row, kind in zip(part.entities, part.types or [""] * len(part.entities), strict=True):
            entities[row] = entities.get(row) or kind
        weights: Sequence[float | None] = part.weights or [None] * len(part.relationships)
        for tie, weight in zip(part.relationships, weights, strict=True):
            relationships[tie] = weight if relationships.get(tie) is None else relationships[tie]
    return Extraction(
        list(entities),
        list(relationships),
        list(entities.values()) if any(entities.values()) else (),
        [1.0 if weight is None else weight for weight in relationships.values()]
        if found.weights or more.weights
        else (),
        list(dict.fromkeys((*found.unheld, *more.unheld))),
    )


def adds(found: Extraction, more: Extraction) -> bool:
    """Whether an extraction names a vertex or an edge that another does not; other words for known ones are not new.

    >>> found = Extraction([("Ada Moss", "")], [("Ada Moss", "founded", "Grain Trust", "")])
    >>> adds(found, Extraction([("ADA MOSS", "Founder")])), adds(found, Extraction([("Port Ellery", "")]))
    (False, True)
    """
    return not _keys(more) <= _keys(found)


def _keys(extraction: Extraction) -> set[str | tuple[str, str, str]]:
    edges = [Edge(source, target, relation).key for source, relation, target, _ in extraction.relationships]
    ends = [end for source, _, target in edges for end in (source, target)]
    return {*(name_key(name) for name, _ in extraction.entities), *ends, *edges}
