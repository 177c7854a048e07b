"""What keeps words that change from laying out anew all that stands around them.

Qt arranges every layout up to the window's whenever a label has another text, also
where that moves nothing.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QSplitter, QWidget


class Still(QWidget):
    """Gives a widget all of its room, and asks for other room only if it needs it."""

    def __init__(self, inside: QWidget) -> None:
        super().__init__()
        self._inside, self._known = inside, QSize()
        inside.setParent(self)

    def event(self, event: QEvent) -> bool:
        """Pass on that another size is needed; it is not where Qt only thinks so."""
        if event.type() == QEvent.Type.LayoutRequest:
            needed = self.sizeHint().boundedTo(self.maximumSize())
            needed = needed.expandedTo(self.minimumSize())
            if self.sizePolicy().horizontalPolicy() == QSizePolicy.Policy.Ignored:
                needed.setWidth(0)
            if needed != self._known:
                self._known = needed
                self.updateGeometry()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._inside.setGeometry(self.rect())

    def sizeHint(self) -> QSize:
        """Return what the widget inside asks for now."""
        return self._inside.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self._inside.minimumSizeHint()


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
