"""Proxies that the environment sends a client's requests through, as httpx finds them: which one, and what named it."""

import contextlib
import importlib.util
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rag_transformers.errors import UsageError

__all__ = ["Proxy", "check_proxies", "proxy_of"]

_KINDS = ("http", "https", "all")
_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}  # by the schemes that httpx takes


class Proxy(NamedTuple):
    """A proxy: where it is, and the variable that names it. What else stands in its address may be a password."""

    scheme: str
    host: str
    port: int
    variable: str


def proxy_of(url: str) -> Proxy | None:
    """The proxy that requests to an address go through; None where they go there directly.

    Args:
        url: Such as ``http://localhost:11434/v1``.
    """
    set_here, address = _set_here(), urllib.parse.urlsplit(url)
    kind = next((kind for kind in (address.scheme, "all") if set_here.get(kind)), None)
    if kind is None or _is_left_out((address.hostname or "").lower(), set_here.get("no", "")):
        return None
    with contextlib.suppress(UsageError):
        return _proxy(kind, set_here[kind])
    return None


def check_proxies() -> None:
    """Make sure that a client can be built: httpx loads every proxy that is set, whatever it is going to ask.

    Raises:
        UsageError: A variable names no proxy that can be used, or a SOCKS proxy, and the package for it is missing.
    """
    for proxy in _all():
        if proxy.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
            raise UsageError(
                f"{proxy.variable} names a SOCKS proxy, for which a package is missing: pip install 'httpx[socks]'; "
                f"or unset {proxy.variable}, or set NO_PROXY=* to use no proxy at all"
            )


def _all() -> Iterator[Proxy]:
    set_here = _set_here()
    if "*" not in _hosts(set_here.get("no", "")):
        yield from (_proxy(kind, set_here[kind]) for kind in _KINDS if set_here.get(kind))


def _set_here() -> Mapping[str, str]:
    """By kind, and ``no`` for the hosts that are asked directly; on Windows and macOS also what the system has set."""
    from urllib.request import getproxies

    return getproxies()


def _proxy(kind: str, value: str) -> Proxy:
    variable = _variable(kind)
    with contextlib.suppress(ValueError):  # whose words may hold a password
        parts = urllib.parse.urlsplit(value if "://" in value else f"http://{value}")
        if parts.scheme in _PORTS and parts.hostname:
            return Proxy(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], variable)
    raise UsageError(
        f"{variable} is no address of a proxy that can be used: it must begin with http://, https://, socks5:// or "
        "socks5h:// and name a host; mend or unset it"
    )


def _variable(kind: str) -> str:
    """The variable that is read: of both cases the lower one counts."""
    names = (f"{kind}_proxy", f"{kind}_proxy".upper())
    return next((name for name in names if os.environ.get(name)), "the system's proxy setting")


def _is_left_out(host: str, left_out: str) -> bool:
    """Whether a host is one of those, or below one, that are asked without a proxy."""
    ends = [each.rpartition("://")[2].lstrip(".") for each in _hosts(left_out)]
    return "*" in ends or any(end and (host == end or host.endswith(f".{end}")) for end in ends)


def _hosts(left_out: str) -> list[str]:
    return [each.strip().lower() for each in left_out.split(",")]
