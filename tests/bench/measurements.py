"""The results of benchmarks: figures, each with its required bound."""

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
    """One measured figure and the number of its budget.

    ``value`` is None if it could not be measured; ``note`` then gives the reason.
    ``parts`` are the numbers it was computed from, such as the milliseconds of both
    sides of a ratio; their names are also keys in JSON.
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
        """Whether the bound is met; None if the figure was not measured."""
        if self.value is None:
            return None
        return (
            self.value >= self.must
            if self.bound == "at least"
            else self.value <= self.must
        )

    def line(self) -> str:
        """Describe the figure in one line."""
        if self.value is None:
            return f"{self.budget:>3}  {self.what}: not measured ({self.note})"
        verdict = "met" if self.met else "MISSED"
        bound = f"{self.bound} {self.must:g} {self.unit}: {verdict}"
        line = f"{self.budget:>3}  {self.what}: {self.value:.3g} {self.unit} ({bound})"
        parts = ", ".join(f"{name} {amount:.4g}" for name, amount in self.parts.items())
        details = "; ".join(text for text in (parts, self.note) if text)
        return f"{line}  [{details}]" if details else line


@dataclass(frozen=True, slots=True)
class Turns:
    """Two sides measured in turn: median seconds of each, medians of the ratios."""

    ours: float
    theirs: float
    faster: float  # theirs / ours
    slower: float  # ours / theirs

    def milliseconds(self, ours: str, theirs: str, count: int = 1) -> dict[str, float]:
        """Return the milliseconds of both sides for one of ``count`` repetitions."""
        scale = 1e3 / count
        return {f"{ours} ms": self.ours * scale, f"{theirs} ms": self.theirs * scale}


def seconds(work: Callable[[], object], clock: Clock = time.process_time) -> float:
    """Return the time of some work in seconds, without garbage collection."""
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
    """Run both sides in turn; each returns its seconds. The first round is a warm-up.

    Absolute times drift with other load on the computer; the ratio within one round
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
    """Return the quantile of some values at ``share``, 0 to 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(
    budget: int,
    what: str,
    times: list[float],
    paces: list[float],
    median: float,
    most: float,
) -> list[Measurement]:
    """Return the median and the 95th percentile of some seconds, as milliseconds.

    Each time is divided by the pace of its minute (see ``Pace.now``).
    """
    paced = [taken / pace for taken, pace in zip(times, paces, strict=True)]
    pace, parts = statistics.median(paces), {"times": float(len(times))}
    figures = (
        (f"{what}, median", statistics.median, median),
        (f"{what}, 95th percentile", _most, most),
    )
    return [
        at_pace(budget, name, (of(times), of(paced)), pace, must, parts)
        for name, of, must in figures
    ]


def _most(values: list[float]) -> float:
    return quantile(values, 0.95)


def at_pace(
    budget: int,
    what: str,
    taken: tuple[float, float],
    pace: float,
    must: float,
    parts: dict[str, float],
) -> Measurement:
    """Return a time in milliseconds, scaled to the reference computer.

    ``taken`` are the seconds measured and the seconds scaled by the pace.
    """
    here, there = (1e3 * seconds for seconds in taken)
    parts = {"ms here": here, "slower": pace, **parts}
    return Measurement(budget, what, there, "ms", "at most", must, parts)
