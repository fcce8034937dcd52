"""The command line: reads arguments, calls the index, prints. Exit codes: 0 done, 1 done in part, 2 wrong input."""

import argparse
import contextlib
import difflib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
        with _plain_warnings(estimates=bool(getattr(given, "model", None) or getattr(given, "dry_run", False))):
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
        _warn_of_doubles(index.doubles(documents, sync=sync))
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
    from rag_transformers.opening import open_to_read
    from rag_transformers.text import printable

    with open_to_read(given) as index:
        stats: Any = index.sources() if given.sources else index.stats()
    if given.json:
        _print_json(stats)
    elif given.sources:
        print("".join(f"{printable(source)}\n" for source in stats), end="")
    else:
        width = max(map(len, stats))
        for name, value in stats.items():
            print(f"{name.replace('_', ' '):{width}}  {value}")
    return 0


def _delete(given: argparse.Namespace) -> int:
    from rag_transformers.text import printable

    with _open(given) as index:
        held, asked = dict.fromkeys(index.sources()), list(map(_read_argument, given.sources))
        unknown = [source for source in asked if source not in held]
        report = index.remove([source for source in asked if source in held])
    for source in unknown:
        meant = f"; did you mean {printable(near)}?" if (near := _nearest(source, held)) else ""
        print(f"not in the index: {printable(source)}{meant}", file=sys.stderr)
    removed = len(given.sources) - len(unknown)
    print(f"{_counted(removed, 'document')} removed")
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
    from rag_transformers.models.servers import embedding_model
    from rag_transformers.opening import check_models

    check_models(given)
    embeddings = None
    if given.embedding_model:
        size = given.embedding_batch_size
        embeddings = embedding_model(given.embedding_model, given.base_url, batch_size=size)
    report = GraphIndex.repair(given.out, embeddings)
    print(report)
    return 1 if report.lost else 0


def _export(given: argparse.Namespace) -> int:
    from rag_transformers.exports import export_graph
    from rag_transformers.opening import open_to_read

    with open_to_read(given) as index:
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
    from rag_transformers.opening import options

    with _progress_bar(bool(given.model)) as show:
        report = import_source(
            given.source, given.out, on_progress=show, reports=not given.no_reports, **options(given)
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
    from rag_transformers.opening import open_to_read
    from rag_transformers.view import write_view

    with open_to_read(given) as index:
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
    given, chunks = _counted(plan.documents, "document"), _counted(plan.chunks, "chunk")
    print(f"{given}, {plan.unchanged} of them unchanged; {chunks} to extract")
    if plan.found:
        again = "is extracted already, and is" if plan.found == 1 else "are extracted already, and are"
        print(f"{_counted(plan.found, 'more chunk')} {again} found again")
    if plan.removed:
        gone = "that is gone" if plan.removed == 1 else "that are gone"
        print(f"{_counted(plan.removed, 'document')} {gone} would be removed")
    if not plan.calls:
        print("no model call for extraction; nothing was done")
        return 0
    calls = _counted(plan.calls, "model call")
    print(f"{calls} for extraction, with about {plan.prompt_tokens:,} prompt tokens; nothing was done")
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
        if did.usage.calls:
            line += f", {did.usage}"
        print(line)
    if report.usage.calls:
        print(f"model      {report.usage}")
    print(f"time       {report.seconds['all']:.1f} s")
    print(f"index      {out}")


def _open(given: argparse.Namespace) -> "GraphIndex":
    from rag_transformers.opening import open_index

    return open_index(given)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _warn_of_doubles(doubles: Mapping[str, str]) -> None:
    from rag_transformers.text import printable

    if not doubles:
        return
    names = list(doubles.values())
    others = ", ".join(map(printable, names[:3])) + (", …" if len(names) > 3 else "")
    alike = ("has", "one under another name") if len(names) == 1 else ("have", "ones under other names")
    said = f"{_counted(len(names), 'new document')} {alike[0]} the same text as {alike[1]} ({others})"
    print(f"warning: {said}; give the paths as before, or delete those", file=sys.stderr)


def _nearest(source: str, held: Iterable[str]) -> str | None:
    """The source of the same file name, or of the most similar one; of several, the most similar as a whole."""
    names: dict[str, list[str]] = {}
    for one in held:
        names.setdefault(one.rpartition("/")[2], []).append(one)
    name = source.rpartition("/")[2]
    alike = [name] if name in names else difflib.get_close_matches(name, names, 1, 0.75)
    return next(iter(difflib.get_close_matches(source, names[alike[0]], 1, 0.0)), None) if alike else None


@contextlib.contextmanager
def _progress_bar(with_model: bool) -> Iterator[Callable[["Progress"], None]]:
    """A bar on standard error with rate and time left; with a model, calls and, where it tells them, tokens so far."""
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
                tokens = f", {usage.tokens:,} tokens" if usage.tokens else ""
                bar.set_postfix_str(f"{usage.calls} calls{tokens}")
            bar.update(progress.done - bar.n)

        yield show


@contextlib.contextmanager
def _plain_warnings(estimates: bool) -> Iterator[None]:
    """Warnings as one line each on standard error, without a place in the code; of estimates where asked for."""
    from rag_transformers.tokens import EstimateWarning

    with warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.simplefilter("default" if estimates else "ignore", EstimateWarning)
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
