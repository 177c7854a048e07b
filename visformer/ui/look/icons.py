"""Icons, painted in the colour of the text they stand beside."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPalette, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QAbstractButton, QApplication

from visformer.values.facts import Kind

Shape = Sequence[tuple[float, float]]  # corners in a unit square
_RIGHT: Shape = ((0.2, 0.12), (0.88, 0.5), (0.2, 0.88))
_STEP: Shape = ((0.12, 0.16), (0.66, 0.5), (0.12, 0.84))
_STEP_BAR: Shape = ((0.7, 0.16), (0.86, 0.16), (0.86, 0.84), (0.7, 0.84))
_FAST: Sequence[Shape] = (
    ((0.06, 0.16), (0.46, 0.5), (0.06, 0.84)),
    ((0.44, 0.16), (0.82, 0.5), (0.44, 0.84)),
    ((0.82, 0.16), (0.94, 0.16), (0.94, 0.84), (0.82, 0.84)),
)
_PAUSE: Sequence[Shape] = (
    ((0.2, 0.14), (0.42, 0.14), (0.42, 0.86), (0.2, 0.86)),
    ((0.58, 0.14), (0.8, 0.14), (0.8, 0.86), (0.58, 0.86)),
)
_UNDO: Sequence[Shape] = (
    ((0.42, 0.14), (0.14, 0.38), (0.42, 0.62)),
    ((0.14, 0.38), (0.66, 0.38), (0.86, 0.56), (0.86, 0.7), (0.66, 0.86), (0.36, 0.86)),
)


def _mirrored(shapes: Sequence[Shape]) -> Sequence[Shape]:
    return [[(1 - x, y) for x, y in shape] for shape in shapes]


def _box(left: float, top: float, right: float, bottom: float) -> Shape:
    return ((left, top), (right, top), (right, bottom), (left, bottom), (left, top))


FILLED: Mapping[str, Sequence[Shape]] = {
    "first": _mirrored(_FAST),
    "back": _mirrored((_STEP, _STEP_BAR)),
    "play": (_RIGHT,),
    "pause": _PAUSE,
    "forward": (_STEP, _STEP_BAR),
    "last": _FAST,
    "encoder": (_box(0.14, 0.14, 0.86, 0.86),),
    "decoder": (((0.14, 0.14), (0.86, 0.86), (0.14, 0.86)),),
    "cross": (
        _box(0.3, 0.2, 0.7, 0.8),
        _box(0.06, 0.1, 0.16, 0.9),
        _box(0.84, 0.1, 0.94, 0.9),
    ),
}
DRAWN: Mapping[str, Sequence[Shape]] = {  # with a pen
    "menu": tuple(((0.16, y), (0.84, y)) for y in (0.26, 0.5, 0.74)),
    "close": (((0.22, 0.22), (0.78, 0.78)), ((0.78, 0.22), (0.22, 0.78))),
    "enlarge": (
        ((0.58, 0.14), (0.86, 0.14), (0.86, 0.42)),
        ((0.86, 0.14), (0.58, 0.42)),
        ((0.42, 0.86), (0.14, 0.86), (0.14, 0.58)),
        ((0.14, 0.86), (0.42, 0.58)),
    ),
    "shrink": (
        ((0.58, 0.14), (0.58, 0.42), (0.86, 0.42)),
        ((0.58, 0.42), (0.86, 0.14)),
        ((0.42, 0.86), (0.42, 0.58), (0.14, 0.58)),
        ((0.42, 0.58), (0.14, 0.86)),
    ),
    "edit": (
        ((0.16, 0.84), (0.22, 0.6), (0.68, 0.14), (0.86, 0.32), (0.4, 0.78)),
        ((0.4, 0.78), (0.16, 0.84)),
    ),
    "copy": (
        _box(0.36, 0.36, 0.86, 0.86),
        ((0.2, 0.64), (0.14, 0.64), (0.14, 0.14), (0.64, 0.14), (0.64, 0.2)),
    ),
    "present": (_box(0.1, 0.18, 0.9, 0.7), ((0.32, 0.88), (0.5, 0.7), (0.68, 0.88))),
    "settings": (
        ((0.12, 0.28), (0.52, 0.28)),
        ((0.76, 0.28), (0.88, 0.28)),
        _box(0.54, 0.18, 0.74, 0.38),
        ((0.12, 0.72), (0.24, 0.72)),
        ((0.48, 0.72), (0.88, 0.72)),
        _box(0.26, 0.62, 0.46, 0.82),
    ),
    "go": (((0.12, 0.5), (0.86, 0.5)), ((0.56, 0.2), (0.86, 0.5), (0.56, 0.8))),
    "fold": (((0.38, 0.16), (0.72, 0.5), (0.38, 0.84)),),
    "unfold": (((0.62, 0.16), (0.28, 0.5), (0.62, 0.84)),),
    # beside words, which begin where the sign ends
    "more": (((0.08, 0.36), (0.36, 0.64), (0.64, 0.36)),),
    "less": (((0.08, 0.64), (0.36, 0.36), (0.64, 0.64)),),
    "undo": _UNDO,
    "redo": _mirrored(_UNDO),
}
SIDE = 64  # pixels drawn; shown smaller
PEN = 0.1  # of the side


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
    for shape in FILLED.get(name, ()):
        painter.drawPolygon(_placed(shape, area))
    pen = QPen(colour, PEN * area.height())
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for shape in DRAWN.get(name, ()):
        painter.drawPolyline(_placed(shape, area))


def _placed(shape: Shape, area: QRectF) -> QPolygonF:
    x, y = area.x(), area.y()
    wide, high = area.width(), area.height()
    return QPolygonF([QPointF(x + a * wide, y + b * high) for a, b in shape])
