"""The image of a Drawing: what changes from one to the next is painted anew."""

from __future__ import annotations

from PySide6.QtGui import QFont, QPainter, QPalette, QPixmap
from PySide6.QtWidgets import QWidget

from visformer.pictures.diagram.columns import Drawing
from visformer.ui.raw_pieces import is_raw
from visformer.ui.widgets.diagram_canvas import Painting, has_ground
from visformer.ui.widgets.lettering import lettering

GROUNDS = 2  # kept: from the first step, or another layer, one often goes back


class DiagramImage:
    """Keeps what was painted of a diagram, in the pixels of its widget's screen.

    Boxes and arrows stay as they are from step to step: they are painted once, and at
    each step the tokens and words over them.
    """

    def __init__(self) -> None:
        self._image = QPixmap()
        self._of: tuple[object, ...] = ()  # what the image was painted from
        # the same without tokens and words, newest first, and what each is made of
        self._grounds: list[tuple[tuple[object, ...], QPixmap]] = []
        self._type: tuple[object, ...] = ()  # of the lettering

    def of(
        self, drawing: Drawing, widget: QWidget, font: QFont, units: tuple[float, float]
    ) -> QPixmap:
        """Return the image; ``units``: a character's width and a line's height."""
        ratio, kind = widget.devicePixelRatioF(), (font.key(), units, is_raw())
        look = widget.size(), ratio, widget.palette().cacheKey(), widget.hasFocus()
        if (drawing, look, kind) == self._of:
            return self._image
        self._of = drawing, look, kind
        if kind != self._type:
            self._type, self._lettering = kind, lettering(font, units[0])
        parts = look, units, _ground(drawing)
        kept = next((one for one in self._grounds if one[0] == parts), None)
        if kept is None:
            kept = parts, self._blank(widget, ratio)
            painter = QPainter(kept[1])
            Painting(painter, widget, *units).draw(drawing)
            painter.end()
        others = [one for one in self._grounds if one is not kept]
        self._grounds = [kept, *others][:GROUNDS]
        if (self._image.size(), self._image.devicePixelRatio()) != (
            kept[1].size(),
            ratio,
        ):
            self._image = self._blank(widget, ratio)
        painter = QPainter(self._image)
        painter.drawPixmap(0, 0, kept[1])
        Painting(painter, widget, *units).write(drawing, self._lettering)
        painter.end()
        return self._image

    def _blank(self, widget: QWidget, ratio: float) -> QPixmap:
        pixmap = QPixmap(widget.size() * ratio)
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(widget.palette().color(QPalette.ColorRole.Window))
        return pixmap


def _ground(drawing: Drawing) -> tuple[object, ...]:
    """Return what boxes and arrows are painted from."""
    boxes = []
    for box in drawing.boxes:
        chosen = bool(box.id) and box.id == drawing.chosen
        if box.style != "token" and has_ground(box, chosen=chosen):
            place = box.x, box.y, box.width, box.height
            boxes.append((place, box.style, box.strong, box.role, box.stack, chosen))
    return drawing.arrows, boxes
