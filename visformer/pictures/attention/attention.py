"""The picture of a kind's attention: a Reading, shaded."""

from __future__ import annotations

from visformer.pictures.attention.maps import Marks, marks
from visformer.pictures.attention.reading import Reading, reading
from visformer.pictures.picture import Matrix, shade
from visformer.session.state import State
from visformer.values.facts import Kind

ROW_AXES: dict[Kind, str] = {
    "encoder": "query: source token that reads",
    "decoder": "query: target read → predicted",
    "cross": "query: target read → predicted",
}
COLUMN_AXES: dict[Kind, str] = {
    "encoder": "key: source token that is read",
    "decoder": "key: target token that is read",
    "cross": "key: source token that is read",
}
UNDECODED = "Nothing is decoded yet: step on to see the first row."
HIDDEN = "Every token that would stand here is hidden."


def attention_map(state: State, kind: Kind) -> Matrix | None:
    """Return the weights that the State's look asks for; None without a Trace."""
    shown = reading(state, kind)
    return None if shown is None else matrix(state, shown)


def matrix(state: State, shown: Reading) -> Matrix:
    """Shade a Reading."""
    kind, values = shown.kind, shown.values
    shades, ends, note = shade(values, state.scale)
    if not values.size:
        note = UNDECODED if shown.queries is None or not state.step else HIDDEN
    return Matrix(
        title=shown.title,
        values=values,
        shade=shades,
        rows=shown.rows,
        columns=shown.columns,
        row_axis=ROW_AXES[kind],
        column_axis=COLUMN_AXES[kind],
        ends=ends,
        note=note,
        hidden=shown.masked,
        marked=shown_marks(state, shown).cell,
        done=shown.done,
    )


def shown_marks(state: State, shown: Reading) -> Marks:
    """Return what the cell in focus marks of a Reading: places, not tokens."""
    marked = marks(state, shown.kind)
    if shown.queries is None:
        return marked
    cell = state.cell if marked.cell is not None else None
    return Marks(
        shown.place(cell) if cell is not None else None,
        shown.rows_of(marked.rows),
        shown.columns_of(marked.columns),
    )
