"""The sentence's tokens stand in its place, and give way where it is edited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QToolButton
from pytestqt.qtbot import QtBot

from tests.states import ran
from tests.traces import make_trace
from tests.window.parts import click, settle, unwrap, view_of
from tests.window.windows import Pair, answer, dress_hidden, translate
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.window.window import MainWindow

HIGHEST = 150  # pixels above the picture at 1280 x 800 and the usual size of text


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    window, engine = pair
    translate(window, engine, "a b c d e f", make_trace(source=6, target=5))
    window.tabs.setFocus()
    QApplication.processEvents()
    return window


def seen(window: MainWindow) -> tuple[bool, bool]:
    """Tell whether the line and the tokens are in sight."""
    return window.source.isVisible(), window.strips.source.isVisible()


def beside(window: MainWindow, qtbot: QtBot) -> None:
    row = window.strips.source.row
    at = QPoint(row.width() - 4, row.height() // 2)
    assert at.x() > row.boxes[-1].right()
    click(qtbot, row, at)


def twice(window: MainWindow, qtbot: QtBot) -> None:
    row = window.strips.source.row
    qtbot.mouseDClick(row, Qt.MouseButton.LeftButton, pos=row.boxes[1].center())


def pen(window: MainWindow, qtbot: QtBot) -> None:
    click(qtbot, window.source_box.edit)


def slash(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.keyClick(window.tabs, Qt.Key.Key_Slash)


@pytest.mark.parametrize("way", [beside, twice, pen, slash])
def test_the_tokens_give_way_to_the_line_and_come_back(
    window: MainWindow, qtbot: QtBot, way: Callable[[MainWindow, QtBot], None]
) -> None:
    assert seen(window) == (False, True)
    place = window.large.geometry()
    way(window, qtbot)
    QApplication.processEvents()
    assert seen(window) == (True, False)
    assert window.source.hasFocus()
    assert window.source.selectedText() == "a b c d e f"
    assert window.large.geometry() == place  # nothing moves
    window.tabs.setFocus()
    assert seen(window) == (False, True)


@pytest.mark.parametrize("editing", [False, True])
def test_tokens_are_whole_in_text_of_another_size(
    window: MainWindow, qtbot: QtBot, editing: bool
) -> None:
    """Before anything else is drawn; and the line takes their height beforehand."""
    if editing:
        slash(window, qtbot)
    for percent in (50, -70, 20):
        window.appearance.zoom_by(percent)
        dress_hidden()
        QApplication.processEvents()
        place = window.large.geometry()
        box, strip = window.source_box, window.strips.source
        assert box.height() >= strip.height() >= strip.row.sizeHint().height()
        if editing:
            window.tabs.setFocus()
            QApplication.processEvents()
            assert seen(window) == (False, True)
            assert window.large.geometry() == place  # nothing moves
            slash(window, qtbot)


def test_what_is_typed_and_not_yet_run_stays_in_sight(
    window: MainWindow, pair: Pair, qtbot: QtBot
) -> None:
    window.source.take_focus()
    qtbot.keyClicks(window.source, "g h")
    window.tabs.setFocus()
    assert seen(window) == (True, False)
    window.source.submit()
    assert seen(window) == (True, False)
    answer(*pair, make_trace(source=2, target=5))
    assert seen(window) == (False, True)


def test_ids_that_are_typed_give_way_to_their_tokens_too(
    window: MainWindow, pair: Pair
) -> None:
    window.translate("5 6 7")
    answer(*pair, make_trace(source=3, target=5))
    trace = unwrap(window.session.state.trace)
    window.session.set(**ran(replace(trace, source_text="")))
    assert seen(window) == (False, True)


def test_without_a_run_and_with_folded_tokens_there_is_the_line(
    pair: Pair, window: MainWindow
) -> None:
    window.appearance.show_tokens(False)
    assert seen(window) == (True, False)
    window.appearance.show_tokens(True)
    assert seen(window) == (False, True)
    window.session.set(**ran(None))
    assert seen(window) == (True, False)


def test_the_picture_begins_high(window: MainWindow) -> None:
    window.resize(1280, 800)
    QApplication.processEvents()
    panel = view_of(window, AttentionView).panels["cross"]
    assert panel.mapTo(window, QPoint()).y() < HIGHEST


def test_the_current_word_is_whole_between_the_buttons_at_the_ends(pair: Pair) -> None:
    window, engine = pair
    window.resize(900, 700)
    translate(window, engine, "a b c d e f", make_trace(source=6, target=60))
    strip = window.strips.target
    for step in (1, 20, 21, 40, 60):
        window.session.set(step=step)
        settle(3)
        chips = zip(strip.row.chips, strip.row.boxes, strict=True)
        (box,) = (box for chip, box in chips if chip.current)
        buttons = [b for b in strip.findChildren(QToolButton) if b.isVisible()]
        free = strip.rect()
        for button in buttons:
            place = button.geometry()
            if place.left() > strip.width() // 2:
                free.setRight(place.left())
            else:
                free.setLeft(place.right())
        place = QRect(strip.row.mapTo(strip, box.topLeft()), box.size())
        assert free.left() <= place.left() < place.right() <= free.right(), step
