"""BM25 over terms: the formula, no reading twice, and the same again from its bytes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_transformers.errors import IndexDamagedError
from rag_transformers.retrieval.lexical import Lexical
from rag_transformers.text import terms

PASSAGES = [
    ("mill", "The mill by the weir ground corn. The mill burned."),
    ("weir", "The weir was built of oak."),
    ("桥", "石桥建于河上，桥下有堰。"),
    ("empty", ""),
]
TEXT = st.text(alphabet="ab c桥石河 的.", max_size=30)


def bm25(question: str, texts: list[str]) -> list[float]:
    """The formula, term by term."""
    found = [terms(text) for text in texts]
    mean = sum(map(len, found)) / len(found) or 1
    scores = []
    for words in found:
        score = 0.0
        for term in terms(question):
            holding = sum(term in other for other in found)
            rarity = math.log(1 + (len(found) - holding + 0.5) / (holding + 0.5))
            count = words.count(term)
            score += rarity * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * len(words) / mean))
        scores.append(score)
    return scores


def test_scores_follow_the_formula_in_both_languages() -> None:
    lexical = Lexical(PASSAGES)
    for question in ("Who built the mill at the weir?", "石桥建在哪里？", "weir weir mill", "nothing known"):
        np.testing.assert_allclose(lexical.scores(question), bm25(question, [text for _, text in PASSAGES]))


@given(st.lists(TEXT, min_size=1, max_size=6), TEXT)
def test_scores_follow_the_formula_for_any_text(texts: list[str], question: str) -> None:
    lexical = Lexical((str(number), text) for number, text in enumerate(texts))
    np.testing.assert_allclose(lexical.scores(question), bm25(question, texts), atol=1e-9)


@given(st.lists(st.tuples(TEXT, st.booleans()), max_size=6), st.lists(TEXT, max_size=3), TEXT)
def test_one_made_from_another_equals_one_made_anew(old: list[tuple[str, bool]], new: list[str], question: str) -> None:
    before = Lexical((f"old{number}", text) for number, (text, _) in enumerate(old))
    kept = [(f"old{number}", text) for number, (text, stays) in enumerate(old) if stays]
    passages = [*((f"new{number}", text) for number, text in enumerate(new)), *kept]
    grown, fresh = Lexical(passages, previous=before), Lexical(passages)
    assert grown.ids == fresh.ids
    assert (grown.scores(question) == fresh.scores(question)).all()


def test_what_another_one_knows_is_not_read_again() -> None:
    before = Lexical(PASSAGES)
    after = Lexical([("mill", "a text that nobody reads"), ("new", "A mill of wind.")], previous=before)
    assert after.frequency("corn") == 1
    assert after.frequency("nobody") == 0
    assert after.frequency("mill") == 2


def test_its_bytes_give_the_same_again() -> None:
    lexical = Lexical(PASSAGES)
    again = Lexical.from_bytes(lexical.to_bytes())
    assert again.ids == lexical.ids
    assert (again.scores("the mill, 石桥") == lexical.scores("the mill, 石桥")).all()
    assert Lexical(PASSAGES, previous=again).to_bytes() == lexical.to_bytes()


@pytest.mark.parametrize(("kept", "added"), [(0, b""), (-40, b""), (200, b"??")])
def test_damaged_bytes_are_refused(kept: int, added: bytes) -> None:
    whole = Lexical(PASSAGES).to_bytes()
    with pytest.raises(IndexDamagedError, match="lexical index"):
        Lexical.from_bytes(whole[:kept] + added + (whole[kept + len(added) :] if added else b""))


def test_rare_terms_tell_more_and_unknown_ones_most() -> None:
    lexical = Lexical([("a", "mill weir"), ("b", "mill lock")])
    assert 0 < lexical.idf("mill") < lexical.idf("weir") < lexical.idf("tower")


def test_no_passages_have_no_scores() -> None:
    lexical = Lexical()
    assert len(lexical) == 0
    assert lexical.scores("mill").tolist() == []
    assert Lexical.from_bytes(lexical.to_bytes()).ids == ()
