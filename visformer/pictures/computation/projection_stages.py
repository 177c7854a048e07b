"""The stages from a sublayer's input to the scaled products of queries and keys."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from visformer.analysis.head_measures import entropy
from visformer.analysis.sublayers import size
from visformer.language import N_, _, p_, sentences
from visformer.pictures.computation.norms import norm_steps, norm_words
from visformer.pictures.computation.stage_picture import (
    Shading,
    StageMap,
    StagePicture,
    columns_words,
    difference,
    plus,
    projected_part,
    projected_terms,
    queries,
    signed_shading,
    stage_map,
    vectors,
    with_bias,
)
from visformer.pictures.computation.subject import Projected, Subject
from visformer.pictures.picture import Axis, largest, shade
from visformer.pictures.position_lab import token_positions
from visformer.pictures.selection import Scale
from visformer.values.arrays import Bools, Floats, row_entropy, softmax
from visformer.values.attention_heads import AttentionHeads, DistanceBias, bias_rows
from visformer.values.changes.position_change import adds_positions
from visformer.values.facts import SIDES, Kind
from visformer.values.trace import Trace
from visformer.words import decimals, dimension_words, layer_words, number, probability

LETTERS: dict[Projected, str] = {"query": "Q", "key": "K", "value": "V"}


def input_stage(subject: Subject) -> StagePicture:
    """Show the rows that queries, keys and values are projected from."""
    rows, model = subject.rows(), subject.trace.model
    residual = rows.attention(subject.kind).residual
    maps = [*_embedding(subject, residual.x)]
    maps.append(queries(subject, "=" if maps else "", _("stream x"), residual.x))
    names, values = [_("x of the query")], [residual.x[subject.at]]
    if model.config.norm_first:
        maps.append(queries(subject, _("→ norm"), "X", residual.reads))
        steps = norm_steps(model, residual.norm, residual.x[subject.at], "x")
        names += [*steps, _("X = norm(x) of the query")]
        values += [*steps.values(), residual.reads[subject.at]]
    memory = rows.memory(subject.kind, subject.keys)
    if subject.kind == "cross":
        encoded = _("M (encoder output)")
        maps.append(
            stage_map(
                subject,
                p_("between pictures", "and"),
                encoded,
                lambda: memory,
                ("key", "model"),
            )
        )
    names.append(_("M of the key") if subject.kind == "cross" else _("X of the key"))
    values.append(memory[subject.key - subject.keys.start])
    sizes = _(
        "Its size (L2 norm) is {size}; the key's row, {key}, has size {key_size}.",
        size=number(float(size(residual.x[subject.at]))),
        key=subject.token("key"),
        key_size=number(float(size(values[-1]))),
    )
    return StagePicture(
        formula=_input_formula(subject),
        maps=tuple(maps),
        words=sentences((_input_words(subject), sizes)),
        table=vectors(subject, "model", names, values),
    )


def _input_formula(subject: Subject) -> str:
    """Say what queries, keys and values are projected from."""
    across = subject.kind == "cross"
    if not subject.trace.model.config.norm_first:
        if across:
            return _(
                "The queries are projected from the residual stream x; the keys and "
                "values from M, the encoder's output."
            )
        return _("Queries, keys and values are projected from the residual stream x.")
    if across:
        return _(
            "The queries are projected from X, the normalised stream ({norm}); the "
            "keys and values from M, the encoder's output.",
            norm=norm_words(subject),
        )
    return _(
        "Queries, keys and values are projected from X, the normalised stream "
        "({norm}).",
        norm=norm_words(subject),
    )


def _embedding(subject: Subject, x: Floats) -> tuple[StageMap, ...]:
    """Split the first layer's input, if the position table is known."""
    if subject.positions is None or subject.layer or subject.kind == "cross":
        return ()
    if not adds_positions(subject.trace.model, subject.trace.intervention.positions):
        return ()
    side = SIDES[subject.kind][0]
    given = token_positions(subject.trace, subject.positions, side)
    if given is None:
        return ()
    positions = given[subject.queries]
    return (
        queries(subject, "", _("x − position"), subject.cut(x) - positions),
        queries(subject, "+", _("position"), positions),
    )


def _input_words(subject: Subject) -> str:
    token = subject.token("query")
    if subject.kind == "cross":
        return _(
            "{token}: x is the stream after this layer's self-attention.", token=token
        )
    if subject.layer:
        return _(
            "{token}: x is the output of {layer}.",
            token=token,
            layer=layer_words(subject.layer - 1),
        )
    model, change = subject.trace.model, subject.trace.intervention.positions
    added = bool(adds_positions(model, change))
    return _(_EMBEDDED[added, model.config.embedding_scale], token=token)


_EMBEDDED = {  # by whether positions are added, and whether embeddings are scaled
    (True, True): N_(
        "{token}: x is embedding + position (x − position is the scaled embedding)."
    ),
    (True, False): N_(
        "{token}: x is embedding + position (x − position is the embedding)."
    ),
    (False, True): N_("{token}: x is the scaled embedding; no position is added."),
    (False, False): N_("{token}: x is the embedding; no position is added."),
}


def projection_stage(part: Projected) -> Callable[[Subject], StagePicture]:
    """Return the stage that projects the input to queries, keys or values."""

    def stage(subject: Subject) -> StagePicture:
        return _projection(subject, part)

    return stage


def _projection(subject: Subject, part: Projected) -> StagePicture:
    letter, rows = LETTERS[part], subject.rows()
    token: Literal["query", "key"] = "query" if part == "query" else "key"
    whole = getattr(rows.attention_weights(subject.kind), part)
    columns = subject.columns(part)
    linear = projected_part(whole, columns)
    reads, result, at = _projected(subject, part)
    source = _source(subject, part)
    product = reads[at] @ linear.weight  # [d]
    values, names = [product, result[at]], [f"{source} W_{letter}", letter.lower()]
    if linear.bias is not None:
        values.insert(1, linear.bias)
        names.insert(1, f"b_{letter}")
    d, small = subject.dimension("head", result.shape[1]), letter.lower()
    words = _(
        "{token}: {element} = {sum} = {result}. Recomputed here, {vector} differs from "
        "the model's own by at most {difference}.",
        token=subject.token(token),
        element=f"{small}[{dimension_words(d)}]",
        sum=projected_terms(reads[at], linear, d),
        result=number(result[at, d]),
        vector=small,
        difference=difference(linear(reads[at]), result[at]),
    )
    return StagePicture(
        formula=_(
            "{formula}  ·  head {head} of {heads} has {columns} of {matrix}",
            formula=with_bias(f"{letter} = {source} W_{letter}", linear, f"b_{letter}"),
            head=subject.head + 1,
            heads=subject.facts.heads,
            columns=columns_words(columns),
            matrix=f"W_{letter}",
        ),
        maps=_projection_maps(subject, part),
        words=words,
        table=vectors(subject, "head", names, values, by="all"),
    )


def _source(subject: Subject, part: Projected) -> str:
    """Name what a part is projected from."""
    return "M" if subject.kind == "cross" and part != "query" else "X"


def _projection_maps(subject: Subject, part: Projected) -> tuple[StageMap, ...]:
    """Return input, weight and result; the last two in the hue of the part."""
    letter, rows = LETTERS[part], subject.rows()
    side: Axis = "query" if part == "query" else "key"
    whole = getattr(rows.attention_weights(subject.kind), part)
    linear = projected_part(whole, subject.columns(part))
    reads, result, _at = _projected(subject, part)
    return (
        stage_map(subject, "", _source(subject, part), lambda: reads, (side, "model")),
        stage_map(
            *(subject, "×", f"W_{letter}", lambda: linear.weight, ("model", "head")),
            key=(rows.parameters, subject.kind, subject.head),
            role=part,
        ),
        stage_map(
            *(subject, plus(linear), letter, lambda: result, (side, "head")), role=part
        ),
    )


def _equation(subject: Subject, part: Projected) -> str:
    """Write the equation of a part, with its bias if it has one."""
    letter = LETTERS[part]
    weights = getattr(subject.rows().attention_weights(subject.kind), part)
    bias = "" if weights.bias is None else f" + b_{letter}"
    return f"{letter} = {_source(subject, part)} W_{letter}{bias}"


def projections_stage(subject: Subject) -> StagePicture:
    """Show queries, keys and values side by side: one input, three weights."""
    parts: tuple[Projected, ...] = ("query", "key", "value")
    names, values = [], []
    for part in parts:
        _reads, result, at = _projected(subject, part)
        names.append(LETTERS[part].lower())
        values.append(result[at])
    formulas = ", ".join(_equation(subject, part) for part in parts)
    same = len({len(vector) for vector in values}) == 1
    return StagePicture(
        formula=_(
            "{formulas}: three weights; X is the decoder's stream, M the encoder's "
            "output",
            formulas=formulas,
        )
        if subject.kind == "cross"
        else _("{formulas}: the same X, three weights", formulas=formulas),
        maps=tuple(one for part in parts for one in _projection_maps(subject, part)),
        words=_(
            "{query} asks with its q, {key} is found by its k and gives its v. Head "
            "{head} of {heads} has {columns}.",
            query=subject.token("query"),
            key=subject.token("key"),
            head=subject.head + 1,
            heads=subject.facts.heads,
            columns=columns_words(subject.columns("query")),
        ),
        table=vectors(
            *(subject, "head", names if same else names[:2]),
            values if same else values[:2],
            by="all",
        ),
        columns=3,
    )


def _projected(subject: Subject, part: Projected) -> tuple[Floats, Floats, int]:
    """Return a projection's input and result, and the cell's row in both."""
    trace, rows = subject.trace, subject.rows()
    where = subject.layer, subject.head
    if part == "query":
        reads = rows.attention(subject.kind).residual.reads
        result = trace.queries(subject.kind, *where)[subject.queries]
        return subject.cut(reads), result, subject.at
    every = trace.keys if part == "key" else trace.values
    memory = rows.memory(subject.kind, subject.keys)
    result = every(subject.kind, *where)[subject.keys]
    return memory, result, subject.key - subject.keys.start


def scale_stage(subject: Subject) -> StagePicture:
    """Show the scaled products, what is added, and the effect of the scale."""
    products, scaled = products_of(subject), _scaled(subject)
    name = _scaled_name(subject.trace, subject.kind, subject.layer)
    cells: tuple[Axis, Axis] = ("query", "key")
    # one colour range for both, or they would look the same
    reach = max(largest(products), largest(scaled))

    def matrix(sign: str, title: str, values: Floats) -> StageMap:
        return stage_map(
            *(subject, sign, title, lambda: values, cells),
            colours=lambda: signed_shading(values, reach),
        )

    maps = [matrix("", "QKᵀ", products), matrix("→", name, scaled)]
    names, rows = ["q·k", name.replace("QKᵀ", "q·k")], [products, scaled]
    bias = added_to(subject, subject.queries)
    if bias is not None:
        scores = scores_of(subject)
        maps += [
            matrix("+", _("bias"), bias),
            matrix("=", scores_name(subject), scores),
        ]
        names += [_("bias"), _("score")]
        rows += [bias, scores]
    words = _words(subject, float(products[subject.at, subject.key]))
    full = [largest(row[subject.at]) for row in rows]
    full[:2] = [max(full[:2])] * 2
    if not subject.captured:
        effect = scale_effect(subject)
        if bias is None:
            maps += effect_maps(subject, effect)
        names += [_("weight without scale"), _("weight with scale")]
        rows += effect.weights
        full += [1.0, 1.0]
        words = sentences((words, effect_words(subject, effect)))
    return StagePicture(
        formula=_formula(subject),
        maps=tuple(maps),
        words=words,
        table=replace(
            vectors(subject, "key", names, [row[subject.at] for row in rows]),
            full=tuple(full),
        ),
        columns=2,
    )


def scale_title(trace: Trace | None, kind: Kind, layer: int) -> str:
    """Return the title on the stage's tab."""
    if trace is None:
        return "÷ √d"
    scaled = "÷ √d" if is_root(trace, kind, layer) else _("× scale")
    return scaled if trace.added(kind, layer) is None else f"{scaled}, + b"


def is_root(trace: Trace, kind: Kind, layer: int) -> bool:
    """Whether a layer divides by the root of the head's width, as in the paper."""
    return trace.model.attention[kind].is_root(trace.scale(kind, layer))


def scores_name(subject: Subject) -> str:
    """Name the scores before the mask."""
    if subject.trace.added(subject.kind, subject.layer) is not None:
        return _("scores")
    return _scaled_name(subject.trace, subject.kind, subject.layer)


def _scaled_name(trace: Trace, kind: Kind, layer: int) -> str:
    if is_root(trace, kind, layer):
        return "QKᵀ / √d_k"
    return f"QKᵀ × {number(trace.scale(kind, layer))}"


def _formula(subject: Subject) -> str:
    trace, kind, layer = subject.trace, subject.kind, subject.layer
    added, width = trace.added(kind, layer), trace.head_size(kind)
    if is_root(trace, kind, layer):
        formula = _(
            "QKᵀ / √d_k with d_k = {width}: sums of {width} independent products "
            "spread √{width} times as wide as one product, which the division undoes",
            width=width,
        )
    elif changes := trace.intervention.scales:
        formula = _(
            "QKᵀ × {scale}: changed by “{change}” (1 / √d_k would be {root})",
            scale=number(trace.scale(kind, layer)),
            change="; ".join(map(str, changes)),
            root=number(1 / math.sqrt(width)),
        )
    else:
        formula = _(
            "QKᵀ × {scale}: the model's own scale (1 / √d_k would be {root})",
            scale=number(trace.scale(kind, layer)),
            root=number(1 / math.sqrt(width)),
        )
    if added is None:
        return formula
    if isinstance(added, DistanceBias):
        return _(
            "{formula}. Then a bias is added that depends on the head and on the "
            "distance from query to key",
            formula=formula,
        )
    return _("{formula}. Then a bias is added, one number per cell", formula=formula)


def _words(subject: Subject, product: float) -> str:
    trace, kind, layer = subject.trace, subject.kind, subject.layer
    width, scale = trace.head_size(kind), trace.scale(kind, layer)
    scaled = product * scale
    if is_root(trace, kind, layer):
        root = math.sqrt(width)
        words = (
            f"{number(product)} / √{width} = "
            f"{number(product)} / {number(root)} = {number(product / root)}."
        )
    else:
        words = f"{number(product)} × {number(scale)} = {number(scaled)}."
    bias = added_to(subject, slice(subject.query, subject.query + 1))
    if bias is None:
        return words
    added = float(bias[0, subject.key])
    score = number(scaled + added)
    if isinstance(trace.added(kind, layer), DistanceBias):
        return _(
            "{product} At distance {distance} (key − query) the bias is {bias}, so the "
            "score is {score}.",
            product=words,
            distance=number(subject.key - subject.query),
            bias=number(added),
            score=score,
        )
    return _(
        "{product} The bias of this cell is {bias}, so the score is {score}.",
        product=words,
        bias=number(added),
        score=score,
    )


def head_of(subject: Subject) -> AttentionHeads:
    """Return the inputs of the head's scores and weights."""
    return subject.trace.attention_heads(subject.kind, subject.layer, subject.head)


def products_of(subject: Subject) -> Floats:
    """Return the block's products, [rows, K]."""
    return only(head_of(subject).products(subject.queries))


def _scaled(subject: Subject) -> Floats:
    head = replace(head_of(subject), added=None)
    return only(head.scores(subject.queries))


def scores_of(subject: Subject) -> Floats:
    """Return the block's scores before the mask, [rows, K]."""
    return only(head_of(subject).scores(subject.queries))


def added_to(subject: Subject, rows: slice) -> Floats | None:
    """Return what is added to some rows of scores, [rows, K]; None if nothing."""
    head = head_of(subject)
    if head.added is None:
        return None
    whole = np.ascontiguousarray(bias_rows(head.added, rows, head.mask.shape))
    return only(whole)


def only(heads: Floats) -> Floats:
    """Return the single head's matrix of [1, rows, K]."""
    head: Floats = heads[0]
    return head


@dataclass(frozen=True, slots=True, eq=False)
class ScaleEffect:
    """A block's scores and weights with the run's scale and with another one."""

    used: bool  # whether the run scales: the other scale is then 1, else 1 / sqrt(d)
    scores: tuple[Floats, Floats]  # [rows, K], before the mask: unscaled, scaled
    weights: tuple[Floats, Floats]  # [rows, K] in the same order
    allowed: Bools  # [rows, K]


def scale_effect(subject: Subject) -> ScaleEffect:
    """Compute the block's weights without scale and with it."""
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
    """Return the weights without scale and with it, in the same colours."""
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
        one(p_("between pictures", "and"), _("weights with scale"), 1),
    ]


def effect_words(subject: Subject, effect: ScaleEffect) -> str:
    """Describe the cell's row with the other scale, in numbers."""
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
