"""What a model returned: its text without reasoning, why it stopped, what it cost; or that it refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_transformers.errors import ReplyError
from rag_transformers.models.run import Usage
from rag_transformers.records import without_reasoning

__all__ = [
    "Reply",
    "read_message",
    "text_of",
    "usage_of",
]

# Why a model stopped, in the words of the providers, in lower case.
_CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
_FILTERED = {"content_filter", "content_filtered", "safety", "sensitive", "blocklist", "prohibited_content", "spii"}
_FILTERED |= {"guardrail_intervened"}


@dataclass(frozen=True)
class Reply:
    """What a model answered: its text without reasoning, why it stopped, and what it cost.

    >>> Reply("Entities:", finish_reason="length").cut
    True
    """

    text: str
    finish_reason: str | None = None
    usage: Usage = field(default=Usage(1))

    @property
    def cut(self) -> bool:
        """Whether the reply was cut off at the token limit."""
        return self.finish_reason == "length"


def read_message(message: Any) -> Reply:
    """Read what a chat model, or any Runnable in its place, returned.

    Args:
        message: A LangChain message, or a plain text.

    Raises:
        ReplyError: A refusal, a content filter, or no text in it.

    >>> read_message("<think>Hm.</think>Ada founded it.").text
    'Ada founded it.'
    """
    if isinstance(message, str):
        return _checked(message, None, Usage(1))
    if not hasattr(message, "content"):
        raise ReplyError(f"the model returned {type(message).__name__}; it must return a message or a text")
    raw, reason = _text_blocks(message.content), _finish_reason(getattr(message, "response_metadata", None) or {})
    if reason == "content_filter":
        raise ReplyError("the provider's content filter stopped the reply", reply=raw, finish_reason=reason)
    if refusal := _refusal(message, raw, reason):
        raise ReplyError(f"the model refused: {refusal[:200]}", reply=refusal, finish_reason=reason)
    return _checked(raw, reason, usage_of(message))


def text_of(message: Any) -> str:
    """The text of a message, or of a piece of one, as it came."""
    return message if isinstance(message, str) else _text_blocks(getattr(message, "content", ""))


def usage_of(message: Any) -> Usage:
    """What one call cost, as its message says."""
    counted = getattr(message, "usage_metadata", None) or {}
    return Usage(1, counted.get("input_tokens") or 0, counted.get("output_tokens") or 0)


def _checked(raw: str, reason: str | None, usage: Usage) -> Reply:
    text = without_reasoning(raw).strip()
    if not text:
        what = "the reply holds reasoning only" if raw.strip() else "the reply is empty"
        raise ReplyError(f"{what} (finish_reason {reason!r})", reply=raw, finish_reason=reason)
    return Reply(text, reason, usage)


def _text_blocks(content: Any) -> str:
    if not isinstance(content, Sequence) or isinstance(content, str):
        return content if isinstance(content, str) else ""
    texts = [block if isinstance(block, str) else block.get("text") for block in content if _is_text(block)]
    return "".join(text for text in texts if isinstance(text, str))


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or (isinstance(block, Mapping) and block.get("type") in ("text", "output_text"))


def _refusal(message: Any, raw: str, reason: str | None) -> str:
    """How the model refused: told beside the content, in a block of it, or as why it stopped; "" if it did not."""
    extra = getattr(message, "additional_kwargs", None) or {}
    blocks = message.content if isinstance(message.content, list) else []
    told = [extra.get("refusal"), *(block.get("refusal") for block in blocks if isinstance(block, Mapping))]
    found = next((str(text) for text in told if text), "")
    return found or (raw.strip() or "it gave no reason" if reason == "refusal" else "")


def _finish_reason(details: Mapping[str, Any]) -> str | None:
    incomplete = details.get("incomplete_details") or {}
    named = (details.get(name) for name in ("finish_reason", "stop_reason", "done_reason", "stopReason"))
    reason = next((str(reason) for reason in (incomplete.get("reason"), *named) if reason), None)
    known = reason.lower() if reason else ""
    return "length" if known in _CUT else "content_filter" if known in _FILTERED else reason
