"""The beam search of the sentence on screen, and runs along its histories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.general_traces import Shape, any_trace
from tests.opened import opened_model
from tests.tiny_models import tiny_checkpoint
from tests.unit.session.sessions import HIDDEN, OTHER, TRACE, Engine, answer, take
from tests.unit.session.sessions import translated as asked_for
from visformer.core.decoding import Decoding
from visformer.engine.messages import (
    Decode,
    Done,
    Finished,
    Lens,
    Portion,
    Refused,
    SearchBeams,
)
from visformer.engine.mirror import Decoded
from visformer.session import runs, searches, tree
from visformer.session.runs import show_trace
from visformer.session.searches import no_search_words, wanted_search
from visformer.session.state import Session, State
from visformer.values.beam_search import BeamSearch
from visformer.values.step import Choice, Strategy


def found(beams: int = 2) -> BeamSearch:
    way = Strategy("beam", beams=beams)
    decoding = Decoding(tiny_checkpoint(), "abc", strategy=way, limit=5)
    decoding.finish()
    assert decoding.search is not None
    return decoding.search


FOUND = found()


@pytest.fixture
def searching(session: Session, engine: Engine) -> Session:
    """Return a session whose Search page is on screen; the search is asked for."""
    take(session, opened_model(TRACE.model))
    asked_for(session, engine, "one two")
    session.go(replace(session.state, tab="output").turned("output", "search"))
    return session


def searched(session: Session, engine: Engine) -> State:
    return take(session, Done(number=len(engine.asked), value=FOUND))


def test_the_page_asks_once_for_the_search_on_screen(
    searching: Session, engine: Engine
) -> None:
    assert engine.last == SearchBeams(source="one two", beams=4)
    assert searching.state.busy == "searching"
    state = searched(searching, engine)
    assert state.busy == ""
    assert state.search is not None
    assert state.search.value is FOUND
    assert state.scene.search is FOUND
    asked = len(engine.asked)
    searching.set(step=2)
    assert len(engine.asked) == asked
    searching.do(searches.choose_beams, 7)
    assert engine.last == SearchBeams(source="one two", beams=7)
    searched(searching, engine)
    searching.set(tab="attention")
    searching.do(searches.choose_beams, 3)  # asked for when the page is turned to
    assert len(engine.asked) == asked + 1


def test_nothing_is_said_of_the_search_of_another_run(
    searching: Session, engine: Engine
) -> None:
    searched(searching, engine)
    searching.do(runs.translate, "three four")
    assert searching.state.scene.search is FOUND  # its run is still on screen
    trace = replace(TRACE, source_text="three four")
    take(searching, Decoded(number=len(engine.asked), trace=trace, limit=9))
    assert searching.state.scene.search is None
    assert isinstance(engine.last, Decode)
    take(searching, Finished(number=len(engine.asked), step_ms=1.0))
    assert engine.last == SearchBeams(source="three four", beams=4)


def test_other_pages_ask_for_no_search(session: Session, engine: Engine) -> None:
    take(session, opened_model(TRACE.model))
    asked_for(session, engine, "one two")
    session.set(tab="output", step=1)
    assert isinstance(engine.last, Lens)


def test_forced_tokens_and_changes_are_searched_from(
    searching: Session, engine: Engine
) -> None:
    searched(searching, engine)
    searching.set(step=2)
    searching.do(runs.force, 7)
    made = [Choice(TRACE.steps[0].id, "model"), Choice(7, "forced")]
    assert engine.last.prefix == tuple(made)
    answer(searching, engine)
    assert engine.last == SearchBeams(source="one two", beams=4, prefix=tuple(made))
    searched(searching, engine)
    searching.do(runs.change_run, HIDDEN)
    answer(searching, engine, replace(TRACE, intervention=HIDDEN))
    assert engine.last == SearchBeams(source="one two", beams=4, intervention=HIDDEN)


def test_a_history_is_run_and_undone(searching: Session, engine: Engine) -> None:
    before = searched(searching, engine)
    searching.do(searches.follow, [5, 6, 7])
    asked = engine.last
    assert isinstance(asked, Decode)
    assert asked.prefix == tuple(Choice(id, "beam") for id in (5, 6, 7))
    state = searching.state
    assert (state.cursor, state.history.undo[-1].edit) == (3, "hypothesis")
    answer(searching, engine)
    assert engine.last is asked  # the search on screen is the same
    assert searching.state.search is before.search
    assert searching.state.step == 3
    searching.do(searches.follow, [5, 6, 7])
    assert engine.last is asked
    searching.do(tree.undo)
    assert searching.state.shown == before.shown
    assert searching.state.wish.prefix == ()


def test_a_history_after_forced_tokens_goes_on_with_them(
    searching: Session, engine: Engine
) -> None:
    searched(searching, engine)
    searching.set(step=1)
    searching.do(runs.force, 7)
    answer(searching, engine)
    searched(searching, engine)
    searching.do(searches.follow, [5])
    assert engine.last.prefix == (Choice(7, "forced"), Choice(5, "beam"))
    assert searching.state.cursor == 2


def test_a_decode_by_beams_brings_its_search(session: Session, engine: Engine) -> None:
    take(session, opened_model(TRACE.model))
    session.do(runs.choose_tokens, Strategy("beam", beams=2), None)
    session.do(runs.translate, "one two")
    take(session, Portion(number=len(engine.asked), value=FOUND))
    assert session.state.busy == "decoding"
    answer(session, engine)
    asked = len(engine.asked)
    session.go(replace(session.state, tab="output").turned("output", "search"))
    assert len(engine.asked) == asked
    assert session.state.search is not None
    assert session.state.search.value is FOUND
    session.do(searches.choose_beams, 5)
    assert isinstance(engine.last, Decode)
    assert engine.last.strategy == Strategy("beam", beams=5)


def test_what_is_refused_or_stopped_is_not_asked_again(
    searching: Session, engine: Engine
) -> None:
    number = len(engine.asked)
    state = take(searching, Refused(number=number, reason="It cannot."))
    assert state.search is not None
    assert (state.search.reason, state.busy, state.error) == ("It cannot.", "", "")
    searching.set(step=1)
    assert len(engine.asked) == number
    searching.do(searches.search, again=True)
    searching.do(runs.stop)
    searching.set(step=2)
    assert len(engine.asked) == number + 1
    searching.do(searches.search, again=True)
    assert len(engine.asked) == number + 2


def test_what_cannot_be_searched_is_said(session: Session, engine: Engine) -> None:
    assert no_search_words(session.state) == "No sentence has been run yet."
    session.do(show_trace, TRACE)
    closed = "This run cannot be changed: the model that made it is not open."
    assert no_search_words(session.state) == closed
    take(session, opened_model(OTHER))
    assert "is not open" in no_search_words(session.state)
    assert wanted_search(session.state) is None
    session.do(show_trace, any_trace(Shape(kinds=("encoder",))))
    assert "has no decoder" in no_search_words(session.state)
    session.do(searches.follow, [5])
    assert not any(isinstance(one, SearchBeams | Decode) for one in engine.asked)
