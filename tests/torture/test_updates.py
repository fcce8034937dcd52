"""After any sequence of changes an index is that of what is left, and each change costs what it changed."""

import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from scripted_model import ScriptedChatModel, stage_reply

from rag_transformers import Chunker, GraphIndex
from rag_transformers.indexing.outcomes import IndexReport
from torture.child import LetterEmbeddings
from torture.snapshots import snapshot
from torture.tallies import LONG, SEED, count

SEQUENCES = 200 if LONG else 2
STEPS = 6
_SENTENCES = (
    "Ada Moss keeps the accounts of the mill at Mill Lane. ",
    "The Grain Trust paid Orrin Vale for the northern pier of Port Ellery. ",
    "Hester Quill counts the boats each evening and writes to 林晚. ",
    "林晚在青石镇开了一家客栈，名叫听雨楼。",
    "济川书院的学生每年春天来听雨楼住几天。",
    "Ruth Ames steers the ferry to the salt works at noon. ",
    "林川师从沈默山人，后来回到青石镇。",
    "The roof of the inn was made by a pupil who had learned from ship builders. ",
)
_SOURCES = ("a.txt", "b.txt", "丙.txt", "d.txt", "戊.txt")
_OWN_TEXT = re.compile(r"\[(?:Text|文本)\]:")
_NUMBER = re.compile(r"^\[\w+\] ")
_DERIVED = ("communities", "exports", "reports")  # what is the same once the communities are found anew


class CountedEmbeddings(LetterEmbeddings):
    """Says how many texts it was asked for."""

    def __init__(self) -> None:
        self.texts = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts += len(texts)
        return super().embed_documents(texts)


def _reply(prompt: str) -> str:
    """A reply to what is asked, by which it is known again.

    That is the text of a chunk, whatever earlier chunks are shown with it, for those may be others now; and what a
    prompt of a later stage says, in whatever order, for what is said more often comes earlier.
    """
    *shown, own = _OWN_TEXT.split(prompt)
    if shown:
        return stage_reply(f"Entities: Relationships: {own}")
    return stage_reply("\n".join(sorted(_NUMBER.sub("", line) for line in prompt.splitlines())))


class Changes:
    """One index that is changed again and again, and the documents that it should hold.

    Args:
        folder: Where the indexes are made.
        drawn: What the changes are drawn from.
    """

    def __init__(self, folder: Path, drawn: random.Random) -> None:
        self._folder = folder
        self._drawn = drawn
        self.left: dict[str, str] = {}
        self.steps: list[str] = []
        self.llm = ScriptedChatModel(reply=_reply)
        self.embeddings = CountedEmbeddings()
        self.index = self._opened("index", self.llm, self.embeddings)

    def step(self) -> None:
        """Draw a change, make it, and see what it costs."""
        change = self._drawn.choice((self._add, self._edit, self._delete, self._sync) if self.left else (self._add,))
        asked = len(self.llm.calls)
        report = change()
        if report is not None:
            assert not report.failed
            made = sum(report.stages[stage].made for stage in ("extract", "describe", "report"))
            assert len(self.llm.calls) - asked == made, self
        count("updates", "steps")

    def check(self) -> None:
        """See that the index is that of what is left, as if it had been made of that."""
        self._check_repeated()
        with self._opened("fresh", ScriptedChatModel(reply=_reply), CountedEmbeddings()) as fresh:
            if self.left:
                fresh.add(_documents(self.left))
            else:
                fresh.add(_documents({"a.txt": _SENTENCES[0]}))
                fresh.delete("a.txt")
            one, other = snapshot(self.index), snapshot(fresh)
            assert _basis(one) == _basis(other), self
            for index in (self.index, fresh):
                index.rebuild()
            one, other = snapshot(self.index), snapshot(fresh)
        for part in one:
            assert one[part] == other[part], f"{part} after {self}"

    def close(self) -> None:
        """Give the index back."""
        self.index.close()

    def _check_repeated(self) -> None:
        """See that nothing is asked and nothing embedded where nothing is new."""
        if self.left:
            asked, embedded = len(self.llm.calls), self.embeddings.texts
            report = self.index.add(_documents(self.left))
            assert report.unchanged == len(self.left), self
            assert (len(self.llm.calls), self.embeddings.texts) == (asked, embedded), self

    def __repr__(self) -> str:
        return f"seed {SEED}: {'; '.join(self.steps)}"

    def _add(self) -> IndexReport:
        new = [source for source in _SOURCES if source not in self.left]
        chosen = self._drawn.sample(new, k=min(len(new), self._drawn.randint(1, 2))) or list(self.left)[:1]
        return self._put("add", {source: self._text() for source in chosen})

    def _edit(self) -> IndexReport:
        return self._put("edit", {self._drawn.choice(list(self.left)): self._text()})

    def _delete(self) -> None:
        source = self._drawn.choice(list(self.left))
        self.steps.append(f"delete {source}")
        del self.left[source]
        assert self.index.delete(source), self

    def _sync(self) -> IndexReport:
        kept = [source for source in self.left if self._drawn.random() < 0.6]
        given = {source: self._text() if self._drawn.random() < 0.3 else self.left[source] for source in kept}
        new = [source for source in _SOURCES if source not in self.left][:1]
        given |= {source: self._text() for source in new}
        self.steps.append(f"sync to {given}")
        gone = [source for source in self.left if source not in given]
        self.left = {source: text for source, text in self.left.items() if source in given} | given
        report = self.index.add(_documents(given), sync=gone)
        assert (report.removed, report.documents) == (len(gone), len(self.left)), self
        return report

    def _put(self, what: str, given: Mapping[str, str]) -> IndexReport:
        self.steps.append(f"{what} {dict(given)}")
        self.left |= given
        return self.index.add(_documents(given))

    def _text(self) -> str:
        return "".join(self._drawn.choices(_SENTENCES, k=self._drawn.randint(1, 6)))

    def _opened(self, name: str, llm: Any, embeddings: Any) -> GraphIndex:
        return GraphIndex.open(self._folder / name, llm, embeddings, chunker=Chunker(32, 4))


def _documents(texts: Mapping[str, str]) -> list[Document]:
    return [Document(text, metadata={"source": source}) for source, text in texts.items()]


def _basis(whole: Mapping[str, Any]) -> dict[str, Any]:
    """What does not hang on the communities."""
    return {part: value for part, value in whole.items() if part not in _DERIVED}


@pytest.mark.parametrize("number", range(SEQUENCES))
def test_any_sequence_of_changes_leads_to_the_index_of_what_is_left(number: int, tmp_path: Path) -> None:
    changes = Changes(tmp_path, random.Random(SEED * 1000 + number))
    try:
        for _ in range(STEPS):
            changes.step()
        changes.check()
    finally:
        changes.close()
    count("updates", "sequences")
