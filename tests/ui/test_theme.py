"""Colours of the visual language: legible, and told apart."""

from __future__ import annotations

from itertools import combinations

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QToolButton
from pytestqt.qtbot import QtBot

from tests.ui.windows import themed
from visformer.ui import theme
from visformer.ui.bars import chip_painter
from visformer.ui.bars.chip_painter import tinted


def luminance(colour: QColor) -> float:
    """Return the relative luminance of WCAG 2."""
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in (colour.redF(), colour.greenF(), colour.blueF())
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: QColor, other: QColor) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", theme.THEMES)
def test_words_in_the_hue_of_a_role_are_legible_on_every_ground(name: str) -> None:
    palette = theme.palette(theme.THEMES[name])
    grounds = QPalette.ColorRole.Window, QPalette.ColorRole.Base
    for role in theme.HUES:
        for ground in grounds:
            colours = theme.hue(palette, role), palette.color(ground)
            assert contrast(*colours) >= 4.5


@pytest.mark.parametrize("name", theme.THEMES)
def test_the_roles_and_the_selection_are_told_apart(name: str) -> None:
    palette = theme.palette(theme.THEMES[name])
    colours = [theme.hue(palette, role) for role in ("", *theme.HUES)]
    colours.append(palette.color(QPalette.ColorRole.Highlight))
    for one, other in combinations(colours, 2):
        parts = QColor.red, QColor.green, QColor.blue
        assert sum(abs(part(one) - part(other)) for part in parts) >= 80


@pytest.mark.parametrize("name", theme.THEMES)
def test_tokens_are_legible_whatever_their_weight(name: str, qtbot: QtBot) -> None:
    palette = theme.palette(theme.THEMES[name])
    ends = palette.base().color().rgb(), palette.highlight().color().rgb()
    for shade in (None, *range(chip_painter.TINTS + 1)):
        ground, ink = tinted(*ends, palette.text().color().rgb(), shade)
        assert contrast(ground, ink) >= 4.5


@pytest.mark.parametrize("name", theme.THEMES)
def test_the_words_on_a_button_that_is_on_are_legible(name: str, qtbot: QtBot) -> None:
    button = QToolButton()
    qtbot.addWidget(button)
    button.setText("MMMM")
    button.setCheckable(True)
    button.setChecked(True)
    with themed(name):
        button.resize(button.sizeHint())
        image = button.grab().toImage()
    inside = [
        image.pixelColor(x, y)
        for x in range(4, image.width() - 4)
        for y in range(4, image.height() - 4)
    ]
    darkest, lightest = min(inside, key=luminance), max(inside, key=luminance)
    assert contrast(darkest, lightest) >= 4.5


def test_all_is_dressed_as_seldom_as_can_be(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another style dresses everything anew, and so does one sheet after another."""
    theme.apply_theme(qapp, "light")
    styles: list[object] = []
    sheets: list[str] = []
    put_on = QApplication.setStyleSheet

    def recorded(app: QApplication, sheet: str) -> None:
        sheets.append(sheet)
        put_on(app, sheet)

    monkeypatch.setattr(QApplication, "setStyle", lambda *given: styles.append(given))
    monkeypatch.setattr(QApplication, "setStyleSheet", recorded)
    for name in ("dark", "dark", "light"):
        theme.apply_theme(qapp, name)
    assert styles == []
    assert len(sheets) == 4
    assert [bool(sheet) for sheet in sheets] == [False, True, False, True]
