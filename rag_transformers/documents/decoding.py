"""Bytes -> text: UTF-8 and UTF-16, else the likeliest encoding, Chinese ones first; what is no text is refused."""

import codecs
import warnings
from dataclasses import dataclass

from rag_transformers.errors import DocumentError, UsageError
from rag_transformers.text import encodable

__all__ = ["DamagedTextWarning", "Decoded", "GuessedEncodingWarning", "clean", "decode"]


class DamagedTextWarning(UserWarning):
    """Some bytes of a text are not of its encoding, and stand as U+FFFD."""


class GuessedEncodingWarning(UserWarning):
    """A text is not UTF-8, and was read in the encoding that is likeliest."""


@dataclass(frozen=True)
class Decoded:
    """A text, and the encoding that it was read with."""

    text: str
    encoding: str


_SIGNATURES = {
    b"%PDF-": "a PDF; name it .pdf",
    b"PK\x03\x04": "a Word document or another ZIP archive; name a Word document .docx",
    b"\xd0\xcf\x11\xe0": "an old or encrypted Office document; save it as .docx without a password",
}
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Tried where a text is not UTF-8. Which of them fit equally well goes by this order: a few bytes in GB 18030 can be
# read as Korean just as well.
_LIKELY = ("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1252", "cp1251")
_SAMPLE = 65_536
_HOW = "--encoding, in Python load_documents(encoding=…)"
_WHOLE = 6  # whole characters beyond ASCII for each damaged one; other encodings read as UTF-8 have fewer than 5
_PLAIN = 20  # characters of ASCII for a single one, which is damaged


def decode(data: bytes, name: str, encoding: str | None = None) -> Decoded:
    r"""The text of a file, its line ends as ``\n``.

    Args:
        data: What the file holds.
        name: The file's name, for messages.
        encoding: The encoding, if it is known; else UTF-8, what a byte order mark says, or the likeliest.

    Raises:
        DocumentError: The bytes are no text, or not in the encoding that was given.
        UsageError: There is no such encoding.

    >>> decode("图谱\r\n".encode("gb18030"), "a.txt", "gb18030")
    Decoded(text='图谱\n', encoding='gb18030')
    """
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            raise DocumentError(f"{name}: is no text file but {kind}")
    hint = "; leave --encoding, in Python encoding=…, out to have it found"
    decoded = _as_given(data, name, encoding, hint) if encoding else _as_found(data, name)
    if "\0" in decoded.text:
        raise DocumentError(f"{name}: is no text file, it holds NUL bytes; if it is UTF-16, name its encoding: {_HOW}")
    return Decoded(clean(decoded.text), decoded.encoding)


def clean(text: str) -> str:
    r"""A text with ``\n`` as its line ends, and without halves of surrogate pairs, which nothing can store.

    >>> clean("a\r\nb\rc \ud83d\ude80 \ud83d")
    'a\nb\nc 🚀 �'
    """
    return encodable(text).replace("\r\n", "\n").replace("\r", "\n")


def _as_given(data: bytes, name: str, encoding: str, hint: str = "") -> Decoded:
    try:
        return Decoded(data.decode(encoding).removeprefix("\ufeff"), encoding)
    except UnicodeDecodeError as error:
        raise DocumentError(f"{name}: is not {encoding} at byte {error.start}{hint}") from None
    except LookupError:
        raise UsageError(f"encoding is {encoding!r}, which is unknown; give one such as utf-8, gb18030, big5") from None


def _as_found(data: bytes, name: str) -> Decoded:
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return _as_given(data, name, encoding)
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        return _nearly_utf8(data, name, error) or _likeliest(data, name)


def _nearly_utf8(data: bytes, name: str, error: UnicodeDecodeError) -> Decoded | None:
    """UTF-8 with a few damaged bytes: as another encoding all of it would be garbage.

    Where all but one place is ASCII, nothing else speaks for UTF-8: then what is there must be the beginning of a
    longer character, as in half a quotation mark. A byte by itself is more often a letter of a western encoding.
    """
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    whole = sum(character > "\x7f" for character in text) - damaged
    is_cut = damaged == 1 and error.end - error.start > 1 and len(text) > _PLAIN * (whole + damaged)
    if whole < _WHOLE * damaged and not is_cut:
        return None
    warnings.warn(
        f"{name}: is damaged UTF-8; characters that stand as \ufffd: {damaged}", DamagedTextWarning, stacklevel=2
    )
    return Decoded(text, "utf-8")


def _likeliest(data: bytes, name: str) -> Decoded:
    from charset_normalizer import from_bytes

    sample = data if len(data) <= _SAMPLE else data[: data.rfind(b"\n", 1, _SAMPLE) + 1 or _SAMPLE]
    matches = [
        (match.chaos, min(map(_LIKELY.index, match.could_be_from_charset)))  # those that read the same text are one
        for match in from_bytes(sample, cp_isolation=list(_LIKELY))
    ]
    for _, place in sorted(matches):
        try:
            found = Decoded(data.decode(_LIKELY[place]), _LIKELY[place])
        except UnicodeDecodeError:
            continue
        told = f"{name}: is not UTF-8 and was read as {found.encoding}; if that is wrong, name its encoding: {_HOW}"
        warnings.warn(told, GuessedEncodingWarning, stacklevel=2)
        return found
    raise DocumentError(f"{name}: is neither UTF-8 nor in an encoding that could be found; name its encoding: {_HOW}")
