"""Windows to be measured: shown offscreen, with their events processed.

Budgets in milliseconds refer to a computer that redraws 64 plots of pyqtgraph in
``STANDARD``. Other computers may be slower, and a shared one changes from minute to
minute, so measured times are divided by the pace of the same minute. On faster
computers the budgets stay the same, as users perceive milliseconds.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
from PySide6.QtCore import QCoreApplication, QEventLoop, QSettings, QTimer
from PySide6.QtWidgets import QApplication

from tests.bench.measurements import seconds
from visformer.app import NoEngine
from visformer.session.runs import show_trace
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.window.window import MainWindow
from visformer.values.arrays import Floats
from visformer.values.trace import Trace

WAIT = 120.0  # seconds for an engine


def application() -> QApplication:
    """Return the application, which draws offscreen."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    existing = QApplication.instance()
    return existing if isinstance(existing, QApplication) else QApplication([])


@contextmanager
def shown_window(trace: Trace) -> Iterator[MainWindow]:
    """Show a recorded Trace in a new window."""
    application()
    with tempfile.TemporaryDirectory() as folder:
        settings = QSettings(str(Path(folder) / "w.ini"), QSettings.Format.IniFormat)
        window = MainWindow(NoEngine(), settings)
        window.resize(1280, 800)
        window.show()
        window.session.do(show_trace, trace)
        settle()
        yield window
        window.close()
        window.deleteLater()
        settle()


def attention_of(window: MainWindow) -> AttentionView:
    """Return the view of the Attention tab."""
    return cast(AttentionView, window.tabs.view("attention"))


def settle() -> None:
    """Process all pending events."""
    for _turn in range(20):
        QCoreApplication.processEvents()


def wait_until(there: Callable[[], bool]) -> None:
    """Run the event loop until ``there()``; RuntimeError if that takes too long."""
    loop, timer = QEventLoop(), QTimer()
    until = time.perf_counter() + WAIT

    def look() -> None:
        if there() or time.perf_counter() > until:
            loop.quit()

    timer.timeout.connect(look)
    timer.start(1)
    loop.exec()
    timer.stop()
    if not there():
        raise RuntimeError("the engine did not answer")


STANDARD = 0.024  # seconds of a redraw on the reference computer
LAYERS, HEADS, TOKENS = 8, 8, 128  # a plot of 128 x 128 cells per head
REDRAWS = 5  # the median counts


class Plots:
    """The attention of some layers in pyqtgraph's plots, one per head."""

    def __init__(self, weights: list[Floats], layers: int) -> None:
        """``weights`` of some layers, [H, Q, K] each, alternate in every plot."""
        import pyqtgraph as pg  # measured windows import it in their own time

        self.widget = pg.GraphicsLayoutWidget()
        self._weights = weights
        heads = len(weights[0])
        plots = [
            self.widget.addPlot(row=layer, col=head)
            for layer in range(layers)
            for head in range(heads)
        ]
        self._items = [pg.ImageItem(axisOrder="row-major") for _plot in plots]
        for plot, item in zip(plots, self._items, strict=True):
            plot.addItem(item)
        self.widget.resize(1100, 1100)

    def redraw(self) -> float:
        """Change every pixel of every plot; returns the seconds until it is painted."""
        self._weights.reverse()
        return seconds(self._draw, time.perf_counter)

    def _draw(self) -> None:
        weights = self._weights[0]
        for at, item in enumerate(self._items):
            item.setImage(weights[at % len(weights)], autoLevels=False, levels=(0, 1))
        self.widget.viewport().repaint()


class Pace:
    """How much slower this computer is at the moment than the reference computer.

    The plots are in a separate process, which is idle while a window is measured.
    """

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_hide)

    def now(self) -> float:
        """Return the time of a redraw relative to ``STANDARD``, at least 1."""
        return max(1.0, self._pool.submit(_redraw).result() / STANDARD)

    def close(self) -> None:
        self._pool.shutdown()


def _hide() -> None:
    """Draw offscreen, even if the measured window is on a screen."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"


def _redraw() -> float:
    plots = _plots()
    return statistics.median(plots.redraw() for _time in range(REDRAWS))


@functools.cache
def _plots() -> Plots:
    application()
    random, shape = np.random.default_rng(0), (HEADS, TOKENS, TOKENS)
    plots = Plots([random.random(shape, np.float32) for _one in range(2)], LAYERS)
    plots.widget.show()
    settle()
    plots.redraw()
    return plots
