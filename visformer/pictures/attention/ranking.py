"""The order of the overview: every head's measure, the most telling heads first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from visformer.analysis.head_measures import (
    entropy,
    maximum,
    neighbour,
    place_correlation,
)
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.look import Order
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import decimals

WORDS: dict[Order, str] = {
    "entropy": "lowest entropy first: of each query's weights in bits, mean of queries",
    "maximum": "highest maximum first: each query's largest weight, mean of queries",
}
ALONG = (
    "highest alignment first: correlation of a query's place with the mean place of "
    "the keys it reads (1 along, −1 backwards)"
)
BESIDE = (
    "highest alignment first: mean weight on the previous token, the same or the next, "
    "whichever has most"
)
SHORT = {"previous": "prev", "itself": "self", "next": "next"}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Layers and heads in order, with what each is ordered by."""

    order: tuple[tuple[int, int], ...]
    captions: tuple[str, ...]  # in the same order: "L2 H5 0.93"
    words: str


def ranking_parts(trace: Trace, kind: Kind, order: Order) -> Iterator[Ranking | None]:
    """Yield None after each head, and last the Ranking; nothing in order of place.

    Measures are of the model's own weights of what is shown, every token. Heads
    without a number come last.
    """
    if order == "place":
        return
    ranked = []
    for layer in range(trace.layers(kind)):
        for head in range(trace.heads(kind)):
            value, caption = _measured(
                head_weights(trace, kind, layer, head), order, kind
            )
            caption = f"L{layer + 1} H{head + 1} {caption}"
            rank = value if order == "entropy" else -value
            ranked.append((math.isnan(value), rank, layer, head, caption))
            yield None
    # NaN compares with nothing: by its own flag, then by place
    ranked.sort(key=lambda one: (one[0], 0.0 if one[0] else one[1], one[2], one[3]))
    yield Ranking(
        tuple((layer, head) for _, _, layer, head, _ in ranked),
        tuple(caption for *_, caption in ranked),
        order_words(order, kind),
    )


def order_words(order: Order, kind: Kind) -> str:
    """Say exactly what the heads are ordered by; "" for their place."""
    if order == "alignment":
        return ALONG if kind == "cross" else BESIDE
    return WORDS.get(order, "")


def _measured(weights: Floats, order: Order, kind: Kind) -> tuple[float, str]:
    """Return a head's number, and it in words."""
    if order == "entropy":
        value = entropy(weights)
    elif order == "maximum":
        value = maximum(weights)
    elif kind == "cross":
        value = place_correlation(weights)
    else:
        name, value = neighbour(weights)
        return value, f"{SHORT[name]} {decimals(value, 2)}"
    return value, decimals(value, 2)
