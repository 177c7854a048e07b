"""The rows of the next-token table: rank, token and probability over a bar."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import QHeaderView, QTableView

from visformer import words
from visformer.pictures.candidates import BEST, CandidateRow
from visformer.ui import theme
from visformer.ui.raw_pieces import written
from visformer.values.step import CANDIDATES

LEAST_TOKEN = 8  # characters of a token, before its rank is left out
FEWEST = 4  # rows that what is below the table does not take
ROW = 1.45  # height of a row, in lines of text
STRONG, WEAK = 0.42, 0.2  # opacity of the chosen row's bar, and of the others'
LEFT, RIGHT = (
    side.value | Qt.AlignmentFlag.AlignVCenter.value
    for side in (Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight)
)


class CandidateBars(QTableView):
    """Paints its rows itself; Enter chooses one."""

    entered_row = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.chosen_font = QFont(self.font())
        self._rows: Sequence[CandidateRow] = ()
        self._hint = ""
        self._places = BEST  # rows that there is room for, also while there are none
        self._fitted: tuple[object, ...] = ()  # what rows and columns were sized for
        self.yields = False  # what is below it comes first where there is little room
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)
        self.setShowGrid(False)
        self.setFrameShape(QTableView.Shape.NoFrame)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.horizontalHeader().hide()
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setMinimumSectionSize(1)
        self.horizontalHeader().setMinimumSectionSize(1)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)

    def fit(self, rows: Sequence[CandidateRow], *, whole: bool) -> None:
        """Size rows and columns; asking Qt to would measure every cell each step.

        ``whole``: the rows may be so many that they are scrolled. Where there are none,
        the room of the last ones stays: the first step moves nothing.
        """
        self._rows = rows
        self._places = len(rows) or self._places
        self.chosen_font = theme.sized(self.font(), 1, bold=True)
        needs = self._places, whole, self.chosen_font, self._widest()
        if needs == self._fitted:
            return
        self._fitted = needs
        height = round(ROW * QFontMetrics(self.chosen_font).height())
        self.verticalHeader().setDefaultSectionSize(height)
        high = self._places * height
        self.setMinimumHeight(min(3 * height, high))
        self.setMaximumHeight(high if not whole else 1 << 20)
        self.updateGeometry()
        self._fit_columns()

    def hint(self, words: str) -> None:
        """Say in place of the rows why there are none."""
        if words != self._hint:
            self._hint = words
            self.setAccessibleDescription(words)
            self.viewport().update()

    def _widest(self) -> str:
        """Return digits as many as the longest rank has."""
        most = max([len(self._rows), *(row.rank for row in self._rows[:CANDIDATES])])
        return "0" * max(2, len(str(most)))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint row by row, over each bar its texts; a delegate takes several times."""
        painter, palette = QPainter(self.viewport()), self.palette()
        if not self._rows:
            self._paint_hint(painter)
            return
        accent = palette.color(QPalette.ColorRole.Highlight)
        bar, whole = QColor(accent), self.viewport().width()
        focused = self.currentIndex().row() if self.hasFocus() else -1
        high = self.verticalHeader().defaultSectionSize()
        top, bottom = (
            self.rowAt(y) for y in (event.rect().top(), event.rect().bottom())
        )
        last = len(self._rows) - 1 if bottom < 0 else bottom
        fonts = self.font(), self.chosen_font
        columns = self._rooms()
        for index in range(top, last + 1) if top >= 0 else ():
            row, top = self._rows[index], self.rowViewportPosition(index)
            if not math.isnan(row.probability):
                bar.setAlphaF(STRONG if row.chosen else WEAK)
                length = round(whole * row.probability)
                painter.fillRect(QRect(0, top + 1, length, high - 2), bar)
            painter.setFont(fonts[row.chosen])
            for (left, wide, side, ink), text in zip(columns, _texts(row), strict=True):
                painter.setPen(ink)
                if side == LEFT:  # the others' columns are made for what is in them
                    cut = Qt.TextElideMode.ElideRight
                    text = painter.fontMetrics().elidedText(text, cut, wide)
                if wide > 0:
                    painter.drawText(QRect(left, top, wide, high), side, text)
            if row.chosen or index == focused:
                painter.setPen(accent)
                painter.drawRect(QRect(0, top, whole - 1, high - 1))

    def _paint_hint(self, painter: QPainter) -> None:
        edge = theme.gap(self)
        room = self.viewport().rect().adjusted(edge, edge, -edge, -edge)
        painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
        painter.drawText(room, Qt.TextFlag.TextWordWrap, self._hint)

    def _rooms(self) -> list[tuple[int, int, int, QColor]]:
        """Return where rank, token and probability are written, on which side, how."""
        palette, edge, rooms = self.palette(), theme.gap(self), []
        faint = palette.color(QPalette.ColorRole.PlaceholderText)
        text = palette.color(QPalette.ColorRole.Text)
        for column, ink in enumerate((faint, text, text)):
            left, wide = self.columnViewportPosition(column), self.columnWidth(column)
            start = left + (edge // 2 if column else edge)
            room = left + wide - edge // 2 - start if wide > 1 else 0
            rooms.append((start, room, LEFT if column == 1 else RIGHT, ink))
        return rooms

    def _fit_columns(self) -> None:
        if self.model() is None:
            return
        metrics, room = QFontMetrics(self.chosen_font), self.viewport().width()
        rank = metrics.horizontalAdvance(self._widest()) + 2 * theme.gap(self)
        value = metrics.horizontalAdvance("0.0e−00") + theme.gap(self)
        narrow = room - rank - value < LEAST_TOKEN * metrics.averageCharWidth()
        rank = 1 if narrow else rank  # the rows stand in the order of the ranks
        for column, width in enumerate((rank, max(1, room - rank - value), value)):
            self.setColumnWidth(column, width)

    def resizeEvent(self, event: QEvent) -> None:
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._fit_columns()

    def sizeHint(self) -> QSize:
        """As high as its rows, where they are not scrolled."""
        high = min(self.maximumHeight(), 10_000)
        if self.yields:
            high = min(high, FEWEST * self.verticalHeader().defaultSectionSize())
        return QSize(super().sizeHint().width(), high)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Leave the right button to the menu: it chooses no row."""
        if event.button() == Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter chooses; the window's keys (Space, arrows sideways) are left to it."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.entered_row.emit(self.currentIndex())
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            super().keyPressEvent(event)
        else:
            event.ignore()


def _texts(row: CandidateRow) -> tuple[str, str, str]:
    """Return rank, token and probability; of what is no candidate the token."""
    (token,) = written((row.token,))
    if not row.rank:
        return "", token, ""
    return str(row.rank), token, words.probability(row.probability)
