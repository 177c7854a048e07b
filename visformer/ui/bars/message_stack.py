"""What there is to say: over the lower edge of the pictures, so that nothing moves."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRect
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from visformer.ui import theme


class MessageStack(QFrame):
    """Lines below one another, as high as they need to be; hidden without any."""

    def __init__(self, parent: QWidget, *lines: QWidget) -> None:
        super().__init__(parent)
        self.setAutoFillBackground(True)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self._lines, self._room = lines, QRect()
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.setSpacing(0)
        for line in lines:
            column.addWidget(line)
            line.installEventFilter(self)
        self.hide()

    def showEvent(self, event: QShowEvent) -> None:
        """Lie over all that is there already."""
        super().showEvent(event)
        self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Come and go with the lines."""
        kinds = QEvent.Type.ShowToParent, QEvent.Type.HideToParent
        if event.type() in (*kinds, QEvent.Type.LayoutRequest):
            self.settle(self._room)
        return False

    def event(self, event: QEvent) -> bool:
        """Take another place when a line's text is longer or shorter."""
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.settle(self._room)
        return done

    def settle(self, room: QRect) -> None:
        """Stand at the lower edge of a part of the parent."""
        self._room = room
        shown = [line for line in self._lines if not line.isHidden()]
        self.setVisible(bool(shown))
        edge = theme.gap(self)
        width = max(1, room.width() - 2 * edge)
        layout = self.layout()
        high = layout.totalHeightForWidth(width) if layout is not None else 0
        high = min(max(high, self.minimumSizeHint().height()), room.height())
        at = room.bottom() + 1 - edge - high
        self.setGeometry(room.right() + 1 - edge - width, at, width, high)
