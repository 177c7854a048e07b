"""How important each head is: of the run on screen, or over a file of pairs.

Every function here is pure, as those of ``runs``.
"""

from __future__ import annotations

from dataclasses import replace

from visformer.engine.messages import (
    Refused,
    SwitchedOff,
    SwitchOff,
    SwitchOffOverPairs,
)
from visformer.language import N_, _
from visformer.session.run import asked_of
from visformer.session.state import Next, State, is_open
from visformer.values.layer_weights import same_model
from visformer.values.measured import ImportanceAsked
from visformer.values.memo import same
from visformer.values.trace import Trace

BUSY = N_("switching off one head after the other")


def measure(state: State, *, again: bool = False) -> Next:
    """Request what is to be measured, unless it was; ``again``: then too.

    That is the run on screen, unless the pairs of a file were measured by its model.
    """
    trace, known = state.visible if state.passes else state.trace, state.importance
    if state.busy or trace is None or not trace.steps or state.opened is None:
        return Next(state)
    if known is not None and known.pairs and known.of == (state.opened,):
        return measure_pairs(state, known.pairs) if again else Next(state)
    other = _source_beside(state, trace)
    of = trace.storage if other is None else (*trace.storage, *other.storage)
    if known is not None and same(known.of, of) and not again:
        return Next(state)
    begun = ImportanceAsked(of=of)
    if not is_open(state, trace):
        reason = _("The model that made this run is not open.")
        return Next(replace(state, importance=replace(begun, reason=reason)))
    source = asked_of(other)["source"] if other is not None else ""
    request = SwitchOff(other=source, **asked_of(trace))
    return Next(replace(state, importance=begun, busy=_(BUSY)), (request,))


def _source_beside(state: State, trace: Trace) -> Trace | None:
    """Return the run that this one is compared with, of another source as long."""
    other = None if state.compared is None else state.compared.trace
    if other is None or not same_model(other.model, trace.model):
        return None
    alike = len(other.source) == len(trace.source) and other.source != trace.source
    return other if alike else None


def measure_pairs(state: State, path: str) -> Next:
    """Measure the pairs of a file instead; "": the run on screen again."""
    if not path or state.opened is None:
        return Next(replace(state, importance=None))
    begun = ImportanceAsked(of=(state.opened,), pairs=path)
    request = SwitchOffOverPairs(path=path, intervention=state.intervention)
    return Next(replace(state, importance=begun, busy=_(BUSY)), (request,))


def measured(state: State, event: SwitchedOff) -> Next:
    """Keep it."""
    return _kept(state, replace(_asked(state), found=event.importance), event.number)


def not_measured(state: State, event: Refused) -> Next:
    """Say in its place why there is none."""
    return _kept(state, replace(_asked(state), reason=event.reason), event.number)


def _asked(state: State) -> ImportanceAsked:
    return state.importance or ImportanceAsked(of=())


def _kept(state: State, made: ImportanceAsked, number: int) -> Next:
    awaiting = state.awaiting.end(number)
    return Next(replace(state, importance=made, awaiting=awaiting, busy=""))
