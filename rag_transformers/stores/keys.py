"""Keys: the hashes under which an index knows what was made of what, and what they say by themselves."""

import hashlib

__all__ = ["TEXT_KEY", "extraction_key", "is_offline", "is_partial", "partial_key", "text_key"]

TEXT_KEY = 40
"""Characters of a key made of texts."""

_MAKER = 20  # characters of an extraction's key that stand for who read the text
_PARTIAL, _ASKED, _OFFLINE = "~", "+", "-"


def text_key(*parts: str) -> str:
    """A key made of texts: the same texts, the same key.

    >>> text_key("a", "b") == text_key("a", "b") != text_key("ab")
    True
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def extraction_key(text: str, maker: str, *, offline: bool = False) -> str:
    """The key of an extraction; all those of one text begin with the text's own key, so that they go with it.

    Args:
        text: The text of the chunk.
        maker: What names the extractor, with its instructions and its model.
        offline: Whether it stands in for a model: what it finds may take the place of its like alone.

    >>> is_offline(extraction_key("Ada.", "phrases", offline=True)), is_offline(extraction_key("Ada.", "a model"))
    (True, False)
    """
    return f"{text_key(text)}{_OFFLINE if offline else _ASKED}{text_key(maker)[:_MAKER]}"


def is_offline(key: str) -> bool:
    """Whether a key is that of an extraction without a model."""
    return key[TEXT_KEY : TEXT_KEY + 1] == _OFFLINE


def partial_key(key: str) -> str:
    """The key of what could be read of a reply that could not be read as a whole; the chunk is asked again."""
    return f"{key}{_PARTIAL}"


def is_partial(key: str) -> bool:
    """Whether a key is one of :func:`partial_key`."""
    return key.endswith(_PARTIAL)
