"""Benchmarks of the window: from an event to the last paint that it causes.

Everything is drawn offscreen, at 1280 x 800, from Traces of random numbers.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtWidgets import QWidget

from tests.bench.measurements import Measurement, seconds, spread, take_turns
from tests.bench.random_trace import random_facts, random_recording, random_trace
from tests.bench.windows import (
    LAYERS,
    Pace,
    Plots,
    application,
    attention_of,
    settle,
    shown_window,
    wait_until,
)
from tests.bench.windows import TOKENS as CELLS
from visformer.engine.messages import Decode
from visformer.engine.mirror import Decoded
from visformer.pictures.attention.mosaic import mosaic, reduced
from visformer.program.ahead import later
from visformer.session.pending import Awaiting
from visformer.session.state import Session
from visformer.ui.views.attention.overview import Overview
from visformer.ui.window.window import MainWindow
from visformer.values.arrays import Floats
from visformer.values.facts import ModelFacts
from visformer.values.recording import Recording, rows_of

TOKENS, KEYS = 64, 40  # source and target tokens; key presses of each kind
BLOCK = 10  # steps between two measurements of the computer's pace
RUNS = 5  # runs that are stepped through: shared computers have slow moments


class Paints(QObject):
    """Counts the paint events of some widgets, and records when painting was done."""

    AFTER = Qt.EventPriority.LowEventPriority.value - 1  # below paint requests

    def __init__(self, widgets: list[QWidget]) -> None:
        super().__init__()
        self.count = 0
        self.done = 0.0  # in seconds of the performance counter
        for widget in widgets:
            widget.installEventFilter(self)

    def turn(self) -> None:
        """Process events once; work done by timers comes after ``done``."""
        QCoreApplication.postEvent(self, QEvent(QEvent.Type.User), self.AFTER)
        QCoreApplication.processEvents()

    def event(self, event: QEvent) -> bool:
        """Record that everything outdated has been painted."""
        if event.type() == QEvent.Type.User:
            self.done = time.perf_counter()
        return super().event(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Count paint events without filtering any."""
        self.count += event.type() == QEvent.Type.Paint
        return False


def pictures(window: MainWindow) -> Paints:
    """Watch the three maps and the grid of all heads."""
    attention = attention_of(window)
    maps = [heat_map.canvas for heat_map in attention.maps.values()]
    return Paints([*maps, attention.overview])


def until_painted(act: Callable[[], object], paints: Paints) -> float:
    """Return the seconds from an action to the end of the last paint it causes."""
    began = time.perf_counter()
    act()
    last, quiet = time.perf_counter(), 0
    while quiet < 3:  # work done in slices paints again
        before = paints.count
        paints.turn()
        if paints.count > before:
            last, quiet = paints.done, 0
        else:
            quiet += 1
    return last - began


# ---- 5: a new step --------------------------------------------------------------


def small(layers: int) -> ModelFacts:
    """Return the facts of a model of the small shape's width."""
    return random_facts(d_model=256, heads=8, layers=layers, vocabulary=8000)


def new_step() -> list[Measurement]:
    """Measure from a new step's numbers to the paint of all heads and three maps."""
    pace = Pace()
    times: list[float] = []
    paces: list[float] = []
    for _run in range(RUNS):
        for slower, taken in _steps(pace):
            times += taken
            paces += [slower] * len(taken)
    pace.close()
    what = f"from a new step's numbers to the finished paint, {TOKENS} tokens, 32 heads"
    return spread(5, what, times, paces, 5, 10)


def _steps(pace: Pace) -> Iterator[tuple[float, list[float]]]:
    """Show the last steps of a run; yields the pace and the seconds of some steps."""
    whole = random_recording(small(4), TOKENS, TOKENS, limit=TOKENS)
    every = rows_of(whole.trace(), 0) or ()
    known, *rows = every[TOKENS - KEYS - 1 :]
    growing = Recording(whole.trace().until(0), TOKENS)  # nothing is derived yet
    for row in [*every[: TOKENS - KEYS - 1], known]:
        growing.append(row)
    with shown_window(growing.trace()) as window:
        paints = pictures(window)

        def show() -> None:
            window.receive(Decoded(number=1, trace=growing.trace(), limit=TOKENS))

        asked = Awaiting().add(1, Decode(source=""))
        window.session.set(awaiting=asked, cursor=TOKENS, step=TOKENS)
        wait_until(lambda: later(application()).idle)
        gc.collect()
        gc.disable()  # as in the program, which collects between events
        for first in range(0, len(rows), BLOCK):
            slower, taken = pace.now(), []
            for row in rows[first : first + BLOCK]:
                growing.append(row)
                taken.append(until_painted(show, paints))
                gc.collect(1)
            yield slower, taken[1:]  # the first one is a warm-up
        gc.enable()


# ---- 8 and 9: all heads --------------------------------------------------------


def refresh() -> list[Measurement]:
    """Compare redrawing the grid of 64 heads with 64 plots."""
    return against_plots(LAYERS, CELLS)


def against_plots(layers: int, tokens: int, rounds: int = 10) -> list[Measurement]:
    """Compare the grid of all heads with pyqtgraph's plots of the same weights."""
    application()
    # two alternating traces, so that every pixel changes
    traces = [random_trace(small(layers), tokens, tokens, seed=at) for at in range(2)]
    weights = [trace.attention("encoder", 0) for trace in traces]
    extent = tokens, tokens
    selection = Session().state.selection
    for trace in traces:  # cache the derived weights
        mosaic(trace, selection, "encoder", extent=extent)
    overview, plots = Overview(lambda: None), Plots(weights, layers)
    overview.resize(plots.widget.size())
    for widget in (overview, plots.widget):
        widget.show()
    settle()

    def ours() -> float:
        traces.reverse()

        def draw() -> None:
            overview.draw(mosaic(traces[0], selection, "encoder", extent=extent))
            overview.repaint()

        return seconds(draw, time.perf_counter)

    turns = take_turns(ours, plots.redraw, rounds=rounds)
    for widget in (overview, plots.widget):
        widget.close()
    parts = turns.milliseconds("grid", "plots")
    what = f"{layers * len(weights[0])} heads of {tokens} x {tokens} redrawn, time"
    note = "the weights are already computed"
    return [Measurement(8, what, 1e3 * turns.ours, "ms", "at most", 8, parts, note)]


def reduction(
    heads: int = 64, tokens: int = 512, factor: int = 4, rounds: int = 10
) -> list[Measurement]:
    """Measure the reduction of heads to the maxima of blocks."""
    weights: Floats = np.random.default_rng(0).random(
        (heads, tokens, tokens), np.float32
    )
    smaller = reduced(weights, (factor, factor))
    if not np.array_equal(smaller.max((1, 2)), weights.max((1, 2))):
        raise RuntimeError("the largest weight of a head was lost")
    times = [seconds(lambda: reduced(weights, (factor, factor))) for n in range(rounds)]
    what = f"{heads} heads of {tokens} x {tokens} reduced without losing a maximum"
    value = 1e3 * statistics.median(times)
    return [Measurement(9, what, value, "ms", "at most", 20, {"to a": tokens / factor})]


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {
    5: new_step,
    8: refresh,
    9: reduction,
}
