"""Runs of a sentence, without a window: what is asked, what comes of answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.opened import opened_model
from tests.states import ran
from tests.traces import make_trace
from tests.unit.session.sessions import (
    HIDDEN,
    OPEN,
    TRACE,
    Engine,
    answer,
    take,
    translated,
)
from visformer.engine.messages import (
    Decode,
    Done,
    Finished,
    Parameters,
    Refused,
    Replaced,
)
from visformer.engine.mirror import Decoded
from visformer.pictures.selection import Look
from visformer.pictures.words.scene import telling_head
from visformer.session import receive, runs, side_requests, tree
from visformer.session.run import Wish
from visformer.session.runs import is_answered
from visformer.session.state import Next, Session, State
from visformer.values.intervention import NO_CHANGES
from visformer.values.step import Strategy


@pytest.mark.parametrize("ahead", [True, False])
def test_a_sentence_is_decoded_to_its_end_and_shown_where_it_says_most(
    session: Session, engine: Engine, ahead: bool
) -> None:
    """Unless what is not yet written is hidden."""
    session.set(look=Look(ahead=ahead))
    session.do(runs.translate, "one two")
    assert engine.asked == [Decode(source="one two")]
    assert session.state.busy == "decoding"
    empty = TRACE.until(0)
    assert take(session, Decoded(number=1, trace=empty, limit=9)).step == 0
    assert take(session, Decoded(number=1, trace=TRACE.until(2), limit=9)).step == 1
    state = take(session, Decoded(number=1, trace=TRACE, limit=9))
    assert state.step == 1
    state = take(session, Finished(number=1, step_ms=2.0))
    step = telling_head(TRACE).step
    assert step > 1
    assert (state.busy, state.step_ms, state.step) == ("", 2.0, step if ahead else 1)
    session.set(step=1)
    session.do(runs.choose_tokens, Strategy(name="sample", seed=1), None)
    answer(session, engine)
    assert session.state.step == 1  # it is the same sentence


TELLING = make_trace(9, 8, layers=3, heads=4, sharpness=8)


@pytest.mark.parametrize("moved", [{}, {"head": 3}, {"layer": 1}, {"step": 4}])
def test_the_first_run_leads_to_its_telling_head_unless_the_user_went_elsewhere(
    session: Session, engine: Engine, moved: dict[str, Any]
) -> None:
    session.set(led=runs.NO_MODEL, layer=2, head=0)
    session.do(runs.translate, "a")
    for length in (0, 5):
        take(session, Decoded(number=1, trace=TELLING.until(length), limit=9))
    session.set(**moved)
    chosen = session.state.place
    take(session, Decoded(number=1, trace=TELLING, limit=9))
    state = take(session, Finished(number=1, step_ms=2.0))
    kind, layer, head, step = telling_head(TELLING)
    assert layer not in (1, 2)
    led = chosen._replace(kind=kind, layer=layer, head=head, step=step)
    assert state.place == (chosen if moved else led)
    session.set(layer=2, head=2)
    session.do(runs.translate, "b")
    answer(session, engine, TELLING)  # a later run leads nowhere
    assert (session.state.layer, session.state.head) == (2, 2)


def test_a_transition_leaves_the_state_that_it_is_given() -> None:
    before = State()
    after, requests = runs.translate(before, "a")
    assert before.wish == Wish()
    assert after.wish.sentence == "a"
    assert requests == (Decode(source="a"),)


@pytest.mark.parametrize(
    ("text", "words"), [(" ", "is empty"), ("a" * 1_000_001, "many")]
)
def test_bad_text_asks_for_nothing(
    session: Session, engine: Engine, text: str, words: str
) -> None:
    session.do(runs.translate, text)
    assert engine.asked == []
    assert words in session.state.error


def test_another_way_of_choosing_decodes_anew(session: Session, engine: Engine) -> None:
    way = Strategy(name="sample", seed=3)
    session.do(runs.choose_tokens, way, 7)
    assert engine.asked == []  # there is no sentence yet
    translated(session, engine)
    assert (engine.last.strategy, engine.last.limit) == (way, 7)
    session.set(step=4)
    session.do(runs.choose_tokens, Strategy(), None)
    assert (engine.last.strategy, engine.last.limit) == (Strategy(), None)
    answer(session, engine)
    assert session.state.step == 4
    session.do(runs.force, 7)
    assert engine.last.prefix[-1].id == 7
    answer(session, engine)
    session.do(runs.choose_tokens, way, None)  # which chooses every token
    assert engine.last.prefix == ()


def test_answers_to_what_was_superseded_are_dropped(
    session: Session, engine: Engine
) -> None:
    """Of every kind, decoded rows, batches and shuffles alike."""
    translated(session, engine)
    session.do(side_requests.batch, ("a", "b"))
    session.do(side_requests.shuffle)
    session.do(runs.translate, "three")
    before = session.state
    shorter = make_trace(target=2)
    shuffled = Done(number=3, value=((0,), shorter, shorter))
    late = (
        Decoded(number=1, trace=shorter, limit=9),
        Finished(number=1, step_ms=9.0),
        Done(number=2, value=(shorter,)),
        shuffled,
        Refused(number=2, reason="no"),
    )
    for event in late:
        assert receive.receive(before, event) == Next(before)
    state = take(session, Decoded(number=4, trace=shorter, limit=9))
    assert state.trace is shorter
    assert state.batch == ()


def test_a_side_request_supersedes_nothing(session: Session, engine: Engine) -> None:
    take(session, opened_model(TRACE.model))
    session.do(runs.translate, "one")
    session.set(**ran(TRACE), tab="computation", stage="norms")
    assert isinstance(engine.last, Parameters)
    assert take(session, Finished(number=1, step_ms=1.0)).busy == ""


def test_a_refused_sentence_is_said_and_nothing_is_lost(
    session: Session, engine: Engine
) -> None:
    trace = translated(session, engine)
    session.do(runs.translate, "three")
    state = take(session, Refused(number=2, reason="no."))
    assert (state.error, state.busy) == ("no.", "")
    assert state.trace is trace
    assert not state.awaiting.decoding


def test_a_replaced_engine_catches_up_before_anything_changes(
    session: Session, engine: Engine
) -> None:
    trace = translated(session, engine)
    session.set(step=4)
    state = take(session, Replaced(reason="It ended."))
    assert state.notice == "It ended."
    assert (
        take(session, Decoded(number=1, trace=trace.until(2), limit=9)).trace is trace
    )
    again = replace(trace)
    state = take(session, Decoded(number=1, trace=again, limit=9))
    assert (state.trace, state.step) == (again, 4)


def test_a_changed_run_follows_the_baseline(session: Session, engine: Engine) -> None:
    session.do(runs.translate, "one")
    session.do(runs.change_run, OPEN)  # before the baseline run has ended
    assert len(engine.asked) == 1
    baseline = answer(session, engine)
    assert engine.last.intervention == OPEN
    assert session.state.baseline is baseline
    answer(session, engine, replace(TRACE, intervention=OPEN))
    session.do(runs.translate, "two")
    assert engine.last.intervention == NO_CHANGES
    assert session.state.baseline is None
    answer(session, engine)
    assert (engine.last.source, engine.last.intervention) == ("two", OPEN)


def test_back_to_the_baseline_asks_nothing_and_takes_no_more_of_the_change(
    session: Session, engine: Engine
) -> None:
    baseline = translated(session, engine)
    session.do(runs.change_run, HIDDEN)
    session.do(runs.change_run, NO_CHANGES)
    assert len(engine.asked) == 2
    assert session.state.trace is baseline
    late = Decoded(number=2, trace=make_trace(target=2), limit=9)
    assert take(session, late).trace is baseline


def test_changes_are_undone_and_made_again(session: Session, engine: Engine) -> None:
    translated(session, engine)
    asked = len(engine.asked)
    session.do(tree.undo)
    session.do(tree.redo)
    session.do(runs.change_run, NO_CHANGES)
    assert len(engine.asked) == asked
    session.do(runs.change_run, HIDDEN)
    session.do(runs.change_run, OPEN)
    seen = []
    for act in (tree.undo, tree.undo, tree.undo, tree.redo, tree.redo, tree.redo):
        session.do(act)
        seen.append(session.state.intervention)
    assert seen == [HIDDEN, NO_CHANGES, NO_CHANGES, HIDDEN, OPEN, OPEN]
    session.do(tree.undo)
    session.do(runs.change_run, OPEN)  # nothing is left to make again
    assert session.state.history.redo == ()


def test_the_source_and_the_end_of_a_run_are_noticed_once(
    session: Session, engine: Engine
) -> None:
    text = "He left. She stayed."
    trace = replace(TRACE, source_text=text)
    session.do(runs.translate, text)
    for length in range(len(trace) + 1):
        take(session, Decoded(number=1, trace=trace.until(length), limit=len(trace)))
    said = take(session, Finished(number=1, step_ms=2.0)).notice
    assert said.count("The source looks like several sentences") == 1
    assert said.count("ended at its limit of 5 tokens") == 1
    session.do(runs.translate, "another")
    assert session.state.notice == ""


@pytest.mark.parametrize("how", ["stopped", "refused"])
def test_what_is_left_of_a_modified_run_is_never_the_original_one(
    session: Session, engine: Engine, how: str
) -> None:
    """Another sentence was asked for, and did not come: what is shown is modified."""
    translated(session, engine, "one")
    session.do(runs.change_run, OPEN)
    modified = answer(session, engine, replace(TRACE, intervention=OPEN))
    session.do(runs.translate, "two")
    if how == "stopped":
        session.do(runs.stop)
    else:
        take(session, Refused(number=len(engine.asked), reason="It ended twice."))
    assert session.state.trace is modified
    session.do(runs.change_run, HIDDEN)
    assert session.state.baseline is None
    assert (engine.last.source, engine.last.intervention) == ("one", NO_CHANGES)
    baseline = answer(session, engine)
    assert session.state.baseline is baseline
    assert (engine.last.source, engine.last.intervention) == ("one", HIDDEN)


def test_a_modified_run_whose_original_is_unknown_is_restored(
    session: Session, engine: Engine
) -> None:
    translated(session, engine, "one")
    session.do(runs.change_run, OPEN)
    answer(session, engine, replace(TRACE, intervention=OPEN))
    session.do(runs.translate, "two")
    session.do(runs.stop)
    session.do(runs.change_run, NO_CHANGES)
    assert (engine.last.source, engine.last.intervention) == ("one", NO_CHANGES)
    original = answer(session, engine)
    assert (session.state.trace, session.state.intervention) == (original, NO_CHANGES)
    assert engine.last.intervention == NO_CHANGES  # nothing follows it
    assert is_answered(session.state)
