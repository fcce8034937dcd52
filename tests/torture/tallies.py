"""What the fault suite counts, to be told at the end of the run; and how long it is."""

import os
import threading
from collections import Counter

__all__ = ["LONG", "SEED", "count", "lines"]

LONG = os.environ.get("RAG_TORTURE") == "long"
"""Whether everything is tried, as in ``make torture``, or an evenly spread part of it, as in ``make test``."""

SEED = int(os.environ.get("RAG_TORTURE_SEED", "20"))
"""What random numbers are drawn from; another one draws other times, places and sequences."""

_counts: dict[str, Counter[str]] = {}
_lock = threading.Lock()


def count(part: str, what: str, number: int = 1) -> None:
    """Count what was done, or lost.

    Args:
        part: A part of the suite.
        what: What is counted.
        number: How many there were.
    """
    with _lock:
        _counts.setdefault(part, Counter())[what] += number


def lines() -> list[str]:
    """What was counted, a line for each part."""
    told = [f"{part}: " + ", ".join(f"{n} {what}" for what, n in each.items()) for part, each in _counts.items()]
    return [f"{'long' if LONG else 'short'} form, seed {SEED}", *told] if told else []
