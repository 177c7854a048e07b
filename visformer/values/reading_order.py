"""Whether rows read what comes after them: asked of the weights, not of the changes."""

from __future__ import annotations

import numpy as np

from visformer.values.arrays import Bools, later
from visformer.values.facts import Kind
from visformer.values.score_bias import NO_WEIGHT
from visformer.values.trace import Trace

LEAST = 1e-6  # smaller weights are rounding errors


def sealed(trace: Trace, kind: Kind, layer: int, hidden: Bools) -> bool:
    """Tell whether the mask alone rules out any weight on ``hidden``, bool [Q, K]."""
    changed = trace.intervention.at(kind, layer).acts("head mask", "weights")
    if changed or trace.is_captured(kind, layer):
        return False
    mask = trace.mask(kind, layer)
    no_row_is_empty = bool(mask.any(-1).all())
    return (
        trace.model.attention[kind].masked_value <= NO_WEIGHT
        and no_row_is_empty
        and not (hidden & mask).any()
    )


def reads_later(trace: Trace, layer: int | None = None, *, shown: bool = False) -> bool:
    """Tell whether a row gives a later target token any weight, in a layer or in any.

    It is asked of the whole pass, also where only its first rows are shown; with
    ``shown`` of these rows and their tokens alone.
    """
    if "decoder" not in trace.kinds:
        return False
    whole = trace if shown else trace.whole
    layers = range(trace.layers("decoder"))
    after = later(len(whole), len(whole))

    def found(one: int) -> bool:
        if sealed(whole, "decoder", one, after):
            return False
        weights = np.nan_to_num(whole.attention("decoder", one))
        return bool((weights[:, after] > LEAST).any())

    def made(one: int) -> bool:
        name = "later", one, len(whole)
        return whole.memo.made(whole.storage, name, lambda: found(one))

    return any(map(made, layers if layer is None else [layer]))
