"""The page of keys."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QShortcut
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.window.test_zoom import faults, sideways
from tests.window.windows import Pair
from visformer.ui.layout import LeastSize
from visformer.ui.window.keys_page import KeyCap, KeysPage
from visformer.ui.window.window import MainWindow

Keys = Qt.Key
HELP = {"?"}  # not listed: what shows the page


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    window, _engine = pair
    window.tabs.view("attention")
    return window


def page_of(window: MainWindow, qtbot: QtBot) -> KeysPage:
    qtbot.keyClick(window, Keys.Key_F1)
    QApplication.processEvents()
    page = window.findChildren(KeysPage)[-1]
    assert page.isVisible()
    return page


def test_every_key_that_is_bound_is_listed(window: MainWindow, qtbot: QtBot) -> None:
    page = page_of(window, qtbot)
    listed = {cap.text() for cap in page.findChildren(KeyCap)}
    bound = {key.key().toString() for key in window.findChildren(QShortcut)}
    single = {key for key in bound if "+" not in key} - HELP
    assert len(single) > 15
    assert single <= listed, single - listed
    page.close()


@pytest.mark.parametrize("zoom", [100, 150])
def test_it_is_whole_on_a_small_screen(
    zoom: int, window: MainWindow, qtbot: QtBot
) -> None:
    if zoom != 100:
        window.appearance.zoom_by(zoom - 100)
    page = page_of(window, qtbot)
    assert not [*faults(page), *sideways(page)]
    bars = [area.verticalScrollBar() for area in page.findChildren(LeastSize)]
    assert [bar.isVisible() for bar in bars] == [False]
    assert page.height() <= window.height()
    window.appearance.zoom_by(0)
    qtbot.keyClick(page, Keys.Key_Escape)
    assert not page.isVisible()
