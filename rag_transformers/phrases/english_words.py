"""What English rules know of words, read from ``words/english.txt``; each section there says what it holds."""

from rag_transformers.phrases.words import load_lines, load_words

__all__ = [
    "BODIES",
    "BRIDGES",
    "EPITHETS",
    "KEPT_TITLES",
    "LETTERS",
    "NO_NAMES",
    "NUMBERED",
    "OWNERS",
    "SHED_TITLES",
    "VAGUE_ADJECTIVES",
    "VAGUE_NOUNS",
    "WEAK_VERBS",
]

_WORDS = load_words("english")

BODIES = frozenset(_WORDS["bodies"])
BRIDGES = frozenset(_WORDS["bridges"])
EPITHETS = frozenset(_WORDS["epithets"])
KEPT_TITLES = frozenset(_WORDS["kept titles"])
NO_NAMES = frozenset(_WORDS["no names"])
NUMBERED = frozenset(_WORDS["numbered"])
OWNERS = frozenset(_WORDS["owners"])
SHED_TITLES = frozenset(_WORDS["shed titles"])
VAGUE_ADJECTIVES = frozenset(_WORDS["vague adjectives"])
VAGUE_NOUNS = frozenset(_WORDS["vague nouns"])
WEAK_VERBS = frozenset(_WORDS["weak verbs"])

_CLASSES = {
    "d": "determiners",
    "p": "prepositions",
    "c": "conjunctions",
    "r": "pronouns",
    "s": "subordinators",
    "x": "auxiliaries",
    "a": "adverbs",
    "m": "numbers",
    "j": "adjectives",
}
_VOWELS = tuple("aeiou")


def _forms(verb: str) -> tuple[list[str], list[str]]:
    """The forms that may also be nouns (work, works), and those that may not (worked), of a regular verb."""
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return [verb, f"{verb[:-1]}ies"], [f"{verb[:-1]}ied"]
    third = f"{verb}es" if verb.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{verb}s"
    past = [f"{verb.removesuffix('e')}ed"]
    if verb[-1] not in (*_VOWELS, "w", "x", "y") and verb[-2] in _VOWELS and verb[-3:-2] not in _VOWELS:
        past.append(f"{verb}{verb[-1]}ed")  # stopped; of "visit" it makes a form that nobody writes
    return [verb, third], past


def _letters() -> dict[str, str]:
    letters: dict[str, str] = {}
    for line in load_lines("english")["irregular verbs"]:
        base, *past = line.split()
        letters |= dict.fromkeys(_forms(base)[0], "b") | dict.fromkeys(past or [base], "v")
    for verb in _WORDS["regular verbs"]:
        either, only = _forms(verb)
        letters |= dict.fromkeys(either, "b") | dict.fromkeys(only, "v")
    for letter, section in _CLASSES.items():
        letters |= dict.fromkeys(_WORDS[section], letter)
    return letters | {"of": "o", "to": "T"}


LETTERS = _letters()
"""The letter of each known word in lower case: d determiner, p preposition, x auxiliary, v verb, b verb or noun …"""
