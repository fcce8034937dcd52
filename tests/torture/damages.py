"""Ways in which a file of an index is damaged."""

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

__all__ = ["WAYS", "damage", "files_of"]

Way = Callable[[bytes, random.Random], bytes | None]

_ZERO_AT_LEAST = 16  # bytes that are written into an empty file


def _flipped(held: bytes, drawn: random.Random) -> bytes:
    place = drawn.randrange(8 * len(held)) if held else 0
    return bytes(byte ^ (1 << place % 8 if at == place // 8 else 0) for at, byte in enumerate(held))


WAYS: Mapping[str, Way] = {
    "missing": lambda held, drawn: None,
    "emptied": lambda held, drawn: b"",
    "cut to half": lambda held, drawn: held[: len(held) // 2],
    "one bit flipped": _flipped,
    "overwritten": lambda held, drawn: drawn.randbytes(max(len(held), _ZERO_AT_LEAST)),
    "zeroed": lambda held, drawn: bytes(max(len(held), _ZERO_AT_LEAST)),
}
"""What becomes of a file's bytes; None where the file is gone."""


def files_of(folder: Path) -> Iterator[str]:
    """The files of a folder, by their paths in it, in a stable order."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def damage(path: Path, way: str, drawn: random.Random) -> bytes | None:
    """Damage a file; what it holds then, or None where it is gone.

    Args:
        path: The file.
        way: One of :data:`WAYS`.
        drawn: What a place, or garbage, is drawn from.
    """
    held = WAYS[way](path.read_bytes(), drawn)
    if held is None:
        path.unlink()
    else:
        path.write_bytes(held)
    return held
