"""Scene: what is on screen, as the sentences that explain it need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.telling_head import telling_row
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.look import DEFAULT_LOOK, Look
from visformer.pictures.selection import Selection
from visformer.pictures.token_names import row_word, word
from visformer.values.facts import SIDES, ModelFacts
from visformer.values.lens import LensRows
from visformer.values.strategy import GREEDY, Strategy
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scene:
    """The visible part of a run and what is looked at in it."""

    trace: Trace | None  # up to the current step
    model: ModelFacts | None
    selection: Selection
    look: Look = DEFAULT_LOOK
    stage: str = ""  # of the computation
    lens: LensRows | None = None
    smoothing: float | None = None  # label smoothing in training, where it is known
    limit: int | None = None  # target tokens at most, where the user set it
    strategy: Strategy = GREEDY  # how tokens are chosen


class Reads(NamedTuple):
    """A query, a key that it reads most, and the weight of it; NaN if any is."""

    query: str
    key: str
    weight: float
    row: int
    alike: int  # keys with that weight, to float32 rounding


def reads(scene: Scene) -> Reads | None:
    """Return what the row in focus reads most; None where nothing is read.

    That is the row of the cell in focus, the current step's row, or in the encoder the
    one with the largest weight on another token.
    """
    trace, kind = scene.trace, scene.selection.kind
    if trace is None or kind not in trace.kinds:
        return None
    layer, head = layer_and_head(trace, scene.selection, kind)
    weights = head_weights(trace, kind, layer, head)
    if not weights.size:
        return None
    cell, row = scene.selection.cell, len(weights) - 1
    if cell is not None and cell.kind == kind and cell.query < len(weights):
        row = cell.query
    elif kind == "encoder":
        row = telling_row(weights)
    return _reads(trace, scene.selection, row, None)


def computed(scene: Scene) -> Reads | None:
    """Return the cell that the Computation tab takes apart.

    Without a cell in focus it is the last query, and the key that it reads most.
    """
    trace, selection = scene.trace, scene.selection
    if trace is None or not all(trace.tokens(selection.kind)):
        return None
    cell, row = selection.cell, len(trace.tokens(selection.kind)[0]) - 1
    if cell is not None and cell.kind == selection.kind:
        return _reads(trace, selection, cell.query, cell.key)
    return _reads(trace, selection, row, None)


def _reads(trace: Trace, selection: Selection, row: int, key: int | None) -> Reads:
    kind = selection.kind
    weights = head_weights(trace, kind, *layer_and_head(trace, selection, kind))[row]
    column = int(weights.argmax()) if key is None else key  # of NaN, if there is any
    weight = float(weights[column])
    alike = int(np.isclose(weights, weight, rtol=1e-6, atol=0).sum())
    key_word = word(trace, SIDES[kind][1], column)
    return Reads(row_word(trace, kind, row), key_word, weight, row, alike)
