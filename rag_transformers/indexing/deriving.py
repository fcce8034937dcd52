"""Graph -> what is made of it: one description of many.

Each thing made is keyed by the hash of what it was made from, its content and its maker. What is unchanged is kept,
what changed is made anew, and nothing else is: one mechanism gives cache, resume and update.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.runnables import Runnable

from rag_transformers.concurrency import drained
from rag_transformers.graph import Edge, Vertex
from rag_transformers.indexing.outcomes import Failure, Progress
from rag_transformers.models.faults import error_line
from rag_transformers.models.given import model_key
from rag_transformers.models.run import Run
from rag_transformers.stores.keys import text_key

if TYPE_CHECKING:
    from rag_transformers.stores import MemoryGraph
    from rag_transformers.stores.made import Made
    from rag_transformers.stores.records import Current, Draft, Records
    from rag_transformers.tokens import TokenCounter

__all__ = ["Described", "Making", "describe", "descriptions_of", "key_of", "to_describe"]

_STAGE = "describe"
_MANY = 4  # descriptions; up to so many are joined, which saves most of the calls
_LONG = 500  # tokens of them; with more they are made into one, however few they are

Key = str | tuple[str, str, str]


class Described(NamedTuple):
    """What many descriptions were made into, in numbers, and what could not be made."""

    made: int = 0
    kept: int = 0
    failed: tuple[Failure, ...] = ()


class Wanted(NamedTuple):
    """A vertex or edge that is to have one description: its name or names, all descriptions, and their hash."""

    items: str | tuple[str, str]
    descriptions: tuple[str, ...]
    content: str


class Making:
    """Where things are made: the maker, the run that limits its calls, where all is kept, and who is told of it.

    Args:
        draft: The next state of the records.
        made: What was made before, by key.
        maker: The Runnable that makes one thing.
        renews: Whether what another maker made is made anew; a maker without a model leaves it, while it is true.
        run: The limit on model calls.
        on_progress: Called as work is done.
    """

    def __init__(
        self,
        draft: "Draft",
        made: "Made",
        maker: Runnable[Any, Any],
        renews: bool,
        run: Run,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.draft = draft
        self.made = made
        self.maker = maker
        self.run = run
        self._name = model_key(maker)
        self._renews = renews
        self._on_progress = on_progress

    def key(self, content: str) -> str:
        """The key of what this maker makes of a content."""
        return text_key(content, self._name)

    def holds(self, now: "Current | None", content: str) -> bool:
        """Whether what holds now for an item is what would be made of this content."""
        return now is not None and now.content == content and (not self._renews or now.key == self.key(content))

    def report(self, stage: str, done: int, total: int) -> None:
        """Tell how far a stage is."""
        if self._on_progress:
            self._on_progress(Progress(stage, done, total, self.run.usage))


def to_describe(graph: "MemoryGraph", counter: "TokenCounter") -> dict[str, Wanted]:
    """The vertices and edges with so many descriptions, or such long ones, that one is to be made of them.

    Args:
        graph: The graph.
        counter: Counts tokens.
    """
    wanted = {}
    for thing in graph.described(2):
        texts = thing.descriptions
        if len(texts) > _MANY or _is_long(texts, counter):
            items = thing.name if isinstance(thing, Vertex) else (thing.source, thing.target)
            content = text_key(*([items] if isinstance(items, str) else items), *sorted(texts))
            wanted[_item(thing)] = Wanted(items, texts, content)
    return wanted


async def describe(making: Making, wanted: Mapping[str, Wanted]) -> Described:
    """Make one description for each of the items, where there is none of the same content.

    An item whose description cannot be made has none until it is made: its descriptions are joined, as those of an
    item with few are.

    Args:
        making: The maker is a Runnable from ``{"items": …, "descriptions": […]}`` to a ``SummarizationResult``.
        wanted: What :func:`to_describe` found.
    """
    from rag_transformers.stores.records import Current

    draft, kept = making.draft, making.made
    current = draft.current(_STAGE)
    due = {item: want for item, want in wanted.items() if not making.holds(current.get(item), want.content)}
    draft.forget_current(_STAGE, [item for item in current if item in due or item not in wanted])
    now = {item: Current(want.content, making.key(want.content)) for item, want in due.items()}
    known = kept.values(each.key for each in now.values())
    draft.put_current(_STAGE, {item: each for item, each in now.items() if each.key in known})
    asked = [item for item in due if now[item].key not in known]
    failed: dict[int, Failure] = {}
    done = 0
    async for batch in drained(_results(making, [due[item] for item in asked])):
        good = {asked[i]: result for i, result in batch if not isinstance(result, Exception)}
        kept.put_values({now[item].key: result.description for item, result in good.items()})
        draft.put_current(_STAGE, {item: now[item] for item in good})
        failed |= {i: _failure(due[asked[i]], error) for i, error in batch if isinstance(error, Exception)}
        done += len(batch)
        making.report(_STAGE, done, len(asked))
    failures = tuple(failed[i] for i in sorted(failed))
    return Described(len(asked) - len(failures), len(wanted) - len(asked), failures)


def descriptions_of(records: "Records", made: "Made") -> dict[Key, str]:
    """The descriptions that hold, by the key of a vertex or an edge, for :meth:`MemoryGraph.summarise`."""
    from rag_transformers.stores.records import held

    return {key_of(item): str(text) for item, text in held(records, made, _STAGE).items()}


async def _results(making: Making, wanted: Sequence[Wanted]) -> AsyncIterator[tuple[int, Any]]:
    inputs = [{"items": want.items, "descriptions": list(want.descriptions)} for want in wanted]
    config = {"max_concurrency": making.run.concurrency}
    results = making.maker.abatch_as_completed(inputs, config, return_exceptions=True)  # type: ignore[call-overload]
    async for number, result in results:
        yield number, result


def _is_long(texts: Sequence[str], counter: "TokenCounter") -> bool:
    # A token has at least one byte, so that most need not be counted.
    return sum(len(text.encode()) for text in texts) > _LONG and sum(map(counter, texts)) > _LONG


def _item(thing: Vertex | Edge) -> str:
    """A vertex or an edge as the records name it: its key, as a list."""
    return json.dumps([thing.key] if isinstance(thing, Vertex) else thing.key, ensure_ascii=False)


def key_of(item: str) -> Key:
    """The key of a vertex or an edge that the records name."""
    parts = json.loads(item)
    return str(parts[0]) if len(parts) == 1 else (parts[0], parts[1], parts[2])


def _failure(want: Wanted, error: Exception) -> Failure:
    names = want.items if isinstance(want.items, str) else " → ".join(want.items)
    return Failure(_STAGE, f"the descriptions of {names}", error_line(error))
