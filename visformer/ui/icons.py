"""The transport's icons, painted in the colour of the text they stand beside."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap, QPolygonF

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


def _mirrored(shapes: Sequence[Shape]) -> Sequence[Shape]:
    return [[(1 - x, y) for x, y in shape] for shape in shapes]


SHAPES: dict[str, Sequence[Shape]] = {
    "first": _mirrored(_FAST),
    "back": _mirrored((_STEP, _STEP_BAR)),
    "play": (_RIGHT,),
    "pause": _PAUSE,
    "forward": (_STEP, _STEP_BAR),
    "last": _FAST,
}
SIDE = 64  # pixels drawn; shown smaller


def icon(name: str, colour: QColor, faint: QColor) -> QIcon:
    """Return an icon; ``faint`` is its colour while it is disabled."""
    result = QIcon(_painted(name, colour))
    result.addPixmap(_painted(name, faint), QIcon.Mode.Disabled)
    return result


def _painted(name: str, colour: QColor) -> QPixmap:
    pixmap = QPixmap(SIDE, SIDE)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    area = QRectF(0, 0, SIDE, SIDE)
    for shape in SHAPES[name]:
        corners = [QPointF(x * area.width(), y * area.height()) for x, y in shape]
        painter.drawPolygon(QPolygonF(corners))
    painter.end()
    return pixmap
