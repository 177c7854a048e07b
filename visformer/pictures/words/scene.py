"""Scene: what is on screen, for sentences; and the initial head and step."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from visformer.analysis.head_measures import (
    agreement,
    maximum,
    offset_mass,
    place_correlation,
)
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.mosaic import is_large
from visformer.pictures.attention.token_groups import hidden_tokens
from visformer.pictures.attention.weights import head_weights, query_weights
from visformer.pictures.selection import DEFAULT_LOOK, Look, Selection
from visformer.pictures.token_names import row_word, word
from visformer.values.arrays import Floats
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import SIDES, Kind, ModelFacts
from visformer.values.measured import NearWords
from visformer.values.reading_order import as_read
from visformer.values.step import GREEDY, LensRows, Strategy
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scene:
    """The visible part of a run and what is selected in it."""

    trace: Trace | None  # up to the current step
    model: ModelFacts | None
    selection: Selection
    look: Look = DEFAULT_LOOK
    stage: str = ""  # of the Computation tab
    lens: LensRows | None = None
    smoothing: float | None = None  # label smoothing in training, if known
    limit: int | None = None  # limit of target tokens, if the user set it
    strategy: Strategy = GREEDY  # how tokens are chosen
    search: BeamSearch | None = None  # the beam search of the sentence
    near: NearWords | None = None  # the tokens nearest to the one that was looked up


class Reads(NamedTuple):
    """A query, the key that it reads most, and its weight; NaN if any weight is."""

    query: str
    key: str
    weight: float
    row: int
    alike: int  # number of keys with that weight, up to float32 rounding


def reads(scene: Scene) -> Reads | None:
    """Return what the row in focus reads most; None if there is no row.

    It is the row of the cell in focus, the current step's row, or in the encoder the
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

    By default, the last query and the key that it reads most.
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
    layer, head = layer_and_head(trace, selection, kind)
    trace = as_read(trace, kind, [layer])  # what is read most may not be shown
    weights = query_weights(trace, kind, layer, head, row)
    column = int(weights.argmax()) if key is None else key  # a NaN, if there is one
    weight = float(weights[column])
    alike = int(np.isclose(weights, weight, rtol=1e-6, atol=0).sum())
    key_word = word(trace, SIDES[kind][1], column)
    return Reads(row_word(trace, kind, row), key_word, weight, row, alike)


SHARP = 0.9  # largest weight of rows that read a single key


class TellingHead(NamedTuple):
    """Where to look first; layers and heads count from 0, steps from 1."""

    kind: Kind
    layer: int
    head: int
    step: int


def telling_head(trace: Trace) -> TellingHead:
    """Return a sharp, monotonic and typical cross-attention head, and an open choice.

    Typical heads agree with others that read the same keys: see ``agreement``. Without
    cross-attention, it is the head that reads a neighbour most. The heads of long
    sentences are not measured; the first one is returned.
    """
    order: tuple[Kind, ...] = ("cross", "decoder", "encoder")
    kind = next(kind for kind in order if kind in trace.kinds)
    middle = (len(trace) + 1) // 2
    if is_large(trace, kind) or not trace.tokens(kind)[0]:
        return TellingHead(kind, 0, 0, middle)
    places = list(np.ndindex(trace.layers(kind), trace.heads(kind)))
    weights = np.stack([head_weights(trace, kind, *at) for at in places])  # [N, Q, K]
    measures = np.array([_measure(head, kind) for head in weights])  # [N]
    if kind == "cross":
        groups = hidden_tokens(trace, "source")
        ends = groups["special"] | groups["pad"]
        content = [at not in ends for at in range(len(trace.source))]
        measures = measures * agreement(weights, np.array(content))
    best = int(np.where(np.isnan(measures), -1, measures).argmax())
    layer, head = places[best]
    if kind == "encoder" or not trace.steps:
        return TellingHead(kind, layer, head, middle)
    return TellingHead(kind, layer, head, _open_step(trace, weights[best]))


def telling_row(weights: Floats) -> int:
    """Return the row of an encoder's map with the largest weight off its diagonal."""
    rows, columns = weights.shape
    diagonal = np.eye(rows, columns, dtype=bool)
    others = np.where(diagonal, 0, np.nan_to_num(weights))
    return int(others.max(axis=1).argmax())


def _measure(weights: Floats, kind: Kind) -> float:
    """Return how characteristic a head's weights are; NaN if they are not numbers."""
    if kind == "cross":
        return abs(place_correlation(weights)) * maximum(weights)
    return max(offset_mass(weights, -1), offset_mass(weights, 1))


def _open_step(trace: Trace, weights: Floats) -> int:
    """Return a step of the middle half: among sharp rows, the least certain choice."""
    steps = len(trace.steps)
    rows = range(steps // 4, max(steps // 4, 3 * steps // 4 - 1) + 1)
    peaks = {row: float(weights[row].max()) for row in rows if row < steps}
    most = max(peaks.values(), default=0.0)
    sharp = [row for row, peak in peaks.items() if peak >= SHARP * most]
    if not sharp:
        return (steps + 1) // 2
    return 1 + min(sharp, key=lambda row: _certainty(trace, row))


def _certainty(trace: Trace, row: int) -> float:
    candidates = trace.steps[row].candidates
    return candidates[0].probability if len(candidates) else 1.0
