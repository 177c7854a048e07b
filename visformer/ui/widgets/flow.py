"""Flow: widgets in rows, as many beside each other as have room."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget

from visformer.ui.theme import gap


class Flow(QLayout):
    """Breaks into rows like a text; a widget stands at the bottom of its row."""

    def __init__(self, parent: QWidget, *widgets: QWidget) -> None:
        super().__init__(parent)
        self._heights: dict[int, int] = {}  # by width, until something changes
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        for widget in widgets:
            self.addWidget(widget)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """Return an item; None beyond the last, as Qt asks for it."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Remove an item and return it; None beyond the last."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height of all rows."""
        if width not in self._heights:
            self._heights[width] = self._place(QRect(0, 0, width, 0), move=False)
        return self._heights[width]

    def invalidate(self) -> None:
        """Forget the heights: Qt says that something has changed."""
        if "_heights" in self.__dict__:
            self._heights.clear()
        super().invalidate()

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._place(rect, move=True)

    def sizeHint(self) -> QSize:
        """As wide as all widgets in one row."""
        sizes = [item.sizeHint() for item in self._there()]
        wide = sum(size.width() + self._gap() for size in sizes)
        high = max((size.height() for size in sizes), default=0)
        return QSize(wide, high)

    def minimumSize(self) -> QSize:
        """As wide as the widest widget."""
        size = QSize()
        for item in self._there():
            size = size.expandedTo(item.minimumSize())
        return size

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def _there(self) -> list[QLayoutItem]:
        return [item for item in self._items if not item.isEmpty()]

    def _gap(self) -> int:
        parent = self.parentWidget()
        return gap(parent, 2) if parent is not None else 0

    def _place(self, rect: QRect, *, move: bool) -> int:
        """Break into rows; return the height that they take."""
        rows: list[list[QLayoutItem]] = [[]]
        x = 0
        for item in self._there():
            wide = item.sizeHint().width()
            if rows[-1] and x + wide > rect.width():
                rows.append([])
                x = 0
            rows[-1].append(item)
            x += wide + self._gap()
        y = rect.y()
        for row in rows:
            high = max((item.sizeHint().height() for item in row), default=0)
            x = rect.x()
            for item in row if move else ():
                size = item.sizeHint().boundedTo(QSize(rect.width(), high))
                item.setGeometry(QRect(QPoint(x, y + high - size.height()), size))
                x += size.width() + self._gap()
            y += high + self._gap() // 2
        return y - self._gap() // 2 - rect.y()
