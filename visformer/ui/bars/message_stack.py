"""What there is to say: beside the pictures, or below them, never over them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRect, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from visformer.ui import theme

LEAST_WIDTH, MOST = 10, 16  # of what stands aside, and its height, in lines of text
SHARE = 0.5  # of the height, that may be taken from the pictures


class MessageStack(QFrame):
    """Lines below one another, as high as they need to be; hidden without any."""

    changed = Signal()  # its lines, or their height

    def __init__(self, parent: QWidget, *lines: QWidget) -> None:
        super().__init__(parent)
        self.setAutoFillBackground(True)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        for line in lines:
            self.add(line)
        self.hide()

    def add(self, line: QWidget) -> None:
        """Put a line below the others; it comes and goes by itself."""
        self._column.addWidget(line)
        line.installEventFilter(self)
        self.changed.emit()

    def showEvent(self, event: QShowEvent) -> None:
        """Lie over all that is there already."""
        super().showEvent(event)
        self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Come and go with the lines."""
        if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            self.changed.emit()
        return False

    def event(self, event: QEvent) -> bool:
        """Take another place when a line's text is longer or shorter."""
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.changed.emit()
        return done

    def settle(self, room: QRect, aside: QRect) -> int:
        """Stand ``aside``, or at the lower edge of ``room``; both in the parent.

        ``aside`` is where nothing is, if anywhere; there may be too little of it.
        Returns the height in pixels that the rest of ``room`` is to leave.
        """
        self.setVisible(not self._column.isEmpty())
        if self.isHidden():
            return 0
        edge, least = theme.gap(self), self.minimumSizeHint()
        self._column.setSpacing(edge)
        inside = aside.adjusted(edge, edge, -edge, -edge)
        line = self.fontMetrics().height()
        stands = inside.width() >= max(least.width(), LEAST_WIDTH * line)
        most = min(inside.height(), MOST * line)
        stands = stands and self._high(inside.width()) <= most
        inside = inside if stands else room.adjusted(0, edge, 0, -edge)
        high = self._high(inside.width())
        if not stands:
            high = min(high, int(SHARE * room.height()))
        top = inside.bottom() + 1 - high
        self.setGeometry(inside.x(), top, inside.width(), high)
        return 0 if stands else room.bottom() + 1 - top

    def _high(self, width: int) -> int:
        return max(
            self._column.totalHeightForWidth(width), self.minimumSizeHint().height()
        )
