"""Parts of a window that take up a new look only when they are shown."""

from __future__ import annotations

from PySide6.QtGui import QFont, QPalette, QShowEvent
from PySide6.QtWidgets import QWidget

ALL_ROLES = (1 << 64) - 1  # of a palette, in all groups of colours
ALL_PROPERTIES = (1 << 31) - 1  # of a font


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
