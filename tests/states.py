"""A State that shows a run, and its fields, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from visformer.session.run import Run, RunOrigin
from visformer.session.state import Session, State
from visformer.values.trace import Trace


class Ran(TypedDict):
    runs: tuple[Run, ...]
    shown: int
    beside: int


def ran(
    trace: Trace | None = None,
    *,
    baseline: Trace | None = None,
    batch: Sequence[Trace] = (),
    recorded: bool = False,
) -> Ran:
    """Return the fields of a State with these runs, ``trace`` on screen."""
    origin: RunOrigin = "recorded" if recorded else "decoded"
    rows = [Run(trace=row, origin="batch") for row in batch]
    shown = [] if trace is None else [Run(trace=trace, origin=origin)]
    beside = [] if baseline is None else [Run(trace=baseline)]
    return {
        "runs": (*beside, *shown, *rows),
        "shown": shown[0].key if shown else 0,
        "beside": beside[0].key if beside else 0,
    }


def showing(
    trace: Trace,
    step: int | None = None,
    *,
    baseline: Trace | None = None,
    **changes: Any,
) -> State:
    """Return a State with a run on screen: all of it, or up to a step."""
    session, step = Session(), len(trace) if step is None else step
    session.set(**ran(trace, baseline=baseline), step=step, **changes)
    return session.state
