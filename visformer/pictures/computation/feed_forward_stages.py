"""The stages of the feed-forward sublayer, and what residuals and norms do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from visformer.analysis.formulas import batch_standard, cosine, size
from visformer.analysis.sublayers import Residual, dead_units, standard
from visformer.pictures.computation.head_stages import residual_picture
from visformer.pictures.computation.stage_picture import (
    StagePicture,
    bias_words,
    difference,
    plus,
    queries,
    stage_map,
    terms,
    vectors,
)
from visformer.pictures.computation.subject import Subject
from visformer.pictures.picture import Numbers
from visformer.words import (
    ACTIVATION_NAMES,
    dimension_words,
    layer_words,
    number,
    percent,
)


def w1_stage(subject: Subject) -> StagePicture:
    """Show the stream projected to the inner units."""
    rows, at = subject.rows(), subject.at
    feed, weights = rows.feed_forward, rows.parameters.feed_forward
    reads, linear = feed.residual.reads, weights.w1
    d = subject.dimensions.get("inner", 0)
    bias = "" if linear.bias is None else f" + bias {number(linear.bias[d])}"
    config = subject.trace.model.config
    names, values = ["pre-activation"], [feed.pre_activation[at]]
    gated = ""
    if feed.gate is not None:
        names.append("gate: x W_gate")
        values.append(feed.gate[at])
        gated = "; the gate is x W_gate, another projection of the same x"
    return StagePicture(
        formula=f"x W₁{bias_words(linear, '₁')}, from {config.d_model} to "
        f"{config.feed_forward} numbers a token{gated}",
        maps=(
            queries(subject, "", "x", reads),
            stage_map(
                subject,
                "×",
                "W₁",
                lambda: linear.weight,
                ("model", "inner"),
                key=(rows.parameters,),
            ),
            queries(
                subject, plus(linear), "pre-activation", feed.pre_activation, "inner"
            ),
        ),
        words=f"{subject.token('query')}: unit {d} = "
        f"{terms(reads[at], linear.weight[:, d])}{bias} = "
        f"{number(feed.pre_activation[at, d])}.",
        table=vectors(subject, "inner", names, values),
    )


def activation_stage(subject: Subject) -> StagePicture:
    """Show what the activation, and the gate, leave of the inner units."""
    feed, at, model = subject.rows().feed_forward, subject.at, subject.trace.model
    config = model.config
    name = ACTIVATION_NAMES[config.activation]
    active = subject.cut(feed.active)
    shares, always = dead_units(active)
    maps = [
        queries(subject, "", "pre-activation", feed.pre_activation, "inner"),
        queries(subject, f"→ {name}", "active", active, "inner"),
    ]
    names, values = ["pre-activation", name], [feed.pre_activation[at], active[at]]
    if feed.gate is not None:
        maps.append(queries(subject, "×", "gate", feed.gate, "inner"))
        maps.append(queries(subject, "=", "inner", feed.inner, "inner"))
        names += ["gate", f"{name} × gate"]
        values += [feed.gate[at], feed.inner[at]]
    formula = f"inner = {name}(x W₁)" + (" × x W_gate" if feed.gate is not None else "")
    units, dead = config.feed_forward, float(shares[at])
    return StagePicture(
        formula=f"{formula}; a unit is dead where {name} gives exactly 0",
        maps=tuple(maps),
        words=f"{subject.token('query')}: {round(dead * units)} of {units} units are "
        f"exactly 0 ({percent(dead)}). {round(always * units)} "
        f"({percent(always)}) are 0 for all {len(active)} tokens here; on average a "
        f"token has {percent(float(shares.mean()))} at 0."
        + (
            "" if config.activation == "relu" else f" {name} is almost never exactly 0."
        ),
        table=vectors(subject, "inner", names, values),
    )


def w2_stage(subject: Subject) -> StagePicture:
    """Show the inner units projected back to the width of the stream."""
    rows, at = subject.rows(), subject.at
    feed, linear = rows.feed_forward, rows.parameters.feed_forward.w2
    added, d = feed.residual.added, subject.dimensions.get("model", 0)
    bias = "" if linear.bias is None else f" + bias {number(linear.bias[d])}"
    model = subject.trace.model
    share = feed.inner[at] * linear.weight[:, d]
    return StagePicture(
        formula=f"FFN(x) = inner W₂{bias_words(linear, '₂')}, from "
        f"{model.config.feed_forward} back to {model.config.d_model} numbers a token",
        maps=(
            queries(subject, "", "inner", feed.inner, "inner"),
            stage_map(
                subject,
                "×",
                "W₂",
                lambda: linear.weight,
                ("inner", "model"),
                key=(rows.parameters,),
            ),
            queries(subject, plus(linear), "FFN(x)", added),
        ),
        words=f"{subject.token('query')}: FFN(x)[{dimension_words(d)}] = "
        f"{terms(feed.inner[at], linear.weight[:, d])}{bias} = {number(added[at, d])}; "
        f"unit {int(np.abs(share).argmax())} gives it most, "
        f"{number(share[np.abs(share).argmax()])}.",
        table=vectors(subject, "model", ("FFN(x)",), added[at][None]),
    )


def feed_residual_stage(subject: Subject) -> StagePicture:
    """Show what leaves the layer, and that it is what the model kept."""
    rows, at = subject.rows(), subject.query
    residual = rows.feed_forward.residual
    picture = residual_picture(subject, residual, "the feed-forward sublayer")
    parameters = rows.parameters
    kept = subject.trace.hidden(parameters.stack, parameters.layer + 1)[at]
    check = difference(residual.output[subject.at], kept)
    return replace(
        picture,
        words=f"{picture.words} This leaves {layer_words(parameters.layer)}; against "
        f"the model's own numbers the difference is at most {check}.",
    )


def sublayers_stage(subject: Subject) -> StagePicture:
    """Show for every token what each sublayer adds, and what the norms do."""
    rows, model = subject.rows(), subject.trace.model
    parts: list[tuple[str, Residual]] = [("self", rows.self_attention.residual)]
    if rows.cross_attention is not None:
        parts.append(("cross", rows.cross_attention.residual))
    parts.append(("FFN", rows.feed_forward.residual))
    names, columns = ["|x| in"], [size(parts[0][1].x)]
    for name, residual in parts:
        names += [f"|{name}|", f"cos({name}, x)", "norm in", "norm out"]
        columns += [
            size(residual.added),
            cosine(residual.x, residual.added),
            size(residual.to_norm),
            size(residual.normed),
        ]
    names += ["|x| out", "dead units"]
    columns += [
        size(parts[-1][1].output),
        dead_units(rows.feed_forward.active)[0],
    ]
    values = subject.cut(np.stack(columns, axis=1).astype(np.float32))
    place = "x before the sublayer" if model.config.norm_first else "x + what was added"
    at = subject.at
    added = "; ".join(
        f"{name} adds size {number(float(size(part.added[at])))}, cosine "
        f"{number(float(cosine(part.x[at], part.added[at])))}"
        for name, part in parts
    )
    return StagePicture(
        formula="what each sublayer adds to a token's stream: its size | | (L2 norm) "
        "and its direction (cosine to the stream x). norm in, norm out: the sizes of "
        f"what its norm reads, {place}, and makes",
        maps=(
            queries(subject, "", "x in", parts[0][1].x),
            *(
                queries(subject, "+", f"{name} adds", part.added)
                for name, part in parts
            ),
        ),
        words=f"{subject.token('query')}: {added}. Dead units: the share of inner "
        "activations that are exactly 0.",
        table=Numbers(
            rows=subject.names("query")[subject.queries],
            columns=tuple(names),
            values=values,
            axis="",
            rows_axis="query",
            by="column",
        ),
    )


def norms_stage(subject: Subject) -> StagePicture:
    """Show layer norm and batch norm of the same numbers."""
    model, at = subject.trace.model, subject.at
    config = model.config
    x = subject.cut(subject.rows().attention(subject.kind).residual.to_norm)
    layer, batch = standard(model, x), batch_standard(x, config.norm_eps)
    rule = "N − 1" if config.norm == "unbiased" else "N"
    d = subject.dimensions.get("model", 0)
    dim = dimension_words(d)
    return StagePicture(
        formula="(x − mean) / √(variance + eps), without γ and β. Layer norm: over a "
        f"token's {config.d_model} numbers, variance over {rule}, as the model does. "
        f"Batch norm: over the {len(x)} tokens of a column, variance over N; "
        f"eps {number(config.norm_eps)}",
        maps=(
            queries(subject, "", "x", x),
            queries(subject, "→ along rows", "layer norm", layer.values),
            queries(subject, "or along columns", "batch norm", batch.values),
        ),
        words=f"{subject.token('query')}: its row has mean "
        f"{number(float(layer.mean[at, 0]))}, deviation "
        f"{number(float(layer.deviation[at, 0]))}, whatever else is in the sentence. "
        f"The column of {dim} has mean {number(float(batch.mean[0, d]))}, "
        f"deviation {number(float(batch.deviation[0, d]))}; another token changes "
        f"them. The model uses layer norm: x[{dim}] = {number(x[at, d])} becomes "
        f"{number(layer.values[at, d])}; batch norm would make it "
        f"{number(batch.values[at, d])}.",
        table=vectors(
            subject,
            "model",
            ("x", "layer norm", "batch norm"),
            [x[at], layer.values[at], batch.values[at]],
        ),
    )
