"""The real window in use: from a key to the finished paint (10), gaps of its loop (7).

It runs with its engine and the bundled model, drawn without a screen at 1280 x 800: on
every tab, page and stage, on a sentence and a reference of about 64 tokens each.
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

from visformer.app import App
from visformer.bench.measurements import Measurement, at_pace, quantile, spread
from visformer.bench.windows import Pace, application, settle, wait_until
from visformer.engine.messages import Event, Finished, Opened, Refused
from visformer.language import N_, _
from visformer.pictures.computation.stages import PAGES, STAGES
from visformer.pictures.selection import AttentionCell
from visformer.program.ahead import later
from visformer.ui import views
from visformer.ui.look import theme
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.canvas import Canvas
from visformer.ui.window.window import MainWindow

PRESSES = 44  # of each kind, on each tab and page
WARM = 4  # of them are not counted
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
    N_("one step back and forward"): (Qt.Key.Key_Left, Qt.Key.Key_Right, NONE),
    N_("first and last step"): (Qt.Key.Key_Home, Qt.Key.Key_End, NONE),
    N_("another head"): (Qt.Key.Key_Right, Qt.Key.Key_Left, CTRL),
    N_("another layer"): (Qt.Key.Key_Up, Qt.Key.Key_Down, CTRL),
    N_("another cell"): (Qt.Key.Key_Left, Qt.Key.Key_Right, SHIFT),
}
HOVER = N_("the mouse over a map")
HELD, HELD_EVERY = 120, 0.02  # keys of a held arrow, and the seconds between them
FAR = 15  # keys forward, then as many back
SENTENCE = "The animal didn't cross the street because it was too tired. "
TIMES = 3, 4, 2, 5  # in the texts that are decoded: turns enough for a percentile
EARLY = 300  # ms after the start, when a tab is turned to that is not built yet
CALM = 3000  # ms until the engine's processes are there
PAUSE = 300  # ms in which what one change causes is done
SIZES = 30, 20, -20, -30  # percent of the text, one after another


class Refreshes(QObject):
    """Counts how often a window has painted all that had changed in it."""

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self.count = 0
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Count; Qt paints what is outdated when this event is handled."""
        self.count += event.type() == QEvent.Type.UpdateRequest
        return False


class Measured(NamedTuple):
    """The window that is measured, its refreshes, and the computer's pace."""

    window: MainWindow
    refreshes: Refreshes
    pace: Pace


def until_right(
    act: Callable[[], object], refreshes: Refreshes, pending: Callable[[], bool]
) -> float | None:
    """Return the seconds from an action to the first paint that is complete and right.

    ``pending`` tells whether numbers or slices of the picture are still to come; they
    may turn out to change nothing. What moves afterwards is not waited for. None if
    nothing was painted.
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
    """Show the real window, with its engine; the list fills with what that answers."""
    application()
    with tempfile.TemporaryDirectory() as folder:
        ini = str(Path(folder) / "window.ini")
        app = App([], settings=QSettings(ini, QSettings.Format.IniFormat))
        seen: list[Event] = []
        if app.bridge is not None:
            app.bridge.received.connect(seen.append)
        app.window.resize(1280, 800)
        app.window.show()
        app.window.activateWindow()  # keys reach it on a bare X server too
        try:
            app.start()
            yield app.window, seen
        finally:
            app.close()


@contextmanager
def translated() -> Iterator[MainWindow]:
    """Show the real window on the sentence and its reference, all of it decoded."""
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

    And how a held arrow, of so many keys, keeps up.
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

            yield from _spread(subject, view, move, f"{name}: {_(HOVER)}", presses)
        yield from _hold(subject, view, name, held)
    shown = window.session.state.stage
    window.session.set(tab="computation")
    view = window.tabs.view("computation")
    for stage in (one for one in STAGES if one.name != shown):
        window.session.set(stage=stage.name)
        name = f"{_(PAGES[stage.page])} > {_(stage.title)}"
        yield from _changes(subject, view, name, presses)
    subject.pace.close()


def _changes(
    subject: Measured, view: View, place: str, presses: int
) -> Iterator[Measurement]:
    """Press the keys of each kind of change."""
    window = subject.window
    _look_inside(window)
    for sort, (one, other, modifier) in SORTS.items():

        def press(at: int) -> None:
            QTest.keyClick(window, other if at % 2 else one, modifier)  # noqa: B023

        yield from _spread(subject, view, press, f"{place}: {_(sort)}", presses)
        _look_inside(window)


def _hold(
    subject: Measured, view: View, place: str, keys: int
) -> Iterator[Measurement]:
    """Hold an arrow key: forward, then as far back, and again.

    The keys come at their own times, as from a keyboard, however long a turn of the
    event loop takes. RuntimeError if the window ends at another step.
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
        time.sleep(0.001)  # as a loop without events
    until_right(
        lambda: QTest.keyClick(window, left.pop()), refreshes, _pending(window, view)
    )
    taken = time.perf_counter() - began
    if window.session.state.step != end:
        raise RuntimeError(_("a held arrow ended at another step"))
    parts = {"ms": 1e3 * taken, "paints": float(refreshes.count - seen)}
    yield Measurement(
        10,
        _("{place}: {n} keys of a held arrow, time", place=place, n=keys),
        taken / (keys * HELD_EVERY),
        "x",
        "at most",
        1.05,
        parts,
    )
    what = _("{place}: longest turn of the event loop while it is held", place=place)
    slower = pace.now()
    yield at_pace(7, what, (longest, longest / slower), slower, 50, {})


def _pending(window: MainWindow, view: View) -> Callable[[], bool]:
    """Return what tells whether numbers or slices of the picture are still to come."""
    return lambda: view.drawing or bool(window.session.state.awaiting.side_requests)


def places(window: MainWindow) -> list[tuple[View, str, str]]:
    """Return every view with each of its pages, and what they are called."""
    found = []
    for kind in views.VIEWS:
        view = window.tabs.view(kind.name)
        title = _(kind.title)
        found += [
            (view, page.name, f"{title} > {_(page.title)}") for page in view.pages
        ] or [(view, "", title)]
    return found


def _look_inside(window: MainWindow) -> None:
    """Go to a step, a head and a cell that have neighbours on each side."""
    session = window.session
    trace = session.state.trace
    steps = len(trace) if trace is not None else 0
    cell = AttentionCell("cross", steps // 2 - 2, 3)
    session.set(step=steps // 2, kind="cross", layer=1, head=1, hovered=None)
    session.set(locked=cell)
    wait_until(lambda: not session.state.awaiting.side_requests)
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
    """Return the largest map that can be seen in a view."""
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


# ---- 7: gaps between turns of the event loop -----------------------------------------


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
    gaps: dict[str, list[float]] = {}
    paces: dict[str, float] = {}
    with shown_app() as (window, seen):
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
        pace = Pace()
        for name, act in phases.items():
            first = max(1, len(beat.gaps))  # the very first gap precedes any turn
            act()
            gaps[name] = beat.gaps[first:]
            paces[name] = pace.now()
            beat.rest()
        pace.close()
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
    if _refused(seen):
        raise RuntimeError(_refused(seen))
    return any(isinstance(event, kind) for event in seen)


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {7: event_loop, 10: keys}
