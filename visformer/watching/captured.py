"""Captured: one attention in canonical axis order, and how well it is reproduced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visformer.values.attention_heads import NO_WEIGHT
from visformer.values.watched_attention import HIDING
from visformer.watching.axes import (
    INPUT,
    WEIGHT,
    DataAxis,
    DataDimension,
    DataDimensions,
    size_of,
)
from visformer.watching.ledger import Picked, ScoreProduct, ScoreTrail, walked

COARSE = 1e-5  # types with fewer digits than float32 have a larger rounding unit
SHARED, ROWS, COLUMNS = "shared", "rows", "columns"


class Apart(NamedTuple):
    """The difference between observed and recomputed numbers, and its tolerance."""

    difference: float
    allowed: float

    @staticmethod
    def worse(several: Iterable[Apart]) -> Apart:
        """Return the one that exceeds its tolerance, else the largest difference."""
        return max(several, key=lambda one: (one.difference > one.allowed, one))


@dataclass(slots=True, eq=False)
class Captured:
    """One attention as it ran; float32 tensors on the CPU, in the order B H Q K."""

    weights: Tensor  # [B, H, Q, K]: what multiplied the values
    queries: Tensor  # [B, H or fewer, Q, d]
    keys: Tensor  # [B, H or fewer, K, d]
    values: Tensor  # [B, H or fewer, K, e]
    result: Tensor  # [B, H, Q, e]
    scale: float
    added: Tensor | None  # [B or 1, H or 1, Q, K]
    linear: bool  # the weights are softmax(scale * q.k + added)
    # bool, [B or 1, H or 1, Q, K]: where ``added`` replaces the score
    filled: Tensor | None
    apart: Apart
    multiplied: Tensor | None  # bool, where a score was multiplied by zero
    over: str  # what the softmax runs over: "keys", "queries", "heads", "batch"
    random: bool
    mixed: bool  # heads were mixed after the softmax, or sinks took a part
    marks: tuple[int, int, int]  # the marks of queries, keys and values
    module: str
    call: int
    parent: int
    outermost: int
    mark: int  # the mark of everything that depends on it
    query_axes: DataDimension
    query_picked: Picked  # where the queries are a single position
    key_axes: DataDimension
    batch_axes: tuple[DataDimension, DataDimension]  # of queries and of keys
    key_parts: tuple[tuple[int, int], ...]  # sizes and marks of joined keys
    parts: tuple[tuple[str, int], ...]  # as of a WatchedAttention
    # brings what is laid out as the result into the order [B, H, Q, e]
    in_order: Callable[[Tensor], Tensor]
    # what is added but by masks, as ``added``; None where it was not asked for, or
    # where one operation masks and adds
    bare: Tensor | None
    # ids of queries and keys, int64 [B, Q] and [B, K], once they are known
    query_ids: Tensor | None = None
    key_ids: Tensor | None = None
    beside: bool = False  # one of several modules that run in parallel

    @property
    def learned(self) -> tuple[bool, bool]:
        """Whether queries, and keys, are rows of a learned table."""
        first, second = (
            bool(axes) and all(axis.rows for axis in axes)
            for axes in (self.query_axes, self.key_axes)
        )
        return first, second

    @property
    def read(self) -> Tensor:
        """Return the weights that show which tokens are read, [B, H, Q, K'].

        Left out are queries that may read nothing, such as padding, and learned keys,
        which have no position.
        """
        weights = self.weights
        if self.added is not None:
            hidden = ~(self.added > NO_WEIGHT)
            if self.filled is not None:
                hidden = hidden | (self.filled & (self.added <= HIDING))
            weights = weights.masked_fill(hidden.all(-1, keepdim=True), 0.0)
        learned = [torch.full((n,), not marks) for n, marks in self.key_parts]
        more = weights.shape[3] > weights.shape[2]  # else the queries are learned too
        return weights[..., ~torch.cat(learned)] if learned and more else weights

    @property
    def began(self) -> int:
        """Return the number of marks when its first part was computed."""
        return (self.mark & -self.mark).bit_length()

    @property
    def without_room(self) -> Captured:
        """Drop the last keys that no query may read and that were never written.

        A cache of fixed length has unused slots there.
        """
        if self.keys.shape[2] <= self.weights.shape[2]:
            return self
        empty = (self.keys == 0).all(-1).flatten(0, -2).all(0)  # [K]
        read = self.weights != 0 if self.added is None else self.added > NO_WEIGHT
        used = ~empty | read.flatten(0, -2).any(0)
        n = int(used.nonzero().max()) + 1 if bool(used.any()) else 0
        if n in (0, len(used)):
            return self
        names = ("weights", "added", "multiplied", "filled")
        parts = {name: getattr(self, name) for name in names}
        made: dict[str, Any] = {
            k: x[..., :n] for k, x in parts.items() if x is not None
        }
        made |= {"keys": self.keys[:, :, :n], "values": self.values[:, :, :n]}
        return replace(self, **made, key_axes=(), key_parts=())

    def rows(self, at: Tensor) -> Captured:
        """Select rows of the batch, int64 [B']."""
        names = ("weights", "queries", "keys", "values", "result", "multiplied")
        parts = {name: getattr(self, name) for name in (*names, "query_ids", "key_ids")}
        made = {name: x[at] for name, x in parts.items() if x is not None}
        for name in ("added", "filled"):
            shared = getattr(self, name)
            if shared is not None and len(shared) > 1:
                made[name] = shared[at]
        return replace(self, **made)


@dataclass(frozen=True, slots=True)
class Roles:
    """The axes of the weights, by role."""

    batch: DataDimension
    heads: DataDimension
    queries: DataDimension
    keys: DataDimension

    @property
    def groups(self) -> tuple[DataDimension, ...]:
        """The axes in canonical order."""
        return self.batch, self.heads, self.queries, self.keys


class Unclear(Exception):
    """The roles of the axes are ambiguous; the message names the reason."""


def arranged(
    tensor: Tensor, dimensions: DataDimensions, groups: Sequence[DataDimension]
) -> Tensor:
    """Permute and reshape a tensor to one dimension per group of axes."""
    axes = [axis for dimension in dimensions for axis in dimension]
    wanted = [axis for group in groups for axis in group]
    if len(set(axes)) != len(axes) or set(axes) != set(wanted):
        raise Unclear("axes")
    sizes = [axis.size for axis in axes]
    if torch.Size(sizes).numel() != tensor.numel():
        raise Unclear("sizes")
    order = [axes.index(axis) for axis in wanted]
    return tensor.reshape(sizes).permute(order).reshape([*map(size_of, groups)])


def side_of_keys(product: ScoreProduct, contracted: DataDimension) -> str:
    """Return whether the keys are the rows or the columns of the product."""
    table = _table(product)
    sides = {_role(axis, table) for axis in contracted}
    if not contracted:
        return ROWS if product.right_columns and not product.left_rows else COLUMNS
    for side in (COLUMNS, ROWS):
        if sides == {side}:
            return side
    raise Unclear("contracted")


def _table(product: ScoreProduct) -> dict[DataAxis, str]:
    table = {axis: SHARED for dimension in product.shared for axis in dimension}
    table.update(dict.fromkeys(product.left_rows, ROWS))
    table.update(dict.fromkeys(product.right_columns, COLUMNS))
    return table


def _role(axis: DataAxis, table: dict[DataAxis, str]) -> str | None:
    return next((table[one] for one in axis.lineage() if one in table), None)


def roles(
    product: ScoreProduct,
    shared: DataDimension,
    rows: DataDimension,
    keys: DataDimension,
    batch_size: int,
) -> Roles:
    """Assign roles to the axes of a product's result."""
    table, of_keys = _table(product), side_of_keys(product, keys)
    if in_pieces(product):  # already in the model's own layout
        at = next(
            (n for n in range(len(shared)) if size_of(shared[:n]) == batch_size), 0
        )
        return Roles(shared[:at], shared[at:], rows, keys)
    # axes split into heads and features, including an input's own features
    split = {axis.parent for axis in product.summed} - {None}
    batch: list[DataAxis] = []
    heads: list[DataAxis] = []
    queries: list[DataAxis] = []
    for axis in (*shared, *rows):
        role = _role(axis, table)
        if role == of_keys:
            raise Unclear("keys")
        if role is None:
            if axis.origin != WEIGHT:
                raise Unclear("new")
            heads.append(axis)
        elif role == SHARED:
            counts = axis.origin == INPUT and axis.parent not in split
            (batch if counts else heads).append(axis)
        else:  # the queries are counted by an input, or are learned
            (queries if axis.origin == INPUT or axis.rows else heads).append(axis)
    if not queries:
        counted = product.left_rows if of_keys == COLUMNS else product.right_columns
        if any(_role(axis, table) is None for axis in heads) and any(
            axis.origin == INPUT for axis in counted
        ):
            raise Unclear("queries")  # several axes, such as mixed heads
        queries = _only(a for a in rows if a in heads and a.origin != WEIGHT)
        heads = [axis for axis in heads if axis not in queries]
    if not batch and batch_size > 1:
        batch = _only(a for a in heads if a.size == batch_size and a.origin != WEIGHT)
        heads = [axis for axis in heads if axis not in batch]
    return Roles(tuple(batch), tuple(heads), tuple(queries), keys)


def in_pieces(product: ScoreProduct) -> bool:
    """Whether queries and keys share axes with the summed dimension.

    They do where heads were cut out of tokens without a transposition.
    """
    split = {axis.parent for axis in product.summed} - {None}
    return all(
        any(one.parent in split for axis in side for one in axis.lineage())
        for side in (product.left_rows, product.right_before)
    )


def _only(axes: Iterable[DataAxis]) -> list[DataAxis]:
    """Return the only axis, or none; raises Unclear if there are several."""
    found = list(axes)
    if len(found) > 1:
        raise Unclear("several")
    return found


def flat(dimensions: DataDimensions) -> DataDimension:
    """Concatenate the axes of several dimensions."""
    return tuple(axis for dimension in dimensions for axis in dimension)


def product_arranged(
    product: ScoreProduct, of_keys: str, batch_size: int
) -> tuple[Tensor, Tensor, Roles]:
    """Return queries [B, H', Q, d], keys [B, H', K, d], and the roles of the scores."""
    left, right = product.left, product.right.mT
    rows, columns = product.left_rows, product.right_columns
    if of_keys == ROWS:
        left, right, rows, columns = right, left, columns, rows
    found = roles(product, flat(product.shared), rows, columns, batch_size)
    depth = (DataAxis(left.shape[-1], WEIGHT),)
    own = [axis for axis in flat(product.shared) if axis in found.heads]
    queries = arranged(
        left,
        (*product.shared, rows, depth),
        (found.batch, found.heads, found.queries, depth),
    )
    keys = arranged(
        right,
        (*product.shared, columns, depth),
        (found.batch, tuple(own), columns, depth),
    )
    return queries, keys, found


def worst(first: Tensor, second: Tensor) -> float:
    """Return the largest difference, relative to max(1, row magnitude).

    Masked scores do not count towards the magnitude.
    """
    if first.shape != second.shape:
        return float("inf")
    first, second = (x.to_dense() if x.is_sparse else x for x in (first, second))
    if not first.numel() or (
        first.dtype == second.dtype and torch.equal(first, second)
    ):
        return 0.0
    first, second = first.double(), second.double()
    same = (first == second) | (first.isnan() & second.isnan())
    size = second.nan_to_num(0, 0, 0).abs()
    # after cancellation the error is relative to the terms, not to the sum
    row = size.where(size < -NO_WEIGHT, 0).amax(-1, keepdim=True)
    apart = (first - second).abs() / size.maximum(row).clamp(min=1)
    apart = torch.where(same, torch.zeros_like(apart), apart)
    return float(apart.nan_to_num(nan=float("inf"), posinf=float("inf")).max())


def grouped(several: Tensor, heads: int) -> Tensor:
    """Repeat shared heads, [B, H', N, d] to [B, H, N, d]."""
    return several.repeat_interleave(heads // several.shape[1], 1)


def softmax_axis(trail: ScoreTrail, found: Roles) -> str:
    """Return the axis that a trail's softmax runs over."""
    dimension = next((s.softmax[0] for s in trail.steps() if s.softmax), None)
    if dimension is None:  # written by hand; its rows sum to one over the keys
        return "keys"
    names = dict.fromkeys(found.batch, "batch") | dict.fromkeys(found.heads, "heads")
    names |= dict.fromkeys(found.queries, "queries")
    names |= dict.fromkeys(found.keys, "keys")
    for axis in dimension:
        role = next((names[one] for one in axis.lineage() if one in names), None)
        if role is not None and role != "keys":
            return role
    if not dimension and found.keys:  # a softmax over one choice, but several keys
        return "heads" if found.queries and not found.heads else "queries"
    return "keys"


def split_at_softmax(trail: ScoreTrail) -> tuple[list[ScoreTrail], list[ScoreTrail]]:
    """Split a trail in two at its softmax, which begins the second part."""
    steps = trail.steps()
    ends = ("exp", "_log_softmax")
    at = next(i for i, s in enumerate(steps) if s.softmax or s.operation in ends)
    return steps[:at], steps[at:]


class Replayed(NamedTuple):
    """The scores and weights of a trail, recomputed by the model's own operations."""

    product: Tensor
    scores: Tensor  # the input of the softmax
    weights: Tensor
    unit: float  # the largest relative rounding unit on the way


def again(trail: ScoreTrail) -> Replayed:
    """Recompute scores and weights in the model's own order of axes."""
    before, after = split_at_softmax(trail)
    scores = product = trail.product.left @ trail.product.right
    unit = unit_of(product)
    for step in before:
        scores = walked([step], scores)
        unit = max(unit, unit_of(scores))
    weights = walked(after, scores)
    return Replayed(product, scores, weights, max(unit, unit_of(weights)))


def unit_of(tensor: Tensor) -> float:
    """Return the relative rounding unit of a tensor's type, including TF32."""
    if not tensor.is_floating_point():
        return 0.0
    tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
    if tf32 and tensor.is_cuda and tensor.dtype == torch.float32:
        return 2**-11
    return float(torch.finfo(tensor.dtype).eps / 2)
