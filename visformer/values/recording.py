"""Recording: storage that grows by a decoder row per step; how much a Trace takes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visformer.values.arrays import Bools, Floats, read_only
from visformer.values.attention_heads import DistanceBias
from visformer.values.step import Step
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What one step adds to a Trace."""

    id: int  # the token consumed
    token: str
    values: Floats  # [Columns.width("decoder")]
    self_mask: Bools  # [t + 1], or [T] where it may see beyond itself
    cross_mask: Bools  # [S]; both after a layer axis where layers differ
    step: Step | None = None  # what it predicts, once that is chosen


def rows_of(trace: Trace, start: int) -> tuple[Row, ...] | None:
    """Return the rows of a Trace from ``start`` on; None if it has more than rows.

    The attention of a watched model, for one, is not all in its rows.
    """
    if trace.captured or trace.biases or trace.certificate is not None:
        return None
    return tuple(
        Row(
            id=int(trace.target_ids[at]),
            token=trace.target[at],
            values=trace.decoder_rows[at],
            self_mask=trace.masks["decoder"][..., at, :],
            cross_mask=trace.masks["cross"][..., at, :],
            step=trace.steps[at],
        )
        for at in range(start, len(trace))
    )


class Recording:
    """Storage that grows by one row a step; the Traces it gives out share it.

    ``start`` is the Trace of T = 0. Reserved up to ``limit`` rows at once: pages are
    touched when rows are written, so that a snapshot is a view and appending copies
    nothing that is already there.
    """

    def __init__(self, start: Trace, limit: int) -> None:
        """Begin with a Trace of T = 0."""
        self.start = start
        source = len(start.source)
        self._rows = np.zeros((limit, start.columns.width("decoder")), np.float32)
        self._ids = np.zeros(limit, np.int64)
        changed = start.intervention
        self_layers = (start.layers("decoder"),) if changed.by_layer("decoder") else ()
        cross_layers = (start.layers("cross"),) if changed.by_layer("cross") else ()
        self._self_mask = np.zeros((*self_layers, limit, limit), bool)
        self._cross_mask = np.zeros((*cross_layers, limit, source), bool)
        self._target: list[str] = []
        self._steps: list[Step] = []

    def __len__(self) -> int:
        """Return the number of rows recorded."""
        return len(self._target)

    @property
    def limit(self) -> int:
        """How many rows fit."""
        return len(self._ids)

    @property
    def ids(self) -> list[int]:
        """The token that each row consumed."""
        ids: list[int] = self._ids[: len(self)].tolist()
        return ids

    def append(self, row: Row) -> None:
        """Add one decoder row."""
        at = len(self)
        self._rows[at] = row.values
        self._ids[at] = row.id
        self._self_mask[..., at, : row.self_mask.shape[-1]] = row.self_mask
        self._cross_mask[..., at, :] = row.cross_mask
        self._target.append(row.token)
        if row.step is not None:
            self._steps.append(row.step)

    def shorten(self, length: int) -> None:
        """Forget the rows from ``length`` on; Traces that show them must be dropped.

        Rows that a living Trace shares are not overwritten: the storage is copied.
        """
        if length < len(self):
            self._rows = _kept(self._rows, length)
            self._ids = _kept(self._ids[:, None], length)[:, 0]
            self._self_mask = _kept(self._self_mask, length)
            self._cross_mask = _kept(self._cross_mask, length)
            del self._target[length:], self._steps[length:]

    def trace(self, steps: Sequence[Step] | None = None) -> Trace:
        """Return all rows so far as a Trace, sharing the storage.

        Its steps are those of the rows, unless others are given.
        """
        length = len(self)
        return replace(
            self.start,
            target=tuple(self._target),
            target_ids=read_only(self._ids[:length]),
            steps=tuple(self._steps if steps is None else steps),
            decoder_rows=read_only(self._rows[:length]),
            masks={
                **self.start.masks,
                "decoder": read_only(self._self_mask[..., :length, :length]),
                "cross": read_only(self._cross_mask[..., :length, :]),
            },
        )


def _kept(array: NDArray[Any], length: int) -> NDArray[Any]:
    """Copy the first rows of [..., rows, columns]; the others are zero."""
    fresh = np.zeros_like(array)
    fresh[..., :length, :] = array[..., :length, :]
    return fresh


def bytes_of(trace: Trace) -> int:
    """Return how many bytes the arrays of a Trace have, its model's aside."""
    return sum(map(_bytes, _arrays(trace)))


def compact(trace: Trace) -> Trace:
    """Return a Trace whose rows and masks are not views of larger arrays.

    A Recording reserves rows up to its limit. Arrays in a file stay there.
    """
    return replace(
        trace,
        target_ids=_own(trace.target_ids),
        encoder_rows=_own(trace.encoder_rows),
        memory_rows=_own(trace.memory_rows),
        decoder_rows=_own(trace.decoder_rows),
        masks={kind: _own(mask) for kind, mask in trace.masks.items()},
    )


def _arrays(trace: Trace) -> Iterator[Any]:
    yield from (trace.encoder_rows, trace.memory_rows, trace.decoder_rows)
    yield from trace.masks.values()
    yield from trace.captured.values()
    for biases in trace.biases.values():
        yield from (bias for bias in biases if not isinstance(bias, DistanceBias))


def _bytes(array: Any) -> int:
    """Return what an array takes, or would once it is read from its file."""
    return int(getattr(array, "nbytes", 4 * math.prod(array.shape)))


def _own(array: NDArray[Any]) -> NDArray[Any]:
    base = getattr(array, "base", None)
    larger = isinstance(base, np.ndarray) and base.nbytes > array.nbytes
    return read_only(array.copy()) if larger else array
