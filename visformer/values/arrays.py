"""Arrays that everybody shares, and what is done to them everywhere (numpy only)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]


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


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written through."""
    view = array.view()
    view.setflags(write=False)
    return view
