"""What keeps words that change from laying out anew all that stands around them.

Qt arranges every layout up to the window's whenever a label has another text, also
where that moves nothing.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget


class Still(QWidget):
    """Gives a widget all of its room, and asks for the same room whatever it says."""

    def __init__(self, inside: QWidget) -> None:
        super().__init__()
        self._inside = inside
        inside.setParent(self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._inside.setGeometry(self.rect())

    def sizeHint(self) -> QSize:
        """Return what the widget inside asks for now."""
        return self._inside.sizeHint()


class StillSplitter(QSplitter):
    """Arranges its parts anew only where one needs another least size, or is hidden."""

    def event(self, event: QEvent) -> bool:
        """Leave out the requests that change nothing."""
        if event.type() == QEvent.Type.LayoutRequest:
            parts = self.findChildren(
                QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly
            )
            needs = [
                (part.isHidden(), part.minimumSizeHint(), part.minimumSize())
                for part in parts
            ]
            if needs == self.__dict__.get("_needs"):
                return True
            self._needs = needs
        return super().event(event)
