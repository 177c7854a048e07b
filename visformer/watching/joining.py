"""Join heads computed in a loop, chunks of queries, and the steps of a cached loop."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visformer.watching.axes import DataAxis
from visformer.watching.captured import Apart, Captured, grouped

SAME = 1e-5  # scales of heads with a smaller relative difference are equal


def joined(found: Sequence[Captured]) -> list[Captured]:
    """Join the heads and chunks that belong to one attention."""
    return _fold(_fold(_fold(list(found), _values), _chunks), _heads)


def _fold(
    found: list[Captured], joint: Callable[[Captured, Captured], Captured | None]
) -> list[Captured]:
    result: list[Captured] = []
    for one in found:
        for at in range(len(result) - 1, max(-1, len(result) - 3), -1):
            if (made := joint(result[at], one)) is not None:
                result[at] = made
                break
        else:
            result.append(one)
    return result


def _are_of_one_call(first: Captured, second: Captured) -> bool:
    """Whether both come from one call or ModuleList, independent of each other."""
    if (second.marks[0] | second.marks[1]) & first.mark:
        return False
    if first.call == second.call:
        return True
    if first.parent != second.parent or not first.parent:
        return False
    paths = [one.module.rpartition(".") for one in (first, second)]
    numbered = all(last.isdigit() for _before, _dot, last in paths)
    return numbered and paths[0][0] == paths[1][0]


def _values(first: Captured, second: Captured) -> Captured | None:
    """Join two products of the same weights with different values, or return None."""
    if first.call != second.call or not first.queries.any():
        return None
    if any(
        getattr(first, name).shape != getattr(second, name).shape
        or not torch.equal(getattr(first, name), getattr(second, name))
        for name in ("queries", "keys", "weights")
    ):
        return None
    shapes = [x.values.shape[:3] for x in (first, second)]
    if shapes[0] != shapes[1] or first.scale != second.scale:
        return None
    return replace(
        first,
        values=torch.cat([first.values, second.values], 3),
        result=torch.cat([first.result, second.result], 3),
        apart=Apart.worse([first.apart, second.apart]),
        marks=_either(first.marks, second.marks),
        mark=first.mark | second.mark,
        parts=_incomplete(first, second),
    )


def _incomplete(*several: Captured) -> tuple[tuple[str, int], ...]:
    return tuple((path, 0) for one in several for path, _heads in one.parts)


def _chunks(first: Captured, second: Captured) -> Captured | None:
    one, two = _stretch(first), _stretch(second)
    if one is None or two is None or not _are_of_one_call(first, second):
        return None
    whole, start, size = one
    if two[0] is not whole or start + size != two[1] or first.call != second.call:
        return None
    same = [x.shape for x in (first.keys, first.values)]
    if same != [x.shape for x in (second.keys, second.values)]:
        return None
    made = _together(first, second, 2, query_axes=whole.slice(start, size + two[2]))
    return replace(made, parts=_incomplete(first, second))


def _stretch(one: Captured) -> tuple[DataAxis, int, int] | None:
    """Return the slice of an axis that the queries are: axis, start and size."""
    if not one.query_axes and one.query_picked:
        return (*one.query_picked[-1], 1)
    if len(one.query_axes) != 1 or one.query_axes[0].parent is None:
        return None
    axis = one.query_axes[0]
    if axis.parent is None or not isinstance(axis.at, int):
        return None
    return axis.parent, axis.at, axis.size


def _heads(first: Captured, second: Captured) -> Captured | None:
    if not _are_of_one_call(first, second):
        return None
    if first.query_axes != second.query_axes or first.key_axes != second.key_axes:
        return None
    shapes = [
        [(*x.shape[:1], *x.shape[2:]) for x in (c.weights, c.queries, c.keys, c.values)]
        for c in (first, second)
    ]
    if shapes[0] != shapes[1] or not math.isclose(
        first.scale, second.scale, rel_tol=SAME
    ):
        return None
    if not first.query_axes and first.query_picked != second.query_picked:
        return None
    beside = first.beside or first.call != second.call
    return replace(_together(first, second, 1), beside=beside)


def _together(
    first: Captured, second: Captured, dimension: int, **changed: Any
) -> Captured:
    """Concatenate along ``dimension``: 1 for heads, 2 for queries."""

    def cat(name: str) -> torch.Tensor:
        one, two = getattr(first, name), getattr(second, name)
        return torch.cat([one, two], dimension)

    of_keys: dict[str, Any] = (
        {}
        if dimension == 2
        else {
            name: torch.cat(
                [
                    grouped(getattr(c, name), c.weights.shape[1])
                    for c in (first, second)
                ],
                1,
            )
            for name in ("keys", "values")
        }
    )
    return replace(
        first,
        weights=cat("weights"),
        queries=cat("queries"),
        result=cat("result"),
        added=_added(first, second, dimension),
        multiplied=_flags("multiplied", first, second, dimension),
        filled=_flags("filled", first, second, dimension),
        linear=first.linear and second.linear,
        apart=Apart.worse([first.apart, second.apart]),
        random=first.random or second.random,
        marks=_either(first.marks, second.marks),
        mark=first.mark | second.mark,
        parts=(*first.parts, *second.parts),
        **of_keys,
        **changed,
    )


def _either(
    first: tuple[int, int, int], second: tuple[int, int, int]
) -> tuple[int, int, int]:
    return first[0] | second[0], first[1] | second[1], first[2] | second[2]


def _added(first: Captured, second: Captured, dimension: int) -> torch.Tensor | None:
    if first.added is None and second.added is None:
        return None
    if dimension == 1 and first.added is not None and second.added is not None:
        same = first.added.shape == second.added.shape and first.added.shape[1] == 1
        if same and torch.equal(first.added, second.added):
            return first.added
    return torch.cat([full_added(first), full_added(second)], dimension)


def full_added(one: Captured) -> torch.Tensor:
    zeros = torch.zeros(one.weights.shape)
    return zeros if one.added is None else zeros + one.added


def _flags(
    name: str, first: Captured, second: Captured, dimension: int
) -> torch.Tensor | None:
    if getattr(first, name) is None and getattr(second, name) is None:
        return None
    return torch.cat([full_flags(first, name), full_flags(second, name)], dimension)


def full_flags(one: Captured, name: str) -> torch.Tensor:
    """Expand a mask of the scores to bool [B, H, Q, K]."""
    zeros, flags = torch.zeros(one.weights.shape, dtype=torch.bool), getattr(one, name)
    return zeros if flags is None else zeros | flags


class StepPart(NamedTuple):
    """One step of a cached loop, and how much of it is kept."""

    one: Captured
    columns: Tensor  # the indices of its keys among those of all steps, int64 [K]
    queries: int  # how many queries are kept, and how many keys up to the last one;
    keys: int  # the loop took back the other tokens


def steps_joined(parts: Sequence[StepPart]) -> Captured:
    """Stack the queries of all steps of a loop.

    Keys that a step had not seen get weight 0 and a score of minus infinity.
    """
    last = parts[-1].one
    n = max(part.keys for part in parts)
    if len(parts) == 1 and parts[0].queries == last.weights.shape[2]:
        return last
    fits = [part.columns < part.keys for part in parts]
    pairs = [*zip(parts, fits, strict=True)]
    grown = any(len(part.columns) < n for part in parts)

    def laid(part: StepPart, fit: Tensor, given: Tensor, value: float) -> Tensor:
        made: Tensor = given.new_full((*given.shape[:2], part.queries, n), value)
        made[..., part.columns[fit]] = given[:, :, : part.queries, fit]
        return made

    changed: dict[str, Any] = {}
    if grown or any(part.one.added is not None for part in parts):
        full = [laid(*pair, full_added(pair[0].one), float("-inf")) for pair in pairs]
        changed["added"] = torch.cat(full, 2)
    for name in ("multiplied", "filled"):
        if any(getattr(part.one, name) is not None for part in parts):
            flags = [laid(*pair, full_flags(pair[0].one, name), 0) for pair in pairs]
            changed[name] = torch.cat(flags, 2)
    for name in ("queries", "result"):
        several = [getattr(part.one, name)[:, :, : part.queries] for part in parts]
        changed[name] = torch.cat(several, 2)
    ids = [x.one.query_ids for x in parts]
    known = [
        x[:, : p.queries] for p, x in zip(parts, ids, strict=True) if x is not None
    ]
    query_ids = torch.cat(known, 1) if len(known) == len(ids) else None
    # keys that do not grow belong to the first step
    key_ids = next((x.one.key_ids for x in parts if x.one.key_ids is not None), None)
    if grown:
        key_ids = query_ids if n == sum(part.queries for part in parts) else None
        changed["key_parts"] = ()
    return replace(
        last,
        weights=torch.cat([laid(*pair, pair[0].one.weights, 0) for pair in pairs], 2),
        keys=_all_keys("keys", parts),
        values=_all_keys("values", parts),
        linear=all(part.one.linear for part in parts),
        apart=Apart.worse(part.one.apart for part in parts),
        random=any(part.one.random for part in parts),
        query_ids=query_ids,
        key_ids=key_ids,
        **changed,
    )


def _all_keys(name: str, parts: Sequence[StepPart]) -> Tensor:
    n = max(part.keys for part in parts)
    several = [getattr(part.one, name) for part in parts]
    heads = min(x.shape[1] for x in several)  # some may be repeated
    shape = len(several[-1]), heads, n, several[-1].shape[3]
    made: Tensor = several[-1].new_zeros(shape)
    for part, given in zip(parts, several, strict=True):
        fit = part.columns < part.keys
        shared = given[:, :: given.shape[1] // heads]
        made[:, :, part.columns[fit]] = shared[:, :, fit]
    return made
