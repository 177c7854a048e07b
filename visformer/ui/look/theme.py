"""Colours, type and spacing, as ``visformer/ui/visual_language.md`` describes them.

Colours of the style sheet are the palette's and distances are in heights of a line
(em), so the sheet is put on once: another one would dress every widget anew, hidden
ones too. Only arrows are pictures of one colour; a window says by its property
``theme`` which ones it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from string import Template
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtCore import QEvent, QObject, Qt, QVariantAnimation
from PySide6.QtGui import QColor, QCursor, QFont, QFontMetrics, QPalette, QShowEvent
from PySide6.QtWidgets import QApplication, QToolTip, QWidget
from shiboken6 import isValid

from visformer import paths
from visformer.language import N_, tag
from visformer.pictures.colours import FED, Colours
from visformer.pictures.colours import HUES as HUES
from visformer.pictures.colours import THEMES as THEMES
from visformer.pictures.picture import AttentionRole
from visformer.program.ahead import later

NAMES = {"light": N_("Light"), "dark": N_("Dark"), "contrast": N_("High contrast")}
LEGIBLE = 4.5  # the least contrast of text and its ground
TITLE, CAPTION, WORD = 1.3, 0.85, 2.2  # sizes of type, relative to the body's
MIN_ZOOM, MAX_ZOOM = 60, 300  # percent
# properties of the application: the system's font
BASE_SIZE, BASE_FAMILY = "points of text at 100 %", "family"
# of Windows, macOS and Linux; without them signs may have the shapes of Japan. They
# come first: Chinese signs are cut off in lines as high as another font's letters
CHINESE = (
    *("Microsoft YaHei UI", "PingFang SC"),
    *("Noto Sans CJK SC", "WenQuanYi Micro Hei"),
)


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
        app.setProperty(BASE_FAMILY, app.font().family())
    widgets = app.allWidgets()
    for widget in widgets:
        if isinstance(widget, LateDress):
            widget.hold()
    font = QFont(app.font())
    font.setPointSizeF(app.property(BASE_SIZE) * zoom / 100)
    own = app.property(BASE_FAMILY)
    font.setFamilies([*CHINESE, own] if tag() == "zh-CN" else [own])
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


# Qt keeps pictures of controls by their palettes: a new one would add all of them again
@cache
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


def letter_width(metrics: QFontMetrics) -> int:
    """Return how wide a letter is on average.

    A Chinese font's own average is that of its characters, twice as wide as an "n".
    """
    return min(metrics.averageCharWidth(), metrics.horizontalAdvance("n"))


def gap(widget: QWidget, halves: int = 1) -> int:
    """Return a distance in pixels, counted in half ems of the widget's font."""
    return max(1, round(halves * widget.fontMetrics().height() * 0.35))


THEME = "theme"  # the property
SHAPES = "down", "up", "left", "right", "check"


def style_sheet(themes: Iterable[str]) -> str:
    """Return the sheet; windows that name no theme have the first one's arrows."""
    sheet = paths.resource("style.qss").read_text("utf-8")
    folder = paths.resource("arrows")
    arrows = Template((folder / "arrows.qss").read_text("utf-8"))
    for number, name in enumerate(themes):
        files = {shape: (folder / f"{name}-{shape}.svg").as_posix() for shape in SHAPES}
        sheet += arrows.substitute(files, of=f'[{THEME}="{name}"]' if number else "")
    return sheet


# ---- parts of a window that follow its look --------------------------------------


ALL_ROLES = (1 << 64) - 1  # of a palette, in all groups of colours
ALL_PROPERTIES = (1 << 31) - 1  # of a font
FONT = (QEvent.Type.FontChange,)
FONT_PALETTE = (*FONT, QEvent.Type.PaletteChange)
FONT_PALETTE_STYLE = (*FONT_PALETTE, QEvent.Type.StyleChange)

if TYPE_CHECKING:
    _Mixin = QWidget
else:
    _Mixin = object  # a second class of Qt's beside the widget's own would be refused


class Dressed(_Mixin):
    """A mixin: dresses a widget again when its look changes, once it is built."""

    dressed_at: ClassVar[tuple[QEvent.Type, ...]] = FONT
    _built = False

    def dress(self) -> None:
        """Dress for the first time; its constructor calls this once all parts exist."""
        self._built = True
        self._dress()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if self._built and event.type() in self.dressed_at:
            self._dress()

    def _dress(self) -> None:
        raise NotImplementedError


class LateDress(QWidget):
    """Takes up the palette and the font of its window when it is next shown.

    Laying out and drawing everything in it anew is wasted work while it is hidden.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held = False

    def hold(self) -> None:
        """Keep the look until it is shown, if it is hidden in a window that is seen."""
        if self.isVisible() or not self.window().isVisible():
            return
        palette, font = QPalette(self.palette()), QFont(self.font())
        palette.setResolveMask(ALL_ROLES)
        font.setResolveMask(ALL_PROPERTIES)
        self.setPalette(palette)
        self.setFont(font)
        self._held = True

    def showEvent(self, event: QShowEvent) -> None:
        """Take up what the window has by now."""
        super().showEvent(event)
        if self._held:
            self._held = False
            self.setPalette(QPalette())
            self.setFont(QFont())


def animation(
    parent: QObject, ms: int, show: Callable[[float], object], end: Callable[[], object]
) -> QVariantAnimation:
    """Return what calls ``show`` with 0 to 1 for a while once started, then ``end``."""
    made = QVariantAnimation(parent)
    made.setStartValue(0.0)
    made.setEndValue(1.0)
    made.setDuration(ms)
    made.valueChanged.connect(show)
    made.finished.connect(end)
    return made


STILL = "pictures stand still"  # a property of the application


def set_motion(wanted: bool) -> None:
    """Let pictures move after a step, or stand still."""
    app = QApplication.instance()
    if app is not None:
        app.setProperty(STILL, not wanted)


def has_motion() -> bool:
    """Tell whether pictures may move; they may unless it was switched off."""
    app = QApplication.instance()
    return app is not None and not app.property(STILL)


def is_over(widget: QWidget) -> bool:
    """Tell whether the mouse is over a widget.

    A widget that came to where the mouse rested, with another tab, is sent no Leave
    event and goes on saying so itself (Qt 6.11).
    """
    at = widget.mapFromGlobal(QCursor.pos())
    return widget.underMouse() and widget.rect().contains(at)
