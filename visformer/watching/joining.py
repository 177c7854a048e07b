"""Joining: heads of a loop, and chunks of queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from visformer.watching.axes import DataAxis
from visformer.watching.captured import Apart, Captured, grouped

SAME = 1e-5  # scales of heads that differ by less, relatively, are rounded


def joined(found: Sequence[Captured]) -> list[Captured]:
    """Return attentions with heads and chunks that one call made put together."""
    return _fold(_fold(_fold(list(found), _values), _chunks), _heads)


def _fold(found: list[Captured], joint: object) -> list[Captured]:
    assert callable(joint)
    result: list[Captured] = []
    for one in found:
        both = next(
            (
                (at, made)
                for at in range(len(result) - 1, max(-1, len(result) - 3), -1)
                if (made := joint(result[at], one)) is not None
            ),
            None,
        )
        if both is None:
            result.append(one)
        else:
            result[both[0]] = both[1]
    return result


def _are_of_one_call(first: Captured, second: Captured) -> bool:
    """Whether one call made both, or a loop over modules in one call; independently."""
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
    """Join what weighs other values by the same weights, or return None."""
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
    )


def _chunks(first: Captured, second: Captured) -> Captured | None:
    """Join two chunks of queries, or return None."""
    one, two = _stretch(first), _stretch(second)
    if one is None or two is None or not _are_of_one_call(first, second):
        return None
    whole, start, size = one
    if two[0] is not whole or start + size != two[1] or first.call != second.call:
        return None
    same = [x.shape for x in (first.keys, first.values)]
    if same != [x.shape for x in (second.keys, second.values)]:
        return None
    return _together(first, second, 2, query_axes=whole.slice(start, size + two[2]))


def _stretch(one: Captured) -> tuple[DataAxis, int, int] | None:
    """Return which stretch of an axis the queries are: the axis, start and size."""
    if not one.query_axes and one.query_picked:
        return (*one.query_picked[-1], 1)
    if len(one.query_axes) != 1 or one.query_axes[0].parent is None:
        return None
    axis = one.query_axes[0]
    if axis.parent is None or not isinstance(axis.at, int):
        return None
    return axis.parent, axis.at, axis.size


def _heads(first: Captured, second: Captured) -> Captured | None:
    """Join two heads of a loop, or return None."""
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
    """Put two beside each other: heads along 1, queries along 2."""

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
    """Return what is flagged of each weight, bool [B, H, Q, K]."""
    zeros, flags = torch.zeros(one.weights.shape, dtype=torch.bool), getattr(one, name)
    return zeros if flags is None else zeros | flags
