"""What the graph is made of: names and their keys, what a vertex, an edge and an extraction refuse."""

from typing import Any

import pytest

from rag_transformers import Edge, Extraction, Vertex
from rag_transformers.errors import UsageError
from rag_transformers.graph import MAX_NAME_LENGTH, name_key, shorten_name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tidewater Bank", "TIDEWATER  BANK"),
        ("Mr. Scrooge", "Mr Scrooge"),
        ("Saint-Denis", "Saint Denis"),
        ("The Gold Spoon", "gold spoon"),
        ("Scrooge’s", "Scrooge"),
        ("《三国演义》", "三国演义"),
        ("三国 演义", "三国演义"),
        ("ＴｕＧｒａｐｈ", "tugraph"),
        ("威廉·琼斯", "威廉•琼斯"),
        ("TuGraph 数据库", "TuGraph数据库"),
    ],
)
def test_spellings_of_one_name_have_one_key(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


@pytest.mark.parametrize(
    ("one", "other"), [("C#", "C"), ("C++", "C"), ("青石镇", "青石"), ("The", "A"), ("!!!", "???"), ("v1.5", "v15")]
)
def test_different_names_have_different_keys(one: str, other: str) -> None:
    assert name_key(one) != name_key(other)


@pytest.mark.parametrize("name", ["林晚", "Ω", "!!!", "the", "'s", "x" * 5000])
def test_no_name_has_an_empty_key(name: str) -> None:
    assert name_key(name)


def test_a_long_name_is_cut_and_stays_distinct() -> None:
    left, right = (shorten_name("Z" * 5000 + end) for end in ("left", "right"))
    assert left != right
    assert len(left) == len(right) == MAX_NAME_LENGTH
    assert shorten_name("Z" * MAX_NAME_LENGTH) == "Z" * MAX_NAME_LENGTH


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_names_are_not_empty(name: Any) -> None:
    with pytest.raises(UsageError, match=r"Vertex\.name"):
        Vertex(name)
    for arguments in ((name, "b", "r"), ("a", name, "r"), ("a", "b", name)):
        with pytest.raises(UsageError, match="Edge"):
            Edge(*arguments)


@pytest.mark.parametrize(
    "wrong",
    [
        {"entities": ["Ada"]},
        {"entities": [("Ada",)]},
        {"entities": [("", "summary")]},
        {"entities": [("Ada", None)]},
        {"relationships": [("a", "r", "b")]},
        {"relationships": [("a", "", "b", "")]},
        {"relationships": [("a", "r", " ", "")]},
        {"entities": [("a", "")], "types": ["x", "y"]},
        {"relationships": [("a", "r", "b", "")], "weights": [-1]},
        {"relationships": [("a", "r", "b", "")], "weights": [float("nan")]},
    ],
)
def test_what_is_no_extraction_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Extraction"):
        Extraction(**wrong)


def test_an_extraction_is_frozen_and_comes_back_from_its_data() -> None:
    found = Extraction([("林晚", "掌柜")], [("林晚", "开设", "听雨楼", "")], ["person"], [2])
    assert Extraction.from_dict(found.to_dict()) == found
    assert hash(found) == hash(Extraction.from_dict(found.to_dict()))
    with pytest.raises(AttributeError):
        found.entities = ()  # type: ignore[misc]
