"""What was given as a model: which it is, what names it in keys, and whether it has retries of its own."""

import json
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBinding

from rag_transformers.errors import UsageError

__all__ = [
    "RETRIES",
    "RETRIES_KEY",
    "model_key",
    "optional_llm",
    "resolve_llm",
    "retries",
]

RETRIES = 4
"""Further tries of a call, by us, of a model that has no retries of its own."""

RETRIES_KEY = "rag_transformers_retries"
"""In a model's metadata: how often we are to ask it again."""

_SECRET_NAME = re.compile(r"api_?key|authorization|secret|password|headers|credential|access_?token", re.IGNORECASE)


def resolve_llm(owner: str, llm: Any, aliases: Mapping[str, Any]) -> Any:
    """The model given as ``llm`` or under one of the originals' names for it.

    Args:
        owner: The class that asks, for the message.
        llm: What was given as ``llm``, or None.
        aliases: What was given under other names.

    Raises:
        UsageError: None was given, more than one, or something that is no Runnable.
    """
    given = {name: value for name, value in {"llm": llm, **aliases}.items() if value is not None}
    names = ", ".join(("llm", *aliases))
    if len(given) != 1:
        raise UsageError(f"{owner} takes one model, as one of {names}; got {', '.join(given) or 'none'}")
    ((name, model),) = given.items()
    if not isinstance(model, Runnable):
        raise UsageError(f"{owner}: {name} is {type(model).__name__}; give a LangChain chat model or another Runnable")
    return model


def optional_llm(owner: str, llm: Any, aliases: Mapping[str, Any]) -> Any:
    """As :func:`resolve_llm`; None where no model was given under any of the names."""
    return resolve_llm(owner, llm, aliases) if any(value is not None for value in (llm, *aliases.values())) else None


def model_key(llm: Any) -> str:
    """What names a model and its parameters, for the keys of what was made with it; holds no secrets.

    >>> from langchain_core.runnables import RunnableLambda
    >>> model_key(RunnableLambda(len))
    'langchain_core.runnables.base.RunnableLambda(builtins.len)'
    """
    # What binds parameters to a model hands on the model's own key, which does not tell of them.
    own = None if isinstance(llm, RunnableBinding) and llm.kwargs else getattr(llm, "cache_key", None)
    if isinstance(own, str):
        return own
    kind = f"{type(llm).__module__}.{type(llm).__qualname__}"
    if (bound := getattr(llm, "bound", None)) is not None:
        return f"{model_key(bound)}+{_stable(getattr(llm, 'kwargs', {}))}"
    if parts := _parts(llm):
        return f"{kind}({', '.join(map(model_key, parts))})"
    if function := getattr(llm, "func", None) or getattr(llm, "afunc", None):
        return f"{kind}({getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')})"
    parameters = getattr(llm, "_identifying_params", None)
    return f"{kind}{_stable(parameters)}" if parameters else kind


def retries(llm: Any) -> int:
    """How often we ask a model again: not at all if it has retries of its own, be it none, or one of its parts has."""
    told = (getattr(llm, "metadata", None) or {}).get(RETRIES_KEY)
    if isinstance(told, int):
        return told
    if any(hasattr(llm, name) for name in ("max_retries", "max_attempt_number")):
        return 0
    bound = getattr(llm, "bound", None)
    return min((retries(part) for part in (_parts(llm) if bound is None else [bound])), default=RETRIES)


def _parts(llm: Any) -> list[Any]:
    """The Runnables that a chain, or a model with fallbacks, is made of."""
    if fallbacks := getattr(llm, "fallbacks", None):
        return [llm.runnable, *fallbacks]
    steps = getattr(llm, "steps__", None) or getattr(llm, "steps", None)
    return list(steps.values() if isinstance(steps, Mapping) else steps) if isinstance(steps, Mapping | list) else []


def _stable(value: Any) -> str:
    return json.dumps(
        _public(value), sort_keys=True, ensure_ascii=False, default=lambda other: type(other).__qualname__
    )


def _public(value: Any) -> Any:
    """A value without what may be a key of the user's, which neither names a model nor is to be stored."""
    if isinstance(value, Mapping):
        return {str(name): _public(item) for name, item in value.items() if not _SECRET_NAME.search(str(name))}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return [_public(item) for item in value] if isinstance(value, list | tuple) else value
