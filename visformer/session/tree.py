"""The tree of runs: undo and redo, and what is done to runs that are not on screen.

Every function here is pure, as those of ``runs``.
"""

from __future__ import annotations

from dataclasses import replace

from visformer.language import _
from visformer.pictures.attention.strips import source_line
from visformer.session.pending import is_question
from visformer.session.run import (
    MOST_EDITS,
    EditedRun,
    History,
    Run,
    Wish,
    original_of,
    parent_of,
    with_run,
)
from visformer.session.runs import current_run, decode, remembered
from visformer.session.state import Next, State
from visformer.values.layer_weights import same_model

LONGEST_NAME = 60  # characters


# ---- undo and redo -------------------------------------------------------------


def undo(state: State) -> Next:
    """Go back to the run before the last edit."""
    undo, redo = _skipped(state, state.history.undo), state.history.redo
    if not undo:
        return Next(state)
    run = undo[-1]
    history = History(undo[:-1], (*redo, _left(state, run)))
    return put_back(_deleted(replace(state, history=history), run, gone=False), run)


def redo(state: State) -> Next:
    """Go on to the run after the edit that was undone last."""
    undo, redo = state.history.undo, _skipped(state, state.history.redo)
    if not redo:
        return Next(state)
    run = redo[-1]
    history = History((*undo, _left(state, run)), redo[:-1])
    return put_back(_deleted(replace(state, history=history), run, gone=True), run)


def _left(state: State, across: EditedRun) -> EditedRun:
    """Return the current run as it is kept on the other side of an edit."""
    return replace(current_run(state, across.edit), deleted=across.deleted)


def _deleted(state: State, across: EditedRun, *, gone: bool) -> State:
    """Delete a run again across its deletion, or bring it back."""
    run = state.find(across.deleted)
    if run is None:
        return state
    return replace(state, runs=with_run(state.runs, replace(run, gone=gone)))


def _skipped(state: State, runs: tuple[EditedRun, ...]) -> tuple[EditedRun, ...]:
    """Leave out the nearest runs that are the current one: refused edits leave them."""
    now = state.wish, state.intervention
    while runs and not runs[-1].deleted:
        if now != (runs[-1].wish, runs[-1].intervention):
            break
        runs = runs[:-1]
    return runs


def put_back(state: State, run: EditedRun) -> Next:
    """Show a run again; what the engine was asked meanwhile is dropped.

    One that is no longer kept is computed again.
    """
    state = replace(
        state,
        awaiting=state.awaiting.without(is_question),
        wish=run.wish,
        intervention=run.intervention,
        revision=run.revision,
        beside=0,
    )
    made = state.find(run.run)
    if made is None and not run.wish.sentence:
        return Next(state)
    if made is None or made.trace is None or not made.ended:
        return decode(state, run.step)
    original = original_of(state.runs, made)
    if original is not None and original.trace is None:
        return decode(state, run.step)
    if state.opened is not None and made.wish is not None:
        live = same_model(state.opened.model, made.trace.model)
        made = replace(made, origin="decoded" if live else "recorded")
    shown = replace(
        state,
        runs=with_run(state.runs, made),
        shown=made.key,
        beside=0 if original is None else original.key,
        step=run.step,
    )
    return Next(replace(shown, cursor=None, busy="", error="", notice=""))


# ---- what the user does to runs ------------------------------------------------


def show(state: State, key: int) -> Next:
    """Show another run, at the same step; undo leads back.

    One that was let go is computed again; without its model it cannot be.
    """
    run = state.find(key)
    if run is None or key == state.shown:
        return Next(state)
    digest = "" if state.opened is None else state.opened.model.digest
    if run.trace is None and run.outline.digest != digest:
        error = _(
            "The numbers of “{name}” are no longer kept: open its model, “{model}”, "
            "and it is computed again.",
            name=run.name,
            model=run.outline.model[:60],
        )
        return Next(replace(state, error=error))
    return _shown(remembered(state, "run"), run)


def _shown(state: State, run: Run) -> Next:
    wish = run.wish
    if wish is None:  # of a run in a file
        sentence = "" if run.trace is None else source_line(run.trace)
        now = state.wish
        wish = Wish(sentence=sentence, strategy=now.strategy, limit=now.limit)
    to = EditedRun(
        edit="run",
        wish=wish,
        intervention=run.change,
        step=max(1, state.step),
        revision=state.revision,
        run=run.key,
    )
    return put_back(state, to)


def rename(state: State, key: int, name: str) -> Next:
    """Give a run another name, which no other run has."""
    run, name = state.find(key), " ".join(name.split())
    if run is None or name == run.name:
        return Next(state)
    error = ""
    if not name or len(name) > LONGEST_NAME:
        error = _("A run's name has 1 to {most} characters.", most=LONGEST_NAME)
    elif name in (one.name for one in state.runs):
        error = _("Another run is called “{name}”: choose another name.", name=name)
    if error:
        return Next(replace(state, error=error))
    runs = with_run(state.runs, replace(run, name=name))
    return Next(replace(state, runs=runs, revision=object()))


def pin(state: State, key: int) -> Next:
    """Compare other runs with this one, or, if they are already, with their parents."""
    pinned = None if state.pinned == key else key
    return Next(replace(state, pinned=pinned, revision=object()))


def delete(state: State, key: int) -> Next:
    """Take a run out of the tree; where it is on screen, its parent is shown.

    A comparison with it, or of it, is closed.
    """
    run = state.find(key)
    if run is None or run.gone:
        return Next(state)
    others = [one for one in state.tree if one.key != key]
    if not others:
        error = _("This is the only run: there would be nothing to show.")
        return Next(replace(state, error=error))
    compared = state.compared
    closes = compared is not None and key in (compared.key, state.shown)
    edit = replace(current_run(state, "deletion"), deleted=key)
    pinned = None if state.pinned == key else state.pinned
    made = Next(
        replace(
            state,
            history=History(undo=(*state.history.undo, edit)[-MOST_EDITS:]),
            revision=object(),
            runs=with_run(state.runs, replace(run, gone=True)),
            pinned=0 if compared is not None and compared.key == key else pinned,
        )
    )
    if key == state.shown:
        made = _shown(made.state, parent_of(state.runs, run) or others[-1])
    notice = _(
        "“{name}” is deleted, and its comparison is closed. Undo brings it back.",
        name=run.name,
    )
    return made._replace(state=replace(made.state, notice=notice)) if closes else made
