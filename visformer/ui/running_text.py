"""Sentences as running text, tinted token by token; Qt shapes and turns the scripts."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QResizeEvent,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from visformer.state.look import Side
from visformer.state.pictures.tinted import Piece, Tinted
from visformer.ui.colour_map import HIDDEN, HIGH, LOW, NAN, table
from visformer.ui.words import wrapped_height

# "</s>" reads from left to right in any text
ISOLATE, END_ISOLATE = "\u2066", "\u2069"
LARGER = (2.0, 1.7, 1.4, 1.2, 1.0)  # than other text: the first that fits


@dataclass
class _Paragraph:
    """One side's text, laid out below its heading."""

    side: Side
    heading: str
    pieces: tuple[Piece, ...]
    layout: QTextLayout
    starts: list[int] = field(default_factory=list)  # of the pieces, in characters
    top: float = 0.0  # of the heading


class RunningText(QWidget):
    """Draws a Tinted; reports the token under the mouse as (side, index)."""

    pointed = Signal(object)  # (side, index) or None
    clicked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._tinted: Tinted | None = None
        self._paragraphs: list[_Paragraph] = []
        self._under: tuple[Side, int] | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    # ---- what is shown ---------------------------------------------------------

    def draw(self, tinted: Tinted) -> None:
        """Show these texts."""
        if tinted == self._tinted:
            return
        self._tinted = tinted
        sides: tuple[tuple[Side, str, tuple[Piece, ...]], ...] = (
            ("query", tinted.query_words, tinted.queries),
            ("key", tinted.key_words, tinted.keys),
        )
        self._paragraphs = [
            self._paragraph(side, heading, pieces) for side, heading, pieces in sides
        ]
        self._lay_out()
        self.update()

    def _paragraph(
        self, side: Side, heading: str, pieces: tuple[Piece, ...]
    ) -> _Paragraph:
        text, starts, formats = "", [], []
        colours = table(self.palette())
        for piece in pieces:
            text += " " if piece.spaced else ""
            special = piece.text.startswith("<") and piece.text.endswith(">")
            text += ISOLATE if special else ""
            starts.append(_units(text))
            text += piece.text + (END_ISOLATE if special else "")
            if piece.shade is not None:
                form = QTextLayout.FormatRange()
                form.start = starts[-1]
                form.length = _units(piece.text)
                form.format = _format(piece, colours[_code(piece)].tolist())
                formats.append(form)
        layout = QTextLayout(text)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        layout.setTextOption(option)
        layout.setFormats(formats)
        return _Paragraph(side, heading, pieces, layout, starts)

    def _lay_out(self) -> None:
        """Break the texts into lines of this width, as large as the height allows."""
        viewport = self.parentWidget()
        room = viewport.height() if viewport is not None else self.height()
        for larger in LARGER:
            height = self._break(larger)
            if height <= room:
                break
        self.setMinimumHeight(math.ceil(height))

    def _break(self, larger: float) -> float:
        """Break the texts in a font so much larger; return the height of all."""
        top, line, font = 0.0, self.fontMetrics().height(), QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * larger)
        for paragraph in self._paragraphs:
            paragraph.top = top
            top += self._heading_box(paragraph).height() + line / 4
            paragraph.layout.setFont(font)
            paragraph.layout.setPosition(QPointF(2, top))
            down = 0.0
            paragraph.layout.beginLayout()
            while (row := paragraph.layout.createLine()).isValid():
                row.setLineWidth(max(1, self.width() - 4))
                row.setPosition(QPointF(0, down))
                down += row.height() * 1.2
            paragraph.layout.endLayout()
            top += down + line * 0.6
        return top

    def _heading_box(self, paragraph: _Paragraph) -> QRectF:
        width = max(1, self.width())
        height = wrapped_height(self.fontMetrics(), paragraph.heading, width)
        return QRectF(0, paragraph.top, width, height)

    def sizeHint(self) -> QSize:
        """Twenty lines wide."""
        line = self.fontMetrics().height()
        return QSize(20 * line, max(4 * line, self.minimumHeight()))

    # ---- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint headings, texts, the frame of the chosen token."""
        painter, palette = QPainter(self), self.palette()
        clip = QRectF(event.rect())
        for paragraph in self._paragraphs:
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            flags = Qt.TextFlag.TextWordWrap
            painter.drawText(self._heading_box(paragraph), flags, paragraph.heading)
            painter.setPen(palette.color(QPalette.ColorRole.WindowText))
            paragraph.layout.draw(painter, QPointF(0, 0), [], clip)
            painter.setPen(QPen(palette.color(QPalette.ColorRole.Highlight), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            for index, piece in enumerate(paragraph.pieces):
                if piece.chosen:
                    for box in self.boxes(paragraph.side, index):
                        painter.drawRect(box.adjusted(-1, 0, 1, 0))

    def boxes(self, side: Side, index: int) -> list[QRectF]:
        """Return where a token stands: a rectangle a line and direction."""
        paragraph = next(p for p in self._paragraphs if p.side == side)
        start = paragraph.starts[index]
        end = start + _units(paragraph.pieces[index].text)
        made, layout = [], paragraph.layout
        for number in range(layout.lineCount()):
            line = layout.lineAt(number)
            first = max(start, line.textStart())
            last = min(end, line.textStart() + line.textLength())
            if first < last:
                place = line.rect().translated(layout.position())
                for run in line.glyphRuns(first, last - first):
                    ink = run.boundingRect().translated(layout.position())
                    made.append(QRectF(ink.x(), place.y(), ink.width(), place.height()))
        return made

    # ---- mouse -----------------------------------------------------------------

    def token_at(self, at: QPointF) -> tuple[Side, int] | None:
        """Return the token at a point."""
        for paragraph in self._paragraphs:
            inside = at - paragraph.layout.position()
            for number in range(paragraph.layout.lineCount()):
                line = paragraph.layout.lineAt(number)
                if not line.rect().top() <= inside.y() <= line.rect().bottom():
                    continue
                first = bisect.bisect_right(paragraph.starts, line.textStart()) - 1
                end = line.textStart() + line.textLength()
                last = bisect.bisect_left(paragraph.starts, end)
                for index in range(max(0, first), last):
                    if any(b.contains(at) for b in self.boxes(paragraph.side, index)):
                        return paragraph.side, index
        return None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Report the token under the mouse."""
        self._point(self.token_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Report the token that is clicked."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(self.token_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is under the mouse."""
        self._point(None)

    def _point(self, at: tuple[Side, int] | None) -> None:
        if at != self._under:
            self._under = at
            self.pointed.emit(at)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Break the texts anew."""
        super().resizeEvent(event)
        self._lay_out()

    def changeEvent(self, event: QEvent) -> None:
        """Follow font and palette."""
        super().changeEvent(event)
        kinds = QEvent.Type.FontChange, QEvent.Type.PaletteChange
        if event.type() in kinds and self.__dict__.get("_tinted") is not None:
            tinted, self._tinted = self._tinted, None
            if tinted is not None:
                self.draw(tinted)


def _units(text: str) -> int:
    """Return the length of a text as Qt counts it, in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2


def _code(piece: Piece) -> int:
    """Return the colour map's code of a tinted piece."""
    shade = piece.shade or 0.0
    if math.isnan(shade):
        return NAN
    if piece.masked and shade == 0:
        return HIDDEN
    return LOW + round(min(1.0, shade) * (HIGH - LOW))


def _format(piece: Piece, rgba: list[int]) -> QTextCharFormat:
    ground = QColor(*rgba)
    form = QTextCharFormat()
    form.setBackground(QBrush(ground))
    dark = ground.lightnessF() < 0.55
    form.setForeground(QBrush(QColor("#ffffff" if dark else "#000000")))
    form.setFontStrikeOut(piece.masked)
    return form
