"""Files that are there whole or not at all."""

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rag_transformers.errors import UsageError

__all__ = ["is_unfinished", "replacing", "sweep", "usage_errors"]

_PART = ".part"
_OLD = 3600.0  # seconds after which a file that was never finished belongs to nobody


@contextlib.contextmanager
def replacing(path: Path, encoding: str = "utf-8") -> Iterator[TextIO]:
    """A new text file that takes the place of ``path`` at the end, unless something fails: then nothing changes.

    It is written beside it under another name, forced to disk and renamed; line ends stay as they are written. What
    is no plain file, such as ``/dev/stdout`` or a pipe, is written to directly. A link stays, and its file changes.

    Args:
        path: The file; its folder must be there.
        encoding: Of the file.

    Raises:
        UsageError: The path is a folder.
        OSError: It cannot be written.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give a file")
    if path.exists() and not path.is_file():
        with open(path, "w", encoding=encoding, newline="") as out:
            yield out
        return
    place = Path(os.path.realpath(path))
    if place.exists() and not os.access(place, os.W_OK):  # renaming would not mind
        raise PermissionError(None, "it is write-protected")
    beside = place.with_name(f".{secrets.token_hex(8)}{_PART}")
    try:
        with open(beside, "x", encoding=encoding, newline="") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if place.exists():
            shutil.copymode(place, beside)
        os.replace(beside, place)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def is_unfinished(name: str) -> bool:
    """Whether a file's name is one under which :func:`replacing` writes; it stays where the process is killed."""
    return name.startswith(".") and name.endswith(_PART)


def sweep(folder: Path) -> None:
    """Delete what :func:`replacing` left unfinished in a folder; what is young may be being written by somebody."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if is_unfinished(path.name) and path.stat().st_mtime < time.time() - _OLD:
                path.unlink()


@contextlib.contextmanager
def usage_errors(target: object) -> Iterator[None]:
    """What goes wrong in writing as a :class:`UsageError` in one line; a reader that went away stays what it is."""
    try:
        yield
    except (UsageError, BrokenPipeError):
        raise
    except UnicodeEncodeError as error:
        raise UsageError(f"{target} is in {error.encoding}, which lacks characters of the graph: use UTF-8") from error
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
    except ValueError as error:  # of a path with a NUL or a lone surrogate, and of a stream that is closed
        raise UsageError(f"{target!r} cannot be written: {error}") from error
