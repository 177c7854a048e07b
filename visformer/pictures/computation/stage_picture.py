"""What a stage's picture consists of: matrices, numbers, words.

A picture is a few matrices side by side, a formula, the chosen cell's own numbers in
words, and the same numbers as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from visformer.pictures.computation.subject import UNITS, Subject
from visformer.pictures.picture import (
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

FIRST_TERMS = 3  # of a sum, written out


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StageMap:
    """One matrix of a stage; made only when ``key`` differs from what is on screen."""

    sign: str  # before it: "×", "=", "→"; "" for the first
    key: tuple[object, ...]
    make: Callable[[], Matrix]
    axes: tuple[Axis, Axis]  # what a row and a column are
    first: tuple[int, int] = (0, 0)  # the index of its first row and column


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StagePicture:
    """All that one stage shows of one cell."""

    formula: str
    maps: tuple[StageMap, ...]
    words: str
    table: Numbers


AXES: dict[Axis, str] = {
    "query": "query (reads)",
    "key": "key (is read)",
    "model": "model dimension (dim)",
    "head": "head dimension (dim)",
    "inner": "inner unit",
    "": "",
}


@dataclass(frozen=True, slots=True, eq=False)
class Shading:
    """How numbers are coloured: as in Matrix."""

    shade: Floats
    ends: tuple[str, str]
    note: str = ""
    signed: bool = False


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
) -> StageMap:
    """Describe a matrix of a stage.

    ``key`` says what it hangs on where that is less than the sentence; ``forbidden``
    what the mask forbids; ``colours`` how it is coloured, if not from minus to plus its
    own largest magnitude; ``whole`` that its rows are all keys, not a block of them.
    """
    at = subject.kind, subject.layer, subject.head
    around = subject.queries.start, subject.keys.start
    moving = (subject.trace, subject.layer_rows, subject.scale, *at, *around)
    firsts = {"query": subject.queries.start, "key": 0 if whole else around[1]}

    def make() -> Matrix:
        numbers = values()
        how = _signed(numbers, forbidden) if colours is None else colours()
        shades = how.shade
        if forbidden is not None:
            shades = np.where(forbidden, np.float32(0), shades)
        return Matrix(
            title=f"{name} {_shape(subject, numbers, axes)}",
            values=numbers,
            shade=shades,
            rows=_labels(subject, axes[0], len(numbers)),
            columns=_labels(subject, axes[1], numbers.shape[1]),
            row_axis=AXES[axes[0]],
            column_axis=AXES[axes[1]],
            row_unit=UNITS.get(axes[0], ""),
            column_unit=UNITS.get(axes[1], ""),
            ends=how.ends,
            note=how.note,
            signed=how.signed,
            masked=forbidden,
        )

    return StageMap(
        sign=sign,
        key=(name, *(moving if key is None else key)),
        make=make,
        axes=axes,
        first=(firsts.get(axes[0], 0), 0),
    )


def _signed(values: Floats, forbidden: Bools | None) -> Shading:
    """Shade from minus to plus the largest magnitude that the mask leaves in sight."""
    top = largest(values if forbidden is None else values[~forbidden])
    ends = number(-top, 3), f"+{number(top, 3)}"
    return Shading(signed_shade(values, top), ends, signed=True)


def _labels(subject: Subject, axis: Axis, count: int) -> tuple[str, ...]:
    names = subject.labels(axis)
    if len(names) == count:
        return names
    return names[subject.queries if axis == "query" else subject.keys]


def _shape(subject: Subject, values: Floats, axes: tuple[Axis, Axis]) -> str:
    """Write the shape of the whole matrix, and which of its rows are drawn."""
    rows = len(subject.labels(axes[0]))
    block = subject.queries if axes[0] == "query" else subject.keys
    part = f", rows {block.start + 1}–{block.stop}" if rows != len(values) else ""
    return f"[{rows}, {values.shape[1]}]{part}"


def queries(
    subject: Subject, sign: str, name: str, values: Floats, columns: Axis = "model"
) -> StageMap:
    """Describe a matrix with a row for every query, cut to those that are shown."""
    return stage_map(
        subject, sign, name, lambda: subject.cut(values), ("query", columns)
    )


def weights_map(subject: Subject, sign: str) -> StageMap:
    """Describe the weights, coloured as on the Attention tab."""
    rows = subject.queries
    weights = subject.weights[rows]
    return stage_map(
        subject,
        sign,
        "weights",
        lambda: weights,
        ("query", "key"),
        forbidden=~subject.trace.mask(subject.kind, subject.layer)[rows],
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
    """Return vectors under each other, a column for each token or dimension."""
    return Numbers(
        rows=tuple(names),
        columns=subject.names(axis),
        values=np.stack(list(values)),  # [rows, columns]
        axis=axis,
        by=by,
    )


def projected_part(linear: Linear, columns: slice) -> Linear:
    """Return some columns of a projection: those of a head."""
    bias = None if linear.bias is None else linear.bias[columns]
    return Linear(linear.weight[:, columns], bias)


def plus(linear: Linear) -> str:
    """Return the sign before a projection's result."""
    return "=" if linear.bias is None else "+ b ="


def bias_words(linear: Linear, letter: str) -> str:
    """Continue a formula with the bias, or say that there is none."""
    if linear.bias is None:
        return " (no bias)"
    return f" + b_{letter}" if letter.isascii() else f" + b{letter}"


def terms(left: Floats, right: Floats) -> str:
    """Write a sum of products out: its first terms, and how many there are."""
    pairs = list(zip(left[:FIRST_TERMS], right[:FIRST_TERMS], strict=True))
    written = " + ".join(f"{_factor(a)}·{_factor(b)}" for a, b in pairs)
    more = f" + … ({len(left)} terms)" if len(left) > FIRST_TERMS else ""
    return written + more


def _factor(value: float) -> str:
    return f"({number(value)})" if value < 0 else number(value)


def difference(one: Floats, other: Floats) -> str:
    """Write the largest difference between what was computed twice."""
    if not one.size:
        return "0"
    return number(float(np.abs(one - other).max()), 1)
