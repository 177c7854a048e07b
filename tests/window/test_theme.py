"""Colours of the visual language: legible, and told apart."""

from __future__ import annotations

from itertools import combinations

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from tests.window.windows import themed
from visformer.program.ahead import later
from visformer.ui.bars import chip_painter
from visformer.ui.bars.chip_painter import tinted
from visformer.ui.look import theme
from visformer.ui.look.theme import LateDress


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
def test_tokens_are_legible_whatever_their_weight(name: str) -> None:
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


def test_the_style_sheet_is_put_on_once(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one, or another style, dresses all widgets anew, hidden ones too."""
    theme.apply_theme(qapp, "light")
    monkeypatch.setattr(QApplication, "setStyle", None)
    monkeypatch.setattr(QApplication, "setStyleSheet", None)
    for name, zoom in (("dark", 100), ("dark", 150), ("light", 100)):
        theme.apply_theme(qapp, name, zoom)
    assert qapp.styleSheet()


def test_a_theme_that_returns_has_the_palette_that_it_had(qapp: QApplication) -> None:
    """Qt keeps the pictures that it paints of controls by the keys of palettes."""
    keys = []
    for _turn in range(3):
        for name in theme.THEMES:
            theme.apply_theme(qapp, name)
            keys.append(qapp.palette().cacheKey())
    theme.apply_theme(qapp, "light")
    assert len(set(keys)) == len(theme.THEMES)


def test_a_sheet_follows_colours_and_size_of_the_text(
    qapp: QApplication, qtbot: QtBot
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    shown, hidden = (_row(window) for _ in range(2))
    hidden.hide()
    window.show()
    theme.apply_theme(qapp, "light")
    margins = {}
    for zoom in (100, 200):
        theme.apply_theme(qapp, "contrast", zoom)
        qapp.processEvents()
        hidden.sizeHint()  # its layout keeps it until it is told of another
        qtbot.waitUntil(lambda: later(qapp).idle)
        assert hidden.sizeHint() == shown.sizeHint()
        margins[zoom] = shown.sizeHint().height() - shown.fontMetrics().height()
    assert margins[200] >= margins[100] + 2
    for part in (shown, hidden):
        part.resize(90, 60)
        ground = part.grab().toImage().pixelColor(60, 30)
        assert ground == QColor(theme.THEMES["contrast"].base)


def _row(window: QWidget) -> QWidget:
    """Return a field in a layout, which keeps the size that it once had."""
    row = QWidget(window)
    QVBoxLayout(row).addWidget(QLineEdit("M"))
    return row


def test_arrows_have_the_colour_of_the_theme(qapp: QApplication, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    box = QComboBox(window)
    box.resize(160, 60)
    window.show()
    darkest, lightest = {}, {}
    for name in theme.THEMES:
        theme.apply_theme(qapp, name, 300)
        qapp.processEvents()
        image = box.grab().toImage()
        colours = [
            luminance(image.pixelColor(x, y))
            for x in range(120, 155)
            for y in range(10, 50)
        ]
        darkest[name], lightest[name] = min(colours), max(colours)
    theme.apply_theme(qapp, "light")
    for name, parts in theme.THEMES.items():
        ground = luminance(QColor(parts.base))
        far = darkest[name] if name == "light" else lightest[name]
        assert (max(far, ground) + 0.05) / (min(far, ground) + 0.05) >= 4.5


def test_what_is_hidden_takes_up_a_look_when_it_is_shown(
    qapp: QApplication, qtbot: QtBot
) -> None:
    theme.apply_theme(qapp, "light")
    window = QWidget()
    qtbot.addWidget(window)
    part = _Part()
    part.setParent(window)
    window.show()
    assert part.seen == []
    theme.apply_theme(qapp, "dark", 150)
    qapp.processEvents()
    assert part.seen == []
    part.show()
    ground = part.label.palette().color(QPalette.ColorRole.Window).name()
    assert ground == theme.THEMES["dark"].window
    assert part.label.font().pointSizeF() == pytest.approx(qapp.font().pointSizeF())
    assert set(part.seen) == {QEvent.Type.PaletteChange, QEvent.Type.FontChange}
    theme.apply_theme(qapp, "light")  # at once: it is seen now
    qapp.processEvents()
    ground = part.label.palette().color(QPalette.ColorRole.Window).name()
    assert ground == theme.THEMES["light"].window


class _Part(LateDress):
    """A hidden part of a window; ``seen`` are its label's changes of look."""

    def __init__(self) -> None:
        super().__init__()
        self.hide()
        self.seen: list[QEvent.Type] = []
        self.label = QLabel(self)
        self.label.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self.seen.append(event.type())
        return False
