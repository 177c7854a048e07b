"""Tokens that the user forces, and references that are fed, without a window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import fed, make_trace
from tests.unit.session.sessions import TRACE, Engine, answer, translated
from visformer.engine.messages import Decode
from visformer.pictures.words.modified_run import is_taught
from visformer.pictures.words.scene import telling_head
from visformer.session import runs, tree
from visformer.session.kept import recipe_of
from visformer.session.recipe import read_recipe, written
from visformer.session.state import Session
from visformer.values.step import Choice, Strategy

TAUGHT = fed(TRACE, dict.fromkeys(range(len(TRACE)), "reference"), wrong=(2,))


def taught(session: Session, engine: Engine) -> None:
    session.do(runs.translate, "one two", reference="un deux")
    answer(session, engine, TAUGHT)


def test_a_reference_is_shown_where_it_says_most(
    session: Session, engine: Engine
) -> None:
    taught(session, engine)
    assert engine.last == Decode(source="one two", reference="un deux")
    assert session.state.trace is not None
    assert session.state.step == telling_head(session.state.trace).step > 1


def test_fed_and_free_take_turns_at_the_same_step(
    session: Session, engine: Engine
) -> None:
    taught(session, engine)
    session.set(step=3)
    session.do(runs.teach, fed=False)
    assert engine.last == Decode(source="one two")
    assert session.state.wish.reference == "un deux"
    answer(session, engine)
    assert session.state.step == 3
    asked = len(engine.asked)
    session.do(runs.teach, fed=False)  # it is already
    assert len(engine.asked) == asked
    session.do(runs.teach, fed=True)
    assert engine.last.reference == "un deux"
    answer(session, engine, TAUGHT)
    assert session.state.step == 3
    session.do(tree.undo)
    assert not session.state.wish.fed
    assert session.state.trace is not None
    assert not is_taught(session.state.trace)


def test_a_dropped_reference_ends_its_run_at_once(
    session: Session, engine: Engine
) -> None:
    taught(session, engine)
    session.do(runs.drop_reference)
    assert engine.last == Decode(source="one two")
    assert session.state.wish.reference == ""
    answer(session, engine)
    asked = len(engine.asked)
    session.do(runs.drop_reference)  # there is none
    assert len(engine.asked) == asked
    session.do(tree.undo)
    assert session.state.wish.reference == "un deux"


def test_a_reference_that_is_not_fed_is_dropped_without_a_run(
    session: Session, engine: Engine
) -> None:
    taught(session, engine)
    session.do(runs.teach, fed=False)
    trace, asked = answer(session, engine), len(engine.asked)
    session.do(runs.drop_reference)
    assert len(engine.asked) == asked
    assert session.state.trace is not None
    assert session.state.trace.storage == trace.storage
    assert not session.state.wish.reference


def test_a_token_forced_in_a_reference_is_decoded_from(
    session: Session, engine: Engine
) -> None:
    taught(session, engine)
    session.set(step=2)
    session.do(runs.force, 7)
    first = TAUGHT.steps[0].id
    expected = (Choice(first, "reference"), Choice(7, "forced"))
    assert engine.last == Decode(source="one two", prefix=expected)
    assert session.state.wish.reference == "un deux"  # to compare with


def test_a_recipe_keeps_whether_the_reference_is_fed(
    session: Session, engine: Engine
) -> None:
    taught(session, engine)
    session.do(runs.teach, fed=False)
    answer(session, engine)
    recipe = recipe_of(session.state)
    assert recipe is not None
    wish = read_recipe(written(recipe)).wanted.wish
    assert (wish.reference, wish.fed) == ("un deux", False)


def test_the_models_own_choice_is_not_forced(session: Session, engine: Engine) -> None:
    translated(session, engine)
    own = TRACE.steps[2].id
    session.set(step=3)
    session.do(runs.force, 7)
    assert engine.last.prefix[-1] == Choice(7, "forced")
    answer(session, engine, fed(TRACE, {2: "forced"}, wrong=(2,)))
    session.do(runs.force, own)
    assert engine.last.prefix == ()  # all of it is the model's own again


def test_other_forced_tokens_stay_when_one_is_taken_back(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.set(step=1)
    session.do(runs.force, 7)
    answer(session, engine, fed(TRACE, {0: "forced"}, wrong=(0,)))
    session.set(step=4)
    assert session.state.visible is not None
    own = session.state.visible.steps[-1].id
    session.do(runs.force, 8)
    answer(session, engine, fed(TRACE, {0: "forced", 3: "forced"}, wrong=(0, 3)))
    session.do(runs.force, own)
    assert engine.last.prefix == (Choice(49, "forced"),)


def test_greedy_takes_its_best_token_as_its_own(
    session: Session, engine: Engine
) -> None:
    session.do(runs.translate, "one two", reference="un deux")
    answer(session, engine, TAUGHT)
    session.set(step=3)
    session.do(runs.force, TAUGHT.steps[2].candidates[0].id)
    kept = tuple(Choice(step.id, "reference") for step in TAUGHT.steps[:2])
    assert engine.last.prefix == kept


@pytest.mark.parametrize("drawn", [False, True])
def test_what_is_drawn_is_known_of_an_earlier_run_only(
    session: Session, engine: Engine, drawn: bool
) -> None:
    session.do(runs.choose_tokens, Strategy(name="sample", seed=3), None)
    trace = make_trace(source=6, target=5)
    drew = replace(trace.steps[2], id=31, token="▁d", rank=3)
    steps = (*trace.steps[:2], drew, *trace.steps[3:])
    session.do(runs.translate, "one two")
    answer(session, engine, replace(trace, steps=steps))
    session.set(step=3)
    session.do(runs.force, 7)
    answer(session, engine, fed(trace, {2: "forced"}, wrong=(2,)))
    session.do(runs.force, 31 if drawn else trace.steps[2].candidates[0].id)
    assert (engine.last.prefix == ()) == drawn


@pytest.mark.parametrize("same", [False, True])
def test_the_models_own_choice_is_that_after_the_same_tokens(
    session: Session, engine: Engine, same: bool
) -> None:
    session.do(runs.choose_tokens, Strategy(name="sample", seed=3), None)
    trace = make_trace(source=6, target=5)
    session.do(runs.translate, "one two")
    answer(session, engine, trace)
    session.set(step=3)
    session.do(runs.force, 7)
    forced = fed(trace, {2: "forced"}, wrong=(2,))
    ids = forced.target_ids.copy()
    ids[2] += not same  # the token that the row of this step reads
    answer(session, engine, replace(forced, target_ids=ids))
    assert runs.own_choice(session.state) == (trace.steps[2].id if same else None)
