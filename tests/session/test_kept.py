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

from tests.opened import opened_model
from tests.session.sessions import HIDDEN, TRACE, Engine, answer, take, translated
from tests.traces import make_trace
from visformer.engine.messages import Decode, Open
from visformer.errors import InputError
from visformer.session import forcing, kept, openings, runs
from visformer.session.keeper import Keeper, Work
from visformer.session.kept import (
    MOST_KEPT,
    KeptWork,
    OwnFolder,
    WorkFacts,
    left_behind,
    mark,
    prune,
)
from visformer.session.recipe import Recipe, read_recipe, recipe_of, written
from visformer.session.saved_work import MODIFIED_RUN, ORIGINAL, runs_of, settled
from visformer.session.state import Session, State
from visformer.values.memo import same
from visformer.values.strategy import Strategy
from visformer.values.trace_file import read_session

FACTS = WorkFacts(recipe=msgspec.Raw(b"{}"), saved=1.0)
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")


def worked(session: Session, engine: Engine) -> State:
    """Make every sort of edit, the last one undone."""
    take(session, opened_model(TRACE.model, path="/m"))
    translated(session, engine)
    session.set(step=2, tab="masks", kind="decoder", head=1)
    session.do(forcing.force, 7)
    answer(session, engine, make_trace(source=6, target=5, seed=2))
    session.do(runs.choose_tokens, Strategy(name="sample", seed=4), 9)
    answer(session, engine, make_trace(source=6, target=5, seed=3))
    session.do(runs.change_run, HIDDEN)
    answer(session, engine, replace(TRACE, intervention=HIDDEN))
    session.do(runs.translate, "three", reference="trois")
    answer(session, engine)
    answer(session, engine, replace(TRACE, intervention=HIDDEN))
    session.do(runs.undo)
    return session.state


def test_a_recipe_comes_back_as_it_was(session: Session, engine: Engine) -> None:
    recipe = recipe_of(worked(session, engine))
    assert recipe is not None
    assert read_recipe(written(recipe)) == recipe
    assert (recipe.path, recipe.digest) == ("/m", TRACE.model.digest)
    assert recipe.wanted.intervention == HIDDEN
    edits = [run.edit for run in recipe.undo]
    assert edits == ["token", "strategy", "change"]
    assert [run.wish.sentence for run in recipe.redo] == ["three"]
    assert recipe.undo[1].prefix[-1] == (7, "forced")


@pytest.mark.parametrize(
    "change",
    [
        b"",
        b"[]",
        b'{"wanted":{"sentence":3}}',
        b'{"wanted":{"strategy":{"temperature":0}}}',
        b'{"wanted":{"strategy":{"name":"best"}}}',
        b'{"wanted":{"prefix":[[-1,"forced"]]}}',
        b'{"wanted":{"change":{"masks":[{"change":"x"}]}}}',
        b'{"wanted":{},"layer":-1}',
        b'{"wanted":{},"kind":"sideways"}',
    ],
)
def test_a_recipe_that_is_damaged_is_one_sentence(change: bytes) -> None:
    assert read_recipe(b'{"wanted":{}}') == read_recipe(b'{"wanted":{"step":0}}')
    with pytest.raises(InputError, match="damaged"):
        read_recipe(change)


def test_a_session_is_made_again_from_its_recipe(
    session: Session, engine: Engine
) -> None:
    before = worked(session, engine)
    recipe = recipe_of(before)
    assert recipe is not None
    after, engine = (lambda e: (Session(engine=e), e))(Engine())
    after.do(openings.resume, recipe)
    assert engine.last == Open(path="/m")
    assert recipe_of(after.state) is recipe  # killed now, nothing would be lost
    take(after, opened_model(TRACE.model, path="/m"))
    assert engine.last == Decode(
        source="one two", strategy=Strategy(name="sample", seed=4), limit=9
    )
    answer(after, engine)
    assert engine.last.intervention == HIDDEN
    trace = answer(after, engine, replace(TRACE, intervention=HIDDEN))
    state = after.state
    assert state.trace is trace
    assert (state.wish, state.intervention, state.step) == (
        before.wish,
        before.intervention,
        before.step,
    )
    assert [run.wish for run in state.history.undo] == [
        run.wish for run in before.history.undo
    ]
    after.do(runs.undo)  # computed again
    assert engine.last.intervention == state.history.undo[-1].intervention


@pytest.mark.parametrize("path", ["/m", "/other"])
def test_a_late_answer_to_another_opening_does_not_end_it(
    path: str, session: Session, engine: Engine
) -> None:
    """It may be of the same checkpoint: a window opens its own model as it starts."""
    before = worked(session, engine)
    recipe = recipe_of(before)
    assert recipe is not None
    after, engine = (lambda e: (Session(engine=e), e))(Engine())
    after.do(openings.open_checkpoint, path, given=())
    after.do(runs.show_trace, replace(TRACE, source_text="one two"))
    after.do(openings.resume, recipe)
    late = TRACE.model if path == "/m" else replace(TRACE.model, digest="other")
    take(after, opened_model(late, path=path, number=1))
    assert recipe_of(after.state) is recipe
    take(after, opened_model(TRACE.model, path="/m", number=2))
    assert (after.state.opening, after.state.wish) == (None, before.wish)
    assert after.state.intervention == before.intervention
    assert len(after.state.history.undo) == len(before.history.undo)
    assert engine.last.strategy == before.wish.strategy


def test_what_is_opened_again_is_one_revision(session: Session, engine: Engine) -> None:
    """An edit is another one: until then, what is kept is what was opened again."""
    recipe = recipe_of(worked(session, engine))
    assert recipe is not None
    after, engine = (lambda e: (Session(engine=e), e))(Engine())
    unsaved = after.state.revision
    after.do(openings.resume, recipe)
    revision = after.state.revision
    assert revision is not unsaved
    take(after, opened_model(TRACE.model, path="/m"))
    answer(after, engine)
    assert after.state.revision is revision


def test_another_model_makes_no_run_of_it(session: Session, engine: Engine) -> None:
    recipe = recipe_of(worked(session, engine))
    assert recipe is not None
    after, other = Session(engine=Engine()), replace(TRACE.model, digest="other")
    after.do(runs.show_trace, TRACE)
    after.do(openings.resume, recipe)
    state = take(after, opened_model(other, path="/m"))
    assert "has changed since" in state.error
    assert state.trace is TRACE
    assert not state.awaiting.decoding


def test_runs_are_those_on_screen_and_never_of_another_wish(
    session: Session, engine: Engine
) -> None:
    state = worked(session, engine)
    both = runs_of(state)
    assert [run.name for run in both] == [ORIGINAL, MODIFIED_RUN]
    assert both[-1].trace is state.trace
    session.do(runs.translate, "four")  # nothing of it has come
    assert runs_of(session.state) == []
    held = settled(session.state)
    assert held.wish.sentence == "one two"
    assert [run.trace for run in runs_of(held)][-1] is state.trace


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
    own.write(recipe, runs_of(state), FACTS)
    first = {path.name for path in own.path.iterdir()}
    own.write(recipe, runs_of(state), msgspec.structs.replace(FACTS, saved=2.0))
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
    own.write(recipe, runs_of(state)[1:], FACTS)
    own.write(recipe, [], FACTS)  # another sentence is on its way
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
    own = OwnFolder(tmp_path)
    own.write(recipe, runs_of(state), FACTS)
    own.close()
    (work,) = left_behind(tmp_path)
    assert (work.runs, work.recipe) == (None, recipe)


def test_the_last_five_stay_and_living_windows_are_left_alone(
    session: Session, engine: Engine, tmp_path: Path
) -> None:
    recipe, _state = kept_state(session, engine)
    living = OwnFolder(tmp_path)
    living.write(recipe, [], FACTS)
    for at in range(MOST_KEPT + 3):
        own = OwnFolder(tmp_path)
        own.write(recipe, [], msgspec.structs.replace(FACTS, saved=float(at)))
        own.path.rename(own.path.with_name(f"2000010{at}-000000"))
        own.close()
    prune(tmp_path)
    times = [work.facts.saved for work in left_behind(tmp_path)]
    assert times == [7.0, 6.0, 5.0, 4.0, 3.0]
    assert living.path.is_dir()
    living.close()


def test_what_crashes_twice_is_not_offered_again_but_kept(
    session: Session, engine: Engine, tmp_path: Path
) -> None:
    recipe, _state = kept_state(session, engine)
    own = OwnFolder(tmp_path)
    own.write(recipe, [], FACTS)
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
    own.write(recipe, [], FACTS)
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
    lost = replace(state, wish=replace(state.wish, sentence="\ud800"))  # no JSON
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
        folder.write(recipe, runs_of(state), FACTS)
    folder.close()
    (work,) = left_behind(tmp_path)
    assert work.recipe == recipe
    assert work.runs is None
    assert not [*folder.path.glob("runs-*")]
