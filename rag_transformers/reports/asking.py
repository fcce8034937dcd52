"""The prompt that asks for a report, what it may hold, and how it is asked for once more."""

from functools import partial
from typing import TYPE_CHECKING, Any

from rag_transformers.errors import UsageError
from rag_transformers.models.conversation import next_turn
from rag_transformers.models.given import model_key
from rag_transformers.models.reading import Reply
from rag_transformers.prompts import PromptPack, checked_prompt, template_text
from rag_transformers.reports.content import Content
from rag_transformers.reports.context import Budget
from rag_transformers.reports.offline import OFFLINE, WORDS, sample
from rag_transformers.stores.keys import text_key
from rag_transformers.summaries.extractive import shortened

if TYPE_CHECKING:
    from langchain_core.prompt_values import PromptValue
    from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

    from rag_transformers.tokens import TokenCounter

__all__ = ["Asking", "templates"]

_LEAST_ROOM = 240
"""Tokens for the records at the least: a hub, an edge, its other end, with every field cut."""
_BACK = 1000
"""Tokens of a bad reply that go back to the model at the most: enough to see what was wrong."""
_SPARE = 32
"""Tokens that joining texts may add."""


class Asking:
    """How a model is asked for a report.

    Args:
        llm: The model; None where none is asked.
        language: ``auto``, or the language of all prompts.
        prompts: The prompt of each language.
        max_input_tokens: The most tokens of a prompt.
        max_report_tokens: How long a report is to be.
        counter: Counts tokens, or None.
        pack: The prompts and words of the languages that there are.
    """

    def __init__(
        self,
        llm: Any,
        language: str,
        prompts: "dict[str, PromptTemplate | ChatPromptTemplate]",
        max_input_tokens: int,
        max_report_tokens: int,
        counter: "TokenCounter | None",
        pack: PromptPack,
    ) -> None:
        self.llm = llm
        self.pack = pack
        self._language = language
        self._prompts = prompts
        self._max_input_tokens = max_input_tokens
        self._max_report_tokens = max_report_tokens
        self._counter = counter
        self._known_sizes: dict[str, tuple[int, int]] = {}

    def language_of(self, content: Content) -> str:
        """The language in which a community is written about."""
        found = self.pack.choose(sample(content), self._language)
        return found if found in self._prompts else next(iter(self._prompts))

    def prompt(self, language: str, text: str) -> "PromptValue":
        """The prompt that shows a text."""
        prompt, words = (
            self._prompts[language],
            int(self._max_report_tokens * self.pack.words(language).words_per_token),
        )
        given = {"text": text, "max_report_words": max(1, words)}
        return prompt.format_prompt(**{name: given[name] for name in prompt.input_variables})

    def budget(self, language: str) -> Budget:
        """What a prompt may hold, with room left for asking once more."""
        empty, reserve = self._sizes(language)
        limit = self._max_input_tokens - reserve
        return Budget(limit, limit - empty, partial(self._size, language), self.count)

    def again(self, prompt: "PromptValue", reply: Reply, language: str) -> "PromptValue":
        """The conversation with the beginning of a bad reply, as much of it as there is room for."""
        note = self.pack.template("reask_report", language).format()
        bare = next_turn(prompt, "…", note)
        left = min(_BACK, self._max_input_tokens - self.count(bare.to_string()))
        said = shortened(reply.text[: 8 * _BACK], left, self.count) if left > 0 else "…"
        whole = next_turn(prompt, said, note)
        return whole if self.count(whole.to_string()) <= self._max_input_tokens else bare

    def key_parts(self, language: str) -> tuple[str, ...]:
        """What a report depends on beside what is shown."""
        prompt, asked = self._prompts[language], str(self._max_report_tokens)
        sized = ("words_per_token",) if "max_report_words" in prompt.input_variables else ()
        own = filter(None, [self.pack.key_of(*sized, languages=[language])])
        return template_text(prompt), language, model_key(self.llm), asked, *own

    def maker_key(self) -> str:
        """The hash of what makes reports, whatever they are made from."""
        own = [*filter(None, [self.pack.fixed, self.pack.key_of(*WORDS, languages=self._prompts)])]
        if self.llm is None:
            return text_key(OFFLINE, self._language, *own)
        return text_key(self._language, *(part for each in self._prompts for part in self.key_parts(each)), *own)

    def check_room(self) -> None:
        """Make sure that the budget has room for the prompt.

        Raises:
            UsageError: It has not.
        """
        if self.llm is None:
            return
        least = max(sum(self._sizes(each)) for each in self._prompts)
        if self._max_input_tokens < least + _LEAST_ROOM:
            raise UsageError(
                f"max_input_tokens is {self._max_input_tokens}; the prompt takes {least} and its records need "
                f"{_LEAST_ROOM}, so it must be at least {least + _LEAST_ROOM}"
            )

    def _sizes(self, language: str) -> tuple[int, int]:
        """Tokens of the prompt that shows nothing, and those kept for asking once more."""
        if language not in self._known_sizes:
            from langchain_core.prompt_values import StringPromptValue

            note = self.pack.template("reask_report", language).format()
            turn = next_turn(StringPromptValue(text=""), "…", note).to_string()
            empty = self._size(language, "")
            self._known_sizes[language] = empty, _SPARE + self.count(turn)
        return self._known_sizes[language]

    def _size(self, language: str, text: str) -> int:
        return self.count(self.prompt(language, text).to_string())

    def count(self, text: str) -> int:
        """The tokens of a text."""
        if self._counter is None:
            from rag_transformers.tokens import token_counter

            self._counter = token_counter(self.llm)
        return self._counter(text)


def templates(
    owner: str, language: str, prompt: Any, pack: PromptPack
) -> "dict[str, PromptTemplate | ChatPromptTemplate]":
    """The prompt of each language, a user's own in place of all.

    Raises:
        UsageError: It is no template, or has other variables.
    """
    chosen = pack.in_use(language)
    if prompt is not None:
        return dict.fromkeys(chosen, checked_prompt(owner, prompt, {"text"}, {"max_report_words"}))
    return {each: pack.template("community_report", each) for each in chosen}
