"""A short description of what a head does, shown beside its title."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from visformer.analysis.head_measures import neighbour, place_correlation
from visformer.language import N_, _
from visformer.pictures.attention.reading import Reading
from visformer.values.arrays import SUMS_TO_ONE, Bools, Floats
from visformer.words import decimals

FEWEST = 5  # rows needed to recognise a pattern
MOST = 1 << 18  # weights: the limit for measuring at every step
IN_ORDER, HABIT, SPREAD = (
    0.6,
    0.4,
    0.3,
)  # thresholds above which, or below which, it is shown
NEIGHBOUR_WORDS = {
    "previous": N_("reads the token before: {weight}"),
    "itself": N_("reads itself: {weight}"),
    "next": N_("reads the token after: {weight}"),
}
NEIGHBOUR_MEANINGS = {
    "previous": N_(
        "The weight on the token before, mean over the queries: "
        "mean over q of w(q, q − 1) = {weight}. These words are shown from {least} on."
    ),
    "itself": N_(
        "The weight on the token itself, mean over the queries: "
        "mean over q of w(q, q) = {weight}. These words are shown from {least} on."
    ),
    "next": N_(
        "The weight on the token after, mean over the queries: "
        "mean over q of w(q, q + 1) = {weight}. These words are shown from {least} on."
    ),
}


class Gist(NamedTuple):
    """A short description of a head, and an explanation of its number in sentences."""

    words: str
    meaning: str


NO_GIST = Gist("", "")


def gist_of(shown: Reading | None) -> Gist:
    """Describe what the rows of one head have in common; "" if nothing."""
    if shown is None or shown.queries is not None:
        return NO_GIST
    weights = shown.values
    if min(weights.shape) < FEWEST or weights.size > MOST or np.isnan(weights).any():
        return NO_GIST
    return (
        (_along(weights) if shown.kind == "cross" else _beside(weights))
        or _resting(weights, shown.columns)
        or _spread(weights, shown.masked)
        or NO_GIST
    )


def _along(weights: Floats) -> Gist | None:
    along = place_correlation(weights)
    if not abs(along) >= IN_ORDER:  # or NaN: all rows read the same position
        return None
    measure = decimals(along, 2)
    words = _("in order {measure}", measure=measure)
    if along < 0:
        words = _("in reverse order {measure}", measure=measure)
    meaning = _(
        "Correlation of a query's position q with the mean position of the keys that "
        "it reads, Σ k · w(q, k): {measure}. 1 is in order, −1 backwards; these words "
        "are shown from ±{least} on.",
        measure=measure,
        least=IN_ORDER,
    )
    return Gist(words, meaning)


def _beside(weights: Floats) -> Gist | None:
    name, weight = neighbour(weights)
    if not weight >= HABIT:
        return None
    fields = {"weight": decimals(weight, 2), "least": HABIT}
    return Gist(
        _(NEIGHBOUR_WORDS[name], **fields), _(NEIGHBOUR_MEANINGS[name], **fields)
    )


def _resting(weights: Floats, keys: tuple[str, ...]) -> Gist | None:
    means = weights.mean(0)
    rest = int(means.argmax())
    if not means[rest] >= HABIT:
        return None
    fields = {
        "token": keys[rest],
        "weight": decimals(float(means[rest]), 2),
        "queries": len(weights),
        "least": HABIT,
    }
    meaning = _(
        "The weight on “{token}”, mean over all {queries} queries: {weight}. No other "
        "key has more; these words are shown from {least} on.",
        **fields,
    )
    return Gist(_("rests on “{token}”: {weight}", **fields), meaning)


def _spread(weights: Floats, masked: Bools | None) -> Gist | None:
    peak = float(weights.max(axis=-1).mean())
    cut = (np.abs(weights.sum(axis=-1) - 1) > SUMS_TO_ONE).any()  # others are open, too
    if peak >= SPREAD or cut:
        return None
    keys = np.full(len(weights), weights.shape[1])  # [Q]: how many each row may read
    if masked is not None:
        keys = np.where(masked.all(-1), keys, (~masked).sum(-1))
    fields = {
        "weight": decimals(peak, 2),
        "even": decimals(float((1 / keys).mean()), 2),
        "most": SPREAD,
    }
    meaning = _(
        "The largest weight of a row, mean over the rows: {weight}. If every row read "
        "the keys that are open to it alike it would be {even}; these words are shown "
        "below {most}.",
        **fields,
    )
    return Gist(_("spread out: largest weights {weight}", **fields), meaning)
