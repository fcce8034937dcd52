"""The option ``--data`` of the benchmarks, whose data are not part of the repository."""

import argparse
from pathlib import Path

__all__ = ["parsed"]

_FORM = "docs/benchmarks.md tells its form"


def parsed(parser: argparse.ArgumentParser, needs: str, *, required: bool = True) -> argparse.Namespace:
    """The arguments, with ``data``: a folder, or None where it is not required and not given.

    Args:
        parser: What takes the other arguments.
        needs: What the folder is to hold.
        required: Whether nothing can be measured without it; else the program ends with one line that says so.
    """
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"a folder with {needs}; {_FORM}")
    given = parser.parse_args()
    if given.data is None and required:
        parser.exit(2, f"{parser.prog}: --data DIR is needed, a folder with {needs}; {_FORM}\n")
    if given.data is not None and not given.data.is_dir():
        parser.exit(2, f"{parser.prog}: --data {given.data} is no folder\n")
    return given
