"""Where the user goes: Back and Forward, and what a source token reads."""

from __future__ import annotations

from dataclasses import replace

from visformer.pictures.attention.finder import best_head
from visformer.pictures.fills import cell_of
from visformer.pictures.selection import AttentionCell
from visformer.pictures.words.absent import has_source
from visformer.session.places import Place, Trail
from visformer.session.state import Change, Next, State
from visformer.values.facts import Kind
from visformer.values.trace import Trace


def click_source(state: State, token: int) -> Change:
    """Lock what a source token reads most; with one locked, ask for another key.

    The head that reads that key most is gone to. The locked token itself unlocks, and a
    masked one is always looked at for itself.
    """
    trace, locked = state.visible, state.locked
    kind = None if trace is None else reading_kind(trace)
    if trace is None or kind is None:
        return {}
    asked = locked is not None and locked.kind == state.kind == kind
    if locked is None or not asked or token in trace.fills:
        cell = cell_of(trace, replace(state.selection, kind=kind), token)
        unlocked = cell == locked
        return {"kind": kind, "locked": None if unlocked else cell, "hovered": None}
    if token == locked.query:
        return {"locked": None, "hovered": None}
    cell = AttentionCell(kind, locked.query, token)
    layer, head = best_head(trace, cell)
    look = replace(state.look, order="cell", summary="head")
    found: Change = {"layer": layer, "head": head, "look": look}
    return {"locked": cell, "hovered": None, **found}


def reading_kind(trace: Trace) -> Kind | None:
    """Return the attention among the tokens of the source strip, or of a prompt."""
    kind: Kind = "encoder" if has_source(trace) else "decoder"
    return kind if kind in trace.kinds else None


def back(state: State) -> Next:
    """Go to the place before the current one."""
    return _gone(state, state.trail.go_back(state.place, state.trace))


def forward(state: State) -> Next:
    """Go to the place that Back came from."""
    return _gone(state, state.trail.go_forward(state.place, state.trace))


def ways(state: State) -> tuple[bool, bool]:
    """Tell whether Back and Forward lead anywhere."""
    here = state.place, state.trace
    return (
        state.trail.go_back(*here) is not None,
        state.trail.go_forward(*here) is not None,
    )


def _gone(state: State, to: tuple[Place, Trail] | None) -> Next:
    if to is None:
        return Next(state)
    place, trail = to
    return Next(replace(state, trail=trail, **place._asdict()))
