"""The models of an OpenAI-compatible server, as the command line uses them."""

import os
import re
import socket
import urllib.parse
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import UsageError, check_count
from rag_transformers.models.faults import error_line
from rag_transformers.models.given import RETRIES, RETRIES_KEY
from rag_transformers.models.proxies import check_proxies, proxy_of

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

__all__ = [
    "chat_model",
    "check_server",
    "embedding_model",
    "takes_temperature",
]


def chat_model(
    name: str, base_url: str | None = None, *, max_retries: int = RETRIES, timeout: float = 120
) -> "BaseChatModel":
    """The chat model of an OpenAI-compatible server, as the command line uses it.

    It is sent temperature 0, unless its name says that it takes none, and until its server has refused it.

    Args:
        name: The server's name for the model.
        base_url: The server; without it ``OPENAI_BASE_URL``, else OpenAI's own.
        max_retries: Further tries; made by our own calls, so that a run sees each.
        timeout: Seconds for one try, in which the server may be silent; it is tried twice at most.

    Raises:
        UsageError: ``OPENAI_API_KEY`` is not set, or a proxy is that cannot be used.
    """
    _require_key()
    check_proxies()
    from rag_transformers.models.openai_chat import ForgivingChatOpenAI

    options: dict[str, Any] = {"temperature": 0} if takes_temperature(name) else {}
    options["metadata"] = {RETRIES_KEY: check_count("max_retries", max_retries, 0)}
    return ForgivingChatOpenAI(model=name, base_url=base_url, max_retries=0, timeout=timeout, **options)


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
        UsageError: ``OPENAI_API_KEY`` is not set, or a proxy is that cannot be used.
    """
    _require_key()
    check_proxies()
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


def check_server(base_url: str | None = None) -> None:
    """Make sure that there is a key and a server, or the proxy that leads to it, before anything is created.

    Args:
        base_url: The server; without it ``OPENAI_BASE_URL``, else OpenAI's own.

    Raises:
        UsageError: ``OPENAI_API_KEY`` is not set, or nothing answers at the server's address, or at its proxy's.
    """
    _require_key()
    check_proxies()
    url = base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise UsageError(f"--base-url is {url!r}, which is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"--base-url is {url!r}; it must begin with http:// or https:// and name a host")
    what, mend = f"server answers at {url}", "check --base-url"
    if proxy := proxy_of(url):  # it looks the host up, and may be the only way to it
        what, mend = f"proxy answers at {proxy.host}:{proxy.port}", f"check {proxy.variable}, or set NO_PROXY={host}"
        host, port = proxy.host, proxy.port
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise UsageError(f"no {what} ({error_line(error)}); {mend}") from error


def _require_key() -> None:
    if not os.environ.get("OPENAI_API_KEY"):
        raise UsageError(
            "no API key: set the environment variable OPENAI_API_KEY (any text will do for a server that needs no key)"
        )
