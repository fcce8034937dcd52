"""The arguments of the command line: what each command takes, and what is said of it."""

import argparse
import contextlib
import difflib
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import rag_transformers

__all__ = ["COMMANDS", "parser"]

_DESCRIPTION = (
    "Documents into a knowledge graph and cited answers, with or without a model, in Chinese, English and Japanese."
)
_MODES = "local: from chunks; global: from reports on the whole; auto: by the question (default)"
_FILES = "files, folders or globs: .txt .md .json .jsonl .csv .pdf .docx"

Command = argparse.ArgumentParser


def parser(runs: Mapping[str, Callable[[argparse.Namespace], int]]) -> argparse.ArgumentParser:
    """The parser of all commands.

    Args:
        runs: What carries out each command, by its name; it stands in ``run`` of what was parsed.
    """
    whole = _Parser(prog="rag-transformers", description=_DESCRIPTION)
    whole.add_argument("--version", action="version", version=f"rag-transformers {rag_transformers.__version__}")
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Command)
    for name, (said, add_options) in COMMANDS.items():
        command = commands.add_parser(name, help=said)
        add_options(command)
        command.set_defaults(run=runs[name])
        if name not in _READING:
            _add_model_options(command, embeds=name != "summarize", asks=name != "repair")
    return whole


def _index(command: Command) -> None:
    command.add_argument("paths", nargs="+", metavar="PATH", help=_FILES)
    command.add_argument("--out", type=_folder, required=True, metavar="DIR", help="the folder of the index")
    command.add_argument("--chunk-size", type=int, default=1024, metavar="N", help="tokens of a chunk (default 1024)")
    command.add_argument(
        "--chunk-overlap", type=int, default=20, metavar="N", help="tokens that neighbours share (default 20)"
    )
    _add_reading_options(command)
    command.add_argument("--title-column", metavar="NAME", help="the column or field of the title")
    command.add_argument("--no-reports", action="store_true", help="write the reports on communities without the model")
    command.add_argument("--sync", action="store_true", help="take out documents that are gone from the PATHs given")
    command.add_argument("--dry-run", action="store_true", help="say how many chunks, calls and tokens it would take")


def _query(command: Command) -> None:
    _add_folder(command)
    command.add_argument("question", metavar="QUESTION")
    command.add_argument("--mode", choices=("auto", "local", "global"), default="auto", help=_MODES)
    command.add_argument("--k", type=int, default=10, metavar="N", help="chunks to answer from (default 10)")
    command.add_argument("--json", action="store_true", help="print the same as data")


def _summarize(command: Command) -> None:
    command.add_argument("files", nargs="+", metavar="FILE", help=_FILES)
    _add_reading_options(command)
    command.add_argument("--json", action="store_true", help="print data: an object, or a list for several files")


def _import(command: Command) -> None:
    command.add_argument("source", type=_folder, metavar="SOURCE", help="the folder of its output, or its GraphML file")
    command.add_argument("--out", type=_folder, required=True, metavar="DIR", help="the folder of the index")
    command.add_argument("--no-reports", action="store_true", help="write the reports on communities without the model")


def _delete(command: Command) -> None:
    _add_folder(command)
    command.add_argument("sources", nargs="+", metavar="SOURCE", help="as stats --sources names them")


def _export(command: Command) -> None:
    _add_folder(command)
    command.add_argument("--format", required=True, choices=("graphml", "json", "csv", "cypher", "csv-neo4j"))
    command.add_argument(
        "-o",
        "--output",
        type=_file,
        metavar="FILE",
        help="a file, a folder for csv (default: standard output; of csv the edges)",
    )


def _view(command: Command) -> None:
    _add_folder(command)
    command.add_argument("-o", "--output", type=_file, required=True, metavar="FILE", help="the HTML file")


def _stats(command: Command) -> None:
    _add_folder(command)
    command.add_argument("--sources", action="store_true", help="name its documents instead, one a line")
    command.add_argument("--json", action="store_true", help="print the same as data")


def _mcp(command: Command) -> None:
    _add_folder(command)
    command.add_argument(
        "--port", type=_port, metavar="N", help="serve HTTP at http://127.0.0.1:N/mcp (default: standard input, output)"
    )


def _add_folder(command: Command) -> None:
    command.add_argument("out", type=_folder, metavar="DIR", help="the folder of the index")


COMMANDS: dict[str, tuple[str, Callable[[Command], None]]] = {
    "index": ("read documents into an index", _index),
    "query": ("answer a question from an index, with sources", _query),
    "summarize": ("sum up files of any length", _summarize),
    "import": ("make an index of what graphrag, LightRAG or nano-graphrag made", _import),
    "delete": ("remove documents from an index, with all that was made of them", _delete),
    "rebuild": ("find the communities anew and write the reports that changed", _add_folder),
    "repair": ("check the databases of an index, and make what is derived anew from its records", _add_folder),
    "export": ("write the graph for other tools", _export),
    "view": ("make a page that shows the graph, to open in a browser", _view),
    "stats": ("say what an index holds", _stats),
    "mcp": ("offer an index to agents as an MCP server", _mcp),
}
"""The commands by their names: what is said of each, and what adds its arguments."""

_READING = ("export", "view", "stats")  # with nothing asked and nothing embedded


def _add_reading_options(command: Command) -> None:
    command.add_argument("--concurrency", type=int, default=16, metavar="N", help="model calls in flight (default 16)")
    command.add_argument(
        "--text-column", metavar="NAME", help="the column or field of the text in .csv, .json and .jsonl"
    )
    command.add_argument("--encoding", metavar="NAME", help="the encoding of the files (default: UTF-8, else detected)")


def _add_model_options(command: argparse.ArgumentParser, embeds: bool = True, asks: bool = True) -> None:
    alone = "Without --model" if asks else "Without --embedding-model"
    models = command.add_argument_group("models", f"{alone} nothing leaves this machine. The key is OPENAI_API_KEY.")
    if asks:
        models.add_argument("--model", type=_named, metavar="NAME", help="a chat model of an OpenAI-compatible server")
    models.add_argument(
        "--base-url", type=_named, metavar="URL", help="the server (default: OPENAI_BASE_URL, else OpenAI's)"
    )
    if embeds:
        models.add_argument(
            "--embedding-model", type=_named, metavar="NAME", help="an embedding model there (default: offline)"
        )
        models.add_argument(
            "--embedding-batch-size",
            type=_count,
            default=128,
            metavar="N",
            help="texts in one request to it, where the server takes so many only (default 128)",
        )
    if not asks:
        return
    models.add_argument(
        "--timeout",
        type=_seconds,
        default=120.0,
        metavar="SECONDS",
        help="how long the server may be silent in one call, which is then made once more (default 120)",
    )
    models.add_argument(
        "--language",
        default="auto",
        metavar="NAME",
        help="auto, en, ja, zh, or a language of --prompts (default auto)",
    )
    models.add_argument(
        "--prompts",
        type=_named,
        metavar="DIR",
        help="your own prompts: a folder with the files that differ, or with a folder for each language",
    )


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < float("inf"):
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 1 << 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 0 (any free one) to 65535")


def _named(text: str, what: str = "") -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty" + (what and f"; name a {what}"))
    return text


def _folder(text: str) -> str:
    return _named(text, "folder")


def _file(text: str) -> str:
    return _named(text, "file")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, what was meant, and where to read more."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(action.choices or ())
        if value not in choices and (near := _near(str(value), choices)):
            raise argparse.ArgumentError(action, f"there is no {value!r}; did you mean {near}?")
        super()._check_value(action, value)


class _Command(_Parser):
    """Says so of one command, whose help is the one to read."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._unread(found, left))
        return found, left

    def _unread(self, found: argparse.Namespace, left: list[str]) -> str:
        question = getattr(found, "question", None)
        if question and not any(word.startswith("-") for word in left):
            return f"put the question in quotes: {shlex.quote(' '.join([question, *left]))}"
        near = _near(left[0].partition("=")[0], [name for name in self._option_string_actions if name.startswith("--")])
        return f"unrecognized arguments: {' '.join(left)}" + (f"; did you mean {near}?" if near else "")


def _near(word: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, list(known), 1)), None)
