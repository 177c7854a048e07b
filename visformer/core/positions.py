"""Positional encodings."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoidal(length: int, d_model: int) -> Tensor:
    """Return the paper's encodings, float32 [length, d_model], values in [-1, 1].

    Even dimensions hold sin(pos / 10000^(2i/D)), odd ones the cosine of the same angle
    ("Attention Is All You Need", section 3.5).
    """
    position = torch.arange(length, dtype=torch.float32)[:, None]
    even = torch.arange(0, d_model, 2, dtype=torch.float32)
    angle = position * torch.exp(even * (-math.log(10_000.0) / d_model))
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)  # interleaved
