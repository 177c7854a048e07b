"""What the State makes of an engine that is silent, lost, stopped or replaced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.opened import opened_model
from tests.unit.session.sessions import (
    HIDDEN,
    OTHER,
    TRACE,
    Engine,
    answer,
    take,
    translated,
)
from visformer.engine.messages import (
    Closed,
    Decode,
    Down,
    Finished,
    Open,
    Parameters,
    Refused,
    Replaced,
    Silent,
)
from visformer.engine.mirror import Decoded
from visformer.session import openings, runs
from visformer.session.state import Session
from visformer.values.step import Choice, Strategy


def open_model(session: Session) -> None:
    take(session, opened_model(TRACE.model))


def test_a_choice_is_of_the_sentence_on_screen_or_not_made(
    session: Session, engine: Engine
) -> None:
    """While another sentence is awaited its tokens are not yet there to be replaced."""
    open_model(session)
    translated(session, engine)
    session.do(runs.translate, "another")
    session.do(runs.force, 7)
    assert engine.last.source == "another"
    take(session, Refused(number=2, reason="no."))
    session.do(runs.force, 7)  # it did not come: the picture is what is wanted again
    assert engine.last.source == "one two"
    assert engine.last.prefix[-1] == Choice(7, "forced")


def test_stop_keeps_the_picture_and_what_it_is_of(
    session: Session, engine: Engine
) -> None:
    open_model(session)
    trace = translated(session, engine)
    session.do(runs.translate, "another", reference="x")
    session.do(runs.stop)
    state = session.state
    assert (state.busy, state.notice, state.trace) == ("", "Stopped.", trace)
    assert (state.wish.sentence, state.wish.reference) == ("one two", "")
    late = replace(TRACE, source_text="another")
    assert take(session, Decoded(number=2, trace=late, limit=9)).trace is trace
    session.do(runs.change_run, HIDDEN)
    assert engine.last.source == "one two"
    assert session.state.baseline is trace


def test_a_stopped_baseline_is_followed_by_no_modified_run(
    session: Session, engine: Engine
) -> None:
    open_model(session)
    session.do(runs.translate, "one two")
    session.do(runs.change_run, HIDDEN)
    session.do(runs.stop)
    take(session, Finished(number=1, step_ms=1.0))
    assert len(engine.asked) == 1


def test_no_engine_is_one_sentence_and_the_picture_stays(
    session: Session, engine: Engine
) -> None:
    open_model(session)
    trace = translated(session, engine)
    session.set(tab="computation", stage="norms")
    assert isinstance(engine.last, Parameters)
    session.do(runs.translate, "another")
    state = take(session, Down(reason="The engine does not start."))
    assert (state.error, state.busy) == ("The engine does not start.", "")
    assert state.trace is trace
    assert state.wish.sentence == "one two"
    assert not state.awaiting.decoding


def test_a_lost_model_leaves_its_run_as_a_recorded_one(
    session: Session, engine: Engine
) -> None:
    open_model(session)
    trace = translated(session, engine)
    state = take(session, Closed(reason="It has changed."))
    assert state.opened is None
    assert (state.trace, state.recorded, state.error) == (
        trace,
        True,
        "It has changed.",
    )
    assert state.model is trace.model
    asked = len(engine.asked)
    session.do(runs.force, 7)
    session.do(runs.choose_tokens, Strategy(name="sample"), None)
    session.do(runs.change_run, HIDDEN)
    assert len(engine.asked) == asked  # nobody could answer
    take(session, opened_model(OTHER))
    assert session.state.trace is trace
    session.do(runs.force, 7)
    assert len(engine.asked) == asked


def test_silence_is_shown_until_the_engine_answers(
    session: Session, engine: Engine
) -> None:
    session.do(runs.translate, "one two")
    reason = "The engine has not answered for 10 s."
    assert take(session, Silent(reason=reason)).silence == reason
    assert take(session, Silent()).silence == ""
    take(session, Replaced(reason="It ended."))
    assert session.state.notice == "It ended."


def test_a_choice_made_before_the_model_is_open_is_of_no_other_model(
    session: Session, engine: Engine
) -> None:
    """The tokens that stand before it are of the recorded run's vocabulary."""
    session.do(runs.show_trace, TRACE)
    session.do(openings.open_checkpoint, "/model", given=())
    session.do(runs.force, 7)
    assert isinstance(engine.last, Decode)
    number = len(engine.asked)
    take(session, replace(opened_model(OTHER), number=number))
    late = replace(TRACE, model=OTHER)
    assert take(session, Decoded(number=number, trace=late, limit=9)).trace is TRACE


def test_a_sentence_typed_before_the_model_is_open_is_answered(
    session: Session, engine: Engine
) -> None:
    session.do(runs.show_trace, TRACE)
    session.do(openings.open_checkpoint, "/model", given=())
    assert isinstance(engine.last, Open)
    session.do(runs.translate, "typed")
    take(session, opened_model(OTHER))
    late = replace(TRACE, model=OTHER, source_text="typed")
    number = len(engine.asked)
    assert take(session, Decoded(number=number, trace=late, limit=9)).trace is late


def test_a_shorter_run_takes_the_place_of_a_recorded_one(
    session: Session, engine: Engine
) -> None:
    open_model(session)
    session.do(runs.show_trace, TRACE)
    session.do(runs.choose_tokens, Strategy(), 2)
    answer(session, engine, TRACE.until(2))
    assert len(session.state.trace or ()) == 2
    assert not session.state.recorded


def test_a_model_that_is_nan_says_so_in_its_run(
    session: Session, engine: Engine
) -> None:
    session.do(runs.translate, "one two")
    steps = tuple(replace(step, probability=np.nan) for step in TRACE.steps)
    answer(session, engine, replace(TRACE, steps=steps))
    assert "are not finite" in session.state.notice or "mean nothing" in (
        session.state.notice
    )
