"""NumberTable: named vectors, number by number, a bar behind each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QLine,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QFont,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QHeaderView,
    QScrollBar,
    QStyle,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from visformer import words
from visformer.language import N_, _
from visformer.pictures.picture import HIGH, LOW, Numbers, Table, is_same
from visformer.ui.look.theme import Dressed, letter_width
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.colour_bar import colour_table
from visformer.ui.widgets.export import CSV, Export
from visformer.ui.widgets.labels import short
from visformer.ui.widgets.plain_label import cut_to_room, plain_tip, written
from visformer.values.arrays import Floats

NOT_KEPT = N_("not kept by the run")
FITTED = 40  # columns up to which each is as wide as its own title needs
FEWEST, MOST_ROWS = 3, 8  # visible rows, the first as long as there are no numbers


class NumberTable(Dressed, QTableView):
    """Shows Numbers; reports the cell under the mouse and the cell clicked."""

    hovered = Signal(object)  # a MapCell or None
    picked = Signal(object)  # a MapCell

    def __init__(
        self, name: str, *, least: int = 2, most: int = MOST_ROWS, hugs: bool = False
    ) -> None:
        """``name``: what a screen reader calls it.

        ``least``: rows that are in sight also where there is little room; ``most``:
        rows that are in sight where there is much. ``hugs``: it would like no more
        width than its columns need.
        """
        super().__init__()
        self.setAccessibleName(name)
        self._least, self._most, self._hugs = least, most, hugs
        self._wide = 0  # pixels of the columns that it hugs
        self.numbers: Numbers | None = None
        self.bars: Floats = np.zeros((0, 0), np.float32)  # [R, C] in [-1, 1]
        self.marked: tuple[int | None, int | None] = (None, None)
        self._sized: Numbers | None = None  # the last that were shown: their room stays
        self._named = 0  # the widest name of a row yet, in pixels
        self._fitting_rows = FEWEST
        self._room = 1 << 16  # pixels of height
        self._model = TableModel(self, self._cell, self._name)
        self.setHorizontalHeader(TitleHeader(Qt.Orientation.Horizontal, self))
        self.setVerticalHeader(TitleHeader(Qt.Orientation.Vertical, self))
        self.setModel(self._model)
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
        self.entered.connect(lambda at: self.hovered.emit(_place(at)))
        self.clicked.connect(lambda at: self.picked.emit(_place(at)))
        self._built = True

    def draw(self, numbers: Numbers | None) -> None:
        """Show numbers; the scroll position stays if possible.

        Where there are none the room of the last ones stays.
        """
        old, self.numbers = self.numbers, numbers
        if is_same(numbers, old) if numbers is not None else old is None:
            return
        self.viewport().update()
        headers = self.verticalHeader(), self.horizontalHeader()
        named = zip(headers, _titles(numbers), _titles(old), strict=True)
        for header, names, before in named:
            if names != before:
                header.viewport().update()
        if numbers is None:
            return
        last, self._sized, self.bars = self._sized, numbers, bar_shares(numbers)
        if last is None or last.axis != numbers.axis:  # begin at the first column
            self._named, self.marked = 0, (None, None)
            self.horizontalScrollBar().setValue(0)
        elif (numbers.rows, numbers.columns) == (last.rows, last.columns):
            return
        shape = len(numbers.rows), len(numbers.columns)
        if shape != (self._model.rowCount(), self._model.columnCount()):
            self._model.resize(*shape)
        self._fit()

    # ---- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint all at once: bars and frames below the numbers, and the grid.

        A delegate would be called for every cell, which takes several times as long.
        """
        painter, numbers = QPainter(self.viewport()), self.numbers
        rows = sections(
            self.verticalHeader(), event.rect().top(), event.rect().bottom()
        )
        columns = sections(
            self.horizontalHeader(), event.rect().left(), event.rect().right()
        )
        if numbers is None or not rows or not columns:
            return
        self._paint_bars(painter, rows, columns)
        self._paint_frames(painter, rows, columns)
        self._paint_numbers(painter, rows, columns)
        self._paint_grid(painter, rows, columns)

    def _paint_bars(
        self, painter: QPainter, rows: list[Section], columns: list[Section]
    ) -> None:
        signed = bool((self.bars < 0).any())
        less: list[QRect] = []
        more: list[QRect] = []
        for row in rows:
            shares = self.bars[row.at].tolist()
            for column in columns:
                share = shares[column.at]
                if share and math.isfinite(share):
                    box = bar_box(box_of(row, column), share, signed)
                    (more if share > 0 else less).append(box)
        for boxes, shade in ((less, 0.2), (more, 0.8)):
            colour = bar_colour(self.palette(), shade)
            for box in boxes:
                painter.fillRect(box, colour)

    def _paint_frames(
        self, painter: QPainter, rows: list[Section], columns: list[Section]
    ) -> None:
        painter.setPen(self.palette().highlight().color())
        marked = [
            box_of(row, column).adjusted(0, 0, -1, -1)
            for row in rows
            for column in columns
            if row.at == self.marked[0] or column.at == self.marked[1]
        ]
        if marked:
            painter.drawRects(marked)

    def _paint_numbers(
        self, painter: QPainter, rows: list[Section], columns: list[Section]
    ) -> None:
        """Write the numbers against the right edges of their cells."""
        metrics = self.fontMetrics()
        margin = self.style().pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin) + 1
        painter.setPen(self.palette().text().color())
        for row in rows:
            line = row.start + (row.end - row.start) // 2
            line += metrics.ascent() - metrics.height() // 2
            for column in columns:
                room = column.end - column.start - 2 * margin
                text = self._text(row.at, column.at)
                wide = metrics.horizontalAdvance(text)
                if wide > room:
                    text = cut_to_room(text, metrics, room)
                    wide = metrics.horizontalAdvance(text)
                painter.drawText(column.end - margin - wide, line, text)

    def _paint_grid(
        self, painter: QPainter, rows: list[Section], columns: list[Section]
    ) -> None:
        hint = QStyle.StyleHint.SH_Table_GridLineColor
        option = QStyleOptionViewItem()
        self.initViewItemOption(option)
        colour = self.style().styleHint(hint, option, self)
        painter.setPen(QColor.fromRgba(colour & 0xFFFFFFFF))
        right, bottom = columns[-1].end, rows[-1].end
        lines = [QLine(0, row.end, right, row.end) for row in rows]
        lines += [QLine(column.end, 0, column.end, bottom) for column in columns]
        painter.drawLines(lines)

    # ---- what is shown ---------------------------------------------------------

    def _name(self, section: int, orientation: Qt.Orientation, role: int) -> object:
        if self.numbers is None:
            return None
        across = orientation == Qt.Orientation.Horizontal
        names = written(self.numbers.columns if across else self.numbers.rows)
        if role == Role.DisplayRole:
            return short(names[section]) if across else names[section]
        if role == Role.ToolTipRole:
            return plain_tip(names[section])
        if role == Role.FontRole and section == self.marked[across]:
            font = QFont()
            font.setBold(True)
            return font
        return None

    def _cell(self, row: int, column: int, role: int) -> object:
        if self.numbers is None:
            return None
        if role == Role.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Role.DisplayRole:
            return self._text(row, column)
        if role == Role.ToolTipRole:
            value = repr(float(self.numbers.values[row, column]))
            tip = _(
                "{row}, {column}: {value}",
                row=self.numbers.rows[row],
                column=self.numbers.columns[column],
                value=value if self.numbers.keeps(row, column) else _(NOT_KEPT),
            )
            return plain_tip(tip)
        return None

    def _text(self, row: int, column: int) -> str:
        if self.numbers is None or not self.numbers.keeps(row, column):
            return ""
        value = float(self.numbers.values[row, column])
        if row in self.numbers.flags:
            return _("yes") if value else _("no")
        return f"{value:,.0f}" if self.numbers.counts else words.short(value)

    def mark(self, row: int | None, column: int | None) -> None:
        """Frame a row and a column, and scroll to them where they are out of sight."""
        if self.marked == (row, column):
            return
        headers = self.verticalHeader(), self.horizontalHeader()
        bars = self.verticalScrollBar(), self.horizontalScrollBar()
        parts = zip(headers, bars, (row, column), self.marked, strict=True)
        for header, bar, section, before in parts:
            if section is not None and section != before:
                self._show(section, header, bar)
            if section != before:
                header.viewport().update()
        self.marked = row, column
        self.viewport().update()

    def _show(self, section: int, header: QHeaderView, bar: QScrollBar) -> None:
        """Scroll to a row or column that is out of sight, about into the middle.

        What is left of it, or above, begins with a whole one.
        """
        if section < header.count():
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

    def table(self) -> Table | None:
        numbers = self.numbers
        if numbers is None:
            return None
        return Table(numbers.rows, numbers.columns, numbers.values)

    def _fit(self) -> None:
        """Size rows and columns; asking Qt to would measure every cell."""
        numbers = self._sized
        metrics = self.fontMetrics()
        space = letter_width(metrics)
        widest = max(map(metrics.horizontalAdvance, ("−0.0000", "−0.0e−00")))
        least = widest + round(1.5 * space)
        across, down = self.horizontalHeader(), self.verticalHeader()
        sizes = (across, least), (down, metrics.height() + 4)
        for header, size in sizes:
            if size != header.defaultSectionSize():  # Qt would paint all titles again
                header.setDefaultSectionSize(size)
        names = numbers.columns if numbers is not None else ()
        names = names if len(names) <= FITTED else ()
        for column, name in enumerate(names):
            told = [short(name)]
            if numbers is not None and numbers.counts:
                told += [self._text(row, column) for row in range(len(numbers.rows))]
            wide = max(map(metrics.horizontalAdvance, told)) + 3 * space
            across.resizeSection(column, max(least, wide))
        for column in range(len(names), min(FITTED, self._model.columnCount())):
            across.resizeSection(column, least)  # as wide as other names needed it
        longest = sorted(numbers.rows, key=len)[-3:] if numbers is not None else []
        wide = max(map(metrics.horizontalAdvance, longest), default=0) + 3 * space
        # names that come and go with the steps move nothing
        self._named = max(self._named, wide)
        wide = min(self._named, max(20 * space, self.width() // 3))
        if wide != down.maximumWidth():
            down.setFixedWidth(wide)
            self.updateGeometries()  # else the names lie over the first column
            if self.marked[1] is not None:
                self._show(self.marked[1], across, self.horizontalScrollBar())
        rows = len(numbers.rows) if numbers is not None else FEWEST
        most = (self._room - self._height(0)) // down.defaultSectionSize()
        self._fitting_rows = min(rows, max(2, min(self._most, most)))
        bar = self.verticalScrollBar().sizeHint().width() + 2 * self.frameWidth()
        wide = down.maximumWidth() + across.length() + bar if self._hugs else 0
        if (self.maximumHeight(), self._wide) != (
            self._height(self._fitting_rows),
            wide,
        ):
            self._wide = wide
            self.setMaximumHeight(self._height(self._fitting_rows))
            self.updateGeometry()

    def set_room(self, pixels: int) -> None:
        """Take at most this height."""
        if pixels != self._room:
            self._room = pixels
            self._fit()

    def _height(self, rows: int) -> int:
        """Return the height of this many rows, with header, scroll bar and frame."""
        around = self.horizontalHeader().sizeHint().height()
        around += self.horizontalScrollBar().sizeHint().height() + 2 * self.frameWidth()
        return around + rows * self.verticalHeader().defaultSectionSize()

    def sizeHint(self) -> QSize:
        """As high as the rows that are shown without scrolling."""
        wide = max(self._wide, self.minimumWidth())
        return QSize(wide, self._height(self._fitting_rows))

    def minimumSizeHint(self) -> QSize:
        least = self._height(min(self._least, self._fitting_rows))
        return QSize(super().minimumSizeHint().width(), least)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the names of the rows within a third of the width."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit()

    def _dress(self) -> None:
        self._named = 0
        self._fit()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy all numbers, scroll with Up and Down; other keys are the window's."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.export.copy(CSV)
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            super().keyPressEvent(event)
        else:
            event.ignore()


def _titles(numbers: Numbers | None) -> tuple[object, object]:
    """Return what the titles of rows and columns follow from."""
    if numbers is None:
        return None, None
    return (numbers.axis, numbers.rows), (numbers.axis, numbers.columns)


def _place(at: QModelIndex) -> MapCell:
    return MapCell(at.row(), at.column())


def bar_shares(numbers: Numbers) -> Floats:
    """Return every number as a share of the largest one it is compared with.

    float32 [R, C] in [-1, 1], or NaN.
    """
    axis = {"row": 1, "column": 0, "all": None}[numbers.by]
    magnitude = np.abs(numbers.values)
    # next to a masked value no other bar would be visible
    if not numbers.counts:
        magnitude = np.where(magnitude < 1e5, magnitude, np.float32(0))
    if not magnitude.size:
        return magnitude
    top = magnitude.max(axis, keepdims=True)
    if numbers.full:
        top = np.array(numbers.full, np.float32)[:, None]
    shares = np.sign(numbers.values) * magnitude / np.where(top > 0, top, 1)
    scaled: Floats = shares.astype(np.float32)
    return scaled


def bar_box(box: QRect, share: float, signed: bool) -> QRect:
    """Return a bar's place: from the middle if there are negative numbers."""
    inner = box.adjusted(1, 2, -2, -2)
    room = inner.width() // 2 if signed else inner.width()
    length = round(room * abs(share))
    start = inner.left() + (room if signed else 0)
    left = start - length if share < 0 else start
    return QRect(left, inner.top(), length, inner.height())


def bar_colour(palette: QPalette, share: float) -> QColor:
    """Return a heat map's colour of a share of its range, faint enough to read over."""
    code = LOW + round((HIGH - LOW) * share)
    red, green, blue, _ = colour_table(palette, signed=True)[code].tolist()
    return QColor(red, green, blue, 120)


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

    def resize(self, rows: int, columns: int) -> None:
        """Add or remove the last rows; ask for everything again in other columns."""
        before = self._shape[0]
        if columns != self._shape[1]:
            self.reset(rows, columns)
        elif rows > before:
            self.beginInsertRows(NOWHERE, before, rows - 1)
            self._shape = rows, columns
            self.endInsertRows()
        elif rows < before:
            self.beginRemoveRows(NOWHERE, rows, before - 1)
            self._shape = rows, columns
            self.endRemoveRows()

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


class TitleHeader(QHeaderView):
    """Titles of rows or columns: a few are measured; Qt asks for 200 in four roles."""

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
