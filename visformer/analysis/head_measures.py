"""One number per head: how spread out, how peaked, how much in order its attention is.

Each is a mean over the queries, without those whose weights are NaN; it is NaN if no
query is left.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from visformer.values.arrays import Bools, Floats, row_entropy

OFFSETS = {"previous": -1, "itself": 0, "next": 1}  # the key minus the query


def entropy(weights: Floats) -> float:
    """Return the mean entropy of the rows of [Q, K], in bits."""
    return _mean(row_entropy(weights))


def maximum(weights: Floats) -> float:
    """Return the mean of the rows' largest weights (Voita et al. 2019: confidence)."""
    return _mean(weights.max(axis=-1)) if weights.size else math.nan


def place_correlation(weights: Floats) -> float:
    """Return how steadily attention [Q, K] advances through the keys, in [-1, 1].

    Pearson's correlation of a query's place q with the mean place of the keys that it
    reads, sum over k of k w[q, k] / sum of w[q]. 1: along a straight line; -1:
    backwards; NaN for fewer than two queries or if either never changes.
    """
    if not weights.size:
        return math.nan
    columns = np.arange(weights.shape[1], dtype=np.float64)
    ones = np.ones_like(columns)
    # [Q], [Q]: the sum of a row's weights, and that of k w[q, k]
    sums, moments = np.stack((ones, columns)) @ weights.T.astype(np.float64)
    queries = np.flatnonzero(sums > 0)  # [Q'], without those of NaN
    if len(queries) < 2:
        return math.nan
    places = moments[queries] / sums[queries]  # [Q']
    if places.max() - places.min() < 1e-9:
        return math.nan
    queries = queries - queries.sum() / len(queries)
    places -= places.sum() / len(places)
    spread = math.sqrt((queries @ queries) * (places @ places))
    return max(-1.0, min(1.0, float(queries @ places) / spread))


def agreement(weights: Floats, content: Bools) -> Floats:
    """Return how far each head reads what most heads read, [N] of [N, Q, K], in [0, 1].

    A query's key is the one of ``content`` [K] that is the largest weight of most
    heads, which is its share of heads; a head's measure is its weight on that key, mean
    over the queries, each counted by its share. NaN where no share is left.
    """
    heads, queries, keys = weights.shape
    most = np.nan_to_num(weights).argmax(axis=-1)  # [N, Q]
    votes = np.stack([(most == key).sum(axis=0) for key in range(keys)], axis=-1)
    votes = votes * content  # [Q, K]
    ties = np.nan_to_num(weights).mean(axis=0)  # [Q, K] below 1: among equal votes
    key = (votes + ties * content).argmax(axis=-1)  # [Q]
    share = votes[np.arange(queries), key] / max(1, heads)  # [Q]
    on_key = weights[:, np.arange(queries), key]  # [N, Q]
    with np.errstate(invalid="ignore"):
        measures: Floats = (on_key @ share) / share.sum()
    return measures


def offset_mass(weights: Floats, offset: int) -> float:
    """Return the mean weight that [Q, Q] gives to the key at q + offset.

    The mean is over the queries that have such a key; NaN if none has.
    """
    return _mean(weights.diagonal(offset))


def neighbour(weights: Floats) -> tuple[str, float]:
    """Return which of previous, itself, next gets most weight, and its mean weight."""
    masses = {name: offset_mass(weights, by) for name, by in OFFSETS.items()}
    known = {name: mass for name, mass in masses.items() if not math.isnan(mass)}
    if not known:
        return "itself", math.nan
    best = max(known, key=lambda name: known[name])
    return best, known[best]


def _mean(values: Floats) -> float:
    total = float(values.sum(dtype=np.float64))
    if math.isnan(total):
        values = values[~np.isnan(values)]
        total = float(values.sum(dtype=np.float64))
    return total / values.size if values.size else math.nan


# ---- row by row ----------------------------------------------------------------------


def rarest(ids: Sequence[int], words: Bools, counts: Counter[int]) -> Bools:
    """Return where the least frequent of a sentence's ids is, bool [K].

    ``counts`` are those of a text; tokens that it never has, as the start, are none.
    Nor is any where several are as rare, or where there is one alone.
    """
    known = {id for id, is_word in zip(ids, words, strict=True) if is_word}
    known = {id for id in known if counts[id]}
    least = sorted(known, key=lambda id: counts[id])[:2]
    if len({counts[id] for id in least}) < 2:
        return np.zeros(len(ids), bool)
    there: Bools = np.asarray(ids) == least[0]
    return there


def measured_rows(
    weights: Floats,
    rows: Bools,
    words: Bools,
    *,
    own: bool,
    rare: Bools,
    sink: Bools,
    norms: Floats | None,
) -> dict[str, Floats]:
    """Return what each row of [H, Q, K] is by each measure, [H, Q]; NaN: no data.

    ``rows`` [Q] and ``words`` [K] are those that are no end token; ``own``: it is self-
    attention. ``rare`` and ``sink`` [K] are keys; ``norms`` [H, K]: lengths of v W_O.
    """
    none = np.full(weights.shape[:2], np.nan, np.float32)
    known = rows & ~np.isnan(weights).any(-1)  # [H, Q]
    inner = np.where(words, weights, -np.inf)  # [H, Q, K]
    at = np.nan_to_num(inner).argmax(-1)  # [H, Q]
    queries, keys = (np.arange(n) for n in weights.shape[1:])
    made = {
        "entropy": row_entropy(weights) * math.log(2),
        "sink": weights[..., sink].sum(-1) if sink.any() else none,
    }
    if words.any():
        made["confidence"] = inner.max(-1)
    if own:
        apart = np.abs(queries[:, None] - keys)  # [Q, K]
        made["distance"] = (weights * apart).sum(-1)
        for name, by in (("previous", -1), ("next", 1)):
            there = (queries + by >= 0) & (queries + by < len(keys))
            made[name] = np.where(there, at == queries + by, np.nan)
    if rare.any():
        made["rare"] = rare[at].astype(np.float32)
    if norms is not None and sink.any():
        lengths = weights * norms[:, None]  # [H, Q, K]
        with np.errstate(invalid="ignore"):
            made["sink norm"] = lengths[..., sink].sum(-1) / lengths.sum(-1)
    return {
        name: np.where(known, values, np.nan).astype(np.float32)
        for name, values in made.items()
    }
