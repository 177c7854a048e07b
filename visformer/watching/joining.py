"""Joining: heads of a loop, chunks of queries, and the steps of a cached loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from visformer.watching.axes import DataAxis
from visformer.watching.captured import Captured, grouped
from visformer.watching.ledger import TARGET


def joined(found: Sequence[Captured]) -> list[Captured]:
    """Return attentions with heads and chunks that one call made put together."""
    return _fold(_fold(list(found), _chunks), _heads)


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
    if second.marks[0] & (2 << first.number) or second.marks[1] & (2 << first.number):
        return False
    if first.call == second.call:
        return True
    if first.parent != second.parent or not first.parent:
        return False
    paths = [one.module.rpartition(".") for one in (first, second)]
    numbered = all(last.isdigit() for _before, _dot, last in paths)
    return numbered and paths[0][0] == paths[1][0]


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
    assert axis.parent is not None
    return axis.parent, axis.start - axis.parent.start, axis.size


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
    if shapes[0] != shapes[1] or first.scale != second.scale:
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
        multiplied=_multiplied(first, second, dimension),
        linear=first.linear and second.linear,
        difference=max(first.difference, second.difference),
        random=first.random or second.random,
        marks=_either(first.marks, second.marks),
        number=second.number,
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
    return torch.cat([_full(first), _full(second)], dimension)


def _full(one: Captured) -> torch.Tensor:
    zeros = torch.zeros(one.weights.shape)
    return zeros if one.added is None else zeros + one.added


def _multiplied(
    first: Captured, second: Captured, dimension: int
) -> torch.Tensor | None:
    if first.multiplied is None and second.multiplied is None:
        return None
    both = [
        torch.zeros(c.weights.shape, dtype=torch.bool)
        if c.multiplied is None
        else c.multiplied
        for c in (first, second)
    ]
    return torch.cat(both, dimension)


def grows(first: Captured, second: Captured) -> bool:
    """Whether the second is the next step of a cached loop: its keys grew."""
    queries, keys = second.weights.shape[2:]
    before = first.weights.shape
    same = second.weights.shape[:2] == before[:2] and keys == before[3] + queries
    return same and _equal(second.keys[:, :, : before[3]], first.keys)


def reads_the_same(first: Captured, second: Captured) -> bool:
    """Whether the second reads the keys that the first reads."""
    return _equal(first.keys, second.keys)


def runs(found: Sequence[Captured]) -> list[list[Captured]]:
    """Return what belongs to one run: of the last one, all that it is made of.

    A run is a pass, or the steps of a cached loop, with the encoder's pass before it.
    """
    several: list[list[Captured]] = []
    state: dict[tuple[str, int], Captured] = {}
    for group in _calls(found):
        growing = any(slot in state and grows(state[slot], one) for slot, one in group)
        if not growing and any(slot in state for slot, _one in group):
            several.append(list(state.values()))
            slots = {slot for slot, _one in group}
            state = {
                slot: one
                for slot, one in state.items()
                if slot not in slots and not (one.marks[0] | one.marks[1]) & TARGET
            }
        for slot, one in group:
            old = state.get(slot)
            if old is not None and (grows(old, one) or reads_the_same(old, one)):
                state[slot] = extended(old, one)
            else:
                state[slot] = one
    return [*several, list(state.values())]


def _calls(
    found: Sequence[Captured],
) -> list[list[tuple[tuple[str, int], Captured]]]:
    """Return what each outermost call made, each with its module and which it is."""
    calls: list[list[tuple[tuple[str, int], Captured]]] = []
    last, counts = -1, Counter[str]()
    for one in found:
        if one.outermost != last or not one.outermost:
            calls.append([])
            last, counts = one.outermost, Counter()
        calls[-1].append(((one.module, counts[one.module]), one))
        counts[one.module] += 1
    return calls


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.shape == two.shape and bool(torch.allclose(one, two, atol=1e-5))


def extended(first: Captured, second: Captured) -> Captured:
    """Return an attention with the queries of a later step below its own."""
    keys = second.weights.shape[3]

    def wider(x: torch.Tensor, value: float) -> torch.Tensor:
        missing = keys - x.shape[3]
        return torch.nn.functional.pad(x, (0, missing), value=value)

    grown = keys > first.weights.shape[3]
    added = first.added
    if grown:
        added = wider(_full(first), float("-inf"))
    multiplied = first.multiplied
    if multiplied is not None and grown:
        multiplied = wider(multiplied.float(), 0).bool()
    first = replace(
        first, weights=wider(first.weights, 0), added=added, multiplied=multiplied
    )
    made = _together(first, second, 2)
    return replace(made, keys=second.keys, values=second.values, call=second.call)
