"""What a change of an index tells: how far it is, what it would take, what it did, and what failed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rag_transformers.models.run import NOT_ASKED, Usage

__all__ = ["Failure", "IndexPlan", "IndexReport", "Progress", "StageReport"]

_MADE = {"extract": "chunks", "describe": "descriptions", "report": "reports"}


@dataclass(frozen=True)
class Progress:
    """How far a run is: a stage's name, how much of it is done, and what models have cost so far."""

    stage: str
    done: int
    total: int
    usage: Usage


@dataclass(frozen=True)
class Failure:
    """What could not be made, and why; it is asked again at the next ``add``.

    Args:
        stage: ``extract`` for a chunk, ``describe`` for a vertex or an edge, ``report`` for a community.
        item: Which one.
        reason: Why.
        source: The document of a chunk.
        chunk: Its number in the document.
        start: Where it starts there, in characters.
        end: Where it ends.
    """

    stage: str
    item: str
    reason: str
    source: str = ""
    chunk: int = 0
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        return f"{self.item}: {self.reason}"


@dataclass(frozen=True)
class IndexPlan:
    """What an ``add`` would take, before anything is done.

    Args:
        documents: How many were given.
        unchanged: How many of them the index holds as they are.
        chunks: Chunks of the others, with those that failed before.
        calls: Model calls for extraction.
        prompt_tokens: Tokens of their prompts, the history that is shown to them not counted.
        found: Chunks of the others whose extraction is stored already, from before or from a run that was stopped.
        removed: Documents that the index holds and that are gone from the folders given.
    """

    documents: int
    unchanged: int
    chunks: int
    calls: int = 0
    prompt_tokens: int = 0
    found: int = 0
    removed: int = 0


@dataclass(frozen=True)
class StageReport:
    """What one stage of a change did, and what it cost.

    Args:
        made: How many things were made anew: extractions, vectors, descriptions, reports.
        kept: How many were kept as they are, or found again.
        failed: How many could not be made.
        usage: Its model calls and their tokens.
        seconds: How long it took; stages may run side by side.
    """

    made: int = 0
    kept: int = 0
    failed: int = 0
    usage: Usage = field(default=Usage())
    seconds: float = 0.0


@dataclass(frozen=True)
class IndexReport:
    """What an ``add`` did, and what the index holds now.

    Args:
        added: Documents that were new.
        changed: Documents whose content was another before.
        unchanged: Documents that were there as they are.
        removed: Documents that were taken out.
        extracted: Chunks whose extraction was made now.
        described: Vertices and edges whose many descriptions were made into one now.
        reported: Communities whose report was written now.
        failed: Chunks that have no extraction, and what else could not be made, each with why.
        documents: All documents of the index.
        chunks: All chunks of the index.
        vertices: All vertices of the graph.
        edges: All edges of the graph.
        usage: What models have cost.
        seconds: Time, by stage.
        stages: What each stage made, kept and cost: ``extract``, ``embed``, ``describe``, ``report``.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    extracted: int = 0
    described: int = 0
    reported: int = 0
    failed: tuple[Failure, ...] = ()
    documents: int = 0
    chunks: int = 0
    vertices: int = 0
    edges: int = 0
    usage: Usage = field(default=Usage())
    seconds: Mapping[str, float] = field(default_factory=dict)
    stages: Mapping[str, StageReport] = field(default_factory=dict)

    def failures_told(self) -> list[str]:
        """A line for each failure, but one for all chunks that were not asked about, and so for the other stages.

        >>> why = "not asked, since an earlier call failed: no credit"
        >>> left = [Failure("extract", f"a.txt, chunk {number}", why) for number in range(47)]
        >>> IndexReport(failed=(Failure("extract", "b.txt, chunk 0", "no credit"), *left)).failures_told()
        ['b.txt, chunk 0: no credit', '47 chunks were not asked, since an earlier call failed: no credit']
        """
        alike = Counter((failure.stage, failure.reason) for failure in self.failed)
        return list(dict.fromkeys(_told(failure, alike[failure.stage, failure.reason]) for failure in self.failed))


def _told(failure: Failure, alike: int) -> str:
    if alike > 1 and failure.reason.startswith(NOT_ASKED):
        return f"{alike} {_MADE[failure.stage]} were {failure.reason}"
    return str(failure)
