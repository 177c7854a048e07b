"""The card of the first start."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from tests.ui.windows import Pair, answer
from visformer.ui.bars.first_steps import FirstSteps, show_first_steps


@pytest.mark.parametrize("way", ["button", "key"])
def test_the_card_is_shown_once(way: str, pair: Pair, qtbot: QtBot) -> None:
    window, _engine = pair
    tabs = window.tabs.geometry()
    card = show_first_steps(window)
    assert card is not None
    assert card.isVisible()
    assert window.tabs.geometry() == tabs  # it pushes nothing
    assert window.rect().contains(card.geometry())
    if way == "button":
        qtbot.mouseClick(card.done, Qt.MouseButton.LeftButton)
    else:
        qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert not card.isVisible()
    assert show_first_steps(window) is None


def whole(card: FirstSteps) -> bool:
    labels = card.findChildren(QLabel)
    return all(
        label.height() >= label.heightForWidth(label.width()) for label in labels
    )


def test_the_card_hides_nothing_where_there_is_room(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    window.translate("one two")
    answer(window, engine)
    card = show_first_steps(window)
    assert card is not None
    panel = window.candidates
    room = panel.free_room().translated(panel.mapTo(window, QPoint()))
    qtbot.waitUntil(lambda: room.contains(card.geometry()))
    qtbot.waitUntil(lambda: whole(card))


@pytest.mark.parametrize("why", ["folded", "large text"])
def test_without_that_room_it_lies_along_the_lower_edge(
    why: str, pair: Pair, qtbot: QtBot
) -> None:
    window, engine = pair
    window.translate("one two")
    answer(window, engine)
    card = show_first_steps(window)
    assert card is not None
    if why == "folded":
        window.side.show(False)
    else:
        window.appearance.zoom_by(100)
    for _ in range(3):  # the font, then what it moves, then the card
        QApplication.processEvents()
    assert card.width() > 0.9 * window.width()
    assert window.rect().contains(card.geometry())
    assert card.geometry().bottom() < window.status.y()
    qtbot.waitUntil(lambda: whole(card))
    settled = card.geometry()
    QApplication.processEvents()  # it has come to rest
    assert card.geometry() == settled
    window.appearance.zoom_by(0)


@pytest.mark.parametrize("size", [(1280, 800), (1280, 600), (900, 700), (1900, 1000)])
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("model", [False, True])
def test_the_card_lies_over_no_message(
    size: tuple[int, int], long: bool, model: bool, pair: Pair, qtbot: QtBot
) -> None:
    """At the first start with a broken file, the reason is all there is to read."""
    window, engine = pair
    window.resize(*size)
    if model:
        window.translate("one two")
        answer(window, engine)
    card = show_first_steps(window)
    assert card is not None
    words = "broken.pt cannot be read: it is cut off. Copy it again."
    window.session.set(error=words * (8 if long else 1))
    for _turn in range(4):
        QApplication.processEvents()
    messages = window.messages
    assert messages.isVisible()
    place = QRect(messages.mapTo(window, QPoint()), messages.size())
    assert not card.geometry().intersects(place)
    assert window.rect().contains(card.geometry())
    qtbot.waitUntil(lambda: whole(card))
    window.session.set(error="")
    QApplication.processEvents()
    assert not messages.isVisible()


def test_an_audience_does_not_see_the_card(
    pair: Pair, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, engine = pair
    monkeypatch.setattr(window, "showFullScreen", lambda: None)  # it is as large
    window.translate("one two")
    answer(window, engine)
    card = show_first_steps(window)
    assert card is not None
    window.presentation.begin()
    assert not card.isVisible()
    for _turn in range(3):  # whatever moves meanwhile
        QApplication.processEvents()
    assert not card.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert not window.presentation.on
    assert card.isVisible()
