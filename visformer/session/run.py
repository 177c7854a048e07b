"""Wishes and the runs that answer them, with those that undo and redo go to."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Literal

from visformer.engine.messages import Decode
from visformer.trace_file.saved_session import SavedRun
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.memo import Memo
from visformer.values.recording import bytes_of, compact
from visformer.values.step import Choice
from visformer.values.strategy import GREEDY, Strategy
from visformer.values.trace import Trace

EditName = Literal["sentence", "reference", "token", "strategy", "change"]
# who made a run: a decode of the engine, a file, or an experiment beside it
RunOrigin = Literal["decoded", "recorded", "batch", "shuffled"]
MOST_EDITS = 100  # that can be undone
MOST_BYTES = 1 << 24  # of runs kept on each side, so that none is computed again
_keys = itertools.count(1)


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
    def of(cls, request: Decode, reference: str = "") -> Wish:
        """Return the wish that a request was made for.

        ``reference`` was not fed, where the request has none.
        """
        return cls(
            sentence=request.source,
            reference=request.reference or reference,
            fed=bool(request.reference) or not reference,
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Run(SavedRun):
    """A run of the model, by a key that no other run has."""

    key: int = field(default_factory=_keys.__next__)
    wish: Wish | None = None  # what it answers; None: that is not known
    change: Intervention = NO_CHANGES  # of the model, asked for with the wish
    passes: tuple[Trace, ...] = ()  # by step, if each step changed the rows before it
    origin: RunOrigin = "decoded"
    parent: int | None = None  # the key of the run that it changes, not its number
    order: tuple[int, ...] = ()  # where each token of a shuffled source was

    @property
    def request(self) -> Decode | None:
        """The request that it answers."""
        return None if self.wish is None else self.wish.request(self.change)

    @property
    def bytes(self) -> int:
        """How many bytes its numbers take."""
        return sum(map(bytes_of, (self.trace, *self.passes)))

    def bare(self) -> Run:
        """Return it without what pictures derived of it: that takes more memory."""
        memo = Memo()
        trace, *passes = (
            replace(compact(one), memo=memo, cut_from=None)
            for one in (self.trace, *self.passes)
        )
        return replace(self, trace=trace, passes=tuple(passes))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EditedRun:
    """A run on one side of an edit: what was wanted, and which run came of it."""

    edit: EditName  # the edit between it and the current run
    wish: Wish
    intervention: Intervention
    step: int
    revision: object
    run: int = 0  # its key; 0: it was not finished


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Runs before and after the current one, for undo and redo; the nearest last."""

    undo: tuple[EditedRun, ...] = ()
    redo: tuple[EditedRun, ...] = ()


def reachable(
    runs: tuple[Run, ...], on_screen: set[int], history: History
) -> tuple[Run, ...]:
    """Return the runs that are on screen, or that undo and redo lead to.

    Of these the nearest are kept, as far as there is memory; and any that the engine
    would not make again: recorded ones, and those of experiments.
    """
    by_key = {run.key: run for run in runs}
    kept = {run.key for run in runs if run.origin != "decoded"} | on_screen
    for side in (history.undo, history.redo):
        left = MOST_BYTES
        for edit in reversed(side):
            run = by_key.get(edit.run)
            parent = None if run is None else by_key.get(run.parent or 0)
            for one in (run, parent):
                if one is not None and one.key not in kept:
                    left -= one.bytes
                    kept |= {one.key} if left >= 0 else set()
    return tuple(run for run in runs if run.key in kept)
