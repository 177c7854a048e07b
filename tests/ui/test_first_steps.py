"""The card of the first start."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from tests.ui.windows import Pair
from visformer.ui.bars.first_steps import show_first_steps


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


def test_the_card_follows_the_window(pair: Pair, qtbot: QtBot) -> None:
    window, _engine = pair
    card = show_first_steps(window)
    assert card is not None
    window.resize(1000, 700)
    qtbot.waitUntil(lambda: window.width() == 1000)
    assert abs(card.geometry().center().x() - 500) < 3
    assert window.rect().contains(card.geometry())
    window.setFont(card.font())
