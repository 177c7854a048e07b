"""Presents every tab, page and stage on a screen with a window manager.

``python -m tests.window.managed_window`` starts the program and prints each place after
which its window has another size or place than before. It needs an X display with a
window manager.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QRect, QSettings, Qt
from PySide6.QtTest import QTest

from visformer.app import App
from visformer.engine.messages import Parameters
from visformer.pictures.computation.stages import STAGES
from visformer.ui.views import VIEWS
from visformer.ui.views.view import PagedView
from visformer.ui.window.window import MainWindow

# by name, zoom in percent, and of how many places one is presented: what a place needs
# moves the edges of a window that has its usual size, else only the manager does
SHOWN = (("showNormal", 100, 1), ("showMaximized", 150, 3), ("showFullScreen", 100, 3))
# without a second run, or a file of pairs, there is no picture
EMPTY = frozenset({("runs", "compare"), ("diagnosis", "heads")})
PATIENCE = 20_000  # milliseconds for what a window manager or the engine does
STEP, STILL = 10, 60  # between two looks; after which what has not moved stays
USUAL = 1000, 700  # of the window, in pixels
Look = tuple[Qt.WindowState, QRect]


def main() -> int:
    ini = str(Path(tempfile.mkdtemp()) / "window.ini")
    app = App(sys.argv, settings=QSettings(ini, QSettings.Format.IniFormat))
    window = app.window
    window.resize(*USUAL)
    window.show()
    app.start()
    opened = waited(lambda: window.session.state.opened is not None)
    said = [] if opened else ["The model is not opened."]
    for state, zoom, turns in SHOWN:
        getattr(window, state)()
        window.appearance.zoom_by(zoom - window.appearance.zoom)
        for at, place in enumerate(places(window)):
            fault = "" if at % turns else presented(window)
            if fault:
                said.append(f"{place}, {zoom} %, {state}: {fault}")
    print(*said, sep="\n")
    app.close()
    return min(len(said), 1)


def places(window: MainWindow) -> Iterator[str]:
    """Turn to every tab, page and stage, once what it shows is there."""
    session = window.session
    for tab in VIEWS:
        session.set(tab=tab.name)
        view = window.tabs.view(tab.name)
        for page in view._pages.names if isinstance(view, PagedView) else ():
            assert isinstance(view, PagedView)
            view.turn(page)
            waited(lambda: not session.state.busy)  # a search
            if (tab.name, page) not in EMPTY:
                yield f"{tab.name}, {page}"
        for stage in STAGES if tab.name == "computation" else ():
            session.set(stage=stage.name)
            waited(lambda: not session.state.awaiting.waits(Parameters))
            yield f"{tab.name}, {stage.name}"
        if not isinstance(view, PagedView) and tab.name != "computation":
            yield tab.name


def presented(window: MainWindow) -> str:
    """Present what is on screen and end it; say what is not as it was."""
    before = settled(window)
    QTest.keyClick(window, Qt.Key.Key_F5)
    if not waited(lambda: window.presentation.on and window.isFullScreen()):
        return "is not presented in full screen"
    screen, whole = window.screen().geometry(), settled(window)[1]
    QTest.keyClick(window, Qt.Key.Key_Escape)
    same = waited(lambda: (window.windowState(), window.geometry()) == before)
    if whole != screen:
        return f"fills {whole.getRect()} of {screen.getRect()}"
    after = settled(window)
    return "" if same and after == before else f"{before} becomes {after}"


def settled(window: MainWindow) -> Look:
    """Return how the window is, once the window manager is done with it."""
    look = None
    while look != (look := (window.windowState(), window.geometry())):
        QTest.qWait(STILL)
    return look


def waited(done: Callable[[], bool]) -> bool:
    """Tell whether this comes true while others work."""
    clock = QElapsedTimer()
    clock.start()
    while not done() and clock.elapsed() < PATIENCE:
        QTest.qWait(STEP)
    return done()


if __name__ == "__main__":
    sys.exit(main())
