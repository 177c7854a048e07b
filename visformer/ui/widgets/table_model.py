"""TableModel: a read-only table that is asked for one cell at a time; its places."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtWidgets import QHeaderView, QWidget

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
Role = Qt.ItemDataRole
TITLE_ROLES = frozenset(map(int, (Role.DisplayRole, Role.ToolTipRole, Role.FontRole)))


class TableModel(QAbstractTableModel):
    """Gives Qt what two functions return for the visible cells and titles."""

    def __init__(
        self,
        parent: QWidget,
        cell: Callable[[int, int, int], object],
        title: Callable[[int, Qt.Orientation, int], object],
    ) -> None:
        """``cell`` takes row, column and role; ``title`` the section instead."""
        super().__init__(parent)
        self._cell, self._title = cell, title
        self._shape = (0, 0)

    def reset(self, rows: int, columns: int) -> None:
        """Ask for everything again; there are this many rows and columns."""
        self.beginResetModel()
        self._shape = rows, columns
        self.endResetModel()

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else self._shape[0]

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else self._shape[1]

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Role.DisplayRole
    ) -> object:
        """Return the title of a row or column in a role; Qt asks in many more."""
        told = role in TITLE_ROLES
        return self._title(section, orientation, role) if told else None

    def data(self, index: Index, role: int = Role.DisplayRole) -> object:
        """Return a cell in a role."""
        return self._cell(index.row(), index.column(), role)


MEASURED = 8  # titles whose size is that of all


class TitleRow(QHeaderView):
    """Titles of one line: a few are measured, where Qt asks for 200 in four roles."""

    _measured: tuple[object, QSize] | None = None  # titles and font, and their size

    def sizeHint(self) -> QSize:
        """Return the largest room that the first few titles need, or last needed."""
        count, model = min(MEASURED, self.count()), self.model()
        if not count:
            return self._measured[1] if self._measured else super().sizeHint()
        titles = [model.headerData(at, self.orientation()) for at in range(count)]
        if self._measured is None or self._measured[0] != (titles, self.font()):
            size = QSize()
            for section in range(count):
                size = size.expandedTo(self.sectionSizeFromContents(section))
            self._measured = (titles, self.font()), size
        return self._measured[1]


class Section(NamedTuple):
    """A row or a column that can be seen, and where it lies in the viewport."""

    at: int
    start: int  # pixels
    end: int  # the pixel of the grid after it


def sections(header: QHeaderView, first: int, last: int) -> list[Section]:
    """Return the sections that have a pixel from ``first`` to ``last``."""
    found, at = [], header.logicalIndexAt(max(0, first))
    while 0 <= at < header.count():
        start = header.sectionViewportPosition(at)
        if start > last:
            break
        found.append(Section(at, start, start + header.sectionSize(at) - 1))
        at += 1
    return found


def box_of(row: Section, column: Section) -> QRect:
    """Return a cell without its lines of the grid."""
    return QRect(
        column.start, row.start, column.end - column.start, row.end - row.start
    )
