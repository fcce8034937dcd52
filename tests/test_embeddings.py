"""The offline default embeddings: deterministic, in this process, in both languages, whatever they are given."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from rag_transformers.embeddings import UNRELATED_TEXTS, default_embeddings, mean_cosine
from rag_transformers.errors import UsageError
from rag_transformers.retrieval.evidence import UNRELATED_COSINE

TEXTS = [f"The ferry number {number} crosses the river at {number} o'clock. 第{number}班渡船。" for number in range(70)]


def test_there_is_one_object_for_the_process_that_says_who_it_is() -> None:
    assert default_embeddings() is default_embeddings()
    assert default_embeddings().name == "use-multilingual-v3"
    assert 0.15 <= default_embeddings().score_threshold <= 0.2


def test_vectors_are_of_unit_length_and_as_many_as_texts() -> None:
    vectors = default_embeddings().embed_array(TEXTS)
    assert vectors.shape == (70, 512)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_text_has_one_vector_alone_and_among_others() -> None:
    embeddings = default_embeddings()
    together = embeddings.embed_documents(TEXTS)
    for number in (0, 31, 32, 69):
        np.testing.assert_allclose(embeddings.embed_query(TEXTS[number]), together[number], atol=2e-6)


def test_the_same_texts_give_the_same_bits() -> None:
    embeddings = default_embeddings()
    assert embeddings.embed_documents(TEXTS) == embeddings.embed_documents(TEXTS)


def test_many_threads_at_once_give_the_same_bits() -> None:
    embeddings = default_embeddings()
    alone = embeddings.embed_array(TEXTS)
    with ThreadPoolExecutor(6) as workers:
        for other in workers.map(embeddings.embed_array, [TEXTS] * 6):
            assert (other == alone).all()


def test_the_linear_algebra_library_has_its_threads_back_afterwards() -> None:
    def threads() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = threads()
    workers = [threading.Thread(target=default_embeddings().embed_array, args=(TEXTS,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert threads() == before


async def test_the_asynchronous_form_gives_the_same() -> None:
    embeddings = default_embeddings()
    assert await embeddings.aembed_documents(TEXTS[:3]) == embeddings.embed_documents(TEXTS[:3])
    assert await embeddings.aembed_query(TEXTS[0]) == embeddings.embed_query(TEXTS[0])


def test_chinese_and_english_lie_in_one_space() -> None:
    asked, english, other = default_embeddings().embed_array(
        ["谁建造了这座灯塔？", "The lighthouse was built by a merchant.", "Onions are fried in butter."]
    )
    assert asked @ english > asked @ other + 0.2


@pytest.mark.parametrize("text", ["", " ", "\x00", "🙂", "\ud800", "字" * 30_000, "word " * 6_000])
def test_any_text_has_a_vector(text: str) -> None:
    vector = default_embeddings().embed_array([text, "a"])[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)


def test_a_long_text_has_the_mean_of_its_pieces() -> None:
    embeddings = default_embeddings()
    long = "Salt was carried over the pass by mules. " * 400
    assert embeddings.embed_array([long])[0] @ embeddings.embed_array([long[:4100]])[0] > 0.99


def test_no_texts_give_no_vectors() -> None:
    assert default_embeddings().embed_documents([]) == []


@pytest.mark.parametrize("texts", ["one text", ["a", None], [b"bytes"]])
def test_what_is_no_list_of_texts_is_refused(texts: object) -> None:
    with pytest.raises(UsageError, match="give a list of texts"):
        default_embeddings().embed_documents(texts)  # type: ignore[arg-type]


def test_the_cosine_of_unrelated_texts_is_that_which_the_gate_goes_by() -> None:
    vectors = default_embeddings().embed_documents(list(UNRELATED_TEXTS))
    assert mean_cosine(vectors) == pytest.approx(UNRELATED_COSINE, abs=0.01)


def test_mean_cosine_leaves_a_vector_s_own_out_and_needs_no_unit_length() -> None:
    assert mean_cosine([[2.0, 0.0], [0.0, 3.0]]) == pytest.approx(0)
    assert mean_cosine([[1.0, 0.0], [5.0, 0.0], [0.0, 1.0]]) == pytest.approx(1 / 3)
