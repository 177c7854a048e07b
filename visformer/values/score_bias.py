"""What a model adds to the scores before the mask, other than nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visformer.values.arrays import Floats

# a score this low leaves its key no weight; added to one, it is a mask
NO_WEIGHT = -1e4


@dataclass(frozen=True, slots=True, eq=False)
class DistanceBias:
    """A number per head and distance, as in T5 (buckets spelt out) and ALiBi.

    Pair (query, key) has column ``key - query + zero``; farther ones the nearest end.
    """

    table: Floats  # [H, N]
    zero: int  # the column of distance 0, in 0..N - 1


Bias = DistanceBias | Floats  # or all of it, [H, Q, K]; [1, Q, K] if heads share it


def bias_rows(bias: Bias, rows: slice, shape: tuple[int, ...]) -> Floats:
    """Return the bias of some query rows and all keys, [H or 1, rows, K].

    ``shape``: Q and K.
    """
    queries, keys = shape
    if not isinstance(bias, DistanceBias):
        return np.asarray(bias[:, :queries, :keys][:, rows])
    distance = np.arange(keys) - np.arange(queries)[rows, None] + bias.zero
    taken: Floats = bias.table[:, np.clip(distance, 0, bias.table.shape[1] - 1)]
    return taken


def of_heads(bias: Bias | None, heads: slice) -> Bias | None:
    """Return the bias of some heads."""
    if isinstance(bias, DistanceBias):
        return DistanceBias(bias.table[heads], bias.zero)
    return bias if bias is None or len(bias) == 1 else bias[heads]
