"""CellTexts: a token and a number written into each cell of a heat map."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QWidget

from visformer.state.pictures.logit_lens import Text
from visformer.state.pictures.picture import Matrix
from visformer.ui.canvas import Canvas
from visformer.ui.colour_map import codes, table

FEWEST = 3  # characters of a token that are worth writing
DARK = 0.18  # relative luminance below which a ground takes white text


class CellTexts(QWidget):
    """Lies over the cells of a map, sees no mouse, and follows zoom and drag."""

    resized = Signal()

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self.texts: tuple[tuple[Text, ...], ...] = ()
        self._matrix: Matrix | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        canvas.moved.connect(self.update)
        canvas.installEventFilter(self)

    def draw(self, matrix: Matrix | None, texts: tuple[tuple[Text, ...], ...]) -> None:
        """Write these texts on the cells of the matrix that the map shows."""
        self._matrix, self.texts = matrix, texts
        self.raise_()
        self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the cells."""
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._canvas.rect())
            self.resized.emit()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        """Write on the cells in sight, as far as there is room."""
        view, matrix = self._canvas.view, self._matrix
        if matrix is None or not self.texts:
            return
        painter = QPainter(self)
        colours = table(self.palette(), matrix.ends)
        made = codes(matrix.shade, matrix.hidden)
        wide, high = self.width() / view.width(), self.height() / view.height()
        last_row = min(len(self.texts), math.ceil(view.bottom()))
        last_column = min(len(self.texts[0]), math.ceil(view.right()))
        for row in range(max(0, math.floor(view.top())), last_row):
            for column in range(max(0, math.floor(view.left())), last_column):
                left, top = (column - view.x()) * wide, (row - view.y()) * high
                red, green, blue, _ = colours[made[row, column]].tolist()
                painter.setPen(_ink(QColor(red, green, blue), self.palette()))
                box = QRectF(left, top, wide, high)
                self._write(painter, box, self.texts[row][column])

    def _write(self, painter: QPainter, box: QRectF, text: Text) -> None:
        """Write the token over the number, or before it, or alone, as there is room."""
        metrics = painter.fontMetrics()
        gap = metrics.averageCharWidth() / 2
        inner = box.adjusted(gap, 0, -gap, 0)
        room = inner.width()
        token, number = text
        if (
            room < FEWEST * metrics.averageCharWidth()
            or box.height() < 0.8 * metrics.height()
        ):
            return
        whole, number_room = (metrics.horizontalAdvance(part) for part in text)
        centre, middle = Qt.AlignmentFlag.AlignHCenter, Qt.AlignmentFlag.AlignVCenter
        if number and box.height() >= 2 * metrics.height() and number_room <= room:
            line = metrics.height()
            upper = QRectF(inner.x(), box.center().y() - line, room, line)
            painter.drawText(upper.translated(0, line), centre | middle, number)
            inner = upper
        elif number and whole + number_room + 2 * gap <= room:
            painter.drawText(inner, Qt.AlignmentFlag.AlignRight | middle, number)
            inner = inner.adjusted(0, 0, -number_room - gap, 0)
        shown = metrics.elidedText(
            token, Qt.TextElideMode.ElideRight, math.floor(inner.width())
        )
        painter.drawText(inner, centre | middle, shown)


def _ink(ground: QColor, palette: QPalette) -> QColor:
    """Return the one of text and base colour that stands out on a ground."""
    ends = [
        palette.color(role) for role in (palette.ColorRole.Text, palette.ColorRole.Base)
    ]
    dark, light = sorted(ends, key=_luminance)
    return light if _luminance(ground) < DARK else dark


def _luminance(colour: QColor) -> float:
    """Relative luminance (WCAG 2.1), in [0, 1]."""
    parts = (colour.redF(), colour.greenF(), colour.blueF())
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
