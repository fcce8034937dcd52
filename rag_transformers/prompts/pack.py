"""A pack: the prompts and words of some languages, the built-in ones or those with a folder of one's own over them."""

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rag_transformers.errors import UsageError
from rag_transformers.prompts.words import FILE, Words, read_words
from rag_transformers.text import language_of

if TYPE_CHECKING:
    from langchain_core.prompts import PromptTemplate

__all__ = ["PromptPack", "as_pack", "built_in"]

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class _Language:
    """The prompts and words of one language.

    Args:
        texts: The text of each stage's prompt.
        words: Its words.
        own: The files that were given for it, each with its stage; none for a built-in language.
    """

    texts: Mapping[str, str]
    words: Words
    own: Mapping[str, Path] = field(default_factory=dict)


class PromptPack:
    """The prompts of some languages, and the words that go with them.

    Args:
        folder: A folder of your own. With prompts in it (``extract_graph.txt``, …) it is one language, in which
            everything is asked; with folders in it (``en/``, ``de/``, …) each of these is one. Files that it leaves
            out come from the built-in language of the same name, or from the one that its ``words.toml`` names as
            ``base``, or else from English. None: the built-in languages alone.

    Raises:
        UsageError: A file has other variables, an example that the parser does not read, or the like; it is named.

    >>> pack = PromptPack()
    >>> pack.languages, pack.choose("谁建了桥？"), pack.words("zh").sources
    (('en', 'ja', 'zh'), 'zh', '来源：')
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        if folder == "":
            raise UsageError("prompts is an empty path; give a folder")
        self.folder = None if folder is None else Path(folder)
        self.fixed: str | None = None
        """The one language in which everything is asked; None where the script of a text decides."""
        self._languages = dict(_built_in_languages())
        if self.folder is not None:
            self._languages.update(self._own(self.folder))
            from rag_transformers.prompts.checks import check_language_files

            for name in self.own_languages:
                check_language_files(self._languages[name].own, self.words(name))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages, in the order of their names."""
        return tuple(sorted(self._languages))

    @property
    def own_languages(self) -> tuple[str, ...]:
        """Those of them that the folder has something of."""
        return tuple(name for name in self.languages if self._languages[name] is not _built_in_languages().get(name))

    def text(self, stage: str, language: str) -> str:
        """The text of a prompt, with its variables in braces.

        Args:
            stage: The stage's name, which is the file's: ``extract_graph``.
            language: One of ``languages``.

        Raises:
            UsageError: There is no such prompt; the message lists what there is.
        """
        texts = self._of(language).texts
        if not isinstance(stage, str) or stage not in texts:
            raise UsageError(f"no prompt {stage!r} for language {language!r}; there are: {', '.join(sorted(texts))}")
        return texts[stage]

    def template(self, stage: str, language: str) -> "PromptTemplate":
        """The prompt of a stage as a LangChain template; see :meth:`text`."""
        from langchain_core.prompts import PromptTemplate

        return PromptTemplate.from_template(self.text(stage, language))

    def words(self, language: str) -> Words:
        """The words of a language; see :meth:`text`."""
        return self._of(language).words

    def choose(self, text: str, language: str = "auto") -> str:
        """The language in which a text is asked about.

        Args:
            text: Whatever is asked about.
            language: As a stage has it: one of ``languages``, or ``auto`` for that of the text, by its script.
        """
        return self.fixed or (language_of(text) if language == "auto" else language)

    def answers_in(self, question: str, language: str = "auto") -> str:
        """The language of what is said without a model: of the question, where a script can tell it.

        Args:
            question: What the user asked.
            language: As for :meth:`choose`.
        """
        found, chosen = language_of(question), self.choose(question, language)
        return chosen if found == "en" and chosen not in ("auto", "zh", "ja") else found

    def in_use(self, language: str) -> tuple[str, ...]:
        """The languages that a stage may come to ask in, where its ``language`` is this."""
        if self.fixed:
            return (self.fixed,)
        return self.languages if language == "auto" else (language,)

    def checked(self, owner: str, language: str) -> str:
        """A stage's parameter ``language``, where it is ``auto`` or there are prompts for it.

        Raises:
            UsageError: It is neither, or another language than that of a folder that holds one only.
        """
        allowed = (self.fixed,) if self.fixed else self.languages
        if language != "auto" and language not in allowed:
            raise UsageError(f"{owner}language is {language!r}; it must be auto or one of {', '.join(allowed)}")
        return language

    def key_of(self, *words: str, languages: Iterable[str]) -> str:
        """What names some words in the keys of what was made with them; "" where they are the built-in ones.

        Args:
            *words: The fields of :class:`Words` that it was made with.
            languages: In which it was.

        >>> PromptPack().key_of("none", "entities", languages=("en", "zh"))
        ''
        """
        told = {}
        for name in languages:
            own, usual = self.words(name), _built_in_languages().get(name, _built_in_languages()["en"]).words
            changed = {word: getattr(own, word) for word in words if getattr(own, word) != getattr(usual, word)}
            if changed:
                told["" if self.fixed else name] = changed  # a folder that is the one language may move
        said = json.dumps(told, sort_keys=True, ensure_ascii=False)
        return hashlib.blake2b(said.encode(), digest_size=10).hexdigest() if told else ""

    def _of(self, language: str) -> _Language:
        if not isinstance(language, str) or language not in self._languages:
            raise UsageError(f"no prompts for language {language!r}; there are: {', '.join(self.languages)}")
        return self._languages[language]

    def _own(self, folder: Path) -> dict[str, _Language]:
        """The languages of a folder of one's own; names that begin with a dot are passed over."""
        if not folder.is_dir():
            raise UsageError(f"prompts is {str(folder)!r}, which is no folder")
        inner = [path for path in sorted(folder.iterdir()) if _is_seen(path) and path.is_dir() and _holds_prompts(path)]
        if not _holds_prompts(folder):
            if not inner:
                raise UsageError(
                    f"{folder} holds no prompts: neither files such as extract_graph.txt nor folders of them"
                )
            return {path.name: _language_in(path) for path in inner}
        if inner:
            raise UsageError(f"{folder} holds prompts and folders of them ({inner[0].name}); give it one or the other")
        self.fixed = folder.resolve().name
        return {self.fixed: _language_in(folder)}


@cache
def built_in() -> PromptPack:
    """The built-in languages."""
    return PromptPack()


def as_pack(prompts: "PromptPack | str | Path | None") -> PromptPack:
    """The pack that was given, or that of a folder; the built-in one where none was.

    Args:
        prompts: A pack, a folder, or None.

    Raises:
        UsageError: It is something else, or the folder has a fault.
    """
    if isinstance(prompts, PromptPack):
        return prompts
    if prompts is not None and not isinstance(prompts, str | Path):
        raise UsageError(f"prompts is {type(prompts).__name__}; give a folder or a PromptPack")
    return built_in() if prompts is None else PromptPack(prompts)


@cache
def _built_in_languages() -> Mapping[str, _Language]:
    folders = [path for path in sorted(_FOLDER.iterdir()) if (path / "extract_graph.txt").is_file()]
    found = {}
    for folder in folders:
        texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))}
        found[folder.name] = _Language(texts, read_words(folder / FILE) if (folder / FILE).is_file() else Words())
    return found


def _holds_prompts(folder: Path) -> bool:
    return bool(_prompt_files(folder)) or (folder / FILE).is_file()


def _prompt_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.txt")) if _is_seen(path)]


def _is_seen(path: Path) -> bool:
    """Whether a file or folder is meant for users: not ``.git``, nor the ``._extract_graph.txt`` of a Mac."""
    return not path.name.startswith(".")


def _language_in(folder: Path) -> _Language:
    """A language of one's own, over the built-in one of the same name, or that which its words name, or English."""
    known, name, path = _built_in_languages(), folder.resolve().name, folder / FILE
    if name == "auto":
        raise UsageError(f"{folder}: auto is no name of a language, for it stands for that of each text")
    said = read_words(path).base if path.is_file() else None
    says_base = path.is_file() and "base" in _keys(path)
    base = said if says_base and said else name if name in known else "en"
    if base not in known:
        raise UsageError(f"{path}: base is {base!r}; it must be one of {', '.join(known)}")
    own = {file.stem: file for file in _prompt_files(folder)}
    stages = known[base].texts
    if unknown := [file for stage, file in own.items() if stage not in stages]:
        raise UsageError(f"{unknown[0]} is the prompt of no stage; there are: {', '.join(sorted(stages))}")
    words = read_words(path, known[base].words) if path.is_file() else known[base].words
    missing = [f"{stage}.txt" for stage in sorted(stages) if stage not in own]
    if missing and not says_base and name not in known and own:
        warnings.warn(
            f"{folder} lacks {', '.join(missing)}: those of English are taken; base in {FILE} names another language, "
            "and stops this warning",
            stacklevel=2,
        )
    return _Language({**stages, **{stage: _text(file) for stage, file in own.items()}}, words, own)


def _keys(path: Path) -> set[str]:
    import tomllib

    return set(tomllib.loads(path.read_text(encoding="utf-8-sig")))


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as UTF-8: {error}") from error
    if not text.strip():
        raise UsageError(f"{path} is empty")
    return text
