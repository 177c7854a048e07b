"""One matrix from many heads, and parts of it: mean, maximum, fewer tokens.

``H`` heads, ``Q`` queries, ``K`` keys. A row of NaN stays NaN throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from visformer.values.arrays import Bools, Floats


def running_mean(parts: Iterable[Floats]) -> Iterator[Floats]:
    """Yield the mean of the matrices [Q, K] so far; the last is the mean of all."""
    total: Floats | None = None
    for count, part in enumerate(parts, 1):
        total = part.copy() if total is None else total + part
        yield total / np.float32(count)


def running_maximum(parts: Iterable[Floats]) -> Iterator[Floats]:
    """Yield each cell's maximum so far; the last is that of all. Rows sum to >= 1."""
    highest: Floats | None = None
    for part in parts:
        highest = part if highest is None else np.maximum(highest, part)
        yield highest


def chosen(
    weights: Floats,
    queries: Sequence[int],
    keys: Sequence[int],
    *,
    renormalise: bool = False,
) -> Floats:
    """Return the given rows and columns of [Q, K].

    ``renormalise``: divide each row by its remaining sum, so that it sums to 1 again;
    a row with nothing left stays 0.
    """
    part = weights[np.ix_(list(queries), list(keys))]  # [Q', K']
    if not renormalise or not part.size:
        return part
    left = part.sum(axis=1, keepdims=True)  # [Q', 1]
    # written so that a NaN row is divided by NaN
    return (part / np.where(left == 0, 1, left)).astype(np.float32)


def fewest_keys(weights: Floats, share: float) -> Bools:
    """Mark in each row of [Q, K] the fewest keys that carry ``share`` of its sum.

    Stronger keys come first, and the earlier of two equal ones. Keys without weight
    are never marked, nor is any key in a row of NaN. ``share`` in (0, 1]; 1 marks
    every key that has weight.
    """
    marked = np.zeros(weights.shape, bool)
    if not weights.size:
        return marked
    order = np.argsort(-weights, axis=1, kind="stable")  # [Q, K]
    sorted_ = np.take_along_axis(weights, order, axis=1).astype(np.float64)
    before = np.cumsum(sorted_, axis=1) - sorted_  # carried by the stronger keys
    total = sorted_.sum(axis=1, keepdims=True)  # [Q, 1]
    # a sum of floats reaches 0.9 of itself only up to rounding
    needed = (before < share * total - 1e-7) & (sorted_ > 0)
    np.put_along_axis(marked, order, needed, axis=1)
    return marked
