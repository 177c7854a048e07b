"""NumberTable: named vectors, number by number, a bar behind each."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QKeyEvent, QKeySequence, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from visformer import words
from visformer.pictures.picture import Numbers, Table
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.colour_map import HIGH, LOW, colour_table
from visformer.ui.widgets.export import CSV, Export
from visformer.ui.widgets.labels import short
from visformer.values.arrays import Floats

Index = QModelIndex | QPersistentModelIndex
FITTED = 40  # columns up to which each is as wide as its own title needs
FEWEST, MOST_ROWS = 3, 8  # rows in sight


class _Model(QAbstractTableModel):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.numbers: Numbers | None = None
        self.bars: Floats = np.zeros((0, 0), np.float32)  # [R, C] in [-1, 1]
        self.marked: tuple[int | None, int | None] = (None, None)

    def show(self, numbers: Numbers | None) -> bool:
        """Replace the numbers; True where rows or columns are others than before."""
        old = self.numbers
        same = (
            old is not None
            and numbers is not None
            and old.rows == numbers.rows
            and old.columns == numbers.columns
        )
        if not same:
            self.beginResetModel()
        self.numbers = numbers
        if numbers is not None:
            self.bars = _bars(numbers)
        if not same:
            self.endResetModel()
        return not same

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Return the number of vectors."""
        return 0 if parent.isValid() or not self.numbers else len(self.numbers.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Return their length."""
        return 0 if parent.isValid() or not self.numbers else len(self.numbers.columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = 0
    ) -> object:
        """Name rows and columns; marked ones stand out."""
        if self.numbers is None:
            return None
        across = orientation == Qt.Orientation.Horizontal
        names = self.numbers.columns if across else self.numbers.rows
        if role == Qt.ItemDataRole.DisplayRole:
            return short(names[section]) if across else names[section]
        if role == Qt.ItemDataRole.ToolTipRole:
            return names[section]
        if role == Qt.ItemDataRole.FontRole and section == self.marked[across]:
            font = QFont()
            font.setBold(True)
            return font
        return None

    def data(self, index: Index, role: int = 0) -> object:
        """Give four digits; all of them as a tool tip."""
        if self.numbers is None:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        value = float(self.numbers.values[index.row(), index.column()])
        if role == Qt.ItemDataRole.DisplayRole:
            return words.short(value)
        if role == Qt.ItemDataRole.ToolTipRole:
            row = self.numbers.rows[index.row()]
            return f"{row}, {self.numbers.columns[index.column()]}: {value!r}"
        return None


class _Bar(QStyledItemDelegate):
    """Paints a bar behind the number, and a frame where it is marked."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index
    ) -> None:
        """Paint the bar first, the number over it."""
        model = index.model()
        if isinstance(model, _Model) and model.numbers is not None:
            box, share = option.rect, float(model.bars[index.row(), index.column()])
            if np.isfinite(share):
                painter.fillRect(
                    _bar_box(box, share, _is_signed(model.bars)),
                    _bar_colour(option, share),
                )
            row, column = model.marked
            if column == index.column() or row == index.row():
                painter.setPen(option.palette.highlight().color())
                painter.drawRect(box.adjusted(0, 0, -1, -1))
        super().paint(painter, option, index)


class NumberTable(QTableView):
    """Shows Numbers; reports the place under the mouse and the place clicked."""

    hovered = Signal(object)  # a MapCell or None
    picked = Signal(object)  # a MapCell
    failed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._model, self._rows_wanted = _Model(self), FEWEST
        self._room = 1 << 16  # pixels of height
        self.setModel(self._model)
        self.setItemDelegate(_Bar(self))
        self.setMouseTracking(True)
        self.setTabKeyNavigation(False)
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        for header in (self.horizontalHeader(), self.verticalHeader()):
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            header.setHighlightSections(False)
            header.setSectionsClickable(False)
        self.export = Export(self, self.table)
        self.export.failed.connect(self.failed)
        self.entered.connect(lambda at: self.hovered.emit(_place(at)))
        self.clicked.connect(lambda at: self.picked.emit(_place(at)))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._pop_up)

    def draw(self, numbers: Numbers | None) -> None:
        """Show numbers; the place that is scrolled to stays where it can."""
        if self._model.show(numbers):
            self._fit()
        self.viewport().update()

    def mark(self, row: int | None, column: int | None) -> None:
        """Frame a row and a column."""
        if self._model.marked == (row, column):
            return
        self._model.marked = row, column
        for header in (self.horizontalHeader(), self.verticalHeader()):
            header.viewport().update()
        self.viewport().update()

    def table(self) -> Table | None:
        """Return the numbers for export."""
        numbers = self._model.numbers
        if numbers is None:
            return None
        return Table(numbers.rows, numbers.columns, numbers.values)

    def _fit(self) -> None:
        """Size rows and columns; asking Qt to would measure every cell."""
        numbers = self._model.numbers
        metrics = self.fontMetrics()
        space = metrics.averageCharWidth()
        least = metrics.horizontalAdvance("−0.0000") + 2 * space
        across = self.horizontalHeader()
        across.setDefaultSectionSize(least)
        if numbers is not None and len(numbers.columns) <= FITTED:
            for column, name in enumerate(numbers.columns):
                wide = metrics.horizontalAdvance(short(name)) + 3 * space
                across.resizeSection(column, max(least, wide))
        down = self.verticalHeader()
        down.setDefaultSectionSize(metrics.height() + 4)
        names = sorted(numbers.rows, key=len)[-3:] if numbers is not None else []
        widest = max(map(metrics.horizontalAdvance, names), default=0) + 3 * space
        down.setFixedWidth(min(widest, max(20 * space, self.width() // 3)))
        rows = len(numbers.rows) if numbers is not None else 0
        most = (self._room - self._height(0)) // down.defaultSectionSize()
        self._rows_wanted = max(2, min(max(rows, FEWEST), MOST_ROWS, most))
        self.setMaximumHeight(self._height(self._rows_wanted))
        self.updateGeometry()

    def set_room(self, pixels: int) -> None:
        """Take at most so much height."""
        if pixels != self._room:
            self._room = pixels
            self._fit()

    def _height(self, rows: int) -> int:
        """Pixels that so many rows take, with header, scroll bar and frame."""
        around = self.horizontalHeader().sizeHint().height()
        around += self.horizontalScrollBar().sizeHint().height() + 2 * self.frameWidth()
        return around + rows * self.verticalHeader().defaultSectionSize()

    def sizeHint(self) -> QSize:
        """As high as the rows that are worth their room."""
        return QSize(self.minimumWidth(), self._height(self._rows_wanted))

    def minimumSizeHint(self) -> QSize:
        """Two rows high: the rest is scrolled to."""
        return QSize(super().minimumSizeHint().width(), self._height(2))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the names of the rows within a third of the width."""
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the size of the text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_model"):
            self._fit()

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is under the mouse."""
        super().leaveEvent(event)
        self.hovered.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy all numbers; up and down scroll, other keys are the window's."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.export.copy(CSV)
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            super().keyPressEvent(event)
        else:
            event.ignore()

    def _pop_up(self, place: QPoint) -> None:
        self.export.popup(self.viewport().mapToGlobal(place))


def _place(at: QModelIndex) -> MapCell:
    return MapCell(at.row(), at.column())


def _bars(numbers: Numbers) -> Floats:
    """Return every number as a share of the largest it is compared with."""
    axis = {"row": 1, "column": 0, "all": None}[numbers.by]
    magnitude = np.abs(numbers.values)
    # a masked score's stand-in would leave no other bar in sight
    magnitude = np.where(magnitude < 1e5, magnitude, np.float32(0))
    if not magnitude.size:
        return magnitude
    top = magnitude.max(axis, keepdims=True)
    shares = np.sign(numbers.values) * magnitude / np.where(top > 0, top, 1)
    scaled: Floats = shares.astype(np.float32)
    return scaled


def _is_signed(bars: Floats) -> bool:
    return bool((bars < 0).any())


def _bar_box(box: QRect, share: float, signed: bool) -> QRect:
    """Where a bar lies: from the middle where there are negative numbers."""
    inner = box.adjusted(1, 2, -2, -2)
    room = inner.width() // 2 if signed else inner.width()
    length = round(room * abs(share))
    start = inner.left() + (room if signed else 0)
    left = start - length if share < 0 else start
    return QRect(left, inner.top(), length, inner.height())


def _bar_colour(option: QStyleOptionViewItem, share: float) -> QColor:
    """Return the colour that a heat map gives this sign, faint enough to read over."""
    code = LOW + round((HIGH - LOW) * (0.8 if share > 0 else 0.2))
    red, green, blue, _ = colour_table(option.palette, signed=True)[code].tolist()
    return QColor(red, green, blue, 120)
