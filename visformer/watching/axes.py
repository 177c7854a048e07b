"""Axes: where every dimension of a tensor comes from, through views and products.

A dimension is a tuple of axes, the outermost first: ``(batch, heads)`` where the two
are merged. Dimensions of size 1 have no axes. An axis records whether it counts
positions of an input (batch rows and tokens), features of a weight, or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

MADE, WEIGHT, INPUT = range(3)  # the origin of an axis; a larger one says more


class DataAxis:
    """One axis; two axes are the same object where they count the same positions."""

    __slots__ = (
        *("at", "cuts", "lost", "origin", "parent", "parts", "rows", "size", "twins"),
    )

    def __init__(
        self,
        size: int,
        origin: int,
        parent: DataAxis | None = None,
        at: int | Tensor | None = None,
        parts: Sequence[tuple[DataDimension, int, int]] = (),
        *,
        rows: bool = False,
        lost: bool = False,
    ) -> None:
        self.size, self.origin, self.parent = size, origin, parent
        # the parent's positions it covers: a start, or an index each, int64 [size];
        # None where it counts something else, such as half of the parent
        self.at = at
        self.parts = tuple(parts)  # the parts it was joined from: axes, size, marks
        self.rows = rows  # counts rows of a table, such as learned queries or positions
        # the order of its positions is unknown, as after sorting
        self.lost: bool = lost or (parent is not None and parent.lost)
        self.cuts: dict[tuple[str, Any, int], tuple[DataAxis, ...]] = {}
        self.twins: list[DataAxis] = []  # other axes combined element by element

    def lineage(self) -> Iterator[DataAxis]:
        """Yield this axis, then its parent, and so on."""
        axis: DataAxis | None = self
        while axis is not None:
            yield axis
            axis = axis.parent

    def positions_on(self, other: DataAxis) -> Tensor | None:
        """Return the index on another axis of each position, int64 [size].

        None if any position is not known to lie on it.
        """
        reached = {self: torch.arange(self.size)}
        queue = [self]
        for axis in queue:
            here = reached[axis]
            if axis is other:
                return here
            if axis.parent is not None and axis.at is not None:
                above = axis.at + here if isinstance(axis.at, int) else axis.at[here]
                if axis.parent not in reached:
                    reached[axis.parent] = above
                    queue.append(axis.parent)
            for twin in axis.twins:
                if twin not in reached:
                    reached[twin] = here
                    queue.append(twin)
        return None

    def join(self, other: DataAxis) -> None:
        """Record that both axes count the same positions, if their order is known."""
        lost = self.lost or other.lost
        if other is not self and not lost and self.positions_on(other) is None:
            self.twins.append(other)
            other.twins.append(self)

    def halves(self, outer: int) -> tuple[DataAxis, ...]:
        """Split it into two axes, the first of size ``outer``; cached."""

        def cut() -> tuple[DataAxis, ...]:
            sizes = outer, self.size // outer
            made = [DataAxis(n, self.origin, self, rows=self.rows) for n in sizes]
            if self.parent is not None and isinstance(self.at, Tensor):
                several = self.at.view(sizes)
                if min(sizes) > 1 and bool((several == several[0]).all()):
                    made[1:] = self.parent.moved(several[0])  # a repetition
            return tuple(made)

        return self._cut(("halves", outer, 0), cut)

    def slice(self, start: int, size: int) -> DataDimension:
        """Return a slice of it; an axis that was joined returns the matching part."""
        if size == 1:
            return ()
        if start == 0 and size == self.size:
            return (self,)
        at = 0
        for axes, length, _marks in self.parts:
            if (at, length) == (start, size):
                return axes
            at += length
        return self._cut(
            ("slice", start, size),
            lambda: (DataAxis(size, self.origin, self, start, rows=self.rows),),
        )

    def moved(self, along: Tensor) -> DataDimension:
        """Index it with ``along``, int64 [N]."""
        if len(along) == 1:
            return ()
        along = along.cpu()
        there = torch.arange(len(along))
        (made,) = self._cut(
            ("moved", along.numpy().tobytes(), 0),
            lambda: (DataAxis(len(along), self.origin, self, along, rows=self.rows),),
        )
        for axis in self.lineage():  # the order of an ancestor is restored
            back = made.positions_on(axis)
            if axis.size == made.size and back is not None and torch.equal(back, there):
                return (axis,)
        return (made,)

    def feature(self) -> DataAxis:
        """Return the feature axis of a product with this axis of a weight."""
        made = self._cut(("feature", 0, 0), lambda: (DataAxis(self.size, WEIGHT),))
        return made[0]

    def with_next(self, inner: DataAxis) -> DataAxis:
        """Merge it with the next inner axis into one whose positions match neither."""
        size, origin = self.size * inner.size, max(self.origin, inner.origin)
        return self._cut(
            ("with", inner, 0), lambda: (DataAxis(size, origin, inner, lost=True),)
        )[0]

    def _cut(
        self, key: tuple[str, Any, int], cut: Callable[[], tuple[DataAxis, ...]]
    ) -> tuple[DataAxis, ...]:
        if key not in self.cuts:
            self.cuts[key] = cut()
        return self.cuts[key]

    def copy(self) -> DataAxis:
        """Return a second axis over the same positions, for keys beside queries."""
        return DataAxis(self.size, self.origin, self, 0, self.parts, rows=self.rows)


DataDimension = tuple[DataAxis, ...]
DataDimensions = tuple[DataDimension, ...]


def fresh(shape: Sequence[int], origin: int) -> DataDimensions:
    """Return new dimensions, with one axis each."""
    return tuple((DataAxis(n, origin),) if n > 1 else () for n in shape)


def size_of(dimension: DataDimension) -> int:
    """Return the size of a dimension."""
    size = 1
    for axis in dimension:  # asked for each dimension of each result
        size *= axis.size
    return size


def positions_on(dimension: DataDimension, axis: DataAxis) -> Tensor | None:
    """Return the index on ``axis`` of each position; None if unknown."""
    for at, one in enumerate(dimension):
        here = one.positions_on(axis)
        if here is not None:
            sizes = [other.size for other in dimension]
            shape = [-1 if i == at else 1 for i in range(len(sizes))]
            return here.view(shape).expand(sizes).flatten()
    return None


def elsewhere(dimensions: DataDimensions) -> DataDimensions:
    """Return new dimensions of the same origins whose positions are unknown."""
    return tuple(
        tuple(
            DataAxis(axis.size, axis.origin, axis, rows=axis.rows, lost=True)
            for axis in one
        )
        for one in dimensions
    )


def kept(before: DataDimensions, shape: Sequence[int]) -> DataDimensions:
    """Keep the first argument's dimensions after an unknown operation, if they fit."""
    known = True
    result = []
    for at, n in enumerate(shape):
        known = known and at < len(before) and size_of(before[at]) == n
        result.append(before[at] if known else fresh((n,), MADE)[0])
    return tuple(result)


def regrouped(before: DataDimensions, shape: Sequence[int]) -> DataDimensions:
    """Dimensions after a ``view`` of this shape."""
    queue = [axis for dimension in before for axis in dimension]
    result = []
    for n in shape:
        taken, need = [], n
        while need > 1 and queue:
            axis = queue.pop(0)
            while need % axis.size and axis.size % need and queue:
                axis = axis.with_next(queue.pop(0))  # the cut runs across both
            if need % axis.size:
                axis, inner = axis.halves(need)
                queue.insert(0, inner)
            taken.append(axis)
            need //= axis.size
        if need > 1:
            return kept(before, shape)
        result.append(tuple(taken))
    return tuple(result)


def better(first: DataDimension, second: DataDimension) -> DataDimension:
    """Return the more informative of two descriptions of the same dimension.

    If their axes have the same sizes, choose for each axis separately. If two inputs
    count the same rows by different axes, the first wins: it belongs to the queries.
    """
    if [x.size for x in first] == [x.size for x in second]:
        pairs = zip(first, second, strict=True)
        return tuple(b if b.origin > a.origin else a for a, b in pairs)
    if first and all(axis.origin == INPUT for axis in (*first, *second)):
        return first

    def told(dimension: DataDimension) -> tuple[bool, int, int]:
        origins = [axis.origin for axis in dimension]
        return bool(origins) and MADE not in origins, sum(origins), len(dimension)

    return second if told(second) > told(first) else first


def aligned(
    several: Sequence[DataDimensions],
    shape: Sequence[int],
    first: Sequence[DataDimensions] = (),
) -> DataDimensions:
    """Broadcast the dimensions of several tensors, aligned at the last dimension.

    Those of ``first`` take precedence: scores keep their axes whatever is known of the
    mask that is added to them.
    """
    result = []
    for at, n in enumerate(shape):
        best: DataDimension = ()
        if n > 1:
            back = len(shape) - at
            for dimension in _that_fit(first, back, n) or _that_fit(several, back, n):
                best = better(best, dimension)
        result.append(best if size_of(best) == n else fresh((n,), MADE)[0])
    return tuple(result)


def _that_fit(
    several: Sequence[DataDimensions], back: int, n: int
) -> list[DataDimension]:
    """Return the dimensions that have size n at position ``-back``."""
    there = [dimensions[-back] for dimensions in several if back <= len(dimensions)]
    return [dimension for dimension in there if size_of(dimension) == n]
