"""The search over an index: its words, names and vectors, kept in memory and brought up to date when it changed."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from rag_transformers.documents.given import shown_metadata
from rag_transformers.errors import IndexDamagedError
from rag_transformers.retrieval.evidence import Evidence, find_evidence
from rag_transformers.retrieval.lexical import Lexical
from rag_transformers.retrieval.mentions import Mentions, Said
from rag_transformers.retrieval.name_reading import NameReader, question_names
from rag_transformers.retrieval.nearness import MOST_BYTES, SearchedVectors, SentenceVectors, unit_texts
from rag_transformers.retrieval.ranking import SentenceText, fused, lexical_text, sentence_texts
from rag_transformers.retrieval.walk import NameGraph

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_transformers.stores.folder import IndexFolder
    from rag_transformers.stores.records import Draft, Records

__all__ = ["Found", "Searcher", "plain_chunk", "search_units"]

_WORDS = "words"
_NAMES = "names"


class Found(NamedTuple):
    """What an index holds on a question.

    Args:
        passages: The chunks that suit it best, best first.
        evidence: What their sentences hold on it.
        names: The keys of the names that it is about, most first; a graph finds its vertices by them.
    """

    passages: list[Document]
    evidence: Evidence
    names: tuple[str, ...] = ()


class _Known(NamedTuple):
    """What the chunks of an index say, as of one generation of it."""

    generation: int
    words: Lexical
    mentions: Mentions
    graph: NameGraph


class _Best(NamedTuple):
    """The chunks that suit a question best, how like it each is, and the keys of the names that it is about."""

    chunks: list[Document]
    likeness: list[float]
    names: tuple[str, ...]


class Searcher:
    """Finds the chunks of an index that suit a question.

    What it holds of the chunks belongs to one generation of the index; when that has grown, in this process or another,
    only the chunks that are new or were extracted anew are read.

    Args:
        folder: The index's folder.
    """

    def __init__(self, folder: "IndexFolder") -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._known: _Known | None = None
        self._next: _Known | None = None  # of the generation that is about to be committed
        self._held: tuple[Mentions, SentenceVectors | SearchedVectors] | None = None
        self._names: NameReader | None = None

    def prepare(self, draft: "Draft") -> None:
        """Read the names of the chunks that are new, while models are asked for their extractions.

        Args:
            draft: The next state of the records.
        """
        with self._lock:
            mentions = self._mentions_kept(draft)
        known = {stamp.partition(" ")[0] for stamp in mentions.stamps} if mentions else set()
        self._reader().prepare(draft.chunks([id for id in draft.chunk_ids() if id not in known]))

    def keep(self, draft: "Draft") -> None:
        """Bring all that is held of the chunks up to date, and keep it among the records for the next process.

        Args:
            draft: The next state of the records; what is held is of use once it is committed.
        """
        with self._lock:
            known = self._read(draft, draft.generation() + 1)
            self._next = known
        draft.put_structure(_WORDS, known.words.to_bytes())
        draft.put_structure(_NAMES, known.mentions.to_bytes())

    def drop_kept(self) -> None:
        """Forget what :meth:`keep` made, since its state was not committed."""
        self._next = None

    def find(self, question: str, vector: Sequence[float], k: int) -> Found:
        """The k chunks that suit a question best, and what their sentences hold on it.

        Args:
            question: The question.
            vector: Its vector, of unit length.
            k: How many chunks at most.

        Raises:
            IndexDamagedError: The search structure is not whole.
        """
        known, vectors = self._state()
        best = self._best(question, vector, k, known, vectors)
        # What a sentence is worth was weighed with likeness; the walk's scores fall off too fast for a second sentence.
        rows = self._vectors(best.chunks, vectors)
        evidence = find_evidence(question, vector, best.chunks, rows, known.words, best.likeness)
        return Found(best.chunks, evidence, best.names)

    def passages(self, question: str, vector: Sequence[float], k: int) -> list[Document]:
        """The k chunks that suit a question best, each with its score; see :meth:`find`."""
        return self._best(question, vector, k, *self._state()).chunks

    def _best(
        self, question: str, vector: Sequence[float], k: int, known: _Known, vectors: SentenceVectors | SearchedVectors
    ) -> _Best:
        import numpy as np

        near = vectors.near(vector)
        words = known.words.scores(question)
        active = known.graph.active(known.mentions.named_in(question, question_names(question)), near.sentences)
        likeness = fused(words, near.chunks, near.floor)
        scores = known.graph.walk(active, likeness)
        best = np.argsort(-scores, kind="stable")[:k].tolist()
        ids = known.words.ids
        stored = {chunk.id: chunk for chunk in self._folder.records.chunks([ids[place] for place in best])}
        best = [place for place in best if ids[place] in stored]
        names = sorted(active.nonzero()[0].tolist(), key=lambda name: (-active[name], name))
        return _Best(
            [_scored(stored[ids[place]], float(scores[place])) for place in best],
            likeness[best].tolist(),
            tuple(known.mentions.names[name] for name in names),
        )

    def _state(self) -> tuple[_Known, SentenceVectors | SearchedVectors]:
        """What the chunks say now, and their vectors."""
        generation = self._folder.records.generation()
        known, held = self._known, self._held
        if known and held and known.generation == generation and held[0] is known.mentions:
            return known, held[1]  # without waiting for a writer that is about to change it
        with self._lock:
            known = self._known
            if known is None or known.generation != generation:
                self._folder.stores.check(generation)
                known = self._known = self._folder.reading(self._newest)
            if self._held is None or self._held[0] is not known.mentions:
                self._held = known.mentions, self._vectors_of(known)
            return known, self._held[1]

    def _newest(self, records: "Records") -> _Known:
        generation = records.generation()
        if self._next and self._next.generation == generation:
            return self._next
        records.check_counts()
        return self._read(records, generation)

    def _read(self, records: "Records", generation: int) -> _Known:
        """What the chunks say in one state, made from what is known already and from what is new."""
        reader = self._reader()
        ids, keys = tuple(records.chunk_ids()), records.extraction_keys()
        stamps = {reader.stamp(id, keys.get(id)): id for id in ids}
        words = self._known.words if self._known else self._words_kept(records)
        mentions = self._mentions_kept(records)
        if words is None or words.ids != ids:
            seen = set(words.ids) if words else set()
            texts = {chunk.id: lexical_text(chunk) for chunk in records.chunks([id for id in ids if id not in seen])}
            words = Lexical(((id, texts.get(id, "")) for id in ids), previous=words)
        if self._known and mentions is self._known.mentions and mentions.stamps == tuple(stamps):
            return self._known._replace(generation=generation, words=words)
        if mentions is None or mentions.stamps != tuple(stamps):

            def said(new: Sequence[str]) -> list[Said]:
                return self._said(records, {stamp: stamps[stamp] for stamp in new}, keys)

            mentions = Mentions(stamps, said, mentions)
        return _Known(generation, words, mentions, NameGraph(mentions))

    def _said(self, records: "Records", stamps: Mapping[str, str], keys: Mapping[str, str | None]) -> list[Said]:
        """What chunks say of names, by their stamps."""
        reader = self._reader()
        found = self._folder.made.extractions(key for id in stamps.values() if (key := keys.get(id)))
        chunks = {chunk.id: chunk for chunk in records.chunks(stamps.values())}
        return [reader.said(chunks[id], stamp, found.get(keys.get(id) or "")) for stamp, id in stamps.items()]

    def _vectors_of(self, known: _Known) -> SentenceVectors | SearchedVectors:
        """The vectors of all chunks: in memory, or where there are too many for that, where they are."""
        ids, counts = known.words.ids, known.mentions.chunk_sentences
        by_sentence = self._folder.by_sentence
        units = int(counts.sum()) if by_sentence else len(ids)
        if units * self._folder.state.size * 4 > MOST_BYTES:
            return SearchedVectors(self._folder, ids, counts)
        held = self._held[1] if self._held and isinstance(self._held[1], SentenceVectors) else None
        return SentenceVectors(ids, counts, self._stored_vectors, by_sentence, held)

    def _stored_vectors(self, ids: Sequence[str]) -> "dict[str, npt.NDArray[np.float32]]":
        import numpy as np

        chunks = self._folder.records.chunks(ids)
        texts = [unit_texts(chunk, self._folder.by_sentence) for chunk in chunks]
        rows = self._folder.embeddings.matrix([text for each in texts for text in each])
        split = np.split(rows, np.cumsum([len(each) for each in texts])[:-1]) if chunks else []
        return {str(chunk.id): array for chunk, array in zip(chunks, split, strict=True)}

    def _vectors(
        self, chunks: Sequence[Document], held: SentenceVectors | SearchedVectors
    ) -> "list[npt.NDArray[np.float32]]":
        """The vectors of each chunk's sentences; where only chunks have vectors, that of the chunk for each."""
        by_sentence = self._folder.by_sentence
        found = []
        for chunk in chunks:
            if isinstance(held, SentenceVectors):
                rows = held.of(str(chunk.id))
            else:
                rows = self._folder.embeddings.matrix(unit_texts(chunk, by_sentence))
            found.append(rows if by_sentence else rows.repeat(len(sentence_texts(chunk)), axis=0))
        return found

    def _reader(self) -> NameReader:
        with self._lock:
            if self._names is None:
                self._names = NameReader(self._folder.known.language)
            return self._names

    # What is kept is derived from the rest: where an older version of this package made it, it is made anew.

    def _words_kept(self, records: "Records") -> Lexical | None:
        kept = records.structure(_WORDS)
        with contextlib.suppress(IndexDamagedError):
            return None if kept is None else Lexical.from_bytes(kept)
        return None

    def _mentions_kept(self, records: "Records") -> Mentions | None:
        if self._known:
            return self._known.mentions
        kept = records.structure(_NAMES)
        with contextlib.suppress(IndexDamagedError):
            return None if kept is None else Mentions.from_bytes(kept)
        return None


def plain_chunk(chunk: Document) -> Document:
    """A chunk without what only the index knows of it."""
    return Document(chunk.page_content, id=chunk.id, metadata=shown_metadata(chunk.metadata))


def _scored(chunk: Document, score: float) -> Document:
    plain = plain_chunk(chunk)
    return Document(plain.page_content, id=plain.id, metadata={**plain.metadata, "score": score})


def search_units(chunk: Document, by_sentence: bool) -> list[Document]:
    """What the search structure holds of a chunk: its sentences, with their place in it, or the chunk as a whole."""
    whole = SentenceText(0, len(chunk.page_content), chunk.page_content)
    units = sentence_texts(chunk) if by_sentence else [whole]
    return [
        Document(
            id=f"{chunk.id}-{number}",
            page_content=unit.text,
            metadata={"chunk": str(chunk.id), "start": unit.start, "end": unit.end},
        )
        for number, unit in enumerate(units)
    ]
