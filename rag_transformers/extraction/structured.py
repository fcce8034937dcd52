"""Structured output: a chat model's own mode for data, tool calling or a JSON schema, where it offers one.

The arguments of a tool call, or the JSON, are given on as text and read item by item, as any reply: one that is cut, or
that has a bad item, keeps all the others.
"""

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBinding

from rag_transformers.errors import ModelError
from rag_transformers.models.faults import error_line, is_overflow

__all__ = ["SCHEMA", "NotOfferedError", "StructuredModel"]

_log = logging.getLogger(__name__)


def _object(**fields: str) -> dict[str, Any]:
    properties = {name: {"type": "string", "description": text} for name, text in fields.items()}
    return {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}


_ENTITY = _object(
    entity_name="One short name of the entity, as the text writes it",
    entity_type="Its type in a word or two, such as person, organization, place or event",
    entity_description="What the text says of it; empty where it says nothing",
)
_RELATIONSHIP = _object(
    source_entity="The name of the entity that the relation goes out from",
    target_entity="The name of the entity that it goes to",
    relation="The relation in a few words",
    relationship_description="Its circumstances; empty where the text says nothing",
)
SCHEMA: dict[str, Any] = {
    "title": "graph_of_the_text",
    "description": "The entities and relationships that the text holds; both lists stay empty where it holds nothing.",
    "type": "object",
    "properties": {
        "entities": {"type": "array", "items": _ENTITY},
        "relationships": {"type": "array", "items": _RELATIONSHIP},
    },
    "required": ["entities", "relationships"],
    "additionalProperties": False,
}
"""What a model fills in; its keys are those of the JSON format."""


class NotOfferedError(ModelError):
    """The model, or its server, does not offer the mode in which it was asked."""


class StructuredModel:
    """A chat model in the best mode for data that it offers: tool calling, else a JSON schema, else none.

    That a class offers a mode does not mean that the server does. Where one refuses it, the next mode is taken, for
    good; that none is left is told by one warning in the log.

    Args:
        llm: A chat model, or any Runnable in its place, which offers nothing.

    >>> from langchain_core.runnables import RunnableLambda
    >>> StructuredModel(RunnableLambda(str)).model is None
    True
    """

    def __init__(self, llm: Runnable[Any, Any]) -> None:
        self._lock = threading.Lock()
        self._modes: list[Runnable[Any, Any]] = []
        for make in (_with_tool, _with_schema):
            try:
                self._modes.append(_Asking(make(llm)))
            except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
                why = error_line(error)
        if not self._modes:
            _log.warning("%s has no mode for structured output (%s): asked for text", type(llm).__name__, why)

    @property
    def model(self) -> Runnable[Any, Any] | None:
        """What to ask, from a prompt to a message; None where the model is to be asked for text."""
        return next(iter(self._modes), None)

    def give_up(self, model: Runnable[Any, Any], error: Exception) -> None:
        """Take the next mode.

        Args:
            model: What refused; another call may have given it up already.
            error: With which words.
        """
        with self._lock:
            if model is self.model:
                self._modes = self._modes[1:]
                if not self._modes:
                    _log.warning("the server takes no structured output: asked for text from now on; %s", error)


class _Asking(Runnable[Any, Any]):
    """A model in one of the modes; its message holds the data as text."""

    def __init__(self, bound: Runnable[Any, Any]) -> None:
        self.bound = bound

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        try:
            return _as_text(self.bound.invoke(input, config, **kwargs))
        except Exception as error:
            return _cut_message(error)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        try:
            return _as_text(await self.bound.ainvoke(input, config, **kwargs))
        except Exception as error:
            return _cut_message(error)


def _with_tool(llm: Any) -> Runnable[Any, Any]:
    make: Callable[[Any], Any] = lambda model: model.bind_tools([SCHEMA], tool_choice=SCHEMA["title"])  # noqa: E731
    if isinstance(llm, RunnableBinding):  # which hands bind_tools to the model inside, without its own parameters
        return RunnableBinding(bound=make(llm.bound), kwargs=dict(llm.kwargs), config=llm.config)
    return cast("Runnable[Any, Any]", make(llm))


def _with_schema(llm: Any) -> Runnable[Any, Any]:
    if isinstance(llm, RunnableBinding):
        raise NotImplementedError("a bound model's parameters would be lost")
    mode = llm.with_structured_output(SCHEMA, method="json_schema", include_raw=True)
    return cast("Runnable[Any, Any]", mode)


def _as_text(message: Any) -> Any:
    """A message whose content is the arguments of its tool calls, if it has some; those that are no JSON too."""
    message = message.get("raw") if isinstance(message, Mapping) else message
    given = [json.dumps(made["args"], ensure_ascii=False) for made in getattr(message, "tool_calls", ())]
    given += [made["args"] or "" for made in getattr(message, "invalid_tool_calls", ())]
    return message.model_copy(update={"content": "\n".join(given)}) if given else message


def _cut_message(error: Exception) -> Any:
    """The message of a client that raises where a reply in JSON was cut; any other error goes on."""
    completion = getattr(error, "completion", None)
    if completion is not None and getattr(completion, "choices", None):
        from langchain_core.messages import AIMessage

        usage = getattr(completion, "usage", None)
        read, written = (getattr(usage, name, None) or 0 for name in ("prompt_tokens", "completion_tokens"))
        return AIMessage(
            completion.choices[0].message.content or "",
            response_metadata={"finish_reason": "length"},
            usage_metadata={"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
        )
    if _is_refused_mode(error):
        raise NotOfferedError(error_line(error)) from error
    raise error


# How servers say that they do not know a mode, and what else is said with the same status.
_MODE = re.compile(r"tool|function|response_?format|json_?schema|structured|grammar|guided", re.IGNORECASE)
_OTHER = re.compile(r"content[ _]?(?:filter|manag)", re.IGNORECASE)
_STATUS = (400, 404, 405, 415, 422, 501)


def _is_refused_mode(error: Exception) -> bool:
    if isinstance(error, NotImplementedError):
        return True
    text = str(error)
    known = getattr(error, "status_code", None) in _STATUS
    return known and _MODE.search(text) is not None and _OTHER.search(text) is None and not is_overflow(error)
