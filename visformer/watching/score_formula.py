"""ScoreFormula: scale and what is added, told from how scores follow from products.

The operations between the product and the softmax are done again on zeros: what comes
of zeros is what is added, and of the scores besides, the scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from visformer.values.watched_attention import HIDING, MASKED
from visformer.watching.captured import (
    Replayed,
    Roles,
    Unclear,
    arranged,
    split_at_softmax,
)
from visformer.watching.score_trail import ScoreTrail, walked

LITTLE = 1e-3  # small enough for a soft cap to be straight
SILENT = 1e-9  # a slope that is none
MANY = 4093  # scores that are looked at; a prime, so that all columns have their turn
CLOSE = 1e-4  # of scores, relative to their magnitude
FINE = 1e-7  # numbers with a coarser rounding tell no formula


@dataclass(frozen=True, slots=True, eq=False)
class ScoreFormula:
    """softmax(scale q.k + added), where that is what it is."""

    scale: float
    top: Tensor  # the largest score of each row, [B, H, Q, 1], or of all
    linear: bool = False
    added: Tensor | None = None  # [B or 1, H or 1, Q, K]
    filled: Tensor | None = None  # bool, alike: where what is added replaces the score
    multiplied: Tensor | None = None  # [B, H, Q, K]: not masked, but without a say
    scores: Tensor | None = None  # [B, H, Q, K] by the formula; None where not linear


def formula(
    trail: ScoreTrail, found: Roles, replayed: Replayed, queries: Tensor, keys: Tensor
) -> ScoreFormula:
    """Return the formula of a trail's scores, arranged as the weights are.

    Queries [B, H, Q, d] and keys [B, H, K, d] are those of the product.
    """
    before, _after = split_at_softmax(trail)
    product, scores = replayed.product, replayed.scores
    if replayed.unit > FINE:  # what was rounded hides how it was made
        product = _wide(trail.product.left) @ _wide(trail.product.right)
        scores = walked(before, product)
    dimensions = next((s.softmax[1] for s in trail.steps() if s.softmax), None)

    def in_order(numbers: Tensor) -> Tensor:
        if dimensions is None:
            raise Unclear("no softmax")
        return arranged(numbers, dimensions, found.groups).cpu()

    try:
        zero, real = (
            in_order(walked(before, torch.zeros_like(product))),
            in_order(scores),
        )
    except Unclear:
        top = scores.amax().nan_to_num(0, 0, 0).cpu()
        return ScoreFormula(_first_slope(before, product), top)
    flat = queries.to(real.dtype) @ keys.mT.to(real.dtype)
    scale = _scale(flat, zero, real)
    if scale is None:  # all is masked
        scale = _first_slope(before, product)
    told = torch.add(zero, flat, alpha=scale)
    apart = torch.sub(real, told, out=flat).abs_()
    silent, multiplied = (real == zero) & (apart > 0), None
    if silent.any():  # seldom: filled, or multiplied by zero
        ones = in_order(walked(before, torch.ones_like(product)))
        silent = (real == zero) & (ones == zero) & (zero > -torch.inf)
        multiplied = silent & (zero > HIDING) & in_order(_times_zero(before, product))
        silent &= ~multiplied
        told = torch.where(silent, zero, told)
        apart = (real - told).abs_()
    off = apart > real.abs().clamp_(min=1).mul_(CLOSE)
    linear = not bool((off & (zero > MASKED) & (real > MASKED)).any())
    if not linear and multiplied is None:
        scale = _first_slope(before, product)
    return ScoreFormula(
        scale=scale,
        top=real.amax(-1, keepdim=True).nan_to_num(0, 0, 0).float(),
        linear=linear,
        added=_shared(zero.float()) if zero.any() else None,
        filled=_shared(silent) if silent.any() else None,
        multiplied=multiplied if multiplied is not None and multiplied.any() else None,
        scores=told if linear else None,
    )


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)


def _shared(tensor: Tensor) -> Tensor:
    """Return a tensor without copies for each row of the batch, or for each head."""
    for at in (0, 1):
        first = tensor.narrow(at, 0, 1)
        if tensor.shape[at] > 1 and bool((tensor == first).all()):
            tensor = first
    return tensor.clone()


def _scale(product: Tensor, zero: Tensor, real: Tensor) -> float | None:
    """Return what products are multiplied by; None where nothing tells."""
    several = [x.reshape(-1) for x in (product, zero, real)]
    last = product.numel() - 1
    at = torch.linspace(0, last, MANY, dtype=torch.float64).long()
    for some in ([x[at] for x in several], several):
        product, zero, real = (x.double() for x in some)
        tells = (zero > MASKED) & (real > MASKED) & (real != zero)
        tells &= real.isfinite() & (product.abs() > SILENT)
        if tells.any():
            product, slope = product[tells], (real - zero)[tells] / product[tells]
            large = product.abs() >= product.abs().median()
            return float(slope[large].median())
    return None


def _first_slope(before: list[ScoreTrail], product: Tensor) -> float:
    """Return what little numbers are multiplied by, before all of them are masked."""
    zeros = torch.zeros_like(_wide(product))
    little = torch.full_like(zeros, LITTLE)
    scale = 1.0
    for step in before:
        zeros, little = walked([step], zeros), walked([step], little)
        slope = ((little - zeros) / LITTLE)[zeros > MASKED]
        slope = slope[slope.abs() > SILENT]
        if len(slope):
            scale = float(slope.median())
    return scale


def _times_zero(before: list[ScoreTrail], product: Tensor) -> Tensor:
    """Return which scores are multiplied by zero and not replaced after it."""
    zeros, ones = torch.zeros_like(product), torch.ones_like(product)
    for step in before:
        differed = zeros != ones
        zeros, ones = walked([step], zeros), walked([step], ones)
        if step.operation in ("mul", "mul_"):
            gone = (zeros == ones) & differed
            zeros, ones = (x.masked_fill(gone, torch.nan) for x in (zeros, ones))
    return zeros.isnan()
