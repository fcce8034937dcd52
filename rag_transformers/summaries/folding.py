"""Texts -> one text that is made of them, in rounds: which texts stand in which prompt, within a limit of its tokens.

Pure: what is asked is yielded, what came of it is sent back. A prompt is filled before it is asked, and what does not
fill one waits for the next round, where it stands beside what came of this one. So each call but the last is full, as
in a chain that starts each call with the summary before it, and there are no more calls than in such a chain; but all
calls of a round can run at the same time, and the number of rounds grows with the logarithm of the number of texts.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from rag_transformers.borders import finer_border
from rag_transformers.errors import ConvergenceError, UsageError
from rag_transformers.text import encodable, sentence_spans

__all__ = ["Room", "Round", "fold", "line", "split"]

_FILLED = 8
"""A prompt is full if less than this part of its room is left: only for more is the next text split."""


class Round(NamedTuple):
    """The texts of each prompt of a round, and whether it is the last, which has one prompt."""

    batches: list[list[str]]
    last: bool


class Room:
    """The room that a prompt has for texts, one on each line.

    Texts are counted once each and their counts added up. As tokens can reach from one text to the next, or a template
    can hold its texts twice, the whole prompt is counted before it is taken, and the limit holds for that count.

    Args:
        limit: Tokens of a whole prompt.
        measure: The tokens of the whole prompt with these texts.
        count: Counts the tokens of a text.

    >>> room = Room(14, lambda texts: len("About: " + " ".join(texts)), len)
    >>> room.size, room.holds(["one", "two"]), room.holds(["one", "three"])
    (7, True, False)
    """

    def __init__(self, limit: int, measure: Callable[[Sequence[str]], int], count: Callable[[str], int]) -> None:
        self._limit = limit
        self._measure = measure
        self._count = count
        self._empty = count("")  # some tokenizers add marks to every text
        self._base = measure(())
        self._costs: dict[str, int] = {}
        self.size = limit - self._base
        """Tokens of texts that a prompt takes; less as soon as it shows that there they count for more."""

    def cost(self, text: str) -> int:
        """The tokens of a text and its line break, at least 1."""
        return max(1, self._count(f"{text}\n") - self._empty)

    def total(self, texts: Sequence[str]) -> int:
        """The tokens of texts."""
        return sum(map(self._known, texts))

    def holds(self, texts: Sequence[str]) -> bool:
        """Whether one prompt takes them all."""
        return self.total(texts) <= 2 * self.size and self._measure(texts) <= self._limit

    def batches(self, texts: Sequence[str]) -> tuple[list[list[str]], list[str]]:
        """As many full prompts as texts give, in their order, and the texts that are left.

        A text for which a prompt that is not full has no room is split, at a sentence's end if there is one.

        Raises:
            UsageError: There is not even room for a character.
        """
        waiting = deque(texts)
        found = []
        while waiting:
            found.append(self._batch(waiting))
        return found[:-1], found[-1]

    def shortened(self, text: str) -> str:
        """A text within half of the room, cut at the end of a sentence where it is longer."""
        most = self.size // 2
        return text if self._known(text) <= most else split(text, most, self.cost, least=0)[0] or text[:1]

    def _known(self, text: str) -> int:
        if text not in self._costs:
            self._costs[text] = self.cost(text)
        return self._costs[text]

    def _batch(self, waiting: deque[str]) -> list[str]:
        """Take the texts of one prompt from those that wait."""
        while True:
            whole, used = self._whole(waiting)
            head, tail = self._part(waiting, len(whole), self.size - used)
            batch = [*whole, head] if head else whole
            if not batch:
                raise UsageError(
                    f"no description fits a prompt of {self._limit} tokens, of which {self._base} are its own"
                )
            tokens = self._measure(batch)
            if tokens <= self._limit:
                break
            self.size = min(self.size - 1, self.size * (self._limit - self._base) // (tokens - self._base))
        for _ in batch:
            waiting.popleft()
        if tail:
            waiting.appendleft(tail)
        return batch

    def _whole(self, waiting: deque[str]) -> tuple[list[str], int]:
        """The first texts, as many as there is room for, and their tokens."""
        taken: list[str] = []
        used = 0
        for text in waiting:
            if used + self._known(text) > self.size:
                break
            taken.append(text)
            used += self._known(text)
        return taken, used

    def _part(self, waiting: deque[str], place: int, room: int) -> tuple[str, str]:
        """What of the next text fills a prompt, and the rest of it; nothing if the prompt is full."""
        if place == len(waiting) or (place and room <= self.size // _FILLED):
            return "", ""
        head, tail = split(waiting[place], room, self.cost)
        return (head, tail) if head else ("", "")


def fold(texts: Sequence[str], room: Room) -> Generator[Round, Sequence[str], str]:
    """Make one text of many.

    It ends. In each round before the last, every full prompt of more than half the room comes back as a text of at
    most half the room, so that all texts together have fewer tokens than before: a whole number that cannot fall for
    ever. Where the room is so small (a few tokens) that splitting costs more than that, the error says so.

    Args:
        texts: At least two, each on one line; see :func:`line`.
        room: The room of a prompt.

    Yields:
        Rounds; one text for each prompt is to be sent back.

    Raises:
        ConvergenceError: A round has not made the texts shorter.
        UsageError: There is not even room for a character.

    >>> room = Room(20, lambda texts: len(" ".join(texts)), len)
    >>> work = fold(["Ada left.", "Bob then stayed."], room)
    >>> next(work)
    Round(batches=[['Ada left.', 'Bob then']], last=False)
    >>> work.send(["Both."])
    Round(batches=[['Both.', 'stayed.']], last=True)
    """
    left = list(texts)
    while not room.holds(left):
        before = room.total(left)
        batches, rest = room.batches(left)
        summaries = yield Round(batches, last=False)
        left = [*(room.shortened(line(summary)) for summary in summaries), *rest]
        if room.total(left) >= before:
            raise ConvergenceError(f"a prompt has room for {room.size} tokens of descriptions: too few to go on", left)
    (summary,) = yield Round([left], last=True)
    return summary


def line(text: str) -> str:
    r"""A text on one line, as it can be sent.

    >>> line(" Ada\n left. ")
    'Ada left.'
    """
    return encodable(" ".join(text.split()))


def split(text: str, limit: int, cost: Callable[[str], int], least: float = 2 / 3) -> tuple[str, str]:
    """A text in two, the first of which keeps a limit: at a sentence's end, else a clause's, a word's, a character's.

    Args:
        text: A text that is over the limit.
        limit: The most that the first part may cost.
        cost: Counts tokens.
        least: The part of what would fit that is taken at the least, for the sake of a better border.

    >>> split("Ada left. Bob stayed. It rained.", 14, len, least=0), split("Ada left. Bob stayed.", 14, len)
    (('Ada left.', 'Bob stayed. It rained.'), ('Ada left. Bob', 'stayed.'))
    """
    fits = _fitting(text, limit, cost)
    end = _border(text, int(least * fits), fits)
    end = end if cost(text[:end].rstrip()) <= limit else fits
    return text[:end].rstrip(), text[end:].lstrip()


def _fitting(text: str, limit: int, cost: Callable[[str], int]) -> int:
    """Characters of a text that keep a limit, and nearly all that do; 0 if the first one does not."""
    fits, over, guess = 0, len(text), min(len(text), 4 * limit)
    for turn in range(64):
        if over - fits <= 1:
            break
        guess = guess if turn < 4 and fits < guess < over else (fits + over) // 2
        tokens = cost(text[:guess])
        fits, over = (guess, over) if tokens <= limit else (fits, guess)
        if 0.95 * limit <= tokens <= limit:
            break
        guess = int(0.98 * guess * limit / tokens)
    return fits or int(cost(text[:1]) <= limit)


def _border(text: str, least: int, fits: int) -> int:
    """The last good border after ``least`` and up to ``fits``: the first word of a sentence, if one begins there."""
    starts = [least + start for start, _ in sentence_spans(text[least:fits])][1:]
    return starts[-1] if starts else finer_border(text, max(least, fits // 2), fits)[0]
