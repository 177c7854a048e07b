"""What a benchmark reports: figures, each with the bound that it has to meet."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

Clock = Callable[[], float]
Bound = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured figure, and the budget (by its number) that it has to keep.

    ``value`` is None where it could not be measured; ``note`` then says why. ``parts``
    holds what it was computed from, such as the milliseconds of both sides of a ratio.
    """

    budget: int
    what: str
    value: float | None
    unit: str
    bound: Bound
    must: float
    parts: dict[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether it is what it must be; None where it was not measured."""
        if self.value is None:
            return None
        return (
            self.value >= self.must
            if self.bound == "at least"
            else self.value <= self.must
        )

    def line(self) -> str:
        """Say it in one line."""
        required = f"{self.bound} {self.must:g} {self.unit}"
        if self.value is None:
            return f"{self.budget:>3}  {self.what}: not measured ({self.note})"
        verdict = "met" if self.met else "MISSED"
        parts = ", ".join(f"{name} {amount:.4g}" for name, amount in self.parts.items())
        details = "; ".join(text for text in (parts, self.note) if text)
        return (
            f"{self.budget:>3}  {self.what}: {self.value:.3g} {self.unit} "
            f"({required}: {verdict})" + (f"  [{details}]" if details else "")
        )


@dataclass(frozen=True, slots=True)
class Turns:
    """Two sides that took turns: median seconds of each, median of the ratios."""

    ours: float
    theirs: float
    faster: float  # theirs / ours
    slower: float  # ours / theirs

    def milliseconds(self, ours: str, theirs: str, count: int = 1) -> dict[str, float]:
        """Return both sides' milliseconds for one of ``count`` repetitions."""
        scale = 1e3 / count
        return {f"{ours} ms": self.ours * scale, f"{theirs} ms": self.theirs * scale}


def seconds(work: Callable[[], object], clock: Clock = time.process_time) -> float:
    """Return how long some work takes, with no garbage collection in it."""
    gc.collect()
    gc.disable()
    try:
        began = clock()
        work()
        return clock() - began
    finally:
        gc.enable()


def take_turns(
    ours: Callable[[], float], theirs: Callable[[], float], *, rounds: int
) -> Turns:
    """Run both sides in turn; each returns its seconds. The first round only warms up.

    Absolute times drift with what else the computer does, their ratio in one round
    hardly does.
    """
    pairs = [(ours(), theirs()) for _ in range(rounds + 1)][1:]
    return Turns(
        ours=statistics.median(mine for mine, _ in pairs),
        theirs=statistics.median(other for _, other in pairs),
        faster=statistics.median(other / mine for mine, other in pairs),
        slower=statistics.median(mine / other for mine, other in pairs),
    )


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value that a share (0..1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
