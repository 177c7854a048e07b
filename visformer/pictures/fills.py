"""A masked token of an encoder alone: which one, and the best tokens in its place."""

from __future__ import annotations

import numpy as np

from visformer.language import _
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.candidates import AllRows, CandidateRow, CandidateTable
from visformer.pictures.selection import AttentionCell, Selection
from visformer.pictures.token_names import candidate, marks, placed
from visformer.pictures.words.absent import has_target
from visformer.values.distribution import WholeDistribution
from visformer.values.trace import Trace


def masked_token(trace: Trace | None, locked: AttentionCell | None) -> int | None:
    """Return the masked source token that is looked at; None where none is.

    That is the query of the locked cell, or the first masked one.
    """
    if trace is None or not trace.fills:
        return None
    if locked is None or locked.kind != "encoder":
        return min(trace.fills)
    return locked.query if locked.query in trace.fills else None


def listed_row(trace: Trace | None, locked: AttentionCell | None) -> int | None:
    """Return the row whose next token, or fill, is listed; None where there is none.

    That is the last decoder row, or the masked token that is looked at.
    """
    if trace is not None and has_target(trace):
        return len(trace) - 1 if trace.steps else None
    return masked_token(trace, locked)


def fill_table(
    trace: Trace, masked: int | None, whole: WholeDistribution | None = None
) -> CandidateTable:
    """Describe the best tokens in place of a masked one, or ``whole``: all of them."""
    if masked is None:
        words = _("Click a masked token in the source strip to see what would fill it.")
        return CandidateTable(_("masked token"), words, ())
    how = marks(trace, "source")
    rows = tuple(
        CandidateRow(c.id, rank, candidate(c.token, how), c.probability, False)
        for rank, c in enumerate(trace.fills[masked], 1)
    )
    token = placed(trace, "source", masked)
    others = sorted(set(trace.fills) - {masked})
    words = (
        _(
            "The model's best tokens in this place. Click another masked token in the "
            "source strip to see those in its place."
        )
        if others
        else _("The model's best tokens in this place.")
    )
    title = _("in place of {token}", token=token)
    if whole is None:
        return CandidateTable(title, words, rows, marks=how)
    every = AllRows(rows, whole, chosen=None)
    return CandidateTable(title, words, every, len(whole.ids), marks=how)


def cell_of(trace: Trace, selection: Selection, token: int) -> AttentionCell:
    """Return the cell of a query of the selected kind and the key it reads most."""
    kind = selection.kind
    layer, head = layer_and_head(trace, selection, kind)
    row = head_weights(trace, kind, layer, head)[token]
    best = 0 if np.isnan(row).all() else int(np.nanargmax(row))
    return AttentionCell(kind, token, best)
