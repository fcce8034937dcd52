"""Failures of model calls: whose fault one is, whether the same call may work later, and how long to wait for that.

Clients of many servers are told apart by the names of their errors, so that none has to be installed or imported.
"""

import contextlib
import email.utils
import math
import os
import random
import re
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from rag_transformers.errors import (
    ContextOverflowError,
    ModelBusyError,
    ModelError,
    ModelUnreachableError,
    ReplyError,
    UsageError,
)
from rag_transformers.models.proxies import proxy_of

__all__ = ["LONGEST_WAIT", "Patience", "error_line", "is_overflow", "model_error", "retry_after", "without_secrets"]

LONGEST_WAIT = 300.0
"""Seconds; a server that asks for a longer wait is not waited for, and the call fails with its words."""

_FIRST_WAIT, _USUAL_WAIT = 0.5, 8.0  # seconds, where the server does not say: doubled from the one up to the other

# What stands in the error where a provider's filter refuses a prompt, with status 400.
_PROMPT_FILTERED = re.compile(
    r"content[ _]?(?:management|filter)|DataInspection|ResponsibleAI|sensitive (?:content|information|words?)|敏感",
    re.IGNORECASE,
)
_REPLY_FILTERED = re.compile(r"content filter being triggered", re.IGNORECASE)  # LangChain's client of Azure
# What servers say of a prompt that is longer than the model's context.
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|\bn_ctx\b|\bnum_ctx\b|string_above_max_length"
    r"|too many (?:input |prompt )?tokens|token count"
    r"|(?:prompt|inputs?|request|messages?|content)(?: text)? (?:is |are |was )?too (?:long|large)"
    r"|exceed\w*[^.!]{0,60}(?:\btokens?\b|max\w* (?:input )?length|input length)|\btokens?\b[^.!]{0,40}exceed"
    r"|must have less than \d+ tokens|`inputs` tokens|range of input length|input length|max_input_tokens"
    r"|reduce (?:the|your) (?:length|prompt|message|input)|text too long"
    r"|输入长度|输入(?:内容|文本)?(?:过|太)长|上下文(?:长度|窗口)|超出最大长度|超长"
    r"|(?:超过|超出|大于)[^。]{0,16}(?:长度|上下文|token)|(?:长度|token)[^。]{0,16}(?:超过|超出|超限|过长)",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)  # than a minute's tokens: to wait is of no use
_NO_CREDIT = re.compile(r"insufficient[ _](?:user[ _])?(?:quota|balance)|current quota|余额不足|欠费", re.IGNORECASE)
_SECRET = re.compile(r"\b(?:sk|pk|gsk|xai|key)-[\w*.-]{4,}|(?<=Bearer )\S+|(?<=key provided: )\S+", re.IGNORECASE)
# A web page in place of data: as what could not be read as JSON, or as the client quotes it.
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_QUOTED_PAGE = re.compile(rf"got str: ['\"]{_PAGE.pattern}", re.IGNORECASE)
# What clients come to, where a response is no JSON and its header says so, and where a stream holds no event.
_NO_DATA = re.compile(r"'str' object has no attribute 'model_dump'|No generation chunks were returned")
_THIS_MACHINE = re.compile(r"localhost|127(?:\.\d+){3}|::1")

# The names of errors, and of what they are derived from or caused by, in the clients of Python.
_OVERFLOWS = {"ContextOverflowError", "ContextWindowExceededError"}
_TIMEOUTS = {"TimeoutError", "Timeout", "TimeoutException", "APITimeoutError"}
_LOST = {"ConnectionResetError", "ConnectionAbortedError", "BrokenPipeError", "ReadError", "WriteError", "CloseError"}
_LOST |= {"ProtocolError", "RemoteProtocolError", "ChunkedEncodingError", "ContentDecodingError", "IncompleteRead"}
_LOST |= {"ServerDisconnectedError", "ClientPayloadError", "RemoteDisconnected"}
_GARBLED = {"JSONDecodeError"}
_NO_SERVER = {"APIConnectionError", "ConnectionError", "ConnectError", "ClientConnectionError"}


class Patience:
    """How often one call is made again, and how long is waited each time.

    Rate limits, failures of the server and lost connections are worth all the tries. A call that took all its time, or
    whose reply was garbled, is made once more: the next one will hardly differ, and costs as much.

    Args:
        retries: The most further tries.

    >>> patience = Patience(4)
    >>> patience.pause(ValueError("no fault of the server's")), round(patience.pause(ConnectionResetError()) or 0, 1)
    (None, 0.5)
    """

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._made = 0

    @property
    def tries(self) -> int:
        """How often the call was made, the first time counted."""
        return 1 + self._made

    def pause(self, error: BaseException) -> float | None:
        """Seconds to wait until the next try; None where there is to be none.

        Args:
            error: What the last try came to, as the client raised it.
        """
        kinds = set(_kinds(error))
        if not _may_work_later(error, kinds) or _client_retries(error):
            return None
        if self._made >= (min(1, self._retries) if kinds & (_TIMEOUTS | _GARBLED) else self._retries):
            return None
        told = retry_after(error)
        if told is not None and told > LONGEST_WAIT:
            return None
        usual = min(_USUAL_WAIT, _FIRST_WAIT * 2.0**self._made)
        self._made += 1
        # Never earlier than the server said, and not all calls at the same moment.
        return (usual if told is None else told) * (1 + random.random() / 20)


def model_error(error: BaseException, tries: int = 1) -> ModelError:
    """What any error of a model call means, with its words.

    Args:
        error: As the client raised it.
        tries: How often the call was made.

    >>> type(model_error(ValueError("Requested tokens (5000) exceed context window of 2048"))).__name__
    'ContextOverflowError'
    """
    status, line = _status(error), _with_code(error)
    kinds = set(_kinds(error))
    if status is None and _is_page(error):
        return ModelUnreachableError(line)
    by = _proxy_words(error, kinds)
    if status in (401, 403):
        return ModelUnreachableError(f"the server refused the key ({status}): {line}; check {_key_of(error)}{by}")
    if status == 402 or (status in (400, 429) and _NO_CREDIT.search(line)):
        return ModelUnreachableError(f"the account has no credit left ({status}): {line}")
    if status == 404:
        hint = "" if re.search("model|deployment", str(error), re.IGNORECASE) else "; most addresses end in /v1"
        return ModelUnreachableError(f"the server does not know the model or the address (404{hint}): {line}{by}")
    if status == 400 and _PROMPT_FILTERED.search(line):
        return ReplyError(f"the provider's content filter refused the prompt: {line}", finish_reason="content_filter")
    if status is None and _REPLY_FILTERED.search(line):
        return ReplyError(f"the provider's content filter stopped the reply: {line}", finish_reason="content_filter")
    if is_overflow(error):
        return ContextOverflowError(f"the prompt is longer than the model takes: {line}")
    if kinds & _NO_SERVER and not kinds & (_TIMEOUTS | _LOST):
        return ModelUnreachableError(f"no connection to the model's server: {line}{by}")
    if _may_work_later(error, kinds):
        return ModelBusyError(_busy(error, kinds, tries) + by)
    if isinstance(error, IndexError):
        return ModelError(f"{line} (a server's response without choices ends like this)")
    return ModelError(line)


def is_overflow(error: BaseException) -> bool:
    """Whether a server says that the prompt is longer than the model's context, in whatever words.

    >>> is_overflow(ValueError("InvalidParameter: Range of input length should be [1, 30720]")), is_overflow(KeyError())
    (True, False)
    """
    kinds = set(_kinds(error))
    if kinds & _OVERFLOWS:
        return True
    if kinds & _NO_SERVER:
        return False
    return (_TOO_LARGE if _status(error) == 429 else _OVERFLOW).search(_with_code(error)) is not None


def retry_after(error: BaseException) -> float | None:
    """Seconds that a server asks to be left alone, from the headers of its response; None where it does not say."""
    headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    said = {str(name).lower(): str(value) for name, value in headers.items()}
    if (milliseconds := _number(said.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (seconds := _number(said.get("retry-after"))) is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(said.get("retry-after", "")).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def error_line(error: BaseException) -> str:
    """An error in one line: its type where its text does not tell, and no key in it.

    >>> error_line(TimeoutError()), error_line(ValueError("bad key sk-abcdef123456"))
    ('TimeoutError', 'ValueError: bad key ***')
    """
    text = " ".join(str(error).split())[:500]
    if isinstance(error, UsageError | ModelError):
        return without_secrets(text)
    name = type(error).__name__
    if _is_page(error):
        return f"a web page came instead of data ({name}): is it the address of an API? most end in /v1"
    if _NO_DATA.search(text):
        text += " (a server's response that is no data ends like this: is it the address of an API? most end in /v1)"
    return without_secrets(f"{name}: {text}" if text else name)


def without_secrets(text: str) -> str:
    """A text in which keys are replaced by stars.

    >>> without_secrets("no key sk-abcdef123456 here")
    'no key *** here'
    """
    key = os.environ.get("OPENAI_API_KEY", "")
    return _SECRET.sub("***", text.replace(key, "***") if len(key) >= 8 else text)


def _may_work_later(error: BaseException, kinds: set[str]) -> bool:
    status = _status(error)
    if status is not None:
        no_use = is_overflow(error) or (status == 429 and _NO_CREDIT.search(_with_code(error)))
        return (status in (408, 409, 425, 429) or status >= 500) and not no_use
    return bool(kinds & (_TIMEOUTS | _LOST | _GARBLED | _NO_SERVER)) and not _is_page(error)


def _is_page(error: BaseException) -> bool:
    """Whether a server, though it reported no error, sent a web page: the address is that of something else."""
    if _status(error) is not None:
        return False
    # Not of its causes: where a user's own chain reads a reply as JSON, what it could not read was the model's.
    return bool(_PAGE.match(str(getattr(error, "doc", ""))) or _QUOTED_PAGE.search(str(error)))


def _proxy_words(error: BaseException, kinds: set[str]) -> str:
    """A word on the proxy that a request went through, where that may be why it failed; else ""."""
    url = next(filter(None, map(_url, _chain(error))), "")
    proxy = proxy_of(url) if url else None
    host = urllib.parse.urlsplit(url).hostname or ""
    if proxy is None or not (_THIS_MACHINE.fullmatch(host) or (kinds & _NO_SERVER and not kinds & _TIMEOUTS)):
        return ""
    return f"; it was asked through the proxy of {proxy.variable}, which NO_PROXY={host} leaves out"


def _url(error: BaseException) -> str:
    with contextlib.suppress(RuntimeError):  # as in _client_retries
        return str(getattr(getattr(error, "request", None), "url", None) or "")
    return ""


def _client_retries(error: BaseException) -> int:
    """How often the client asked again itself, as those of OpenAI and Anthropic note in their requests."""
    with contextlib.suppress(RuntimeError):  # httpx, where an error was made without a request
        count = getattr(getattr(error, "request", None), "headers", {}).get("x-stainless-retry-count")
        return int(_number(count) or 0)
    return 0


def _busy(error: BaseException, kinds: set[str], tries: int) -> str:
    """What to say of a failure that a later call may not meet, and how often it was met."""
    line, status = _with_code(error), _status(error) or 0
    if kinds & _GARBLED:
        return f"the response was cut or garbled: {line}"
    if status == 429 or status >= 500:
        tries = max(tries, 1 + _client_retries(error))
        what = "the rate limit is reached" if status == 429 else "the server failed"
        asked = f", asked {tries} times" if tries > 1 else ""
        line = f"{what}{asked}: {line}"
    return line + _waits(error)


def _key_of(error: BaseException) -> str:
    """Where the key comes from, if that is known: other clients than OpenAI's have variables of their own."""
    is_openai = any(kind.__module__.partition(".")[0] == "openai" for kind in type(error).__mro__)
    return "OPENAI_API_KEY" if is_openai and os.environ.get("OPENAI_API_KEY") else "the key"


def _kinds(error: BaseException) -> Iterator[str]:
    """The names of an error's classes, and of those of its causes."""
    for cause in _chain(error):
        yield from (kind.__name__ for kind in type(cause).__mro__)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes, the last of them last."""
    for _ in range(6):
        if error is None:
            return
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "http_status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
                return int(value)
    return None


def _waits(error: BaseException) -> str:
    told = retry_after(error)
    return f"; the server asks for a wait of {told:.0f} s" if told is not None and told > LONGEST_WAIT else ""


def _with_code(error: BaseException) -> str:
    line, code = error_line(error), getattr(error, "code", None)
    if (status := _status(error)) and str(status) in str(error):
        line = line.removeprefix(f"{type(error).__name__}: ")  # the status tells more
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & _NO_SERVER and not kinds & _TIMEOUTS and (cause := list(_chain(error))[-1]) is not error:
        line = f"{line} ({error_line(cause)})"  # the client's own words are the same for all
    return f"{line} ({code})" if code and str(code) not in line else line


def _number(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if 0 <= value < math.inf else None
