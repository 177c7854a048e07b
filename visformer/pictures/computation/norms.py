"""The model's norm as formula, text and table, compared with batch norm."""

from visformer.analysis.sublayers import (
    Standard,
    batch_standard,
    standard,
)
from visformer.language import _, ngettext
from visformer.pictures.computation.stage_picture import (
    StagePicture,
    queries,
    vectors,
)
from visformer.pictures.computation.subject import Subject
from visformer.pictures.picture import largest
from visformer.values.arrays import Floats
from visformer.values.config import ModelConfig
from visformer.values.facts import ModelFacts
from visformer.values.layer_weights import NormWeights
from visformer.words import dimension_words, number


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
    """Describe the effect of the norm on one row [D]."""
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
    if not config.norm_bias:
        return _(
            "norm: (x − mean) / √(variance + {eps}) · γ; the variance has the divisor "
            "{divisor}",
            eps=eps,
            divisor=_divisor(config),
        )
    return _(
        "norm: (x − mean) / √(variance + {eps}) · γ + β; the variance has the divisor "
        "{divisor}",
        eps=eps,
        divisor=_divisor(config),
    )


def _divisor(config: ModelConfig) -> str:
    if config.norm == "unbiased":
        return f"N − 1 = {config.d_model - 1}"
    return f"N = {config.d_model}"


def norms_stage(subject: Subject) -> StagePicture:
    """Show the model's norm and batch norm of the same numbers."""
    model, at = subject.trace.model, subject.at
    x = subject.cut(subject.rows().attention(subject.kind).residual.to_norm)
    own, batch = standard(model, x), batch_standard(x, model.config.norm_eps)
    name = _("RMS norm") if model.config.norm == "rms" else _("layer norm")
    names = "x", name, _("batch norm")
    top = max(largest(own.values), largest(batch.values))
    return StagePicture(
        formula=_norms_formula(subject, len(x)),
        maps=(
            queries(subject, "", "x", x),
            queries(subject, _("→ along rows"), name, own.values, top=top),
            queries(subject, _("or along columns"), names[2], batch.values, top=top),
        ),
        words=_norms_words(subject, x, own, batch),
        table=vectors(
            subject, "model", names, [x[at], own.values[at], batch.values[at]]
        ),
    )


def _norms_formula(subject: Subject, tokens: int) -> str:
    """State both formulas, and the numbers that each norm averages."""
    config = subject.trace.model.config
    if config.norm == "rms":
        return ngettext(
            "Without γ and β. RMS norm, as in the model: x / √(mean of x² + eps), over "
            "the {width} numbers of a token. Batch norm: (x − mean) / √(variance + "
            "eps), over the {n:,} token of a column. eps = {eps}",
            "Without γ and β. RMS norm, as in the model: x / √(mean of x² + eps), over "
            "the {width} numbers of a token. Batch norm: (x − mean) / √(variance + "
            "eps), over the {n:,} tokens of a column. eps = {eps}",
            tokens,
            width=config.d_model,
            eps=number(config.norm_eps),
        )
    return ngettext(
        "(x − mean) / √(variance + eps), without γ and β. Layer norm, as in the model: "
        "over the {width} numbers of a token (variance with divisor {divisor}). Batch "
        "norm: over the {n:,} token of a column (divisor N). eps = {eps}",
        "(x − mean) / √(variance + eps), without γ and β. Layer norm, as in the model: "
        "over the {width} numbers of a token (variance with divisor {divisor}). Batch "
        "norm: over the {n:,} tokens of a column (divisor N). eps = {eps}",
        tokens,
        width=config.d_model,
        divisor="N − 1" if config.norm == "unbiased" else "N",
        eps=number(config.norm_eps),
    )


def _norms_words(subject: Subject, x: Floats, own: Standard, batch: Standard) -> str:
    at, d = subject.at, subject.dimension("model", x.shape[1])
    fields = {
        "token": subject.token("query"),
        "row_mean": number(float(own.mean[at, 0])),
        "row_deviation": number(float(own.deviation[at, 0])),  # or root mean square
        "dimension": dimension_words(d),
        "column_mean": number(float(batch.mean[0, d])),
        "column_deviation": number(float(batch.deviation[0, d])),
        "x": number(x[at, d]),
        "own": number(own.values[at, d]),
        "batch": number(batch.values[at, d]),
    }
    if subject.trace.model.config.norm == "rms":
        return _(
            "{token}: its row has the root mean square {row_deviation}, whatever the "
            "other tokens are. The column of {dimension} has mean {column_mean}, "
            "deviation {column_deviation}, which change with the tokens. The model "
            "uses RMS norm: x[{dimension}] = {x} becomes {own}; with batch norm it "
            "would be {batch}.",
            **fields,
        )
    return _(
        "{token}: its row has mean {row_mean}, deviation {row_deviation}, whatever the "
        "other tokens are. The column of {dimension} has mean {column_mean}, "
        "deviation {column_deviation}, which change with the tokens. The model uses "
        "layer norm: x[{dimension}] = {x} becomes {own}; with batch norm it would be "
        "{batch}.",
        **fields,
    )
