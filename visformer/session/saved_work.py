"""What is worked on, as a session file holds it, and back."""

from __future__ import annotations

from dataclasses import replace

from visformer.engine.messages import Opened
from visformer.language import _
from visformer.session.recipe import Recipe
from visformer.session.remembering import is_answered
from visformer.session.runs import decode
from visformer.session.state import Next, State
from visformer.session.wishes import Wish
from visformer.values.storage.saved_session import SavedRun
from visformer.values.storage.stored_facts import RunSelection

ORIGINAL = "original run"  # names in files: the same in every language
MODIFIED_RUN = "modified run"


def settled(state: State) -> State:
    """Return a State whose wish is that of the run on screen.

    A wish that was refused, or is being made, is left out.
    """
    made = state.made_for
    if state.recorded or made is None or is_answered(state):
        return state
    return replace(state, wish=Wish.of(made), intervention=made.intervention)


def runs_of(state: State) -> list[SavedRun]:
    """Return the runs on screen, the one shown last; none while they are not there."""
    trace = state.trace
    if trace is None or not is_answered(state):
        return []
    selection = RunSelection(
        kind=state.kind,
        layer=state.layer,
        head=state.head,
        step=state.step,
        tab=state.tab,
    )
    name = MODIFIED_RUN if trace.intervention else ORIGINAL
    runs = [SavedRun(trace=trace, name=name, selection=selection)]
    if state.baseline is not None:
        runs.insert(0, SavedRun(trace=state.baseline, name=ORIGINAL))
    return runs


def goes_on_with(state: State, recipe: Recipe) -> bool:
    """Tell whether all that a recipe was kept of is open again, and is worked on.

    Of a recorded run that is its run alone: what came before it was in no recipe.
    """
    if recipe.recorded:
        same_run = state.wish.sentence == recipe.wanted.sentence
        return same_run and not recipe.undo and not recipe.redo
    opened = state.opened
    same_model = opened is not None and opened.model.digest == recipe.digest
    return same_model and state.opening is None


def resumed(state: State, recipe: Recipe, event: Opened) -> Next:
    """Go on with a session whose model is open again; its run is made again.

    A model that has changed since makes no run of it: what was recorded stays.
    """
    if event.model.digest != recipe.digest:
        error = _(
            "The model has changed since the session was kept: its run is shown as it "
            "was."
        )
        return Next(replace(state, error=error))
    wanted = recipe.wanted
    state = replace(
        state,
        wish=wanted.wish,
        intervention=wanted.intervention,
        history=recipe.history,
        baseline=None,
    )
    return decode(state, wanted.step)
