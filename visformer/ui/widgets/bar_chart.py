"""BarChart: tokens with their probabilities as bars of one scale, 0 to 1."""

from __future__ import annotations

import math

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from visformer.pictures.token_bars import TokenBar, bars_table
from visformer.ui.raw_pieces import written
from visformer.ui.theme import fed_colour
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.plain_tip import plain_tip
from visformer.words import probability

LONGEST_NAME = 24  # characters of room for a name


class BarChart(QWidget):
    """Names at the left, numbers at the right, bars between them."""

    failed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.bars: tuple[TokenBar, ...] = ()
        self._rows = 0  # the most that there were: the room stays
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.export = Export(self, lambda: bars_table(self.bars))
        self.export.failed.connect(self.failed)

    def draw(self, bars: tuple[TokenBar, ...]) -> None:
        """Show these bars."""
        if bars == self.bars:
            return
        self.bars = bars
        if len(bars) > self._rows:
            self._rows = len(bars)
            self.updateGeometry()
        self.setAccessibleDescription("; ".join(bar.words for bar in bars[:3]))
        self.update()

    def sizeHint(self) -> QSize:
        """Return the room of all bars, and of short ones."""
        em = self.fontMetrics().height()
        return QSize(24 * em, max(self._rows, 10) * self._line())

    def minimumSizeHint(self) -> QSize:
        """Cut no row; bars may be short."""
        return QSize(16 * self.fontMetrics().height(), self.sizeHint().height())

    def _line(self) -> int:
        return round(1.35 * self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, metrics = QPainter(self), self.fontMetrics()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        line, em = self._line(), metrics.height()
        number = metrics.horizontalAdvance("0.0e−00") + em // 2
        most = min(LONGEST_NAME * metrics.averageCharWidth(), self.width() // 3)
        names = [
            metrics.elidedText(name, Qt.TextElideMode.ElideRight, most)
            for name in written(tuple(bar.name for bar in self.bars))
        ]
        name = max(map(metrics.horizontalAdvance, names), default=0)
        ranks = [f"{bar.rank:,}" for bar in self.bars]
        rank = max(map(metrics.horizontalAdvance, ranks), default=0) + em // 2
        left = rank + name + em
        room = max(em, self.width() - left - number)
        for at, (bar, text) in enumerate(zip(self.bars, names, strict=True)):
            y = at * line
            self._paint_row(painter, bar, QRect(left, y, room, line))
            painter.setPen(self._ink(bar))
            left_of = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            painter.drawText(QRect(rank, y, name + em // 3, line), left_of, text)
            value = QRect(left + room, y, number, line)
            painter.drawText(value, left_of, probability(bar.p))
            if bar.rank:
                painter.setPen(self.palette().placeholderText().color())
                there = QRect(0, y, rank - em // 3, line)
                painter.drawText(there, left_of, f"{bar.rank:,}")

    def _ink(self, bar: TokenBar) -> Qt.GlobalColor | object:
        palette = self.palette()
        if bar.own and bar.fed:
            return fed_colour(palette)
        return (palette.text() if bar.rank else palette.placeholderText()).color()

    def _paint_row(self, painter: QPainter, bar: TokenBar, box: QRect) -> None:
        """Paint a bar on its track; the step's own token is framed."""
        palette = self.palette()
        track = box.adjusted(0, box.height() // 5, 0, -box.height() // 5)
        painter.fillRect(track, palette.alternateBase())
        if not math.isnan(bar.p):
            full = QRect(track)
            full.setWidth(max(1, round(track.width() * min(1.0, bar.p))))
            colour = palette.highlight().color()
            if not bar.rank:
                colour = palette.placeholderText().color()
            painter.fillRect(full, colour)
        if bar.own:
            ink = fed_colour(palette) if bar.fed else palette.highlight().color()
            painter.setPen(QPen(ink, 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(track)

    def _at(self, point: QPoint) -> TokenBar | None:
        row = point.y() // self._line()
        return self.bars[row] if 0 <= row < len(self.bars) else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Say what the bar under the mouse is."""
        bar = self._at(event.position().toPoint())
        if bar is not None:
            place = event.globalPosition().toPoint()
            QToolTip.showText(place, plain_tip(bar.words), self)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Offer to copy and to save."""
        self.export.popup(event.globalPos())
