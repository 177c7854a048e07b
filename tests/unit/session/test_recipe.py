"""Recipes: sessions written down, and made again, without a window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.opened import opened_model
from tests.traces import make_trace
from tests.unit.session.sessions import HIDDEN, TRACE, Engine, answer, take, worked
from visformer.engine.messages import Decode, Open
from visformer.errors import InputError
from visformer.pictures.selection import Look
from visformer.session import openings, runs, tree
from visformer.session.kept import looked_at, recipe_of, runs_of, session_of, settled
from visformer.session.recipe import read_recipe, written
from visformer.session.state import Session
from visformer.values.memo import same
from visformer.values.step import Choice, Strategy


def test_a_recipe_comes_back_as_it_was(session: Session, engine: Engine) -> None:
    recipe = recipe_of(worked(session, engine))
    assert recipe is not None
    assert read_recipe(written(recipe)) == recipe
    assert (recipe.path, recipe.digest) == ("/m", TRACE.model.digest)
    assert recipe.wanted.intervention == HIDDEN
    edits = [run.edit for run in recipe.undo]
    assert edits == ["token", "strategy", "change"]
    assert [run.wish.sentence for run in recipe.redo] == ["three"]
    assert recipe.undo[1].prefix[-1] == Choice(7, "forced")


def test_what_is_looked_at_comes_back(session: Session, engine: Engine) -> None:
    worked(session, engine)
    session.go(session.state.turned("masks", "lab"))
    look = Look(form="arcs", hide=frozenset({"pad"}), words=True, mass=0.5)
    views = replace(session.state.views, positions=(2, 9), lens="ranks", mask_layer=1)
    session.set(views=views, look=look, scale="row", stage="norms")
    recipe = recipe_of(session.state)
    assert recipe is not None
    opened = Session(engine=Engine())
    opened.do(runs.show_trace, make_trace(source=6, target=5))
    opened.go(looked_at(opened.state, read_recipe(written(recipe))))
    before, after = session.state, opened.state
    assert after.place == before.place._replace(step=after.step)
    assert (after.look, after.scale) == (look, "row")


@pytest.mark.parametrize(
    "change",
    [
        b"",
        b"[]",
        b'{"wanted":{"sentence":3}}',
        b'{"wanted":{"strategy":{"temperature":0}}}',
        b'{"wanted":{"strategy":{"name":"best"}}}',
        b'{"wanted":{"prefix":[[-1,"forced"]]}}',
        b'{"wanted":{"prefix":[[1,"drawn",[0,1,0,1]]]}}',
        b'{"wanted":{"change":{"masks":[{"change":"x"}]}}}',
        b'{"wanted":{},"layer":-1}',
        b'{"wanted":{},"kind":"sideways"}',
        b'{"wanted":{},"views":{"positions":[1,"b"]}}',
        b'{"wanted":{},"stage_options":{"rate":7}}',
        b'{"wanted":{},"look":{"mass":0}}',
    ],
)
def test_a_recipe_that_is_damaged_is_one_sentence(change: bytes) -> None:
    assert read_recipe(b'{"wanted":{}}') == read_recipe(b'{"wanted":{"step":0}}')
    with pytest.raises(InputError, match="damaged"):
        read_recipe(change)


def test_a_recipe_wants_no_control_characters() -> None:
    texts = b'"sentence":"a\\u0003\\ntouch b\\n","reference":"a\\u009bb"'
    recipe = b'{"wanted":{%s},"undo":[{%s}]}' % (texts, texts)
    read = read_recipe(recipe)
    for wish in (read.wanted.wish, read.undo[0].wish):
        assert (wish.sentence, wish.reference) == ("a \ntouch b\n", "a b")


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
    after.do(tree.undo)  # computed again
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


def test_all_runs_are_saved_with_their_parents_and_never_under_another_wish(
    session: Session, engine: Engine
) -> None:
    state = worked(session, engine)
    saved = session_of(state, runs_of(state))
    assert saved is not None
    assert list(saved.names) == [f"run {n}" for n in range(1, 7)]
    assert [run.parent for run in saved.runs] == [None, 0, 1, 2, 3, 4]
    assert saved.at == 3
    assert saved.shown.trace is state.trace
    session.do(runs.translate, "four")  # nothing of it has come
    assert runs_of(session.state) == []
    held = settled(session.state)
    assert held.wish.sentence == "one two"
    again = session_of(held, runs_of(held))
    assert again is not None
    assert again.shown.trace is state.trace


def test_where_there_is_little_room_the_runs_on_screen_are_kept(
    session: Session, engine: Engine
) -> None:
    state = worked(session, engine)
    shown = [run for run in state.runs if run.key in (state.shown, state.beside)]
    least = sum(run.bytes for run in shown)
    assert runs_of(state, least) == shown
    assert runs_of(state, least - 1) == []
    assert len(runs_of(state, 2 * least)) == 4


def wanted_as_recorded(session: Session) -> bool:
    recipe = recipe_of(session.state)
    assert recipe is not None
    return recipe.recorded


def test_undo_leads_to_the_runs_of_a_file(session: Session, engine: Engine) -> None:
    before = worked(session, engine)
    kept = runs_of(before)
    saved, recipe = session_of(before, kept), recipe_of(before, kept)
    assert saved is not None
    assert recipe is not None
    after, engine = (lambda e: (Session(engine=e), e))(Engine())
    take(after, opened_model(TRACE.model, path="/m"))
    after.do(runs.show_runs, saved.runs, saved.at)
    assert wanted_as_recorded(after)
    after.do(openings.resume, read_recipe(written(recipe)), whole=True)
    assert not wanted_as_recorded(after)  # its model makes it again
    answer(after, engine)
    answer(after, engine, replace(TRACE, intervention=HIDDEN))
    asked = len(engine.asked)
    for number in (2, 1, 0):
        after.do(tree.undo)
        run = after.state.run
        assert run is not None
        assert run.name == f"run {number + 1}"
        assert run.trace is not None
        if number < 2:  # the original of the changed run was made again
            assert same(run.trace.storage, saved.traces[number].storage)
        assert not wanted_as_recorded(after)
    assert len(engine.asked) == asked
    assert len(runs_of(after.state)) == len(saved.runs)
