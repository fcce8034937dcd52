"""What is no data, though it stands where a record does: placeholders, dots, "none", and our own prompt's example."""

import re
from functools import cache, lru_cache

from rag_transformers.errors import UsageError
from rag_transformers.prompts import PromptPack, built_in, languages, prompt_text
from rag_transformers.prompts.checks import fenced
from rag_transformers.records.json_records import find_items
from rag_transformers.records.marks import find_records, row_of
from rag_transformers.records.text import clean_field, visible

__all__ = ["example_rows", "holds_names", "is_no_data"]

_FORMAT = re.compile(r"[(（]([^()（）\n]+[#＃][^()（）\n]+)[)）]")
_SEPARATOR = re.compile(r"[#＃]")
_DOTS = re.compile(r"[\s.…。·⋯]+")
_AROUND = " _-—.…。·⋯!！<>{}[]*0123456789"
_FORMAT_WORDS = (
    *("entity_name", "entity_summary", "source_entity_name", "relation_name", "target_entity_name"),
    "relation_summary",
    # as models translate them
    *("实体名", "实体名称", "实体摘要", "实体总结", "实体描述", "源实体名", "源实体名称", "来源实体名", "目标实体名"),
    *("目标实体名称", "关系名", "关系名称", "关系摘要", "关系总结", "关系描述"),
)
_NOTHING = frozenset(("none", "n/a", "n.a", "null", "无", "無", "暂无", "没有"))
_NOTHING |= {word for language in languages() for word in built_in().words(language).none}
_NOTHING_FOUND = re.compile(
    r"no (?:entities|relationships|relations)(?: (?:were |are )?(?:found|identified|present|given))?"
    r"|(?:没有|无|未发现|未找到|未提取到|不存在)(?:任何|明确的?)?(?:实体|关系)"
)
_LONGEST = 60
"""No placeholder is longer."""


def is_no_data(text: str) -> bool:
    """Whether a record, as it stands between its brackets, is a placeholder or says that there is nothing.

    >>> is_no_data("entity_name#entity_summary"), is_no_data("...#..."), is_no_data(" N/A "), is_no_data("Ada Moss#...")
    (True, True, True, False)
    """
    first = _SEPARATOR.split(text, 1)[0].strip()
    if len(first) > _LONGEST or (first and not _is_no_data(clean_field(first))):
        return False
    fields = [field for part in _SEPARATOR.split(text) if (field := clean_field(part))]
    return any(fields) and all(map(_is_no_data, fields))


@lru_cache(maxsize=8)
def example_rows(pack: PromptPack | None = None) -> frozenset[tuple[str, ...]]:
    """The records of the examples in the extraction prompts of every language, by default in our own."""
    known = pack or built_in()
    rows = {row_of(found) for language in known.languages for found in find_records(_prompt(language, known)[1])}
    for language in known.languages:
        try:
            text = known.text("extract_graph_json", language)
        except UsageError:
            continue
        items = find_items(text.replace("{{", "{").replace("}}", "}")).items
        rows.update(tuple(clean_field(visible(part)) for part in item.fields) for item in items)
    return frozenset(rows)


def holds_names(text: str, row: tuple[str, ...]) -> bool:
    """Whether a text holds the name of an entity, or both ends of a relationship.

    >>> holds_names("Ada  Moss left Fen.", ("Ada Moss", "Founder")), holds_names("Hannah", ("Ann", ""))
    (True, False)
    """
    text = " ".join(text.casefold().split())
    return all(_holds(text, " ".join(name.casefold().split())) for name in row[::2][: len(row) // 2])


def _holds(text: str, name: str) -> bool:
    before = r"(?<![a-z0-9])" if name[:1].isascii() and name[:1].isalnum() else ""
    after = r"(?![a-z0-9])" if name[-1:].isascii() and name[-1:].isalnum() else ""
    return re.search(before + re.escape(name) + after, text) is not None


def _is_no_data(field: str) -> bool:
    word = _word(field)
    if not word:
        return _DOTS.fullmatch(field) is not None
    return word in _placeholders() or word in _NOTHING or _NOTHING_FOUND.fullmatch(word.replace("_", " ")) is not None


def _word(field: str) -> str:
    """A word as it is compared: ``<Entity name 2>`` is ``entity_name``."""
    word = field.casefold().strip(_AROUND)
    return "_".join(word.split()) if " " in word else word


@cache
def _placeholders() -> frozenset[str]:
    """The words by which our prompts describe the format, besides those that every prompt of the format has."""
    words = set(_FORMAT_WORDS)
    for language in languages():
        text, example = _prompt(language)
        for record in _FORMAT.findall(text.replace(example, "") if example else text):
            fields = [_word(field) for field in _SEPARATOR.split(record)]
            if all(re.fullmatch(r"\w+", field) for field in fields):
                words.update(fields)
    return frozenset(words)


def _prompt(language: str, pack: PromptPack | None = None) -> tuple[str, str]:
    """The text of an extraction prompt, and the answer of its example, which is the last fence with records."""
    text = prompt_text("extract_graph", language, pack).replace("{{", "{").replace("}}", "}")
    return text, next((block for block in reversed(fenced(text)) if find_records(block)), "")
