"""PDF and Word files -> text, through pypdf and python-docx (the extra ``documents``)."""

import contextlib
import io
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rag_transformers.documents.radicals import plain_characters
from rag_transformers.errors import DocumentError, UsageError

if TYPE_CHECKING:
    from docx.table import Table

__all__ = ["docx_text", "pdf_text"]


def pdf_text(data: bytes, name: str) -> str:
    """The text of a PDF, page after page; empty where the pages are pictures.

    Raises:
        DocumentError: It is broken, or needs a password.
        UsageError: pypdf is not installed.
    """
    with _needed("pypdf", name):
        import pypdf
    with _reported("a PDF", name), _quiet("pypdf"):
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentError(f"{name}: needs a password; save it without one")
        text = "\n".join(page.extract_text() for page in reader.pages)
    return plain_characters(text.replace("\0", ""))


def docx_text(data: bytes, name: str) -> str:
    """The text of a Word document: its paragraphs and tables in their order, a table's row as one line.

    Raises:
        DocumentError: It is broken, or no .docx.
        UsageError: python-docx is not installed.
    """
    with _needed("python-docx", name):
        import docx
        from docx.table import Table
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise DocumentError(f"{name}: is an old .doc or needs a password; save it as .docx without one")
    with _reported("a Word document", name):
        blocks = docx.Document(io.BytesIO(data)).iter_inner_content()
        texts = (_table_text(block) if isinstance(block, Table) else block.text for block in blocks)
        return "\n\n".join(text for text in texts if text.strip())


def _table_text(table: "Table") -> str:
    lines = []
    for row in table.rows:
        cells = dict.fromkeys(row.cells)  # a merged cell stands there once for each column
        lines.append(" | ".join(" ".join(cell.text.split()) for cell in cells))
    return "\n".join(lines)


@contextlib.contextmanager
def _needed(package: str, name: str) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise UsageError(f"{name}: needs {package}; pip install 'rag-transformers[documents]'") from None


@contextlib.contextmanager
def _reported(kind: str, name: str) -> Iterator[None]:
    """Whatever a reader stumbles over in a broken file, as one error that names the file."""
    try:
        yield
    except DocumentError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DocumentError(f"{name}: cannot be read as {kind}: {reason}") from error


@contextlib.contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Keep a reader's remarks on a file's flaws off the screen."""
    log = logging.getLogger(logger)
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
