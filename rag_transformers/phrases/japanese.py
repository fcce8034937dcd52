"""Japanese sentences: names and noun phrases by script alone, tied where they stand side by side.

A run of kanji, katakana, letters and digits is a word or several; hiragana ends it, being particles and endings. So a
name in hiragana is not found, and a verb ties nothing: this is less than the readers of Chinese and English do.
"""

import re
from collections.abc import Iterator, Sequence

from rag_transformers.phrases.reading import Mention, Sentence
from rag_transformers.text import HAN

__all__ = ["TOGETHER", "read"]

TOGETHER = "共起"
"""The relation of two names that stand side by side in a Japanese sentence."""

_KANJI, _KATAKANA = f"{HAN}々〆ヶ", "\u30a1-\u30fa\u30fc"
_WORD = rf"[{_KANJI}{_KATAKANA}A-Za-z0-9\u00c0-\u024f]+"
_RUN = re.compile(rf"{_WORD}(?:[・=＝&.-]{_WORD})*")
_TIME = re.compile(
    r"(?:紀元前|西暦|午前|午後|明治|大正|昭和|平成|令和)?"
    r"[\d一二三四五六七八九十百千万元]+"
    r"(?:年代|年間|年|月|日|時|分|秒|世紀|歳|人|個|件|回|円|度|つ|本|冊)+"
)
_DIGITS = re.compile(r"[\d.]+")
_COMMON = re.compile(
    r"(?:今日|昨日|明日|今年|昨年|現在|当時|自分|以上|以下|以前|以後|最初|最後|必要|可能|場合|一方|一部|全体|時代)"
)
_NAMED = re.compile(  # what makes a run a name: foreign words, letters, or the ending of a place, a body or a title
    rf"[{_KATAKANA}]{{3}}|[A-Z]|.[都道府県市区町村郡島山川湖港駅城寺社院館宮橋家氏]$"
    r"|(?:大学|高校|学校|会社|銀行|工房|工場|協会|組合|研究所|新聞|神社|博物館|美術館|図書館|病院|財団|物語)$"
)
_ADDRESS = re.compile("さん|さま|様|氏|君|くん|ちゃん|先生|博士|殿")


def read(text: str, spans: Sequence[tuple[int, int]]) -> list[Sentence]:
    """The mentions of the Japanese sentences at these spans of a chunk.

    >>> text = "蔦森さんは汐見硝子工房の主人で、ガラスを吹く。"
    >>> [mention.surface for mention in read(text, [(0, len(text))])[0].mentions if mention.is_name]
    ['蔦森', '汐見硝子工房', 'ガラス']
    """
    return [Sentence(start, end, list(_mentions(text, start, end)), [], TOGETHER) for start, end in spans]


def _mentions(text: str, start: int, end: int) -> Iterator[Mention]:
    for run in _RUN.finditer(text, start, end):
        for left, right in _without_times(text, *run.span()):
            word = text[left:right]
            if len(word) < 2 or _DIGITS.fullmatch(word) or _COMMON.fullmatch(word):
                continue
            is_name = bool(_NAMED.search(word) or _ADDRESS.match(text, right))
            yield Mention(word, left, right, word, is_name)


def _without_times(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a run between dates and amounts: 1962年菱川 is 菱川."""
    for time in _TIME.finditer(text, start, end):
        if start < time.start():
            yield start, time.start()
        start = time.end()
    if start < end:
        yield start, end
