"""The arguments of the command line: what each command takes, and what is said of it."""

import argparse
import contextlib
from collections.abc import Callable, Mapping
from typing import NoReturn

import rag_transformers

__all__ = ["COMMANDS", "parser"]

_DESCRIPTION = (
    "Documents into a knowledge graph and cited answers, with or without a model, in Chinese, English and Japanese."
)
_FILES = "files, folders or globs: .txt .md .json .jsonl .csv .pdf .docx"

Command = argparse.ArgumentParser


def parser(runs: Mapping[str, Callable[[argparse.Namespace], int]]) -> argparse.ArgumentParser:
    """The parser of all commands.

    Args:
        runs: What carries out each command, by its name; it stands in ``run`` of what was parsed.
    """
    whole = _Parser(prog="rag-transformers", description=_DESCRIPTION)
    whole.add_argument("--version", action="version", version=f"rag-transformers {rag_transformers.__version__}")
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, (said, add_options) in COMMANDS.items():
        command = commands.add_parser(name, help=said)
        add_options(command)
        command.set_defaults(run=runs[name])
        _add_model_options(command, embeds=name != "summarize", asks=name not in _ASKING_NOBODY)
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
    command.add_argument("--mode", choices=("auto", "local", "global"), default="auto", help="how (default auto)")
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
    command.add_argument("sources", nargs="+", metavar="SOURCE", help="as the sources of an answer name them")


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

_ASKING_NOBODY = ("repair", "export", "view", "stats")


def _add_reading_options(command: Command) -> None:
    command.add_argument("--concurrency", type=int, default=16, metavar="N", help="model calls in flight (default 16)")
    command.add_argument(
        "--text-column", metavar="NAME", help="the column or field of the text in .csv, .json and .jsonl"
    )
    command.add_argument("--encoding", metavar="NAME", help="the encoding of the files (default: UTF-8, else detected)")


def _add_model_options(command: argparse.ArgumentParser, embeds: bool = True, asks: bool = True) -> None:
    models = command.add_argument_group(
        "models", "Without --model nothing leaves this machine. The key is OPENAI_API_KEY."
    )
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
    if asks:
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
    """Says what is wrong in one line, and where to read more."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")
