"""Axes: where every dimension of a tensor comes from, through views and products.

A dimension is a tuple of axes, the outermost first: ``(batch, heads)`` where the two
are merged. Those of size 1 have none. What is told by an axis: whether it counts
positions of an input (batch rows and tokens), features of a weight, or something made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

MADE, WEIGHT, INPUT = range(3)  # where an axis comes from; the better known is larger


class DataAxis:
    """One axis; identical where it means the same positions."""

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
        # which of the parent's positions it has: from one on, or each, int64 [size];
        # None where it counts something else, as a half of it
        self.at = at
        self.parts = tuple(parts)  # what was joined: axes, size, marks
        self.rows = rows  # counts the rows of a table: learned queries, positions
        # what stands where is unknown: of what was sorted, or put together anew
        self.lost: bool = lost or (parent is not None and parent.lost)
        self.cuts: dict[tuple[str, Any, int], tuple[DataAxis, ...]] = {}
        self.twins: list[DataAxis] = []  # others that were added to it, one by one

    def lineage(self) -> Iterator[DataAxis]:
        """Yield this axis, what it was cut from, and so on."""
        axis: DataAxis | None = self
        while axis is not None:
            yield axis
            axis = axis.parent

    def positions_on(self, other: DataAxis) -> Tensor | None:
        """Return where its positions lie on another axis, int64 [size].

        None where they do not all lie there, as far as is known.
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
        """Note that both count the same positions, where it is known which."""
        lost = self.lost or other.lost
        if other is not self and not lost and self.positions_on(other) is None:
            self.twins.append(other)
            other.twins.append(self)

    def halves(self, outer: int) -> tuple[DataAxis, ...]:
        """Return it as two axes, the first of size ``outer``; always the same two."""

        def cut() -> tuple[DataAxis, ...]:
            sizes = outer, self.size // outer
            made = [DataAxis(n, self.origin, self, rows=self.rows) for n in sizes]
            if self.parent is not None and isinstance(self.at, Tensor):
                several = self.at.view(sizes)
                if min(sizes) > 1 and bool((several == several[0]).all()):
                    made[1:] = self.parent.moved(several[0])  # the same ones again
            return tuple(made)

        return self._cut(("halves", outer, 0), cut)

    def slice(self, start: int, size: int) -> DataDimension:
        """Return a stretch of it; of joined axes, the one that is meant."""
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
        """Return those of its positions that ``along``, int64 [N], names, in order."""
        if len(along) == 1:
            return ()
        along = along.cpu()
        there = torch.arange(len(along))
        (made,) = self._cut(
            ("moved", along.numpy().tobytes(), 0),
            lambda: (DataAxis(len(along), self.origin, self, along, rows=self.rows),),
        )
        for axis in self.lineage():  # put back in order again
            back = made.positions_on(axis)
            if axis.size == made.size and back is not None and torch.equal(back, there):
                return (axis,)
        return (made,)

    def feature(self) -> DataAxis:
        """Return the axis of what is computed with it, as an axis of weights."""
        made = self._cut(("feature", 0, 0), lambda: (DataAxis(self.size, WEIGHT),))
        return made[0]

    def with_next(self, inner: DataAxis) -> DataAxis:
        """Return one axis of both, of which no position is a position of either."""
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
        """Return another that counts the same: keys beside queries."""
        return DataAxis(self.size, self.origin, self, 0, self.parts, rows=self.rows)


DataDimension = tuple[DataAxis, ...]
DataDimensions = tuple[DataDimension, ...]


def fresh(shape: Sequence[int], origin: int) -> DataDimensions:
    """Return dimensions of their own, one axis each."""
    return tuple((DataAxis(n, origin),) if n > 1 else () for n in shape)


def size_of(dimension: DataDimension) -> int:
    """Return how many positions a dimension has."""
    return math.prod(axis.size for axis in dimension)


def positions_on(dimension: DataDimension, axis: DataAxis) -> Tensor | None:
    """Return where the positions of a dimension lie on an axis; None if unknown."""
    for at, one in enumerate(dimension):
        here = one.positions_on(axis)
        if here is not None:
            sizes = [other.size for other in dimension]
            shape = [-1 if i == at else 1 for i in range(len(sizes))]
            return here.view(shape).expand(sizes).flatten()
    return None


def elsewhere(dimensions: DataDimensions) -> DataDimensions:
    """Return dimensions of the same kinds, where it is not known what stands where."""
    return tuple(
        tuple(
            DataAxis(axis.size, axis.origin, axis, rows=axis.rows, lost=True)
            for axis in one
        )
        for one in dimensions
    )


def kept(before: DataDimensions, shape: Sequence[int]) -> DataDimensions:
    """Dimensions after an operation that is not known: the first ones, if they fit."""
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
                axis = axis.with_next(queue.pop(0))  # cut across both
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
    """Of two accounts of one dimension, return the one that tells more.

    Where both have as many axes of the same sizes, it is told of each axis; of rows
    that two inputs count, by other axes, it is the first: those that read the others.
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
    """Dimensions of what is broadcast from several, each known from the last on.

    What ``first`` has is taken from there: scores keep their axes, whatever is known
    of those of their mask.
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
    """Return the dimensions of size n, counted from the last one."""
    there = [dimensions[-back] for dimensions in several if back <= len(dimensions)]
    return [dimension for dimension in there if size_of(dimension) == n]
