"""Radicals of Chinese characters -> the characters: fonts share one drawing for both, and PDF files hold either."""

import unicodedata

__all__ = ["plain_characters"]

# Of the block CJK Radicals Supplement, by the property Equivalent_Unified_Ideograph of the Unicode Standard.
_SUPPLEMENT = (
    "⺁⺂⺃⺄⺅⺆⺇⺈⺉⺊⺋⺌⺍⺎⺏⺐⺑⺒⺓⺔⺕⺖⺗⺘"
    "⺙⺛⺜⺝⺞⺟⺠⺡⺢⺣⺤⺥⺦⺧⺨⺩⺪⺫⺬⺭⺮⺯⺰⺱"
    "⺲⺳⺴⺵⺶⺷⺸⺹⺺⺻⺼⺽⺾⺿⻀⻁⻂⻃⻄⻅⻆⻇⻈⻉"
    "⻊⻋⻌⻍⻎⻏⻐⻑⻒⻓⻔⻕⻖⻗⻘⻙⻚⻛⻜⻝⻞⻟⻠⻡"
    "⻢⻣⻤⻥⻦⻧⻨⻩⻪⻫⻬⻭⻮⻯⻰⻱⻲⻳"
)
_IDEOGRAPHS = (
    "厂乛乚乙亻冂𠘨刀刂卜㔾小小兀尣尢𡯂巳幺彑彐忄心扌"
    "攵旡日月歺母民氵氺灬爫爫丬牛犭王𤴔目示礻𥫗糹纟罓"
    "罒㓁冗𦉫羊𦍌𦍋耂肀聿肉𦥑艹艹艹虎衤覀西见角𧢲讠贝"
    "𧾷车辶辶辶邑钅長镸长门𨸏阝雨青韦页风飞食𩙿飠饣𩠐"
    "马骨鬼鱼鸟卤麦黄黾斉齐歯齿竜龙龜亀龟"
)
_KANGXI = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0x2F00, 0x2FD6)}
_PLAIN: dict[int, int | str] = {**str.maketrans(_SUPPLEMENT, _IDEOGRAPHS), **_KANGXI}


def plain_characters(text: str) -> str:
    """A text with each radical as the character that it is drawn like, of the same length.

    >>> plain_characters("\u2ed3\u2ed8\u516c\u53f8") == "长青公司", plain_characters("\u2f5c") == "牛"
    (True, True)
    """
    return text.translate(_PLAIN)
