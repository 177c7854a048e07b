"""Notes on heads that add little: uniform ones, equal ones, ones that are collapsed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from visformer.analysis.checks.observation import (
    READ,
    LayerPlace,
    Observation,
    real_queries,
)
from visformer.language import _
from visformer.values.arrays import Floats, row_entropy
from visformer.values.finding import Finding

LEAST_KEYS = 3  # that a row may read; with fewer, heads are alike by chance
LEAST_ROWS = 4
UNIFORM = 0.9999  # of the entropy of equal weights; bundled models: 0.98 at most
SAME_HEADS = 1e-3  # the largest difference of weights; bundled models: 0.05 at least
COLLAPSED = 0.05  # bits, the mean of a whole layer (entropy collapse: Zhai et al. 2023)


class HeadSeen(NamedTuple):
    """The rows of one head that tell something: [N, K], and how many keys each has."""

    place: LayerPlace
    head: int
    rows: Floats
    entropy: float  # mean of the rows, in bits
    share: float  # of the entropy of equal weights


def heads_of(seen: Observation) -> list[list[HeadSeen]]:
    """Return the heads of each layer whose rows have enough keys."""
    return [heads for place in seen.places if (heads := [*_heads(place, seen.pad)])]


def _heads(place: LayerPlace, pad: int | None) -> Iterator[HeadSeen]:
    one = place.attention
    if one.over != "keys" or one.mixed or np.isnan(one.weights).any():
        return
    if one.key_ids is not None and len(np.unique(one.key_ids)) == 1:
        return  # of one token over and over, all keys are nearly the same
    for head in range(one.weights.shape[1]):
        masked = one.masked[:, head]  # [B, Q, K]
        may = (~masked).sum(-1)  # [B, Q]
        leaks = (masked & (one.weights[:, head] > READ)).any(-1)
        told = real_queries(one, pad) & (may >= LEAST_KEYS) & ~leaks
        if told.sum() < LEAST_ROWS:
            continue
        rows = one.weights[:, head][told]
        entropies, most = row_entropy(rows), np.log2(may[told])
        mean, share = float(entropies.mean()), float((entropies / most).mean())
        yield HeadSeen(place, head, rows, mean, share)


def uniform(seen: Observation) -> Finding | None:
    """Report heads that read all keys alike, unless all of them do."""
    heads = [head for layer in heads_of(seen) for head in layer]
    found = [head for head in heads if head.share >= UNIFORM]
    if not found or len(found) == len(heads):
        return None  # all of them: as a model begins that is not trained
    first = max(found, key=lambda head: head.share)
    return Finding(
        "uniform-head",
        first.place.words,
        _(
            "Head {head} reads all its keys alike: its entropy is {share:.2%} of the "
            "largest one ({n} of {all} heads).",
            head=first.head + 1,
            share=first.share,
            n=len(found),
            all=len(heads),
        ),
        _("Nothing to do: it adds the mean of the values. It may be pruned."),
        "note",
        first.place.at(first.head),
    )


def duplicate(seen: Observation) -> Finding | None:
    """Report two heads of a layer with the same weights."""
    pairs = [*_pairs(seen)]
    apart, one, other = min(pairs, key=lambda x: x[0], default=(math.inf, None, None))
    if one is None or other is None or apart > SAME_HEADS:
        return None
    return Finding(
        "duplicate-heads",
        one.place.words,
        _(
            "Heads {first} and {second} read the same: their weights differ by "
            "{apart:.2g} at most ({n} such pairs of {all}).",
            first=one.head + 1,
            second=other.head + 1,
            apart=apart,
            n=sum(pair[0] <= SAME_HEADS for pair in pairs),
            all=len(pairs),
        ),
        _("One of them may be pruned, if their values are alike, too."),
        "note",
        one.place.at(one.head),
    )


def _pairs(seen: Observation) -> Iterator[tuple[float, HeadSeen, HeadSeen]]:
    for layer in heads_of(seen):
        told = [x for x in layer if x.entropy > COLLAPSED and x.share < UNIFORM]
        for one, other in itertools.combinations(told, 2):
            if one.rows.shape == other.rows.shape:
                yield float(np.abs(one.rows - other.rows).max()), one, other


def collapsed(seen: Observation) -> Finding | None:
    """Report a layer each of whose heads reads one key at a time."""
    layers = heads_of(seen)
    found = [x for x in layers if max(head.entropy for head in x) < COLLAPSED]
    if not found:
        return None
    place = found[0][0].place
    return Finding(
        "collapsed-entropy",
        place.words,
        _(
            "Each head reads one key at a time: the mean entropy of its rows is "
            "{bits:.2g} bits at most (in {n} of {all} attentions).",
            bits=max(head.entropy for head in found[0]),
            n=len(found),
            all=len(layers),
        ),
        _("If training is unstable, look at its rate and at the size of the scores."),
        "note",
        place.at(),
    )


def entropies(seen: Observation) -> tuple[str, float] | None:
    """Say what the lowest and the highest entropy of a head is."""
    heads = [head for layer in heads_of(seen) for head in layer]
    if not heads:
        return None
    low = min(heads, key=lambda head: head.entropy)
    high = max(heads, key=lambda head: head.share)
    words = _(
        "The mean entropy of a head is {low:.2g} bits at least, and {share:.1%} of "
        "that of equal weights at most.",
        low=low.entropy,
        share=high.share,
    )
    return words, low.entropy


def closest(seen: Observation) -> tuple[str, float] | None:
    """Say how far apart the two heads are that are most alike."""
    apart = min((pair[0] for pair in _pairs(seen)), default=None)
    if apart is None:
        return None
    return _("The two heads most alike differ by {apart:.2g}.", apart=apart), apart
