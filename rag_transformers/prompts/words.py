"""The words of a language beside its prompts: what is said where no model is asked, and how a model says "none"."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from string import Formatter
from typing import Any

from rag_transformers.errors import UsageError

__all__ = ["FILE", "Words", "read_words"]

FILE = "words.toml"
"""The file of a language's folder that holds its words."""

_VARIABLES: Mapping[str, frozenset[str]] = {
    "more": frozenset(("names", "count")),
    "members": frozenset(("names",)),
    "rating": frozenset(("weight", "total")),
    "tie": frozenset(("source", "relation", "target")),
}
"""The texts that have variables, each with those that it must have."""

_NUMBERS: Mapping[str, float] = {"weight": 1234.5, "total": 1234.5, "count": 12}
"""The variables that stand for numbers, each with one of its kind."""
_NO_FORMAT = re.compile("")
_NUMBER_FORMAT = re.compile(r"[,_]?(?:\.\d)?[defgn%]?")

_SAYING = frozenset(("no_data", "no_room", "sources", "together"))
"""The texts that stand by themselves, so that white space says nothing."""
_MOST = 10
"""Words that a token comes to at the most; tokens of more are in no table."""


@dataclass(frozen=True)
class Words:
    """What is bound to a language beside the prompts; each is a key of ``words.toml``.

    Args:
        base: The built-in language from which a folder takes what it leaves out.
        spaced: Whether a space stands between sentences.
        words_per_token: Words, in Chinese and Japanese characters, that a token comes to; above 0.
        none: What a model says for "nothing", beside "none" and 无.
        entities: Headings that a model may write for ``Entities:``.
        relationships: Headings that it may write for ``Relationships:``.
        no_data: The answer where the index holds nothing on the question.
        no_room: The answer where the budget has no room for any passage.
        sources: The heading of the sources that the command line prints.
        together: The question that is asked of passages where the user asked none.
        comma: What parts names in a list.
        and_: What stands before the last name (``and`` in the file).
        more: A list that was cut: ``{names}``, and ``{count}`` of those left out, or of all.
        counts_all: Whether ``count`` is that of all names.
        members: A summary where no description is known; ``{names}``.
        rating: Why a report without a model is rated so; ``{weight}`` and ``{total}``.
        tie: The headline of a relationship; ``{source}``, ``{relation}`` and ``{target}``.
        summary_length: Characters of a report's summary without a model, at least 1.
    """

    base: str = "en"
    spaced: bool = True
    words_per_token: float = 0.75
    none: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    relationships: tuple[str, ...] = ()
    no_data: str = "The index holds nothing on this question."
    no_room: str = "The budget of tokens has no room for what the index holds on this question."
    sources: str = "Sources:"
    together: str = "What do the passages say, taken together?"
    comma: str = ", "
    and_: str = field(default=" and ", metadata={"key": "and"})
    more: str = "{names} and {count} more"
    counts_all: bool = False
    members: str = "This community holds {names}."
    rating: str = "Its relationships weigh {weight:g} of the {total:g} of the whole graph."
    tie: str = "{source} – {relation} – {target}"
    summary_length: int = 600

    @property
    def space(self) -> str:
        """What stands between two sentences."""
        return " " if self.spaced else ""


def read_words(path: Path, base: Words | None = None) -> Words:
    """The words of a file; those that it leaves out are its base's.

    Args:
        path: A file in TOML.
        base: Where the other words come from; English by default.

    Raises:
        UsageError: It is no TOML, or a key is unknown, has another type, or other variables; the message names it.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML in UTF-8: {error}") from error
    known = {str(each.metadata.get("key", each.name)): each.name for each in fields(Words)}
    if unknown := sorted(set(given) - set(known)):
        raise UsageError(f"{path}: unknown words {', '.join(unknown)}; there are: {', '.join(known)}")
    base = base or Words()
    return replace(base, **{known[key]: _checked(path, key, value, known[key], base) for key, value in given.items()})


def _checked(path: Path, key: str, value: Any, name: str, base: Words) -> Any:
    usual = getattr(base, name)
    if isinstance(usual, tuple):
        if not isinstance(value, list) or not all(isinstance(each, str) and each.strip() for each in value):
            raise UsageError(f"{path}: {key} is {value!r}; it must be a list of words")
        return tuple(value)
    kind = (int, float) if isinstance(usual, float) else type(usual)
    if not isinstance(value, kind) or (isinstance(value, bool) and not isinstance(usual, bool)):
        raise UsageError(f"{path}: {key} is {value!r}; it must be {_NAMES[type(usual)]}")
    if isinstance(usual, float) and not 0 < value <= _MOST:
        raise UsageError(f"{path}: {key} is {value!r}; it must be above 0, and at most {_MOST}")
    if isinstance(usual, int) and not isinstance(usual, bool) and value <= 0:
        raise UsageError(f"{path}: {key} is {value!r}; it must be above 0")
    if isinstance(usual, str):
        text = str(value)
        if not (text.strip() if name in _SAYING else text):
            raise UsageError(f"{path}: {key} is {value!r}; it must say something")
        _check_variables(path, key, text, _VARIABLES.get(name, frozenset()))
    return value


_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _check_variables(path: Path, key: str, text: str, wanted: frozenset[str]) -> None:
    if not wanted:
        return  # it is shown as it is, braces too
    try:
        parsed = [(name, form or "", end) for _, name, form, end in Formatter().parse(text) if name is not None]
        found = {name for name, _, _ in parsed}
        if found == wanted:
            for name, form, conversion in parsed:
                if conversion or not (_NUMBER_FORMAT if name in _NUMBERS else _NO_FORMAT).fullmatch(form):
                    raise ValueError(f"{{{name}}} cannot be formatted so")
            text.format(**{name: _NUMBERS.get(name, name) for name in wanted})
            return
    except (ValueError, IndexError, KeyError) as error:
        raise UsageError(f"{path}: {key} is no template ({error}): {text!r}") from error
    raise UsageError(
        f"{path}: {key} has the variables {', '.join(sorted(found)) or 'none'}; "
        f"it must have {', '.join(sorted(wanted))}, and no others"
    )
