"""Killed at any moment: readers see the old state or the new one, and the same command goes on from there."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from torture.child import Outcome
from torture.processes import calls, run, side_by_side, start
from torture.scenes import EXPORT, READERS, SNAPSHOT, Prepared, Scene, paid, succeeded
from torture.tallies import LONG, SEED, count

SCENES = ("index", "add", "delete", "rebuild")
KILLS = 50 if LONG else 2
POINTS = 2  # of a scene in the short form
_STOPPED = ("there is no index in", "no finished index")


@pytest.mark.parametrize("name", SCENES)
def test_killed_between_two_durable_writes_nothing_is_lost(name: str, prepared: Prepared, tmp_path: Path) -> None:
    scene = prepared.scene(name)

    def kill(number: int) -> None:
        place = Path(shutil.copytree(scene.before, tmp_path / str(number)))
        done = run(place, scene.command, deadly=number)
        assert done.status in (-9, 0)
        count("kills between two writes", f"in {name}", int(done.status != 0))
        _check_goes_on(scene, place, f"{name}, killed before its durable write {number}")
        shutil.rmtree(place)

    writes = range(1, scene.writes + 1)
    # Threads write side by side, so that a run may make some more or fewer of them than the undisturbed one did.
    chosen = [*writes, scene.writes + 1] if LONG else [writes[len(writes) * i // POINTS] for i in range(POINTS)]
    side_by_side(kill, chosen)


def test_killed_at_random_nothing_is_lost(prepared: Prepared, tmp_path: Path) -> None:
    drawn = random.Random(SEED)
    moments = [(SCENES[number % len(SCENES)], drawn.random()) for number in range(KILLS)]

    def kill(moment: tuple[str, float]) -> None:
        scene, part = prepared.scene(moment[0]), moment[1]
        place = Path(shutil.copytree(scene.before, tmp_path / f"{moment}"))
        child = start(place, scene.command, delay=0.005)
        child.kill(after=part * scene.seconds)
        count("kills at random times", "killed", int(child.wait().status == -9))
        _check_goes_on(scene, place, f"{moment[0]}, killed after {part * scene.seconds:.3f} s")
        shutil.rmtree(place)

    side_by_side(kill, moments)


def _check_goes_on(scene: Scene, place: Path, what: str) -> None:
    """See what is left of a command that was killed, and that it leads to the same when it is given again."""
    asked, kept = calls(place), paid(place) - paid(scene.before)
    *read, again, snapshot = run(place, *READERS, scene.command, SNAPSHOT).outcomes
    is_new = _check_state(scene, read, what)
    if is_new and scene.command[0] == "delete":
        assert again.code == 2, what
        assert "not in the index" in again.err, what
    else:
        succeeded([again])
    assert calls(place) - asked == (0 if is_new else scene.calls - kept), f"{what}: a reply was lost"
    (snapshot,) = succeeded([snapshot])
    for part, value in scene.whole.items():
        assert snapshot.data[part] == value, f"{what}: {part}"


def _check_state(scene: Scene, read: Sequence[Outcome], what: str) -> bool:
    """Whether readers see the new state; else they see the old one, and nothing else."""
    export = next(outcome for outcome in read if tuple(outcome.command) == EXPORT)
    assert not any(outcome.raised for outcome in read), what
    if scene.old is None and export.out != scene.new:
        for outcome in read:
            none_yet = outcome.code == 2 and any(words in outcome.err for words in _STOPPED)
            assert none_yet or outcome.code == 0, f"{what}: {outcome}"
        if export.code == 0:
            assert '"nodes": []' in export.out or "vertices" in export.out, f"{what}: {export}"
        return False
    succeeded(read)
    assert export.out in (scene.old, scene.new), f"{what}: readers see neither state"
    return export.out == scene.new
