"""What a source says, in rows, whatever system wrote it: texts, entities, relationships, communities, reports."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_transformers.graph import shorten_name
from rag_transformers.reports import Report
from rag_transformers.text import encodable, language_of

__all__ = ["CommunityRow", "EntityRow", "RelationRow", "Tables", "TextRow", "UnitRow", "as_name", "as_weight"]

_RELATED = {"zh": "相关", "en": "related to"}


@dataclass(frozen=True)
class TextRow:
    """A document: its id, what it is called, its text where the source keeps it, and what else is said of it."""

    id: str
    title: str
    text: str | None = field(default=None, repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UnitRow:
    """A piece of a document that was extracted from: its id, its text, and the id of the document."""

    id: str
    text: str = field(repr=False)
    document: str


@dataclass(frozen=True)
class EntityRow:
    """An entity: its id in the source, name, type, what was said of it, and the ids of the units that name it."""

    id: str
    name: str
    type: str
    descriptions: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(frozen=True)
class RelationRow:
    """A relationship between two entities, as :class:`EntityRow`; blank relations get a general name."""

    source: str
    target: str
    relation: str
    descriptions: tuple[str, ...]
    units: tuple[str, ...]
    weight: float | None = None

    @property
    def name(self) -> str:
        """The relation; where the source has none, one that says that there is one, in the language of the text."""
        text = self.descriptions[0] if self.descriptions else f"{self.source} {self.target}"
        return self.relation or _RELATED.get(language_of(text), _RELATED["en"])


@dataclass(frozen=True)
class CommunityRow:
    """A community: its id, its level (0 for the coarsest), the id of its parent where it is known, its members."""

    id: str
    level: int
    parent: str | None
    members: tuple[str, ...]
    units: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tables:
    """All that a source says, each list in its own order.

    Args:
        kind: What wrote it.
        documents: Its documents.
        units: The pieces that they were split into, in reading order in each document.
        entities: Its entities.
        relations: Its relationships.
        communities: Its communities.
        reports: Reports by the id of the community; their chunks and vertices are filled in later.
    """

    kind: str
    documents: tuple[TextRow, ...] = ()
    units: tuple[UnitRow, ...] = ()
    entities: tuple[EntityRow, ...] = ()
    relations: tuple[RelationRow, ...] = ()
    communities: tuple[CommunityRow, ...] = ()
    reports: tuple[Report, ...] = ()


def as_name(value: Any) -> str:
    """A name as it stands in a source: on one line, without the quotes that LightRAG and nano-graphrag put round it.

    >>> as_name('"ADA MOSS"'), as_name(None)
    ('ADA MOSS', '')
    """
    text = " ".join(encodable(str(value)).split()) if isinstance(value, str | int) else ""
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    return shorten_name(text)


def as_weight(value: Any) -> float | None:
    """A weight, if it is one: a finite number from 0.

    >>> as_weight("2.5"), as_weight("nan"), as_weight(None)
    (2.5, None, None)
    """
    try:
        weight = float(value)
    except (TypeError, ValueError):
        return None
    return weight if 0 <= weight < math.inf else None
