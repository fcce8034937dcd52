"""Which prompts ask a model about descriptions: their template, the name and the lines in it, and their room."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import UsageError
from rag_transformers.prompts import PromptPack, checked_prompt, template_text
from rag_transformers.summaries.descriptions import Given, as_json
from rag_transformers.summaries.folding import Room, split

if TYPE_CHECKING:
    from langchain_core.prompt_values import PromptValue
    from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

    from rag_transformers.tokens import TokenCounter

__all__ = ["DescriptionPrompt", "DescriptionPrompts"]

_STAGE = "summarize_descriptions"
_LENGTH_KEY = "max_length"  # microsoft/graphrag has it in its prompt


class DescriptionPrompts:
    """The templates, one for each language, and the limit on what is made of them.

    Args:
        keys: The variable for the name, and that for the descriptions.
        own: The user's template; None for those of the project.
        language: ``auto``, or one of those of ``pack``.
        limit: Tokens of a whole prompt.
        length: Tokens of a summary, for a template that says so (``{max_length}``).
        counter: Gives what counts them; called when something must be counted.
        pack: The prompts and languages that there are.
        at_once: Whether it may be called at once, to see whether the templates leave room, even where they surely do.

    Raises:
        UsageError: A template has other variables, or leaves no room.
    """

    def __init__(
        self,
        keys: tuple[str, str],
        own: Any,
        language: str,
        limit: int,
        length: int,
        counter: "Callable[[], TokenCounter]",
        pack: PromptPack,
        at_once: bool,
    ) -> None:
        self._name_key, self._list_key = keys
        self._language = language
        self._pack = pack
        self._counter = counter
        self.limit = limit
        self._length = {_LENGTH_KEY: length}
        chosen = pack.in_use(language)
        given = {name: pack.template(_STAGE, name) if own is None else own for name in chosen}
        self._templates: dict[str, PromptTemplate | ChatPromptTemplate] = {
            name: checked_prompt("summarization_prompt", template, set(keys), {_LENGTH_KEY} - set(keys))
            for name, template in given.items()
        }
        for name in chosen:
            self._check_room(name, at_once)

    def texts(self) -> dict[str, str]:
        """The texts of the templates, for keys."""
        return {language: template_text(template) for language, template in self._templates.items()}

    def about(self, given: Given, names: Sequence[str]) -> "DescriptionPrompt":
        """What asks about one input.

        Args:
            given: The input.
            names: Its name or names, in the order in which they are shown.
        """
        language = self._pack.choose("\n".join(given.texts), self._language)
        return DescriptionPrompt(self, language, self._shown(language, names))

    def formatted(self, language: str, name: str, lines: Sequence[str]) -> "PromptValue":
        """The prompt of a language with a name and descriptions, one on each line."""
        given = self._length | {self._name_key: name, self._list_key: "\n".join(lines)}
        template = self._templates[language]
        return template.format_prompt(**{key: given[key] for key in template.input_variables})

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return self._counter()(text)

    def _check_room(self, language: str, at_once: bool) -> None:
        empty = self.formatted(language, "", ()).to_string()
        # A token has at least one byte, so that mostly nothing needs to be counted, and no tokenizer table be read.
        if at_once or len(empty.encode()) >= self.limit:
            tokens = self.count(empty)
            if tokens >= self.limit:
                raise UsageError(
                    f"max_input_tokens is {self.limit}; it must be above {tokens}, the tokens of summarization_prompt "
                    "without a name and descriptions"
                )

    def _shown(self, language: str, names: Sequence[str]) -> str:
        """The name or names as JSON, each cut where it would take more than its part of a quarter of the room."""
        room = self.limit - self.count(self.formatted(language, "", ()).to_string())
        most = max(1, room // 4 // len(names))
        short = [self._cut(name, most) for name in names]
        return as_json(short if len(short) > 1 else short[0])

    def _cut(self, name: str, most: int) -> str:
        return name if self.count(name) <= most else f"{split(name, most, self.count)[0] or name[:1]}…"


class DescriptionPrompt:
    """How one input is asked about.

    Args:
        prompts: The templates.
        language: Its language.
        name: Its name, or its two names, as the prompt shows them.
    """

    def __init__(self, prompts: DescriptionPrompts, language: str, name: str) -> None:
        self._prompts = prompts
        self._language = language
        self._name = name
        self.room = Room(prompts.limit, self.tokens, prompts.count)

    def with_lines(self, lines: Sequence[str]) -> "PromptValue":
        """The prompt with these descriptions."""
        return self._prompts.formatted(self._language, self._name, lines)

    def tokens(self, lines: Sequence[str]) -> int:
        """The tokens of the whole prompt with these descriptions."""
        return self._prompts.count(self.with_lines(lines).to_string())
