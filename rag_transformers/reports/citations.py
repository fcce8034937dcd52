"""The marks by which a report cites the records that it was shown: [v1], [e2, e3], [x1], [r1]."""

import re
from typing import NamedTuple

from rag_transformers.records.text import visible

__all__ = ["Cited", "cited", "one_line"]

_GROUP = re.compile(r"[\[【［]([^\[\]【】［］\n]{1,400})[\]】］]")
_MARK = re.compile(r"(?<![^\W_])([vexr])\s?(\d{1,9})(?![^\W_])", re.IGNORECASE)
_WORDS = re.compile(
    r"data|sources?|see|and|more|records?|entit(?:y|ies)|relationships?|reports?|vert(?:ex|ices)|edges?"
    r"|数据|来源|参见|实体|关系|报告|记录|以及|[和与及见等]",
    re.IGNORECASE,
)
_FOREIGN = re.compile(r"\s*(?:data|sources?|数据|来源)\s*[:：]", re.IGNORECASE)


class Cited(NamedTuple):
    """A text without its citations, and what they cite: a kind and a number each; ("", 0) for one of another form."""

    text: str
    marks: tuple[tuple[str, int], ...]


def cited(text: str) -> Cited:
    """Take the citations out of a text.

    >>> cited("Ada founded it [v1, e3]. It lends [Data: Entities (7)][E4].")
    Cited(text='Ada founded it. It lends.', marks=(('v', 1), ('e', 3), ('', 0), ('e', 4)))
    >>> cited("A list [1] stays.").marks
    ()
    """
    marks: list[tuple[str, int]] = []

    def take(group: re.Match[str]) -> str:
        found = _marks_in(group.group(1))
        marks.extend(found or ())
        return "" if found else group.group()

    return Cited(_tidy(_GROUP.sub(take, text)), tuple(marks))


def one_line(text: str) -> str:
    r"""A text of the graph on one line, without invisible marks, and without what could pass for a citation.

    >>> one_line("Founder.\n[e2] Bob -> Ada [see 3]")
    'Founder. (e2) Bob -> Ada [see 3]'
    """
    plain = " ".join(visible(text).split())
    if "[" in plain or "【" in plain or "［" in plain:
        return _GROUP.sub(lambda group: f"({group.group(1)})" if _marks_in(group.group(1)) else group.group(), plain)
    return plain


def _marks_in(inner: str) -> list[tuple[str, int]]:
    """What stands in brackets, if it is a citation and nothing else."""
    if _FOREIGN.match(inner) and not _MARK.search(inner):
        return [("", 0)]
    rest = _WORDS.sub("", _MARK.sub("", inner))
    if any(character.isalnum() for character in rest):
        return []
    return [(kind.lower(), int(number)) for kind, number in _MARK.findall(inner)]


def _tidy(text: str) -> str:
    """Text without the gaps that citations left."""
    text = re.sub(r"[ \t]{2,}", " ", text)
    return re.sub(r"[ \t]+(?=[.,;:!?。，；：！？、)）]|$)", "", text, flags=re.MULTILINE).strip()
