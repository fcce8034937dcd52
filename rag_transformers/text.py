"""What every stage needs to know about text: language, sentences, title, search terms. Pure functions, no model."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

__all__ = [
    "CLOSERS",
    "HAN",
    "encodable",
    "finished",
    "folded",
    "is_heading",
    "key_terms",
    "language_of",
    "points_back",
    "printable",
    "said_sentences",
    "sentence_spans",
    "sentences",
    "split_title",
    "terms",
    "unheaded",
]

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""The Han characters, for use inside the brackets of a regular expression."""

CLOSERS = "\"'”’」』）)》〉】］\\]»*_"
"""Quotes and brackets that belong to the sentence before them, for use inside the brackets of a regular expression."""

LONGEST_SENTENCE = 600
"""Text without a sentence border is cut at a comma or a space before this many characters."""

LONGEST_TITLE = 100
"""A first line of more characters than this is no title."""

_JOINERS = "\u200c\u200d"
_HAN = re.compile(f"[{HAN}]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d]")
_HIRAGANA = re.compile("[\u3041-\u3096]")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_CAPITAL = re.compile(r"[A-Z\u00c0-\u00de]")


def language_of(text: str, default: str = "en") -> str:
    """The language of a text by its script: ``ja`` or ``zh`` where kana or Han characters carry it, else ``default``.

    A Han character counts for two letters, so that Chinese with English names in it stays Chinese. Of a text with Han
    characters it is Japanese where every tenth of its characters is hiragana, or more: Chinese quotes Japanese names,
    and not its particles. Japanese without hiragana, such as a heading, cannot be told from Chinese.

    >>> language_of("刘备与关羽、张飞在 Zhuo County 结义"), language_of("Liu Bei (刘备) swore an oath")
    ('zh', 'en')
    >>> language_of("蔦森は硝子工房の主人である。"), language_of("他喜欢初音ミク的歌。")
    ('ja', 'zh')
    """
    han = len(_HAN.findall(text))
    kana = 0 if text.isascii() else len(_KANA.findall(text))
    if not (han or kana) or 2 * (han + kana) < len(_LATIN.findall(text)):
        return default
    return "ja" if kana and 10 * len(_HIRAGANA.findall(text)) >= (han + kana if han else 0) else "zh"


# Sentences. A run of marks may end one, with the quotes and brackets that it closes and with the marks of references
# behind it, as in "So it was.[3]", and so may the end of a line. The look-behind and the possessive repeats keep a long
# run of marks from being read again from each of its places.

_FULL = "。！？｡"
_BORDER = re.compile(rf"(?<![{_FULL}；….!?;])([{_FULL}；….!?;]++)([{CLOSERS}]*+(?:\[\d{{1,3}}\])*+)|\n")
_OPENERS = "\"'“‘「『（(《〈【［[«*_"
_BRACKETED = re.compile(r"[(（《〈【\[][^()（）《》〈〉【】\[\]\n]{0,160}[)）》〉】\]]")
_COMMAS = "，、；：,;: \n"
_WORD_BEFORE = re.compile(r"[\w.]*$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_BEFORE_NAME = re.compile(  # never the end of a sentence
    r"mr|mrs|ms|mx|dr|prof|st|mt|ft|gen|col|capt|lt|sgt|cpl|maj|adm|cmdr|rev|hon|sen|rep|gov|pres|messrs|mme|mlle|fr"
    r"|vs|e\.g|i\.e|cf|viz|eds?|trans"
)
_BEFORE_NUMBER = re.compile(  # not the end of one before a digit
    r"nos?|vols?|figs?|pp?|ch|art|sec|ca?|approx|est|b|d|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_AFTER_NAME = re.compile(r"inc|ltd|co|corp|bros|jr|sr|esq|etc|al|ph\.d|m\.d|b\.a|m\.a|dept|univ|assn|ave|blvd")
_STARTS = re.compile(  # words that, with a capital, begin a sentence rather than go on with a name
    r"(?:an?|after|all|although|and|as|at|but|by|during|each|every|for|from|he|her|his|how|however|if|in|its?|many|most"
    r"|no|not|on|one|she|since|so|some|such|that|the|their|then|there|these|they|this|those|to|two|under|we|what|when"
    r"|where|which|while|who|why|with|yet|you)\b",
    re.IGNORECASE,
)
_NUMERAL = "一二三四五六七八九十"
_LIST_ITEM = re.compile(
    rf"[ \t\u3000]*(?:[-*+•·●▪◦‣–—]\s|#{{1,6}}\s|\||(?:\d{{1,3}}|[A-Za-z]|[ivx]{{1,5}})[.)](?=\s)|\d{{1,3}}[.、](?=\D)"
    rf"|[(（](?:\d{{1,3}}|[a-z]|[{_NUMERAL}]{{1,3}})[)）]|[①-⑳]|[{_NUMERAL}]{{1,3}}、)"
)
_HEADING = re.compile(
    rf"[ \t\u3000]*(?:#{{1,6}}\s|第[{_NUMERAL}百千零〇两\d]{{1,7}}[回章节節卷部篇集幕](?![{HAN}])"
    r"|(?:Chapter|CHAPTER|Part|PART|Section|SECTION|Book|BOOK)\s+[\dIVXLC]+\b)"
)
_FINISHED = re.compile(rf"[.!?…。！？｡；．][{CLOSERS}]*$")
_CELLS = re.compile(r"\S(?:\t|[ ]{3,})\S|^\s*\|")


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """The (start, end) of each sentence, without white space around it, in Chinese, English or both.

    A line break is a border only where the next word would have fitted on its line, or where a heading, a list item
    or a blank line says so; so hard-wrapped text keeps its sentences whole. Linear in the length of the text.

    >>> text = "他说：“走吧。”于是走了。 Mr. Fell left. Why?"
    >>> [text[a:b] for a, b in sentence_spans(text)]
    ['他说：“走吧。”', '于是走了。', 'Mr. Fell left.', 'Why?']
    """
    start = 0
    for border in _borders(text):
        yield from _pieces(text, start, border)
        start = border
    yield from _pieces(text, start, len(text))


def finished(text: str) -> str:
    """The whole sentences of a text that was cut off.

    >>> finished("He left. She sta"), finished("他走了。她留"), finished("He is a man who")
    ('He left.', '他走了。', '')
    """
    ends = [end for start, end in sentence_spans(text) if _FINISHED.search(text, start, end)]
    return text[: ends[-1]] if ends else ""


def encodable(text: str) -> str:
    r"""A text that can be stored and sent: surrogate pairs are joined, and half a pair becomes a replacement mark.

    >>> encodable("a\ud83d b") == "a\ufffd b", encodable("\ud83d\ude42")
    (True, '🙂')
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def printable(text: str) -> str:
    r"""A text as it can be printed in one line: white space folded, what would move the cursor shown by its number.

    The marks that join letters, in Persian and in emoji, are part of how a name is written, and stay.

    >>> printable("a.txt\n[2] /etc/official.txt\x1b[2K")
    'a.txt [2] /etc/official.txt\\x1b[2K'
    """
    plain = " ".join(text.split())
    if plain.isprintable():
        return plain
    return "".join(letter if letter.isprintable() or letter in _JOINERS else ascii(letter)[1:-1] for letter in plain)


def sentences(text: str) -> list[str]:
    r"""The sentences of a text, white space inside each folded to one space.

    >>> sentences("One line\nbroken. 第二句。")
    ['One line broken.', '第二句。']
    """
    return [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]


def _borders(text: str) -> Iterator[int]:
    brackets = _BRACKETED.finditer(text)
    bracket = next(brackets, None)
    caseless = not _CAPITAL.search(text)
    start = line = previous = 0  # of the sentence, of this line, and the length of the line before
    for found in _BORDER.finditer(text):
        while bracket and bracket.end() <= found.start():
            bracket = next(brackets, None)
        if found.group() == "\n":
            ends = _line_ends(text, line, found.start(), previous)
            previous, line = found.start() - line, found.end()
        else:
            ends = not _inside(bracket, start, found) and _mark_ends(text, start, found, caseless)
        if ends:
            yield found.end()
            start = found.end()


def _inside(bracket: re.Match[str] | None, start: int, found: re.Match[str]) -> bool:
    """Whether marks stand inside a bracket, and do not close one that is a sentence of its own: （见下文。）."""
    if bracket is None or bracket.start() >= found.start():
        return False
    return found.end() < bracket.end() or bracket.start() - start > 2


def _mark_ends(text: str, start: int, found: re.Match[str], caseless: bool) -> bool:
    """Whether a run of marks ends a sentence that began at ``start``."""
    marks, closers, end = found.group(1), found.group(2), found.end()
    after = text[end : end + 1]
    if any(mark in _FULL for mark in marks):
        return after not in tuple("，、：；,") and not closers.startswith(("》", "〉"))
    before_han = bool(_HAN.match(after))
    if marks[0] in "；;":
        return before_han or bool(_HAN.match(text[max(start, found.start() - 1) : found.start()]))
    if after and not after.isspace() and (marks[0] == "…" or not before_han):
        return False
    following = text[end : end + 40].lstrip().lstrip(_OPENERS).lstrip()
    if not caseless and following[:1].islower():
        return False
    return marks != "." or _period_ends(text[max(start, found.start() - 16) : found.start()], following, closers)


def _period_ends(before: str, following: str, closers: str) -> bool:
    """Whether a single period ends a sentence, or belongs to an abbreviation, an initial or a list number."""
    found = _WORD_BEFORE.search(before)
    word = found.group() if found else ""
    if not word or (closers and closers[0] not in ")]"):
        return True
    if word.isdigit() and not before[: -len(word)].strip():
        return False
    key = word.lower()
    if _BEFORE_NAME.fullmatch(key) or (_BEFORE_NUMBER.fullmatch(key) and following[:1].isdigit()):
        return False
    if _AFTER_NAME.fullmatch(key) or _INITIALS.fullmatch(word):
        return not following or _STARTS.match(following) is not None
    return True


def _line_ends(text: str, start: int, end: int, previous: int) -> bool:
    """Whether the line break at ``end`` is meant, or only wraps a sentence."""
    stop = text.find("\n", end + 1)
    following = text[end + 1 : stop if stop >= 0 else len(text)].rstrip()
    line, begins = text[start:end].rstrip(), following.lstrip()
    if not begins or not line.strip() or _LIST_ITEM.match(following) or _HEADING.match(following):
        return True
    if _HEADING.match(line) or _CELLS.search(line):
        return True
    if line[-1] in ",，、;；-—" or begins[0].islower():
        return False
    word = 1 if _HAN.match(begins) else len(begins.split(None, 1)[0])
    return len(line) + 1 + word < 0.75 * max(previous, len(line), len(following))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The span without white space around it, cut where it is too long to be a sentence."""
    while end - start > LONGEST_SENTENCE:
        half, full = start + LONGEST_SENTENCE // 2, start + LONGEST_SENTENCE
        cut = max(text.rfind(comma, half, full) for comma in _COMMAS) + 1 or full
        yield from _trimmed(text, start, cut)
        start = cut
    yield from _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    if stripped := piece.strip():
        yield start + left, start + left + len(stripped)


# Headings, and sentences that cannot stand alone.

_MARKED = re.compile(r"\s*#{1,6}\s+")
_CLOSING_MARK = re.compile(r"\s+#{1,6}\s*$")
_POINTS_BACK = re.compile(
    r"^[\"'“‘(]*(?:he|she|it|they|him|them|his|her|hers|its|their|theirs|this|that|these|those|such|both|here|then|the"
    r" (?:former|latter|same|other|others|second|third)|another|but|and|or|so|yet|nor|however|therefore|thus|hence"
    r"|moreover|instead|otherwise|meanwhile|afterwards|also|in (?:it|them|this|that|the (?:same|last)|these|those)"
    r"|(?:of|for|by|with|from|to|on|at|after|before|since) (?:it|them|this|that|these|those))\b"
    r"|\b(?:this|these|those) (?!who\b|which\b|that\b|of\b|is\b|are\b|was\b|were\b)[a-z]+"
    r"|\bthat (?:remark|idea|question|answer|claim|book|text|work|year|day|time|century|story|city|town|village|place"
    r"|machine|word|name|reason|kind|sort|way|event|period|moment|letter|passage|house|man|woman|one)\b",
    re.IGNORECASE,
)
_POINTS_BACK_HAN = re.compile(
    "^[“「『（]*(?:[它他她其此这這那该該彼]|两者|兩者|二者|后者|後者|前者|因此|因而|所以|于是|於是|但|而|然而|不过|不過|可是|同时|同時"
    "|另外|此外|后来|後來|随后|隨後|接着|接著|从此|從此|当时|當時|それ|これ|その|この|あの|そこ|ここ|しかし|また|そして|だが|同年|当時|同社)"
    "|[，、；][它他她其此](?!他|它|实|實|中|次)|因此|[这這][条條个個些种種位座部份次张張项項件幅本里裡样樣一]|该[国國书書人城年]|この|その"
)


def is_heading(sentence: str) -> bool:
    """Whether a sentence is a heading in Markdown.

    >>> is_heading("## The mill"), is_heading("#1 was the mill.")
    (True, False)
    """
    return _MARKED.match(sentence) is not None


def unheaded(sentence: str) -> str:
    """A heading without the marks that make it one in Markdown; anything else as it is.

    >>> unheaded("## The mill ##"), unheaded("The mill burned.")
    ('The mill', 'The mill burned.')
    """
    found = _MARKED.match(sentence)
    return _CLOSING_MARK.sub("", sentence[found.end() :]) if found else sentence


def said_sentences(texts: Iterable[str]) -> list[str]:
    r"""The sentences of texts, each once: without headings, and without titles that begin another, where more is said.

    Where nothing else is said, the headings stand, without their marks.

    >>> said_sentences(["# The mill\n\nIt burned.", "The old mill"]), said_sentences(["# The mill"])
    (['It burned.', 'The old mill'], ['The mill'])
    >>> said_sentences(["石桥", "石桥建于1850年。"])
    ['石桥建于1850年。']
    """
    found = list(dict.fromkeys(sentence for text in texts for sentence in sentences(text)))
    said = [sentence for sentence in found if not is_heading(sentence)]
    said = [each for each in said if _FINISHED.search(each) or not any(o != each and o.startswith(each) for o in said)]
    return said or list(dict.fromkeys(map(unheaded, found)))


def points_back(sentence: str) -> bool:
    """Whether a sentence speaks of what another one named, by its first words, so that it cannot stand alone.

    >>> points_back("It burned in 1911."), points_back("Ada answered that remark."), points_back("Ada left.")
    (True, True, False)
    >>> points_back("他走了。"), points_back("纸沿着这条路西传。"), points_back("毕昇发明了活字。")
    (True, True, False)
    """
    pattern = _POINTS_BACK_HAN if language_of(sentence) in ("zh", "ja") else _POINTS_BACK
    return pattern.search(sentence) is not None


# Titles and search terms.

_NOT_AFTER_TITLE = ".!?。！？｡…;；:：,，、"
_PAIRED = f"{HAN}\u3040-\u30ff\uac00-\ud7af"
_PAIR = re.compile(f"[{_PAIRED}]")
_TERM = re.compile(
    rf"[{_PAIRED}]+|\d+(?:[.,]\d+)*|(?:[^\W\d_{_PAIRED}]\.){{2,}}|[^\W\d_{_PAIRED}][^\W_{_PAIRED}]*(?:'[^\W_{_PAIRED}]+)*"
)
_LETTERS = re.compile(r"[\u00c0-\u052f\u1e00-\u1fff]+")
_ACCENTS = re.compile(r"[\u0300-\u036f]")
_STOP_WORD = re.compile(
    "an?|and|are|as|at|be|been|by|can|could|did|do|does|for|from|had|has|have|how|if|in|into|is|its?|of|on|or|that|the"
    "|their|there|this|to|was|were|what|when|where|which|while|whom?|whose|why|will|with|would"
)
_FUNCTION_WORD = re.compile(
    "为什么|為什麼|为何|為何|什么|什麼|甚麼|哪些|哪个|哪個|哪里|哪裡|哪裏|哪一|怎么样|怎麼樣|怎么|怎麼|怎样|怎樣|如何|多少|多久"
    "|多大|何时|何時|何处|何處|何地|何人|何种|何種|何年|几个|幾個|几次|幾次|是否|有没有|有沒有|是不是|以及|或者|因为|因為|所以"
    "|但是|可以|就是|这个|這個|那个|那個|这些|這些|他们|他們|我们|我們|[的了吗嗎呢吧是谁誰哪在被與与及]"
    "|ですか|ますか|ましたか|でしょうか|でした|ました|です|ます|である|だった|という|について|によって|による|として|から|まで"
    "|だれ|どこ|いつ|なぜ|どう|どの|どんな|いくつ|[はがをにへとものでやか]"
)
_DOUBLED = re.compile(r"([^aeiouylsz])\1$")


def split_title(text: str) -> tuple[str, int]:
    r"""The title that a document begins with, and where its text goes on; ("", 0) where it has none.

    A title is a first line of up to ``LONGEST_TITLE`` characters without final punctuation, with text after it. Only
    the caller knows that a text begins a document, so ask only then.

    >>> split_title("Salt roads\n\nThey led to the sea."), split_title("They led to the sea.\nAll of them.")
    (('Salt roads', 12), ('', 0))
    """
    begin = len(text) - len(text.lstrip())
    end = text.find("\n", begin, begin + LONGEST_TITLE + 8)
    title = text[begin:end].strip().lstrip("#").strip() if end >= 0 else ""
    rest = text[end:].lstrip() if title else ""
    if not rest or len(title) > LONGEST_TITLE or title[-1] in _NOT_AFTER_TITLE:
        return "", 0
    return title, len(text) - len(rest)


def terms(text: str) -> list[str]:
    """The search terms of a text, in its order, repeats kept.

    Width and case are folded. Words lose accents and possessives, English ones their endings too; stop words are
    dropped. Chinese (and kana and hangul) gives single characters and pairs, Traditional as it stands.

    >>> terms("The Cafés of 1,200 towns were closed"), terms("谁建了石桥？")
    (['cafe', '1200', 'town', 'clos'], ['建', '石', '桥', '石桥'])
    """
    found: list[str] = []
    for token in _TERM.findall(folded(text)):
        if _PAIR.match(token):
            for run in _FUNCTION_WORD.split(token):
                found += run
                found += (first + second for first, second in pairwise(run))
        elif term := _word(token):
            found.append(term)
    return found


def key_terms(text: str) -> list[str]:
    """The terms that carry a question, each once: as :func:`terms`, a single character only where it stands alone.

    >>> key_terms("谁建了石桥？"), key_terms("Who built the stone bridge, and why the bridge?")
    (['建', '石桥'], ['built', 'ston', 'bridg'])
    """
    found: list[str] = []
    for token in _TERM.findall(folded(text)):
        if _PAIR.match(token):
            for run in _FUNCTION_WORD.split(token):
                found += (first + second for first, second in pairwise(run)) if run[1:] else run
        elif term := _word(token):
            found.append(term)
    return list(dict.fromkeys(found))


def folded(text: str) -> str:
    """A text in one width and one case, its Latin letters without accents.

    >>> folded("CAFÉ ３")
    'cafe 3'
    """
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return _LETTERS.sub(lambda run: _ACCENTS.sub("", unicodedata.normalize("NFD", run.group())), plain)


@lru_cache(maxsize=1 << 16)
def _word(token: str) -> str:
    """The term of one folded word or number; empty for a stop word."""
    if token[0].isdigit():
        return token.replace(",", "")
    word = token.removesuffix("'s").replace("'", "").replace(".", "")
    return "" if _STOP_WORD.fullmatch(word) else _stem(word) if word.isascii() else word


def _stem(word: str) -> str:
    """A light English stem: plurals, -ed and -ing, and the silent e that they leave unclear."""
    if word.endswith("ies") and len(word) > 4:
        word = f"{word[:-3]}y"
    elif word.endswith(("xes", "ches", "shes", "sses")):
        word = word[:-2]
    elif word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 2 and any(vowel in root for vowel in "aeiouy"):
            return root[:-1] if len(root) > 3 and _DOUBLED.search(root) else root
    return word[:-1] if word.endswith("e") and len(word) > 4 else word
