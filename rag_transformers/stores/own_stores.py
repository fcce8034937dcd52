"""The user's own vector stores in the place of Chroma's folder: any LangChain VectorStore."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rag_transformers.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

__all__ = ["MakeStore", "OwnStores"]

MakeStore = Callable[[str, "Embeddings"], "VectorStore"]
"""From the name of a collection, and the embeddings of the index, to the store that keeps it."""


class OwnStores:
    """What :class:`~rag_transformers.stores.chroma_folder.ChromaFolder` is to an index, over stores that others keep.

    Whether their data is whole is theirs to say: nothing is sealed. A change looks whether a few texts are there, and
    writes all of them where they are not.

    Args:
        make: Makes the store of a collection, or opens it where it was made before.

    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from langchain_core.vectorstores import InMemoryVectorStore
    >>> stores = OwnStores(lambda name, embeddings: InMemoryVectorStore(embeddings))
    >>> stores.collection("sentences", DeterministicFakeEmbedding(size=8)).similarity_search("anything")
    []
    """

    is_own = True
    is_sealed = True
    can_be_read = True

    def __init__(self, make: MakeStore) -> None:
        self._make = make
        self._stores: dict[str, VectorStore] = {}

    def is_settled(self, generation: int) -> bool:
        """Always: what a run that was stopped left in a store cannot be found out through its interface."""
        return True

    def check(self, generation: int) -> None:
        """Nothing to be checked."""

    @contextlib.contextmanager
    def writing(self, generation: int, ahead: bool | None = None) -> Iterator[None]:
        """Nothing to be sealed."""
        yield

    def stamp(self, generation: int) -> None:
        """Nothing to be sealed."""

    def collection(self, name: str, embeddings: "Embeddings") -> "VectorStore":
        """The store of a collection, made once.

        Raises:
            UsageError: What was made is no VectorStore.
        """
        from langchain_core.vectorstores import VectorStore

        if name not in self._stores:
            store = self._make(name, embeddings)
            if not isinstance(store, VectorStore):
                raise UsageError(f"vector_store gave {type(store).__name__} for {name!r}; it must give a VectorStore")
            self._stores[name] = store
        return self._stores[name]

    def has(self, name: str) -> bool:
        """Whether the store of a collection was made or opened."""
        return name in self._stores

    def clear(self) -> None:
        """Only the stores themselves can be emptied; what is written again replaces what has its id."""

    def discard(self) -> None:
        """See :meth:`clear`."""

    def close(self) -> None:
        """They stay open, for they are not ours."""
        self._stores = {}
