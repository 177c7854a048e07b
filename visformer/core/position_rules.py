"""Positional encodings, bit for bit as each model computes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from visformer.values.config import FrequencyForm, ModelConfig, Positions

# the two forms differ by float32 rounding: 5e-4 at position 5,000
_ANGLES: dict[FrequencyForm, Callable[[Tensor, Tensor, int], Tensor]] = {
    "exp": lambda position, even, width: (
        position * torch.exp(even * (-math.log(10_000.0) / width))
    ),
    "power": lambda position, even, width: position / torch.pow(10_000.0, even / width),
}


def sinusoidal(
    length: int,
    d_model: int,
    form: FrequencyForm = "exp",
    precision: torch.dtype = torch.float32,
) -> Tensor:
    """Return the paper's encodings, float32 [length, d_model], values in [-1, 1].

    Even dimensions hold sin(pos / 10000^(2i/D)), odd ones the cosine of the same angle
    ("Attention Is All You Need", section 3.5).
    """
    waves = torch.stack(_waves(length, d_model, form, precision), dim=-1)  # [P, D/2, 2]
    return waves.flatten(1).float()


def halves(length: int, d_model: int, form: FrequencyForm = "power") -> Tensor:
    """Return the encodings with all sines before all cosines, as in Marian.

    They are computed in double precision, as transformers does, then cast to float32.
    """
    return torch.cat(_waves(length, d_model, form, torch.float64), dim=-1).float()


def _waves(
    length: int, d_model: int, form: FrequencyForm, precision: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return sines and cosines, [length, d_model / 2] each."""
    position = torch.arange(length, dtype=precision)[:, None]  # [P, 1]
    even = torch.arange(0, d_model, 2, dtype=precision)  # [D / 2]: 2i
    angle = _ANGLES[form](position, even, d_model)  # [P, D / 2]
    return angle.sin(), angle.cos()


def _nothing(length: int, d_model: int, form: FrequencyForm) -> Tensor:
    return torch.zeros(length, d_model)


_TABLES: dict[Positions, Callable[[int, int, FrequencyForm], Tensor]] = {
    "sinusoidal": sinusoidal,
    "halves": halves,
    "learned": _nothing,  # the learned tables are parameters
    "none": _nothing,
}


def fixed_table(config: ModelConfig) -> Tensor:
    """Return the table that is not learned, float32 [P, D]; zeros if there is none."""
    make = _TABLES[config.positions]
    return make(config.max_positions, config.d_model, config.position_form)
