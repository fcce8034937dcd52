"""Graph -> hierarchy of communities, by Leiden on what the graph says without directions."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.utils.pydantic import create_model_v2
from pydantic import BaseModel, WithJsonSchema

from rag_transformers.errors import UsageError, check_count
from rag_transformers.graph import Edge, Graph, Tie, TiedGraph, name_key
from rag_transformers.leiden import QUALITIES, Links, hierarchy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Community", "CommunityDetector", "project"]


@dataclass(frozen=True, slots=True)
class Community:
    """Vertices that are tied more closely to each other than to the rest.

    Args:
        id: The level, and a hash of the keys of its vertices: the same vertices on the same level have the same id.
        level: 0 is the coarsest.
        parent: Id of the community one level up that holds it; None at level 0.
        children: Ids of its parts one level down, which hold each of its vertices once; none if it is not split.
        vertices: Names as shown, in the order of their keys.
    """

    id: str
    level: int
    parent: str | None
    children: tuple[str, ...]
    vertices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The community as JSON-ready data."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Community":
        """The reverse of :meth:`to_dict`, from parsed JSON too."""
        return cls(**{**data, "children": tuple(data["children"]), "vertices": tuple(data["vertices"])})


class CommunityDetector(Runnable[Graph, tuple[Community, ...]]):
    """Finds the communities of a graph, on as many levels as it has: hierarchical Leiden.

    Directions are left out and edges weighted as in :func:`project`. Level 0 parts all vertices, isolated ones too. A
    community of more than ``max_cluster_size`` vertices is parted on the next level by its own modularity, as long as
    Leiden finds parts that are better than the whole: a clique or a star stays one, whatever its size. The same graph
    and seed give the same communities in whatever order the graph was made.

    Given earlier communities as ``previous``, those are kept where the graph still bears them out, so that little that
    was written about them is out of date: what is new is placed among them, what fell apart is parted, and the rest
    changes only where its modularity grows by more than 0.03.

    While Leiden runs, igraph's random generator is replaced in this thread; afterwards it is igraph's default again.

    Args:
        max_cluster_size: Vertices of a community that is not split, at least 2.
        resolution: Above 0; more than 1 gives more and smaller communities.
        seed: Of the random choices; a whole number from 0 to 2,147,483,647.
        quality: What Leiden maximises: ``modularity``, or with leidenalg installed ``rber``, ``significance`` (both
            without regard to degrees; the latter without weights) or ``surprise``. ``resolution`` counts for the first
            two.

    Raises:
        UsageError: An argument out of its range.

    Source: V. Traag, L. Waltman, N. J. van Eck, From Louvain to Leiden (2019); levels as in Microsoft's GraphRAG.

    >>> from rag_transformers.stores import MemoryGraph
    >>> graph = MemoryGraph()
    >>> for source, target in ("ab", "bc", "ca", "cd", "de", "ef", "fd"):
    ...     graph.upsert_edge(Edge(source, target, "knows"))
    >>> [community.vertices for community in CommunityDetector().invoke(graph)]
    [('a', 'b', 'c'), ('d', 'e', 'f')]
    """

    def __init__(
        self, max_cluster_size: int = 10, resolution: float = 1.0, seed: int = 0, quality: str = "modularity"
    ) -> None:
        self.max_cluster_size = check_count("max_cluster_size", max_cluster_size, 2)
        if isinstance(resolution, bool) or not isinstance(resolution, int | float) or not 0 < resolution < math.inf:
            raise UsageError(f"resolution is {resolution!r}; it must be a finite number above 0")
        if quality not in QUALITIES:
            raise UsageError(f"quality is {quality!r}; it must be one of {', '.join(QUALITIES)}")
        self.resolution = float(resolution)
        self.seed = check_count("seed", seed, 0, 2**31 - 1)
        self.quality = quality

    def invoke(
        self,
        input: Graph,
        config: RunnableConfig | None = None,
        *,
        previous: Sequence[Community] = (),
        **kwargs: Any,
    ) -> tuple[Community, ...]:
        """The communities of a graph by level, then larger first, then by id; none of an empty graph.

        Args:
            input: The graph.
            config: For callbacks and the like.
            previous: Communities found earlier, to start from; any seed and size may have made them.
            **kwargs: Not used.

        Raises:
            UsageError: No graph, an edge of negative or endless weight, or a quality whose library is missing.
        """
        return self._call_with_config(self.detect, input, config, previous=previous)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """The schema of the input: any value, for a graph is an object with methods, which JSON cannot hold."""
        told = WithJsonSchema({"description": "A graph, such as MemoryGraph"})
        return create_model_v2(self.get_name("Input"), root=Annotated[Any, told])

    def detect(self, graph: Graph, previous: Sequence[Community] = ()) -> tuple[Community, ...]:
        """The same as :meth:`invoke`, untraced."""
        if not isinstance(graph, Graph):
            raise UsageError(f"graph is a {type(graph).__name__}; give a MemoryGraph, or another that is a Graph")
        names, links = project(graph)
        if not names:
            return ()
        keys = list(names)
        levels = hierarchy(
            links.evened(),
            max_size=self.max_cluster_size,
            resolution=self.resolution,
            quality=self.quality,
            seed=self.seed,
            stored=_stored(keys, names, previous),
        )
        return _communities(keys, list(names.values()), levels)


def project(graph: Graph) -> tuple[dict[str, str], Links]:
    """A graph without directions: each pair of vertices that an edge joins, with the weight of all its edges.

    The weight of one direction is the number of distinct chunks behind its edges, so that a chunk that says the same
    in two relations counts once; an edge with a weight of its own adds that instead, and one that has neither adds 1.
    Both directions add up. Loops and edges of weight 0 join nothing.

    Returns:
        The name shown of each key, sorted by key; and the links, whose vertices are numbered in that order.

    Raises:
        UsageError: A weight is negative or no finite number.

    >>> from rag_transformers.stores import MemoryGraph
    >>> graph = MemoryGraph()
    >>> graph.upsert_edge(Edge("Ada", "Bob", "knows", chunks=["c1", "c2"]))
    >>> graph.upsert_edge(Edge("Ada", "Bob", "pays", chunks=["c2"]))
    >>> graph.upsert_edge(Edge("Bob", "Ada", "owes", chunks=["c3"]))
    >>> names, links = project(graph)
    >>> names, links.weights.tolist()
    ({'ada': 'Ada', 'bob': 'Bob'}, [3.0])
    """
    import numpy as np

    names, ties = _tied(graph)
    numbers = {key: number for number, key in enumerate(names)}
    ways = _ways(ties, numbers)
    order = sorted(names)
    count = len(order)
    place = np.empty(count, np.int64)
    place[[numbers[key] for key in order]] = np.arange(count)
    packed = np.fromiter(ways, np.int64, len(ways))
    source, target = place[packed >> 32], place[packed & 0xFFFFFFFF]
    weights = np.fromiter(ways.values(), np.float64, len(ways))
    joined = (source != target) & (weights > 0)
    pairs = (np.minimum(source, target) * count + np.maximum(source, target))[joined]
    pairs, group = np.unique(pairs, return_inverse=True)
    sums = np.bincount(group, weights[joined], len(pairs)).astype(np.float64)
    links = Links((pairs // max(count, 1), pairs % max(count, 1)), sums, np.zeros(count, np.int64))
    return {key: names[key] for key in order}, links


def _tied(graph: Graph) -> tuple[dict[str, str], Sequence[Tie]]:
    """The names shown of a graph's vertices by their keys, those of edges' ends that are no vertices too; its ties."""
    if isinstance(graph, TiedGraph):
        return graph.names(), graph.ties()
    names: dict[str, str] = {}
    keys: dict[str, str] = {}

    def key(name: str) -> str:
        if name not in keys:
            keys[name] = name_key(name)
            names.setdefault(keys[name], name)
        return keys[name]

    for vertex in graph.vertices():
        key(vertex.name)
    return names, [Tie(key(edge.source), key(edge.target), edge.chunks, _given_weight(edge)) for edge in graph.edges()]


def _given_weight(edge: Edge) -> float | None:
    weight = edge.props.get("weight")
    if weight is not None and not 0 <= weight < math.inf:
        raise UsageError(f"the weight of {edge!r} is {weight!r}; it must be a finite number from 0")
    return None if weight is None else float(weight)


def _ways(ties: Iterable[Tie], numbers: Mapping[str, int]) -> dict[int, float]:
    """The weight of each (source, target), packed into one number."""
    behind: dict[int, Sequence[str] | set[str]] = {}
    given: dict[int, list[float]] = {}
    for source, target, chunks, weight in ties:
        way = numbers[source] << 32 | numbers[target]
        if weight is not None or not chunks:
            given.setdefault(way, []).append(1.0 if weight is None else weight)
        elif (before := behind.get(way)) is None:
            behind[way] = chunks if len(chunks) == 1 else set(chunks)
        elif isinstance(before, set):
            before.update(chunks)
        else:
            behind[way] = {*before, *chunks}
    for way, found in behind.items():
        given.setdefault(way, []).append(float(len(found)))
    # Summed exactly, so that the order of the edges does not show in the last digit.
    return {way: math.fsum(parts) for way, parts in given.items()}


def _stored(keys: list[str], names: dict[str, str], previous: Iterable[Community]) -> "list[NDArray[np.int64]]":
    import numpy as np

    place = {key: number for number, key in enumerate(keys)}
    shown = {name: key for key, name in names.items()}
    levels: list[NDArray[np.int64]] = []
    for label, community in enumerate(previous):
        while len(levels) <= community.level:
            levels.append(np.full(len(keys), -1, np.int64))
        found = (place.get(shown.get(name) or name_key(name)) for name in community.vertices)
        levels[community.level][[number for number in found if number is not None]] = label
    return levels


def _communities(keys: list[str], names: list[str], levels: "list[NDArray[np.int64]]") -> tuple[Community, ...]:
    """The communities of all levels, each tied to the one above."""
    found: list[list[tuple[str, int | None, list[int]]]] = []
    owner: dict[int, int] = {}
    for level, labels in enumerate(levels):
        members: dict[int, list[int]] = {}
        for vertex, label in enumerate(labels.tolist()):
            if label >= 0:
                members.setdefault(label, []).append(vertex)
        rows = [(_community_id(level, [keys[v] for v in each]), owner.get(each[0]), each) for each in members.values()]
        rows.sort(key=lambda row: (-len(row[2]), row[0]))
        owner = {vertex: number for number, (_, _, each) in enumerate(rows) for vertex in each}
        found.append(rows)
    children: list[dict[int, list[str]]] = [{} for _ in range(len(found) + 1)]
    for level, rows in enumerate(found):
        for id, parent, _ in rows:
            if parent is not None:
                children[level - 1].setdefault(parent, []).append(id)
    return tuple(
        Community(
            id,
            level,
            None if parent is None else found[level - 1][parent][0],
            tuple(children[level].get(number, ())),
            tuple(names[vertex] for vertex in each),
        )
        for level, rows in enumerate(found)
        for number, (id, parent, each) in enumerate(rows)
    )


def _community_id(level: int, keys: list[str]) -> str:
    text = "\n".join(keys).encode("utf-8", "surrogatepass")
    return f"{level}-{hashlib.blake2b(text, digest_size=8).hexdigest()}"
