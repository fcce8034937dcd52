"""The manifest of an index folder: what it is, and what it was made with; small, and replaced as a whole."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import rag_transformers
from rag_transformers.errors import IndexDamagedError, IndexMismatchError, NoIndexError, UsageError
from rag_transformers.files import is_unfinished, replacing

__all__ = ["FORMAT", "NAME", "Manifest"]

FORMAT = 2
"""The version of the folder's layout; a newer one is refused, and so is an older one."""

NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What an index folder says of itself; never changed once it is made.

    Args:
        embeddings: The name of the embeddings that its vectors were made with.
        language: ``auto``, or the language that was fixed for it.
        format: The version of the folder's layout.
        package: The version of this package that made it.
    """

    embeddings: str
    language: str = "auto"
    format: int = FORMAT
    package: str = rag_transformers.__version__

    @classmethod
    def read(cls, folder: Path, ours: frozenset[str] = frozenset()) -> "Manifest | None":
        """The manifest of a folder; None where there is no folder yet, or an empty one.

        Args:
            folder: The folder.
            ours: Names of files that an index may have before its manifest.

        Raises:
            UsageError: The path is a file, or a folder that holds something else.
            IndexDamagedError: The manifest cannot be read.
            IndexMismatchError: Another version of this package made it.
        """
        path = folder / NAME
        try:
            if folder.exists() and not folder.is_dir():
                raise UsageError(f"{folder} is a file; an index is a folder")
            if not path.exists():
                names = [each.name for each in folder.iterdir()] if folder.exists() else []
                if any(name not in ours and not is_unfinished(name) for name in names):
                    raise NoIndexError(
                        f"{folder} holds files but no index ({NAME} is missing); choose another folder, or, if it was "
                        f"one: rag-transformers repair {quote(str(folder))}"
                    )
                return None
        except UsageError:
            raise
        except (OSError, ValueError) as error:
            raise UsageError(f"{folder} cannot be the folder of an index: {error}") from error
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            _check_format(folder, data)
            found = cls(**{name: data[name] for name in cls.__dataclass_fields__})
            if data["check"] != found._check():
                raise ValueError("it is not what was written")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, IndexMismatchError):
                raise
            raise IndexDamagedError(
                f"{path} is damaged ({type(error).__name__}): rag-transformers repair {quote(str(folder))} "
                "makes it anew"
            ) from error
        return found

    def write(self, folder: Path) -> None:
        """Put the manifest in its place, whole or not at all."""
        with replacing(folder / NAME) as file:
            json.dump({**dataclasses.asdict(self), "check": self._check()}, file, ensure_ascii=False, indent=1)

    def _check(self) -> str:
        said = json.dumps(dataclasses.asdict(self), ensure_ascii=False, sort_keys=True)
        return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _check_format(folder: Path, data: dict[str, Any]) -> None:
    found = data["format"]
    if isinstance(found, bool) or not isinstance(found, int):
        raise TypeError("its format is no number")
    if found != FORMAT:
        way = "update rag-transformers" if found > FORMAT else "index the documents again, into a new folder"
        raise IndexMismatchError(
            f"{folder} has format {found}, made by version {data.get('package')}; this version, "
            f"{rag_transformers.__version__}, reads {FORMAT}: {way}"
        )
