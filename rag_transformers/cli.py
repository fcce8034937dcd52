"""The command line: reads arguments, calls the index, prints. Exit codes: 0 done, 1 done in part, 2 wrong input."""

import argparse
import contextlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rag_transformers.arguments import parser
from rag_transformers.errors import ModelError, NoIndexError, RagTransformersError, UsageError

if TYPE_CHECKING:
    from rag_transformers.index import GraphIndex, IndexReport, Progress

__all__ = ["main"]

_PATH = 400  # characters of a source that are shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the program's name; those of the process by default.

    Returns:
        The exit code: 0 done, 1 done in part, 2 wrong usage or input.
    """
    _speak_utf8()
    given = parser(_COMMANDS).parse_args(arguments)
    try:
        with _plain_warnings():
            code: int = given.run(given)
            sys.stdout.flush()
            return code
    except RagTransformersError as error:
        return _fail(error)
    except KeyboardInterrupt:
        print("stopped; what was done is stored, and the same command goes on from there", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of the output went away, as head does
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the flush at exit
        return 0
    except OSError as error:  # a disk that is full, a file that may not be read
        return _fail(error)


def _index(given: argparse.Namespace) -> int:
    from rag_transformers.documents import load_documents

    documents = load_documents(
        given.paths,
        text_column=given.text_column,
        title_column=given.title_column,
        encoding=given.encoding,
        may_be_empty=given.sync,
    )
    sync = given.paths if given.sync else ()
    with _open(given) as index:
        if given.dry_run:
            return _dry_run(index, documents, sync)
        with _progress_bar(bool(given.model)) as show:
            report = index.add(documents, sync=sync, on_progress=show)
    _print_report(report, given.out)
    return _tell_failures(report)


def _query(given: argparse.Namespace) -> int:
    from rag_transformers.answers.citations import label, rounded
    from rag_transformers.prompts import as_pack
    from rag_transformers.text import printable

    with _open(given) as index:
        answer = index.query(_read_argument(given.question), mode=given.mode, k=given.k)
    if given.json:
        _print_json(answer.to_dict())
        return 0
    print("\n".join(map(printable, answer.text.splitlines())))
    if given.model and answer.usage.calls and not answer.citations:
        print("warning: the answer names no source", file=sys.stderr)
    if answer.citations:
        print(f"\n{as_pack(given.prompts).words(answer.language).sources}")
    for citation in answer.citations:
        place = f"{label(citation.source, _PATH)}, chunk {citation.chunk}, characters {citation.start}-{citation.end}"
        print(f"[{citation.number}] {place}: {rounded(printable(citation.quote))}")
    return 0


def _summarize(given: argparse.Namespace) -> int:
    from rag_transformers.summarize_command import summarize_files

    return summarize_files(given)


def _stats(given: argparse.Namespace) -> int:
    with _open(given) as index:
        stats = index.stats()
    if given.json:
        _print_json(stats)
    else:
        width = max(map(len, stats))
        for name, value in stats.items():
            print(f"{name.replace('_', ' '):{width}}  {value}")
    return 0


def _delete(given: argparse.Namespace) -> int:
    from rag_transformers.text import printable

    with _open(given) as index:
        held, asked = set(index.sources()), list(map(_read_argument, given.sources))
        unknown = [source for source in asked if source not in held]
        report = index.remove([source for source in asked if source in held])
    for source in unknown:
        print(f"not in the index: {printable(source)}", file=sys.stderr)
    removed = len(given.sources) - len(unknown)
    print(f"{removed} {'document' if removed == 1 else 'documents'} removed")
    failed = _tell_failures(report)
    return 2 if not removed else 1 if unknown else failed


def _rebuild(given: argparse.Namespace) -> int:
    with _open(given) as index, _progress_bar(bool(given.model)) as show:
        report = index.rebuild(on_progress=show)
        communities = len(index.communities)
    print(f"{communities} communities, {report.reported} reports written")
    return _tell_failures(report)


def _repair(given: argparse.Namespace) -> int:
    from rag_transformers.index import GraphIndex
    from rag_transformers.models.servers import check_server, embedding_model

    embeddings = None
    if given.embedding_model:
        check_server(given.base_url)
        size = given.embedding_batch_size
        embeddings = embedding_model(given.embedding_model, given.base_url, batch_size=size)
    report = GraphIndex.repair(given.out, embeddings)
    print(report)
    return 1 if report.lost else 0


def _export(given: argparse.Namespace) -> int:
    from rag_transformers.exports import export_graph

    with _open(given) as index:
        graph, found, written = index.contents()
        communities = [community.to_dict() for community in found]
        reports = [report.to_dict() for report in written]
        target = sys.stdout if given.output is None else given.output
        done = export_graph(graph, given.format, target, communities=communities, reports=reports)
    if done.files:
        print(f"{done.vertices} vertices, {done.edges} edges: {', '.join(map(str, done.files))}")
    return 0


def _import(given: argparse.Namespace) -> int:
    from rag_transformers.imports import import_source

    with _progress_bar(bool(given.model)) as show:
        report = import_source(
            given.source, given.out, on_progress=show, reports=not given.no_reports, **_open_options(given)
        )
    _print_report(report, given.out)
    return _tell_failures(report)


def _mcp(given: argparse.Namespace) -> int:
    from rag_transformers.mcp_server import serve

    with contextlib.suppress(KeyboardInterrupt), _open(given) as index:
        try:
            index.sources()
        except NoIndexError as error:  # it may come while the server runs, and until then the tools say so
            print(f"warning: {error}", file=sys.stderr, flush=True)
        serve(index, given.port, answers=bool(given.model))
        return 0
    return 128 + signal.SIGINT


def _view(given: argparse.Namespace) -> int:
    from rag_transformers.view import write_view

    with _open(given) as index:
        graph, communities, reports = index.contents()
        if not len(graph):
            raise UsageError(f"{given.out} holds no vertex to be seen: index documents that name something first")
        sources = {str(chunk.id): str(chunk.metadata["source"]) for chunk in index.chunks()}
        done = write_view(graph, given.output, communities=communities, reports=reports, sources=sources)
    print(f"{done.vertices} vertices, {done.edges} edges: {given.output}")
    if done.vertices < done.all_vertices:
        drawn = f"the {done.vertices} most connected of {done.all_vertices} vertices are drawn"
        print(f"{drawn}, with {done.edges} of {done.all_edges} edges between them", file=sys.stderr)
    return 0


def _tell_failures(report: "IndexReport") -> int:
    from rag_transformers.text import printable

    for line in report.failures_told():
        print(f"failed: {printable(line)}", file=sys.stderr)
    return 1 if report.failed else 0


def _dry_run(index: "GraphIndex", documents: Sequence[Any], sync: Sequence[str]) -> int:
    plan = index.plan(documents, sync=sync)
    print(f"{plan.documents} documents, {plan.unchanged} of them unchanged; {plan.chunks} chunks to extract")
    if plan.found:
        print(f"{plan.found} more chunks are extracted already, and are found again")
    if plan.removed:
        print(f"{plan.removed} documents that are gone are removed")
    print(f"{plan.calls} model calls for extraction, with about {plan.prompt_tokens:,} prompt tokens; nothing was done")
    if plan.calls:
        print("on top come the calls for descriptions and reports, which depend on what the replies hold")
    return 0


def _print_report(report: "IndexReport", out: str) -> None:
    changes = {"new": report.added, "changed": report.changed, "unchanged": report.unchanged, "removed": report.removed}
    said = ", ".join(f"{count} {what}" for what, count in changes.items() if count or what != "removed")
    print(f"documents  {report.documents} ({said})")
    print(f"chunks     {report.chunks}")
    print(f"vertices   {report.vertices}")
    print(f"edges      {report.edges}")
    for stage, did in report.stages.items():
        line = f"{stage:9}  {did.made} made, {did.kept} kept, {did.failed} failed, {did.seconds:.1f} s"
        if (usage := did.usage).calls:
            line += f", {usage.calls} calls, {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
        print(line)
    if (usage := report.usage).calls:
        print(f"model      {usage.calls} calls, {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens")
    print(f"time       {report.seconds['all']:.1f} s")
    print(f"index      {out}")


def _open(given: argparse.Namespace) -> "GraphIndex":
    """The index that the arguments speak of; whatever they have wrong is found before anything is created."""
    from rag_transformers.chunking import Chunker
    from rag_transformers.index import GraphIndex

    options = _open_options(given)
    if "chunk_size" in given:
        options["concurrency"] = given.concurrency
        options["chunker"] = Chunker(given.chunk_size, given.chunk_overlap)
        options["reports"] = not given.no_reports
    return GraphIndex.open(given.out, **options)


def _open_options(given: argparse.Namespace) -> dict[str, Any]:
    """The models and the language that the arguments speak of, as ``GraphIndex.open`` takes them."""
    from rag_transformers.models.servers import chat_model, check_server, embedding_model

    options: dict[str, Any] = {"language": given.language, "prompts": given.prompts}
    waits = {"timeout": given.timeout} if "timeout" in given else {}
    if given.model or given.embedding_model:
        check_server(given.base_url)
    if given.model:
        options["llm"] = chat_model(given.model, given.base_url, **waits)
    if given.embedding_model:
        size = options["embedding_batch_size"] = given.embedding_batch_size
        options["embeddings"] = embedding_model(given.embedding_model, given.base_url, batch_size=size, **waits)
    return options


@contextlib.contextmanager
def _progress_bar(with_model: bool) -> Iterator[Callable[["Progress"], None]]:
    """A bar on standard error with rate and time left; with a model, calls and tokens so far."""
    from tqdm import tqdm

    with tqdm(unit="chunk", disable=None, dynamic_ncols=True) as bar:
        shown = {"stage": ""}

        def show(progress: "Progress") -> None:
            if progress.stage != shown["stage"]:
                if shown["stage"] and progress.stage == "embed":
                    return  # runs beside the extraction, which takes longer
                shown["stage"] = progress.stage
                bar.reset(progress.total)
                bar.set_description(progress.stage)
            if with_model:
                usage = progress.usage
                bar.set_postfix_str(f"{usage.calls} calls, {usage.prompt_tokens + usage.completion_tokens:,} tokens")
            bar.update(progress.done - bar.n)

        yield show


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one line each on standard error, without a place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
        yield


def _print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False, indent=1))


def _fail(error: Exception) -> int:
    what = "model" if isinstance(error, ModelError) else "error"
    print(f"{what}: {' '.join(str(error).split())}", file=sys.stderr)
    return 2


def _read_argument(text: str) -> str:
    """An argument in UTF-8, also where the locale made Python take it for bytes of another encoding."""
    return os.fsencode(text).decode("utf-8", "replace") if not text.isascii() and os.name != "nt" else text


def _speak_utf8() -> None:
    """Print any text on any console: UTF-8 into files and pipes, and no crash on a console that lacks a character."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(**({} if stream.isatty() else {"encoding": "utf-8"}), errors="replace")


_COMMANDS = {
    "index": _index,
    "query": _query,
    "summarize": _summarize,
    "import": _import,
    "delete": _delete,
    "rebuild": _rebuild,
    "repair": _repair,
    "export": _export,
    "view": _view,
    "stats": _stats,
    "mcp": _mcp,
}


if __name__ == "__main__":
    sys.exit(main())
