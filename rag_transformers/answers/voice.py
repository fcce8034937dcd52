"""In which language a question is asked of a model, and answered without one."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rag_transformers.prompts import PromptPack, Words, built_in

if TYPE_CHECKING:
    from langchain_core.prompts import PromptTemplate

__all__ = ["Voice"]


@dataclass(frozen=True)
class Voice:
    """The language of prompts and answers.

    Args:
        language: ``auto``, or the language of all prompts.
        pack: The prompts and words of the languages that there are.

    >>> Voice().words("谁建了这座桥？").sources
    '来源：'
    """

    language: str = "auto"
    pack: PromptPack = field(default_factory=built_in)

    def of(self, question: str) -> str:
        """The language of what is said on a question without a model: its own, where a script tells it."""
        return self.pack.answers_in(question, self.language)

    def words(self, question: str) -> Words:
        """The words of that language."""
        return self.pack.words(self.of(question))

    def prompt(self, stage: str, question: str) -> "PromptTemplate":
        """The prompt of a stage: in the language that is set, or with ``auto`` in that of the question."""
        return self.pack.template(stage, self.pack.choose(question, self.language))
