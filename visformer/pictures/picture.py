"""A matrix before it is painted, and how its numbers become colours."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass, fields
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from visformer.language import _
from visformer.pictures.selection import SCALES, Scale
from visformer.values.arrays import Bools, Floats
from visformer.values.facts import Kind
from visformer.words import number, probability

Bytes = NDArray[np.uint8]
NOTHING: Bytes = np.zeros((0, 0), np.uint8)  # codes of no cells
MASKED, LOW, HIGH, NAN = 0, 1, 254, 255
BLOCK = 1 << 16  # cells


def codes(shade: Floats, masked: Bools | None = None) -> Bytes:
    """Turn shades [..., C] in [0, 1] or NaN into codes, uint8 of the same shape."""
    result: Bytes = np.empty(shade.shape, np.uint8)
    if not result.size:
        return result
    wide = shade.shape[-1]
    shades, out = shade.reshape(-1, wide), result.reshape(-1, wide)
    hides = masked is not None and masked.any()
    hidden = masked.reshape(-1, wide) if masked is not None and hides else None
    rows = max(1, BLOCK // wide)
    room = np.empty((min(rows, len(shades)), wide), np.float32)
    for first in range(0, len(shades), rows):  # blocks that fit into the CPU's cache
        block = slice(first, first + rows)
        over = None if hidden is None else hidden[block]
        _code(shades[block], over, out[block], room[: len(out[block])])
    return result


def _code(shade: Floats, masked: Bools | None, out: Bytes, scaled: Floats) -> None:
    with np.errstate(invalid="ignore"):
        np.multiply(shade, np.float32(HIGH - LOW), out=scaled)
        scaled += np.float32(LOW + 0.5)
        np.copyto(out, scaled, casting="unsafe")
        if np.isnan(scaled.max()):
            out[np.isnan(shade)] = NAN
    if masked is not None:
        out[masked & (out == LOW)] = MASKED


# A token's role in attention; each role has one hue everywhere.
AttentionRole = Literal["", "query", "key", "value"]

LOG_FLOOR = 1e-4  # smallest weight distinguished from 0 on the logarithmic scale


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The copied and saved part of a picture: values with row and column labels."""

    rows: tuple[str, ...]  # R labels
    columns: tuple[str, ...]  # C labels
    values: Floats | tuple[tuple[int | str, ...], ...]  # [R, C]
    about: str = ""  # description of the values


class Label(str):
    """A label in a picture, and how it is written elsewhere."""

    full: str  # outside the picture
    raw: str  # in a picture that shows vocabulary pieces
    saved: str  # in files, even with vocabulary pieces
    faint: bool

    def __new__(
        cls,
        label: str,
        *,
        full: str = "",
        raw: str = "",
        saved: str = "",
        faint: bool = False,
    ) -> Self:
        """Set all forms; by default the label itself, in files the raw one."""
        made = super().__new__(cls, label)
        made.full, made.raw, made.faint = full or label, raw or label, faint
        made.saved = saved or made.raw
        return made

    def after(self, words: str) -> Label:
        """Return the label with words before it."""
        others = {x: words + getattr(self, x) for x in ("full", "raw", "saved")}
        return Label(words + self, faint=self.faint, **others)


def quoted(label: str) -> str:
    """Write a label in a sentence: quoted, or in its full form."""
    full = label.full if isinstance(label, Label) else label
    return full if full != label else f"“{label}”"


def raw_label(label: str) -> str:
    """Return a label with its tokens as in the vocabulary."""
    return label.raw if isinstance(label, Label) else label


def saved_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels as written in files."""
    return tuple(x.saved if isinstance(x, Label) else x for x in labels)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Matrix:
    """A picture of numbers: rows downwards, columns to the right.

    ``shade`` is what is painted, in [0, 1]: 0 is the low end of ``ends``, NaN is
    painted where the number is NaN. ``values`` are the numbers themselves, for reading
    and export.
    """

    title: str
    values: Floats  # [R, C]
    shade: Floats  # [R, C] in [0, 1] or NaN
    rows: tuple[str, ...]  # R labels
    columns: tuple[str, ...]  # C labels
    row_axis: str  # description of a row
    column_axis: str
    ends: tuple[str, str]  # labels of the colour bar's ends
    signed: bool = False  # a diverging scale with 0 in the middle
    note: str  # how the numbers were processed before painting
    masked: Bools | None = None  # [R, C]: True where the mask forbids; drawn grey
    marked: tuple[int, int] | None = None  # the cell in focus
    current: int | None = None  # the row of the current step, always labelled
    sign: Kind | None = None  # the kind of attention, whose icon precedes the title
    offer: str = ""  # the name of another scale, on the button beside the bar
    done: str = ""  # how the model's numbers were changed
    border: tuple[int, int] | None = None  # rows and columns of the prompt
    framed: slice | None = None  # columns inside a frame
    row_role: AttentionRole = ""
    column_role: AttentionRole = ""
    role: AttentionRole = ""  # of the whole matrix: Q, K, V and their weights
    boolean: bool = False  # 1 may attend, 0 may not: two colours, no scale
    bars: bool = False  # cells contain bars on one scale instead of colours
    alarms: Bools | None = None  # [R, C]: True where a forbidden key is read
    ahead: Bytes | None = None  # codes of the whole run; its later rows are faint
    row_unit: str = ""  # before labels outside the picture: "pos" for "pos 3"
    column_unit: str = ""

    def said(self, at: tuple[int, int]) -> str:
        """Format one number; weights are formatted as everywhere else."""
        value = float(self.values[at])
        is_weight = (self.row_role, self.column_role) == ("query", "key")
        is_weight = is_weight and not (self.signed or self.boolean)
        return probability(value) if is_weight else number(value)

    @property
    def most_read(self) -> int | None:
        """The column of the current row's largest number, which is always labelled."""
        if self.current is None or not self.values.size:
            return None
        row = self.values[self.current]
        return None if np.isnan(row).all() else int(np.nanargmax(row))

    @property
    def row_names(self) -> tuple[str, ...]:
        """The row labels as written outside the picture."""
        return named(self.row_unit, self.rows)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The column labels as written outside the picture."""
        return named(self.column_unit, self.columns)

    @property
    def table(self) -> Table:
        """The numbers for export, with a description."""
        about = ""
        if self.done:
            about = _("{title}: {done}", title=self.title, done=self.done)
        rows = named(self.row_unit, saved_labels(self.rows))
        columns = named(self.column_unit, saved_labels(self.columns))
        return Table(rows, columns, self.values, about)


def named(unit: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Write labels in full, after their unit unless they are tokens (unit "")."""
    full = (label.full if isinstance(label, Label) else label for label in labels)
    if not unit:
        return tuple(full)
    # cached: a layer has thousands of units
    name = _("{unit} {label}", unit=unit, label="\0")
    return tuple(name.replace("\0", label) for label in full)


Axis = Literal["query", "key", "model", "head", "inner", ""]  # meaning of an index


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Numbers:
    """Named vectors, one per row, to be read number by number."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Floats  # [R, C]
    axis: Axis  # meaning of a column
    rows_axis: Axis = ""
    by: Literal["row", "column", "all"] = "row"  # whose maximum has a full bar
    flags: tuple[int, ...] = ()  # rows of yes (1) and no (0)
    full: tuple[float, ...] = ()  # the value of a full bar in each row; (): see ``by``
    kept: Bools | None = None  # [R, C]: False where the run stores no number
    counts: bool = False  # whole numbers, written in full

    def keeps(self, row: int, column: int) -> bool:
        """Whether a cell has a number."""
        return self.kept is None or bool(self.kept[row, column])


def is_same(one: Matrix | Numbers, other: Matrix | Numbers | None) -> bool:
    """Whether two pictures of the same type are equal, element by element."""
    if other is None:
        return False
    names = (field.name for field in fields(one))
    return all(_equal(getattr(one, name), getattr(other, name)) for name in names)


def _equal(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one is other or (one.shape, one.dtype) != (other.shape, other.dtype):
            return one is other
        bits = f"u{one.itemsize}"  # NaN is equal to itself
        return bool((one.view(bits) == other.view(bits)).all())
    return bool(type(one) is type(other) and one == other)


def shade(values: Floats, scale: Scale) -> tuple[Floats, tuple[str, str], str]:
    """Map weights to [0, 1] -> shades, labels of the colour bar's ends, a note.

    Weights outside the range, which a watched model may have, are clipped.
    """
    shades: NDArray[np.floating] = values
    ends = "0", "1"
    if scale == "log":
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(values, LOG_FLOOR) / LOG_FLOOR)
        shades, ends = logs / np.float32(-np.log(LOG_FLOOR)), (f"≤ {LOG_FLOOR:g}", "1")
    elif scale != "fixed" and values.size:
        axis = -1 if scale == "row" else (-2, -1)
        top = np.nanmax(values, axis=axis, keepdims=True, initial=0)
        shades = values / np.where(top > 0, top, 1)
        ends = "0", number(top.max()) if scale == "head" else _("row max")
    within = shades.size and shades.min() >= 0 and shades.max() <= 1
    if not within:  # a copy of a long sentence takes longer than a look at it
        shades = np.clip(shades, 0, 1)
    return shades.astype(np.float32, copy=False), ends, _(SCALES[scale])


def largest(values: Floats) -> float:
    """Return the largest finite magnitude; 1 if it is 0."""
    top = _reach(values)
    if not math.isfinite(top):
        top = _reach(values[np.isfinite(values)])
    return top or 1.0


def _reach(values: Floats) -> float:
    """Return the largest magnitude, NaN if there is one; 0 of none."""
    ends = -values.min(initial=0), values.max(initial=0)  # without a copy of them all
    return float(max(ends))  # NaN is both


def signed_shade(values: Floats, reach: float) -> Floats:
    """Map -reach..reach to 0..1 and NaN to NaN; values beyond are clipped."""
    shades = np.ascontiguousarray(values, np.float32) / np.float32(2 * reach)
    shades += np.float32(0.5)
    with np.errstate(invalid="ignore"):
        return np.clip(shades, 0, 1, out=shades)


def json_text(table: Table) -> str:
    """Write a table as JSON; numbers that are not finite stand as strings."""

    def plain(value: object) -> object:
        finite = not isinstance(value, float) or math.isfinite(value)
        return value if finite else str(value)

    values = [
        [*map(plain, row if isinstance(row, tuple) else row.tolist())]
        for row in table.values
    ]
    whole = {
        "about": table.about,
        "axes": ["rows", "columns"],
        "rows": table.rows,
        "columns": table.columns,
        "values": values,
    }
    return json.dumps(whole, ensure_ascii=False, allow_nan=False)


def npz(table: Table) -> bytes:
    """Write a table as arrays of NumPy: values, and the labels of rows and columns."""
    out = io.BytesIO()
    np.savez(
        out,
        values=np.asarray(table.values),
        rows=np.array(table.rows, str),
        columns=np.array(table.columns, str),
        about=np.array(table.about),
    )
    return out.getvalue()


def csv_text(table: Table) -> str:
    """Write a table as CSV: quoted labels, all digits of the numbers."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    if table.about:
        writer.writerow((table.about, *table.columns))
    else:  # empty fields have no quotes
        out.write("," if table.columns else "")
        writer.writerow(table.columns)
    for label, values in zip(table.rows, table.values, strict=True):
        numbers = values if isinstance(values, tuple) else values.tolist()
        writer.writerow((label, *numbers))
    return out.getvalue()
