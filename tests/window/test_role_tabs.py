"""Tabs whose titles have the hues of queries, keys and values."""

from __future__ import annotations

from PySide6.QtCore import QRect
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from visformer.pictures.picture import AttentionRole
from visformer.ui.look.theme import hue
from visformer.ui.views.computation.computation import RoleTabs


def nearest(bar: RoleTabs, area: QRect, colour: QColor) -> int:
    """Return how far the nearest pixel is from a colour, in steps of its parts."""
    image = bar.grab().toImage()
    pixels = (
        image.pixelColor(x, y)
        for x in range(area.left(), area.right())
        for y in range(area.top(), area.bottom())
    )
    return min(
        max(
            abs(pixel.red() - colour.red()),
            abs(pixel.green() - colour.green()),
            abs(pixel.blue() - colour.blue()),
        )
        for pixel in pixels
    )


def test_each_symbol_has_its_hue(qtbot: QtBot) -> None:
    bar = RoleTabs()
    qtbot.addWidget(bar)
    for title in ("input", "Q", "K", "V", "Q, K, V"):
        bar.addTab(title)
    bar.show()
    roles: tuple[AttentionRole, ...] = ("query", "key", "value")
    hues = [hue(bar.palette(), role) for role in roles]
    for at, own in enumerate(hues, 1):
        found = [nearest(bar, bar.tabRect(at), ink) for ink in hues]
        assert min(found) == nearest(bar, bar.tabRect(at), own) < 40
        assert nearest(bar, bar.tabRect(0), own) > 40
        assert nearest(bar, bar.tabRect(4), own) < 40
