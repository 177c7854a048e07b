"""Tokens of the attention maps: layer and head, labels, which tokens are marked."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from visformer.language import _
from visformer.pictures.absent import captured_words
from visformer.pictures.attention.weights import doubled, head_weights
from visformer.pictures.choices import pairs_axis, token_pairs
from visformer.pictures.picture import Table, named
from visformer.pictures.selection import AttentionCell, Selection
from visformer.text import visible
from visformer.values.facts import Kind, SentenceSide
from visformer.values.trace import Trace
from visformer.words import head_words

# tokens that there is room for at first while a run is decoded: as its source tells
FEWEST, MOST = 8, 80


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
    queries, keys = sides(kind)
    return (
        rows if queries == "target" else counts[0],
        columns if keys == "target" else counts[1],
    )


def labels(trace: Trace, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return row and column labels; target rows name the next token too.

    They are kept with the Trace: every picture of a step has the same ones.
    """
    queries, keys = sides(kind)
    columns = _tokens_of(trace, keys)
    if queries == "source" or not trace.steps:
        return _tokens_of(trace, queries), columns
    if trace not in _PAIRS:
        names = _tokens_of(trace, queries)
        _PAIRS[trace] = token_pairs(trace, names, range(len(names)))
    return _PAIRS[trace], columns


_PAIRS: WeakKeyDictionary[Trace, tuple[str, ...]] = WeakKeyDictionary()


def _tokens_of(trace: Trace, side: SentenceSide) -> tuple[str, ...]:
    """Return the tokens of a side as they are shown."""
    if side == "source":  # the same at every step
        source = trace.source
        return trace.memo.made((source,), "names", lambda: _visible(source))
    return _visible(trace.target)


def _visible(tokens: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([visible(token) for token in tokens])


def axes(trace: Trace, kind: Kind) -> tuple[str, str]:
    """Say what a row and a column of a kind's map are."""
    if kind == "encoder":
        rows = _("query: source token that reads")
    elif trace.whole.steps or not len(trace.whole):
        rows = pairs_axis(trace.steps)
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
    row_side, column_side = sides(kind)
    return Marks(None, _tokens(cell, row_side), _tokens(cell, column_side))


def sides(kind: Kind) -> tuple[SentenceSide, SentenceSide]:
    """Return which tokens a kind's queries and keys are."""
    queries: SentenceSide = "source" if kind == "encoder" else "target"
    return queries, "target" if kind == "decoder" else "source"


def _tokens(cell: AttentionCell, side: SentenceSide) -> tuple[int, ...]:
    """Return the cell's tokens on one side, each once."""
    pairs = zip(sides(cell.kind), (cell.query, cell.key), strict=True)
    return tuple(sorted({index for where, index in pairs if where == side}))


def all_numbers(trace: Trace | None, kind: Kind) -> Table | None:
    """Return every head of a kind: one row per query, one column per key."""
    if trace is None or not trace.tokens(kind)[0]:
        return None
    rows, columns = labels(trace, kind)
    names, values = [], []
    for layer in range(trace.layers(kind)):
        for head in range(trace.heads(kind)):
            place = head_words(layer, head)
            full = named("", rows)
            names += [_("{head}: {row}", head=place, row=row) for row in full]
            values.append(head_weights(trace, kind, layer, head))
    about = captured_words(trace, kind, range(trace.layers(kind)))
    return Table(tuple(names), columns, np.concatenate(values), about)
