"""A damaged index -> one that is whole again, as far as its records are: what was derived is made anew from them."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rag_transformers.errors import IndexDamagedError, NoIndexError, StorageError
from rag_transformers.indexing.search_structure import SearchStructure
from rag_transformers.stores.lock import write_lock

if TYPE_CHECKING:
    from pathlib import Path

    from rag_transformers.stores.folder import IndexFolder
    from rag_transformers.stores.made import Made
    from rag_transformers.stores.records import Draft

__all__ = ["RepairReport", "repair"]


@dataclass(frozen=True)
class RepairReport:
    """What a repair found and did.

    Args:
        documents: Documents of the index.
        chunks: Chunks of the index.
        vectors: Texts that the search structure holds, made anew from the records.
        embedded: How many of them had to be embedded, for their vectors were lost.
        manifest: Whether the manifest was made anew.
        lost: What could not be read any more, by kind: it is made again at the next ``add`` or ``rebuild``.
    """

    documents: int
    chunks: int
    vectors: int
    embedded: int = 0
    manifest: bool = False
    lost: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """What was found and done, in lines."""
        lines = [f"records    sound: {self.documents} documents, {self.chunks} chunks"]
        lines += [
            f"lost       {count} {kind}, to be made again by index or rebuild" for kind, count in self.lost.items()
        ]
        lines += ["manifest   made anew"] if self.manifest else []
        lines += [f"search     made anew: {self.vectors} vectors, {self.embedded} of them embedded again"]
        return "\n".join(lines)


def repair(path: "Path", opened: "Callable[[], IndexFolder]") -> RepairReport:
    """Check the databases of an index, and make its manifest and its search structure anew.

    An extraction, a description or a report that cannot be read is forgotten, and made again at the next change. The
    documents and chunks themselves cannot be made from anything: where they are broken, nothing is changed.

    Args:
        path: The folder of the index.
        opened: Opens the folder, once it has a manifest.

    Raises:
        NoIndexError: There is no index.
        IndexDamagedError: A database is broken beyond repair; nothing was changed.
        IndexLockedError: Another process writes to the index.
        StorageError: It cannot be written.
    """
    from rag_transformers.stores.folder import restore_manifest

    if not (path / "records.sqlite").is_file():
        raise NoIndexError(f"there is no index in {path}: records.sqlite is missing")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(write_lock(path))
            manifest = restore_manifest(path)
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error}") from error
        folder = opened()
        try:
            with folder.records.draft() as draft:
                _check(draft, folder.made)
                lost = _forget_lost(draft, folder.made)
                return _remade(folder, draft, lost, manifest)
        finally:
            folder.close()


def _check(draft: "Draft", made: "Made") -> None:
    for database in (draft, made):
        if faults := database.faults():
            raise IndexDamagedError(
                f"{database.name} is broken beyond repair ({faults[0]}); restore it from a copy, or index into a new "
                "folder"
            )
    draft.check_counts()
    draft.chunks()  # each one proves to be what was written


def _forget_lost(draft: "Draft", made: "Made") -> dict[str, int]:
    """Forget what cannot be read, and what is said to hold and is gone; how much of each kind."""
    broken = made.unreadable()
    made.forget(
        extractions=broken.get("extractions", ()), vectors=broken.get("vectors", ()), values=broken.get("made", ())
    )
    used = {id: key for id, key in draft.extraction_keys().items() if key}
    known = made.known_extractions(used.values())
    gone = [id for id, key in used.items() if key not in known]
    draft.drop_extractions(gone)
    values = _without_value(draft, made)
    structures = draft.drop_structures()
    lost = {
        "extractions": len(gone),
        "vectors": len(broken.get("vectors", ())),
        "descriptions and reports": values,
        "structures": structures,
    }
    return {kind: count for kind, count in lost.items() if count}


def _without_value(draft: "Draft", made: "Made") -> int:
    count = 0
    for stage in draft.current_stages():
        current = draft.current(stage)
        there = made.values(each.key for each in current.values())
        gone = [item for item, each in current.items() if each.key not in there]
        draft.forget_current(stage, gone)
        count += len(gone)
    return count


def _remade(folder: "IndexFolder", draft: "Draft", lost: dict[str, int], manifest: bool) -> RepairReport:
    before = folder.made.counts()["vectors"]
    folder.stores.discard()
    structure = SearchStructure(folder, draft)
    vectors = structure.remake()
    state = draft.commit(units=vectors, derived="")  # so that the next change looks at all that is made of the graph
    structure.settle(folder.records)
    embedded = folder.made.counts()["vectors"] - before
    return RepairReport(state.documents, state.chunks, vectors, embedded, manifest, lost)
