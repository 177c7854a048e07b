"""What a picture's cells are painted from: a byte each, whatever their colours are.

0 is a cell hidden by the mask and without weight, 1 to 254 shades from low to high, 255
NaN. So the maximum of several cells never hides a number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visformer.values.arrays import Bools, Floats

Bytes = NDArray[np.uint8]
NOTHING: Bytes = np.zeros((0, 0), np.uint8)  # codes of no cells
MASKED, LOW, HIGH, NAN = 0, 1, 254, 255
BLOCK = 1 << 16  # cells


def codes(shade: Floats, masked: Bools | None = None) -> Bytes:
    """Turn shades [..., C] in [0, 1] or NaN into codes, uint8 of the same shape."""
    result: Bytes = np.empty(shade.shape, np.uint8)
    if not result.size:
        return result
    wide = shade.shape[-1]
    shades, out = shade.reshape(-1, wide), result.reshape(-1, wide)
    hidden = None if masked is None else masked.reshape(-1, wide)
    rows = max(1, BLOCK // wide)
    for first in range(0, len(shades), rows):  # one block at a time stays in the cache
        block = slice(first, first + rows)
        _code(shades[block], None if hidden is None else hidden[block], out[block])
    return result


def _code(shade: Floats, masked: Bools | None, out: Bytes) -> None:
    with np.errstate(invalid="ignore"):
        scaled = shade * np.float32(HIGH - LOW)
        scaled += np.float32(LOW + 0.5)
        np.copyto(out, scaled, casting="unsafe")
        if np.isnan(scaled.max()):
            out[np.isnan(shade)] = NAN
    if masked is not None:
        out[masked & (out == LOW)] = MASKED
