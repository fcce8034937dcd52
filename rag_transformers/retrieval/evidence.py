"""What the best chunks hold on a question: their sentences by merit, and whether they hold anything on it at all.

No model is asked. A sentence speaks to a question by the question's terms that it holds, names and rare ones more, and
by the cosine of the two.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from langchain_core.documents import Document

from rag_transformers.errors import UsageError
from rag_transformers.retrieval.lexical import Lexical
from rag_transformers.retrieval.ranking import SentenceText, sentence_texts
from rag_transformers.text import CLOSERS, HAN, folded, is_heading, key_terms, language_of, terms

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "UNRELATED_COSINE",
    "Evidence",
    "Finding",
    "best_findings",
    "find_evidence",
    "holds",
    "strength",
    "term_shares",
]

UNRELATED_COSINE = 0.07
"""The mean cosine of sentences that have nothing to do with each other, for the offline default embeddings."""

# What :func:`holds` asks for, cosines counted so that UNRELATED_COSINE is 0. One weight for both shares of the terms:
# logistic regressions on either half of the public questions gave 0.2 to 0.5. The limit lies where both kinds of error
# are rare in either half; benchmarks/answers.py prints them.
_ENOUGH = 0.21
TERMS_WEIGHT = 0.43
_ENOUGH_ACROSS = 0.37
# A few pages hold a few hundred words, so that it says little of a question that "take" or "fee" is none of them:
# there a chunk with a word of the question need only be near. Not where a name is unknown: it asks about another.
_FEW_SENTENCES = 40
_ENOUGH_IN_FEW = 0.23
_ENOUGH_IN_FEW_HAN = 0.3  # no capitals tell what is a name

# What makes a sentence worth quoting, beside the question's terms that it holds.
_COSINE_WEIGHT = 0.15
_CHUNK_WEIGHT = 0.5
_NUMBER_WEIGHT = 0.1
_FIRST_WEIGHT = 0.025
_UNFIT_WEIGHT = -0.1  # of a heading or a fragment
_QUESTION_WEIGHT = -0.5
_FOREIGN_WEIGHT = -0.2  # of a sentence in another language than the question
_SAID_BEFORE = 0.5  # a term counts this much where a sentence chosen before holds it
_LEAST = 0.5  # of the best sentence's worth: a further one that has less is left out

_LETTERS = re.compile(r"[a-z]+")
_WORD = re.compile(r"\w[\w'’.,-]*")
_WORD_WEIGHT = 0.5  # of a word that is no name, in a question that has names
_ASKS_NUMBER = re.compile(
    r"何时|何時|什么时候|[什甚]麼時候|[时時][间間]|哪一?[年天日]|几|幾|多少|多久|多[大高长長远遠重]|年份|日期"
    r"|\bwhen\b|\bhow (?:many|much|long|old|far|tall|big|often)\b|\b(?:what|which) (?:year|date|day|time)\b",
    re.IGNORECASE,
)
_HAS_NUMBER = re.compile(
    r"\d|[一二三四五六七八九十百千万萬两兩]\s*[年月日人个個名位次座条條部岁歲]"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
)

_HAN = re.compile(f"[{HAN}]")
_ENDED = re.compile(rf"[.!?。！？…；;][{CLOSERS}]*(?:\[\d{{1,3}}\])*$")
_QUESTION = re.compile(rf"[?？][{CLOSERS}]*$")


@dataclass(frozen=True)
class Finding:
    """A sentence of a chunk, and how it speaks to a question.

    Args:
        chunk: The chunk.
        place: The chunk's place among those that were searched, from 0.
        start: Where the sentence starts in the chunk's text.
        end: Where it ends.
        cosine: Of its vector and the question's.
        held: The question's terms that it holds, or the question that it follows in its chunk.
        merit: What speaks for it beside those terms.
    """

    chunk: Document
    place: int
    start: int
    end: int
    cosine: float
    held: tuple[str, ...]
    merit: float

    @property
    def text(self) -> str:
        """The sentence as it stands in its chunk."""
        return self.chunk.page_content[self.start : self.end]


@dataclass(frozen=True)
class Evidence:
    """What a question's best chunks hold.

    Args:
        question: The question.
        shares: Its terms, each with its share of what all of them tell; together 1, or none.
        unknown: The share of the terms that stand in no chunk of the whole index.
        findings: All sentences of the chunks, in the chunks' order.
        lenient: Whether what is unknown says little: the index is small, and no name in the question is unknown.
    """

    question: str
    shares: dict[str, float]
    unknown: float
    findings: tuple[Finding, ...] = field(repr=False)
    lenient: bool = False

    def coverage(self, finding: Finding) -> float:
        """What share of the question's terms a sentence holds, from 0 to 1."""
        return sum(self.shares[term] for term in finding.held)


def term_shares(question: str, lexical: Lexical) -> dict[str, float]:
    """The terms of a question, each with its share of what all of them tell.

    A term tells the more, the fewer passages hold it; and in a question with names (words with a capital, numbers)
    the names tell twice as much as other words.

    >>> lexical = Lexical([("a", "The mill burned."), ("b", "Ada Moss bought the mill.")])
    >>> {term: round(share, 2) for term, share in term_shares("Who sold the mill to Ada?", lexical).items()}
    {'sold': 0.53, 'mill': 0.05, 'ada': 0.41}
    """
    names = _name_terms(question)
    found = key_terms(question)
    named = any(term in names for term in found)
    weights = {
        term: lexical.idf(term) * (_WORD_WEIGHT if named and term.isascii() and term not in names else 1.0)
        for term in found
    }
    total = sum(weights.values())
    return {term: weight / total for term, weight in weights.items()}


def _name_terms(question: str) -> set[str]:
    """The terms of a question's words with a capital and of its numbers."""
    words = (word for word in _WORD.findall(question) if (word[0].isupper() and word != "I") or word[0].isdigit())
    return {term for word in words for term in terms(word)}


def _name_forms(question: str) -> dict[str, frozenset[str]]:
    """The spellings that meet each name of a question; its first word has a capital anyway, and is none."""
    found: dict[str, frozenset[str]] = {}
    for word in _WORD.findall(question)[1:]:
        for piece in _LETTERS.findall(folded(word).removesuffix("'s")) if word[0].isupper() and word.isascii() else ():
            singular = {piece.removesuffix(ending) for ending in ("s", "es") if len(piece) > len(ending) + 2}
            for term in terms(piece):
                found[term] = found.get(term, frozenset()) | {piece, f"{piece}s", f"{piece}es", *singular}
    return found


def find_evidence(
    question: str,
    vector: Sequence[float],
    chunks: Sequence[Document],
    vectors: "Sequence[npt.NDArray[np.float32]]",
    lexical: Lexical,
    scores: Sequence[float] | None = None,
) -> Evidence:
    """Read the sentences of the best chunks in the light of a question.

    Args:
        question: The question.
        vector: Its vector, of unit length.
        chunks: The best chunks, best first.
        vectors: For each chunk, the vectors of its sentences as ``sentence_texts`` gives them, rows of unit length.
        lexical: All chunks of the index.
        scores: Each chunk's score, from 0 to 1; all the same by default.

    Raises:
        UsageError: The arguments do not fit each other.
    """
    import numpy as np

    scores = [1.0] * len(chunks) if scores is None else scores
    if not len(chunks) == len(vectors) == len(scores):
        sizes = f"{len(chunks)} chunks, {len(vectors)} sets of vectors, {len(scores)} scores"
        raise UsageError(f"find_evidence got {sizes}; give one each")
    shares = term_shares(question, lexical)
    wants = language_of(question), _ASKS_NUMBER.search(question) is not None
    asked = np.asarray(vector, dtype=np.float32)
    forms = _name_forms(question)
    met: dict[str, bool] = {}
    found: list[Finding] = []
    for place, (chunk, matrix, score) in enumerate(zip(chunks, vectors, scores, strict=True)):
        sentences = sentence_texts(chunk)
        if len(matrix) != len(sentences):
            given = f"{len(matrix)} rows for the {len(sentences)} sentences of its chunk"
            raise UsageError(f"vectors[{place}] has {given}; give one each")
        helds = _held(sentences, shares, forms, met)
        for number, ((start, end, _), row, held) in enumerate(zip(sentences, matrix, helds, strict=True)):
            cosine = float(row @ asked)
            merit = _CHUNK_WEIGHT * score + _COSINE_WEIGHT * cosine + _FIRST_WEIGHT / (1 + number)
            merit += fitness(chunk.page_content[start:end], *wants)
            found.append(Finding(chunk, place, start, end, cosine, held, merit))
    lacking = {term for term in shares if not (lexical.frequency(term) and met.get(term, True))}
    small = len(lexical) == len(chunks) and len(found) <= _FEW_SENTENCES
    lenient = small and not lacking & _name_terms(question)
    return Evidence(question, shares, sum(shares[term] for term in lacking), tuple(found), lenient)


def _held(
    sentences: Sequence[SentenceText],
    wanted: Collection[str],
    forms: Mapping[str, frozenset[str]],
    met: dict[str, bool],
) -> Iterator[tuple[str, ...]]:
    """Which of the wanted terms each sentence holds; one behind a question or a heading has the terms of that too.

    A name is held where it stands itself: France is not met by francs, though both have one stem. Of names whose stem
    was seen it is noted whether any sentence held them.
    """
    before: set[str] = set()
    for sentence in sentences:
        here = set(terms(sentence.text)) & set(wanted)
        for name in [term for term in here if term in forms]:
            stands = not forms[name].isdisjoint(_LETTERS.findall(folded(sentence.text)))
            met[name] = met.get(name, False) or stands
            if not stands:
                here.discard(name)
        yield tuple(term for term in wanted if term in here or term in before)
        line = sentence.text.rpartition("\n")[-1]
        before = here if _QUESTION.search(line) or is_heading(line) else set()


def fitness(text: str, language: str, asks_number: bool = False) -> float:
    """How fit a sentence is to answer a question, by its form: a heading, a question, another language are less so.

    Args:
        text: The sentence.
        language: Of the question.
        asks_number: Whether the question asks for a number.

    >>> fitness("He ground barley.", "en") > fitness("The mill", "en") > fitness("Who ground it?", "en")
    True
    """
    fit = _NUMBER_WEIGHT if asks_number and _HAS_NUMBER.search(text) else 0.0
    if _QUESTION.search(text):
        fit += _QUESTION_WEIGHT
    elif not _ENDED.search(text):
        fit += _UNFIT_WEIGHT
    of_han = language in ("zh", "ja")
    foreign = not _HAN.search(text) if of_han else language_of(text) in ("zh", "ja")
    return fit + _FOREIGN_WEIGHT if foreign else fit


def holds(evidence: Evidence, unrelated: float = UNRELATED_COSINE) -> bool:
    """Whether the chunks hold anything on the question, so that an answer, or a model call, is worth while.

    The nearest sentence must be the nearer, the more of the question's terms stand nowhere in the index, and may be
    the farther, the more of them one sentence holds. A sentence in another language shares no terms with the question;
    there the cosine alone decides. In a small index a word that it does not know tells next to nothing: there a
    chunk with one that it knows need only be near.

    Args:
        evidence: From :func:`find_evidence`, of about ten chunks.
        unrelated: The mean cosine of unrelated sentences, for embeddings other than the offline default.
    """
    if not evidence.findings or not any(map(str.isalnum, evidence.question)):
        return False
    if strength(evidence, unrelated) >= _ENOUGH:
        return True
    if evidence.lenient and _is_near(evidence, unrelated):
        return True
    nearest = max(evidence.findings, key=lambda finding: finding.cosine)
    near = _near(nearest.cosine, unrelated)
    return near >= _ENOUGH_ACROSS and language_of(nearest.text) != language_of(evidence.question)


def _is_near(evidence: Evidence, unrelated: float) -> bool:
    """Whether a chunk that holds a word of the question has a sentence that is near enough to it."""
    enough = _ENOUGH_IN_FEW_HAN if language_of(evidence.question) in ("zh", "ja") else _ENOUGH_IN_FEW
    holding = {finding.place for finding in evidence.findings if finding.held}
    return any(_near(each.cosine, unrelated) >= enough for each in evidence.findings if each.place in holding)


def _near(cosine: float, unrelated: float) -> float:
    """A cosine, counted so that unrelated sentences come to 0."""
    return (cosine - unrelated) / (1 - unrelated)


def strength(evidence: Evidence, unrelated: float = UNRELATED_COSINE) -> float:
    """How much the sentence that speaks most to a question does so: about 0 for none, 1 for the question itself.

    Args:
        evidence: From :func:`find_evidence`.
        unrelated: As for :func:`holds`.
    """
    if not evidence.findings:
        return 0.0
    near = _near(max(finding.cosine for finding in evidence.findings), unrelated)
    held = max(evidence.coverage(finding) for finding in evidence.findings)
    return near + TERMS_WEIGHT * (held - evidence.unknown)


def best_findings(evidence: Evidence, limit: int = 3) -> list[Finding]:
    """The sentences that answer best, in order of merit: none twice, and later ones rather on what is still open.

    A heading is no answer where there is anything else.

    Args:
        evidence: From :func:`find_evidence`.
        limit: How many at most, at least 1.
    """
    left = [finding for finding in evidence.findings if not is_heading(finding.text)] or list(evidence.findings)
    chosen: list[Finding] = []
    said: set[str] = set()
    least = 0.0
    while left and len(chosen) < limit:
        worth, place = max((_worth(evidence, finding, said), -place) for place, finding in enumerate(left))
        best = left.pop(-place)
        if worth < least:
            break
        if not any(_same(best.text, other.text) for other in chosen):
            chosen.append(best)
            said.update(best.held)
            least = least or _LEAST * worth
    return chosen


def _worth(evidence: Evidence, finding: Finding, said: set[str]) -> float:
    return finding.merit + sum(evidence.shares[term] * (_SAID_BEFORE if term in said else 1.0) for term in finding.held)


def _same(one: str, other: str) -> bool:
    """Whether one text says no more than the other: the overlap of two chunks, or a repeated heading."""
    short, long = sorted((_bare(one), _bare(other)), key=len)
    return short in long


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
