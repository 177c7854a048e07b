"""CellTexts: a token and a number written in each cell of a heat map."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QObject, QPointF, QRect, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from visformer.pictures.logit_lens import Text
from visformer.pictures.picture import NOTHING, Bytes, Matrix, codes
from visformer.ui.look.theme import letter_width
from visformer.ui.widgets.canvas import Canvas
from visformer.ui.widgets.colour_map import colour_table, inks
from visformer.ui.widgets.plain_label import cut_to_room, written
from visformer.words import NOUGHT

STACKED = 2.3  # lines of height from which the number goes below the token
FEWEST = 3  # characters of a token that are worth writing
ENOUGH = 8  # characters of one that is cut where a number stands beside it


class CellTexts(QWidget):
    """Lies over the cells of a map, ignores the mouse, and follows zoom and drag."""

    resized = Signal()

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self.texts: tuple[tuple[Text, ...], ...] = ()
        self._matrix: Matrix | None = None
        self._codes = NOTHING  # of the matrix
        self._widths: dict[str, float] = {}  # of texts in this font, in pixels
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        canvas.digits = False  # these texts stand in their place
        canvas.moved.connect(self.update)
        canvas.installEventFilter(self)

    def draw(self, matrix: Matrix | None, texts: tuple[tuple[Text, ...], ...]) -> None:
        """Write these texts on the cells of the matrix that the map shows."""
        before = self.texts, self._codes
        self._matrix, self.texts = matrix, texts
        self._codes = NOTHING if matrix is None else codes(matrix.shade, matrix.masked)
        for row in self._changed_rows(*before):
            self.update(self._around(row))

    def _changed_rows(
        self, texts: tuple[tuple[Text, ...], ...], shades: Bytes
    ) -> list[int]:
        """Return the rows that are new, gone, or not as they were."""
        rows = range(max(len(texts), len(self.texts)))
        if shades.shape[1] != self._codes.shape[1]:
            return list(rows)
        both = min(len(texts), len(self.texts), len(shades), len(self._codes))
        same = (shades[:both] == self._codes[:both]).all(1)
        return [
            row
            for row in rows
            if row >= both or not same[row] or texts[row] != self.texts[row]
        ]

    def _around(self, row: int) -> QRect:
        """Return where a row is written, in pixels; texts may stand out a little."""
        view, over = self._canvas.view, self.fontMetrics().height() // 2
        high = self.height() / view.height()
        first = math.floor((row - view.y()) * high)
        return QRect(0, first - over, self.width(), math.ceil(high) + 2 * over)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the size of the cells."""
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._canvas.rect())
            self.resized.emit()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        view, matrix = self._canvas.view, self._matrix
        if matrix is None or not self.texts:
            return
        painter = QPainter(self)
        colours = colour_table(self.palette(), signed=matrix.signed)
        ink = inks(colours, self.palette())
        wide, high = self.width() / view.width(), self.height() / view.height()
        writer = _Writer(painter, self._widths, wide, high)
        last_row = min(len(self.texts), math.ceil(view.bottom()))
        last_column = min(len(self.texts[0]), math.ceil(view.right()))
        for row in range(max(0, math.floor(view.top())), last_row):
            if not event.rect().intersects(self._around(row)):
                continue
            for column in range(max(0, math.floor(view.left())), last_column):
                left, top = (column - view.x()) * wide, (row - view.y()) * high
                painter.setPen(ink[self._codes[row, column]])
                token, number = self.texts[row][column]
                writer.write(left, top, (written((token,))[0], number))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self._widths = {}


class _Writer:
    """Writes tokens and numbers into cells of one size, at points.

    Qt is asked for the width of each text once: to align a text in a box it would lay
    it out twice.
    """

    def __init__(
        self, painter: QPainter, widths: dict[str, float], wide: float, high: float
    ) -> None:
        """``widths``: those known of texts, to be added to; a cell's size in pixels."""
        self._painter, self._widths = painter, widths
        self._metrics = QFontMetricsF(painter.font())
        self._letter = letter_width(painter.fontMetrics())
        self._line = painter.fontMetrics().height()
        self._room, self._high = wide - self._letter, high

    def write(self, left: float, top: float, text: Text) -> None:
        """Write the token above the number, or before it, or alone, as space allows."""
        token, number = text
        number = "" if number == NOUGHT else number  # as in a map's cells
        room, high, line = self._room, self._high, self._line
        if room < FEWEST * self._letter or high < 0.8 * line:
            return
        left += self._letter / 2
        whole, number_room = round(self._width(token)), round(self._width(number))
        if number and high >= STACKED * line and number_room <= room:
            middle = top + high / 2
            self._put(left, room, middle, line, number)
            top, high = middle - line, line
        elif number and self._has_room(whole, number_room + self._letter):
            self._put(left, room, top, high, number, share=1)
            room -= number_room + self._letter / 2
        if whole > room:
            token = cut_to_room(token, self._painter.fontMetrics(), room)
        self._put(left, room, top, high, token)

    def _has_room(self, token: int, number: float) -> bool:
        """Tell whether a number stands beside a token, or beside enough of a long one.

        Both are widths in pixels.
        """
        return min(token, ENOUGH * self._letter) + number <= self._room

    def _put(
        self,
        left: float,
        room: float,
        top: float,
        high: float,
        text: str,
        share: float = 0.5,
    ) -> None:
        """Write in the middle of a height; ``share`` of the free room is before it."""
        metrics = self._metrics
        before = share * (room - self._width(text))
        down = (high - metrics.height()) / 2 + metrics.ascent()
        self._painter.drawText(QPointF(left + before, top + down), text)

    def _width(self, text: str) -> float:
        if text not in self._widths:
            self._widths[text] = self._metrics.horizontalAdvance(text)
        return self._widths[text]
