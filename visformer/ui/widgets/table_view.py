"""TableView: rows that are values, under columns that say how each is written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
    SignalInstance,
)
from PySide6.QtGui import QColor, QFont, QKeyEvent, QKeySequence, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QHeaderView,
    QScrollBar,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from visformer.text import visible
from visformer.ui.look.theme import Dressed, letter_width
from visformer.ui.widgets.controls import keeps
from visformer.ui.widgets.export import CSV, Export
from visformer.ui.widgets.plain_label import plain_tip
from visformer.words import decimals

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
Role = Qt.ItemDataRole
ITEM = Role.UserRole
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
ROWS = 8  # that a table would like to show without scrolling
FEWEST = 3  # rows that it has room for as long as there are none
FITTED = 64  # columns up to which each is as wide as its own title needs
ENTER = Qt.Key.Key_Return, Qt.Key.Key_Enter
MOVES = Qt.Key.Key_Up, Qt.Key.Key_Down


class CellBar(NamedTuple):
    """What is painted below a cell's text."""

    share: float  # of its room, in [-1, 1]
    colour: QColor
    is_signed: bool = False  # it begins in the middle
    is_across: bool = False  # its room is the whole row, not the cell


class TableColumn(NamedTuple):
    """A column of a table: its title, and what stands in a row's cell."""

    title: str
    text: Callable[[Any], str]
    room: Sequence[str] = ()  # texts that fit into it; (): it shares what is left
    key: Callable[[Any], Any] | None = None  # what rows are sorted by
    about: str = ""  # a tip of the title
    tip: Callable[[Any], str] | None = None  # of a cell; None: its text
    side: Qt.AlignmentFlag = LEFT
    bar: Callable[[Any], CellBar | None] | None = None
    looks: Mapping[Any, Callable[[Any], object]] = MappingProxyType({})  # by role

    def data(self, row: object, role: int) -> object:
        """Return what Qt asks for in a role."""
        if role == Role.DisplayRole:
            return "\n".join(map(visible, self.text(row).split("\n")))
        if role == Role.ToolTipRole:
            return plain_tip((self.tip or self.text)(row))
        if role == Role.TextAlignmentRole:
            return self.side
        return self.looks[role](row) if role in self.looks else None


def number_column(
    title: str, value: Callable[[Any], float], digits: int = 2, about: str = ""
) -> TableColumn:
    """Return a column of numbers; NaN is written as such, and sorted as the least."""

    def key(row: Any) -> float:
        return value(row) if value(row) == value(row) else -float("inf")

    def text(row: Any) -> str:
        return decimals(value(row), digits)

    return TableColumn(title, text, ("0000.00",), key, about, side=RIGHT)


class TableModel(QAbstractTableModel):
    """The rows in the order in which they are shown."""

    def __init__(
        self, columns: Sequence[TableColumn], by: int | None, names: TableColumn | None
    ) -> None:
        super().__init__()
        self.rows: Sequence[Any] = ()
        self.columns, self._names = columns, names
        self.marked: tuple[int | None, int | None] = (None, None)
        self._sorted = by, Qt.SortOrder.DescendingOrder

    def show(self, rows: Sequence[Any], columns: Sequence[TableColumn]) -> None:
        """Show these rows, sorted as before."""
        shape = self.rowCount(), self.columnCount()
        stays = (len(rows), len(columns)) == shape
        if not stays:
            self.beginResetModel()
        self.rows, self.columns = rows, columns
        self._order()
        if not stays:
            self.endResetModel()
        elif len(rows):
            last = self.index(len(rows) - 1, len(columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def sort(
        self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder
    ) -> None:
        self._sorted = column, order
        self.layoutAboutToBeChanged.emit()
        self._order()
        self.layoutChanged.emit()

    def _order(self) -> None:
        column, order = self._sorted
        if column is not None:
            down = order == Qt.SortOrder.DescendingOrder
            key = self.columns[max(column, 0)].key
            self.rows = sorted(self.rows, key=key, reverse=down)

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> object:
        """Return the title of a row or column in a role."""
        across = orientation == Qt.Orientation.Horizontal
        if section >= len(self.columns if across else self.rows):
            return None  # what describes a window to a screen reader asks for it
        if role == Role.FontRole and section == self.marked[across]:
            return bold_font()
        if not across:
            names = self._names
            return names.data(self.rows[section], role) if names is not None else None
        title, about = self.columns[section].title, self.columns[section].about
        if role == Role.DisplayRole:
            return title
        return plain_tip(about) if role == Role.ToolTipRole else None

    def data(self, index: Index, role: int = Role.DisplayRole) -> object:
        """Return a cell in a role."""
        row = self.rows[index.row()]
        return row if role == ITEM else self.columns[index.column()].data(row, role)


def bold_font(font: QFont | None = None) -> QFont:
    """Return a font in bold; without one, that of where it is written."""
    bold = QFont() if font is None else QFont(font)
    bold.setBold(True)
    return bold


MEASURED = 8  # titles whose size is that of all


class TitleHeader(QHeaderView):
    """Titles of rows or columns: a few are measured; Qt asks for 200 in four roles."""

    _measured = QSize()

    def sizeHint(self) -> QSize:
        """Return the room that the first few titles need, and the last, or needed."""
        size, last = QSize(), self.count() - 1
        for section in {*range(min(MEASURED, last)), last} if last >= 0 else ():
            size = size.expandedTo(self.sectionSizeFromContents(section))
        self._measured = size if last >= 0 else self._measured
        return self._measured


class TableView(Dressed, QTableView):
    """Shows rows of values; tells which one is chosen, picked or opened."""

    chosen = Signal(object)  # a row: it became the current one
    picked = Signal(object)  # a row: by a click or Enter
    opened = Signal(object)  # a row: by a double click or Enter
    export: Export | None = None

    def __init__(
        self,
        name: str,
        columns: Sequence[TableColumn] = (),
        *,
        by: int | None = None,
        names: TableColumn | None = None,
        least: int = 2,
        most: int = 0,
        high: float = 1.25,
    ) -> None:
        """``name``: what a screen reader calls it.

        ``by``: the column by which it is sorted first, the largest at the top; None:
        it cannot be sorted. ``names``: what stands before the rows. ``least``: rows
        that are in sight also where there is little room; ``most``: rows that are in
        sight where there is much, 0 for any number and the room below them.
        ``high``: the height of a row, in lines of text.
        """
        super().__init__()
        self._least, self._most, self._high = least, most, high
        self._hints = QSize(), QSize()  # those that a layout knows of
        self._items = TableModel(columns, by, names)
        self.setAccessibleName(name)
        self._set_up_headers(by, names)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setItemDelegate(BarDelegate(self))
        for signal, report in (
            (self.clicked, self.picked),
            (self.doubleClicked, self.opened),
            (self.selectionModel().currentChanged, self.chosen),
        ):
            signal.connect(lambda at, *_before, to=report: self._tell(to, at))
        self.dress()

    def _set_up_headers(self, by: int | None, names: TableColumn | None) -> None:
        across = TitleHeader(Qt.Orientation.Horizontal, self)
        down = TitleHeader(Qt.Orientation.Vertical, self)
        self.setHorizontalHeader(across)
        self.setVerticalHeader(down)
        self.setModel(self._items)
        down.setVisible(names is not None)
        down.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        if by is None:
            across.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        else:
            across.setSectionsClickable(True)
            self.sortByColumn(by, Qt.SortOrder.DescendingOrder)
            self.setSortingEnabled(True)
        for at, column in enumerate(self.columns):
            if not column.room:
                across.setSectionResizeMode(at, QHeaderView.ResizeMode.Stretch)

    @property
    def items(self) -> Sequence[Any]:
        """The rows in the order in which they are shown."""
        return self._items.rows

    @property
    def columns(self) -> Sequence[TableColumn]:
        return self._items.columns

    @property
    def marked(self) -> tuple[int | None, int | None]:
        """The row and the column that are framed."""
        return self._items.marked

    def fill(
        self, rows: Sequence[Any], columns: Sequence[TableColumn] | None = None
    ) -> None:
        """List these rows; where they are sorted, the one that is chosen stays so."""
        chosen = self.currentIndex().data(ITEM)
        with QSignalBlocker(self):
            self._items.show(rows, self.columns if columns is None else columns)
        if self.isSortingEnabled():
            self.select(chosen)
        for part in (self, self.horizontalHeader(), self.verticalHeader()):
            part.viewport().update()
        self._fit()

    def select(self, item: object) -> None:
        """Choose the row of a value, if it is listed; nobody is told."""
        if item in self.items:
            with QSignalBlocker(self):
                self.selectRow(self.items.index(item))

    def bar(self, index: Index) -> CellBar | None:
        """Return the bar below a cell's text."""
        bar = self.columns[index.column()].bar
        return bar(self.items[index.row()]) if bar is not None else None

    def frame(self, index: Index) -> bool:
        """Tell whether a cell is framed: it is in a marked row or column."""
        return index.row() == self.marked[0] or index.column() == self.marked[1]

    def mark(self, row: int | None, column: int | None) -> None:
        """Frame a row and a column, and scroll to them where they are out of sight."""
        headers = self.verticalHeader(), self.horizontalHeader()
        bars = self.verticalScrollBar(), self.horizontalScrollBar()
        parts = zip(headers, bars, (row, column), self.marked, strict=True)
        for header, bar, section, before in parts:
            if section is not None and section != before:
                self._show(section, header, bar)
            if section != before:
                header.viewport().update()
                self.viewport().update()
        self._items.marked = row, column

    def _show(self, section: int, header: QHeaderView, bar: QScrollBar) -> None:
        """Scroll to a row or column that is out of sight, about into the middle.

        What is left of it, or above, begins with a whole one.
        """
        if section >= header.count():
            return
        start, size = (
            header.sectionViewportPosition(section),
            header.sectionSize(section),
        )
        room = bar.pageStep()  # pixels in sight
        if start < 0 or start + size > room:
            self.executeDelayedItemsLayout()  # the bar ends at what is there now
            wanted = bar.value() + start + (size - room) // 2
            cut = header.logicalIndexAt(max(0, wanted) - 1 - header.offset())
            end = header.sectionPosition(cut) + header.sectionSize(cut)
            bar.setValue(end if cut >= 0 else 0)

    def item(self, index: Index) -> Any:
        """Return what is told of a cell: its row."""
        return self.items[index.row()]

    def _tell(self, to: SignalInstance, index: Index) -> None:
        if index.isValid():
            to.emit(self.item(index))

    def event(self, event: QEvent) -> bool:
        """Take the keys of a list before the window steps by them."""
        is_list = self.selectionMode() != QTableView.SelectionMode.NoSelection
        return (is_list and keeps(event, (*MOVES, *ENTER))) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go up and down, open a row, copy all; other keys are the window's."""
        if self.export and event.matches(QKeySequence.StandardKey.Copy):
            self.export.copy(CSV)
        elif event.key() in ENTER:
            for report in (self.picked, self.opened):
                self._tell(report, self.currentIndex())
        elif event.key() in MOVES:
            super().keyPressEvent(event)
        else:
            event.ignore()

    # ---- sizes -----------------------------------------------------------------

    def _dress(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Size rows and columns; asking Qt to would measure every cell."""
        across, columns = self.horizontalHeader(), self.columns
        line = self.verticalHeader()
        if self._line() != line.defaultSectionSize():  # Qt would paint all titles again
            line.setDefaultSectionSize(self._line())
        first = columns[:FITTED]
        usual = self._wide({text for column in first for text in column.room}, 1.5)
        fitted = len(columns) == len(first)
        if not fitted and usual != across.defaultSectionSize():
            across.setDefaultSectionSize(usual)
        for at, column in enumerate(first):
            wide = usual
            if fitted:
                title = (column.title,) if not across.isHidden() else ()
                wide = max(self._wide(column.room, 1.5), self._wide(title, 3))
            if self.isSortingEnabled():
                wide = max(wide, across.sectionSizeHint(at))
            if column.room:
                across.resizeSection(at, wide)
        if self._most:
            self.setMaximumHeight(self._height(self._fitting()))
        hints = self.sizeHint(), self.minimumSizeHint()
        if hints != self._hints:
            self._hints = hints
            self.updateGeometry()

    def _wide(self, texts: Iterable[str], letters: float) -> int:
        """Return the width of the longest text, with room for some more letters."""
        metrics = self.fontMetrics()
        wide = max(map(metrics.horizontalAdvance, texts), default=0)
        return wide + round(letters * letter_width(metrics))

    def _line(self) -> int:
        """Return the height of a row."""
        return round(self._high * self.fontMetrics().height())

    def _fitting(self) -> int:
        """Return how many rows it would show, as long as there are none a few."""
        return min(len(self.items) or FEWEST, self._most or ROWS)

    def _height(self, rows: int) -> int:
        """Return the height of this many rows, with header, scroll bar and frame."""
        header, around = self.horizontalHeader(), 2 * self.frameWidth()
        if not header.isHidden():
            around += header.sizeHint().height()
        if all(column.room for column in self.columns[:FITTED]):
            around += self.horizontalScrollBar().sizeHint().height()
        return around + rows * self.verticalHeader().defaultSectionSize()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit()

    def sizeHint(self) -> QSize:
        """As high as the rows that are shown without scrolling."""
        return QSize(super().sizeHint().width(), self._height(self._fitting()))

    def minimumSizeHint(self) -> QSize:
        least = self._height(min(self._least, self._fitting()))
        return QSize(super().minimumSizeHint().width(), least)


class BarDelegate(QStyledItemDelegate):
    """Paints a bar below a cell's text, and a frame around what is marked."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index
    ) -> None:
        table, cell = self.parent(), option.rect
        assert isinstance(table, TableView)
        bar, frame = table.bar(index), table.frame(index)
        row = QRect(0, cell.top(), table.viewport().width(), cell.height())
        if bar is not None:
            box = row.adjusted(0, 1, 0, -1) if bar.is_across else cell.adjusted(*INSET)
            painter.fillRect(bar_box(box, bar).intersected(cell), bar.colour)
            option.state &= ~QStyle.StateFlag.State_HasFocus  # the frame tells it
        super().paint(painter, option, index)
        if frame:
            box = row if bar is not None and bar.is_across else cell
            painter.save()
            painter.setClipRect(cell)
            painter.setPen(table.palette().highlight().color())
            painter.drawRect(box.adjusted(0, 0, -1, -1))
            painter.restore()


INSET = 1, 2, -2, -2  # of a bar in its cell


def bar_box(room: QRect, bar: CellBar) -> QRect:
    """Return a bar's place: from the middle if there are negative numbers."""
    wide = room.width() // 2 if bar.is_signed else room.width()
    length = round(wide * abs(bar.share))
    start = room.left() + (wide if bar.is_signed else 0)
    left = start - length if bar.share < 0 else start
    return QRect(left, room.top(), length, room.height())
