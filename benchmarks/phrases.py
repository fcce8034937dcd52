"""How well and how fast the extraction without a model works.

    python benchmarks/phrases.py --data DIR [--only finre carb names graph]

finre   pairs of companies in Chinese sentences (FinRE). Direction is ignored. *strict*: both names equal the
        annotated ones; *lenient*: each is contained in the other's, either way round. The annotation names one pair of
        a sentence, related or not, so precision is given twice: of all pairs found, and of those that are annotated.
carb    pairs of arguments in English sentences (CaRB), beside the OpenIE5 output that comes with it. In the spirit of
        CaRB's scorer, arguments match by their words, stop words aside. *lenient*: all words of the shorter are in the
        longer; *strict*: the F1 of their words is .5 or more. Our extractions tie names and noun phrases of two words
        or more, never a pronoun or a single common noun, as OpenIE does: so recall is also given on the pairs of which
        both ends hold a name.
names   names in English passages that no rule was made on (musique) against those that GPT-3.5 was recorded to find.
        *lenient*: one is contained in the other, at word borders. What GPT-3.5 left out counts as wrong.
graph   both novels, chunked, extracted and folded: the best connected vertices, and speed in CPU seconds.
"""

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from given_data import parsed

from rag_transformers.chunking import Chunker
from rag_transformers.errors import UsageError
from rag_transformers.graph import Extraction, name_key
from rag_transformers.phrases import PhraseExtractor, names

Pair = tuple[str, str]
Match = Callable[[str, str], bool]

TOGETHER = ("co-occurs with", "同现")
STOP_WORDS = re.compile(r"(?:an?|the|of|in|on|at|to|for|by|with|and|or|s|is|was|are|were|be)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["finre", "carb", "names", "graph"], default=[])
    arguments = parsed(parser, "the sets FinRE, CaRB, MuSiQue and two books")
    parts = {"finre": finre, "carb": carb, "names": held_names, "graph": graph}
    for name, part in parts.items():
        if not arguments.only or name in arguments.only:
            print(f"\n== {name}")
            part(arguments.data)


def extractors() -> Iterator[tuple[str, PhraseExtractor]]:
    """The rules, and spaCy where it is installed."""
    for english in ("rules", "spacy"):
        try:
            yield english, PhraseExtractor(english=english)
        except UsageError as missing:
            print(f"({missing})")


def finre(data: Path) -> None:
    rows = [json.loads(line) for line in (data / "finre" / "valid.jsonl").read_text(encoding="utf-8").splitlines()]
    extractor = PhraseExtractor(language="zh", english="rules")
    found = [extractor.invoke(row["text"].replace("<N>", "5")) for row in rows]
    related = [_pairs((head, tail) for head, _, tail in row["triples"]) for row in rows]
    unrelated = [_pairs(row["unrelated"]) for row in rows]
    named = [{name for pair in [*yes, *no] for name in pair} for yes, no in zip(related, unrelated, strict=True)]
    ours = [[name for name, _ in extraction.entities] for extraction in found]
    print(f"backend {extractor.backends['zh']}; {len(rows)} sentences, {sum(map(len, related))} related pairs")
    for rule, match in {"strict": str.__eq__, "lenient": _contains}.items():
        hits = sum(
            any(match(name, other) for other in mine) for want, mine in zip(named, ours, strict=True) for name in want
        )
        print(f"  annotated names found, {rule}: {hits / sum(map(len, named)):.3f}")
    for kind, pairs in _kinds(found).items():
        for rule, match in {"strict": str.__eq__, "lenient": _contains}.items():
            recall = _share(related, pairs, match)
            annotated = [
                [pair for pair in mine if _meets(pair, [*yes, *no], match)]
                for mine, yes, no in zip(pairs, related, unrelated, strict=True)
            ]
            precision, among = _share(pairs, related, match), _share(annotated, related, match)
            print(
                f"  {kind:22} {rule:8} recall {recall:.3f}  precision {precision:.3f} of {sum(map(len, pairs))} pairs, "
                f"{among:.3f} of the {sum(map(len, annotated))} annotated"
            )
    base = sum(map(len, related)) / (sum(map(len, related)) + sum(map(len, unrelated)))
    print(f"  (of all annotated pairs {base:.3f} are related)")


def carb(data: Path) -> None:
    gold = _carb_gold(data / "carb" / "dev_gold.tsv")
    sentences = list(gold)
    want = [gold[sentence] for sentence in sentences]
    with_names = [[pair for pair in pairs if all(re.search(r"[A-Z]", end) for end in pair)] for pairs in want]
    print(f"{len(sentences)} sentences, {sum(map(len, want))} pairs, {sum(map(len, with_names))} between two names")
    openie5 = _openie5(data / "carb" / "dev_openie5.txt")
    outputs = {"OpenIE5": [openie5.get(sentence, []) for sentence in sentences]}
    for backend, extractor in extractors():
        for kind, pairs in _kinds([extractor.invoke(sentence) for sentence in sentences]).items():
            outputs[f"{backend}, {kind}"] = pairs
    for label, pairs in outputs.items():
        for rule, match in {"strict": _half_of_the_words, "lenient": _all_of_the_shorter}.items():
            recall, precision = _share(want, pairs, match), _share(pairs, want, match)
            f1 = 2 * precision * recall / (precision + recall or 1)
            between = _share(with_names, pairs, match)
            print(
                f"  {label:29} {rule:8} precision {precision:.3f} of {sum(map(len, pairs)):4}  recall {recall:.3f}  "
                f"F1 {f1:.3f}  recall between names {between:.3f}"
            )


def held_names(data: Path) -> None:
    folder = data / "qa" / "musique"
    passages = {row["id"]: row["text"] for row in map(json.loads, _lines(folder / "passages.jsonl"))}
    recorded = {row["id"]: row for row in map(json.loads, _lines(folder / "openie_gpt35.jsonl"))}
    for backend, extractor in extractors():
        chosen = [key for key in passages if key in recorded][:: 1 if backend == "rules" else 4]
        totals = [0] * 6
        for key in chosen:
            mine = {name_key(mention.name) for mention in names(passages[key], english=extractor.english)}
            triples = [triple for triple in recorded[key]["triples"] if len(triple) == 3]
            said = {name_key(end) for end in [*recorded[key]["entities"], *(t[i] for t in triples for i in (0, 2))]}
            want = {name_key(entity) for entity in recorded[key]["entities"] if _is_name(entity)}
            counts = [mine & said, {n for n in mine if _within(n, said)}, mine]
            counts += [want & mine, {n for n in want if _within(n, mine)}, want]
            totals = [total + len(part) for total, part in zip(totals, counts, strict=True)]
        exact, loose, found, got, near, wanted = totals
        print(
            f"  {backend:6} {len(chosen)} passages: precision {exact / found:.3f} exact, {loose / found:.3f} lenient "
            f"of {found}; recall {got / wanted:.3f} exact, {near / wanted:.3f} lenient of {wanted}"
        )


def graph(data: Path) -> None:
    carol = (data / "corpus_en" / "a_christmas_carol.txt").read_text(encoding="utf-8-sig")
    sanguo = (data / "corpus_zh" / "sanguo_001-020.txt").read_text(encoding="utf-8")
    for backend, extractor in extractors():
        _graph(f"A Christmas Carol, {backend}", carol, extractor)
    _graph("三国演义 1-20", sanguo, PhraseExtractor(english="rules"))


def _graph(title: str, text: str, extractor: PhraseExtractor) -> None:
    chunks = Chunker().invoke(text)
    extractor.invoke(chunks[0])  # loads what is heavy
    begin = time.process_time()
    found = extractor.batch(list(chunks), {"max_concurrency": 1})
    seconds = time.process_time() - begin
    near: defaultdict[str, set[str]] = defaultdict(set)
    shown: dict[str, str] = {}
    stated = 0
    for extraction in found:
        shown.update({name_key(name): name for name, _ in extraction.entities if name_key(name) not in shown})
        for source, relation, target, _ in extraction.relationships:
            low, high = name_key(source), name_key(target)
            near[low].add(high)
            near[high].add(low)
            stated += relation not in TOGETHER
    edges = sum(len(extraction.relationships) for extraction in found)
    best = sorted(near, key=lambda key: (-len(near[key]), key))[:40]
    size = len(text.encode())
    print(f"  {title}: {len(chunks)} chunks, {len(shown)} vertices, {edges} relations, {stated} of them verbs")
    print(f"    {seconds:.2f} CPU seconds, {size / 1e6 / seconds:.3f} MB each")
    print("    " + " ".join(f"{place}.{shown[key]}({len(near[key])})" for place, key in enumerate(best, 1)))


def _kinds(found: Sequence[Extraction]) -> dict[str, list[list[Pair]]]:
    """The pairs of each sentence: all of them, and those that a verb ties."""
    rows = [extraction.relationships for extraction in found]
    return {
        "all pairs": [[(source, target) for source, _, target, _ in row] for row in rows],
        "pairs with a verb": [[(s, t) for s, relation, t, _ in row if relation not in TOGETHER] for row in rows],
    }


def _pairs(pairs: Iterable[Sequence[str]]) -> list[Pair]:
    """Each pair of two names once, whichever way round it came."""
    return sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})


def _share(pairs: Sequence[Sequence[Pair]], others: Sequence[Sequence[Pair]], match: Match) -> float:
    """The share of the pairs that some pair of the other side, in the same sentence, matches."""
    hits = sum(_meets(pair, theirs, match) for mine, theirs in zip(pairs, others, strict=True) for pair in mine)
    return hits / (sum(map(len, pairs)) or 1)


def _meets(pair: Pair, others: Iterable[Pair], match: Match) -> bool:
    a, b = pair
    return any((match(a, c) and match(b, d)) or (match(a, d) and match(b, c)) for c, d in others)


def _contains(a: str, b: str) -> bool:
    return a in b or b in a


def _within(key: str, others: set[str]) -> bool:
    return key in others or any(f" {key} " in f" {other} " or f" {other} " in f" {key} " for other in others)


def _is_name(entity: str) -> bool:
    months = r"January|February|March|April|May|June|July|August|September|October|November|December"
    return bool(re.search(r"\b[A-Z]", entity)) and not re.fullmatch(rf"(?:{months}|\d|,|\s|s)+", entity)


def _content(argument: str) -> set[str]:
    words = re.findall(r"[\w$%]+", argument.lower())
    return {word for word in words if not STOP_WORDS.fullmatch(word)} or set(words)


def _all_of_the_shorter(a: str, b: str) -> bool:
    one, other = _content(a), _content(b)
    return len(one & other) == min(len(one), len(other)) > 0


def _half_of_the_words(a: str, b: str) -> bool:
    one, other = _content(a), _content(b)
    return 4 * len(one & other) >= len(one) + len(other) > 0


def _carb_gold(path: Path) -> dict[str, list[Pair]]:
    gold: dict[str, list[Pair]] = {}
    for line in _lines(path):
        sentence, _, *arguments = line.split("\t")
        pairs = gold.setdefault(sentence, [])
        if len(arguments) > 1 and arguments[1].strip():
            pairs.append((arguments[0], arguments[1]))
    return gold


def _openie5(path: Path) -> dict[str, list[Pair]]:
    found: defaultdict[str, list[Pair]] = defaultdict(list)
    for line in _lines(path):
        _, _, subject, _, objects, sentence = line.split("\t")
        first, second = (re.search(r"Argument\((.*?),List\(", part) for part in (subject, objects))
        if first and second:
            found[sentence].append((first.group(1), second.group(1)))
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


if __name__ == "__main__":
    main()
