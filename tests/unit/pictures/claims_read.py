"""What sentences claim about weights that are read: of a cell, a head, or a look.

All is computed anew from the queries, keys and weights of the Trace.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from tests.existing import existing
from tests.unit.pictures.claims_numbers import (
    head,
    is_nan,
    is_near,
    layer_heads,
    mask,
    mean_bits,
    place,
    row,
    sums_to_one,
)
from tests.unit.pictures.sweep import Claims, Predicate, Said
from visformer.pictures.attention.ranking import Ranking, ranking_parts
from visformer.pictures.attention.token_groups import hidden_tokens
from visformer.pictures.selection import Order
from visformer.values.arrays import Bools, Floats
from visformer.values.facts import SIDES, Kind
from visformer.values.measured import ATTRIBUTIONS, AttributionPlace
from visformer.values.trace import Trace


def leading(text: object) -> float:
    """Return the number that a text begins with; NaN where it has none."""
    found = re.match(r"−?[\d.]+(e[−+]?\d+)?", str(text))
    return float(found[0].replace("−", "-")) if found else math.nan


def is_weight(said: Said, field: str, wanted: float) -> bool:
    told = leading(said.fields[field])
    if math.isnan(wanted) or math.isnan(told):
        return math.isnan(wanted) and math.isnan(told)
    return math.isclose(told, wanted, rel_tol=6e-2, abs_tol=6e-5)


def at(said: Said) -> tuple[int, int]:
    """Return query and key of the cell in focus, or the last one and what it reads."""
    kind, cell = said.scene.selection.kind, said.scene.selection.cell
    if cell is not None and cell.kind == kind:
        return cell.query, cell.key
    last = head(said)[row(said)]
    return row(said), 0 if np.isnan(last).all() else int(np.nanargmax(last))


# ---- a look ------------------------------------------------------------------------


def rolled(trace: Trace, kind: Kind, layers: int) -> Floats:
    """Return the product of each layer's mean of heads and the identity, halved."""
    made: Floats = np.eye(len(trace.tokens(kind)[0]), dtype=np.float64)
    for layer in range(layers):
        both = (trace.attention(kind, layer).mean(0) + np.eye(len(made))) / 2
        made = both / both.sum(-1, keepdims=True) @ made
    return made


def summarised(said: Said) -> Floats:
    """Return what a look makes of the heads, [Q, K], before it hides tokens."""
    (kind, layer, at), trace = place(said), said.trace
    heads = trace.attention(kind, layer)
    match said.scene.look.summary:
        case "mean":
            return np.asarray(heads.mean(0))
        case "max":
            return np.asarray(heads.max(0))
        case "all":
            return np.asarray(trace.attention(kind).mean((0, 1)))
        case "rollout" if kind == "cross":
            below = rolled(trace, "encoder", trace.layers("encoder"))
            return np.asarray(heads.mean(0) @ below)
        case "rollout":
            rows, keys = map(len, trace.tokens(kind))
            return rolled(trace.whole, kind, layer + 1)[:rows, :keys]
    return np.asarray(heads[at])


def measure(said: Said) -> Floats:
    """Return what a look measures of the whole run, [Q, K]."""
    kind, layer, _head = place(said)
    how: Any = said.scene.look.summary
    assert said.run.measured is not None
    found = AttributionPlace(how, kind, 0 if how == "gradient" else layer)
    return existing(said.run.measured.known[found].values)


def measured_later(said: Said) -> float:
    """Return the most that a row shown has on tokens that are not."""
    rows = len(said.trace)
    return float(np.abs(measure(said)[:rows, rows:]).sum(-1).max(initial=0))


def is_measured(said: Said) -> bool:
    """Whether a cell's number is measured, and rows add up, with what is not shown."""
    cell, values = existing(said.scene.selection.cell), measure(said)
    shares = said.scene.look.summary != "gradient"
    whole = not shares or sums_to_one(values[values.any(-1)])
    later = place(said)[0] == "decoder" and measured_later(said) > 1e-6
    said_so = "later tokens" in str(said.fields["done"])
    told = is_weight(said, "weight", float(values[cell.query, cell.key]))
    return told and whole and later == said_so


def is_share_of_source(said: Said) -> bool:
    assert said.run.measured is not None
    share = existing(said.run.measured.share)
    own = float(share[len(said.trace) - 1])
    return int(said.fields["percent"]) == round(100 * own)


def hidden(said: Said) -> tuple[Bools, Bools]:
    """Return which queries and which keys a look hides."""
    trace, kind = said.trace, said.scene.selection.kind
    gone: list[Bools] = []
    for side, tokens in zip(SIDES[kind], trace.tokens(kind), strict=True):
        groups = hidden_tokens(trace, side)
        places = set().union(*(groups[one] for one in said.scene.look.hide))
        shift = side == "target" and kind == "cross" and bool(trace.steps)
        of_rows = shift and not gone
        gone.append(np.array([x + of_rows in places for x in range(len(tokens))]))
    return gone[0], gone[1]


def is_looked_at(said: Said) -> bool:
    """Whether a changed weight is what its look makes of the heads."""
    cell = existing(said.scene.selection.cell)
    read, gone = summarised(said)[cell.query].astype(np.float64), hidden(said)[1]
    if said.scene.look.renormalise:
        total = read[~gone].sum()
        read = read / total if total else read * 0
    return is_weight(said, "weight", float(read[cell.key]))


def is_hidden_cell(said: Said) -> bool:
    cell, gone = said.scene.selection.cell, hidden(said)
    return cell is not None and bool(gone[0][cell.query] or gone[1][cell.key])


def is_masked(said: Said) -> bool:
    """Whether no layer that is looked at may read the cell in focus."""
    kind, layer, _head = place(said)
    cell, look = said.scene.selection.cell, said.scene.look.summary
    if cell is None:
        return False
    every = range(said.trace.layers(kind))
    layers = {"all": every, "rollout": every[: layer + 1]}.get(look, [layer])
    allowed = [said.trace.mask(kind, one)[cell.query, cell.key] for one in layers]
    return not any(allowed)


def looks(summary: str, field: str = "n") -> Predicate:
    """Ask whether a summary is shown, of as many heads as are named."""
    return lambda said: (
        said.scene.look.summary == summary
        and said.fields[field] == said.trace.heads(said.scene.selection.kind)
    )


def of_layer(said: Said) -> bool:
    """Whether the layer looked at is named, and how many heads it has."""
    told = said.fields["layer"], said.fields["heads"]
    return told == (place(said)[1] + 1, len(layer_heads(said)))


# ---- heads -------------------------------------------------------------------------


def is_first_head(said: Said) -> bool:
    """Whether the head named, or as many heads, give the cell the most weight."""
    cell = existing(said.scene.selection.cell)
    every = said.trace.attention(cell.kind)[..., cell.query, cell.key]  # [L, H]
    best = float(np.nanmax(every))
    alike = np.argwhere(every >= best * (1 - 1e-6))
    if "head" not in said.fields:
        return is_weight(said, "weight", best) and len(alike) == said.fields["n"]
    named = [int(x) - 1 for x in re.findall(r"\d+", str(said.fields["head"]))]
    return is_weight(said, "weight", best) and alike.tolist() == [named]


def correlation(weights: Floats) -> float:
    """Return the correlation of places of queries and of what they read."""
    known = weights[~np.isnan(weights).any(-1)]
    queries = np.flatnonzero(~np.isnan(weights).any(-1))
    keys = (known @ np.arange(weights.shape[1])) / known.sum(-1)
    if len(queries) < 2 or np.ptp(keys) < 1e-9:
        return math.nan
    return float(np.corrcoef(queries, keys)[0, 1])


def neighbours(weights: Floats) -> float:
    """Return the largest mean weight on the token before, itself, the one after."""
    means = [np.diagonal(weights, by) for by in (-1, 0, 1)]
    return max(
        (float(np.nanmean(one)) for one in means if not np.isnan(one).all()),
        default=math.nan,
    )


def beside(offset: int) -> Predicate:
    def test(said: Said) -> bool:
        return is_near(said, "weight", float(np.diagonal(head(said), offset).mean()))

    return test


def peak(weights: Floats) -> float:
    return float(np.nanmean(weights.max(-1))) if weights.size else math.nan


def is_ordered(order: Order, measure: Callable[[Floats], float]) -> Predicate:
    """Ask whether heads stand so that a measure of them never grows; NaN is last."""

    @cache
    def test(trace: Trace, kind: Kind) -> bool:
        made = list(ranking_parts(trace, kind, order))
        if not made:
            return True
        assert isinstance(made[-1], Ranking)
        found = [measure(trace.attention(kind, *one)) for one in made[-1].order]
        known = [one for one in found if not math.isnan(one)]
        nan_is_last = not any(map(math.isnan, found[: len(known)]))
        return nan_is_last and all(x >= y - 1e-5 for x, y in pairwise(known))

    return lambda said: test(said.trace, said.scene.selection.kind)


def cut_off(said: Said) -> bool:
    """Whether rows of some layers gave later tokens, not shown, as much as is said."""
    cut, whole, kind = said.trace, said.trace.whole, place(said)[0]
    rows = np.nan_to_num(whole.attention(kind)[:, :, : len(cut), len(cut) :]).sum(-1)
    shares = rows.max((1, 2)).tolist()  # of each layer
    told = float(str(said.fields["share"]).rstrip("%")) / 100
    return kind == "decoder" and any(abs(told - share) < 6e-4 for share in shares)


def rests(said: Said) -> bool:
    means = head(said).mean(0)
    return is_near(said, "weight", float(means.max()))


CLAIMS: Claims = {
    # a cell
    "{kind} · {head} · {query} reads {key}: {weight}": lambda s: is_weight(
        s, "weight", float(head(s)[at(s)])
    ),
    "{title} · {query} reads {key}: {weight} ({done})": is_looked_at,
    "{title} · hidden ({done})": is_hidden_cell,
    "{value}, masked": is_masked,
    "{value}, masked; this query may attend to nothing, so all its weights are NaN": (
        lambda s: is_nan(s) and not mask(s)[row(s)].any()
    ),
    "{weight}, as captured from the model": lambda s: place(s)[:2] in s.trace.captured,
    "rows read later tokens, not shown: {share} at most": cut_off,
    "weights as captured from the model, not derived from queries and keys": (
        lambda s: any(kind == place(s)[0] for kind, _layer in s.trace.captured)
    ),
    "most in {head}: {weight}": is_first_head,
    "most in {n} heads alike: {weight}": is_first_head,
    "In this head “{query}” reads “{key}” with {weight}. Click another source token to "
    "find the head that reads that one.": lambda s: is_weight(
        s, "weight", float(head(s)[at(s)])
    ),
    "{query} reads {key} · no cell is selected, so this is the last query and the key "
    "that it reads most": lambda s: (
        s.scene.selection.cell is None
        and str(at(s)[1] + 1) in re.findall(r"\d+", str(s.fields["key"]))
    ),
    # looks
    "maximum of {n} heads: rows need not sum to 1": looks("max"),
    "Maximum of heads: for each cell the largest weight of the {heads} heads of layer "
    "{layer}; rows need not sum to 1.": of_layer,
    "Mean of heads: Σ A / {heads} over the {heads} heads of layer {layer}.": of_layer,
    "Mean of all {heads} heads of all {layers} layers: Σ A / {total}.": lambda s: (
        s.fields["total"] == len(layer_heads(s)) * s.trace.layers(place(s)[0])
    ),
    "Rollout of cross-attention: the mean of the {heads} heads of layer {layer} times "
    "the rollout of the whole encoder (Abnar and Zuidema 2020), so that its columns "
    "are the words that the encoder read.": lambda s: place(s)[0] == "cross",
    "Value zeroing (Mohebbi et al. 2023): 1 − cosine between the output of layer "
    "{layer} as it is and with a token's values zeroed in all {heads} heads. It says "
    "how far a row depends on a token in this layer, not in which direction.": of_layer,
    "Norms (Kobayashi et al. 2020): ‖Σ a v Wₒ‖ over the {heads} heads of layer "
    "{layer}: a large weight on a small value counts little. It leaves out the "
    "residual, the norms and the feed-forward.": of_layer,
    "Gradient × input: how log p of the token that a row writes answers to a token's "
    "embedding, times that embedding, in nats; signed. It holds near this input, "
    "through all {layers} layers; it is no share.": lambda s: (
        s.fields["layers"] == s.trace.layers(place(s)[0])
    ),
    "Rollout: {strong} are tokens that reach a row through all layers up to this "
    "one.": lambda s: place(s)[0] != "cross",
    "Rollout: {strong} are source words that reach a row through the encoder and this "
    "layer.": lambda s: place(s)[0] == "cross",
    "Rollout of the cross-attention goes through the encoder's self-attention, which "
    "this trace does not have.": lambda s: "encoder" not in s.trace.kinds,
    "{tokens} hidden, not renormalised": lambda s: (
        bool(s.scene.look.hide) and not s.scene.look.renormalise
    ),
    "Each row is a source word; {strong} are the words that it reads.": lambda s: (
        place(s)[0] == "encoder"
    ),
    "Each row is a target word; {strong} are the words that it reads.": lambda s: (
        place(s)[0] == "decoder"
    ),
    "Each row is a word being written; {strong} are the source words it looks at.": (
        lambda s: place(s)[0] == "cross" and bool(s.trace.steps)
    ),
    "Each row is a target word; {strong} are the source words it looks at.": (
        lambda s: place(s)[0] == "cross" and not s.trace.steps
    ),
    # rows and columns
    "query: source token that reads": lambda s: "encoder" in s.trace.kinds,
    "key: source token that is read": lambda s: s.trace.kinds != ("decoder",),
    "query: target token that reads": lambda s: (
        "decoder" in s.trace.kinds or ("cross" in s.trace.kinds and not s.trace.steps)
    ),
    "key: target token that is read": lambda s: "decoder" in s.trace.kinds,
    # what tokens do
    "{title} · {key} for {query}: {weight} ({done})": is_measured,
    "measured for “{query}” · {title}": lambda s: (
        s.scene.look.summary in ATTRIBUTIONS and s.run.measured is not None
    ),
    "source share of this step {percent}%": is_share_of_source,
    "rows depend on later tokens, which are not shown": lambda s: (
        s.scene.look.summary == "gradient" and measured_later(s) > 0
    ),
    "rows depend on later tokens, not shown: {share} at most": lambda s: (
        abs(float(str(s.fields["share"]).rstrip("%")) / 100 - measured_later(s)) < 6e-4
    ),
    # heads
    "Correlation of a query's position q with the mean position of the keys that it "
    "reads, Σ k · w(q, k): {measure}. 1 is in order, −1 backwards; these words are "
    "shown from ±{least} on.": lambda s: is_near(s, "measure", correlation(head(s))),
    "in reverse order {measure}": lambda s: correlation(head(s)) < 0,
    "The weight on the token before, mean over the queries: mean over q of w(q, q − 1) "
    "= {weight}. These words are shown from {least} on.": beside(-1),
    "The weight on the token itself, mean over the queries: mean over q of w(q, q) = "
    "{weight}. These words are shown from {least} on.": beside(0),
    "The weight on the token after, mean over the queries: mean over q of w(q, q + 1) "
    "= {weight}. These words are shown from {least} on.": beside(1),
    "reads the token before: {weight}": beside(-1),
    "reads the token after: {weight}": beside(1),
    "The weight on “{token}”, mean over all {queries} queries: {weight}. No other key "
    "has more; these words are shown from {least} on.": rests,
    "spread out: largest weights {weight}": lambda s: is_near(
        s, "weight", peak(head(s))
    ),
    "Largest weight of a row, mean over the rows of {head}: {value}.": lambda s: (
        is_near(s, "value", peak(head(s)))
    ),
    "Alignment of {head}: {value}.": lambda s: is_near(
        s,
        "value",
        (correlation if place(s)[0] == "cross" else neighbours)(head(s)),
    ),
    "lowest entropy first: bits of each query's weights, mean over queries": is_ordered(
        "entropy", lambda weights: -mean_bits(weights)
    ),
    "highest maximum first: each query's largest weight, mean over queries": is_ordered(
        "maximum", peak
    ),
    "farthest from 0 first: correlation of a query's position with the mean position "
    "of the keys it reads (1 in order, −1 backwards)": is_ordered(
        "alignment", lambda weights: abs(correlation(weights))
    ),
    "most weight on a neighbour first: mean weight on the previous, the same or the "
    "next token, whichever is largest": is_ordered("alignment", neighbours),
    "softmax over each row: exp(score − the row's maximum) / the row's sum, so that a "
    "row of numbers sums to 1": lambda s: (
        place(s)[:2] not in s.trace.captured
        and sums_to_one(head(s)[~np.isnan(head(s)).any(-1)])
    ),
}
