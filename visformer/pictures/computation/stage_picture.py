"""The parts of a stage's picture: matrices, numbers and text.

A picture consists of a few matrices side by side, a formula, the selected cell's
numbers in words, and the same numbers as a table.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from visformer.language import N_, _, ngettext
from visformer.pictures.attention import maps
from visformer.pictures.computation.subject import NO_ROOM, Room, Subject, unit_of
from visformer.pictures.picture import (
    AttentionRole,
    Axis,
    Matrix,
    Numbers,
    largest,
    shade,
    signed_shade,
)
from visformer.values.arrays import Bools, Floats
from visformer.values.layer_weights import Linear
from visformer.words import number

FIRST_TERMS = 3  # terms of a sum that are written out


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StageMap:
    """One matrix of a stage, computed only if ``key`` differs from that on screen."""

    sign: str  # before it: "×", "=", "→"; "" for the first
    key: tuple[object, ...]
    make: Callable[[], Matrix]
    axes: tuple[Axis, Axis]  # meaning of rows and columns
    first: tuple[int, int] = (0, 0)  # the index of its first row and column
    room: tuple[Room, Room] = (NO_ROOM, NO_ROOM)  # reserved rows and columns


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StagePicture:
    """Everything that one stage shows for one cell."""

    formula: str
    maps: tuple[StageMap, ...]
    words: str
    table: Numbers
    columns: int = 0  # of the grid of maps; 0: as many as fit
    both: bool = False  # rows of two runs, one below the other


def of_both(
    one: StagePicture, other: StagePicture, names: tuple[str, str]
) -> StagePicture:
    """Return a stage of two runs, the second below the first, each map on one range.

    Formula and table are the second run's.
    """
    pairs = [_paired(*maps) for maps in zip(one.maps, other.maps, strict=True)]
    columns = other.columns or len(pairs)
    rows = [
        replace(pair[side], key=(names, *pair[side].key), make=_named(pair[side], name))
        for first in range(0, len(pairs), columns)
        for side, name in enumerate(names)
        for pair in pairs[first : first + columns]
    ]
    said = zip(names, (one, other), strict=True)
    words = "\n".join(_("{run}: {words}", run=run, words=of.words) for run, of in said)
    return replace(other, maps=tuple(rows), words=words, columns=columns, both=True)


def _named(one: StageMap, name: str) -> Callable[[], Matrix]:
    def make() -> Matrix:
        made = one.make()
        return replace(made, title=_("{run}: {matrix}", run=name, matrix=made.title))

    return make


def _paired(one: StageMap, other: StageMap) -> tuple[StageMap, StageMap]:
    """Let the colours of two maps stand for the same numbers."""
    made = cache(lambda: _on_one_range(one.make(), other.make()))
    key = one.key, other.key
    return (
        replace(one, key=key, make=lambda: made()[0]),
        replace(other, key=key, make=lambda: made()[1]),
    )


def _on_one_range(one: Matrix, other: Matrix) -> tuple[Matrix, Matrix]:
    if one.ends == other.ends:
        return one, other
    both = one, other
    allowed = [m.values if m.masked is None else m.values[~m.masked] for m in both]
    top = max(map(largest, allowed))
    made = [
        signed_shading(m.values, top)
        if one.signed
        else Shading(np.clip(m.values / np.float32(top), 0, 1), ("0", number(top, 3)))
        for m in both
    ]
    shades = [
        how.shade if m.masked is None else np.where(m.masked, np.float32(0), how.shade)
        for m, how in zip(both, made, strict=True)
    ]
    note = _("linear, one range for both runs")
    first, second = (
        replace(m, shade=shade, ends=how.ends, note=note)
        for m, shade, how in zip(both, shades, made, strict=True)
    )
    return first, second


ROLES: dict[Axis, AttentionRole] = {"query": "query", "key": "key"}
AXES: dict[Axis, str] = {
    "model": N_("model dimension (dim)"),
    "head": N_("head dimension (dim)"),
    "inner": N_("inner unit"),
    "": N_("size (L2 norm)"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Shading:
    """The colours of numbers; the fields are those of Matrix."""

    shade: Floats
    ends: tuple[str, str]
    note: str = ""
    signed: bool = False
    boolean: bool = False


def stage_map(
    subject: Subject,
    sign: str,
    name: str,
    values: Callable[[], Floats],
    axes: tuple[Axis, Axis],
    *,
    key: tuple[object, ...] | None = None,
    forbidden: Bools | None = None,
    colours: Callable[[], Shading] | None = None,
    whole: bool = False,
    role: AttentionRole = "",
) -> StageMap:
    """Return a matrix of a stage.

    ``key`` is what it depends on, by default the sentence. ``forbidden`` are the cells
    that the mask forbids. ``colours`` are by default a diverging scale up to its own
    largest magnitude. With ``whole`` its rows are all keys, not a block. ``role`` is
    that of the matrix itself, such as the keys'.
    """
    at = subject.kind, subject.layer, subject.head, subject.options
    around = subject.queries.start, subject.keys.start
    moving = (subject.trace, subject.layer_rows, subject.scale, *at, *around)
    firsts = {"query": subject.queries.start, "key": 0 if whole else around[1]}
    room = subject.room(axes[0], whole=whole), subject.room(axes[1])

    def make() -> Matrix:
        numbers = values()
        how = _signed(numbers, forbidden) if colours is None else colours()
        shades = how.shade
        if forbidden is not None:
            shades = np.where(forbidden, np.float32(0), shades)
        return Matrix(
            title=_title(subject, name, numbers, axes),
            values=numbers,
            shade=shades,
            rows=_labels(subject, axes[0], len(numbers)),
            columns=_labels(subject, axes[1], numbers.shape[1]),
            row_axis=_axis(subject, axes[0]),
            column_axis=_axis(subject, axes[1]),
            row_unit=unit_of(axes[0]),
            column_unit=unit_of(axes[1]),
            ends=how.ends,
            note=how.note,
            signed=how.signed,
            boolean=how.boolean,
            row_role=ROLES.get(axes[0], ""),
            column_role=ROLES.get(axes[1], ""),
            role=role,
            masked=forbidden,
        )

    return StageMap(
        sign=sign,
        key=(name, room, *(moving if key is None else key)),
        make=make,
        axes=axes,
        first=(firsts.get(axes[0], 0), 0),
        room=room,
    )


def _signed(values: Floats, forbidden: Bools | None) -> Shading:
    """Shade on a diverging scale up to the largest magnitude of the allowed cells."""
    return signed_shading(
        values, largest(values if forbidden is None else values[~forbidden])
    )


def signed_shading(values: Floats, top: float) -> Shading:
    """Shade on a diverging scale up to ``top``."""
    ends = number(-top, 3), f"+{number(top, 3)}"
    return Shading(signed_shade(values, top), ends, signed=True)


def _axis(subject: Subject, axis: Axis) -> str:
    """Return the label of an axis."""
    if axis in AXES:
        return _(AXES[axis])
    return maps.axes(subject.trace, subject.kind)[axis == "key"]


def _labels(subject: Subject, axis: Axis, count: int) -> tuple[str, ...]:
    names = subject.labels(axis, count)
    if len(names) == count:
        return names
    return names[subject.queries if axis == "query" else subject.keys]


def _title(subject: Subject, name: str, values: Floats, axes: tuple[Axis, Axis]) -> str:
    """Write a matrix's name, its full shape, and which of its rows are drawn."""
    rows = len(subject.labels(axes[0], len(values)))
    title = f"{name} [{rows}, {values.shape[1]}]"
    if rows == len(values):
        return title
    block = subject.queries if axes[0] == "query" else subject.keys
    return _(
        "{matrix}, rows {first}–{last}",
        matrix=title,
        first=block.start + 1,
        last=block.stop,
    )


def queries(
    subject: Subject,
    sign: str,
    name: str,
    values: Floats,
    columns: Axis = "model",
    *,
    top: float | None = None,
    role: AttentionRole = "",
) -> StageMap:
    """Return a matrix with one row per query, cut to the rows that are shown.

    ``top`` is the magnitude of the strongest colour, by default the matrix's largest.
    """

    def colours() -> Shading:
        rows = subject.cut(values)
        return signed_shading(rows, largest(rows) if top is None else top)

    return stage_map(
        *(subject, sign, name, lambda: subject.cut(values), ("query", columns)),
        colours=colours,
        role=role,
    )


def bars(
    subject: Subject, sign: str, name: str, columns: Sequence[str], sizes: Floats
) -> StageMap:
    """Return bars for nonnegative numbers on one scale.

    ``sizes`` [rows, C] are those of the rows shown.
    """
    top = float(np.nanmax(sizes, initial=0)) or 1.0
    whole = _("a whole cell is {size}", size=number(top, 3))
    shading = Shading((sizes / top).astype(np.float32), ("0", number(top, 3)), whole)
    one = stage_map(
        *(subject, sign, name, lambda: sizes, ("query", "")), colours=lambda: shading
    )
    return replace(
        one, make=lambda: replace(one.make(), columns=tuple(columns), bars=True)
    )


def of_tokens(one: StageMap) -> StageMap:
    """Return a matrix whose rows are tokens instead of queries."""

    def make() -> Matrix:
        made = one.make()
        if one.axes[0] != "query":
            return made
        return replace(made, row_axis=_("token"), row_role="")

    return replace(one, key=("token", *one.key), make=make)


def weights_map(subject: Subject, sign: str) -> StageMap:
    """Return the weights, coloured as on the Attention tab."""
    rows = subject.queries
    weights = subject.weights[rows]
    return stage_map(
        subject,
        sign,
        _("weights"),
        lambda: weights,
        ("query", "key"),
        forbidden=~subject.trace.mask(subject.kind, subject.layer, subject.head)[rows],
        colours=lambda: Shading(*shade(weights, subject.scale)),
    )


def vectors(
    subject: Subject,
    axis: Axis,
    names: Iterable[str],
    values: Sequence[Floats] | Floats,
    *,
    by: Literal["row", "column", "all"] = "row",
) -> Numbers:
    """Stack vectors, with one column per token or dimension."""
    stacked = np.stack(list(values))  # [rows, columns]
    return Numbers(
        rows=tuple(names),
        columns=subject.names(axis, stacked.shape[1]),
        values=stacked,
        axis=axis,
        by=by,
    )


def projected_part(linear: Linear, columns: slice) -> Linear:
    """Return the columns of a projection that belong to one head."""
    bias = None if linear.bias is None else linear.bias[columns]
    return Linear(linear.weight[:, columns], bias)


def columns_words(columns: slice) -> str:
    """Write a head's columns: dim 8 to dim 15."""
    return _("dim {first} to dim {last}", first=columns.start, last=columns.stop - 1)


def plus(linear: Linear) -> str:
    """Return the sign before a projection's result."""
    return "=" if linear.bias is None else "+ b ="


def with_bias(product: str, linear: Linear, bias: str) -> str:
    """Add the bias to a projection's formula, or say that there is none."""
    if linear.bias is None:
        return _("{formula} (no bias)", formula=product)
    return f"{product} + {bias}"


def terms(left: Floats, right: Floats) -> str:
    """Write out the first terms of a sum of products, and the number of terms."""
    pairs = list(zip(left[:FIRST_TERMS], right[:FIRST_TERMS], strict=True))
    written = " + ".join(f"{_factor(a)}·{_factor(b)}" for a, b in pairs)
    if len(left) <= FIRST_TERMS:
        return written
    return ngettext(
        "{sum} + … ({n:,} term)", "{sum} + … ({n:,} terms)", len(left), sum=written
    )


def projected_terms(row: Floats, linear: Linear, column: int) -> str:
    """Write out one number of row @ weight + bias as a sum."""
    products = terms(row, linear.weight[:, column])
    if linear.bias is None:
        return products
    return _("{sum} + bias {bias}", sum=products, bias=number(linear.bias[column]))


def _factor(value: float) -> str:
    return f"({number(value)})" if value < 0 else number(value)


def difference(one: Floats, other: Floats) -> str:
    """Format the largest difference between two computations of the same numbers."""
    if not one.size:
        return "0"
    return number(float(np.abs(one - other).max()), 1)
