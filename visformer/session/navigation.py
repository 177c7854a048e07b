"""Where the user goes: Back and Forward, and what a source token reads."""

from __future__ import annotations

from dataclasses import replace

from visformer.pictures.attention.finder import best_head
from visformer.pictures.fills import cell_of
from visformer.pictures.selection import AttentionCell
from visformer.pictures.words.absent import has_source
from visformer.session.state import Next, Place, State, Trail
from visformer.values.facts import Kind
from visformer.values.trace import Trace


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
