"""Types of arrays, and functions on them that many modules use (numpy only)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]
SUMS_TO_ONE = 1e-3  # within which a row is taken as it is


def softmax(scores: Floats) -> Floats:
    """Softmax over the last axis; a row of -inf becomes NaN, as in torch."""
    if scores.shape[-1] == 0:
        return scores
    with np.errstate(invalid="ignore"):
        exponents = np.exp(scores - scores.max(-1, keepdims=True))
        result: Floats = exponents / exponents.sum(-1, keepdims=True)
    return result


def log_softmax(scores: Floats) -> Floats:
    """Logarithm of the softmax over the last axis, finite where that underflows."""
    shifted = scores - scores.max(-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def row_entropy(weights: Floats) -> Floats:
    """Return each row's entropy in bits, [..., Q] of [..., Q, K]; 0 log 0 is 0.

    log2 n for n equal weights, 0 for a single one; NaN for a row of NaN. A row that
    does not sum to 1, as some captured ones do not, counts as its shares of the sum.
    """
    total = weights.sum(axis=-1, keepdims=True)
    if (np.abs(total - 1) > SUMS_TO_ONE).any():
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = weights / total
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = weights * np.log2(np.where(weights == 0, np.float32(1), weights))
    entropies: Floats = np.abs(terms.sum(axis=-1))  # abs: no "-0.0"
    return entropies


def equal(one: NDArray[Any], other: NDArray[Any]) -> Bools:
    """Return where numbers are equal; NaN equals NaN."""
    return np.asarray((one == other) | ((one != one) & (other != other)))


def later(queries: int, keys: int, first: int = 0) -> Bools:
    """Return where a key comes after its query, bool [Q, K].

    The first query has the position ``first`` among the keys.
    """
    return ~np.tri(queries, keys, first, dtype=bool)


def stacked(at: int | list[int], one: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    """Return what ``one`` gives at a place; at several, along a first axis."""
    return one(at) if isinstance(at, int) else np.stack([one(each) for each in at])


def once(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array without what broadcasting repeats: all of its different cells."""
    return array[tuple(slice(None if step else 1) for step in array.strides)]


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written through."""
    view = array.view()
    view.setflags(write=False)
    return view
