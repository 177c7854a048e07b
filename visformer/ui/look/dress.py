"""How the parts of a window follow its palette and its font."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from PySide6.QtCore import QEvent
from PySide6.QtGui import QFont, QPalette, QShowEvent
from PySide6.QtWidgets import QWidget

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
        """Follow the look."""
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
