"""The stages from one head's weights to the residual stream after the sublayer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from visformer.analysis.formulas import cosine, size
from visformer.analysis.sublayers import Residual
from visformer.language import N_, _, listed, sentences
from visformer.pictures.computation.norms import norm_numbers, norm_steps, norm_words
from visformer.pictures.computation.scale_stage import is_root
from visformer.pictures.computation.stage_picture import (
    StagePicture,
    columns_words,
    plus,
    projected_terms,
    queries,
    stage_map,
    vectors,
    weights_map,
    with_bias,
)
from visformer.pictures.computation.subject import Subject, sharing_words
from visformer.values.facts import Kind
from visformer.words import dimension_words, number

FIRST = 3  # the largest weighted values, which are named in words
SUBLAYERS: dict[Kind, str] = {
    "encoder": N_("the encoder's self-attention"),
    "decoder": N_("the decoder's self-attention"),
    "cross": N_("cross-attention"),
}


def weighted_stage(subject: Subject) -> StagePicture:
    """Show the weighted sum of the values."""
    weights = subject.weights[subject.queries]
    at = subject.kind, subject.layer, subject.head
    own, trace = subject.trace.values(*at), subject.trace
    values = trace.intervention.at(*at[:2]).apply("values", own)  # [K, d]
    output = trace.z(*at, subject.queries)  # [n, d]
    row = weights[subject.at]  # [K]
    shares = row[:, None] * values  # [K, d]
    sizes = size(shares)  # [K]
    order = np.argsort(-sizes, kind="stable")
    z = shares.sum(0)  # [d]
    tokens = subject.names("key")
    maps = (
        weights_map(subject, ""),
        stage_map(
            *(subject, "×", "V", lambda: values, ("key", "head")),
            whole=True,
            role="value",
        ),
        stage_map(subject, "=", "Z", lambda: output, ("query", "head")),
    )
    names = [f"{number(row[j])} · v({tokens[j]})" for j in order]
    largest = (
        _("{vector} of size {size}", vector=name, size=number(sizes[j]))
        for name, j in zip(names[:FIRST], order, strict=False)
    )
    return StagePicture(
        formula=_weighted_formula(subject),
        maps=maps,
        words=_weighted_words(
            subject,
            _(
                "This cell contributes {weight} · v, of size {size}. z = Σ weight · v, "
                "largest first: {largest}. The size (L2 norm) of z is {total}.",
                weight=number(row[subject.key]),
                size=number(sizes[subject.key]),
                largest=listed(largest),
                total=number(float(size(z))),
            ),
        ),
        table=vectors(
            subject,
            "head",
            (_("z, their sum"), *names),
            np.vstack([z, shares[order]]),
            by="all",
        ),
    )


def _weighted_formula(subject: Subject) -> str:
    at = subject.trace, subject.kind, subject.layer
    if is_root(*at) and subject.trace.added(*at[1:]) is None and not subject.captured:
        return _(
            "Z = softmax(QKᵀ / √d_k) V: for each query, the weighted sum of all values"
        )
    return _("Z = weights × V: for each query, the weighted sum of all values")


def _weighted_words(subject: Subject, words: str) -> str:
    changes = subject.changed("heads", "output")
    then = _("Then z is changed by {changes}.", changes=changes) if changes else ""
    return sentences((words, then, sharing_words(subject)))


def concat_stage(subject: Subject) -> StagePicture:
    """Show the heads' outputs side by side."""
    facts = subject.facts
    z = subject.cut(subject.rows().attention(subject.kind).joined)
    columns = subject.output_columns
    heads = z[subject.at].reshape(facts.heads, facts.value_size)  # [H, d]
    mine = stage_map(
        subject, "", _("Z of this head"), lambda: z[:, columns], ("query", "head")
    )
    joined = queries(subject, _("→ beside the others"), _("concat"), z)
    names = (_("z of head {head}", head=h + 1) for h in range(facts.heads))
    sizes = size(heads)
    return StagePicture(
        formula=_(
            "Concat(head 1 … head {heads}): {heads} × {size} = {width} columns",
            heads=facts.heads,
            size=facts.value_size,
            width=z.shape[1],
        ),
        maps=(
            mine,
            replace(joined, make=lambda: replace(joined.make(), framed=columns)),
        ),
        words=_(
            "{token}: head {head} fills {columns}. Its z has size {size}; the largest "
            "z is that of head {largest}, of size {most}.",
            token=subject.token("query"),
            head=subject.head + 1,
            columns=columns_words(columns),
            size=number(sizes[subject.head]),
            largest=int(sizes.argmax()) + 1,
            most=number(sizes.max()),
        ),
        table=vectors(subject, "head", names, heads, by="all"),
    )


def output_stage(subject: Subject) -> StagePicture:
    """Show the projection of the concatenated heads back into the stream."""
    rows = subject.rows()
    part, linear = (
        rows.attention(subject.kind),
        rows.attention_weights(subject.kind).output,
    )
    joined, added = subject.cut(part.joined), subject.cut(part.residual.added)
    weight = (rows.parameters, subject.kind)
    d, at = subject.dimension("model", added.shape[1]), subject.at
    product = _(
        "MultiHead = Concat(head 1 … head {heads}) W_O", heads=subject.facts.heads
    )
    return StagePicture(
        formula=with_bias(product, linear, "b_O"),
        maps=(
            queries(subject, "", _("concat"), joined),
            stage_map(
                subject,
                "×",
                "W_O",
                lambda: linear.weight,
                ("model", "model"),
                key=weight,
            ),
            queries(subject, plus(linear), _("output"), added),
        ),
        words=_(
            "{token}: output[{dimension}] = {sum} = {result}. The output has size "
            "{size}.",
            token=subject.token("query"),
            dimension=dimension_words(d),
            sum=projected_terms(joined[at], linear, d),
            result=number(added[at, d]),
            size=number(float(size(added[at]))),
        ),
        table=vectors(
            subject, "model", (_("concat"), _("output")), [joined[at], added[at]]
        ),
    )


def residual_stage(subject: Subject) -> StagePicture:
    """Show the attention's output added to the stream."""
    residual = subject.rows().attention(subject.kind).residual
    return residual_picture(subject, residual, _(SUBLAYERS[subject.kind]))


def residual_picture(
    subject: Subject, residual: Residual, sublayer: str
) -> StagePicture:
    """Show a sublayer's residual connection and norm; ``sublayer`` is its name."""
    model, at = subject.trace.model, subject.at
    x, added, total = (
        subject.cut(part) for part in (residual.x, residual.added, residual.summed)
    )
    adds = "sublayer(norm(x))" if model.config.norm_first else "sublayer(x)"
    maps = [
        queries(subject, "", "x", x),
        queries(subject, "+", adds, added),
        queries(subject, "=", f"x + {adds}", total),
    ]
    names, values = ["x", adds, _("sum")], [x[at], added[at], total[at]]
    if model.config.norm_first:
        formula = _(
            "x + Sublayer(norm(x)): the norm comes before the sublayer (pre-norm)"
        )
        normed = _(
            "The sum, of size {size}, is passed on without a norm.",
            size=number(float(size(total[at]))),
        )
    else:
        formula = _(
            "norm(x + Sublayer(x)): the norm comes after the sum (post-norm); {norm}",
            norm=norm_words(subject),
        )
        output = subject.cut(residual.normed)
        maps.append(queries(subject, _("→ norm"), _("output"), output))
        steps = norm_steps(model, residual.norm, total[at], _("sum"))
        names += [*steps, _("output")]
        values += [*steps.values(), output[at]]
        normed = norm_numbers(model, total[at])
    sizes = _(
        "{token}: {sublayer} adds a vector of size {added} to the stream, which has "
        "size {size} (cosine between them: {cosine}).",
        token=subject.token("query"),
        sublayer=sublayer,
        added=number(float(size(added[at]))),
        size=number(float(size(x[at]))),
        cosine=number(float(cosine(x[at], added[at]))),
    )
    return StagePicture(
        formula=formula,
        maps=tuple(maps),
        words=sentences((sizes, normed)),
        table=vectors(subject, "model", names, values),
    )
