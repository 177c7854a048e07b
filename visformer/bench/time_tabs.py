"""From a key to the finished paint, on every tab, page and stage of the window.

The window is the real one with its engine and the bundled model, drawn without a screen
at 1280 x 800, on a sentence and a reference of about 64 tokens each.
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
    QObject,
    QPoint,
    QPointF,
    QSettings,
    Qt,
)
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from visformer.app import App
from visformer.bench.measurements import Measurement, at_pace, spread
from visformer.bench.windows import Pace, application, settle, wait_until
from visformer.engine.messages import Refused
from visformer.language import N_, _
from visformer.pictures.computation.stages import PAGES, STAGES
from visformer.pictures.selection import AttentionCell
from visformer.ui import views
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
def translated(folder: Path) -> Iterator[MainWindow]:
    """Show the real window on the sentence and its reference, all of it decoded."""
    application()
    ini = QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
    app = App([], settings=ini)
    refused: list[str] = []
    if app.bridge is not None:
        app.bridge.received.connect(
            lambda event: (
                refused.append(event.reason) if isinstance(event, Refused) else None
            )
        )
    window = app.window
    try:
        window.resize(1280, 800)
        window.show()
        app.start()
        wait_until(lambda: window.session.state.opened is not None)
        window.source.take(SOURCE)
        window.reference.take(REFERENCE)
        window.reference.submit()
        wait_until(lambda: bool(refused) or _decoded(window))
        if refused:
            raise RuntimeError(refused[0])
        yield window
    finally:
        app.close()


def _decoded(window: MainWindow) -> bool:
    state = window.session.state
    return state.trace is not None and not state.recorded and not state.busy


def keys() -> list[Measurement]:
    """Measure every tab and page."""
    with tempfile.TemporaryDirectory() as name, translated(Path(name)) as window:
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


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {10: keys}
