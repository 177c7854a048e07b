"""Colours, type and spacing, as ``visual_language.md`` describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QFont, QPalette
from PySide6.QtWidgets import QApplication, QToolTip, QWidget
from shiboken6 import isValid

from visformer.language import N_
from visformer.pictures.picture import AttentionRole
from visformer.ui.ahead import later
from visformer.ui.late_dress import LateDress
from visformer.ui.style_sheet import THEME, style_sheet


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of one theme, as #rrggbb; text on ground is at least 4.5 : 1."""

    window: str
    base: str
    raised: str
    text: str
    faint: str
    off: str  # of what cannot be used now
    accent: str
    on_accent: str
    line: str


THEMES: dict[str, Colours] = {
    "light": Colours(
        window="#f4f5f7",
        base="#ffffff",
        raised="#e9ebef",
        text="#1a1d23",
        faint="#5a616d",
        off="#5a616d",
        accent="#0b62c4",
        on_accent="#ffffff",
        line="#c3c8d1",
    ),
    "dark": Colours(
        window="#1d2026",
        base="#14161a",
        raised="#2a2e36",
        text="#e8eaee",
        faint="#a3abb8",
        off="#a3abb8",
        accent="#5aa9ff",
        on_accent="#0b0d10",
        line="#434955",
    ),
    "contrast": Colours(
        window="#000000",
        base="#121212",
        raised="#262626",
        text="#ffffff",
        faint="#ffffff",
        off="#a0a0a0",
        accent="#ffd500",
        on_accent="#000000",
        line="#ffffff",
    ),
}
NAMES = {
    "light": N_("Light"),
    "dark": N_("Dark"),
    "contrast": N_("High contrast"),
}
# One hue per role, on light and on dark grounds: reddish purple, vermilion and bluish
# green of Okabe and Ito (Color Universal Design, 2008), shifted to 4.5 : 1 as text.
HUES: dict[AttentionRole, tuple[str, str]] = {
    "query": ("#9c3377", "#e79ac6"),
    "key": ("#b04600", "#ff9d5c"),
    "value": ("#00704e", "#3fd3a5"),
}
# A token that was forced or fed, and the loss of one: on light and on dark grounds.
FED = ("#8a6200", "#f0c05a")
LEGIBLE = 4.5  # the least contrast of text and its ground
TITLE, CAPTION, WORD = 1.3, 0.85, 2.2  # sizes of type, relative to the body's
MIN_ZOOM, MAX_ZOOM = 60, 300  # percent
BASE_SIZE = "points of text at 100 %"  # a property of the application


def contrast(one: QColor, other: QColor) -> float:
    """Return the contrast of WCAG 2 of two colours, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: QColor) -> float:
    parts = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in (colour.redF(), colour.greenF(), colour.blueF())
    )
    red, green, blue = parts
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def apply_theme(app: QApplication, name: str, zoom: int = 100) -> None:
    """Give every window the theme ``name`` and text at ``zoom`` percent.

    What is hidden takes them up later: in the next turns of the event loop, or when it
    is shown.
    """
    # fonts and palettes go from parents to children, as without a style sheet
    app.setAttribute(Qt.ApplicationAttribute.AA_UseStyleSheetPropagationInWidgetStyles)
    if app.property(BASE_SIZE) is None:  # style and font are still the system's
        app.setStyle("Fusion")
        app.setProperty(BASE_SIZE, app.font().pointSizeF())
    widgets = app.allWidgets()
    for widget in widgets:
        if isinstance(widget, LateDress):
            widget.hold()
    font = QFont(app.font())
    font.setPointSizeF(app.property(BASE_SIZE) * zoom / 100)
    app.setPalette(palette(THEMES[name]))
    app.setFont(font)
    for window in app.topLevelWidgets():
        window.setProperty(THEME, name)
    if app.styleSheet():
        _polish(app, widgets)
    else:
        app.setStyleSheet(style_sheet(THEMES))
    QToolTip.setPalette(app.palette())


def _polish(app: QApplication, widgets: Iterable[QWidget]) -> None:
    """Read the style sheet anew: now for what is seen, then for the rest."""
    style, hidden = app.style(), []
    for widget in widgets:
        if widget.isVisible():
            style.polish(widget)
        else:
            hidden.append(widget)

    def polish_hidden() -> Iterator[QWidget]:
        for widget in hidden:
            if isValid(widget):  # its font has changed already, but not its margins
                style.polish(widget)
                app.sendEvent(widget, QEvent(QEvent.Type.StyleChange))
            yield widget

    later(app).add("style", polish_hidden())


def palette(colours: Colours) -> QPalette:
    """Return the Qt palette of a theme."""
    result = QPalette()
    role = QPalette.ColorRole
    for key, value in {
        role.Window: colours.window,
        role.WindowText: colours.text,
        role.Base: colours.base,
        role.AlternateBase: colours.raised,
        role.Text: colours.text,
        role.Button: colours.raised,
        role.ButtonText: colours.text,
        role.ToolTipBase: colours.raised,
        role.ToolTipText: colours.text,
        role.PlaceholderText: colours.faint,
        role.BrightText: colours.accent,
        role.Highlight: colours.accent,
        role.HighlightedText: colours.on_accent,
        role.Link: colours.accent,
        role.LinkVisited: colours.off,  # a style sheet has no other name for it
        role.Light: colours.raised,
        # what is held down; text and icons stay legible where lines have their colour
        role.Midlight: colours.raised if colours.line == colours.text else colours.line,
        role.Mid: colours.line,
        role.Dark: colours.line,
        role.Shadow: colours.line,
        role.Accent: colours.accent,
    }.items():
        result.setColor(key, QColor(value))
    for key in (role.WindowText, role.Text, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, key, QColor(colours.off))
    return result


def hue(palette: QPalette, role: AttentionRole) -> QColor:
    """Return the colour of a role's words and axes; that of text if there is none."""
    if not role:
        return palette.color(QPalette.ColorRole.WindowText)
    return QColor(HUES[role][_is_dark(palette)])


def fed_colour(palette: QPalette) -> QColor:
    """Return the colour of tokens that the user forced or a reference fed."""
    return QColor(FED[_is_dark(palette)])


def loss_colour(palette: QPalette, share: float) -> QColor:
    """Return the colour of a loss: ``share`` in [0, 1] of the largest in the legend."""
    low, high = palette.color(QPalette.ColorRole.Base), fed_colour(palette)
    ends = zip(low.getRgb()[:3], high.getRgb()[:3], strict=True)  # type: ignore[index]
    return QColor(*(round(a + (b - a) * share) for a, b in ends))


def _is_dark(palette: QPalette) -> bool:
    return palette.color(QPalette.ColorRole.Window).lightness() < 128


def sized(font: QFont, size: float, *, bold: bool = False) -> QFont:
    """Return ``font`` at ``size`` times the body's; a title is semi-bold."""
    result = QFont(font)
    if font.pixelSize() > 0:  # it was set so
        result.setPixelSize(round(font.pixelSize() * size))
    else:
        result.setPointSizeF(font.pointSizeF() * size)
    if bold:
        result.setWeight(QFont.Weight.DemiBold)
    return result


def gap(widget: QWidget, halves: int = 1) -> int:
    """Return a distance in pixels, counted in half ems of the widget's font."""
    return max(1, round(halves * widget.fontMetrics().height() * 0.35))
