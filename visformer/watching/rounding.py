"""Rounding: how far numbers of a model may be from those that are computed again.

Both are rounded on their ways. What a softmax makes of that grows with the size of the
largest scores, and what a sum makes of it with its terms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from visformer.values.watched_attention import HALF_TOLERANCE, TOLERANCE
from visformer.watching.captured import COARSE, Apart, Captured, grouped, unit_of

STEPS = 3  # roundings of a score or a result: as a product, scaled, masked
OF_SUMS = unit_of(torch.zeros(0))  # products are added up in float32


class Rounding(NamedTuple):
    """The relative rounding of single numbers, on the way to weights and to results."""

    of_weights: float
    of_results: float

    def weights(self, rows: Tensor, top: Tensor, steps: int = STEPS) -> Apart:
        """Judge the differences of weights, [..., Q, 1], of scores of some size.

        ``top`` is the largest score of each row, [..., Q, 1], or of all; ``steps``
        roundings may differ. Scores that are off by x change a weight w by
        2 x w (1 - w) at most, and only those near the largest have weights.
        """
        allowed = 0.5 * steps * self.of_weights * (top.abs() + 1)
        return _judged(rows, allowed.clamp(max=1.0), self.of_weights)

    def results(self, made: Captured) -> Apart:
        """Compare results with the weights times the values, relative to their rows."""
        values = grouped(made.values, made.weights.shape[1])
        size, sums = _reach(made.result), made.weights.abs().sum(-1, keepdim=True)
        largest = values.abs().nan_to_num(0, 0, 0).amax((-2, -1), keepdim=True)
        unit = STEPS * self.of_results + math.sqrt(values.shape[2]) * OF_SUMS
        allowed = unit * sums.nan_to_num(0, 0, 0) * largest / size
        rows = rows_apart(made.weights @ values, made.result) / size
        return _judged(rows, allowed, self.of_results)


def _reach(numbers: Tensor) -> Tensor:
    """Return the largest of each row, at least 1; [..., 1]."""
    return numbers.abs().nan_to_num(0, 0, 0).amax(-1, keepdim=True).clamp_(min=1.0)


def _judged(rows: Tensor, allowed: Tensor, unit: float) -> Apart:
    """Return the difference that is furthest from what it may be, else the largest."""
    usual = HALF_TOLERANCE if unit > COARSE else TOLERANCE
    if not rows.numel():
        return Apart(0.0, usual)
    room = allowed.clamp(min=usual).expand(rows.shape)
    over = rows - room
    at = int((over if (over > 0).any() else rows).argmax())
    difference, most = float(rows.reshape(-1)[at]), float(room.reshape(-1)[at])
    return Apart(difference, usual if difference <= usual else most)


def rows_apart(again: Tensor, own: Tensor) -> Tensor:
    """Return the largest difference of each row, [..., 1], on the CPU.

    What is NaN in both is none.
    """
    if again.dtype == own.dtype and torch.equal(again, own):
        return torch.zeros((*own.shape[:-1], 1))
    again, own = again.float(), own.float()
    apart = (again - own).abs_()
    rows = (
        apart.amax(-1, keepdim=True) if apart.numel() else apart.sum(-1, keepdim=True)
    )
    if not rows.isfinite().all():
        same = (again == own) | (again.isnan() & own.isnan())
        rows = apart.masked_fill(same, 0.0).nan_to_num(torch.inf).amax(-1, keepdim=True)
    return rows.cpu()
