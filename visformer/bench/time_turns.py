"""Benchmark of the event loop's turns: what a user who does something waits for (7).

The window is the real one with its engine and the bundled model, drawn without a screen
at 1280 x 800. It starts as the command line starts it: tabs are built ahead.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEventLoop, QObject, QSettings, Qt, QTimer
from PySide6.QtTest import QTest

from visformer.app import App
from visformer.bench.measurements import Measurement, at_pace, quantile
from visformer.bench.windows import Pace, application, settle, wait_until
from visformer.engine.messages import Event, Finished, Opened, Refused
from visformer.language import _
from visformer.program.ahead import later
from visformer.ui import views
from visformer.ui.look import theme
from visformer.ui.views.view import PagedView
from visformer.ui.window.window import MainWindow

SENTENCE = "The animal didn't cross the street because it was too tired. "
TIMES = 3, 4, 2, 5  # in the texts that are decoded: turns enough for a percentile
EARLY = 300  # ms after the start, when a tab is turned to that is not built yet
CALM = 3000  # ms until the engine's processes are there
PAUSE = 300  # ms in which what one change causes is done
SIZES = 30, 20, -20, -30  # percent of the text, one after another


class Beat(QObject):
    """A one-millisecond timer that records the time between its turns."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[float] = []
        self._last = time.perf_counter()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._turn)
        self._timer.start(1)

    def rest(self) -> None:
        """Leave out what was done since the last turn."""
        self._last = time.perf_counter()

    def _turn(self) -> None:
        now = time.perf_counter()
        self.gaps.append(now - self._last)
        self._last = now


def event_loop() -> list[Measurement]:
    """Measure gaps between turns of the loop while a user does one thing or another."""
    application()
    with tempfile.TemporaryDirectory() as folder:
        ini = str(Path(folder) / "window.ini")
        app = App([], settings=QSettings(ini, QSettings.Format.IniFormat))
        seen: list[Event] = []
        if app.bridge is not None:
            app.bridge.received.connect(seen.append)
        window = app.window
        window.resize(1280, 800)
        window.show()
        window.activateWindow()  # keys reach it on a bare X server too
        app.start()
        settle()
        beat = Beat()
        phases: dict[str, Callable[[], object]] = {
            "starting": lambda: _start(window, seen),
            "decoding": lambda: _translate(window, seen),
            "scrubbing": lambda: scrub(window, 100),
            "first looks": lambda: _look(window),
            "themes": lambda: _dress(window),
            "sizes of text": lambda: _zoom(window),
        }
        gaps: dict[str, list[float]] = {}
        paces: dict[str, float] = {}
        pace = Pace()
        for name, act in phases.items():
            first = max(1, len(beat.gaps))  # the very first gap precedes any turn
            act()
            gaps[name] = beat.gaps[first:]
            paces[name] = pace.now()
            beat.rest()
        pace.close()
        app.close()
    return worst_gaps(gaps, paces)


def worst_gaps(
    gaps: dict[str, list[float]], paces: dict[str, float]
) -> list[Measurement]:
    """Return the worst phase's 95th percentile, and the longest gap of all.

    ``paces``: see ``Pace.now``, of each phase; its gaps are divided by it. A figure's
    parts are the milliseconds of every phase, as they were measured.
    """
    often = {name: quantile(times, 0.95) for name, times in gaps.items()}
    once = {name: max(times) for name, times in gaps.items()}
    usual = _("gap of the event loop, 95th percentile of the worst phase")
    longest = _("gap of the event loop, longest of the worst phase")
    figures = []
    for what, taken, must in ((usual, often, 10), (longest, once, 50)):
        paced = {name: seconds / paces[name] for name, seconds in taken.items()}
        worst = max(paced, key=paced.__getitem__)
        parts = {name: 1e3 * seconds for name, seconds in taken.items()}
        both = taken[worst], paced[worst]
        figures.append(at_pace(7, what, both, paces[worst], must, parts))
    return figures


def _start(window: MainWindow, seen: list[Event]) -> None:
    """Build the tabs ahead, one of them asked for before, while the model is opened.

    Then the engine's spare process has time to start, which takes a core as well.
    """
    QTimer.singleShot(EARLY, lambda: window.session.set(tab="positions"))
    window.tabs.load_ahead()
    wait_until(lambda: _came(Opened, seen) and later(window.tabs).idle)
    _do(lambda: None, CALM)  # nobody turns back in the very turn in which all is there
    _do(lambda: window.session.set(tab="attention"))


def _look(window: MainWindow) -> None:
    """Turn to every tab and page."""
    for kind in views.VIEWS:
        _do(lambda: window.session.set(tab=kind.name))  # noqa: B023
        view = window.tabs.view(kind.name)
        for page in view.pages:
            assert isinstance(view, PagedView)
            _do(lambda: view.turn(page.name))  # noqa: B023


def _dress(window: MainWindow) -> None:
    _do(lambda: window.session.set(tab="attention"))
    for name in (*reversed(theme.THEMES), "light"):
        _do(lambda: window.appearance.set_theme(name))  # noqa: B023


def _zoom(window: MainWindow) -> None:
    for percent in SIZES:
        _do(lambda: window.appearance.zoom_by(percent))  # noqa: B023


def _do(act: Callable[[], object], pause: int = 0) -> None:
    """Do something in a turn of the event loop, as a user does; then wait for ms."""
    loop = QEventLoop()
    QTimer.singleShot(0, act)
    QTimer.singleShot(pause or PAUSE, loop.quit)
    loop.exec()


def _translate(window: MainWindow, seen: list[Event]) -> None:
    for times in TIMES:
        seen.clear()  # another text is finished already
        window.translate(SENTENCE * times)
        wait_until(lambda: _came(Finished, seen))


def scrub(window: MainWindow, presses: int) -> None:
    """Step back and forward in the event loop, one key every 20 ms."""
    left = list(range(presses))

    def press() -> None:
        if not left:  # a busy loop may fire the timer once more
            return
        key = Qt.Key.Key_Right if left.pop() % 4 else Qt.Key.Key_Left
        QTest.keyClick(window, key)

    timer = QTimer()
    timer.timeout.connect(press)
    timer.start(20)
    wait_until(lambda: not left)
    timer.stop()


def _came(kind: type[Event], seen: list[Event]) -> bool:
    refused = [event.reason for event in seen if isinstance(event, Refused)]
    if refused:
        raise RuntimeError(refused[0])
    return any(isinstance(event, kind) for event in seen)


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {7: event_loop}
