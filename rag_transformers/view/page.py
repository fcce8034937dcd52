"""Content -> one HTML file that needs nothing else and may fetch nothing."""

import base64
import hashlib
import re
from importlib.resources import files
from typing import Any

from rag_transformers.exports.escapes import json_text

__all__ = ["page", "script_json"]

_UNSAFE = re.compile("[<>&\u2028\u2029]")
_MAP = re.compile(r"\n//# sourceMappingURL=.*")
_PLACE = re.compile(r"@([a-z]+)@")


def page(data: dict[str, Any]) -> str:
    """A page that shows some data.

    The data stand in it as JSON in a script element that is no script. A Content-Security-Policy allows the three
    scripts and the styles of the page by their hashes, and nothing else: no address, no further script, no form.
    """
    folder = files(__package__)

    def read(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    licences = read("vendor/LICENSES.txt")
    parts = {
        "styles": read("page.css"),
        "graphology": _MAP.sub("", read("vendor/graphology.umd.min.js")),
        "sigma": f"/*\n{licences}*/\n{read('vendor/sigma.min.js')}",
        "script": read("page.js"),
    }
    policy = [
        "default-src 'none'",
        f"script-src {' '.join(_hash(parts[name]) for name in ('graphology', 'sigma', 'script'))}",
        f"style-src {_hash(parts['styles'])}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    filled = {**parts, "policy": "; ".join(policy), "data": script_json(data)}
    return _PLACE.sub(lambda match: filled[match[1]], read("page.html"))


def script_json(data: Any) -> str:
    r"""JSON that can stand in a script element: nothing in it ends the element, and no character ends a line.

    >>> script_json(["</script><script>", "A & B"])
    '["\\u003c/script\\u003e\\u003cscript\\u003e", "A \\u0026 B"]'
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text(data))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
