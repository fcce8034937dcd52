"""Rules of the stores (see store_rules.py) over each VectorStore, and what is special to one."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from store_rules import HistoryRules, Letters, VectorRules, shown

from rag_transformers.errors import IndexMismatchError, ModelError, UsageError
from rag_transformers.stores import ChunkHistory, chunk_history, shelves
from rag_transformers.stores.chroma import chroma_store, close_chroma, open_chroma


class TestChromaInAFolder(HistoryRules, VectorRules):
    @pytest.fixture
    def client(self, tmp_path: Path) -> Iterator[Any]:
        client = open_chroma(tmp_path / "知识库")
        yield client
        close_chroma(client)

    @pytest.fixture
    def store(self, client: Any) -> Chroma:
        return chroma_store(client, "历史", Letters())

    @pytest.fixture
    def other_store(self, client: Any) -> Chroma:
        return chroma_store(client, "other", Letters())

    def test_it_is_there_after_reopening(self, tmp_path: Path) -> None:
        for expected in ([], ["mill one"]):
            client = open_chroma(tmp_path / "folder")
            history = ChunkHistory(chroma_store(client, "history", Letters()))
            assert shown(history.read(["mill one" if not expected else "mill two"])) == [expected]
            close_chroma(client)

    def test_each_text_is_embedded_once_and_the_store_asked_once_a_window(
        self, store: Chroma, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        embeddings: Any = store.embeddings
        history = ChunkHistory(store, score_threshold=0.99)
        queries, nearest = [], history._shelf.nearest

        def noted(texts: Any, vectors: Any, k: int) -> Any:
            queries.append(len(texts))
            return nearest(texts, vectors, k)

        monkeypatch.setattr(history._shelf, "nearest", noted)
        monkeypatch.setattr(chunk_history, "_WINDOW", 20)
        texts = [f"mill {number}" for number in range(30)]
        history.read([*texts, "mill 0"])
        assert sorted(embeddings.asked) == sorted([*texts, "mill 0"])
        assert queries == [20, 11]

    def test_vectors_of_another_size_are_refused_before_anything_is_written(self, store: Chroma, client: Any) -> None:
        ChunkHistory(store).read(["mill"])
        with pytest.raises(IndexMismatchError, match=r"96 .* 32"):
            ChunkHistory(chroma_store(client, "历史", Letters(32))).read(["other"])
        assert store.get()["documents"] == ["mill"]

    def test_a_store_emptied_through_another_object_is_empty(self, store: Chroma, client: Any) -> None:
        one, two = ChunkHistory(store), ChunkHistory(chroma_store(client, "历史", Letters()))
        one.read(["mill"])
        two.truncate()
        assert shown(one.read(["mills"])) == [[]]


class TestChromaInMemory(HistoryRules, VectorRules):
    @pytest.fixture
    def client(self) -> Iterator[Any]:
        client = open_chroma()
        yield client
        close_chroma(client)

    @pytest.fixture
    def store(self, client: Any) -> Chroma:
        return chroma_store(client, "history", Letters())

    @pytest.fixture
    def other_store(self, client: Any) -> Chroma:
        return chroma_store(client, "other", Letters())


class TestChromaWithItsOwnDistance(HistoryRules, VectorRules):
    """A user's own store, with the squared distance that Chroma takes by default."""

    @pytest.fixture
    def client(self) -> Iterator[Any]:
        client = open_chroma()
        yield client
        close_chroma(client)

    @pytest.fixture
    def store(self, client: Any) -> Chroma:
        return Chroma("mine", Letters(), client=client)

    @pytest.fixture
    def other_store(self, client: Any) -> Chroma:
        return Chroma("mine-too", Letters(), client=client)


class TestInMemoryVectorStore(HistoryRules, VectorRules):
    @pytest.fixture
    def store(self) -> InMemoryVectorStore:
        return InMemoryVectorStore(Letters())

    @pytest.fixture
    def other_store(self) -> InMemoryVectorStore:
        return InMemoryVectorStore(Letters())

    def test_vectors_of_what_is_found_are_remembered_within_bounds(
        self, store: InMemoryVectorStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shelves, "_CACHED_VECTORS", 5)
        history = ChunkHistory(store, topk=9)
        history.read([f"mill {number}" for number in range(12)])
        assert len(history.read(["mill"])[0]) == 9
        assert len(history._shelf._vectors) <= 37  # type: ignore[attr-defined]


class Least(InMemoryVectorStore):
    """A store that gives no more than the VectorStore interface obliges it to."""

    def get_by_ids(self, ids: Any, /) -> Any:
        raise NotImplementedError

    def similarity_search_by_vector(self, embedding: Any, k: int = 4, **kwargs: Any) -> Any:
        raise NotImplementedError


class TestTheLeastStore(HistoryRules):
    @pytest.fixture
    def store(self) -> Least:
        return Least(Letters())

    @pytest.fixture
    def other_store(self) -> Least:
        return Least(Letters())

    def test_one_that_keeps_what_is_deleted_cannot_be_emptied(self, store: Least, monkeypatch: Any) -> None:
        history = ChunkHistory(store)
        history.read(["mill"])
        monkeypatch.setattr(store, "delete", lambda ids: None)
        with pytest.raises(UsageError, match="Least"):
            history.truncate()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that runs as long as these tests."""
    if (program := Path(sys.executable).with_name("chroma")).exists() is False:
        pytest.skip("Chroma's program is not beside this Python")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = str(tmp_path_factory.mktemp("server"))
    command = [str(program), "run", "--path", where, "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, "the server has ended"
            time.sleep(0.1)
        yield port
        process.terminate()


class TestAChromaServer(HistoryRules, VectorRules):
    """A server of Chroma's own on this machine, over HTTP."""

    @pytest.fixture
    def client(self, address: int) -> Any:
        import chromadb

        client = chromadb.HttpClient("127.0.0.1", address)
        for collection in client.list_collections():
            client.delete_collection(collection.name)
        return client

    @pytest.fixture
    def store(self, client: Any) -> Chroma:
        return chroma_store(client, "history", Letters())

    @pytest.fixture
    def other_store(self, client: Any) -> Chroma:
        return chroma_store(client, "other", Letters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # langchain-community's, of itself
class TestFaiss(HistoryRules, VectorRules):
    @pytest.fixture
    def store(self) -> VectorStore:
        return faiss_store()

    @pytest.fixture
    def other_store(self) -> VectorStore:
        return faiss_store()


def faiss_store() -> VectorStore:
    faiss = pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    stores: Any = pytest.importorskip("langchain_community.vectorstores", reason="langchain-community is not installed")
    docstore: Any = pytest.importorskip("langchain_community.docstore.in_memory")
    embeddings = Letters()
    index, texts = faiss.IndexFlatL2(embeddings.size), docstore.InMemoryDocstore()
    # By default it orders by the distance of vectors as they are: with embeddings not of length 1 by their length, too.
    store: VectorStore = stores.FAISS(embeddings, index, texts, {}, normalize_L2=True)
    return store


class TestQdrant(HistoryRules, VectorRules):
    @pytest.fixture
    def store(self) -> Iterator[VectorStore]:
        yield from qdrant_store()

    @pytest.fixture
    def other_store(self) -> Iterator[VectorStore]:
        yield from qdrant_store()


def qdrant_store() -> Iterator[VectorStore]:
    qdrant: Any = pytest.importorskip("langchain_qdrant", reason="langchain-qdrant is not installed")
    client_of: Any = pytest.importorskip("qdrant_client")
    client = client_of.QdrantClient(":memory:")
    size = client_of.models.VectorParams(size=Letters().size, distance=client_of.models.Distance.COSINE)
    client.create_collection("history", vectors_config=size)
    yield qdrant.QdrantVectorStore(client, "history", Letters())
    client.close()


class Broken(Letters):
    """Embeddings that give what a test says."""

    def __init__(self, vectors: Any) -> None:
        super().__init__()
        self.vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if isinstance(self.vectors, Exception):
            raise self.vectors
        return list(self.vectors)


class TestFaults:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("topk", -1),
            ("topk", True),
            ("topk", 2.5),
            ("score_threshold", 1.01),
            ("score_threshold", -2),
            ("score_threshold", True),
            ("score_threshold", "0.3"),
            ("score_threshold", float("nan")),
            ("max_chunks_once_load", 0),
            ("max_threads", 0),
            ("max_threads", True),
        ],
    )
    def test_an_argument_out_of_its_range_is_named(self, name: str, value: Any) -> None:
        with pytest.raises(UsageError, match=f"{name} is {value!r}"):
            ChunkHistory(InMemoryVectorStore(Letters()), **{name: value})

    def test_defaults_are_those_of_the_original(self) -> None:
        history = ChunkHistory(InMemoryVectorStore(Letters()))
        settings = history.topk, history.score_threshold, history.max_chunks_once_load, history.max_threads
        assert settings == (5, 0.3, 10, 1)

    def test_a_store_without_embeddings_is_refused(self) -> None:
        client = open_chroma()
        for store in (Chroma("mine", client=client), "chroma", None):
            with pytest.raises(UsageError, match="embeddings"):
                ChunkHistory(store)  # type: ignore[arg-type]
        close_chroma(client)

    @pytest.mark.parametrize("chunks", ["one text", Document("one"), [5], [None]])
    def test_what_are_no_chunks_is_refused(self, chunks: Any) -> None:
        with pytest.raises(UsageError, match="chunk"):
            ChunkHistory(InMemoryVectorStore(Letters())).read(chunks)

    @pytest.mark.parametrize("vectors", [[], [[1.0]], [[float("nan")], [1.0]], [[[1.0]], [[1.0]]]])
    def test_vectors_that_are_none_are_the_embeddings_fault(self, vectors: Any) -> None:
        store = InMemoryVectorStore(Broken(vectors))
        with pytest.raises(ModelError, match="embeddings gave"):
            ChunkHistory(store).read(["mill", "mills"])
        assert not store.store

    def test_a_failure_of_the_embeddings_is_no_empty_context(self) -> None:
        with pytest.raises(ConnectionError, match="gone"):
            ChunkHistory(InMemoryVectorStore(Broken(ConnectionError("gone")))).read(["mill"])
