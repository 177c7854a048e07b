"""Pictures of two tables of a model: positional encodings, and embeddings."""

import math
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from visformer.errors import InputError
from visformer.language import N_, _, ngettext, sentences
from visformer.pictures.picture import (
    Label,
    Matrix,
    Numbers,
    largest,
    signed_shade,
)
from visformer.pictures.token_names import candidate, names, placed
from visformer.values.arrays import Floats
from visformer.values.config import PositionAxis
from visformer.values.encodings import sinusoid
from visformer.values.facts import ModelFacts, SentenceSide
from visformer.values.measured import NearWords
from visformer.values.pieces import marks_of
from visformer.values.trace import Trace
from visformer.words import dimension_words, number, position_words

Likeness = Literal["dot product", "cosine"]
Waves = Literal["interleaved", "halves", "none"]  # the layout of sines and cosines
LIKENESS_NAMES: dict[Likeness, str] = {  # translated when shown
    "dot product": N_("dot product"),
    "cosine": N_("cosine"),
}
LIKENESSES: dict[Likeness, str] = {  # as explained on screen, translated when shown
    "dot product": N_("dot product of two positions' encodings"),
    "cosine": N_("cosine: dot product divided by both lengths"),
}
FIRST_ROWS = 32  # positions shown at first; more for longer sentences
MOST_CURVES = 8  # curves that colour and dash can distinguish
MOST_COMPARED = 1024  # positions in the similarity map: a million cells
NOT_KNOWN = N_(
    "Embeddings are looked up in an open checkpoint; those of this run's model are not "
    "known."
)


def default_last(table: Floats | None, trace: Trace | None) -> int:
    """Return the last position of the range shown at first; -1 without a table."""
    if table is None:
        return -1
    longest = max(len(trace.source), len(trace)) if trace else 0
    return min(len(table), max(FIRST_ROWS, longest)) - 1


def heat_picture(table: Floats, first: int, last: int) -> Matrix:
    """Return rows ``first`` to ``last`` of a table [P, D]: position by dimension."""
    values = table[first : last + 1]
    reach = largest(table)
    return Matrix(
        title=_(
            "positional encodings, {first} to {last}",
            first=position_words(first),
            last=position_words(last),
        ),
        values=values,
        shade=signed_shade(values, reach),
        rows=_numbers(first, len(values)),
        columns=_numbers(0, table.shape[1]),
        row_axis=_("position (pos)"),
        column_axis=_("dimension (dim)"),
        row_unit=_("pos"),
        column_unit=_("dim"),
        ends=ends(reach),
        note=_("the model's own numbers, linear"),
        signed=True,
    )


def similarity_picture(
    table: Floats, first: int, last: int, *, likeness: Likeness
) -> Matrix:
    """Compare all pairs of positions in a range by dot product or cosine, [P', P']."""
    rows = table[first : min(last + 1, first + MOST_COMPARED)]
    values = similarity(rows, likeness)
    labels = _numbers(first, len(rows))
    note, shades, bar, signed = _similarity_colours(values, likeness)
    if len(rows) < last + 1 - first:
        note = _(
            "{scale}; the first {most:,} of the chosen positions",
            scale=note,
            most=MOST_COMPARED,
        )
    return Matrix(
        title=_(
            "similarity of positions: {measure}", measure=_(LIKENESS_NAMES[likeness])
        ),
        values=values,
        shade=shades,
        rows=labels,
        columns=labels,
        row_axis=_("position (pos)"),
        column_axis=_("position (pos)"),
        row_unit=_("pos"),
        column_unit=_("pos"),
        ends=bar,
        note=note,
        signed=signed,
    )


def _similarity_colours(
    values: Floats, likeness: Likeness
) -> tuple[str, Floats, tuple[str, str], bool]:
    """Return the scale in words, the shades, the bar's ends, and whether it is signed.

    Numbers of a single sign use all colours for their own range, which is then stated.
    """
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0, 0)
    if low * high > 0 and high > low:
        shades = ((values - low) / (high - low)).astype(np.float32)
        words = _("linear, from the smallest to the largest number here")
        return words, shades, (number(low), number(high)), False
    reach = 1.0 if likeness == "cosine" else largest(values)
    return _("linear"), signed_shade(values, reach), ends(reach), True


def similarity(rows: Floats, likeness: Likeness) -> Floats:
    """Compare rows [P, D] pairwise -> [P, P]; the cosine with a zero row is NaN."""
    products: Floats = rows @ rows.T  # [P', P']
    if likeness == "dot product":
        return products
    lengths = np.linalg.norm(rows, axis=1)  # [P']
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(products / np.outer(lengths, lengths), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One dimension of the table over the positions."""

    dimension: int
    positions: Floats  # [P']
    values: Floats  # [P']
    words: str  # description for the legend


def curves(
    table: Floats, dimensions: tuple[int, ...], first: int, last: int, *, waves: Waves
) -> tuple[Curve, ...]:
    """Return chosen dimensions of a table [P, D] over a range of positions.

    ``waves`` is the result of ``waves_of`` for the table.
    """
    rows = table[first : last + 1]
    positions = np.arange(first, first + len(rows), dtype=np.float32)
    return tuple(
        Curve(d, positions, rows[:, d], _curve_words(table, d, waves))
        for d in dimensions
    )


def waves_of(table: Floats) -> Waves:
    """Return how a table [P, D] arranges the paper's sinusoids, to float32 rounding."""
    # Two rows rule out most other tables without a sine for every cell.
    width = table.shape[1]
    for waves in ("interleaved", "halves"):
        if table.size and (waves == "interleaved" or not width % 2):
            paper = _paper_order(table, waves)
            if _equals_formula(paper[:2]) and _equals_formula(paper):
                return waves
    return "none"


def _paper_order(table: Floats, waves: Waves) -> Floats:
    """Return the columns in the paper's order; "halves" stores the sines first."""
    if waves != "halves":
        return table
    return table.reshape(len(table), 2, -1).swapaxes(1, 2).reshape(table.shape)


def _equals_formula(table: Floats) -> bool:
    # The rounding error of a float32 angle grows with the angle, so does the tolerance.
    tolerance = 2e-5 + 2e-6 * np.arange(len(table))[:, None]
    difference = np.abs(table - sinusoid(*table.shape))
    return bool((difference <= tolerance).all())


def has_table(table: Floats | None, model: ModelFacts | None) -> bool:
    """Whether there is a table and the model uses it."""
    known = model is not None and model.known is not None
    none = known and model is not None and model.config.positions == "none"
    return table is not None and table.size > 0 and not none


def nothing_words(model: ModelFacts | None) -> str:
    """Explain why there is no table of positions."""
    if model is not None and model.known is None:
        return _(
            "The positional encodings of “{model}” are not known: only its attention "
            "is.",
            model=model.name,
        )
    if model is not None and model.config.positions == "none":
        return _(
            "This model adds no positional encoding: its input does not say where a "
            "token is, so there is no table to show."
        )
    return _("There is no table of positions: no model is open yet.")


def table_words(table: Floats, *, waves: Waves, model: ModelFacts | None = None) -> str:
    """Describe the table: learned if the model says so, else as measured."""
    count, width = table.shape
    template = _TABLE_WORDS[waves]
    if model is not None and model.config.positions == "learned":
        template = _LEARNED
    words = _(template, count=count, width=width, half=width // 2)
    axis = model.config.position_axis if model is not None else "time"
    return words if axis == "time" else sentences((words, _(AXIS_WORDS[axis])))


_TABLE_WORDS: dict[Waves, str] = {
    "none": N_(
        "{count:,} positions × {width:,} dimensions: not the paper's sinusoids; every "
        "figure is measured from the table."
    ),
    "interleaved": N_(
        "{count:,} positions × {width:,} dimensions: the paper's sinusoids, "
        "sin(pos / 10000^(2i/{width})) in dim 2i, cos in dim 2i+1 (the model's table "
        "equals the formula)."
    ),
    "halves": N_(
        "{count:,} positions × {width:,} dimensions: the paper's sinusoids, sin(pos / "
        "10000^(2i/{width})) in dim i, cos in dim {half}+i (halves: all sines first, i "
        "< {half}; the model's table equals the formula)."
    ),
}
_LEARNED = N_(
    "{count:,} positions × {width:,} dimensions, learned: parameters of the model, no "
    "formula; every figure is measured from the table. This is the source's table; the "
    "target has its own."
)
AXIS_WORDS: dict[PositionAxis, str] = {  # translated when shown
    "time": N_("The row of pos p is added to the token at that position."),
    "batch": N_(
        "This layout adds row p to all tokens of the batch's sentence p, not to the "
        "token at pos p."
    ),
    "restart": N_(
        "Decoding step by step, this layout begins again at pos 0 at each step."
    ),
}


def cell_words(
    table: Floats, trace: Trace | None, position: int, dimension: int
) -> str:
    """Describe one cell of the table, and the tokens at its position."""
    value = _(
        "{dimension}: {value}",
        dimension=dimension_words(dimension),
        value=number(float(table[position, dimension])),
    )
    return " · ".join((position_words(position), *_tokens_at(trace, position), value))


def pair_words(picture: Matrix, likeness: Likeness, row: int, column: int) -> str:
    """Name the two positions that one cell of the similarity map compares."""
    return _(
        "{one} and {other}: {measure} {value}",
        one=picture.row_names[row],
        other=picture.column_names[column],
        measure=_(LIKENESS_NAMES[likeness]),
        value=number(float(picture.values[row, column])),
    )


def default_dimensions(width: int, waves: Waves) -> tuple[int, ...]:
    """Return a few dimensions from fast to slow: a sine, its cosine, slower sines."""
    dimensions = (0, 1, *(2 * (width // part // 2) for part in (16, 8, 4, 2)))
    if waves == "halves":
        dimensions = tuple(d // 2 + d % 2 * (width // 2) for d in dimensions)
    return tuple(sorted({d for d in dimensions if d < width}))


def dimensions_text(dimensions: tuple[int, ...]) -> str:
    """Return dimensions in the form in which they are typed."""
    return ", ".join(map(str, dimensions))


def parse_dimensions(text: str, width: int) -> tuple[int, ...]:
    """Parse dimensions such as "0, 1, 8-11"; InputError says what is wrong, and where.

    Duplicates are removed, the order is kept; at most MOST_CURVES are allowed.
    """
    dimensions: dict[int, None] = {}
    for part in filter(None, re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", text))):
        dimensions |= dict.fromkeys(_span(part, width))
        if len(dimensions) > MOST_CURVES:
            raise InputError(
                ngettext(
                    "At most {n} curve can be told apart.",
                    "At most {n} curves can be told apart.",
                    MOST_CURVES,
                )
            )
    if not dimensions:
        raise InputError("Type dimensions, for example, 0, 1, 8-11.")
    return tuple(dimensions)


def _span(part: str, width: int) -> range:
    """Parse "8" or "8-11"; large ranges are refused before they are expanded."""
    match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
    if not match:
        raise InputError(
            "“{text}” is not a dimension. Type, for example, 0, 1, 8-11.",
            text=part[:20],
        )
    low, high = int(match[1]), int(match[2] or match[1])
    if high < low:
        raise InputError(
            "{range} runs backwards: type {low}-{high}.", range=part, low=high, high=low
        )
    if high >= width:
        raise InputError(
            "There is no dim {dimension}: choose 0 to {last}.",
            dimension=high,
            last=width - 1,
        )
    return range(low, high + 1)


def _curve_words(table: Floats, dimension: int, waves: Waves) -> str:
    width = table.shape[1]
    if waves == "none":
        return _measured_words(table, dimension)
    pair, cosine = dimension // 2 * 2, dimension % 2
    if waves == "halves":
        pair, cosine = dimension % (width // 2) * 2, dimension >= width // 2
    return _(
        "{dimension} ({wave}): wavelength 2π·10000^({pair}/{width}) = {length:,.1f} "
        "positions",
        dimension=dimension_words(dimension),
        wave="cos" if cosine else "sin",
        pair=pair,
        width=width,
        length=2 * math.pi * 10_000 ** (pair / width),
    )


def _measured_words(table: Floats, dimension: int) -> str:
    column, name = table[:, dimension], dimension_words(dimension)
    finite = column[np.isfinite(column)]
    if not finite.size:
        return _("{dimension}: no finite number in the table", dimension=name)
    return _(
        "{dimension}: measured from the table, {low} to {high}",
        dimension=name,
        low=number(finite.min(), 3),
        high=number(finite.max(), 3),
    )


def _tokens_at(trace: Trace | None, position: int) -> list[str]:
    """Name the tokens of a sentence at a position."""
    if trace is None:
        return []
    named = []
    if position < len(trace.source):
        source = placed(trace, "source", position)
        named.append(_("source {token}", token=source))
    if position < len(trace.target):
        target = placed(trace, "target", position)
        named.append(_("target {token}", token=target))
    return named


def ends(reach: float) -> tuple[str, str]:
    return number(-reach), number(reach)


def _numbers(first: int, count: int) -> tuple[str, ...]:
    return tuple(map(str, range(first, first + count)))


# ---- the nearest tokens by their embeddings ----------------------------------------


def near_labels(near: NearWords | None) -> tuple[Label, ...]:
    """Return the labels of tokens: the one asked for, then its nearest."""
    tokens = () if near is None else near.tokens
    return tuple(candidate(token, marks_of(tokens)) for token in tokens)


def cosine_table(near: NearWords | None) -> Numbers | None:
    """Return the nearest tokens with their cosines, best first; None without any."""
    labels = near_labels(near)[1:]
    if near is None or not labels:
        return None
    values, full = near.cosines[1:, None], (1.0,) * len(labels)
    return Numbers(
        rows=labels, columns=(_("cosine"),), values=values, axis="", full=full
    )


def sentence_tokens(trace: Trace | None, side: SentenceSide) -> dict[int, str]:
    """Return the labels of a sentence's tokens by their ids."""
    if trace is None:
        return {}
    ids = trace.source_ids if side == "source" else trace.target_ids
    return dict(zip(ids.tolist(), names(trace, side), strict=True))


def near_words_text(near: NearWords | None) -> str:
    """Say what is listed."""
    if near is None:
        return _("Type a token, or choose one of the sentence.")
    return _(
        "“{token}” (id {id}): the {near} nearest of {size:,} tokens, by the cosine of "
        "their embeddings, {width} numbers each.",
        token=near_labels(near)[0],
        id=int(near.ids[0]),
        near=len(near.tokens) - 1,
        size=near.vocabulary,
        width=near.width,
    )
