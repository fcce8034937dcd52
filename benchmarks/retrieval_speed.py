"""How long a question takes as an index grows, and what a small addition costs. No model, no embeddings, no files.

    python benchmarks/retrieval_speed.py [--sizes 1000,5000,20000] [--questions 50]

Passages are made up: a title and four sentences with names, of which there are more the more passages there are, as in
real texts; vectors are random, 512 numbers a sentence. Prints CPU milliseconds a question by step, with the question's
own vector (2 to 3 ms) and the reading of the k best chunks from the database (2 ms) not counted; and CPU seconds for
everything from scratch, and for ten passages more.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rag_transformers.retrieval.lexical import Lexical
from rag_transformers.retrieval.mentions import Mentions, Said
from rag_transformers.retrieval.name_reading import question_names
from rag_transformers.retrieval.nearness import SentenceVectors
from rag_transformers.retrieval.ranking import fused, ordered
from rag_transformers.retrieval.walk import NameGraph

SYLLABLES = "an bel cor dun el far gil hol im jor kel lun mar nor os pen quil ros sal tor ul ver wen yar zel"
SYLLABLE = SYLLABLES.split(" ")
STEPS = ("cosines", "words", "names", "walk", "order")


def spent(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def name(number: int) -> str:
    first, second = divmod(number, len(SYLLABLE) ** 2)
    parts = [SYLLABLE[number % 25] + SYLLABLE[number // 25 % 25], SYLLABLE[first % 25] + SYLLABLE[second % 25]]
    return " ".join(part.capitalize() for part in parts)


class Passages:
    """Passages that are the same for the same number, whatever the size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def said(self, stamps: Sequence[str]) -> list[Said]:
        """What each says."""
        return [self.one(int(stamp)) for stamp in stamps]

    def one(self, number: int) -> Said:
        """A title, four sentences of 18 words, and seven names, common ones more often."""
        draw = random.Random(number)
        names = [name(min(int(draw.paretovariate(0.6)) + number // 7, 15000)) for _ in range(6)]
        sentences = []
        for place in range(4):
            filler = " ".join(SYLLABLE[min(int(draw.paretovariate(0.7)), 24)] * 2 for _ in range(14))
            sentences.append(f"{names[place]} {filler} {names[place + 2]}.")
        return Said(name(number), sentences, names)

    def text(self, number: int) -> str:
        """The whole text."""
        said = self.one(number)
        return f"{said.title}\n{' '.join(said.sentences)}"


def measure(size: int, questions: int) -> None:
    passages = Passages(size)
    ids = [str(number) for number in range(size)]
    rows = np.random.default_rng(0).standard_normal((4 * size, 512), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    by_id = {id: rows[4 * place : 4 * place + 4] for place, id in enumerate(ids)}
    lexical_time, lexical = spent(lambda: Lexical((id, passages.text(int(id))) for id in ids))
    mentions_time, mentions = spent(lambda: Mentions(ids, passages.said))
    graph_time, graph = spent(lambda: NameGraph(mentions))
    vectors = SentenceVectors(ids, mentions.chunk_sentences, lambda wanted: {id: by_id[id] for id in wanted}, True)
    times = dict.fromkeys(STEPS, 0.0)

    def timed(step: str, work: Callable[[], Any]) -> Any:
        seconds, result = spent(work)
        times[step] += seconds
        return result

    def ask(number: int) -> None:
        said = passages.one(number * size // questions)
        question = f"Who {said.sentences[0].split(' ', 3)[2]} with {said.title} and {next(iter(said.names))}?"
        near = timed("cosines", lambda: vectors.near(rows[number].tolist()))
        words = timed("words", lambda: lexical.scores(question))
        asked = timed("names", lambda: mentions.named_in(question, question_names(question)))
        likeness = fused(words, near.chunks, near.floor)
        scores = timed("walk", lambda: graph.walk(graph.active(asked, near.sentences), likeness))
        timed("order", lambda: ordered(lexical.ids, scores, words, near.chunks, 10))

    for number in range(questions):
        ask(number)
    more = [*ids, *(str(size + number) for number in range(10))]
    again, _ = spent(lambda: NameGraph(Mentions(more, passages.said, mentions)))
    each = {step: 1000 * seconds / questions for step, seconds in times.items()}
    parts = "  ".join(f"{step} {value:5.1f}" for step, value in each.items())
    print(
        f"{size:7} passages, {len(mentions.names):6} names: {sum(each.values()):6.1f} ms a question ({parts});  "
        f"words {lexical_time:.1f} s, names {mentions_time + graph_time:.1f} s, ten more {again:.2f} s",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="1000,5000,20000")
    options.add_argument("--questions", type=int, default=50)
    given = options.parse_args()
    for size in given.sizes.split(","):
        measure(int(size), given.questions)


if __name__ == "__main__":
    main()
