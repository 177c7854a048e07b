"""Any picture large, and back where it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QCursor, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QComboBox, QWidget
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.parts import click, put_up, unwrap, view_of
from tests.window.windows import Pair, corner_button, decoded, places, translate
from visformer.pictures.selection import AttentionCell
from visformer.ui.look.theme import gap
from visformer.ui.views import VIEWS
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets.export import picture as image_of
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.window.large import LargePlace, can_be_large
from visformer.ui.window.window import MainWindow


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    return decoded(pair)


LISTS = "runs", "diagnosis"  # whose first pages are no pictures


@pytest.mark.parametrize("tab", [v.name for v in VIEWS if v.name not in LISTS])
def test_every_picture_becomes_large_and_goes_back(
    window: MainWindow, tab: str
) -> None:
    window.session.set(tab=tab)
    window.large.toggle_focused()
    window.large.restore()  # what was never shown before is measured now
    before = places(window)
    assert before
    for picture in before:
        small = picture.size()
        window.large.enlarge(picture)
        QApplication.processEvents()
        assert window.large.picture is picture
        assert not window.tabs.isVisible()
        assert picture.width() == window.large.width() - 2 * gap(window.large)
        # one that fills the window has a margin now
        assert picture.width() >= small.width() - 2 * gap(window.large)
        high = window.large.height() * 9 // 10  # the rest is a sentence
        least = min(picture.maximumHeight(), high)  # few rows
        assert picture.height() >= least
        window.session.set(step=2)
        window.session.set(step=3)
        window.large.restore()
        assert places(window) == before


def test_a_move_begins_no_other_one(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drawn meanwhile spreads the font, and may want another picture."""
    large, before, moves = window.large, places(window), []
    large.toggle_focused()
    put_back = large._put_back

    def drawn_meanwhile() -> None:
        moves.append(large.picture)
        if len(moves) == 1:
            large.spread_font()
            large.restore()
        put_back()

    monkeypatch.setattr(large, "_put_back", drawn_meanwhile)
    large.restore()
    assert len(moves) == 1
    QApplication.processEvents()
    assert places(window) == before


def test_double_click_key_and_escape(window: MainWindow, qtbot: QtBot) -> None:
    panel = view_of(window, AttentionView).panels["cross"]
    canvas = panel.heat_map.canvas
    window.session.set(locked=AttentionCell("cross", 1, 1))
    qtbot.mouseDClick(canvas, Qt.MouseButton.LeftButton)
    assert window.large.picture is panel
    qtbot.keyClick(canvas, Qt.Key.Key_Escape)
    assert window.large.picture is None
    assert window.session.state.locked is not None  # one thing at a time
    qtbot.keyClick(window.tabs, Qt.Key.Key_Escape)
    assert window.session.state.locked is None
    panel.heat_map.setFocus()
    qtbot.keyClick(panel.heat_map, Qt.Key.Key_F)
    assert window.large.picture is panel
    window.session.set(step=4)  # the transport goes on
    qtbot.keyClick(panel.heat_map, Qt.Key.Key_F)
    assert window.large.picture is None
    window.source.setFocus()
    qtbot.keyClick(window.source, Qt.Key.Key_F)  # is typed
    assert window.large.picture is None


@pytest.mark.parametrize("locked", [None, AttentionCell("cross", 2, 3)])
def test_two_clicks_lock_nothing(
    window: MainWindow, qtbot: QtBot, locked: AttentionCell | None
) -> None:
    canvas = view_of(window, AttentionView).maps["cross"].canvas
    window.session.set(kind="cross", locked=locked)
    for _time in range(2):
        at = canvas.box(1, 1).center()
        click(qtbot, canvas, at)
        assert window.session.state.locked == AttentionCell("cross", 1, 1)
        qtbot.mouseDClick(canvas, Qt.MouseButton.LeftButton, pos=at)
        assert window.session.state.locked == locked
    assert window.large.picture is None  # large, and back again


def test_what_was_pressed_first_becomes_large(window: MainWindow, qtbot: QtBot) -> None:
    view = view_of(window, AttentionView)
    window.session.set(kind="cross")
    small, large = view.panels["encoder"], view.panels["cross"]
    left = Qt.MouseButton.LeftButton
    click(qtbot, small.heat_map.canvas)  # they change places
    qtbot.mouseDClick(large.heat_map.canvas, left)
    assert window.large.picture is small
    assert window.session.state.kind == "encoder"


def test_two_clicks_on_a_next_token_choose_it_and_make_nothing_large(
    window: MainWindow, qtbot: QtBot
) -> None:
    table = window.candidates.table
    qtbot.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton)
    assert window.large.picture is None
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_F)
    assert window.large.picture is table


def test_another_tab_puts_it_back(window: MainWindow, qtbot: QtBot) -> None:
    window.session.set(tab="computation")
    table = next(t for t in window.tabs.findChildren(NumberTable) if t.isVisible())
    qtbot.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton)
    assert window.large.picture is not None
    window.session.set(tab="masks")
    assert window.large.picture is None
    assert window.tabs.isVisible()


# ---- the button in a picture's corner ---------------------------------------------


def test_the_corner_button_lies_on_no_control(pair: Pair) -> None:
    window, engine = pair
    trace = make_trace(layers=3, heads=4)
    window.receive(opened_model(trace.model))
    translate(window, engine, "a b", trace)
    view = view_of(window, AttentionView)
    window.session.set(tab="attention")
    overview, orders = view.overview, view.overview.findChildren(QComboBox)[0]
    button = unwrap(corner_button(overview))
    place = QRect(orders.mapTo(overview, QPoint()), orders.size())
    assert not place.intersects(button.geometry())


class Written(QWidget):
    """A picture with words at some place."""

    place = QRect(160, 0, 40, 30)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).drawText(self.place, Qt.AlignmentFlag.AlignCenter, "mmm")


@pytest.fixture
def written(qtbot: QtBot) -> Iterator[Written]:
    """Show a picture that can be large."""
    picture = Written()
    can_be_large(picture)
    place = put_up(qtbot, LargePlace(picture), 200, 120)
    yield picture
    place.close()


def rest_on(widget: QWidget) -> None:
    """Let the mouse rest on a widget, below its words."""
    QCursor.setPos(widget.mapToGlobal(widget.rect().center()))
    widget.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)


def test_the_corner_button_makes_way_for_words_that_come(
    qtbot: QtBot, written: Written
) -> None:
    button = unwrap(corner_button(written))
    assert button.geometry().right() < 165
    rest_on(written)
    written.place = QRect(button.geometry())
    written.update()
    qtbot.waitUntil(lambda: not written.place.intersects(button.geometry()))
    assert button.isVisible()


def test_the_corner_button_goes_with_a_mouse_that_nobody_saw_leave(
    qtbot: QtBot, written: Written
) -> None:
    button = unwrap(corner_button(written))
    rest_on(written)
    QCursor.setPos(written.mapToGlobal(QPoint(-40, -40)))
    written.update()
    qtbot.waitUntil(button.isHidden)


def test_an_image_of_a_picture_is_without_the_corner_button(written: Written) -> None:
    before = image_of(written)
    assert corner_button(written) is not None
    assert image_of(written) == before
