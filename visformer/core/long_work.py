"""Long work in parts: how far it has come is yielded, where it may be stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import TypeVar

from visformer.core.models import WorkDone

WorkPart = TypeVar("WorkPart")
AtStop = TypeVar("AtStop")
Outcome = TypeVar("Outcome")


def in_turn(
    parts: Collection[WorkPart], unit: str, measure: Callable[[WorkPart], Outcome]
) -> Generator[WorkDone, None, list[Outcome]]:
    """Measure one part after the other; return what each gave."""
    results = []
    for at, part in enumerate(parts):
        yield WorkDone(at, len(parts), unit)
        results.append(measure(part))
    return results


def announced(
    work: Generator[object, None, Outcome], report: AtStop
) -> Generator[AtStop, None, Outcome]:
    """Do some work; where it may be stopped, yield ``report`` in place of its own."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Outcome = end.value
            return result
        yield report
