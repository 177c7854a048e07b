"""Pictures of the mask lab: a modified run beside the unchanged one, and leaks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from visformer.analysis.leaks import Leak, leaks
from visformer.pictures.attention.maps import labels, layer_and_head
from visformer.pictures.attention.weights import head_weights, row_weights
from visformer.pictures.masks import attends_to_nothing, mask_picture, nothing_words
from visformer.pictures.picture import Matrix, Numbers, signed_shade
from visformer.pictures.positions import ends
from visformer.pictures.selection import Selection
from visformer.text import visible
from visformer.values.facts import KINDS
from visformer.values.intervention import Causal, Cell, HideSource, Intervention
from visformer.values.trace import Trace
from visformer.words import (
    KIND_NAMES,
    count,
    head_words,
    layer_words,
    masked_value_text,
    number,
    token_words,
)

MOST_NAMED = 3  # leaks in words
TOP = 10  # candidates compared
NO_DIFFERENCE = "Alter the masks above: the difference to the untouched run comes here."


class Runs(NamedTuple):
    """The unchanged and the modified run, after the same number of steps."""

    baseline: Trace
    modified: Trace
    rows: int  # decoder rows that can be compared: both consumed the same tokens


def compare(baseline: Trace | None, modified: Trace | None) -> Runs | None:
    """Put two runs side by side; None where one is missing or nothing is modified.

    The unchanged one is cut to as many rows as the modified one has.
    """
    if baseline is None or modified is None or not modified.intervention:
        return None
    baseline = baseline.until(len(modified))
    pairs = zip(
        baseline.target_ids.tolist(), modified.target_ids.tolist(), strict=False
    )
    rows = next(
        (at for at, (one, other) in enumerate(pairs) if one != other),
        min(len(baseline), len(modified)),
    )
    return Runs(baseline, modified, rows)


def painted_layer(trace: Trace, selection: Selection, field: int | None) -> int:
    """Return the layer whose mask is painted: the field's, or else the focused one."""
    return (
        layer_and_head(trace, selection, selection.kind)[0] if field is None else field
    )


def paint_picture(
    trace: Trace | None, selection: Selection, field: int | None
) -> Matrix | None:
    """Return the mask that a click changes: of the focused kind, the field's layer."""
    if trace is None:
        return None
    kind, layer = selection.kind, painted_layer(trace, selection, field)
    picture = mask_picture(trace, kind, "combined", layer)
    title = f"{KIND_NAMES[kind]} mask, {layer_words(layer)}: click a cell to change it"
    return replace(picture, title=title)


def toggled(
    intervention: Intervention, baseline: Trace | None, change: Cell
) -> Intervention:
    """Return the intervention with a cell changed, or without a change needed no more.

    ``baseline``: the unchanged run, where it is known.
    """
    kept = intervention.without(change)
    if kept != intervention and _needless(baseline, kept, change):
        return kept
    return intervention.with_mask(change)


def turned(
    trace: Trace, selection: Selection, cell: tuple[int, int], field: int | None
) -> Cell:
    """Return the change that turns a cell of the focused kind over."""
    mask = trace.mask(selection.kind, painted_layer(trace, selection, field))
    return Cell(selection.kind, *cell, not bool(mask[cell]), field)


def _needless(baseline: Trace | None, kept: Intervention, change: Cell) -> bool:
    """Whether the cell is as wanted by the unchanged mask and the kept changes alone.

    A causal change is no such case: the unchanged run does not tell what it opens.
    """
    if baseline is None or any(isinstance(other, Causal) for other in kept.masks):
        return False
    kind, cell = change.kind, (change.query, change.key)
    every = range(baseline.layers(kind))
    for layer in every if change.layer is None else (change.layer,):
        original = baseline.mask(kind, layer)
        if cell[0] >= original.shape[0] or cell[1] >= original.shape[1]:
            return False
        if kept.mask(kind, layer, original, original)[cell] != change.allowed:
            return False
    return True


def causal_of(intervention: Intervention, layer: int | None) -> Causal | None:
    """Return the change of the causal mask in a layer's field; None for none."""
    changes = (c for c in intervention.masks if isinstance(c, Causal))
    return next((change for change in changes if change.layer == layer), None)


def hidden_of(intervention: Intervention, layer: int | None) -> frozenset[int]:
    """Return the source tokens that are hidden in a layer's field."""
    changes = (c for c in intervention.masks if isinstance(c, HideSource))
    return frozenset(change.token for change in changes if change.layer == layer)


def difference_picture(runs: Runs | None, selection: Selection) -> Matrix | None:
    """Return modified - unchanged weights of the focused head, where comparable."""
    if runs is None:
        return None
    kind, rows = selection.kind, runs.rows
    layer, head = layer_and_head(runs.modified, selection, kind)
    before = head_weights(runs.baseline, kind, layer, head)
    after = head_weights(runs.modified, kind, layer, head)
    if kind != "encoder":
        before, after = before[:rows], after[:rows]
        if kind == "decoder":
            before, after = before[:, :rows], after[:, :rows]
    values = after - before
    reach = float(np.nanmax(np.abs(values), initial=0)) or 1.0
    row_labels, columns = labels(runs.modified, kind)
    return Matrix(
        title=f"altered − untouched: {KIND_NAMES[kind]} · {head_words(layer, head)}",
        values=values,
        shade=signed_shade(values, reach),
        rows=row_labels[: len(values)],
        columns=columns[: values.shape[1]],
        row_axis="query (reads)",
        column_axis="key (is read)",
        ends=ends(reach),
        note="altered − untouched, linear",
        signed=True,
    )


def difference_words(runs: Runs | None) -> str:
    """Say which decoder rows cannot be compared; "" where all can."""
    if runs is None:
        return ""
    baseline, modified, rows = runs
    if rows == min(len(baseline), len(modified)):
        return ""
    before, after = visible(baseline.target[rows]), visible(modified.target[rows])
    return (
        f"From decoder row {rows + 1} on the runs read different tokens (“{before}” "
        f"untouched, “{after}” altered): attention is compared up to there, the next "
        "token's probabilities after different beginnings."
    )


def row_numbers(
    trace: Trace | None, runs: Runs | None, selection: Selection
) -> Numbers | None:
    """Return one row from score to weight, of the cell in focus or the last query."""
    if trace is None:
        return None
    kind = selection.kind
    query, keys = focused_query(trace, selection), trace.tokens(kind)[1]
    if query is None or not keys:
        return None
    layer, head = layer_and_head(trace, selection, kind)
    row = slice(query, query + 1)
    heads = trace.attention_heads(kind, layer, head)
    mask, value = heads.mask[query], trace.model.config.masked_value
    additive = np.where(mask, 0, value).astype(np.float32)
    rows = {
        "score": heads.scores(row)[0, 0],
        "mask": additive if value else mask.astype(np.float32),
        "masked score": heads.masked(row)[0, 0],
        "weight": row_weights(trace, kind, layer, head, row)[0],
    }
    if runs is not None and (kind == "encoder" or query < runs.rows):
        before = row_weights(runs.baseline, kind, layer, head, row)[0]
        padded = np.full(len(keys), np.nan, np.float32)
        padded[: len(before)] = before
        rows["untouched weight"] = padded
    return Numbers(
        rows=tuple(rows),
        columns=tuple(visible(token) for token in keys),
        values=np.stack(list(rows.values())).astype(np.float32),
        axis="key",
    )


def row_words(trace: Trace | None, selection: Selection) -> str:
    """Say which row the numbers are of, and how the mask comes in."""
    query = None if trace is None else focused_query(trace, selection)
    if trace is None or query is None:
        return "Nothing is decoded yet: there is no row."
    layer, head = layer_and_head(trace, selection, selection.kind)
    row = slice(query, query + 1)
    total = float(row_weights(trace, selection.kind, layer, head, row)[0].sum())
    value = trace.model.config.masked_value
    written = masked_value_text(value)
    how = (
        "score × mask: a hidden score becomes 0, and e⁰ = 1 still gets a weight"
        if value == 0
        else f"a hidden score is replaced by {written} before the softmax"
    )
    named = token_words(visible(trace.tokens(selection.kind)[0][query]), query)
    return f"Query {named}: {how}. The weights add up to {total:.4f}."


def focused_query(trace: Trace, selection: Selection) -> int | None:
    """Return the query of the cell in focus, or else the last one; None for none."""
    cell, queries = selection.cell, trace.tokens(selection.kind)[0]
    if cell is not None and cell.kind == selection.kind and cell.query < len(queries):
        return cell.query
    return len(queries) - 1 if queries else None


def candidate_numbers(runs: Runs | None) -> Numbers | None:
    """Compare the step's best tokens in both runs; NaN below the kept ones."""
    if runs is None or not 0 < len(runs.modified) == len(runs.baseline):
        return None
    before, after = runs.baseline.steps[-1], runs.modified.steps[-1]
    kept = [{c.id: c for c in step.candidates[:TOP]} for step in (after, before)]
    tokens = list((kept[0] | kept[1]).values())[:TOP]
    first, second = (
        {c.id: c.probability for c in s.candidates} for s in (before, after)
    )
    table = np.array(
        [[p.get(token.id, math.nan) for token in tokens] for p in (first, second)]
    )
    values = np.stack([*table, table[1] - table[0]]).astype(np.float32)
    return Numbers(
        rows=("untouched", "altered", "difference"),
        columns=tuple(visible(token.token) for token in tokens),
        values=values,
        axis="",
        by="all",
    )


def leak_words(trace: Trace | None) -> str:
    """Name the queries that see the future or a pad, the worst first."""
    if trace is None:
        return ""
    all_leaks = leaks(trace)
    if not all_leaks:
        return "No leak: no query reads a later token or a pad."
    named = " ".join(_leak_words(trace, leak) for leak in all_leaks[:MOST_NAMED])
    rest = (
        f" And {len(all_leaks) - MOST_NAMED:,} more."
        if len(all_leaks) > MOST_NAMED
        else ""
    )
    return f"{count(len(all_leaks), 'leak')}. {named}{rest}"


def empty_row_words(trace: Trace | None, head: int) -> str:
    """Name the queries that may attend to nothing; "" where there are none.

    Of each kind the first layer that has such queries, named where layers differ.
    """
    if trace is None:
        return ""
    words = []
    for kind in KINDS:
        layers = (
            layer
            for layer in range(trace.layers(kind))
            if attends_to_nothing(trace, kind, layer)
        )
        first = next(layers, None)
        if first is not None:
            differ = trace.masks[kind].ndim == 3
            where = f", {layer_words(first)}" if differ else ""
            said = nothing_words(trace, kind, first, head)
            words.append(f"{KIND_NAMES[kind]}{where}: {said}")
    return " ".join(words)


def batch_words(trace: Trace | None, head: int, *, modified: bool) -> str:
    """Return what is said of one row of a batch, besides its masks.

    ``modified``: changes are asked for, which a batch does not follow.
    """
    note = " A batch is run without the changes." if modified else ""
    said = leak_words(trace), empty_row_words(trace, head)
    return " ".join(filter(None, said)) + note


def _leak_words(trace: Trace, leak: Leak) -> str:
    queries, keys = trace.tokens(leak.kind)
    what = "the later token" if leak.what == "future" else "the pad"
    reader = token_words(visible(queries[leak.query]), leak.query)
    read = token_words(visible(keys[leak.key]), leak.key)
    return (
        f"{KIND_NAMES[leak.kind]}: {reader} reads {what} {read} with weight "
        f"{number(leak.weight, 3)} ({head_words(leak.layer, leak.head)})."
    )
