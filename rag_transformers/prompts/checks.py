"""Whether the prompt files of a language fit their stages: their variables, and an example that the parser reads."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Formatter

from rag_transformers.errors import UsageError
from rag_transformers.prompts.words import Words

__all__ = ["VARIABLES", "check_language_files", "check_plain_variables", "fenced"]

_ANSWER = (frozenset(("context", "question")), frozenset[str]())
_TEXT = (frozenset(("text",)), frozenset[str]())
_NONE = (frozenset[str](), frozenset[str]())

VARIABLES: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "answer_local": _ANSWER,
    "answer_map": _ANSWER,
    "answer_reduce": _ANSWER,
    "community_report": (frozenset(("text",)), frozenset(("max_report_words",))),
    "extract_graph": (frozenset(("text",)), frozenset(("history",))),
    "extract_graph_json": (frozenset(("text",)), frozenset(("max_knowledge_triplets",))),
    "glean_records": _NONE,
    "merge_summaries": _TEXT,
    "reask_json": (frozenset(), frozenset(("text",))),
    "reask_records": (frozenset(), frozenset(("text",))),
    "reask_report": _NONE,
    "structured_records": _NONE,
    "summarize_descriptions": (frozenset(("description_list", "entity_name")), frozenset(("max_length",))),
    "summarize_text": _TEXT,
}
"""The variables that the prompt of each stage must have, and those that it may have."""

_FENCED = re.compile(r"(?ms)^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<inside>.*?)^[ \t]*(?P=fence)")


def check_language_files(files: Mapping[str, Path], words: Words) -> None:
    """Make sure that prompts of one's own can be used, before any is.

    Args:
        files: The file of each stage.
        words: The words of their language.

    Raises:
        UsageError: One cannot; the message names the file and what is wrong.
    """
    for stage, path in files.items():
        text = path.read_text(encoding="utf-8-sig")
        _check_variables(path, text, *VARIABLES[stage])
        if check := _EXAMPLES.get(stage):
            check(path, text.replace("{{", "{").replace("}}", "}"), words)


def check_plain_variables(owner: str, template: str) -> None:
    """Make sure that the variables of a template are names alone: a format or conversion may fail when it is filled in.

    Args:
        owner: Whose template it is, for the message.
        template: A text with variables in single braces.

    Raises:
        UsageError: One is not, or the braces cannot be read.

    >>> check_plain_variables("Mine", "Names in {text:>80}")
    Traceback (most recent call last):
    ...
    rag_transformers.errors.UsageError: Mine has {text:>80}; it must be {text}, which keeps a text as it is
    """
    try:
        parsed = [each[1:] for each in Formatter().parse(template) if each[1] is not None]
    except ValueError as error:
        raise UsageError(f"{owner} is no template ({error}); double braces that mark no variable") from error
    for name, form, conversion in parsed:
        if not str(name).isidentifier():
            raise UsageError(f"{owner} has {{{name}}}, which is no variable; double braces that mark none")
        if form or conversion:
            shown = f"{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}"
            raise UsageError(f"{owner} has {{{shown}}}; it must be {{{name}}}, which keeps a text as it is")


def fenced(text: str) -> list[str]:
    r"""What stands in the fences of a text, of backticks or tildes, indented or not.

    >>> fenced("Thus:\n  ~~~text\n(Ada#)\n  ~~~\n")
    ['(Ada#)\n']
    """
    return [found["inside"] for found in _FENCED.finditer(text)]


def _check_variables(path: Path, text: str, required: frozenset[str], optional: frozenset[str]) -> None:
    check_plain_variables(str(path), text)
    found = {name for _, name, _, _ in Formatter().parse(text) if name is not None}
    may = f" and may have {', '.join(sorted(optional))}" if optional else ""
    must = f"must have {', '.join(sorted(required))}" if required else "needs none"
    if missing := sorted(required - found):
        raise UsageError(f"{path} lacks the variable {', '.join(missing)}; it {must}{may}")
    if unknown := sorted(found - required - optional):
        raise UsageError(f"{path} has the unknown variable {', '.join(unknown)}; it {must}{may}")


def _check_records(path: Path, text: str, words: Words) -> None:
    from rag_transformers.records import parse_records
    from rag_transformers.records.foreign import in_known_words

    if (example := _example(text)) is None:
        return
    records = parse_records(in_known_words(example, words))
    if records.rejected:
        line, said, reason = records.rejected[0]
        raise UsageError(f"{path}: line {line} of its example is no record ({reason}): {said[:80]!r}")
    if records.status != "ok" or records.skipped:
        raise UsageError(f"{path}: its example does not parse ({records.status}): {example.strip()[:80]!r}")


def _check_json(path: Path, text: str, words: Words) -> None:
    from rag_transformers.records import parse_json_records

    if (example := _example(text)) is None:
        return
    records = parse_json_records(example)
    if records.status != "ok" or records.skipped or records.rejected:
        raise UsageError(f"{path}: its example does not parse ({records.status}): {example.strip()[:80]!r}")


_EXAMPLES: Mapping[str, Callable[[Path, str, Words], None]] = {
    "extract_graph": _check_records,
    "extract_graph_json": _check_json,
}


def _example(text: str) -> str | None:
    """The answer of a prompt's example: what stands in its last fence; None where it has none."""
    found = fenced(text)
    return found[-1] if found else None
