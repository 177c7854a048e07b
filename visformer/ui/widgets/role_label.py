"""A label whose queries, keys and values have their hues."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import (
    QPainter,
    QPaintEvent,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QWidget

from visformer.pictures.words.role_text import RoleSpan, RoleText
from visformer.ui.look.theme import hue
from visformer.ui.widgets.plain_label import MOST_SHOWN, PlainLabel, cut_to_room

LINE_END = "\u2028"  # within one layout


class RoleLabel(PlainLabel):
    """Wraps a RoleText, which is never read as markup, or any other text.

    What has no room is cut at the end of the last line, and is in the tool tip.
    """

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        """``name`` is the accessible name."""
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setAccessibleName(name)
        self.spans: tuple[RoleSpan, ...] = ()
        self._laid: tuple[tuple[object, ...], QTextLayout] | None = None

    def setText(self, text: str) -> None:
        """Show a text; if it is a RoleText, with its hues."""
        spans = text.spans if isinstance(text, RoleText) else ()
        if (text, spans) != (self.text(), self.spans):
            self.spans = spans
            super().setText(str(text))

    @property
    def cut(self) -> str:
        """The text as it fits; "" where all of it does."""
        text, room = self._shown, self.contentsRect()
        whole = self._lay(text)
        lines = [whole.lineAt(at) for at in range(whole.lineCount())]
        fitting = [
            line for line in lines if line.y() + line.height() <= room.height() + 1
        ]
        if len(fitting) == len(lines) or not lines:
            return ""
        start = lines[max(0, len(fitting) - 1)].textStart()
        return text[:start] + cut_to_room(
            text[start:], self.fontMetrics(), room.width()
        )

    @property
    def _shown(self) -> str:
        return self.text()[:MOST_SHOWN].replace("\n", LINE_END)

    def _lay(self, text: str) -> QTextLayout:
        """Break a text into lines; the last one that was asked for is kept."""
        room, palette = self.contentsRect(), self.palette()
        looks = text, self.spans, room.width(), self.font(), palette.cacheKey()
        if self._laid is not None and self._laid[0] == looks:
            return self._laid[1]
        layout = QTextLayout(text, self.font(), self)
        option = QTextOption(self.alignment() & Qt.AlignmentFlag.AlignHorizontal_Mask)
        option.setWrapMode(QTextOption.WrapMode.WordWrap)
        layout.setTextOption(option)
        layout.setFormats([self._format(span) for span in self.spans])
        layout.beginLayout()
        y = 0.0
        while (line := layout.createLine()).isValid():
            line.setLineWidth(room.width())
            line.setPosition(QPointF(0, y))
            y += line.height()
        layout.endLayout()
        self._laid = looks, layout
        return layout

    def _format(self, span: RoleSpan) -> QTextLayout.FormatRange:
        made, ink = QTextLayout.FormatRange(), QTextCharFormat()
        ink.setForeground(hue(self.palette(), span.role))
        made.start, made.length, made.format = span.start, span.length, ink
        return made

    def paintEvent(self, event: QPaintEvent) -> None:
        cut = self.cut
        if self.hasSelectedText() or not (self.spans or cut):
            super(PlainLabel, self).paintEvent(event)
            return
        layout = self._lay(cut or self._shown)
        last = layout.lineAt(layout.lineCount() - 1)
        room, high = self.contentsRect(), last.y() + last.height()
        top = room.top()
        if self.alignment() & Qt.AlignmentFlag.AlignVCenter and high < room.height():
            top += round((room.height() - high) / 2)
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        layout.draw(painter, QPointF(room.left(), top))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self._laid = None
