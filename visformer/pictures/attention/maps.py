"""The axes of the attention maps: layer and head, labels, marked tokens."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from visformer.language import _
from visformer.pictures.attention.weights import doubled, head_weights
from visformer.pictures.picture import Label, Table, saved_labels
from visformer.pictures.selection import AttentionCell, Selection
from visformer.pictures.token_names import names, writes
from visformer.pictures.words.absent import weights_words
from visformer.pictures.words.choices import written_axis, written_names
from visformer.values.facts import SIDES, Kind, SentenceSide
from visformer.values.measured import AttributionName, AttributionPlace
from visformer.values.trace import Trace
from visformer.words import head_words

# target tokens reserved at first while a run is decoded, by its source's length
FEWEST, MOST = 8, 80
BothLabels = tuple[tuple[Label, ...], tuple[Label, ...]]  # rows and columns


@dataclass(frozen=True, slots=True)
class Marks:
    """The rows, columns and cell that the cell in focus marks in a map."""

    cell: tuple[int, int] | None = None  # the framed cell
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()


def layer_and_head(trace: Trace, selection: Selection, kind: Kind) -> tuple[int, int]:
    """Return the chosen layer and head, clamped to those that a kind has."""
    layer = max(0, min(selection.layer, trace.layers(kind) - 1))
    return layer, max(0, min(selection.head, trace.heads(kind) - 1))


def attribution_place(
    trace: Trace, selection: Selection, kind: Kind, how: AttributionName
) -> AttributionPlace:
    """Return of which attention a measure is shown."""
    layer, _head = layer_and_head(trace, selection, kind)
    return AttributionPlace(how, kind, 0 if how == "gradient" else layer)


def reserved(
    counts: tuple[int, int], kind: Kind, *, grows: bool, source: int
) -> tuple[int, int]:
    """Return the rows and columns reserved for a map; ``counts`` are those decoded.

    While a run ``grows``, space is reserved for a translation that is a quarter longer
    than its ``source``; for one that is longer still, twice as many, and so on. So
    hardly any step moves what is already drawn.
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
    """Return row and column labels, cached with the Trace."""
    queries, keys = SIDES[kind]
    columns = names(trace, keys)
    if not writes(trace, kind):
        return names(trace, queries), columns
    if trace not in _WRITTEN:
        _WRITTEN[trace] = written_names(trace, range(len(trace)))
    return _WRITTEN[trace], columns


_WRITTEN: WeakKeyDictionary[Trace, tuple[Label, ...]] = WeakKeyDictionary()


def axes(trace: Trace, kind: Kind) -> tuple[str, str]:
    """Describe a row and a column of a kind's map."""
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
    """Return the rows and columns of the prompt in a map; None without one."""
    if not trace.prompt or kind == "encoder":
        return None
    return trace.prompt, trace.prompt if kind == "decoder" else 0


def marks(cell: AttentionCell | None, kind: Kind) -> Marks:
    """Return what the cell in focus marks: both its tokens in every map."""
    if cell is None:
        return Marks()
    if cell.kind == kind:
        return Marks((cell.query, cell.key), (cell.query,), (cell.key,))
    row_side, column_side = SIDES[kind]
    return Marks(None, _tokens(cell, row_side), _tokens(cell, column_side))


def _tokens(cell: AttentionCell, side: SentenceSide) -> tuple[int, ...]:
    """Return the cell's distinct tokens on one side."""
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
    about = weights_words(trace, kind, range(trace.layers(kind)))
    return Table(tuple(heads), columns, np.concatenate(values), about)
