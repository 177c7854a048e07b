"""Which axes the result of an operation has: one rule a group of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from visformer.watching.axes import (
    INPUT,
    MADE,
    DataAxis,
    DataDimension,
    DataDimensions,
    aligned,
    fresh,
    kept,
    regrouped,
)
from visformer.watching.ledger import Ledger, Picked

REGROUPS = {"view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze"}
REDUCTIONS = {
    *("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "logsumexp"),
    *("prod", "norm", "linalg_vector_norm", "var", "std", "any", "all"),
}
PIECES = {"split", "split_with_sizes", "chunk", "unsafe_split"}
MATRIX = {"mm", "bmm", "addmm", "baddbmm"}


def results_of(
    name: str, args: tuple[Any, ...], ins: Sequence[Tensor], ledger: Ledger, out: Any
) -> list[tuple[Tensor, DataDimensions]]:
    """Return the tensors that an operation made, with their dimensions."""
    outs = list(out) if isinstance(out, tuple | list) else [out]
    outs = [one for one in outs if isinstance(one, Tensor)]
    if name in PIECES and ins:
        return _pieces(args, ledger.known(ins[0]).dimensions, outs)
    several = [ledger.known(one).dimensions for one in ins]
    return [(one, _dimensions(name, args, ins, several, one, ledger)) for one in outs]


def _dimensions(
    name: str,
    args: tuple[Any, ...],
    ins: Sequence[Tensor],
    several: Sequence[DataDimensions],
    out: Tensor,
    ledger: Ledger,
) -> DataDimensions:
    shape = tuple(out.shape)
    if not several:
        return fresh(shape, MADE)
    first = several[0]
    if name in REGROUPS:
        return regrouped(first, shape)
    if name in ("transpose", "t", "permute", "select", "unbind", "slice"):
        return _picked(name, args, first, shape)
    if name == "cat":
        return _joined(args, ins, several, shape, ledger)
    if name == "stack":
        at = (args[1] if len(args) > 1 else 0) % len(shape)
        rest = aligned(several, shape[:at] + shape[at + 1 :])
        return (*rest[:at], *fresh(shape[at : at + 1], MADE), *rest[at:])
    if name == "embedding":
        return (*several[1], first[-1])
    if name in ("index_select", "repeat"):
        return _where_same(first, shape)
    if name in REDUCTIONS:
        return _reduced(args, first, shape)
    if shape == _broadcast(ins):
        known = [ledger.known(one) for one in ins]
        scores = [one.dimensions for one in known if one.trail is not None]
        return aligned(several, shape, scores[:1])
    return kept(first, shape) if len(shape) != len(first) else _where_same(first, shape)


def _broadcast(ins: Sequence[Tensor]) -> tuple[int, ...] | None:
    """Return the shape that tensors are broadcast to; torch's own is slow."""
    shape: list[int] = []
    for one in ins:
        own = one.shape
        shape = [1] * (len(own) - len(shape)) + shape
        for at in range(1, len(own) + 1):
            n = own[-at]
            if n != shape[-at] and n != 1:
                if shape[-at] != 1:
                    return None
                shape[-at] = n
    return tuple(shape)


def _where_same(before: DataDimensions, shape: tuple[int, ...]) -> DataDimensions:
    """Keep the dimensions whose size did not change, wherever they are."""
    new = aligned([before], shape) if len(before) == len(shape) else kept(before, shape)
    return tuple(
        (DataAxis(n, max((a.origin for a in old), default=MADE)),)
        if n > 1 and now and now[0].origin == MADE and not now[0].parent
        else now
        for now, old, n in zip(new, (*before, *new), shape, strict=False)
    )


def _picked(
    name: str, args: tuple[Any, ...], before: DataDimensions, shape: tuple[int, ...]
) -> DataDimensions:
    many = len(before)
    if name == "permute":
        return tuple(before[at % many] for at in args[1])
    if name in ("transpose", "t"):
        first, second = (args[1] % many, args[2] % many) if name != "t" else (0, -1)
        order = list(before)
        if many > 1:
            order[first], order[second] = before[second], before[first]
        return tuple(order)
    at = (args[1] if len(args) > 1 else 0) % many
    if name in ("select", "unbind"):
        return before[:at] + before[at + 1 :]
    start = args[2] if len(args) > 2 and args[2] is not None else 0
    step = args[4] if len(args) > 4 else 1
    whole = _length(before[at])
    start = max(0, start + whole) if start < 0 else start
    return (
        *before[:at],
        _stretch(before[at], start, shape[at], step),
        *before[at + 1 :],
    )


def _length(dimension: DataDimension) -> int:
    size = 1
    for axis in dimension:
        size *= axis.size
    return size


def _stretch(
    before: DataDimension, start: int, size: int, step: int = 1
) -> DataDimension:
    """Return a stretch of a dimension."""
    if size == _length(before):
        return before
    if len(before) == 1 and step == 1:
        return before[0].slice(start, size)
    origin = max((axis.origin for axis in before), default=MADE)
    return (DataAxis(size, origin, before[0] if len(before) == 1 else None),) * (
        size > 1
    )


def _pieces(
    args: tuple[Any, ...], before: DataDimensions, outs: Sequence[Tensor]
) -> list[tuple[Tensor, DataDimensions]]:
    at = (args[2] if len(args) > 2 else 0) % len(before)
    start, results = 0, []
    for out in outs:
        part = _stretch(before[at], start, out.shape[at])
        results.append((out, (*before[:at], part, *before[at + 1 :])))
        start += out.shape[at]
    return results


def picks(
    name: str, args: tuple[Any, ...], ins: Sequence[Tensor], ledger: Ledger, at: int
) -> Picked:
    """Return the single position of an input's axis that a result is of, if it is."""
    if name not in ("slice", "select", "unbind", *PIECES):
        return ()
    before = ledger.known(ins[0]).dimensions
    given = args[2 if name in PIECES else 1 : 3 if name in PIECES else 2]
    dimension = before[(given[0] if given else 0) % len(before)]
    if len(dimension) != 1 or dimension[0].origin != INPUT:
        return ()
    size, start = dimension[0].size, at
    if name in ("slice", "select"):
        start = args[2] if len(args) > 2 and args[2] is not None else 0
        start += size if start < 0 else 0
    if name == "slice":
        stop = args[3] if len(args) > 3 and args[3] is not None else size
        stop = min(size, stop + size if stop < 0 else stop)
        return ((dimension[0], start),) if stop - start == 1 else ()
    if name in PIECES:
        each = args[1]
        sizes = each if isinstance(each, list | tuple) else [each] * -(-size // each)
        start = sum(sizes[:at])
        return ((dimension[0], start),) if min(sizes[at], size - start) == 1 else ()
    return ((dimension[0], start),)


def _joined(
    args: tuple[Any, ...],
    ins: Sequence[Tensor],
    several: Sequence[DataDimensions],
    shape: tuple[int, ...],
    ledger: Ledger,
) -> DataDimensions:
    at = (args[1] if len(args) > 1 else 0) % len(shape)
    whole = [i for i, one in enumerate(ins) if one.dim() == len(shape)]
    rest = aligned(
        [(*several[i][:at], (), *several[i][at + 1 :]) for i in whole], shape
    )
    parts = [(several[i][at], ins[i].shape[at], ledger.marks([ins[i]])) for i in whole]
    if len(parts) > 1 and len({axes for axes, _n, _m in parts}) == 1 and parts[0][0]:
        # the same positions several times over: heads put side by side, say
        outer: DataDimension = (DataAxis(len(parts), MADE), *parts[0][0])
    else:
        origin = max((a.origin for axes, _n, _m in parts for a in axes), default=MADE)
        outer = (DataAxis(shape[at], origin, parts=parts),) if shape[at] > 1 else ()
    return (*rest[:at], outer, *rest[at + 1 :])


def _reduced(
    args: tuple[Any, ...], before: DataDimensions, shape: tuple[int, ...]
) -> DataDimensions:
    if len(shape) == len(before):
        return aligned([before], shape)
    which = args[1] if len(args) > 1 else None
    dims = [which] if isinstance(which, int) else list(which or ())
    gone = {at % len(before) for at in dims}
    left = tuple(d for at, d in enumerate(before) if at not in gone)
    return left if len(left) == len(shape) else fresh(shape, MADE)
