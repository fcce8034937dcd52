"""Text or chunks -> the vertices of a graph that they name."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rag_transformers.answers.modes import is_general
from rag_transformers.text import HAN, key_terms

if TYPE_CHECKING:
    from rag_transformers.stores import MemoryGraph

__all__ = ["VertexFinder"]

_UNIT = re.compile(rf"[{HAN}]|[^\W{HAN}][^\s{HAN},;:!?，。；：！？、（）()\"“”]*")
_LONGEST = 12
"""Words, or Chinese characters, of the longest name that is looked for."""
_SHARED = 3
"""A word that more names have than this stands for none of them."""
_WORD = re.compile(r"[A-Z\u00c0-\u00de][^\W\d_]{2,}")


class VertexFinder:
    """Finds the vertices that a question names, and those that chunks speak of.

    Args:
        graph: The graph. It is read once: make another finder when ``graph.version`` is no longer ``version``.

    >>> from rag_transformers.graph import Edge
    >>> from rag_transformers.stores import MemoryGraph
    >>> graph = MemoryGraph()
    >>> graph.upsert_edge(Edge("Ada Moss", "Grain Trust", "founded", chunks=["c1"]))
    >>> finder = VertexFinder(graph)
    >>> finder.named("What did Moss do at the Grain Trust?"), finder.of_chunks(["c1"], 1)
    (['Ada Moss', 'Grain Trust'], ['Ada Moss'])
    """

    def __init__(self, graph: "MemoryGraph") -> None:
        self.graph = graph
        self.version = graph.version
        self._by_chunk = graph.names_by_chunk()
        self._by_word: dict[str, list[str]] | None = None

    def named(self, text: str) -> list[str]:
        """The names of the vertices that a text names, in its order; of names inside others only the longer ones.

        A capitalised word stands for a longer name that alone has it. Words such as "story" or "people" name nobody.

        Args:
            text: A question.
        """
        found: dict[str, None] = {}
        units = list(_UNIT.finditer(text))
        at = 0
        while at < len(units):
            name, length = self._longest(text, units[at : at + _LONGEST])
            if name:
                found[name] = None
            else:
                found.update(dict.fromkeys(self._whole_names(units[at].group())))
            at += length
        return list(found)

    def of_chunks(self, chunks: Sequence[str], limit: int) -> list[str]:
        """The vertices that chunks speak of: first those in many and early ones, and in few others.

        Args:
            chunks: Ids, the most important first.
            limit: How many vertices at most.
        """
        weights: dict[str, float] = defaultdict(float)
        for place, chunk in enumerate(chunks):
            for name in self._by_chunk.get(chunk, ()):
                weights[name] += 1 / (1 + place)
        return sorted(weights, key=lambda name: -weights[name])[:limit]

    def _longest(self, text: str, units: Sequence[re.Match[str]]) -> tuple[str, int]:
        """The longest name that begins with these units, as it is shown, and how many of them it takes."""
        start = units[0].start()
        for count in range(len(units), 0, -1):
            said = text[start : units[count - 1].end()].rstrip(".'’-&")
            if len(said) > 1 and said in self.graph and key_terms(said) and not is_general(said):
                vertex = self.graph.get_vertex(said)
                return (vertex.name, count) if vertex else ("", 1)
        return "", 1

    def _whole_names(self, word: str) -> Iterator[str]:
        """The names that a capitalised word stands for."""
        if word[0].isupper() and (plain := _WORD.match(word)) and key_terms(word) and not is_general(word):
            names = self._words().get(plain.group().casefold(), ())
            yield from names if len(names) <= _SHARED else ()

    def _words(self) -> dict[str, list[str]]:
        """The names that each of their words stands for; one more than may share a word, where there are so many."""
        if self._by_word is None:
            found: dict[str, list[str]] = {}
            for name in dict.fromkeys(name for names in self._by_chunk.values() for name in names):
                for word in _WORD.findall(name):
                    names = found.setdefault(word.casefold(), [])
                    if len(names) <= _SHARED and name not in names:
                        names.append(name)
            self._by_word = found
        return self._by_word
