"""A label of one line in which some words are marked."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QPen

from visformer.pictures.translation_text import TextPart
from visformer.ui.theme import fed_colour
from visformer.ui.widgets.plain_label import PlainLabel


class MarkedLabel(PlainLabel):
    """Words that differ are underlined, in a colour of their own; the rest is faint."""

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.parts: tuple[TextPart, ...] = ()
        self._around = "", ""  # said before and after the parts
        self.rest = ""

    def set_parts(
        self,
        parts: tuple[TextPart, ...],
        before: str = "",
        after: str = "",
        rest: str = "",
    ) -> None:
        """Show a sentence in parts and its rest, between words that are not of it."""
        if (parts, (before, after), rest) == (self.parts, self._around, self.rest):
            return
        self.parts, self._around, self.rest = parts, (before, after), rest
        self.setText("".join((before, *(part.text for part in parts), rest, after)))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint part by part, up to where there is room."""
        if not self.rest and not any(part.differs for part in self.parts):
            super().paintEvent(event)
            return
        painter, metrics = QPainter(self), self.fontMetrics()
        usual = self.palette().color(self.foregroundRole())
        faint = self.palette().color(QPalette.ColorRole.PlaceholderText)
        x, end = self.contentsRect().left(), self.contentsRect().right()
        whole = metrics.horizontalAdvance(self.text()) <= end - x + 1
        before, after = (TextPart(text, differs=False) for text in self._around)
        rest = TextPart(self.rest, differs=False)
        for part in (before, *self.parts, rest, after):
            room = end - x
            text = part.text
            if not whole and metrics.horizontalAdvance(text) > room:
                text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
            ink = fed_colour(self.palette()) if part.differs else usual
            painter.setPen(faint if part is rest else ink)
            wide = metrics.horizontalAdvance(text)
            box = QRect(
                x, self.contentsRect().top(), wide, self.contentsRect().height()
            )
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, text)
            if part.differs and text.strip():
                self._underline(painter, box, text)
            x += wide
            if text != part.text:
                break

    def _underline(self, painter: QPainter, box: QRect, text: str) -> None:
        metrics = self.fontMetrics()
        blank = len(text) - len(text.lstrip())
        left = box.left() + metrics.horizontalAdvance(text[:blank])
        y = box.center().y() + metrics.height() // 2 - 1
        painter.setPen(QPen(fed_colour(self.palette()), max(1, metrics.height() // 12)))
        painter.drawLine(left, y, box.right(), y)
