"""The image of a Drawing: what changes from one to the next is painted anew."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QFont, QPainter, QPalette, QPixmap, QRegion
from PySide6.QtWidgets import QWidget

from visformer.pictures.diagram.columns import Arrow, Box, Drawing
from visformer.ui.widgets.diagram_canvas import Painting

EDGE = 6  # pixels around a part that its pen or its stack may take
MOST_PARTS = 160  # that are painted alone; of more, everything is


class DiagramImage:
    """Keeps what was painted of a diagram, in the pixels of its widget's screen."""

    def __init__(self) -> None:
        self._pixmap = QPixmap()
        self._look: tuple[object, ...] = ()  # what every part depends on
        self._parts: frozenset[Box | Arrow] = frozenset()
        self._chosen = ""

    def of(
        self, drawing: Drawing, widget: QWidget, font: QFont, units: tuple[float, float]
    ) -> QPixmap:
        """Return the image; ``units``: a character's width and a line's height."""
        ratio = widget.devicePixelRatioF()
        look = (
            *(widget.size(), ratio, widget.palette().cacheKey(), font.key(), units),
            widget.hasFocus(),
        )
        parts: frozenset[Box | Arrow] = frozenset((*drawing.boxes, *drawing.arrows))
        if look == self._look and (parts, drawing.chosen) == (
            self._parts,
            self._chosen,
        ):
            return self._pixmap
        changed = self._parts ^ parts
        whole = look != self._look or len(changed) > MOST_PARTS
        region: QRegion | None = None
        if whole:
            self._pixmap = QPixmap(widget.size() * ratio)
            self._pixmap.setDevicePixelRatio(ratio)
            self._pixmap.fill(widget.palette().color(QPalette.ColorRole.Window))
        else:
            region = QRegion()
            chosen = {self._chosen, drawing.chosen} - {""}
            for part in (*changed, *(b for b in parts if _id(b) in chosen)):
                region += _place(part, units).toAlignedRect()
        self._look, self._parts, self._chosen = look, parts, drawing.chosen
        painter = QPainter(self._pixmap)
        if region is not None:
            painter.setClipRegion(region)
            painter.fillRect(
                region.boundingRect(),
                widget.palette().color(QPalette.ColorRole.Window),
            )
        painting = Painting(painter, widget, font, *units)
        painting.draw(drawing if region is None else _within(drawing, region, units))
        painter.end()
        return self._pixmap


def _id(part: Box | Arrow) -> str:
    return part.id if isinstance(part, Box) else ""


def _place(part: Box | Arrow, units: tuple[float, float]) -> QRectF:
    """Return where a part stands, with what its pen takes, in pixels."""
    wide, high = units
    if isinstance(part, Box):
        place = QRectF(
            part.x * wide, part.y * high, part.width * wide, part.height * high
        )
        behind = part.stack - 1
        place.adjust(0, 0, behind * wide, behind * high)
    else:
        across = [x * wide for x, _y in part.points]
        down = [y * high for _x, y in part.points]
        place = QRectF(
            min(across), min(down), max(across) - min(across), max(down) - min(down)
        )
    return place.adjusted(-EDGE, -EDGE, EDGE, EDGE)


def _within(drawing: Drawing, region: QRegion, units: tuple[float, float]) -> Drawing:
    """Return the part of a drawing that a region touches."""

    def touched(part: Box | Arrow) -> bool:
        return region.intersects(_place(part, units).toAlignedRect())

    return Drawing(
        width=drawing.width,
        height=drawing.height,
        boxes=tuple(box for box in drawing.boxes if touched(box)),
        arrows=tuple(arrow for arrow in drawing.arrows if touched(arrow)),
        chosen=drawing.chosen,
    )
