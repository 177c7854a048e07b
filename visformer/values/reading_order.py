"""Whether rows read what comes after them: asked of the weights, not of the changes."""

from collections.abc import Iterable

import numpy as np

from visformer.values.arrays import Bools, Ids, later
from visformer.values.attention_heads import NO_WEIGHT
from visformer.values.facts import Kind
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


def reads_on(trace: Trace, kind: Kind, layer: int) -> bool:
    """Tell whether rows of a Trace give what ``until`` cut off any weight."""
    whole, rows, keys = trace.whole, len(trace), len(trace.whole)
    if kind != "decoder" or whole is trace:
        return False

    def last() -> Ids:
        if sealed(whole, kind, layer, later(keys, keys)):
            return np.arange(1, keys + 1)
        read = (np.nan_to_num(whole.attention(kind, layer)) > 0).any(0)  # [T, T]
        return np.asarray((read * np.arange(1, keys + 1)).max(1, initial=0))

    ends = whole.memo.made(whole.storage, ("read up to", layer, keys), last)  # [T]
    return bool((ends[:rows] > rows).any())


def unshown(trace: Trace, kind: Kind, layers: Iterable[int]) -> float:
    """Return the largest share of a row that is on what was cut off, in some layers."""
    rows = len(trace)

    def share(layer: int) -> float:
        if not reads_on(trace, kind, layer):
            return 0.0
        weights = np.nan_to_num(trace.whole.attention(kind, layer)[:, :rows, rows:])
        return float(weights.sum(-1).max(initial=0))

    def made(one: int) -> float:
        name = "read on", kind, one, rows
        return trace.memo.made(trace.storage, name, lambda: share(one))

    return max(map(made, layers), default=0.0)


def as_read(trace: Trace, kind: Kind, layers: Iterable[int]) -> Trace:
    """Return the whole pass where rows read what was cut off, else the Trace."""
    on = any(reads_on(trace, kind, layer) for layer in layers)
    return trace.whole if on else trace


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
