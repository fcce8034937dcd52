r"""Reply of a model <-> records: every whole record is kept, none is invented, and what was skipped is said.

    Entities:
    (name#summary)

    Relationships:
    (source#relation#target#summary)

Pure functions: no model, no store, linear in the reply's length. They raise on no text whatever.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rag_transformers.graph import Extraction
from rag_transformers.records.items import JsonItem
from rag_transformers.records.json_records import CUT_OFF, find_items, starts_as_json
from rag_transformers.records.marks import find_records, row_of
from rag_transformers.records.text import Section, clean_field, visible, without_reasoning
from rag_transformers.records.words import example_rows, holds_names, is_no_data
from rag_transformers.records.written import as_record, is_chiefly_records

__all__ = [
    "Records",
    "Rejected",
    "Status",
    "format_records",
    "is_records_text",
    "parse_json_records",
    "parse_records",
    "records_in",
    "without_reasoning",
]

Status = Literal["ok", "partial", "empty", "format_error"]
"""``partial``: the reply was cut, or a record dropped; ``format_error``: it is JSON of which nothing could be read."""


class Rejected(NamedTuple):
    """A record that was dropped: the line of the reply where it starts, from 1, its text, and why."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True)
class Records:
    """What a reply holds.

    Args:
        entities: (name, summary) each, in order of first appearance; a summary may be empty.
        relationships: (source, relation, target, summary) each.
        status: ``ok``; ``partial``, when it was cut or a record was dropped; ``empty``, when nothing was found;
            ``format_error``, when it is JSON of which nothing could be read.
        skipped: How many records were dropped. Repeats, placeholders and prose are none.
        rejected: Those, with line and reason.
        types: The type of each entity, or "" (from JSON only); empty when none was given.
        weights: The weight of each relationship (from JSON only); empty when none was given.
    """

    entities: tuple[tuple[str, str], ...] = ()
    relationships: tuple[tuple[str, str, str, str], ...] = ()
    status: Status = "empty"
    skipped: int = 0
    rejected: tuple[Rejected, ...] = ()
    types: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()

    def extraction(self) -> Extraction:
        """The records as an extraction.

        >>> parse_records("Entities: (Ada Moss#Founder)").extraction().entities
        (('Ada Moss', 'Founder'),)
        """
        return Extraction(self.entities, self.relationships, self.types, self.weights)


def parse_records(reply: str | None, *, finish_reason: str | None = None, source: str | None = None) -> Records:
    r"""The records of a reply in the ``#`` format, however it is decorated or damaged; of one in JSON too.

    Args:
        reply: The text of the model; None is an empty one.
        finish_reason: Why the model stopped; ``length`` means that the reply was cut.
        source: The chunk that was read. With it, records that repeat the example of this library's own prompt are
            dropped where the chunk does not hold their names.

    >>> reply = "**Entities:**\n1. (**Ada Moss**#Founder)\n关系：\n（Ada Moss＃founded＃Grain Trust＃In 1998）\n(Ada M"
    >>> records = parse_records(reply, finish_reason="length")
    >>> records.entities, records.relationships
    ((('Ada Moss', 'Founder'),), (('Ada Moss', 'founded', 'Grain Trust', 'In 1998'),))
    >>> records.status, records.rejected
    ('partial', (Rejected(line=5, text='Ada M', reason='cut off at the end of the reply'),))
    """
    return _parse(reply, finish_reason, source, json_first=False)


def parse_json_records(reply: str | None, *, finish_reason: str | None = None, source: str | None = None) -> Records:
    r"""The records of a reply in JSON, read item by item; of one in the ``#`` format too.

    An entity has the keys ``entity_name``, ``entity_type`` and ``entity_description``, a relationship
    ``source_entity``, ``target_entity``, ``relation`` and ``relationship_description``, or usual other names for
    them. Fences, chatter, trailing commas and quotes inside quotes are read over; of a reply that was cut, each whole
    item is kept, and nothing of the last one.

    Args:
        reply: The text of the model; None is an empty one.
        finish_reason: Why the model stopped; ``length`` means that the reply was cut.
        source: The chunk that was read, as for :func:`parse_records`.

    The format is that of LlamaIndex's GraphRAG cookbook.

    >>> reply = '{"entities": [{"entity_name": "Ada Moss", "entity_type": "Person",}, {"entity_name": "Gra'
    >>> records = parse_json_records(reply)
    >>> records.entities, records.types, records.status, records.skipped
    ((('Ada Moss', ''),), ('Person',), 'partial', 1)
    """
    return _parse(reply, finish_reason, source, json_first=True)


def format_records(extraction: Extraction) -> str:
    r"""An extraction in the ``#`` format; the reverse of :func:`parse_records`.

    ``parse_records(format_records(x)).extraction() == x`` for every extraction without types and weights that can be
    written. In all fields ``#``, ``:`` and line breaks become ``_``, as the prompt asks for. Cannot be written, since
    no reply could hold them: fields with white space at their ends or marks that cannot be seen, tabs, relationships
    without a relation, rows that stand twice, names that are placeholders or say "none". Where brackets without
    partner would break a record, they become ``_`` too.

    Args:
        extraction: What an extractor returned; its types and weights are left out.

    >>> found = Extraction([("C#", "See: (1)"), ("D", "")], [("D", "derives from", "C#", "")])
    >>> print(format_records(found))
    Entities:
    (C_#See_ (1))
    (D#)
    <BLANKLINE>
    Relationships:
    (D#derives from#C_#)
    """
    entities = [as_record("entities", row) for row in extraction.entities]
    relationships = [as_record("relationships", row) for row in extraction.relationships]
    return "\n".join(["Entities:", *entities, "", "Relationships:", *relationships])


def is_records_text(text: str) -> bool:
    r"""Whether a text already is a graph, so that it can be read directly; see :func:`records_in`.

    >>> is_records_text("Entities:\n(Ada Moss#Founder)\n(Grain Trust#)")
    True
    >>> is_records_text("The tower (see plan #4) leans.")
    False
    """
    return records_in(text) is not None


def records_in(text: str) -> Records | None:
    r"""The records of a text that already is a graph: chiefly lines in the record format, under known headings.

    Without a heading, as in the later parts of a long list, every line must be a relationship of four fields.

    Args:
        text: A document or a chunk, not a reply.

    Returns:
        The records, with names unchanged; None for any other text, and where a record cannot be read as a whole.

    >>> records_in("# Mills\nEntities:\n(Fen Mill#mill)\n(Fen#village)").entities
    (('Fen Mill', 'mill'), ('Fen', 'village'))
    """
    if not any(mark in text for mark in "#＃") or not is_chiefly_records(text):
        return None
    records = parse_records(text)
    return records if records.status == "ok" else None


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_CUT_REASONS = frozenset(("length", "max_tokens", "max_output_tokens", "model_length"))
_JOINERS = "\u200c\u200d"
_COLUMNS = {2: ("name",), 4: ("source", "relation", "target")}


def _parse(reply: str | None, finish_reason: str | None, source: str | None, *, json_first: bool) -> Records:
    """Read a reply in the first of the two formats that gives a record."""
    text = visible(reply or "")
    cut = (finish_reason or "").lower() in _CUT_REASONS
    readers = (_read_json, _read_marks) if json_first or starts_as_json(text) else (_read_marks, _read_json)
    tried = []
    for reader in readers:
        collected = _Collected(source, cut)
        reader(text, collected)
        records = collected.records()
        if records.entities or records.relationships:
            return records
        tried.append(records)
    return max(tried, key=lambda records: (records.skipped > 0, records.status == "format_error"))


@dataclass
class _Collected:
    """What was read so far."""

    source: str | None
    cut: bool
    foreign: bool = False
    entities: dict[tuple[str, ...], str] = field(default_factory=dict)
    relationships: dict[tuple[str, ...], float | None] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)

    def reject(self, line: int, text: str, reason: str) -> None:
        self.rejected.append(Rejected(line, text, reason))

    def keep(self, row: tuple[str, ...], kind: str = "", weight: float | None = None) -> None:
        if self.source is not None and row in example_rows() and not holds_names(self.source, row):
            return
        if len(row) == 2:
            self.entities[row] = self.entities.get(row) or kind
        elif self.relationships.get(row) is None:
            self.relationships[row] = weight

    def records(self) -> Records:
        status: Status = "partial" if self.rejected or self.cut else "ok"
        if not (self.entities or self.relationships):
            status = "format_error" if self.foreign else "empty"
        types, weights = tuple(self.entities.values()), tuple(self.relationships.values())
        return Records(
            tuple((name, summary) for name, summary in self.entities),
            tuple((source, relation, target, summary) for source, relation, target, summary in self.relationships),
            status,
            len(self.rejected),
            tuple(self.rejected),
            types if any(types) else (),
            () if weights.count(None) == len(weights) else tuple(1.0 if given is None else given for given in weights),
        )


def _read_marks(text: str, collected: _Collected) -> None:
    kept: set[tuple[Section | None, str]] = set()
    for found in find_records(text, cut=collected.cut):
        if (found.section, found.text) in kept and not found.cut:
            continue
        row = row_of(found)
        if is_no_data(found.text) or (found.section is None and len(row) == 1):
            continue
        fault = CUT_OFF if found.cut else _fault(row, found.section)
        collected.cut |= found.cut
        if fault:
            collected.reject(found.line, found.text, fault)
        else:
            collected.keep(row)
            kept.add((found.section, found.text))


def _fault(row: tuple[str, ...], section: Section | None) -> str:
    """Why a row is no record, or ""."""
    if section == "relationships" and len(row) < 4:
        return "fewer than three fields"
    for column, part in zip(_COLUMNS[len(row)], row, strict=False):
        if not part.strip(_JOINERS):
            return f"no {column}"
    return ""


def _read_json(text: str, collected: _Collected) -> None:
    if "{" not in text:
        return
    found = find_items(without_reasoning(text, keep_lines=True))
    collected.cut |= found.cut
    collected.foreign = found.foreign
    ids = {item.id: item.fields[0] for item in found.items if item.id}
    for item in found.items:
        _read_item(item, ids, collected)


def _read_item(item: JsonItem, ids: dict[str, str], collected: _Collected) -> None:
    fields = item.fields
    if len(fields) == 4:  # ends may be named by the ids of entities
        fields = (ids.get(fields[0], fields[0]), fields[1], ids.get(fields[2], fields[2]), fields[3])
    row = tuple(clean_field(visible(part).replace("\n", " ")) for part in fields)
    if row and is_no_data("#".join(row)):
        return
    fault = item.fault or _fault(row, item.section)
    if fault:
        collected.reject(item.line, item.text, fault)
    else:
        collected.keep(row, clean_field(visible(item.type)), item.weight)
