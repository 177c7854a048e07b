"""How widgets share the room, and when: least sizes, rows that turn, frames to come.

Qt arranges every layout up to the window's whenever a label has another text, also
where that moves nothing: what is ``Still`` keeps it from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeVar

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, QTimer
from PySide6.QtGui import QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QLayoutItem,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QWidget,
)

from visformer.ui.look.theme import gap, letter_width

L = TypeVar("L", bound=QBoxLayout)
Part = QWidget | QLayout | None  # None: a stretch


def fill(box: L, *parts: Part | tuple[Part, int], spacing: int | None = None) -> L:
    """Fill a row or column, without margins; a part may come with its stretch."""
    box.setContentsMargins(0, 0, 0, 0)
    if spacing is not None:
        box.setSpacing(spacing)
    for given in parts:
        part, stretch = given if isinstance(given, tuple) else (given, 0)
        if part is None:
            box.addStretch(stretch)
        elif isinstance(part, QLayout):
            box.addLayout(part, stretch)
        else:
            box.addWidget(part, stretch)
    return box


def in_line(*parts: QWidget) -> QWidget:
    """Return a widget of widgets side by side, the first with the free width."""
    line = QWidget()
    line.setLayout(fill(QHBoxLayout(), (parts[0], 1), *parts[1:], spacing=6))
    return line


def scrolled(widget: QWidget | None = None) -> QScrollArea:
    """Return an area without a frame in which a widget has at least all the room."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    if widget is not None:
        area.setWidget(widget)
    return area


# ---- least sizes -------------------------------------------------------------------


class _LeastBox(QBoxLayout):
    """Asks for the least height of what it holds, where texts wrap.

    Qt asks a widget inside another for the height that it would like, and so scrolls
    where it need not.
    """

    _asking = False  # Qt works out the least height in ``heightForWidth``
    _known: Mapping[int, int] = MappingProxyType({})  # least heights, by width

    def heightForWidth(self, width: int) -> int:
        if self._asking:
            return super().heightForWidth(width)
        return self.minimumHeightForWidth(width)

    def minimumHeightForWidth(self, width: int) -> int:
        """Return the least height at a width, which is worked out once."""
        if width not in self._known:
            self._asking = True
            height = super().minimumHeightForWidth(width)
            self._known = {**self._known, width: height}
            self._asking = False
        return self._known[width]

    def invalidate(self) -> None:
        """Forget the heights: Qt says that something has changed."""
        self._known = {}
        super().invalidate()


class LeastColumn(_LeastBox):
    """From top to bottom.

    Qt arranges every layout up to the window's whenever a label has another text, also
    where that moves nothing. This one can wait, and look at what its parts need then.
    """

    _waits = False
    _doubted = False  # meanwhile a part said that it may need other room
    _needs: list[object] | None = None  # what all need, as they stand
    _least: int | None = None  # the width needed, if texts have changed since

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(QBoxLayout.Direction.TopToBottom, parent)

    def invalidate(self) -> None:
        """Lay out anew, now or after ``wait``."""
        if self._waits:
            self._doubted = True
        else:
            self._needs = self._least = None
            super().invalidate()

    def minimumSize(self) -> QSize:
        """Return the least size, also of texts that have changed and moved nothing."""
        size = super().minimumSize()
        return size if self._least is None else QSize(self._least, size.height())

    def wait(self) -> None:
        """Lay nothing out before ``go_on``."""
        if self._needs is None:
            self._needs = self._room()
        self._waits, self._doubted = True, False

    def go_on(self) -> None:
        """Lay out anew if a part needs other room than it has had."""
        self._waits = False
        if not self._doubted:
            return
        if self._room() != self._needs:
            self.invalidate()
            return
        self._least = self._least_width()
        # at another width more may have changed
        wide = self.geometry().width()
        self._known = {at: self._known[at] for at in self._known if at == wide}
        widget = self.parentWidget()
        viewport = widget.parentWidget() if widget is not None else None
        area = viewport.parentWidget() if viewport is not None else None
        if isinstance(area, LeastSize):
            area.fit_again()

    def _least_width(self) -> int:
        margins, widths = self.contentsMargins(), [0]
        widths += (item.minimumSize().width() for item in self._items())
        return margins.left() + max(widths) + margins.right()

    def _room(self) -> list[object]:
        """Return what all parts need at their widths, and so where they stand."""
        needs: list[object] = [self.count()]
        for item in self._items():
            in_row = item.layout() is not None
            needs += [_needs(part, in_row=in_row) for part in _parts(item)]
        return needs

    def _items(self) -> list[QLayoutItem]:
        items = (self.itemAt(at) for at in range(self.count()))
        return [item for item in items if item is not None]


class LeastRow(_LeastBox):
    """From left to right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(QBoxLayout.Direction.LeftToRight, parent)


def _parts(item: QLayoutItem) -> Iterator[QLayoutItem]:
    """Go through what stands in a layout and in the layouts within it, or an item."""
    layout = item.layout()
    if layout is None:
        yield item
        return
    for at in range(layout.count()):
        inner = layout.itemAt(at)
        if inner is not None:
            yield from _parts(inner)


def _needs(part: QLayoutItem, *, in_row: bool) -> tuple[object, ...]:
    """Return what the places in a column, or also in a row of it, follow from."""
    wide, wanted, least = part.geometry().width(), part.sizeHint(), part.minimumSize()
    heights = least.height(), wanted.height()
    if part.hasHeightForWidth():
        heights = part.minimumHeightForWidth(wide), part.heightForWidth(wide)
    if in_row:  # the others beside it have what it leaves
        widths = least.width(), wanted.width()
    else:  # a text that has room enough may have longer words
        widths = max(least.width(), wide - 1), 0
    return part.isEmpty(), widths, heights, part.maximumSize()


@contextmanager
def laid_out_once(*widgets: QWidget) -> Iterator[None]:
    """Lay these widgets' columns out once all is drawn, and only if that moves a part.

    A part that comes into sight otherwise makes Qt lay out at once all that is around
    it, up to the window.
    """
    layouts = (widget.layout() for widget in widgets)
    columns = [layout for layout in layouts if isinstance(layout, LeastColumn)]
    for column in columns:
        column.wait()
    try:
        yield
    finally:
        for column in columns:
            column.go_on()


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
        if event.type() == QEvent.Type.LayoutRequest and watched is self.widget():
            self.fit()
        return super().eventFilter(watched, event)

    def fit_again(self) -> None:
        """Look whether the widget has room without a scroll bar that is there.

        Its texts are wider then, and may have fewer lines.
        """
        widget = self.widget()
        if widget is not None and widget.height() > self.maximumViewportSize().height():
            self.fit()

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
    width = max(240, LEAST_CHARACTERS * letter_width(metrics))
    picture.setMinimumSize(width, lines * metrics.lineSpacing())


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


# ---- rows that turn ----------------------------------------------------------------

LEAST_WORDS = 32  # letters: the least width of words that stand beside fields


class TurningRow(QWidget):
    """Asks for the width of its widest part; a row needs ``room`` times the sum."""

    def __init__(
        self, *parts: QWidget | tuple[QWidget, int], room: float = 1.0
    ) -> None:
        """``parts``: widgets, some with another share of the space than 1."""
        super().__init__()
        self._room = room
        self._below = False  # whatever room there is
        shares = [part if isinstance(part, tuple) else (part, 1) for part in parts]
        self._parts = tuple(part for part, _share in shares)
        self.row = fill(LeastRow(self), *shares)

    @property
    def beside(self) -> bool:
        """Whether the parts stand beside each other."""
        return self.row.direction() == QBoxLayout.Direction.LeftToRight

    def minimumSizeHint(self) -> QSize:
        widest = max((width for width in self._widths()), default=0)
        return QSize(widest, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._turn()

    def keep_below(self, *, below: bool) -> None:
        """Leave the parts below each other, also where they have room beside."""
        self._below = below
        self._turn()

    def _turn(self) -> None:
        has_room = self.width() >= self._room * sum(self._widths())
        beside = has_room and not self._below
        if beside != self.beside:
            way = QBoxLayout.Direction
            self.row.setDirection(way.LeftToRight if beside else way.TopToBottom)

    def _widths(self) -> list[int]:
        return [
            part.minimumSizeHint().expandedTo(part.minimumSize()).width()
            for part in self._parts
            if not part.isHidden()
        ]


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


# ---- frames to come ----------------------------------------------------------------


class SingleShot(QTimer):
    """Calls a function once, after what was posted is done, or ``ms`` later.

    Started again before that it begins anew. QTimer.singleShot(0) is posted itself.
    """

    def __init__(self, parent: QObject, act: Callable[[], object], ms: int = 0) -> None:
        super().__init__(parent, singleShot=True, interval=ms)
        self.timeout.connect(act)


def paint_later(widget: QWidget, turns: int = 1) -> None:
    """Paint a widget once what is changed in it from now on is drawn and laid out.

    What stands in a part that waits already is painted with it, which then waits for
    as many turns as either needs. It is for a part of a window: Qt may never paint a
    window again that was told to wait while it had to be painted.
    """
    if not widget.isVisible():
        return
    if widget.updatesEnabled():
        (_wait_of(widget) or _PaintWait(widget)).wait(turns)
        return
    part: QWidget | None = widget
    while part is not None:
        later = _wait_of(part)
        if later is not None and later.isActive():
            later.wait_for(turns)
            return
        part = part.parentWidget()


def _wait_of(widget: QWidget) -> _PaintWait | None:
    children = Qt.FindChildOption.FindDirectChildrenOnly
    return widget.findChild(_PaintWait, options=children)


class _PaintWait(SingleShot):
    """Counts turns of the event loop in which its parent is not painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget, self._turn)
        self._widget, self._left = widget, 0

    def wait(self, turns: int) -> None:
        self._widget.setUpdatesEnabled(False)
        self._left = turns
        self.start()

    def wait_for(self, turns: int) -> None:
        """Wait for this many frames from now on, if fewer are left."""
        self._left = max(self._left, turns)

    def _turn(self) -> None:
        self._left -= 1
        if self._left:
            self.start()
        else:
            self._widget.setUpdatesEnabled(True)
