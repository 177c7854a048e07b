"""The tree of runs, without a window: what adds a run, and what is done to runs."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest

from tests.opened import opened_model
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from tests.unit.session.sessions import (
    HIDDEN,
    OTHER,
    TRACE,
    Engine,
    answer,
    take,
    translated,
    worked,
)
from visformer.core.decoding import Decoding
from visformer.engine.mirror import Decoded
from visformer.pictures.runs_tree import mean_log_p, outline
from visformer.session import openings, run, runs, tree
from visformer.session.kept import recipe_of, runs_of, session_of
from visformer.session.recipe import read_recipe, written
from visformer.session.run import Run
from visformer.session.state import Session
from visformer.values.intervention import NO_CHANGES, parse

CHANGED = replace(TRACE, intervention=HIDDEN)
THIRD = make_trace(source=6, target=5, seed=3)


def parents(session: Session) -> dict[str, str]:
    """Return the name of each run's parent; "" for none."""
    names = {one.key: one.name for one in session.state.tree}
    return {o.name: names.get(o.parent or 0, "") for o in session.state.tree}


def key(session: Session, name: str) -> int:
    return next(one.key for one in session.state.runs if one.name == name)


def shown(session: Session) -> str:
    now = session.state.run
    return "" if now is None else now.name


def grown(session: Session, engine: Engine) -> None:
    """Make run 2 of run 1 by a token, run 3 of it by a change, run 4 of that."""
    take(session, opened_model(TRACE.model, path="/m"))
    translated(session, engine)
    session.set(step=2)
    session.do(runs.force, 7)
    answer(session, engine, make_trace(source=6, target=5, seed=2))
    session.do(runs.change_run, HIDDEN)
    answer(session, engine, replace(THIRD, intervention=HIDDEN))
    session.do(runs.translate, "three")
    answer(session, engine)


def test_each_edit_adds_a_run_to_the_one_that_it_came_from(
    session: Session, engine: Engine
) -> None:
    grown(session, engine)
    # with the change still on, the new sentence's own run comes first
    answer(session, engine, CHANGED)
    assert parents(session) == {
        "run 1": "",
        "run 2": "run 1",
        "run 3": "run 2",
        "run 4": "run 3",
        "run 5": "run 4",
    }
    assert shown(session) == "run 5"
    assert session.state.baseline is not None
    session.do(openings.open_checkpoint, "/n", given=())
    number = len(engine.asked)
    take(session, opened_model(OTHER, path="/n", number=number))
    answer(session, engine, replace(TRACE, model=OTHER))
    assert parents(session)["run 6"] == "run 5"
    made = session.state.run
    assert made is not None
    assert (made.path, made.change) == ("/n", NO_CHANGES)


def test_a_change_of_a_changed_run_comes_from_it_and_keeps_its_original(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.do(runs.change_run, HIDDEN)
    answer(session, engine, CHANGED)
    both = parse(["hide 3; hide 4"])
    session.do(runs.change_run, both)
    answer(session, engine, replace(TRACE, intervention=both))
    assert parents(session) == {"run 1": "", "run 2": "run 1", "run 3": "run 2"}
    original = session.state.find(session.state.beside)
    assert original is not None
    assert original.name == "run 1"
    session.do(tree.undo)
    assert session.state.beside == original.key
    compared = session.state.compared
    assert compared is not None
    assert compared.name == "run 1"


def test_what_is_asked_again_is_the_same_run(session: Session, engine: Engine) -> None:
    translated(session, engine, "one")
    translated(session, engine, "two")
    session.do(tree.rename, key(session, "run 1"), "first")
    translated(session, engine, "one")
    assert shown(session) == "first"
    assert parents(session) == {"first": "", "run 2": "first"}


def test_a_recorded_run_that_its_model_takes_over_keeps_its_place(
    session: Session, engine: Engine
) -> None:
    session.do(runs.show_trace, replace(CHANGED, source_text="one two"))
    take(session, opened_model(TRACE.model))
    answer(session, engine)  # its original comes first
    answer(session, engine, CHANGED)
    assert parents(session) == {"run 1": "run 2", "run 2": ""}
    assert shown(session) == "run 1"
    session.do(runs.change_run, NO_CHANGES)
    session.do(runs.translate, "one two")  # as the model's own choices were
    answer(session, engine)
    assert len(session.state.tree) == 2


def test_another_run_is_shown_at_the_same_step_and_undo_leads_back(
    session: Session, engine: Engine
) -> None:
    grown(session, engine)
    answer(session, engine, CHANGED)
    session.set(step=3)
    asked = len(engine.asked)
    session.do(tree.show, key(session, "run 2"))
    state = session.state
    assert (shown(session), state.step) == ("run 2", 3)
    assert state.wish.sentence == "one two"
    assert (state.intervention, state.beside) == (NO_CHANGES, 0)
    session.do(tree.show, key(session, "run 3"))
    assert session.state.intervention == HIDDEN
    assert session.state.beside == key(session, "run 2")
    session.do(tree.undo)
    session.do(tree.undo)
    assert shown(session) == "run 5"
    session.do(tree.redo)
    assert shown(session) == "run 2"
    assert len(engine.asked) == asked


def test_a_run_that_was_let_go_is_computed_again(
    session: Session, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MOST_BYTES", 0)
    grown(session, engine)
    answer(session, engine, CHANGED)
    first = session.state.find(key(session, "run 1"))
    assert first is not None
    assert first.trace is None
    assert first.outline.text == TRACE.text
    assert first.outline.mean == pytest.approx(mean_log_p(TRACE))
    session.do(tree.show, first.key)
    assert engine.last == first.request
    answer(session, engine)
    now = session.state.run
    assert now is not None
    assert (now.key, now.name, now.parent) == (first.key, "run 1", first.parent)
    session.do(tree.show, key(session, "run 3"))  # changed: its original comes first
    assert engine.last.intervention == NO_CHANGES
    answer(session, engine)
    answer(session, engine, CHANGED)
    assert shown(session) == "run 3"
    assert session.state.beside == key(session, "run 1")
    assert len(session.state.tree) == 5


def test_a_run_of_another_model_is_shown_as_recorded(
    session: Session, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(session, opened_model(TRACE.model, path="/m"))
    translated(session, engine)
    take(session, opened_model(OTHER, path="/n"))
    answer(session, engine, replace(TRACE, model=OTHER))
    session.do(tree.show, key(session, "run 1"))
    assert session.state.recorded
    assert "not open" in runs.fixed_words(session.state)
    session.do(tree.show, key(session, "run 2"))
    assert not session.state.recorded
    monkeypatch.setattr(run, "MOST_BYTES", 0)
    session.set(pinned=key(session, "run 2"))
    translated(session, engine, "three")
    session.do(tree.show, key(session, "run 1"))
    assert "“run 1” are no longer kept" in session.state.error
    assert len(session.state.error) <= 200


def test_what_was_never_finished_leaves_the_tree_with_the_screen(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.do(runs.translate, "two")
    part = Decoded(number=len(engine.asked), trace=TRACE.until(2), limit=9)
    take(session, part)
    assert [one.name for one in session.state.tree] == ["run 1", "run 2"]
    session.do(runs.translate, "three")
    answer(session, engine)
    assert parents(session) == {"run 1": "", "run 3": "run 1"}


def test_a_run_has_a_name_of_its_own(session: Session, engine: Engine) -> None:
    translated(session, engine, "one")
    translated(session, engine, "two")
    revision = session.state.revision
    session.do(tree.rename, key(session, "run 2"), "  the  second ")
    assert session.state.revision is not revision
    session.do(tree.rename, key(session, "run 1"), "the second")
    assert "Another run is called “the second”" in session.state.error
    for name in (" ", "x" * 61):
        session.do(tree.rename, key(session, "run 1"), name)
        assert "1 to 60 characters" in session.state.error
    assert [one.name for one in session.state.tree] == ["run 1", "the second"]
    session.do(tree.rename, key(session, "run 1"), "run 3")
    translated(session, engine, "three")
    assert shown(session) == "run 4"


def test_a_pinned_run_is_the_one_that_others_are_compared_with(
    session: Session, engine: Engine
) -> None:
    grown(session, engine)
    answer(session, engine, CHANGED)
    session.do(tree.pin, key(session, "run 2"))
    for name in ("run 1", "run 3", "run 5"):
        session.do(tree.show, key(session, name))
        compared = session.state.compared
        assert compared is not None
        assert compared.name == "run 2"
    session.do(tree.show, key(session, "run 2"))
    assert session.state.compared is None
    session.do(tree.pin, key(session, "run 2"))  # again: no more
    assert session.state.pinned is None


def test_a_deletion_closes_a_comparison_and_is_undone(
    session: Session, engine: Engine
) -> None:
    grown(session, engine)
    answer(session, engine, CHANGED)
    session.do(tree.delete, key(session, "run 4"))  # the parent of the one shown
    assert "“run 4” is deleted, and its comparison is closed" in session.state.notice
    assert session.state.compared is None
    assert shown(session) == "run 5"
    session.do(tree.delete, key(session, "run 5"))  # itself
    assert shown(session) == "run 3"  # from which it came
    assert [one.name for one in session.state.tree] == ["run 1", "run 2", "run 3"]
    session.do(tree.undo)
    assert shown(session) == "run 5"
    session.do(tree.undo)
    assert len(session.state.tree) == 5
    session.do(tree.redo)
    session.do(tree.redo)
    assert (shown(session), len(session.state.tree)) == ("run 3", 3)
    session.do(tree.undo)
    assert parents(session)["run 5"] == ""  # run 4 is not there to be seen
    session.do(tree.undo)
    assert parents(session)["run 5"] == "run 4"


def test_a_pinned_run_is_deleted_and_others_are_compared_with_their_parents(
    session: Session, engine: Engine
) -> None:
    grown(session, engine)
    answer(session, engine, CHANGED)
    session.do(tree.pin, key(session, "run 1"))
    session.do(tree.delete, key(session, "run 1"))
    assert session.state.compared is None
    session.do(tree.show, key(session, "run 3"))
    compared = session.state.compared
    assert compared is not None
    assert compared.name == "run 2"


def test_the_only_run_stays(session: Session, engine: Engine) -> None:
    translated(session, engine)
    session.do(tree.delete, key(session, "run 1"))
    assert "only run" in session.state.error
    assert len(session.state.tree) == 1


def test_a_tree_is_bounded(session: Session, engine: Engine) -> None:
    for turn in range(run.MOST_RUNS + 5):
        translated(session, engine, f"line {turn}")
    assert len(session.state.tree) <= run.MOST_RUNS + 1
    assert "" in parents(session).values()


def test_a_session_keeps_the_tree(
    session: Session, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked(session, engine)
    session.do(tree.rename, key(session, "run 2"), "forced")
    monkeypatch.setattr(run, "MOST_BYTES", 0)
    session.do(tree.pin, key(session, "run 1"))
    state = session.state
    assert state.find(key(session, "forced")) is not None
    kept = runs_of(state)
    assert len(kept) < len(state.tree)  # some were let go
    saved, recipe = session_of(state, kept), recipe_of(state, kept)
    assert saved is not None
    assert recipe is not None
    assert saved.baseline is not None
    assert saved.runs[saved.baseline].name == "run 1"
    before = parents(session)
    after = Session(engine=Engine())
    take(after, opened_model(TRACE.model, path="/m"))
    after.do(runs.show_runs, saved.runs, saved.at, saved.baseline)
    after.do(openings.resume, read_recipe(written(recipe)), whole=True)
    assert parents(after) == before
    assert after.state.pinned == key(after, "run 1")
    again = after.state.find(key(after, "forced"))
    then = state.find(key(session, "forced"))
    assert again is not None
    assert then is not None
    assert again.request == then.request
    assert again.outline == then.outline


def test_the_mean_is_that_of_the_tokens_written() -> None:
    steps = tuple(
        replace(step, probability=p)
        for step, p in zip(TRACE.steps, (0.5, 0.25, 1.0, 0.125, 0.5), strict=True)
    )
    trace = replace(TRACE, steps=steps)
    assert mean_log_p(trace) == pytest.approx(-7 * math.log(2) / 5)
    broken = replace(steps[1], probability=math.nan)
    trace = replace(TRACE, steps=(steps[0], broken, *steps[2:]))
    assert math.isnan(mean_log_p(trace) or 0)
    given = replace(TRACE, steps=steps, prompt=4)
    assert mean_log_p(given) == pytest.approx(-4 * math.log(2) / 2)
    assert mean_log_p(TRACE.until(0)) is None


def test_a_run_without_numbers_takes_no_memory() -> None:
    made = Run(trace=TRACE)
    assert made.bytes > 0
    assert made.let_go().bytes == 0
    assert made.let_go().let_go().outline == made.outline


def test_the_outline_of_a_forced_token_can_be_written() -> None:
    decoding = Decoding(tiny_checkpoint(), "abc", limit=4)
    decoding.step(2)
    said = outline(decoding.force("z"))
    assert said.forced == ((2, "z"),)
    assert msgspec.json.decode(msgspec.json.encode(said), type=type(said)) == said
