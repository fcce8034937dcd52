"""Graph -> its communities and their reports, kept while what they were made from is the same."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_transformers.communities import Community, CommunityDetector, project
from rag_transformers.concurrency import Run, drained
from rag_transformers.indexing.outcomes import Failure, Progress
from rag_transformers.reports.form import Report
from rag_transformers.reports.writer import ReportWriter
from rag_transformers.stores.vectors import text_key

if TYPE_CHECKING:
    from rag_transformers.stores import MemoryGraph
    from rag_transformers.stores.made import Made
    from rag_transformers.stores.records import Draft, Records

__all__ = ["Reported", "communities_of", "find_communities", "reports_of", "write_reports"]

_COMMUNITIES = "communities"
_REPORT = "report"


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
    from rag_transformers.stores.records import held

    found = held(records, made, _REPORT)
    return {item: Report.from_dict({**value, "community": item}) for item, value in found.items()}


async def write_reports(
    draft: "Draft",
    made: "Made",
    writer: ReportWriter,
    graph: "MemoryGraph",
    communities: Sequence[Community],
    run: Run,
    on_progress: Callable[[Progress], None] | None = None,
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
    """
    kept = _Kept(draft, made)
    done: list[Report] = []
    finished: list[dict[str, Report]] = []
    async for batch in drained(_written(writer, graph, communities, kept, run, finished.append)):
        await asyncio.to_thread(_store, draft, made, batch)
        done += batch
        if on_progress:
            on_progress(Progress(_REPORT, len(done), len(communities), run.usage))
    await asyncio.to_thread(_settle, draft, made, finished[0], done, kept.values_held)
    failed = tuple(
        Failure(_REPORT, f"the report of the community {report.title!r}", report.failed)
        for report in finished[0].values()
        if report.failed is not None
    )
    return Reported(len(done) - len(failed), len(communities) - len(done), failed, finished[0])


class _Kept(Mapping[str, Report]):
    """Reports by key: those that hold now are listed, and one that held earlier is found too."""

    def __init__(self, draft: "Draft", made: "Made") -> None:
        self._made = made
        self.values_held = made.values(sorted({each.key for each in draft.current(_REPORT).values()}))
        self._held = {value["key"]: value for value in self.values_held.values() if value["failed"] is None}
        self._reports: dict[str, Report] = {}

    def __getitem__(self, key: str) -> Report:
        if key not in self._reports:
            value = self._held[key] if key in self._held else self._made.values([key])[key]
            self._reports[key] = Report.from_dict(value)
        return self._reports[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


async def _written(
    writer: ReportWriter,
    graph: "MemoryGraph",
    communities: Sequence[Community],
    kept: Mapping[str, Report],
    run: Run,
    finish: Callable[[dict[str, Report]], Any],
) -> AsyncIterator[Report]:
    """The reports that are written anew, as they come; in the end all are given to ``finish``."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def put(report: Report | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, report)

    config: Any = {"max_concurrency": run.concurrency}
    writing = asyncio.ensure_future(writer.awrite_all(graph, communities, kept, config, on_report=put))
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
    from rag_transformers.stores.records import partial_key

    return report.key if report.final else partial_key(report.key)


def _store(draft: "Draft", made: "Made", reports: Sequence[Report]) -> None:
    """Keep reports and let them hold; what stands under a key never changes, for an older state may use it."""
    from rag_transformers.stores.records import Current

    values = {report.community: _plain(report) for report in reports}
    kept = made.values(map(_place, reports))
    places = {}
    for report in reports:
        place = _place(report)
        if kept.get(place, values[report.community]) != values[report.community]:
            place = text_key(place, json.dumps(values[report.community], ensure_ascii=False, sort_keys=True))
        places[report.community] = place
    made.put_values({place: values[id] for id, place in places.items() if place not in kept})
    draft.put_current(_REPORT, {each.community: Current(each.content, places[each.community]) for each in reports})


def _settle(
    draft: "Draft",
    made: "Made",
    reports: Mapping[str, Report],
    stored: Sequence[Report],
    held: Mapping[str, Any],
) -> None:
    """Note which reports hold now, those that were kept as they are placed now, and which no longer do."""
    current, just_stored = draft.current(_REPORT), {report.community for report in stored}
    changed = [
        report
        for id, report in reports.items()
        if id not in just_stored and (id not in current or held.get(current[id].key) != _plain(report))
    ]
    _store(draft, made, changed)
    draft.forget_current(_REPORT, [id for id in current if id not in reports])


def _plain(report: Report) -> Any:
    return json.loads(json.dumps(report.to_dict(), ensure_ascii=False))
