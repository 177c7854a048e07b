"""The order of the heads in the overview by a measure, the most distinct first."""

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
from visformer.language import N_, _
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.selection import Order
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import decimals, short_head

WORDS: dict[Order, str] = {
    "cell": N_("lock a cell of the map to see its weight in every head"),
    "entropy": N_(
        "lowest entropy first: bits of each query's weights, mean over queries"
    ),
    "maximum": N_(
        "highest maximum first: each query's largest weight, mean over queries"
    ),
}
ALONG = N_(
    "farthest from 0 first: correlation of a query's position with the mean "
    "position of the keys it reads (1 in order, −1 backwards)"
)
BESIDE = N_(
    "most weight on a neighbour first: mean weight on the previous, the same or the "
    "next token, whichever is largest"
)
NEIGHBOURS = {
    "previous": N_("prev {weight}"),
    "itself": N_("self {weight}"),
    "next": N_("next {weight}"),
}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Layers and heads in order, with the measure of each."""

    order: tuple[tuple[int, int], ...]
    captions: tuple[str, ...]  # in the same order: "L2 H5 0.93"
    words: str

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads' names without their measures, in the same order: "L2 H5"."""
        return tuple(short_head(*place) for place in self.order)


def ranking_parts(trace: Trace, kind: Kind, order: Order) -> Iterator[Ranking | None]:
    """Yield None after each head, then the Ranking; nothing for order "place".

    The measures are those of the model's own weights for all tokens shown. Heads whose
    measure is not a number come last.
    """
    if order in ("place", "cell"):
        return
    ranked = []
    for layer in range(trace.layers(kind)):
        for head in range(trace.heads(kind)):
            value, caption = _measured(
                head_weights(trace, kind, layer, head), order, kind
            )
            caption = f"{short_head(layer, head)} {caption}"
            rank = value if order == "entropy" else -abs(value)
            ranked.append((math.isnan(value), rank, layer, head, caption))
            yield None
    # NaN cannot be compared: sort by a flag for it, then by place
    ranked.sort(key=lambda one: (one[0], 0.0 if one[0] else one[1], one[2], one[3]))
    yield Ranking(
        tuple((layer, head) for *_rank, layer, head, _caption in ranked),
        tuple(caption for *_rank, caption in ranked),
        order_words(order, kind),
    )


def order_words(order: Order, kind: Kind) -> str:
    """State the measure that orders the heads; "" if they are in place."""
    if order == "alignment":
        return _(ALONG) if kind == "cross" else _(BESIDE)
    return _(WORDS[order]) if order in WORDS else ""


def _measured(weights: Floats, order: Order, kind: Kind) -> tuple[float, str]:
    """Return a head's measure and its caption."""
    if order == "entropy":
        value = entropy(weights)
    elif order == "maximum":
        value = maximum(weights)
    elif kind == "cross":
        value = place_correlation(weights)
    else:
        name, value = neighbour(weights)
        return value, _(NEIGHBOURS[name], weight=decimals(value, 2))
    return value, decimals(value, 2)
