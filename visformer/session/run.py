"""Wishes and the runs that answer them, with those that undo and redo go to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from visformer.engine.messages import Decode
from visformer.language import _
from visformer.pictures.runs_tree import Outline, outline
from visformer.pictures.words.choices import FED
from visformer.pictures.words.modified_run import is_taught
from visformer.text import without_controls
from visformer.trace_file.stored_facts import RunSelection
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.memo import Memo
from visformer.values.recording import bytes_of, compact
from visformer.values.step import GREEDY, Choice, Origin, Strategy
from visformer.values.trace import Trace

EditName = Literal[
    "sentence",
    "reference",
    "token",
    "hypothesis",
    "strategy",
    "change",
    "run",
    "deletion",
]
# who made a run: a decode of the engine, a file, or an experiment beside it
RunOrigin = Literal["decoded", "recorded", "batch", "shuffled"]
MOST_EDITS = 100  # that can be undone
MOST_BYTES = 1 << 24  # of runs that are not on screen, so that none is computed again
MOST_RUNS = 300  # in the tree
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

    def __post_init__(self) -> None:
        for name in ("sentence", "reference"):
            object.__setattr__(self, name, without_controls(getattr(self, name)))

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
class Run:
    """A run of the model, by a key that no other run has."""

    key: int = field(default_factory=_keys.__next__)
    trace: Trace | None  # None: it was let go, and is computed again to be shown
    name: str = ""
    note: str = ""
    selection: RunSelection | None = None  # as its file has it
    wish: Wish | None = None  # what it answers; None: that is not known
    change: Intervention = NO_CHANGES  # of the model, asked for with the wish
    passes: tuple[Trace, ...] = ()  # by step, if each step changed the rows before it
    origin: RunOrigin = "decoded"
    parent: int | None = None  # the key of the run that it came from
    order: tuple[int, ...] = ()  # where each token of a shuffled source was
    ended: bool = True  # else it is still being decoded, or was stopped
    known: Outline | None = None  # what is said of a run that was let go
    path: str = ""  # of its checkpoint; "" where that is not known
    gone: bool = False  # deleted from the tree: undo brings it back

    @property
    def request(self) -> Decode | None:
        """The request that it answers."""
        return None if self.wish is None else self.wish.request(self.change)

    def answers(self, request: Decode, digest: str) -> bool:
        """Tell whether a model, by its digest, has answered a request with this run."""
        if self.wish is None or self.wish.sentence != request.source:
            return False
        own = self.outline.digest if self.trace is None else self.trace.model.digest
        return own == digest and _wanted(self.request) == _wanted(request)

    @property
    def outline(self) -> Outline:
        """What the tree says of it."""
        if self.trace is not None:
            return outline(self.trace)
        assert self.known is not None
        return self.known

    @property
    def traces(self) -> tuple[Trace, ...]:
        """Its Trace and those of its passes, as far as they are kept."""
        return self.passes if self.trace is None else (self.trace, *self.passes)

    @property
    def bytes(self) -> int:
        """How many bytes its numbers take."""
        return sum(map(bytes_of, self.traces))

    def bare(self) -> Run:
        """Return it without what pictures derived of it: that takes more memory."""
        if self.trace is None:
            return self
        memo = Memo()
        trace, *passes = (
            replace(compact(one), memo=memo, cut_from=None) for one in self.traces
        )
        return replace(self, trace=trace, passes=tuple(passes))

    def let_go(self) -> Run:
        """Return it without its numbers."""
        if self.trace is None:
            return self
        return replace(self, trace=None, passes=(), known=self.outline)


def _wanted(request: Decode | None) -> Decode | None:
    """Leave out the last choices of a prefix that a model makes again as its best."""
    if request is None or request.strategy != GREEDY:
        return request
    return replace(request, prefix=lasting(request.prefix))


def lasting(
    choices: Sequence[Choice], kept: Container[Origin] = (*FED, "beam")
) -> tuple[Choice, ...]:
    """Leave out the last choices, which the model makes again."""
    last = [at for at, choice in enumerate(choices, 1) if choice.origin in kept]
    return tuple(choices[: max(last, default=0)])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EditedRun:
    """A run on one side of an edit: what was wanted, and which run came of it."""

    edit: EditName  # the edit between it and the current run
    wish: Wish
    intervention: Intervention
    step: int
    revision: object
    run: int = 0  # its key; 0: it was not finished
    deleted: int = 0  # the key of the run that the edit takes from the tree


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Runs before and after the current one, for undo and redo; the nearest last."""

    undo: tuple[EditedRun, ...] = ()
    redo: tuple[EditedRun, ...] = ()


def with_run(runs: tuple[Run, ...], made: Run) -> tuple[Run, ...]:
    """Put a run in the place of the one that has its key, or behind them all."""
    if made.key not in (run.key for run in runs):
        return (*runs, made)
    return tuple(made if run.key == made.key else run for run in runs)


def without_run(runs: tuple[Run, ...], key: int) -> tuple[Run, ...]:
    """Take a run away; what came from it comes from its parent then."""
    parent = next((run.parent for run in runs if run.key == key), None)
    return tuple(
        replace(run, parent=parent) if run.parent == key else run
        for run in runs
        if run.key != key
    )


def parent_of(
    runs: tuple[Run, ...], run: Run, among: Container[int] | None = None
) -> Run | None:
    """Return the nearest run that one came from and that is not deleted.

    ``among``: keys, of which its own is one.
    """
    by_key = {one.key: one for one in runs}
    return _above(
        by_key, run, lambda one: not one.gone if among is None else one.key in among
    )


def parents_of(runs: tuple[Run, ...]) -> dict[int, int]:
    """Return the key of each run's parent that is not deleted, where there is one."""
    by_key = {one.key: one for one in runs}
    above = {run.key: _above(by_key, run, lambda one: not one.gone) for run in runs}
    return {key: parent.key for key, parent in above.items() if parent is not None}


def original_of(runs: tuple[Run, ...], run: Run) -> Run | None:
    """Return the run without changes that a changed one is compared with; else None.

    It is the nearest that the changed one came from.
    """
    by_key = {one.key: one for one in runs}
    return _above(by_key, run, lambda one: not one.change) if run.change else None


def _above(
    by_key: Mapping[int, Run], run: Run, wanted: Callable[[Run], bool]
) -> Run | None:
    above = by_key.get(run.parent or 0)
    while above is not None and not wanted(above):
        above = by_key.get(above.parent or 0)
    return above


def free_name(runs: tuple[Run, ...]) -> str:
    """Return a name that no run has, deleted ones included."""
    taken = {run.name for run in runs}
    names = (_("run {n}", n=n) for n in itertools.count(len(runs) + 1))
    return next(name for name in names if name not in taken)


def kept_runs(
    runs: tuple[Run, ...], on_screen: set[int], history: History
) -> tuple[Run, ...]:
    """Return the runs; those for which there is no room are let go.

    Kept are those on screen, what undo and redo lead to, the nearest first, and then
    the newest; and any that the engine would not make again.
    """
    for run in runs[:-MOST_RUNS]:
        if run.key not in on_screen:
            runs = without_run(runs, run.key)
    kept = {run.key for run in runs if run.wish is None} | on_screen
    by_key, left = {run.key: run for run in runs}, MOST_BYTES
    near = (edit.run for side in (history.undo, history.redo) for edit in side[::-1])
    for key in (*near, *reversed(by_key)):
        if key in by_key and key not in kept:
            left -= by_key[key].bytes
            kept |= {key} if left >= 0 else set()
    return tuple(run if run.key in kept else run.let_go() for run in runs)


def asked_of(trace: Trace) -> dict[str, Any]:
    """Return the fields of a question about a run, an ``OfRun``."""
    return {
        "source": trace.source_text or tuple(trace.source_ids.tolist()),
        "ids": (tuple(trace.target_ids.tolist()), tuple(s.id for s in trace.steps)),
        "given": max(0, trace.prompt - 1),
        "fed": is_taught(trace),
        "intervention": trace.intervention,
    }
