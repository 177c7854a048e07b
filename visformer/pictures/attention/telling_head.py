"""The head and the step that say most at first sight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from visformer.analysis.head_measures import (
    agreement,
    maximum,
    offset_mass,
    place_correlation,
)
from visformer.pictures.attention.mosaic import is_large
from visformer.pictures.attention.token_groups import hidden_tokens
from visformer.pictures.attention.weights import head_weights
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace

SHARP = 0.9  # of the largest weight: rows that read one key


class TellingHead(NamedTuple):
    """Where to look first; layers and heads count from 0, steps from 1."""

    kind: Kind
    layer: int
    head: int
    step: int


def telling_head(trace: Trace) -> TellingHead:
    """Return a cross head that is sharp, in order and agrees, and an open choice.

    It agrees with the heads that read the same: see ``agreement``. Without
    cross-attention it is the head that reads a neighbour most. The heads of a long
    sentence are not measured: its first one is returned.
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
    """Return how telling a head's weights are by themselves; NaN: it has no numbers."""
    if kind == "cross":
        return abs(place_correlation(weights)) * maximum(weights)
    return max(offset_mass(weights, -1), offset_mass(weights, 1))


def _open_step(trace: Trace, weights: Floats) -> int:
    """Return a step of the middle half: of sharp rows, the least certain choice."""
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
