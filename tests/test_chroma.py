"""Rules of what stands on Chroma."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from rag_transformers import stores
from rag_transformers.errors import IndexMismatchError, UsageError
from rag_transformers.stores.chroma import (
    add_documents,
    add_texts_in_batches,
    check_size,
    chroma_store,
    close_chroma,
    collection_name,
    content_id,
    open_chroma,
    plain_metadata,
)


class Counted(Embeddings):
    """Vectors of a given size made from the letters of a text; remembers what it was asked."""

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self.asked: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        return [[float(sum(map(ord, text)) % (place + 7) + 1) for place in range(self.size)] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.fixture
def client() -> Iterator[Any]:
    client = open_chroma()
    yield client
    close_chroma(client)


class TestClients:
    def test_a_folder_can_be_deleted_and_built_again_after_close(self, tmp_path: Path) -> None:
        """Twice, in one process, the second time with Chinese in the folder's name."""
        for folder in (tmp_path / "store", tmp_path / "知识库"):
            for text in ("first", "second"):
                client = open_chroma(folder)
                store = chroma_store(client, "texts", Counted())
                add_texts_in_batches(store, [text])
                assert store.get()["documents"] == [text]
                close_chroma(client)
                shutil.rmtree(folder)

    def test_the_folder_is_given_back_with_the_last_client(self, tmp_path: Path) -> None:
        first, second = open_chroma(tmp_path / "d"), open_chroma(f"{tmp_path}/x/../d")
        add_texts_in_batches(chroma_store(first, "texts", Counted()), ["a"])
        close_chroma(first)
        close_chroma(first)
        assert chroma_store(second, "texts", Counted()).get()["documents"] == ["a"]
        close_chroma(second)

    def test_a_client_with_the_same_settings_is_shared(self, tmp_path: Path) -> None:
        own: Any = chromadb.PersistentClient(path=str(tmp_path), settings=Settings(anonymized_telemetry=False))
        client = open_chroma(tmp_path)
        add_texts_in_batches(chroma_store(client, "texts", Counted()), ["x"])
        close_chroma(client)
        assert own.count_collections() == 1
        own.close()

    @pytest.mark.parametrize("spelling", ["{}", "{}/../d"])
    def test_a_folder_open_with_other_settings_is_named_with_the_way_out(self, tmp_path: Path, spelling: str) -> None:
        (tmp_path / "d").mkdir()
        own: Any = chromadb.PersistentClient(path=spelling.format(tmp_path / "d"), settings=Settings(allow_reset=True))
        with pytest.raises(UsageError, match=rf"{tmp_path / 'd'}.*client="):
            open_chroma(tmp_path / "d")
        assert open_chroma(tmp_path / "d", client=own) is own
        close_chroma(own)

    def test_what_is_no_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x", encoding="utf-8")
        with pytest.raises(UsageError, match="cannot open"):
            open_chroma(tmp_path / "file")

    def test_clients_in_memory_share_nothing_and_suffer_others(self) -> None:
        """Whatever settings the application's own client in memory has."""
        for settings in (Settings(), Settings(anonymized_telemetry=False)):
            own: Any = chromadb.EphemeralClient(settings)
            one, two = open_chroma(), open_chroma()
            add_texts_in_batches(chroma_store(one, "texts", Counted()), ["x"])
            assert chroma_store(two, "texts", Counted()).get()["documents"] == []
            for each in (one, two, one):
                close_chroma(each)
            own.close()

    def test_nothing_is_sent(self, tmp_path: Path) -> None:
        client = open_chroma(tmp_path)
        assert client.get_settings().anonymized_telemetry is False
        close_chroma(client)


class TestCollections:
    NAMES = ("知识库", "客户资料", "a", "a b", "a-b", " ", "x" * 600, "Ünï", "half \ud83d")

    def test_any_name_gives_a_valid_stable_and_distinct_one(self, client: Any) -> None:
        given = [name for name in self.NAMES if name.strip()]
        made = [collection_name(name) for name in given]
        assert len(set(made)) == len(given)
        assert made == [collection_name(name) for name in given]
        for name in given:
            chroma_store(client, name, Counted())
        assert client.count_collections() == len(given)

    @pytest.mark.parametrize("name", ["", " ", None])
    def test_an_empty_name_is_refused(self, name: Any) -> None:
        with pytest.raises(UsageError, match="collection"):
            collection_name(name)

    def test_chinese_collections_are_the_same_after_reopening(self, tmp_path: Path) -> None:
        for expected in (1, 2):
            client = open_chroma(tmp_path)
            for name in ("知识库", "客户资料"):
                store = chroma_store(client, name, Counted())
                add_texts_in_batches(store, [f"{name} {expected}"])
                assert store._collection.count() == expected
            close_chroma(client)

    def test_cosine_is_set_and_no_embedding_of_chroma(self, client: Any) -> None:
        store = chroma_store(client, "texts", Counted())
        configuration: Any = store._collection.configuration
        assert configuration["hnsw"]["space"] == "cosine"
        assert configuration["embedding_function"] is None
        with pytest.raises(UsageError, match="embeddings is None"):
            chroma_store(client, "texts", None)  # type: ignore[arg-type]


class TestSizes:
    def test_vectors_of_another_size_are_refused_before_anything_is_written(self, client: Any) -> None:
        add_texts_in_batches(chroma_store(client, "词汇", Counted(8)), ["one"])
        other = chroma_store(client, "词汇", Counted(5))
        with pytest.raises(IndexMismatchError, match=r"'词汇' holds vectors of 8 .* 5: .*another name.*rebuild"):
            add_texts_in_batches(other, ["two"])
        with pytest.raises(IndexMismatchError):
            chroma_store(client, "词汇", Counted(5), size=5)
        assert other.get()["documents"] == ["one"]

    def test_an_empty_collection_takes_any(self, client: Any) -> None:
        store = chroma_store(client, "texts", Counted(8))
        check_size(store, 8)
        add_texts_in_batches(store, ["one"], ids=["1"])
        store.delete(["1"])
        other = chroma_store(client, "texts", Counted(5))
        add_texts_in_batches(other, ["two"])
        assert other.get()["documents"] == ["two"]


class TestBatches:
    def test_more_texts_than_the_client_takes_at_once_are_split_and_embedded_once(
        self, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        embeddings = Counted()
        store = chroma_store(client, "texts", embeddings)
        monkeypatch.setattr(client, "get_max_batch_size", lambda: 40)
        texts = [f"text {number}" for number in range(100)]
        assert add_texts_in_batches(store, texts) == [content_id(text) for text in texts]
        assert store._collection.count() == 100
        assert [len(batch) for batch in embeddings.asked] == [40, 40, 20]

    def test_the_limit_is_the_clients_own(self, client: Any) -> None:
        count = client.get_max_batch_size() + 1
        store = chroma_store(client, "texts", Counted(1))
        add_texts_in_batches(store, [f"{number}" for number in range(count)], vectors=[[1.0]] * count)
        assert store._collection.count() == count

    def test_equal_texts_are_stored_once_and_again_is_no_more(self, client: Any) -> None:
        store = chroma_store(client, "texts", Counted())
        texts = ["Page 1 of 9", "Body", "Page 1 of 9"]
        for _ in range(2):
            assert add_texts_in_batches(store, texts, [{"n": n} for n in range(3)]) == [
                content_id("Page 1 of 9"),
                content_id("Body"),
            ]
        assert sorted(meta["n"] for meta in store.get()["metadatas"]) == [0, 1]

    def test_known_vectors_are_not_made_again(self, client: Any) -> None:
        embeddings = Counted(2)
        store = chroma_store(client, "texts", embeddings)
        add_texts_in_batches(store, ["a", "b"], vectors=[[1.0, 0.0], [0.0, 1.0]])
        assert embeddings.asked == []
        assert [d.page_content for d in store.similarity_search_by_vector([1.0, 0.1], k=1)] == ["a"]

    def test_nothing_is_nothing(self, client: Any) -> None:
        assert add_texts_in_batches(chroma_store(client, "texts", Counted()), []) == []

    @pytest.mark.parametrize("wrong", [{"ids": ["1"]}, {"metadatas": [{}]}, {"vectors": [[1.0]]}])
    def test_what_does_not_line_up_is_refused(self, client: Any, wrong: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match="1 items for 2 texts"):
            add_texts_in_batches(chroma_store(client, "texts", Counted()), ["a", "b"], **wrong)

    def test_a_store_without_embeddings_is_refused(self, client: Any) -> None:
        """Chroma's own default, which would download a model, is not used in silence."""
        with pytest.raises(UsageError, match="no embeddings"):
            add_texts_in_batches(Chroma("other", client=client), ["a"])

    def test_documents_go_into_any_store(self, client: Any) -> None:
        documents = [Document("甲", id="1", metadata={"author": None, "page": 3}), Document("乙")]
        stores = chroma_store(client, "texts", Counted()), InMemoryVectorStore(Counted())
        for store in stores:
            assert add_documents(store, documents) == ["1", content_id("乙")]
            assert [found.metadata for found in store.get_by_ids(["1"])] == [{"page": 3}]
            assert add_documents(store, []) == []


class TestMetadata:
    def test_every_value_is_taken_in_some_form(self, client: Any) -> None:
        documents: list[tuple[str, dict[Any, Any]]] = [
            ("Alpha", {"author": None, "page": 3}),
            ("Beta", {}),
            ("Gamma", {"src": {"file": "丙.txt"}, "tags": ["x", 1], "none": []}),
            ("Delta", {"nan": float("nan"), "big": 2**80, "half": "\ud83d", "data": b"\x00", 5: True}),
            ("Epsilon", {"#a": 1, "$b": 1, "": 1, "chroma:document": "x", "path": Path("p")}),
        ]
        store = chroma_store(client, "texts", Counted())
        add_texts_in_batches(store, [text for text, _ in documents], [meta for _, meta in documents])
        found = store.get()
        kept = dict(zip(found["documents"], found["metadatas"], strict=True))
        assert kept == {
            "Alpha": {"page": 3},
            "Beta": None,
            "Gamma": {"src": '{"file": "丙.txt"}', "tags": '["x", 1]', "none": "[]"},
            "Delta": {"big": str(2**80), "half": "?", "data": "\"b'\\\\x00'\"", "5": True},
            "Epsilon": {"_#a": 1, "_$b": 1, "_": 1, "_chroma:document": "x", "path": '"p"'},
        }

    def test_a_text_with_half_an_emoji_is_kept(self, client: Any) -> None:
        store = chroma_store(client, "texts", Counted())
        add_texts_in_batches(store, ["half \ud83d"])
        assert store.get()["documents"] == ["half ?"]

    def test_plain_metadata_is_left_as_it_is(self) -> None:
        plain = {"source": "甲.txt", "chunk": 0, "score": 0.5, "kept": False}
        assert plain_metadata(plain) == plain


def test_importing_loads_nothing_heavy_and_names_load_at_first_use() -> None:
    script = (
        "import sys, rag_transformers.stores as stores, rag_transformers.stores.chroma\n"
        "print([m for m in ('chromadb', 'langchain_chroma', 'networkx', 'igraph', 'numpy') if m in sys.modules])\n"
        "stores.MemoryGraph, stores.ChunkHistory\n"
        "print([m for m in ('chromadb', 'langchain_chroma', 'networkx', 'igraph') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, encoding="utf-8")
    assert done.stdout.split() == ["[]", "[]"]
    assert stores.__all__ == sorted(stores.__all__)
    assert [getattr(stores, name).__name__ for name in stores.__all__] == stores.__all__
    with pytest.raises(AttributeError, match="nothing"):
        _ = stores.nothing


def test_threads_that_open_one_folder_share_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(lambda _: open_chroma(tmp_path), range(8)))
    add_texts_in_batches(chroma_store(clients[0], "texts", Counted()), ["x"])
    assert {client.count_collections() for client in clients} == {1}
    for client in clients:
        close_chroma(client)
    shutil.rmtree(tmp_path)
    close_chroma(open_chroma(tmp_path))
