"""Explanations of terms, each with its formula and its current value."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from visformer.analysis.head_measures import (
    entropy,
    maximum,
    neighbour,
    place_correlation,
)
from visformer.language import N_, _, sentences
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.ranking import order_words
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.output import current_row
from visformer.pictures.selection import SUMMARIES, Order
from visformer.pictures.token_names import chosen_name
from visformer.pictures.words.scene import Scene
from visformer.values.arrays import SUMS_TO_ONE, Floats
from visformer.values.facts import Kind
from visformer.words import decimals, head_words, number, probability

Term = Literal[
    "summary",
    "order",
    "entropy",
    "logit",
    "probability",
    "limit",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "key",
    "value",
    "cosine",
]
_SUMMARISED = {
    "head": N_(
        "One head: weights A = softmax of its masked scores. On screen: {head} of "
        "{heads} heads."
    ),
    "captured": N_(
        "One head: weights A as captured from the model. On screen: {head} of {heads} "
        "heads."
    ),
    "mean": N_("Mean of heads: Σ A / {heads} over the {heads} heads of layer {layer}."),
    "max": N_(
        "Maximum of heads: for each cell the largest weight of the {heads} heads of "
        "layer {layer}; rows need not sum to 1."
    ),
    "all": N_("Mean of all {heads} heads of all {layers} layers: Σ A / {total}."),
    "rollout": N_(
        "Rollout (Abnar and Zuidema 2020): each layer's mean of {heads} heads becomes "
        "½ A + ½ I, for the residual, with rows that sum to 1; the layers 1 to {layer} "
        "are multiplied."
    ),
    "zeroing": N_(
        "Value zeroing (Mohebbi et al. 2023): 1 − cosine between the output of layer "
        "{layer} as it is and with a token's values zeroed in all {heads} heads. It "
        "says how far a row depends on a token in this layer, not in which direction."
    ),
    "norms": N_(
        "Norms (Kobayashi et al. 2020): ‖Σ a v Wₒ‖ over the {heads} heads of layer "
        "{layer}: a large weight on a small value counts little. It leaves out the "
        "residual, the norms and the feed-forward."
    ),
    "gradient": N_(
        "Gradient × input: how log p of the token that a row writes answers to a "
        "token's embedding, times that embedding, in nats; signed. It holds near this "
        "input, through all {layers} layers; it is no share."
    ),
    "rollout of cross": N_(
        "Rollout of cross-attention: the mean of the {heads} heads of layer {layer} "
        "times the rollout of the whole encoder (Abnar and Zuidema 2020), so that its "
        "columns are the words that the encoder read."
    ),
}
_MEASURES: dict[Order, str] = {
    "entropy": N_(
        "Entropy of a row: H = −Σ w log₂ w, in bits: 0 reads one token, log₂ n reads n "
        "tokens alike. Mean over the rows of {head}: {value}."
    ),
    "maximum": N_("Largest weight of a row, mean over the rows of {head}: {value}."),
    "alignment": N_("Alignment of {head}: {value}."),
}


def term_words(term: Term, scene: Scene) -> str:
    """Explain a term, with its current value; "" if it does not apply."""
    found = TERMS[term]
    return _(found) if isinstance(found, str) else found(scene)


def _summary(scene: Scene) -> str:
    trace, kind = scene.trace, scene.selection.kind
    if trace is None:
        return _(SUMMARIES[scene.look.summary])
    layer, head = layer_and_head(trace, scene.selection, kind)
    heads, layers, how = trace.heads(kind), trace.layers(kind), scene.look.summary
    told: str = how
    if how == "head" and trace.is_captured(kind, layer):
        told = "captured"
    elif how == "rollout" and kind == "cross":
        told = "rollout of cross"
    return _(
        _SUMMARISED[told],
        head=head_words(layer, head),
        heads=heads,
        layer=layer + 1,
        layers=layers,
        total=heads * layers,
    )


def _order(scene: Scene) -> str:
    trace, kind, order = scene.trace, scene.selection.kind, scene.look.order
    words = order_words(order, kind)
    measured = order in _MEASURES
    if trace is None or not measured or not len(trace.tokens(kind)[0]):
        return words or _("The heads by layer and head, as the model has them.")
    layer, head = layer_and_head(trace, scene.selection, kind)
    weights = head_weights(trace, kind, layer, head)
    value = decimals(_measure(order, kind, weights), 2)
    said = _(_MEASURES[order], head=head_words(layer, head), value=value)
    left_out = _("Rows of NaN are left out.") if np.isnan(weights).any() else ""
    sums = weights.sum(-1)
    if order == "entropy" and (np.abs(sums - 1) > SUMS_TO_ONE).any():
        rest = _("Rows that do not sum to 1 are divided by their sum.")
        said = sentences((said, rest))
    return "\n".join(filter(None, (said, left_out, words)))


def _measure(order: Order, kind: Kind, weights: Floats) -> float:
    if order == "entropy":
        return entropy(weights)
    if order == "maximum":
        return maximum(weights)
    return place_correlation(weights) if kind == "cross" else neighbour(weights)[1]


def _entropy(scene: Scene) -> str:
    trace = scene.trace
    if trace is None or not trace.steps or math.isnan(trace.steps[-1].entropy):
        return ""
    bits, known = trace.steps[-1].entropy, trace.model.known
    if known is None:
        return _(
            "Entropy H = −Σ p log₂ p over all tokens: now {bits} bits, as uncertain as "
            "between {alike} equally likely tokens. 0 is certain.",
            bits=decimals(bits, 2),
            alike=number(2**bits, 3),
        )
    return _(
        "Entropy H = −Σ p log₂ p over all {tokens:,} tokens: now {bits} bits, as "
        "uncertain as between {alike} equally likely tokens. 0 is certain, {most} bits "
        "is no idea.",
        tokens=known.target_vocabulary,
        bits=decimals(bits, 2),
        alike=number(2**bits, 3),
        most=decimals(math.log2(known.target_vocabulary), 2),
    )


def _logit(scene: Scene) -> str:
    look = current_row(scene.trace, scene.lens)
    if look is None or scene.trace is None:
        return _(
            "Logit z: a token's score, the last row of Z times its column of W. "
            "LSE = ln Σ exp(z) over all logits; p = exp(z − LSE)."
        )
    z, total = float(look.chosen_logits[-1]), float(look.log_sums[-1])
    return _(
        "Logit z: a token's score, the last row of Z times its column of W; of "
        "“{token}” {z}.\nLSE (log-sum-exp) = ln Σ exp(z) over all logits = {total}: it "
        "makes the probabilities sum to 1.\np = exp(z − LSE) = exp({gap}) = {p}.",
        token=chosen_name(scene.trace),
        z=decimals(z),
        total=decimals(total),
        gap=decimals(z - total),
        p=probability(math.exp(z - total)),
    )


def _probability(scene: Scene) -> str:
    """Explain why the best probability stays below 1."""
    trace = scene.trace
    best = ""
    candidates = trace.steps[-1].candidates if trace is not None and trace.steps else ()
    if candidates and not math.isnan(candidates[0].probability):
        p = probability(candidates[0].probability)
        best = _("The best token has {p} now.", p=p)
    known = None if scene.model is None else scene.model.known
    if scene.smoothing and known is not None:
        share, tokens = scene.smoothing, known.target_vocabulary
        why = _(
            "This model was trained with label smoothing ε = {share}: even where it is "
            "sure, the right token's target was 1 − ε + ε/{tokens:,} = {goal}, and "
            "{share} was spread over all tokens. So p near 1 is rare.",
            share=number(share),
            tokens=tokens,
            goal=decimals(1 - share + share / tokens, 3),
        )
    elif scene.smoothing == 0:
        why = _("This model was trained without label smoothing: p may come near 1.")
    else:
        why = _(
            "If a model is trained with label smoothing ε (often 0.1), the goal of the "
            "right token is about 1 − ε, so that p near 1 is rare."
        )
    return sentences((best, why))


def _limit(scene: Scene) -> str:
    if scene.limit is not None:
        return _("At most {limit:,} target tokens.", limit=scene.limit)
    said = _(
        "Maximum number of target tokens. Auto: the model's own rule where it has one, "
        "otherwise 2 S + 50 for S source tokens, and never more than its positions."
    )
    if scene.trace is None:
        return said
    length = len(scene.trace.source) or scene.trace.whole.prompt
    now = _(
        "With S = {length:,}, 2 S + 50 = {sum:,}.", length=length, sum=2 * length + 50
    )
    return sentences((said, now))


def _temperature(scene: Scene) -> str:
    return _(
        "Temperature T: p = softmax(z / T) of the logits z; now T = {temperature}. "
        "Below 1 the best token gains, above 1 all come closer together; near 0 "
        "sampling is greedy.",
        temperature=decimals(scene.strategy.temperature, 2),
    )


def _top_k(scene: Scene) -> str:
    kept = scene.strategy.top_k
    now = _("now {k:,}", k=kept) if kept else _("now all")
    return _(
        "Top-k: only the k most probable tokens can be drawn ({now}); their "
        "probabilities are divided by their sum.",
        now=now,
    )


def _top_p(scene: Scene) -> str:
    return _(
        "Top-p: only the fewest tokens whose probabilities add up to p can be drawn; "
        "now p = {p}, and 1 keeps all. Their probabilities are divided by their sum.",
        p=decimals(scene.strategy.top_p, 2),
    )


def _seed(scene: Scene) -> str:
    return _(
        "Seed of the random numbers, now {seed}: the same seed draws the same tokens.",
        seed=scene.strategy.seed,
    )


def _cosine(scene: Scene) -> str:
    said = _(
        "Cosine of two embeddings: a · b / (|a| |b|). 1 is the same direction, 0 a "
        "right angle, −1 the opposite direction."
    )
    if scene.near is None or len(scene.near.tokens) < 2:
        return said
    value = number(float(scene.near.cosines[1]))
    return sentences((said, _("Of the nearest token it is {value}.", value=value)))


TERMS: dict[Term, str | Callable[[Scene], str]] = {
    "summary": _summary,
    "order": _order,
    "entropy": _entropy,
    "logit": _logit,
    "probability": _probability,
    "limit": _limit,
    "temperature": _temperature,
    "top_k": _top_k,
    "top_p": _top_p,
    "seed": _seed,
    "key": N_(
        "Key k: a token's row times W_K, once per head. A query q is compared with it: "
        "their score is q · k, scaled."
    ),
    "value": N_(
        "Value v: a token's row times W_V, once per head. A head's output is the sum "
        "of all values, each times its weight."
    ),
    "cosine": _cosine,
}
