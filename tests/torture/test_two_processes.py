"""Two processes on one folder: one writes, others are told so at once, and readers see finished states only."""

import shutil
import socket
import time
from pathlib import Path

from torture.child import ENOUGH, INDEX, WATCHING
from torture.processes import calls, run, start, wait_for
from torture.scenes import EXPORT, INDEX_COMMAND, QUERY, SNAPSHOT, Prepared, paid, succeeded
from torture.tallies import LONG, count

TIMES = 10 if LONG else 1


def test_a_second_writer_is_told_at_once_who_writes_and_takes_over_when_that_is_dead(
    prepared: Prepared, place: Path
) -> None:
    scene = prepared.scene("index")
    shutil.copytree(scene.before, place)
    writer = start(place, scene.command, delay=60.0)
    wait_for(place / INDEX / "writer.json")
    begun = time.monotonic()
    (refused,) = run(place, INDEX_COMMAND).outcomes
    assert time.monotonic() - begun < 30.0, "it waited for the other one"
    assert refused.code == 2
    said = [line for line in refused.err.splitlines() if not line.startswith("warning:")]
    assert len(said) == 1
    for word in (f"process {writer.pid}", socket.gethostname(), time.strftime("%Y-%m-")):
        assert word in said[0]
    writer.kill()
    assert writer.wait().status == -9
    asked, kept = calls(place), paid(place)
    _, snapshot = succeeded(run(place, INDEX_COMMAND, SNAPSHOT).outcomes)
    assert calls(place) - asked == scene.calls - kept
    assert snapshot.data == scene.whole
    count("two processes", "writers refused, then taking over from the dead one")


def test_who_reads_while_another_writes_sees_finished_states_only(prepared: Prepared, place: Path) -> None:
    scene = prepared.scene("add")
    right = [succeeded(run(folder, QUERY, EXPORT).outcomes) for folder in _copies(place, scene.before, scene.after)]
    answers, states = ([each[part].out for each in right] for part in (0, 1))
    for number in range(TIMES):
        folder = Path(shutil.copytree(scene.before, place / str(number)))
        watcher = start(folder, ("watch",))
        wait_for(folder / WATCHING)
        succeeded(run(folder, scene.command, delay=0.05).outcomes)
        (folder / ENOUGH).touch()
        (watched,) = succeeded(watcher.wait().outcomes)
        assert not watched.data["failed"]
        assert set(watched.data["query"]) <= set(answers)
        assert set(watched.data["export"]) <= set(states)
        assert watched.data["export"][-1:] == states[1:]
        assert len(watched.data["kept"]) <= 2
        count("two processes", "reads while another process writes", 3 * watched.data["rounds"])


def _copies(place: Path, *folders: Path) -> list[Path]:
    return [Path(shutil.copytree(folder, place / f"state-{number}")) for number, folder in enumerate(folders)]
