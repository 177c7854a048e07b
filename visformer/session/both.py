"""Two runs on screen at once: which, how they align, and why there is only one."""

from dataclasses import replace
from weakref import WeakKeyDictionary, ref

from visformer.language import _, sentences
from visformer.pictures.comparison import (
    By,
    RunComparison,
    aligned_words,
    pair,
    parted_words,
    step_words,
)
from visformer.session.run import Run
from visformer.session.state import Next, State
from visformer.values.trace import Trace


def beside(state: State) -> Run | None:
    """Return the run that is shown beside the one on screen; None for none."""
    other = state.compared if state.views.beside else None
    return None if other is None or other.trace is None else other


def both(state: State) -> tuple[Trace, Trace] | None:
    """Return the Traces of two finished runs; None where one is not there."""
    run, other = state.run, state.compared
    if run is None or other is None or not (run.ended and other.ended):
        return None
    if run.trace is None or other.trace is None:
        return None
    return other.trace, run.trace


def _by(state: State) -> By:
    """Return how source tokens are aligned; older sessions know other ways."""
    return "position" if state.views.aligned == "position" else "characters"


def names(state: State) -> tuple[str, str]:
    """Return the names of the run that is compared with, and of that on screen."""
    one, other = state.compared, state.run
    return one.name if one else "", other.name if other else ""


def paired(state: State) -> RunComparison | None:
    """Return how both runs differ, but for their heads; made once of two runs."""
    traces = both(state)
    if traces is None:
        return None
    (one, other), how = traces, (names(state), _by(state))
    kept = _paired.get(other)
    if kept is not None and kept[0]() is one and kept[1] == how:
        return kept[2]
    found = pair(one, other, names=how[0], by=how[1])
    _paired[other] = ref(one), how, found
    return found


# by the run on screen: the one that it was compared with last, and how; a run's own
# memo would hold both runs, and so itself
_Paired = tuple["ref[Trace]", tuple[tuple[str, str], By], RunComparison]
_paired: WeakKeyDictionary[Trace, _Paired] = WeakKeyDictionary()


def alone_words(state: State) -> str:
    """Say why nothing is compared; "" where two runs are."""
    run, other = state.run, state.compared
    if both(state) is not None:
        return ""
    if run is None or len(state.tree) < 2:
        return _("There is one run only: change it, or translate another sentence.")
    if other is None:
        return _("Choose a run to compare “{run}” with.", run=run.name)
    if other.trace is None:
        return _(
            "The numbers of “{run}” are no longer kept: show it on the page Tree, and "
            "it is computed again.",
            run=other.name,
        )
    return _("The runs are compared once both have ended.")


def beside_words(state: State) -> str:
    """Say where the run on screen parts from the one beside it; "" without one.

    Before that, how likely the step's token is in both.
    """
    found = None if beside(state) is None else paired(state)
    if found is None or state.visible is None:
        return ""
    said = parted_words(found), step_words(found, len(state.visible))
    return sentences((*said, aligned_words(found)))


def show_beside(state: State) -> Next:
    """Show the run to compare with beside the one on screen, or this one alone."""
    on, reason = state.views.beside, alone_words(state)
    if reason and not on:
        return Next(replace(state, notice=reason))
    return Next(replace(state, views=replace(state.views, beside=not on)))
