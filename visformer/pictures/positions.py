"""Pictures of the model's own table of positional encodings."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from visformer.errors import InputError
from visformer.pictures.picture import Matrix, largest, signed_shade
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.encodings import sinusoid
from visformer.values.facts import ModelFacts
from visformer.values.trace import Trace
from visformer.words import dimension_words, number, position_words, token_words

Likeness = Literal["dot product", "cosine"]
Waves = Literal["interleaved", "halves", "none"]  # where the sines and cosines are
LIKENESSES: dict[Likeness, str] = {  # what was done, as explained on screen
    "dot product": "dot product of two positions' encodings",
    "cosine": "cosine: dot product divided by both lengths",
}
FIRST_ROWS = 32  # positions shown at the start, more where a sentence is longer
MOST_CURVES = 8  # as many as can be told apart by colour and dash
MOST_COMPARED = 1024  # positions in the similarity map: a million cells


def default_last(table: Floats | None, trace: Trace | None) -> int:
    """Return the last position of the range that is shown at first; -1 for no table."""
    if table is None:
        return -1
    longest = max(len(trace.source), len(trace)) if trace else 0
    return min(len(table), max(FIRST_ROWS, longest)) - 1


def heat_picture(table: Floats, first: int, last: int) -> Matrix:
    """Return rows ``first`` to ``last`` of a table [P, D]: position by dimension."""
    values = table[first : last + 1]
    reach = largest(table)
    return Matrix(
        title="positional encodings, "
        f"{position_words(first)} to {position_words(last)}",
        values=values,
        shade=signed_shade(values, reach),
        rows=_numbers(first, len(values)),
        columns=_numbers(0, table.shape[1]),
        row_axis="position (pos)",
        column_axis="dimension (dim)",
        row_unit="pos",
        column_unit="dim",
        ends=ends(reach),
        note="the model's own numbers, linear",
        signed=True,
    )


def similarity_picture(
    table: Floats, first: int, last: int, *, likeness: Likeness
) -> Matrix:
    """Compare every two positions of a range by dot product or cosine, [P', P']."""
    rows = table[first : min(last + 1, first + MOST_COMPARED)]
    values = similarity(rows, likeness)
    reach = 1.0 if likeness == "cosine" else largest(values)
    labels = _numbers(first, len(rows))
    note = "linear"
    if len(rows) < last + 1 - first:
        note += f"; the first {MOST_COMPARED:,} of the chosen positions"
    return Matrix(
        title=f"similarity of positions: {likeness}",
        values=values,
        shade=signed_shade(values, reach),
        rows=labels,
        columns=labels,
        row_axis="position (pos)",
        column_axis="position (pos)",
        row_unit="pos",
        column_unit="pos",
        ends=ends(reach),
        note=note,
        signed=True,
    )


def similarity(rows: Floats, likeness: Likeness) -> Floats:
    """Compare rows [P, D] with each other -> [P, P]; a zero row's cosine is NaN."""
    products: Floats = rows @ rows.T  # [P', P']
    if likeness == "dot product":
        return products
    lengths = np.linalg.norm(rows, axis=1)  # [P']
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(products / np.outer(lengths, lengths), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One dimension of the table along the positions."""

    dimension: int
    positions: Floats  # [P']
    values: Floats  # [P']
    words: str  # what it is, for the legend


def curves(
    table: Floats,
    dimensions: tuple[int, ...],
    first: int,
    last: int,
    *,
    waves: Waves,
) -> tuple[Curve, ...]:
    """Return chosen dimensions of a table [P, D] over a range of positions.

    ``waves`` is what ``waves_of`` says of the table: asked once per table.
    """
    rows = table[first : last + 1]
    positions = np.arange(first, first + len(rows), dtype=np.float32)
    return tuple(
        Curve(d, positions, rows[:, d], _curve_words(table, d, waves))
        for d in dimensions
    )


def waves_of(table: Floats) -> Waves:
    """Tell how a table [P, D] holds the paper's sinusoids, to float32 rounding."""
    # Two rows tell most other tables apart, without a sine for every cell.
    width = table.shape[1]
    for waves in ("interleaved", "halves"):
        if table.size and (waves == "interleaved" or not width % 2):
            paper = _paper_order(table, waves)
            if _equals_formula(paper[:2]) and _equals_formula(paper):
                return waves
    return "none"


def _paper_order(table: Floats, waves: Waves) -> Floats:
    """Return the columns in the paper's order, where the sines come first."""
    if waves != "halves":
        return table
    return table.reshape(len(table), 2, -1).swapaxes(1, 2).reshape(table.shape)


def _equals_formula(table: Floats) -> bool:
    # A float32 angle's error grows with the angle, so the tolerance does too.
    tolerance = 2e-5 + 2e-6 * np.arange(len(table))[:, None]
    difference = np.abs(table - sinusoid(*table.shape))
    return bool((difference <= tolerance).all())


def has_table(table: Floats | None, model: ModelFacts | None) -> bool:
    """Tell whether a model adds positions at all."""
    none = model is not None and model.config.positions == "none"
    return table is not None and table.size > 0 and not none


def nothing_words(model: ModelFacts | None) -> str:
    """Say why there is no table of positions."""
    if model is not None and model.config.positions == "none":
        return (
            "This model adds no positional encoding: its embeddings do not tell where "
            "a token stands, so there is no table to show."
        )
    return "No table of positions: no model is open yet."


def table_words(table: Floats, *, waves: Waves, model: ModelFacts | None = None) -> str:
    """Say what kind of table it is: learned by the model's own word, else measured."""
    count, width = table.shape
    words = f"{count:,} positions × {width:,} dimensions: {_kind_words(width, waves)}"
    if model is not None and model.config.positions == "learned":
        words = (
            f"{count:,} positions × {width:,} dimensions, learned: parameters of the "
            "model, no formula; every figure is measured from the table. This is the "
            "source's table; the target has its own."
        )
    axis = model.config.position_axis if model is not None else "time"
    return " ".join(filter(None, (words, _AXIS_WORDS[axis])))


_AXIS_WORDS = {
    "time": "",
    "batch": "This layout adds row p to all tokens of the batch's sentence p, not to "
    "the token at pos p.",
    "restart": "Decoding step by step, this layout begins at pos 0 again each step.",
}


def _kind_words(width: int, waves: Waves) -> str:
    if waves == "none":
        return "not the paper's sinusoids; every figure is measured from the table."
    half = width // 2
    where = "dim 2i, cos in dim 2i+1"
    if waves == "halves":
        where = f"dim i, cos in dim {half}+i (halves: all sines first, i < {half})"
    return (
        f"the paper's sinusoids, sin(pos / 10000^(2i/{width})) in {where} "
        "(the model's table equals the formula)."
    )


def cell_words(
    table: Floats, trace: Trace | None, position: int, dimension: int
) -> str:
    """Say which number one cell of the table is, and which tokens stand there."""
    value = float(table[position, dimension])
    said = [position_words(position), *_tokens_at(trace, position)]
    return " · ".join([*said, f"{dimension_words(dimension)}: {number(value)}"])


def pair_words(picture: Matrix, likeness: Likeness, row: int, column: int) -> str:
    """Say which two positions one cell of the similarity map compares."""
    value = float(picture.values[row, column])
    pair = f"{picture.row_names[row]} and {picture.column_names[column]}"
    return f"{pair}: {likeness} {number(value)}"


def default_dimensions(width: int, waves: Waves) -> tuple[int, ...]:
    """Return a few dimensions from fast to slow: a sine, its cosine, slower sines."""
    dimensions = (0, 1, *(2 * (width // part // 2) for part in (16, 8, 4, 2)))
    if waves == "halves":
        dimensions = tuple(d // 2 + d % 2 * (width // 2) for d in dimensions)
    return tuple(sorted({d for d in dimensions if d < width}))


def dimensions_text(dimensions: tuple[int, ...]) -> str:
    """Return dimensions as they are typed."""
    return ", ".join(map(str, dimensions))


def parse_dimensions(text: str, width: int) -> tuple[int, ...]:
    """Read dimensions such as "0, 1, 8-11"; InputError says what is wrong, and where.

    Each is named once, in the order typed; at most MOST_CURVES of them.
    """
    dimensions: dict[int, None] = {}
    for part in filter(None, re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", text))):
        dimensions |= dict.fromkeys(_span(part, width))
        if len(dimensions) > MOST_CURVES:
            raise InputError(f"at most {MOST_CURVES} curves can be told apart.")
    if not dimensions:
        raise InputError("type dimensions, such as 0, 1, 8-11.")
    return tuple(dimensions)


def _span(part: str, width: int) -> range:
    """Read "8" or "8-11"; a range is checked before it is counted out."""
    match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
    if not match:
        raise InputError(f"“{part[:20]}” is no dimension: type such as 0, 1, 8-11.")
    low, high = int(match[1]), int(match[2] or match[1])
    if high < low:
        raise InputError(f"{part} runs backwards: type {high}-{low}.")
    if high >= width:
        raise InputError(f"there is no dim {high}: they are 0 to {width - 1}.")
    return range(low, high + 1)


def _curve_words(table: Floats, dimension: int, waves: Waves) -> str:
    width = table.shape[1]
    if waves == "none":
        return _measured_words(table, dimension)
    pair, cosine = dimension // 2 * 2, dimension % 2
    if waves == "halves":
        pair, cosine = dimension % (width // 2) * 2, dimension >= width // 2
    length = 2 * math.pi * 10_000 ** (pair / width)
    wave = "cos" if cosine else "sin"
    power = f"2π·10000^({pair}/{width})"
    named = f"{dimension_words(dimension)} ({wave})"
    return f"{named}: wavelength {power} = {length:,.1f} positions"


def _measured_words(table: Floats, dimension: int) -> str:
    column = table[:, dimension]
    finite = column[np.isfinite(column)]
    if not finite.size:
        return f"{dimension_words(dimension)}: no finite number in the table"
    return (
        f"{dimension_words(dimension)}: measured from the table, "
        f"{number(finite.min(), 3)} to {number(finite.max(), 3)}"
    )


def _tokens_at(trace: Trace | None, position: int) -> list[str]:
    """Name the tokens of a sentence that stand at a position."""
    if trace is None:
        return []
    sides = {"source": trace.source, "target": trace.target}
    return [
        f"{side} {token_words(visible(tokens[position]), position)}"
        for side, tokens in sides.items()
        if position < len(tokens)
    ]


def ends(reach: float) -> tuple[str, str]:
    return number(-reach), number(reach)


def _numbers(first: int, count: int) -> tuple[str, ...]:
    return tuple(map(str, range(first, first + count)))
