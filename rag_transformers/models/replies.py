"""The truth about a reply: whether what was read of it is all that was asked for, and if not, why not."""

import json
import logging
from typing import Any

from rag_transformers.errors import ReplyError
from rag_transformers.graph import Extraction
from rag_transformers.models.reading import Reply
from rag_transformers.prompts import PromptPack
from rag_transformers.records import Records
from rag_transformers.records.items import CONTAINERS, plain_key
from rag_transformers.records.text import heading_at, is_blank, reply_lines, visible
from rag_transformers.records.words import example_rows, holds_names, is_no_data
from rag_transformers.text import finished

__all__ = ["says_nothing", "unreadable", "whole", "whole_sentences", "without_example"]

_log = logging.getLogger(__name__)

_AROUND = " \t\u3000()（）*-•.。:："  # what may stand round a word such as "none"


def whole(records: Records, reply: Reply, said: str | None = None) -> Extraction:
    """What was read of a reply, if the reply is whole.

    Args:
        records: What was read.
        reply: Of this reply.
        said: The reply's text with the words that the parser knows, where it has others.

    Raises:
        ReplyError: It was cut, a record was dropped, or it holds none and does not say so; with what could be read.

    >>> whole(Records(), Reply("None"))
    Extraction(entities=(), relationships=(), types=(), weights=(), unheld=())
    """
    fault = _fault(records, reply, reply.text if said is None else said)
    if fault:
        raise unreadable(fault, reply, records.extraction())
    return records.extraction()


def whole_sentences(reply: Reply) -> str:
    """The text of a reply in prose; one that was cut off is kept to its last whole sentence, and the log says so.

    Args:
        reply: The reply.

    Raises:
        ReplyError: It was cut off in its first sentence.

    >>> whole_sentences(Reply("Ada left. She went to Le", finish_reason="length"))
    'Ada left.'
    """
    if not reply.cut:
        return reply.text
    if not (kept := finished(reply.text)):
        raise unreadable("it was cut off at the token limit before its first sentence ended", reply)
    _log.warning("a reply was cut off at the token limit: %d of its %d characters are kept", len(kept), len(reply.text))
    return kept


def unreadable(why: str, reply: Reply, extraction: Extraction | None = None) -> ReplyError:
    """The error for a reply that is not what was asked for, with its first words."""
    start = " ".join(reply.text.split())[:80]
    message = f"the reply cannot be used: {why}; it begins {start!r}"
    return ReplyError(message, reply=reply.text, finish_reason=reply.finish_reason, extraction=extraction)


def says_nothing(reply: str) -> bool:
    r"""Whether a reply without records says that there are none: by a word, by empty sections, or by empty lists.

    >>> says_nothing("Entities:\n(none)\n\nRelationships:\n"), says_nothing("无。"), says_nothing("I see no text.")
    (True, True, False)
    >>> says_nothing('{"entities": [], "relationships": []}'), says_nothing("{}")
    (True, False)
    """
    if (data := _json_in(reply)) is not None:
        return _is_empty(data)
    for _, line in reply_lines(visible(reply)):
        heading = heading_at(line, 0)
        said = line[heading.end if heading else 0 :].strip(_AROUND)
        if not (is_blank(said) or ("#" not in said and is_no_data(said))):
            return False
    return True


def without_example(found: Extraction, source: str, pack: PromptPack | None = None) -> Extraction:
    """An extraction without the example of the prompts, where the chunk does not hold its names.

    For replies that our parser, which sees to this itself, did not read, and for prompts that are not our own.

    Args:
        found: What was read.
        source: The chunk's text.
        pack: The prompts; our own by default.
    """
    foreign = {row for row in example_rows(pack) if not holds_names(source, row)}
    entities = [number for number, row in enumerate(found.entities) if row not in foreign]
    edges = [number for number, row in enumerate(found.relationships) if row not in foreign]
    return Extraction(
        [found.entities[number] for number in entities],
        [found.relationships[number] for number in edges],
        [found.types[number] for number in entities] if found.types else (),
        [found.weights[number] for number in edges] if found.weights else (),
        found.unheld,
    )


def _fault(records: Records, reply: Reply, said: str) -> str:
    """What is wrong with a reply, or ""."""
    if reply.cut:
        return "it was cut off at the token limit"
    if records.rejected:
        line, text, reason = records.rejected[0]
        return f"records dropped: {len(records.rejected)}, the first in line {line}: {text[:60]!r} ({reason})"
    if records.status == "empty" and not says_nothing(said):
        return "it holds no records"
    return {"format_error": "its format is not known", "partial": "it ends inside a record"}.get(records.status, "")


def _json_in(reply: str) -> Any:
    """The object or list that a reply holds, with what stands around an object; None if there is none."""
    try:
        data = json.loads(reply[max(reply.find("{"), 0) : reply.rfind("}") + 1 or None])
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict | list) else None


def _is_empty(data: Any) -> bool:
    if isinstance(data, dict):
        return bool(data) and all(plain_key(key) in CONTAINERS and not value for key, value in data.items())
    return not data
