"""How long a text is for a model: one counter for splitting, checking and budgets of a run; never a download.

tiktoken's tables are used where they already lie on the machine, else the length is estimated by script.
"""

import functools
import hashlib
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rag_transformers.estimate import Estimate

if TYPE_CHECKING:
    import tiktoken
    from langchain_core.runnables import Runnable

__all__ = ["EstimateWarning", "TokenCounter", "counter_name", "token_counter"]


class TokenCounter(Protocol):
    """Anything that says how many tokens a text has; a model's ``get_num_tokens`` and ``len`` are ones too."""

    def __call__(self, text: str, /) -> int:
        """The number of tokens of a text."""


class EstimateWarning(RuntimeWarning):
    """Tokens are estimated, for the tables of the model's tokenizer are not on this machine."""


def token_counter(model: "str | Runnable[Any, Any] | None" = None) -> TokenCounter:
    """The counter for a model; with no model, or one whose tokenizer is unknown, that of the newest tables found.

    Nothing is downloaded: where tiktoken's cache folder (``TIKTOKEN_CACHE_DIR``) holds no tables for the model, its
    tokens are estimated, and one warning a process says so. Special tokens in a text are text.

    Args:
        model: A model's name, such as ``gpt-4o`` or ``openai/gpt-4o``, or a LangChain model, bare or bound. A model
            that brings its own counter (``custom_get_token_ids``, or a user's subclass that counts by itself) is
            asked; those of the provider packages are not, for they download tables or ask their server.

    >>> count = token_counter("gpt-4o")
    >>> count(""), count("<|endoftext|>") > 1, count("三顾茅庐") >= 2
    (0, True, True)
    """
    if model is not None and not isinstance(model, str):
        own = _own_counter(model)
        if own is not None:
            return own
        model = _model_name(model)
    wanted = _encoding_name(model) if model else None
    for name in (wanted,) if wanted else _DEFAULT_ENCODINGS:
        if _on_machine(name):
            return _Tiktoken(name)
    _warn_once()
    return Estimate(wanted or _DEFAULT_ENCODINGS[0])


def counter_name(counter: TokenCounter) -> str:
    """What a counter is called in reports and keys.

    >>> counter_name(len), counter_name(Estimate("cl100k_base"))
    ('builtins.len', 'estimate of cl100k_base')
    """
    name = getattr(counter, "name", None)
    if isinstance(name, str):
        return name
    function = counter if hasattr(counter, "__qualname__") else type(counter)
    return f"{function.__module__}.{function.__qualname__}"


# The file of each encoding in tiktoken's cache: its name, which is the SHA-1 of the address that it comes from, and
# the SHA-256 of what it holds. tiktoken deletes a file that differs and downloads it anew: it is checked before.
_TABLES = {
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
_TABLES["o200k_harmony"] = _TABLES["o200k_base"]
_DEFAULT_ENCODINGS = ("o200k_base", "cl100k_base")


def _encoding_name(model: str) -> str | None:
    """The encoding of a model by tiktoken's register of names; a router's prefix, as in ``openai/``, does not count."""
    from tiktoken.model import encoding_name_for_model

    try:
        return encoding_name_for_model(model.rpartition("/")[2])
    except KeyError:
        return None


def _on_machine(encoding: str) -> bool:
    from tiktoken.registry import ENCODINGS

    if encoding in ENCODINGS:
        return True
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = os.path.join(tempfile.gettempdir(), "data-gym-cache")
    if not folder or encoding not in _TABLES:  # tiktoken reads an empty name as: no cache, always download
        return False
    name, digest = _TABLES[encoding]
    try:
        return hashlib.sha256(Path(folder, name).read_bytes()).hexdigest() == digest
    except OSError:
        return False


def _own_counter(model: "Runnable[Any, Any]") -> TokenCounter | None:
    """The counter that a model brings, unless it is one that downloads or asks a server."""
    model = _unbound(model)
    count: TokenCounter | None = getattr(model, "get_num_tokens", None)
    if count is None:
        return None
    methods = (getattr(type(model), name, None) for name in ("get_num_tokens", "get_token_ids"))
    by_itself = any(not getattr(method, "__module__", "langchain").startswith("langchain") for method in methods)
    return count if by_itself or getattr(model, "custom_get_token_ids", None) else None


def _unbound(model: Any) -> Any:
    """The model inside ``model.bind(...)``, ``.with_retry()`` and the like."""
    from langchain_core.runnables.base import RunnableBindingBase

    while isinstance(model, RunnableBindingBase):
        model = model.bound
    return model


def _model_name(model: Any) -> str | None:
    found = (getattr(_unbound(model), name, None) for name in ("tiktoken_model_name", "model_name", "model"))
    return next((name for name in found if isinstance(name, str) and name), None)


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "token counts are estimates: tiktoken's tables are not on this machine, and nothing is downloaded; "
        "set TIKTOKEN_CACHE_DIR to a folder that holds them for exact counts",
        EstimateWarning,
        stacklevel=3,
    )


_PIECE = 20_000
# Longer texts go to tiktoken in pieces, for a long run without a border makes it slow (letters) or panic (1 MB of
# white space). Before a lone space and after a line break its tokens always have a border, so the sum stays exact.
_PIECES = re.compile(rf"(?s).{{1,{_PIECE}}}\Z|.{{1,{_PIECE - 1}}}(?:(?<=\S)(?= \S)|(?<=\n)(?=[^\s/]))|.{{1,{_PIECE}}}")


class _Tiktoken:
    """Exact counts; the tables are read at the first count."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<TokenCounter {self.name}>"

    @functools.cached_property
    def _encoding(self) -> "tiktoken.Encoding":
        import tiktoken

        return tiktoken.get_encoding(self.name)

    def __call__(self, text: str, /) -> int:
        encode = self._encoding.encode_ordinary
        if len(text) <= _PIECE:
            return len(encode(text))
        return sum(len(encode(piece.group())) for piece in _PIECES.finditer(text))
