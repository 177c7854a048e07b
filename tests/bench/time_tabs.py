"""The real window in use: key press to finished paint (10), gaps of the event loop (7).

It runs offscreen at 1280 x 800 with its engine and the bundled model: on every tab,
page and stage, with a sentence and a reference of about 64 tokens each.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QEventLoop,
    QObject,
    QPoint,
    QPointF,
    QSettings,
    Qt,
    QTimer,
)
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from tests.bench.measurements import Measurement, at_pace, quantile, spread
from tests.bench.windows import Pace, application, settle, wait_until
from visformer.app import App
from visformer.engine.messages import Event, Finished, Opened, Refused
from visformer.pictures.computation.stages import PAGES, STAGES
from visformer.pictures.selection import AttentionCell
from visformer.program.ahead import later
from visformer.ui import views
from visformer.ui.look import theme
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.canvas import Canvas
from visformer.ui.window.window import MainWindow

PRESSES = 44  # of each kind, on each tab and page
WARM = 4  # of them are a warm-up
SOURCE = (
    "The animal didn't cross the street because it was too tired, and the old man who "
    "was sitting in front of the house with his dog looked at it for a long time, but "
    "he said nothing to the children who were playing in the garden near the river."
)
REFERENCE = (
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué, et le vieux "
    "monsieur qui était assis devant la maison avec son chien l'a regardé pendant "
    "longtemps, mais il n'a rien dit aux enfants qui jouaient dans le jardin."
)
CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
NONE = Qt.KeyboardModifier.NoModifier
SORTS: dict[str, tuple[Qt.Key, Qt.Key, Qt.KeyboardModifier]] = {
    "one step back and forward": (Qt.Key.Key_Left, Qt.Key.Key_Right, NONE),
    "first and last step": (Qt.Key.Key_Home, Qt.Key.Key_End, NONE),
    "another head": (Qt.Key.Key_Right, Qt.Key.Key_Left, CTRL),
    "another layer": (Qt.Key.Key_Up, Qt.Key.Key_Down, CTRL),
    "another cell": (Qt.Key.Key_Left, Qt.Key.Key_Right, SHIFT),
}
HOVER = "the mouse over a map"
HELD, HELD_EVERY = 120, 0.02  # repeats of a held arrow key, seconds between them
FAR = 15  # keys forward, then the same number back
SENTENCE = "The animal didn't cross the street because it was too tired. "
TIMES = 3, 4, 2, 5  # repetitions in the decoded texts: enough for a percentile
EARLY = 300  # ms after the start, when a tab that is not built yet is selected
CALM = 3000  # ms until the engine's processes have started
PAUSE = 300  # ms in which the effects of a change are done
SIZES = 30, 20, -20, -30  # changes of the text size in percent, in turn


class Refreshes(QObject):
    """Counts how often a window has painted all outdated parts."""

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self.count = 0
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Count; Qt paints outdated parts when this event is handled."""
        self.count += event.type() == QEvent.Type.UpdateRequest
        return False


class Measured(NamedTuple):
    """The measured window, its refreshes, and the computer's pace."""

    window: MainWindow
    refreshes: Refreshes
    pace: Pace


def until_right(
    act: Callable[[], object], refreshes: Refreshes, pending: Callable[[], bool]
) -> float | None:
    """Return the seconds from an action to the first complete and correct paint.

    ``pending`` tells whether numbers or slices of the picture are outstanding, even if
    they will change nothing. Later motion is not waited for. None if nothing was
    painted.
    """
    began = time.perf_counter()
    act()
    quiet, last = 0, None
    while quiet < 3:
        waited, seen = pending(), refreshes.count
        QCoreApplication.processEvents()
        waits, painted = waited or pending(), refreshes.count > seen
        if painted:
            last = time.perf_counter() - began
            if not waits:
                return last
        quiet = 0 if waits else quiet + 1
    return last


@contextmanager
def shown_app() -> Iterator[tuple[MainWindow, list[Event]]]:
    """Show the real window with its engine; the list collects the engine's answers."""
    application()
    with tempfile.TemporaryDirectory() as folder:
        ini = str(Path(folder) / "window.ini")
        app = App([], settings=QSettings(ini, QSettings.Format.IniFormat))
        seen: list[Event] = []
        if app.bridge is not None:
            app.bridge.received.connect(seen.append)
        app.window.resize(1280, 800)
        app.window.show()
        app.window.activateWindow()  # so that keys reach it on a bare X server
        try:
            app.start()
            yield app.window, seen
        finally:
            app.close()


@contextmanager
def translated() -> Iterator[MainWindow]:
    """Show the real window with the sentence and its reference, fully decoded."""
    with shown_app() as (window, seen):
        wait_until(lambda: window.session.state.opened is not None)
        window.source.take(SOURCE)
        window.reference.take(REFERENCE)
        window.reference.submit()
        wait_until(lambda: bool(_refused(seen)) or _decoded(window))
        if _refused(seen):
            raise RuntimeError(_refused(seen))
        yield window


def _refused(seen: list[Event]) -> str:
    return next((event.reason for event in seen if isinstance(event, Refused)), "")


def _decoded(window: MainWindow) -> bool:
    state = window.session.state
    return state.trace is not None and not state.recorded and not state.busy


def keys() -> list[Measurement]:
    """Measure every tab and page."""
    with translated() as window:
        return list(measured(window))


def measured(
    window: MainWindow, presses: int = PRESSES, held: int = HELD
) -> Iterator[Measurement]:
    """Yield median and 95th percentile of each kind of change on each tab, page, stage.

    Also measures whether the window keeps up with a held arrow key.
    """
    subject = Measured(window, Refreshes(window), Pace())
    window.activateWindow()
    for view, page, name in places(window):
        window.session.set(tab=view.name)
        if isinstance(view, PagedView):
            view.turn(page)
        yield from _changes(subject, view, name, presses)
        canvas = _canvas(view)
        if canvas is not None:

            def move(at: int) -> None:
                _hover(canvas, at)  # noqa: B023

            yield from _spread(subject, view, move, f"{name}: {HOVER}", presses)
        yield from _hold(subject, view, name, held)
    shown = window.session.state.stage
    window.session.set(tab="computation")
    view = window.tabs.view("computation")
    for stage in (one for one in STAGES if one.name != shown):
        window.session.set(stage=stage.name)
        name = f"{PAGES[stage.page]} > {stage.title}"
        yield from _changes(subject, view, name, presses)
    subject.pace.close()


def _changes(
    subject: Measured, view: View, place: str, presses: int
) -> Iterator[Measurement]:
    """Press the keys for each kind of change."""
    window = subject.window
    _look_inside(window)
    for sort, (one, other, modifier) in SORTS.items():

        def press(at: int) -> None:
            QTest.keyClick(window, other if at % 2 else one, modifier)  # noqa: B023

        yield from _spread(subject, view, press, f"{place}: {sort}", presses)
        _look_inside(window)


def _hold(
    subject: Measured, view: View, place: str, keys: int
) -> Iterator[Measurement]:
    """Hold an arrow key: forward, then back by the same distance, and again.

    Keys arrive at a fixed rate, as from a keyboard, even if the event loop is slow.
    Raises RuntimeError if the window ends at another step.
    """
    window, refreshes, pace = subject
    _look_inside(window)
    state = window.session.state
    end, steps = state.step, len(state.trace) if state.trace is not None else 0
    way = [Qt.Key.Key_Right] * FAR + [Qt.Key.Key_Left] * FAR
    left = [way[at % len(way)] for at in range(keys)]
    for key in left:
        end = min(end + 1, steps) if key == Qt.Key.Key_Right else max(end - 1, 0)
    began, longest, seen = time.perf_counter(), 0.0, refreshes.count
    while len(left) > 1:
        turn = time.perf_counter()
        due = min(keys - 1, int((turn - began) / HELD_EVERY))
        while len(left) > keys - due:
            QTest.keyClick(window, left.pop(0))
        QCoreApplication.processEvents()
        longest = max(longest, time.perf_counter() - turn)
        time.sleep(0.001)  # like an idle event loop
    until_right(
        lambda: QTest.keyClick(window, left.pop()), refreshes, _pending(window, view)
    )
    taken = time.perf_counter() - began
    if window.session.state.step != end:
        raise RuntimeError("a held arrow ended at another step")
    parts = {"ms": 1e3 * taken, "paints": float(refreshes.count - seen)}
    yield Measurement(
        10,
        f"{place}: {keys} keys of a held arrow, time",
        taken / (keys * HELD_EVERY),
        "x",
        "at most",
        1.05,
        parts,
    )
    what = f"{place}: longest turn of the event loop while it is held"
    slower = pace.now()
    yield at_pace(7, what, (longest, longest / slower), slower, 50, {})


def _pending(window: MainWindow, view: View) -> Callable[[], bool]:
    """Return a function that tells whether numbers or slices are outstanding."""
    return lambda: view.drawing or bool(window.session.state.awaiting.side_requests)


def places(window: MainWindow) -> list[tuple[View, str, str]]:
    """Return every view with each of its pages, and their names."""
    found = []
    for kind in views.VIEWS:
        view = window.tabs.view(kind.name)
        title = kind.title
        found += [
            (view, page.name, f"{title} > {page.title}") for page in view.pages
        ] or [(view, "", title)]
    return found


def _look_inside(window: MainWindow) -> None:
    """Select a step, a head and a cell with neighbours on each side."""
    session = window.session
    trace = session.state.trace
    steps = len(trace) if trace is not None else 0
    cell = AttentionCell("cross", steps // 2 - 2, 3)
    session.set(step=steps // 2, kind="cross", layer=1, head=1, hovered=None)
    session.set(locked=cell)
    wait_until(lambda: not (session.state.awaiting.side_requests or session.state.busy))
    settle()


def _spread(
    subject: Measured,
    view: View,
    act: Callable[[int], object],
    what: str,
    presses: int,
) -> list[Measurement]:
    """Measure each change after the first few; nothing if nothing changes."""
    pending = _pending(subject.window, view)
    times = []
    for at in range(presses):
        taken = until_right(lambda: act(at), subject.refreshes, pending)  # noqa: B023
        if taken is not None:
            times.append(taken)
    if not times:
        return []
    times = times[min(WARM, len(times) - 1) :]
    return spread(10, what, times, [subject.pace.now()] * len(times), 16, 33)


def _canvas(view: View) -> Canvas | None:
    """Return the largest visible map of a view."""
    seen = [canvas for canvas in view.findChildren(Canvas) if canvas.isVisible()]
    return max(seen, key=lambda one: one.width() * one.height(), default=None)


def _hover(canvas: Canvas, at: int) -> None:
    """Move the mouse to one of two neighbouring cells."""
    view = canvas.view
    x = (view.width() / 2 + 0.5 + at % 2) / view.width() * canvas.width()
    y = 0.5 / view.height() * canvas.height()
    place = QPointF(x, y)
    none = Qt.MouseButton.NoButton
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        place,
        QPointF(canvas.mapToGlobal(QPoint(round(x), round(y)))),
        none,
        none,
        NONE,
    )
    QApplication.sendEvent(canvas, event)


# ---- 7: gaps between iterations of the event loop ------------------------------------


class Beat(QObject):
    """A one-millisecond timer that records the time between its ticks."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[float] = []
        self._last = time.perf_counter()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._turn)
        self._timer.start(1)

    def rest(self) -> None:
        """Leave out the time since the last tick."""
        self._last = time.perf_counter()

    def _turn(self) -> None:
        now = time.perf_counter()
        self.gaps.append(now - self._last)
        self._last = now


def event_loop() -> list[Measurement]:
    """Measure gaps between ticks of the event loop during various actions."""
    gaps: dict[str, list[float]] = {}
    paces: dict[str, float] = {}
    with shown_app() as (window, seen):
        settle()
        beat = Beat()
        phases: dict[str, Callable[[], object]] = {
            "starting": lambda: _start(window, seen),
            "decoding": lambda: _translate(window, seen),
            "scrubbing": lambda: scrub(window, 100),
            "first looks": lambda: look_at_all(window),
            "themes": lambda: _dress(window),
            "sizes of text": lambda: _zoom(window),
        }
        pace = Pace()
        for name, act in phases.items():
            first = max(1, len(beat.gaps))  # the first gap precedes any tick
            act()
            gaps[name] = beat.gaps[first:]
            paces[name] = pace.now()
            beat.rest()
        pace.close()
    return worst_gaps(gaps, paces)


def worst_gaps(
    gaps: dict[str, list[float]], paces: dict[str, float]
) -> list[Measurement]:
    """Return the 95th percentile of the worst phase, and the longest gap of all.

    ``paces`` (see ``Pace.now``) divide the gaps of each phase. The parts of a figure
    are the unscaled milliseconds of every phase.
    """
    often = {name: quantile(times, 0.95) for name, times in gaps.items()}
    once = {name: max(times) for name, times in gaps.items()}
    usual = "gap of the event loop, 95th percentile of the worst phase"
    longest = "gap of the event loop, longest of the worst phase"
    figures = []
    for what, taken, must in ((usual, often, 10), (longest, once, 50)):
        paced = {name: seconds / paces[name] for name, seconds in taken.items()}
        worst = max(paced, key=paced.__getitem__)
        parts = {name: 1e3 * seconds for name, seconds in taken.items()}
        both = taken[worst], paced[worst]
        figures.append(at_pace(7, what, both, paces[worst], must, parts))
    return figures


def _start(window: MainWindow, seen: list[Event]) -> None:
    """Build the tabs in advance, one of them on request, while the model is opened.

    Then wait for the engine's spare process, whose start occupies a core.
    """
    QTimer.singleShot(EARLY, lambda: window.session.set(tab="positions"))
    window.tabs.load_ahead()
    wait_until(lambda: _came(Opened, seen) and later(window.tabs).idle)
    _do(lambda: None, CALM)  # users do not act in the same tick
    _do(lambda: window.session.set(tab="attention"))


def look_at_all(window: MainWindow) -> None:
    """Select every tab and turn to every page."""
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
    """Act inside the event loop, like a user; then wait for ``pause`` ms."""
    loop = QEventLoop()
    QTimer.singleShot(0, act)
    QTimer.singleShot(pause or PAUSE, loop.quit)
    loop.exec()


def _translate(window: MainWindow, seen: list[Event]) -> None:
    for times in TIMES:
        seen.clear()  # events of the previous text
        window.translate(SENTENCE * times)
        wait_for(Finished, seen)


def wait_for(kind: type[Event], seen: list[Event]) -> None:
    """Wait for an answer of the engine; RuntimeError if it refuses."""
    wait_until(lambda: _came(kind, seen))


def scrub(window: MainWindow, presses: int) -> None:
    """Step back and forward inside the event loop, one key every 20 ms."""
    left = list(range(presses))

    def press() -> None:
        if not left:  # a busy event loop may fire the timer once more
            return
        key = Qt.Key.Key_Right if left.pop() % 4 else Qt.Key.Key_Left
        QTest.keyClick(window, key)

    timer = QTimer()
    timer.timeout.connect(press)
    timer.start(20)
    wait_until(lambda: not left)
    timer.stop()


def _came(kind: type[Event], seen: list[Event]) -> bool:
    if _refused(seen):
        raise RuntimeError(_refused(seen))
    return any(isinstance(event, kind) for event in seen)


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {7: event_loop, 10: keys}
