"""Graph -> its communities and their reports, kept while what they were made from is the same."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_transformers.communities import Community, CommunityDetector, project
from rag_transformers.concurrency import drained
from rag_transformers.errors import IndexDamagedError
from rag_transformers.indexing.outcomes import Failure, Progress
from rag_transformers.models.run import Run
from rag_transformers.reports.form import Report
from rag_transformers.reports.writer import ReportWriter
from rag_transformers.stores.keys import partial_key, text_key

if TYPE_CHECKING:
    from rag_transformers.stores import MemoryGraph
    from rag_transformers.stores.made import Made
    from rag_transformers.stores.records import Current, Draft, Records

__all__ = ["Reported", "communities_of", "find_communities", "reports_of", "write_reports"]

_COMMUNITIES = "communities"
_REPORT = "report"
_PLACED = ("level", "vertices", "chunks", "rating")
"""What of a report is told by the graph as it is now, and may change while no word of it does."""


class Reported(NamedTuple):
    """The reports of all communities, also in numbers, and what could not be written with the model that was asked."""

    made: int = 0
    kept: int = 0
    failed: tuple[Failure, ...] = ()
    reports: Mapping[str, Report] = {}


def find_communities(
    draft: "Draft", made: "Made", detector: CommunityDetector, graph: "MemoryGraph", *, anew: bool = False
) -> tuple[Community, ...]:
    """The communities of the graph: the stored ones where nothing changed, else new ones that start from those.

    Args:
        draft: The next state of the records.
        made: What was made before, by key.
        detector: Finds communities.
        graph: The graph.
        anew: Whether to start from nothing, as if the index were new.
    """
    from rag_transformers.stores.records import Current

    names, links = project(graph)
    how = (detector.max_cluster_size, detector.resolution, detector.seed, detector.quality)
    arrays = (*links.ends, links.weights)
    content = text_key(repr(how), *names, *names.values(), *(array.tobytes().hex() for array in arrays))
    stored = communities_of(draft, made)
    now = draft.current(_COMMUNITIES).get("")
    if now is not None and now.content == content and not anew:
        return stored
    found = detector.detect(graph, () if anew else stored)
    value = [community.to_dict() for community in found]
    key = text_key(content, json.dumps(value, ensure_ascii=False, sort_keys=True))
    made.put_values({key: value})
    draft.put_current(_COMMUNITIES, {"": Current(content, key)})
    return found


def communities_of(records: "Records", made: "Made") -> tuple[Community, ...]:
    """The communities that hold."""
    from rag_transformers.stores.records import held

    return tuple(map(Community.from_dict, held(records, made, _COMMUNITIES).get("", ())))


def reports_of(records: "Records", made: "Made") -> dict[str, Report]:
    """The reports that hold, by the id of their community."""
    current = records.current(_REPORT)
    return _reports(made, current)


async def write_reports(
    draft: "Draft",
    made: "Made",
    writer: ReportWriter,
    graph: "MemoryGraph",
    communities: Sequence[Community],
    run: Run,
    on_progress: Callable[[Progress], None] | None = None,
    touched: Set[str] | None = None,
) -> Reported:
    """Write the reports of all communities, each stored as soon as it is written; what is unchanged is kept.

    Args:
        draft: The next state of the records.
        made: What was made before, by key.
        writer: Writes a report.
        graph: The graph.
        communities: Its communities.
        run: The limit on model calls.
        on_progress: Called as reports are written.
        touched: The names of the vertices of which the graph says anything else than when the reports were written, if
            they all were, by the same writer; None where that is not known, and every community is looked at.
    """
    current = await asyncio.to_thread(draft.current, _REPORT)
    open_ones, settled = await asyncio.to_thread(_opened, current, made, communities, touched)
    kept = _Kept(current, made)
    done: list[Report] = []
    finished: list[dict[str, Report]] = []
    async for batch in drained(_written(writer, graph, open_ones, kept, settled, run, finished.append)):
        current |= await asyncio.to_thread(_store, draft, made, batch)
        done += batch
        if on_progress:
            on_progress(Progress(_REPORT, len(done), len(open_ones), run.usage))
    await asyncio.to_thread(_settle, draft, current, finished[0], communities)
    failed = tuple(
        Failure(_REPORT, f"the report of the community {report.title!r}", report.failed)
        for report in finished[0].values()
        if report.failed is not None
    )
    return Reported(len(done) - len(failed), len(communities) - len(done), failed, finished[0])


def _opened(
    current: Mapping[str, "Current"], made: "Made", communities: Sequence[Community], touched: Set[str] | None
) -> tuple[Sequence[Community], dict[str, Report]]:
    """The communities to be looked at, and the reports of those of their parts that are not."""
    if touched is None:
        return communities, {}
    opened: dict[str, Community] = {}
    for community in sorted(communities, key=lambda each: -each.level):  # parts before the whole
        is_same = community.id in current and touched.isdisjoint(community.vertices)
        if not is_same or any(child in opened for child in community.children):
            opened[community.id] = community
    parts = {child for community in opened.values() for child in community.children if child not in opened}
    return [each for each in communities if each.id in opened], _reports(made, {id: current[id] for id in parts})


def _reports(made: "Made", current: Mapping[str, "Current"]) -> dict[str, Report]:
    values = made.values({now.key: None for now in current.values()})
    if lacking := [item for item, now in current.items() if now.key not in values]:
        from rag_transformers.stores.sql import way_out

        raise IndexDamagedError(f"{made.name} lacks the report of the community {lacking[0]}; {way_out(made.name)}")
    return {
        item: Report.from_dict(
            {
                **values[now.key],
                **{name: now.placed[name] for name in _PLACED},
                "community": item,
                "content": now.content,
            }
        )
        for item, now in current.items()
    }


class _Kept(Mapping[str, Report]):
    """Reports by key; those that a model wrote and that hold now are listed, and every other is found too."""

    def __init__(self, current: Mapping[str, "Current"], made: "Made") -> None:
        self._made = made
        final = (now for now in current.values() if now.placed["final"] and not now.placed["offline"])
        self._listed = {now.key: now.content for now in final}

    def __getitem__(self, key: str) -> Report:
        report = Report.from_dict(self._made.values([key])[key])
        return replace(report, content=self._listed.get(key, report.content))

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


async def _written(
    writer: ReportWriter,
    graph: "MemoryGraph",
    communities: Sequence[Community],
    kept: Mapping[str, Report],
    settled: Mapping[str, Report],
    run: Run,
    finish: Callable[[dict[str, Report]], Any],
) -> AsyncIterator[Report]:
    """The reports that are written anew, as they come; in the end all are given to ``finish``."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def put(report: Report | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, report)

    config: Any = {"max_concurrency": run.concurrency}
    writing = asyncio.ensure_future(writer.awrite_all(graph, communities, kept, config, on_report=put, settled=settled))
    writing.add_done_callback(lambda _: put(None))
    try:
        while (report := await queue.get()) is not None:
            yield report
        finish(await writing)
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


def _place(report: Report) -> str:
    """Where a report is kept; one that stands in for a failed reply is not found under its key, and asked for again."""
    return report.key if report.final else partial_key(report.key)


def _store(draft: "Draft", made: "Made", reports: Sequence[Report]) -> "dict[str, Current]":
    """Keep reports, as soon as they are written, and let them hold; how they do."""
    made.put_values({_place(report): _plain(report) for report in reports})
    now = {report.community: _now(report) for report in reports}
    draft.put_current(_REPORT, now)
    return now


def _settle(
    draft: "Draft", current: Mapping[str, "Current"], reports: Mapping[str, Report], communities: Sequence[Community]
) -> None:
    """Note which reports hold now, those that were kept as they are placed now, and which no longer do."""
    now = {id: _now(report) for id, report in reports.items()}
    there = {community.id for community in communities}
    draft.put_current(_REPORT, {id: each for id, each in now.items() if current.get(id) != each})
    draft.forget_current(_REPORT, [id for id in current if id not in there])


def _now(report: Report) -> "Current":
    from rag_transformers.stores.records import Current

    placed = {
        "level": report.level,
        "vertices": list(report.vertices),
        "chunks": list(report.chunks),
        "rating": report.rating,
        "offline": report.offline,
        "final": report.final,
    }
    return Current(report.content, _place(report), placed)


def _plain(report: Report) -> Any:
    return json.loads(json.dumps(report.to_dict(), ensure_ascii=False))
