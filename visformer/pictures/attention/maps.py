"""Tokens of the attention maps: layer and head, labels, which tokens are marked."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from visformer.language import _
from visformer.pictures.attention.weights import doubled, head_weights
from visformer.pictures.picture import Label, Table, saved_labels
from visformer.pictures.selection import AttentionCell, Selection
from visformer.pictures.token_names import names, writes
from visformer.pictures.words.absent import captured_words
from visformer.pictures.words.choices import written_axis, written_names
from visformer.values.facts import SIDES, Kind, SentenceSide
from visformer.values.trace import Trace
from visformer.words import head_words

# tokens that there is room for at first while a run is decoded: as its source tells
FEWEST, MOST = 8, 80
BothLabels = tuple[tuple[Label, ...], tuple[Label, ...]]  # of rows and of columns


@dataclass(frozen=True, slots=True)
class Marks:
    """What the cell in focus marks in one map."""

    cell: tuple[int, int] | None = None  # framed: the cell itself
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


def layer_and_head(trace: Trace, selection: Selection, kind: Kind) -> tuple[int, int]:
    """Return the chosen layer and head, limited to what a kind has."""
    layer = max(0, min(selection.layer, trace.layers(kind) - 1))
    return layer, max(0, min(selection.head, trace.heads(kind) - 1))


def reserved(
    counts: tuple[int, int], kind: Kind, *, grows: bool, source: int
) -> tuple[int, int]:
    """Return the rows and columns that a map has room for; ``counts``: those decoded.

    ``grows``: the run is being decoded. Then there is room for a translation that is a
    quarter longer than its ``source`` has tokens (of a whole text, for a sentence's
    alone), for twice as many if it is longer still, and so on: hardly any step moves
    what is there.
    """
    if not grows:
        return counts
    expected = min(max(FEWEST, source * 5 // 4), MOST)
    rows, columns = (doubled(expected, count) for count in counts)
    queries, keys = SIDES[kind]
    return (
        rows if queries == "target" else counts[0],
        columns if keys == "target" else counts[1],
    )


def labels(trace: Trace, kind: Kind) -> BothLabels:
    """Return row and column labels.

    They are kept with the Trace: every picture of a step has the same ones.
    """
    queries, keys = SIDES[kind]
    columns = names(trace, keys)
    if not writes(trace, kind):
        return names(trace, queries), columns
    if trace not in _WRITTEN:
        _WRITTEN[trace] = written_names(trace, range(len(trace)))
    return _WRITTEN[trace], columns


_WRITTEN: WeakKeyDictionary[Trace, tuple[Label, ...]] = WeakKeyDictionary()


def axes(trace: Trace, kind: Kind) -> tuple[str, str]:
    """Say what a row and a column of a kind's map are."""
    if kind == "encoder":
        rows = _("query: source token that reads")
    elif kind == "cross" and (trace.whole.steps or not len(trace.whole)):
        rows = written_axis(trace)
    else:
        rows = _("query: target token that reads")
    if kind == "decoder":
        return rows, _("key: target token that is read")
    return rows, _("key: source token that is read")


def border(trace: Trace, kind: Kind) -> tuple[int, int] | None:
    """Return how many rows and columns of a map the prompt has; None without one."""
    if not trace.prompt or kind == "encoder":
        return None
    return trace.prompt, trace.prompt if kind == "decoder" else 0


def marks(cell: AttentionCell | None, kind: Kind) -> Marks:
    """Return what the cell in focus marks: both its tokens, wherever they are."""
    if cell is None:
        return Marks()
    if cell.kind == kind:
        return Marks((cell.query, cell.key), (cell.query,), (cell.key,))
    row_side, column_side = SIDES[kind]
    return Marks(None, _tokens(cell, row_side), _tokens(cell, column_side))


def _tokens(cell: AttentionCell, side: SentenceSide) -> tuple[int, ...]:
    """Return the cell's tokens on one side, each once."""
    pairs = zip(SIDES[cell.kind], (cell.query, cell.key), strict=True)
    return tuple(sorted({index for where, index in pairs if where == side}))


def all_numbers(trace: Trace | None, kind: Kind) -> Table | None:
    """Return every head of a kind: one row per query, one column per key."""
    if trace is None or not trace.tokens(kind)[0]:
        return None
    raw, columns = map(saved_labels, labels(trace, kind))
    heads, values = [], []
    for layer in range(trace.layers(kind)):
        for head in range(trace.heads(kind)):
            place = head_words(layer, head)
            heads += [_("{head}: {row}", head=place, row=row) for row in raw]
            values.append(head_weights(trace, kind, layer, head))
    about = captured_words(trace, kind, range(trace.layers(kind)))
    return Table(tuple(heads), columns, np.concatenate(values), about)
