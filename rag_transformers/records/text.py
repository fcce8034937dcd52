"""The text of a reply before it is read: reasoning, invisible marks, lines, headings and single fields."""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal, NamedTuple

__all__ = [
    "CLOSE",
    "OPEN",
    "TAG",
    "Heading",
    "Section",
    "clean_field",
    "heading_at",
    "is_blank",
    "reply_lines",
    "settled",
    "visible",
    "without_reasoning",
]

Section = Literal["entities", "relationships"]

OPEN, CLOSE = "(（", ")）"

# ── Reasoning ────────────────────────────────────────────────────────────────────────────────────────────────────────

_WORDS = r"think|thinking|thoughts?|reason|reasoning|reflection|analysis|scratchpad|antthinking|思考|思考过程|推理"
_TAG = re.compile(
    rf"<\s{{0,3}}(?P<shut>/?)\s{{0,3}}(?:\w{{1,20}}:)?(?:{_WORDS})(?:\s[^<>\n]{{0,80}})?/?>"
    r"|\[(?P<shut2>/?)THINK\]"
    r"|◁(?P<shut3>/?)think▷"
    r"|<\|(?:(?:begin|start)_of_thought|START_THINKING|channel\|>\s{0,3}(?:analysis|commentary)[^<>\n]{0,80}<\|message)\|>"
    r"|(?P<shut4><\|(?:end_of_thought|END_THINKING|channel\|>\s{0,3}final[^<>\n]{0,80}<\|message)\|>)",
    re.IGNORECASE,
)
_LONGEST_TAG = 240
_UNFINISHED = re.compile(  # what may become a tag when more of the text comes
    r"(?:<[\s/]{0,7}(?:[^\W\d][^<>\n]{0,110}|\|[^<>\n]{0,40}(?:>[^<>\n]{0,90}(?:<[^<>\n]{0,10})?)?)?|\[/?T?H?I?N?K?|◁/?\w{0,5})\Z",
    re.IGNORECASE,
)
_NEAR = 300
"""How far from a tag the bracket may stand in which it is a mention and no tag."""


def without_reasoning(text: str, *, keep_lines: bool = False) -> str:
    r"""A reply without its reasoning blocks, complete or not.

    A block that is never closed goes to the end of the text; one whose opening tag is missing (servers that put the
    tag into the prompt) starts with the text. A tag in code marks, or in a bracket on its own line, is spoken of
    and stays. A text without reasoning is returned as it is.

    Args:
        text: The reply of a model.
        keep_lines: Leave the line feeds of each block, and those around it, so that lines keep their numbers.

    >>> without_reasoning("<think>Who is he?</think>\n\nAda Moss is a founder.")
    'Ada Moss is a founder.'
    >>> without_reasoning("So I answer:</think>Yes."), without_reasoning("Yes. <think>Or")
    ('Yes.', 'Yes.')
    """
    spans = _reasoning(text)
    if not spans:
        return text
    breaks = ["\n" * text.count("\n", start, end) if keep_lines else "" for start, end in spans]
    kept = "".join(piece + gap for piece, gap in zip(_kept(text, spans), [*breaks, ""], strict=True))
    return kept if keep_lines else kept.strip()


def settled(text: str) -> int:
    """How many characters of a reply that is still being written can be read: up to a block of reasoning still open.

    What may become the tag of one does not count either.

    Args:
        text: The reply as far as it has come.

    >>> settled("Yes, he did. <thi"), settled("Yes. <think>Or"), settled("<think>Or</think>No.")
    (13, 5, 20)
    """
    opened = -1
    for tag in _TAG.finditer(text):
        if any(tag.group(name) for name in ("shut", "shut2", "shut3", "shut4")):
            opened = -1
        elif opened < 0:
            before = text[max(0, tag.start() - _NEAR) : tag.start()].rpartition("\n")[2]
            after = text[tag.end() : tag.end() + _NEAR].partition("\n")[0]
            opened = -1 if _is_mention(before, after) else tag.start()
    if opened >= 0:
        return opened
    unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_TAG))
    return unfinished.start() if unfinished else len(text)


def _reasoning(text: str) -> list[tuple[int, int]]:
    """The (start, end) of each block of reasoning."""
    spans: list[tuple[int, int]] = []
    if not any(mark in text for mark in "<[◁"):
        return spans
    opened = begun = -1  # the first tag since the last block, and the first that starts a line or a sentence
    for tag in _TAG.finditer(text):
        before = text[max(0, tag.start() - _NEAR) : tag.start()].rpartition("\n")[2]
        if _is_mention(before, text[tag.end() : tag.end() + _NEAR].partition("\n")[0]):
            continue
        if not any(tag.group(name) for name in ("shut", "shut2", "shut3", "shut4")):
            opened = opened if opened >= 0 else tag.start()
            in_sentence = before[-1:] == " " and before.rstrip()[-1:].isalnum()
            begun = begun if begun >= 0 or in_sentence else tag.start()
            continue
        if opened < 0:
            spans.clear()
        spans.append((max(0, opened), tag.end()))
        opened = begun = -1
    if begun >= 0:  # never closed; in "it writes <think> tags" there is no block
        spans.append((begun, len(text)))
    return spans


def _is_mention(before: str, after: str) -> bool:
    """Whether a tag between these is spoken of: it stands in code marks, or in a bracket that closes on its line."""
    if before.endswith("`") and after.startswith("`"):
        return True
    bracket = _BRACKET.search(after)
    open_before = sum(before.count(mark) for mark in OPEN) > sum(before.count(mark) for mark in CLOSE)
    return open_before and bracket is not None and bracket.group() in CLOSE


_BRACKET = re.compile(rf"[{OPEN}{CLOSE}]")


def _kept(text: str, spans: list[tuple[int, int]]) -> Iterator[str]:
    end = 0
    for start, stop in spans:
        yield text[end:start]
        end = stop
    yield text[end:]


# ── Marks that cannot be seen ────────────────────────────────────────────────────────────────────────────────────────

# Controls but the line feed, format characters but the joiners (U+200C, U+200D) and the visible Arabic signs, lone
# surrogates, and code points that are no characters: none of them may reach a name, a file or a database.
_INVISIBLE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]+"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    r"""A text without control characters and invisible marks, a line feed at the end of each line.

    Tabs become spaces, joiners stay, and the result can be encoded as UTF-8.

    >>> visible("\ufeffGal\x00a\tTo\u200bwer\r\n\ud800")
    'Gala Tower\n'
    """
    if text.isascii() and text.isprintable():
        return text
    if _SURROGATE.search(text):  # two halves that belong together are one character
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    if "\r" in text:
        text = text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")
    text = text.replace("\t", " ").replace("\u2028", "\n").replace("\u2029", "\n")
    return _INVISIBLE.sub("", text)


# ── Lines ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_FENCE = re.compile(r"[\s>*+-]*+(?:`{3,}|~{3,})[ \t]*+(?:(?:text|txt|plain|plaintext|markdown|md|json)\b)?")
_INFO_STRING = re.compile(r"\s*[\w.+#-]*\s*$")
# A model that loops can write megabytes of brackets and separators; no record is in a run as long as this.
_SOUP = re.compile(r"[\W_]{2000,}+")
_BLANK = re.compile(r"(?:[^\w()（）]|_)*+$")


def reply_lines(text: str) -> list[tuple[int, str]]:
    r"""The lines of a reply with their numbers, from 1, without reasoning, fences and blank lines at the end.

    >>> reply_lines("Sure!\n```text\nEntities:\n```\n\n")
    [(1, 'Sure!'), (3, 'Entities:')]
    """
    text = _SOUP.sub(_thinned, without_reasoning(text, keep_lines=True))
    lines = list(enumerate(text.rstrip().split("\n"), 1))
    if "```" in text or "~~~" in text:
        found = [(number, _unfenced(line)) for number, line in lines]
        lines = [(number, line) for number, line in found if line is not None]
    while lines and not lines[-1][1].strip():
        lines.pop()
    return lines


def _thinned(soup: re.Match[str]) -> str:
    """A run of marks without a word, thinned to the one empty record that it comes to, and its line feeds."""
    marks, breaks = soup.group(), "\n" * soup.group().count("\n")
    if not any(mark in marks for mark in OPEN + CLOSE):
        return marks
    return f"\n(){breaks}" if any(mark in marks for mark in OPEN) else f" {breaks}"


def _unfenced(line: str) -> str | None:
    """What stands on a line behind its fence; None for a fence alone, with or without the name of a language."""
    fence = _FENCE.match(line)
    if fence is None:
        return line
    rest = line[fence.end() :]
    return None if _INFO_STRING.match(rest) and heading_at(rest, 0) is None else rest


def is_blank(line: str) -> bool:
    """Whether a line holds neither a word nor a bracket: an empty one, a rule, an ellipsis.

    >>> is_blank(" --- "), is_blank(")")
    (True, False)
    """
    return _BLANK.match(line) is not None


# ── Headings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

TAG = r"</?(?!(?i:entit|relation|nodes|edges|triples))[A-Za-z]\w{0,12}>"
"""A tag of HTML or of a prompt that asked for one, which is decoration, too; one that is named as a heading is one."""
_DECOR = rf"(?:{TAG}|[^\w()（）:：]|_)*+"
_NUMERAL = r"(?:\d{1,3}|[ivx]{1,4}|[a-z]|[一二三四五六七八九十]{1,3})"
_LABEL = (
    rf"(?:(?:part|section|step|第)?\s?{_NUMERAL}\s?(?:部分|步|节)?\s?[.)）:：、．\]–—-]"
    rf"|[(（]{_NUMERAL}[)）]|[①-⒛])?{_DECOR}"
)
# Words before the heading: with those of a sentence it counts only where a colon follows.
_SAID = (
    r"(?P<said>(?:(?:here|these|below|following|are|is|and|now|then|the|i|found|in|this|text|my|output|answer"
    r"|results?|next|first|second|also)\s++|以下|下面|如下|这些|这是|为|是|文中的?|文本中的?)*+)"
)
_KIND = (
    r"(?:(?:lists?\s+of|the|all|key|main|final|named|extracted|identified|important)\s++"
    r"|命名|抽取|提取|识别|得到|主要|全部|所有|最终|出|到|的)*+"
)
_ENTITIES = r"(?:entity|entities|nodes?|vertices|实体|實體|节点|節點)"
_RELATIONSHIPS = (
    r"(?:(?:entity[\s_-]{1,3}|(?:实体|實體)(?:之?[间間])?[的之]?)?(?:relationships?|relations?|关系|關係|联系)"
    r"|edges?|triples|triplets|三元组|关联)"
)
_OF_IT = (
    r"(?:[\s_-]{1,3}(?:lists?|records?|extracted|found|identified|sections?|set|tables?)\b"
    r"|列表|清单|信息|集合|记录|部分|三元组|抽取|提取|结果|如下|所示|为|是)*+"
    r"(?P<so>(?:\s++(?:are|is|as|follows?|below|here|in|from|of|the|this|text|i|found|(?:between|among)\s++(?:the\s++)?"
    r"entities))*+)"
)
_REMARK = r"(?:\s*+[(（\[【][^()（）#＃\[\]【】]{0,40}+[)）\]】])?"
_NAMED = re.compile(
    rf"{_DECOR}{_LABEL}{_SAID}{_KIND}(?P<bracket>[(（])?"
    rf"(?:(?P<relationships>{_RELATIONSHIPS}(?:{_DECOR}{_RELATIONSHIPS})?)"
    rf"|(?P<entities>{_ENTITIES}(?:{_DECOR}{_ENTITIES})?)){_OF_IT}"
    rf"(?:\s?\d{{1,3}})?(?(bracket)[)）]){_REMARK}{_DECOR}(?:(?P<colon>[:：])|$|(?=[(（]))",
    re.IGNORECASE,
)


class Heading(NamedTuple):
    """A heading: which records stand under it, and where on its line it ends."""

    section: Section
    end: int


def heading_at(line: str, start: int) -> Heading | None:
    """The heading that stands at this place of a line, in English or Chinese, with any decoration.

    >>> heading_at("### 1. **Entities**:", 0)
    Heading(section='entities', end=20)
    >>> heading_at("实体关系：", 0).section, heading_at("Entities and relationships:", 0)
    ('relationships', None)
    """
    found = _NAMED.match(line, start)
    if found is None or (not found["colon"] and (found["so"] or found["said"].strip().lower() not in ("", "the"))):
        return None
    return Heading("entities" if found["entities"] else "relationships", found.end())


# ── Fields ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_PAIRS = {'"': '"', "'": "'", "“": "”", "‘": "’", "*": "*", "_": "_", "`": "`"}
_RUN = re.compile(r"\*{1,3}|_{1,3}|`{1,3}|.", re.DOTALL)
_PAUSE = " ,.;:!?，。；：！？、"


def clean_field(field: str) -> str:
    """A field trimmed, without the one pair of quotes, emphasis or code marks that stands round the whole of it.

    >>> clean_field(' **Harrow Bridge** '), clean_field('The "Gold Spoon" Prize'), clean_field("《红楼梦》")
    ('Harrow Bridge', 'The "Gold Spoon" Prize', '《红楼梦》')
    """
    field = field.strip()
    if field[:1] not in _PAIRS or len(field) < 2 or field[-1] != _PAIRS[field[0]]:
        return field
    mark = _RUN.match(field)
    width = len(mark.group()) if mark else 1
    if len(field) < 2 * width or field[-width:] != _PAIRS[field[0]] * width:
        return field
    inner = field[width:-width]
    return inner.strip() if _is_one_pair(field[0] * width, inner) else field


def _is_one_pair(mark: str, inner: str) -> bool:
    """Whether the marks at both ends belong together, as in “a”, and not to two pairs, as in “a” and “b”."""
    if mark in "\"'":
        # Two pairs: the first one inside shuts, and the last one opens.
        first, last = inner.find(mark), inner.rfind(mark)
        shuts = first > 0 and inner[first - 1] != " " and inner[first + 1 : first + 2] in _PAUSE
        return not (shuts and first < last and inner[last - 1] in _PAUSE + OPEN)
    if mark == "‘":  # whose partner is an apostrophe, too
        return not 0 <= inner.find("’") < inner.rfind("‘")
    if mark != "“":
        return mark not in inner
    depths = accumulate((character == "“") - (character == "”") for character in inner)
    return min(depths, default=0) >= 0
