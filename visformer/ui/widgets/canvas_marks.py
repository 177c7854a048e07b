"""What is marked on the cells of a map: a prompt's border, alarms, the focus."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPalette, QPen

ALARM = "#c62828", "#ff8a80"  # on light and on dark grounds
BAR = 0.5  # opacity of a bar
DARK_BELOW = 128  # lightness of a ground


def paint_border(
    painter: QPainter, palette: QPalette, sides: tuple[bool, bool], corner: QPointF
) -> None:
    """Draw a line through ``corner`` from side to side, and one from top to bottom.

    ``sides``: whether each of them is there.
    """
    whole = painter.viewport()
    colours = palette.color(QPalette.ColorRole.Base), palette.windowText().color()
    for colour, wide in zip(colours, (4, 2), strict=True):
        painter.setPen(QPen(colour, wide))
        if sides[0]:
            end = QPointF(whole.width(), corner.y())
            painter.drawLine(QPointF(0, corner.y()), end)
        if sides[1]:
            end = QPointF(corner.x(), whole.height())
            painter.drawLine(QPointF(corner.x(), 0), end)


def paint_frame(painter: QPainter, palette: QPalette, box: QRectF) -> None:
    """Frame some columns from top to bottom."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    colours = palette.color(QPalette.ColorRole.Base), palette.windowText().color()
    for colour, wide in zip(colours, (4, 2), strict=True):
        painter.setPen(QPen(colour, wide))
        painter.drawRect(box.adjusted(1, 1, -1, -1))


def paint_bars(painter: QPainter, palette: QPalette, places: list[QRectF]) -> None:
    """Paint bars, faint enough for numbers to be read over them."""
    colour = palette.color(QPalette.ColorRole.Highlight)
    colour.setAlphaF(BAR)
    for place in places:
        painter.fillRect(place.adjusted(0, 2, 0, -2), colour)


def paint_alarms(painter: QPainter, palette: QPalette, cells: list[QRectF]) -> None:
    """Frame each cell, and put a sign into it where there is room."""
    ground = palette.color(QPalette.ColorRole.Base)
    colour = QColor(ALARM[ground.lightness() < DARK_BELOW])
    painter.setBrush(Qt.BrushStyle.NoBrush)
    font = painter.font()
    sign = painter.fontMetrics().height()
    font.setBold(True)
    painter.setFont(font)
    frames = [cell.adjusted(1.5, 1.5, -1.5, -1.5) for cell in cells]
    for edge, wide in ((ground, 4), (colour, 2)):
        painter.setPen(QPen(edge, wide))
        painter.drawRects(frames)  # many at once, many times faster
    for cell in cells:
        if min(cell.width(), cell.height()) >= sign:
            spot = QRectF(0, 0, 0.8 * sign, sign)
            spot.moveCenter(cell.center())
            painter.fillRect(spot, ground)
            painter.drawText(spot, Qt.AlignmentFlag.AlignCenter, "!")


def paint_focus(
    painter: QPainter, palette: QPalette, bands: list[QRectF], cell: QRectF | None
) -> None:
    """Outline rows and columns, and frame the cell in focus."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    accent = palette.color(QPalette.ColorRole.Highlight)
    painter.setPen(QPen(accent, 1))
    painter.drawRects(bands)
    if cell is None:
        return
    for colour, wide in ((palette.color(QPalette.ColorRole.Base), 5), (accent, 3)):
        pen = QPen(colour, wide)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        painter.drawRect(cell)
