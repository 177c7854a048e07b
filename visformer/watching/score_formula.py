"""ScoreFormula: scale and what is added, told from how scores follow from products.

The operations between the product and the softmax are done again on zeros and on little
numbers: what comes of zeros is what is added, and of the others besides, the scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from visformer.watching.captured import (
    MASKED,
    Roles,
    Unclear,
    arranged,
    split_at_softmax,
)
from visformer.watching.score_trail import ScoreTrail, walked

LITTLE = 1e-3  # small enough for a soft cap to be straight
SILENT = 1e-9  # a slope that is none
MANY = 1000  # slopes that are looked at
CLOSE = 1e-4  # of scores, relative to their magnitude


@dataclass(frozen=True, slots=True, eq=False)
class ScoreFormula:
    """softmax(scale q.k + added), where that is what it is."""

    scale: float
    added: Tensor | None  # [B or 1, H or 1, Q, K]
    linear: bool
    multiplied: Tensor | None  # [B, H, Q, K]: not masked, but the score has no say


def formula(trail: ScoreTrail, found: Roles) -> ScoreFormula:
    """Return the formula of a trail's scores, arranged as the weights are."""
    before, _after = split_at_softmax(trail)
    product = trail.product
    scores = (product.left @ product.right).to(_wide(product.left))
    zeros = walked(before, torch.zeros_like(scores))
    ones = walked(before, torch.full_like(scores, LITTLE))
    there = walked(before, scores)
    dimensions = next((s.softmax[1] for s in trail.steps() if s.softmax), None)
    whole = (*product.shared, product.left_rows, product.right_columns)
    try:
        if dimensions is None:
            raise Unclear("no softmax")
        zero, one, real = (
            arranged(x, dimensions, found.groups).double().cpu()
            for x in (zeros, ones, there)
        )
        flat = arranged(scores, whole, found.groups).double().cpu()
    except Unclear:
        slope = (ones - zeros)[zeros > MASKED].double() / LITTLE
        scale = _middle(slope[slope.abs() > SILENT])
        return ScoreFormula(scale, None, linear=False, multiplied=None)
    return _fitted(flat, zero, one, real)


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _middle(slopes: Tensor) -> float:
    """Return the median of numbers that are the same but for a few; 1 of none."""
    some = slopes[:: 1 + len(slopes) // MANY]
    return float(some.median()) if len(some) else 1.0


def _fitted(scores: Tensor, zero: Tensor, one: Tensor, real: Tensor) -> ScoreFormula:
    masked = (zero <= MASKED) | zero.isnan() | (real <= MASKED)
    slope = (one - zero).nan_to_num() / LITTLE
    counts = ~masked & (slope.abs() > SILENT)
    silent = ~masked & ~counts
    scale = _middle(slope[counts])
    apart = (real - (scale * scores + zero)).abs()
    close = apart <= CLOSE * real.abs().clamp(min=1)
    linear = bool((close | masked).all()) and not bool(silent.any())
    added: Tensor | None = zero.float()
    while added is not None:
        if not added.any():
            added = None
            break
        shared = [
            at
            for at in (0, 1)
            if added.shape[at] > 1 and bool((added == added.narrow(at, 0, 1)).all())
        ]
        if not shared:
            break
        added = added.narrow(shared[0], 0, 1)
    multiplied = silent if counts.any() and silent.any() else None
    return ScoreFormula(scale, added, linear, multiplied)


def computed(
    queries: Tensor, keys: Tensor, scale: float, added: Tensor | None
) -> Tensor:
    """Return softmax(scale q.k + added), [B, H, Q, K]; keys with as many heads."""
    scores = (queries @ keys.mT) * scale
    if added is not None:
        scores = scores + added
    return torch.softmax(scores, -1)
