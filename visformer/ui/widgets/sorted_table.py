"""SortedTable: a row for each thing of a list, sorted by a click on a title."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QSignalBlocker,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHeaderView, QTableView

from visformer.language import _
from visformer.text import visible
from visformer.ui.look.theme import Dressed
from visformer.ui.widgets.controls import keeps
from visformer.ui.widgets.number_table import NOWHERE, Index
from visformer.ui.widgets.plain_label import plain_tip
from visformer.ui.window.large import present_whole
from visformer.words import decimals


class ItemColumn(NamedTuple):
    """A column of the table; its title and tip are marked for the catalogue."""

    title: str
    wide: float  # in lines of text; 0: a share of the rest
    text: Callable[[Any], str]
    key: Callable[[Any], Any]  # what it is sorted by
    tip: str = ""
    is_number: bool = False


def number_column(
    title: str,
    value: Callable[[Any], float],
    digits: int = 2,
    tip: str = "",
    wide: float = 5,
) -> ItemColumn:
    """Return a column of numbers; NaN is written as such, and sorted as the least."""

    def key(one: Any) -> float:
        return value(one) if value(one) == value(one) else -float("inf")

    def text(one: Any) -> str:
        return decimals(value(one), digits)

    return ItemColumn(title, wide, text, key, tip, is_number=True)


ITEM = Qt.ItemDataRole.UserRole
LINE = 1.6  # a row's height, in lines of text
_KEYS = Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter


class SortedTable(Dressed, QTableView):
    """Rows of things: ``opened`` by a double click, ``chosen`` by a click or a key."""

    opened = Signal(object)
    chosen = Signal(object)

    def __init__(
        self, name: str, columns: Sequence[ItemColumn], by: int, *, least: int
    ) -> None:
        """``by``: the column by which it is sorted first, the largest at the top.

        ``least`` is its height at least, in lines of text.
        """
        super().__init__()
        self._items, self._least = ItemsModel(columns, by), least
        self.setAccessibleName(name)
        self.setModel(self._items)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionsMovable(False)
        header.setHighlightSections(False)
        for at, column in enumerate(columns):
            if not column.wide:
                header.setSectionResizeMode(at, QHeaderView.ResizeMode.Stretch)
        self.sortByColumn(by, Qt.SortOrder.DescendingOrder)
        self.setSortingEnabled(True)
        self.doubleClicked.connect(self._open)
        self.selectionModel().currentChanged.connect(self._choose)
        present_whole(self)
        self.dress()

    @property
    def items(self) -> list[Any]:
        """The things in the order of the rows."""
        return self._items.items

    def _dress(self) -> None:
        line = self.fontMetrics().height()
        self.setMinimumHeight(self._least * self.fontMetrics().lineSpacing())
        self.verticalHeader().setDefaultSectionSize(round(LINE * line))
        for at, column in enumerate(self._items.columns):
            if column.wide:
                self.setColumnWidth(at, round(column.wide * line))

    def draw(
        self, items: Sequence[Any], columns: Sequence[ItemColumn] | None = None
    ) -> None:
        """List these things; the row that is chosen stays so.

        ``columns`` are as many as before, with other contents.
        """
        chosen = self.currentIndex().data(ITEM)
        with QSignalBlocker(self):
            self._items.show(items, columns)
        self.select(chosen)

    def select(self, item: object) -> None:
        """Choose the row of a thing, if it is listed; nobody is told."""
        if item in self.items:
            with QSignalBlocker(self):
                self.selectRow(self.items.index(item))

    def _open(self, index: QModelIndex) -> None:
        if index.isValid():
            self.opened.emit(index.data(ITEM))

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self.chosen.emit(index.data(ITEM))

    def event(self, event: QEvent) -> bool:
        """Take the keys of a list before the window steps by them."""
        return keeps(event, _KEYS) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Choose a row, or open it; other keys are the window's."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._open(self.currentIndex())
        elif event.key() in _KEYS:
            super().keyPressEvent(event)
        else:
            event.ignore()


class ItemsModel(QAbstractTableModel):
    """The things in the order in which they are shown."""

    def __init__(self, columns: Sequence[ItemColumn], by: int) -> None:
        super().__init__()
        self.items: list[Any] = []
        self.columns = columns
        self._sorted = by, Qt.SortOrder.DescendingOrder

    def show(
        self, items: Sequence[Any], columns: Sequence[ItemColumn] | None = None
    ) -> None:
        """Show these things, sorted as before."""
        self.beginResetModel()
        self.items, self.columns = [*items], columns or self.columns
        self._order()
        self.endResetModel()

    def sort(
        self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder
    ) -> None:
        self._sorted = column, order
        self.layoutAboutToBeChanged.emit()
        self._order()
        self.layoutChanged.emit()

    def _order(self) -> None:
        column, order = self._sorted
        down = order == Qt.SortOrder.DescendingOrder
        self.items.sort(key=self.columns[max(column, 0)].key, reverse=down)

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.items)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return _(column.title)
        if role == Qt.ItemDataRole.ToolTipRole and column.tip:
            return plain_tip(_(column.tip))
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        item, column = self.items[index.row()], self.columns[index.column()]
        if role == ITEM:
            return item
        if role == Qt.ItemDataRole.DisplayRole:
            return visible(column.text(item))
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(column.text(item))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft
            if column.is_number:
                side = Qt.AlignmentFlag.AlignRight
            return side | Qt.AlignmentFlag.AlignVCenter
        return None
