"""The sizes that a tutorial's model is built with, and the tables of positions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sizes:
    source: int = 24  # tokens
    target: int = 24
    width: int = 16
    heads: int = 4
    encoder: int = 2  # layers
    decoder: int = 2
    feed: int = 32
    length: int = 200  # positions
    dropout: float = 0.1


SMALL = Sizes()


def by_exponential(length: int, width: int) -> Tensor:
    """Return sines and cosines [length, width] whose frequencies come from exp."""
    at = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2).float() * -(math.log(10000.0) / width))
    return _waves(at * rate)


def by_power(length: int, width: int) -> Tensor:
    """Return them [length, width] from quotients by a power of 10000."""
    at = torch.arange(length, dtype=torch.float32)[:, None]
    return _waves(at / 10000 ** (torch.arange(0, width, 2).float() / width))


def _waves(angles: Tensor) -> Tensor:
    """Return the sine and the cosine of each of [length, width / 2], side by side."""
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
