"""Two runs of one sentence side by side: maps, differences, next tokens, texts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from visformer.language import N_, _
from visformer.pictures.attention.maps import axes, border, labels, layer_and_head
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.masks import NO_CELLS
from visformer.pictures.picture import Matrix, Numbers, shade, signed_shade
from visformer.pictures.positions import ends
from visformer.pictures.selection import Selection
from visformer.pictures.token_names import candidate, marks, word
from visformer.pictures.words.absent import has_target, weights_words
from visformer.pictures.words.leak_words import leaking_cells
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, head_words

TOP = 10  # number of candidates compared
NO_DIFFERENCE = N_("Change a mask above to see the difference from the original run.")


class Runs(NamedTuple):
    """The original and the modified run, after the same number of steps."""

    baseline: Trace
    modified: Trace
    rows: int  # comparable decoder rows: both runs consumed the same tokens


def compare(baseline: Trace | None, modified: Trace | None) -> Runs | None:
    """Pair two runs; None if one is missing or nothing is modified.

    The original run is cut to the length of the modified one.
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


def attention_pictures(
    trace: Trace | None, baseline: Trace | None, selection: Selection
) -> tuple[Matrix, ...]:
    """Return the focused head's map; for a modified run, after that of the baseline.

    The ``baseline``, the run without the change, is shown up to the same step.
    """
    if trace is None:
        return ()
    fields = {
        "kind": _(KIND_NAMES[selection.kind]),
        "head": head_words(selection.layer, selection.head),
    }
    original = _("original: {kind} · {head}", **fields)
    if not trace.intervention:
        return (_attention(trace, selection, original),)
    shown = _attention(trace, selection, _("modified: {kind} · {head}", **fields))
    if baseline is None:
        return (shown,)
    return _attention(baseline.until(len(trace)), selection, original), shown


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
        note=note if values.size else _(NO_CELLS),
        masked=~trace.mask(kind, layer, head),
        done=weights_words(trace, kind, range(layer, layer + 1)),
        border=border(trace, kind),
        row_role="query",
        column_role="key",
    )


def compared_pictures(
    trace: Trace | None, baseline: Trace | None, selection: Selection
) -> tuple[Matrix, ...]:
    """Return the focused head's map with leaks highlighted, then the baseline's."""
    pictures = attention_pictures(trace, baseline, selection)
    if trace is None:
        return pictures
    where = selection.kind, selection.layer, selection.head
    return (replace(pictures[-1], alarms=leaking_cells(trace, *where)), *pictures[:-1])


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


def candidate_numbers(
    runs: Runs | None, names: tuple[str, str] | None = None
) -> Numbers | None:
    """Compare the step's best tokens in both runs; ``names``: what these are called.

    Tokens are compared as their vocabularies write them.
    """
    if runs is None or not 0 < len(runs.modified) == len(runs.baseline):
        return None
    if not (runs.baseline.steps and runs.modified.steps):
        return None
    before, after = runs.baseline.steps[-1], runs.modified.steps[-1]
    how = marks(runs.modified, "target")
    first, second = (
        {c.token: c.probability for c in s.candidates} for s in (before, after)
    )
    likely = {t: max(second.get(t, 0), first.get(t, 0)) for t in second | first}
    tokens = sorted(likely, key=lambda token: -likely[token])[:TOP]
    table = np.array(
        [[p.get(token, math.nan) for token in tokens] for p in (first, second)]
    )
    kept = np.array([[token in p for token in tokens] for p in (first, second)])
    values = np.stack([*table, table[1] - table[0]]).astype(np.float32)
    return Numbers(
        rows=(*(names or (_("original"), _("modified"))), _("difference")),
        columns=tuple(candidate(token, how) for token in tokens),
        values=values,
        axis="",
        by="all",
        kept=np.stack([*kept, kept[0] & kept[1]]),
    )


def text_words(trace: Trace | None, baseline: Trace | None) -> str:
    """Return the text of a run, and of its baseline if the run is modified."""
    if trace is None or (not trace.steps and not has_target(trace)):
        return ""
    if not trace.intervention or baseline is None:
        return _("Original: {text}", text=trace.text)
    if baseline.text == trace.text:
        return _("Original and modified, the same text: {text}", text=trace.text)
    return _(
        "Original: {original}\nModified: {modified}",
        original=baseline.text,
        modified=trace.text,
    )
