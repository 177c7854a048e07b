"""Importance, as it is asked for and kept, without a window."""

from __future__ import annotations

from dataclasses import replace

from tests.importances import make_importance, over_pairs
from tests.opened import opened_model
from tests.traces import make_trace
from tests.unit.session.sessions import HIDDEN, OTHER, TRACE, Engine, answer, take
from visformer.engine.messages import (
    Done,
    Refused,
    SwitchOff,
    SwitchOffOverPairs,
)
from visformer.session import runs
from visformer.session.side_requests import measure_importance, measure_pairs
from visformer.session.state import Session
from visformer.values.intervention import Intervention

MADE = make_importance(TRACE)


def begun(session: Session, engine: Engine) -> None:
    """Translate a sentence with the page on screen."""
    take(session, opened_model(TRACE.model))
    session.go(session.state.turned("diagnosis", "importance"))
    session.set(tab="diagnosis")
    session.do(runs.translate, "one two")
    assert not isinstance(engine.last, SwitchOff)  # it is decoded first
    answer(session, engine)


def test_a_run_is_measured_once_while_the_page_is_visible(
    session: Session, engine: Engine
) -> None:
    begun(session, engine)
    asked = engine.last
    assert isinstance(asked, SwitchOff)
    assert session.state.busy
    assert asked.source == "one two"
    ids = tuple(step.id for step in TRACE.steps)
    assert asked.ids == (tuple(TRACE.target_ids.tolist()), ids)
    assert (asked.given, asked.fed) == (0, False)
    count = len(engine.asked)
    state = take(session, Done(number=count, value=MADE))
    assert state.importance is not None
    assert state.importance.value is MADE
    assert not state.busy
    session.set(step=2, kind="encoder")
    session.set(tab="attention")
    session.set(tab="diagnosis")
    assert len(engine.asked) == count
    session.do(runs.change_run, HIDDEN)
    changed = make_trace(source=6, target=5, seed=2)
    answer(session, engine, replace(changed, intervention=HIDDEN))
    asked = [one for one in engine.asked if isinstance(one, SwitchOff)]
    assert [one.intervention for one in asked] == [Intervention(), HIDDEN]


def test_another_page_asks_for_nothing(session: Session, engine: Engine) -> None:
    take(session, opened_model(TRACE.model))
    session.set(tab="diagnosis")
    session.do(runs.translate, "one two")
    answer(session, engine)
    assert not any(isinstance(one, SwitchOff) for one in engine.asked)


def test_what_was_stopped_or_refused_is_measured_again_on_request(
    session: Session, engine: Engine
) -> None:
    begun(session, engine)
    count = len(engine.asked)
    session.do(runs.stop)
    assert len(engine.asked) == count
    session.do(measure_importance, again=True)
    assert len(engine.asked) == count + 1
    state = take(session, Refused(number=count + 1, reason="It has no heads."))
    assert state.importance is not None
    assert state.importance.reason == "It has no heads."
    assert not state.error
    assert len(engine.asked) == count + 1


def test_the_pairs_of_a_file_stay_until_the_sentence_is_wanted(
    session: Session, engine: Engine
) -> None:
    begun(session, engine)
    take(session, Done(number=len(engine.asked), value=MADE))
    session.do(measure_pairs, "refs.tsv")
    assert engine.last == SwitchOffOverPairs(path="refs.tsv")
    made = over_pairs(TRACE)
    take(session, Done(number=len(engine.asked), value=made))
    session.do(runs.translate, "three")
    answer(session, engine)
    assert session.state.importance is not None
    assert session.state.importance.value is made
    session.do(measure_pairs, "")
    assert isinstance(engine.last, SwitchOff)


def test_a_recorded_run_without_its_model_says_so(
    session: Session, engine: Engine
) -> None:
    take(session, opened_model(OTHER))
    session.go(session.state.turned("diagnosis", "importance"))
    session.set(tab="diagnosis")
    session.do(runs.show_trace, TRACE)
    assert session.state.importance is not None
    assert "is not open" in session.state.importance.reason
    assert not any(isinstance(one, SwitchOff) for one in engine.asked)
