"""The Computation tab: which stages there are, and of which cell.

A stage is one step of the arithmetic from a layer's input to what leaves the layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from visformer.analysis.sublayers import LayerRows, stack_of
from visformer.pictures.attention.maps import labels, place
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.picture import named
from visformer.pictures.selection import Cell
from visformer.session.state import State
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.layer_weights import LayerParameters, Stack
from visformer.values.memo import same
from visformer.values.trace import Trace
from visformer.words import dimension_words, token_words

MASKED_FOR_SURE = -1e4  # no score comes near: the softmax makes it exactly 0
BLOCK = 64  # rows drawn at once: a longer sentence is shown a block at a time

Page = Literal["attention", "feed_forward"]
Axis = Literal["query", "key", "model", "head", "inner", ""]
UNITS: dict[Axis, str] = {"model": "dim", "head": "dim", "inner": "unit"}  # from 0
PAGES: dict[Page, str] = {  # as named on screen
    "attention": "Attention of a cell",
    "feed_forward": "Feed-forward, residual, norm",
}


class Stage(NamedTuple):
    """One step of the chain."""

    name: str
    title: str  # on its tab
    page: Page
    weighs: bool = True  # it needs the layer's weights, not the Trace alone


STAGES = (
    Stage("input", "input", "attention"),
    Stage("query", "Q", "attention"),
    Stage("key", "K", "attention"),
    Stage("value", "V", "attention"),
    Stage("product", "QKᵀ", "attention", False),
    Stage("scale", "÷ √d", "attention", False),
    Stage("mask", "mask", "attention", False),
    Stage("softmax", "softmax", "attention", False),
    Stage("weighted", "× V", "attention", False),
    Stage("concat", "concat", "attention"),
    Stage("output", "× Wₒ", "attention"),
    Stage("residual", "add, norm", "attention"),
    Stage("w1", "× W₁", "feed_forward"),
    Stage("activation", "activation", "feed_forward"),
    Stage("w2", "× W₂", "feed_forward"),
    Stage("feed_residual", "add, norm", "feed_forward"),
    Stage("sublayers", "what each adds", "feed_forward"),
    Stage("norms", "layer / batch norm", "feed_forward"),
)
STAGE_NAMES = tuple(stage.name for stage in STAGES)


def stage_of(state: State) -> Stage:
    """Return the stage looked at."""
    return STAGES[STAGE_NAMES.index(state.stage)]


def neighbour(state: State, by: int) -> str:
    """Return the name of the stage so many steps on, or the last one there is."""
    at = STAGE_NAMES.index(state.stage) + by
    return STAGE_NAMES[max(0, min(len(STAGES) - 1, at))]


@dataclass(frozen=True, eq=False, kw_only=True)
class Subject:
    """The cell whose numbers are shown, and the block of rows around it."""

    state: State
    trace: Trace
    kind: Kind
    layer: int
    head: int
    query: int
    key: int
    chosen: bool  # False: nobody has chosen a cell, this one stands in
    layer_rows: LayerRows | None  # None: the weights have not come
    dimensions: dict[Axis, int]  # chosen dimensions, by axis

    @property
    def queries(self) -> slice:
        """The block of query rows."""
        return block(self.query, len(self.trace.tokens(self.kind)[0]))

    @property
    def keys(self) -> slice:
        """The block of key rows."""
        return block(self.key, len(self.trace.tokens(self.kind)[1]))

    @property
    def at(self) -> int:
        """The query's row within its block."""
        return self.query % BLOCK

    @property
    def weights(self) -> Floats:
        """The weights that the Attention tab shows, [Q, K]."""
        return head_weights(self.trace, self.kind, self.layer, self.head)

    @property
    def columns(self) -> slice:
        """Where the head stands in the width of the model."""
        size = self.trace.model.config.head_size
        return slice(self.head * size, (self.head + 1) * size)

    @property
    def columns_words(self) -> str:
        """Say where that is: dim 8 to dim 15."""
        first, last = self.columns.start, self.columns.stop - 1
        return f"{dimension_words(first)} to {dimension_words(last)}"

    def rows(self) -> LayerRows:
        """Return the layer's sublayers; ValueError before the weights came."""
        if self.layer_rows is None:
            raise ValueError("the weights have not come.")
        return self.layer_rows

    def cut(self, numbers: Floats) -> Floats:
        """Cut numbers of the block down to the rows that are shown."""
        return numbers[: self.queries.stop - self.queries.start]

    def names(self, axis: Axis) -> tuple[str, ...]:
        """Name the columns of a table along an axis: the keys, or dim 0 and so on."""
        return named(UNITS.get(axis, ""), self.labels(axis))

    def labels(self, axis: Axis) -> tuple[str, ...]:
        """Label the rows or columns of a map along an axis, all of them."""
        if axis in ("query", "key"):
            return labels(self.trace, self.kind)[axis == "key"]
        config = self.trace.model.config
        sizes = {
            "model": config.d_model,
            "head": config.head_size,
            "inner": config.feed_forward,
        }
        return tuple(map(str, range(sizes[axis])))

    def token(self, axis: Literal["query", "key"]) -> str:
        """Name the cell's query or key with its place."""
        tokens = self.trace.tokens(self.kind)[axis == "key"]
        at = self.key if axis == "key" else self.query
        return token_words(visible(tokens[at]), at)


def block(index: int, length: int) -> slice:
    """Return the block of rows that an index lies in."""
    first = index // BLOCK * BLOCK
    return slice(first, min(first + BLOCK, length))


def wanted(state: State) -> tuple[Stack, int] | None:
    """Return the stack and layer whose weights are missing; None where none are."""
    if state.shown is None or weights_of(state) is not None:
        return None
    return stack_of(state.kind), place(state, state.kind)[0]


def weights_of(state: State) -> LayerParameters | None:
    """Return the weights of the layer looked at, if they are those in the State."""
    made, trace = state.parameters, state.shown
    if made is None or trace is None:
        return None
    here = stack_of(state.kind), place(state, state.kind)[0]
    fits = (made.stack, made.layer) == here and made.belong_to(trace.model)
    return made if fits else None


def subject(state: State, dimensions: dict[Axis, int]) -> Subject | None:
    """Return what is looked at; None where no row has been run.

    Where no cell of the kind is chosen: the last query, and the key it reads most.
    """
    trace, kind = state.shown, state.kind
    if trace is None or not len(trace.tokens(kind)[0]):
        return None
    layer, head = place(state, kind)
    cell = state.cell if state.cell is not None and state.cell.kind == kind else None
    if cell is None:
        row = head_weights(trace, kind, layer, head)[-1]
        best = 0 if np.isnan(row).all() else int(np.nanargmax(row))
        cell = Cell(kind, len(trace.tokens(kind)[0]) - 1, best)
        chosen = False
    else:
        chosen = True
    return Subject(
        state=state,
        trace=trace,
        kind=kind,
        layer=layer,
        head=head,
        query=cell.query,
        key=cell.key,
        chosen=chosen,
        layer_rows=_cache.get(state, cell.query),
        dimensions=dimensions,
    )


class _RowsCache:
    """The sublayers of one block of rows, kept while cells, heads and steps change."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._kept: LayerRows | None = None

    def get(self, state: State, query: int) -> LayerRows | None:
        """Return the layer's rows around a query; None without its weights."""
        parameters, shown = weights_of(state), state.shown
        if parameters is None or shown is None:
            return None
        # a pass that changed the rows before it is no part of a longer one
        whole = state.trace is not None and not state.passes
        trace = state.trace if state.trace is not None and whole else shown
        if not _rows_stand(trace, parameters.stack):
            trace = shown
        length = len(_row_tokens(shown, parameters.stack))
        rows = block(query, len(_row_tokens(trace, parameters.stack)))
        key = (parameters, *trace.storage)
        kept = self._kept
        enough = (
            kept is not None
            and same(key, self._key)
            and kept.rows.start == rows.start
            and kept.rows.stop >= min(rows.stop, length)
            and (kept.trace is trace or trace is not shown)
        )
        if not enough:
            self._key, self._kept = key, LayerRows(trace, parameters, rows)
        return self._kept


_cache = _RowsCache()


def _row_tokens(trace: Trace, stack: Stack) -> tuple[str, ...]:
    return trace.source if stack == "encoder" else trace.target


def _rows_stand(trace: Trace, stack: Stack) -> bool:
    """Tell whether fewer steps leave every row as it is: no masked key has weight."""
    kinds: tuple[Kind, ...] = (
        ("encoder",) if stack == "encoder" else ("decoder", "cross")
    )
    hides = trace.model.config.masked_value <= MASKED_FOR_SURE
    return hides and all(bool(trace.masks[kind].any(-1).all()) for kind in kinds)
