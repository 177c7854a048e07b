"""The line above all heads: fold, title, what the colours mean, find, order."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import QComboBox, QPushButton, QToolButton, QWidget

from visformer.language import _
from visformer.pictures.look import ORDERS, Order
from visformer.ui.theme import sized
from visformer.ui.widgets.colour_map import NAN_COLOUR
from visformer.ui.widgets.plain_tip import plain_tip
from visformer.words import head_words

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
        return self.fontMetrics().averageCharWidth()

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
        """Paint the title, the key of NaN, and the words as far as there is room."""
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
        for words in (self._words, self._words.partition(";")[0]):
            if self.fontMetrics().horizontalAdvance(words) <= line.width():
                painter.drawText(line, flags, words)
                break  # the tool tip has them in any case

    def _paint_key(self, painter: QPainter, line: QRectF) -> float:
        """Show which colour means NaN; return where the words end."""
        metrics, word = self.fontMetrics(), "NaN"
        box = QRectF(line.x(), line.y(), 1.2 * metrics.height(), line.height())
        inside = box.adjusted(0, 0.25 * line.height(), 0, -0.25 * line.height())
        painter.fillRect(inside, QColor(NAN_COLOUR))
        line = line.adjusted(box.width() + metrics.averageCharWidth(), 0, 0, 0)
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, word)
        return line.x() + metrics.horizontalAdvance(word + "  ")
