"""Sessions kept on disk: recipes, folders, locks; without a window."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.unit.session.sessions import TRACE, Engine, worked
from visformer.session import kept
from visformer.session.kept import (
    MOST_KEPT,
    Keeper,
    KeptWork,
    OwnFolder,
    Work,
    WorkFacts,
    left_behind,
    mark,
    prune,
    recipe_of,
    runs_of,
    session_of,
)
from visformer.session.recipe import Recipe, WantedRun, written
from visformer.session.state import Session, State
from visformer.trace_file.trace_file import read_session
from visformer.values.memo import same

FACTS = WorkFacts(recipe=msgspec.Raw(b"{}"), saved=1.0)
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")


def kept_state(session: Session, engine: Engine) -> tuple[Recipe, State]:
    state = worked(session, engine)
    recipe = recipe_of(state)
    assert recipe is not None
    return recipe, state


def test_a_folder_is_its_users_alone_and_holds_what_was_written(
    session: Session, engine: Engine, tmp_path: Path
) -> None:
    recipe, state = kept_state(session, engine)
    root = tmp_path / "sessions"
    own = OwnFolder(root)
    own.write(recipe, session_of(state, runs_of(state)), FACTS)
    first = {path.name for path in own.path.iterdir()}
    session_again = session_of(state, runs_of(state))
    own.write(recipe, session_again, msgspec.structs.replace(FACTS, saved=2.0))
    assert {path.name for path in own.path.iterdir()} == first  # no new runs
    assert left_behind(root) == []  # its window lives
    if sys.platform != "win32":
        modes = {stat.S_IMODE(path.stat().st_mode) for path in own.path.iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE(own.path.stat().st_mode) == 0o700
    own.close()
    (work,) = left_behind(root)
    assert work.crashed
    assert work.recipe == recipe
    assert work.runs is not None
    shown = read_session(work.runs).shown.trace
    assert state.trace is not None
    assert shown.text == state.trace.text
    own = OwnFolder(root)
    own.write(recipe, session_of(state, runs_of(state)[1:]), FACTS)
    own.write(recipe, None, FACTS)  # another sentence is on its way
    assert {path.name for path in own.path.iterdir()} == {"lock", "work.json"}
    own.close()


def test_above_a_size_only_the_recipe_is_kept(
    session: Session,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe, state = kept_state(session, engine)
    monkeypatch.setattr(kept, "MOST_RUN_BYTES", 10)
    told: list[str] = []
    keeper = Keeper(tmp_path, told.append)
    keeper.keep(Work(state=state))
    keeper.close()
    assert told == [""]
    (work,) = left_behind(tmp_path)
    assert (work.runs, work.recipe) == (None, recipe)


def test_the_last_five_stay_and_living_windows_are_left_alone(
    session: Session, engine: Engine, tmp_path: Path
) -> None:
    recipe, _state = kept_state(session, engine)
    living = OwnFolder(tmp_path)
    living.write(recipe, None, FACTS)
    for at in range(MOST_KEPT + 3):
        own = OwnFolder(tmp_path)
        own.write(recipe, None, msgspec.structs.replace(FACTS, saved=float(at)))
        own.path.rename(own.path.with_name(f"2000010{at}-000000"))
        own.close()
    prune(tmp_path)
    times = [work.facts.saved for work in left_behind(tmp_path)]
    assert times == [7.0, 6.0, 5.0, 4.0, 3.0]
    assert living.path.is_dir()
    living.close()


def test_a_clock_that_was_set_back_makes_no_session_old(tmp_path: Path) -> None:
    """Folders of an earlier version are named by the clock: here of the year 2030."""
    recipe = Recipe(wanted=WantedRun(sentence="one"))
    for at in range(MOST_KEPT):
        own = OwnFolder(tmp_path)
        own.write(recipe, None, FACTS)
        own.close()
        own.path.rename(own.path.with_name(f"2030010{at}-000000-1-ab"))
    last = OwnFolder(tmp_path)
    last.write(recipe, None, FACTS)
    last.close()
    prune(tmp_path)
    assert last.path.is_dir()
    assert len(left_behind(tmp_path)) == MOST_KEPT


def test_what_goes_on_in_another_window_stands_once(tmp_path: Path) -> None:
    recipe = Recipe(wanted=WantedRun(sentence="one"))
    own = [OwnFolder(tmp_path) for _number in range(3)]
    for before, folder, saved in zip([None, *own], own, (1.0, 2.0, 3.0), strict=False):
        continues = "" if before is None else before.path.name
        facts = WorkFacts(recipe=FACTS.recipe, saved=saved, continues=continues)
        folder.write(recipe, None, facts)
    own[0].close()
    own[1].close()
    assert left_behind(tmp_path) == []  # they go on in the third window
    prune(tmp_path)
    assert not own[0].path.exists()
    assert own[1].path.exists()
    other = WorkFacts(recipe=FACTS.recipe, saved=4.0)
    own[2].write(recipe, None, other)  # it turned to other work
    assert [work.folder for work in left_behind(tmp_path)] == [own[1].path]
    own[2].write(recipe, None, facts)
    own[2].close()
    assert [work.folder for work in left_behind(tmp_path)] == [own[2].path]
    prune(tmp_path)
    assert not own[1].path.exists()
    assert own[2].path.exists()


def test_what_is_continued_takes_no_place_of_the_last_five(tmp_path: Path) -> None:
    recipe = Recipe(wanted=WantedRun(sentence="one"))
    own = [OwnFolder(tmp_path) for _number in range(MOST_KEPT + 1)]
    for folder in own:
        folder.write(recipe, None, FACTS)
        folder.close()
    living = OwnFolder(tmp_path)
    last = max(folder.path.name for folder in own)
    living.write(recipe, None, msgspec.structs.replace(FACTS, continues=last))
    prune(tmp_path)
    assert len(left_behind(tmp_path)) == MOST_KEPT
    living.close()


def test_what_crashes_twice_is_not_offered_again_but_kept(
    session: Session, engine: Engine, tmp_path: Path
) -> None:
    recipe, _state = kept_state(session, engine)
    own = OwnFolder(tmp_path)
    own.write(recipe, None, FACTS)
    own.close()
    (work,) = left_behind(tmp_path)
    assert work.crashed
    assert not mark(work, tried=True).crashed
    (again,) = left_behind(tmp_path)
    assert (again.crashed, again.facts.tries) == (False, 1)


@pytest.mark.parametrize("data", [b"", b"{", b'{"recipe":{},"saved":1}', b"\xff" * 9])
def test_a_damaged_folder_is_passed_over(
    session: Session, engine: Engine, tmp_path: Path, data: bytes
) -> None:
    recipe, _state = kept_state(session, engine)
    own = OwnFolder(tmp_path)
    own.write(recipe, None, FACTS)
    (own.path / "work.json").write_bytes(data)
    own.close()
    assert left_behind(tmp_path) == []
    runs_outside = msgspec.structs.replace(
        FACTS, recipe=msgspec.Raw(written(recipe)), runs="../other.vis"
    )
    (own.path / "work.json").write_bytes(msgspec.json.encode(runs_outside))
    assert left_behind(tmp_path) == []


CHILD = """
import os, sys
from pathlib import Path
from visformer.session.kept import OwnFolder
own = OwnFolder(Path(sys.argv[1]))
print(own.path, flush=True)
sys.stdin.read()
"""


def test_a_killed_process_gives_its_folder_up(
    session: Session, engine: Engine, tmp_path: Path
) -> None:
    recipe, _state = kept_state(session, engine)
    other = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert other.stdout is not None
    folder = Path(other.stdout.readline().strip())
    facts = msgspec.structs.replace(FACTS, recipe=msgspec.Raw(written(recipe)))
    (folder / "work.json").write_bytes(msgspec.json.encode(facts))
    assert left_behind(tmp_path) == []
    other.kill()
    other.communicate()
    found: list[KeptWork] = left_behind(tmp_path)
    assert [work.folder for work in found] == [folder]


@posix
def test_a_keeper_says_why_it_cannot_keep_and_goes_on(
    session: Session, engine: Engine, tmp_path: Path
) -> None:
    _recipe, state = kept_state(session, engine)
    (tmp_path / "root").write_text("a file, no folder")
    told: list[str] = []
    keeper = Keeper(tmp_path / "root", told.append)
    keeper.keep(Work(state=state))
    keeper.close()
    assert len(told) == 1
    assert told[0]
    keeper = Keeper(tmp_path / "other", told.append)
    for _turn in range(50):  # only the newest is written, and the last one is
        keeper.keep(Work(state=state))
    keeper.keep(Work(state=state, closed=True))
    keeper.close()
    assert not any(told[1:])
    assert len(told) < 50
    (work,) = left_behind(tmp_path / "other")
    assert work.facts.closed
    assert work.runs is not None
    trace = read_session(work.runs).shown.trace
    assert not same(trace.storage, TRACE.storage)


def test_a_keeper_lives_on_after_what_nobody_expected(
    session: Session,
    engine: Engine,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _recipe, state = kept_state(session, engine)
    lost = replace(state, tab="\ud800")  # no JSON
    told: list[str] = []
    keeper = Keeper(tmp_path / "root", told.append)
    keeper.do(lambda: 1 / 0)  # type: ignore[arg-type]
    keeper.keep(Work(state=lost))
    while not told:
        pass
    keeper.keep(Work(state=state))
    keeper.close()
    assert told[0]
    assert told[-1] == ""
    assert "ZeroDivisionError" in caplog.text
    assert len(left_behind(tmp_path / "root")) == 1


def test_runs_leave_room_for_the_recipe(
    session: Session,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disk that takes the runs and is full then, until they are away again."""
    recipe, state = kept_state(session, engine)
    folder = OwnFolder(tmp_path)
    write = kept._write

    def full(path: Path, facts: WorkFacts) -> None:
        if [*folder.path.glob("runs-*")]:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, facts)

    monkeypatch.setattr(kept, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        folder.write(recipe, session_of(state, runs_of(state)), FACTS)
    folder.close()
    (work,) = left_behind(tmp_path)
    assert work.recipe == recipe
    assert work.runs is None
    assert not [*folder.path.glob("runs-*")]
