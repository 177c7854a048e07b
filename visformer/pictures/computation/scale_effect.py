"""What the scale does to a row's weights: beside the same row without it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from visformer.analysis.head_measures import entropy
from visformer.language import _
from visformer.pictures.computation.stage_picture import (
    Shading,
    StageMap,
    stage_map,
)
from visformer.pictures.computation.subject import Subject
from visformer.pictures.picture import shade
from visformer.pictures.selection import Scale
from visformer.values.arrays import Bools, Floats, row_entropy, softmax
from visformer.values.score_bias import bias_rows
from visformer.words import decimals, number, probability


@dataclass(frozen=True, slots=True, eq=False)
class ScaleEffect:
    """A block's scores and weights with the run's scale and with the other one."""

    used: bool  # the run scales: the other scale is 1; else it is 1 / sqrt(d)
    scores: tuple[Floats, Floats]  # [rows, K] before the mask: without scale, with it
    weights: tuple[Floats, Floats]  # [rows, K] in the same order
    allowed: Bools  # [rows, K]


def scale_effect(subject: Subject) -> ScaleEffect:
    """Compute the block's weights as they would be without scale, and with it."""
    trace, kind, layer = subject.trace, subject.kind, subject.layer
    head, rows = trace.attention_heads(kind, layer, subject.head), subject.queries
    scale, products = trace.scale(kind, layer), head.products(rows)[0]
    used = not math.isclose(scale, 1, rel_tol=1e-6)
    if not used:
        scale = 1 / math.sqrt(trace.head_size(kind))
    scores = [products * np.float32(1), products * np.float32(scale)]
    if head.added is not None:
        bias = bias_rows(head.added, rows, head.mask.shape)[0]
        scores = [one + bias for one in scores]
    allowed = head.mask[rows]
    masked = (np.where(allowed, one, np.float32(head.masked_value)) for one in scores)
    with np.errstate(invalid="ignore"):
        without, scaled = (softmax(one) for one in masked)
    return ScaleEffect(used, (scores[0], scores[1]), (without, scaled), allowed)


def effect_maps(subject: Subject, effect: ScaleEffect) -> list[StageMap]:
    """Describe the weights without scale and with it, in the same colours."""
    scale: Scale = "log" if subject.scale == "log" else "fixed"

    def one(sign: str, name: str, at: int) -> StageMap:
        return stage_map(
            subject,
            sign,
            name,
            lambda: effect.weights[at],
            ("query", "key"),
            forbidden=~effect.allowed,
            colours=lambda: Shading(*shade(effect.weights[at], scale)),
        )

    return [
        one(_("softmax"), _("weights without scale"), 0),
        one(_("and"), _("weights with scale"), 1),
    ]


def effect_words(subject: Subject, effect: ScaleEffect) -> str:
    """Say what the cell's row would be with the other scale, in numbers."""
    at = subject.at
    allowed = effect.allowed[at]
    if not allowed.any() or not all(
        np.isfinite(scores[at]).all() for scores in effect.scores
    ):
        return ""
    here, there = (1, 0) if effect.used else (0, 1)
    entropies = [row_entropy(weights) for weights in effect.weights]  # [rows] each
    fields: dict[str, object] = {
        "even": decimals(math.log2(allowed.sum()), 2),
        "root": number(math.sqrt(subject.trace.head_size(subject.kind))),
    }
    for name, which in (("", here), ("other_", there)):
        scores = effect.scores[which][at][allowed]
        fields |= {
            f"{name}low": number(float(scores.min()), 3),
            f"{name}high": number(float(scores.max()), 3),
            f"{name}largest": probability(float(effect.weights[which][at].max())),
            f"{name}entropy": decimals(float(entropies[which][at]), 2),
            f"{name}mean": decimals(entropy(effect.weights[which]), 2),
        }
    if effect.used:
        return _(
            "Without the scale this row's scores would range from {other_low} to "
            "{other_high} instead of {low} to {high}: its largest weight would be "
            "{other_largest} instead of {largest}, its entropy {other_entropy} bits "
            "instead of {entropy} (equal weights: {even}). Mean entropy of the rows: "
            "{other_mean} bits without, {mean} with the scale.",
            **fields,
        )
    return _(
        "Divided by √d_k = {root}, this row's scores would range from {other_low} to "
        "{other_high} instead of {low} to {high}: its largest weight would be "
        "{other_largest} instead of {largest}, its entropy {other_entropy} bits "
        "instead of {entropy} (equal weights: {even}). Mean entropy of the rows: "
        "{mean} bits without, {other_mean} with the scale.",
        **fields,
    )
