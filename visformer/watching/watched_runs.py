"""Runs: which attention belongs together: a pass, or the steps of a cached loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from visformer.watching.axes import positions_on
from visformer.watching.captured import Apart, Captured, grouped
from visformer.watching.input_sides import Sides
from visformer.watching.joining import full_added, full_flags

AttentionSlot = tuple[str, int]  # a module, and which of its attentions
SAME = 1e-5  # keys that differ by less are the same


@dataclass(slots=True, eq=False)
class WatchedRun:
    """A pass, or the steps of a cached loop, with the encoder's pass before it.

    A row of a step goes on from one of the step before: with beams, from any of them.
    """

    sides: Sides
    steps: list[dict[AttentionSlot, Captured]]
    parents: list[Tensor] = field(default_factory=list)  # int64 [B], of steps[1:]
    carried: set[AttentionSlot] = field(default_factory=set)  # of the run before

    def all_rows(self) -> RunRows:
        """Return all rows of the last step."""
        several = self.own(-1) or self.steps[-1].values()
        rows = max((len(x.weights) for x in several), default=1)
        return RunRows(self, len(self.steps) - 1, torch.arange(rows))

    def own(self, step: int) -> list[Captured]:
        """Return the attention of a step that is no encoder's."""
        return [x for x in self.steps[step].values() if not self.is_encoder(x)]

    def branched(self) -> bool:
        """Whether rows went on from other rows, as beams do."""
        return any(not torch.equal(one, torch.arange(len(one))) for one in self.parents)

    def ids(self, step: int) -> Tensor | None:
        """Return the ids that each row of a step has read, [B, T]; None: not known."""
        last = self.own(step)
        if not last:
            return None
        parts = []
        for before, taken in enumerate(
            self.history(step, torch.arange(len(last[0].weights)))
        ):
            several = [x.query_ids for x in self.own(before)]
            known = [ids for ids in several if ids is not None]
            if not known or len(known[0]) <= int(taken.max()):
                return None
            parts.append(known[0][taken])
        return torch.cat(parts, 1)

    def history(self, step: int, rows: Tensor) -> list[Tensor]:
        """Return the rows of each step up to this one that some rows went on from."""
        at = [rows]
        for parents in reversed(self.parents[:step]):
            at.append(parents[at[-1]])
        return at[::-1]

    def is_encoder(self, one: Captured) -> bool:
        depends = (one.marks[0] | one.marks[1]) & self.sides.target
        return bool(self.sides.target) and not depends and not any(one.learned)


class RunRows(NamedTuple):
    """Some rows of a step, int64 [B], each with its history."""

    run: WatchedRun
    step: int
    rows: Tensor

    def taken(self) -> list[Tensor]:
        """Return the rows of each step up to this one, int64 [B] each."""
        return self.run.history(self.step, self.rows)

    def attentions(self) -> list[Captured]:
        """Return their attention; of an encoder, that of the rows which they read."""
        at, run = self.taken(), self.run
        several: dict[AttentionSlot, list[Captured]] = {}
        for here, taken in zip(run.steps, at, strict=False):
            for slot, one in here.items():
                own = one if run.is_encoder(one) else _of(one, taken)
                several.setdefault(slot, []).append(own)
        made = [_steps_joined(parts) for parts in several.values()]
        return [
            _of(one, self.read_of(one)) if run.is_encoder(one) else one for one in made
        ]

    def read_of(self, one: Captured) -> Tensor:
        """Return the row of an encoder's attention that each row reads, int64 [B]."""
        own = torch.arange(len(one.weights))
        read = _read_rows(one, self.run.own(0))
        return own if read is None else read[self.taken()[0]]


class ReadHistory(NamedTuple):
    """What the rows of a step of a run have read."""

    ids: Tensor  # [B, T]
    run: WatchedRun
    step: int


def histories(several: Sequence[WatchedRun]) -> list[ReadHistory]:
    """Return those of all steps that are known, the longest and the latest first."""
    found = [
        ReadHistory(ids, run, step)
        for run in reversed(several)
        for step in range(len(run.steps))
        if (ids := run.ids(step)) is not None
    ]
    return sorted(found, key=lambda one: one.ids.shape[1], reverse=True)


def history_of(
    sequence: Tensor, share: float, several: Sequence[ReadHistory]
) -> RunRows | None:
    """Return the row that read the longest beginning of a sequence.

    ``sequence`` is int64 [T], whose last ids were chosen and perhaps never read. Of
    rows that read the same, it is the one about the ``share`` of all; None of none.
    """
    for ids, run, step in several:
        length = ids.shape[1]
        if length > len(sequence):
            continue
        at = (ids == sequence[:length]).all(1).nonzero()[:, 0]
        if len(at):
            nearest = (at + 0.5 - share * len(ids)).abs().argmin()
            return RunRows(run, step, at[nearest][None])
    return None


def runs(
    found: Sequence[Captured], sides: Sides, loops: Sequence[int]
) -> list[WatchedRun]:
    """Return what belongs to one run each, in the order in which they ran.

    ``loops`` are the marks of what a model chose itself and read again.
    """
    several = [WatchedRun(sides, [{}])]
    state: dict[AttentionSlot, Captured] = {}
    for group in _calls(found, loops):
        run = several[-1]
        grown = _parents([(state[slot], one) for slot, one in group if slot in state])
        again = any(
            slot in run.steps[-1] and slot not in run.carried for slot, _ in group
        )
        if again and grown is not None:
            run.steps.append({})
            run.parents.append(grown)
        elif again:
            slots = {slot for slot, _one in group}
            kept = {
                slot: one
                for slot, one in run.steps[0].items()
                if slot not in slots and run.is_encoder(one)
            }
            run = WatchedRun(sides, [dict(kept)], carried=set(kept))
            several.append(run)
            state = dict(kept)
        for slot, one in group:
            run.carried.discard(slot)
            run.steps[-1][slot] = state[slot] = one
    return several


def _calls(
    found: Sequence[Captured], loops: Sequence[int]
) -> list[list[tuple[AttentionSlot, Captured]]]:
    """Return what each outermost call made, each with its module and which it is.

    A loop within one call begins anew where what it chose is read.
    """
    calls: list[list[tuple[AttentionSlot, Captured]]] = []
    last: tuple[int, int] = -1, 0
    counts = Counter[str]()
    for one in found:
        turn = sum(mark < one.mark for mark in loops)
        if (one.outermost, turn) != last or not one.outermost:
            calls.append([])
            last, counts = (one.outermost, turn), Counter()
        calls[-1].append(((one.module, counts[one.module]), one))
        counts[one.module] += 1
    return calls


def _parents(pairs: Sequence[tuple[Captured, Captured]]) -> Tensor | None:
    """Return which row each row of the next step of a cached loop goes on from.

    ``pairs`` are attentions of a step and of the one after it. None where it is no next
    step: its keys are those before, and one for each query. Of rows with equal keys the
    nearest is taken: those of a sentence's beams lie together.
    """
    fit: list[tuple[Tensor, Tensor]] = []  # keys of a step, and those before it
    grown = False
    for first, second in pairs:
        before, (queries, keys) = first.keys, second.weights.shape[2:]
        mine = second.keys[:, :, : before.shape[2]]
        heads = max(before.shape[1], mine.shape[1])  # some may share their keys
        before, mine = grouped(before, heads), grouped(mine, heads)
        more = keys - before.shape[2]
        if more not in (0, queries) or before.shape[1:] != mine.shape[1:]:
            continue
        grown = grown or more == queries
        fit.append((mine.flatten(1), before.flatten(1)))
    same: Tensor | None = None  # bool [B, B before]
    for mine, before in fit if grown else ():
        equal = torch.cdist(mine, before, p=torch.inf) <= SAME
        same = equal if same is None or same.shape != equal.shape else same & equal
    if same is None or not bool(same.any(1).all()):
        return None
    rows, before_rows = (torch.arange(n) for n in same.shape)
    apart = (rows[:, None] - before_rows).abs().masked_fill(~same, sum(same.shape))
    return apart.argmin(1)


def _of(one: Captured, rows: Tensor) -> Captured:
    if len(one.weights) == len(rows) and torch.equal(rows, torch.arange(len(rows))):
        return one
    # windows, say, are no rows of the batch
    return one if int(rows.max()) >= len(one.weights) else one.rows(rows)


def _read_rows(one: Captured, several: Iterable[Captured]) -> Tensor | None:
    """Return which row of an encoder's attention each row of the first step reads.

    ``several`` are the attention of that step; None where it cannot be told.
    """
    for cross in several:
        if not cross.marks[1] & one.mark:
            continue
        if len(one.weights) == 1:
            read: Tensor | None = torch.zeros(len(cross.weights), dtype=torch.int64)
        else:
            batch = one.batch_axes[0]
            read = positions_on(cross.batch_axes[1], batch[0]) if batch else None
        if read is not None and len(read) == len(cross.weights):
            return read
    return None


def _steps_joined(steps: Sequence[Captured]) -> Captured:
    """Return the queries of all steps of a loop below each other."""
    last = steps[-1]
    if len(steps) == 1:
        return last
    keys = last.weights.shape[3]

    def wider(x: Tensor, value: float) -> Tensor:
        return pad(x, (0, keys - x.shape[3]), value=value)

    grown = any(one.weights.shape[3] < keys for one in steps)
    added = None
    if grown or any(one.added is not None for one in steps):
        added = torch.cat([wider(full_added(x), float("-inf")) for x in steps], 2)
    flags: dict[str, Any] = {"multiplied": None, "filled": None}
    for name in flags:
        if any(getattr(one, name) is not None for one in steps):
            full = [wider(full_flags(x, name).float(), 0) for x in steps]
            flags[name] = torch.cat(full, 2).bool()
    ids = [one.query_ids for one in steps]
    known = [x for x in ids if x is not None]
    query_ids = torch.cat(known, 1) if len(known) == len(ids) else None
    # keys that do not grow are those of the first step
    of_keys = next((x.key_ids for x in steps if x.key_ids is not None), None)
    if grown:
        whole = keys == sum(one.weights.shape[2] for one in steps)
        of_keys = query_ids if whole else None
    return replace(
        last,
        weights=torch.cat([wider(one.weights, 0) for one in steps], 2),
        queries=torch.cat([one.queries for one in steps], 2),
        result=torch.cat([one.result for one in steps], 2),
        added=added,
        **flags,
        linear=all(one.linear for one in steps),
        apart=Apart.worse(one.apart for one in steps),
        random=any(one.random for one in steps),
        query_ids=query_ids,
        key_ids=of_keys,
    )
