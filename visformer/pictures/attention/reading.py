"""What is on screen of a kind's attention: labels, a matrix, what was done to it.

The heat map, the arcs, the tinted text, the status line and every export use a Reading.
It is made in this order: heads summarised, tokens left out, rows renormalised, subwords
merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from visformer.analysis.attention_summary import chosen
from visformer.analysis.subwords import merged
from visformer.language import _
from visformer.pictures.attention.maps import (
    BothLabels,
    axes,
    border,
    labels,
    layer_and_head,
)
from visformer.pictures.attention.reading_words import (
    done_words,
    layers_taken,
    title_words,
)
from visformer.pictures.attention.summary import is_impossible, summary
from visformer.pictures.attention.token_groups import token_groups
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.look import Look
from visformer.pictures.picture import Label
from visformer.pictures.selection import AttentionCell, Selection
from visformer.pictures.token_names import FED_SIGN, marks
from visformer.values.arrays import Bools, Floats
from visformer.values.facts import SIDES, Kind
from visformer.values.pieces import Groups, WordMarks, word_text
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reading:
    """Weights [R, C] and the tokens behind each row and column.

    ``queries`` and ``keys`` hold the token indices of every row and column; None: row
    and column i are token i.
    """

    kind: Kind
    title: str
    done: str  # what was done to the weights, in words; "" for one head's own
    values: Floats  # [R, C]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    masked: Bools | None  # [R, C]: True where the mask forbids all of it
    query_tokens: int  # of the sentence, hidden ones too
    key_tokens: int
    queries: Groups | None = None
    keys: Groups | None = None
    axes: tuple[str, str]  # what a row and a column are
    border: tuple[int, int] | None = None  # rows and columns of the prompt
    note: str = ""  # why there is nothing to show

    @property
    def is_head(self) -> bool:
        """Whether these are one head's own weights, of every token."""
        return self.queries is None

    def cell(self, row: int, column: int) -> AttentionCell:
        """Return the tokens of a row and column; of words, the first ones."""
        query = self.queries[row][0] if self.queries is not None else row
        key = self.keys[column][0] if self.keys is not None else column
        return AttentionCell(self.kind, query, key)

    def cell_in_matrix(self, cell: AttentionCell) -> tuple[int, int] | None:
        """Return the row and column of a cell of this kind; None if it is hidden."""
        rows = self.rows_of((cell.query,))
        columns = self.columns_of((cell.key,))
        return (rows[0], columns[0]) if rows and columns else None

    def rows_of(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the rows that contain some of these queries."""
        return _indices(self.queries, tokens)

    def columns_of(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the columns that contain some of these keys."""
        return _indices(self.keys, tokens)

    def nearest(self, cell: AttentionCell) -> tuple[int, int] | None:
        """Return the row and column of a cell, or of the shown tokens next to it."""
        if not self.values.size:
            return None
        return _nearest(self.queries, cell.query), _nearest(self.keys, cell.key)

    def tints(self, cell: AttentionCell) -> Floats:
        """Return the weight of the cell's query on every key token; 0 for hidden ones.

        Every token of a word has the word's weight.
        """
        rows = self.rows_of((cell.query,))
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

    None without a Trace, and while the summary of a long sentence is not ready.
    """
    if trace is None:
        return None
    layer, head = layer_and_head(trace, selection, kind)
    weights: Floats | None = None
    if look.summary == "head":
        weights = head_weights(trace, kind, layer, head)
    if look.raw and weights is not None:
        rows, columns = labels(trace, kind)
        return Reading(
            kind=kind,
            title=title_words(trace, selection, look, kind),
            done=done_words(trace, look, kind, layer),
            values=weights,
            rows=rows,
            columns=columns,
            masked=~trace.mask(kind, layer),
            query_tokens=len(rows),
            key_tokens=len(columns),
            axes=axes(trace, kind),
            border=border(trace, kind),
        )
    if is_impossible(trace, kind, look.summary):
        return _nothing(trace, selection, look, kind)
    if weights is None and look.summary != "head":
        weights = summary(trace, kind, layer, look.summary)
    if weights is None:
        return None
    mask = _masked(trace, look, kind, layer)
    words = (
        title_words(trace, selection, look, kind),
        done_words(trace, look, kind, layer),
    )
    return _changed(trace, look, kind, words, weights, mask)


def _nothing(trace: Trace, selection: Selection, look: Look, kind: Kind) -> Reading:
    return Reading(
        kind=kind,
        title=title_words(trace, selection, look, kind),
        done="",
        values=np.zeros((0, 0), np.float32),
        rows=(),
        columns=(),
        masked=None,
        query_tokens=len(trace.tokens(kind)[0]),
        key_tokens=len(trace.tokens(kind)[1]),
        queries=(),
        keys=(),
        axes=axes(trace, kind),
        note=_(
            "Rollout of the cross-attention goes through the encoder's "
            "self-attention, which this trace does not have."
        ),
    )


def move(
    trace: Trace | None,
    selection: Selection,
    look: Look,
    cell: AttentionCell,
    by: tuple[int, int],
) -> AttentionCell:
    """Return the cell that is ``by`` rows and columns on, among those on screen."""
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

    None if a column is no longer the key that the mask is about.
    """
    if look.summary == "rollout" and kind == "cross":
        return None
    layers = range(layer, layer + 1)
    if trace.masks[kind].ndim == 3:  # layers differ
        layers = layers_taken(trace, look, kind, layer)
    allowed = trace.mask(kind, layers[0])
    for other in layers[1:]:
        allowed = allowed | trace.mask(kind, other)
    return ~allowed


def _changed(
    trace: Trace,
    look: Look,
    kind: Kind,
    words: tuple[str, str],
    values: Floats,
    masked: Bools | None,
) -> Reading:
    """Leave out tokens, renormalise, merge; label what is left.

    ``words``: the title, and what is done.
    """
    groups = rows, columns = token_groups(trace, kind, look)
    row_labels, column_labels = _labels(trace, kind, groups, words=look.words)
    if look.hide:
        queries, keys = (list(chain.from_iterable(side)) for side in (rows, columns))
        values = chosen(values, queries, keys, renormalise=look.renormalise)
        masked = None if masked is None else masked[np.ix_(queries, keys)]
    if look.words:
        inner = _renumbered(rows), _renumbered(columns)
        values = merged(values, *inner)
        if masked is not None:
            masked = merged((~masked).astype(np.float32), *inner) == 0
    return Reading(
        kind=kind,
        title=words[0],
        done=words[1],
        values=values,
        rows=row_labels,
        columns=column_labels,
        masked=masked,
        queries=rows,
        keys=columns,
        query_tokens=len(trace.tokens(kind)[0]),
        key_tokens=len(trace.tokens(kind)[1]),
        axes=axes(trace, kind),
        border=_border(trace, kind, rows, columns),
    )


def _border(
    trace: Trace, kind: Kind, rows: Groups, columns: Groups
) -> tuple[int, int] | None:
    """Return how many of the rows and columns that are left are of the prompt."""
    whole = border(trace, kind)
    if whole is None:
        return None
    queries, keys = (
        sum(group[0] < end for group in side)
        for side, end in zip((rows, columns), whole, strict=True)
    )
    return queries, keys


def whole_labels(trace: Trace, kind: Kind, look: Look) -> BothLabels:
    """Return the row and column labels that a look leaves of a whole Trace."""
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
    """Label rows and columns of one token each, or of a word's."""
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
    """Return the index of a token's group, or of the nearest one shown."""
    if groups is None:
        return token
    places = range(len(groups))
    return min(places, key=lambda at: min(abs(token - own) for own in groups[at]))
