"""What a chunk says of names: the vertices of its extraction, what the offline reader takes for names, its title."""

import threading
from collections.abc import Iterable
from functools import cached_property

from langchain_core.documents import Document

from rag_transformers.graph import Extraction
from rag_transformers.retrieval.mentions import Said
from rag_transformers.retrieval.ranking import sentence_texts, title_of
from rag_transformers.stores.keys import is_offline, text_key

__all__ = ["NameReader", "question_names"]

_ENGLISH = "rules"


class NameReader:
    """Reads what chunks say of names.

    The offline extractor's vertices are names already, with spaCy or without; a chunk that has other ones is read for
    names too, so that the graph of mentions does not hang on what one extraction happened to write down. Names are read
    by rules, whatever else is installed, so that an index is searched in the same way on every machine.

    Args:
        language: As for :class:`~rag_transformers.phrases.PhraseExtractor`.

    >>> chunk = Document("Ada Moss owned it.", id="a", metadata={"source": "x", "start": 0, "title": "The Mill"})
    >>> reader = NameReader()
    >>> reader.said(chunk, reader.stamp("a", "own"), Extraction([("mill", "")]))
    Said(title='The Mill', sentences=['Ada Moss owned it.'], names=['mill', 'Ada Moss'])
    """

    def __init__(self, language: str = "auto") -> None:
        self._language = language
        self._lock = threading.Lock()
        self._ahead: dict[str, list[str]] = {}

    def stamp(self, id: str, key: str | None) -> str:
        """What stands for all that a chunk says: its id, the key of its extraction, and how names are read."""
        return f"{id} {key or ''} {text_key(self._how)[:12]}"

    def said(self, chunk: Document, stamp: str, extraction: Extraction | None = None) -> Said:
        """What a chunk says of names.

        Args:
            chunk: The chunk.
            stamp: Its stamp.
            extraction: Its extraction, where it has one.
        """
        names = extraction.names() if extraction else []
        _, key, _ = stamp.rsplit(" ", 2)
        if not is_offline(key):
            names += self._read(chunk)
        sentences = [chunk.page_content[sentence.start : sentence.end] for sentence in sentence_texts(chunk)]
        return Said(title_of(chunk), sentences, list(dict.fromkeys(names)))

    def prepare(self, chunks: Iterable[Document]) -> None:
        """Read the names of chunks now that :meth:`said` will be asked for later, once each."""
        for chunk in chunks:
            names = self._read(chunk)
            with self._lock:
                self._ahead[str(chunk.id)] = names

    @cached_property
    def _how(self) -> str:
        from rag_transformers.phrases import PhraseExtractor, offline_language

        return PhraseExtractor(offline_language(self._language), _ENGLISH).cache_key

    def _read(self, chunk: Document) -> list[str]:
        from rag_transformers.phrases import names, offline_language

        with self._lock:
            ahead = self._ahead.pop(str(chunk.id), None)
        if ahead is not None:
            return ahead
        found = names(chunk, offline_language(self._language), _ENGLISH)
        return [name for mention in found for name in (mention.name, mention.surface)]


def question_names(question: str) -> list[str]:
    """Names that stand in a question with a capital; known names of several words are found without this.

    >>> question_names("Who owned the mill of Moss?")
    ['Moss']
    """
    from rag_transformers.phrases import names

    return [
        name for mention in names(question, "en", _ENGLISH) for name in dict.fromkeys((mention.name, mention.surface))
    ]
