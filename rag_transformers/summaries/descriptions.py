"""Descriptions of an entity or a relationship: what a summariser is given and gives, and the one without a model."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from typing_extensions import TypedDict  # that of typing has no schema before Python 3.12

from rag_transformers.concurrency import InOrder
from rag_transformers.errors import UsageError, check_count
from rag_transformers.prompts import PromptPack, as_pack, built_in

if TYPE_CHECKING:
    from pathlib import Path

    from rag_transformers.tokens import TokenCounter

__all__ = [
    "DescriptionSummarizer",
    "Descriptions",
    "ExtractiveSummarizeExtractor",
    "Given",
    "Items",
    "SummarizationResult",
    "as_json",
    "check_function",
    "check_language",
    "digest",
    "distinct",
    "extract",
    "given_of",
    "names_of",
]

Items = str | tuple[str, str]
"""The name of an entity, or the names of the two that are related."""


class Descriptions(TypedDict):
    """What is to be summarised: the name of an entity or the two of a relationship, and its descriptions."""

    items: Items
    descriptions: Sequence[str | None]


@dataclass(frozen=True)
class SummarizationResult:
    """One description of an entity, or of a relationship.

    Args:
        items: The name of the entity, or the names of the two that are related, as they were given.
        description: The description; empty where there was none.

    >>> SummarizationResult("Ada Moss", "Ada Moss founded the Grain Trust.").items
    'Ada Moss'
    """

    items: Items
    description: str


class Given(NamedTuple):
    """An input that was checked: its texts in their order, without blank ones, equal ones once."""

    items: Items
    descriptions: list[str | None]
    texts: list[str]


class DescriptionSummarizer(InOrder[Descriptions, SummarizationResult]):
    """The base of what makes one description of many.

    Descriptions that are None or blank do not count, and equal ones count once. None left gives an empty description,
    one gives itself, unchanged; what is made of more does not depend on their order.
    """

    async def __call__(self, items: Items, descriptions: Sequence[str | None]) -> SummarizationResult:
        """Summarise; the same as :meth:`ainvoke`, in the original's form."""
        return await self.ainvoke({"items": items, "descriptions": descriptions})

    def needs_model(self, descriptions: Sequence[str | None]) -> bool:
        """Whether a model is asked about these descriptions."""
        return False

    @property
    @abstractmethod
    def cache_key(self) -> str:
        """What a summary depends on beside its input."""

    def content_key(self, items: Items, descriptions: Sequence[str | None]) -> str:
        """The hash of all that a summary depends on; the same whatever the order of the descriptions.

        Raises:
            UsageError: The input is wrong.
        """
        given = given_of({"items": items, "descriptions": descriptions})
        return digest([self.cache_key, self._names(given.items), given.texts])

    def _names(self, items: Items) -> list[str]:
        """The name or names, in the order in which they are shown."""
        return names_of(items)


class ExtractiveSummarizeExtractor(DescriptionSummarizer):
    """Makes one description of many without a model: of their most central sentences, word for word.

    Args:
        max_summary_length: Tokens of a description, at least 1; one that is alone is given as it is.
        language: Taken for the sake of the sibling; sentences stay in their own language.
        counter: Counts tokens; the run's one, or None for :func:`rag_transformers.tokens.token_counter`.

    Raises:
        UsageError: An argument is wrong; the message names it.

    >>> extractor = ExtractiveSummarizeExtractor(counter=len)
    >>> extractor.invoke({"items": "Ada Moss", "descriptions": ["She left Leeds.", "Ada Moss was a miller."]})
    SummarizationResult(items='Ada Moss', description='Ada Moss was a miller. She left Leeds.')
    """

    def __init__(
        self,
        max_summary_length: int = 500,
        *,
        language: str = "auto",
        counter: "TokenCounter | None" = None,
        prompts: "PromptPack | str | Path | None" = None,
    ) -> None:
        self.max_summary_length = check_count("max_summary_length", max_summary_length)
        self.language = check_language(type(self).__name__, language, as_pack(prompts))
        self._counter = check_function("counter", counter)

    def invoke(self, input: Descriptions, config: RunnableConfig | None = None, **kwargs: Any) -> SummarizationResult:
        """Make one description of many.

        Args:
            input: ``items``, a name or a pair of names, and ``descriptions``.
            config: Callbacks and the like.
            **kwargs: Not used.

        Raises:
            UsageError: The input is wrong.
        """
        given = given_of(input)
        return self._call_with_config(lambda _: self._summary(given), input, config)

    @property
    def cache_key(self) -> str:
        """What a summary depends on beside its input."""
        return f"{type(self).__module__}.{type(self).__qualname__} {self.max_summary_length}"

    def _summary(self, given: Given) -> SummarizationResult:
        if len(given.texts) < 2:
            return SummarizationResult(given.items, "".join(given.texts))
        if self._counter is None:
            from rag_transformers.tokens import token_counter

            self._counter = token_counter()
        return SummarizationResult(given.items, extract(given, self.max_summary_length, self._counter))


def extract(given: Given, limit: int, count: "TokenCounter") -> str:
    """Descriptions within a limit: all of them, or their most central sentences."""
    from rag_transformers.summaries.extractive import central_sentences, joined

    whole = joined(given.texts)
    if count(whole) <= limit:
        return whole
    return joined(central_sentences(given.texts, limit, count, names=names_of(given.items)))


def given_of(input: Any) -> Given:
    """An input as it can be worked with.

    Raises:
        UsageError: It is of another form; the message says which is wanted.
    """
    if not isinstance(input, Mapping) or set(input) != {"items", "descriptions"}:
        keys = ", ".join(map(str, input)) if isinstance(input, Mapping) else type(input).__name__
        raise UsageError(f"the input is {keys}; it must be a dict of items and descriptions")
    items, descriptions = input["items"], input["descriptions"]
    named = isinstance(items, str) or (isinstance(items, tuple | list) and len(items) == 2)
    if not named or not all(isinstance(name, str) and name.strip() for name in names_of(items)):
        raise UsageError(f"items is {items!r:.200}; it must be a name, or a pair of names, none of them blank")
    texts = distinct(descriptions)
    return Given(items if isinstance(items, str) else (items[0], items[1]), list(descriptions), texts)


def distinct(descriptions: Any) -> list[str]:
    """Descriptions that are not blank, equal ones once but for white space, sorted."""
    if not isinstance(descriptions, Sequence) or isinstance(descriptions, str | bytes):
        raise UsageError(f"descriptions is a {type(descriptions).__name__}; it must be a list of texts")
    for text in descriptions:
        if text is not None and not isinstance(text, str):
            raise UsageError(f"descriptions holds {text!r:.200}, a {type(text).__name__}; it must hold texts")
    found: dict[str, str] = {}
    for text in sorted(text for text in descriptions if text and text.strip()):
        found.setdefault(" ".join(text.split()), text)
    return [found[key] for key in sorted(found)]


def names_of(items: Any) -> list[Any]:
    """The name of an entity, or the two of a relationship, as a list."""
    return [items] if isinstance(items, str) else list(items)


def check_function(name: str, given: Any) -> Any:
    """A parameter that is a function or None, as it was given."""
    if given is not None and not callable(given):
        raise UsageError(f"{name} is {given!r}; it must be a function, or None")
    return given


def check_language(owner: str, language: str, pack: PromptPack | None = None) -> str:
    """The parameter ``language``, if it is ``auto`` or there are prompts for it."""
    return (pack or built_in()).checked(f"{owner}: ", language)


def as_json(items: Any) -> str:
    """Names as JSON, Chinese as it is written."""
    return json.dumps(items, ensure_ascii=False)


def digest(parts: list[Any]) -> str:
    """A hash of strings, numbers, lists and dicts of them."""
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=20).hexdigest()
