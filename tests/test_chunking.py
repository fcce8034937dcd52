"""Chunks: never over their size, cut where a reader would, each with its exact span, and joined the text again."""

import statistics
from collections.abc import Callable
from itertools import pairwise
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from rag_transformers.chunking import Chunker
from rag_transformers.errors import UsageError
from rag_transformers.estimate import Estimate
from rag_transformers.tokens import TokenCounter, token_counter

ESTIMATE = Estimate("o200k_base")

ENGLISH = "\n\n".join(
    f"The keeper of lamp {number} climbed the stairs at dusk, as he did each day. He wrote the hour in his log, the "
    f'wind, and what he saw: {number} ships, most of them bound for Port Ellery. "A quiet night," he noted. At dawn he '
    f"went down again. Nobody came to see him that week; the road was under snow, and the mail was late."
    for number in range(1, 60)
)
CHINESE = "\n".join(
    f"　　第{number}日傍晚，守灯人登上塔楼，点亮了灯。他在日志里记下时辰、风向和所见：共有{number}艘船，"
    f"大多驶往青石镇。“今夜平静。”他写道。天亮以后，他才下楼休息。那一周没有人来看他；大雪封了路，信件也迟到了。"
    for number in range(1, 60)
)


def characters(text: str) -> int:
    return len(text)


def words_and_marks(text: str) -> int:
    """As a tokenizer that adds marks to every text."""
    return len(text.split()) + 2


COUNTERS: list[TokenCounter] = [ESTIMATE, Estimate("cl100k_base"), characters, words_and_marks]

PIECES = [*"ab .,!?\n\t#中谱的。，！；”—…龘\ud83d\u3000", "\r\n", "\n\n", "      ", "12345", "# Head\n", "第一回 "]
PIECES += ["🚀", "👨\u200d👩\u200d👧", "e\u0301", "🇨🇳", "Mr. ", "hello world ", "The fox ran off. ", "他说：“走吧。”"]
PIECES += ["<|endoftext|>", "\n    ", "\n　　"]
SEEN_AS_ONE = ["👨\u200d👩\u200d👧", "e\u0301", "🇨🇳", "👍🏽", "ก็", "a", "图"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=50)


@given(TEXTS, st.integers(1, 40), st.integers(0, 39), st.sampled_from(COUNTERS))
def test_spans_cover_the_text_within_the_limits(text: str, size: int, overlap: int, count: TokenCounter) -> None:
    """For every text, size and overlap; only one character, or the white space round it, can be over the size."""
    overlap = min(overlap, size - 1)
    spans = Chunker(size, overlap, count).spans(text)
    assert bool(spans) == bool(text.strip())
    if spans:
        assert (spans[0][0], spans[-1][1]) == (0, len(text))
    for start, end in spans:
        chunk = text[start:end]
        assert chunk.strip()
        assert count(chunk) <= size or len(chunk.strip()) == 1
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert start < next_start <= end < next_end
        assert next_start == end or count(text[next_start:end]) <= overlap
        assert text[end:next_end].strip()


@given(TEXTS, st.integers(1, 40), st.sampled_from(COUNTERS))
def test_chunks_without_overlap_joined_are_the_text(text: str, size: int, count: TokenCounter) -> None:
    chunks = Chunker(size, 0, count).invoke(text)
    assert "".join(chunk.page_content for chunk in chunks) == (text if text.strip() else "")


@given(st.lists(st.sampled_from(SEEN_AS_ONE), min_size=1, max_size=30), st.integers(5, 40))
def test_no_cut_inside_what_a_reader_sees_as_one_character(characters_seen: list[str], size: int) -> None:
    """Accents, joined emoji, skin tones and flags stay whole wherever one fits into a chunk."""
    text = "".join(characters_seen)
    borders = {sum(map(len, characters_seen[:number])) for number in range(len(characters_seen) + 1)}
    assert {end for _, end in Chunker(size, 0, characters).spans(text)} <= borders


def check_emoji_and_han(count: TokenCounter) -> None:
    """Case tokens-01: one character has several tokens, and no chunk begins or ends inside one."""
    text = "图谱🚀" * 200
    for size in range(5, 26):
        chunks = [chunk.page_content for chunk in Chunker(size, 0, count).invoke(text)]
        assert "".join(chunks) == text
        assert all(chunk and "\ufffd" not in chunk and count(chunk) <= size for chunk in chunks)


def check_one_counter_for_cutting_and_checking(count: TokenCounter) -> None:
    """Case tokens-02: Chinese without spaces, a full stop every 40 characters, no chunk over 300 tokens."""
    text = "".join("。" if number % 40 == 39 else "山水林田湖草沙云月风"[number % 10] for number in range(2000))
    chunks = [chunk.page_content for chunk in Chunker(300, 20, count).invoke(text)]
    assert all(count(chunk) <= 300 and chunk.endswith("。") for chunk in chunks)


def check_special_tokens_are_text(count: TokenCounter) -> None:
    """Case tokens-04."""
    text = "The tag <|endoftext|> closes a sample, <|im_start|> opens one."
    chunks = [chunk.page_content for chunk in Chunker(8, 0, count).invoke(text)]
    assert "".join(chunks) == text
    assert all(count(chunk) <= 8 for chunk in chunks)


CASES = [check_emoji_and_han, check_one_counter_for_cutting_and_checking, check_special_tokens_are_text]


@pytest.mark.parametrize("check", CASES)
@pytest.mark.parametrize("count", COUNTERS[:3], ids=["estimate", "of cl100k_base", "characters"])
def test_cases_hold_with_estimates(check: Callable[[TokenCounter], None], count: TokenCounter) -> None:
    check(count)


def test_cases_hold_with_tiktokens_tables(token_tables: str) -> None:
    for count in (token_counter("gpt-4o"), token_counter("gpt-4")):
        for check in CASES:
            check(count)


def test_character_longer_than_a_chunk_is_a_chunk() -> None:
    assert Chunker(1, 0, lambda text: 3 * len(text)).spans("图谱") == [(0, 1), (1, 2)]


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["English", "Chinese"])
@pytest.mark.parametrize("count", [ESTIMATE, characters], ids=["estimate", "characters"])
@pytest.mark.parametrize(("size", "filled", "whole"), [(100, 0.7, 0.5), (300, 0.8, 0.95), (1024, 0.85, 1.0)])
def test_chunks_of_prose_are_full_and_end_with_a_sentence(
    text: str, count: TokenCounter, size: int, filled: float, whole: float
) -> None:
    chunks = [chunk.page_content for chunk in Chunker(size, 0, count).invoke(text)]
    assert statistics.mean(count(chunk) / size for chunk in chunks[:-1]) >= filled
    assert statistics.mean(chunk.rstrip()[-1] in '.";。”；' for chunk in chunks) >= whole


def test_paragraph_end_is_preferred_to_a_sentence_end() -> None:
    """Two paragraphs of 60 and 70 characters, in chunks of 80: the second is not begun for the sake of 20."""
    first = "Ada came to the mill in spring. She stayed until the harvest."
    second = "Then she left. Nobody heard of her again, and the mill was sold."
    assert [chunk.page_content for chunk in Chunker(80, 0, characters).invoke(f"{first}\n\n{second}")] == [
        f"{first}\n\n",
        second,
    ]


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        (
            "One came. Two left, and three of them stayed on.",
            30,
            ["One came. Two left, ", "and three of them stayed on."],
        ),
        ("春天来了，花开了，鸟也飞回来了", 10, ["春天来了，花开了，", "鸟也飞回来了"]),
        ("wandering everywhere nowhere", 19, ["wandering ", "everywhere nowhere"]),
        ("abcdefghijklmnop", 10, ["abcdefghij", "klmnop"]),
    ],
    ids=["clause", "Chinese clause", "word", "character"],
)
def test_long_sentence_is_cut_at_the_next_best_border(text: str, size: int, expected: list[str]) -> None:
    assert [chunk.page_content for chunk in Chunker(size, 0, characters).invoke(text)] == expected


@pytest.mark.parametrize("heading", ["# The mill", "## 磨坊", "第二回 磨坊旧事", "Chapter 2: The mill"])
def test_heading_stays_with_the_text_after_it(heading: str) -> None:
    before = "Nothing had happened all day long. " * 3
    text = f"{before}\n\n{heading}\n\nThen the wheel broke. It was repaired at once."
    chunks = [chunk.page_content for chunk in Chunker(len(before) + len(heading) + 8, 0, characters).invoke(text)]
    assert chunks == [f"{before}\n\n", f"{heading}\n\nThen the wheel broke. It was repaired at once."]


@pytest.mark.parametrize("text", ["", " ", "\n\u3000\t\n"])
def test_blank_document_has_no_chunk(text: str) -> None:
    assert Chunker().invoke(text) == []


def test_indentation_stays_with_its_line() -> None:
    text = "def one():\n    return 1\n\n\n    # Two is next.\n　　三在后面，走得很慢。"
    chunks = [chunk.page_content for chunk in Chunker(26, 0, characters).invoke(text)]
    assert chunks == ["def one():\n    return 1\n\n\n", "    # Two is next.\n", "　　三在后面，走得很慢。"]


def test_white_space_stays_with_a_neighbour_however_long() -> None:
    text = "   Ada.\n" + "\n" * 40 + "Bob." + " " * 40
    chunks = [chunk.page_content for chunk in Chunker(8, 0, characters).invoke(text)]
    assert "".join(chunks) == text
    assert all(chunk.strip() for chunk in chunks)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_overlap_begins_at_a_sentence_or_a_clause_and_is_near_what_was_asked(text: str) -> None:
    spans = Chunker(200, 60, ESTIMATE).spans(text)
    shared = [text[start:end] for (_, end), (start, _) in pairwise(spans)]
    assert statistics.mean(ESTIMATE(part) for part in shared) >= 25
    begins = [text[:start].rstrip()[-1] in '.",;:。”，；：、' for start, _ in spans[1:]]
    assert sum(begins) >= 0.9 * len(begins)


def test_overlap_that_leaves_no_room_is_given_up() -> None:
    assert Chunker(3, 2, lambda text: 2 * len(text) - 1).spans("图谱图谱") == [(0, 2), (1, 3), (2, 4)]
    assert Chunker(3, 2, lambda text: 2 * len(text)).spans("图谱") == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("size", "overlap", "said"),
    [
        (0, 0, "chunk_size is 0; it must be a whole number of at least 1"),
        (-5, 0, "chunk_size is -5"),
        (True, 0, "chunk_size is True"),
        (10.5, 0, "chunk_size is 10.5"),
        (10, -1, "chunk_overlap is -1; it must be a whole number of at least 0"),
        (10, False, "chunk_overlap is False"),
        (10, 10, "chunk_overlap is 10; it must be below chunk_size, which is 10"),
        (10, 20, "chunk_overlap is 20"),
    ],
)
def test_wrong_size_or_overlap_is_refused_with_its_range(size: int, overlap: int, said: str) -> None:
    with pytest.raises(UsageError) as error:
        Chunker(size, overlap)
    assert said in str(error.value)


@pytest.mark.parametrize("wrong", [None, 5, ["text"], b"text"])
def test_only_documents_and_texts_are_cut(wrong: object) -> None:
    with pytest.raises(UsageError, match="give a Document or a str"):
        Chunker().split(wrong)  # type: ignore[arg-type]


def test_chunks_carry_their_documents_metadata_and_their_place() -> None:
    metadata = {"source": "in/灯塔.txt", "title": "灯塔", "year": 1871}
    chunks = Chunker(100, 10, ESTIMATE).invoke(Document(CHINESE, metadata=metadata))
    assert len(chunks) > 5
    for number, chunk in enumerate(chunks):
        place = {"chunk": number, "start": chunk.metadata["start"], "end": chunk.metadata["end"]}
        assert chunk.metadata == {**metadata, **place}
        assert CHINESE[place["start"] : place["end"]] == chunk.page_content
    assert metadata == {"source": "in/灯塔.txt", "title": "灯塔", "year": 1871}


def test_document_without_a_source_is_called_by_its_text() -> None:
    named = [Chunker().invoke(text)[0].metadata["source"] for text in ("Ada left.", "Ada left.", "Bob left.")]
    assert named[0] == named[1] != named[2]
    assert named[0].startswith("text-")
    assert Chunker().invoke(Document("Ada left.", metadata={"source": ""}))[0].metadata["source"] == named[0]
    path = Document("Ada left.", metadata={"source": PurePosixPath("in/a.txt")})
    assert Chunker().invoke(path)[0].metadata["source"] == "in/a.txt"


def test_ids_differ_for_equal_chunks_and_sources_and_stay_when_another_part_is_edited() -> None:
    footer = "The foot of each page, here.\n\n"
    text = f"{footer}Body text of some length, one.\n\n{footer}Body text of some length, two.\n\n"

    def ids(text: str, source: str = "a.txt") -> list[str | None]:
        return [chunk.id for chunk in Chunker(32, 0, characters).invoke(Document(text, metadata={"source": source}))]

    assert len(set(ids(text))) == 4
    assert ids(text) == ids(text)
    assert not set(ids(text)) & set(ids(text, "b.txt"))
    edited = ids(text.replace("one", "1st"))
    assert [new == old for new, old in zip(edited, ids(text), strict=True)] == [True, False, True, True]


def test_chunker_is_a_runnable_that_is_traced_batched_and_composed() -> None:
    seen: list[str] = []
    chunker = Chunker(20, 0, characters)
    chain = chunker | RunnableLambda(len)
    config = {"callbacks": [], "run_name": "cut"}
    assert chain.batch(["Ada left. Bob stayed on.", "Short."], config=config) == [2, 1]  # type: ignore[arg-type]
    listened = chunker.with_listeners(on_end=lambda run: seen.append(run.name))
    listened.invoke("Ada left.")
    assert seen == ["Chunker"]


async def test_async_chunks_are_the_same() -> None:
    chunker = Chunker(50, 5, ESTIMATE)
    documents: list[Document | str] = [
        Document(text, metadata={"source": str(number)}) for number, text in enumerate((ENGLISH, CHINESE))
    ]
    assert await chunker.abatch(documents) == [chunker.invoke(document) for document in documents]


def test_cache_key_tells_settings_apart_but_not_machines() -> None:
    keys = [Chunker(), Chunker(512), Chunker(1024, 0), Chunker(counter=len), Chunker(counter=ESTIMATE)]
    assert len({chunker.cache_key for chunker in keys}) == 5
    assert Chunker().cache_key == Chunker(1024, 20).cache_key == "1024 20 default"


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "的" * 1_000_000,
        "word another " * 77_000,
        "甲，" * 250_000,
        "." * 1_000_000 + "x",
        "x" + " " * 1_000_000 + "y",
        "a" + "\u0301" * 500_000,
        "🇨🇳" * 100_000,
        ENGLISH * 200,
    ],
    ids=["letters", "Han", "words", "clauses", "dots", "spaces", "accents", "flags", "prose"],
)
def test_work_grows_with_the_length_of_the_text_whatever_is_in_it(text: str) -> None:
    """What is counted adds up to a small multiple of the text: once by sentences, once by chunks, and some trials."""
    counted = 0

    def count(part: str) -> int:
        nonlocal counted
        counted += len(part)
        return ESTIMATE(part)

    spans = Chunker(counter=count).spans(text)
    assert spans[-1][1] == len(text)
    assert counted < 5 * len(text)


def test_each_sentence_of_prose_is_counted_once_and_each_chunk_once() -> None:
    counted: list[str] = []

    def count(part: str) -> int:
        counted.append(part)
        return ESTIMATE(part)

    text = ENGLISH * 5
    Chunker(1024, 0, count).spans(text)
    assert sum(map(len, counted)) < 2.3 * len(text)
