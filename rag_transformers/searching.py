"""The search over an index: its words and the vectors of its sentences, read from the folder when they are needed."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from rag_transformers.errors import IndexDamagedError
from rag_transformers.evidence import Evidence, find_evidence
from rag_transformers.lexical import Lexical
from rag_transformers.retrieval import NEAREST_SENTENCES, SentenceText, lexical_text, rank, sentence_texts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from rag_transformers.stores.folder import IndexFolder

__all__ = ["Found", "Searcher", "plain_chunk", "search_units"]


class Found(NamedTuple):
    """The chunks that suit a question best, best first, and what their sentences hold on it."""

    passages: list[Document]
    evidence: Evidence


class Searcher:
    """Finds the chunks of an index that suit a question.

    Args:
        folder: The index's folder.
    """

    def __init__(self, folder: "IndexFolder") -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._words: Lexical | None = None

    def lexical(self) -> Lexical:
        """The words of all chunks; what is kept in the folder is brought up to date, and only new chunks are read."""
        database = self._folder.database
        ids = tuple(database.chunk_ids())
        with self._lock:
            kept = self._words or self._read()
            if kept is None or kept.ids != ids:
                known = set(kept.ids) if kept else set()
                texts = {chunk.id: lexical_text(chunk) for chunk in database.chunks([i for i in ids if i not in known])}
                kept = Lexical(((id, texts.get(id, "")) for id in ids), previous=kept)
            self._words = kept
            return kept

    def keep(self) -> None:
        """Keep the words of all chunks in the folder, so that the next process need not read them again."""
        data = self.lexical().to_bytes()
        path = self._folder.path / _WORDS
        beside = path.with_suffix(".new")
        beside.write_bytes(data)
        beside.replace(path)

    def find(self, question: str, vector: Sequence[float], k: int) -> Found:
        """The k chunks that suit a question best, and what their sentences hold on it.

        Args:
            question: The question.
            vector: Its vector, of unit length.
            k: How many chunks at most.

        Raises:
            IndexDamagedError: The search structure is not whole.
        """
        if self._folder.lacks_vectors():
            place = self._folder.path / "chroma"
            raise IndexDamagedError(f"{place} lacks vectors that it held; index the documents again to make it anew")
        words = self.lexical()
        nearest = self._folder.sentences.nearest(vector, NEAREST_SENTENCES)
        ranked = rank(question, words, [(text.metadata["chunk"], cosine) for text, cosine in nearest], k)
        stored = {chunk.id: chunk for chunk in self._folder.database.chunks([scored.id for scored in ranked])}
        scores = {scored.id: scored.score for scored in ranked if scored.id in stored}
        chunks = [stored[id] for id in scores]
        vectors = self._vectors(chunks)
        evidence = find_evidence(question, vector, chunks, vectors, words, list(scores.values()))
        return Found([_scored(chunk, scores[str(chunk.id)]) for chunk in chunks], evidence)

    def _vectors(self, chunks: Sequence[Document]) -> "list[npt.NDArray[np.float32]]":
        """The vectors of each chunk's sentences; where only chunks have vectors, that of the chunk for each."""
        import numpy as np

        texts = [[sentence.text for sentence in sentence_texts(chunk)] for chunk in chunks]
        counts = [len(sentences) for sentences in texts]
        if self._folder.by_sentence:
            rows = self._folder.embeddings.matrix([text for sentences in texts for text in sentences])
        else:
            rows = self._folder.embeddings.matrix([chunk.page_content for chunk in chunks]).repeat(counts, axis=0)
        return np.split(rows, np.cumsum(counts)[:-1]) if chunks else []

    def _read(self) -> Lexical | None:
        try:
            return Lexical.from_bytes((self._folder.path / _WORDS).read_bytes())
        except (FileNotFoundError, IndexDamagedError):
            return None  # derived from the chunks, and made anew from them


def plain_chunk(chunk: Document) -> Document:
    """A chunk without what only the index knows of it."""
    metadata = {name: value for name, value in chunk.metadata.items() if name != "order"}
    return Document(chunk.page_content, id=chunk.id, metadata=metadata)


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


_WORDS = "words.npz"
