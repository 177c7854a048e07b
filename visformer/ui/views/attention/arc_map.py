"""Arcs from the tokens that read, on the left, to the tokens that are read."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QMouseEvent,
    QPaintEngine,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
    QPixmap,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from visformer.pictures.attention.arcs import Arcs, arcs
from visformer.pictures.attention.maps import Marks
from visformer.pictures.picture import Matrix
from visformer.pictures.selection import TokenRole
from visformer.ui.look.theme import Dressed, hue, letter_width
from visformer.ui.widgets.labels import axis_ink, label_font, labels_width, short
from visformer.ui.widgets.plain_label import cut_to_room, written
from visformer.words import share

WIDEST = 3.5  # pixels that an arc of weight 1 is wider than the thinnest, of 0.5
FAINTEST = 0.25  # opacity of an arc of weight 0; of weight 1 it is 1
FADED = 0.15  # opacity of the arcs when some stand out
LEVELS = 20  # of width and opacity
LABEL_SHARES = 0.46, 0.3  # of the width: the most that the labels of each side take

SIDES = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight  # of the titles


class SideToken(NamedTuple):
    """A token of the queries or of the keys."""

    side: TokenRole
    place: int  # in its sentence


class TokenCanvas(QWidget):
    """Reports the token under the mouse as (side, index)."""

    pointed = Signal(object)  # a SideToken or None
    clicked = Signal(object)  # the same

    def __init__(self) -> None:
        super().__init__()
        self._under: SideToken | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def token_at(self, at: QPointF) -> SideToken | None:
        """Return the token at a point."""
        raise NotImplementedError

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(self.token_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(self.token_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        self._point(None)

    def _point(self, at: SideToken | None) -> None:
        if at != self._under:
            self._under = at
            self.pointed.emit(at)


class ArcsCanvas(Dressed, TokenCanvas):
    """Draws a Matrix as arcs; reports the token under the mouse as (side, index)."""

    def __init__(self) -> None:
        super().__init__()
        self._matrix: Matrix | None = None
        self._mass = 1.0
        self._extent = 1  # rows or columns for which there is space
        self._marks = Marks()
        self._by: TokenRole = "query"
        self._arcs: tuple[range, Arcs] | None = None  # of the visible rows
        self._layer: tuple[tuple[object, ...], QPixmap] | None = None

    # ---- what is shown ---------------------------------------------------------

    def draw(self, matrix: Matrix, mass: float, extent: tuple[int, int]) -> None:
        """Show the fewest keys that carry ``mass`` of each row."""
        self._matrix, self._mass = matrix, mass
        self._arcs = self._layer = None
        self._extent = max(1, *extent, *matrix.values.shape)
        self.dress()
        self.update()

    def mark(self, marks: Marks, by: TokenRole) -> None:
        """Mark tokens; the arcs of the marked queries (or keys) stand out."""
        if (marks, by) != (self._marks, self._by):
            self._marks, self._by = marks, by
            self.update()

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        return QSize(20 * line, (self._extent + 1) * line)

    def _line(self) -> int:
        return self.fontMetrics().height() + 1

    def _pitch(self) -> float:
        room = self.height() - self._line()  # below the titles of both sides
        return min(2.5 * self._line(), room / self._extent)

    def line_of(self, index: float) -> float:
        """Return the y of a row's or a column's middle."""
        return self._line() + (index + 0.5) * self._pitch()

    def _sides(self) -> tuple[float, float]:
        """Return where arcs begin and end."""
        if self._matrix is None:
            return 0.0, float(self.width())
        left, right = (
            min(
                labels_width(self.font(), labels) + self._letter(), share * self.width()
            )
            for labels, share in zip(self._labels(), LABEL_SHARES, strict=True)
        )
        return left, self.width() - right

    def _labels(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        matrix = self._matrix
        if matrix is None:
            return (), ()
        return written(matrix.rows), written(matrix.columns)

    def _letter(self) -> int:
        return letter_width(self.fontMetrics())

    # ---- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        matrix = self._matrix
        if matrix is None or not matrix.values.size:
            return
        painter = QPainter(self)
        pitch, seen = self._pitch(), self.visibleRegion().boundingRect()
        first = max(0, math.floor((seen.top() - self._line()) / pitch))
        last = max(0, math.ceil((seen.bottom() + 1 - self._line()) / pitch))
        rows = range(min(first, len(matrix.rows)), min(last, len(matrix.rows)))
        if self._arcs is None or self._arcs[0] != rows:
            self._arcs, self._layer = (rows, arcs(matrix, self._mass, rows)), None
        edges = self._sides()
        self._paint_titles(painter, matrix, edges)
        self._paint_border(painter, matrix, edges)
        self._paint_arcs(painter, self._arcs[1], pitch, edges)
        for side, labels in enumerate(self._labels()):
            marked = self._marks.rows if side == 0 else self._marks.columns
            for index in range(first, min(last, len(labels))):
                label = labels[index]
                self._paint_label(painter, edges, (side, index), label, index in marked)

    def _paint_border(
        self,
        painter: QPainter,
        matrix: Matrix,
        edges: tuple[float, float],
    ) -> None:
        painter.setPen(QPen(self.palette().windowText().color(), 1))
        lines = (0.0, edges[0]), (edges[1], float(self.width()))
        for count, (left, right) in zip(matrix.border or (0, 0), lines, strict=True):
            if count:
                y = self.line_of(count - 0.5)
                painter.drawLine(QPointF(left, y), QPointF(right, y))

    def _paint_arcs(
        self, painter: QPainter, lines: Arcs, pitch: float, edges: tuple[float, float]
    ) -> None:
        """Paint all arcs; where some stand out, the others are faded below them."""
        own = lines.rows if self._by == "query" else lines.columns
        marked = self._marks.rows if self._by == "query" else self._marks.columns
        seen = self.visibleRegion().boundingRect()
        painter.setOpacity(FADED if marked else 1.0)
        if painter.paintEngine().type() == QPaintEngine.Type.Raster:
            layer = self._layer_of(lines, pitch, edges, seen)
            painter.drawPixmap(seen.topLeft(), layer)
        else:  # arcs stay lines
            self._stroke(painter, lines, pitch, edges)
        painter.setOpacity(1.0)
        if marked:
            bold = np.isin(own, marked)
            rows, columns, strengths = lines
            some = Arcs(rows[bold], columns[bold], strengths[bold])
            self._stroke(painter, some, pitch, edges)
            self._paint_numbers(painter, some, edges)

    def _paint_titles(
        self, painter: QPainter, matrix: Matrix, edges: tuple[float, float]
    ) -> None:
        middle, line = sum(edges) / 2, self._line()
        sides = (
            (matrix.row_axis, matrix.row_role, QRectF(0, 0, middle, line)),
            (
                matrix.column_axis,
                matrix.column_role,
                QRectF(middle, 0, self.width() - middle, line),
            ),
        )
        for (text, role, box), align in zip(sides, SIDES, strict=True):
            painter.setPen(axis_ink(self.palette(), role))
            text = cut_to_room(text, self.fontMetrics(), box.width() - line)
            painter.drawText(box, align | Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_numbers(
        self, painter: QPainter, some: Arcs, edges: tuple[float, float]
    ) -> None:
        """Write the weights of the arcs that stand out where these end."""
        if self._matrix is None:
            return
        metrics, at_keys = self.fontMetrics(), self._by == "query"
        ends = (some.columns if at_keys else some.rows).tolist()
        values = self._matrix.values[some.rows, some.columns].tolist()
        painter.setPen(self.palette().windowText().color())
        for place, value in zip(ends, values, strict=True):
            text = share(value)
            wide, gap = metrics.horizontalAdvance(text), letter_width(metrics) / 2
            x = edges[1] - wide - gap if at_keys else edges[0] + gap
            y = self.line_of(place) - self._line() / 2
            box = QRectF(x, y, wide, self._line())
            painter.fillRect(box, self.palette().window())
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def _layer_of(
        self, lines: Arcs, pitch: float, edges: tuple[float, float], seen: QRect
    ) -> QPixmap:
        """Return the visible arcs as a picture, kept while the mouse moves."""
        ratio = self.devicePixelRatioF()
        colour = self.palette().color(QPalette.ColorRole.Highlight)
        needs = pitch, edges, seen.getRect(), ratio, colour.name()
        if self._layer is None or self._layer[0] != needs:
            picture = QPixmap(seen.size() * ratio)
            picture.setDevicePixelRatio(ratio)
            picture.fill(Qt.GlobalColor.transparent)
            painter = QPainter(picture)
            painter.translate(-seen.topLeft())
            self._stroke(painter, lines, pitch, edges)
            painter.end()
            self._layer = needs, picture
        return self._layer[1]

    def _stroke(
        self, painter: QPainter, lines: Arcs, pitch: float, edges: tuple[float, float]
    ) -> None:
        (start, end), middle = edges, sum(edges) / 2
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        levels = np.ceil(lines.strengths * LEVELS).astype(np.int64)
        for level in np.unique(levels).tolist():  # the strongest last
            here, strength = levels == level, level / LEVELS
            shade = self.palette().color(QPalette.ColorRole.Highlight)
            shade.setAlphaF(FAINTEST + (1 - FAINTEST) * strength)
            painter.setPen(QPen(shade, 0.5 + WIDEST * strength))
            top = self.line_of(0)
            tops = (lines.rows[here] * pitch + top).tolist()
            bottoms = (lines.columns[here] * pitch + top).tolist()
            path = QPainterPath()
            for y, to in zip(tops, bottoms, strict=True):
                path.moveTo(start, y)
                path.cubicTo(middle, y, middle, to, end, to)
            painter.drawPath(path)

    def _paint_label(
        self,
        painter: QPainter,
        edges: tuple[float, float],
        at: tuple[int, int],
        label: str,
        marked: bool,
    ) -> None:
        (start, end), (side, index) = edges, at
        gap, line = letter_width(self.fontMetrics()), self._line()
        top = self.line_of(index) - line / 2
        align = Qt.AlignmentFlag.AlignVCenter
        if side == 0:
            box = QRectF(0, top, start - gap / 2, line)
            align |= Qt.AlignmentFlag.AlignRight
        else:
            box = QRectF(end + gap / 2, top, self.width() - end - gap / 2, line)
            align |= Qt.AlignmentFlag.AlignLeft
        palette, matrix = self.palette(), self._matrix
        if marked:
            painter.fillRect(box, palette.highlight())
            painter.setPen(palette.color(QPalette.ColorRole.HighlightedText))
        elif matrix is not None:
            roles = matrix.row_role, matrix.column_role
            painter.setPen(hue(palette, roles[side]))
        cut = Qt.TextElideMode.ElideMiddle
        painter.setFont(label_font(self.font(), label))
        text = painter.fontMetrics().elidedText(short(label), cut, int(box.width()))
        painter.drawText(box, align, text)

    # ---- mouse -----------------------------------------------------------------

    def token_at(self, at: QPointF) -> SideToken | None:
        """Return the token at a point: its line, in its half of the picture."""
        start, end = self._sides()
        side: TokenRole = "query" if at.x() < (start + end) / 2 else "key"
        index = math.floor((at.y() - self._line()) / self._pitch())
        count = len(self._labels()[0 if side == "query" else 1])
        usable = self._matrix is not None and self._matrix.values.size > 0
        return SideToken(side, index) if usable and 0 <= index < count else None

    def _dress(self) -> None:
        self.setMinimumHeight(math.ceil((self._extent + 1) * self._line()))
