"""What the graph is made of: names and their keys, Vertex, Edge, Extraction, and the Graph protocol."""

import enum
import hashlib
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rag_transformers.errors import UsageError
from rag_transformers.text import HAN

__all__ = [
    "MAX_NAME_LENGTH",
    "Direction",
    "Edge",
    "Extraction",
    "Graph",
    "Tie",
    "TiedGraph",
    "Vertex",
    "name_key",
    "shorten_name",
]

MAX_NAME_LENGTH = 256
"""A longer name is cut to this many characters and ends in a hash of the whole, so that two stay two."""

_CJK = rf"{HAN}\u3040-\u30ff\uac00-\ud7af\u3000-\u303f"
_CJK_SPACING = re.compile(rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])")
_ONE_FORM = str.maketrans("‘’ʼ＇`´•・‧∙⋅‐‑‒–—―", "'" * 6 + "·" * 5 + "-" * 6)
_QUOTES = "\"“”„«»'《》〈〉「」『』"
_HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
_POINT = re.compile(r"(?<=[^\W\d])\.|,(?=\s)")


def name_key(name: str) -> str:
    """The key under which a name is found: equal for spellings that differ by case, width, spacing or punctuation.

    NFKC, case folded, quotes round the name, hyphens between words, the point of an abbreviation, a leading "the"
    and a trailing "'s" dropped, white space folded and dropped beside CJK characters.

    >>> name_key("The  Tidewater-Bank's") == name_key("TIDEWATER BANK") == "tidewater bank"
    True
    >>> name_key("《三国 演义》"), name_key("Mr. Scrooge"), name_key("Ｃ＃"), name_key("C")
    ('三国演义', 'mr scrooge', 'c#', 'c')
    """
    plain = " ".join(unicodedata.normalize("NFKC", name.translate(_ONE_FORM)).casefold().split())
    key = _POINT.sub("", _HYPHEN.sub(" ", plain.strip(_QUOTES)))
    key = _CJK_SPACING.sub("", key.removesuffix("'s").removeprefix("the ")).strip()
    return key or plain


def shorten_name(name: str) -> str:
    """A name of at most ``MAX_NAME_LENGTH`` characters; one that is cut ends in a hash of the whole.

    >>> a, b = shorten_name("Z" * 5000 + "left"), shorten_name("Z" * 5000 + "right")
    >>> len(a), a == b, shorten_name("Ada Moss")
    (256, False, 'Ada Moss')
    """
    if len(name) <= MAX_NAME_LENGTH:
        return name
    digest = hashlib.blake2b(name_key(name).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{name[: MAX_NAME_LENGTH - len(digest) - 1]}~{digest}"


class Direction(enum.Enum):
    """Which edges of a vertex to follow: those that leave it, those that reach it, or both."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class Vertex:
    """A thing that the documents speak of.

    Args:
        name: How it is shown; not empty.
        **props: Anything to keep. Known here: ``description`` (str) or ``descriptions`` (list of str), ``chunks``
            (list of ids of the chunks that it comes from), ``type``, and ``unheld`` (True where none of these chunks
            holds its name, see :class:`Extraction`).

    Raises:
        UsageError: The name is empty.

    >>> Vertex("Ada Moss", description="Founder").props
    {'description': 'Founder'}
    """

    __slots__ = ("name", "props")

    def __init__(self, name: str, **props: Any) -> None:
        self.name = _named("Vertex.name", name)
        self.props = props

    @property
    def key(self) -> str:
        """The key under which the vertex is found, see :func:`name_key`."""
        return name_key(self.name)

    @property
    def descriptions(self) -> tuple[str, ...]:
        """What was said of it, each once, in the order in which it was read."""
        return _descriptions(self.props)

    @property
    def summary(self) -> str:
        """The one description that many were made into, else all of them, one a line."""
        return str(self.props.get("summary") or "\n".join(self.descriptions))

    @property
    def chunks(self) -> tuple[str, ...]:
        """The ids of the chunks that it comes from."""
        return tuple(self.props.get("chunks", ()))

    def __repr__(self) -> str:
        return f"Vertex({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vertex) and (self.name, self.props) == (other.name, other.props)

    def __hash__(self) -> int:
        return hash(self.key)


class Edge:
    """A relation from one vertex to another.

    Args:
        source: Name of the vertex that it leaves; not empty.
        target: Name of the vertex that it reaches; not empty.
        name: The relation; not empty.
        **props: As for :class:`Vertex`; also ``weight``. It is ``unheld`` where none of its chunks holds both ends.

    Raises:
        UsageError: One of the three is empty.

    >>> Edge("Ada Moss", "Grain Trust", "founded", description="In 1998")
    Edge('Ada Moss', 'Grain Trust', 'founded')
    """

    __slots__ = ("name", "props", "source", "target")

    def __init__(self, source: str, target: str, name: str, **props: Any) -> None:
        self.source = _named("Edge.source", source)
        self.target = _named("Edge.target", target)
        self.name = _named("Edge.name", name)
        self.props = props

    @property
    def key(self) -> tuple[str, str, str]:
        """(source, relation, target) as keys; direction counts."""
        return name_key(self.source), name_key(self.name), name_key(self.target)

    @property
    def descriptions(self) -> tuple[str, ...]:
        """What was said of it, each once, in the order in which it was read."""
        return _descriptions(self.props)

    @property
    def summary(self) -> str:
        """The one description that many were made into, else all of them, one a line."""
        return str(self.props.get("summary") or "\n".join(self.descriptions))

    @property
    def chunks(self) -> tuple[str, ...]:
        """The ids of the chunks that it comes from."""
        return tuple(self.props.get("chunks", ()))

    @property
    def weight(self) -> float:
        """What it counts for: the weight given, else the number of chunks that it comes from, at least 1."""
        given = self.props.get("weight")
        return float(max(1, len(self.chunks)) if given is None else given)

    def __repr__(self) -> str:
        return f"Edge({self.source!r}, {self.target!r}, {self.name!r})"

    def __eq__(self, other: object) -> bool:
        mine = (self.source, self.target, self.name, self.props)
        return isinstance(other, Edge) and mine == (other.source, other.target, other.name, other.props)

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Extraction:
    """What was found in one chunk; every extractor returns one, a user's own too.

    Args:
        entities: (name, summary) each; a summary may be empty.
        relationships: (source, relation, target, summary) each; a summary may be empty.
        types: One for each entity, or none at all.
        weights: One for each relationship, or none at all.
        unheld: Those of its names that the chunk's text does not hold. The extractors that ask a model note them: a
            model may have them from the history it was shown, from an instruction in it, or from itself. A note on the
            rows, so that two extractions with equal rows are equal whatever it says.

    Raises:
        UsageError: A row of the wrong shape, an empty name, or types or weights that do not line up.

    >>> found = Extraction([("Ada Moss", "Founder")], [("Ada Moss", "founded", "Grain Trust", "In 1998")])
    >>> Extraction.from_dict(found.to_dict()) == found
    True
    """

    entities: Sequence[tuple[str, str]] = ()
    relationships: Sequence[tuple[str, str, str, str]] = ()
    types: Sequence[str] = ()
    weights: Sequence[float] = ()
    unheld: Sequence[str] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Freeze the rows, and refuse what is no extraction."""
        freeze = object.__setattr__
        freeze(self, "entities", _rows("entities", self.entities, ("name", "summary"), {0}))
        columns = ("source", "relation", "target", "summary")
        freeze(self, "relationships", _rows("relationships", self.relationships, columns, {0, 1, 2}))
        freeze(self, "types", tuple(self.types))
        freeze(self, "weights", tuple(map(_weight, self.weights)))
        freeze(self, "unheld", tuple(_named("a name in Extraction.unheld", name) for name in self.unheld))
        for name, given, rows in (("types", self.types, self.entities), ("weights", self.weights, self.relationships)):
            if given and len(given) != len(rows):
                raise UsageError(
                    f"Extraction.{name} has {len(given)} items for {len(rows)} rows; give one each, or none"
                )

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.entities or self.relationships)

    def names(self) -> list[str]:
        """The names of all entities, and of the ends of all relationships, as often as they stand there."""
        ends = (name for source, _, target, _ in self.relationships for name in (source, target))
        return [*(name for name, _ in self.entities), *ends]

    def limited(self, limit: int | None) -> "Extraction":
        """The same with its first ``limit`` distinct relationships, whatever is said of each; all entities stay.

        >>> rows = [("A", "knows", "B", ""), ("a", "Knows", "b", "For years"), ("B", "knows", "A", "")]
        >>> Extraction([("A", "")], rows).limited(1).relationships
        (('A', 'knows', 'B', ''), ('a', 'Knows', 'b', 'For years'))
        """
        if limit is None or len(self.relationships) <= limit:
            return self
        keys = [Edge(source, target, name).key for source, name, target, _ in self.relationships]
        kept = set(itertools.islice(dict.fromkeys(keys), limit))
        numbers = [number for number, key in enumerate(keys) if key in kept]
        weights = [self.weights[number] for number in numbers] if self.weights else ()
        rows = [self.relationships[number] for number in numbers]
        return Extraction(self.entities, rows, self.types, weights, self.unheld)

    def to_dict(self) -> dict[str, Any]:
        """The extraction as JSON-ready data; what is empty is left out."""
        return {name: rows for name, rows in vars(self).items() if rows}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Extraction":
        """The reverse of :meth:`to_dict`, from parsed JSON too."""
        return cls(**data)


class Tie(NamedTuple):
    """An edge as far as it ties two vertices: what it weighs by, and nothing that was said of it.

    Args:
        source: The key of the vertex that it leaves.
        target: The key of the vertex that it reaches.
        chunks: The ids of the chunks that it comes from.
        weight: The weight given; None where none was.
    """

    source: str
    target: str
    chunks: Sequence[str]
    weight: float | None


@runtime_checkable
class TiedGraph(Protocol):
    """A graph that tells its ties without a copy of all that it holds."""

    def names(self) -> dict[str, str]:
        """The name shown of each vertex by its key."""

    def ties(self) -> Sequence[Tie]:
        """All edges."""


@runtime_checkable
class Graph(Protocol):
    """What the stages ask of a graph; :class:`rag_transformers.MemoryGraph` fulfils it."""

    def upsert_vertex(self, vertex: Vertex) -> None:
        """Insert a vertex, or merge it into the one that has its key."""

    def upsert_edge(self, edge: Edge) -> None:
        """Insert an edge, or merge it into the one that has its key; missing ends get a vertex."""

    def get_vertex(self, name: str) -> Vertex | None:
        """The vertex of that name in any spelling, or None."""

    def vertices(self) -> Iterator[Vertex]:
        """All vertices, in the order of their insertion."""

    def edges(self) -> Iterator[Edge]:
        """All edges, in the order of their insertion."""

    def get_neighbor_edges(
        self, name: str, direction: Direction = Direction.OUT, limit: int | None = None
    ) -> Iterator[Edge]:
        """The edges of one vertex, in the order of their insertion."""


def _weight(weight: Any) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
        raise UsageError(f"a weight in Extraction.weights is {weight!r}; it must be a number of at least 0")
    return float(weight)


def _named(what: str, name: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"{what} is {name!r}; give a name that is not empty")
    return name


def _descriptions(props: dict[str, Any]) -> tuple[str, ...]:
    found = props.get("descriptions")
    if found is None:
        found = (props["description"],) if props.get("description") else ()
    return tuple(found)


def _rows(what: str, rows: Iterable[Any], columns: tuple[str, ...], required: set[int]) -> tuple[Any, ...]:
    frozen = []
    for number, row in enumerate(rows):
        fields = (row,) if isinstance(row, str) else tuple(row)
        if len(fields) != len(columns) or not all(isinstance(field, str) for field in fields):
            raise UsageError(f"Extraction.{what}[{number}] is {row!r}; it must be ({', '.join(columns)}), all text")
        for index in sorted(required):
            _named(f"Extraction.{what}[{number}].{columns[index]}", fields[index])
        frozen.append(fields)
    return tuple(frozen)
