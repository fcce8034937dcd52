"""Texts into inputs that keep within a limit: what is too long is split, what is short goes together."""

from collections.abc import Callable, Iterable, Sequence

__all__ = ["SEPARATOR", "distinct", "packed", "pieces", "total"]

SEPARATOR = "\n\n"
"""What stands between two texts in one input."""


def distinct(texts: Iterable[str]) -> list[str]:
    """Texts without blank ones, equal ones once, in their order, white space around them removed.

    >>> distinct(["Ada left. ", "", "Bob stayed.", "Ada left."])
    ['Ada left.', 'Bob stayed.']
    """
    return list(dict.fromkeys(stripped for text in texts if (stripped := text.strip())))


def pieces(texts: Iterable[str], limit: int, count: Callable[[str], int] = len) -> list[str]:
    """Texts, those over the limit cut at the ends of paragraphs and sentences into pieces that keep it.

    Args:
        texts: In their order.
        limit: The most that one may come to, in units of ``count``.
        count: Counts them; characters by default.

    >>> pieces(["Ada left.", "The mill burned. It was never built again."], 30)
    ['Ada left.', 'The mill burned.', 'It was never built again.']
    """
    from rag_transformers.chunking import Chunker

    chunker = Chunker(limit, 0, counter=count)
    found: list[str] = []
    for text in texts:
        if count(text) <= limit:
            found.append(text)
        else:
            found += (text[start:end] for start, end in chunker.spans(text))
    return distinct(found)


def packed(texts: Sequence[str], limit: int, count: Callable[[str], int] = len) -> list[list[str]]:
    """Neighbours in groups that keep a limit when they are joined with the separator, as many in each as there is room.

    A text over the limit is a group by itself; see :func:`pieces`.

    >>> packed(["Ada left.", "Bob stayed.", "It rained."], 22)
    [['Ada left.', 'Bob stayed.'], ['It rained.']]
    """
    between = count(SEPARATOR)
    groups: list[list[str]] = []
    used = 0
    for text in texts:
        cost = count(text)
        if groups and used + between + cost <= limit:
            groups[-1].append(text)
            used += between + cost
        else:
            groups.append([text])
            used = cost
    return [part for group in groups for part in _within(group, limit, count)]


def total(texts: Sequence[str], count: Callable[[str], int] = len) -> int:
    """What texts come to with the separators between them, so that joining them changes nothing."""
    return sum(map(count, texts)) + count(SEPARATOR) * max(0, len(texts) - 1)


def _within(group: list[str], limit: int, count: Callable[[str], int]) -> list[list[str]]:
    """The group, in halves where the whole counts for more than its parts, as tokens may."""
    if len(group) == 1 or count(SEPARATOR.join(group)) <= limit:
        return [group]
    middle = len(group) // 2
    return [*_within(group[:middle], limit, count), *_within(group[middle:], limit, count)]
