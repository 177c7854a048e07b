"""Positional encodings as a PositionChange modifies them, and the orders it draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visformer.values.arrays import Floats
from visformer.values.encodings import sinusoid
from visformer.values.facts import ModelFacts
from visformer.values.intervention import PositionChange


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
