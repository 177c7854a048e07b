"""Another theme, and another size of the text, reach every part of the window."""

from __future__ import annotations

from itertools import product

import pytest
from PySide6.QtCore import QPoint, QSize
from PySide6.QtGui import QColor, QIcon
from PySide6.QtWidgets import QApplication, QCheckBox, QFileDialog, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from tests.window.painted import painted
from tests.window.windows import Pair, themed, translate
from visformer.ui.bars.chip_painter import LATER
from visformer.ui.bars.strips import TokenStrip
from visformer.ui.look import theme
from visformer.ui.look.icons import SIDE, dress
from visformer.ui.widgets.plain_label import Hint
from visformer.ui.window.window import MainWindow

NORMAL, DISABLED = QIcon.Mode.Normal, QIcon.Mode.Disabled


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    window, engine = pair
    translate(window, engine, "a b")
    QApplication.processEvents()
    return window


def ink(icon: QIcon, mode: QIcon.Mode = NORMAL) -> str:
    """Return the colour in which an icon is painted where it is not transparent."""
    image = icon.pixmap(QSize(SIDE, SIDE), mode).toImage()
    points = [(x, y) for x in range(image.width()) for y in range(image.height())]
    solid = max(points, key=lambda point: image.pixelColor(*point).alpha())
    return image.pixelColor(*solid).name()


def test_icons_have_the_colour_of_every_theme(window: MainWindow) -> None:
    """A theme alone, without another size of the text, dresses them all."""
    own = window.header.go, window.header.more, window.header.present
    below = window.sentence.copy, window.drawer.button, window.candidates.others
    buttons = (*own, *below, *window.transport.findChildren(QToolButton))
    for name in ("dark", "light", "contrast", "light"):
        window.appearance.set_theme(name)
        QApplication.processEvents()
        look = theme.THEMES[name]
        for mode, colour in ((NORMAL, look.text), (DISABLED, look.off)):
            inks = {one.accessibleName(): ink(one.icon(), mode) for one in buttons}
            assert inks == dict.fromkeys(inks, colour)


def test_the_arrows_of_a_strip_grow_with_the_text(window: MainWindow) -> None:
    ends = [
        button
        for strip in window.findChildren(TokenStrip)
        for button in strip.findChildren(QToolButton)
    ]
    assert len(ends) >= 4
    for percent in (50, -50):
        window.appearance.zoom_by(percent)
        QApplication.processEvents()
        assert {end.iconSize().height() for end in ends} == {
            end.fontMetrics().height() for end in ends
        }


def test_the_status_bar_keeps_off_the_edges(window: MainWindow) -> None:
    colour = window.status.engine
    right = colour.mapTo(window, QPoint(colour.width(), 0)).x()
    assert theme.gap(window) <= window.width() - right <= 2 * theme.gap(window)


@pytest.mark.parametrize("name", theme.THEMES)
def test_tokens_fed_later_are_legible(name: str) -> None:
    palette = theme.palette(theme.THEMES[name])

    def faded(colour: QColor, ground: QColor) -> QColor:
        pairs = zip(colour.getRgb()[:3], ground.getRgb()[:3], strict=True)  # type: ignore[index]
        return QColor(*(round(LATER * a + (1 - LATER) * b) for a, b in pairs))

    ground = faded(palette.base().color(), palette.window().color())
    assert theme.contrast(faded(palette.text().color(), ground), ground) >= 4.5


def test_a_hint_is_whole_or_not_there(qtbot: QtBot) -> None:
    hint = Hint("keys: [ and ]")
    qtbot.addWidget(hint)
    hint.resize(hint.sizeHint())
    assert [word.text for word in painted(hint).words] == ["keys: [ and ]"]
    hint.resize(hint.width() - 2, hint.height())
    assert painted(hint).words == []


def test_the_drawer_covers_no_title(window: MainWindow) -> None:
    """A large picture, without titles above it, it may cover from its top."""
    window.drawer.button.click()
    QApplication.processEvents()
    bar, drawer = window.tabs.bar, window.drawer
    bottom = bar.mapTo(window, QPoint(0, bar.height())).y()
    assert bottom <= drawer.mapTo(window, QPoint()).y() <= bottom + bar.height()
    window.large.toggle_focused()
    QApplication.processEvents()
    assert (
        drawer.mapTo(window, QPoint()).y() == window.large.mapTo(window, QPoint()).y()
    )


@pytest.mark.parametrize("name", theme.THEMES)
def test_what_cannot_be_used_is_told_from_what_can(name: str, qtbot: QtBot) -> None:
    with themed(name):
        button = QToolButton()
        qtbot.addWidget(button)
        dress(button, "play")
        able, unable = (ink(button.icon(), mode) for mode in (NORMAL, DISABLED))
        window = button.palette().window().color()
    assert theme.contrast(QColor(able), QColor(unable)) >= 1.5
    assert theme.contrast(QColor(unable), window) >= 4.5


@pytest.mark.parametrize("name", theme.THEMES)
def test_the_arrows_of_a_dialog_for_files_are_seen(name: str, qtbot: QtBot) -> None:
    """Where no system's own dialog is there, it is Qt's, whose arrows are black."""
    parts = ("backButton", "forwardButton", "toParentButton")
    window = QWidget()
    qtbot.addWidget(window)
    with themed(name):
        dialog = QFileDialog(window)
        dialog.setOption(QFileDialog.Option.DontUseNativeDialog)
        inks = {
            button.objectName(): ink(button.icon())
            for button in dialog.findChildren(QToolButton)
            if button.objectName() in parts
        }
        ground = dialog.palette().window().color()
    assert len(inks) == len(parts)
    assert {
        part: colour
        for part, colour in inks.items()
        if theme.contrast(QColor(colour), ground) < 3
    } == {}


@pytest.mark.parametrize("name", theme.THEMES)
def test_a_box_to_tick_is_seen_and_whether_it_is_ticked(
    name: str, qtbot: QtBot
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    with themed(name):
        box = QCheckBox(window)
        empty = box.grab().toImage()
        box.setChecked(True)
        ticked = box.grab().toImage()
        ground, base = box.palette().window().color(), box.palette().base().color()
    middle = empty.height() // 2
    line = [empty.pixelColor(x, middle) for x in range(empty.width())]
    assert max(theme.contrast(colour, ground) for colour in line) >= 3  # its edge
    points = product(range(ticked.width()), range(ticked.height()))
    tick = [at for at in points if ticked.pixelColor(*at) != empty.pixelColor(*at)]
    assert max(theme.contrast(ticked.pixelColor(*at), base) for at in tick) >= 3
