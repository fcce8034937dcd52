"""Chunks -> what Chroma holds of them: their sentences, or themselves, and the history that extraction looks at."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from rag_transformers.retrieval.searching import search_units
from rag_transformers.stores.keys import text_key
from rag_transformers.stores.vectors import named_store

if TYPE_CHECKING:
    from rag_transformers.stores.folder import IndexFolder
    from rag_transformers.stores.records import Draft, Records

__all__ = ["Embedded", "FolderHistory", "SearchStructure"]

_LEAVING, _HISTORY = "leaving", "history"  # structures among the records: what is to be forgotten; a history is there
_SAMPLE = 4  # chunks that are looked for in a store of the user's own
_WINDOW = 256  # chunks whose sentences are embedded and stored at a time


class Embedded(NamedTuple):
    """What was embedded, and what had its vector already; and the size of a vector."""

    made: int = 0
    kept: int = 0
    size: int = 0


class SearchStructure:
    """What is searched by meaning, brought up to date with the next state of an index.

    What is new is written before the state is committed, for readers pass over what they do not know; what is gone is
    deleted after that.

    Args:
        folder: The index's folder.
        draft: The next state of its records.
    """

    def __init__(self, folder: "IndexFolder", draft: "Draft") -> None:
        self._folder = folder
        self._draft = draft
        self._before = draft.state()
        self._had = set(draft.chunk_ids())
        self._gone: list[Document] = []
        self._is_behind = False

    def heal(self) -> None:
        """Begin anew where the last run was stopped while it wrote; note what it left behind elsewhere.

        Raises:
            IndexDamagedError: A file of it has changed since.
        """
        self._folder.stores.check(self._before.generation)
        if not self._folder.stores.is_sealed or self._is_another():
            self._clear()
        self._is_behind = not self._folder.stores.is_settled(self._before.generation)

    def drop(self, chunks: Sequence[Document]) -> None:
        """Note chunks that are about to go; one of the same id may come back."""
        self._gone += chunks

    def note(self) -> None:
        """Keep with the next state what is to be forgotten once it holds, so that it is, whatever stops us between."""
        before = _leaving(self._draft)
        if not (self._gone or before):
            return
        by_sentence, chunks = self._folder.by_sentence, self._draft.chunks()
        texts = {*before.texts, *(chunk.page_content for chunk in self._gone)}
        embedded = {*before.embedded, *(text for chunk in self._gone for text in _texts(chunk, by_sentence))}
        for chunk in chunks:
            texts.discard(chunk.page_content)
            embedded.difference_update(_texts(chunk, by_sentence))
        there = {chunk.id for chunk in chunks}
        units = {id for id in (*before.units, *self._gone_units()) if id.rpartition("-")[0] not in there}
        _put_leaving(self._draft, _Leaving(sorted(texts), sorted(embedded), sorted(units)))

    async def embed(self, report: Callable[[int, int], None] | None = None) -> Embedded:
        """Make and keep the vectors of all chunks that are new, and then write them; the size of a vector.

        Args:
            report: Told how many of how many chunks are done.

        Raises:
            ModelError: The embeddings failed.
            IndexMismatchError: They give vectors of another size.
        """
        ids = await asyncio.to_thread(self._draft.unsearchable)
        size, texts, made = self._before.size, 0, 0
        for start in range(0, len(ids), _WINDOW):
            units = await asyncio.to_thread(self._units, ids[start : start + _WINDOW])
            done = await self._folder.embeddings.prepare([unit.page_content for unit in units], size)
            size, texts, made = done.size or size, texts + len(units), made + done.made
            if report:
                report(min(start + _WINDOW, len(ids)), len(ids))
        if ids:
            await asyncio.to_thread(self._write, ids)
        return Embedded(made, texts - made, size)

    def units(self) -> int:
        """How many texts the structure holds in the next state."""
        chunks = self._draft.chunks([id for id in self._draft.chunk_ids() if id not in self._had])
        added = sum(len(search_units(chunk, self._folder.by_sentence)) for chunk in chunks)
        return self._before.units + added - len(self._gone_units())

    def settle(self, records: "Records") -> None:
        """Forget what is gone, once the new state is committed; what does not fit it then is made anew.

        Args:
            records: The state that was committed.

        Raises:
            StorageError: A store of the user's own failed; the next change tells it again.
        """
        leaving = _leaving(records)
        if leaving:
            records.trim()  # a log that is damaged later must not bring the state before back
            made = self._folder.made
            values = sorted(made.value_keys() - records.all_current())  # whatever made them, they may tell of it
            texts, vectors = map(text_key, leaving.texts), map(text_key, leaving.embedded)
            made.forget(texts=texts, vectors=vectors, values=values)
        self._clean(records, leaving)
        if leaving:
            self._note_forgotten(records)

    def _note_forgotten(self, records: "Records") -> None:
        """Note that all is forgotten, in the records as they are, and see that it does not stand beside them."""
        with records.draft() as draft:
            _put_leaving(draft, _Leaving([], [], []))
            draft.save()
        records.trim()
        self._folder.made.trim()

    def _clean(self, records: "Records", leaving: "_Leaving") -> None:
        """Delete what is gone from what is searched."""
        generation = records.generation()
        if not leaving and not self._is_behind and self._folder.stores.is_sealed:
            return self._folder.stores.stamp(generation)
        with self._folder.stores.writing(generation, ahead=False):
            units = self._foreign_units(records) if self._is_behind else leaving.units
            for start in range(0, len(units), _WINDOW):
                self._folder.sentences.delete(units[start : start + _WINDOW])
            if leaving.texts and (self._folder.stores.has("history") or records.structure(_HISTORY)):
                with named_store():
                    self._folder.chunk_history().delete(leaving.texts)

    def remake(self) -> int:
        """Make the structure anew from the records; how many texts it holds then."""
        self._clear()
        ids = self._draft.unsearchable()
        with self._folder.stores.writing(self._before.generation):
            self._write(ids)
        return len(self._units(ids))

    def _clear(self) -> None:
        with self._folder.stores.writing(self._before.generation):
            self._folder.stores.clear()
        self._draft.set_searchable(None, False)

    def _write(self, ids: Sequence[str]) -> None:
        with self._folder.stores.writing(self._before.generation, ahead=True):
            count = self._folder.sentences.count() if ids and len(ids) < len(self._had) else None
            if count is not None and count < self._before.units:
                self._clear()  # it lost what the records say that it holds
                ids = self._draft.unsearchable()
            for start in range(0, len(ids), _WINDOW):
                self._folder.sentences.add(self._units(ids[start : start + _WINDOW]))
        self._draft.set_searchable(ids)

    def _is_another(self) -> bool:
        """Whether a store of the user's own does not hold what the records say: it was emptied, or is another one."""
        if not self._folder.stores.is_own:
            return False
        behind = set(self._draft.unsearchable())
        ids = [id for id in self._draft.chunk_ids() if id not in behind]
        return not self._folder.sentences.holds(self._units(ids[:: len(ids) // _SAMPLE + 1]))

    def _units(self, ids: Sequence[str]) -> list[Document]:
        by_sentence = self._folder.by_sentence
        return [unit for chunk in self._draft.chunks(ids) for unit in search_units(chunk, by_sentence)]

    def _gone_units(self) -> list[str]:
        there = set(self._draft.chunk_ids())
        gone = {chunk.id: chunk for chunk in self._gone if chunk.id not in there}
        return [str(unit.id) for chunk in gone.values() for unit in search_units(chunk, self._folder.by_sentence)]

    def _foreign_units(self, records: "Records") -> list[str]:
        """What is there and belongs to no chunk: a run that was stopped wrote it, or could not delete it any more."""
        known = {unit.id for chunk in records.chunks() for unit in search_units(chunk, self._folder.by_sentence)}
        return [id for id in self._folder.sentences.ids() if id not in known]


class FolderHistory:
    """The history of chunks in the folder of an index, for an extractor: read and written under the folder's seal.

    Before it is read for the first time it is brought into line with the chunks of the next state: what a run that was
    stopped, a deletion or an edit left behind goes, and what was lost comes back.

    Args:
        folder: The index's folder.
        draft: The next state of its records.
    """

    def __init__(self, folder: "IndexFolder", draft: "Draft") -> None:
        self._folder = folder
        self._draft = draft
        self._in_line = False

    def read(self, chunks: Sequence[Document | str]) -> list[list[Document]]:
        """See :meth:`~rag_transformers.stores.chunk_history.ChunkHistory.read`."""
        with self._folder.stores.writing(self._draft.generation()):
            history = self._folder.chunk_history()
            if not self._in_line:
                self._in_line = True
                if self._folder.stores.is_own and not self._draft.structure(_HISTORY):
                    self._draft.put_structure(_HISTORY, b"1")
                now = {chunk.page_content if isinstance(chunk, Document) else chunk for chunk in chunks}
                lost = history.retain(self._draft.chunks())
                history.read([chunk for chunk in lost if chunk.page_content not in now])
            return history.read(chunks)

    async def aread(self, chunks: Sequence[Document | str]) -> list[list[Document]]:
        """See :meth:`read`."""
        return await asyncio.to_thread(self.read, chunks)

    def truncate(self) -> None:
        """Empty the history."""
        with self._folder.stores.writing(self._draft.generation()):
            self._folder.chunk_history().truncate()

    async def atruncate(self) -> None:
        """Empty the history."""
        await asyncio.to_thread(self.truncate)

    def drop(self) -> None:
        """Empty the history."""
        self.truncate()

    async def adrop(self) -> None:
        """Empty the history."""
        await asyncio.to_thread(self.truncate)


class _Leaving(NamedTuple):
    """What is to be forgotten.

    Args:
        texts: The texts of chunks that stand nowhere any more.
        embedded: The texts, theirs included, whose vectors nobody uses any more.
        units: The ids of what was searched.
    """

    texts: list[str]
    embedded: list[str]
    units: list[str]

    def __bool__(self) -> bool:
        return any(map(len, self))


def _leaving(records: "Records") -> _Leaving:
    """What is still to be forgotten."""
    kept = records.structure(_LEAVING)
    return _Leaving(*(json.loads(kept) if kept else ([], [], [])))


def _put_leaving(draft: "Draft", leaving: _Leaving) -> None:
    draft.put_structure(_LEAVING, json.dumps(leaving).encode())


def _texts(chunk: Document, by_sentence: bool) -> list[str]:
    """The texts of a chunk that have vectors: those that are searched, and its own, which the history compares."""
    return [chunk.page_content, *(unit.page_content for unit in search_units(chunk, by_sentence))]
