"""The image of a heat map: cells, hatching, marks, zoom and pan, the hovered cell."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QImage,
    QMouseEvent,
    QPaintEngine,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QPixmap,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QWidget

from visformer.ui.widgets.cell_digits import have_room, paint_digits
from visformer.ui.widgets.colour_map import (
    NAN,
    Bytes,
    colour_table,
    coloured,
    inks,
    nan_crosses,
)
from visformer.ui.widgets.map_cells import cells_in_sight, changed_cells, hidden_runs
from visformer.values.arrays import Bools, Floats

HATCHED = np.uint16(256)  # beside a code
HATCHED_FROM = 5  # pixels: smaller cells show the colour of hidden cells alone
ALARM = "#c62828", "#ff8a80"  # on light and on dark grounds
DARK_BELOW = 128  # lightness of a ground
MOST_ALARMS = 2_000  # cells
WHOLE_UP_TO = 1 << 20  # cells: of larger pictures only what is visible is drawn
ZOOM_STEP = 1.25
NOTHING: Bytes = np.zeros((0, 0), np.uint8)


class MapCell(NamedTuple):
    """A row and a column of a picture, whatever they stand for."""

    row: int
    column: int


class Canvas(QWidget):
    """One image, all or part of it visible; rows go down, the unit is a cell."""

    hovered = Signal(object)  # a MapCell or None
    clicked = Signal(object)  # the same
    moved = Signal()  # another part is visible

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.view = QRectF(0, 0, 1, 1)  # what is visible, in cells
        self._whole = QRectF(0, 0, 1, 1)
        self.cells = NOTHING  # codes of what is painted
        self._rect = QRectF()  # where they lie, in cells
        self._image = QImage()  # of them
        self._kept = QPixmap()  # the cells as they are painted
        self._stale: list[QRect] | None = None  # to be painted again; None: all
        self._codes = self._looks = NOTHING  # and which of them are hatched, too
        self._values: Floats | None = None
        self.digits = True  # written in cells that are large enough
        self._colours = colour_table(self.palette())
        self._masked: Bools | None = None
        self._hatched: list[QRectF] | None = None  # visible hidden cells, once needed
        self._unknown: Bools | None = None  # cells that are NaN, if there are any
        self._crossed: list[QRectF] = []  # visible ones, found with the hatched
        self._alarms: list[list[int]] = []  # rows and columns
        self._border: tuple[int, int] | None = None  # rows and columns of a prompt
        self._cell: tuple[int, int] | None = None
        self._rows: tuple[int, ...] = ()
        self._columns: tuple[int, ...] = ()
        self._under: MapCell | None = None
        self._pressed: QPointF | None = None
        self._grabbed: QRectF | None = None  # the view when a drag began

    # ---- what is shown ---------------------------------------------------------

    def draw(
        self,
        codes: Bytes,
        masked: Bools | None,
        table: Bytes,
        values: Floats | None = None,
    ) -> None:
        """Show codes [R, C] of ``values``, which are written too; R or C may be 0."""
        before = self._looks
        same = table is self._colours and codes.size <= WHOLE_UP_TO
        self._codes, self._colours, self.cells = codes, table, NOTHING
        self._values = values
        self._masked = masked if masked is not None and masked.any() else None
        self._hatched = None
        self._looks = codes if self._masked is None else codes + HATCHED * self._masked
        unknown = codes == NAN
        self._unknown = unknown if unknown.any() else None
        self._show_image()
        # numbers are all written in the one way that tells them apart
        written = self.digits and have_room(self.font(), self.view, QRectF(self.rect()))
        if same and not written:
            self._repaint(changed_cells(before, self._looks))
        else:
            self._repaint()

    def mark(
        self,
        cell: tuple[int, int] | None,
        rows: tuple[int, ...],
        columns: tuple[int, ...],
    ) -> None:
        """Frame a cell, and outline rows and columns."""
        if (cell, rows, columns) != (self._cell, self._rows, self._columns):
            self._cell, self._rows, self._columns = cell, rows, columns
            self.update()

    def alarm(self, cells: Bools | None) -> None:
        """Frame cells [R, C] that must not have been read, with a sign of their own."""
        alarms = [] if cells is None else np.argwhere(cells)[:MOST_ALARMS].tolist()
        if alarms != self._alarms:
            self._alarms = alarms
            self.update()

    def set_border(self, border: tuple[int, int] | None) -> None:
        """Draw a line below this many rows, and one right of this many columns."""
        if border != self._border:
            self._border = border
            self.update()

    def set_whole(self, rows: int, columns: int) -> None:
        """Reserve space for this many cells; if the number changes, show all of it."""
        whole = QRectF(0, 0, max(1, columns), max(1, rows))
        if whole != self._whole:
            self._whole = whole
            self.look_at(whole)

    def reset(self) -> None:
        self.look_at(self._whole)

    def zoom(self, factor: float, at: QPointF | None = None) -> None:
        """Zoom in by ``factor`` around a point in pixels, by default the centre."""
        centre = self._cells_at(at) if at is not None else self.view.center()
        view = self.view
        width = min(self._whole.width(), max(2.0, view.width() / factor))
        height = min(self._whole.height(), max(2.0, view.height() / factor))
        x = (centre.x() - view.x()) / view.width()
        y = (centre.y() - view.y()) / view.height()
        corner = QPointF(centre.x() - x * width, centre.y() - y * height)
        self.look_at(QRectF(corner.x(), corner.y(), width, height))

    def look_at(self, view: QRectF) -> None:
        """Show a part in cells, moved inside the whole."""
        whole = self._whole
        x = min(max(view.x(), 0.0), whole.width() - view.width())
        y = min(max(view.y(), 0.0), whole.height() - view.height())
        view = QRectF(max(0.0, x), max(0.0, y), view.width(), view.height())
        self.view, self._hatched = view, None
        self._show_image()
        self._repaint()
        self.moved.emit()

    def _show_image(self) -> None:
        """Colour the cells; of very many, the largest visible one of each pixel."""
        codes = self._codes
        rect = QRectF(0, 0, codes.shape[1], codes.shape[0])
        if codes.size > WHOLE_UP_TO:
            codes, rect = cells_in_sight(codes, self.view, self.width(), self.height())
        elif codes is self.cells:
            return
        self.cells, self._rect = codes, rect
        self._image = coloured(codes, self._colours)

    # ---- painting --------------------------------------------------------------

    def _repaint(self, cells: list[QRectF] | None = None) -> None:
        """Paint some rectangles of cells again, or everything."""
        if cells is None:
            self._stale = None
            self.update()
            return
        for part in cells:
            place = self._pixels(part).toAlignedRect().adjusted(-1, -1, 1, 1)
            if self._stale is not None:
                self._stale.append(place)
            self.update(place)

    def changeEvent(self, event: QEvent) -> None:
        """Follow font and palette."""
        super().changeEvent(event)
        self._stale = None

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the cells, which are kept while the mouse moves, and what is marked."""
        painter, palette = QPainter(self), self.palette()
        if painter.paintEngine().type() != QPaintEngine.Type.Raster:
            self._paint_cells(painter, palette)  # texts and lines stay what they are
        else:
            painter.drawPixmap(0, 0, self._cells_kept(palette))
        self._paint_border(painter, palette)
        self._paint_alarms(painter, palette)
        self._paint_marks(painter, palette)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(palette.color(QPalette.ColorRole.Mid), 1))
        painter.drawRect(QRectF(0.5, 0.5, self.width() - 1, self.height() - 1))

    def _cells_kept(self, palette: QPalette) -> QPixmap:
        ratio = self.devicePixelRatioF()
        size = self.size() * ratio
        if (self._kept.size(), self._kept.devicePixelRatio()) != (size, ratio):
            self._kept, self._stale = QPixmap(size), None
            self._kept.setDevicePixelRatio(ratio)
        stale, self._stale = self._stale, []
        if stale is None or stale:
            with QPainter(self._kept) as painter:
                painter.setFont(self.font())
                for part in [self.rect()] if stale is None else stale:
                    painter.setClipRect(part)  # fastest in one rectangle
                    self._paint_cells(painter, palette)
        return self._kept

    def _paint_cells(self, painter: QPainter, palette: QPalette) -> None:
        """Paint the image, hatch hidden cells, cross out NaN, write the numbers."""
        painter.fillRect(self.rect(), palette.window())
        if not self._image.isNull():
            painter.drawImage(self._pixels(self._rect), self._image)
        self._hatch(painter, palette)
        if self.digits and self._values is not None:
            colours = inks(self._colours, palette)
            values, room = self._values, QRectF(self.rect())
            paint_digits(painter, values, self._codes, colours, self.view, room)

    def _hatch(self, painter: QPainter, palette: QPalette) -> None:
        width = self.width() / self.view.width()
        height = self.height() / self.view.height()
        if min(width, height) < HATCHED_FROM:
            return
        if self._hatched is None:
            masked, unknown = self._masked, self._unknown
            self._crossed = [] if unknown is None else hidden_runs(unknown, self.view)
            if masked is not None and unknown is not None:
                masked = masked & ~unknown
            self._hatched = [] if masked is None else hidden_runs(masked, self.view)
        colour = palette.color(QPalette.ColorRole.PlaceholderText)
        colour.setAlphaF(0.45)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QBrush(colour, Qt.BrushStyle.BDiagPattern))
        if self._hatched:
            painter.drawRects([self._pixels(run) for run in self._hatched])
        if self._crossed:
            painter.setBrush(nan_crosses())
            painter.drawRects([self._pixels(run) for run in self._crossed])

    def _paint_border(self, painter: QPainter, palette: QPalette) -> None:
        if self._border is None:
            return
        rows, columns = self._border
        after = self._pixels(QRectF(columns, rows, 0, 0)).topLeft()
        colours = palette.color(QPalette.ColorRole.Base), palette.windowText().color()
        for colour, wide in zip(colours, (4, 2), strict=True):
            painter.setPen(QPen(colour, wide))
            if rows:
                painter.drawLine(
                    QPointF(0, after.y()), QPointF(self.width(), after.y())
                )
            if columns:
                painter.drawLine(
                    QPointF(after.x(), 0), QPointF(after.x(), self.height())
                )

    def _paint_alarms(self, painter: QPainter, palette: QPalette) -> None:
        """Frame each cell, and put a sign into it where there is room."""
        if not self._alarms:
            return
        ground = palette.color(QPalette.ColorRole.Base)
        colour = QColor(ALARM[ground.lightness() < DARK_BELOW])
        painter.setBrush(Qt.BrushStyle.NoBrush)
        font = painter.font()
        font.setBold(True)
        painter.setFont(font)
        sign = self.fontMetrics().height()
        for row, column in self._alarms:
            cell = self._pixels(QRectF(column, row, 1, 1))
            inner = cell.adjusted(1.5, 1.5, -1.5, -1.5)
            for edge, wide in ((ground, 4), (colour, 2)):
                painter.setPen(QPen(edge, wide))
                painter.drawRect(inner)
            if min(cell.width(), cell.height()) >= sign:
                spot = QRectF(0, 0, 0.8 * sign, sign)
                spot.moveCenter(cell.center())
                painter.fillRect(spot, ground)
                painter.drawText(spot, Qt.AlignmentFlag.AlignCenter, "!")

    def _paint_marks(self, painter: QPainter, palette: QPalette) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        accent = palette.color(QPalette.ColorRole.Highlight)
        bands = [QRectF(0, row, self._whole.width(), 1) for row in self._rows]
        bands += [
            QRectF(column, 0, 1, self._whole.height()) for column in self._columns
        ]
        painter.setPen(QPen(accent, 1))
        for band in bands:
            painter.drawRect(self._pixels(band))
        if self._cell is None:
            return
        frame = self._pixels(QRectF(self._cell[1], self._cell[0], 1, 1))
        for colour, wide in ((palette.color(QPalette.ColorRole.Base), 5), (accent, 3)):
            pen = QPen(colour, wide)
            pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
            painter.setPen(pen)
            painter.drawRect(frame)

    def box(self, row: int, column: int) -> QRect:
        """Return where a cell lies in the widget, in pixels."""
        return self.place(QRectF(column, row, 1, 1))

    def place(self, cells: QRectF) -> QRect:
        """Return where some cells lie in the widget, in pixels."""
        return self._pixels(cells).toAlignedRect()

    def _pixels(self, cells: QRectF) -> QRectF:
        """Return where a rectangle of cells lies in the widget, in pixels."""
        x = self.width() / self.view.width()
        y = self.height() / self.view.height()
        left, top = (cells.x() - self.view.x()) * x, (cells.y() - self.view.y()) * y
        return QRectF(left, top, cells.width() * x, cells.height() * y)

    # ---- the mouse -------------------------------------------------------------

    def cell_at(self, at: QPointF) -> MapCell | None:
        """Return the (row, column) at a point in pixels; None if there is none."""
        if not QRectF(self.rect()).contains(at):
            return None
        cells = self._cells_at(at)
        row, column = math.floor(cells.y()), math.floor(cells.x())
        rows, columns = self._codes.shape
        return MapCell(row, column) if row < rows and column < columns else None

    def _cells_at(self, at: QPointF) -> QPointF:
        x, y = at.x() / max(1, self.width()), at.y() / max(1, self.height())
        view = self.view
        return QPointF(view.x() + x * view.width(), view.y() + y * view.height())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a click or a drag."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed, self._grabbed = event.position(), self.view

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag, or report the cell under the mouse."""
        if self._pressed is not None and self._grabbed is not None:
            path = event.position() - self._pressed
            if path.manhattanLength() >= QApplication.startDragDistance():
                x = path.x() * self.view.width() / max(1, self.width())
                y = path.y() * self.view.height() / max(1, self.height())
                self.look_at(self._grabbed.translated(-x, -y))
                return
        self._hover(self.cell_at(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Report a click that was not a drag."""
        pressed, self._pressed, self._grabbed = self._pressed, None, None
        if pressed is None or event.button() != Qt.MouseButton.LeftButton:
            return
        path = event.position() - pressed
        if path.manhattanLength() < QApplication.startDragDistance():
            self.clicked.emit(self.cell_at(event.position()))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the mouse."""
        turns = event.angleDelta().y() / 120
        if turns:
            self.zoom(ZOOM_STEP**turns, event.position())
        event.accept()

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is under the mouse."""
        self._hover(None)

    def _hover(self, cell: MapCell | None) -> None:
        if cell != self._under:
            self._under = cell
            self.hovered.emit(cell)

    def resizeEvent(self, event: QEvent) -> None:
        """Keep showing the same part."""
        self.look_at(self.view)
