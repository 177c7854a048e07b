"""What the user wants, and the runs before and after it that undo and redo go to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from visformer.engine.messages import Decode, Open
from visformer.values.held_memory import bytes_of
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.questions import Overrides
from visformer.values.step import Choice
from visformer.values.strategy import GREEDY, Strategy
from visformer.values.trace import Trace

if TYPE_CHECKING:
    from visformer.session.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be translated, and how."""

    sentence: str = ""
    reference: str = ""  # a translation that the user gave; "" for none
    fed: bool = True  # the reference, instead of decoding: teacher forcing
    strategy: Strategy = GREEDY
    limit: int | None = None  # target tokens; None: the model's own limit
    # the choices up to the last one that the user made, of the run with its changes
    prefix: tuple[Choice, ...] = ()

    @classmethod
    def of(cls, request: Decode) -> Wish:
        """Return the wish that a request was made for."""
        return cls(
            sentence=request.source,
            reference=request.reference,
            strategy=request.strategy,
            limit=request.limit,
            prefix=request.prefix,
        )

    def request(self, intervention: Intervention = NO_CHANGES) -> Decode:
        """Return what is asked of the engine for it."""
        return Decode(
            source=self.sentence,
            prefix=self.prefix,
            reference=self.reference if self.fed else "",
            strategy=self.strategy,
            limit=self.limit,
            intervention=intervention,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWish:
    """A checkpoint that is to be opened."""

    request: Open
    certain: Overrides | None = None  # given now, if earlier answers are used too
    then: str = ""  # what is translated once it is open
    resume: Recipe | None = None  # what is worked on once it is open


@dataclass(frozen=True, slots=True, kw_only=True)
class LensAsked:
    """What the lens was requested for."""

    of: tuple[object, ...]  # what the Trace is made of, compared by identity
    rows: tuple[int, ...]
    strategy: Strategy


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
