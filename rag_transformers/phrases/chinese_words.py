"""What Chinese rules know of words, read from ``words/chinese.txt``; each section there says what it holds."""

from rag_transformers.phrases.words import load_words

__all__ = [
    "ADDRESSES",
    "BODY_WORDS",
    "COMPANY_WORDS",
    "COMPOUND_SURNAMES",
    "FUNCTION_CHARACTERS",
    "GLUED_VERBS",
    "LATIN_STOP_WORDS",
    "LEADING_VERBS",
    "OLD_PROSE",
    "SPEECH",
    "SURNAMES",
    "SURNAMES_THAT_ARE_WORDS",
    "TROOPS",
    "VAGUE_NOUNS",
    "VAGUE_VERBS",
    "WEAK_GLUED_VERBS",
]

_WORDS = load_words("chinese")

ADDRESSES = frozenset(_WORDS["addresses"])
BODY_WORDS = frozenset(_WORDS["body words"])
COMPANY_WORDS = frozenset(_WORDS["company words"])
COMPOUND_SURNAMES = frozenset(_WORDS["compound surnames"])
FUNCTION_CHARACTERS = "".join(_WORDS["function characters"])
GLUED_VERBS = frozenset("".join(_WORDS["glued verbs"]))
LATIN_STOP_WORDS = frozenset(_WORDS["latin"])
LEADING_VERBS = frozenset("".join(_WORDS["leading verbs"]))
OLD_PROSE = "".join(_WORDS["old prose"])
SPEECH = "".join(_WORDS["speech"])
SURNAMES = frozenset("".join(_WORDS["surnames"]))
SURNAMES_THAT_ARE_WORDS = frozenset("".join(_WORDS["surnames that are words"]))
TROOPS = frozenset("".join(_WORDS["troops"]))
VAGUE_NOUNS = frozenset(_WORDS["vague nouns"])
VAGUE_VERBS = frozenset(_WORDS["vague verbs"])
WEAK_GLUED_VERBS = frozenset("".join(_WORDS["weak glued verbs"]))
