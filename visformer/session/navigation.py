"""Where the user goes: Back and Forward, and what a source token reads."""

from __future__ import annotations

from dataclasses import replace

from visformer.pictures.attention.finder import best_head
from visformer.pictures.candidates import cell_of
from visformer.pictures.selection import AttentionCell
from visformer.pictures.words.absent import has_source
from visformer.session.state import Next, State
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
