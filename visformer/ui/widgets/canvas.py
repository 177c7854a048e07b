"""The image of a heat map: cells, hatching, marks, zoom and pan, the hovered cell."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QHideEvent,
    QMouseEvent,
    QPaintEngine,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QPixmap,
    QRegion,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QWidget

from visformer.pictures.picture import NOTHING, Bytes, codes
from visformer.ui.widgets.cell_pixels import (
    CellRun,
    cells_in_sight,
    changed_cells,
    first_pixel,
    have_room,
    hidden_and_unknown,
    paint_alarms,
    paint_bars,
    paint_border,
    paint_digits,
    paint_focus,
    paint_frame,
    paint_pixels,
)
from visformer.ui.widgets.colour_bar import colour_table, inks, nan_crosses
from visformer.values.arrays import Bools, Floats

HATCHED = np.uint16(256)  # beside a code
FAINT = 0.2  # opacity of rows that are not yet stepped to
HATCHED_FROM = 5  # pixels: smaller cells show the colour of hidden cells alone
MOST_ALARMS = 2_000  # cells
WHOLE_UP_TO = 1 << 20  # cells: of larger pictures only what is visible is drawn
ZOOM_STEP = 1.25


class MapCell(NamedTuple):
    """A row and a column of a picture, whatever they stand for."""

    row: int
    column: int


def stands_on_scrolled_page(widget: QWidget) -> bool:
    """Tell whether what is around a widget can be scrolled up or down."""
    while (around := widget.parentWidget()) is not None:
        widget = around
        if isinstance(widget, QAbstractScrollArea):
            bar = widget.verticalScrollBar()
            if bar.maximum() > bar.minimum():
                return True
    return False


class Canvas(QWidget):
    """One image, all or part of it visible; rows go down, the unit is a cell."""

    hovered = Signal(object)  # a MapCell or None
    clicked = Signal(object)  # the same
    opened = Signal(object)  # the same, with a double click
    # a MapCell, how many pixels the mouse went up from it with Shift, whether it ends
    pulled = Signal(object, float, bool)
    moved = Signal()  # another part is visible

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMouseTracking(True)
        self.view = QRectF(0, 0, 1, 1)  # what is visible, in cells
        self._whole = QRectF(0, 0, 1, 1)
        self.cells = NOTHING  # codes of what is painted
        self._rect = QRectF()  # where they lie, in cells
        self._kept = QPixmap()  # the cells as they are painted
        self._stale = QRegion()  # what of them is to be painted again
        self._ahead = NOTHING  # codes of a whole run: its later rows are faint
        self._shade: Floats = np.zeros((0, 0), np.float32)
        self._looks = NOTHING  # all codes, and which of the cells are hatched, too
        self._values: Floats | None = None
        self._bars: Floats | None = None
        self.digits = True  # written in cells that are large enough
        self._colours = colour_table(self.palette())
        self._masked: Bools | None = None
        self._hatched: list[CellRun] | None = None  # visible hidden cells, once needed
        self._crossed: list[CellRun] = []  # NaN, found with the hatched
        self._alarms: list[list[int]] = []  # rows and columns
        self._border: tuple[int, int] | None = None  # rows and columns of a prompt
        self._framed: slice | None = None  # columns
        self._cell: tuple[int, int] | None = None
        self._rows: tuple[int, ...] = ()
        self._columns: tuple[int, ...] = ()
        self._under: MapCell | None = None
        self._pressed: QPointF | None = None
        self._grabbed: QRectF | None = None  # the view when a drag began
        self._pulled: MapCell | None = None  # the cell that is dragged instead

    # ---- what is shown ---------------------------------------------------------

    def draw(
        self,
        shade: Floats,
        masked: Bools | None,
        table: Bytes,
        values: Floats | None = None,
        bars: Floats | None = None,
    ) -> None:
        """Show shades [R, C] of ``values``, which are written too; R or C may be 0.

        Of very many only those in sight become colours. ``bars`` [R, C] in [0, 1]: how
        far a bar reaches across each cell.
        """
        before, few = self._looks, shade.size <= WHOLE_UP_TO
        same = table is self._colours and few
        masked = masked if masked is not None and masked.any() else None
        self._shade, self._masked, self._colours = shade, masked, table
        self._values, self._bars = values, bars
        self._hatched, self._looks, self.cells = None, NOTHING, NOTHING
        if few:
            self.cells = codes(shade, masked)
            self._looks = self.cells
            if masked is not None:
                self._looks = self.cells + HATCHED * masked
        self._show_image()
        # numbers are all written in the one way that tells them apart
        if same and bars is None and not self._writes_digits:
            self._repaint(changed_cells(before, self._looks))
        else:
            self._repaint()

    def draw_ahead(self, codes: Bytes | None) -> None:
        """Show the rows of these that are below the others, faint; None for none."""
        codes = NOTHING if codes is None else codes
        if codes is not self._ahead:
            self._ahead = codes
            self._repaint()

    def mark(
        self,
        cell: tuple[int, int] | None,
        rows: tuple[int, ...],
        columns: tuple[int, ...],
    ) -> None:
        """Frame a cell, and outline rows and columns."""
        if (cell, rows, columns) != (self._cell, self._rows, self._columns):
            self._update_focus()
            self._cell, self._rows, self._columns = cell, rows, columns
            self._update_focus()

    def _update_focus(self) -> None:
        """Paint again what is marked, with its frames."""
        bands, cell = self._focus()
        for band in bands:
            self.update(band.toAlignedRect().adjusted(-1, -1, 1, 1))
        if cell is not None:
            self.update(cell.toAlignedRect().adjusted(-3, -3, 3, 3))

    def alarm(self, cells: Bools | None) -> None:
        """Frame cells [R, C] that must not have been read, with a sign of their own."""
        alarms = [] if cells is None else np.argwhere(cells)[:MOST_ALARMS].tolist()
        if alarms != self._alarms:
            self._alarms = alarms
            self.update()

    def set_border(
        self, border: tuple[int, int] | None, framed: slice | None = None
    ) -> None:
        """Draw a line below this many rows, and one right of this many columns.

        ``framed``: columns that a frame is drawn around.
        """
        if (border, framed) != (self._border, self._framed):
            self._border, self._framed = border, framed
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
        """Choose the cells; of very many, the largest visible one of each pixel."""
        self._rect = QRectF(0, 0, self._shade.shape[1], self._shade.shape[0])
        if self._shade.size > WHOLE_UP_TO:
            cells, size = (self._shade, self._masked), (self.width(), self.height())
            self.cells, self._rect = cells_in_sight(*cells, self.view, *size)

    # ---- painting --------------------------------------------------------------

    @property
    def _writes_digits(self) -> bool:
        return self.digits and have_room(self.view, QRectF(self.rect()))

    def _repaint(self, cells: list[QRectF] | None = None) -> None:
        if cells is None:
            self._stale = QRegion(self.rect())
            self.update()
            return
        for part in cells:
            if self._ahead.size:  # which may have more columns
                part.setRight(self._whole.right())
            place = self._pixels(part).toAlignedRect().adjusted(-1, -1, 1, 1)
            self._stale += place
            self.update(place)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self._stale = QRegion(self.rect())

    def hideEvent(self, event: QHideEvent) -> None:
        """Give back the memory of what is painted: a tour hides dozens of maps."""
        super().hideEvent(event)
        self._kept = QPixmap()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the cells, which are kept while the mouse moves, and what is marked."""
        painter, palette = QPainter(self), self.palette()
        if painter.paintEngine().type() != QPaintEngine.Type.Raster:
            # texts and lines stay what they are
            self._paint_cells(painter, palette, self.rect())
        else:
            painter.drawPixmap(0, 0, self._cells_kept(palette))
        self._paint_marks(painter, palette)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(palette.color(QPalette.ColorRole.Mid), 1))
        painter.drawRect(QRectF(0.5, 0.5, self.width() - 1, self.height() - 1))

    def _cells_kept(self, palette: QPalette) -> QPixmap:
        ratio = self.devicePixelRatioF()
        size = self.size() * ratio
        if (self._kept.size(), self._kept.devicePixelRatio()) != (size, ratio):
            self._kept, self._stale = QPixmap(size), QRegion(self.rect())
            self._kept.setDevicePixelRatio(ratio)
        stale, self._stale = self._stale, QRegion()
        if not stale.isEmpty():
            with QPainter(self._kept) as painter:
                painter.setClipRegion(stale)
                painter.setFont(self.font())
                self._paint_cells(painter, palette, stale.boundingRect())
        return self._kept

    def _paint_cells(self, painter: QPainter, palette: QPalette, part: QRect) -> None:
        """Paint a part: the cells, hatch hidden ones, cross out NaN, write numbers."""
        painter.fillRect(part, palette.window())
        (wide, high), (rows, columns) = self._pitch, self.cells.shape
        if self.cells.size:
            place, ratio = self._rect, self.devicePixelRatioF()
            corner = self._pixels(place).topLeft()
            pitch = wide * (place.width() / columns), high * (place.height() / rows)
            cells = self.cells, self._colours, corner, pitch, part
            paint_pixels(painter, *cells, room=self.rect(), ratio=ratio)
        if self._bars is not None:
            shares = np.nan_to_num(self._bars).tolist()
            places = [
                self._pixels(QRectF(column, row, share, 1))
                for row, bars in enumerate(shares)
                for column, share in enumerate(bars)
            ]
            paint_bars(painter, palette, places)
        self._paint_ahead(painter, part)
        self._hatch(painter, palette, part)
        if self._values is not None and self._writes_digits:
            colours, room = inks(self._colours, palette), QRectF(self.rect())
            numbers = self._values, self._shade, self._masked
            paint_digits(painter, *numbers, colours, self.view, room)

    def _paint_ahead(self, painter: QPainter, part: QRect) -> None:
        """Paint the run's rows below those shown, each where it will stand."""
        shown = len(self._shade)
        if not self._shade.size or len(self._ahead) <= shown:
            return
        ratio, corner = self.devicePixelRatioF(), self._pixels(QRectF()).topLeft()
        edge = self._pixels(QRectF(0, shown, 0, 0)).top()
        below = QRectF(self.rect())
        below.setTop(max(below.top(), first_pixel(edge, ratio)))
        painter.save()
        painter.setClipRect(below, Qt.ClipOperation.IntersectClip)
        painter.setOpacity(FAINT)
        cells = self._ahead, self._colours, corner, self._pitch, part
        paint_pixels(painter, *cells, room=self.rect(), ratio=ratio)
        painter.restore()

    def _hatch(self, painter: QPainter, palette: QPalette, part: QRect) -> None:
        if min(self._pitch) < HATCHED_FROM:
            return
        if self._hatched is None:
            cells = self._shade, self._masked, self.view
            self._hatched, self._crossed = hidden_and_unknown(*cells)
        colour = palette.color(QPalette.ColorRole.PlaceholderText)
        colour.setAlphaF(0.45)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QBrush(colour, Qt.BrushStyle.BDiagPattern))
        painter.drawRects(self._runs_in(self._hatched, part))
        if self._crossed:
            painter.setBrush(nan_crosses())
            painter.drawRects(self._runs_in(self._crossed, part))

    def _runs_in(self, runs: list[CellRun], part: QRect) -> list[QRectF]:
        """Return the pixels of those runs of cells that are in these lines.

        Whole ones: what Qt makes of others depends on where painting is clipped.
        """
        (wide, high), left, top = self._pitch, self.view.x(), self.view.y()
        first = math.floor(part.top() / high + top) - 1
        last = math.ceil((part.bottom() + 1) / high + top)
        edge, found = partial(first_pixel, ratio=self.devicePixelRatioF()), []
        for x, y, count in runs:
            if first <= y <= last:
                corner = QPointF(edge((x - left) * wide), edge((y - top) * high))
                right, bottom = (x + count - left) * wide, (y + 1 - top) * high
                found.append(QRectF(corner, QPointF(edge(right), edge(bottom))))
        return found

    def _paint_marks(self, painter: QPainter, palette: QPalette) -> None:
        if self._border is not None:
            rows, columns = self._border
            corner = self._pixels(QRectF(columns, rows, 0, 0)).topLeft()
            paint_border(painter, palette, (rows > 0, columns > 0), corner)
        if self._framed is not None:
            first, past = self._framed.start, self._framed.stop
            framed = QRectF(first, 0, past - first, self._whole.height())
            paint_frame(painter, palette, self._pixels(framed))
        if self._alarms:
            boxes = [self._pixels(QRectF(x, y, 1, 1)) for y, x in self._alarms]
            paint_alarms(painter, palette, boxes)
        paint_focus(painter, palette, *self._focus())

    def _focus(self) -> tuple[list[QRectF], QRectF | None]:
        whole = self._whole
        bands = [QRectF(0, row, whole.width(), 1) for row in self._rows]
        bands += [QRectF(column, 0, 1, whole.height()) for column in self._columns]
        cell = None
        if self._cell is not None:
            cell = self._pixels(QRectF(self._cell[1], self._cell[0], 1, 1))
        return list(map(self._pixels, bands)), cell

    def box(self, row: int, column: int) -> QRect:
        """Return where a cell lies in the widget, in pixels."""
        return self.place(QRectF(column, row, 1, 1))

    def place(self, cells: QRectF) -> QRect:
        """Return where some cells lie in the widget, in pixels."""
        return self._pixels(cells).toAlignedRect()

    def _pixels(self, cells: QRectF) -> QRectF:
        (wide, high), view = self._pitch, self.view
        left, top = (cells.x() - view.x()) * wide, (cells.y() - view.y()) * high
        return QRectF(left, top, cells.width() * wide, cells.height() * high)

    @property
    def _pitch(self) -> tuple[float, float]:
        return self.width() / self.view.width(), self.height() / self.view.height()

    # ---- the mouse -------------------------------------------------------------

    def cell_at(self, at: QPointF) -> MapCell | None:
        """Return the (row, column) at a point in pixels; None if there is none."""
        if not QRectF(self.rect()).contains(at):
            return None
        cells = self._cells_at(at)
        row, column = math.floor(cells.y()), math.floor(cells.x())
        rows, columns = self._shade.shape
        return MapCell(row, column) if row < rows and column < columns else None

    def _cells_at(self, at: QPointF) -> QPointF:
        x, y = at.x() / max(1, self.width()), at.y() / max(1, self.height())
        view = self.view
        return QPointF(view.x() + x * view.width(), view.y() + y * view.height())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed, self._grabbed = event.position(), self.view
            if event.modifiers() == Qt.KeyboardModifier.ShiftModifier:
                self._pulled = self.cell_at(event.position())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed is not None and self._grabbed is not None:
            path = event.position() - self._pressed
            if path.manhattanLength() >= QApplication.startDragDistance():
                if self._pulled is not None:
                    self.pulled.emit(self._pulled, -path.y(), False)
                    return
                x = path.x() * self.view.width() / max(1, self.width())
                y = path.y() * self.view.height() / max(1, self.height())
                self.look_at(self._grabbed.translated(-x, -y))
                return
        self._hover(self.cell_at(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed, self._grabbed = self._pressed, None, None
        pulled, self._pulled = self._pulled, None
        if pressed is None or event.button() != Qt.MouseButton.LeftButton:
            return
        path = event.position() - pressed
        if path.manhattanLength() < QApplication.startDragDistance():
            self.clicked.emit(self.cell_at(event.position()))
        elif pulled is not None:
            self.pulled.emit(pulled, -path.y(), True)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        super().mouseDoubleClickEvent(event)
        self.opened.emit(self.cell_at(event.position()))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the mouse; a page that scrolls does so unless Ctrl is held."""
        control = event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if not control and stands_on_scrolled_page(self):
            event.ignore()
            return
        turns = event.angleDelta().y() / 120
        if turns:
            self.zoom(ZOOM_STEP**turns, event.position())
        event.accept()

    def leaveEvent(self, event: QEvent) -> None:
        self._hover(None)

    def _hover(self, cell: MapCell | None) -> None:
        if cell != self._under:
            self._under = cell
            self.hovered.emit(cell)

    def resizeEvent(self, event: QEvent) -> None:
        """Keep showing the same part."""
        self.look_at(self.view)
