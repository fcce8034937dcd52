"""Whether a question is about one thing or about the whole of what was read; a rule, no model.

asks_for_whole     it speaks of themes, an overview, a summary
is_about_nothing   it has no words of its own: any index holds something on it
choose_mode        ``local`` or ``global``, for ``auto``
"""

import re
from collections.abc import Collection
from typing import Literal

from rag_transformers.retrieval.evidence import UNRELATED_COSINE, Evidence, strength
from rag_transformers.text import HAN, key_terms

__all__ = ["asks_for_whole", "choose_mode", "is_about_nothing", "is_general", "subject_terms"]

_STANDS_OUT = 0.25
"""A sentence that speaks so much to a question stands out, see :func:`rag_transformers.retrieval.evidence.strength`.

So it is with all but one in a hundred of the questions of four public sets that ask for one thing each; with 0.3, two.
"""

# What asks for the whole, whoever is named beside it.
_WHOLE = re.compile(
    r"\b(?:(?:main|major|key|central|overall|overarching|common|recurring|dominant|general|broad|principal|core|chief)\s+"
    r"(?:\w+\s+){0,2}?(?:themes?|topics?|subjects?|news|ideas?|messages?|motifs?|points?|issues?|trends?|takeaways?|findings?"
    r"|conclusions?|concerns?|arguments?|lessons?|strands?|threads?|storyline|plot|narrative|characters|events|conflicts?)"
    r"|themes?|motifs?|leitmotifs?|overview|as a whole|in general|on the whole|taken together|big picture|synopsis|gist"
    r"|(?:whole|entire|complete)\s+(?:corpus|dataset|data set|collection|set of documents|book|novel|story|thing)"
    r"|what (?:happens|goes on) in (?:the|this) (?:book|novel|story|play|text)"
    r"|(?:across|throughout|over) (?:all|the|these|this) (?:\w+ )?(?:documents?|texts?|corpus|book|novel|story"
    r"|articles?))\b"
    r"|主题|主旨|题旨|总体|整体|总的来说|总的来看|总览|概览|综述|梗概|大意|全书|全文|全篇|通篇|整本书|整部|纵观|综观"
    r"|(?:主要|核心|中心|关键|共同|重要)的?(?:内容|思想|观点|议题|话题|论点|线索|情节|脉络|结论|趋势|教训|人物|事件|冲突|矛盾)"
    r"|(?:哪些|什么)(?:主要|重要|核心|共同)|讲(?:述)?了(?:些)?(?:什么|哪些)|(?:讲|谈|说|写)的是什么|主要讲"
    r"|(?:这些|所有|全部|各)(?:份|篇|个)?(?:文档|文件|资料|文章|文本|材料)"
    r"|テーマ|主題|概要|要約|あらすじ|全体像|全体として|(?:主な|主要な|中心的な)(?:内容|話題|論点|出来事|登場人物)|何について書かれ",
    re.IGNORECASE,
)
# What asks for it where nobody is named beside it.
_SUMMARY = re.compile(
    r"\b(?:summari[sz]e|summary|sum up|outline|recap|overall|in short|what(?:'s| is| are| was| were) (?:it|they"
    r"|this|that|these|those|the)(?: \w+)? (?:all )?about)\b|概括|总结|归纳|概述|简述|总括|小结|摘要|介绍一下",
    re.IGNORECASE,
)
# Words that say nothing of what is asked about but that it is something written, and how it is to be told.
_GENERAL = frozenset(
    key_terms(
        "main major key central overall overarching common recurring dominant general broad principal core chief"
        " important most top primary whole entire all different various several some five three ten few each every"
        " theme topic subject news idea message motif point issue trend takeaway finding conclusion concern argument"
        " lesson strand thread storyline plot narrative character event conflict thing fact insight detail aspect part"
        " section people person who entity relation relationship pattern structure content context information"
        " knowledge corpus dataset data set collection document text book novel story tale article report work chapter"
        " file source material passage writing author index summary overview synopsis gist picture sentence"
        " paragraph word bullet list summarize summarise sum outline recap describe explain discuss cover mention"
        " tell give identify name present show write concern deal treat talk speak cite provide say run emerge appear"
        " recur occur across throughout together general briefly please short big mean kind type sort me us about"
        " about these those everything anything happen relate connect link go do make does play play's complete they"
        " them their one two four six"
    )
)
_GENERAL_HAN = re.compile(
    "用?[一二三四五六七八九十几两]+[句段]话|麻烦|帮我|给我|为我|列出|列举|说明|说说|谈谈|介绍|一下|简要|简单|简短|分别|主要|重要"
    "|核心|中心|关键|共同|总体|整体|总的|来说|来看|全部|所有|整个|全书|全文|全篇|通篇|整本|整部|本书|此书|这本书|书中|书里|文中|故事里|里有|作者"
    "|这部|小说|作品|书籍|故事|文档|文件|资料|文章|文本|材料|数据集?|语料|内容|主题|主旨|题旨|议题|话题|思想|观点|论点|线索|情节"
    "|脉络|结论|趋势|教训|人物|角色|事件|冲突|矛盾|关系|方面|要点|重点|信息|部分|概括|总结|归纳|概述|简述|综述|总括|小结|摘要"
    "|概览|总览|梗概|大意|纵观|综观|讲述|讲了|讲的|叙述|描述|描写|涉及|提到|谈到|说了|写了|反映|体现|表达|包含|包括|贯穿|出现"
    "|哪些|哪几|什么|怎样|如何|多少|几个|有关|关于|这些|那些|这个|它们|其中|之间|里面|当中|请"
    "|テーマ|主題|主な|主要な|中心的な|共通の|概要|要約|要点|あらすじ|まとめて|全体像|全体|内容|話題|論点|出来事|登場人物|文書|書類|資料|記事"
    "|テキスト|ドキュメント|コレクション|これらの|それらの|すべての|全ての|書かれて|述べられて|扱われて|教えて|ください|下さい|説明して"
    "|挙げて|して|います"
)
_HAN = re.compile(f"[{HAN}]")


def asks_for_whole(question: str) -> bool:
    """Whether a question asks for themes, an overview or a summary of what was read.

    >>> asks_for_whole("What are the main themes of this book?"), asks_for_whole("Who built the mill?")
    (True, False)
    >>> asks_for_whole("这些文档主要讲了什么？"), asks_for_whole("谁建了磨坊？")
    (True, False)
    >>> asks_for_whole("主なテーマは何ですか？"), asks_for_whole("誰が水車を建てましたか？")
    (True, False)
    """
    return bool(_WHOLE.search(question) or _SUMMARY.search(question))


def is_about_nothing(question: str) -> bool:
    """Whether a question names no subject, and so is about the whole: any index holds something on it.

    >>> is_about_nothing("What are the main themes?"), is_about_nothing("What are the main themes of botany?")
    (True, False)
    >>> is_about_nothing("请概括全书的主要内容。"), is_about_nothing("概括一下植物学的主要内容。")
    (True, False)
    """
    return bool(key_terms(question)) and is_general(question)


def is_general(text: str) -> bool:
    """Whether a text has only words such as "story", "people" or 主题, which name nothing that can be looked up.

    >>> is_general("the main people"), is_general("the miller"), is_general("主要人物"), is_general("林晚")
    (True, False, True, False)
    """
    return not subject_terms(text)


def subject_terms(text: str) -> list[str]:
    """The terms of a question that can be looked up, without words such as "tell", "story" or 介绍.

    >>> subject_terms("Tell me about Leibniz"), subject_terms("请介绍毕昇")
    (['leibniz'], ['毕昇'])
    """
    left = [term for term in key_terms(_GENERAL_HAN.sub(" ", text)) if not _HAN.search(term) or len(term) > 1]
    return [term for term in left if term not in _GENERAL]


def choose_mode(
    question: str, evidence: Evidence, names: Collection[str] = (), unrelated: float = UNRELATED_COSINE
) -> Literal["local", "global"]:
    """How to answer a question: from the best chunks (``local``), or from reports on the whole (``global``).

    A question about themes or the whole is global. Else one that names somebody or something, or that a sentence
    speaks to, is local. One that is neither is global: no single place in the documents answers it.

    Args:
        question: The question.
        evidence: What the best chunks hold on it.
        names: The vertices that it names.
        unrelated: As for :func:`rag_transformers.retrieval.evidence.holds`.
    """
    if _WHOLE.search(question) or (_SUMMARY.search(question) and not names):
        return "global"
    return "local" if names or strength(evidence, unrelated) >= _STANDS_OUT else "global"
