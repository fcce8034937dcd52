"""The tree of errors, by whose fault it is.

RagTransformersError
├── UsageError (a ValueError)       the caller's mistake: what, where, and how to mend it
│   ├── DocumentError               a file or document that cannot be read
│   ├── ConvergenceError            summaries that do not get short enough; carries the last ones
│   ├── NoIndexError                the folder holds no index
│   ├── IndexLockedError            another process writes to the index now
│   └── IndexMismatchError          the index was made with other settings (embeddings, a newer format)
├── IndexDamagedError               a file of an index is broken; nothing was overwritten
├── StorageError                    an index cannot be written now: the disk is full, or the folder may not be written
└── ModelError                      the model, or the way to it, failed
    ├── ModelUnreachableError       no server, no key, wrong key, no credit, or an unknown model
    ├── ModelBusyError              the server failed, had no room, or was too slow; the same may work later
    ├── ContextOverflowError        the prompt is longer than the model takes
    └── ReplyError                  the model answered, but not with what was asked for; carries the reply
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_transformers.graph import Extraction

__all__ = [
    "ContextOverflowError",
    "ConvergenceError",
    "DocumentError",
    "IndexDamagedError",
    "IndexLockedError",
    "IndexMismatchError",
    "ModelBusyError",
    "ModelError",
    "ModelUnreachableError",
    "NoIndexError",
    "RagTransformersError",
    "ReplyError",
    "StorageError",
    "UsageError",
    "check_count",
]


class RagTransformersError(Exception):
    """The root of all errors of this library."""


class UsageError(RagTransformersError, ValueError):
    """The caller's mistake; the message says what, where, and how to mend it."""


class DocumentError(UsageError):
    """A file or document that cannot be read as text."""


class ConvergenceError(UsageError):
    """Summaries of summaries that do not come down to one.

    Args:
        message: What was tried.
        summaries: The last ones, in the order of the text; they can be used as they are.

    >>> ConvergenceError("no shorter", ["Ada left.", "Bob stayed."]).summaries
    ('Ada left.', 'Bob stayed.')
    """

    def __init__(self, message: str, summaries: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.summaries = tuple(summaries)


class NoIndexError(UsageError):
    """A folder that was to be read as an index holds none."""


class IndexMismatchError(UsageError):
    """An index that was made with other settings, such as other embeddings."""


class IndexLockedError(UsageError):
    """Another process writes to the index now; the message says which, and since when."""


class StorageError(RagTransformersError):
    """An index cannot be written now; what was stored before is there."""


class IndexDamagedError(RagTransformersError):
    """A file of an index is broken; the message names it, and nothing was overwritten."""


class ModelError(RagTransformersError):
    """The model, or the way to it, failed."""


class ModelUnreachableError(ModelError):
    """No server, no key, a refused key, no credit, or a model that the server does not have."""


class ModelBusyError(ModelError):
    """The server failed, had no room, lost the connection, or did not answer in time: the same may work later."""


class ContextOverflowError(ModelError):
    """The prompt is longer than the model takes; a shorter one may work."""


class ReplyError(ModelError):
    """The model answered, but not with what was asked for.

    Args:
        message: What is wrong.
        reply: The reply's text as it came.
        finish_reason: Why the model stopped, as its server said.
        extraction: What could be read of it, where a part could.

    >>> ReplyError("the reply is empty", reply="", finish_reason="length").finish_reason
    'length'
    """

    def __init__(
        self,
        message: str,
        *,
        reply: str = "",
        finish_reason: str | None = None,
        extraction: "Extraction | None" = None,
    ) -> None:
        super().__init__(message)
        self.reply = reply
        self.finish_reason = finish_reason
        self.extraction = extraction


def check_count(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """The value of a parameter, if it is a whole number in its range.

    Args:
        name: The parameter's name, for the message.
        value: What was given.
        least: The smallest that is allowed.
        most: The largest that is allowed; None for no limit.

    Raises:
        UsageError: It is something else; a bool is no number.

    >>> check_count("topk", 5, 0)
    5
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise UsageError(f"{name} is {value!r}; it must be a whole number {allowed}")
    return value
