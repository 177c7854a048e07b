"""A window on a fake engine; every window test leaves nothing behind."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QSettings
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.pseudo import Unmarked, spoken
from tests.tiny_models import tiny_checkpoint
from tests.window.pseudo_reader import Reader
from tests.window.window_thread import touched, watch_widgets
from tests.window.windows import Opened, Pair, make_window, translate
from visformer import language
from visformer.app import App
from visformer.ui.look.theme import apply_theme, set_motion
from visformer.ui.widgets.plain_label import show_raw
from visformer.ui.window.window import MainWindow

FAR = QPoint(9_000, 9_000)  # from every window


@pytest.fixture(scope="module", autouse=True)
def collected_in_between() -> None:
    """Leave what is there already out of collections, which makes them fast."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def widgets_watched() -> None:
    """Note who touches a widget on another thread than the window's."""
    watch_widgets()


@pytest.fixture(autouse=True)
def only_the_window_touches_widgets() -> Iterator[None]:
    """Fail a test in which another thread touched a widget."""
    touched.clear()
    yield
    assert touched == []


@pytest.fixture(autouse=True)
def mouse_elsewhere(qapp: QApplication) -> None:
    """Begin with the mouse on no window: a map says the value that is under it."""
    QCursor.setPos(FAR)


@pytest.fixture(autouse=True)
def usual_look(qapp: QApplication) -> Iterator[None]:
    """Give colours, size of the text, motion, pieces and language back after a test."""
    before = qapp.font().pointSizeF(), qapp.palette()
    yield
    set_motion(wanted=True)
    show_raw(raw=False)
    if language.tag() != "en":
        language.use()
    if (qapp.font().pointSizeF(), qapp.palette()) != before:
        apply_theme(qapp, "light")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fail a test after which a window, a thread or a process is still there.

    Garbage is collected between tests only, as the program does it between events: in
    the middle of a destructor, where Qt holds a lock, a window in the garbage would
    wait for that lock for ever.
    """
    gc.collect()
    gc.disable()
    before = {*threading.enumerate()}  # one of another library may end meanwhile
    yield
    assert multiprocessing.active_children() == []
    assert {*threading.enumerate()} <= before
    if QApplication.instance() is not None:
        assert [w for w in QApplication.topLevelWidgets() if w.isVisible()] == []
        # a test's windows go now: dressing all that were ever made takes ever longer
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


@pytest.fixture
def pair(qtbot: QtBot, tmp_path: Path) -> Pair:
    return make_window(qtbot, tmp_path)


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def app(qtbot: QtBot, settings: QSettings) -> Iterator[App]:
    """Run the program; ``nothing_left`` sees to it that it cleans up."""
    app = App([], settings=settings)
    app.window.show()
    yield app
    app.close()
    gc.disable()  # again: see ``nothing_left``
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


@pytest.fixture
def opened(pair: Pair) -> Opened:
    """Return a window on a sentence that is translated."""
    return *pair, translate(*pair, "one two")


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    """Return a window whose engine is asked nothing of interest."""
    return pair[0]


@pytest.fixture
def missing() -> Iterator[Unmarked]:
    """Speak the pseudo-language; gives the sentences that no template is of."""
    with spoken() as unmarked:
        yield unmarked


@pytest.fixture
def reader(missing: Unmarked, qtbot: QtBot, tmp_path: Path) -> Reader:
    """Return a window in the pseudo-language."""
    model = {"norm_first": True, "final_norm": True, "output_bias": True}
    return Reader(*make_window(qtbot, tmp_path), tiny_checkpoint(**model))


@pytest.fixture
def running(reader: Reader) -> Reader:
    """Return one at step 3 of a sentence, with a cell locked."""
    reader.run()
    return reader
