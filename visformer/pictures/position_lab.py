"""Pictures of the position lab: the parts of an input, and other encodings."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from visformer.language import N_, _, sentences
from visformer.pictures.comparison import text_words
from visformer.pictures.picture import Matrix, Numbers, signed_shade
from visformer.pictures.positions import ends, heat_picture
from visformer.pictures.token_names import names
from visformer.pictures.words.absent import has_target
from visformer.values.arrays import Floats
from visformer.values.changes.position_change import (
    AMOUNTS,
    PositionChange,
    PositionForm,
    change_table,
)
from visformer.values.encodings import PASS_LOOKUP, STEP_LOOKUP
from visformer.values.facts import SentenceSide
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace
from visformer.words import number, position_words

MOST_LISTED = 100  # tokens with their ids
FORMS: dict[PositionForm | None, str] = {  # as named on screen, translated when shown
    None: N_("the model's own"),
    "interleaved": N_("sinusoids, sine and cosine alternating"),
    "halves": N_("sinusoids, all sines first"),
    "none": N_("none: zeros"),
    "shifted": N_("shifted by"),
    "scaled": N_("scaled by"),
    "permuted": N_("first positions shuffled"),
    "constant": N_("all at pos"),
}
TITLES = {  # of the three maps, translated when shown
    "embedding": N_("embedding [{rows}, {columns}]"),
    "scaled": N_("embedding × √d [{rows}, {columns}]"),
    "position": N_("+ position [{rows}, {columns}]"),
    "input": N_("= input [{rows}, {columns}]"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of a stack's input and their sum for each token: float32 [T, D]."""

    embedding: Floats  # including the model's scale
    position: Floats
    input: Floats


def token_positions(trace: Trace, table: Floats, side: SentenceSide) -> Floats | None:
    """Return the rows of a table [P, D] that a side's tokens received, [T, D].

    None if unknown: the window has only the source's table, and learned tables differ
    between the sides.
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
    """Return embedding, position and their sum; the embedding is sum - position."""
    stack: Literal["encoder", "decoder"] = "encoder" if side == "source" else "decoder"
    facts = trace.model.stacks.get(stack)
    if facts is None or not facts.hidden or trace.model.known is None:
        return None
    position = token_positions(trace, table, side)
    if position is None or not len(position):
        return None
    whole = trace.hidden(stack, 0)
    return Parts(whole - position, position, whole)


def input_pictures(
    trace: Trace | None, table: Floats | None, side: SentenceSide
) -> tuple[Matrix, ...]:
    """Return the maps of embedding, position and input in one colour range."""
    if trace is None or table is None:
        return ()
    parts = input_parts(trace, table, side)
    if parts is None:
        return ()
    axis = _("source token") if side == "source" else _("target token")
    embedding = "scaled" if trace.model.config.embedding_scale else "embedding"
    named = {
        embedding: (
            parts.embedding,
            _("linear, one range for all three; input − position"),
        ),
        "position": (
            parts.position,
            _("linear, one range for all three; the table's rows"),
        ),
        "input": (
            parts.input,
            _("linear, one range for all three; the model's own numbers"),
        ),
    }
    reach = float(max(np.abs(values).max() for values, _note in named.values())) or 1.0
    return tuple(
        Matrix(
            title=_(TITLES[part], rows=len(values), columns=values.shape[1]),
            values=values,
            shade=signed_shade(values, reach),
            rows=names(trace, side),
            columns=tuple(map(str, range(values.shape[1]))),
            row_axis=axis,
            column_axis=_("dimension (dim)"),
            column_unit=_("dim"),
            ends=ends(reach),
            note=note,
            signed=True,
        )
        for part, (values, note) in named.items()
    )


def id_words(trace: Trace | None, side: SentenceSide) -> str:
    """Write a side's tokens with their ids, as the embedding receives them.

    Of a long text the first ones: all would push the pictures out of sight.
    """
    if trace is None:
        return ""
    ids = trace.source_ids if side == "source" else trace.target_ids
    few = ids[:MOST_LISTED].tolist()
    pairs = zip(names(trace, side), few, strict=False)
    listed = "  ·  ".join(f"{token} {id}" for token, id in pairs)
    if more := len(ids) - len(few):
        listed = _("{tokens} … and {more:,} more", tokens=listed, more=more)
    return _("tokens → ids: {pairs}", pairs=listed)


def telling_position(trace: Trace, side: SentenceSide) -> int:
    """Return the position of a side's longest token, usually a word."""
    tokens = trace.source if side == "source" else trace.target
    return max(range(len(tokens)), key=lambda at: len(tokens[at]), default=0)


def position_numbers(
    pictures: tuple[Matrix, ...], trace: Trace, side: SentenceSide, position: int
) -> Numbers | None:
    """Return one token's row of every map as numbers."""
    if not pictures or position >= len(pictures[0].values):
        return None
    ids = trace.source_ids if side == "source" else trace.target_ids
    token, id = pictures[0].rows[position], int(ids[position])
    scaled = trace.model.config.embedding_scale
    name = _("embedding of “{token}” (id {id})", token=token, id=id)
    if scaled:
        name = _("√d · embedding of “{token}” (id {id})", token=token, id=id)
    added = _("+ encoding at {position}", position=position_words(position))
    values = np.stack([picture.values[position] for picture in pictures])
    return Numbers(
        rows=(name, added, _("= input")),
        columns=pictures[0].column_names,
        values=values,
        axis="model",
        by="all",
    )


def distance_products(
    table: Floats, position: int, reach: int
) -> tuple[Floats, Floats]:
    """Return distances -reach..reach and the dot products p(i) . p(i + distance).

    Distances beyond the ends of the table [P, D] are left out.
    """
    first, last = max(0, position - reach), min(len(table) - 1, position + reach)
    distance = np.arange(first - position, last - position + 1, dtype=np.float32)
    products: Floats = table[first : last + 1] @ table[position]  # [P']
    return distance, products


def change_of(
    form: PositionForm | None, amount: float, seed: int
) -> PositionChange | None:
    """Return the change set in the lab's fields; None for the model's own."""
    if form is None:
        return None
    used = amount if form in AMOUNTS else 0.0
    return PositionChange(form, used, seed if form == "permuted" else 0)


def table_pictures(
    trace: Trace | None, table: Floats | None, change: PositionChange | None
) -> tuple[Matrix, ...]:
    """Return the model's own table and, if changed, the changed one.

    They have as many rows of the table [P, D] as the longer side of ``trace``.
    """
    if table is None:
        return ()
    longest = max(len(trace.source), len(trace), 16) if trace is not None else 16
    last = min(longest, len(table)) - 1
    original = _retitled(heat_picture(table, 0, last), _("the model's own positions"))
    if change is None:
        return (original,)
    changed = heat_picture(change_table(table, change), 0, last)
    changed = replace(changed, note=_("linear"))
    return original, _retitled(changed, _("changed: {change}", change=change))


def result_words(trace: Trace | None, baseline: Trace | None) -> str:
    """Describe in one sentence how other positions change the translation.

    Only the text of the run if nothing is changed or the baseline is unknown.
    """
    if trace is None or (not trace.steps and not has_target(trace)):
        return ""
    change = trace.intervention.positions
    if change is None or baseline is None:
        return text_words(trace, baseline)
    fields = {
        "original": baseline.text,
        "modified": trace.text,
        "change": trace.intervention,
    }
    absent = trace.intervention == Intervention(PositionChange("none"))
    if baseline.text == trace.text:
        if absent:
            return _("Without positions the text stays “{modified}”.", **fields)
        return _("With {change} the text stays “{modified}”.", **fields)
    if absent:
        return _(
            "Without positions “{original}” becomes “{modified}”: nothing is added "
            "that says where each word stands.",
            **fields,
        )
    return _("With {change} “{original}” becomes “{modified}”.", **fields)


# ---- bag of words ------------------------------------------------------------------


def encoder_difference(
    baseline: Trace, shuffled: Trace, order: tuple[int, ...]
) -> float:
    """Return the largest difference in encoder output over all tokens.

    ``order`` holds the original position of each token of the shuffled source.
    """
    moved = baseline.encoder_output[list(order)]
    return float(np.abs(shuffled.encoder_output - moved).max())


def output_difference(baseline: Trace, shuffled: Trace) -> float:
    """Return the largest difference in decoder output over all rows."""
    difference = np.abs(shuffled.decoder_output - baseline.decoder_output)
    return float(difference.max(initial=0))


BAG = 1e-3  # relative to the largest magnitude: above the rounding of reordered sums


def shuffle_words(baseline: Trace, shuffled: Trace, order: tuple[int, ...]) -> str:
    """Say whether the order of the source matters to the model."""
    tokens = " ".join(names(shuffled, "source"))
    encoder = encoder_difference(baseline, shuffled, order)
    decoder = output_difference(baseline, shuffled)
    size = float(np.abs(baseline.encoder_output).max(initial=1.0))
    own = float(np.abs(baseline.decoder_output).max(initial=1.0))
    bag = encoder <= BAG * size and decoder <= BAG * own
    if baseline.intervention:
        how = _(
            "Shuffled, under “{changes}”: {tokens}.",
            changes=baseline.intervention,
            tokens=tokens,
        )
    else:
        how = _("Shuffled, with the model's own positions: {tokens}.", tokens=tokens)
    differences = _(
        "Largest difference: {encoder} in a token's encoder output, {decoder} in the "
        "decoder's output (largest magnitude {size}).",
        encoder=number(encoder, 2),
        decoder=number(decoder, 2),
        size=number(size, 2),
    )
    return sentences(
        (how, differences, _(_VERDICTS[_verdict(baseline, shuffled, bag)]))
    )


_VERDICTS = {
    "same": N_("It is the same sentence again, which says nothing about order."),
    "nan": N_("Outputs that are NaN say nothing about order."),
    "bag": N_(
        "The outputs are the same in another order: to the model the sentence is a bag "
        "of words."
    ),
    "cells": N_(
        "The outputs differ, but the run was changed at places where other words "
        "stand now: that says nothing about order."
    ),
    "order": N_("The outputs differ: the model knows the order."),
}


def _verdict(baseline: Trace, shuffled: Trace, bag: bool) -> str:
    """Say what follows for the order; ``bag`` means that the outputs agree."""
    if shuffled.source == baseline.source:
        return "same"
    if bag:
        return "bag"
    outputs = shuffled.encoder_output, shuffled.decoder_output
    if not all(np.isfinite(one).all() for one in outputs):
        return "nan"
    placed = any(change.tokens for change in baseline.intervention)
    return "cells" if placed else "order"


def _retitled(picture: Matrix, title: str) -> Matrix:
    return replace(picture, title=title)
