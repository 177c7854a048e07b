"""Attention weights for pictures: derived once and cached with their run.

A growing Trace shares its storage with the shorter ones, and its rows do not change. So
weights are derived once, new rows are added, and an earlier step is a slice. For a long
run only the first rows are derived, up to the next power of two: later rows may not
have been read from their file yet. For a short sentence the heads of a layer are
derived together, and those of all layers once all have been requested, since calling
numpy takes longer than its arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from visformer.values.arrays import Floats, later, read_only
from visformer.values.attention_heads import (
    ALL,
    BLOCK,
    QUERIES,
    AttentionHeads,
    weights_of,
)
from visformer.values.facts import Kind
from visformer.values.trace import Trace

TOGETHER = 1 << 20  # numbers: the limit for deriving heads together
GROWTH = 64  # rows and columns reserved when a run grows
FEWEST = 64  # rows derived at once, if a run has as many
WHOLE_HEAD = 1 << 21  # numbers: the limit for caching a head for the overview
LONG = 1 << 20  # weights: the limit for deriving them in one turn of the window
SLICE = 1 << 17  # weights of a head derived at once: some milliseconds of work

WeightsKey = tuple[Kind, int | None, int | None]  # kind; layer and head, or None: all


@dataclass(frozen=True, slots=True, eq=False)
class _KeptWeights:
    """Weights [N, Q, K] of N heads, layer by layer, for a run's first Q rows."""

    weights: Floats
    sealed: bool  # later keys have no weight
    room: Floats  # [N, Q or more, K or more], zeros beyond them for later rows


def layers_weights(
    trace: Trace, kind: Kind, layers: range, rows: slice = ALL
) -> Floats:
    """Return the weights of all heads of some layers, [L, H, rows, K]."""
    keys, heads = _keys(trace, kind, layers), trace.heads(kind)
    kept = [_weights(trace, key)[:, rows] for key in keys]
    weights = kept[0] if len(kept) == 1 else np.concatenate(kept)
    weights = weights.reshape(len(weights) // heads, heads, *weights.shape[1:])
    every = keys == [(kind, None, None)]
    return weights[layers.start : layers.stop] if every else weights


def head_weights(trace: Trace, kind: Kind, layer: int, head: int) -> Floats:
    """Return the weights of one head, [Q, K]."""
    key, at = _home(trace, kind, layer, head)
    weights: Floats = _weights(trace, key)[at]
    return weights


def takes_long(trace: Trace, kind: Kind, layer: int, head: int) -> bool:
    """Whether so much of a head is still to be derived that the window would wait."""
    key, _at = _home(trace, kind, layer, head)
    queries, keys = (len(tokens) for tokens in trace.tokens(kind))
    kept: _KeptWeights | None = trace.memo.find(trace.storage, key)
    done = 0 if kept is None else kept.weights.shape[1]
    return key[2] is not None and (queries - done) * keys > LONG


def head_parts(trace: Trace, kind: Kind, layer: int, head: int) -> Iterator[None]:
    """Derive and cache the weights of one head, yielding after some rows of it."""
    key, _at = _home(trace, kind, layer, head)
    if _kept(trace, key) is None:
        yield from _extending(trace, key)


def row_weights(trace: Trace, kind: Kind, layer: int, head: int, rows: slice) -> Floats:
    """Return some rows of one head, [rows, K]; only these are derived if uncached."""
    key, at = _home(trace, kind, layer, head)
    kept = _kept(trace, key)
    if kept is not None:
        part: Floats = kept[at, rows]
        return part
    derived: Floats = trace.attention_heads(kind, layer, head).weights(rows)[0]
    return derived


def query_weights(
    trace: Trace, kind: Kind, layer: int, head: int, query: int
) -> Floats:
    """Return one row of one head, [K]; only this is derived if uncached."""
    row: Floats = row_weights(trace, kind, layer, head, slice(query, query + 1))[0]
    return row


def keeps_rows(trace: Trace, kind: Kind) -> bool:
    """Whether later keys leave the weights of a kind's earlier rows unchanged.

    Derives all weights, so only for short sentences.
    """
    if kind != "decoder":
        return True
    for key in _keys(trace, kind, range(trace.layers(kind))):
        _weights(trace, key)
        kept = trace.memo.find(trace.storage, key)
        if kept is None or not kept.sealed:
            return False
    return True


def size(trace: Trace, kind: Kind) -> int:
    """Return Q x K, the size of one head of a kind."""
    queries, keys = trace.tokens(kind)
    return len(queries) * len(keys)


def _are_few(trace: Trace, kind: Kind, layers: int) -> bool:
    """Whether the heads of ``layers`` layers may be derived at once."""
    return size(trace.whole, kind) * trace.heads(kind) * layers <= TOGETHER


def _keys(trace: Trace, kind: Kind, layers: range) -> list[WeightsKey]:
    """Return the cache keys of all heads of some layers."""
    if _are_few(trace, kind, trace.layers(kind)):
        return [(kind, None, None)]
    return [(kind, layer, None) for layer in layers]


def _home(trace: Trace, kind: Kind, layer: int, head: int) -> tuple[WeightsKey, int]:
    """Return the cache key of a head, and its index in that entry."""
    every = kind, None, None
    if _are_few(trace, kind, trace.layers(kind)):
        if trace.memo.find(trace.storage, every) is not None:
            return every, layer * trace.heads(kind) + head
    elif not _are_few(trace, kind, 1):
        return (kind, layer, head), 0
    return (kind, layer, None), head


def _weights(trace: Trace, key: WeightsKey) -> Floats:
    weights = _kept(trace, key)
    if weights is not None:
        return weights
    for _part in _extending(trace, key):
        pass
    weights = _kept(trace, key)
    assert weights is not None
    return weights


def _kept(trace: Trace, key: WeightsKey) -> Floats | None:
    rows, columns = (len(tokens) for tokens in trace.tokens(key[0]))
    kept: _KeptWeights | None = trace.memo.find(trace.storage, key)
    if kept is None or kept.weights.shape[1] < rows:
        return None
    return kept.weights[:, :rows, :columns]


def _extending(trace: Trace, key: WeightsKey) -> Iterator[None]:
    """Derive and cache the missing rows, yielding after some of them."""
    whole = trace.whole.until(doubled(FEWEST, len(trace)))
    kept: _KeptWeights | None = whole.memo.find(whole.storage, key)
    done = kept.weights.shape[1] if kept is not None and kept.sealed else 0
    done = done if _rows_stay(whole, key, done) else 0
    (kind, layer, head), old = key, None if kept is None or not done else kept.room
    rows, columns = (len(tokens) for tokens in whole.tokens(kind))
    heads = 1 if head is not None else whole.heads(kind)
    shape = heads * (whole.layers(kind) if layer is None else 1), rows, columns
    room = old if old is not None and _fits(shape, old) else _with_room(shape, old)
    step = max(QUERIES, SLICE // max(1, columns) // QUERIES * QUERIES)
    sealed, step = True, max(1, rows) if head is None else step  # few, at once
    derived_from = _heads(whole, key)
    # what is multiplied at once, filled up to whole blocks
    most = min(rows - done, step) + 2 * QUERIES, columns + BLOCK
    into = np.empty(shape[0] * math.prod(most), np.float32)
    for first in range(done, max(rows, done + 1), step):
        some = slice(first, min(rows, first + step))
        weights = weights_of(derived_from, some, into)
        sealed &= kind != "decoder" or not _reads_later(weights, first)
        room[:, first : first + weights.shape[1], :columns] = weights
        yield
    part = read_only(room[:, :rows, :columns])
    whole.memo.keep(whole.storage, key, _KeptWeights(part, sealed, room), room.size)


def _heads(trace: Trace, key: WeightsKey) -> list[AttentionHeads]:
    """Return the heads of an entry, layer by layer."""
    kind, layer, head = key
    if layer is None:
        return [trace.attention_heads(kind, one) for one in range(trace.layers(kind))]
    one = trace.attention_heads(kind, layer, head)
    # a head's keys are far apart in the Trace, and every slice reads all of them
    return [one.copied() if head is not None else one]


def _fits(shape: tuple[int, ...], room: Floats) -> bool:
    return all(one <= most for one, most in zip(shape, room.shape, strict=True))


def _with_room(shape: tuple[int, int, int], old: Floats | None) -> Floats:
    """Return zeros [N, Q', K'] of at least ``shape``, with the old numbers copied."""
    if old is None:  # a complete run does not grow
        return np.zeros(shape, np.float32)
    heads, rows, columns = shape
    wide = columns if columns == old.shape[2] else columns + GROWTH
    room = np.zeros((heads, rows + GROWTH, wide), np.float32)
    room[:, : old.shape[1], : old.shape[2]] = old
    return room


def doubled(least: int, count: int) -> int:
    """Double ``least`` until it is at least ``count``."""
    while least < count:
        least *= 2
    return least


def _rows_stay(whole: Trace, key: WeightsKey, rows: int) -> bool:
    """Whether later keys leave the weights of the first rows unchanged."""
    kind, layer, _ = key
    if kind != "decoder":
        return True
    layers = range(whole.layers(kind)) if layer is None else (layer,)
    captured = any(whole.is_captured(kind, one) for one in layers)
    if captured or whole.intervention.reaches_back:
        return False
    every = np.asarray(whole.masks[kind]) if layer is None else whole.mask(kind, layer)
    mask = every[..., :rows, :]
    # a row that may attend to nothing may weight all keys equally, later ones included
    return bool(mask[..., :rows].any(-1).all()) and not mask[..., rows:].any()


def _reads_later(weights: Floats, first: int) -> bool:
    """Whether a row of [N, rows, K], counted from ``first``, reads a later key."""
    after = later(weights.shape[1], weights.shape[2], first)
    if not after.any():  # only the last row
        return False
    return any(bool((head[after] > 0).any()) for head in weights)
