"""Files that are there whole or not at all."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rag_transformers.errors import UsageError

__all__ = ["replacing", "usage_errors"]


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
    beside = place.with_name(f".{secrets.token_hex(8)}.part")
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
