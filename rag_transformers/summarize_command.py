"""What ``rag-transformers summarize`` does: a summary of each file, printed as soon as it is there."""

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rag_transformers import concurrency
from rag_transformers.documents import find_files, load_documents
from rag_transformers.errors import ConvergenceError, ModelError, ModelUnreachableError, check_count
from rag_transformers.models.faults import error_line
from rag_transformers.models.run import Run, Usage
from rag_transformers.models.servers import chat_model
from rag_transformers.opening import check_models
from rag_transformers.prompts import as_pack
from rag_transformers.summaries.long_texts import asummarize_chunks, summary_chunks
from rag_transformers.summaries.text_summaries import ExtractiveSummary, Summary
from rag_transformers.summaries.text_summarizer import TextSummarizer

__all__ = ["summarize_files"]


@dataclass(frozen=True)
class _Done:
    file: str
    summary: str
    language: str
    chunks: int
    usage: Usage
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        counted = {"chunks": self.chunks, "calls": self.usage.calls, "tokens": self.usage.tokens}
        return {
            "file": self.file,
            "summary": self.summary,
            "language": self.language,
            **counted,
            "seconds": round(self.seconds, 3),
        }


def summarize_files(given: argparse.Namespace) -> int:
    """Summarise the files that the arguments name.

    Args:
        given: ``files``, ``model``, ``base_url``, ``timeout``, ``language``, ``concurrency``, ``encoding``,
            ``text_column`` and ``json``.

    Returns:
        The exit code: 0; 1 where a file's summary failed, which is told on standard error; 130 when interrupted.

    Raises:
        UsageError: An argument is wrong, or a file cannot be read; nothing was printed.
    """
    summary = _summary(given)
    read = _texts_of_files(given)
    files = [(file, texts) for file, texts in read if texts]
    done: list[_Done] = []
    failed = 0
    for number, (file, texts) in enumerate(files):
        try:
            made = _summarized(summary, file, texts, given)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            return 128 + signal.SIGINT
        except (ModelError, ConvergenceError) as error:
            failed += 1
            print(f"failed: {file}: {error_line(error)}", file=sys.stderr)
            if isinstance(error, ModelUnreachableError) and files[number + 1 :]:
                print(f"failed: {len(files) - number - 1} more files: not asked about", file=sys.stderr)
                break
        else:
            done.append(made)
            if not given.json:
                _print(made, headed=len(files) > 1, first=len(done) == 1)
    if given.json and done:
        found = [made.to_dict() for made in done]
        print(json.dumps(found if len(read) > 1 else found[0], ensure_ascii=False, indent=1))
    return 1 if failed else 0


def _summary(given: argparse.Namespace) -> TextSummarizer:
    check_count("--concurrency", given.concurrency)
    pack = as_pack(given.prompts)
    pack.checked("--", given.language)
    check_models(given)
    if not given.model:
        return ExtractiveSummary()
    llm = chat_model(given.model, given.base_url, timeout=given.timeout)
    return Summary(llm, language=given.language, prompts=pack)


def _texts_of_files(given: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """Each file with its texts: one, or one for each row of a table; none where it is blank."""
    files = [path.as_posix() for path in find_files(given.files)]
    texts: dict[str, list[str]] = {file: [] for file in files}
    for document in load_documents(files, text_column=given.text_column, encoding=given.encoding):
        source = str(document.metadata["source"])
        file = source if source in texts else source.rpartition("#")[0]  # a row of a table is FILE#NUMBER
        texts[file].append(document.page_content)
    return list(texts.items())


def _summarized(summary: TextSummarizer, file: str, texts: list[str], given: argparse.Namespace) -> _Done:
    start = time.perf_counter()
    chunks = summary_chunks(texts)
    with _progress_bar(file, len(chunks), bool(given.model)) as show:
        run = Run(given.concurrency, show)

        async def summarize() -> str:
            with run.active():
                return await asummarize_chunks(summary, chunks)

        text = concurrency.run(summarize())
    language = as_pack(given.prompts).choose("".join(texts), given.language)
    return _Done(file, text, language, len(chunks), run.usage, time.perf_counter() - start)


def _print(done: _Done, headed: bool, first: bool) -> None:
    if headed:
        print(f"{'' if first else chr(10)}==> {done.file} <==")
    print(done.summary, flush=True)


@contextlib.contextmanager
def _progress_bar(file: str, chunks: int, with_model: bool) -> Iterator[Callable[[Usage], None] | None]:
    """A bar on standard error: calls, of one for each chunk and then those that merge, and tokens that are told."""
    if not with_model:
        yield None
        return
    from tqdm import tqdm

    with tqdm(desc=file, total=chunks, unit="call", disable=None, dynamic_ncols=True) as bar:

        def show(usage: Usage) -> None:
            bar.total = max(chunks, usage.calls)
            bar.set_postfix_str(f"{usage.tokens:,} tokens" if usage.tokens else "", refresh=False)
            bar.update(usage.calls - bar.n)

        yield show
