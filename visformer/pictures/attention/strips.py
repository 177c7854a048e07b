"""The two token strips: which token is tinted how strongly, which is current."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visformer.pictures.attention.reading import done_words, reading
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.selection import Cell
from visformer.session.state import State
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.facts import Kind


@dataclass(frozen=True, slots=True)
class Chip:
    """One token of a strip."""

    token: str
    id: int
    tint: float  # attention paid to it by the row in focus, in [0, 1]; NaN kept
    current: bool  # the row in focus reads for it, or the current step chose it
    marked: bool  # the query or key of the cell in focus
    forced: bool = False  # chosen by the user, not by the model
    done: str = ""  # what was done to the weight that tints, in words


def focus(state: State) -> Cell | None:
    """Return the row whose attention tints the strips.

    The cell in focus, or else what the current step reads of the source.
    """
    if state.cell is not None:
        return state.cell
    if state.shown is None or not len(state.shown):
        return None
    return Cell("cross", len(state.shown) - 1, -1)


def _tints(state: State, reads: tuple[Kind, ...], length: int) -> Floats:
    """Weights of the row in focus, where it reads this strip; zeros elsewhere."""
    cell, trace = focus(state), state.shown
    if cell is None or trace is None or cell.kind not in reads:
        return np.zeros(length, np.float32)
    if not state.look.plain:
        shown = reading(state, cell.kind)
        return np.zeros(length, np.float32) if shown is None else shown.tints(cell)
    layer = min(state.layer, trace.layers(cell.kind) - 1)
    weights: Floats = head_weights(trace, cell.kind, layer, state.head)[cell.query]
    return weights


def _done(state: State) -> str:
    cell = focus(state)
    return "" if cell is None else done_words(state, cell.kind)


def source_strip(state: State) -> tuple[Chip, ...]:
    """Return the source tokens."""
    trace, cell = state.shown, state.cell
    if trace is None:
        return ()
    tints = _tints(state, ("encoder", "cross"), len(trace.source))
    marks, done = set(), _done(state)
    if cell is not None and cell.kind != "decoder":
        marks = {cell.key} | ({cell.query} if cell.kind == "encoder" else set())
    return tuple(
        Chip(visible(token), int(id), float(tint), False, index in marks, done=done)
        for index, (token, id, tint) in enumerate(
            zip(trace.source, trace.source_ids, tints, strict=True)
        )
    )


def target_strip(state: State) -> tuple[Chip, ...]:
    """Return the target tokens read so far, and last the current step's choice."""
    trace, cell = state.shown, state.cell
    if trace is None or not len(trace):
        return ()
    tints = _tints(state, ("decoder",), len(trace))
    marks, done = set(), _done(state)
    if cell is not None and cell.kind != "encoder":
        marks = {cell.query} | ({cell.key} if cell.kind == "decoder" else set())
    origins = [False, *(step.origin == "forced" for step in trace.steps)]
    chips = [
        Chip(visible(token), int(id), float(tint), False, index in marks, forced, done)
        for index, (token, id, tint, forced) in enumerate(
            zip(trace.target, trace.target_ids, tints, origins, strict=False)
        )
    ]
    last = trace.steps[-1]
    return (
        *chips,
        Chip(visible(last.token), last.id, 0.0, True, False, last.origin == "forced"),
    )
