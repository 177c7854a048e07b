"""SeenKeys: which of all the keys of a loop a step reads, told by the keys themselves.

A cache may drop those that have left a window, take back those of tokens that were
refused, write new ones over old ones, or put the newest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from visformer.watching.captured import Captured, grouped

SAME = 1e-5  # keys that differ by less are the same


@dataclass(slots=True, eq=False)
class SeenKeys:
    """An attention of a step, and which of all keys so far its keys are."""

    one: Captured
    columns: Tensor  # where its keys are among all, int64 [K]
    all: Tensor  # its own keys, and those of the steps before, [B, H, N, d]
    # of a step that goes on from another one:
    rows: Tensor | None = None  # bool [B, B before]: from which rows each may go on
    dropped: int | None = None  # of the keys before, at their end; None: cannot be told

    @classmethod
    def first(cls, one: Captured) -> SeenKeys:
        """Return those of an attention that goes on from no other one."""
        return cls(one, torch.arange(one.keys.shape[2]), one.keys)


def next_keys(before: SeenKeys, one: Captured, *, grows: bool) -> SeenKeys | None:
    """Return what a step has seen after another one; None if it cannot be the next.

    If it ``grows``, each query brings a key of its own; else all keys are those before.
    """
    heads = max(before.all.shape[1], one.keys.shape[1])  # some may share their keys
    seen, mine = grouped(before.all, heads), grouped(one.keys, heads)
    if seen.shape[3] != mine.shape[3]:
        return None
    n = seen.shape[2]
    for length, columns in _candidates(seen, mine, one.weights.shape[2], grows):
        old = columns < length
        rows = _same_rows(mine[:, :, old], seen[:, :, columns[old]])
        if bool(rows.any(1).all()):
            new = int((~old).sum())
            every = pad(seen[nearest(rows)][:, :, :length], (0, 0, 0, new))
            every[:, :, columns] = mine
            whole = columns.shape[0] == length + new and bool(
                columns.diff().eq(1).all()
            )
            told = None if new and not bool(old.any()) else n - length
            return SeenKeys(one, columns, mine if whole else every, rows, told)
    return None


def nearest(rows: Tensor) -> Tensor:
    """Of the rows that each row may go on from, return the nearest one, int64 [B].

    Those of a sentence's beams lie together.
    """
    own, before = (torch.arange(n) for n in rows.shape)
    apart = (own[:, None] - before).abs().masked_fill(~rows, sum(rows.shape))
    return apart.argmin(1)


def _candidates(
    seen: Tensor, mine: Tensor, queries: int, grows: bool
) -> Iterator[tuple[int, Tensor]]:
    """Yield how many keys of those before are left, and where those of a step are."""
    n, keys = seen.shape[2], mine.shape[2]
    old = keys - queries
    if grows and 0 <= old <= n:
        yield n, torch.arange(n - old, n + queries)
        if 0 < old < n:  # the last ones were taken back
            yield old, torch.arange(keys)
    if keys == n:
        yield n, torch.arange(n)
    if grows and queries == 1 and 0 < old <= n:
        for row in mine.transpose(1, 2).flatten(2):  # equal keys of one may be told
            columns = _found_again(seen, row)  # apart by another
            if columns is not None:
                yield n, columns


def _same_rows(mine: Tensor, seen: Tensor) -> Tensor:
    """Return which rows have the same keys, bool [B, B before]."""
    if not mine.shape[2]:
        return torch.ones(len(mine), len(seen), dtype=torch.bool)
    return torch.cdist(mine.flatten(1), seen.flatten(1), p=torch.inf) <= SAME


def _found_again(seen: Tensor, first: Tensor) -> Tensor | None:
    """Find all keys [K, H d] but one among those before, in whatever order they are.

    Of equal keys, as of equal tokens without positions, those are taken that lie in
    one row with others, forwards or backwards.
    """
    n, wanted = seen.shape[2], len(first) - 1
    for row in seen.transpose(1, 2).flatten(2):
        c, p = (torch.cdist(first, row, p=torch.inf) <= SAME).nonzero().T
        if len(c.unique()) < wanted:
            continue
        lines = [*zip((p - c).tolist(), (p + c).tolist(), strict=True)]
        many = [Counter(several) for several in zip(*lines, strict=True)]
        pairs = sorted(
            zip(lines, c.tolist(), p.tolist(), strict=True),
            key=lambda one: (max(many[0][one[0][0]], many[1][one[0][1]]), one[2]),
            reverse=True,
        )
        at: dict[int, int] = {}
        taken = set[int]()
        for _line, column, place in pairs:
            if len(at) < wanted and column not in at and place not in taken:
                at[column] = place
                taken.add(place)
        if len(at) == wanted:
            return torch.tensor([at.get(column, n) for column in range(wanted + 1)])
    return None
