"""The stages from queries and keys to the residual stream after the sublayer."""

import math
from dataclasses import replace

import numpy as np

from visformer.analysis.sublayers import Residual, cosine, size
from visformer.language import N_, _, listed, ngettext, p_, sentences
from visformer.pictures.computation.norms import norm_numbers, norm_steps, norm_words
from visformer.pictures.computation.projection_stages import (
    added_to,
    head_of,
    is_root,
    only,
    products_of,
    scores_name,
    scores_of,
)
from visformer.pictures.computation.stage_picture import (
    Shading,
    StagePicture,
    columns_words,
    plus,
    projected_terms,
    queries,
    stage_map,
    terms,
    vectors,
    weights_map,
    with_bias,
)
from visformer.pictures.computation.subject import Subject, sharing_words
from visformer.values.arrays import Bools, Floats
from visformer.values.facts import Kind
from visformer.values.not_finite import nan_row_words
from visformer.words import dimension_words, masked_value_text, number, probability


def product_stage(subject: Subject) -> StagePicture:
    """Show every query times every key."""
    q, k = _pair(subject)
    total = float(q.astype(np.float64) @ k)
    keys = subject.trace.keys(subject.kind, subject.layer, subject.head)
    maps = (
        queries(subject, "", "Q", _block_queries(subject), "head", role="query"),
        stage_map(subject, "×", "Kᵀ", lambda: keys.T, ("head", "key"), role="key"),
        stage_map(subject, "=", "QKᵀ", lambda: products_of(subject), ("query", "key")),
    )
    return StagePicture(
        formula=_("QKᵀ: the dot product of every query with every key"),
        maps=maps,
        words=sentences(
            filter(
                None,
                (f"q·k = {terms(q, k)} = {number(total)}.", sharing_words(subject)),
            )
        ),
        table=vectors(subject, "head", ("q", "k", "q × k"), [q, k, q * k]),
    )


def mask_stage(subject: Subject) -> StagePicture:
    """Show which scores are replaced by the masked value."""
    scores, mask, masked = scores_of(subject), _mask(subject), _masked(subject)
    flags = mask.astype(np.float32)
    maps = (
        stage_map(subject, "", scores_name(subject), lambda: scores, ("query", "key")),
        stage_map(
            subject,
            p_("between pictures", "and"),
            _("mask"),
            lambda: flags,
            ("query", "key"),
            forbidden=~mask,
            colours=lambda: Shading(flags, ("False", "True"), boolean=True),
        ),
        stage_map(
            subject,
            "→",
            _("masked scores"),
            lambda: masked,
            ("query", "key"),
            forbidden=~mask,
        ),
    )
    score = float(scores[subject.at, subject.key])
    rows = np.stack([scores[subject.at], flags[subject.at], masked[subject.at]])
    names = _("score"), _("may attend"), _("masked score")
    return StagePicture(
        formula=_mask_formula(subject, mask),
        maps=maps,
        words=_mask_words(subject, score, mask[subject.at]),
        table=replace(vectors(subject, "key", names, rows), flags=(1,)),
    )


def _mask_formula(subject: Subject, mask: Bools) -> str:
    """Say how masking changes a score, and what weight masked keys have."""
    value = masked_value_text(subject.facts.masked_value)
    kept = subject.weights[subject.queries][~mask]
    if not kept.size:
        return _(
            "Where the mask is False, the score is replaced by {value}; here it is "
            "False nowhere",
            value=value,
        )
    if np.isnan(kept).any():
        return _(
            "Where the mask is False, the score is replaced by {value}; some rows of "
            "weights are NaN",
            value=value,
        )
    return _(
        "Where the mask is False, the score is replaced by {value}; the largest weight "
        "of a masked key is {most}",
        value=value,
        most=probability(float(kept.max())),
    )


def _mask_words(subject: Subject, score: float, allowed: Bools) -> str:
    """Say what happens to the cell's score; ``allowed`` [K] is the query's mask."""
    reads = ngettext(
        "This query may attend to {allowed:,} of {n:,} key.",
        "This query may attend to {allowed:,} of {n:,} keys.",
        len(allowed),
        allowed=int(allowed.sum()),
    )
    if allowed[subject.key]:
        outcome = _(
            "The query may attend to this key: the score stays {score}.",
            score=number(score),
        )
    else:
        outcome = _(
            "The query may not attend to this key: the score {score} is replaced by "
            "{value}.",
            score=number(score),
            value=masked_value_text(subject.facts.masked_value),
        )
    return sentences((outcome, reads))


def softmax_stage(subject: Subject) -> StagePicture:
    """Show how the masked scores become weights, and check the result."""
    forbidden, masked = ~_mask(subject), _masked(subject)
    exact = _exact_row(subject)
    if np.isnan(subject.weights[subject.query]).any():  # recomputing cannot match them
        exact = masked[subject.at].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        exponents = np.exp(exact - exact.max())
        chain = exponents / exponents.sum()
    rows = [exact, exponents, chain]
    names = [_("masked score"), _("exp(score − maximum)"), _("weight")]
    if subject.captured:
        names[-1:] = [_("softmax"), _("captured weight")]
        rows.append(subject.weights[subject.query])
        words, sign = _captured_words(subject, chain), p_("between pictures", "and")
        formula = _(
            "The weights were captured while the model ran: they are not just the "
            "softmax of these scores"
        )
    elif subject.changed("weights"):
        names[-1:] = [_("softmax"), _("changed weight")]
        rows.append(subject.weights[subject.query])
        words, sign = (
            _softmax_words(subject, exact, exponents, chain),
            p_("between pictures", "and"),
        )
        formula = _(
            "softmax over each row, then changed by {changes}",
            changes=subject.changed("weights"),
        )
    else:
        words, sign = _softmax_words(subject, exact, exponents, chain), "→ softmax"
        formula = _(
            "softmax over each row: exp(score − the row's maximum) / the row's sum, so "
            "that a row of numbers sums to 1"
        )
    return StagePicture(
        formula=formula,
        maps=(
            stage_map(
                subject,
                "",
                _("masked scores"),
                lambda: masked,
                ("query", "key"),
                forbidden=forbidden,
            ),
            weights_map(subject, sign),
        ),
        words=words,
        table=vectors(subject, "key", names, np.stack(rows).astype(np.float32)),
    )


def _captured_words(subject: Subject, chain: np.ndarray) -> str:
    """Compare the cell's captured weight with the softmax of its row, [K]."""
    return _(
        "The captured weight is {weight}; the softmax of the masked scores would be "
        "{softmax}.",
        weight=probability(float(subject.weights[subject.query, subject.key])),
        softmax=probability(float(chain[subject.key])),
    )


def _exact_row(subject: Subject) -> np.ndarray:
    """Return the query's masked scores, [K], recomputed in double precision."""
    where = subject.kind, subject.layer, subject.head
    q = subject.trace.queries(*where)[subject.query].astype(np.float64)
    scores = subject.trace.keys(*where).astype(np.float64) @ q  # [K]
    scores *= subject.trace.scale(subject.kind, subject.layer)
    bias = added_to(subject, slice(subject.query, subject.query + 1))
    if bias is not None:
        scores += bias[0]
    allowed = subject.trace.mask(*where)[subject.query]
    masked: np.ndarray = np.where(allowed, scores, subject.facts.masked_value)
    return masked


def _softmax_words(
    subject: Subject, row: np.ndarray, exponents: np.ndarray, chain: np.ndarray
) -> str:
    at, shown = subject.key, float(subject.weights[subject.query, subject.key])
    computed = float(chain[at])
    if math.isnan(shown):
        return nan_row_words(subject.trace, *subject.row)
    maximum = _score_text(subject, row.max())
    return _(
        "exp({score} − {maximum}) = {exponential}; divided by the row's sum, {sum}, "
        "this is {weight}. The weight on the Attention tab is {shown} (difference "
        "{difference}).",
        score=_score_text(subject, row[at]),
        maximum=f"({maximum})" if row.max() < 0 else maximum,
        exponential=number(exponents[at]),
        sum=number(exponents.sum()),
        weight=probability(computed),
        shown=probability(shown),
        difference=number(abs(computed - shown), 1),
    )


def _score_text(subject: Subject, value: float) -> str:
    masked = subject.facts.masked_value
    return masked_value_text(masked) if value == masked else number(value)


def _pair(subject: Subject) -> tuple[Floats, Floats]:
    """Return the cell's query and key, [d] each."""
    where = subject.kind, subject.layer, subject.head
    q = subject.trace.queries(*where)[subject.query]
    return q, subject.trace.keys(*where)[subject.key]


def _block_queries(subject: Subject) -> Floats:
    where = subject.kind, subject.layer, subject.head
    return subject.trace.queries(*where)[subject.queries]


def _mask(subject: Subject) -> Bools:
    where = subject.kind, subject.layer, subject.head
    return subject.trace.mask(*where)[subject.queries]


def _masked(subject: Subject) -> Floats:
    return only(head_of(subject).masked(subject.queries))


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
