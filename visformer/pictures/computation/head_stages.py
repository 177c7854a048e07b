"""The stages from one head's weights to the residual stream after the sublayer."""

from __future__ import annotations

import numpy as np

from visformer.analysis.formulas import cosine, size
from visformer.analysis.sublayers import Residual, standard
from visformer.pictures.computation.stage_picture import (
    StagePicture,
    bias_words,
    plus,
    queries,
    stage_map,
    terms,
    vectors,
    weights_map,
)
from visformer.pictures.computation.subject import Subject
from visformer.words import KIND_NAMES, dimension_words, number

FIRST = 3  # contributions named


def weighted_stage(subject: Subject) -> StagePicture:
    """Show the values added up, each with its weight."""
    weights = subject.weights[subject.queries]
    values = subject.trace.values(subject.kind, subject.layer, subject.head)  # [K, d]
    row = weights[subject.at]  # [K]
    shares = row[:, None] * values  # [K, d]
    sizes = size(shares)  # [K]
    order = np.argsort(-sizes, kind="stable")
    z = shares.sum(0)  # [d]
    tokens = subject.names("key")
    maps = (
        weights_map(subject, ""),
        stage_map(subject, "×", "V", lambda: values, ("key", "head"), whole=True),
        stage_map(subject, "=", "Z", lambda: weights @ values, ("query", "head")),
    )
    most = ", ".join(
        f"{number(row[j])} · v({tokens[j]}) of size {number(sizes[j])}"
        for j in order[:FIRST]
    )
    names = [f"{number(row[j])} · v({tokens[j]})" for j in order]
    own = f"{number(row[subject.key])} · v of size {number(sizes[subject.key])}"
    return StagePicture(
        formula="Z = softmax(QKᵀ / √d_k) V: each query's mixture of all values",
        maps=maps,
        words=f"This cell gives {own}. z = Σ weight · v, largest first: "
        f"{most}. Size of z: {number(float(size(z)))}.",
        table=vectors(
            subject,
            "head",
            ("z, their sum", *names),
            np.vstack([z, shares[order]]),
            by="all",
        ),
    )


def concat_stage(subject: Subject) -> StagePicture:
    """Show the heads' outputs side by side."""
    config = subject.trace.model.config
    z = subject.cut(subject.rows().attention(subject.kind).joined)
    columns = subject.columns
    heads = z[subject.at].reshape(config.heads, config.head_size)  # [H, d]
    mine = stage_map(
        subject, "", "Z of this head", lambda: z[:, columns], ("query", "head")
    )
    names = (f"z of head {h + 1}" for h in range(config.heads))
    sizes = size(heads)
    return StagePicture(
        formula=f"Concat(head 1 … head {config.heads}): {config.heads} × "
        f"{config.head_size} = {config.d_model} columns",
        maps=(mine, queries(subject, "→ beside the others", "concat", z)),
        words=f"{subject.token('query')}: head {subject.head + 1} fills "
        f"{subject.columns_words}; its z has size "
        f"{number(sizes[subject.head])}, the largest is that of head "
        f"{int(sizes.argmax()) + 1}, {number(sizes.max())}.",
        table=vectors(subject, "head", names, heads, by="all"),
    )


def output_stage(subject: Subject) -> StagePicture:
    """Show the joined heads projected back into the stream."""
    config = subject.trace.model.config
    rows = subject.rows()
    part, linear = (
        rows.attention(subject.kind),
        rows.attention_weights(subject.kind).output,
    )
    joined, added = subject.cut(part.joined), subject.cut(part.residual.added)
    weight = (rows.parameters, subject.kind)
    d, at = subject.dimensions.get("model", 0), subject.at
    bias = "" if linear.bias is None else f" + bias {number(linear.bias[d])}"
    return StagePicture(
        formula=f"MultiHead = Concat(head 1 … head {config.heads}) W_O"
        f"{bias_words(linear, 'O')}",
        maps=(
            queries(subject, "", "concat", joined),
            stage_map(
                subject,
                "×",
                "W_O",
                lambda: linear.weight,
                ("model", "model"),
                key=weight,
            ),
            queries(subject, plus(linear), "output", added),
        ),
        words=f"{subject.token('query')}: output[{dimension_words(d)}] = "
        f"{terms(joined[at], linear.weight[:, d])}{bias} = {number(added[at, d])}. "
        f"The output has size {number(float(size(added[at])))}.",
        table=vectors(subject, "model", ("concat", "output"), [joined[at], added[at]]),
    )


def residual_stage(subject: Subject) -> StagePicture:
    """Show the attention's output added to the stream."""
    residual = subject.rows().attention(subject.kind).residual
    return residual_picture(subject, residual, f"{KIND_NAMES[subject.kind]} attention")


def residual_picture(subject: Subject, residual: Residual, adds: str) -> StagePicture:
    """Show any sublayer's residual connection and norm."""
    model, at = subject.trace.model, subject.at
    x, added, total = (
        subject.cut(part) for part in (residual.x, residual.added, residual.summed)
    )
    maps = [
        queries(subject, "", "x", x),
        queries(subject, "+", "sublayer(x)", added),
        queries(subject, "=", "x + sublayer(x)", total),
    ]
    names, values = ["x", "sublayer(x)", "sum"], [x[at], added[at], total[at]]
    direction = float(cosine(x[at], added[at]))
    words = (
        f"{subject.token('query')}: {adds} adds a vector of size "
        f"{number(float(size(added[at])))} to one of size "
        f"{number(float(size(x[at])))}, with cosine {number(direction)} to it. "
    )
    if model.config.norm_first:
        formula = "x + Sublayer(norm(x)): the norm came before the sublayer (pre-norm)"
        words += f"The sum, of size {number(float(size(total[at])))}, goes on unnormed."
    else:
        formula = f"norm(x + Sublayer(x)), post-norm; {norm_words(subject)}"
        standardised = standard(model, total[at])
        maps.append(queries(subject, "→ norm", "leaves", subject.cut(residual.output)))
        names += ["(sum − mean) / deviation", "γ", "β", "leaves"]
        norm = residual.norm
        values += [standardised.values, norm.gamma, norm.beta, residual.output[at]]
        words += (
            f"Norm: mean {number(float(standardised.mean[0]))}, deviation "
            f"{number(float(standardised.deviation[0]))}; then · γ + β."
        )
    return StagePicture(
        formula=formula,
        maps=tuple(maps),
        words=words,
        table=vectors(subject, "model", names, values),
    )


def norm_words(subject: Subject) -> str:
    """Say the rule of the model's norm, with its own eps."""
    model = subject.trace.model
    config = model.config
    count = "N − 1" if config.norm == "unbiased" else "N"
    return (
        f"norm: (x − mean) / √(variance + {number(config.norm_eps)}) · γ + β, variance "
        f"over {count} = {config.d_model - (config.norm == 'unbiased')}"
    )
