"""The stages from a sublayer's input to one cell's weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from visformer.analysis.formulas import size
from visformer.analysis.sublayers import standard
from visformer.pictures.computation.head_stages import norm_words
from visformer.pictures.computation.stage_picture import (
    Shading,
    StageMap,
    StagePicture,
    bias_words,
    difference,
    plus,
    projected_part,
    queries,
    stage_map,
    terms,
    vectors,
    weights_map,
)
from visformer.pictures.computation.subject import MASKED_FOR_SURE, Subject
from visformer.pictures.picture import Axis
from visformer.pictures.position_lab import token_positions
from visformer.values.arrays import Bools, Floats
from visformer.values.attention_heads import AttentionHeads
from visformer.values.facts import SentenceSide
from visformer.words import dimension_words, masked_value_text, number, probability

Projected = Literal["query", "key", "value"]
LETTERS: dict[Projected, str] = {"query": "Q", "key": "K", "value": "V"}


def input_stage(subject: Subject) -> StagePicture:
    """Show what the sublayer reads: its queries' rows, and its keys' and values'."""
    rows, model = subject.rows(), subject.trace.model
    residual = rows.attention(subject.kind).residual
    maps = [*_embedding(subject, residual.x)]
    maps.append(queries(subject, "=" if maps else "", "stream x", residual.x))
    names, values = ["x, query"], [residual.x[subject.at]]
    if model.config.norm_first:
        maps.append(queries(subject, "→ norm", "X", residual.reads))
        names += ["(x − mean) / deviation", "γ", "β", "X = norm(x), query"]
        values.append(standard(model, residual.x[subject.at]).values)
        values += [residual.norm.gamma, residual.norm.beta, residual.reads[subject.at]]
    memory = rows.memory(subject.kind, subject.keys)
    if subject.kind == "cross":
        encoded = "M (encoder output)"
        maps.append(
            stage_map(subject, "and", encoded, lambda: memory, ("key", "model"))
        )
    names.append("M, key" if subject.kind == "cross" else "X, key")
    values.append(memory[subject.key - subject.keys.start])
    reads = "the stream x"
    if model.config.norm_first:
        reads = f"the normed stream ({norm_words(subject)})"
    keys = "M, the encoder's output" if subject.kind == "cross" else "the same rows"
    words = (
        f"{subject.token('query')}: x is {_input_words(subject)}; "
        f"its size (L2 norm) is {number(float(size(residual.x[subject.at])))}. "
        f"The key's row, {subject.token('key')}, has size "
        f"{number(float(size(values[-1])))}."
    )
    return StagePicture(
        formula=f"The queries are made of {reads}; keys and values of {keys}.",
        maps=tuple(maps),
        words=words,
        table=vectors(subject, "model", names, values),
    )


def _embedding(subject: Subject, x: Floats) -> tuple[StageMap, ...]:
    """Take the first layer's input apart, where the table of positions is known."""
    if subject.positions is None or subject.layer or subject.kind == "cross":
        return ()
    side: SentenceSide = "source" if subject.kind == "encoder" else "target"
    given = token_positions(subject.trace, subject.positions, side)
    if given is None:
        return ()
    positions = given[subject.queries]
    return (
        queries(subject, "", "x − position", subject.cut(x) - positions),
        queries(subject, "+", "position", positions),
    )


def _input_words(subject: Subject) -> str:
    if subject.kind == "cross":
        return "the stream after this layer's self attention sublayer"
    if subject.layer:
        return f"the stream that leaves layer {subject.layer}"
    return "embedding + position (x − position is the scaled embedding)"


def projection_stage(part: Projected) -> Callable[[Subject], StagePicture]:
    """Show how queries, keys or values are made of the input."""

    def stage(subject: Subject) -> StagePicture:
        return _projection(subject, part)

    return stage


def _projection(subject: Subject, part: Projected) -> StagePicture:
    config = subject.trace.model.config
    letter, rows = LETTERS[part], subject.rows()
    token: Literal["query", "key"] = "query" if part == "query" else "key"
    side: Axis = token
    whole = getattr(rows.attention_weights(subject.kind), part)
    linear = projected_part(whole, subject.columns)
    reads, result, at = _projected(subject, part)
    source = "M" if subject.kind == "cross" and part != "query" else "X"
    weight = (rows.parameters, subject.kind, subject.head)
    maps = (
        stage_map(subject, "", source, lambda: reads, (side, "model")),
        stage_map(
            subject,
            "×",
            f"W_{letter}",
            lambda: linear.weight,
            ("model", "head"),
            key=weight,
        ),
        stage_map(subject, plus(linear), letter, lambda: result, (side, "head")),
    )
    product = reads[at] @ linear.weight  # [d]
    values, names = [product, result[at]], [f"{source} W_{letter}", letter.lower()]
    if linear.bias is not None:
        values.insert(1, linear.bias)
        names.insert(1, f"b_{letter}")
    d, small = subject.dimensions.get("head", 0), letter.lower()
    bias = "" if linear.bias is None else f" + bias {number(linear.bias[d])}"
    words = (
        f"{subject.token(token)}: {small}[{dimension_words(d)}] = "
        f"{terms(reads[at], linear.weight[:, d])}{bias} = {number(result[at, d])}. "
        f"Computed here against the model's own {small}: difference at most "
        f"{difference(linear(reads[at]), result[at])}."
    )
    return StagePicture(
        formula=f"{letter} = {source} W_{letter}{bias_words(linear, letter)}"
        f"  ·  head {subject.head + 1} of {config.heads} has "
        f"{subject.columns_words} of W_{letter}",
        maps=maps,
        words=words,
        table=vectors(subject, "head", names, values, by="all"),
    )


def _projected(subject: Subject, part: Projected) -> tuple[Floats, Floats, int]:
    """Return what a projection reads, its result, and the cell's row of both."""
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


def product_stage(subject: Subject) -> StagePicture:
    """Show every query times every key."""
    q, k = _pair(subject)
    total = float(q.astype(np.float64) @ k)
    keys = subject.trace.keys(subject.kind, subject.layer, subject.head)
    maps = (
        queries(subject, "", "Q", _block_queries(subject), "head"),
        stage_map(subject, "×", "Kᵀ", lambda: keys.T, ("head", "key")),
        stage_map(subject, "=", "QKᵀ", lambda: _products(subject), ("query", "key")),
    )
    return StagePicture(
        formula="QKᵀ: every query times every key, dimension by dimension, added up",
        maps=maps,
        words=f"q·k = {terms(q, k)} = {number(total)}.",
        table=vectors(subject, "head", ("q", "k", "q × k"), [q, k, q * k]),
    )


def scale_stage(subject: Subject) -> StagePicture:
    """Show the products divided by the root of the head's width."""
    width = subject.trace.model.config.head_size
    root = math.sqrt(width)
    products = _products(subject)
    maps = (
        stage_map(subject, "", "QKᵀ", lambda: products, ("query", "key")),
        stage_map(
            subject, "→", "QKᵀ / √d_k", lambda: _scores(subject), ("query", "key")
        ),
    )
    product = float(products[subject.at, subject.key])
    words = (
        f"{number(product)} / √{width} = "
        f"{number(product)} / {number(root)} = {number(product / root)}."
    )
    rows = np.stack([products[subject.at], _scores(subject)[subject.at]])  # [2, K]
    return StagePicture(
        formula=f"QKᵀ / √d_k with d_k = {width}: keeps the "
        "scores from growing with the head's width",
        maps=maps,
        words=words,
        table=vectors(subject, "key", ("q·k", "q·k / √d_k"), rows),
    )


def mask_stage(subject: Subject) -> StagePicture:
    """Show which scores are replaced."""
    scores, mask, masked = _scores(subject), _mask(subject), _masked(subject)
    fill = masked_value_text(subject.trace.model.config.masked_value)
    flags = mask.astype(np.float32)
    maps = (
        stage_map(subject, "", "QKᵀ / √d_k", lambda: scores, ("query", "key")),
        stage_map(
            subject,
            "and",
            "mask",
            lambda: flags,
            ("query", "key"),
            forbidden=~mask,
            colours=lambda: Shading(flags, ("False", "True"), "True: may attend"),
        ),
        stage_map(
            subject, "→", "masked", lambda: masked, ("query", "key"), forbidden=~mask
        ),
    )
    score = number(float(scores[subject.at, subject.key]))
    effect = "the softmax makes nothing, or next to nothing, of that"
    if subject.trace.model.config.masked_value > MASKED_FOR_SURE:
        effect = "no small score, so masked keys keep a weight and leak"
    outcome = f"The query may attend: the score stays {score}"
    if not mask[subject.at, subject.key]:
        outcome = f"The query may not attend: {score} is replaced by {fill}"
    rows = np.stack([scores[subject.at], flags[subject.at], masked[subject.at]])
    return StagePicture(
        formula=f"Where the mask is False the score is replaced by {fill}: {effect}",
        maps=maps,
        words=f"{outcome}. This query may attend to "
        f"{int(mask[subject.at].sum())} of {mask.shape[1]} keys.",
        table=vectors(subject, "key", ("score", "may attend: 1", "masked score"), rows),
    )


def softmax_stage(subject: Subject) -> StagePicture:
    """Show the masked scores turned into weights, and that the chain adds up."""
    forbidden, masked = ~_mask(subject), _masked(subject)
    exact = _exact_row(subject)
    with np.errstate(invalid="ignore"):
        exponents = np.exp(exact - exact.max())
        chain = exponents / exponents.sum()
    rows = np.stack([exact, exponents, chain]).astype(np.float32)  # [3, K]
    return StagePicture(
        formula="softmax along each row: exp(score − row's maximum) / the row's sum; "
        "every row adds up to 1",
        maps=(
            stage_map(
                subject,
                "",
                "masked",
                lambda: masked,
                ("query", "key"),
                forbidden=forbidden,
            ),
            weights_map(subject, "→ softmax"),
        ),
        words=_softmax_words(subject, exact, exponents, chain),
        table=vectors(
            subject, "key", ("masked score", "exp(score − maximum)", "weight"), rows
        ),
    )


def _exact_row(subject: Subject) -> np.ndarray:
    """Return the query's masked scores, [K], computed again with double precision."""
    where = subject.kind, subject.layer, subject.head
    q = subject.trace.queries(*where)[subject.query].astype(np.float64)
    scores = subject.trace.keys(*where).astype(np.float64) @ q  # [K]
    scores /= math.sqrt(subject.trace.model.config.head_size)
    allowed = subject.trace.mask(subject.kind, subject.layer)[subject.query]
    masked: np.ndarray = np.where(
        allowed, scores, subject.trace.model.config.masked_value
    )
    return masked


def _softmax_words(
    subject: Subject, row: np.ndarray, exponents: np.ndarray, chain: np.ndarray
) -> str:
    at, shown = subject.key, float(subject.weights[subject.query, subject.key])
    computed = float(chain[at])
    if math.isnan(computed):
        return "Nothing but −∞ in this row, so its weights are NaN."
    return (
        f"exp({number(row[at])} − {number(row.max())}) = "
        f"{number(exponents[at])}; divided by the row's sum {number(exponents.sum())}: "
        f"{probability(computed)} = the weight on the Attention tab, "
        f"{probability(shown)} (difference {number(abs(computed - shown), 1)})."
    )


def _pair(subject: Subject) -> tuple[Floats, Floats]:
    """Return the cell's own query and key, [d] each."""
    where = subject.kind, subject.layer, subject.head
    q = subject.trace.queries(*where)[subject.query]
    return q, subject.trace.keys(*where)[subject.key]


def _block_queries(subject: Subject) -> Floats:
    where = subject.kind, subject.layer, subject.head
    return subject.trace.queries(*where)[subject.queries]


def _head(subject: Subject) -> AttentionHeads:
    return subject.trace.attention_heads(subject.kind, subject.layer, subject.head)


def _products(subject: Subject) -> Floats:
    return _only(_head(subject).products(subject.queries))


def _scores(subject: Subject) -> Floats:
    return _only(_head(subject).scores(subject.queries))


def _mask(subject: Subject) -> Bools:
    return _head(subject).mask[subject.queries]


def _masked(subject: Subject) -> Floats:
    return _only(_head(subject).masked(subject.queries))


def _only(heads: Floats) -> Floats:
    """Return the one head's matrix of [1, rows, K]."""
    head: Floats = heads[0]
    return head
