"""Weights of whole Traces, kept while a sentence is stepped through.

A Trace that grows shares its storage with the shorter ones, and a row that stands does
not change. So a layer's weights are derived once, new rows are added, and an earlier
step is a slice. That is exact where masked keys get no weight; where they do, the
weights are derived afresh for the rows in sight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from visformer.session.state import State
from visformer.values.arrays import Floats, read_only
from visformer.values.facts import Kind
from visformer.values.trace import Trace

MOST_KEPT = 1 << 26  # numbers kept: 256 MiB
WHOLE_LAYER = 1 << 20  # numbers of a layer up to which its heads are derived together
WHOLE_HEAD = 1 << 21  # numbers of a head up to which it is kept for the overview

Key = tuple[Kind, int, int | None]


@dataclass(slots=True)
class Kept:
    """Weights [H, Q, K] derived from the first Q rows of some storage."""

    weights: Floats
    sliceable: bool  # no masked key has weight: fewer keys give the same numbers


class WeightCache:
    """Derived weights of one sentence; another sentence empties it."""

    def __init__(self) -> None:
        self._storage: tuple[object, ...] = ()
        self._kept: dict[Key, Kept] = {}

    def get(self, trace: Trace, shown: Trace, key: Key) -> Floats:
        """Return [H, Q, K] of ``shown``, the first rows of ``trace``."""
        storage = made_of(trace)
        if not same(storage, self._storage):
            self._storage, self._kept = storage, {}
        kept = self._kept.get(key)
        if kept is None or len(kept.weights[0]) < len(shown.tokens(key[0])[0]):
            kept = self._extended(kept, trace, key)
        if not kept.sliceable and shown is not trace:
            return _derived(shown, key, 0)
        rows, columns = (len(tokens) for tokens in shown.tokens(key[0]))
        return kept.weights[:, :rows, :columns]

    def _extended(self, kept: Kept | None, trace: Trace, key: Key) -> Kept:
        done = kept.weights.shape[1] if kept is not None and kept.sliceable else 0
        fresh = _derived(trace, key, done)
        if kept is not None and done:
            columns = fresh.shape[2] - kept.weights.shape[2]
            old = np.pad(kept.weights, ((0, 0), (0, 0), (0, columns)))
            fresh = np.concatenate([old, fresh], axis=1)
        mask = trace.mask(key[0], key[1])
        leaks = not mask.all() and bool((fresh[:, ~mask] > 0).any())
        made = Kept(read_only(fresh), not leaks)
        total = sum(other.weights.size for other in self._kept.values())
        if total + fresh.size > MOST_KEPT:
            self._kept.clear()
        self._kept[key] = made
        return made


_cache = WeightCache()


def layer_weights(state: State, kind: Kind, layer: int) -> Floats:
    """Return the weights of all heads of a layer, [H, Q, K], of what is shown."""
    trace, shown = _traces(state)
    return _cache.get(trace, shown, (kind, layer, None))


def head_weights(state: State, kind: Kind, layer: int, head: int) -> Floats:
    """Return the weights of one head, [Q, K], of what is shown."""
    trace, shown = _traces(state)
    if size(trace, kind) * trace.heads <= WHOLE_LAYER:
        return _one(layer_weights(state, kind, layer), head)
    return _one(_cache.get(trace, shown, (kind, layer, head)), 0)


def row_weights(state: State, kind: Kind, at: tuple[int, int], rows: range) -> Floats:
    """Return some rows of the layer and head ``at``, [1, rows, K]; nothing is kept."""
    return _derived(_traces(state)[1], (kind, *at), rows.start, rows.stop)


def size(trace: Trace, kind: Kind) -> int:
    """Return how many numbers one head of a kind has."""
    queries, keys = trace.tokens(kind)
    return len(queries) * len(keys)


def made_of(trace: Trace) -> tuple[object, ...]:
    """Return what Traces of one run share, to be compared by identity."""
    grown = trace.decoder_rows, trace.masks["decoder"], trace.masks["cross"]
    bases = (array if array.base is None else array.base for array in grown)
    encoder = trace.encoder_rows, trace.memory_rows, trace.masks["encoder"]
    return trace.model, trace.source, *encoder, *bases


def same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Tell whether two tuples hold the same objects."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a is b for a, b in pairs)


def _one(weights: Floats, head: int) -> Floats:
    made: Floats = weights[head]
    return made


def _traces(state: State) -> tuple[Trace, Trace]:
    if state.shown is None:
        raise ValueError("there is no Trace to derive weights of.")
    if state.trace is None or state.passes:  # a pass is no part of a longer one
        return state.shown, state.shown
    return state.trace, state.shown


def _derived(trace: Trace, key: Key, start: int, stop: int | None = None) -> Floats:
    """Derive the weights of rows ``start`` to ``stop``, as Trace.attention does.

    In place, since fresh memory for every operation costs more than the arithmetic.
    """
    kind, layer, head = key
    heads = range(trace.heads) if head is None else range(head, head + 1)
    scale = np.float32(1 / math.sqrt(trace.model.config.head_size))
    mask = trace.mask(kind, layer)[start:stop]
    made = np.empty((len(heads), *mask.shape), np.float32)
    for h, room in zip(heads, made, strict=True):
        queries = trace.queries(kind, layer, h)[start:stop] * scale
        np.matmul(queries, trace.keys(kind, layer, h).T, out=room)
    if not made.size:
        return made
    if not mask.all():
        np.copyto(made, np.float32(trace.model.config.masked_value), where=~mask)
    with np.errstate(invalid="ignore"):
        made -= made.max(-1, keepdims=True)
        np.exp(made, out=made)
        made /= made.sum(-1, keepdims=True)
    return made
