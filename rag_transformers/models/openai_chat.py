"""OpenAI's protocol without knowing beforehand whether the model takes a temperature; imported where one is built."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr

from rag_transformers.models.given import model_key
from rag_transformers.models.parameters import log_left_out, refused_name

__all__ = ["ForgivingChatOpenAI"]

_NAME = "temperature"


class ForgivingChatOpenAI(ChatOpenAI):
    """A ``ChatOpenAI`` whose temperature is left out from then on, once its server has refused it.

    A name may not tell: deployments of Azure's are called what their owner likes. The call that was refused is made
    again at once. What was made with this model is stored under the same key whether or not that happened.

    >>> model = ForgivingChatOpenAI(model="m", api_key="none", temperature=0)
    >>> model.cache_key == model_key(ChatOpenAI(model="m", api_key="none", temperature=0))
    True
    """

    _refused: bool = PrivateAttr(default=False)

    @property
    def cache_key(self) -> str:
        """The key of a ``ChatOpenAI`` with the same parameters."""
        return model_key(ChatOpenAI.model_construct(**dict(self)))

    def _get_request_payload(self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if self._refused and _NAME not in kwargs:
            payload.pop(_NAME, None)
        return payload

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        sent = self._sent(kwargs)
        try:
            return super()._generate(*args, **kwargs)
        except Exception as error:
            if not self._leaves_out(sent, error):
                raise
        return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        sent = self._sent(kwargs)
        try:
            return await super()._agenerate(*args, **kwargs)
        except Exception as error:
            if not self._leaves_out(sent, error):
                raise
        return await super()._agenerate(*args, **kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        sent = self._sent(kwargs)
        try:
            yield from super()._stream(*args, **kwargs)
            return
        except Exception as error:  # refused before its first piece
            if not self._leaves_out(sent, error):
                raise
        yield from super()._stream(*args, **kwargs)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        sent = self._sent(kwargs)
        try:
            async for piece in super()._astream(*args, **kwargs):
                yield piece
            return
        except Exception as error:
            if not self._leaves_out(sent, error):
                raise
        async for piece in super()._astream(*args, **kwargs):
            yield piece

    def _sent(self, given: dict[str, Any]) -> list[str]:
        """The model's own parameters that a call sends and could leave out; one that is the call's own is not."""
        return [] if self._refused or self.temperature is None or _NAME in given else [_NAME]

    def _leaves_out(self, sent: list[str], error: Exception) -> bool:
        """Whether the error says that the server does not take what was sent, so that it is sent no more."""
        if (name := refused_name(sent, error)) is None:
            return False
        if not self._refused:  # else another call has met it meanwhile
            self._refused = True
            log_left_out(name, error)
        return True
