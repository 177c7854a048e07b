"""The grid of all heads: one image, labels, the chosen head framed; mouse and keys."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QComboBox,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QToolTip,
    QWidget,
)

from visformer.language import _
from visformer.pictures.attention.mosaic import Mosaic
from visformer.pictures.attention.ranking import Ranking, order_words
from visformer.pictures.picture import NAN, NOTHING, Table
from visformer.pictures.selection import ORDERS, Order
from visformer.ui.look.theme import Dressed, letter_width, sized
from visformer.ui.widgets.cell_pixels import new_parts, paint_pixels
from visformer.ui.widgets.colour_bar import NAN_COLOUR, colour_table, image_of
from visformer.ui.widgets.controls import keeps
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.plain_label import plain_tip
from visformer.words import head_words

GAP = 5  # pixels between thumbnails
LEAST = 24  # pixels of a thumbnail's sides: a long, flat one is stretched
STEPS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}


class Overview(Dressed, QWidget):
    """Draws a Mosaic; reports the layer and head that were chosen."""

    dressed_at = (QEvent.Type.PaletteChange,)

    chosen = Signal(int, int)  # layer and head
    order_chosen = Signal(str)
    folding = Signal(bool)
    resized = Signal()

    def __init__(self, table: Callable[[], Table | None]) -> None:
        """``table`` gives every head's weights for export."""
        super().__init__()
        self.export = Export(self, table)
        self._mosaic: Mosaic | None = None
        self._codes = NOTHING  # of its image
        self._table = colour_table(self.palette())  # that they are of
        self._unknown = False  # some weight is NaN
        self._chosen = (0, 0)
        self._order: Order = "place"
        self._ranking: Ranking | None = None
        self.header = HeadsHeader(self)
        self.header.order_chosen.connect(self.order_chosen)
        self.header.folding.connect(self._fold)
        self.orders, self.question = self.header.orders, self.header.question
        self._tell()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(_("all heads, one row per layer, one column per head"))
        self._built = True

    def draw(self, mosaic: Mosaic | None) -> None:
        """Show this grid; None shows that there is none."""
        before, self._mosaic = self._mosaic, mosaic
        table = colour_table(self.palette())
        stays = self._codes.size > 0 and table is self._table and self._is_grid(before)
        known, self._table, self._codes = self._codes, table, NOTHING
        if mosaic is not None and mosaic.image.size:
            self._codes = mosaic.image.copy()  # it may still be filled
            if before is not None and stays:
                rows = np.flatnonzero((known != self._codes).any(1))
                for part in new_parts(before, mosaic, rows, self._grid()):
                    self.update(part)
        self._unknown = int(self._codes.max(initial=0)) == NAN
        self._tell()
        self.choose(mosaic.chosen if mosaic is not None else (0, 0))
        if not stays:
            self._repaint()

    def _is_grid(self, other: Mosaic | None) -> bool:
        """Tell whether the thumbnails stand where another's stood."""
        now = self._mosaic
        if now is None or other is None or self._ranking is not None:
            return False
        return now.grid == other.grid

    def _tell(self) -> None:
        """Name the grid, and say what its colours or its order are."""
        if self._mosaic is None:
            words = _("all heads: nothing to show yet")
            self.header.draw(words, "", unknown=False)
            return
        words = _("L: layer, H: head; colour: {scale}", scale=self._mosaic.note)
        if self._ranking is not None:
            words = self._ranking.words
        elif self._order == "cell":
            words = order_words(self._order, "cross")
        self.header.draw(self._mosaic.title, words, unknown=self._unknown)

    def _fold(self, folded: bool) -> None:
        self.updateGeometry()
        self.folding.emit(folded)
        self.update()

    def _repaint(self) -> None:
        self.update(self.rect().adjusted(0, self._header(), 0, 0))

    def rank(self, order: Order, ranking: Ranking | None, words: str) -> None:
        """Show the heads in this order; None: by layer and head.

        ``words``: what they are ordered by, also while that is still measured.
        """
        self.header.rank(order, words)
        if (order, ranking) != (self._order, self._ranking):
            self._order, self._ranking = order, ranking
            self._tell()
            self._repaint()

    def choose(self, chosen: tuple[int, int]) -> None:
        """Frame a head; the image is left alone."""
        if chosen != self._chosen:
            self._chosen = chosen
            self.header.choose(chosen)
            self._repaint()
        self.setAccessibleDescription(_("{head} is chosen", head=head_words(*chosen)))

    def thumbnail(self, layers: int, heads: int) -> tuple[int, int]:
        """Return the height and width in pixels of one thumbnail of such a grid."""
        place, ratio = self._place(), self.devicePixelRatioF()
        height, width = place.height() / max(1, layers), place.width() / max(1, heads)
        return max(1, int(height * ratio)), max(1, int(width * ratio))

    # ---- painting --------------------------------------------------------------

    def _place(self) -> QRectF:
        metrics = self.fontMetrics()
        left, top = metrics.horizontalAdvance("L00 "), self._header() + 2
        if self._order in ("place", "cell"):
            top += metrics.height()
        else:  # the captions are on the thumbnails
            left = 4
        width, height = self.width() - left - 4, self.height() - top - 4
        return QRectF(left, top, max(1, width), max(1, height))

    def _grid(self) -> QRectF:
        place, mosaic = self._place(), self._mosaic
        if mosaic is None or not mosaic.image.size:
            return place
        rows, columns = mosaic.shape
        across = place.width() / (mosaic.heads * max(1, columns))
        down = place.height() / (mosaic.layers * max(1, rows))
        wide = max(down * columns, LEAST) * mosaic.heads
        high = max(across * rows, LEAST) * mosaic.layers
        place.setWidth(min(place.width(), wide))
        place.setHeight(min(place.height(), high))
        return place

    def _header(self) -> int:
        return self.header.sizeHint().height()

    def _spot(self, layer: int, head: int) -> tuple[int, int]:
        if self._ranking is None or self._mosaic is None:
            return layer, head
        return divmod(self._ranking.order.index((layer, head)), self._mosaic.heads)

    def _head(self, row: int, column: int) -> tuple[int, int]:
        if self._ranking is None or self._mosaic is None:
            return row, column
        return self._ranking.order[row * self._mosaic.heads + column]

    def _box(self, grid: QRectF, layer: int, head: int) -> QRectF:
        mosaic = self._mosaic
        if mosaic is None:
            return QRectF()
        layer, head = self._spot(layer, head)
        width, height = grid.width() / mosaic.heads, grid.height() / mosaic.layers
        return QRectF(grid.x() + head * width, grid.y() + layer * height, width, height)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, palette = QPainter(self), self.palette()
        role = QPalette.ColorRole
        if self._mosaic is None or self.header.fold.isChecked():
            return
        grid = self._grid()
        if self._codes.size:
            if self._ranking is None:
                self._paint_cells(painter, grid, event.rect())
            else:
                self._paint_ranked(painter, grid, self._mosaic)
            self._paint_gaps(painter, grid, self._mosaic)
        painter.setPen(palette.color(role.WindowText))
        beside = event.rect().left() < grid.x() - 4 or event.rect().top() < grid.y() - 4
        if self._ranking is None and beside:
            self._paint_labels(painter, grid, self._mosaic)
        elif self._ranking is not None:
            self._paint_captions(painter, grid, self._ranking)
        wide = 3 if self.hasFocus() else 2  # in the gap: it hides nothing
        frame = self._box(grid, *self._chosen)
        frame.adjust(-wide, -wide, wide - GAP, wide - GAP)
        pen = QPen(palette.color(role.Highlight), wide)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        painter.drawRect(frame)

    def _paint_cells(self, painter: QPainter, grid: QRectF, part: QRect) -> None:
        (rows, columns), ratio = self._codes.shape, self.devicePixelRatioF()
        pitch = grid.width() / columns, grid.height() / rows
        # the last gap is covered anyway
        room = grid.adjusted(0, 0, -GAP / 2, -GAP / 2).toAlignedRect()
        where = self._codes, self._table, grid.topLeft(), pitch, part
        paint_pixels(painter, *where, room=room, ratio=ratio)

    def _paint_gaps(self, painter: QPainter, grid: QRectF, mosaic: Mosaic) -> None:
        """Cover what is not decoded yet, and the gaps; frame the thumbnails."""
        ground = self.palette().color(QPalette.ColorRole.Window)
        wide, high = grid.width() / mosaic.heads, grid.height() / mosaic.layers
        down = min(high * mosaic.filled[0] / mosaic.height, high - GAP)
        across = min(wide * mosaic.filled[1] / mosaic.width, wide - GAP)
        left, top = grid.x(), grid.y()
        for layer in range(mosaic.layers):
            y = top + layer * high + down
            painter.fillRect(QRectF(left, y, grid.width(), high - down), ground)
        for head in range(mosaic.heads):
            x = left + head * wide + across
            painter.fillRect(QRectF(x, top, wide - across, grid.height()), ground)
        painter.setPen(self.palette().color(QPalette.ColorRole.Mid))
        rows = [top + layer * high for layer in range(mosaic.layers)]
        columns = [left + head * wide for head in range(mosaic.heads)]
        size = wide - GAP, high - GAP
        painter.drawRects([QRectF(x, y, *size) for y in rows for x in columns])

    def _paint_ranked(self, painter: QPainter, grid: QRectF, mosaic: Mosaic) -> None:
        """Paint every thumbnail at the place of its rank."""
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
        image = image_of(self._codes, self._table)
        for layer in range(mosaic.layers):
            for head in range(mosaic.heads):
                x, y, width, height = mosaic.frame(layer, head)
                source = QRectF(x, y, width, height)
                painter.drawImage(self._box(grid, layer, head), image, source)

    def _paint_captions(
        self, painter: QPainter, grid: QRectF, ranking: Ranking
    ) -> None:
        room = self._box(grid, 0, 0).size() - QSizeF(GAP + 2, 0)
        font, captions = fitted(ranking, self.font(), room)
        painter.setFont(font)
        metrics = QFontMetrics(font)
        ground = self.palette().color(QPalette.ColorRole.Window)
        ground.setAlphaF(0.85)
        for head, text in zip(ranking.order, captions, strict=False):
            box = self._box(grid, *head).adjusted(1, 1, -GAP - 1, -GAP - 1)
            box.setTop(max(box.top(), box.bottom() - metrics.height()))
            box.setWidth(metrics.horizontalAdvance(text) + 2)
            painter.fillRect(box, ground)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def _paint_labels(self, painter: QPainter, grid: QRectF, mosaic: Mosaic) -> None:
        metrics = self.fontMetrics()
        wide, high = grid.width() / mosaic.heads, grid.height() / mosaic.layers
        line, room = metrics.height(), metrics.horizontalAdvance("H00 ")
        above = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom
        for head in range(0, mosaic.heads, math.ceil(room / max(1.0, wide))):
            x = grid.x() + head * wide
            box = QRectF(x, grid.y() - line, max(room, wide - GAP), line)
            painter.drawText(box, above, f"H{head + 1}")
        beside = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for layer in range(0, mosaic.layers, math.ceil(line / max(1.0, high))):
            y = grid.y() + layer * high
            box = QRectF(0, y, grid.x() - 4, max(line, high - GAP))
            painter.drawText(box, beside, f"L{layer + 1}")

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        folded = self.header.fold.isChecked()
        return QSize(30 * line, self._header() if folded else 10 * line)

    def minimumSizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        folded = self.header.fold.isChecked()
        return QSize(10 * line, self._header() if folded else 5 * line)

    # ---- mouse and keys --------------------------------------------------------

    def head_at(self, at: QPointF) -> tuple[int, int] | None:
        """Return the layer and head at a point; None if there is none."""
        mosaic, grid = self._mosaic, self._grid()
        if mosaic is None or self.header.fold.isChecked() or not grid.contains(at):
            return None
        across = (
            (at.x() - grid.x()) / grid.width() * mosaic.heads * max(1, mosaic.width)
        )
        down = (
            (at.y() - grid.y()) / grid.height() * mosaic.layers * max(1, mosaic.height)
        )
        spot = mosaic.hit(across, down)
        return None if spot is None else self._head(*spot)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        chosen = self.head_at(event.position())
        if chosen is not None and event.button() == Qt.MouseButton.LeftButton:
            self.chosen.emit(*chosen)

    def walk(self, layers: int, heads: int) -> None:
        """Choose a neighbour of the chosen head."""
        if self._mosaic is not None:
            at = self._mosaic.walk(self._spot(*self._chosen), layers, heads)
            at = self._head(*at)
            if at != self._chosen:
                self.chosen.emit(*at)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = STEPS.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
        else:
            self.walk(*step)

    def event(self, event: QEvent) -> bool:
        if keeps(event, STEPS):
            return True
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            at = self.head_at(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), plain_tip(self._tip(at)), self)
            return True
        return super().event(event)

    def _tip(self, at: tuple[int, int] | None) -> str:
        if at is None or self._ranking is None:
            return head_words(*at) if at else ""
        return _(
            "{head} · {measure}\n{order}",
            head=head_words(*at),
            measure=self._ranking.captions[self._ranking.order.index(at)],
            order=self._ranking.words,
        )

    def resizeEvent(self, event: QEvent) -> None:
        """Report it: thumbnails of another size may need another reduction."""
        super().resizeEvent(event)  # type: ignore[arg-type]
        self.header.setGeometry(0, 0, self.width(), self._header())
        self.resized.emit()

    def _dress(self) -> None:
        self.draw(self._mosaic)


CAPTION = 0.45  # of a picture's height, for its caption
SMALLEST = 0.6  # of the text's size


def fitted(
    ranking: Ranking, font: QFont, room: QSizeF
) -> tuple[QFont, tuple[str, ...]]:
    """Return the captions of all heads that fit into ``room`` pixels, and their font.

    Where there is no room for the measures they are left out, for all heads alike;
    where there is none for the heads' names, all is.
    """
    metrics = QFontMetrics(font)
    most = min(1.0, max(SMALLEST, CAPTION * room.height() / metrics.height()))
    for captions, least in ((ranking.captions, most), (ranking.heads, SMALLEST)):
        wide = max(map(metrics.horizontalAdvance, captions), default=1)
        size = min(most, room.width() / wide)
        if size >= least:
            return sized(font, size), captions
    return font, ()


QUESTION = 6  # times three letters: the least room of the question beside the title


class HeadsHeader(QWidget):
    """Names the grid of heads; folded it says which head is on screen."""

    order_chosen = Signal(str)
    folding = Signal(bool)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._title, self._words = "", ""
        self._unknown = False
        self._titled = True
        self._chosen = (0, 0)
        self._question = ""
        self.fold = QToolButton(self)
        self.fold.setAutoRaise(True)
        self.fold.setCheckable(True)
        self.fold.setArrowType(Qt.ArrowType.DownArrow)
        self.fold.setToolTip(_("Fold all heads to one line, or show them"))
        self.fold.setAccessibleName(_("fold all heads"))
        self.fold.toggled.connect(self._fold)
        self.question = QPushButton(self)
        self.question.hide()
        self.orders = QComboBox(self)
        for name, title in ORDERS.items():
            self.orders.addItem(_(title), name)
        self.orders.setAccessibleName(_("order of the heads"))
        self.orders.activated.connect(
            lambda _: self.order_chosen.emit(self.orders.currentData())
        )

    def draw(self, title: str, words: str, *, unknown: bool) -> None:
        """Show the title, and how the grid is painted or ordered.

        ``unknown``: some weight is NaN.
        """
        if (title, words, unknown) != (self._title, self._words, self._unknown):
            self._title, self._words, self._unknown = title, words, unknown
            self.setToolTip(plain_tip(words))
            self._place()
            self.update()

    def choose(self, chosen: tuple[int, int]) -> None:
        """Name the head on screen where the grid is folded."""
        if chosen != self._chosen:
            self._chosen = chosen
            self.update()

    def rank(self, order: Order, words: str) -> None:
        """Show the order that was chosen."""
        if order != self.orders.currentData():
            self.orders.setCurrentIndex(self.orders.findData(order))
        told = words or _("order of the heads")
        if told != self.orders.toolTip():
            self.orders.setToolTip(told)

    def offer(self, question: str) -> None:
        """Offer to find the head that reads the locked cell; "" offers nothing."""
        if question != self._question:
            self._question = question
            self.question.setToolTip(plain_tip(question))
            self.question.setAccessibleName(question)
            self.question.setVisible(bool(question))
            self._place()
            self.update()

    def _fold(self, folded: bool) -> None:
        arrow = Qt.ArrowType.RightArrow if folded else Qt.ArrowType.DownArrow
        self.fold.setArrowType(arrow)
        self.folding.emit(folded)
        self.update()

    # ---- where things are ------------------------------------------------------

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        return QSize(20 * line, max(line, self.orders.sizeHint().height()))

    def _place(self) -> None:
        high, size = self.height(), self.orders.sizeHint()
        self.fold.setGeometry(0, 0, high, high)
        wide = min(size.width(), self.width() // 2)
        self.orders.setGeometry(self.width() - wide, 0, wide, high)
        left = round(self._title_end())
        room = self.orders.x() - left - self._letter()
        pads, metrics = 3 * self._letter(), self.fontMetrics()
        wanted = metrics.horizontalAdvance(self._question) + pads
        self._titled = not self._question or room >= min(wanted, QUESTION * pads)
        if not self._titled:  # the question is worth more than the title
            left, room = high, self.orders.x() - high - self._letter()
        text, cut = self._question, Qt.TextElideMode.ElideMiddle
        self.question.setText(metrics.elidedText(text, cut, max(0, room - pads)))
        self.question.setGeometry(left, 0, max(0, min(wanted, room)), high)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def _letter(self) -> int:
        return letter_width(self.fontMetrics())

    def _bold(self) -> QFont:
        return sized(self.font(), 1.0, bold=True)

    def _shown_title(self) -> str:
        if not self.fold.isChecked():
            return self._title
        return _("{title}: {head}", title=self._title, head=head_words(*self._chosen))

    def _title_end(self) -> float:
        room = self.width() - self.orders.width() - self.height()
        wide = QFontMetricsF(self._bold()).horizontalAdvance(self._shown_title())
        return self.height() + min(wide, room) + self._letter()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, palette = QPainter(self), self.palette()
        cut, flags = Qt.TextElideMode.ElideRight, Qt.AlignmentFlag.AlignVCenter
        line = QRectF(self.rect()).adjusted(self.height(), 0, 0, 0)
        line.setRight(self.orders.x() - self._letter())
        painter.setFont(self._bold())
        painter.setPen(palette.color(QPalette.ColorRole.WindowText))
        title = painter.fontMetrics().elidedText(
            self._shown_title(), cut, int(line.width())
        )
        if self._titled:
            painter.drawText(line, flags, title)
        painter.setFont(self.font())
        line.setLeft(self._title_end())
        if not self.question.isHidden():
            return
        if self._unknown:
            line.setLeft(self._paint_key(painter, line))
        painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
        for words in (self._words, re.split("[;；]", self._words)[0]):
            if self.fontMetrics().horizontalAdvance(words) <= line.width():
                painter.drawText(line, flags, words)
                break  # the tool tip has them in any case

    def _paint_key(self, painter: QPainter, line: QRectF) -> float:
        metrics, word = self.fontMetrics(), "NaN"
        box = QRectF(line.x(), line.y(), 1.2 * metrics.height(), line.height())
        inside = box.adjusted(0, 0.25 * line.height(), 0, -0.25 * line.height())
        painter.fillRect(inside, QColor(NAN_COLOUR))
        line = line.adjusted(box.width() + letter_width(metrics), 0, 0, 0)
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, word)
        return line.x() + metrics.horizontalAdvance(word + "  ")
