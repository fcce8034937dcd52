"""The word lists that the rules go by: ``chinese.txt`` and ``english.txt``, in sections that say what they hold."""

from importlib import resources

__all__ = ["load_lines", "load_words"]


def load_words(language: str) -> dict[str, list[str]]:
    """The sections of a word list, each with its words in order.

    >>> "the" in load_words("english")["determiners"], load_words("chinese")["compound surnames"][0]
    (True, '司马')
    """
    return {section: " ".join(lines).split() for section, lines in load_lines(language).items()}


def load_lines(language: str) -> dict[str, list[str]]:
    """The sections of a word list, each with its lines; comments and blank lines are left out."""
    sections: dict[str, list[str]] = {}
    section = ""
    for line in resources.files(__name__).joinpath(f"{language}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            sections.setdefault(section, []).append(line)
    return sections
