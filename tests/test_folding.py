"""Folding: full prompts, few rounds, a hard limit, and an end, whatever the texts and whatever comes back."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_transformers.errors import ConvergenceError, UsageError
from rag_transformers.summaries.folding import Room, fold, line, split
from rag_transformers.tokens import token_counter

SIGNS = "ab。. 中文🙂👨‍👩‍👧"
HEAD = "Tell me all about it: "


def words(text: str) -> int:
    return len(text.split())


def a_room(limit: int, count: Callable[[str], int] = words, head: str = HEAD, times: int = 1) -> Room:
    """The room of a prompt that holds its texts once, or as many times as a careless template does."""
    return Room(limit, lambda texts: count(head + "\n".join([*texts] * times)), count)


def carried_out(
    texts: Sequence[str], room: Room, reply: Callable[[Sequence[str]], str]
) -> tuple[str, list[list[list[str]]]]:
    """What the texts come to, and the batches of each round."""
    work = fold(list(map(line, texts)), room)
    asked = next(work)
    rounds = [asked.batches]
    while not asked.last:
        asked = work.send([reply(batch) for batch in asked.batches])
        rounds.append(asked.batches)
    assert len(asked.batches) == 1
    with pytest.raises(StopIteration) as end:
        work.send([reply(asked.batches[0])])
    return str(end.value.value), rounds


def chain_calls(costs: Sequence[int], size: int, summary: int) -> int:
    """The calls of a chain that starts each with the summary before it and checks before it adds."""
    calls, used, started = 0, 0, False
    for cost in costs:
        if started and used + cost > size:
            calls, used = calls + 1, summary
        used, started = used + cost, True
    return calls + 1


def test_what_fits_one_prompt_is_one_round_of_one_prompt() -> None:
    result, rounds = carried_out(["Ada left.", "Bob stayed."], a_room(9), lambda batch: "Both.")
    assert (result, rounds) == ("Both.", [[["Ada left.", "Bob stayed."]]])


def test_what_does_not_fill_a_prompt_waits_and_stands_beside_the_summaries() -> None:
    texts = [f"Item {number}." for number in range(7)]
    _, rounds = carried_out(texts, a_room(11), lambda batch: "Some more.")
    assert rounds == [[texts[:3], texts[3:6]], [["Some more.", "Some more.", "Item 6."]]]


@given(texts=st.lists(st.text("ab。. 🙂0", max_size=60), min_size=2, max_size=9), size=st.integers(9, 60))
def test_every_character_stands_in_one_prompt_or_waits_once(texts: list[str], size: int) -> None:
    lines = list(filter(None, map(line, texts)))
    batches, rest = a_room(len(HEAD) + size, len).batches(lines or ["x"])
    placed = "".join("".join(batch) for batch in [*batches, rest])
    assert placed.replace(" ", "") == "".join(lines or ["x"]).replace(" ", "")


@pytest.mark.parametrize("summary", [1, 20, 100, 250, 500])
@pytest.mark.parametrize("number", [2, 90, 100, 130, 190, 200, 300, 1000])
def test_calls_are_those_of_a_chain_and_rounds_grow_with_the_logarithm(number: int, summary: int) -> None:
    """Issue 4: at most 1.3 times the calls, and 1,000 descriptions of 40 tokens in at most 4 rounds."""
    texts = [f"Number {number} {'word ' * 37}end." for number in range(number)]
    room = a_room(3800)
    _, rounds = carried_out(texts, room, lambda batch: "word " * (summary - 1) + "end.")
    calls = sum(map(len, rounds))
    assert calls <= 1.3 * chain_calls([40] * number, room.size, summary)
    assert len(rounds) <= 4


@pytest.mark.parametrize("size", [60, 300, 700, 1000, 1500, 1900, 2500, 3700])
@pytest.mark.parametrize("summary", [50, 500])
def test_long_texts_are_split_so_that_calls_stay_few(size: int, summary: int) -> None:
    texts = [f"T{number} " + "word " * (size - 2) + "end." for number in range(60)]
    room = a_room(3800)
    _, rounds = carried_out(texts, room, lambda batch: "word " * (summary - 1) + "end.")
    total = 60 * size
    least = 1 if total <= room.size else 1 + -(-(total - room.size) // (room.size - summary))
    assert sum(map(len, rounds)) <= max(2, 1.3 * least)


def test_a_text_is_split_at_the_end_of_a_sentence_and_nothing_of_it_is_lost() -> None:
    text = " ".join(f"Sentence number {number} of a long account." for number in range(40))
    _, rounds = carried_out([text, "Short."], a_room(60), lambda batch: "So it was.")
    pieces = [piece for batches in rounds for batch in batches for piece in batch if piece.startswith("Sentence")]
    assert " ".join(pieces) == text
    assert all(piece.endswith(".") for piece in pieces)


def test_a_template_that_holds_its_texts_twice_keeps_the_limit_too() -> None:
    room = a_room(100, times=2)
    texts = [f"Text number {number} with some words." for number in range(60)]
    _, rounds = carried_out(texts, room, lambda batch: "Sum.")
    sizes = [words(HEAD + "\n".join(batch * 2)) for batches in rounds for batch in batches]
    assert max(sizes) <= 100
    assert max(sizes) > 80, "the prompts are full all the same"


def test_a_counter_that_adds_marks_to_every_text_does_not_leave_prompts_half_empty() -> None:
    def marked(text: str) -> int:
        return words(text) + 2

    texts = [f"Text {number}." for number in range(500)]
    _, rounds = carried_out(texts, a_room(100, marked), lambda batch: "Sum.")
    assert sum(map(len, rounds)) <= 1.3 * chain_calls([2] * 500, 93, 1)


def test_a_summary_over_half_the_room_is_cut_to_whole_sentences() -> None:
    room = a_room(40)
    assert room.shortened("He left. " * 30) == " ".join(["He left."] * 8)
    assert room.shortened("He left.") == "He left."


MODELS: dict[str, Callable[[Sequence[str]], str]] = {
    "echoes": lambda batch: " ".join(batch),
    "doubles": lambda batch: " ".join([*batch, *batch]),
    "talks": lambda batch: "and so on " * 150,
    "one word": lambda batch: "x" * 1500,
    "mumbles": lambda batch: "。",
}

COUNTERS: dict[str, Callable[[str], int]] = {
    "estimate": token_counter("gpt-4o"),
    "bytes": lambda text: len(text.encode()),
    "characters": len,
    "quarters": lambda text: len(text) // 4,
}


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=10)
@given(
    texts=st.lists(
        st.text(max_size=100) | st.text("ab。. 中文🙂👨‍👩‍👧", min_size=50, max_size=600), min_size=2, max_size=12
    ),
    spare=st.integers(40, 600),
)
def test_the_limit_holds_and_the_rounds_end_whatever_the_texts_and_the_replies(
    model: str, counter: str, texts: list[str], spare: int
) -> None:
    texts = sorted({line(text) for text in texts} - {""})
    if len(texts) < 2:
        return
    count = COUNTERS[counter]
    limit = count(HEAD) + spare
    _, rounds = carried_out(texts, a_room(limit, count), MODELS[model])
    assert all(count(HEAD + "\n".join(batch)) <= limit for batches in rounds for batch in batches)
    total = sum(count(f"{text}\n") for text in texts)
    assert len(rounds) <= 6 + 8 * (total // spare + 1).bit_length()


@given(texts=st.lists(st.text(min_size=1, max_size=60), min_size=2, max_size=9), spare=st.integers(1, 40))
def test_in_a_room_of_a_few_tokens_it_ends_or_says_that_it_cannot(texts: list[str], spare: int) -> None:
    texts = sorted({line(text) for text in texts} - {""})
    if len(texts) < 2:
        return
    room = a_room(len(HEAD) + spare, len)
    try:
        _, rounds = carried_out(texts, room, " ".join)
    except (ConvergenceError, UsageError):
        rounds = []
    assert rounds or spare < 12
    assert all(len(HEAD + "\n".join(batch)) <= len(HEAD) + spare for batches in rounds for batch in batches)


def test_a_room_for_no_character_and_a_room_too_small_to_go_on_are_named() -> None:
    with pytest.raises(UsageError, match="no description fits a prompt of 23 tokens, of which 22 are its own"):
        carried_out(["ab", "cd"], a_room(len(HEAD) + 1, len), " ".join)
    with pytest.raises(ConvergenceError, match="room for 3 tokens") as error:
        carried_out(["abcdef", "cdefgh"], a_room(len(HEAD) + 3, len), " ".join)
    assert error.value.summaries


def test_a_piece_never_ends_within_a_character() -> None:
    family, flag = "👨‍👩‍👧", "🇨🇳"
    for text in (family * 40, flag * 40, "e\u0301" * 80):
        head, tail = split(text, 64, lambda part: len(part.encode()))
        assert head + tail == text
        assert all(head.count(part) * len(part) == len(head) for part in (family, flag, "e\u0301") if part in head)


def test_a_piece_is_nearly_as_large_as_it_may_be() -> None:
    for text in ("word " * 5000, "雨" * 5000, "x" * 5000, "Ada left the mill. " * 900):
        head, _ = split(text, 1000, len)
        assert 600 < len(head) <= 1000


def test_a_half_surrogate_becomes_a_mark_and_a_whole_pair_its_character() -> None:
    assert line("a\ud83d b") == "a\ufffd b"
    assert line("\ud83d\ude42") == "🙂"
