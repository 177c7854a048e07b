"""What a change did to a run, proved on the run and its original."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from visformer.arguments import place, wrong_value
from visformer.language import _
from visformer.values.arrays import Doubles, equal, later, log_softmax
from visformer.values.changes.patch import Patch
from visformer.values.changes.run_change import RunChange
from visformer.values.facts import STACK_OF, STACKS, StackName
from visformer.values.measured import ChangeReport
from visformer.values.trace import Trace


def change_report(original: Trace, changed: Trace, step: int = -1) -> ChangeReport:
    """Compare two runs that consumed the same tokens, at a step, or at the last one.

    Steps count from 0, or from the end where they are negative. Both runs need their
    logits: raises InputError for Traces that are apart from their model, and for runs
    of other tokens.
    """
    row = place("step", step, min(len(original), len(changed)))
    read = [(*x.source_ids, *x.target_ids[: row + 1]) for x in (original, changed)]
    if read[0] != read[1]:
        allowed = _("a run of the original’s own tokens")
        raise wrong_value("changed", changed.text, allowed)
    return next(change_reports(original, changed, [row]))


def change_reports(
    original: Trace, changed: Trace, steps: Iterable[int]
) -> Iterator[ChangeReport]:
    """Compare two runs at several steps, up to which they consumed the same tokens.

    Steps count from 0. Rows are compared once for all of them; a report counts those
    up to its step.
    """
    most = min(len(original), len(changed))
    before, after = original.logits, changed.logits  # [T, V]
    same_source = bool(equal(original.encoder_rows, changed.encoder_rows).all())
    streams = original.decoder_rows[:most], changed.decoder_rows[:most]
    same_rows = np.asarray(equal(*streams).all(-1))  # [T]
    layers, row_sums = [*_independent(original, changed)], _row_sums(changed)
    for row in steps:
        was, now = log_softmax(before[row]), log_softmax(after[row])
        chosen = changed.steps[row]
        other = next(c for c in original.steps[row].candidates if c.id != chosen.id)
        pair = [chosen.id, other.id]
        moved = not (
            same_source
            and same_rows[: row + 1].all()
            and equal(before[row], after[row]).all()
        )
        counts = [one.counted(row) for one in layers]
        yield ChangeReport(
            token=chosen.token,
            other=other.token,
            log_p=(float(was[chosen.id]), float(now[chosen.id])),
            logit_difference=(
                float(np.subtract(*before[row][pair])),
                float(np.subtract(*after[row][pair])),
            ),
            divergence=float((np.exp(was) * (was - now)).sum()),
            rank=(
                1 + int((before[row] > before[row][chosen.id]).sum()),
                1 + int((after[row] > after[row][chosen.id]).sum()),
            ),
            row_sums=float(row_sums[row]),
            independent=sum(rows for rows, _equal in counts),
            equal=sum(same for _rows, same in counts),
            moved=moved,
            reason="" if moved else no_effect_words(original, changed, row),
            lacking=_lacking(changed, row),
        )


def first_row(change: RunChange) -> int:
    """Return the first decoder row that a change may make another, from 0."""
    names = ("query", "row", "key") if "decoder" in change.kinds else ("query", "row")
    rows = (getattr(change, name, None) for name in names)
    return next((row for row in rows if row is not None), 0)


def no_effect_words(original: Trace, changed: Trace, row: int) -> str:
    """Say why a change moves nothing up to a decoder row; "" if it is not known."""
    changes = changed.intervention
    target = not any({"encoder", "source"} & {*one.kinds} for one in changes)
    first = min(map(first_row, changes), default=0)
    if target and first > row:
        return _("it acts from step {n} on", n=first + 1)
    if changes and all(isinstance(c, Patch) and not c.found for c in changes):
        return _("the run that it takes from has no such row")
    cuts = {"decoder": (row + 1, row + 1), "cross": (row + 1, None)}  # up to the row
    if changes.masks == changes and all(
        np.array_equal(
            original.mask(kind)[:, :rows, :keys], changed.mask(kind)[:, :rows, :keys]
        )
        for kind in original.kinds
        for rows, keys in (cuts.get(kind, (None, None)),)
    ):
        return _("what it sets was so already")
    return ""


def _lacking(changed: Trace, row: int) -> int:
    rows = {"encoder": len(changed.source), "decoder": row + 1}
    most = dict.fromkeys(STACKS, 0)
    for one in changed.intervention.of(Patch):
        stack = STACK_OF.get(one.kinds[0], one.kinds[0])
        most[stack] = max(most[stack], one.lacking(rows[stack]))
    return sum(most.values())


def _row_sums(changed: Trace) -> Doubles:
    """Return how far a row of weights is from 1 at most, up to each step, [T]."""
    farthest = np.zeros(len(changed))
    for kind in changed.kinds:
        for layer in range(changed.layers(kind)):
            if changed.intervention.at(kind, layer).changes:
                sums = changed.attention(kind, layer).sum(-1)  # [H, Q]
                off = np.abs(sums - 1).max(0)  # [Q]
                off = off.max(initial=0) if kind == "encoder" else off
                farthest = np.maximum(farthest, off)
    return np.maximum.accumulate(farthest)


class _Rows(NamedTuple):
    """The rows of a layer's stream in two runs, as far as steps may count them."""

    equal: NDArray[np.int64]  # [rows + 1]: how many of the first so many are equal
    most: NDArray[np.int64]  # [T]: how many cannot depend on the changes, up to a step

    def counted(self, row: int) -> tuple[int, int]:
        """Return how many cannot depend on the changes, and how many are equal."""
        count = self.most[row]
        return int(count), int(self.equal[count])


def _independent(original: Trace, changed: Trace) -> Iterator[_Rows]:
    """Yield the layers of both residual streams."""
    sides: dict[StackName, set[str]] = {
        "encoder": {"encoder", "source"},
        "decoder": {"decoder", "cross", "target"},
    }
    memory = False  # whether the encoder may be another
    count = len(original)
    for stack in STACKS:
        facts = original.model.stacks.get(stack)
        changes = [c for c in changed.intervention if sides[stack] & {*c.kinds}]
        begins = ("positions", "embedding")
        layers = [-1 if c.point in begins else c.place[0] or 0 for c in changes]
        rows = [0 if stack == "encoder" else first_row(c) for c in changes]
        if memory:
            layers, rows = [0, *layers], [0, *rows]
        whole = np.arange(1, count + 1)  # [T]
        if stack == "encoder":
            whole = np.full(count, len(original.source))
        bound = np.minimum(whole, min(rows, default=0))
        if stack == "decoder" and "decoder" in original.kinds:
            ahead = original.mask("decoder") & later(count, count)  # [L, T, T]
            bound[np.logical_or.accumulate(ahead.any((0, 1)))] = 0
        for layer in range(facts.hidden if facts else 0):
            both = original.hidden(stack, layer), changed.hidden(stack, layer)
            length = min(map(len, both))
            same = equal(*(one[:length] for one in both)).all(-1)
            free = layer <= min(layers, default=layer)
            yield _Rows(np.append(0, same.cumsum()), whole if free else bound)
        memory = bool(changes)
