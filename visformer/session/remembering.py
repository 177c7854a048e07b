"""Edits: what the user makes of a run, remembered so that it can be undone."""

from __future__ import annotations

from dataclasses import replace

from visformer.pictures.attention.strips import source_line
from visformer.session.awaiting import is_question
from visformer.session.history import EditedRun, EditName, History, MadeRun
from visformer.session.state import State
from visformer.values.held_memory import compact
from visformer.values.memo import Memo
from visformer.values.trace import Trace


def remembered(state: State, edit: EditName) -> State:
    """Add the current run to what can be undone, before an edit changes it.

    Choosing tokens in one way after the other is one edit; before there is a sentence,
    there is nothing to undo.
    """
    past, revised = state.history.undo, replace(state, revision=object())
    if not state.wish.sentence:
        return revised
    if edit == "strategy" and past and past[-1].edit == edit and not state.history.redo:
        return revised
    undo = (*past, current_run(state, edit))
    return replace(revised, history=History(undo=undo).bounded())


def current_run(state: State, edit: EditName) -> EditedRun:
    """Return the current run as it is kept on one side of an edit."""
    return EditedRun(
        edit=edit,
        wish=state.wish,
        intervention=state.intervention,
        step=state.step,
        revision=state.revision,
        made=_made(state),
    )


def is_current(state: State, run: EditedRun) -> bool:
    """Tell whether a run is the one wanted now, so that going to it changes nothing."""
    return (run.wish, run.intervention) == (state.wish, state.intervention)


def put_back(state: State, run: EditedRun) -> State:
    """Return a run that was kept; what the engine was asked meanwhile is dropped.

    The trace is None where the run must be computed again.
    """
    state = replace(
        state,
        awaiting=state.awaiting.without(is_question),
        wish=run.wish,
        intervention=run.intervention,
        revision=run.revision,
        cursor=None,
        busy="",
        error="",
        notice="",
        baseline=None,
    )
    made = run.made
    if made is None:
        return state
    return replace(
        state,
        trace=made.trace,
        passes=made.passes,
        recorded=made.recorded,
        made_for=made.answers,
        baseline=made.baseline,
        original=made.original,
        step=run.step,
    )


def is_answered(state: State) -> bool:
    """Tell whether the run on screen is the one wanted, as far as it has come."""
    trace = state.trace
    if trace is None:
        return False
    if state.recorded:
        return state.wish.sentence == source_line(trace)
    return state.made_for == state.wish.request(state.intervention)


def _made(state: State) -> MadeRun | None:
    """Return the finished run for this request, or None."""
    trace = state.trace
    if trace is None or state.awaiting.decoding or not is_answered(state):
        return None
    memo = Memo()
    return MadeRun(
        trace=_bare(trace, memo),
        passes=tuple(_bare(one, memo) for one in state.passes),
        recorded=state.recorded,
        answers=state.made_for,
        baseline=None if state.baseline is None else _bare(state.baseline, Memo()),
        original=state.original,
    )


def _bare(trace: Trace, memo: Memo) -> Trace:
    """Return a Trace without what pictures derived of it: that takes more memory."""
    return replace(compact(trace), memo=memo, cut_from=None)
