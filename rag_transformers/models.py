"""Models: how the command line builds them, how a stage calls one, and how its reply is read.

Every model call of the library goes through :func:`call` or :func:`acall`, so that cleaning, counting, limits and
errors have one home.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import socket
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.concurrency import Run, Usage, current_run
from rag_transformers.errors import (
    ModelBusyError,
    ModelError,
    ModelUnreachableError,
    ReplyError,
    UsageError,
    check_count,
)
from rag_transformers.faults import Patience, error_line, model_error, without_secrets
from rag_transformers.records import without_reasoning
from rag_transformers.streaming import Heard
from rag_transformers.text import encodable

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

__all__ = [
    "RETRIES",
    "Reply",
    "acall",
    "astream",
    "call",
    "chat_model",
    "check_server",
    "embedding_model",
    "error_line",
    "model_key",
    "optional_llm",
    "read_message",
    "resolve_llm",
    "retries",
    "stream",
    "takes_temperature",
    "without_secrets",
]

_log = logging.getLogger(__name__)

RETRIES = 4
"""Further tries of a call, by us, of a model that has no retries of its own."""

_NONE = Patience(0)  # of a stream that has begun: what was shown cannot be taken back
_TOLD_RETRIES = "rag_transformers_retries"  # in a model's metadata: how often we are to ask it again

# Why a model stopped, in the words of the providers, in lower case.
_CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
_FILTERED = {"content_filter", "content_filtered", "safety", "sensitive", "blocklist", "prohibited_content", "spii"}
_FILTERED |= {"guardrail_intervened"}
_SECRET_NAME = re.compile(r"api_?key|authorization|secret|password|headers|credential|access_?token", re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    """What a model answered: its text without reasoning, why it stopped, and what it cost.

    >>> Reply("Entities:", finish_reason="length").cut
    True
    """

    text: str
    finish_reason: str | None = None
    usage: Usage = field(default=Usage(1))

    @property
    def cut(self) -> bool:
        """Whether the reply was cut off at the token limit."""
        return self.finish_reason == "length"


def read_message(message: Any) -> Reply:
    """Read what a chat model, or any Runnable in its place, returned.

    Args:
        message: A LangChain message, or a plain text.

    Raises:
        ReplyError: A refusal, a content filter, or no text in it.

    >>> read_message("<think>Hm.</think>Ada founded it.").text
    'Ada founded it.'
    """
    if isinstance(message, str):
        return _checked(message, None, Usage(1))
    if not hasattr(message, "content"):
        raise ReplyError(f"the model returned {type(message).__name__}; it must return a message or a text")
    raw, reason = _text_blocks(message.content), _finish_reason(getattr(message, "response_metadata", None) or {})
    if reason == "content_filter":
        raise ReplyError("the provider's content filter stopped the reply", reply=raw, finish_reason=reason)
    if refusal := _refusal(message, raw, reason):
        raise ReplyError(f"the model refused: {refusal[:200]}", reply=refusal, finish_reason=reason)
    return _checked(raw, reason, _usage(message))


def call(llm: Runnable[Any, Any], prompt: Any, config: RunnableConfig | None = None, **options: Any) -> Reply:
    """Ask a model once, within the limit of the current run.

    Args:
        llm: A chat model, or any Runnable from a prompt to a message or text.
        prompt: What it takes: a prompt value, a list of messages, or a text.
        config: The caller's config, so that callbacks see the call under its stage.
        **options: Passed on to the model's ``invoke``.

    Raises:
        ModelUnreachableError: No server, a refused key, or an unknown model; or an earlier call stopped the run.
        ModelBusyError: The server failed, had no room, or did not answer in time, and so in all tries.
        ContextOverflowError: The prompt is longer than the model takes.
        ReplyError: A refusal, a content filter, or an empty reply.
        ModelError: Any other failure of the call.

    A model without retries of its own (no ``max_retries``, as LangChain's models call it) is asked again: up to
    ``RETRIES`` times after a rate limit, a failure of the server or a lost connection, once after a timeout. A
    Retry-After of up to ``faults.LONGEST_WAIT`` seconds is kept to. Whoever waits keeps its place among the calls in
    flight: given back, the place would send the next call into the same limit.
    """
    run, patience, sent = current_run(), Patience(retries(llm)), _sendable(prompt)
    with run.thread_slot() if run else contextlib.nullcontext(), _told(run):
        while True:
            try:
                message = llm.invoke(sent, config, **options)
                break
            except Exception as error:
                (run.pause if run else time.sleep)(_pause(patience, error))
                _check_going_on(run, error)
    return _counted(message)


async def acall(llm: Runnable[Any, Any], prompt: Any, config: RunnableConfig | None = None, **options: Any) -> Reply:
    """Ask a model once, within the limit of the current run; see :func:`call`."""
    run, patience, sent = current_run(), Patience(retries(llm)), _sendable(prompt)
    async with run.slot() if run else contextlib.nullcontext():
        with _told(run):
            while True:
                try:
                    message = await llm.ainvoke(sent, config, **options)
                    break
                except Exception as error:
                    await (run.apause if run else asyncio.sleep)(_pause(patience, error))
                    _check_going_on(run, error)
    return _counted(message)


def stream(
    llm: Runnable[Any, Any], prompt: Any, config: RunnableConfig | None = None, **options: Any
) -> Iterator[str | Reply]:
    """Ask a model once, and give the text of its reply as it comes; the last item is the whole :class:`Reply`.

    Reasoning is in no piece: what may be the beginning of some is held back until it is clear. Only where a server
    leaves out the opening tag, reasoning cannot be told from text before its closing tag comes; the reply is clean.

    Args:
        llm: A chat model, or any Runnable in its place; one that cannot stream gives its reply in one piece.
        prompt: What it takes: a prompt value, a list of messages, or a text.
        config: The caller's config.
        **options: Passed on to the model's ``stream``.

    Raises:
        ModelError: As for :func:`call`; pieces may have come before.

    >>> from langchain_core.runnables import RunnableLambda
    >>> list(stream(RunnableLambda(lambda prompt: "<think>Hm.</think>Ada."), "Who?"))[0]
    'Ada.'
    """
    run, patience, sent = current_run(), Patience(retries(llm)), _sendable(prompt)
    heard, ended = Heard(), False
    with run.thread_slot() if run else contextlib.nullcontext(), _told(run):
        while not ended:
            try:
                for message in llm.stream(sent, config, **options):
                    patience = _NONE
                    if piece := heard.add(message, _text_of(message)):
                        yield piece
                ended = True
            except Exception as error:
                (run.pause if run else time.sleep)(_pause(patience, error))
                _check_going_on(run, error)
    yield from heard.end(_counted(heard.message()))


async def astream(
    llm: Runnable[Any, Any], prompt: Any, config: RunnableConfig | None = None, **options: Any
) -> AsyncIterator[str | Reply]:
    """Ask a model once, and give the text of its reply as it comes; see :func:`stream`."""
    run, patience, sent = current_run(), Patience(retries(llm)), _sendable(prompt)
    heard, ended = Heard(), False
    async with run.slot() if run else contextlib.nullcontext():
        with _told(run):
            while not ended:
                try:
                    async for message in llm.astream(sent, config, **options):
                        patience = _NONE
                        if piece := heard.add(message, _text_of(message)):
                            yield piece
                    ended = True
                except Exception as error:
                    await (run.apause if run else asyncio.sleep)(_pause(patience, error))
                    _check_going_on(run, error)
    for item in heard.end(_counted(heard.message())):
        yield item


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
    own = getattr(llm, "cache_key", None)
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


def chat_model(
    name: str, base_url: str | None = None, *, max_retries: int = RETRIES, timeout: float = 120
) -> "BaseChatModel":
    """The chat model of an OpenAI-compatible server, as the command line uses it.

    Args:
        name: The server's name for the model.
        base_url: The server; without it ``OPENAI_BASE_URL``, else OpenAI's own.
        max_retries: Further tries; see :func:`call`, which makes them, so that a run sees each.
        timeout: Seconds for one try, in which the server may be silent; it is tried twice at most.

    Raises:
        UsageError: ``OPENAI_API_KEY`` is not set.
    """
    _require_key()
    from langchain_openai import ChatOpenAI

    options: dict[str, Any] = {"temperature": 0} if takes_temperature(name) else {}
    options["metadata"] = {_TOLD_RETRIES: check_count("max_retries", max_retries, 0)}
    return ChatOpenAI(model=name, base_url=base_url, max_retries=0, timeout=timeout, **options)


def takes_temperature(name: str) -> bool:
    """Whether a model, by its name, takes a temperature and the like; reasoning models of OpenAI's do not.

    >>> takes_temperature("gpt-4o"), takes_temperature("openai/o3-mini")
    (True, False)
    """
    return re.match(r"(?:.*/)?(?:o\d|gpt-5)", name) is None


def embedding_model(
    name: str, base_url: str | None = None, *, batch_size: int = 128, max_retries: int = RETRIES, timeout: float = 120
) -> "Embeddings":
    """The embedding model of an OpenAI-compatible server, as the command line uses it.

    Args:
        name: The server's name for the model.
        base_url: The server; without it ``OPENAI_BASE_URL``, else OpenAI's own.
        batch_size: Texts in one request.
        max_retries: Further tries after 429 (as long as its Retry-After says), 5xx, timeouts and lost connections.
        timeout: Seconds for one try.

    Raises:
        UsageError: ``OPENAI_API_KEY`` is not set.
    """
    _require_key()
    from langchain_openai import OpenAIEmbeddings

    # Other servers take texts, not the token ids that this client sends when it checks their length itself.
    return OpenAIEmbeddings(
        model=name,
        base_url=base_url,
        chunk_size=batch_size,
        max_retries=max_retries,
        timeout=timeout,
        check_embedding_ctx_length=False,
        model_kwargs={"encoding_format": "float"},  # not all servers know the client's own default, base64
    )


def retries(llm: Any) -> int:
    """How often we ask a model again: not at all if it has retries of its own, be it none, or one of its parts has."""
    told = (getattr(llm, "metadata", None) or {}).get(_TOLD_RETRIES)
    if isinstance(told, int):
        return told
    if any(hasattr(llm, name) for name in ("max_retries", "max_attempt_number")):
        return 0
    bound = getattr(llm, "bound", None)
    return min((retries(part) for part in (_parts(llm) if bound is None else [bound])), default=RETRIES)


def check_server(base_url: str | None = None) -> None:
    """Make sure that there is a key and a server before anything is created.

    Args:
        base_url: The server; without it ``OPENAI_BASE_URL``, else OpenAI's own.

    Raises:
        UsageError: ``OPENAI_API_KEY`` is not set, or nothing answers at the server's address.
    """
    _require_key()
    url = base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise UsageError(f"--base-url is {url!r}, which is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"--base-url is {url!r}; it must begin with http:// or https:// and name a host")
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY")):
        return  # the proxy looks the host up, and may be the only way to it
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise UsageError(f"no server answers at {url} ({error_line(error)}); check --base-url") from error


def _sendable(prompt: Any) -> Any:
    """A prompt without halves of surrogate pairs, which no client can encode; nearly always the prompt itself."""
    text = prompt if isinstance(prompt, str) else prompt.to_string() if hasattr(prompt, "to_string") else ""
    try:
        text.encode()
    except UnicodeEncodeError:
        if isinstance(prompt, str):
            return encodable(prompt)
        return [
            message.model_copy(update={"content": encodable(message.content)})
            if isinstance(message.content, str)
            else message
            for message in prompt.to_messages()
        ]
    return prompt


def _require_key() -> None:
    if not os.environ.get("OPENAI_API_KEY"):
        raise UsageError(
            "no API key: set the environment variable OPENAI_API_KEY (any text will do for a server that needs no key)"
        )


def _counted(message: Any) -> Reply:
    if run := current_run():
        run.spent(_usage(message))
    return read_message(message)


def _checked(raw: str, reason: str | None, usage: Usage) -> Reply:
    text = without_reasoning(raw).strip()
    if not text:
        what = "the reply holds reasoning only" if raw.strip() else "the reply is empty"
        raise ReplyError(f"{what} (finish_reason {reason!r})", reply=raw, finish_reason=reason)
    return Reply(text, reason, usage)


def _text_of(message: Any) -> str:
    return message if isinstance(message, str) else _text_blocks(getattr(message, "content", ""))


def _usage(message: Any) -> Usage:
    counted = getattr(message, "usage_metadata", None) or {}
    return Usage(1, counted.get("input_tokens") or 0, counted.get("output_tokens") or 0)


def _text_blocks(content: Any) -> str:
    if not isinstance(content, Sequence) or isinstance(content, str):
        return content if isinstance(content, str) else ""
    texts = [block if isinstance(block, str) else block.get("text") for block in content if _is_text(block)]
    return "".join(text for text in texts if isinstance(text, str))


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or (isinstance(block, Mapping) and block.get("type") in ("text", "output_text"))


def _refusal(message: Any, raw: str, reason: str | None) -> str:
    """How the model refused: told beside the content, in a block of it, or as why it stopped; "" if it did not."""
    extra = getattr(message, "additional_kwargs", None) or {}
    blocks = message.content if isinstance(message.content, list) else []
    told = [extra.get("refusal"), *(block.get("refusal") for block in blocks if isinstance(block, Mapping))]
    found = next((str(text) for text in told if text), "")
    return found or (raw.strip() or "it gave no reason" if reason == "refusal" else "")


def _finish_reason(details: Mapping[str, Any]) -> str | None:
    incomplete = details.get("incomplete_details") or {}
    named = (details.get(name) for name in ("finish_reason", "stop_reason", "done_reason", "stopReason"))
    reason = next((str(reason) for reason in (incomplete.get("reason"), *named) if reason), None)
    known = reason.lower() if reason else ""
    return "length" if known in _CUT else "content_filter" if known in _FILTERED else reason


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


@contextlib.contextmanager
def _told(run: Run | None) -> Iterator[None]:
    """Tell the run what a call comes to, and ask nothing more in one that was stopped: it would be in vain."""
    _check_going_on(run)
    try:
        yield
    except ModelUnreachableError as error:
        if run:
            run.stop(error)
        raise
    except ModelBusyError as error:
        if run:
            run.failed(error)
        raise
    except ModelError:
        if run:
            run.answered()
        raise
    if run:
        run.answered()


def _check_going_on(run: Run | None, error: Exception | None = None) -> None:
    """Go no further in a run that was stopped; a call that was tried already ends with what came of it."""
    if run and run.stopped is not None:
        if error is not None:
            raise model_error(error) from error
        raise ModelUnreachableError(f"not asked, since an earlier call failed: {run.stopped}")


def _pause(patience: Patience, error: Exception) -> float:
    """Seconds to the next try; where there is to be none, the error goes up."""
    if isinstance(error, ModelError):
        raise error
    seconds = patience.pause(error)
    if seconds is None:
        raise model_error(error) from error
    _log.info("asking again in %.1f s: %s", seconds, error_line(error))
    return seconds
