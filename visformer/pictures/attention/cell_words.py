"""The cell in focus as a sentence."""

from __future__ import annotations

import numpy as np

from visformer.language import N_, _
from visformer.pictures.attention.maps import labels, layer_and_head
from visformer.pictures.attention.reading import Reading, reading
from visformer.pictures.attention.weights import query_weights
from visformer.pictures.picture import quoted
from visformer.pictures.selection import AttentionCell, Look, Selection
from visformer.values.arrays import Floats
from visformer.values.measured import ATTRIBUTIONS
from visformer.values.not_finite import nan_row_words
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, head_words, probability

READS = N_("{kind} · {head} · {query} reads {key}: {weight}")
AS_CAPTURED = N_("{weight}, as captured from the model")
AS_MASKED = N_("{value}, masked")
NOTHING_NAN = N_(
    "{value}, masked; this query may attend to nothing, so all its weights are NaN"
)
NOTHING_EQUAL = N_(
    "{value}, masked; this query may attend to nothing, so all keys get equal weights"
)


def cell_words(trace: Trace | None, selection: Selection, look: Look) -> str:
    """Describe the cell in focus and its weight; "" if there is none."""
    cell = selection.cell
    if cell is None or trace is None:
        return ""
    if not look.raw:
        shown = reading(trace, selection, look, cell.kind)
        return _changed_words(shown, cell, measured=look.summary in ATTRIBUTIONS)
    layer, head = layer_and_head(trace, selection, cell.kind)
    rows, columns = labels(trace, cell.kind)
    if cell.query >= len(rows) or cell.key >= len(columns):
        return ""
    row = query_weights(trace, cell.kind, layer, head, cell.query)
    return _(
        READS,
        kind=_(KIND_NAMES[cell.kind]),
        head=head_words(layer, head),
        query=quoted(rows[cell.query]),
        key=quoted(columns[cell.key]),
        weight=_value_words(trace, cell, (layer, head), row),
    )


def _changed_words(
    shown: Reading | None, cell: AttentionCell, *, measured: bool
) -> str:
    """Quote a number that is not a single head's, and how it was computed."""
    if shown is None or shown.note:  # nothing is shown
        return "" if shown is None else shown.note
    at = shown.cell_in_matrix(cell)
    if at is None:
        return _("{title} · hidden ({done})", title=shown.title, done=shown.done)
    row, column = at
    value = probability(float(shown.values[row, column]))
    if shown.masked is not None and shown.masked[row, column]:
        value = _(AS_MASKED, value=value)
    words = N_("{title} · {query} reads {key}: {weight} ({done})")
    if measured:
        words = N_("{title} · {key} for {query}: {weight} ({done})")
    return _(
        words,
        title=shown.title,
        query=quoted(shown.rows[row]),
        key=quoted(shown.columns[column]),
        weight=value,
        done=shown.done,
    )


def _value_words(
    trace: Trace, cell: AttentionCell, at: tuple[int, int], row: Floats
) -> str:
    layer, head = at
    value = probability(float(row[cell.key]))
    allowed = trace.mask(cell.kind, layer, head)[cell.query]
    if trace.is_captured(cell.kind, layer):
        return _(AS_CAPTURED, weight=value)
    if not allowed.any():
        nothing = NOTHING_NAN if np.isnan(row).any() else NOTHING_EQUAL
        return _(nothing, value=value)
    if np.isnan(row).any():
        return nan_row_words(trace, cell.kind, layer, head, cell.query)
    return value if allowed[cell.key] else _(AS_MASKED, value=value)
