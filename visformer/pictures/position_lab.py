"""Pictures of the position lab: what an input is made of, and other encodings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from visformer.pictures.attention.maps import axes, labels
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.picture import Matrix, shade, signed_shade
from visformer.pictures.positions import ends, heat_picture
from visformer.pictures.selection import Selection
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.encodings import PASS_LOOKUP, STEP_LOOKUP
from visformer.values.facts import SentenceSide
from visformer.values.intervention import PositionChange, PositionForm
from visformer.values.modified_positions import change_table
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, head_words, number

FORMS: dict[PositionForm | None, str] = {  # as named on screen
    None: "the model's own",
    "interleaved": "sinusoids, sine and cosine in turn",
    "halves": "sinusoids, all sines first",
    "none": "none: zeros",
    "shifted": "shifted on by",
    "scaled": "scaled by",
    "permuted": "first positions shuffled",
    "constant": "all at pos",
}
AMOUNTS = ("shifted", "scaled", "permuted", "constant")  # forms that need a number
SAME_TEXT = "The text is the same."


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What the input of a stack is the sum of, for each token: float32 [T, D]."""

    embedding: Floats  # scaled, where the model scales it
    position: Floats
    input: Floats


def token_positions(trace: Trace, table: Floats, side: SentenceSide) -> Floats | None:
    """Return the encodings of a table [P, D] that a side's tokens were given, [T, D].

    None where they are not known: learned tables differ between the sides, and the
    window has the source's.
    """
    config = trace.model.config
    if side == "target" and config.positions == "learned":
        return None
    table = change_table(table, trace.intervention.positions)  # [P, D]
    count = len(trace.source if side == "source" else trace.target)
    stepped = not any(step.origin == "reference" for step in trace.steps)
    lookups = STEP_LOOKUP if side == "target" and stepped else PASS_LOOKUP
    rows = lookups[config.position_axis](table, 1, slice(count))  # [T, D] or [1, D]
    width = table.shape[1]
    return np.broadcast_to(rows.reshape(-1, width), (count, width))


def input_parts(trace: Trace, table: Floats, side: SentenceSide) -> Parts | None:
    """Return embedding, position and their sum; the embedding is the difference."""
    position = token_positions(trace, table, side)
    if position is None or not len(position):
        return None
    stack: Literal["encoder", "decoder"] = "encoder" if side == "source" else "decoder"
    whole = trace.hidden(stack, 0)
    return Parts(whole - position, position, whole)


def input_pictures(
    trace: Trace | None, table: Floats | None, side: SentenceSide
) -> tuple[Matrix, ...]:
    """Return the maps of embedding, position and input on one range of colours."""
    if trace is None or table is None:
        return ()
    parts = input_parts(trace, table, side)
    if parts is None:
        return ()
    tokens = trace.source if side == "source" else trace.target
    scaled = " × √d" if trace.model.config.embedding_scale else ""
    named = {
        f"embedding{scaled}": (parts.embedding, "input − position"),
        "+ position": (parts.position, "the table's rows"),
        "= input": (parts.input, "the model's own numbers"),
    }
    reach = float(max(np.abs(values).max() for values, _ in named.values())) or 1.0
    return tuple(
        Matrix(
            title=f"{title} [{len(values)}, {values.shape[1]}]",
            values=values,
            shade=signed_shade(values, reach),
            rows=tuple(visible(token) for token in tokens),
            columns=tuple(map(str, range(values.shape[1]))),
            row_axis=f"{side} token",
            column_axis="dimension (dim)",
            column_unit="dim",
            ends=ends(reach),
            note=f"{note}; linear, one range for all three",
            signed=True,
        )
        for title, (values, note) in named.items()
    )


def distance_products(
    table: Floats, position: int, reach: int
) -> tuple[Floats, Floats]:
    """Return distances -reach..reach and the dot products p(i) . p(i + distance).

    Distances that leave the table [P, D] are left out.
    """
    first, last = max(0, position - reach), min(len(table) - 1, position + reach)
    distance = np.arange(first - position, last - position + 1, dtype=np.float32)
    products: Floats = table[first : last + 1] @ table[position]  # [P']
    return distance, products


def change_of(
    form: PositionForm | None, amount: float, seed: int
) -> PositionChange | None:
    """Return the change that the lab's fields say; None for the model's own."""
    if form is None:
        return None
    used = form in ("shifted", "scaled", "permuted", "constant")
    return PositionChange(
        form, amount if used else 0.0, seed if form == "permuted" else 0
    )


def table_pictures(
    trace: Trace | None, table: Floats | None, change: PositionChange | None
) -> tuple[Matrix, ...]:
    """Return the model's own table and, where it is changed, the changed one.

    As many rows of the table [P, D] as the longer side of ``trace`` has tokens.
    """
    if table is None:
        return ()
    longest = max(len(trace.source), len(trace), 16) if trace is not None else 16
    last = min(longest, len(table)) - 1
    original = _retitled(heat_picture(table, 0, last), "the model's own positions")
    if change is None:
        return (original,)
    changed = heat_picture(change_table(table, change), 0, last)
    changed = replace(changed, note="linear")
    return original, _retitled(changed, f"changed: {change}")


def attention_pictures(
    trace: Trace | None, baseline: Trace | None, selection: Selection
) -> tuple[Matrix, ...]:
    """Return the focused head's map; before a modified run's that of the ``baseline``.

    The baseline is shown up to the same step, the run without the change.
    """
    if trace is None:
        return ()
    where = KIND_NAMES[selection.kind]
    where += f" · {head_words(selection.layer, selection.head)}"
    modified = bool(trace.intervention)
    runs = [("altered" if modified else "untouched", trace)]
    if baseline is not None and modified:
        runs.insert(0, ("untouched", baseline.until(len(trace))))
    return tuple(_attention(run, selection, f"{name}: {where}") for name, run in runs)


def _attention(trace: Trace, selection: Selection, title: str) -> Matrix:
    kind, layer, head = selection.kind, selection.layer, selection.head
    values = head_weights(trace, kind, layer, head)
    shades, bar, note = shade(values, selection.scale)
    rows, columns = labels(trace, kind)
    row_axis, column_axis = axes(trace, kind)
    return Matrix(
        title=title,
        values=values,
        shade=shades,
        rows=rows,
        columns=columns,
        row_axis=row_axis,
        column_axis=column_axis,
        ends=bar,
        note=note,
        masked=~trace.mask(kind, layer),
    )


def text_words(trace: Trace | None, baseline: Trace | None) -> str:
    """Return the text of a run, and of the baseline where that is another run."""
    if trace is None:
        return ""
    if not trace.intervention or baseline is None:
        return f"Untouched: {trace.text}"
    if baseline.text == trace.text:
        return f"Untouched and altered: {trace.text} {SAME_TEXT}"
    return f"Untouched: {baseline.text}\nAltered: {trace.text}"


# ---- a bag of words ----------------------------------------------------------------


def encoder_difference(
    baseline: Trace, shuffled: Trace, order: tuple[int, ...]
) -> float:
    """Return the largest difference of a token's encoder output, over all tokens.

    ``order``: where each token of the shuffled source stood.
    """
    moved = baseline.encoder_output[list(order)]
    return float(np.abs(shuffled.encoder_output - moved).max())


def output_difference(baseline: Trace, shuffled: Trace) -> float:
    """Return the largest difference of the decoder's output, over all its rows."""
    difference = np.abs(shuffled.decoder_output - baseline.decoder_output)
    return float(difference.max(initial=0))


BAG = 1e-3  # of the largest magnitude: above what another order of sums rounds apart


def shuffle_words(baseline: Trace, shuffled: Trace, order: tuple[int, ...]) -> str:
    """Say whether the source's own order and another are one bag to the model."""
    tokens = " ".join(visible(token) for token in shuffled.source)
    encoder = encoder_difference(baseline, shuffled, order)
    decoder = output_difference(baseline, shuffled)
    size = float(np.abs(baseline.encoder_output).max(initial=1.0))
    bag = max(encoder, decoder) <= BAG * max(1.0, size)
    changed = baseline.intervention
    how = f"under “{changed}”" if changed else "with the model's own positions"
    verdict = (
        "the outputs are the same, in another order: to the model the sentence is a "
        "bag of words."
        if bag
        else "the outputs differ: the model knows the order."
    )
    return (
        f"Shuffled, {how}: {tokens}. Largest difference of a token's encoder output "
        f"{number(encoder, 2)}, of the decoder's output {number(decoder, 2)} (largest "
        f"magnitude {number(size, 2)}): {verdict}"
    )


def _retitled(picture: Matrix, title: str) -> Matrix:
    return replace(picture, title=title)
