"""Which axes the result of an operation has: one rule a group of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from visformer.watching.axes import (
    INPUT,
    MADE,
    DataAxis,
    DataDimension,
    DataDimensions,
    aligned,
    elsewhere,
    fresh,
    kept,
    regrouped,
    size_of,
)
from visformer.watching.ledger import Ledger, Picked
from visformer.watching.score_trail import Again

REGROUPS = {"view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze"}
REDUCTIONS = {
    *("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "logsumexp"),
    *("prod", "norm", "linalg_vector_norm", "var", "std", "any", "all"),
}
PIECES = {"split", "split_with_sizes", "chunk", "unsafe_split"}
MATRIX = {"mm", "bmm", "addmm", "baddbmm"}
MOVES = {"flip", "roll", "index_select", "index", "gather", "repeat"}
WRITES = {  # of some positions, wherever they come from
    *("index_copy", "index_copy_", "index_put", "index_put_", "scatter", "scatter_"),
    *("slice_scatter", "select_scatter", "masked_scatter", "masked_scatter_"),
}


def results_of(
    name: str,
    args: tuple[Any, ...],
    ins: Sequence[Tensor],
    ledger: Ledger,
    out: Any,
    again: Again | None,
) -> list[tuple[Tensor, DataDimensions]]:
    """Return the tensors that an operation made, with their dimensions.

    ``again`` does the operation with another tensor in the place of the first one.
    """
    outs = list(out) if isinstance(out, tuple | list) else [out]
    outs = [one for one in outs if isinstance(one, Tensor)]
    if not all(one.numel() for one in outs):  # nothing is left to be told of
        return [(one, fresh(one.shape, MADE)) for one in outs]
    if name in PIECES and ins:
        return _pieces(args, ledger.known(ins[0]).dimensions, outs)
    several = [ledger.known(one).dimensions for one in ins]
    if (looked_up := ids_looked_up(name, args, ins, ledger)) is not None:
        ids = ledger.known(looked_up).dimensions
        return [(one, (*ids, *several[0][1:])) for one in outs]
    if name in WRITES and not any(ledger.known(one).trail for one in ins):
        return [(one, elsewhere(several[0])) for one in outs]
    if name in MOVES and again is not None:
        return [(one, _moved(several[0], ins[0], again, one)) for one in outs]
    return [(one, _dimensions(name, args, ins, several, one, ledger)) for one in outs]


def ids_looked_up(
    name: str, args: tuple[Any, ...], ins: Sequence[Tensor], ledger: Ledger
) -> Tensor | None:
    """Return the ids whose rows of a table an operation takes; None if it does not."""
    if name == "embedding":
        return ins[1]
    if name not in ("index", "index_select") or len(ins) != 2:
        return None
    first = args[1] == 0 if name == "index_select" else args[1][0] is not None
    of_table = ledger.is_weight(ins[0]) and ins[0].dim() > 1
    whole = ins[1].dtype in (torch.int64, torch.int32)
    return ins[1] if first and of_table and whole else None


def _moved(
    before: DataDimensions, given: Tensor, again: Again, out: Tensor
) -> DataDimensions:
    """Dimensions after numbers were moved: found by moving their positions alike."""
    places: dict[int, Tensor] = {}
    for at, dimension in enumerate(before):
        if dimension:
            shape = [-1 if at == one else 1 for one in range(given.dim())]
            here = torch.arange(given.shape[at], device=given.device).view(shape)
            places[at] = again(here.expand(given.shape))
    result: list[DataDimension] = []
    for to, n in enumerate(out.shape):
        varying = [
            at for at, x in places.items() if bool((x != x.narrow(to, 0, 1)).any())
        ]
        along = None
        if len(varying) == 1 and len(before[varying[0]]) == 1:
            where = places[varying[0]]
            line = where[tuple(slice(None) if i == to else 0 for i in range(out.dim()))]
            shape = [-1 if i == to else 1 for i in range(out.dim())]
            along = line if bool((where == line.view(shape)).all()) else None
        if along is not None:
            result.append(before[varying[0]][0].moved(along))
        else:  # which positions they are differs from row to row, say
            origins = [axis.origin for at in varying for axis in before[at]]
            result.append(fresh((n,), max(origins, default=MADE))[0])
    return tuple(result)


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
    if name == "expand":
        return aligned([first], shape)
    if name in REDUCTIONS:
        return _reduced(args, first, shape)
    if shape == _broadcast(ins):
        return _combined(ins, several, shape, ledger)
    return kept(first, shape) if len(shape) != len(first) else _where_same(first, shape)


def _combined(
    ins: Sequence[Tensor],
    several: Sequence[DataDimensions],
    shape: tuple[int, ...],
    ledger: Ledger,
) -> DataDimensions:
    """Dimensions of what several tensors give, number by number.

    A table of weights, such as positions, does not say what the positions are that it
    is added to; its features may be better known than theirs.
    """
    scores = [one.dimensions for one in map(ledger.known, ins) if one.trail is not None]
    if scores:
        return aligned(several, shape, scores[:1])
    given = [d for x, d in zip(ins, several, strict=True) if ledger.marks([x])]
    if not given:
        return aligned(several, shape)
    given = _without_conflicts(given, shape)
    features = [tuple(dimensions[-1:]) for dimensions in several]
    last = aligned(features, shape[-1:])
    return (*aligned(several, shape, given)[:-1], *last)


def _without_conflicts(
    several: Sequence[DataDimensions], shape: tuple[int, ...]
) -> list[DataDimensions]:
    """Note which axes of inputs were put together, position by position.

    Where two orders of the same were, it is not known what stands where.
    """
    made = [list(one) for one in several]
    for back, n in enumerate(reversed(shape), 1):
        there = [d for d in made if len(d) >= back and size_of(d[-back]) == n > 1]
        there = [d for d in there if len(d[-back]) == 1]
        axes = [d[-back][0] for d in there if d[-back][0].origin == INPUT]
        for one in axes[1:]:
            at = one.positions_on(axes[0])
            at = axes[0].positions_on(one) if at is None else at
            if at is None:
                axes[0].join(one)
            elif not torch.equal(at, torch.arange(n)):
                for dimensions in there:
                    (dimensions[-back],) = elsewhere((dimensions[-back],))
    return [tuple(one) for one in made]


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
    whole = size_of(before[at])
    start = max(0, start + whole) if start < 0 else start
    return (
        *before[:at],
        _stretch(before[at], start, shape[at], step),
        *before[at + 1 :],
    )


def _stretch(
    before: DataDimension, start: int, size: int, step: int = 1
) -> DataDimension:
    """Return a stretch of a dimension."""
    if size == size_of(before):
        return before
    if len(before) == 1 and step == 1:
        return before[0].slice(start, size)
    if len(before) == 1:
        return before[0].moved(start + step * torch.arange(size))
    origin = max((axis.origin for axis in before), default=MADE)
    return (DataAxis(size, origin),) * (size > 1)


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
    outer: DataDimension
    parts = [part for part in parts if part[1]]  # an empty cache adds nothing
    if len(parts) == 1:
        outer = parts[0][0]
    elif len(parts) > 1 and len({axes for axes, _n, _m in parts}) == 1 and parts[0][0]:
        # the same positions several times over: heads put side by side, say
        outer = (DataAxis(len(parts), MADE), *parts[0][0])
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
