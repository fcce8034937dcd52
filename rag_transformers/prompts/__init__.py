"""The prompts: text files, one a stage, in a folder a language, with the same file names in each.

To change one prompt, pass your own template to its stage; to change several, or to add a language, give a folder of
your own as ``prompts``. A folder here is a built-in language.

    words.py     what is bound to a language beside its prompts: words.toml
    checks.py    whether files of one's own fit their stages
    pack.py      the prompts and words of some languages: PromptPack
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import UsageError
from rag_transformers.prompts.checks import check_plain_variables
from rag_transformers.prompts.pack import PromptPack, as_pack, built_in
from rag_transformers.prompts.words import Words

if TYPE_CHECKING:
    from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

__all__ = [
    "PromptPack",
    "Words",
    "as_pack",
    "built_in",
    "checked_prompt",
    "languages",
    "load_prompt",
    "prompt_text",
    "template_text",
]


def languages(prompts: PromptPack | str | Path | None = None) -> tuple[str, ...]:
    """The languages that have prompts, in the order of their names.

    Args:
        prompts: A folder of your own, or its pack; by default the built-in languages.

    >>> languages()
    ('en', 'ja', 'zh')
    """
    return as_pack(prompts).languages


def prompt_text(stage: str, language: str, prompts: PromptPack | str | Path | None = None) -> str:
    """The text of a prompt, with its variables in braces.

    Args:
        stage: The stage's name, which is the file's: ``extract_graph``.
        language: One of :func:`languages`.
        prompts: As for :func:`languages`.

    Raises:
        UsageError: There is no such prompt; the message lists what there is.

    >>> "{text}" in prompt_text("extract_graph", "zh")
    True
    """
    return as_pack(prompts).text(stage, language)


def load_prompt(stage: str, language: str, prompts: PromptPack | str | Path | None = None) -> "PromptTemplate":
    """The prompt of a stage as a LangChain template.

    Args:
        stage: The stage's name, which is the file's: ``extract_graph``.
        language: One of :func:`languages`.
        prompts: As for :func:`languages`.

    Raises:
        UsageError: There is no such prompt; the message lists what there is.

    >>> sorted(load_prompt("extract_graph", "en").input_variables)
    ['history', 'text']
    """
    return as_pack(prompts).template(stage, language)


def checked_prompt(
    owner: str, prompt: Any, required: Collection[str], optional: Collection[str] = ()
) -> "PromptTemplate | ChatPromptTemplate":
    """A user's own prompt as a template, its variables checked before it is used.

    Args:
        owner: The class that takes it, for the message.
        prompt: A text with variables in single braces, a PromptTemplate or a ChatPromptTemplate.
        required: The variables that it must have.
        optional: Those that it may have.

    Raises:
        UsageError: It is none of these, or has other variables, or one with a format (``{text:>80}``); the message
            names them.

    >>> checked_prompt("GraphExtractor", "List the names in {text}", {"text"}, {"history"}).input_variables
    ['text']
    """
    from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

    if isinstance(prompt, str):
        try:
            prompt = PromptTemplate.from_template(prompt)
        except ValueError as error:
            raise UsageError(
                f"{owner}: prompt is no template ({error}); double braces that mark no variable"
            ) from error
    if not isinstance(prompt, PromptTemplate | ChatPromptTemplate):
        kind = type(prompt).__name__
        raise UsageError(f"{owner}: prompt is {kind}; give a text, a PromptTemplate or a ChatPromptTemplate")
    for text in _plain_templates(prompt):
        check_plain_variables(f"{owner}: prompt", text)
    found = set(prompt.input_variables)
    if set(required) <= found <= {*required, *optional}:
        return prompt
    may = f" and may have {', '.join(sorted(optional))}" if optional else ""
    raise UsageError(
        f"{owner}: prompt has the variables {', '.join(sorted(found)) or 'none'}; "
        f"it must have {', '.join(sorted(required))}{may}, and no others"
    )


def _plain_templates(prompt: Any) -> Iterator[str]:
    """The texts with variables in braces that a template is made of."""
    if getattr(prompt, "template_format", None) == "f-string" and isinstance(getattr(prompt, "template", None), str):
        yield prompt.template
    inner = getattr(prompt, "messages", None) or getattr(prompt, "prompt", None) or ()
    for part in inner if isinstance(inner, list) else (inner,):
        yield from _plain_templates(part) if part else ()


def template_text(prompt: "PromptTemplate | ChatPromptTemplate") -> str:
    """The text of a template, with its roles where it has some; for the keys of what was made with it.

    >>> template_text(load_prompt("answer_local", "en")) == prompt_text("answer_local", "en")
    True
    """
    own = getattr(prompt, "template", None)
    text = own if isinstance(own, str) else prompt.pretty_repr()
    fixed = sorted((name, value) for name, value in prompt.partial_variables.items() if isinstance(value, str))
    return f"{text}\n{fixed}" if fixed else text
