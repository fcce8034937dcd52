"""How much of a damaged reply comes back: recorded replies of real models, damaged in 33 ways, read again.

    python benchmarks/damage.py --data DIR [--seed 0] [--verbose]

The tuples of the recorded replies (GPT-3.5, GPT-4o, Llama 3, DeepSeek; English and Chinese) are rendered as ``#``
records. Each kind of damage is a small function from a reply to its damaged text. Printed for each kind: the share of
the entities and relationships left whole in the damaged text that come back intact, in every field, and how many
records came back that were never there.
"""

import argparse
import json
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from given_data import parsed

from rag_transformers.graph import Extraction
from rag_transformers.records import parse_records
from rag_transformers.text import language_of

Row = tuple[str, ...]
RECORDED = (
    "recorded_en/carol_gpt35/extraction.jsonl",
    "recorded_en/carol_gpt4o/extraction.jsonl",
    "recorded_en/messy_llama3.jsonl",
    "recorded_zh/anesthesia_gpt4o.jsonl",
    "recorded_zh/honglou10_deepseek/extraction.jsonl",
)


@dataclass(frozen=True)
class Reply:
    """One recorded reply: its records, what its damaged text is made of, and how the model stopped."""

    entities: tuple[Row, ...]
    relationships: tuple[Row, ...]
    language: str
    text: str = ""
    finish_reason: str = "stop"

    def written(self) -> "Reply":
        """With the text of its records, undamaged."""
        return replace(self, text=render(self))


def render(
    reply: Reply,
    record: Callable[[Row], str] = lambda row: f"({'#'.join(row)})",
    line: Callable[[int, str], str] = lambda number, text: text,
    headings: tuple[str, str] = ("Entities:", "Relationships:"),
    between: str = "\n",
) -> str:
    """The text of a reply, its records and lines written by these functions."""
    sections = []
    for heading, rows in zip(headings, (reply.entities, reply.relationships), strict=True):
        body = between.join(line(number, record(row)) for number, row in enumerate(rows, 1))
        sections.append(f"{heading}\n{body}" if heading else body)
    return "\n\n".join(sections)


# ── The recorded replies ─────────────────────────────────────────────────────────────────────────────────────────────


TUPLE = re.compile(r"\(\"?((?:entity|relationship)\"?<\|>.*?)\)?\s*(?=##|<\|COMPLETE|\n\s*\(|\n\n|$)", re.DOTALL)


def recorded(data: Path) -> Iterator[Reply]:
    """The recorded replies that hold records, their tuples as rows."""
    for name in RECORDED:
        for line in (data / name).read_text(encoding="utf-8").split("\n"):
            item = json.loads(line) if line.strip() else {}
            if item.get("kind", "extraction") != "extraction":
                continue
            for text in (item.get("completion"), item.get("gleaning")):
                reply = as_reply(text or "")
                if reply.entities or reply.relationships:
                    yield reply


def as_reply(completion: str) -> Reply:
    """The tuples of a completion as rows of the ``#`` format, with its marks replaced as our prompt asks for."""
    entities: dict[Row, None] = {}
    relationships: dict[Row, None] = {}
    language = language_of(completion)
    for record in TUPLE.finditer(completion):
        parts = [field(part) for part in record.group(1).split("<|>")]
        if len(parts) >= 4 and parts[0] == "entity" and parts[1]:
            entities[parts[1], parts[3]] = None
        elif len(parts) >= 4 and parts[0] == "relationship" and parts[1] and parts[2]:
            relation = "有关" if language == "zh" else "is tied to"
            relationships[parts[1], relation, parts[2], parts[3]] = None
    return Reply(tuple(entities), tuple(relationships), language)


def field(text: str) -> str:
    """A field of a tuple, as it can stand in a record: brackets without partner are replaced, too."""
    text = re.sub(r"\s+", " ", re.sub("[#＃:]", "_", text)).strip().strip("\"“”'*_` ")
    depths = list(accumulate((mark in "(（") - (mark in ")）") for mark in text))
    return text if min(depths, default=0) == sum(depths[-1:]) == 0 else re.sub("[()（）]", "_", text)


# ── Damage ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def no_damage(reply: Reply, rng: random.Random) -> Reply:
    return reply.written()


def code_fence(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=f"```{rng.choice(['', 'text', 'plaintext', 'markdown'])}\n{render(reply)}\n```")


def chatter(reply: Reply, rng: random.Random) -> Reply:
    before, after = "Sure! I read it all (twice) and found this:", "Let me know if you need more (or less) of it."
    if reply.language == "zh":
        before, after = "好的，以下是结果：", "如需更多细节（或更少），请告诉我。"
    return replace(reply, text=f"{before}\n\n{render(reply)}\n\n{after}")


def byte_order_mark(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text="\ufeff" + render(reply))


def crlf(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=render(reply).replace("\n", "\r\n"))


def bullets(reply: Reply, rng: random.Random) -> Reply:
    mark = rng.choice(["- ", "* ", "• ", "  + "])
    return replace(reply, text=render(reply, line=lambda number, text: mark + text))


def numbering(reply: Reply, rng: random.Random) -> Reply:
    form = rng.choice(["{}. ", "{}) ", "({}) ", "{}、", "**{}.** "])
    return replace(reply, text=render(reply, line=lambda number, text: form.format(number) + text))


def bold_headings(reply: Reply, rng: random.Random) -> Reply:
    form = rng.choice(["**{}:**", "**{}**:", "### **{}**", "__{}__:"])
    return replace(reply, text=render(reply, headings=(form.format("Entities"), form.format("Relationships"))))


def around_names(reply: Reply, left: str, right: str) -> Reply:
    def record(row: Row) -> str:
        return f"({'#'.join(f'{left}{part}{right}' if at % 2 == 0 and part else part for at, part in enumerate(row))})"

    def entity_or_edge(row: Row) -> str:
        return record(row) if len(row) == 4 else f"({left}{row[0]}{right}#{row[1]})"

    return replace(reply, text=render(reply, record=entity_or_edge))


def bold_names(reply: Reply, rng: random.Random) -> Reply:
    return around_names(reply, "**", "**")


def code_marks(reply: Reply, rng: random.Random) -> Reply:
    if rng.random() < 0.5:
        return around_names(reply, "`", "`")
    return replace(reply, text=render(reply, line=lambda number, text: f"`{text}`"))


def full_width_brackets(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=render(reply, record=lambda row: f"（{'#'.join(row)}）"))


def full_width_separator(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=render(reply, record=lambda row: f"({'＃'.join(row)})"))


def full_width_colon(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=render(reply, headings=("Entities：", "Relationships：")))


def mixed_widths(reply: Reply, rng: random.Random) -> Reply:
    def record(row: Row) -> str:
        text = row[0]
        for part in row[1:]:
            text += rng.choice("#＃") + part
        return rng.choice("(（") + text + rng.choice(")）")

    return replace(reply, text=render(reply, record=record))


def translated_headings(reply: Reply, rng: random.Random) -> Reply:
    pairs = [("实体：", "关系："), ("实体列表", "关系列表"), ("### 实体（Entities）", "### 关系（Relationships）")]
    return replace(reply, text=render(reply, headings=rng.choice(pairs)))


def no_headings(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=render(reply, headings=("", "")))


def sections_swapped(reply: Reply, rng: random.Random) -> Reply:
    entities, relationships = render(reply).split("\n\nRelationships:", 1)
    return replace(reply, text=f"Relationships:{relationships}\n\n{entities}")


def answer_twice(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=f"{render(reply)}\n\n{render(reply)}")


DRAFT = "I look for names.\nEntities:\n(Some Person#perhaps)\nRelationships:\n(Some Person#knows#Some Place#unsure)\n"


def reasoning(reply: Reply, rng: random.Random) -> Reply:
    tag = rng.choice(["think", "thinking", "reasoning"])
    return replace(reply, text=f"<{tag}>\n{DRAFT}</{tag}>\n\n{render(reply)}")


def reasoning_unopened(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=f"{DRAFT}</think>\n\n{render(reply)}")


def quotes(reply: Reply, rng: random.Random) -> Reply:
    left, right = rng.choice([('"', '"'), ("“", "”"), ("'", "'")])

    def record(row: Row) -> str:
        return f"({'#'.join(f'{left}{part}{right}' if part else part for part in row)})"

    return replace(reply, text=render(reply, record=record))


def commas(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=render(reply, between=rng.choice([",\n", ";\n", "，\n", "；\n"])))


def several_on_a_line(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=render(reply, between=rng.choice([" ", ", ", "; ", "，", ""])))


def wrapped(reply: Reply, rng: random.Random) -> Reply:
    """One record in three is wrapped inside its summary, not where the next line would start like a record."""

    def line(number: int, text: str) -> str:
        head, mark, summary = text.rpartition("#")
        places = [found.start() for found in re.finditer(r" (?=[^\s()（）])", summary)]
        if rng.random() > 1 / 3 or not places:
            return text
        place = rng.choice(places)
        return f"{head}{mark}{summary[:place]}\n{summary[place + 1 :]}"

    return replace(reply, text=render(reply, line=line))


def closing_missing(reply: Reply, rng: random.Random) -> Reply:
    """One record in three lacks its bracket; talk follows, so that the last one is not cut off.

    Not one that ends in two: what is left then ends in a bracket, and nobody can say which of the two is missing.
    """

    def line(number: int, text: str) -> str:
        return text[:-1] if rng.random() < 1 / 3 and text[-2] not in ")）" else text

    text = render(reply, line=line)
    return replace(reply, text=f"{text}\n\nThat is all.")


def opening_missing(reply: Reply, rng: random.Random) -> Reply:
    return replace(reply, text=render(reply, line=lambda number, text: text[1:] if rng.random() < 1 / 3 else text))


def tabs_and_spaces(reply: Reply, rng: random.Random) -> Reply:
    def record(row: Row) -> str:
        return f"(\t{'  #  '.join(part.replace(' ', chr(9)) for part in row)}  )"

    return replace(reply, text=render(reply, record=record))


def extra_field(reply: Reply, rng: random.Random) -> Reply:
    """A score behind each summary, which then belongs to it."""
    return appended(reply, lambda: f"#{rng.randint(1, 9)}")


def no_summary(reply: Reply, rng: random.Random) -> Reply:
    bare = changed(reply, lambda row: (*row[:-1], ""))
    return replace(bare, text=render(bare, record=lambda row: f"({'#'.join(row[:-1])})"))


def brackets_in_summary(reply: Reply, rng: random.Random) -> Reply:
    marks = rng.choice(
        ["see (part 2) and (3 (b)) of it", "有关（见第二节）", "steps 1) open 2) close", "rev. c) of it"]
    )
    return appended(reply, lambda: f" {marks}")


def separator_in_summary(reply: Reply, rng: random.Random) -> Reply:
    marks = rng.choice(["tickets #118 and #204", "第＃3号", "job #31, see rule #4"])
    return appended(reply, lambda: f" {marks}")


def end_marker(reply: Reply, rng: random.Random) -> Reply:
    mark = rng.choice(["<|COMPLETE|>", "</s>", "<|im_end|>", "[DONE]", "\n<|COMPLETE|>"])
    return replace(reply, text=render(reply) + mark)


def control_characters(reply: Reply, rng: random.Random) -> Reply:
    marks = "\x00\x07\x0c\x1b\x7f\u200b\u2060\ufeff\u00ad\u200e"
    text = [character + rng.choice(marks) if rng.random() < 0.02 else character for character in render(reply)]
    return replace(reply, text="".join(text))


def cut(reply: Reply, rng: random.Random) -> Reply:
    """Cut at a random place; whole are the records that close before it."""
    text = render(reply)
    text = text[: rng.randrange(len(text))]
    lines = set(text.split("\n"))
    entities = tuple(row for row in reply.entities if f"({'#'.join(row)})" in lines)
    relationships = tuple(row for row in reply.relationships if f"({'#'.join(row)})" in lines)
    return replace(reply, entities=entities, relationships=relationships, text=text, finish_reason="length")


def appended(reply: Reply, marks: Callable[[], str]) -> Reply:
    """A reply with something behind each summary, where there is one."""
    return changed(reply, lambda row: (*row[:-1], f"{row[-1]}{marks()}" if row[-1] else "")).written()


def changed(reply: Reply, change: Callable[[Row], Row]) -> Reply:
    """A reply with other records; equal ones once."""
    entities, relationships = map(change, reply.entities), map(change, reply.relationships)
    return replace(reply, entities=tuple(dict.fromkeys(entities)), relationships=tuple(dict.fromkeys(relationships)))


KINDS: tuple[Callable[[Reply, random.Random], Reply], ...] = (
    *(no_damage, code_fence, chatter, byte_order_mark, crlf, bullets, numbering, bold_headings, bold_names, code_marks),
    *(full_width_brackets, full_width_separator, full_width_colon, mixed_widths, translated_headings, no_headings),
    *(sections_swapped, answer_twice, reasoning, reasoning_unopened, quotes, commas, several_on_a_line, wrapped),
    *(closing_missing, opening_missing, tabs_and_spaces, extra_field, no_summary, brackets_in_summary),
    *(separator_in_summary, end_marker, control_characters, cut),
)


# ── Counting ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Count:
    """Records that were whole, that came back intact, and that came back though they were never there."""

    whole: int = 0
    back: int = 0
    invented: int = 0

    def add(self, wanted: Iterable[Row], got: Iterable[Row]) -> list[Row]:
        """Count one reply; the records that differ."""
        wanted, got = dict.fromkeys(wanted), dict.fromkeys(got)
        self.whole += len(wanted)
        self.back += sum(row in got for row in wanted)
        self.invented += sum(row not in wanted for row in got)
        return [row for row in wanted if row not in got] + [row for row in got if row not in wanted]

    def share(self) -> float:
        """Per cent of the whole records that came back."""
        return 100 * self.back / self.whole if self.whole else 100.0


def read(reply: Reply) -> Extraction:
    return parse_records(reply.text, finish_reason=reply.finish_reason).extraction()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="show the first records of each kind that differ")
    options = parsed(parser, "recorded replies")
    replies = list(recorded(options.data))
    print(f"{len(replies)} replies\n\n{'kind':<22}{'entities':>18}{'relationships':>20}{'invented':>10}")
    total = Count()
    for kind in KINDS:
        measure(kind, replies, options.seed, options.verbose, total)
    print(f"\n{'over all':<22}{total.share():>17.2f}%{'':>20}{total.invented:>10}")
    return 0


def measure(
    kind: Callable[[Reply, random.Random], Reply], replies: list[Reply], seed: int, verbose: bool, total: Count
) -> None:
    """Damage all replies in one way, and print what comes back."""
    rng = random.Random(f"{seed} {kind.__name__}")
    entities, relationships = Count(), Count()
    differing = []
    for reply in replies:
        damaged = kind(reply, rng)
        got = read(damaged)
        differing += entities.add(damaged.entities, got.entities)
        differing += relationships.add(damaged.relationships, got.relationships)
    invented = entities.invented + relationships.invented
    counts = [f"{count.share():.2f}% of {count.whole}" for count in (entities, relationships)]
    print(f"{kind.__name__:<22}{counts[0]:>18}{counts[1]:>20}{invented:>10}", flush=True)
    for row in differing[:6] if verbose else ():
        print("   ", row)
    total.whole += entities.whole + relationships.whole
    total.back += entities.back + relationships.back
    total.invented += invented


if __name__ == "__main__":
    sys.exit(main())
