"""Token counts: tiktoken's where its tables are on the machine, else an estimate by script, and never a download."""

import shutil
import socket
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel

from rag_transformers import tokens
from rag_transformers.estimate import Estimate
from rag_transformers.tokens import EstimateWarning, counter_name, token_counter

SHARED = Path(__file__).resolve().parents[2] / "shared"

ENGLISH = (
    "The lighthouse at Port Ellery was built in 1871 by the Harbour Company. Its first keeper, Orrin Vale, wrote in "
    'his log: "No ship has been lost since." He stayed for thirty-one years, and his daughter Mary took it over.\n'
)
SIMPLIFIED = "青石镇位于江边，镇上有一座建于清代的书院。林晚在书院教书二十年，学生遍布全省。她常说：“读书不为做官。”\n"
TRADITIONAL = "臺灣鐵路於一八九一年通車，連接基隆與臺北。劉銘傳主持興建，後來因為經費不足而停工。\n"
CODE = 'def total(rows: list[dict[str, int]]) -> int:\n    """The sum."""\n    return sum(row["n"] for row in rows)\n'
MIXED = "第3季度 revenue 为 ¥12,500,000 (+8.4%)，Grain Trust 🚀🚀 宣布扩建 Port Ellery 仓库。\n"

# Text, its tokens in o200k_base and in cl100k_base as tiktoken counts them.
COUNTED = {
    "English": (ENGLISH, 53, 54),
    "simplified Chinese": (SIMPLIFIED, 49, 64),
    "traditional Chinese": (TRADITIONAL, 41, 66),
    "code": (CODE, 31, 31),
    "mixed": (MIXED, 35, 43),
}


@pytest.fixture
def _unwarned() -> None:
    """As in a new process: nothing was warned of yet."""
    tokens._warn_once.cache_clear()


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize(("model", "column"), [("gpt-4o", 1), ("gpt-4", 2)])
def test_estimate_is_near_the_count_and_rather_above(kind: str, model: str, column: int) -> None:
    """On ordinary text the estimate lies between 5 % below and 25 % above tiktoken's count."""
    row = COUNTED[kind]
    assert 0.95 <= token_counter(model)(row[0] * 5) / (int(row[column]) * 5) <= 1.25


@pytest.mark.parametrize(
    "path", ["corpus_en/a_christmas_carol.txt", "corpus_en/operation_dulce_v2.md", "corpus_zh/sanguo_001-020.txt"]
)
def test_estimate_of_a_book_is_a_few_percent_above_the_count(path: str, token_tables: str) -> None:
    if not SHARED.is_dir():
        pytest.skip("../shared, with the books to count, is not there")
    text = (SHARED / "data" / path).read_text(encoding="utf-8")
    for encoding in ("o200k_base", "cl100k_base"):
        assert 1.0 <= Estimate(encoding)(text) / tokens._Tiktoken(encoding)(text) <= 1.1


@given(st.text(max_size=200))
def test_estimate_is_none_for_nothing_and_at_least_one_for_anything(text: str) -> None:
    count = token_counter()
    assert count(text) >= bool(text)
    assert count("") == 0


@given(st.text(alphabet="ab C1.\n\t 图谱龘，🚀é", max_size=60), st.integers(0, 60))
def test_estimates_of_two_parts_are_never_much_below_that_of_the_whole(text: str, cut: int) -> None:
    """A budget that is filled part by part is kept by the whole."""
    count = token_counter()
    assert count(text[:cut]) + count(text[cut:]) >= count(text) - 1


def test_tables_on_the_machine_give_tiktokens_own_counts(token_tables: str) -> None:
    import tiktoken

    for model, encoding in (("gpt-4o", "o200k_base"), ("gpt-4", "cl100k_base"), ("some-other-model", "o200k_base")):
        count = token_counter(model)
        assert counter_name(count) == encoding
        for text in ("", ENGLISH, SIMPLIFIED, MIXED, "👨‍👩‍👧", "\ud83d alone"):
            assert count(text) == len(tiktoken.get_encoding(encoding).encode_ordinary(text))


def test_long_texts_are_counted_in_pieces_that_add_up(token_tables: str) -> None:
    import tiktoken

    for text in (ENGLISH * 300, (SIMPLIFIED * 30 + "\n") * 20, CODE * 300):
        assert len(text) > 20_000
        assert token_counter("gpt-4o")(text) == len(tiktoken.get_encoding("o200k_base").encode_ordinary(text))


@pytest.mark.parametrize("run", ["a", "的", " ", "\n", ".", "ab1"])
def test_long_runs_without_a_border_can_be_counted(run: str, token_tables: str) -> None:
    """Tiktoken by itself panics on 1 MB of spaces, and older versions take minutes for letters."""
    text = run * (500_000 // len(run))
    assert 0 < token_counter("gpt-4o")(text) <= len(text)


@pytest.mark.parametrize("text", ["The tag <|endoftext|> closes a sample.", "<|im_start|>user"])
def test_special_tokens_in_a_text_are_text(text: str, token_tables: str) -> None:
    assert token_counter("gpt-4o")(text) > token_counter("gpt-4o")(text.replace("<|", "").replace("|>", ""))


@pytest.mark.usefixtures("_unwarned")
def test_without_tables_it_estimates_after_one_warning_and_asks_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counts = [token_counter(model)("abc") for model in (None, "gpt-4o", "gpt-4", "local-model")]
    assert counts == [1, 1, 1, 1]
    assert [warning.category for warning in caught] == [EstimateWarning]
    assert "TIKTOKEN_CACHE_DIR" in str(caught[0].message)


def test_damaged_table_is_left_alone_and_not_downloaded_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token_tables: str
) -> None:
    table = tmp_path / tokens._TABLES["o200k_base"][0]
    table.write_bytes(b"IQ== 0\n")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert counter_name(token_counter("gpt-4o")) == "estimate"
    assert table.read_bytes() == b"IQ== 0\n"


def test_empty_cache_variable_means_no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiktoken reads it as: download each time."""
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert counter_name(token_counter("gpt-4o")) == "estimate"


def test_tables_are_found_in_tiktokens_default_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token_tables: str
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "data-gym-cache").mkdir()
    name = tokens._TABLES["cl100k_base"][0]
    shutil.copy(Path(token_tables, name), tmp_path / "data-gym-cache" / name)
    assert counter_name(token_counter("gpt-4")) == "cl100k_base"
    assert counter_name(token_counter("unknown")) == "cl100k_base"
    assert counter_name(token_counter("gpt-4o")) == "estimate"


def test_estimate_goes_by_the_models_encoding() -> None:
    """Chinese takes half as many tokens again in the older encoding."""
    older, newer = token_counter("gpt-4"), token_counter("openai/gpt-4o-mini")
    assert (counter_name(older), counter_name(newer)) == ("estimate of cl100k_base", "estimate")
    assert older(SIMPLIFIED) > 1.3 * newer(SIMPLIFIED)


def test_langchain_model_is_counted_by_its_name_even_when_bound() -> None:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-4", api_key="none")  # type: ignore[arg-type]
    for form in (model, model.bind(max_tokens=5), model.with_retry()):
        assert counter_name(token_counter(form)) == "estimate of cl100k_base"


def test_model_that_brings_its_own_counter_is_asked() -> None:
    class Counting(FakeListChatModel):
        def get_num_tokens(self, text: str) -> int:
            return 7 * len(text)

    given_ids = FakeListChatModel(responses=["x"], custom_get_token_ids=lambda text: list(range(3 * len(text))))
    assert token_counter(Counting(responses=["x"]))("ab") == 14
    assert token_counter(Counting(responses=["x"]).bind(stop=["!"]))("ab") == 14
    assert token_counter(given_ids)("ab") == 6
    assert counter_name(token_counter(FakeListChatModel(responses=["x"]))) == "estimate"


def test_any_function_from_text_to_number_is_a_counter_with_a_name() -> None:
    class Words:
        def __call__(self, text: str, /) -> int:
            return len(text.split())

    assert counter_name(len) == "builtins.len"
    assert counter_name(Words()).endswith("Words")
