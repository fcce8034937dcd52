"""Files -> documents: .txt, .md, .json, .jsonl, .csv, and, with the extra ``documents``, .pdf and .docx."""

import glob
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from langchain_core.documents import Document

from rag_transformers.documents.decoding import clean, decode
from rag_transformers.documents.given import RESERVED
from rag_transformers.documents.plain import plain
from rag_transformers.documents.rows import Row, read_rows
from rag_transformers.errors import DocumentError, UsageError

__all__ = ["SUFFIXES", "SkippedWarning", "find_files", "fingerprint", "load_documents", "sources_under"]

SUFFIXES = (".txt", ".md", ".json", ".jsonl", ".csv", ".pdf", ".docx")
"""The files that are read, by the end of their names, in any case."""


_ROWS = (".json", ".jsonl", ".csv")  # a document is a row of such a file


class SkippedWarning(UserWarning):
    """Files or rows without text were left out."""


def load_documents(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    text_column: str | None = None,
    title_column: str | None = None,
    encoding: str | None = None,
    may_be_empty: bool = False,
) -> list[Document]:
    r"""The documents of files, folders and globs, in the order of :func:`find_files`.

    A text, PDF or Word file is one document, whose ``metadata["source"]`` is its path as it was given, with forward
    slashes. A row of a .csv, a line of a .jsonl or an item of a .json is one too, called ``path#id`` where all have
    an ``id`` of their own, else ``path#number``, from 1. Its other short fields are kept as metadata. A title, from a
    column or a Markdown file's first line, is ``metadata["title"]``; a row's title is also put before its text, as
    the first line, unless the text begins with it.

    Args:
        paths: Files, folders (read with all that is in them, hidden files left out) or globs.
        text_column: Column or field of the text; by default ``text``, ``content``, ``正文``, ``内容`` and the like.
        title_column: Column or field of the title; by default ``title`` or ``标题``, if there is one.
        encoding: Encoding of all text files; by default UTF-8, else the likeliest, of which a warning tells, and
            ``metadata["encoding"]``.
        may_be_empty: Whether a folder without a file, and files without text, are no error.

    Raises:
        UsageError: A path that is not there, no file found, no file with text, or no such column.
        DocumentError: A file that cannot be read as what its name says.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "mills.csv").write_text("标题,正文\n水厂,林溪水厂位于北岸。\n", encoding="utf-8")
    ...     [document] = load_documents(folder)
    >>> document.page_content, document.metadata["source"].endswith("/mills.csv#1")
    ('水厂\n林溪水厂位于北岸。', True)
    """
    options = _Options(text_column, title_column, encoding)
    documents: list[Document] = []
    empty: list[str] = []
    for path in find_files(paths, may_be_empty):
        found = [document for document in _read(path, options) if document.page_content.strip()]
        documents += found
        if not found:
            empty.append(path.as_posix())
    if not documents and not may_be_empty:
        raise UsageError(f"no text in {_listed(empty)}")
    if empty:
        warnings.warn(f"no text in {_listed(empty)}: left out", SkippedWarning, stacklevel=2)
    return documents


def find_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], may_be_empty: bool = False
) -> list[Path]:
    """The files behind paths, folders and globs, each once, those of a folder or glob in order (2 before 10).

    Args:
        paths: Files, folders or globs.
        may_be_empty: Whether a folder or a glob without a file is no error.

    Raises:
        UsageError: A path that is not there, a folder or glob without a file that can be read, or a file of no
            such kind.
        DocumentError: A folder that may not be read.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise UsageError("paths is empty; give at least one file or folder")
    found: dict[str, Path] = {}
    for path in given:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise UsageError(f"paths holds {path!r}; give files, folders or globs")
        try:
            for file in _files_of(os.fspath(path), may_be_empty):
                found.setdefault(os.path.normcase(os.path.abspath(file)), file)
        except OSError as error:
            raise DocumentError(f"{error.filename or path}: cannot be read: {error.strerror}") from None
    return list(found.values())


def sources_under(paths: Iterable[str | os.PathLike[str]], sources: Iterable[str]) -> list[str]:
    """Those of some sources that :func:`load_documents` could have given to documents of these files and folders.

    Args:
        paths: Files and folders, which need not be there any more.
        sources: Sources of documents.

    Raises:
        UsageError: A path is a glob.

    >>> sources_under(["docs", "a.csv"], ["docs/b.txt", "docs2/c.txt", "a.csv#7", "d.txt"])
    ['docs/b.txt', 'a.csv#7']
    """
    places = [Path(path) for path in paths]
    if globs := [place for place in places if glob.has_magic(place.as_posix()) and not place.exists()]:
        raise UsageError(f"{globs[0]} is a glob: name files and folders, so that it is clear what they no longer hold")
    names = list(map(_name, places))
    return [source for source in sources if any(_is_under(name, source) for name in names)]


def _name(path: Path) -> str:
    """A path as text, with forward slashes; what the locale's encoding could not read in it is taken for UTF-8."""
    return os.fsencode(path.as_posix()).decode("utf-8", "replace")


def _is_under(place: str, source: str) -> bool:
    file, _, row = source.rpartition("#") if "#" in source else (source, "", "")
    if row and Path(file).suffix.lower() in _ROWS:
        source = file
    if Path(source).suffix.lower() not in SUFFIXES or "://" in source:
        return False  # it was not given by a file
    if place == ".":
        return not Path(source).is_absolute() and not source.startswith("../")
    return source == place or source.startswith(f"{place.rstrip('/')}/")


def fingerprint(document: Document) -> str:
    """A hash of what a document says: its text and its metadata, but not where it lies or how it was encoded.

    >>> fingerprint(Document("Mills", metadata={"source": "a"})) == fingerprint(Document("Mills"))
    True
    """
    metadata = {key: value for key, value in document.metadata.items() if key not in ("source", "encoding")}
    said = json.dumps([document.page_content, metadata], ensure_ascii=False, sort_keys=True, default=plain)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class _Options:
    text_column: str | None
    title_column: str | None
    encoding: str | None


def _files_of(given: str, may_be_empty: bool) -> list[Path]:
    path = Path(given)
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise UsageError(f"{path.as_posix()}: cannot be read; give {_kinds()}")
        return [path]
    if path.is_dir():
        found = _files_in(path)
    elif glob.has_magic(given):
        found = sorted(_files_of_glob(given), key=_natural)
    else:
        raise UsageError(f"{path.as_posix()}: no such file or folder")
    if not found and not may_be_empty:
        raise UsageError(f"{path.as_posix()}: no file found; looked for {_kinds()}")
    return found


def _files_of_glob(pattern: str) -> Iterator[Path]:
    for match in glob.iglob(pattern, recursive=True):
        path = Path(match)
        if path.is_dir() and not pattern.endswith("**"):
            yield from _files_in(path)
        elif path.is_file() and path.suffix.lower() in SUFFIXES:
            yield path


def _files_in(folder: Path) -> list[Path]:
    found = []
    for root, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".") and not _is_index(Path(root, name))]
        names = (name for name in files if not name.startswith((".", "~$")))  # ~$: what Word has open
        found += [Path(root, name) for name in names if Path(name).suffix.lower() in SUFFIXES]
    return sorted(found, key=_natural)


def _is_index(folder: Path) -> bool:
    """Whether a folder is one of our indexes, which may lie within what is indexed."""
    return all((folder / name).is_file() for name in ("records.sqlite", "made.sqlite"))


def _raise(error: OSError) -> None:
    raise error


def _natural(path: Path) -> list[list[str | int]]:
    """Numbers in names by their value, so that chapter 2 is read before chapter 10."""
    return [
        [int(piece) if number % 2 else piece for number, piece in enumerate(re.split(r"(\d+)", part))]
        for part in path.parts
    ]


def _read(path: Path, options: _Options) -> list[Document]:
    """The documents of one file; those without text too."""
    name, suffix = _name(path), path.suffix.lower()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DocumentError(f"{name}: cannot be read: {error.strerror}") from None
    if suffix in (".pdf", ".docx"):
        from rag_transformers.documents.office import docx_text, pdf_text

        text = pdf_text(data, name) if suffix == ".pdf" else docx_text(data, name)
        return [Document(clean(text), metadata={"source": name})]
    decoded = decode(data, name, options.encoding)
    note = {} if decoded.encoding.startswith("utf-8") else {"encoding": decoded.encoding}
    if suffix in (".txt", ".md"):
        return [_text_document(decoded.text, name, suffix, note)]
    rows = read_rows(decoded.text, name, suffix, options.text_column, options.title_column)
    return [_row_document(row, note) for row in rows]


_HEADING = re.compile(r"\s*#[ \t]+(.*)")


def _text_document(text: str, name: str, suffix: str, note: dict[str, str]) -> Document:
    heading = _HEADING.match(text) if suffix == ".md" else None
    title = heading.group(1).strip().rstrip("#").strip() if heading else ""
    return Document(text, metadata={"source": name, **({"title": title} if title else {}), **note})


def _row_document(row: Row, note: dict[str, str]) -> Document:
    title = {"title": row.title} if row.title else {}
    named = row.title and row.text.strip() and not row.text.lstrip().startswith(row.title)
    content = f"{row.title}\n{row.text}" if named else row.text
    others = {name: value for name, value in row.others.items() if name not in RESERVED}
    return Document(content, metadata={**others, "source": row.source, **title, **note})


def _kinds() -> str:
    return ", ".join(SUFFIXES)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
