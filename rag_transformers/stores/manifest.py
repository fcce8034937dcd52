"""The manifest of an index folder: what it is, and what it was made with; small, and replaced as a whole."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

import rag_transformers
from rag_transformers.errors import IndexDamagedError, IndexMismatchError, NoIndexError, UsageError

__all__ = ["FORMAT", "Manifest"]

FORMAT = 1
"""The version of the folder's layout; a newer one is refused."""

_NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What an index folder says of itself.

    Args:
        embeddings: The name of the embeddings that its vectors were made with.
        size: How many numbers one vector has; 0 before the first one.
        units: How many texts the search structure holds at least.
        language: ``auto``, or the language that was fixed for it.
        generation: How many times it was changed; readers reopen when it grows.
        format: The version of the folder's layout.
        package: The version of this package that wrote it.
    """

    embeddings: str
    size: int = 0
    units: int = 0
    language: str = "auto"
    generation: int = 0
    format: int = FORMAT
    package: str = rag_transformers.__version__

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """The manifest of a folder; None where there is no folder yet, or an empty one.

        Raises:
            UsageError: The path is a file, or a folder that holds something else.
            IndexDamagedError: The manifest cannot be read.
            IndexMismatchError: A newer version of this package made it.
        """
        path = folder / _NAME
        try:
            if folder.exists() and not folder.is_dir():
                raise UsageError(f"{folder} is a file; an index is a folder")
            if not path.exists():
                if folder.exists() and any(folder.iterdir()):
                    raise NoIndexError(f"{folder} holds files but no index ({_NAME} is missing); choose another folder")
                return None
        except UsageError:
            raise
        except (OSError, ValueError) as error:
            raise UsageError(f"{folder} cannot be the folder of an index: {error}") from error
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            fields = dataclasses.fields(cls)
            found = cls(**{field.name: data[field.name] for field in fields if field.name in data})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IndexDamagedError(f"{path} is damaged ({type(error).__name__}); restore it from a copy") from error
        if not isinstance(found.format, int) or found.format > FORMAT:
            raise IndexMismatchError(
                f"{folder} has format {found.format}, made by version {found.package}; this version, "
                f"{rag_transformers.__version__}, reads up to {FORMAT}: update rag-transformers"
            )
        return found

    def write(self, folder: Path) -> None:
        """Put the manifest in its place, whole or not at all."""
        path = folder / _NAME
        beside = path.with_suffix(".json.new")
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            json.dump(dataclasses.asdict(self), file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
