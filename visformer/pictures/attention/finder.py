"""One cell in every head: which head gives a key the most weight for a query."""

from __future__ import annotations

import numpy as np

from visformer.language import _, ngettext
from visformer.pictures.attention.maps import labels
from visformer.pictures.attention.weights import query_weights
from visformer.pictures.picture import Matrix, shade
from visformer.pictures.selection import AttentionCell, Selection
from visformer.values.arrays import Floats
from visformer.values.trace import Trace
from visformer.words import head_words, probability


def find_words(trace: Trace, cell: AttentionCell) -> str:
    """Ask which head reads a cell's key from its query."""
    queries, keys = labels(trace, cell.kind)
    return _(
        "Which head reads “{key}” from “{query}”?",
        key=keys[cell.key],
        query=queries[cell.query],
    )


def head_finder(trace: Trace, selection: Selection, cell: AttentionCell) -> Matrix:
    """Return a cell's weight in every head: a row per layer, a column per head."""
    kind, values = cell.kind, _weights(trace, cell)
    layers, heads = values.shape
    masked = np.zeros((layers, heads), bool)
    for layer in range(layers):
        masked[layer] = not trace.mask(kind, layer)[cell.query, cell.key]
    shades, ends, note = shade(values, selection.scale)
    return Matrix(
        title=find_words(trace, cell),
        done=_most_words(values),
        sign=kind,
        values=values,
        shade=shades,
        rows=tuple(f"L{layer + 1}" for layer in range(layers)),
        columns=tuple(f"H{head + 1}" for head in range(heads)),
        row_axis=_("layer"),
        column_axis=_("head"),
        ends=ends,
        note=note,
        masked=masked if masked.any() else None,
    )


def best_head(trace: Trace, cell: AttentionCell) -> tuple[int, int]:
    """Return layer and head that give a cell the most weight, counted from 0."""
    return _best(_weights(trace, cell)) or (0, 0)


def _best(values: Floats) -> tuple[int, int] | None:
    if not np.isfinite(values).any():
        return None
    layer, head = np.unravel_index(int(np.nanargmax(values)), values.shape)
    return int(layer), int(head)


def _weights(trace: Trace, cell: AttentionCell) -> Floats:
    kind = cell.kind
    values: Floats = np.zeros((trace.layers(kind), trace.heads(kind)), np.float32)
    for layer, head in np.ndindex(values.shape):
        row = query_weights(trace, kind, layer, head, cell.query)
        values[layer, head] = row[cell.key]
    return values


def _most_words(values: Floats) -> str:
    best = _best(values)
    if best is None:
        return ""
    alike = int(np.isclose(values, values[best], rtol=1e-6, atol=0).sum())
    if alike > 1:
        return ngettext(
            "most in {n} head: {weight}",
            "most in {n} heads alike: {weight}",
            alike,
            weight=probability(float(values[best])),
        )
    return _(
        "most in {head}: {weight}",
        head=head_words(*best),
        weight=probability(float(values[best])),
    )
