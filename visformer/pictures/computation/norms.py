"""The model's norm in formulas, words and columns of a table."""

from __future__ import annotations

from visformer.analysis.sublayers import standard
from visformer.language import _
from visformer.pictures.computation.subject import Subject
from visformer.values.arrays import Floats
from visformer.values.config import ModelConfig
from visformer.values.facts import ModelFacts
from visformer.values.layer_weights import NormWeights
from visformer.words import number


def norm_steps(
    model: ModelFacts, norm: NormWeights, x: Floats, name: str
) -> dict[str, Floats]:
    """Return the columns of a table for the norm of a row [D], called ``name``."""
    standardised = _("({x} − mean) / deviation", x=name)
    if model.config.norm == "rms":
        standardised = _("{x} / root mean square", x=name)
    steps = {standardised: standard(model, x).values, "γ": norm.gamma}
    return steps if norm.beta is None else {**steps, "β": norm.beta}


def norm_numbers(model: ModelFacts, x: Floats) -> str:
    """Say what the norm does to one row [D]."""
    made = standard(model, x)
    mean, deviation = number(float(made.mean[0])), number(float(made.deviation[0]))
    if model.config.norm == "rms":
        return _(
            "The norm divides by the root mean square, {rms}, and applies γ.",
            rms=deviation,
        )
    if not model.config.norm_bias:
        return _(
            "The norm subtracts the mean, {mean}, divides by the deviation, "
            "{deviation}, and applies γ.",
            mean=mean,
            deviation=deviation,
        )
    return _(
        "The norm subtracts the mean, {mean}, divides by the deviation, "
        "{deviation}, and applies γ and β.",
        mean=mean,
        deviation=deviation,
    )


def norm_words(subject: Subject) -> str:
    """State the formula of the model's norm, with its eps."""
    config = subject.trace.model.config
    eps = number(config.norm_eps)
    if config.norm == "rms":
        return _("norm: x / √(mean of x² + {eps}) · γ", eps=eps)
    formula = f"(x − mean) / √(variance + {eps}) · γ{' + β' * config.norm_bias}"
    return _(
        "norm: {formula}; the variance has the divisor {divisor}",
        formula=formula,
        divisor=_divisor(config),
    )


def _divisor(config: ModelConfig) -> str:
    if config.norm == "unbiased":
        return f"N − 1 = {config.d_model - 1}"
    return f"N = {config.d_model}"
