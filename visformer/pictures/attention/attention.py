"""The picture of a kind's attention: a Reading, shaded."""

from __future__ import annotations

import numpy as np

from visformer.analysis.head_measures import maximum
from visformer.language import N_, _
from visformer.pictures.attention.maps import Marks, marks
from visformer.pictures.attention.reading import Reading, reading
from visformer.pictures.codes import Bytes, codes
from visformer.pictures.look import Look
from visformer.pictures.picture import Matrix, shade
from visformer.pictures.selection import AttentionCell, Scale, Selection
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import number

UNDECODED = N_("Nothing is decoded yet: step forward to see the first row.")
PALE = 0.3  # a largest weight below which a map from 0 to 1 shows hardly anything
HIDDEN = N_("All tokens of this map are hidden.")


def attention_map(
    trace: Trace | None, selection: Selection, look: Look, kind: Kind
) -> Matrix | None:
    """Return the weights that a look selects; None without a Trace."""
    shown = reading(trace, selection, look, kind)
    return None if shown is None else matrix(shown, selection)


def matrix(shown: Reading, selection: Selection, title: str = "") -> Matrix:
    """Shade a Reading; ``title``: in place of its own."""
    values = shown.values
    shades, ends, note = shade(values, selection.scale)
    last = shown.rows_of((shown.query_tokens - 1,)) if values.size else ()
    if not values.size:
        note = shown.note or (_(HIDDEN) if shown.query_tokens else _(UNDECODED))
    return Matrix(
        title=title or shown.title,
        values=values,
        shade=shades,
        rows=shown.rows,
        columns=shown.columns,
        row_axis=shown.axes[0],
        column_axis=shown.axes[1],
        ends=ends,
        note=note,
        masked=shown.masked,
        marked=shown_marks(shown, selection.cell).cell,
        done=shown.done,
        border=shown.border,
        current=last[0] if last and shown.kind != "encoder" else None,
        offer=_offer(values, selection.scale),
        sign=shown.kind,
        row_role="query",
        column_role="key",
    )


def whole_codes(
    trace: Trace, selection: Selection, look: Look, kind: Kind
) -> Bytes | None:
    """Return the codes [R, C] of a whole run's map; None where it is not known yet."""
    whole = reading(trace, selection, look, kind)
    if whole is None or not whole.values.size:
        return None
    return codes(shade(whole.values, selection.scale)[0], whole.masked)


def offered_scale(values: Floats, scale: Scale) -> Scale | None:
    """Return a range of colours that shows more where all is pale, or the way back."""
    if not values.size:
        return None
    if scale != "fixed":
        return "fixed" if scale in ("head", "row") else None
    if 0 < _largest(values) < PALE:
        return "head"
    return "row" if maximum(values) < PALE else None  # a few dark cells, all else pale


def _offer(values: Floats, scale: Scale) -> str:
    """Name the range of colours that is offered; "" for none."""
    match offered_scale(values, scale):
        case "fixed":
            return _("back to 0 to 1")
        case "head":
            most = number(_largest(values), 2)
            return _("use this map's maximum, {number}", number=most)
        case "row":
            return _("use each row's maximum")
    return ""


def _largest(values: Floats) -> float:
    """Return the largest weight; NaN does not count."""
    return float(np.fmax.reduce(values, axis=None, initial=0))


def shown_marks(shown: Reading, cell: AttentionCell | None) -> Marks:
    """Return the rows and columns that the cell in focus marks in a Reading."""
    marked = marks(cell, shown.kind)
    if shown.queries is None or cell is None:
        return marked
    return Marks(
        shown.cell_in_matrix(cell) if cell.kind == shown.kind else None,
        shown.rows_of(marked.rows),
        shown.columns_of(marked.columns),
    )
