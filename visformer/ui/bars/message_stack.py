"""What there is to say: beside the pictures, or over their edge: nothing moves."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRect
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from visformer.ui import theme

LEAST_WIDTH, MOST = 10, 8  # of messages that stand aside, and their height, in lines


class MessageStack(QFrame):
    """Lines below one another, as high as they need to be; hidden without any."""

    def __init__(self, parent: QWidget, *lines: QWidget) -> None:
        super().__init__(parent)
        self.setAutoFillBackground(True)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self._lines, self._room, self._aside = lines, QRect(), QRect()
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
            self.settle(self._room, self._aside)
        return False

    def event(self, event: QEvent) -> bool:
        """Take another place when a line's text is longer or shorter."""
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.settle(self._room, self._aside)
        return done

    def settle(self, room: QRect, aside: QRect) -> None:
        """Stand ``aside``, or at the lower edge of ``room``; both in the parent.

        ``aside`` is where nothing is, if anywhere; there may be too little of it.
        """
        self._room, self._aside = room, aside
        shown = [line for line in self._lines if not line.isHidden()]
        self.setVisible(bool(shown))
        least, edge = self.minimumSizeHint(), theme.gap(self)
        inside = aside.adjusted(edge, edge, -edge, -edge)
        line = self.fontMetrics().height()
        narrow = inside.width() < max(least.width(), LEAST_WIDTH * line)
        if narrow or self._high(inside.width()) > min(inside.height(), MOST * line):
            inside = room.adjusted(edge, edge, -edge, -edge)
        width = max(1, inside.width())
        high = min(max(self._high(width), least.height()), room.height())
        at = inside.bottom() + 1 - high
        self.setGeometry(inside.right() + 1 - width, at, width, high)

    def _high(self, width: int) -> int:
        layout = self.layout()
        return layout.totalHeightForWidth(width) if layout is not None else 0
