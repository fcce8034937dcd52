"""Metadata of documents as they can be kept: JSON-ready, in UTF-8, the same in every process."""

import json
from typing import Any

from rag_transformers.errors import UsageError
from rag_transformers.text import encodable

__all__ = ["plain", "plain_metadata"]


def plain(value: Any) -> Any:
    """What JSON lacks, as what it has; for ``json.dumps(default=…)``.

    >>> json.dumps({"b", "a"}, default=plain)
    '["a", "b"]'
    """
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def plain_metadata(source: str, metadata: dict[Any, Any]) -> dict[str, Any]:
    """Metadata as they are kept.

    Args:
        source: The document, for the message.
        metadata: As they were given; half emoji and their like become question marks.

    Raises:
        UsageError: They cannot be kept: a key that is no text, or a value that holds itself.

    >>> plain_metadata("a.txt", {"page": 3, "tags": {"b", "a"}})
    {'page': 3, 'tags': ['a', 'b']}
    """
    if wrong := [key for key in metadata if not isinstance(key, str)]:
        raise UsageError(f"the metadata of {source!r} have the key {wrong[0]!r}; keys must be text")
    try:
        kept: dict[str, Any] = json.loads(encodable(json.dumps(metadata, ensure_ascii=False, default=plain)))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the metadata of {source!r} cannot be kept as JSON: {error}") from error
    return kept
