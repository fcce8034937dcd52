"""Rules of the history of chunks, and what every VectorStore under it must make hold."""

import asyncio
import itertools
import logging
import random
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from rag_transformers.errors import IndexMismatchError, ModelError, UsageError
from rag_transformers.stores import ChunkHistory, chunk_history, shelves
from rag_transformers.stores.chroma import chroma_store, close_chroma, open_chroma


class Letters(Embeddings):
    """Counts the characters and pairs of a text: like texts get like vectors, and long ones long vectors."""

    def __init__(self, size: int = 96) -> None:
        self.size = size
        self.asked: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.size
        for part in (*text, *map("".join, itertools.pairwise(text))):
            vector[zlib.crc32(part.encode()) % self.size] += 1.0
        return vector


def shown(contexts: list[list[Document]]) -> list[list[str]]:
    return [[section.page_content for section in sections] for sections in contexts]


def chunk(text: str, order: int | None = None, **metadata: Any) -> Document:
    return Document(text, metadata=metadata if order is None else {"order": order, **metadata})


WORDS = ["刘备", "关羽", "张飞", "曹操", "荆州", "赤壁", "harbour", "ledger", "mill", "lantern", "orchard", "pilot"]


def made_up(count: int, seed: int, orders: bool = False) -> list[Document]:
    """Chunks of few words, so that many are alike and some are equal."""
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 4))) for _ in range(count)]
    places = draw.sample(range(count * 2), count)
    return [
        chunk(text, order if orders and draw.random() < 0.8 else None)
        for text, order in zip(texts, places, strict=True)
    ]


class HistoryRules:
    """What holds whatever the store; a subclass gives the store."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def other_store(self, tmp_path: Path) -> Any:
        """A second, empty one of the same kind."""
        raise NotImplementedError

    def test_a_chunk_is_shown_similar_chunks_before_it_best_first(self, store: VectorStore) -> None:
        history = ChunkHistory(store, topk=2)
        first = history.read(["the mill burned", "the mill burned down", "桃园三结义", "the mill burned down at night"])
        assert shown(first) == [
            [],
            ["the mill burned"],
            [],
            ["the mill burned down", "the mill burned"],
        ]
        assert shown(history.read(["刘关张桃园结义", "the mill burns"])) == [
            ["桃园三结义"],
            ["the mill burned", "the mill burned down"],
        ]
        scores = [section.metadata["score"] for section in first[3]]
        assert 1 > scores[0] > scores[1] > 0.3

    @pytest.mark.parametrize("orders", [False, True])
    def test_a_batch_is_the_same_as_one_after_another(
        self, store: VectorStore, other_store: VectorStore, orders: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With equal texts, with and without an order, over the borders of windows and against what is stored."""
        monkeypatch.setattr(chunk_history, "_WINDOW", 7)
        chunks = made_up(30, seed=1 + orders, orders=orders)
        together, apart = ChunkHistory(store, topk=3), ChunkHistory(other_store, topk=3)
        batched = together.read(chunks[:5]) + together.read(chunks[5:])
        single = [apart.read([each])[0] for each in chunks]
        assert batched == single
        assert sum(map(len, batched)) > 30

    def test_a_chunk_never_meets_itself(self, store: VectorStore) -> None:
        """Not as an equal chunk of the batch, and not when it is read again after a failure."""
        history = ChunkHistory(store)
        assert shown(history.read(["page footer", "page footer", "page footers"])) == [[], [], ["page footer"]]
        assert shown(history.read(["page footer"])) == [["page footers"]]

    def test_chunks_of_a_later_place_are_left_out(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        history.read([chunk("mill one", 1), chunk("mill two", 5), chunk("mill three", 9), "mill four"])
        assert sorted(shown(history.read([chunk("mill", 5)]))[0]) == ["mill four", "mill one"]
        assert len(history.read(["mills"])[0]) == 5

    def test_later_chunks_do_not_take_the_places_of_earlier_ones(self, store: VectorStore) -> None:
        """However many of them are nearer, and wherever in the batch they stand."""
        history = ChunkHistory(store, topk=3)
        history.read([chunk("mill a", 1), chunk("mill b", 2), chunk("mill c", 3)])
        history.read([chunk(f"mill {'y' * count}", 10 + count) for count in range(60)])
        assert sorted(shown(history.read([chunk("mill yy", 4)]))[0]) == ["mill a", "mill b", "mill c"]

    def test_the_earliest_place_of_an_equal_text_counts(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        history.read([chunk("mill", 7, source="late", extra="x")])
        history.read([chunk("mill", 9, source="later")])
        assert shown(history.read([chunk("mills", 5)])) == [[]]
        history.read([chunk("mill", 2, source="early")])
        found = history.read([chunk("the mills", 6)])[0]
        assert [section.metadata["source"] for section in found if section.page_content == "mill"] == ["early"]
        assert all("extra" not in section.metadata for section in found)

    def test_the_threshold_is_a_cosine_whatever_the_length_of_vectors(self, store: VectorStore) -> None:
        """The texts differ in length by a factor of 50, and so do their vectors."""
        history = ChunkHistory(store, topk=2, score_threshold=0.9)
        history.read(["pump report " * 50, "wedding menu"])
        [[section]] = history.read(["pump report"])
        assert section.page_content == "pump report " * 50
        assert 0.9 < section.metadata["score"] <= 1

    @pytest.mark.parametrize(("threshold", "count"), [(-1, 3), (1, 0)])
    def test_the_threshold_may_be_at_its_ends(self, store: VectorStore, threshold: int, count: int) -> None:
        history = ChunkHistory(store, topk=9, score_threshold=threshold)
        assert len(history.read(["abc", "xyz", "曹操", "abd"])[3]) == count

    def test_topk_zero_shows_nothing_and_still_remembers(self, store: VectorStore) -> None:
        assert shown(ChunkHistory(store, topk=0).read(["mill", "mills"])) == [[], []]
        assert shown(ChunkHistory(store).read(["the mill"])) == [["mill", "mills"]]

    def test_metadata_is_kept_in_plain_form_with_the_number_of_sections(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        given = chunk("mill one", source="甲.txt", author=None, place={"page": 3})
        history.read([given, "mill two"])
        found = {section.page_content: section.metadata for section in history.read(["mill"])[0]}
        assert found["mill one"] | {"score": 0} == {
            "source": "甲.txt",
            "place": '{"page": 3}',
            "relevant_cnt": 0,
            "score": 0,
        }
        assert found["mill two"]["relevant_cnt"] == 1
        assert given.metadata == {"source": "甲.txt", "author": None, "place": {"page": 3}}

    def test_changing_what_was_returned_changes_nothing(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        found = history.read(["mill one", "mill"])[1][0]
        found.page_content, found.metadata["source"] = "changed", "changed"
        assert history.read(["mill"])[0][0].metadata.keys() == {"relevant_cnt", "score"}

    def test_blank_chunks_are_no_history_and_have_none(self, store: VectorStore) -> None:
        history = ChunkHistory(store, score_threshold=-1)
        assert history.read([]) == []
        assert shown(history.read(["", "mill", " \n", "mills"])) == [[], [], [], ["mill"]]

    def test_half_an_emoji_is_no_error(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        assert shown(history.read(["mill \ud83d", "mills \ud83d"])) == [[], ["mill ?"]]
        assert shown(history.read(["mill \ud83d"])) == [["mills ?"]]

    def test_truncate_empties_and_drop_deletes_as_often_as_one_likes(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        for empty in (history.truncate, history.drop):
            history.read(["mill one", "mill two"])
            empty()
            empty()
            assert shown(history.read(["mill"])) == [[]]
            assert shown(history.read(["mills"])) == [["mill"]]

    async def test_so_do_their_async_forms(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        for empty in (history.atruncate, history.adrop):
            await history.aread(["mill one", "mill two"])
            await empty()
            await empty()
            assert shown(await history.aread(["mill"])) == [[]]
            await history.adelete(["mill"])

    def test_deleted_texts_are_forgotten(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        history.read(["mill one", "mill two", "mill three"])
        history.delete(["mill one", chunk("mill two"), "never seen", "mill one"])
        history.delete([])
        assert shown(history.read(["mill"])) == [["mill three"]]

    def test_threads_take_turns(self, store: VectorStore) -> None:
        """Whatever the turns, everything is stored and nobody meets itself."""
        history = ChunkHistory(store, topk=50, score_threshold=-1)
        found: dict[str, list[str]] = {}

        def read(number: int) -> None:
            texts = [f"mill {number} {place}" for place in range(3)]
            found.update(zip(texts, shown(history.read(texts)), strict=True))

        threads = [threading.Thread(target=read, args=[number]) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(len(sections) for sections in found.values()) == list(range(18))
        assert all(text not in sections for text, sections in found.items())
        assert len(history.read(["mill"])[0]) == 18

    def test_one_history_serves_several_loops(self, store: VectorStore) -> None:
        history = ChunkHistory(store)
        assert shown(asyncio.run(history.aread(["mill one"]))) == [[]]
        assert shown(asyncio.run(history.aread(["mill two"]))) == [["mill one"]]

        async def cell() -> list[list[Document]]:
            return history.read(["mill three"])

        assert len(asyncio.run(cell())[0]) == 2

    def test_a_history_that_cannot_be_written_is_a_warning(
        self, store: VectorStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The contexts come all the same, and what can be written is written."""
        history = ChunkHistory(store, max_chunks_once_load=1)
        write = history._shelf.write

        def full(documents: Any, vectors: Any) -> None:
            if documents[0].page_content == "mill two":
                raise OSError("disk full")
            write(documents, vectors)

        monkeypatch.setattr(history._shelf, "write", full)
        with caplog.at_level(logging.WARNING):
            assert shown(history.read(["mill one", "mill two", "mill"])) == [
                [],
                ["mill one"],
                ["mill one", "mill two"],
            ]
        assert [record.getMessage() for record in caplog.records] == [
            "1 chunks could not be written to the history: OSError: disk full"
        ]
        assert shown(history.read(["mills"])) == [["mill", "mill one"]]

    @pytest.mark.parametrize("threads", [1, 3])
    def test_writes_are_of_the_size_that_was_set(
        self, store: VectorStore, threads: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        history = ChunkHistory(store, max_chunks_once_load=4, max_threads=threads)
        sizes, write = [], history._shelf.write

        def noted(documents: Any, vectors: Any) -> None:
            sizes.append(len(documents))
            write(documents, vectors)

        monkeypatch.setattr(history._shelf, "write", noted)
        history.read([f"mill {number}" for number in range(10)])
        assert sorted(sizes) == [2, 4, 4]
        assert len(ChunkHistory(store, topk=20).read(["mill"])[0]) == 10


class TestChromaInAFolder(HistoryRules):
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


class TestChromaInMemory(HistoryRules):
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


class TestChromaWithItsOwnDistance(HistoryRules):
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


class TestInMemoryVectorStore(HistoryRules):
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
