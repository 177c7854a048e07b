"""Two runs of one sentence side by side: maps, differences, grids of heads, and words.

Runs are called by their names; the second is the one on screen.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from visformer.analysis.run_comparison import (
    SAME_BITS,
    SAME_LOG_P,
    ReferenceToken,
    TokenAlignment,
    aligned_weights,
    head_divergences,
    with_heads,
)
from visformer.analysis.run_comparison import By as By
from visformer.analysis.run_comparison import Group as Group
from visformer.analysis.run_comparison import RunComparison as RunComparison
from visformer.analysis.run_comparison import align_sources as align_sources
from visformer.analysis.run_comparison import pair as pair
from visformer.language import N_, _, ngettext
from visformer.pictures.attention.maps import (
    BothLabels,
    axes,
    border,
    labels,
    layer_and_head,
)
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.masks import NO_CELLS
from visformer.pictures.picture import (
    Label,
    Matrix,
    Numbers,
    largest,
    shade,
    signed_shade,
)
from visformer.pictures.positions import ends
from visformer.pictures.selection import Selection
from visformer.pictures.token_names import candidate, marks, word, writes
from visformer.pictures.words.absent import has_target, weights_words
from visformer.pictures.words.leak_words import leaking_cells
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.facts import KINDS, SIDES, Kind
from visformer.values.pieces import running_text
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, decimals, head_words, number, probability

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


SAME_WEIGHT = 1e-6  # by which weights may differ by rounding
LONGEST = 60  # characters of a name, or of what a run wrote, in a sentence


def comparing(
    found: RunComparison, traces: tuple[Trace, Trace]
) -> Iterator[RunComparison]:
    """Yield a comparison with the heads of more and more layers."""
    rows: dict[Kind, list[Floats]] = {}
    for kind, _layer, heads in head_divergences(found, *traces):
        if heads is not None:
            rows.setdefault(kind, []).append(heads)
        yield with_heads(found, rows)


def log_p_differs(found: RunComparison) -> bool:
    """Whether log p of a token differs, or is not known in one of the runs."""
    gaps = [abs(a - b) for a, b in (token.log_p for token in found.reference)]
    return any(not gap <= SAME_LOG_P for gap in gaps)


def heads_differ(found: RunComparison) -> bool:
    """Whether any head differs, or may: some are not compared yet."""
    whole = all(len(found.divergences.get(kind, ())) for kind in found.sizes)
    return not whole or not all(map(found.same_heads, found.divergences))


def next_differs(found: RunComparison) -> bool:
    """Whether the next tokens' distributions differ at a step, or the runs part."""
    same = all(step.divergence <= SAME_BITS for step in found.steps)
    return found.parted is not None or not same


def comparison_words(found: RunComparison) -> list[str]:
    """Say in sentences how two runs differ, and what cannot be compared."""
    if found.equal:
        return [_("The runs are equal, but for rounding: tokens, weights and log p.")]
    said = [parted_words(found), reference_words(found)]
    said += [head_line(found, kind) for kind in found.divergences]
    return [sentence for sentence in (*said, *lacking_words(found)) if sentence]


def parted_words(found: RunComparison) -> str:
    """Say at which step the runs part; "" where no token is known of one."""
    one, other = (visible(name)[:LONGEST] for name in found.names)
    if not found.steps:
        return ""
    if found.parted is None:
        if found.texts[0] == found.texts[1]:
            return _("“{one}” and “{other}” write the same.", one=one, other=other)
        return _(
            "“{one}” and “{other}” write the same as far as the shorter one goes.",
            one=one,
            other=other,
        )
    last = found.steps[-1]
    tokens = [_piece([token]) for token in last.tokens]
    if found.parted[0] == found.parted[1]:
        return _(
            "They part at step {step}: “{one}” writes “{token}”, “{other}” writes "
            "“{instead}”.",
            step=found.parted[0] + 1,
            one=one,
            other=other,
            token=tokens[0],
            instead=tokens[1],
        )
    return _(
        "They part at step {step} of “{one}”, which writes “{token}”, and step {there} "
        "of “{other}”, which writes “{instead}”.",
        step=found.parted[0] + 1,
        there=found.parted[1] + 1,
        one=one,
        other=other,
        token=tokens[0],
        instead=tokens[1],
    )


def step_words(found: RunComparison, step: int) -> str:
    """Say how likely both find the token that they write at a step of the second."""
    for both in found.steps:
        if both.steps[1] + 1 == step and both.tokens[0] == both.tokens[1]:
            one, other = (probability(math.exp(log_p)) for log_p in both.log_p)
            token = _piece(both.tokens[1:])
            return _(
                "“{token}”: p {one} and {other}.", token=token, one=one, other=other
            )
    return ""


def _piece(tokens: Sequence[str]) -> str:
    return visible(running_text(tokens).strip() or "".join(tokens))[:LONGEST]


def reference_names(found: RunComparison) -> list[str]:
    """Name the tokens of the common reference."""
    return [_piece(token.tokens) for token in found.reference]


def reference_words(found: RunComparison) -> str:
    """Say how likely the common reference is in both, as far as that is known."""
    known = [token.log_p for token in found.reference if not _unknown(token)]
    if not known:
        return ""
    sums = [math.fsum(side) for side in zip(*known, strict=True)]
    return ngettext(
        "Log p of {n:,} token of the reference: {one} and {other} nats.",
        "Log p of {n:,} tokens of the reference: {one} and {other} nats.",
        len(known),
        one=decimals(sums[0], 3),
        other=decimals(sums[1], 3),
    )


def _unknown(token: ReferenceToken) -> bool:
    return any(map(math.isnan, token.log_p))


def head_line(found: RunComparison, kind: Kind) -> str:
    """Say which head of a kind differs most, or that none does."""
    grid, name = found.divergences[kind], _(KIND_NAMES[kind])
    if kind != "encoder" and not _rows(found.target):  # there is nothing to compare
        return ""
    broken = int(np.isnan(grid).sum())
    if broken:
        return ngettext(
            "{kind} attention: {n} head is NaN, and is not compared.",
            "{kind} attention: {n} heads are NaN, and are not compared.",
            broken,
            kind=name,
        )
    if found.same_heads(kind):
        return _("{kind} attention: the same in every head compared.", kind=name)
    at = np.unravel_index(int(grid.argmax()), grid.shape)
    return _(
        "{kind} attention differs most in {head}: {bits} of 1 bit.",
        kind=name,
        head=head_words(int(at[0]), int(at[1])),
        bits=number(float(grid[at]), 3),
    )


def lacking_words(found: RunComparison) -> Iterator[str]:
    """Say what cannot be compared, one sentence each."""
    one, other = (visible(name)[:LONGEST] for name in found.names)
    for kind, sizes in found.sizes.items():
        name = _(KIND_NAMES[kind])
        if (0, 0) in sizes:
            has = other if sizes[0] == (0, 0) else one
            yield _("Only “{run}” has {kind} attention.", run=has, kind=name)
        elif sizes[0] != sizes[1]:
            yield _(
                "{kind} attention has {layers} layers of {heads} heads in “{one}”, "
                "{others} of {more} in “{other}”: what both have is compared.",
                kind=name,
                one=one,
                other=other,
                layers=sizes[0][0],
                heads=sizes[0][1],
                others=sizes[1][0],
                more=sizes[1][1],
            )
    yield from filter(None, (aligned_words(found), _rows_words(found)))


def aligned_words(found: RunComparison) -> str:
    """Say how source tokens are aligned, where they are not the same."""
    source = found.source
    if source.one_to_one:
        return ""
    fields = {"n": len(source.groups), "left": sum(map(len, source.rest))}
    if found.sources[0] == found.sources[1]:
        return _(
            "Their tokenizers differ: source pieces that cover the same characters are "
            "compared as one ({n:,} groups, {left:,} pieces left over).",
            **fields,
        )
    return _(
        "They read different sentences: {n:,} groups of source tokens are aligned, "
        "{left:,} tokens have no counterpart.",
        **fields,
    )


def _rows_words(found: RunComparison) -> str:
    rows = _rows(found.target)
    left = [len(side) for side in found.target.rest]
    if not any(left) or "decoder" not in found.sizes:
        return ""
    return ngettext(
        "The decoder's attention is compared up to where they part: {n:,} row.",
        "The decoder's attention is compared up to where they part: {n:,} rows.",
        rows,
    )


def _rows(target: TokenAlignment) -> int:
    return sum(len(one) for one, _other in target.groups)


# ---- pictures ----------------------------------------------------------------------


class SideMaps(NamedTuple):
    """Both maps of one head on one range, and their difference where there is one."""

    a: Matrix
    b: Matrix
    difference: Matrix | None
    room: tuple[BothLabels, BothLabels]  # rows and columns of the whole runs
    queries: tuple[Group, ...]  # which rows of a and b a row of the difference is of
    keys: tuple[Group, ...]


def side_maps(
    found: RunComparison, traces: tuple[Trace, Trace], selection: Selection
) -> SideMaps:
    """Return the maps of the chosen head in both runs, as far as these go.

    In the place of one that a run lacks it says so.
    """
    kind, place = selection.kind, (selection.layer, selection.head)
    there = [
        at
        for at, (layers, heads) in enumerate(found.sizes.get(kind, ((0, 0), (0, 0))))
        if place[0] < layers and place[1] < heads
    ]
    weights = {at: head_weights(traces[at], kind, *place) for at in there}
    top = max((_top(one) for one in weights.values()), default=0.0) or 1.0
    sides = [
        _side(found, traces, selection, weights[at], top, at)
        if at in there
        else _no_head(found.names[at], selection)
        for at in (0, 1)
    ]
    room = labels(traces[0].whole, kind), labels(traces[1].whole, kind)
    of = {"source": found.source, "target": _cut(found.target, *map(len, traces))}
    queries, keys = (of[side] for side in SIDES[kind])
    difference = None
    if len(there) == 2 and queries.groups:
        pairing = replace(found, source=of["source"], target=of["target"])
        rows = [
            aligned_weights(pairing, kind, weights[at][None], at)[0] for at in there
        ]
        values = rows[1] - rows[0]
        difference = _difference(found, traces[1], values, (queries, keys), selection)
    both = sides[0], sides[1]
    return SideMaps(*both, difference, room, queries.groups, keys.groups)


def _top(weights: Floats) -> float:
    finite = weights[np.isfinite(weights)]
    return float(finite.max(initial=0))


def _no_head(name: str, selection: Selection) -> Matrix:
    title, none = _named_head(name, selection), np.zeros((0, 0), np.float32)
    return Matrix(
        title=title,
        values=none,
        shade=none,
        rows=(),
        columns=(),
        row_axis="",
        column_axis="",
        ends=("", ""),
        note=_("“{run}” has no such head.", run=visible(name)[:LONGEST]),
    )


def _side(
    found: RunComparison,
    traces: tuple[Trace, Trace],
    selection: Selection,
    values: Floats,
    top: float,
    at: int,
) -> Matrix:
    kind, trace = selection.kind, traces[at]
    rows, columns = labels(trace, kind)
    row_axis, column_axis = axes(trace, kind)
    steps = 0 if kind == "encoder" else max(map(len, traces))
    ended = no_step_words(found.names[at], trace, steps)
    return Matrix(
        title=_named_head(found.names[at], selection),
        values=values,
        shade=np.clip(values / np.float32(top), 0, 1),
        rows=rows,
        columns=columns,
        row_axis=row_axis,
        column_axis=column_axis,
        ends=("0", number(top, 3)),
        note=ended or _("linear, one range for both runs"),
        masked=~trace.mask(kind, selection.layer, selection.head),
        done=weights_words(trace, kind, range(selection.layer, selection.layer + 1)),
        border=_line(found, trace, kind, at),
        row_role="query",
        column_role="key",
    )


def no_step_words(name: str, trace: Trace, step: int) -> str:
    """Say that a run has no such step; "" where it has."""
    if len(trace) >= step:
        return ""
    return _(
        "“{run}” has no step {step}: it ended at step {last}.",
        run=visible(name)[:LONGEST],
        step=step,
        last=len(trace),
    )


def _named_head(name: str, selection: Selection) -> str:
    return _(
        "{run}: {kind} · {head}",
        run=visible(name)[:LONGEST],
        kind=_(KIND_NAMES[selection.kind]),
        head=head_words(selection.layer, selection.head),
    )


def _line(
    found: RunComparison, trace: Trace, kind: Kind, at: int
) -> tuple[int, int] | None:
    """Return the rows and columns before the first word that differs; None: none."""
    if found.parted is None or kind == "encoder":
        return None
    step = found.parted[at] + 1
    rows = step - 1 if writes(trace, kind) else step
    return (rows, step if kind == "decoder" else 0) if rows < len(trace) else None


def _cut(target: TokenAlignment, a: int, b: int) -> TokenAlignment:
    """Leave out the tokens of a target that are not shown yet."""
    groups = tuple(
        group for group in target.groups if group[0][-1] < a and group[1][-1] < b
    )
    held = [{at for group in groups for at in group[side]} for side in (0, 1)]
    rest = [
        tuple(at for at in range(count) if at not in held[side])
        for side, count in enumerate((a, b))
    ]
    return TokenAlignment(groups, (rest[0], rest[1]))


def _difference(
    found: RunComparison,
    trace: Trace,
    values: Floats,
    along: tuple[TokenAlignment, TokenAlignment],
    selection: Selection,
) -> Matrix:
    """Return the second run's weights less the first one's, named as in the second.

    Keys without a counterpart are the last column, where that differs.
    """
    kind, (queries, keys) = selection.kind, along
    rows, columns = labels(trace, kind)
    names = [_joined(columns, group[1]) for group in keys.groups]
    others = any(keys.rest) and not (np.abs(values[:, -1]) <= SAME_WEIGHT).all()
    names += [Label(_("(others)"))] if others else []
    values = values[:, : len(names)]
    reach = largest(values)
    reach = 1.0 if reach <= SAME_WEIGHT else reach  # rounding has no colour
    one, other = (visible(name)[:LONGEST] for name in found.names)
    row_axis, column_axis = axes(trace, kind)
    return Matrix(
        title=_named_head(_("{run} − {other}", run=other, other=one), selection),
        values=values,
        shade=signed_shade(values, reach),
        rows=tuple(_joined(rows, group[1]) for group in queries.groups),
        columns=tuple(names),
        row_axis=row_axis,
        column_axis=column_axis,
        ends=ends(reach),
        note=_("difference, linear, as far below zero as above"),
        border=_line(found, trace, kind, 1),
        row_role="query",
        column_role="key",
        signed=True,
    )


def _joined(names: Sequence[Label], group: Sequence[int]) -> Label:
    if len(group) == 1:
        return names[group[0]]
    return Label("".join(names[at] for at in group))


def divergence_grids(found: RunComparison) -> dict[Kind, Matrix]:
    """Return a map of layers by heads for each kind, all on one range, in bits."""
    grids = found.divergences
    top = max(map(_top, grids.values()), default=0.0)
    return {
        kind: Matrix(
            title=_(KIND_NAMES[kind]),
            values=grid,
            shade=np.clip(grid / np.float32(max(top, SAME_BITS)), 0, 1),
            rows=tuple(str(layer + 1) for layer in range(grid.shape[0])),
            columns=tuple(str(head + 1) for head in range(grid.shape[1])),
            row_axis=_("layer"),
            column_axis=_("head"),
            ends=("0", _("{bits} bit", bits=number(top, 3))),
            note=_("Jensen-Shannon divergence of the rows, of 1 bit at most"),
            row_unit=_("layer"),
            column_unit=_("head"),
        )
        for kind, grid in sorted(grids.items(), key=lambda one: KINDS.index(one[0]))
    }
