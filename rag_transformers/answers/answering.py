"""The last question to a model, whose reply is the answer: asked at once or streamed, awaited or not.

answer, aanswer                  the answer
stream_answer, astream_answer    its text piece by piece, then the answer
local_asking                     the question about the best chunks, and what of the graph goes with them
"""

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig

from rag_transformers.answers.citations import check_citations, settled_citations
from rag_transformers.answers.contexts import ChunkLookup, Context
from rag_transformers.answers.querying import Answer, answer_prompt_inputs, no_data_answer, read_answer
from rag_transformers.answers.voice import Voice
from rag_transformers.models.calls import acall, astream, call, stream
from rag_transformers.models.reading import Reply
from rag_transformers.models.run import Usage, current_run
from rag_transformers.models.streaming import VisibleText

if TYPE_CHECKING:
    from langchain_core.prompt_values import PromptValue

__all__ = ["Asking", "aanswer", "answer", "astream_answer", "local_asking", "stream_answer"]


@dataclass(frozen=True)
class Asking:
    """The last question to a model for an answer, and what is needed to read the reply.

    Args:
        question: What the user asked.
        prompt: What the model is asked.
        context: The numbered passages in the prompt.
        mode: ``local`` or ``global``.
        lookup: Finds the chunks that passages were made of, for citations.
        usage: What calls before this one cost.
        voice: The languages that there are.
    """

    question: str
    prompt: "PromptValue"
    context: Context
    mode: str = "local"
    lookup: ChunkLookup | None = field(default=None, repr=False)
    usage: Usage = field(default=Usage())
    voice: Voice = field(default_factory=Voice)

    def read(self, reply: Reply) -> Answer:
        """The answer that a reply gives; it costs what the whole run did, where there is one."""
        if reply.cut:
            warnings.warn("the answer was cut off at the model's token limit", stacklevel=2)
        run = current_run()
        usage = run.usage if run else self.usage + reply.usage
        return read_answer(
            self.question,
            reply.text,
            self.context,
            usage=usage,
            mode=self.mode,
            lookup=self.lookup,
            voice=self.voice,
        )

    def visible(self) -> VisibleText:
        """What of the answer's text can be shown while it comes: whole citations, of passages that there are."""
        passages = len(self.context.passages)
        return VisibleText(settled_citations, lambda text: check_citations(text, passages).text)


def local_asking(
    question: str, context: Context, *, voice: Voice | None = None, lookup: ChunkLookup | None = None
) -> Asking | Answer:
    """The question to a model about numbered passages; without any passage the answer that there is nothing.

    Args:
        question: The question.
        context: The passages.
        voice: In which language is asked; by default in that of the question.
        lookup: Finds the chunks that passages were made of.
    """
    voice = voice or Voice()
    if not context.passages:
        return no_data_answer(question, voice=voice)
    prompt = voice.prompt("answer_local", question).invoke(answer_prompt_inputs(question, context))
    return Asking(question, prompt, context, lookup=lookup, voice=voice)


def answer(llm: Runnable[Any, Any], asking: Asking | Answer, config: RunnableConfig | None = None) -> Answer:
    """Ask the last question, and read the reply; what is an answer already needs no call.

    Args:
        llm: The model.
        asking: What to ask.
        config: The caller's config.

    Raises:
        ModelError: The model failed.
    """
    return asking if isinstance(asking, Answer) else asking.read(call(llm, asking.prompt, config))


async def aanswer(llm: Runnable[Any, Any], asking: Asking | Answer, config: RunnableConfig | None = None) -> Answer:
    """Ask the last question, and read the reply; see :func:`answer`."""
    if isinstance(asking, Answer):
        return asking
    return await asyncio.to_thread(asking.read, await acall(llm, asking.prompt, config))


def stream_answer(
    llm: Runnable[Any, Any], asking: Asking | Answer, config: RunnableConfig | None = None
) -> Iterator[str | Answer]:
    """The text of an answer piece by piece as the model gives it, without reasoning; the last item is the answer.

    The pieces are the answer's text, as long as the model closes its brackets and marks its reasoning at both ends.

    Args:
        llm: The model.
        asking: What to ask; of what is an answer already the text is the one piece.
        config: The caller's config.

    Raises:
        ModelError: The model failed; pieces may have come before.
    """
    if isinstance(asking, Answer):
        yield from (asking.text, asking)
        return
    visible = asking.visible()
    for item in stream(llm, asking.prompt, config):
        if isinstance(item, str):
            if piece := visible.add(item):
                yield piece
        else:
            found = asking.read(item)
            yield from _ended(visible, found)


async def astream_answer(
    llm: Runnable[Any, Any], asking: Asking | Answer, config: RunnableConfig | None = None
) -> AsyncIterator[str | Answer]:
    """The text of an answer piece by piece; see :func:`stream_answer`."""
    if isinstance(asking, Answer):
        yield asking.text
        yield asking
        return
    visible = asking.visible()
    async for item in astream(llm, asking.prompt, config):
        if isinstance(item, str):
            if piece := visible.add(item):
                yield piece
        else:
            found = await asyncio.to_thread(asking.read, item)
            for last in _ended(visible, found):
                yield last


def _ended(visible: VisibleText, found: Answer) -> Iterator[str | Answer]:
    if rest := visible.end(found.text):
        yield rest
    yield found
