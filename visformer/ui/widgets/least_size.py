"""A scroll area that keeps its widget as large as there is room, but not smaller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QScrollArea,
    QWidget,
)


class _LeastBox(QBoxLayout):
    """Asks for the least height of what it holds, where texts wrap.

    Qt asks a widget inside another for the height that it would like, and so scrolls
    where it need not.
    """

    _asking = False  # Qt works out the least height in ``heightForWidth``

    def heightForWidth(self, width: int) -> int:
        if self._asking:
            return super().heightForWidth(width)
        known: dict[int, int] = self.__dict__.setdefault("_known", {})
        if width not in known:
            self._asking = True
            known[width] = self.minimumHeightForWidth(width)
            self._asking = False
        return known[width]

    def invalidate(self) -> None:
        """Forget the heights: Qt says that something has changed."""
        self.__dict__.pop("_known", None)
        super().invalidate()


class LeastColumn(_LeastBox):
    """From top to bottom."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(QBoxLayout.Direction.TopToBottom, parent)


class LeastRow(_LeastBox):
    """From left to right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(QBoxLayout.Direction.LeftToRight, parent)


@contextmanager
def laid_out_once(*widgets: QWidget) -> Iterator[None]:
    """Lay these widgets' parts out when all are drawn, in the next turn of the loop.

    A part that comes into sight otherwise makes Qt lay out at once all that is around
    it, up to the window.
    """
    layouts = [layout for widget in widgets if (layout := widget.layout())]
    for layout in layouts:
        layout.setEnabled(False)
    try:
        yield
    finally:
        for layout in layouts:
            layout.setEnabled(True)


class LeastSize(QScrollArea):
    """Scrolls a widget as a whole where there is less room than it needs at least.

    Qt's own way (``widgetResizable``) gives a widget with wrapped texts the height that
    it would like, and scrolls where it need not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.viewport().setBackgroundRole(QPalette.ColorRole.Window)

    def setWidget(self, widget: QWidget) -> None:
        super().setWidget(widget)
        self.fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow what the widget needs."""
        if event.type() == QEvent.Type.LayoutRequest and watched is self.widget():
            self.fit()
        return super().eventFilter(watched, event)

    def fit(self) -> None:
        """Give the widget all the room, or the least that it needs."""
        widget = self.widget()
        if widget is None:
            return
        room = self.maximumViewportSize()
        bar = self.verticalScrollBar().sizeHint().width()  # the other is as high
        size = _size(widget, room)
        if size.height() > room.height():
            size = _size(widget, QSize(room.width() - bar, room.height()))
        if size.width() > room.width():
            size = _size(widget, QSize(room.width(), room.height() - bar))
        if size != widget.size():
            widget.resize(size)


def _size(widget: QWidget, room: QSize) -> QSize:
    least = widget.minimumSizeHint().expandedTo(widget.minimumSize())
    width, height = max(room.width(), least.width()), least.height()
    layout = widget.layout()
    if layout is not None and layout.hasHeightForWidth():
        height = max(widget.minimumHeight(), layout.totalMinimumHeightForWidth(width))
    return QSize(width, max(room.height(), height))


LEAST_CHARACTERS, LEAST_LINES = 34, 18  # of a map with its labels


def set_least(picture: QWidget, lines: int = LEAST_LINES) -> None:
    """Keep a map's cells visible below labels of its font's size."""
    metrics = picture.fontMetrics()
    width = max(240, LEAST_CHARACTERS * metrics.averageCharWidth())
    picture.setMinimumSize(width, lines * metrics.lineSpacing())
