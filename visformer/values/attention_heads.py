"""Scores, bias, mask and softmax of attention heads in numpy.

The last digit of a weight depends on its query, keys and mask alone: not on the number
of rows computed together, nor on masked keys that follow. Since a matrix product rounds
by its shape, all products have one shape, ``QUERIES`` by ``BLOCK`` keys, padded with
zeros; rows are summed in parts of one length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from visformer.values.arrays import Bools, Floats
from visformer.values.changes.run_change import UNCHANGED, ActingPoint, LocalChanges

QUERIES = 4  # multiplied at a time: few, since a step has one
BLOCK = 64  # keys they are multiplied with at a time
ADDED = 128  # weights of a row added up at a time: a multiple of BLOCK
ALL = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class AttentionHeads:
    """Some heads of a layer: all that their scores and weights follow from."""

    queries: Floats  # [Q, H, d]
    keys: Floats  # [K, H, d]
    mask: Bools  # [Q, K], True = may attend
    masked_value: float  # replaces the scores that are masked, after scaling and adding
    scale: float  # what the products are multiplied by
    added: Bias | None = None  # to the scaled products; of these heads
    # [H, Q, K]: the model's own weights, where they do not follow from all this
    captured: Floats | None = None
    changes: LocalChanges = UNCHANGED  # of scores, masks of heads and weights
    shown: int | None = None  # how many keys; the others are read, but not shown

    def first(self, count: int) -> AttentionHeads:
        """Return the first queries, which read all keys, but show as many alone."""
        queries, mask = self.queries[:count], self.mask[:count]
        return replace(self, queries=queries, mask=mask, shown=count)

    def copied(self) -> AttentionHeads:
        """Return the same heads with queries and keys side by side in memory."""
        queries, keys = (np.ascontiguousarray(x) for x in (self.queries, self.keys))
        return replace(self, queries=queries, keys=keys)

    def products(self, rows: slice = ALL) -> Floats:
        """Return q.k of some query rows and all keys, [H, rows, K]."""
        return self._products(rows)[..., : len(self.keys)][..., : self.shown]

    def scores(self, rows: slice = ALL) -> Floats:
        """Return q.k times the scale, plus what is added, [H, rows, K]."""
        return self._scores(rows)[..., : len(self.keys)][..., : self.shown]

    def masked(self, rows: slice = ALL) -> Floats:
        """Return the scores with the masked ones replaced, [H, rows, K]."""
        return self._masked(rows)[..., : len(self.keys)][..., : self.shown]

    def weights(self, rows: slice = ALL, into: Floats | None = None) -> Floats:
        """Return the softmax of the masked scores, or what was captured, [H, rows, K].

        Rows of a softmax sum to 1; a row of -inf alone becomes NaN, as in torch. They
        are computed in memory ``into`` [N] if they fit: fresh pages, time after time,
        take as long as the products.
        """
        if self.captured is not None:
            return np.asarray(self.captured[:, rows])
        weights, keys = self._masked(rows, into), len(self.keys)
        if keys:
            weights[..., keys:] = -np.inf
            with np.errstate(invalid="ignore"):
                weights -= weights.max(-1, keepdims=True)
                np.exp(weights, out=weights)
                weights /= _row_sums(weights)
        if self.changes.acts("weights"):
            beside = np.broadcast_to(self.allowed(rows), weights[..., :keys].shape)
            weights[..., :keys] = self._changed(
                "weights", weights[..., :keys], rows, beside
            )
        return weights[..., :keys][..., : self.shown]

    # In place, since fresh memory for every operation costs more than the arithmetic;
    # keys are filled up to whole blocks.

    def _products(self, rows: slice, into: Floats | None = None) -> Floats:
        start, stop, _ = rows.indices(len(self.queries))
        first = start // QUERIES * QUERIES
        last = min(-(-stop // QUERIES) * QUERIES, len(self.queries))
        queries = _whole_blocks(self.queries[first:last], QUERIES)
        keys = _whole_blocks(self.keys, BLOCK)
        heads, width = queries.shape[1:]
        shape = heads, len(queries), len(keys)
        if into is None or into.size < (size := math.prod(shape)):
            products = np.empty(shape, np.float32)
        else:
            products = into[:size].reshape(shape)
        if products.size:
            # [H, blocks of queries, QUERIES, blocks of keys, BLOCK]
            room = products.reshape(heads, -1, QUERIES, len(keys) // BLOCK, BLOCK)
            left = queries.reshape(-1, QUERIES, heads, width).transpose(2, 0, 1, 3)
            left, right = left[:, :, None], keys.reshape(-1, BLOCK, heads, width)
            right = right.transpose(2, 0, 3, 1)[:, None]
            with np.errstate(over="ignore", invalid="ignore"):  # they are shown
                np.matmul(left, right, out=room.transpose(0, 1, 3, 2, 4))
        return products[:, start - first : max(start, stop) - first]

    def _scores(self, rows: slice, into: Floats | None = None) -> Floats:
        scores, keys = self._products(rows, into), len(self.keys)
        # dividing by the root of d, as the formula is written, keeps its last digit
        with np.errstate(over="ignore", invalid="ignore"):
            scores /= np.float32(1 / self.scale if self.scale else np.inf)
        if self.added is not None and scores.size:
            scores[..., :keys] += bias_rows(self.added, rows, self.mask.shape)
        if self.changes.acts("scores"):
            beside = self.mask[rows]
            scores[..., :keys] = self._changed(
                "scores", scores[..., :keys], rows, beside
            )
        return scores

    def allowed(self, rows: slice = ALL) -> Bools:
        """Return the mask of some rows, [rows, K], or each head's own, [H, rows, K]."""
        mask = self.mask[rows]
        if not self.changes.acts("head mask"):
            return mask
        shape = self.queries.shape[1], *mask.shape
        made: Bools = self._changed("head mask", np.broadcast_to(mask, shape), rows)
        return made

    def _changed(
        self, point: ActingPoint, x: Any, rows: slice, beside: Any = None
    ) -> Any:
        first = rows.indices(len(self.queries))[0]
        return self.changes.apply(point, x, first=first, beside=beside)

    def _masked(self, rows: slice, into: Floats | None = None) -> Floats:
        scores, mask = self._scores(rows, into), self.allowed(rows)
        if not mask.all():
            value = np.float32(self.masked_value)
            np.copyto(scores[..., : len(self.keys)], value, where=~mask)
        return scores


def weights_of(
    layers: Sequence[AttentionHeads], rows: slice = ALL, into: Floats | None = None
) -> Floats:
    """Return the weights of the heads of some layers, [L x H, rows, K].

    Layers that differ in queries and keys alone are as one, which is faster; ``into``
    is as in ``AttentionHeads.weights``.
    """
    one = layers[0]
    if len(layers) == 1:
        return one.weights(rows, into)
    for other in layers:
        plain = other.captured is None and other.added is None
        plain &= not other.changes.acts("scores", "head mask", "weights")
        if not plain or other.mask is not one.mask or other.scale != one.scale:
            return np.concatenate([each.weights(rows) for each in layers])
    start, stop, _ = rows.indices(len(one.queries))
    first = start // QUERIES * QUERIES  # the rows before are not needed
    together = replace(
        one,
        queries=np.concatenate([each.queries[first:stop] for each in layers], 1),
        keys=np.concatenate([each.keys for each in layers], 1),
        mask=one.mask[first:stop],
    )
    return together.weights(slice(start - first, None), into)


def _whole_blocks(vectors: Floats, block: int) -> Floats:
    """Fill [N, H, d] up with zeros to whole blocks."""
    missing = -len(vectors) % block
    if not missing:
        return vectors
    whole = np.zeros((len(vectors) + missing, *vectors.shape[1:]), np.float32)
    whole[: len(vectors)] = vectors
    return whole


def _row_sums(values: Floats) -> Floats:
    """Add up [..., K]: zeros that follow leave every digit as it is."""
    count = values.shape[-1] // ADDED
    rest: Floats = values[..., count * ADDED :].sum(-1, keepdims=True)
    if not count:
        return rest
    whole = values[..., : count * ADDED]
    parts = whole.reshape(*whole.shape[:-1], count, ADDED).sum(-1)
    # a sum over them would add them in an order of its own
    total: Floats = np.add.accumulate(parts, -1)[..., -1:] + rest
    return total


# a score this low leaves its key no weight; added to one, it is a mask
NO_WEIGHT = -1e4


@dataclass(frozen=True, slots=True, eq=False)
class DistanceBias:
    """A number per head and distance, as in T5 (buckets spelt out) and ALiBi.

    Pair (query, key) has column ``key - query + zero``; farther ones the nearest end.
    """

    table: Floats  # [H, N]
    zero: int  # the column of distance 0, in 0..N - 1


Bias = DistanceBias | Floats  # or all of it, [H, Q, K]; [1, Q, K] if heads share it


def bias_rows(bias: Bias, rows: slice, shape: tuple[int, ...]) -> Floats:
    """Return the bias of some query rows and all keys, [H or 1, rows, K].

    ``shape``: Q and K.
    """
    queries, keys = shape
    if not isinstance(bias, DistanceBias):
        return np.asarray(bias[:, :queries, :keys][:, rows])
    distance = np.arange(keys) - np.arange(queries)[rows, None] + bias.zero
    taken: Floats = bias.table[:, np.clip(distance, 0, bias.table.shape[1] - 1)]
    return taken


def of_heads(bias: Bias | None, heads: slice) -> Bias | None:
    """Return the bias of some heads."""
    if isinstance(bias, DistanceBias):
        return DistanceBias(bias.table[heads], bias.zero)
    return bias if bias is None or len(bias) == 1 else bias[heads]


def with_residual(weights: Floats) -> Floats:
    """Return 0.5 A + 0.5 I of [Q, Q], rows renormalised: residuals count one half."""
    mixed = (weights + np.eye(len(weights), dtype=np.float32)) / np.float32(2)
    normalised: Floats = mixed / mixed.sum(axis=1, keepdims=True)
    return normalised


def running_rollout(layers: Iterable[Floats]) -> Iterator[Floats]:
    """Yield the product of the layers so far, [Q, Q]; the last is that of all.

    ``layers``: weights averaged over heads, the first layer first. Row q gives the
    share of each token of the first layer's input in row q, if attention and residuals
    count one half each; rows sum to 1.
    """
    product: Floats | None = None
    for weights in layers:
        layer = with_residual(weights)
        product = layer if product is None else through(layer, product)
        yield product


def through(weights: Floats, below: Floats) -> Floats:
    """Return weights [Q, K] @ below [K, S].

    A row is NaN if it is NaN itself or gives weight to a row that is; a plain product
    would make every row NaN.
    """
    unknown: Bools = np.logical_or.reduce(np.isnan(below), axis=1)  # [K]
    reads = np.isnan(weights) | ((weights > 0) & unknown)  # [Q, K]
    lost: Bools = np.logical_or.reduce(reads, axis=1)  # [Q]
    clean = np.where(unknown[:, None], np.float32(0), below)  # [K, S]
    rollout: Floats = np.where(lost[:, None], np.float32(0), weights) @ clean
    rollout[lost] = np.nan
    return rollout
