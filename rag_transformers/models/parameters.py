"""Parameters of a stage's own, such as a temperature, on the calls of whatever model it was given."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.models.faults import error_line
from rag_transformers.models.given import model_key
from rag_transformers.models.servers import takes_temperature

__all__ = ["log_left_out", "refused_name", "with_parameters"]

_log = logging.getLogger(__name__)

_SAMPLING = ("temperature", "top_p")
_STATUS = (400, 422)
"""With these a server refuses a parameter."""


def with_parameters(llm: Runnable[Any, Any], parameters: Mapping[str, Any], *, default: bool = False) -> Any:
    """A model that is called with parameters, as far as it takes them.

    A chat model takes them as a call's own, also one that is bound, retried or has fallbacks; any other Runnable is
    left as it is, for nobody knows what it does with them. What a model refuses is left out from then on, and the log
    says so once: reasoning models take no temperature, some models not two parameters at once, some clients know
    other names.

    Args:
        llm: A chat model, or any Runnable in its place.
        parameters: By the names of the call.
        default: Whether they are only defaults: what is bound to the model already then stays.

    >>> from langchain_core.runnables import RunnableLambda
    >>> with_parameters(RunnableLambda(str.upper), {"temperature": 0.5}).invoke("ada")
    'ADA'
    """
    from langchain_core.language_models import BaseLanguageModel

    inside = list(_layers(llm))
    if not isinstance(inside[-1], BaseLanguageModel):
        return llm
    bound = {name for layer in inside for name in getattr(layer, "kwargs", None) or {}} if default else set()
    name = next((str(getattr(inside[-1], key)) for key in ("model_name", "model") if hasattr(inside[-1], key)), "")
    fixed = () if takes_temperature(name) else _SAMPLING
    taken = {name: value for name, value in parameters.items() if name not in bound and name not in fixed}
    return _Parametrised(llm, taken) if taken else llm


def refused_name(names: Iterable[str], error: Exception) -> str | None:
    """The last of the parameters of which an error says that the model does not take them; None if it names none.

    Args:
        names: Of the parameters that were sent.
        error: What the client raised.

    >>> refused_name(["temperature", "seed"], TypeError("chat() got an unexpected keyword argument 'seed'"))
    'seed'
    """
    if getattr(error, "status_code", None) not in _STATUS and not isinstance(error, TypeError):
        return None
    named = [name for name in names if re.search(rf"\b{re.escape(name)}\b", str(error))]
    return named[-1] if named else None


def log_left_out(name: str, error: Exception) -> None:
    """Say that a parameter is sent no more, and why."""
    _log.warning("the model does not take %s, which is left out from now on; %s", name, error_line(error))


class _Parametrised(Runnable[Any, Any]):
    """A model with parameters; those that it refuses are dropped, the last named first."""

    def __init__(self, llm: Runnable[Any, Any], parameters: Mapping[str, Any]) -> None:
        self.bound = llm  # by this name its retries are found, as those of what LangChain binds
        self._given = dict(parameters)
        self._parameters = self._given

    @property
    def cache_key(self) -> str:
        """What names the model and what it was to be called with."""
        return f"{model_key(self.bound)}{sorted(self._given.items())}"

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        while True:
            parameters = self._parameters
            try:
                return self.bound.invoke(input, config, **{**parameters, **kwargs})
            except Exception as error:
                if not self._dropped(parameters, error):
                    raise

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        while True:
            parameters = self._parameters
            try:
                return await self.bound.ainvoke(input, config, **{**parameters, **kwargs})
            except Exception as error:
                if not self._dropped(parameters, error):
                    raise

    def _dropped(self, parameters: Mapping[str, Any], error: Exception) -> bool:
        """Whether the error says that the model does not take a parameter, which then is sent no more."""
        if (refused := refused_name(parameters, error)) is None:
            return False
        if refused in self._parameters:  # else another call has dropped it meanwhile
            self._parameters = {name: value for name, value in self._parameters.items() if name != refused}
            log_left_out(refused, error)
        return True


def _layers(llm: Any) -> Iterator[Any]:
    """A model and what is wrapped in it: bound parameters, retries, fallbacks, configurable fields."""
    from langchain_core.runnables import RunnableWithFallbacks
    from langchain_core.runnables.base import RunnableBindingBase
    from langchain_core.runnables.configurable import DynamicRunnable

    yield llm
    if isinstance(llm, RunnableBindingBase):
        yield from _layers(llm.bound)
    elif isinstance(llm, RunnableWithFallbacks):
        yield from _layers(llm.runnable)
    elif isinstance(llm, DynamicRunnable):
        yield from _layers(llm.default)
