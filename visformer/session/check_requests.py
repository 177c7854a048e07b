"""The table of checks, of the run on screen.

Every function here is pure, as those of ``runs``.
"""

from dataclasses import replace

from visformer.engine.messages import CheckRun, Refused, RunChecked
from visformer.language import _
from visformer.pictures.selection import AttentionCell
from visformer.session.run import asked_of
from visformer.session.state import Next, State, is_open
from visformer.values.facts import KINDS
from visformer.values.finding import ChecksAsked, EvidencePlace
from visformer.values.memo import same


def run_checks(state: State) -> Next:
    """Request what every check says of the run on screen, unless it is known."""
    trace, known = state.visible if state.passes else state.trace, state.checks
    if state.busy or trace is None or state.opened is None:
        return Next(state)
    if known is not None and same(known.of, trace.storage):
        return Next(state)
    asked = ChecksAsked(of=trace.storage)
    if not is_open(state, trace):
        reason = _("The model that made this run is not open.")
        return Next(replace(state, checks=replace(asked, reason=reason)))
    request = CheckRun(**asked_of(trace))
    busy = _("running the checks")
    return Next(replace(state, checks=asked, busy=busy), (request,))


def checked(state: State, event: RunChecked) -> Next:
    """Keep what they say."""
    return _kept(state, event.number, results=event.results)


def not_checked(state: State, event: Refused) -> Next:
    """Say in its place why there is nothing."""
    return _kept(state, event.number, reason=event.reason)


def _kept(state: State, number: int, **made: object) -> Next:
    asked = state.checks or ChecksAsked(of=())
    awaiting = state.awaiting.end(number)
    checks = replace(asked, **made)  # type: ignore[arg-type]
    return Next(replace(state, checks=checks, awaiting=awaiting, busy=""))


def look_at(state: State, id: str, at: EvidencePlace) -> State:
    """Return the State that shows the evidence of a finding."""
    kind = next((kind for kind in KINDS if kind == at.kind), None)
    if kind is None:  # a step
        step = state.step if at.row is None else at.row + 1
        return replace(state, tab="output", step=step)
    masks = id in ("no-key", "padding-read", "not-causal", "causal-off-by-one")
    cell, step = None, state.step
    if at.row is not None and at.key is not None:
        cell = AttentionCell(kind, at.row, at.key)
    if at.row is not None and kind != "encoder":  # the cell has to be there
        ahead = at.key or 0 if kind == "decoder" else 0
        step = max(step, at.row + 1, ahead + 1)
    return replace(
        state,
        tab="masks" if masks or id.startswith("mask-") else "attention",
        kind=kind,
        layer=at.layer or 0,
        head=at.head or 0,
        step=step,
        locked=cell,
    )
