"""What the tools of an agent say of an index: passages, an entity, a path, themes; in words, cited, and short."""

import itertools
import math
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from langchain_core.documents import Document

from rag_transformers.agents.cited_text import Line, cited_text, in_a_line, listed
from rag_transformers.agents.excerpts import excerpts
from rag_transformers.agents.near_names import NearNames
from rag_transformers.answers.citations import label
from rag_transformers.answers.vertex_finder import VertexFinder
from rag_transformers.concurrency import arun, run
from rag_transformers.errors import UsageError, check_count
from rag_transformers.graph import MAX_NAME_LENGTH, Edge, Vertex, name_key
from rag_transformers.retrieval.searching import Found
from rag_transformers.summaries.extractive import joined
from rag_transformers.summaries.frequent_names import holds
from rag_transformers.text import is_heading, key_terms, said_sentences, sentences, terms, unheaded

if TYPE_CHECKING:
    import igraph

    from rag_transformers.answers.querying import Answer
    from rag_transformers.index import GraphIndex
    from rag_transformers.stores import MemoryGraph

__all__ = ["Toolbox"]

_ABOUT, _BRIEFLY = 120, 30
"""Tokens of what is said of the vertex that was asked for, and of an edge."""
_THEME = 100
"""Tokens of what is said of a theme."""
_PARALLEL = 3
"""Edges that are shown of one step of a path."""
_LONGEST_TYPE = 40
_LOOKED_AT = 5
"""Chunks that are looked at for a sentence on a vertex."""
_NEAR = 5
"""Names that are told of for one that is unknown."""
_NO_DOCUMENTS = "The index holds no documents yet."
_NO_ENTITIES = "The graph holds no entities. Search the documents instead."


class _Known:
    """A graph, and what is made of it for the tools, each when it is first needed."""

    def __init__(self, graph: "MemoryGraph") -> None:
        self.graph = graph
        self.version = graph.version
        self.finder = VertexFinder(graph)
        self._near: NearNames | None = None
        self._plain: tuple[igraph.Graph, dict[str, int]] | None = None

    @property
    def near(self) -> NearNames:
        if self._near is None:
            self._near = NearNames(self.plain[1])
        return self._near

    @cached_property
    def shown(self) -> dict[str, str]:
        """The names that the tools show in another form, by the keys of this form."""
        altered = ((label(name), name) for name in self.plain[1])
        return {name_key(shown): name for shown, name in altered if shown != name}

    @property
    def plain(self) -> "tuple[igraph.Graph, dict[str, int]]":
        """The graph for igraph, and the number of each vertex there."""
        if self._plain is None:
            made = self.graph.to_igraph()
            self._plain = made, {name: number for number, name in enumerate(made.vs["name"])}
        return self._plain


class Toolbox:
    """The texts that the tools of an agent give; each within a budget of tokens, and with its sources.

    Args:
        index: The index.
        max_tokens: Tokens of one text, at least 50.

    Raises:
        UsageError: ``max_tokens`` is too small, or ``index`` is none.

    >>> import tempfile
    >>> from rag_transformers import GraphIndex
    >>> with tempfile.TemporaryDirectory() as folder, GraphIndex.open(folder) as index:
    ...     _ = index.add([Document("Ada Moss founded Grain Trust.", metadata={"source": "note.txt"})])
    ...     print(Toolbox(index).path("ada moss", "GRAIN TRUST"))
    Ada Moss and Grain Trust are 1 step apart:
    1. Ada Moss -> founded -> Grain Trust: Ada Moss founded Grain Trust. [1]
    Sources: [1] note.txt, chunk 0
    """

    def __init__(self, index: "GraphIndex", max_tokens: int = 800) -> None:
        self._index = _checked_index(index)
        self._max_tokens = check_count("max_tokens", max_tokens, 50)
        self._lock = threading.Lock()
        self._known: _Known | None = None

    def search(self, question: str, k: int = 5) -> str:
        """The passages that suit a question best.

        Args:
            question: Not empty.
            k: How many at most, at least 1.

        Raises:
            RagTransformersError: As for :meth:`GraphIndex.retrieve`.
        """
        return self._searched(*run(self._index._asker.search(question, k)))

    async def asearch(self, question: str, k: int = 5) -> str:
        """The passages that suit a question best; see :meth:`search`."""
        return self._searched(*await arun(self._index._asker.search(question, k)))

    def entity(self, name: str, limit: int = 15) -> str:
        """What the graph says of an entity, and how it is related to others; or the names that may be meant.

        Args:
            name: In any case, width and spacing.
            limit: Relations at most, at least 1.

        Raises:
            RagTransformersError: There is no index, or a wrong argument.
        """
        known, limit = self._graph(), check_count("limit", limit)
        if not len(known.graph):
            return _NO_ENTITIES
        vertex = _vertex(known, name)
        if vertex is None:
            return self._unknown(known, name, self._max_tokens)
        edges, counter = known.graph.strongest_edges(vertex.name, limit + 1), self._index.counter
        kind, head = vertex.props.get("type"), label(vertex.name)
        head = f"{head} ({label(kind, _LONGEST_TYPE)})" if isinstance(kind, str) and kind else head
        about = in_a_line(self._about(vertex), _ABOUT, counter)
        if not edges:
            related = "It is related to nothing else in the graph."
        else:
            related = f"Its {'strongest ' if len(edges) > limit else ''}relations:"
        rows = [Line(f"{head}: {about}" if about else head, vertex.chunks), Line(related)]
        return self._cited([*rows, *(self._edge(edge) for edge in edges[:limit])])

    def path(self, source: str, target: str) -> str:
        """The shortest path between two entities, each step with its relations in their true direction.

        Args:
            source: In any case, width and spacing.
            target: Likewise.

        Raises:
            RagTransformersError: There is no index, or a wrong argument.
        """
        known = self._graph()
        if not len(known.graph):
            return _NO_ENTITIES
        ends = [(name, _vertex(known, name)) for name in (source, target)]
        if lacking := [name for name, vertex in ends if vertex is None]:
            return "\n".join(self._unknown(known, name, self._max_tokens // len(lacking)) for name in lacking)
        names = [vertex.name for _, vertex in ends if vertex is not None]
        first, last = map(label, names)
        if names[0] == names[1]:
            return f"Both names mean the same entity: {first}. Give two different ones."
        names = _shortest(known, *names)
        if not names:
            return (
                f"No chain of relations joins {first} and {last}. "
                "Look up each of them, or search the documents for both names."
            )
        count = len(names) - 1
        rows = [Line(f"{first} and {last} are {count} {'step' if count == 1 else 'steps'} apart:")]
        for number, (one, other) in enumerate(itertools.pairwise(names), 1):
            edges = [self._edge(edge, f"{number}. ") for edge in _between(known.graph, one, other)]
            rows += edges
        return self._cited(rows)

    def themes(self, limit: int = 8) -> str:
        """What the documents as a whole are about: titles and summaries of the reports on the largest communities.

        Args:
            limit: How many at most, at least 1.

        Raises:
            RagTransformersError: There is no index, or a wrong argument.
        """
        limit = check_count("limit", limit)
        reports = [report for report in self._index.reports if report.level == 0]
        if not reports:
            return "There are no themes: the index holds no graph. Search the documents instead."
        best = sorted(reports, key=lambda report: (-report.rating, -len(report.vertices), report.community))
        counter = self._index.counter
        told = [
            (in_a_line(report.title, 30, counter), in_a_line(_plain(report.summary), _THEME, counter))
            for report in best[:limit]
        ]
        rows = [Line(f"{at + 1}. {title}: {said}", best[at].chunks) for at, (title, said) in enumerate(told)]
        return self._cited([Line(f"{len(reports)} themes, the most important first:"), *rows], "themes")

    def answer(self, question: str, mode: str = "auto") -> str:
        """The answer of the index itself, with its sources; see :meth:`GraphIndex.query`."""
        return _told(self._index.query(question, mode))

    async def aanswer(self, question: str, mode: str = "auto") -> str:
        """The answer of the index itself; see :meth:`answer`."""
        return _told(await self._index.aquery(question, mode))

    def _searched(self, found: Found, related: bool) -> str:
        if not found.passages:
            lacking = "There is no text in the documents of the index." if self._index.sources() else _NO_DOCUMENTS
            return f"{lacking} Say so, or answer without it."
        front = "" if related else "Nothing in the documents clearly speaks to this. The nearest passages:\n"
        counter = self._index.counter
        room = self._max_tokens - counter(front)
        text, _ = excerpts(found.passages, found.evidence, budget=room, counter=counter)
        return front + text

    def _about(self, vertex: Vertex) -> str:
        """What is said of a vertex; where that is a heading alone, the first sentence of its chunks that names it."""
        said = sentences(vertex.summary)
        if not said or not all(map(is_heading, said)):
            return _plain(vertex.summary)
        named = holds(vertex.name)
        for chunk in self._chunks(vertex.chunks[:_LOOKED_AT]).values():
            if found := next((s for s in sentences(chunk.page_content) if named(s) and not is_heading(s)), ""):
                return found
        return _plain(vertex.summary)

    def _edge(self, edge: Edge, front: str = "- ") -> Line:
        about = in_a_line(_plain(edge.summary), _BRIEFLY, self._index.counter)
        way = front + " -> ".join(map(label, (edge.source, edge.name, edge.target)))
        return Line(f"{way}: {about}" if about else way, edge.chunks)

    def _unknown(self, known: _Known, name: str, room: int) -> str:
        """That there is no such vertex, and which may be meant, as far as there is room."""
        asked = name[:MAX_NAME_LENGTH]
        near = list(dict.fromkeys(map(label, [*known.finder.named(asked), *known.near.of(asked, _NEAR)])))
        lacking = f"No entity is called {label(name)!r}"
        for count in range(min(len(near), _NEAR), 0, -1):
            names = ", ".join(near[:count])
            said = f"{lacking}. The nearest names: {names}. Use one of them, or search the documents."
            if count == 1 or self._index.counter(said) <= room:
                return said
        return f"{lacking}, nor anything like it. Search the documents for it instead."

    def _cited(self, rows: Sequence[Line], what: str = "lines") -> str:
        return cited_text(rows, self._chunks, budget=self._max_tokens, counter=self._index.counter, what=what)

    def _chunks(self, ids: Sequence[str]) -> Mapping[str, Document]:
        return {str(chunk.id): chunk for chunk in self._index.chunks(ids)} if ids else {}

    def _graph(self) -> _Known:
        graph = self._index.graph
        with self._lock:
            if self._known is None or self._known.graph is not graph or self._known.version != graph.version:
                self._known = _Known(graph)
            return self._known


def _vertex(known: _Known, name: str) -> Vertex | None:
    """The vertex of a name, or the only one whose name holds all that is said."""
    if not isinstance(name, str) or not name.strip():
        raise UsageError("the name of the entity is empty; give a name")
    found = known.graph.get_vertex(name) or known.graph.get_vertex(known.shown.get(name_key(label(name)), ""))
    if found is not None:
        return found
    asked = name[:MAX_NAME_LENGTH]
    named = known.finder.named(asked)
    if len(named) == 1 and set(key_terms(name)) <= set(terms(named[0])):  # "the Moss" is Ada Moss, "Ada Vale" is not
        return known.graph.get_vertex(named[0])
    return None


def _plain(text: str) -> str:
    """A text without the headings in it, where it says anything else."""
    said, whole = said_sentences([text]), sentences(text)
    return joined(said) if len(said) < len(set(whole)) else unheaded(text)


def _shortest(known: _Known, first: str, last: str) -> list[str]:
    """The names on the shortest path, whichever way its edges point; none where there is no path."""
    plain, numbers = known.plain
    ends = numbers[first], numbers[last]
    if math.isinf(plain.distances(ends[0], ends[1], mode="all")[0][0]):
        return []
    (path,) = plain.get_shortest_paths(ends[0], ends[1], mode="all", output="vpath")
    return [plain.vs[number]["name"] for number in path]


def _between(graph: "MemoryGraph", one: str, other: str) -> list[Edge]:
    """The strongest edges between two neighbours, both directions."""
    ends = {name_key(one), name_key(other)}
    edges = graph.strongest_edges(one, _PARALLEL, [other])
    return [edge for edge in edges if {edge.key[0], edge.key[2]} == ends]


def _told(answer: "Answer") -> str:
    return f"{answer.text}\n{listed(answer.citations)}" if answer.citations else answer.text


def _checked_index(index: object) -> "GraphIndex":
    from rag_transformers.index import GraphIndex

    if isinstance(index, GraphIndex):
        return index
    if isinstance(index, str | os.PathLike):
        raise UsageError(f"index is the path {os.fspath(index)!r}; open it first, with GraphIndex.open, and give that")
    raise UsageError(f"index is {label(repr(index))}; give an index, as GraphIndex.open gives it")
