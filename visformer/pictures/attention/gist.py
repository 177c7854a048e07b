"""What a head does, in a few words beside its title."""

from __future__ import annotations

import numpy as np

from visformer.analysis.head_measures import maximum, neighbour, place_correlation
from visformer.language import N_, _
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import decimals

FEWEST = 5  # rows from which a habit can be told
MOST = 1 << 18  # weights up to which it is measured at every step
ALIGNED, HABIT, SPREAD = (
    0.6,
    0.4,
    0.3,
)  # measures from which, or below which, it is said
NEIGHBOUR_WORDS = {
    "previous": N_("reads the token before: {weight}"),
    "itself": N_("reads itself: {weight}"),
    "next": N_("reads the token after: {weight}"),
}


def gist_words(trace: Trace, kind: Kind, weights: Floats) -> str:
    """Say what weights [Q, K] have in common, with its measure; "" if nothing much."""
    rows, columns = weights.shape
    if rows < FEWEST or columns < FEWEST or weights.size > MOST:
        return ""
    if kind == "cross":
        along = place_correlation(weights)
        if along >= ALIGNED:
            return _("aligned {measure}", measure=decimals(along, 2))
        if along <= -ALIGNED:
            return _("aligned backwards {measure}", measure=decimals(along, 2))
    else:
        name, weight = neighbour(weights)
        if weight >= HABIT:
            return _(NEIGHBOUR_WORDS[name], weight=decimals(weight, 2))
    means = weights.mean(0)
    if np.isnan(means).any():
        return ""
    rest = int(means.argmax())
    if means[rest] >= HABIT:
        return _(
            "rests on “{token}”: {weight}",
            token=visible(trace.tokens(kind)[1][rest]),
            weight=decimals(float(means[rest]), 2),
        )
    peak = maximum(weights)
    if peak < SPREAD:
        return _("spread out: largest weights {weight}", weight=decimals(peak, 2))
    return ""
