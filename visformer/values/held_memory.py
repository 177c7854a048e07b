"""How much memory a Trace holds, and a Trace that holds no more than it shows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visformer.values.arrays import read_only
from visformer.values.score_bias import DistanceBias
from visformer.values.trace import Trace


def bytes_of(trace: Trace) -> int:
    """Return how many bytes the arrays of a Trace have, its model's aside."""
    return sum(map(_bytes, _arrays(trace)))


def compact(trace: Trace) -> Trace:
    """Return a Trace whose rows and masks share no storage that is larger than they.

    What a run is recorded in is reserved up to its limit; what a file holds stays
    there.
    """
    return replace(
        trace,
        target_ids=_own(trace.target_ids),
        encoder_rows=_own(trace.encoder_rows),
        memory_rows=_own(trace.memory_rows),
        decoder_rows=_own(trace.decoder_rows),
        masks={kind: _own(mask) for kind, mask in trace.masks.items()},
    )


def _arrays(trace: Trace) -> Iterator[Any]:
    yield from (trace.encoder_rows, trace.memory_rows, trace.decoder_rows)
    yield from trace.masks.values()
    yield from trace.captured.values()
    for biases in trace.biases.values():
        yield from (bias for bias in biases if not isinstance(bias, DistanceBias))


def _bytes(array: Any) -> int:
    """Return what an array takes, or would once it is read from its file."""
    return int(getattr(array, "nbytes", 4 * math.prod(array.shape)))


def _own(array: NDArray[Any]) -> NDArray[Any]:
    base = getattr(array, "base", None)
    larger = isinstance(base, np.ndarray) and base.nbytes > array.nbytes
    return read_only(array.copy()) if larger else array
