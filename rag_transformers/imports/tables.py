"""What a source says, in rows, whatever system wrote it: texts, entities, relationships, communities, reports."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_transformers.errors import DocumentError
from rag_transformers.graph import name_key, shorten_name
from rag_transformers.reports import Report
from rag_transformers.text import encodable, language_of

__all__ = [
    "CommunityRow",
    "EntityRow",
    "RelationRow",
    "Tables",
    "TextRow",
    "UnitRow",
    "as_level",
    "as_name",
    "as_weight",
]

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
        blank: How many pieces without a text or an id were left out.
    """

    kind: str
    documents: tuple[TextRow, ...] = ()
    units: tuple[UnitRow, ...] = ()
    entities: tuple[EntityRow, ...] = ()
    relations: tuple[RelationRow, ...] = ()
    communities: tuple[CommunityRow, ...] = ()
    reports: tuple[Report, ...] = ()
    blank: int = 0

    def fruitless(self) -> dict[str, int]:
        """How many rows nothing comes of, by what they lack; what lacks nothing is not there."""
        names = {row.name for row in self.entities if row.name}
        ends = {end for row in self.relations for end in (row.source, row.target)}
        keys = {name_key(name) for name in (*names, *ends) if name}
        known = {row.id for row in self.communities}
        found = {
            "pieces without text or id": self.blank,
            "entities without name": sum(not row.name for row in self.entities),
            "relationships without both ends": sum(not (row.source and row.target) for row in self.relations),
            "communities without a known member": sum(
                not any(name_key(name) in keys for name in row.members) for row in self.communities
            ),
            "reports on no known community": sum(row.community not in known for row in self.reports),
        }
        return {what: count for what, count in found.items() if count}


def as_name(value: Any) -> str:
    """A name as it stands in a source: on one line, without the quotes that LightRAG and nano-graphrag put round it.

    >>> as_name('"ADA MOSS"'), as_name(None)
    ('ADA MOSS', '')
    """
    text = " ".join(encodable(str(value)).split()) if isinstance(value, str | int) else ""
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    return shorten_name(text)


def as_level(value: Any, what: str) -> int:
    """A level or another place in an order; 0 where nothing is said.

    Args:
        value: What the source says.
        what: What it is of, for the message.

    Raises:
        DocumentError: It is no whole number.

    >>> as_level("2", "level"), as_level(None, "level"), as_level(1.0, "level")
    (2, 0, 1)
    """
    try:
        return int(value or 0)
    except (TypeError, ValueError, OverflowError):
        raise DocumentError(f"{what} is {value!r:.80}; it must be a whole number") from None


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
