r"""Text made safe for XML and spreadsheets, and read back: nothing is lost, and two texts never become one.

A character that XML does not allow (controls, lone surrogates, U+FFFE, U+FFFF) is written as ``\uXXXX`` in lower-case
hexadecimal, and so is a backslash that stands before such letters already. Cells of a spreadsheet get a ``'`` in front
of what it could take for a formula.
"""

import json
import re
from typing import Any

__all__ = ["cell_text", "escape", "guard", "json_text", "unescape", "unguard"]

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)

_ILLEGAL = "[^\t\n\r\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_ILLEGAL_CHARACTER = re.compile(_ILLEGAL)
_TO_ESCAPE = re.compile(rf"{_ILLEGAL}|\\(?=u[0-9a-f]{{4}})")
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")

# A spreadsheet splits at semicolons where the decimal sign is a comma, and then no quotes keep the row together: so
# what follows a semicolon, a tab or a line end is guarded as the start is. Full-width signs count in Asian versions.
_FORMULA = r"((?:^|[;\t\r\n])[\s\"]*)('*)(?=[=+\-@＝＋－＠])"
_TO_GUARD = re.compile(_FORMULA)
_GUARDED = re.compile(_FORMULA.replace("('*)", "'('*)"))
_SPACE_FIRST = re.compile(r"'*[\t\r\n]")
_GUARDED_SPACE = re.compile(r"'+[\t\r\n]")


def escape(text: str) -> str:
    r"""A text with what XML does not allow written as ``\uXXXX``.

    >>> escape("ore\x01pit"), escape("\\u0001"), escape("C:\\users")
    ('ore\\u0001pit', '\\u005cu0001', 'C:\\users')
    """
    if text.isprintable() and "\\u" not in text:  # as most are, and ten times as fast
        return text
    return _TO_ESCAPE.sub(_escaped, text)


def unescape(text: str) -> str:
    r"""The reverse of :func:`escape`.

    >>> unescape("ore\\u0001pit"), unescape("\\u005cu0001")
    ('ore\x01pit', '\\u0001')
    """
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def guard(cell: str) -> str:
    """A cell with a ``'`` before what a spreadsheet could take for a formula.

    That is ``= + - @`` and their full-width forms, at the start or after a semicolon, a tab or a line end, and a tab
    or a line end at the start (OWASP, CSV Injection). One more is put where some stand already.

    >>> guard("=1+1"), guard("'=1+1"), guard("a; =b"), guard("a=b"), guard("'quoted'")
    ("'=1+1", "''=1+1", "a; '=b", 'a=b', "'quoted'")
    """
    cell = _TO_GUARD.sub(r"\1'\2", cell)
    return f"'{cell}" if _SPACE_FIRST.match(cell) else cell


def unguard(cell: str) -> str:
    """The reverse of :func:`guard`.

    >>> unguard("'=1+1"), unguard("''=1+1"), unguard("'quoted'")
    ('=1+1', "'=1+1", "'quoted'")
    """
    cell = cell[1:] if _GUARDED_SPACE.match(cell) else cell
    return _GUARDED.sub(r"\1\2", cell)


def json_text(value: Any) -> str:
    r"""JSON in one line that XML and UTF-8 allow: what they do not is in JSON's own escapes.

    >>> json_text(["刘备", "\ud83d"])
    '["刘备", "\\ud83d"]'
    """
    text = _JSON.encode(value)
    return text if text.isprintable() else _ILLEGAL_CHARACTER.sub(_escaped, text)


def cell_text(value: Any) -> str:
    """A plain value as the text of a cell or element: a list or dict as JSON text, all other text escaped.

    >>> cell_text("刘备"), cell_text(True), cell_text(1.5), cell_text(["c1"])
    ('刘备', 'true', '1.5', '["c1"]')
    """
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else json_text(value)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
