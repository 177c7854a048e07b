"""Icons, painted in the colour of the text they stand beside."""

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPalette, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QAbstractButton, QApplication

from visformer import paths
from visformer.values.facts import Kind

Shape = Sequence[tuple[float, float]]  # corners in a unit square

SIDE = 64  # pixels drawn; shown smaller
PEN = 0.1  # of the side


@cache
def _shapes() -> Mapping[str, Mapping[str, Sequence[Shape]]]:
    """Return the shapes of all icons by name: those filled, those drawn with a pen."""
    shapes: Mapping[str, Mapping[str, Sequence[Shape]]] = json.loads(
        paths.resource("icons.json").read_text("utf-8")
    )
    return shapes


def icon(name: str, colour: QColor, faint: QColor) -> QIcon:
    """Return an icon; ``faint`` is its colour while it is disabled."""
    return _icon(name, colour.name(), faint.name())


@lru_cache(maxsize=200)
def _icon(name: str, colour: str, faint: str) -> QIcon:
    result = QIcon(_painted(name, QColor(colour)))
    result.addPixmap(_painted(name, QColor(faint)), QIcon.Mode.Disabled)
    return result


def dress(button: QAbstractButton, name: str) -> None:
    """Give a button an icon in the colour and size of its text."""
    # a parent that hears of another theme hears of it before its buttons do
    palette, height = QApplication.palette(), button.fontMetrics().height()
    groups = QPalette.ColorGroup.Active, QPalette.ColorGroup.Disabled
    ink = QPalette.ColorRole.ButtonText
    button.setIcon(icon(name, *(palette.color(group, ink) for group in groups)))
    button.setIconSize(QSize(height, height))


def paint_sign(painter: QPainter, kind: Kind, area: QRectF, colour: QColor) -> None:
    """Paint the small sign of a kind of attention, to stand before its title."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint(painter, kind, area, colour)
    painter.restore()


def _painted(name: str, colour: QColor) -> QPixmap:
    pixmap = QPixmap(SIDE, SIDE)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint(painter, name, QRectF(0, 0, SIDE, SIDE), colour)
    painter.end()
    return pixmap


def _paint(painter: QPainter, name: str, area: QRectF, colour: QColor) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    for shape in _shapes()["filled"].get(name, ()):
        painter.drawPolygon(_placed(shape, area))
    pen = QPen(colour, PEN * area.height())
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for shape in _shapes()["drawn"].get(name, ()):
        painter.drawPolyline(_placed(shape, area))


def _placed(shape: Shape, area: QRectF) -> QPolygonF:
    x, y = area.x(), area.y()
    wide, high = area.width(), area.height()
    return QPolygonF([QPointF(x + a * wide, y + b * high) for a, b in shape])
