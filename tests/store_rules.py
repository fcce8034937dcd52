"""Rules of the stores, which hold whatever VectorStore is under them: the tests of each store inherit them.

class TestMine(HistoryRules, VectorRules):
@pytest.fixture
def store(self) -> VectorStore: ...        # an empty one, with the embeddings Letters()
@pytest.fixture
def other_store(self) -> VectorStore: ...  # a second, empty one
"""

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
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from rag_transformers.stores import ChunkHistory, chunk_history
from rag_transformers.stores.made import Made
from rag_transformers.stores.vectors import StoredEmbeddings, VectorIndex

__all__ = ["HistoryRules", "Letters", "VectorRules", "chunk", "made_up", "shown"]


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
        history.delete(["mill two", "never seen", "mill two"])
        history.delete("mill one")
        history.delete([])
        history.delete("never seen either")
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


class VectorRules:
    """What holds of the vectors of an index, whatever the store; a subclass gives the store."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        raise NotImplementedError

    @pytest.fixture
    def embeddings(self, tmp_path: Path) -> Iterator[StoredEmbeddings]:
        """Those of an index, which keep what they made."""
        made = Made(tmp_path / "made.sqlite")
        yield StoredEmbeddings(Letters(), made)
        made.close()

    @pytest.fixture
    def vectors(self, store: VectorStore, embeddings: StoredEmbeddings) -> VectorIndex:
        index = VectorIndex(store, embeddings)
        index.add([Document(text, id=f"id-{number}", metadata={"place": number}) for number, text in enumerate(TEXTS)])
        return index

    def found(self, vectors: VectorIndex, embeddings: StoredEmbeddings, text: str, n: int = 3) -> list[str]:
        """The store only proposes, here from all that it holds: its own distance may be another."""
        return [document.page_content for document, _ in vectors.nearest(embeddings.embed_query(text), 20)][:n]

    def test_the_nearest_come_best_first_with_exact_cosines(
        self, vectors: VectorIndex, embeddings: StoredEmbeddings
    ) -> None:
        found = vectors.nearest(embeddings.embed_query(TEXTS[0]), 4)
        assert [document.page_content for document, _ in found][:2] == [TEXTS[0], TEXTS[1]]
        cosines = [cosine for _, cosine in found]
        assert cosines[0] == pytest.approx(1)
        assert cosines == sorted(cosines, reverse=True)
        assert [(document.id, document.metadata["place"]) for document, _ in found[:2]] == [("id-0", 0), ("id-1", 1)]

    def test_a_text_is_replaced_under_its_id(self, vectors: VectorIndex, embeddings: StoredEmbeddings) -> None:
        vectors.add([Document("an orchard in bloom", id="id-0"), Document("new here", id="id-9")])
        vectors.add([Document("new here", id="id-9")])
        assert self.found(vectors, embeddings, TEXTS[0], 20).count(TEXTS[0]) == 0
        assert self.found(vectors, embeddings, "an orchard in bloom")[0] == "an orchard in bloom"
        assert self.found(vectors, embeddings, "new here", 20).count("new here") == 1

    def test_what_is_deleted_is_not_found_and_an_unknown_id_is_no_error(
        self, vectors: VectorIndex, embeddings: StoredEmbeddings
    ) -> None:
        vectors.delete(["id-0", "id-unknown"])
        vectors.delete(["id-0"])
        assert sorted(self.found(vectors, embeddings, "mill", 20)) == sorted(TEXTS[1:])

    def test_chinese_is_found_by_chinese(self, vectors: VectorIndex, embeddings: StoredEmbeddings) -> None:
        assert self.found(vectors, embeddings, "桃园结义", 1) == ["刘关张桃园三结义"]


TEXTS = ["the mill burned down", "the mill burned", "a lantern in the harbour", "刘关张桃园三结义"]
