"""The stages of the feed-forward sublayer, and of all residuals and norms."""

from dataclasses import replace

import numpy as np

from visformer.analysis.sublayers import Residual, cosine, inactive_units, size
from visformer.language import _, clauses, ngettext, sentences
from visformer.pictures.computation.attention_stages import residual_picture
from visformer.pictures.computation.stage_picture import (
    Shading,
    StageMap,
    StagePicture,
    bars,
    difference,
    plus,
    projected_terms,
    queries,
    stage_map,
    vectors,
    with_bias,
)
from visformer.pictures.computation.subject import Subject
from visformer.pictures.picture import Numbers, largest
from visformer.values.arrays import Floats
from visformer.words import (
    ACTIVATION_NAMES,
    dimension_words,
    layer_words,
    number,
    percent,
)

USUAL = 0.1  # of the base model of Vaswani et al. 2017, section 5.4
DRAWS = 1000  # number of draws averaged


def w1_stage(subject: Subject) -> StagePicture:
    """Show the projection of the stream to the inner units."""
    rows, at = subject.rows(), subject.at
    feed, weights = rows.feed_forward, rows.parameters.feed_forward
    reads, linear = feed.residual.reads, weights.w1
    d = subject.dimension("inner", feed.pre_activation.shape[1])
    names, values = [_("pre-activation")], [feed.pre_activation[at]]
    if feed.gate is not None:
        names.append(_("gate, x W_gate"))
        values.append(feed.gate[at])
    return StagePicture(
        formula=_w1_formula(subject),
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
            queries(subject, plus(linear), names[0], feed.pre_activation, "inner"),
        ),
        words=_(
            "{token}: unit {unit} = {sum} = {result}.",
            token=subject.token("query"),
            unit=d,
            sum=projected_terms(reads[at], linear, d),
            result=number(feed.pre_activation[at, d]),
        ),
        table=vectors(subject, "inner", names, values),
    )


def _w1_formula(subject: Subject) -> str:
    config, weights = subject.trace.model.config, subject.rows().parameters.feed_forward
    sizes = {"width": config.d_model, "inner": config.feed_forward}
    formula = with_bias("x W₁", weights.w1, "b₁")
    if weights.gate is None:
        return _(
            "{formula}, from {width} to {inner} numbers per token",
            formula=formula,
            **sizes,
        )
    return _(
        "{formula}, from {width} to {inner} numbers per token; the gate, x W_gate, is "
        "a second projection of the same x",
        formula=formula,
        **sizes,
    )


def activation_stage(subject: Subject) -> StagePicture:
    """Show the inner units after the activation and, if there is one, the gate."""
    feed, at, model = subject.rows().feed_forward, subject.at, subject.trace.model
    config = model.config
    name = ACTIVATION_NAMES[config.activation]
    active = subject.cut(feed.active)
    before = _("pre-activation")
    maps = [
        queries(subject, "", before, feed.pre_activation, "inner"),
        queries(subject, f"→ {name}", _("active"), active, "inner"),
    ]
    names, values = [before, name], [feed.pre_activation[at], active[at]]
    formula = _(
        "inner = {activation}(x W₁); a unit is inactive where {activation} is "
        "exactly 0",
        activation=name,
    )
    if feed.gate is not None:
        gate = _("gate")
        maps.append(queries(subject, "×", gate, feed.gate, "inner"))
        maps.append(queries(subject, "=", _("inner"), feed.inner, "inner"))
        names += [gate, _("{activation} × gate", activation=name)]
        values += [feed.gate[at], feed.inner[at]]
        formula = _(
            "inner = {activation}(x W₁) × x W_gate; a unit is inactive where "
            "{activation} is exactly 0",
            activation=name,
        )
    return StagePicture(
        formula=formula,
        maps=tuple(maps),
        words=_inactive_words(subject, active, name),
        table=vectors(subject, "inner", names, values),
    )


def _inactive_words(subject: Subject, active: Floats, activation: str) -> str:
    """Say how many inner units are exactly 0; ``active`` [rows, F]."""
    shares, always = inactive_units(active)
    units, inactive = active.shape[1], float(shares[subject.at])
    said = [
        ngettext(
            "{token}: {n:,} of {units:,} units is exactly 0 ({share}).",
            "{token}: {n:,} of {units:,} units are exactly 0 ({share}).",
            round(inactive * units),
            token=subject.token("query"),
            units=units,
            share=percent(inactive),
        ),
        ngettext(
            "Units that are 0 for the one token here: {always:,} ({share}).",
            "Units that are 0 for all {n:,} tokens here: {always:,} ({share}).",
            len(active),
            always=round(always * units),
            share=percent(always),
        ),
        _(
            "On average, {share} of a token's units are 0.",
            share=percent(float(shares.mean())),
        ),
    ]
    if subject.trace.model.config.activation != "relu":
        said.append(
            _(
                "{activation}(x) is exactly 0 only where x is 0, or where it rounds to "
                "0.",
                activation=activation,
            )
        )
    return sentences(said)


def w2_stage(subject: Subject) -> StagePicture:
    """Show the projection of the inner units back to the width of the stream."""
    rows, at = subject.rows(), subject.at
    feed, linear = rows.feed_forward, rows.parameters.feed_forward.w2
    added = feed.residual.added
    d = subject.dimension("model", added.shape[1])
    config = subject.trace.model.config
    share = feed.inner[at] * linear.weight[:, d]
    most = int(np.abs(share).argmax())
    return StagePicture(
        formula=_(
            "{formula}, from {inner} back to {width} numbers per token",
            formula=with_bias(_("FFN(x) = inner W₂"), linear, "b₂"),
            inner=config.feed_forward,
            width=config.d_model,
        ),
        maps=(
            queries(subject, "", _("inner"), feed.inner, "inner"),
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
        words=_(
            "{token}: {element} = {sum} = {result}; unit {unit} contributes most, "
            "{share}.",
            token=subject.token("query"),
            element=f"FFN(x)[{dimension_words(d)}]",
            sum=projected_terms(feed.inner[at], linear, d),
            result=number(added[at, d]),
            unit=most,
            share=number(share[most]),
        ),
        table=vectors(subject, "model", ("FFN(x)",), added[at][None]),
    )


def feed_residual_stage(subject: Subject) -> StagePicture:
    """Show the layer's output, and its difference from the model's own."""
    rows, at = subject.rows(), subject.query
    residual = rows.feed_forward.residual
    picture = residual_picture(subject, residual, _("the feed-forward sublayer"))
    parameters = rows.parameters
    kept = subject.trace.hidden(parameters.stack, parameters.layer + 1)[at]
    check = _(
        "This is the output of {layer}; it differs from the model's own by at most "
        "{difference}.",
        layer=layer_words(parameters.layer),
        difference=difference(residual.output[subject.at], kept),
    )
    here = parameters.stack, parameters.layer
    changes = subject.trace.intervention.here(*here, "stream")
    if changes:
        then = _("Then the stream is changed by {changes}.", changes=changes)
        check = sentences((then, check))
    return replace(picture, words=sentences((picture.words, check)))


def sublayers_stage(subject: Subject) -> StagePicture:
    """Show for every token what each sublayer adds, and the effect of the norms."""
    rows, at = subject.rows(), subject.at
    # i18n: the sublayers self-attention and cross-attention
    parts: list[tuple[str, Residual]] = [(_("self"), rows.self_attention.residual)]
    if rows.cross_attention is not None:
        parts.append((_("cross"), rows.cross_attention.residual))
    parts.append(("FFN", rows.feed_forward.residual))
    names, columns = [_("|x| in")], [size(parts[0][1].x)]
    for name, residual in parts:
        names += [f"|{name}|", f"cos({name}, x)", _("norm in"), _("norm out")]
        columns += [
            size(residual.added),
            cosine(residual.x, residual.added),
            size(residual.to_norm),
            size(residual.normed),
        ]
    names += [_("|x| out"), _("inactive units")]
    columns += [size(parts[-1][1].output), inactive_units(rows.feed_forward.active)[0]]
    values = subject.cut(np.stack(columns, axis=1).astype(np.float32))
    added = (
        _(
            "{sublayer} adds size {size}, cosine {cosine}",
            sublayer=name,
            size=number(float(size(part.added[at]))),
            cosine=number(float(cosine(part.x[at], part.added[at]))),
        )
        for name, part in parts
    )
    return StagePicture(
        formula=_sublayers_formula(subject),
        maps=_sublayer_maps(subject, parts),
        words=_(
            "{token}: {added}. Inactive units: the share of inner activations that "
            "are exactly 0.",
            token=subject.token("query"),
            added=clauses(added),
        ),
        table=Numbers(
            rows=subject.names("query")[subject.queries],
            columns=tuple(names),
            values=values,
            axis="",
            rows_axis="query",
            by="column",
        ),
    )


def _sublayer_maps(
    subject: Subject, parts: list[tuple[str, Residual]]
) -> tuple[StageMap, ...]:
    """Return the sizes of what each sublayer adds, and its numbers on one scale."""
    first = parts[0][1]
    sizes = [size(first.x), *(size(part.added) for _name, part in parts)]
    lengths = bars(
        *(subject, "", _("sizes")),
        (_("x in"), *(name for name, _part in parts)),
        subject.cut(np.stack(sizes, axis=1).astype(np.float32)),
    )
    top = max(largest(part.added) for _name, part in parts)
    added = (
        queries(
            *(subject, "" if part is first else "+"),
            *(_("{sublayer} adds", sublayer=name), part.added),
            top=top,
        )
        for name, part in parts
    )
    return (lengths, *added)


def _sublayers_formula(subject: Subject) -> str:
    if subject.trace.model.config.norm_first:
        return _(
            "What each sublayer adds to a token's stream: its size (L2 norm) and "
            "its direction (cosine with the stream x). norm in, norm out: the size "
            "before and after its norm, which is applied to x before the sublayer"
        )
    return _(
        "What each sublayer adds to a token's stream: its size (L2 norm) and its "
        "direction (cosine with the stream x). norm in, norm out: the size before and "
        "after its norm, which is applied to the sum of x and what was added"
    )


# ---- dropout -----------------------------------------------------------------------


def own_rate(rates: tuple[float, ...]) -> float:
    """Return the rate shown first: the model's, if it has a single one above 0."""
    return rates[0] if len(rates) == 1 and rates[0] else USUAL


def rate_words(rates: tuple[float, ...], rate: float | None) -> str:
    """State the origin of the rate: the model's files, the paper, or the user."""
    p = number(own_rate(rates))
    if rate is not None:
        return _("You chose p = {p}.", p=number(rate))
    if not rates:
        return _("The model's files name no rate: p = {p} is the paper's.", p=p)
    if len(rates) > 1:
        return _(
            "The model was trained in stages, with p from {least} to {largest}; shown "
            "is the paper's p = {p}.",
            least=number(rates[0]),
            largest=number(rates[-1]),
            p=p,
        )
    if rates[0]:
        return _("The model was trained with p = {p}.", p=p)
    return _(
        "The model was trained without dropout (p = 0); shown is the paper's p = {p}.",
        p=p,
    )


def kept(shape: tuple[int, int], rate: float, seed: int) -> Floats:
    """Draw a mask, float32 [rows, D]: 0 with probability ``rate``, otherwise 1.

    Adding rows leaves the earlier ones unchanged.
    """
    drawn = np.random.default_rng(seed).random(shape, np.float32)
    return (drawn >= np.float32(rate)).astype(np.float32)


def dropout_stage(subject: Subject) -> StagePicture:
    """Show what training would drop from the feed-forward output, and the mean."""
    options, at = subject.options, subject.at
    rate = own_rate(subject.dropout) if options.rate is None else options.rate
    added = subject.cut(subject.rows().feed_forward.residual.added)
    mask = kept((len(added), added.shape[1]), rate, options.seed)
    trained = np.where(mask > 0, added / np.float32(1 - rate), np.float32(0))
    shares = kept((DRAWS, added.shape[1]), rate, options.seed).mean(0)
    mean = added[at] * shares / np.float32(1 - rate)
    top = max(largest(added), largest(trained))
    shading = Shading(mask, (_("0 dropped"), _("1 kept")))

    names = (
        *(_("FFN(x), in evaluation"), _("kept"), _("y, in training")),
        _("mean of {n:,} draws", n=DRAWS),
    )
    rows = added[at], mask[at], trained[at], mean
    left = f"÷ {number(1 - rate)} ="
    return StagePicture(
        formula=_(
            "evaluation: y = FFN(x); training: y = m ⊙ FFN(x) / (1 − p), where each "
            "number of m is 0 with probability p, otherwise 1, so that the mean of y "
            "is FFN(x)"
        ),
        maps=(
            queries(subject, "", names[0], added, top=top),
            stage_map(
                *(subject, "⊙", _("mask m"), lambda: mask, ("query", "model")),
                colours=lambda: shading,
            ),
            queries(subject, left, names[2], trained, top=top),
        ),
        words=_dropout_words(subject, rate, added, mask, mean),
        table=replace(vectors(subject, "model", names, rows), flags=(1,)),
    )


def _dropout_words(
    subject: Subject, rate: float, added: Floats, mask: Floats, mean: Floats
) -> str:
    """State the origin of p, and what happens to the row and one of its numbers."""
    at, d = subject.at, subject.dimension("model", added.shape[1])
    value = float(added[at, d])
    fields = {
        "token": subject.token("query"),
        "element": f"FFN(x)[{dimension_words(d)}]",
        "value": number(value),
    }
    if mask[at, d]:
        one = _(
            "{token}: {element} = {value} is kept: in training {value} / {left} = "
            "{result}.",
            left=number(1 - rate),
            result=number(value / (1 - rate)),
            **fields,
        )
    else:
        one = _("{token}: {element} = {value} is dropped: in training 0.", **fields)
    row = ngettext(
        "Draw {seed} drops {n:,} number of {width:,} in this row.",
        "Draw {seed} drops {n:,} numbers of {width:,} in this row.",
        int((mask[at] == 0).sum()),
        seed=subject.options.seed,
        width=added.shape[1],
    )
    expected = _(
        "The mean of {draws:,} draws differs from evaluation by at most {difference}.",
        draws=DRAWS,
        difference=difference(mean, added[at]),
    )
    where = rate_words(subject.dropout, subject.options.rate)
    return sentences((where, one, row, expected))
