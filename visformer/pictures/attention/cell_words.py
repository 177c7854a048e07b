"""The cell in focus as a sentence."""

from __future__ import annotations

import numpy as np

from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.reading import Reading, reading
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.look import Look
from visformer.pictures.picture import read_token
from visformer.pictures.selection import AttentionCell, Selection
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, head_words, probability


def cell_words(trace: Trace | None, selection: Selection, look: Look) -> str:
    """Say what the cell in focus is and what its weight is; "" where there is none."""
    cell = selection.cell
    if cell is None or trace is None:
        return ""
    if not look.raw:
        return _changed_words(reading(trace, selection, look, cell.kind), cell)
    layer, head = layer_and_head(trace, selection, cell.kind)
    weights = head_weights(trace, cell.kind, layer, head)
    if not (cell.query < weights.shape[0] and cell.key < weights.shape[1]):
        return ""
    queries, keys = trace.tokens(cell.kind)
    where = f"{KIND_NAMES[cell.kind]} · {head_words(layer, head)}"
    pair = f"“{visible(queries[cell.query])}” reads “{visible(keys[cell.key])}”"
    return f"{where} · {pair}: {_value_words(trace, cell, layer, weights)}"


def _changed_words(shown: Reading | None, cell: AttentionCell) -> str:
    """Say a weight that is not one head's own, and what was done to it."""
    if shown is None:
        return ""
    at = shown.cell_in_matrix(cell)
    if at is None:
        return f"{shown.title} · hidden ({shown.done})"
    row, column = at
    pair = f"“{read_token(shown.rows[row])}” reads “{shown.columns[column]}”"
    value = probability(float(shown.values[row, column]))
    if shown.masked is not None and shown.masked[row, column]:
        value += ", masked"
    return f"{shown.title} · {pair}: {value} ({shown.done})"


def _value_words(trace: Trace, cell: AttentionCell, layer: int, weights: Floats) -> str:
    row = weights[cell.query]
    value = probability(float(row[cell.key]))
    allowed = trace.mask(cell.kind, layer)[cell.query]
    if not allowed.any():
        return f"{value}, masked; {_nothing_words(row)}"
    if np.isnan(row).any():
        return "NaN: what this query and its keys are made of is NaN already"
    return value if allowed[cell.key] else f"{value}, masked"


def _nothing_words(row: Floats) -> str:
    """Say what became of a row that may attend to nothing."""
    if np.isnan(row).any():
        return "this query may attend to nothing, so all its weights are NaN"
    if not row.any():
        return "this query may attend to nothing, so all its weights are 0"
    return "this query may attend to nothing, so all keys get equal weights"
