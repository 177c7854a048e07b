"""What sentences claim about a layer's arithmetic: its norms, sums, sizes and shares.

It is computed again by the model's own modules, from what the Trace has.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.unit.pictures.claims_numbers import (
    adds,
    changed_at,
    head,
    is_near,
    is_pre_norm,
    is_scaled,
    log_softmax,
    mask,
    number,
    place,
    scale,
    sums_to_one,
)
from tests.unit.pictures.claims_read import at, is_weight
from tests.unit.pictures.sweep import Claims, Predicate, Said
from tests.unit.pictures.swept_runs import SweptRun
from visformer.values.arrays import Floats
from visformer.values.facts import STACK_OF, Kind

BLOCK = 64  # rows that a stage shows at once


def layer_of(said: Said) -> Any:
    """Return the module of the layer that is looked at."""
    kind, layer, _head = place(said)
    return module_of(said.run, kind, layer)


def module_of(run: SweptRun, kind: Kind, layer: int) -> Any:
    assert run.checkpoint is not None
    return getattr(run.checkpoint.model, STACK_OF[kind]).layers[layer]


def by(module: nn.Module, x: Floats) -> Floats:
    """Return what a module makes of rows."""
    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(x.astype(np.float32))).numpy())


def entering(said: Said, kind: Kind) -> Floats:
    """Return the stream as an attention of the layer finds it, [T, D]."""
    layer, module = place(said)[1], layer_of(said)
    if kind != "cross":
        return said.read.hidden(STACK_OF[kind], layer)
    before = summed(said, "decoder")
    return before if is_pre_norm(said) else by(module.self_attention_norm, before)


def summed(said: Said, kind: Kind) -> Floats:
    """Return the stream with what an attention of the layer adds, [T, D]."""
    before = entering(said, kind)
    return before + added(said.run, kind, place(said)[1])[: len(before)]


@cache
def added(run: SweptRun, kind: Kind, layer: int) -> Floats:
    """Return what an attention adds to the whole run, [T, D].

    Without a causal mask, rows read what later steps show.
    """
    module = module_of(run, kind, layer)
    attention = module.cross_attention if kind == "cross" else module.self_attention
    trace, changes = run.trace, run.trace.intervention
    weights = trace.attention(kind, layer)
    values = changes.at(kind, layer).apply("values", trace.values(kind, layer))
    z = changes.at(kind, layer).apply("heads", weights @ values)  # [H, Q, d]
    return by(attention.output, np.concatenate([*z], 1))


def fed(said: Said) -> tuple[Floats, Floats]:
    """Return what enters the feed-forward sublayer, and the sum after it, [T, D]."""
    kind, _layer, _head = place(said)
    module = layer_of(said)
    last: Kind = "encoder" if kind == "encoder" else "cross"
    x = summed(said, last)
    if is_pre_norm(said):
        return x, x + by(module.feed_forward, by(module.feed_forward_norm, x))
    normed = module.self_attention_norm
    if last == "cross":
        normed = module.cross_attention_norm
    x = by(normed, x)
    return x, x + by(module.feed_forward, x)


def is_added_last(said: Said) -> bool:
    """Whether a layer returns what its last sum makes, unchanged."""
    if said.run.checkpoint is None or norm_length(said):  # not row by row
        return not said.trace.intervention
    stack, layer, summed = STACK_OF[place(said)[0]], place(said)[1], fed(said)[1]
    if not is_pre_norm(said):
        summed = by(layer_of(said).feed_forward_norm, summed)
    own = said.read.hidden(stack, layer + 1)
    most = 1e-3 * max(1.0, float(np.nan_to_num(np.abs(own)).max()))
    return bool(np.allclose(own, summed[: len(own)], atol=most, equal_nan=True))


def is_weighted_sum(said: Said) -> bool:
    """Whether the head returns its weights times its values, for the query in focus."""
    (kind, layer, which), query = place(said), at(said)[0]
    values = said.read.values(kind, layer)
    values = said.trace.intervention.at(kind, layer).apply("values", values)[which]
    z = said.read.z(kind, layer, which, slice(query, query + 1))[0]
    made = head(said)[query] @ values
    return bool(np.allclose(z, made, atol=1e-4, equal_nan=True))


def rms(said: Said) -> bool:
    return bool(said.trace.model.config.norm == "rms")


def middle(said: Said, x: Floats) -> tuple[float, float]:
    """Return the mean of a row, and what it is divided by in the model's norms."""
    config = said.trace.model.config
    if rms(said):
        return 0.0, math.sqrt(float((x * x).mean()) + config.norm_eps)
    spread = float(x.var(ddof=config.norm == "unbiased"))
    return float(x.mean()), math.sqrt(spread + config.norm_eps)


def is_normed(said: Said) -> bool:
    """Whether mean and deviation are those of a sum that a norm of the layer reads."""
    query = at(said)[0]
    sums = [summed(said, place(said)[0])[query], fed(said)[1][query]]
    fields = said.fields
    for mean, deviation in (middle(said, one) for one in sums):
        told = is_near(said, "rms" if rms(said) else "deviation", deviation)
        if told and ("mean" not in fields or is_near(said, "mean", mean)):
            return True
    return False


def is_formula(*, root: bool, shift: bool) -> Predicate:
    """Ask whether a norm of the layer is what its formula makes of a row."""

    def test(said: Said) -> bool:
        module = layer_of(said).self_attention_norm
        x = np.random.default_rng(2).standard_normal((1, module.weight.shape[-1]))
        mean, deviation = middle(said, x.astype(np.float32))
        made = (x - mean) / deviation * module.weight.detach().numpy()
        if (getattr(module, "bias", None) is not None) != shift or root != rms(said):
            return False
        made += module.bias.detach().numpy() if shift else 0
        divisor = str(said.fields.get("divisor", "N"))
        unbiased = said.trace.model.config.norm == "unbiased"
        eps = is_near(said, "eps", said.trace.model.config.norm_eps, 1e-9)
        return (
            bool(np.allclose(by(module, x.astype(np.float32)), made, atol=1e-4))
            and ("N − 1" in divisor) == unbiased
            and eps
        )

    return test


def is_beside_batch(said: Said) -> bool:
    """Whether a row and a column, standardised, are what is said of both norms."""
    kind, (query, _key) = place(said)[0], at(said)
    x = (entering if is_pre_norm(said) else summed)(said, kind)
    x, query = x[query // BLOCK * BLOCK :][:BLOCK], query % BLOCK
    mean, deviation = middle(said, x[query])
    column = x[:, 0].astype(np.float64)
    spread = math.sqrt(column.var() + said.trace.model.config.norm_eps)
    wanted = {
        "row_deviation": deviation,
        "column_mean": column.mean(),
        "column_deviation": spread,
        "x": x[query, 0],
        "own": (x[query, 0] - mean) / deviation,
        "batch": (x[query, 0] - column.mean()) / spread,
    }
    if not rms(said):
        wanted["row_mean"] = mean
    return all(is_near(said, name, float(one)) for name, one in wanted.items())


def is_of_rows(said: Said) -> bool:
    """Whether a batch norm would be over as many tokens as the picture has rows."""
    rows = range(len(said.read.tokens(place(said)[0])[0]))
    count = len(rows[at(said)[0] // BLOCK * BLOCK :][:BLOCK])
    unbiased = said.trace.model.config.norm == "unbiased"
    divisor = str(said.fields.get("divisor", "N"))
    return said.fields["n"] == count and ("1" in divisor) == unbiased


def is_small(said: Said) -> bool:
    """Whether what is computed again here is the model's own, to rounding."""
    told = number(said.fields["difference"])
    of = abs(number(said.fields.get("result", 1)))
    return math.isnan(told) or told < 1e-3 * max(1.0, of)


def at_row(said: Said) -> Floats:
    return np.asarray(entering(said, place(said)[0])[at(said)[0]])


def size(x: Floats) -> float:
    return float(np.linalg.norm(x.astype(np.float64)))


def is_sized(said: Said) -> bool:
    """Whether the sizes of the query's and the key's row are those of the stream."""
    kind, (_query, key) = place(said)[0], at(said)
    other = entering(said, kind)
    if kind == "cross":
        other = said.trace.encoder_output
    elif is_pre_norm(said):
        other = by(layer_of(said).self_attention_norm, other)
    return is_near(said, "size", size(at_row(said))) and is_near(
        said, "key_size", size(other[key])
    )


def is_share_of_sum(said: Said) -> bool:
    """Whether a cell's part of the head's output, and all of it, have these sizes."""
    (kind, layer, which), (query, key) = place(said), at(said)
    changes, values = said.trace.intervention, said.read.values(kind, layer)
    values = changes.at(kind, layer).apply("values", values)[which]
    weights = head(said)[query]
    return (
        is_near(said, "weight", float(weights[key]))
        and is_near(said, "size", size(weights[key] * values[key]))
        and is_near(said, "total", size(weights @ values))
    )


def is_projected_back(said: Said) -> bool:
    """Whether the network's first number, and the largest share of it, are so."""
    module, seen = layer_of(said).feed_forward, list[Any]()
    reads = fed(said)[0][[at(said)[0]]]
    if is_pre_norm(said):
        reads = by(layer_of(said).feed_forward_norm, reads)
    handle = module.w2.register_forward_pre_hook(lambda _m, given: seen.append(given))
    made = by(module, reads)[0, 0]
    handle.remove()
    shares = seen[0][0][0].numpy() * module.w2.weight.detach().numpy()[0]
    most = float(np.abs(shares).max())
    if math.isnan(made):
        return math.isnan(number(said.fields["result"]))
    return is_near(said, "result", float(made)) and math.isclose(
        abs(number(said.fields["share"])), most, rel_tol=1e-3, abs_tol=1e-6
    )


def scores(said: Said) -> Floats:
    """Return the scores of the query in focus, after masking, in double precision."""
    (kind, layer, which), query = place(said), at(said)[0]
    heads = said.read.attention_heads(kind, layer, which)
    return np.asarray(heads.masked(slice(query, query + 1))[0, 0], np.float64)


def is_captured_cell(said: Said) -> bool:
    softmax = float(np.exp(log_softmax(scores(said)))[at(said)[1]])
    own = float(head(said)[at(said)])
    return is_weight(said, "weight", own) and is_weight(said, "softmax", softmax)


def is_score(*, allowed: bool) -> Predicate:
    """Ask whether the cell may be read, and its score before the mask is so."""

    def test(said: Said) -> bool:
        (kind, layer, which), (query, key) = place(said), at(said)
        heads = said.read.attention_heads(kind, layer, which)
        score = float(heads.scores(slice(query, query + 1))[0, 0, key])
        told = number(said.fields["score"])
        same = told == score or is_near(said, "score", score)
        return bool(mask(said)[query, key] == allowed) and same

    return test


def is_added(said: Said) -> bool:
    """Whether a sublayer adds a vector of the size said to a stream of its size."""
    kind, (query, _key) = place(said)[0], at(said)
    x, y = entering(said, kind)[query], summed(said, kind)[query]
    z, both = (part[query] for part in fed(said))
    return any(
        is_near(said, "added", size(after - before))
        and is_near(said, "size", size(before))
        for before, after in ((x, y), (z, both))
    )


def counted_open(said: Said) -> bool:
    allowed = mask(said)[at(said)[0]]
    return (said.fields["allowed"], said.fields["n"]) == (allowed.sum(), len(allowed))


CLAIMS: Claims = {
    # norms
    "The norm subtracts the mean, {mean}, divides by the deviation, {deviation}, and "
    "applies γ and β.": is_normed,
    "The norm subtracts the mean, {mean}, divides by the deviation, {deviation}, and "
    "applies γ.": is_normed,
    "The norm divides by the root mean square, {rms}, and applies γ.": is_normed,
    "norm: (x − mean) / √(variance + {eps}) · γ + β; the variance has the divisor "
    "{divisor}": is_formula(root=False, shift=True),
    "norm: (x − mean) / √(variance + {eps}) · γ; the variance has the divisor "
    "{divisor}": is_formula(root=False, shift=False),
    "norm: x / √(mean of x² + {eps}) · γ": is_formula(root=True, shift=False),
    "{token}: its row has mean {row_mean}, deviation {row_deviation}, whatever the "
    "other tokens are. The column of {dimension} has mean {column_mean}, deviation "
    "{column_deviation}, which change with the tokens. The model uses layer norm: "
    "x[{dimension}] = {x} becomes {own}; with batch norm it would be {batch}.": (
        is_beside_batch
    ),
    "{token}: its row has the root mean square {row_deviation}, whatever the other "
    "tokens are. The column of {dimension} has mean {column_mean}, deviation "
    "{column_deviation}, which change with the tokens. The model uses RMS norm: "
    "x[{dimension}] = {x} becomes {own}; with batch norm it would be {batch}.": (
        is_beside_batch
    ),
    "(x − mean) / √(variance + eps), without γ and β. Layer norm, as in the model: "
    "over the {width} numbers of a token (variance with divisor {divisor}). Batch "
    "norm: over the {n:,} tokens of a column (divisor N). eps = {eps}": is_of_rows,
    "Without γ and β. RMS norm, as in the model: x / √(mean of x² + eps), over the "
    "{width} numbers of a token. Batch norm: (x − mean) / √(variance + eps), over the "
    "{n:,} tokens of a column. eps = {eps}": is_of_rows,
    "The norm of this layer takes the mean over one token's numbers, not over a "
    "batch.": lambda s: not norm_length(s),
    "The norm of this layer takes the mean over the numbers of several tokens at "
    "once.": lambda s: norm_length(s) > 0,
    "RMS / batch norm": rms,
    "layer / batch norm": lambda s: s.trace.model.known is None or not rms(s),
    "What each sublayer adds to a token's stream: its size (L2 norm) and its direction "
    "(cosine with the stream x). norm in, norm out: the size before and after its "
    "norm, which is applied to x before the sublayer": is_pre_norm,
    "What each sublayer adds to a token's stream: its size (L2 norm) and its direction "
    "(cosine with the stream x). norm in, norm out: the size before and after its "
    "norm, which is applied to the sum of x and what was added": lambda s: (
        not is_pre_norm(s)
    ),
    # positions
    "{token}: x is embedding + position (x − position is the embedding).": (
        lambda s: adds(s) and not is_scaled(s)
    ),
    "{token}: x is the embedding; no position is added.": lambda s: (
        not adds(s) and not is_scaled(s)
    ),
    # sums and sizes
    "This is the output of {layer}; it differs from the model's own by at most "
    "{difference}.": is_small,
    "{token}: {element} = {sum} = {result}. Recomputed here, {vector} differs from the "
    "model's own by at most {difference}.": is_small,
    "{token}: {element} = {sum} = {result}; unit {unit} contributes most, {share}.": (
        is_projected_back
    ),
    "Its size (L2 norm) is {size}; the key's row, {key}, has size {key_size}.": (
        is_sized
    ),
    "This cell contributes {weight} · v, of size {size}. z = Σ weight · v, largest "
    "first: {largest}. The size (L2 norm) of z is {total}.": is_share_of_sum,
    "{token}: {sublayer} adds a vector of size {added} to the stream, which has size "
    "{size} (cosine between them: {cosine}).": is_added,
    # scores and weights
    "The captured weight is {weight}; the softmax of the masked scores would be "
    "{softmax}.": is_captured_cell,
    "The weights were captured while the model ran: they are not just the softmax of "
    "these scores": lambda s: place(s)[:2] in s.trace.captured,
    "The weights as the model gave them, not the softmax alone: “{query}” gives "
    "“{key}” {weight}.": lambda s: place(s)[:2] in s.trace.captured,
    "The head's output for “{query}” is the weighted sum of all values; “{key}” counts "
    "{weight}.": lambda s: (
        is_weight(s, "weight", float(head(s)[at(s)])) and is_weighted_sum(s)
    ),
    "The head's output for “{query}” is the weighted sum of all values, as far as "
    "“{change}” does not change it; “{key}” counts {weight}.": lambda s: (
        is_weight(s, "weight", float(head(s)[at(s)]))
        and (changed_at(s, "heads") or changed_at(s, "output"))
    ),
    "Softmax turns a row of scores into weights that sum to 1: “{query}” gives “{key}” "
    "{weight}.": lambda s: (
        is_weight(s, "weight", float(head(s)[at(s)]))
        and sums_to_one(head(s)[at(s)[0]])
        and not changed_at(s, "weights")
    ),
    "Softmax turns a row of scores into weights, as far as “{change}” does not change "
    "them: “{query}” gives “{key}” {weight}.": lambda s: (
        is_weight(s, "weight", float(head(s)[at(s)])) and changed_at(s, "weights")
    ),
    # the feed-forward network
    "{activation}(x) is exactly 0 only where x is 0, or where it rounds to 0.": (
        lambda s: s.trace.model.config.activation != "relu"
    ),
    "What the network found is added to the row too.": is_added_last,
    "What the network found is added to the row too; “{change}” changes what leaves "
    "the layer.": lambda s: not is_added_last(s),
    "Then the stream is changed by {changes}.": lambda s: not is_added_last(s),
    "exp({score} − {maximum}) = {exponential}; divided by the row's sum, {sum}, this "
    "is {weight}. The weight on the Attention tab is {shown} (difference "
    "{difference}).": lambda s: is_weight(s, "shown", float(head(s)[at(s)])),
    "The query may attend to this key: the score stays {score}.": is_score(
        allowed=True
    ),
    "The query may not attend to this key: the score {score} is replaced by {value}.": (
        is_score(allowed=False)
    ),
    "This query may attend to {allowed:,} of {n:,} keys.": counted_open,
    "Scores are not scaled: nothing divides them by √{d}, the square root of the "
    "head's width.": lambda s: s.trace.scale(*place(s)[:2]) == 1,
    "QKᵀ × {scale}: the model's own scale (1 / √d_k would be {root})": lambda s: (
        not s.trace.intervention.scales and abs(scale(s) - 1) > 1e-5
    ),
    "QKᵀ × {scale}: changed by “{change}” (1 / √d_k would be {root})": lambda s: (
        bool(s.trace.intervention.scales) and abs(scale(s) - 1) > 1e-5
    ),
    "Z = softmax(QKᵀ / √d_k) V: for each query, the weighted sum of all values": (
        lambda s: (
            abs(scale(s) - 1) < 1e-5
            and place(s)[:2] not in s.trace.captured
            and place(s)[0] not in s.trace.biases
        )
    ),
}


def norm_length(said: Said) -> int:
    """Return how many tokens a norm of the layer covers at once; 0: each alone."""
    if said.run.checkpoint is None:
        return 0
    shape = layer_of(said).self_attention_norm.weight.shape
    return int(shape[0]) if len(shape) > 1 else 0
