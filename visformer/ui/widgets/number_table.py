"""NumberTable: named vectors, number by number, a bar behind each."""

import math
from functools import partial

import numpy as np
from PySide6.QtCore import QEvent, QSize, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QTableView

from visformer import words
from visformer.language import N_, _
from visformer.pictures.picture import HIGH, LOW, Numbers, Table, is_same
from visformer.ui.look.theme import letter_width
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.colour_bar import colour_table
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.labels import short
from visformer.ui.widgets.plain_label import written
from visformer.ui.widgets.table_view import (
    RIGHT,
    ROWS,
    CellBar,
    Index,
    TableColumn,
    TableView,
)
from visformer.values.arrays import Floats

NOT_KEPT = N_("not kept by the run")
WIDEST = "−0.0000", "−0.0e−00"


class NumberTable(TableView):
    """Shows Numbers; reports the MapCell under the mouse and the one clicked."""

    hovered = Signal(object)  # a MapCell or None
    export: Export

    def __init__(
        self, name: str, *, least: int = 2, most: int = ROWS, hugs: bool = False
    ) -> None:
        """``hugs``: it would like no more width than its columns need."""
        self.numbers: Numbers | None = None
        self.bars: Floats = np.zeros((0, 0), np.float32)  # [R, C] in [-1, 1]
        self._hugs = hugs
        self._axis = ""  # of the last numbers that were shown
        self._built_for: tuple[tuple[str, ...], list[TableColumn]] = (), []
        self._signed = False  # some bar goes to the left
        self._named = 0  # the widest name of a row yet, in pixels
        self._room = 1 << 16  # pixels of height
        names = TableColumn("", self._name)
        super().__init__(name, names=names, least=least, most=most)
        self.setMouseTracking(True)
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)
        self.export = Export(self, self.table)
        self.entered.connect(lambda at: self.hovered.emit(self.item(at)))

    def draw(self, numbers: Numbers | None) -> None:
        """Show numbers; the scroll position stays if possible.

        Where there are none the room of the last ones stays.
        """
        old, self.numbers = self.numbers, numbers
        if is_same(numbers, old) if numbers is not None else old is None:
            return
        if numbers is None:
            blank = [column._replace(title="", about="") for column in self.columns]
            self.fill(self.items, blank)
            return
        self.bars = bar_shares(numbers)
        self._signed = bool((self.bars < 0).any())
        if self._axis != numbers.axis:  # begin at the first column
            self._axis, self._named = numbers.axis, 0
            self.mark(None, None)
            self.horizontalScrollBar().setValue(0)
        self.fill(range(len(numbers.rows)), self._columns(numbers))

    def _columns(self, numbers: Numbers) -> list[TableColumn]:
        """Return the columns of these numbers: the last ones where they are named so.

        (A step has other numbers only, and thousands of columns take milliseconds.)
        """
        names = written(numbers.columns)
        if numbers.counts or self._built_for[0] != names:
            self._built_for = names, [*map(self._column, range(len(names)), names)]
        return self._built_for[1]

    def _column(self, at: int, name: str) -> TableColumn:
        return TableColumn(
            short(name),
            partial(self._text, at),
            (*WIDEST, *self._counts(at)),
            about=name,
            tip=partial(self._tip, at),
            side=RIGHT,
            bar=partial(self._bar, at),
        )

    def _counts(self, column: int) -> list[str]:
        """Return the whole numbers of a column, which may be long."""
        numbers = self.numbers
        if numbers is None or not numbers.counts:
            return []
        return [self._text(column, row) for row in range(len(numbers.rows))]

    def _name(self, row: int) -> str:
        return written((self.numbers.rows[row],))[0] if self.numbers else ""

    def _text(self, column: int, row: int) -> str:
        if self.numbers is None or not self.numbers.keeps(row, column):
            return ""
        value = float(self.numbers.values[row, column])
        if row in self.numbers.flags:
            return _("yes") if value else _("no")
        return f"{value:,.0f}" if self.numbers.counts else words.short(value)

    def _tip(self, column: int, row: int) -> str:
        if self.numbers is None:
            return ""
        value = repr(float(self.numbers.values[row, column]))
        return _(
            "{row}, {column}: {value}",
            row=self.numbers.rows[row],
            column=self.numbers.columns[column],
            value=value if self.numbers.keeps(row, column) else _(NOT_KEPT),
        )

    def _bar(self, column: int, row: int) -> CellBar | None:
        share = float(self.bars[row, column]) if self.numbers else 0.0
        if not share or not math.isfinite(share):
            return None
        colour = bar_colour(self.palette(), 0.8 if share > 0 else 0.2)
        return CellBar(share, colour, self._signed)

    def item(self, index: Index) -> object:
        return MapCell(index.row(), index.column())

    def table(self) -> Table | None:
        numbers = self.numbers
        if numbers is None:
            return None
        return Table(numbers.rows, numbers.columns, numbers.values)

    # ---- sizes -----------------------------------------------------------------

    def _dress(self) -> None:
        self._named = 0
        if self.numbers is not None:  # its names may be written otherwise now
            self.fill(self.items, self._columns(self.numbers))
        self._fit()

    def _fit(self) -> None:
        """Keep the names of the rows within a third of the width."""
        numbers, down = self.numbers, self.verticalHeader()
        if numbers is None and self.items:
            return
        super()._fit()
        # names that come and go with the steps move nothing
        longest = sorted(numbers.rows, key=len)[-3:] if numbers is not None else ()
        self._named = max(self._named, self._wide(longest, 3))
        most = 20 * letter_width(self.fontMetrics()), self.width() // 3
        wide = min(self._named, max(most))
        if wide != down.maximumWidth():
            down.setFixedWidth(wide)
            self.updateGeometries()  # else the names lie over the first column
            if self.marked[1] is not None:
                across = self.horizontalHeader()
                self._show(self.marked[1], across, self.horizontalScrollBar())

    def set_room(self, pixels: int) -> None:
        """Take at most this height."""
        if pixels != self._room:
            self._room = pixels
            self._fit()

    def _fitting(self) -> int:
        most = (self._room - self._height(0)) // self._line()
        return min(super()._fitting(), max(2, most))

    def sizeHint(self) -> QSize:
        """As wide as its columns need, or as narrow as there is room."""
        wide = self.minimumWidth()
        if self._hugs:
            bar = self.verticalScrollBar().sizeHint().width() + 2 * self.frameWidth()
            columns = self.horizontalHeader().length()
            wide = max(wide, self.verticalHeader().maximumWidth() + columns + bar)
        return QSize(wide, super().sizeHint().height())

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)


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


def bar_colour(palette: QPalette, share: float) -> QColor:
    """Return a heat map's colour of a share of its range, faint enough to read over."""
    code = LOW + round((HIGH - LOW) * share)
    red, green, blue, _ = colour_table(palette, signed=True)[code].tolist()
    return QColor(red, green, blue, 120)
