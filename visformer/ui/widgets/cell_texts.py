"""CellTexts: a token and a number written in each cell of a heat map."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from visformer.pictures.logit_lens import Text
from visformer.pictures.picture import Matrix
from visformer.ui.widgets.canvas import Canvas
from visformer.ui.widgets.colour_map import codes, colour_table, inks

STACKED = 2.3  # lines of height from which the number goes below the token
FEWEST = 3  # characters of a token that are worth writing
CENTRE = Qt.AlignmentFlag.AlignCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class CellTexts(QWidget):
    """Lies over the cells of a map, ignores the mouse, and follows zoom and drag."""

    resized = Signal()

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self.texts: tuple[tuple[Text, ...], ...] = ()
        self._matrix: Matrix | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        canvas.digits = False  # these texts stand in their place
        canvas.moved.connect(self.update)
        canvas.installEventFilter(self)

    def draw(self, matrix: Matrix | None, texts: tuple[tuple[Text, ...], ...]) -> None:
        """Write these texts on the cells of the matrix that the map shows."""
        self._matrix, self.texts = matrix, texts
        self.raise_()
        self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the size of the cells."""
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._canvas.rect())
            self.resized.emit()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        """Write on the visible cells, as far as there is space."""
        view, matrix = self._canvas.view, self._matrix
        if matrix is None or not self.texts:
            return
        painter = QPainter(self)
        cell_codes = codes(matrix.shade, matrix.masked)
        colours = colour_table(self.palette(), signed=matrix.signed)
        ink = inks(colours, self.palette())
        wide, high = self.width() / view.width(), self.height() / view.height()
        last_row = min(len(self.texts), math.ceil(view.bottom()))
        last_column = min(len(self.texts[0]), math.ceil(view.right()))
        for row in range(max(0, math.floor(view.top())), last_row):
            for column in range(max(0, math.floor(view.left())), last_column):
                left, top = (column - view.x()) * wide, (row - view.y()) * high
                painter.setPen(ink[cell_codes[row, column]])
                box = QRectF(left, top, wide, high)
                _write(painter, box, self.texts[row][column])


def _write(painter: QPainter, box: QRectF, text: Text) -> None:
    """Write the token above the number, or before it, or alone, as space allows."""
    metrics = painter.fontMetrics()
    letter, line = metrics.averageCharWidth(), metrics.height()
    inner = box.adjusted(letter / 2, 0, -letter / 2, 0)
    room = inner.width()
    if room < FEWEST * letter or box.height() < 0.8 * line:
        return
    token, number = text
    whole, number_room = (metrics.horizontalAdvance(part) for part in text)
    if number and box.height() >= STACKED * line and number_room <= room:
        upper = QRectF(inner.x(), box.center().y() - line, room, line)
        painter.drawText(upper.translated(0, line), CENTRE, number)
        inner = upper
    elif number and whole + number_room + letter <= room:
        painter.drawText(inner, RIGHT, number)
        inner = inner.adjusted(0, 0, -number_room - letter / 2, 0)
    if whole > inner.width():
        elided = Qt.TextElideMode.ElideRight
        token = metrics.elidedText(token, elided, math.floor(inner.width()))
    painter.drawText(inner, CENTRE, token)
