"""Names and texts as words, so that a name is found in a text whatever its case, width, points or hyphens."""

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

from rag_transformers.text import HAN

__all__ = ["is_short", "joined", "mention_key", "parts", "title_key", "words"]

_CJK = f"{HAN}\u3040-\u30ff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+(?:'[^\W_{_CJK}]+)*[#+]*")
_CJK_WORD = re.compile(f"[{_CJK}]")
_APOSTROPHES = str.maketrans("‘’ʼ＇`´", "'" * 6)
_POINT = re.compile(r"(?<=\b[^\W\d_])\.")
_BRACKET = re.compile(r"(?<=\S)\s*[(（][^()（）]*[)）]\s*$")


def words(text: str) -> list[str]:
    """The words of a text: width and case folded, the points of abbreviations and possessives dropped.

    Each Han character (and kana, and hangul) is a word.

    >>> words("Mr. Moss's mill, U.S. No. 6"), words("谢辽沙（Serge）建桥")
    (['mr', 'moss', 'mill', 'us', 'no', '6'], ['谢', '辽', '沙', 'serge', '建', '桥'])
    """
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_APOSTROPHES))
    return [word.removesuffix("'s") for word in _WORD.findall(_POINT.sub("", plain.casefold()))]


@lru_cache(maxsize=1 << 16)
def mention_key(name: str) -> str:
    """What stands for a name among the mentions: its words, without a leading "the"; empty where it has none.

    >>> mention_key("The Tidewater-Bank's") == mention_key("TIDEWATER BANK") == "tidewater bank"
    True
    >>> mention_key("《三国 演义》")
    '三国演义'
    """
    found = words(name)
    return joined(found[1:] if found[:1] == ["the"] and found[1:] else found)


def title_key(title: str) -> str:
    """The key of a title, without a bracket at its end that only tells it from others.

    >>> title_key("The Lock (1902 novel)"), title_key("(1902)"), title_key("")
    ('lock', '1902', '')
    """
    return mention_key(_BRACKET.sub("", title))


def joined(found: list[str]) -> str:
    """The key that words make: with a space between, but for those of one character beside each other in Chinese.

    >>> joined(["刘", "备"]), joined(["ada", "moss"])
    ('刘备', 'ada moss')
    """
    apart = (
        " " if not (_CJK_WORD.match(left[-1]) and _CJK_WORD.match(right)) else "" for left, right in pairwise(found)
    )
    return "".join(word + space for word, space in zip(found, [*apart, ""], strict=False))


def parts(key: str) -> list[str]:
    """The reverse of :func:`joined`.

    >>> parts("刘备"), parts("ada moss")
    (['刘', '备'], ['ada', 'moss'])
    """
    return _WORD.findall(key)


def is_short(key: str) -> bool:
    """Whether a key is one word, which may mean anything elsewhere; one Han character is no name at all.

    >>> is_short("moss"), is_short("ada moss"), is_short("刘备")
    (True, False, False)
    """
    return len(key) < 2 or (" " not in key and not _CJK_WORD.match(key))
