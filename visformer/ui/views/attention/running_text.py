"""Sentences as running text, tinted token by token; Qt does the text layout."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QResizeEvent,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)

from visformer.pictures.attention.tinted import Tinted, TintedPiece
from visformer.pictures.picture import HIGH, LOW, MASKED, NAN
from visformer.pictures.selection import TokenRole
from visformer.ui.views.attention.arc_map import SideToken, TokenCanvas
from visformer.ui.widgets.colour_bar import colour_table
from visformer.ui.widgets.plain_label import wrapped_height, written

# "</s>" reads from left to right in any text
ISOLATE, END_ISOLATE = "\u2066", "\u2069"
LARGER = (2.0, 1.7, 1.4, 1.2, 1.0)  # times the normal size: the first that fits


@dataclass
class _Paragraph:
    """One side's text, laid out below its heading."""

    side: TokenRole
    heading: str
    pieces: tuple[TintedPiece, ...]
    layout: QTextLayout
    starts: list[int]  # of the pieces, in characters as Qt counts them
    boxes: dict[int, list[QRectF]] = field(default_factory=dict)  # in the text's frame
    top: float = 0.0  # of the heading
    height: float = 0.0  # of the text


class RunningText(TokenCanvas):
    """Draws a Tinted; reports the token under the mouse as (side, index)."""

    def __init__(self) -> None:
        super().__init__()
        self._tinted: Tinted | None = None
        self._texts: list[list[tuple[str, bool]]] = []
        self._paragraphs: list[_Paragraph] = []
        self._room = (0, 0)  # for which the texts were laid out

    # ---- what is shown ---------------------------------------------------------

    def draw(self, tinted: Tinted) -> None:
        """Show these texts."""
        if tinted == self._tinted:
            return
        self._tinted = tinted
        sides: tuple[tuple[TokenRole, str, tuple[TintedPiece, ...]], ...] = (
            ("query", tinted.query_words, tinted.queries),
            ("key", tinted.key_words, tinted.keys),
        )
        texts = [[(piece.text, piece.spaced) for piece in side[2]] for side in sides]
        if texts != self._texts:
            self._texts = texts
            self._paragraphs = [_paragraph(*side) for side in sides]
            self._lay_out()
        for paragraph, (_, heading, pieces) in zip(
            self._paragraphs, sides, strict=True
        ):
            paragraph.heading, paragraph.pieces = heading, pieces
        self.setMinimumHeight(math.ceil(self._place()))
        self.update()

    def _lay_out(self) -> None:
        self._room = self._available()
        for larger in LARGER:
            font = QFont(self.font())
            font.setPointSizeF(font.pointSizeF() * larger)
            for paragraph in self._paragraphs:
                _break(paragraph, font, max(1, self.width() - 4))
            if self._place() <= self._room[1]:
                break

    def _place(self) -> float:
        """Stack headings and texts; return their total height."""
        top, line = 0.0, self.fontMetrics().height()
        for paragraph in self._paragraphs:
            paragraph.top = top
            top += self._heading_box(paragraph).height() + line / 4
            paragraph.layout.setPosition(QPointF(2, top))
            top += paragraph.height + line * 0.6
        return top

    def _available(self) -> tuple[int, int]:
        viewport = self.parentWidget()
        return self.width(), (self if viewport is None else viewport).height()

    def _heading_box(self, paragraph: _Paragraph) -> QRectF:
        width = max(1, self.width())
        height = wrapped_height(self.fontMetrics(), paragraph.heading, width)
        return QRectF(0, paragraph.top, width, height)

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        return QSize(20 * line, max(4 * line, self.minimumHeight()))

    # ---- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, palette = QPainter(self), self.palette()
        clip = QRectF(event.rect())
        for paragraph in self._paragraphs:
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            flags = Qt.TextFlag.TextWordWrap
            painter.drawText(self._heading_box(paragraph), flags, paragraph.heading)
            seen = list(_seen(paragraph, clip))
            turned = self._paint_grounds(painter, paragraph, seen)
            painter.setPen(palette.color(QPalette.ColorRole.WindowText))
            paragraph.layout.draw(painter, QPointF(0, 0), turned, clip)
            painter.setPen(QPen(palette.color(QPalette.ColorRole.WindowText), 2))
            for index in seen:
                if paragraph.pieces[index].after_prompt:
                    for box in _boxes(paragraph, index)[:1]:
                        edge = box.adjusted(-3, 0, 0, 0)
                        painter.drawLine(edge.topLeft(), edge.bottomLeft())
            painter.setPen(QPen(palette.color(QPalette.ColorRole.Highlight), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            for index in seen:
                if paragraph.pieces[index].chosen:
                    for box in _boxes(paragraph, index):
                        painter.drawRect(box.adjusted(-1, 0, 1, 0))

    def _paint_grounds(
        self, painter: QPainter, paragraph: _Paragraph, seen: list[int]
    ) -> list[QTextLayout.FormatRange]:
        """Paint the tints; return the text that needs another colour on its ground.

        Qt paints a line again for every format that it is given, hence only those.
        """
        colours = colour_table(self.palette())
        own = self.palette().color(QPalette.ColorRole.WindowText).lightnessF() < 0.5
        turned = []
        for index in seen:
            piece = paragraph.pieces[index]
            if piece.shade is None:
                continue
            ground = QColor(*colours[_code(piece)].tolist())
            for box in _boxes(paragraph, index):
                painter.fillRect(box, ground)
            dark_text = ground.lightnessF() >= 0.55
            if dark_text != own:
                form = QTextLayout.FormatRange()
                form.start = paragraph.starts[index]
                form.length = _units(piece.text)
                colour = QTextCharFormat()
                name = "#000000" if dark_text else "#ffffff"
                colour.setForeground(QBrush(QColor(name)))
                form.format = colour
                turned.append(form)
        return turned

    def boxes(self, side: TokenRole, index: int) -> list[QRectF]:
        """Return a token's rectangles: one per line and writing direction."""
        return _boxes(next(p for p in self._paragraphs if p.side == side), index)

    # ---- mouse -----------------------------------------------------------------

    def token_at(self, at: QPointF) -> SideToken | None:
        """Return the token at a point."""
        point = QRectF(at.x(), at.y(), 0, 0)
        for paragraph in self._paragraphs:
            for index in _seen(paragraph, point):
                if any(box.contains(at) for box in _boxes(paragraph, index)):
                    return SideToken(paragraph.side, index)
        return None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._room != self._available():
            self._lay_out()
            self.setMinimumHeight(math.ceil(self._place()))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        kinds = QEvent.Type.FontChange, QEvent.Type.PaletteChange
        if event.type() in kinds and self.__dict__.get("_tinted") is not None:
            tinted, self._tinted, self._texts = self._tinted, None, []
            if tinted is not None:
                self.draw(tinted)


def _paragraph(
    side: TokenRole, heading: str, pieces: tuple[TintedPiece, ...]
) -> _Paragraph:
    text, starts = "", []
    for piece in pieces:
        text += " " if piece.spaced else ""
        special = piece.text.startswith("<") and piece.text.endswith(">")
        text += ISOLATE if special else ""
        starts.append(_units(text))
        text += written((piece.text,))[0] + (END_ISOLATE if special else "")
    layout = QTextLayout(text)
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.setCacheEnabled(True)
    return _Paragraph(side, heading, pieces, layout, starts)


def _break(paragraph: _Paragraph, font: QFont, width: int) -> None:
    layout, down = paragraph.layout, 0.0
    paragraph.boxes = {}
    layout.setFont(font)
    layout.beginLayout()
    while (row := layout.createLine()).isValid():
        row.setLineWidth(width)
        row.setPosition(QPointF(0, down))
        down += row.height() * 1.2
    layout.endLayout()
    paragraph.height = down


def _seen(paragraph: _Paragraph, clip: QRectF) -> range:
    lines = [paragraph.layout.lineAt(n) for n in range(paragraph.layout.lineCount())]
    down = paragraph.layout.position().y()
    inside = [
        line
        for line in lines
        if line.y() + down <= clip.bottom()
        and line.y() + line.height() + down >= clip.top()
    ]
    if not inside:
        return range(0)
    end = inside[-1].textStart() + inside[-1].textLength()
    first = bisect.bisect_right(paragraph.starts, inside[0].textStart()) - 1
    return range(max(0, first), bisect.bisect_left(paragraph.starts, end))


def _boxes(paragraph: _Paragraph, index: int) -> list[QRectF]:
    """Return a piece's rectangles, from its glyphs, since directions may change."""
    layout = paragraph.layout
    if index not in paragraph.boxes:
        start = paragraph.starts[index]
        end, boxes = start + _units(paragraph.pieces[index].text), []
        for number in range(layout.lineCount()):
            line = layout.lineAt(number)
            first = max(start, line.textStart())
            last = min(end, line.textStart() + line.textLength())
            if first < last:
                for run in line.glyphRuns(first, last - first):
                    ink, high = run.boundingRect(), line.height()
                    boxes.append(QRectF(ink.x(), line.y(), ink.width(), high))
        paragraph.boxes[index] = boxes
    return [box.translated(layout.position()) for box in paragraph.boxes[index]]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _code(piece: TintedPiece) -> int:
    """Return the colour map's code of a tinted piece."""
    shade = piece.shade or 0.0
    if math.isnan(shade):
        return NAN
    if piece.masked and shade == 0:
        return MASKED
    return LOW + round(min(1.0, shade) * (HIGH - LOW))
