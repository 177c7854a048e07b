"""What is drawn anew as a whole is painted in a turn of the event loop of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QAbstractEventDispatcher, QEvent, QEventLoop
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from tests.states import ran
from tests.traces import make_trace
from tests.window.seen import Seen
from visformer.ui.layout import paint_later
from visformer.ui.views.view import PagedView
from visformer.ui.window.window import MainWindow


@pytest.fixture
def label(qtbot: QtBot) -> Iterator[QLabel]:
    """Yield a label in a window that is painted."""
    window, label = QWidget(), QLabel("one")
    QVBoxLayout(window).addWidget(label)
    qtbot.addWidget(window)
    window.show()
    qtbot.waitExposed(window)
    QApplication.processEvents()
    yield label
    assert label.updatesEnabled()  # nothing stays as it was


def turns_until_painted(widget: QWidget) -> int:
    """Let the event loop turn until a widget may be painted; return how often."""
    dispatcher, turns = QAbstractEventDispatcher.instance(), 0
    while not widget.updatesEnabled():
        dispatcher.processEvents(QEventLoop.ProcessEventsFlag.AllEvents)
        turns += 1
        assert turns < 10
    return turns


def test_it_is_painted_once_what_was_posted_is_done(label: QLabel) -> None:
    seen = Seen(label.window(), QLabel)
    paint_later(label)
    label.setText("two")
    QApplication.sendPostedEvents()
    assert seen.most(QEvent.Type.Paint) == 0
    assert turns_until_painted(label) == 1
    QApplication.processEvents()
    assert seen.most(QEvent.Type.Paint) == 1


def test_it_waits_for_as_many_turns_as_it_is_told(label: QLabel) -> None:
    paint_later(label, 3)
    paint_later(label)  # it is waiting
    assert turns_until_painted(label) == 3
    paint_later(label)
    assert turns_until_painted(label) == 1


def test_a_part_of_what_waits_is_painted_with_it(label: QLabel) -> None:
    window = label.window()
    part, below = QWidget(window), QLabel("below")
    QVBoxLayout(part).addWidget(below)
    part.show()
    seen = Seen(window, QWidget)
    paint_later(part)
    paint_later(below, 3)
    assert turns_until_painted(below) == 3
    assert seen.most(QEvent.Type.Paint) == 0
    paint_later(part, 2)
    paint_later(below)  # it takes no turn less
    assert turns_until_painted(part) == 2


def test_what_is_hidden_or_waits_with_its_window_does_not_wait(label: QLabel) -> None:
    window = label.window()
    window.hide()
    paint_later(label)
    assert label.updatesEnabled()
    window.show()
    window.setUpdatesEnabled(False)
    paint_later(label)
    window.setUpdatesEnabled(True)
    assert label.updatesEnabled()


def test_another_tab_is_painted_later_and_a_step_at_once(window: MainWindow) -> None:
    window.session.set(**ran(make_trace(target=5)), step=2)
    window.tabs.view("masks")
    QApplication.processEvents()
    window.session.set(tab="masks")
    view = window.tabs.view("masks")
    assert isinstance(view, PagedView)
    assert view.isVisible()
    assert turns_until_painted(view) == 1
    window.session.set(step=3)
    assert view.updatesEnabled()
    view.turn("lab")
    assert turns_until_painted(view.main_picture() or view) == 1
