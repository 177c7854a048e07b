"""A kind's attention as it is shown: labels, a matrix, and how it was processed.

The heat map, the arcs, the tinted text, the status line and every export use a Reading.
It is computed in this order: heads summarised, tokens left out, rows renormalised,
subwords merged, then shaded.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from visformer.analysis.attention_summary import (
    chosen,
    merged,
    running_maximum,
    running_mean,
)
from visformer.analysis.head_measures import maximum
from visformer.language import N_, _, clauses, listed, ngettext
from visformer.pictures.attention import maps
from visformer.pictures.attention.maps import (
    BothLabels,
    Marks,
    attribution_place,
    axes,
    border,
    labels,
    layer_and_head,
)
from visformer.pictures.attention.token_groups import token_groups
from visformer.pictures.attention.weights import head_weights, size
from visformer.pictures.picture import (
    AttentionRole,
    Bytes,
    Label,
    Matrix,
    codes,
    largest,
    shade,
    signed_shade,
)
from visformer.pictures.selection import (
    TOKEN_GROUPS,
    AttentionCell,
    Look,
    Scale,
    Selection,
    Summary,
)
from visformer.pictures.token_names import FED_SIGN, marks
from visformer.pictures.words.absent import weights_words
from visformer.values.arrays import Bools, Floats
from visformer.values.attention_heads import running_rollout, through
from visformer.values.facts import SIDES, Kind
from visformer.values.measured import ATTRIBUTIONS, Attribution
from visformer.values.memo import same
from visformer.values.pieces import Groups, WordMarks, marks_of, word_text
from visformer.values.reading_order import LEAST, as_read
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, head_words, layer_words, number, percent

NO_NUMBERS: Floats = np.zeros((0, 0), np.float32)
UNDECODED = N_("Nothing is decoded yet: step forward to see the first row.")
PALE = 0.3  # below this maximum, a map from 0 to 1 is too pale to read
HIDDEN = N_("All tokens of this map are hidden.")
LARGE = 1 << 20  # weights: the limit for computing a summary at once
LayerHeads = Iterable[tuple[int, int]]  # layers and heads


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reading(Matrix):
    """Weights [R, C] and the tokens behind each row and column; shaded by ``matrix``.

    ``queries`` and ``keys`` hold the token indices of every row and column. They are
    None for one head's own weights of every token: row and column i are token i.
    """

    kind: Kind
    query_tokens: int  # of the sentence, including hidden ones
    key_tokens: int
    queries: Groups | None = None
    keys: Groups | None = None
    values: Floats = field(default_factory=lambda: NO_NUMBERS)
    shade: Floats = field(default_factory=lambda: NO_NUMBERS)
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    ends: tuple[str, str] = ("", "")
    note: str = ""  # why nothing is shown
    row_role: AttentionRole = "query"
    column_role: AttentionRole = "key"

    def cell(self, row: int, column: int) -> AttentionCell:
        """Return the tokens of a row and column; for words, the first ones."""
        query = self.queries[row][0] if self.queries is not None else row
        key = self.keys[column][0] if self.keys is not None else column
        return AttentionCell(self.kind, query, key)

    def cell_in_matrix(self, cell: AttentionCell) -> tuple[int, int] | None:
        """Return the row and column of a cell of this kind; None if it is hidden."""
        rows = self.rows_of((cell.query,))
        columns = self.columns_of((cell.key,))
        return (rows[0], columns[0]) if rows and columns else None

    def rows_of(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the rows that contain any of these queries."""
        return _indices(self.queries, tokens)

    def columns_of(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the columns that contain any of these keys."""
        return _indices(self.keys, tokens)

    def nearest(self, cell: AttentionCell) -> tuple[int, int] | None:
        """Return the row and column of a cell, or of the nearest tokens shown."""
        if not self.values.size:
            return None
        return _nearest(self.queries, cell.query), _nearest(self.keys, cell.key)

    def tints(self, cell: AttentionCell) -> Floats:
        """Return the weight of the cell's query for every key token; 0 for hidden ones.

        Every token of a word has the word's weight. Signed numbers tint nothing.
        """
        rows = () if self.signed else self.rows_of((cell.query,))
        row = self.values[rows[0]] if rows else np.zeros(len(self.columns), np.float32)
        if self.keys is None:
            return row
        tints = np.zeros(self.key_tokens, np.float32)
        for weight, group in zip(row, self.keys, strict=True):
            tints[list(group)] = weight
        return tints

    def partner(self, side: str, index: int) -> tuple[int, int]:
        """Return the place of the largest weight of a row (side "query") or column."""
        line = self.values[index] if side == "query" else self.values[:, index]
        other = 0 if np.isnan(line).all() else int(np.nanargmax(line))
        return (index, other) if side == "query" else (other, index)


def reading(
    trace: Trace | None, selection: Selection, look: Look, kind: Kind
) -> Reading | None:
    """Return a kind's attention as a look shows it.

    None without a Trace, and until the summary of a long sentence is ready.
    """
    if trace is None:
        return None
    layer, head = layer_and_head(trace, selection, kind)
    queries, keys = trace.tokens(kind)
    row_axis, column_axis = axes(trace, kind)
    shown = Reading(
        kind=kind,
        sign=kind,
        title=title_words(trace, selection, look, kind),
        query_tokens=len(queries),
        key_tokens=len(keys),
        row_axis=row_axis,
        column_axis=column_axis,
    )
    if is_impossible(trace, kind, look.summary):
        note = _(
            "Rollout of the cross-attention goes through the encoder's "
            "self-attention, which this trace does not have."
        )
        return replace(shown, queries=(), keys=(), note=note)
    if look.summary in ATTRIBUTIONS:
        told = attribution(trace, selection, kind, look.summary)
        if told is not None and told.values is None:
            return replace(shown, queries=(), keys=(), note=told.reason)
        weights = None if told is None else told.values
        if weights is not None:
            weights = weights[: len(queries), : len(keys)]
    elif look.summary == "head":
        weights = head_weights(trace, kind, layer, head)
    else:
        weights = summary(trace, kind, layer, look.summary)
    if weights is None:
        return None
    done = done_words(trace, selection, look, kind)
    if kind == "cross" and (share := share_words(trace, selection, look)):
        done = clauses((done, share))
    signed = look.summary == "gradient"
    shown = replace(shown, values=weights, done=done, signed=signed)
    if not look.raw:
        mask = _masked(trace, look, kind, layer)
        return _changed(replace(shown, masked=mask), trace, look)
    (rows, columns), mask = labels(trace, kind), trace.mask(kind, layer)
    return replace(
        shown,
        rows=rows,
        columns=columns,
        masked=None if mask.all() else ~mask,
        border=border(trace, kind),
    )


def attribution(
    trace: Trace, selection: Selection, kind: Kind, how: Summary
) -> Attribution | None:
    """Return a measure of a Trace's run; None where it is not known yet."""
    known = selection.attributions
    if how not in ATTRIBUTIONS or known is None or not same(known.of, trace.storage):
        return None
    return known.known.get(attribution_place(trace, selection, kind, how))


def share_words(trace: Trace, selection: Selection, look: Look) -> str:
    """Say how much of the current step comes from the source; "" if not known."""
    known = selection.attributions
    if look.summary not in ATTRIBUTIONS or known is None or not len(trace):
        return ""
    if known.share is None or not same(known.of, trace.storage):
        return ""
    share = float(known.share[len(trace) - 1])
    if math.isnan(share):
        return ""
    percent = round(100 * share)
    return _("source share of this step {percent}%", percent=percent)


def move(
    trace: Trace | None,
    selection: Selection,
    look: Look,
    cell: AttentionCell,
    by: tuple[int, int],
) -> AttentionCell:
    """Return the cell ``by`` rows and columns away, among those on screen."""
    rows, columns = by
    shown = reading(trace, selection, look, cell.kind)
    at = shown.nearest(cell) if shown is not None else None
    if shown is None or at is None:
        return cell
    row = max(0, min(len(shown.rows) - 1, at[0] + rows))
    column = max(0, min(len(shown.columns) - 1, at[1] + columns))
    return shown.cell(row, column)


def _masked(trace: Trace, look: Look, kind: Kind, layer: int) -> Bools | None:
    """Return the cells that no layer of the summary may attend to.

    None if the columns are not the keys that the mask refers to.
    """
    if look.summary == "rollout" and kind == "cross":
        return None
    layers = range(layer, layer + 1)
    if trace.masks[kind].ndim == 3:  # layers have different masks
        layers = layers_taken(trace, look, kind, layer)
    allowed = trace.mask(kind, layers[0])
    for other in layers[1:]:
        allowed = allowed | trace.mask(kind, other)
    return ~allowed


def _changed(shown: Reading, trace: Trace, look: Look) -> Reading:
    """Leave out tokens, renormalise, merge, and label the result."""
    kind, values, masked = shown.kind, shown.values, shown.masked
    groups = rows, columns = token_groups(trace, kind, look)
    row_labels, column_labels = _labels(trace, kind, groups, words=look.words)
    if look.hide:
        queries, keys = (list(chain.from_iterable(side)) for side in (rows, columns))
        again = look.renormalise and not shown.signed
        values = chosen(values, queries, keys, renormalise=again)
        masked = None if masked is None else masked[np.ix_(queries, keys)]
    if look.words:
        inner = _renumbered(rows), _renumbered(columns)
        values = merged(values, *inner)
        if masked is not None:
            masked = merged((~masked).astype(np.float32), *inner) == 0
    return replace(
        shown,
        values=values,
        rows=row_labels,
        columns=column_labels,
        masked=masked,
        queries=rows,
        keys=columns,
        border=_border(trace, kind, rows, columns),
    )


def _border(
    trace: Trace, kind: Kind, rows: Groups, columns: Groups
) -> tuple[int, int] | None:
    """Return how many of the remaining rows and columns belong to the prompt."""
    whole = border(trace, kind)
    if whole is None:
        return None
    queries, keys = (
        sum(group[0] < end for group in side)
        for side, end in zip((rows, columns), whole, strict=True)
    )
    return queries, keys


def whole_labels(trace: Trace, kind: Kind, look: Look) -> BothLabels:
    """Return the row and column labels of a whole Trace under a look."""
    if look.raw:
        return labels(trace, kind)
    return _labels(trace, kind, token_groups(trace, kind, look), words=look.words)


def _renumbered(groups: Groups) -> Groups:
    """Return the groups with the remaining tokens renumbered from 0."""
    renumbered, first = [], 0
    for group in groups:
        renumbered.append(tuple(range(first, first + len(group))))
        first += len(group)
    return tuple(renumbered)


# ---- labels ---------------------------------------------------------------------


def _labels(
    trace: Trace, kind: Kind, shown: tuple[Groups, Groups], *, words: bool
) -> BothLabels:
    """Label rows and columns, each a token or a word."""
    rows, columns = (
        tuple(
            _merged([names[at] for at in group], how) if words else names[group[0]]
            for group in groups
        )
        for names, groups, how in zip(
            labels(trace, kind),
            shown,
            (marks(trace, side) for side in SIDES[kind]),
            strict=True,
        )
    )
    return rows, columns


def _merged(names: Sequence[Label], how: WordMarks) -> Label:
    """Label a word by the labels of its tokens."""
    sign = f"{FED_SIGN} "
    tokens = [name.raw.removeprefix(sign) for name in names]
    fed = sign if any(name.raw.startswith(sign) for name in names) else ""
    return Label(
        fed + word_text(tokens, how),
        full=names[0].full if len(names) == 1 else "",
        raw=fed + "".join(tokens),
        faint=names[-1].faint,
    )


def _indices(groups: Groups | None, tokens: Sequence[int]) -> tuple[int, ...]:
    if groups is None:
        return tuple(tokens)
    chosen = set(tokens)
    return tuple(at for at, group in enumerate(groups) if chosen.intersection(group))


def _nearest(groups: Groups | None, token: int) -> int:
    """Return the index of a token's group, or of the nearest visible one."""
    if groups is None:
        return token
    places = range(len(groups))
    return min(places, key=lambda at: min(abs(token - own) for own in groups[at]))


# ---- shades ------------------------------------------------------------------------


def attention_map(
    trace: Trace | None, selection: Selection, look: Look, kind: Kind
) -> Matrix | None:
    """Return the weights that a look selects; None without a Trace."""
    shown = reading(trace, selection, look, kind)
    return None if shown is None else matrix(shown, selection)


def matrix(shown: Reading, selection: Selection, title: str = "") -> Reading:
    """Shade a Reading; ``title`` replaces its own."""
    values = shown.values
    shades, ends, note = _shades(shown, selection.scale)
    last = shown.rows_of((shown.query_tokens - 1,)) if values.size else ()
    if not values.size:
        note = shown.note or (_(HIDDEN) if shown.query_tokens else _(UNDECODED))
    return replace(
        shown,
        title=title or shown.title,
        shade=shades,
        ends=ends,
        note=note,
        marked=shown_marks(shown, selection.cell).cell,
        current=last[0] if last and shown.kind != "encoder" else None,
        offer="" if shown.signed else _offer(values, selection.scale),
    )


def _shades(shown: Reading, scale: Scale) -> tuple[Floats, tuple[str, str], str]:
    """Return the shades, the ends of the scale, and a note."""
    if not shown.signed:
        return shade(shown.values, scale)
    reach = largest(shown.values)
    ends = number(-reach, 2), number(reach, 2)
    return signed_shade(shown.values, reach), ends, ""


def whole_codes(
    trace: Trace, selection: Selection, look: Look, kind: Kind
) -> Bytes | None:
    """Return the codes [R, C] of a whole run's map; None until it is known."""
    whole = reading(trace, selection, look, kind)
    if whole is None or not whole.values.size:
        return None
    return codes(_shades(whole, selection.scale)[0], whole.masked)


def offered_scale(values: Floats, scale: Scale) -> Scale | None:
    """Return a colour scale for a map that is too pale, or the default to return to."""
    if not values.size:
        return None
    if scale != "fixed":
        return "fixed" if scale in ("head", "row") else None
    if 0 < _largest(values) < PALE:
        return "head"
    return "row" if maximum(values) < PALE else None  # only a few dark cells


def _offer(values: Floats, scale: Scale) -> str:
    """Name the colour scale that is offered; "" for none."""
    match offered_scale(values, scale):
        case "fixed":
            return _("back to 0 to 1")
        case "head":
            most = number(_largest(values), 2)
            return _("use this map's maximum, {number}", number=most)
        case "row":
            return _("use each row's maximum")
    return ""


def _largest(values: Floats) -> float:
    """Return the largest weight, ignoring NaN."""
    return float(np.fmax.reduce(values, axis=None, initial=0))


def shown_marks(shown: Reading, cell: AttentionCell | None) -> Marks:
    """Return the rows and columns that the cell in focus marks in a Reading."""
    marked = maps.marks(cell, shown.kind)
    if shown.queries is None or cell is None:
        return marked
    return Marks(
        shown.cell_in_matrix(cell) if cell.kind == shown.kind else None,
        shown.rows_of(marked.rows),
        shown.columns_of(marked.columns),
    )


# ---- words -------------------------------------------------------------------------


def layers_taken(trace: Trace, look: Look, kind: Kind, layer: int) -> range:
    """Return the layers that a look combines."""
    match look.summary:
        case "all" | "gradient":
            return range(trace.layers(kind))
        case "rollout" if kind != "cross":
            return range(layer + 1)
    return range(layer, layer + 1)


def done_words(trace: Trace, selection: Selection, look: Look, kind: Kind) -> str:
    """Describe how weights were captured and processed; "" for one head, derived."""
    layer, _head = layer_and_head(trace, selection, kind)
    if look.summary in ATTRIBUTIONS:
        said = _unshown_words(trace, selection, look, kind)
    else:
        said = weights_words(trace, kind, layers_taken(trace, look, kind, layer))
    parts = said, *_done_parts(trace, look, kind)
    return clauses(parts)


def _unshown_words(trace: Trace, selection: Selection, look: Look, kind: Kind) -> str:
    """Say that a measure found later tokens too, which are not shown; "" if none."""
    told = attribution(trace, selection, kind, look.summary)
    if told is None or told.values is None or kind != "decoder":
        return ""
    rows = np.nan_to_num(told.values[: len(trace), len(trace) :])
    most = float(np.abs(rows).sum(-1).max(initial=0))
    if most <= LEAST:
        return ""
    if look.summary == "gradient":
        return _("rows depend on later tokens, which are not shown")
    share = percent(most)
    return _("rows depend on later tokens, not shown: {share} at most", share=share)


def title_words(trace: Trace, selection: Selection, look: Look, kind: Kind) -> str:
    """Name the kind, and which layers and heads are shown."""
    name, (layer, head) = _(KIND_NAMES[kind]), layer_and_head(trace, selection, kind)
    match look.summary:
        case "head":
            return _("{kind} · {head}", kind=name, head=head_words(layer, head))
        case "all" | "gradient":
            return ngettext(
                "{kind} · {n} layer",
                "{kind} · all {n} layers",
                trace.layers(kind),
                kind=name,
            )
        case "rollout" if kind != "cross":
            return _("{kind} · layers 1 to {layer}", kind=name, layer=layer + 1)
    return _("{kind} · {layer}", kind=name, layer=layer_words(layer))


def small_title(kind: Kind, layer: int, head: int) -> str:
    """Name a kind and a head where space is limited."""
    return _(
        "{kind} · L{layer} H{head}",
        kind=_(KIND_NAMES[kind]),
        layer=layer + 1,
        head=head + 1,
    )


def _done_parts(trace: Trace, look: Look, kind: Kind) -> list[str]:
    heads = trace.heads(kind)
    mean = ngettext("mean of {n} head", "mean of {n} heads", heads)
    match look.summary:
        case "mean":
            first = mean
        case "max":
            first = ngettext(
                "maximum of {n} head",
                "maximum of {n} heads: rows need not sum to 1",
                heads,
            )
        case "all":
            first = _(
                "mean of {layers} × {heads}",
                layers=ngettext("{n} layer", "{n} layers", trace.layers(kind)),
                heads=ngettext("{n} head", "{n} heads", heads),
            )
        case "rollout" if kind == "cross":
            first = _("{mean}, times the rollout of the whole encoder", mean=mean)
        case "rollout":
            first = _(
                "rollout: {mean}, 0.5 A + 0.5 I, rows renormalised, product of layers",
                mean=mean,
            )
        case "zeroing":
            first = _("1 − cosine of the layer's output, rows normalised")
        case "norms":
            first = _("‖Σ a v Wₒ‖ over the heads, rows normalised")
        case "gradient":
            first = _("gradient of log p times embedding, in nats")
        case _:
            first = ""
    return [first, _hidden_words(look), _merge_words(look, trace, kind)]


def _hidden_words(look: Look) -> str:
    if not look.hide:
        return ""
    names = (_(title) for name, title in TOKEN_GROUPS.items() if name in look.hide)
    tokens = listed(names)
    if look.renormalise and look.summary != "gradient":
        return _("{tokens} hidden, renormalised", tokens=tokens)
    return _("{tokens} hidden, not renormalised", tokens=tokens)


def _merge_words(look: Look, trace: Trace, kind: Kind) -> str:
    if not look.words:
        return ""
    if any(map(marks_of, trace.tokens(kind))):
        return _("subwords merged: keys summed, queries averaged")
    return _("no subwords to merge")


# ---- heads and layers summarised ---------------------------------------------------


def summary(trace: Trace, kind: Kind, layer: int, how: Summary) -> Floats | None:
    """Return heads and layers as one matrix [Q, K].

    None if it takes long: ``summary_parts`` then computes and caches it.
    """
    kept = _kept(trace, kind, _details(trace, kind, layer, how))
    if kept is not None or is_large_summary(trace, kind, how):
        return kept
    for _part in summary_parts(trace, kind, layer, how):
        pass
    return _kept(trace, kind, _details(trace, kind, layer, how))


def is_impossible(trace: Trace, kind: Kind, how: Summary) -> bool:
    """Whether a summary needs a kind of attention that the Trace lacks."""
    return how == "rollout" and kind == "cross" and "encoder" not in trace.kinds


def is_large_summary(trace: Trace, kind: Kind, how: Summary) -> bool:
    """Whether computing the matrix takes too long for one step."""
    whole = trace.whole
    cells = size(whole, kind) * (1 if how in ("mean", "max") else whole.layers(kind))
    if kind == "cross" and how == "rollout":
        cells += size(whole, "encoder") * whole.layers("encoder")
    return cells * whole.heads(kind) > LARGE


def summary_parts(trace: Trace, kind: Kind, layer: int, how: Summary) -> Iterator[None]:
    """Compute the matrix and cache it, yielding after each head."""
    heads, layers = range(trace.heads(kind)), range(trace.layers(kind))
    layer_heads = [(layer, head) for head in heads]
    result: Floats | None = None
    parts: Iterator[Floats | None]
    match how:
        case "mean":
            parts = running_mean(_weights(trace, kind, layer_heads))
        case "max":
            parts = running_maximum(_weights(trace, kind, layer_heads))
        case "all":
            everything = [(layer, head) for layer in layers for head in heads]
            parts = running_mean(_weights(trace, kind, everything))
        case _:
            parts = _rollout(trace, kind, layer)
    for part in parts:
        result = part
        yield
    if result is not None:
        _keep(trace, kind, _details(trace, kind, layer, how), result)


def _rollout(trace: Trace, kind: Kind, layer: int) -> Iterator[Floats | None]:
    """Roll out layers 0 to ``layer``; cross-attention times the whole encoder's."""
    if kind != "cross":
        rows, keys = map(len, trace.tokens(kind))
        for part in _rolled(as_read(trace, kind, range(layer + 1)), kind, layer + 1):
            yield None if part is None else part[:rows, :keys]
        return
    below = _kept(trace, "below", ())
    if below is None:
        for part in _rolled(trace, "encoder", trace.layers("encoder")):
            below = part
            yield None
        if below is not None:
            _keep(trace, "below", (), below)
    mean: Floats | None = None
    for mean_so_far in _mean(trace, kind, layer):
        mean = mean_so_far
        yield None
    if below is not None and mean is not None:
        yield through(mean, below)


def _rolled(trace: Trace, kind: Kind, layers: int) -> Iterator[Floats | None]:
    """Yield None while it works, then the rollout of the first ``layers`` layers."""
    means: list[Floats] = []
    for layer in range(layers):
        for mean_so_far in _mean(trace, kind, layer):
            means[layer:] = [mean_so_far]
            yield None
    yield from running_rollout(means)


def _mean(trace: Trace, kind: Kind, layer: int) -> Iterator[Floats]:
    layer_heads = ((layer, head) for head in range(trace.heads(kind)))
    return running_mean(_weights(trace, kind, layer_heads))


def _weights(trace: Trace, kind: Kind, layer_heads: LayerHeads) -> Iterator[Floats]:
    for layer, head in layer_heads:
        yield head_weights(trace, kind, layer, head)


# ---- the cache keeps the last summary of each kind ----------------------------------


def _kept(trace: Trace, name: str, details: Hashable) -> Floats | None:
    kept: tuple[Hashable, Floats] | None
    kept = trace.memo.find(trace.storage, ("summary", name))
    return kept[1] if kept is not None and kept[0] == details else None


def _keep(trace: Trace, name: str, details: Hashable, matrix: Floats) -> None:
    trace.memo.keep(trace.storage, ("summary", name), (details, matrix), matrix.size)


def _details(trace: Trace, kind: Kind, layer: int, how: Summary) -> Hashable:
    """Return everything a summary depends on: for the encoder, not the step."""
    at_layer = None if how == "all" else layer
    return how, at_layer, None if kind == "encoder" else len(trace)
