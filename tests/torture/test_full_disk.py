"""A disk that is full: one line that says so, nothing damaged, and the same command goes on when there is room."""

import shutil
from pathlib import Path

import pytest

from torture.child import INDEX
from torture.processes import calls, run
from torture.scenes import READERS, SNAPSHOT, Prepared, Scene, paid, succeeded
from torture.tallies import LONG, count

STEPS = 12 if LONG else 1


@pytest.mark.parametrize("name", ["index", "add"])
def test_a_full_disk_is_said_in_one_line_and_damages_nothing(name: str, prepared: Prepared, place: Path) -> None:
    scene = prepared.scene(name)
    for size in _sizes(scene):
        shutil.copytree(scene.before, place)
        done = run(place, scene.command, file_size=size)
        assert done.status == 0
        (outcome,) = done.outcomes
        what = f"{name}, files of at most {size} bytes: {outcome}"
        assert not outcome.raised, what
        if outcome.code != 0:
            assert outcome.code == 2, what
            assert [line.split()[0] for line in outcome.err.splitlines()].count("error:") == 1, what
            assert outcome.err.splitlines()[-1].startswith("error:"), what
            count("full disk", f"in {name}")
        asked, kept = calls(place), paid(place) - paid(scene.before)
        *read, again, snapshot = run(place, *READERS, scene.command, SNAPSHOT).outcomes
        if scene.old is not None:
            succeeded(read)
            assert read[-1].out in (scene.old, scene.new), what
        succeeded([again, snapshot])
        assert calls(place) - asked == (0 if outcome.code == 0 else scene.calls - kept), what
        assert snapshot.data == scene.whole, what
        shutil.rmtree(place)


def _sizes(scene: Scene) -> list[int]:
    """Sizes beyond which files cannot grow, each too small for the largest one."""
    largest = max(path.stat().st_size for path in (scene.after / INDEX).rglob("*"))
    return [largest * (2 * step + 1) // (2 * STEPS) // 1024 * 1024 + 512 for step in range(STEPS)]
