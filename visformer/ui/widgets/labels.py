"""Token labels beside a heat map, thinned to what fits, and the colour bar below it."""

from __future__ import annotations

import math
from functools import lru_cache

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QImage,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from visformer.language import _
from visformer.pictures.picture import TokenPair
from visformer.ui.widgets.colour_map import HIGH, LOW, MASKED, NAN, Bytes, nan_crosses

LONGEST = 14  # characters of a label; more are cut in the middle
FEWEST = 8  # characters of the scale's name below which it is not painted


def short(label: str) -> str:
    """Cut a long label in the middle; of a pair, each token."""
    if isinstance(label, TokenPair):
        return _short_pair(label.read, label.next, label.fed)
    return _cut(label, LONGEST)


@lru_cache(maxsize=8192)
def _short_pair(read: str, next: str, fed: str) -> str:
    return TokenPair(_cut(read, LONGEST - 5), _cut(next, LONGEST - 5), fed)


@lru_cache(maxsize=8192)
def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


class Labels(QWidget):
    """Labels of the rows (vertical) or columns of the map beside them."""

    def __init__(self, orientation: Qt.Orientation, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows = orientation is Qt.Orientation.Vertical
        self._labels: tuple[str, ...] = ()
        self._texts: tuple[str, ...] = ()  # the labels, cut to what fits
        self._marked: tuple[int, ...] = ()
        self._first, self._span = 0.0, 1.0
        self.overhang = 0  # pixels beyond the map at both ends, for labels at its edge
        self.upright = True  # column labels that do not fit side by side are turned
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def draw(self, labels: tuple[str, ...], marked: tuple[int, ...]) -> None:
        """Show these labels, some of them marked."""
        texts = self._texts
        if labels is not self._labels:  # marking alone comes with every mouse move
            self._labels, texts = labels, tuple(short(label) for label in labels)
        if (texts, marked) != (self._texts, self._marked):
            self._texts, self._marked = texts, marked
            self.update()

    def look_at(self, first: float, span: float) -> None:
        """Label ``span`` cells from ``first`` on."""
        if (first, span) != (self._first, self._span):
            self._first, self._span = first, span
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the labels that fit; the marked ones always."""
        painter = QPainter(self)
        palette, high = self.palette(), self.fontMetrics().height()
        if not self._rows and not self.upright:  # x now runs up, y to the right
            painter.translate(0, self.height())
            painter.rotate(-90)
        painter.setPen(palette.color(QPalette.ColorRole.WindowText))
        for index in self._thinned():
            box, align = self._box(index, high)
            painter.drawText(box, align, self._texts[index])
        painter.setPen(palette.color(QPalette.ColorRole.HighlightedText))
        for index in self._marked:
            if index < len(self._texts):
                box, align = self._box(index, high)
                painter.fillRect(box, palette.highlight())
                painter.drawText(box, align, self._texts[index])

    def _pitch(self) -> float:
        side = self.height() if self._rows else self.width()
        return (side - 2 * self.overhang) / self._span

    def _thinned(self) -> list[int]:
        """Return the visible labels for which there is space beside the marked ones."""
        pitch = self._pitch()
        every = 1
        if self._rows or not self.upright:
            every = max(1, math.ceil(self.fontMetrics().height() / pitch - 0.2))
        first = max(0, math.floor(self._first))
        last = min(len(self._texts), math.ceil(self._first + self._span))
        return [
            index
            for index in range(-(-first // every) * every, last, every)
            if all(abs(index - marked) >= every for marked in self._marked)
        ]

    def _box(self, index: int, high: int) -> tuple[QRectF, Qt.AlignmentFlag]:
        """Return a label's place, in the rotated frame if labels are rotated."""
        pitch, centre = self._pitch(), Qt.AlignmentFlag.AlignVCenter
        middle = (index + 0.5 - self._first) * pitch
        gap = high // 5
        middle += self.overhang
        if self._rows:
            box = QRectF(0, middle - high / 2, self.width() - gap, high)
            return box, Qt.AlignmentFlag.AlignRight | centre
        if self.upright:
            box = QRectF(middle - pitch / 2, 0, pitch, self.height())
            return box, Qt.AlignmentFlag.AlignHCenter | centre
        box = QRectF(gap, middle - high / 2, self.height() - gap, high)
        return box, Qt.AlignmentFlag.AlignLeft | centre


class Caption(QWidget):
    """One line of plain text that reads upwards."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._text = ""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def set_text(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self.setToolTip(text)
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the text, elided if it does not fit."""
        painter = QPainter(self)
        painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
        painter.rotate(-90)
        metrics = self.fontMetrics()
        text = metrics.elidedText(
            self._text, Qt.TextElideMode.ElideRight, self.height()
        )
        box = QRectF(-self.height(), 0, self.height(), self.width())
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


class ColourBar(QWidget):
    """What the colours mean: both ends, the scale in words, hidden and NaN cells."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._shown: tuple[object, ...] = ()
        self._ends, self._note = ("", ""), ""
        self._table: Bytes | None = None
        self._keys: tuple[tuple[str, int], ...] = ()
        self._boolean = False
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def draw(
        self,
        table: Bytes,
        ends: tuple[str, str],
        note: str,
        *,
        masked: bool,
        unknown: bool,
        boolean: bool = False,
    ) -> None:
        """Show a scale; ``masked`` and ``unknown``: there are such cells.

        ``boolean``: there are only cells that may attend and cells that may not.
        """
        shown = (id(table), ends, note, masked, unknown, boolean)
        if shown == self._shown:
            return
        self._shown, self._table, self._ends, self._note = shown, table, ends, note
        keys = (
            (_("may attend"), HIGH, boolean),
            ("NaN", NAN, unknown),
            (_("masked"), MASKED, masked or boolean),
        )
        self._boolean = boolean
        self._keys = tuple((text, code) for text, code, is_there in keys if is_there)
        self.setToolTip(note)
        self.update()

    def sizeHint(self) -> QSize:
        """One line high."""
        return QSize(20 * self.fontMetrics().averageCharWidth(), self._line())

    def _line(self) -> int:
        return self.fontMetrics().height() + 2

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint from left to right: low end, colours, high end, keys, words."""
        if self._table is None:
            return
        painter = QPainter(self)
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        gap = self.fontMetrics().averageCharWidth()
        x = 0.0 if self._boolean else self._scale(painter, self._table, gap)
        for text, code in self._keys:
            x = self._key(painter, x, text, code) + gap
        painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
        if self.width() - x > FEWEST * gap:  # otherwise it is only in the tool tip
            self._text(painter, x, self._note)

    def _scale(self, painter: QPainter, table: Bytes, gap: int) -> float:
        """Paint the colours between their ends; return where the next text begins."""
        x = self._text(painter, 0, self._ends[0]) + gap / 2
        width = min(12.0 * gap, self.width() / 4)
        box = QRectF(x, self.height() * 0.2, width, self.height() * 0.6)
        painter.drawImage(box, _ramp(table))
        painter.drawRect(box)
        return self._text(painter, box.right() + gap / 2, self._ends[1]) + gap

    def _key(self, painter: QPainter, x: float, text: str, code: int) -> float:
        if self._table is None:
            return x
        side = self.height() * 0.6
        box = QRectF(x, self.height() * 0.2, 1.5 * side, side)
        red, green, blue, _ = self._table[code].tolist()
        painter.fillRect(box, QBrush(QColor(red, green, blue)))
        if code == MASKED:
            hatch = QBrush(painter.pen().color(), Qt.BrushStyle.BDiagPattern)
            painter.fillRect(box, hatch)
        elif code == NAN:
            painter.fillRect(box, nan_crosses())
        painter.drawRect(box)
        return self._text(painter, box.right() + side / 3, text)

    def _text(self, painter: QPainter, x: float, text: str) -> float:
        """Write a text; return where it ends."""
        room = max(0, int(self.width() - x))
        cut = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)
        box = QRectF(x, 0, room, self.height())
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, cut)
        return x + self.fontMetrics().horizontalAdvance(cut)


def _ramp(table: Bytes) -> QImage:
    """Return the colours from low to high as an image one pixel high."""
    row = table[LOW : HIGH + 1].tobytes()
    size = HIGH + 1 - LOW
    return QImage(row, size, 1, 4 * size, QImage.Format.Format_RGBA8888).copy()
