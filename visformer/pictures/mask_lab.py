"""Pictures of the mask lab: the altered run beside the untouched one, and its leaks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from visformer.analysis.leaks import Leak, leaks
from visformer.pictures.attention.maps import labels, place
from visformer.pictures.masks import (
    attends_to_nothing,
    fill_text,
    mask_picture,
    nothing_words,
)
from visformer.pictures.picture import Matrix, Numbers
from visformer.pictures.positions import diverging, ends
from visformer.session.state import State
from visformer.text import visible
from visformer.values.facts import KINDS
from visformer.values.intervention import Causal, Cell, HideSource, Intervention
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, count, head_words, layer_words, token_words

MOST_NAMED = 3  # leaks in words
TOP = 10  # candidates compared
NO_DIFFERENCE = "Alter the masks above: the difference to the untouched run comes here."


def painted_layer(state: State, layer: int | None) -> int:
    """Return the layer whose mask is painted: the field's, or else the focused one."""
    return place(state, state.kind)[0] if layer is None else layer


def paint_picture(state: State, field: int | None = None) -> Matrix | None:
    """Return the mask that a click changes: of the focused kind, the field's layer."""
    trace = state.shown
    if trace is None:
        return None
    layer = painted_layer(state, field)
    picture = mask_picture(trace, state.kind, "combined", layer)
    title = (
        f"{KIND_NAMES[state.kind]} mask, {layer_words(layer)}: "
        "click a cell to change it"
    )
    return replace(picture, title=title)


def toggled(state: State, query: int, key: int, layer: int | None) -> Intervention:
    """Return the intervention with one cell of the focused kind turned over."""
    if state.shown is None:
        return state.intervention
    mask = state.shown.mask(state.kind, painted_layer(state, layer))
    change = Cell(state.kind, query, key, not bool(mask[query, key]), layer)
    kept = state.intervention.without(change)
    if kept != state.intervention and _needless(state.plain, kept, change):
        return kept
    return state.intervention.with_mask(change)


def _needless(plain: Trace | None, kept: Intervention, change: Cell) -> bool:
    """Whether the cell is as wanted by the untouched mask and the kept changes alone.

    A causal change is no such case: the untouched run does not tell what it opens.
    """
    if plain is None or any(isinstance(other, Causal) for other in kept.masks):
        return False
    kind, cell = change.kind, (change.query, change.key)
    every = range(plain.layers(kind))
    for layer in every if change.layer is None else (change.layer,):
        own = plain.mask(kind, layer)
        if cell[0] >= own.shape[0] or cell[1] >= own.shape[1]:
            return False
        if kept.mask(kind, layer, own, own)[cell] != change.allowed:
            return False
    return True


def causal_of(intervention: Intervention, layer: int | None) -> Causal | None:
    """Return the change of the causal mask in a layer's field; None for none."""
    found = (c for c in intervention.masks if isinstance(c, Causal))
    return next((change for change in found if change.layer == layer), None)


def hidden_of(intervention: Intervention, layer: int | None) -> frozenset[int]:
    """Return the source tokens that are hidden in a layer's field."""
    found = (c for c in intervention.masks if isinstance(c, HideSource))
    return frozenset(change.token for change in found if change.layer == layer)


def compared(state: State) -> tuple[Trace, Trace, int] | None:
    """Return untouched and altered run, and how many decoder rows can be compared.

    A row can where both runs consumed the same tokens up to it.
    """
    if state.plain is None or state.shown is None or not state.shown.intervention:
        return None
    plain, altered = state.plain.until(state.step), state.shown
    pairs = zip(plain.target_ids.tolist(), altered.target_ids.tolist(), strict=False)
    rows = next(
        (at for at, (one, other) in enumerate(pairs) if one != other),
        min(len(plain), len(altered)),
    )
    return plain, altered, rows


def difference_picture(state: State) -> Matrix | None:
    """Return altered - untouched weights of the focused head, where comparable."""
    runs = compared(state)
    if runs is None:
        return None
    plain, altered, rows = runs
    kind, (layer, head) = state.kind, place(state, state.kind)
    before = plain.attention(kind, layer, head)
    after = altered.attention(kind, layer, head)
    if kind != "encoder":
        before, after = before[:rows], after[:rows]
        if kind == "decoder":
            before, after = before[:, :rows], after[:, :rows]
    values = after - before
    reach = float(np.nanmax(np.abs(values), initial=0)) or 1.0
    row_labels, columns = labels(altered, kind)
    return Matrix(
        title=f"altered − untouched: {KIND_NAMES[kind]} · {head_words(layer, head)}",
        values=values,
        shade=diverging(values, reach),
        rows=row_labels[: len(values)],
        columns=columns[: values.shape[1]],
        row_axis="query (reads)",
        column_axis="key (is read)",
        ends=ends(reach),
        note="altered − untouched, linear",
        signed=True,
    )


def difference_words(state: State) -> str:
    """Say which decoder rows cannot be compared; "" where all can."""
    runs = compared(state)
    if runs is None:
        return ""
    plain, altered, rows = runs
    if rows == min(len(plain), len(altered)):
        return ""
    before, after = visible(plain.target[rows]), visible(altered.target[rows])
    return (
        f"From decoder row {rows + 1} on the runs read different tokens (“{before}” "
        f"untouched, “{after}” altered): attention is compared up to there, the next "
        "token's probabilities after different beginnings."
    )


def row_numbers(state: State) -> Numbers | None:
    """Return one row from score to weight, of the cell in focus or the last query."""
    trace = state.shown
    if trace is None:
        return None
    kind, (layer, head) = state.kind, place(state, state.kind)
    queries, keys = trace.tokens(kind)
    if not queries or not keys:
        return None
    query = focused_query(state, len(queries))
    fill = trace.model.config.masked_value
    scores = trace.scores(kind, layer, head)[query]
    mask = trace.mask(kind, layer)[query]
    additive = np.where(mask, 0, fill).astype(np.float32)
    masked = np.where(mask, scores, np.float32(fill))
    rows = {"score": scores, "mask": additive, "masked score": masked}
    if fill == 0:
        rows["mask"] = mask.astype(np.float32)
    rows["weight"] = trace.attention(kind, layer, head)[query]
    runs = compared(state)
    if runs is not None and (kind == "encoder" or query < runs[2]):
        before = runs[0].attention(kind, layer, head)[query]
        padded = np.full(len(keys), np.nan, np.float32)
        padded[: len(before)] = before
        rows["untouched weight"] = padded
    return Numbers(
        rows=tuple(rows),
        columns=tuple(visible(token) for token in keys),
        values=np.stack(list(rows.values())).astype(np.float32),
        axis="key",
    )


def row_words(state: State) -> str:
    """Say which row the numbers are of, and how the mask comes in."""
    trace = state.shown
    if trace is None or not trace.tokens(state.kind)[0]:
        return "Nothing is decoded yet: there is no row."
    layer, head = place(state, state.kind)
    queries = trace.tokens(state.kind)[0]
    query = focused_query(state, len(queries))
    total = float(trace.attention(state.kind, layer, head)[query].sum())
    fill = trace.model.config.masked_value
    how = (
        "score × mask: a hidden score becomes 0, and e⁰ = 1 still gets a weight"
        if fill == 0
        else f"a hidden score is replaced by {fill_text(fill)} before the softmax"
    )
    named = token_words(visible(queries[query]), query)
    return f"Query {named}: {how}. The weights add up to {total:.4f}."


def focused_query(state: State, count: int) -> int:
    """Return the query of the cell in focus, or else the last one."""
    cell = state.cell
    if cell is not None and cell.kind == state.kind and cell.query < count:
        return cell.query
    return count - 1


def candidate_numbers(state: State) -> Numbers | None:
    """Compare the step's best tokens in both runs; NaN below the kept ones."""
    runs = compared(state)
    if runs is None or not 0 < state.step <= min(len(runs[0]), len(runs[1])):
        return None
    plain, altered, _ = runs
    before, after = plain.steps[state.step - 1], altered.steps[state.step - 1]
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
    found = leaks(trace)
    if not found:
        return "No leak: no query reads a later token or a pad."
    named = " ".join(_leak_words(trace, leak) for leak in found[:MOST_NAMED])
    rest = f" And {len(found) - MOST_NAMED:,} more." if len(found) > MOST_NAMED else ""
    return f"{count(len(found), 'leak')}. {named}{rest}"


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


def batch_words(trace: Trace | None, head: int, *, altered: bool) -> str:
    """Return what is said of one row of a batch, besides its masks.

    ``altered``: changes are asked for, which a batch does not follow.
    """
    plain = " A batch is run without the changes." if altered else ""
    said = leak_words(trace), empty_row_words(trace, head)
    return " ".join(filter(None, said)) + plain


def _leak_words(trace: Trace, leak: Leak) -> str:
    queries, keys = trace.tokens(leak.kind)
    what = "the later token" if leak.what == "future" else "the pad"
    reader = token_words(visible(queries[leak.query]), leak.query)
    read = token_words(visible(keys[leak.key]), leak.key)
    return (
        f"{KIND_NAMES[leak.kind]}: {reader} reads {what} {read} with weight "
        f"{leak.weight:.3g} ({head_words(leak.layer, leak.head)})."
    )
