"""Positional encodings: which table there is, and which of its rows a token gets."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from visformer.values.config import ModelConfig, PositionAxis, PositionForm, Positions

# float32 rounds the two forms apart, by 5e-4 at position 5,000
_FREQUENCIES: dict[PositionForm, Callable[[Tensor, Tensor, int], Tensor]] = {
    "exp": lambda position, even, width: (
        position * torch.exp(even * (-math.log(10_000.0) / width))
    ),
    "power": lambda position, even, width: position / torch.pow(10_000.0, even / width),
}


def sinusoidal(length: int, d_model: int, form: PositionForm = "exp") -> Tensor:
    """Return the paper's encodings, float32 [length, d_model], values in [-1, 1].

    Even dimensions hold sin(pos / 10000^(2i/D)), odd ones the cosine of the same angle
    ("Attention Is All You Need", section 3.5).
    """
    angle = _angles(length, d_model, form, torch.float32)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)  # interleaved


def halves(length: int, d_model: int, form: PositionForm = "power") -> Tensor:
    """Return the encodings with all sines before all cosines, as Marian has them.

    They are computed in double precision, as transformers does, then cast to float32.
    """
    angle = _angles(length, d_model, form, torch.float64)
    return torch.cat((angle.sin(), angle.cos()), dim=-1).float()


def _angles(
    length: int, d_model: int, form: PositionForm, dtype: torch.dtype
) -> Tensor:
    position = torch.arange(length, dtype=dtype)[:, None]
    even = torch.arange(0, d_model, 2, dtype=dtype)
    return _FREQUENCIES[form](position, even, d_model)


def _nothing(length: int, d_model: int, form: PositionForm) -> Tensor:
    return torch.zeros(length, d_model)


_TABLES: dict[Positions, Callable[[int, int, PositionForm], Tensor]] = {
    "sinusoidal": sinusoidal,
    "halves": halves,
    "learned": _nothing,  # the learned tables are parameters
    "none": _nothing,
}


def fixed_table(config: ModelConfig) -> Tensor:
    """Return the table that is not learned, float32 [P, D]; zeros where none is."""
    make = _TABLES[config.positions]
    return make(config.max_positions, config.d_model, config.position_form)


def _by_time(table: Tensor, batch: int, times: slice) -> Tensor:
    return table[times]


def _by_batch(table: Tensor, batch: int, times: slice) -> Tensor:
    return table[:batch, None]


def _first(table: Tensor, batch: int, times: slice) -> Tensor:
    return table[:1]


Places = Callable[[Tensor, int, slice], Tensor]
PASS: dict[PositionAxis, Places] = {  # rows of a whole pass, to broadcast to [B, n, D]
    "time": _by_time,
    "batch": _by_batch,
    "restart": _by_time,
}
STEP: dict[PositionAxis, Places] = {  # of one step; each sentence is a batch's first
    "time": _by_time,
    "batch": _first,
    "restart": _first,
}
