"""The subject of the Computation tab: a cell, its layer's rows, and their names."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from visformer.analysis.sublayers import LayerRows
from visformer.language import N_, _
from visformer.pictures.attention.maps import FEWEST, labels
from visformer.pictures.attention.weights import doubled, head_weights, query_weights
from visformer.pictures.picture import Axis, named
from visformer.pictures.selection import (
    AT_FIRST,
    AttentionCell,
    Scale,
    Selection,
    StageOptions,
)
from visformer.pictures.token_names import key_placed, row_placed
from visformer.values.arrays import Floats
from visformer.values.changes.run_change import ActingPoint
from visformer.values.facts import SIDES, STACK_OF, AttentionFacts, Kind, StackName
from visformer.values.layer_weights import LayerParameters
from visformer.values.memo import Memo
from visformer.values.reading_order import as_read
from visformer.values.trace import Trace

Projected = Literal["query", "key", "value"]
BLOCK = 64  # rows drawn at once; longer sentences are shown in blocks
UNITS: dict[Axis, str] = {  # counted from 0
    "model": N_("dim"),
    "head": N_("dim"),
    # i18n: of the feed-forward network
    "inner": N_("unit"),
}


class Room(NamedTuple):
    """The space that a map reserves along an axis."""

    least: int  # number of rows or columns reserved
    names: tuple[str, ...]  # their names as far as known


NO_ROOM = Room(0, ())


@dataclass(frozen=True, eq=False, kw_only=True)
class Subject:
    """The cell whose numbers are shown, and the block of rows around it."""

    trace: Trace
    kind: Kind
    layer: int
    head: int
    query: int
    key: int
    chosen: bool  # False if no cell is selected and this is the default
    whole: bool = False  # whether it is the whole pass, since rows read later tokens
    scale: Scale  # of the weights' colours
    layer_rows: LayerRows | None = None  # None until the layer's weights arrive
    positions: Floats | None = None  # the model's own encodings, [P, D]
    dimensions: Mapping[Axis, int] = field(default_factory=dict)  # selected indices
    grows: bool = False  # whether the run is being decoded
    alone: bool = False  # whether tokens are processed separately (feed-forward)
    options: StageOptions = AT_FIRST
    dropout: tuple[float, ...] = ()  # training rates stated in the model's files

    @property
    def weights(self) -> Floats:
        """The weights shown on the Attention tab, [Q, K]."""
        return head_weights(self.trace, self.kind, self.layer, self.head)

    @property
    def row(self) -> tuple[Kind, int, int, int]:
        """Kind, layer, head and query of the cell."""
        return self.kind, self.layer, self.head, self.query

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
    def captured(self) -> bool:
        """Whether the weights were captured, not derived from the scores."""
        return self.trace.is_captured(self.kind, self.layer)

    def changed(self, *points: ActingPoint) -> str:
        """Return the text of the changes that act on the head at some points."""
        changes, at = self.trace.intervention, (self.kind, self.layer)
        return changes.here(*at, *points, head=self.head)

    @property
    def facts(self) -> AttentionFacts:
        """The facts about this kind of attention, the same in all layers."""
        return self.trace.model.attention[self.kind]

    def columns(self, part: Projected) -> slice:
        """Return the head's columns among those of all heads for a part."""
        facts, head = self.facts, self.head
        size = facts.value_size if part == "value" else facts.head_size
        if part != "query":
            head = self.trace.key_head(self.kind, head)
        return slice(head * size, (head + 1) * size)

    @property
    def output_columns(self) -> slice:
        """The columns of the head's output among those of all heads."""
        size = self.facts.value_size
        return slice(self.head * size, (self.head + 1) * size)

    def room(self, axis: Axis, *, whole: bool = False) -> Room:
        """Return the space reserved in a map of tokens, so few steps move anything.

        It is the next power of two, limited to the run's length once decoding has
        ended. With ``whole`` the map shows all tokens, not a block.
        """
        if axis not in ("query", "key"):
            return NO_ROOM
        side = axis == "key"
        names = labels(self.trace.whole, self.kind)[side]
        count = len(names)
        if SIDES[self.kind][side] == "target":
            count = doubled(FEWEST, len(self.trace.tokens(self.kind)[side]))
            count = count if self.grows else min(count, len(names))
        if whole:
            return Room(count, names)
        shown = block(self.key if side else self.query, count)
        return Room(shown.stop - shown.start, names[shown])

    def dimension(self, axis: Axis, size: int) -> int:
        """Return the selected index along an axis of ``size``, by default 0."""
        at = self.dimensions.get(axis, 0)
        return at if at < size else 0

    def rows(self) -> LayerRows:
        """Return the layer's sublayers; ValueError until the weights arrive."""
        if self.layer_rows is None:
            raise ValueError("the layer's weights have not arrived.")
        return self.layer_rows

    def cut(self, numbers: Floats) -> Floats:
        """Return the rows of the block that are shown."""
        return numbers[: self.queries.stop - self.queries.start]

    def names(self, axis: Axis, size: int = 0) -> tuple[str, ...]:
        """Name the columns of a table along an axis: the keys, or dim 0 and so on.

        ``size`` is the number of dimensions.
        """
        labels = self.labels(axis, size)
        return named(unit_of(axis), labels) if axis in UNITS else labels

    def labels(self, axis: Axis, size: int = 0) -> tuple[str, ...]:
        """Label all rows or columns of a map along an axis of ``size`` dimensions."""
        if axis in ("query", "key"):
            return self._tokens[axis == "key"]
        return _counted(size)

    @cached_property
    def _tokens(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The labels of queries and keys, shared by all maps."""
        return labels(self.trace, self._named_as)

    @property
    def _named_as(self) -> Kind:
        """The kind that names the rows; without attention, tokens name themselves."""
        return "decoder" if self.alone and self.kind == "cross" else self.kind

    def token(self, axis: Literal["query", "key"]) -> str:
        """Name the cell's query or key and its position."""
        if axis == "key":
            return key_placed(self.trace, self.kind, self.key)
        return row_placed(self.trace, self._named_as, self.query)


@lru_cache(maxsize=8)
def _counted(size: int) -> tuple[str, ...]:
    """Return the labels of dimensions, counted from 0."""
    return tuple(map(str, range(size)))


def sharing_words(subject: Subject) -> str:
    """Name the heads that share keys and values; "" if each has its own."""
    heads, group = subject.facts.heads, subject.facts.heads // subject.facts.key_heads
    if group == 1:
        return ""
    if group == heads:
        return _("All {heads} heads share these keys and values.", heads=heads)
    first = subject.head // group * group + 1
    names = {"first": first, "last": first + group - 1}
    if group == 2:
        return _("Heads {first} and {last} share these keys and values.", **names)
    return _("Heads {first} to {last} share these keys and values.", **names)


def unit_of(axis: Axis) -> str:
    """Return the unit before an index along an axis; "" for tokens."""
    return _(UNITS[axis]) if axis in UNITS else ""


def block(index: int, length: int) -> slice:
    """Return the block of rows that contains an index."""
    first = index // BLOCK * BLOCK
    return slice(first, min(first + BLOCK, length))


def subject(
    trace: Trace | None,
    selection: Selection,
    *,
    parameters: tuple[LayerParameters, ...] = (),
    positions: Floats | None = None,
    dimensions: Mapping[Axis, int] | None = None,
    grows: bool = False,
    options: StageOptions = AT_FIRST,
    dropout: tuple[float, ...] = (),
) -> Subject | None:
    """Return the subject; None if there is no row yet.

    ``parameters`` are the weights of some layers, of which the selected one's are used.
    ``grows`` means that the run is being decoded; ``dropout`` are the training rates.
    """
    kind = selection.kind
    if trace is None or not trace.tokens(kind)[0]:
        return None
    cell, shown = focus(trace, selection), trace
    trace = as_read(trace, kind, [selection.layer])
    fit = fitting(trace, selection, parameters)
    return Subject(
        trace=trace,
        kind=kind,
        layer=selection.layer,
        head=selection.head,
        query=cell.query,
        key=cell.key,
        chosen=cell is selection.cell,
        whole=trace is not shown,
        scale=selection.scale,
        layer_rows=None if fit is None else layer_rows(trace, fit, cell.query),
        positions=positions,
        dimensions=dimensions or {},
        grows=grows,
        options=options,
        dropout=dropout,
    )


def focus(trace: Trace, selection: Selection) -> AttentionCell:
    """Return the cell that is shown.

    By default, the last query and the key that it reads most.
    """
    kind, cell = selection.kind, selection.cell
    if cell is not None and cell.kind == kind:
        return cell
    last = len(trace.tokens(kind)[0]) - 1
    read = as_read(trace, kind, [selection.layer])
    row = query_weights(read, kind, selection.layer, selection.head, last)
    best = 0 if np.isnan(row).all() else int(np.nanargmax(row))
    return AttentionCell(kind, last, best)


# ---- the layer's weights, and its rows ----------------------------------------------


def fitting(
    trace: Trace, selection: Selection, parameters: tuple[LayerParameters, ...]
) -> LayerParameters | None:
    """Return the selected layer's weights, if they are among ``parameters``."""
    here = STACK_OF[selection.kind], selection.layer
    return next(
        (
            layer
            for layer in parameters
            if (layer.stack, layer.layer) == here and _is_of(layer, trace)
        ),
        None,
    )


def _is_of(layer: LayerParameters, trace: Trace) -> bool:
    """Whether weights belong to a Trace's model; the result is cached."""
    models = layer.model, trace.model
    return trace.memo.made(models, "one model", lambda: layer.belong_to(trace.model))


def missing(
    trace: Trace | None, selection: Selection, parameters: tuple[LayerParameters, ...]
) -> tuple[StackName, int] | None:
    """Return the stack and layer whose weights are missing; None if none are."""
    if trace is None or fitting(trace, selection, parameters) is not None:
        return None
    return STACK_OF[selection.kind], selection.layer


def layer_rows(trace: Trace, parameters: LayerParameters, query: int) -> LayerRows:
    """Return a layer's sublayers for the block of rows around a query.

    Results are cached while cells, heads and steps change: the rows of the whole run
    serve every step. The cache holds the blocks
    of two layers, for switching between neighbours.
    """
    name = "layer rows", parameters.layer % 2
    stack, model = parameters.stack, parameters.model.config
    whole = trace.whole
    rows = block(query, len(_row_tokens(whole, stack)))
    kept: LayerRows | None = trace.memo.find(trace.storage, name)
    if (
        kept is not None
        and kept.parameters is parameters
        and kept.rows.start == rows.start
        and kept.rows.stop >= min(rows.stop, len(_row_tokens(trace, stack)))
        and (len(kept.trace) == len(whole) or whole is not trace)
    ):
        return kept
    # a cycle with its own cache would keep a run alive until a full collection
    apart = replace(whole, memo=Memo(), cut_from=None)
    fresh = LayerRows(apart, parameters, rows)
    numbers = (rows.stop - rows.start) * (12 * model.d_model + 4 * model.feed_forward)
    trace.memo.keep(trace.storage, name, fresh, numbers)
    return fresh


def _row_tokens(trace: Trace, stack: StackName) -> tuple[str, ...]:
    return trace.source if stack == "encoder" else trace.target
