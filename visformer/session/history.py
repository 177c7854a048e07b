"""What undo and redo go through: the runs before and after the current one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from visformer.engine.messages import Decode
from visformer.session.wishes import Wish
from visformer.values.held_memory import bytes_of
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace

EditName = Literal["sentence", "reference", "token", "strategy", "change"]
MOST_EDITS = 100  # that can be undone
MOST_BYTES = 1 << 24  # of numbers kept, so that they need not be computed again


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MadeRun:
    """What the engine made, so that it need not be made again."""

    trace: Trace
    passes: tuple[Trace, ...]
    recorded: bool
    answers: Decode | None
    baseline: Trace | None
    original: Wish

    @property
    def bytes(self) -> int:
        """How many bytes its numbers take."""
        traces = (self.trace, *self.passes)
        if self.baseline is not None:
            traces = (*traces, self.baseline)
        return sum(map(bytes_of, traces))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EditedRun:
    """A run on one side of an edit: what was wanted, and what came of it."""

    edit: EditName  # the edit between it and the current run
    wish: Wish
    intervention: Intervention
    step: int
    revision: object
    made: MadeRun | None = None  # None: it is computed again


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Runs before and after the current one, for undo and redo; the nearest last."""

    undo: tuple[EditedRun, ...] = ()
    redo: tuple[EditedRun, ...] = ()

    def bounded(self) -> History:
        """Return it with as many edits, and as many numbers, as may be kept.

        Recorded runs are kept whole: nothing else can make them again.
        """
        return History(_bounded(self.undo), _bounded(self.redo))


def _bounded(runs: tuple[EditedRun, ...]) -> tuple[EditedRun, ...]:
    kept: list[EditedRun] = []
    left = MOST_BYTES
    for run in reversed(runs[-MOST_EDITS:]):
        made = run.made
        if made is not None and not made.recorded:
            left -= made.bytes
        too_much = made is not None and not made.recorded and left < 0
        kept.append(replace(run, made=None) if too_much else run)
    return tuple(reversed(kept))
