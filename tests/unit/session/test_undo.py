"""Edits undone and made again, without a window: what is shown is what was wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.opened import opened_model
from tests.traces import make_trace
from tests.unit.session.sessions import (
    HIDDEN,
    OPEN,
    OTHER,
    TRACE,
    Engine,
    answer,
    take,
    translated,
)
from visformer.engine.messages import Decode, Refused
from visformer.engine.mirror import Decoded
from visformer.session import openings, runs, tree
from visformer.session.run import MOST_EDITS, History
from visformer.session.state import Session
from visformer.values.intervention import NO_CHANGES
from visformer.values.memo import same
from visformer.values.step import GREEDY, Choice, Strategy
from visformer.values.trace import Trace

SAMPLED = Strategy(name="sample", seed=3)


def edit_token(session: Session) -> None:
    session.do(runs.force, 7)


def edit_reference(session: Session) -> None:
    session.do(runs.translate, "one two", reference="un deux")


def edit_sentence(session: Session) -> None:
    session.do(runs.translate, "three")


def edit_strategy(session: Session) -> None:
    session.do(runs.choose_tokens, SAMPLED, 5)


def edit_change(session: Session) -> None:
    session.do(runs.change_run, HIDDEN)


EDITS = {
    "token": edit_token,
    "reference": edit_reference,
    "sentence": edit_sentence,
    "strategy": edit_strategy,
    "change": edit_change,
}
Edit = Callable[[Session], None]


def made(session: Session, engine: Engine, seed: int) -> Trace:
    """Answer the last request with a run of its own."""
    trace = make_trace(source=6, target=5, seed=seed)
    return answer(
        session, engine, replace(trace, intervention=engine.last.intervention)
    )


def shows(session: Session, trace: Trace) -> bool:
    shown = session.state.trace
    return shown is not None and same(shown.storage, trace.storage)


@pytest.mark.parametrize("name", EDITS)
def test_each_edit_is_undone_and_made_again_without_the_engine(
    session: Session, engine: Engine, name: str
) -> None:
    before = translated(session, engine)
    session.set(step=3)
    wish, asked = session.state.wish, len(engine.asked)
    EDITS[name](session)
    assert [run.edit for run in session.state.history.undo] == [name]
    after = made(session, engine, seed=5)
    there, step = (session.state.wish, session.state.intervention), session.state.step
    assert len(engine.asked) == asked + 1
    session.do(tree.undo)
    state = session.state
    assert shows(session, before)
    assert (state.wish, state.intervention, state.step) == (wish, NO_CHANGES, 3)
    assert not state.history.undo
    session.do(tree.redo)
    state = session.state
    assert shows(session, after)
    assert ((state.wish, state.intervention), state.step) == (there, step)
    assert not state.history.redo
    assert len(engine.asked) == asked + 1


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_undone_leaves_nothing_to_save(
    session: Session, engine: Engine, name: str
) -> None:
    translated(session, engine)
    saved = session.state.revision
    EDITS[name](session)
    made(session, engine, seed=5)
    edited = session.state.revision
    assert edited is not saved
    session.do(tree.undo)
    assert session.state.revision is saved
    session.do(tree.redo)
    assert session.state.revision is edited


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_undone_while_it_is_decoded_leaves_nothing_of_it(
    session: Session, engine: Engine, name: str
) -> None:
    before = translated(session, engine)
    EDITS[name](session)
    number, request = len(engine.asked), engine.last
    part = make_trace(source=6, target=2, seed=5)
    take(session, Decoded(number=number, trace=part, limit=9))
    session.do(tree.undo)
    assert shows(session, before)
    assert session.state.busy == ""
    take(session, Decoded(number=number, trace=part, limit=9))  # it comes too late
    assert shows(session, before)
    session.do(tree.redo)  # half of it was there: it is made again, whole
    if name == "change":  # after the run without the change
        made(session, engine, seed=6)
    assert engine.last == request


def test_all_edits_one_after_the_other_and_back(
    session: Session, engine: Engine
) -> None:
    seen = [translated(session, engine)]
    for seed, name in enumerate(EDITS, 10):
        EDITS[name](session)
        seen.append(made(session, engine, seed))
        if session.state.awaiting.decoding:  # the modified run after the original one
            seen[-1] = made(session, engine, seed + 50)
    for trace in reversed(seen[:-1]):
        session.do(tree.undo)
        assert shows(session, trace)
    for trace in seen[1:]:
        session.do(tree.redo)
        assert shows(session, trace)


def test_restoring_brings_back_the_wish_of_the_original_run(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.set(step=2)
    session.do(runs.force, 7)
    forced = made(session, engine, seed=3)
    wish = session.state.wish
    assert wish.prefix[-1] == Choice(7, "forced")
    session.do(runs.change_run, OPEN)
    assert engine.last.prefix == ()  # the choices were made in another run
    made(session, engine, seed=4)
    session.do(runs.change_run, NO_CHANGES)
    assert shows(session, forced)
    assert session.state.wish == wish
    session.do(tree.undo)
    session.do(tree.undo)
    assert (shows(session, forced), session.state.wish) == (True, wish)


def test_a_choice_is_not_made_in_a_run_that_is_about_to_go(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.do(runs.change_run, OPEN)
    asked = len(engine.asked)
    session.do(runs.force, 7)
    assert len(engine.asked) == asked


def test_one_strategy_after_the_other_is_one_edit(
    session: Session, engine: Engine
) -> None:
    first = translated(session, engine)
    for seed in (1, 2, 3):
        session.do(runs.choose_tokens, replace(SAMPLED, seed=seed), None)
        made(session, engine, seed)
    session.do(tree.undo)
    assert shows(session, first)
    assert session.state.wish.strategy == GREEDY


def test_a_refused_sentence_is_no_step_of_undo(
    session: Session, engine: Engine
) -> None:
    first = translated(session, engine)
    session.do(runs.force, 7)
    made(session, engine, seed=2)
    session.do(runs.translate, "three")
    take(session, Refused(number=len(engine.asked), reason="no."))
    session.do(tree.undo)
    session.do(tree.undo)
    assert shows(session, first)


def test_a_recorded_run_comes_back_though_its_model_is_not_open(
    session: Session, engine: Engine
) -> None:
    recorded = replace(TRACE, source_text="a line")
    session.do(runs.show_trace, recorded)
    take(session, opened_model(OTHER))
    session.do(runs.translate, "one")
    answer(session, engine, replace(TRACE, model=OTHER))
    session.do(tree.undo)
    assert shows(session, recorded)
    assert session.state.recorded
    assert session.state.wish.sentence == "a line"
    session.do(tree.redo)
    assert not session.state.recorded
    session.do(runs.show_trace, recorded)  # a file that is opened is no edit
    assert not session.state.history.undo


def test_a_recorded_modified_run_is_run_again_with_its_changes(
    session: Session, engine: Engine
) -> None:
    session.do(runs.show_trace, replace(TRACE, intervention=HIDDEN))
    take(session, opened_model(TRACE.model))
    assert engine.last.intervention == NO_CHANGES
    assert engine.last.prefix == ()
    made(session, engine, seed=2)
    assert engine.last.intervention == HIDDEN
    assert [choice.id for choice in engine.last.prefix] == [s.id for s in TRACE.steps]


def test_a_change_before_the_model_is_there_is_kept(
    session: Session, engine: Engine
) -> None:
    session.do(openings.open_checkpoint, "/m", given=())
    session.do(runs.show_trace, TRACE)
    session.do(runs.change_run, HIDDEN)
    take(session, opened_model(TRACE.model, path="/m"))
    made(session, engine, seed=2)
    assert engine.last.intervention == HIDDEN


def test_history_is_bounded_in_edits() -> None:
    session, engine = Session(), Engine()
    session = Session(engine=engine)
    translated(session, engine)
    for turn in range(MOST_EDITS + 20):
        session.do(runs.translate, f"line {turn}")
        made(session, engine, seed=turn % 3)
    assert len(session.state.history.undo) == MOST_EDITS
    kept = [one.wish.sentence for one in session.state.history.undo]
    assert kept == [f"line {turn}" for turn in range(19, MOST_EDITS + 19)]


def test_a_run_that_is_left_holds_nothing_that_pictures_derived(
    session: Session, engine: Engine
) -> None:
    first = translated(session, engine)
    first.attention_heads("cross", 0)
    session.do(runs.change_run, HIDDEN)
    made(session, engine, seed=5)
    assert session.state.baseline is first  # it is compared with
    session.do(runs.translate, "three")
    made(session, engine, seed=6)
    made(session, engine, seed=7)
    traces = [run.trace for run in session.state.runs if run.trace is not None]
    (kept,) = (trace for trace in traces if same(trace.storage, first.storage))
    assert kept.memo is not first.memo


def test_what_is_no_longer_kept_is_decoded_again(
    session: Session, engine: Engine
) -> None:
    translated(session, engine)
    session.set(step=2)
    session.do(runs.force, 7)
    made(session, engine, seed=3)
    request = engine.last
    session.do(runs.translate, "three")
    made(session, engine, seed=4)
    past = tuple(replace(run, run=0) for run in session.state.history.undo)
    session.set(history=History(undo=past))
    session.do(tree.undo)
    assert engine.last == request
    made(session, engine, seed=3)
    assert session.state.step == 2
    session.do(tree.undo)
    assert engine.last == Decode(source="one two")
