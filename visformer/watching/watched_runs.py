"""Runs: group attention into passes and the steps of cached loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from visformer.watching.axes import positions_on
from visformer.watching.captured import Captured, grouped
from visformer.watching.inputs import Input, goes_with_another
from visformer.watching.joining import StepPart, steps_joined
from visformer.watching.row_tokens import Sides

AttentionSlot = tuple[str, int]  # a module, and the index of an attention in it
CallParts = list[tuple[AttentionSlot, Captured]]
SAME = 1e-5  # keys with a smaller difference are equal


@dataclass(slots=True, eq=False)
class RunStep:
    """A pass, or a step of a cached loop, including the encoder's pass before it.

    A row of a step continues a row of the step before; beams may continue any row.
    """

    sides: Sides
    parts: dict[AttentionSlot, SeenKeys] = field(default_factory=dict)
    before: RunStep | None = None
    # bool [B, B before]: the rows that each row may continue, having the same keys
    rows: Tensor | None = None
    dropped: int = 0  # how many of the earlier tokens were taken back
    carried: set[AttentionSlot] = field(default_factory=set)  # from the run before

    def chain(self) -> list[tuple[RunStep, int]]:
        """Return the steps up to this one, each with the number of its tokens kept."""
        several: list[tuple[RunStep, int]] = []
        step: RunStep | None = self
        gone = 0  # tokens that later steps took back
        while step is not None:
            several.append((step, max(step.queries - gone, 0)))
            gone = max(gone - step.queries, 0) + step.dropped
            step = step.before
        return several[::-1]

    @property
    def own(self) -> list[Captured]:
        """The attention of this step, without the encoder's."""
        return [x.one for x in self.parts.values() if not self.is_encoder(x.one)]

    @property
    def queries(self) -> int:
        """The number of tokens that it read."""
        return max((one.weights.shape[2] for one in self.own), default=0)

    def all_rows(self) -> RunRows:
        """Return all rows, each with its history."""
        several = self.own or [part.one for part in self.parts.values()]
        rows = max((len(x.weights) for x in several), default=1)
        at = [torch.arange(rows)]
        for step, _kept in reversed(self.chain()):
            at += [] if step.rows is None else [nearest(step.rows)[at[-1]]]
        return RunRows(self.chain(), at[::-1])

    def branched(self) -> bool:
        """Whether rows continue rows of another index, as beams do."""
        return any(
            step.rows is not None
            and not torch.equal(nearest(step.rows), torch.arange(len(step.rows)))
            for step, _kept in self.chain()
        )

    def ids(self, given: Iterable[Input]) -> Tensor | None:
        """Return the ids that its rows read, int64 [B, Q]; None if unknown.

        Ids that could not be traced to the queries are returned as they were given.
        """
        for one in self.own:
            if one.query_ids is not None and one.query_ids.shape[1] == self.queries:
                return one.query_ids
        shapes = {(len(one.weights), self.queries) for one in self.own}
        calls = {one.outermost for one in self.own}
        marks = self.sides.target or self.sides.source
        for x in given:
            whole = not x.tensor.is_floating_point() and not goes_with_another(x.name)
            if (
                whole
                and x.mark & marks
                and x.call in calls
                and x.tensor.shape in shapes
            ):
                return x.tensor
        return None

    def is_encoder(self, one: Captured) -> bool:
        """Whether an attention belongs to an encoder: it depends on no target."""
        depends = (one.marks[0] | one.marks[1]) & self.sides.target
        return bool(self.sides.target) and not depends and not any(one.learned)

    def add(self, parts: CallParts) -> None:
        """Add the attention of another call to the step, as further layers."""
        after = None if self.before is None else _after(self.before, parts)
        if after is None or after.rows is None or self.rows is None:
            self.parts |= {slot: SeenKeys.first(one) for slot, one in parts}
        else:
            self.parts |= after.parts
            self.rows = _both(self.rows, after.rows)
        self.carried -= {slot for slot, _one in parts}


class RunRows(NamedTuple):
    """Some rows of a step, each with its history."""

    chain: list[tuple[RunStep, int]]  # the steps, and the number of tokens kept
    taken: list[Tensor]  # the rows of each step, int64 [B]
    read: int = 0  # how many ids of the wanted sequence were read

    def attentions(self) -> list[Captured]:
        """Return their attention, including the encoder rows that they read."""
        several: dict[AttentionSlot, list[StepPart]] = {}
        encoders: dict[AttentionSlot, Captured] = {}
        pairs = [*zip(self.chain, self.taken, strict=True)]
        for (step, kept), taken in reversed(pairs):
            for slot, part in step.parts.items():
                if step.is_encoder(part.one):
                    own = _of(part.one, self.read_of(part.one))
                    encoders.setdefault(slot, own)
                    continue
                kind, queries = step.sides.kind(part.one), part.one.weights.shape[2]
                gone = step.queries - kept
                keys = part.all.shape[2] - (gone if kind != "cross" else 0)
                own = _of(part.one, taken)
                made = StepPart(own, part.columns, queries - gone, keys)
                if slot not in several or (gone < queries and _is_joined(kind)):
                    several.setdefault(slot, []).insert(0, made)
        return [*encoders.values(), *map(steps_joined, several.values())]

    def read_of(self, one: Captured) -> Tensor:
        """Return the encoder row that each row reads, int64 [B]."""
        for (step, _kept), taken in zip(self.chain, self.taken, strict=True):
            read = _read_rows(one, step.own)
            if read is not None:
                return read[taken]
        return torch.arange(len(one.weights))


def history_of(
    sequence: Tensor,
    block: tuple[float, float],
    steps: Sequence[RunStep],
    given: Sequence[Input],
    *,
    prompted: bool,
) -> RunRows | None:
    """Return the history of the longest prefix of a sequence that was read.

    ``sequence`` is int64 [T]; its last ids may never have been read. With ``prompted``
    it continues what the first step read, otherwise it includes that. Only rows in
    ``block`` are searched, given as fractions of the batch.
    """
    if not steps:
        return None
    prompt = steps[0].chain()[0][1] if prompted else 0
    chains = [step.chain() for step in reversed(steps)]
    lengths = [(sum(kept for _step, kept in chain), chain) for chain in chains]
    for length, chain in sorted(lengths, key=lambda one: one[0], reverse=True):
        read = length - prompt
        if 0 <= read <= len(sequence):
            at = _rows_that_read(sequence[:read], block, chain, given)
            if at is not None:
                return RunRows(chain, at, read)
    return None


def _rows_that_read(
    sequence: Tensor,
    block: tuple[float, float],
    chain: Sequence[tuple[RunStep, int]],
    given: Sequence[Input],
) -> list[Tensor] | None:
    """Return the row of each step, int64 [1], that read a sequence's ids."""
    n = len(chain[-1][0].own[0].weights) if chain[-1][0].own else 0
    places = (torch.arange(n) + 0.5) / max(n, 1)
    allowed = (places > block[0]) & (places < block[1])
    several: list[Tensor] = []
    end = len(sequence)
    for step, kept in reversed(chain):
        start = max(end - kept, 0)
        if start < end:
            ids = step.ids(given)
            if ids is None or len(ids) != len(allowed):
                return None
            own = ids[:, :kept][:, start - end :]  # skip the prompt
            allowed = allowed & (own == sequence[start:end]).all(1)
        if not bool(allowed.any()):
            return None
        several.append(allowed)
        allowed = allowed if step.rows is None else step.rows[allowed].any(0)
        end = start
    at = [several[-1].nonzero()[:1, 0]]
    pairs = zip(chain[1:], several[-2::-1], strict=True)
    for (step, _kept), allowed in pairs:
        assert step.rows is not None
        at.append((allowed & step.rows[:, at[-1][0]]).nonzero()[:1, 0])
    return at


def run_steps(
    found: Sequence[Captured], sides: Sides, loops: Sequence[int]
) -> list[RunStep]:
    """Return all passes and steps of cached loops, in the order in which they ran.

    A step continues the latest step that it can: beams may be read in turn. ``loops``
    are the marks of ids that a model chose itself and read again.
    """
    made: list[RunStep] = []
    for parts in _calls(found, loops):
        last = made[-1] if made else RunStep(sides)
        again = not made or any(
            (slot in last.parts and slot not in last.carried)
            or (last.before is not None and last.is_encoder(one))
            for slot, one in parts
        )
        if not again and last.own:
            last.add(parts)
            continue
        afters = (_after(one, parts) for one in reversed(made))
        step = next((one for one in afters if one is not None), None)
        if step is not None and not again:  # its source was encoded again
            step.parts = last.parts | step.parts
            made[-1] = step
        elif step is not None:
            made.append(step)
        elif again:
            slots = {slot for slot, _one in parts}
            kept = {
                slot: part
                for one, _kept in last.chain()
                for slot, part in one.parts.items()
                if slot not in slots and one.is_encoder(part.one)
            }
            made.append(RunStep(sides, kept, carried=set(kept)))
            made[-1].add(parts)
        else:
            last.add(parts)
    return made or [RunStep(sides)]


def _calls(found: Sequence[Captured], loops: Sequence[int]) -> list[CallParts]:
    """Group attention by top-level call, each with its module and index.

    A loop within one call starts a new group when it reads a chosen token.
    """
    calls: list[CallParts] = []
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


def _after(before: RunStep, several: CallParts) -> RunStep | None:
    """Return the step that continues ``before``; None if it does not."""
    step = RunStep(before.sides, before=before)
    kinds = [before.sides.kind(one) for _slot, one in several]
    growing = [
        kind != "cross"
        and _is_joined(kind)
        and one.keys.shape[2] > one.queries.shape[2]
        for kind, (_slot, one) in zip(kinds, several, strict=True)
    ]
    if not any(growing):
        return None
    dropped = set[int]()
    for (slot, one), kind in zip(several, kinds, strict=True):
        last = before.parts.get(slot)
        if last is None or not _is_joined(kind) or before.is_encoder(one):
            step.parts[slot] = SeenKeys.first(one)
            continue
        part = next_keys(last, one, grows=kind != "cross")
        if part is None or part.rows is None:
            return None
        step.parts[slot] = part
        step.rows = part.rows if step.rows is None else _both(step.rows, part.rows)
        if kind != "cross" and part.dropped is not None:
            dropped.add(part.dropped)
    if len(dropped) != 1 or step.rows is None or not bool(step.rows.any(1).all()):
        return None
    (step.dropped,) = dropped
    return step


def _is_joined(kind: str | None) -> bool:
    """Whether steps of this kind are stacked."""
    return kind not in ("merged", "other")


def _both(first: Tensor, second: Tensor) -> Tensor:
    """Intersect the rows that may be continued, unless one counts windows."""
    return first & second if first.shape == second.shape else first


def _of(one: Captured, rows: Tensor) -> Captured:
    if len(one.weights) == len(rows) and torch.equal(rows, torch.arange(len(rows))):
        return one
    # the batch of local attention may consist of windows
    return one if int(rows.max()) >= len(one.weights) else one.rows(rows)


def _read_rows(one: Captured, several: Iterable[Captured]) -> Tensor | None:
    """Return the encoder row that each row of the first step reads."""
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


# ---- SeenKeys: the keys of a cached loop that a step reads ---------------------------


@dataclass(slots=True, eq=False)
class SeenKeys:
    """An attention of a step, and its place among all keys so far."""

    one: Captured
    columns: Tensor  # the indices of its keys among all, int64 [K]
    all: Tensor  # its own keys and those of earlier steps, [B, H, N, d]
    # of a step that continues another one:
    rows: Tensor | None = None  # bool [B, B before]: the rows that each may continue
    dropped: int | None = None  # how many of the last keys; None if unknown

    @classmethod
    def first(cls, one: Captured) -> SeenKeys:
        """Return the keys of an attention that starts a run."""
        return cls(one, torch.arange(one.keys.shape[2]), one.keys)


def next_keys(before: SeenKeys, one: Captured, *, grows: bool) -> SeenKeys | None:
    """Return the keys after another step; None if the step cannot continue ``before``.

    If it ``grows``, each query adds a key; otherwise the keys are unchanged.
    """
    heads = max(before.all.shape[1], one.keys.shape[1])  # keys may be shared by heads
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
    """Return the nearest of the rows that each row may continue, int64 [B].

    The beams of a sentence are adjacent.
    """
    own, before = (torch.arange(n) for n in rows.shape)
    apart = (own[:, None] - before).abs().masked_fill(~rows, sum(rows.shape))
    return apart.argmin(1)


def _candidates(
    seen: Tensor, mine: Tensor, queries: int, grows: bool
) -> Iterator[tuple[int, Tensor]]:
    """Yield how many earlier keys remain, and the indices of a step's keys."""
    n, keys = seen.shape[2], mine.shape[2]
    old = keys - queries
    if grows and 0 <= old <= n:
        yield n, torch.arange(n - old, n + queries)
        if 0 < old < n:  # the last keys were taken back
            yield old, torch.arange(keys)
    if keys == n:
        yield n, torch.arange(n)
    if grows and queries == 1 and 0 < old <= n:
        for row in mine.transpose(1, 2).flatten(2):  # keys that are equal in one row
            columns = _found_again(seen, row)  # may differ in another
            if columns is not None:
                yield n, columns


def _same_rows(mine: Tensor, seen: Tensor) -> Tensor:
    if not mine.shape[2]:
        return torch.ones(len(mine), len(seen), dtype=torch.bool)
    return torch.cdist(mine.flatten(1), seen.flatten(1), p=torch.inf) <= SAME


def _found_again(seen: Tensor, first: Tensor) -> Tensor | None:
    """Find all keys [K, H d] but one among the earlier ones, in any order.

    Of equal keys (equal tokens without positions), those are taken that continue a run
    of consecutive keys, forwards or backwards.
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
