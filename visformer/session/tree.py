"""Where the user goes: undo and redo, back and forward, other runs of the tree.

Every function here is pure, as those of ``runs``.
"""

from dataclasses import replace

from visformer.language import _
from visformer.pictures.attention.finder import best_head
from visformer.pictures.attention.strips import source_line
from visformer.pictures.candidates import cell_of
from visformer.pictures.selection import AttentionCell
from visformer.pictures.words.absent import has_source
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
from visformer.values.facts import Kind
from visformer.values.layer_weights import same_model
from visformer.values.trace import Trace

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


def click_source(state: State, token: int) -> State:
    """Lock what a source token reads most; with one locked, ask for another key.

    The head that reads that key most is gone to. The locked token itself unlocks, and a
    masked one is always looked at for itself.
    """
    trace, locked = state.visible, state.locked
    kind = None if trace is None else reading_kind(trace)
    if trace is None or kind is None:
        return state
    asked = locked is not None and locked.kind == state.kind == kind
    if locked is None or not asked or token in trace.fills:
        cell = cell_of(trace, replace(state.selection, kind=kind), token)
        locked = None if cell == locked else cell
        return replace(state, kind=kind, locked=locked, hovered=None)
    if token == locked.query:
        return replace(state, locked=None, hovered=None)
    cell = AttentionCell(kind, locked.query, token)
    layer, head = best_head(trace, cell)
    look = replace(state.look, order="cell", summary="head")
    now = replace(state, locked=cell, hovered=None)
    return replace(now, layer=layer, head=head, look=look)


def reading_kind(trace: Trace) -> Kind | None:
    """Return the attention among the tokens of the source strip, or of a prompt."""
    kind: Kind = "encoder" if has_source(trace) else "decoder"
    return kind if kind in trace.kinds else None


def back(state: State) -> Next:
    """Go to the place before the current one."""
    return _gone(state, forward=False)


def forward(state: State) -> Next:
    """Go to the place that Back came from."""
    return _gone(state, forward=True)


def ways(state: State) -> tuple[bool, bool]:
    """Tell whether Back and Forward lead anywhere."""
    return back(state).state is not state, forward(state).state is not state


def _gone(state: State, *, forward: bool) -> Next:
    way = state.trail.way(state.place, state.trace, forward=forward)
    if way is None:
        return Next(state)
    place, trail = way
    return Next(replace(state, trail=trail, **place._asdict()))
