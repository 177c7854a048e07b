"""Pictures of the mask lab: the mask that is changed, and one row of the run."""

from dataclasses import replace

import numpy as np

from visformer.language import _
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.weights import query_weights
from visformer.pictures.comparison import Runs
from visformer.pictures.picture import Matrix, Numbers
from visformer.pictures.selection import Selection
from visformer.pictures.token_names import names, row_placed
from visformer.pictures.words.leak_words import mask_and_leaks
from visformer.values.changes.mask_changes import Causal, Cell
from visformer.values.facts import SIDES
from visformer.values.intervention import Intervention
from visformer.values.reading_order import as_read
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, decimals, layer_words, masked_value_text


def painted_layer(trace: Trace, selection: Selection, field: int | None) -> int:
    """Return the layer whose mask is shown: the field's, or the focused one."""
    return (
        layer_and_head(trace, selection, selection.kind)[0] if field is None else field
    )


def paint_picture(
    trace: Trace | None, selection: Selection, field: int | None, *, fixed: bool = False
) -> Matrix | None:
    """Return the mask that a click changes: the focused kind, in the field's layer.

    ``fixed`` means that nothing can be changed.
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
    """Return the intervention with a cell changed, or without a needless change.

    ``baseline`` is the original run, if known.
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
    """Whether the original mask and the other changes already give the wanted value.

    Never with a causal change, whose effect the original run does not show.
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


def row_numbers(
    trace: Trace | None, runs: Runs | None, selection: Selection
) -> Numbers | None:
    """Return one row from score to weight: the row in focus, or the last query."""
    if trace is None:
        return None
    kind = selection.kind
    query = focused_query(trace, selection)
    if query is None or not trace.tokens(kind)[1]:
        return None
    layer, head = layer_and_head(trace, selection, kind)
    trace = as_read(trace, kind, [layer])
    keys, row = trace.tokens(kind)[1], slice(query, query + 1)
    heads = trace.attention_heads(kind, layer, head)
    mask = heads.mask[query]
    rows = {
        _("score"): heads.scores(row)[0, 0],
        _("may attend"): mask.astype(np.float32),
        _("masked score"): heads.masked(row)[0, 0],
        _("weight"): query_weights(trace, kind, layer, head, query),
    }
    if runs is not None and (kind == "encoder" or query < runs.rows):
        before = query_weights(runs.baseline, kind, layer, head, query)
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
    trace = as_read(trace, selection.kind, [layer])
    total = float(query_weights(trace, selection.kind, layer, head, query).sum())
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
    """Return the query of the cell in focus, else the last one, if any."""
    cell, queries = selection.cell, trace.tokens(selection.kind)[0]
    if cell is not None and cell.kind == selection.kind and cell.query < len(queries):
        return cell.query
    return len(queries) - 1 if queries else None
