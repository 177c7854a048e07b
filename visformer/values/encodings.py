"""Positional encodings in numpy: the paper's waves, and which row a token is given."""

from collections.abc import Callable
from typing import Any

import numpy as np

from visformer.values.arrays import Floats
from visformer.values.config import PositionAxis

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
