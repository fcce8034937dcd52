"""Which reports are written, and when: those that can be kept never, a whole's after those of its parts if need be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rag_transformers.communities import Community
from rag_transformers.prompts import Words
from rag_transformers.reports.asking import Asking
from rag_transformers.reports.content import Content, GraphView
from rag_transformers.reports.context import Shown, fit, whole
from rag_transformers.reports.form import Report
from rag_transformers.reports.offline import OFFLINE, WORDS, weigh, write_offline
from rag_transformers.reports.replies import Written
from rag_transformers.stores.keys import text_key

__all__ = ["Plan", "Ready", "Settling", "by_community"]


@dataclass(frozen=True, eq=False)
class Ready:
    """A community with all that is settled before a model is asked.

    Args:
        community: The community.
        content: What the graph says of it.
        total: The weight of all edges of the graph.
        language: In which it is written about.
        words: The words of that language.
        shown: What the model is shown; None where none is asked.
        key: The hash of what the report is made from and by whom.
    """

    community: Community
    content: Content
    total: float
    language: str
    words: Words
    shown: Shown | None
    key: str

    def report(self, written: Written) -> Report:
        """The report of what was written."""
        rating = weigh(self.content, self.total) if written.rating is None else written.rating
        title = written.title or write_offline(self.content, self.words, self.total).title or self.community.id
        made = Report(
            community=self.community.id,
            level=self.community.level,
            title=title,
            summary=written.summary,
            findings=written.findings,
            rating=rating,
            rating_explanation=written.rating_explanation,
            dropped=written.dropped,
        )
        return self.placed(replace(made, key=self.key))

    def offline(self, failed: str | None = None) -> Report:
        """The report without a model, or that which stands in for a failed one."""
        made = self.report(write_offline(self.content, self.words, self.total))
        return replace(made, offline=True, failed=failed)

    def placed(self, report: Report) -> Report:
        """A report with what the graph says now, where that does not change a word of it."""
        rating = weigh(self.content, self.total) if report.offline else report.rating
        return replace(
            report,
            community=self.community.id,
            level=self.community.level,
            vertices=self.community.vertices,
            chunks=self.content.chunks(),
            content=self.content.key,
            rating=rating,
        )


class Settling:
    """Settles what is to be known before a model is asked.

    Args:
        view: The graph.
        asking: How a model is asked.
    """

    def __init__(self, view: GraphView, asking: Asking) -> None:
        self.view = view
        self._asking = asking

    def settled(self, community: Community, reports: Mapping[str, Report]) -> Ready:
        """A community with what is shown of it, the reports of its parts where all does not fit."""
        content = self.view.content(community)
        return self.settled_at_once(community, content) or self.settled_by_parts(community, content, reports)

    def settled_at_once(self, community: Community, content: Content) -> Ready | None:
        """The same for one that needs no reports of its parts; None if it does."""
        if self._asking.llm is None or not content.edges:
            return self._ready(community, content, None)
        shown = whole(content, self._asking.budget(self._asking.language_of(content)))
        return None if shown is None else self._ready(community, content, shown)

    def settled_by_parts(self, community: Community, content: Content, reports: Mapping[str, Report]) -> Ready:
        """The same for one that does."""
        own = [reports[id] for id in community.children if id in reports]
        parts = [(self.view.keys(report.vertices), report) for report in own]
        return self._ready(
            community, content, fit(content, parts, self._asking.budget(self._asking.language_of(content)))
        )

    def _ready(self, community: Community, content: Content, shown: Shown | None) -> Ready:
        language = self._asking.language_of(content)
        if shown is None:
            own = filter(None, [self._asking.pack.key_of(*WORDS, languages=[language])])
            key = text_key(OFFLINE, language, content.key, *own)
        else:
            key = text_key(*self._asking.key_parts(language), *shown.records)
        words = self._asking.pack.words(language)
        return Ready(community, content, self.view.weight, language, words, shown, key)


class Plan:
    """The reports of many communities, as they come.

    Args:
        settling: Settles what is shown.
        communities: Those of all levels.
        kept: Reports written earlier, by key.
        on_report: Called with each that is written anew.
        with_model: Whether a model is asked. A writer without one keeps what one wrote, as long as it holds.
        settled: Reports of further communities, by community, which stand for those where they are parts of others.
    """

    def __init__(
        self,
        settling: Settling,
        communities: Sequence[Community],
        kept: Mapping[str, Report],
        on_report: Callable[[Report], None] | None,
        *,
        with_model: bool,
        settled: Mapping[str, Report] | None = None,
    ) -> None:
        self._settling = settling
        self._communities = communities
        self._kept = kept
        self._on_report = on_report
        self._by_content: dict[str, Report] = {}
        if not with_model:
            self._by_content = {each.content: each for each in kept.values() if each.final and not each.offline}
        self._unseen = list(reversed(communities))
        self._large: dict[str, tuple[Community, Content]] = {}
        self._done: dict[str, Report] = dict(settled or {})

    def next_batch(self) -> list[Ready]:
        """The communities that a model is to be asked about now, all at one time; none when all is done."""
        batch: list[Ready] = []
        while self._unseen:
            community = self._unseen.pop()
            content = self._settling.view.content(community)
            ready = self._settling.settled_at_once(community, content)
            if ready is None:
                self._large[community.id] = community, content
            elif self._is_open(ready):
                batch.append(ready)
        while not batch and self._large:
            batch = [ready for ready in self._settled_large() if self._is_open(ready)]
        return batch

    def take(self, ready: Ready, report: Report) -> None:
        """Take a report that was written."""
        self._done[ready.community.id] = report
        if self._on_report:
            self._on_report(report)

    def finished(self) -> dict[str, Report]:
        """All reports, by community in the order in which they were given."""
        return {community.id: self._done[community.id] for community in self._communities}

    def _settled_large(self) -> list[Ready]:
        """Those whose parts are all written; where parts wait for each other, all that are left."""
        due = [
            id for id, (community, _) in self._large.items() if not any(c in self._large for c in community.children)
        ]
        large = [self._large.pop(id) for id in due or list(self._large)]
        return [self._settling.settled_by_parts(*each, self._done) for each in large]

    def _is_open(self, ready: Ready) -> bool:
        """Whether a model is to be asked; what needs none is done."""
        kept = self._kept.get(ready.key)
        if kept is None and self._by_content:
            kept = self._by_content.get(ready.content.key)
        if kept is not None and kept.final:
            self._done[ready.community.id] = ready.placed(kept)
        elif ready.shown is None:
            self.take(ready, ready.offline())
        else:
            return True
        return False


def by_community(reports: Mapping[str, Report] | Sequence[Report]) -> dict[str, Report]:
    """Reports by the id of their community."""
    listed = reports.values() if isinstance(reports, Mapping) else reports
    return {report.community: report for report in listed}
