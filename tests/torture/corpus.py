"""The documents that the fault suite indexes: some in English, some in Chinese, each of several chunks."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["CHANGED", "FIRST", "QUESTIONS", "write_documents"]

_HARBOUR = """Port Ellery has two piers, and both are older than the lighthouse. The northern pier was built by \
Orrin Vale for the Grain Trust, which loaded barley there until the rail line came.

The southern pier belongs to the town. Ada Moss wrote the rules for mooring at it, and they hang in the harbour office \
to this day. A boat that comes in after dusk must show two lamps.

The lighthouse keeper, Hester Quill, counts the boats each evening. She sends the number to the Grain Trust by a boy \
who is paid in apples."""

_MILL = """The mill at Mill Lane grinds for the whole valley. Its wheel is of oak, and Orrin Vale repaired it twice \
after the floods.

Ada Moss keeps the accounts of the mill. She found that the Grain Trust had paid for more sacks than it got, and said \
so in front of everybody.

Since then the sacks are counted by two people. One of them is always from Port Ellery."""

_INN = """林晚在青石镇开了一家客栈，名叫听雨楼。客栈有三层，楼下是茶馆，楼上住客人。

听雨楼的掌柜是林晚的弟弟林川。他记得每一位客人的名字，也记得他们欠的茶钱。

每年春天，济川书院的学生来听雨楼住几天。他们在茶馆里下棋，夜里在楼上读书。"""

_SCHOOL = """济川书院在青石镇东边的山上，由沈默山人修建。书院的藏书楼里有三千卷书。

林川少年时在济川书院读书，师从沈默山人。后来他回到青石镇，帮姐姐林晚管客栈。

书院门前有一座石桥，桥下的河一直流到海边的 Port Ellery。"""

_LETTERS = """Hester Quill writes letters to 林晚, though neither has seen the other. The letters travel with the \
barley of the Grain Trust.

In one of them she asks how 听雨楼 keeps its guests dry when it rains for a month. 林晚 answers that the roof of the \
inn was made by a pupil of 沈默山人 😀, who had learned it from ship builders.

Ada Moss reads the letters aloud at the harbour office, and Orrin Vale pretends not to listen."""

_FERRY = """A ferry crosses from Port Ellery to the salt works each noon. Ruth Ames steers it, and was never late.

The salt works pay the Grain Trust for the ferry. Ada Moss wrote down the price, which is a sack of salt a week."""

FIRST: Mapping[str, str] = {
    "harbour.txt": _HARBOUR,
    "inn.txt": _INN,
    "letters.md": _LETTERS,
    "mill.txt": _MILL,
}
"""The documents of a first index, by the name of the file."""

CHANGED: Mapping[str, str] = {
    "ferry.txt": _FERRY,
    "harbour.txt": _HARBOUR,
    "inn.txt": _INN + "\n\n客栈后面有一口井，井水很甜。",
    "mill.txt": _MILL,
    "school.txt": _SCHOOL,
}
"""What they become: two are new, one is changed, one is gone."""

QUESTIONS = ("Who repaired the wheel of the mill?", "听雨楼的掌柜是谁？", "Who writes letters to 林晚?")
"""What is asked of an index of them."""


def write_documents(folder: Path, documents: Mapping[str, str]) -> None:
    """Make a folder hold these documents, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in documents:
            path.unlink()
    for name, text in documents.items():
        (folder / name).write_text(text, encoding="utf-8")
