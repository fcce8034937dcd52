"""What a user names that an index holds: documents by their source or id, chunks by their id, one or many."""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from rag_transformers.errors import UsageError
from rag_transformers.text import encodable

__all__ = ["given_ids"]


def given_ids(name: str, given: Any) -> list[str]:
    """The ids that were given, each once, as they are stored; a text is one id, never its characters.

    Args:
        name: The parameter's name, for the message.
        given: A text or a path, or several.

    Raises:
        UsageError: It is something else, or one of several is.

    >>> given_ids("ids", "AB"), given_ids("ids", iter(["A", "B", "A"]))
    (['AB'], ['A', 'B'])
    """
    if not isinstance(given, str | PurePath | Iterable) or isinstance(given, bytes | bytearray):
        raise UsageError(f"{name} is {_shown(given)}; give a text, or a list of texts")
    listed = [given] if isinstance(given, str | PurePath) else list(given)
    for number, each in enumerate(listed):
        if not isinstance(each, str | PurePath):
            raise UsageError(f"{name}[{number}] is {_shown(each)}; it must be a text")
    return list(dict.fromkeys(encodable(each if isinstance(each, str) else each.as_posix()) for each in listed))


def _shown(given: Any) -> str:
    return "None" if given is None else f"a {type(given).__name__}"
