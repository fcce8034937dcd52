"""How one vertex and one edge are kept in memory: lean, and growing only where something new was said."""

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rag_transformers.errors import UsageError
from rag_transformers.graph import Edge, Vertex

__all__ = ["UNHELD", "EdgeRecord", "Facts", "VertexRecord", "check_weight", "facts_of"]

# An ordered set of texts. Most vertices and edges have one description and one chunk, and a bare str needs no
# container: a list each would cost 150 MB more for a million edges.
Kept = None | str | dict[str, None]


class Facts(NamedTuple):
    """What one upsert says.

    Args:
        descriptions: Without blanks.
        chunks: Ids of the chunks behind it.
        weight: The weight that these chunks give, or the weight given by each; None for none.
        props: All else that is not blank.
        lacking: Those of the chunks whose text does not hold the name, or both names.
    """

    descriptions: Sequence[str] = ()
    chunks: Sequence[str] = ()
    weight: float | dict[str, float] | None = None
    props: dict[str, Any] | None = None
    lacking: Sequence[str] = ()


_NOTHING = Facts()

UNHELD = "unheld"
"""The prop of what rests only on chunks that do not hold its name."""


def facts_of(thing: Vertex | Edge) -> Facts:
    """The props of a vertex or edge, read and checked.

    Raises:
        UsageError: ``descriptions`` or ``chunks`` is no list of str, or ``weight`` is no number from 0.
    """
    props = thing.props
    if not props:
        return _NOTHING
    texts: Sequence[str] = ()
    chunks: Sequence[str] = ()
    weight, others, is_unheld = None, None, False
    for name, value in props.items():
        if value is None:
            continue
        if name == "description":
            texts = texts or _texts(name, (value,))
        elif name == "descriptions":
            texts = _texts(name, value) or texts
        elif name == "chunks":
            chunks = _texts(name, value)
        elif name == UNHELD:
            is_unheld = bool(value)
        elif name == "weight" and isinstance(thing, Edge):
            weight = check_weight(value)
        elif not _blank(value):
            others = {**(others or {}), name: value}
    return Facts(texts, chunks, weight, others, chunks if is_unheld else ())


def check_weight(weight: Any) -> float | None:
    """A weight as it was given; None stays.

    Raises:
        UsageError: It is no finite number from 0.
    """
    if weight is None:
        return None
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
        raise UsageError(f"weight is {weight!r}; give a finite number from 0")
    return float(weight)


class _Frozen(NamedTuple):
    """The content of a record at one moment."""

    names: tuple[str, ...]
    descriptions: Kept
    chunks: Kept
    props: dict[str, Any] | None
    unheld: bool
    weight: float | None = None

    def thaw(self) -> dict[str, Any]:
        """The props for a Vertex or an Edge, shared with nobody."""
        found: dict[str, Any] = {}
        texts = _listed(self.descriptions)
        if texts:
            found["description"] = "\n".join(texts)
        if len(texts) > 1:
            found["descriptions"] = list(texts)
        if self.chunks:
            found["chunks"] = list(_listed(self.chunks))
        if self.weight is not None:
            found["weight"] = self.weight
        if self.unheld:
            found[UNHELD] = True
        return found if self.props is None else {**found, **copy.deepcopy(self.props)}


class _Record:
    __slots__ = ("chunks", "descriptions", "lacking", "name", "props")

    def __init__(self, name: str) -> None:
        self.name = name
        self.descriptions: Kept = None
        self.chunks: Kept = None
        self.lacking: Kept = None
        self.props: dict[str, Any] | None = None

    @property
    def unheld(self) -> bool:
        """Whether there are chunks that speak of it, and none of them holds its name, or both names."""
        if self.lacking is None:
            return False
        lacking = (self.lacking,) if isinstance(self.lacking, str) else self.lacking
        return len(lacking) >= _count(self.chunks) and all(chunk in lacking for chunk in _listed(self.chunks))

    def lack(self, chunks: Sequence[str]) -> bool:
        """Note chunks that speak of it and do not hold its name; say whether any is new."""
        changed = False
        for chunk in chunks:
            if (grown := _with(self.lacking, chunk)) is not None:
                self.lacking, changed = grown, True
        return changed

    def take_over(self, other: "_Record") -> None:
        """Hold what another one holds."""
        self.descriptions, self.chunks = _copied(other.descriptions), _copied(other.chunks)
        self.lacking, self.props = _copied(other.lacking), other.props  # props are replaced, and never changed

    def absorb(self, facts: Facts) -> bool:
        """Add what is new, and say whether anything was."""
        changed = self.witness(facts.chunks)
        if facts.lacking:
            changed |= self.lack(facts.lacking)
        for text in facts.descriptions:
            if (grown := _with(self.descriptions, text)) is not None:
                self.descriptions, changed = grown, True
        if facts.props:
            for name, value in facts.props.items():
                if self.props is None or self.props.get(name) != value:
                    self.props, changed = {**(self.props or {}), name: copy.deepcopy(value)}, True
        return changed

    def description_count(self) -> int:
        """How many different descriptions it has."""
        return _count(self.descriptions)

    def said_in(self) -> Sequence[str]:
        """The ids of the chunks that it comes from."""
        return _listed(self.chunks)

    def witness(self, chunks: Sequence[str]) -> bool:
        """Add the chunks that are new, and say whether any was."""
        changed = False
        for chunk in chunks:
            if (grown := _with(self.chunks, chunk)) is not None:
                self.chunks, changed = grown, True
        return changed


class _Spelling:
    __slots__ = ("chunks", "uses")

    def __init__(self, chunks: Kept = None, uses: int = 0) -> None:
        self.chunks = chunks
        self.uses = uses

    def rank(self) -> tuple[int, int]:
        return _count(self.chunks), self.uses


class VertexRecord(_Record):
    """One vertex: its key, the name that is shown, what was said of it, and how it was spelled.

    The name shown is the spelling found in most chunks; uses without a chunk only decide between equals, and the first
    spelling wins a tie. While there is one spelling, its chunks are those of the vertex and nothing is kept of it but
    the number of uses without a chunk.
    """

    __slots__ = ("key", "leaving", "reaching", "spellings", "uses")

    def __init__(self, key: str, name: str) -> None:
        super().__init__(name)
        self.key = key
        self.uses = 0
        self.spellings: dict[str, _Spelling] | None = None
        self.leaving: list[EdgeRecord] = []
        self.reaching: list[EdgeRecord] = []

    def mention(self, name: str, chunks: Sequence[str], uses: int) -> bool:
        """Count uses of a spelling and add their chunks; say whether anything that is shown changed."""
        if self.spellings is None and name == self.name:
            self.uses += uses
            return self.witness(chunks)
        spellings = self._split()
        spelling = spellings.setdefault(name, _Spelling())
        spelling.uses += uses
        for chunk in chunks:
            spelling.chunks = _with(spelling.chunks, chunk) or spelling.chunks
        before, self.name = self.name, max(spellings, key=lambda each: spellings[each].rank())
        return self.witness(chunks) or before != self.name

    def spelled(self) -> list[tuple[str, Sequence[str], int]]:
        """Each spelling in the order of first use, with its chunks and the number of its uses without one."""
        if self.spellings is None:
            return [(self.name, _listed(self.chunks), self.uses)]
        return [(name, _listed(each.chunks), each.uses) for name, each in self.spellings.items()]

    def take(self, other: "VertexRecord") -> bool:
        """Merge another record; say whether anything that is shown changed."""
        spelled = other.spelled()
        if [name for name, _, _ in spelled] != [self.name]:
            self._split()
        changed = self.absorb(other.said())
        for name, chunks, uses in spelled:
            changed |= self.mention(name, chunks, uses)
        return changed

    def copy(self) -> "VertexRecord":
        """The same without its edges."""
        twin = VertexRecord(self.key, self.name)
        twin.take_over(self)
        twin.uses = self.uses
        if self.spellings is not None:
            twin.spellings = {name: _Spelling(_copied(e.chunks), e.uses) for name, e in self.spellings.items()}
        return twin

    def said(self) -> Facts:
        """All that is kept but the spellings, as one upsert."""
        return Facts(_listed(self.descriptions), _listed(self.chunks), props=self.props, lacking=_listed(self.lacking))

    def freeze(self) -> _Frozen:
        """The content as it is now."""
        return _Frozen((self.name,), _copied(self.descriptions), _copied(self.chunks), self.props, self.unheld)

    def _split(self) -> dict[str, _Spelling]:
        if self.spellings is None:
            self.spellings = {self.name: _Spelling(_copied(self.chunks), self.uses)}
        return self.spellings


class EdgeRecord(_Record):
    """One edge: its two ends, the key and name of its relation, its place in the order, and what was said of it."""

    __slots__ = ("order", "relation", "source", "target", "weights")

    def __init__(self, source: VertexRecord, target: VertexRecord, relation: str, name: str, order: int) -> None:
        super().__init__(name)
        self.source = source
        self.target = target
        self.relation = relation
        self.order = order
        self.weights: dict[str, float] | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """(source, relation, target) as keys."""
        return self.source.key, self.relation, self.target.key

    def absorb(self, facts: Facts) -> bool:
        """Add what is new, and say whether anything was."""
        if facts.weight is None and self.weights is None:
            return super().absorb(facts)
        before = self.weight()
        changed = super().absorb(facts)
        if isinstance(facts.weight, dict):
            mine = self.weights or {}
            self.weights = {**mine, **{c: w for c, w in facts.weight.items() if w > mine.get(c, -1.0)}}
        elif facts.weight is not None:
            self._weigh(facts.weight, facts.chunks)
        return changed or self.weight() != before

    def weight(self) -> float | None:
        """The sum over chunks of the weights given, 1 for a chunk that gave none; None if no weight was ever given."""
        if self.weights is None:
            return None
        return sum(self.weights.values()) + sum(chunk not in self.weights for chunk in _listed(self.chunks))

    def strength(self) -> float:
        """What it counts for, as :attr:`rag_transformers.graph.Edge.weight`."""
        given = self.weight()
        return float(len(self.chunks) if isinstance(self.chunks, dict) else 1) if given is None else given

    def copy(self, source: VertexRecord, target: VertexRecord) -> "EdgeRecord":
        """The same between two copies of its ends."""
        twin = EdgeRecord(source, target, self.relation, self.name, self.order)
        twin.take_over(self)
        twin.weights = None if self.weights is None else dict(self.weights)
        return twin

    def said(self) -> Facts:
        """All that is kept, as one upsert."""
        return Facts(_listed(self.descriptions), _listed(self.chunks), self.weights, self.props, _listed(self.lacking))

    def freeze(self) -> _Frozen:
        """The content as it is now."""
        names = self.source.name, self.target.name, self.name
        return _Frozen(names, _copied(self.descriptions), _copied(self.chunks), self.props, self.unheld, self.weight())

    def _weigh(self, weight: float, chunks: Sequence[str]) -> None:
        # A weight belongs to its chunks: the same chunk read twice counts once, another one adds to it. A weight
        # without a chunk is that of all that is known, and replaces it.
        if not chunks:
            self.weights = {**dict.fromkeys(_listed(self.chunks), 0.0), "": weight}
            return
        weights = self.weights or {}
        rest = weight - sum(weights.get(chunk, 0.0) for chunk in chunks)
        fresh = [chunk for chunk in chunks if chunk not in weights]
        self.weights = {**weights, **dict.fromkeys(fresh, 0.0)}
        if rest > 0:
            self.weights[(fresh or chunks)[0]] += rest


def _count(kept: Kept) -> int:
    return len(kept) if isinstance(kept, dict) else int(kept is not None)


def _listed(kept: Kept) -> tuple[str, ...]:
    return () if kept is None else (kept,) if isinstance(kept, str) else tuple(kept)


def _with(kept: Kept, text: str) -> Kept:
    """The set with a text more, or None if it holds it."""
    if kept is None:
        return text
    if isinstance(kept, str):
        return None if kept == text else {kept: None, text: None}
    if text in kept:
        return None
    kept[text] = None
    return kept


def _copied(kept: Kept) -> Kept:
    return dict(kept) if isinstance(kept, dict) else kept


def _texts(what: str, texts: Any) -> Sequence[str]:
    if not isinstance(texts, list | tuple):
        raise UsageError(f"{what} is {texts!r}; give a list of str")
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"{what} holds {text!r}; give str")
        if stripped := text.strip():
            found.append(stripped)
    return found


def _blank(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else isinstance(value, list | tuple | dict) and not value
