"""The button in a picture's corner: on no control, on no word, in no image."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QCursor, QPainter, QPaintEvent
from PySide6.QtWidgets import QComboBox, QWidget
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.windows import Pair, answer, corner_button
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets.export import picture as image_of
from visformer.ui.window.large import LargePlace, can_be_large


def test_the_corner_button_lies_on_no_control(pair: Pair) -> None:
    window, engine = pair
    trace = make_trace(layers=3, heads=4)
    window.receive(opened_model(trace.model))
    window.translate("a b")
    answer(window, engine, trace)
    view = window.tabs.view("attention")
    assert isinstance(view, AttentionView)
    window.session.set(tab="attention")
    overview, orders = view.overview, view.overview.findChildren(QComboBox)[0]
    button = corner_button(overview)
    assert button is not None
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
    place = LargePlace(picture)
    qtbot.addWidget(place)
    place.resize(200, 120)
    place.show()
    yield picture
    place.close()


def rest_on(widget: QWidget) -> None:
    """Let the mouse rest on a widget, below its words."""
    QCursor.setPos(widget.mapToGlobal(widget.rect().center()))
    widget.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)


def test_the_corner_button_makes_way_for_words_that_come(
    qtbot: QtBot, written: Written
) -> None:
    button = corner_button(written)
    assert button is not None
    assert button.geometry().right() < 165
    rest_on(written)
    written.place = QRect(button.geometry())
    written.update()
    qtbot.waitUntil(lambda: not written.place.intersects(button.geometry()))
    assert button.isVisible()


def test_the_corner_button_goes_with_a_mouse_that_nobody_saw_leave(
    qtbot: QtBot, written: Written
) -> None:
    button = corner_button(written)
    assert button is not None
    rest_on(written)
    QCursor.setPos(written.mapToGlobal(QPoint(-40, -40)))
    written.update()
    qtbot.waitUntil(button.isHidden)


def test_an_image_of_a_picture_is_without_the_corner_button(written: Written) -> None:
    before = image_of(written)
    assert corner_button(written) is not None
    assert image_of(written) == before
