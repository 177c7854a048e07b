"""Positional encodings in numpy: the paper's waves, and which row a token is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visformer.values.arrays import Floats
from visformer.values.config import PositionAxis
from visformer.values.facts import ModelFacts
from visformer.values.intervention import PositionChange

# a table [P, D], a batch's size and the tokens' times -> rows that broadcast to
# [B, n, D]; of numpy's arrays and torch's tensors alike
Lookup = Callable[[Any, int, slice], Any]


def _by_time(table: Any, batch: int, times: slice) -> Any:
    return table[times]


def _by_batch(table: Any, batch: int, times: slice) -> Any:
    return table[:batch, None]


def _first(table: Any, batch: int, times: slice) -> Any:
    return table[:1]


PASS_LOOKUP: dict[PositionAxis, Lookup] = {  # in a pass over whole sequences
    "time": _by_time,
    "batch": _by_batch,
    "restart": _by_time,
}
STEP_LOOKUP: dict[PositionAxis, Lookup] = {  # in a step; each sentence is alone
    "time": _by_time,
    "batch": _first,
    "restart": _first,
}


def sinusoid(positions: int, width: int, *, interleaved: bool = True) -> Floats:
    """Return the paper's encodings, float32 [positions, width], values in [-1, 1].

    Sine and cosine of pos / 10000^(2i/D) in turn ("Attention Is All You Need", section
    3.5), or else all sines before all cosines; computed in float64.
    """
    even = np.arange(0, width, 2)
    angle = np.arange(positions)[:, None] / 10_000.0 ** (even / width)  # [P, D / 2]
    waves = np.sin(angle), np.cos(angle)
    if interleaved:
        both = np.stack(waves, -1).reshape(positions, -1)
    else:
        both = np.concatenate(waves, -1)
    table: Floats = both[:, :width].astype(np.float32)
    return table


def adds_positions(model: ModelFacts, change: PositionChange | None) -> bool | None:
    """Tell whether tokens get rows of positions, in a run with this change.

    None where that is not known of the model. Rows of zeros are none.
    """
    if model.known is None:
        return None
    form = None if change is None else change.form
    if form == "none" or (
        change is not None and form == "scaled" and not change.amount
    ):
        return False
    return model.known.positions != "none" or form in ("interleaved", "halves")


def change_table(table: Floats, change: PositionChange | None) -> Floats:
    """Return positional encodings [P, D] as changed; float32.

    "interleaved" and "halves" are the sinusoids of section 3.5 of the paper in its two
    layouts, whatever the model has; the other forms modify the model's own table.
    """
    if change is None:
        return table
    rows, width = table.shape
    if change.form in ("interleaved", "halves"):
        return sinusoid(rows, width, interleaved=change.form == "interleaved")
    if change.form == "none":
        return np.zeros_like(table)
    if change.form == "scaled":
        return table * np.float32(change.amount)
    amount, order = int(change.amount), np.arange(rows)
    if change.form == "shifted":
        order = np.minimum(order + amount, rows - 1)
    elif change.form == "constant":
        order[:] = amount
    else:
        order[: min(amount, rows)] = permutation(min(amount, rows), change.seed)
    return table[order]


def permutation(count: int, seed: int) -> NDArray[np.int64]:
    """Return a random order of 0..count - 1 that differs from that order itself."""
    draw, identity = np.random.default_rng(seed), np.arange(count)
    order = draw.permutation(count)
    while count > 1 and (order == identity).all():
        order = draw.permutation(count)
    return order
