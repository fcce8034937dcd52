"""Where the pieces that a source extracted from lie in its documents: the chunks of the imported index."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from langchain_core.documents import Document

from rag_transformers.chunking import Chunker
from rag_transformers.imports.tables import Tables, TextRow, UnitRow

__all__ = ["Layout", "SourceChunker", "lay_out"]

Spans = tuple[tuple[int, int], ...]


class SourceChunker(Chunker):
    """Cuts each document as its source cut it; a document that is not the source's, as :class:`Chunker` does.

    Args:
        spans: The (start, end) of each chunk, by the text of the document.
    """

    def __init__(self, spans: Mapping[str, Spans]) -> None:
        super().__init__()
        self._spans = spans

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The (start, end) of each chunk of a text, in characters."""
        known = self._spans.get(text)
        return super().spans(text) if known is None else list(known)


class Layout(NamedTuple):
    """The documents of a source and their chunks.

    Args:
        documents: Those that hold text.
        chunker: Cuts them.
        texts: The text of the chunk that a unit became, by the unit's id.
        rebuilt: How many documents were put together from their pieces, for the source does not keep them as they were.
    """

    documents: tuple[Document, ...]
    chunker: SourceChunker
    texts: dict[str, str]
    rebuilt: int


def lay_out(tables: Tables) -> Layout:
    """Find the pieces in the documents; where one is not found, the document is put together from its pieces."""
    pieces: dict[str, list[UnitRow]] = {}
    for unit in tables.units:
        pieces.setdefault(unit.document, []).append(unit)
    spans: dict[str, Spans] = {}
    texts: dict[str, str] = {}
    documents, rebuilt, sources = [], 0, Counter(row.title for row in tables.documents)
    for row in tables.documents:
        units = pieces.get(row.id, [])
        if not units:
            continue
        text, found = row.text or "", _find(row.text or "", units)
        if found is None:
            rebuilt += 1
            text, found = _join(units)
        found = spans.setdefault(text, found)
        texts |= {unit.id: text[start:end] for unit, (start, end) in zip(units, found, strict=False)}
        source = row.title if sources[row.title] == 1 else f"{row.title}#{row.id}"
        documents.append(_document(row, text, source, tables.kind, found))
    return Layout(tuple(documents), SourceChunker(spans), texts, rebuilt)


def _document(row: TextRow, text: str, source: str, kind: str, spans: Spans) -> Document:
    # Part of what a document is known by: cut otherwise, it is another one to the index.
    mark = hashlib.blake2b(json.dumps(spans).encode(), digest_size=6).hexdigest()
    return Document(text, metadata={**row.metadata, "source": source, "imported": f"{kind} {mark}"})


def _find(text: str, units: Sequence[UnitRow]) -> Spans | None:
    """The spans of the pieces in a text, one after the other, if they cover all of it but white space."""
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    for unit in units:
        start = text.find(unit.text, position)
        gap = text[max(ends, default=0) : start]
        if start < 0 or gap.strip():
            return None
        starts.append(start)
        ends.append(start + len(unit.text))
        position = start + 1
    if text[max(ends, default=0) :].strip():
        return None
    return _covering(starts, ends, len(text))


def _covering(starts: Sequence[int], ends: Sequence[int], length: int) -> Spans:
    """Spans without gaps: white space between two belongs to the one before, as everywhere in an index."""
    first = [0, *starts[1:]]
    return tuple(
        (start, max(end, following)) for start, end, following in zip(first, ends, (*starts[1:], length), strict=True)
    )


def _join(units: Iterable[UnitRow]) -> tuple[str, Spans]:
    """Pieces as one text: what one begins with and the one before ends with stands there once."""
    text, starts, ends = "", [], []
    for unit in units:
        overlap = _overlap(text, unit.text)
        if text and not overlap and not text[-1].isspace():
            text += "\n"
        starts.append(len(text) - overlap)
        text += unit.text[overlap:]
        ends.append(starts[-1] + len(unit.text))
    return text, _covering(starts, ends, len(text))


def _overlap(before: str, after: str) -> int:
    """How many characters the end of a text and the start of the next share, found in one pass over both."""
    tail = before[-len(after) + 1 :] if len(after) > 1 else ""
    # Knuth, Morris, Pratt: the border of "after, a mark, the tail" is what the two share.
    joined = [*after, None, *tail]
    borders = [0] * len(joined)
    for place in range(1, len(joined)):
        length = borders[place - 1]
        while length and joined[place] != joined[length]:
            length = borders[length - 1]
        borders[place] = length + (joined[place] == joined[length])
    return borders[-1]
