"""What a change did to a run, proved on the run and its original."""

from collections.abc import Iterator

import numpy as np

from visformer.arguments import place, wrong_value
from visformer.language import _
from visformer.values.arrays import Floats, equal, later, log_softmax
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
    read = [
        (*one.source_ids, *one.target_ids[: row + 1]) for one in (original, changed)
    ]
    if read[0] != read[1]:
        allowed = _("a run of the original’s own tokens")
        raise wrong_value("changed", changed.text, allowed)
    before, after = original.logits[row], changed.logits[row]
    was, now = log_softmax(before), log_softmax(after)
    chosen = changed.steps[row]
    other = next(c for c in original.steps[row].candidates if c.id != chosen.id)
    rows = [*_independent(original, changed)]
    moved = not all(
        equal(a, b).all()
        for a, b in (
            (original.encoder_rows, changed.encoder_rows),
            (original.decoder_rows[: row + 1], changed.decoder_rows[: row + 1]),
            (before, after),
        )
    )
    return ChangeReport(
        token=chosen.token,
        other=other.token,
        log_p=(float(was[chosen.id]), float(now[chosen.id])),
        logit_difference=(
            float(before[chosen.id] - before[other.id]),
            float(after[chosen.id] - after[other.id]),
        ),
        divergence=float((np.exp(was) * (was - now)).sum()),
        rank=(
            1 + int((before > before[chosen.id]).sum()),
            1 + int((after > after[chosen.id]).sum()),
        ),
        row_sums=_row_sums(changed),
        independent=sum(len(a) for a, _b in rows),
        equal=sum(int(equal(a, b).all(-1).sum()) for a, b in rows),
        moved=moved,
        reason="" if moved else no_effect_words(original, changed, row),
        lacking=_lacking(changed),
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


def _lacking(changed: Trace) -> int:
    rows = {"encoder": len(changed.source), "decoder": len(changed)}
    most = dict.fromkeys(STACKS, 0)
    for one in changed.intervention.of(Patch):
        stack = STACK_OF.get(one.kinds[0], one.kinds[0])
        most[stack] = max(most[stack], one.lacking(rows[stack]))
    return sum(most.values())


def _row_sums(changed: Trace) -> float:
    farthest = [
        np.abs(changed.attention(kind, layer).sum(-1) - 1).max(initial=0)
        for kind in changed.kinds
        for layer in range(changed.layers(kind))
        if changed.intervention.at(kind, layer).changes
    ]
    return float(np.max(farthest, initial=0))


def _independent(original: Trace, changed: Trace) -> Iterator[tuple[Floats, Floats]]:
    """Yield rows of both residual streams that do not depend on the changes."""
    sides: dict[StackName, set[str]] = {
        "encoder": {"encoder", "source"},
        "decoder": {"decoder", "cross", "target"},
    }
    memory = False  # whether the encoder may be another
    for stack in STACKS:
        facts = original.model.stacks.get(stack)
        changes = [c for c in changed.intervention if sides[stack] & {*c.kinds}]
        begins = ("positions", "embedding")
        layers = [-1 if c.point in begins else c.place[0] or 0 for c in changes]
        rows = [0 if stack == "encoder" else first_row(c) for c in changes]
        if memory:
            layers, rows = [0, *layers], [0, *rows]
        if stack == "decoder" and "decoder" in original.kinds:
            ahead = original.mask("decoder") & later(len(original), len(original))
            rows = [0, *rows] if ahead.any() and changes else rows
        for layer in range(facts.hidden if facts else 0):
            count = None if layer <= min(layers, default=layer) else min(rows)
            yield (
                original.hidden(stack, layer)[:count],
                (changed.hidden(stack, layer)[:count]),
            )
        memory = bool(changes)
