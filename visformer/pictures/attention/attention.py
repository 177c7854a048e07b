"""The picture of a kind's attention: a Reading, shaded."""

from __future__ import annotations

from visformer.language import N_, _
from visformer.pictures.attention.maps import Marks, marks
from visformer.pictures.attention.reading import Reading, reading
from visformer.pictures.look import Look
from visformer.pictures.picture import Matrix, shade
from visformer.pictures.selection import AttentionCell, Selection
from visformer.values.facts import Kind
from visformer.values.trace import Trace

UNDECODED = N_("Nothing is decoded yet: step forward to see the first row.")
HIDDEN = N_("Every token that would be here is hidden.")


def attention_map(
    trace: Trace | None, selection: Selection, look: Look, kind: Kind
) -> Matrix | None:
    """Return the weights that a look selects; None without a Trace."""
    shown = reading(trace, selection, look, kind)
    return None if shown is None else matrix(shown, selection)


def matrix(shown: Reading, selection: Selection) -> Matrix:
    """Shade a Reading."""
    values = shown.values
    shades, ends, note = shade(values, selection.scale)
    if not values.size:
        note = shown.note or (_(HIDDEN) if shown.query_tokens else _(UNDECODED))
    return Matrix(
        title=shown.title,
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
    )


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
