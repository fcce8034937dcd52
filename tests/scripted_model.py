"""A chat model without a server, for tests: its reply is a function of the whole prompt, and it keeps its prompts.

>>> model = ScriptedChatModel(reply=lambda prompt: prompt.upper())
>>> model.invoke("ada").content, model.prompts
('ADA', ['ada'])

:func:`hash_reply` answers in the ``#`` record format with records that depend on a hash of the whole prompt, so that a
wrong history, a changed prompt or a mixed-up chunk shows in the graph. :func:`stage_reply` answers every stage.
"""

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

__all__ = ["Call", "ScriptedChatModel", "hash_reply", "prompt_hash", "stage_reply"]

NAMES = ("Ada Moss", "Grain Trust", "Port Ellery", "Orrin Vale", "林晚", "青石镇", "济川书院", "Mill Lane")
RELATIONS = ("founded", "lives in", "writes to", "师从", "修建")


@dataclass(frozen=True)
class Call:
    """One call as it came: the text of all messages, and what was bound to the model or passed with the call."""

    prompt: str
    settings: dict[str, Any]


class ScriptedChatModel(BaseChatModel):
    """A chat model whose reply is a function of the whole prompt.

    Args:
        reply: From the text of all messages to a text, or to a message where a text does not say it (content as blocks,
            a refusal, no usage); an exception that it returns or raises is the call's.
        delay: Seconds that each call takes.
        finish_reason: Stands in ``response_metadata`` of replies that are given as text.
        model_name: Tells one scripted model from another where models are keyed.

    ``calls`` and ``prompts`` hold what was asked, ``peak`` the largest number of calls in flight at one time.
    """

    reply: Callable[[str], str | AIMessage | Exception]
    delay: float = 0.0
    finish_reason: str | None = "stop"
    model_name: str = "scripted"
    calls: list[Call] = Field(default_factory=list)
    peak: int = 0
    _in_flight: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def prompts(self) -> list[str]:
        """The prompts so far, in the order of arrival."""
        return [call.prompt for call in self.calls]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with self._called(messages, kwargs) as prompt:
            time.sleep(self.delay)
            return self._result(prompt)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with self._called(messages, kwargs) as prompt:
            await asyncio.sleep(self.delay)
            return self._result(prompt)

    @contextmanager
    def _called(self, messages: list[BaseMessage], settings: dict[str, Any]) -> Iterator[str]:
        prompt = "\n".join(str(message.text) for message in messages)
        with self._lock:
            self.calls.append(Call(prompt, dict(settings)))
            self._in_flight += 1
            self.peak = max(self.peak, self._in_flight)
        try:
            yield prompt
        finally:
            with self._lock:
                self._in_flight -= 1

    def _result(self, prompt: str) -> ChatResult:
        reply = self.reply(prompt)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            reply = self._message(prompt, reply)
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _message(self, prompt: str, text: str) -> AIMessage:
        """Usage is one token for each UTF-8 byte, which a test can work out."""
        asked, answered = len(prompt.encode()), len(text.encode())
        usage = {"input_tokens": asked, "output_tokens": answered, "total_tokens": asked + answered}
        metadata = {"finish_reason": self.finish_reason, "model_name": self.model_name}
        return AIMessage(content=text, response_metadata=metadata, usage_metadata=usage)


def prompt_hash(prompt: str) -> str:
    """Eight hexadecimal digits that tell one prompt from another, in every process."""
    return hashlib.blake2b(prompt.encode(), digest_size=4).hexdigest()


def hash_reply(prompt: str) -> str:
    """Records that depend on the whole prompt: two of the shared ``NAMES``, and one entity that only this prompt has.

    >>> print(hash_reply("Some text."))  # doctest: +ELLIPSIS
    Entities:
    (...)
    (...)
    (Prompt ...#Seen in prompt ...)
    <BLANKLINE>
    Relationships:
    (...#...#...#Told in prompt ...)
    (...#mentioned in#Prompt ...#)
    >>> hash_reply("Some text.") == hash_reply("Some text. ")
    False
    """
    digest = prompt_hash(prompt)
    number = int(digest, 16)
    first = NAMES[number % len(NAMES)]
    second = NAMES[(number % len(NAMES) + 1 + number // 8 % (len(NAMES) - 1)) % len(NAMES)]
    relation = RELATIONS[number // 64 % len(RELATIONS)]
    return (
        f"Entities:\n({first}#Described in prompt {digest})\n({second}#Described in prompt {digest})\n"
        f"(Prompt {digest}#Seen in prompt {digest})\n\n"
        f"Relationships:\n({first}#{relation}#{second}#Told in prompt {digest})\n"
        f"({first}#mentioned in#Prompt {digest}#)"
    )


def stage_reply(prompt: str) -> str:
    """A reply of the form that the prompt's stage asks for, dependent on the whole prompt; its marks tell the stage.

    >>> json.loads(stage_reply('Give JSON with "findings". Text: ...'))["title"].startswith("Report ")
    True
    """
    digest = prompt_hash(prompt)
    if '"findings"' in prompt:
        finding = {"summary": f"Finding {digest}", "explanation": f"Read in prompt {digest}."}
        report = {"title": f"Report {digest}", "summary": f"Summary {digest}.", "rating": 5.0}
        return json.dumps({**report, "rating_explanation": f"As in {digest}.", "findings": [finding]})
    if '"points"' in prompt:
        return json.dumps({"points": [{"description": f"Point {digest}", "score": 1 + int(digest, 16) % 100}]})
    if "Description List:" in prompt:
        return f"One description from prompt {digest}."
    if "Entities:" in prompt and "Relationships:" in prompt:
        return hash_reply(prompt)
    return f"The answer of prompt {digest} [1]."
