"""Any file of an index damaged in any way: a right result, or an error that names it; and repair mends what it can."""

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from torture.child import INDEX, Outcome
from torture.damages import WAYS, damage, files_of
from torture.processes import Child, calls, run, start
from torture.scenes import EXPORT, INDEX_COMMAND, READERS, SNAPSHOT, Prepared, Scene, succeeded
from torture.tallies import LONG, SEED, count

FLIPS = 8 if LONG else 1  # places in a file where a bit is flipped
REPAIR = ("repair", INDEX)
DATABASES = ("records.sqlite", "made.sqlite")
_LOG = ("-wal", "-shm")


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_file_is_named_and_kept_and_mended_where_it_can_be(way: str, prepared: Prepared, place: Path) -> None:
    more, whole = prepared.scene("more"), prepared.scene("index")
    undisturbed = succeeded(run(Path(shutil.copytree(more.before, place)), *READERS).outcomes)
    shutil.rmtree(place)
    for name, seed in _cases(more.before / INDEX, way):
        read = Path(shutil.copytree(more.before, place / "read"))
        mended = Path(shutil.copytree(whole.after, place / "mended"))
        held, _ = (damage(folder / INDEX / name, way, random.Random(seed)) for folder in (read, mended))
        what = f"{name} {way} (seed {seed})"
        reading = start(read, *READERS, more.command, EXPORT)
        mending = start(mended, REPAIR, INDEX_COMMAND, SNAPSHOT)
        outcomes = _ended(reading, what)
        _check_read(outcomes, undisturbed, more, name, what)
        if outcomes[-2].code:
            assert _held(read / INDEX / name) == held, f"{what} was overwritten"
            assert calls(read) == calls(more.before), f"{what}: the model was asked in vain"
        if any(outcome.code for outcome in outcomes):
            count("damage", "refused by name, and kept")
        else:
            count("damage", "of no matter")
        _check_mended(_ended(mending, what), mended, whole, name, held, what)
        shutil.rmtree(place)


@pytest.mark.parametrize("way", WAYS)
def test_damage_to_what_a_killed_process_left_leads_to_no_third_state(
    way: str, prepared: Prepared, place: Path
) -> None:
    scene = prepared.scene("add")
    killed = Path(shutil.copytree(scene.before, place / "killed"))
    assert run(killed, scene.command, deadly=scene.writes - 4).status == -9
    left = [name for name in files_of(killed / INDEX) if name.endswith(_LOG)]
    assert left
    for name in left if LONG else left[list(WAYS).index(way) % len(left) :][:1]:
        folder = Path(shutil.copytree(killed, place / "damaged"))
        damage(folder / INDEX / name, way, random.Random(SEED))
        what = f"{name} {way}"
        *read, again, export = _ended(start(folder, *READERS, scene.command, EXPORT), what)
        for outcome in (*read, again, export):
            assert outcome.code == 0 or _is_refusal(outcome, _database(name)), f"{what}: {outcome}"
        if read[-1].code == 0:
            assert read[-1].out in (scene.old, scene.new), f"{what}: readers see neither state"
        if again.code == 0 and export.code == 0:
            assert export.out == scene.new, what
        count("damage", "of a killed process's logs")
        shutil.rmtree(folder)


def _cases(index: Path, way: str) -> Iterator[tuple[str, int]]:
    """The files to damage in a way, each with a seed; in the short form each file is damaged in one of the ways."""
    for number, name in enumerate(files_of(index)):
        if LONG or number % len(WAYS) == list(WAYS).index(way):
            for flip in range(FLIPS if way == "one bit flipped" else 1):
                yield name, SEED + flip


def _ended(child: Child, what: str) -> Sequence[Outcome]:
    """What came of a process that was not ended by anything, and of no command a traceback."""
    done = child.wait()
    assert done.status == 0, f"{what}: the process ended with {done.status} after {len(done.outcomes)} commands"
    for outcome in done.outcomes:
        assert not outcome.raised, f"{what}: {outcome}"
        assert "Traceback" not in outcome.err, f"{what}: {outcome}"
    return done.outcomes


def _check_read(outcomes: Sequence[Outcome], undisturbed: Sequence[Outcome], more: Scene, name: str, what: str) -> None:
    """See that each command did what it does undisturbed, or refused to."""
    *read, again, export = outcomes
    for outcome, right in zip(read, undisturbed, strict=True):
        assert outcome.out == right.out or _is_refusal(outcome, name), f"{what}: {outcome}"
    assert again.code == 0 or _is_refusal(again, name), f"{what}: {again}"
    right_export = more.new if again.code == 0 else more.old
    assert export.out == right_export or _is_refusal(export, name), f"{what}: {export}"


def _check_mended(
    outcomes: Sequence[Outcome], folder: Path, whole: Scene, name: str, held: bytes | None, what: str
) -> None:
    """See that repair mended everything, after which the index is as it was; or said what it could not mend."""
    repaired, again, snapshot = outcomes
    if repaired.code == 2:
        assert name in DATABASES, f"{what}: {repaired}"
        assert _is_refusal(repaired, name), f"{what}: {repaired}"
        assert _held(folder / INDEX / name) == held, f"{what} was overwritten by repair"
        count("damage", "beyond repair, by name")
        return
    succeeded([again, snapshot])
    if repaired.code == 0:
        assert calls(folder) == calls(whole.after), f"{what}: the model was asked again"
        count("damage", "repaired")
    else:
        assert "lost" in repaired.out, f"{what}: {repaired}"
        assert name in DATABASES, f"{what}: {repaired}"
        count("damage", "repaired, and what was lost made again")
    for part, value in whole.whole.items():
        assert snapshot.data[part] == value, f"{what}: {part} after repair"


def _is_refusal(outcome: Outcome, name: str) -> bool:
    return outcome.code == 2 and name in outcome.err and not outcome.out


def _database(log: str) -> str:
    return next(log.removesuffix(end) for end in _LOG if log.endswith(end))


def _held(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
