"""Pictures of the mask lab: a modified run beside the original run, and leaks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from visformer.language import N_, _
from visformer.pictures.attention.maps import axes, labels, layer_and_head
from visformer.pictures.attention.weights import head_weights, row_weights
from visformer.pictures.picture import Matrix, Numbers, signed_shade
from visformer.pictures.position_lab import attention_pictures
from visformer.pictures.positions import ends
from visformer.pictures.selection import Selection
from visformer.pictures.token_names import candidate, marks, names, row_placed, word
from visformer.pictures.words.leak_words import leaking_cells, mask_and_leaks
from visformer.values.changes.causal import Causal
from visformer.values.changes.cell import Cell
from visformer.values.facts import SIDES
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace
from visformer.words import (
    KIND_NAMES,
    decimals,
    head_words,
    layer_words,
    masked_value_text,
)

TOP = 10  # candidates compared
NO_DIFFERENCE = N_("Change a mask above to see the difference from the original run.")


class Runs(NamedTuple):
    """The original and the modified run, after the same number of steps."""

    baseline: Trace
    modified: Trace
    rows: int  # decoder rows that can be compared: both consumed the same tokens


def compare(baseline: Trace | None, modified: Trace | None) -> Runs | None:
    """Put two runs side by side; None if one is missing or nothing is modified.

    The original run is cut to as many rows as the modified one has.
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
    """Return the layer whose mask is painted: the field's, or the focused one."""
    return (
        layer_and_head(trace, selection, selection.kind)[0] if field is None else field
    )


def paint_picture(
    trace: Trace | None,
    selection: Selection,
    field: int | None,
    *,
    fixed: bool = False,
) -> Matrix | None:
    """Return the mask that a click changes: the focused kind, the field's layer.

    ``fixed``: nothing can be changed.
    """
    if trace is None:
        return None
    kind, layer = selection.kind, painted_layer(trace, selection, field)
    picture = mask_and_leaks(trace, kind, "combined", layer)
    title = _(
        "{kind} mask, {layer}: click a cell to change it",
        kind=_(KIND_NAMES[kind]),
        layer=layer_words(layer),
    )
    return picture if fixed else replace(picture, title=title)


def toggled(
    intervention: Intervention, baseline: Trace | None, change: Cell
) -> Intervention:
    """Return the intervention with a cell changed, or without a change now needless.

    ``baseline``: the original run, if it is known.
    """
    kept = intervention.without(change)
    if kept != intervention and _needless(baseline, kept, change):
        return kept
    return intervention.with_change(change)


def turned(
    trace: Trace, selection: Selection, cell: tuple[int, int], field: int | None
) -> Cell:
    """Return the change that flips a cell of the focused kind."""
    mask = trace.mask(selection.kind, painted_layer(trace, selection, field))
    return Cell(selection.kind, *cell, not bool(mask[cell]), field)


def _needless(baseline: Trace | None, kept: Intervention, change: Cell) -> bool:
    """Whether the original mask and the kept changes already give the wanted value.

    Not with a causal change: the original run does not say what it opens.
    """
    if baseline is None or kept.of(Causal):
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


def difference_picture(runs: Runs | None, selection: Selection) -> Matrix | None:
    """Return modified - original weights of the focused head, where comparable."""
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
        title=_(
            "modified − original: {kind} · {head}",
            kind=_(KIND_NAMES[kind]),
            head=head_words(layer, head),
        ),
        values=values,
        shade=signed_shade(values, reach),
        rows=row_labels[: len(values)],
        columns=columns[: values.shape[1]],
        row_axis=axes(runs.modified, kind)[0],
        column_axis=axes(runs.modified, kind)[1],
        ends=ends(reach),
        note=_("modified − original, linear"),
        row_role="query",
        column_role="key",
        signed=True,
    )


def difference_words(runs: Runs | None) -> str:
    """Say which decoder rows cannot be compared; "" if all can."""
    if runs is None:
        return ""
    baseline, modified, rows = runs
    if rows == min(len(baseline), len(modified)):
        return ""
    return _(
        "From decoder row {row} on, the runs read different tokens (“{original}” "
        "originally, “{modified}” in the modified run). Attention is compared up to "
        "there; the next token's probabilities follow different beginnings.",
        row=rows + 1,
        original=word(baseline, "target", rows),
        modified=word(modified, "target", rows),
    )


def row_numbers(
    trace: Trace | None, runs: Runs | None, selection: Selection
) -> Numbers | None:
    """Return one row from score to weight: of the cell in focus, or the last query."""
    if trace is None:
        return None
    kind = selection.kind
    query, keys = focused_query(trace, selection), trace.tokens(kind)[1]
    if query is None or not keys:
        return None
    layer, head = layer_and_head(trace, selection, kind)
    row = slice(query, query + 1)
    heads = trace.attention_heads(kind, layer, head)
    mask = heads.mask[query]
    rows = {
        _("score"): heads.scores(row)[0, 0],
        _("may attend"): mask.astype(np.float32),
        _("masked score"): heads.masked(row)[0, 0],
        _("weight"): row_weights(trace, kind, layer, head, row)[0],
    }
    if runs is not None and (kind == "encoder" or query < runs.rows):
        before = row_weights(runs.baseline, kind, layer, head, row)[0]
        padded = np.full(len(keys), np.nan, np.float32)
        padded[: len(before)] = before
        rows[_("original weight")] = padded
    return Numbers(
        rows=tuple(rows),
        columns=names(trace, SIDES[kind][1]),
        values=np.stack(list(rows.values())).astype(np.float32),
        axis="key",
        flags=(1,),
    )


def row_words(trace: Trace | None, selection: Selection) -> str:
    """Say which row the numbers belong to, and how the mask is applied."""
    query = None if trace is None else focused_query(trace, selection)
    if trace is None or query is None:
        return _("Nothing is decoded yet: there is no row.")
    layer, head = layer_and_head(trace, selection, selection.kind)
    row = slice(query, query + 1)
    total = float(row_weights(trace, selection.kind, layer, head, row)[0].sum())
    value = trace.model.attention[selection.kind].masked_value
    fields = {
        "query": row_placed(trace, selection.kind, query),
        "total": decimals(total),
    }
    if value == 0:
        return _(
            "Query {query}: score × mask makes a hidden score 0, and e⁰ = 1 still gets "
            "a weight. The weights add up to {total}.",
            **fields,
        )
    return _(
        "Query {query}: a hidden score is replaced by {value} before the softmax. The "
        "weights add up to {total}.",
        value=masked_value_text(value),
        **fields,
    )


def focused_query(trace: Trace, selection: Selection) -> int | None:
    """Return the query of the cell in focus, or else the last one, if any."""
    cell, queries = selection.cell, trace.tokens(selection.kind)[0]
    if cell is not None and cell.kind == selection.kind and cell.query < len(queries):
        return cell.query
    return len(queries) - 1 if queries else None


def candidate_numbers(runs: Runs | None) -> Numbers | None:
    """Compare the step's best tokens in both runs."""
    if runs is None or not 0 < len(runs.modified) == len(runs.baseline):
        return None
    before, after = runs.baseline.steps[-1], runs.modified.steps[-1]
    how = marks(runs.modified, "target")
    best = [{c.id: c for c in step.candidates[:TOP]} for step in (after, before)]
    tokens = list((best[0] | best[1]).values())[:TOP]
    first, second = (
        {c.id: c.probability for c in s.candidates} for s in (before, after)
    )
    table = np.array(
        [[p.get(token.id, math.nan) for token in tokens] for p in (first, second)]
    )
    kept = np.array([[token.id in p for token in tokens] for p in (first, second)])
    values = np.stack([*table, table[1] - table[0]]).astype(np.float32)
    return Numbers(
        rows=(_("original"), _("modified"), _("difference")),
        columns=tuple(candidate(token.token, how) for token in tokens),
        values=values,
        axis="",
        by="all",
        kept=np.stack([*kept, kept[0] & kept[1]]),
    )


def compared_pictures(
    trace: Trace | None, baseline: Trace | None, selection: Selection
) -> tuple[Matrix, ...]:
    """Return the focused head's map with what leaks painted, then the baseline's."""
    pictures = attention_pictures(trace, baseline, selection)
    if trace is None:
        return pictures
    where = selection.kind, selection.layer, selection.head
    return (
        replace(pictures[-1], alarms=leaking_cells(trace, *where)),
        *pictures[:-1],
    )
