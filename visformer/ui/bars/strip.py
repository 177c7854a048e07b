"""A row of token chips, tinted by attention; a click picks one."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QToolTip, QWidget

from visformer.language import N_, _
from visformer.pictures.attention.strips import Chip
from visformer.ui.widgets.colour_map import NAN_COLOUR
from visformer.words import probability

CHIP_WORDS = {  # by what the token is, and whether something was done to its weight
    ("", False): N_("id {id}, weight {weight}"),
    ("", True): N_("id {id}, weight {weight} ({done})"),
    ("forced", False): N_("id {id}, forced by you, weight {weight}"),
    ("forced", True): N_("id {id}, forced by you, weight {weight} ({done})"),
    ("masked", False): N_("id {id}, masked, weight {weight}"),
    ("masked", True): N_("id {id}, masked, weight {weight} ({done})"),
}


class TokenStrip(QScrollArea):
    """Chips side by side; scrolls to keep the current one visible."""

    clicked = Signal(int)

    def __init__(self, name: str, empty: str) -> None:
        super().__init__()
        self._row = _ChipRow(empty)
        self._row.clicked.connect(self.clicked)
        self.setWidget(self._row)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(name)
        self._fit()

    def draw(self, chips: tuple[Chip, ...]) -> None:
        """Show these tokens."""
        if chips == self._row.chips:
            return
        self._row.set_chips(chips)
        unknown = any(math.isnan(chip.tint) for chip in chips)
        tokens = " ".join(chip.token for chip in chips)
        if unknown:
            tokens = _("{tokens}; the weights are NaN", tokens=tokens)
        self.setAccessibleDescription(tokens)
        self._row.setToolTip(
            _("This colour means that the weight is NaN (not a number).")
            if unknown
            else ""
        )
        self._fit()
        current = next((i for i, c in enumerate(chips) if c.current), None)
        if current is not None:
            box = self._row.boxes[current]
            self.ensureVisible(box.center().x(), 0, box.width(), 0)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._row.set_chips(self._row.chips)
            self._fit()

    def resizeEvent(self, event: QEvent) -> None:
        """Leave room for the scroll bar where it is needed."""
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._fit()

    def _fit(self) -> None:
        height = self._row.sizeHint().height()
        if self._row.sizeHint().width() > self.viewport().width():
            height += self.horizontalScrollBar().sizeHint().height()
        self.setFixedHeight(height)


class _ChipRow(QWidget):
    clicked = Signal(int)

    def __init__(self, empty: str) -> None:
        super().__init__()
        self.chips: tuple[Chip, ...] = ()
        self.boxes: list[QRect] = []
        self._empty = empty
        self.setMouseTracking(True)
        self.set_chips(())

    def set_chips(self, chips: tuple[Chip, ...]) -> None:
        """Lay the chips out."""
        self.chips = chips
        metrics = QFontMetrics(self.font())
        gap, height = metrics.height() // 4, self.sizeHint().height()
        x, self.boxes = gap, []
        for chip in chips:
            width = (
                metrics.horizontalAdvance(chip.token or " ") + metrics.height() * 2 // 3
            )
            self.boxes.append(QRect(x, gap // 2, width, height - gap))
            x += width + gap
        self.setMinimumWidth(x)
        self.update()

    def sizeHint(self) -> QSize:
        """As wide as the chips, one line high."""
        metrics = QFontMetrics(self.font())
        width = self.boxes[-1].right() + metrics.height() if self.boxes else 0
        return QSize(width, metrics.height() * 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.chips:
            painter.setPen(self.palette().placeholderText().color())
            left = self.rect().adjusted(self.height() // 4, 0, 0, 0)
            painter.drawText(left, Qt.AlignmentFlag.AlignVCenter, self._empty)
        for chip, box in zip(self.chips, self.boxes, strict=True):
            if box.intersects(event.rect()):
                self._paint_chip(painter, chip, box)

    def _paint_chip(self, painter: QPainter, chip: Chip, box: QRect) -> None:
        palette = self.palette()
        unknown = math.isnan(chip.tint)
        tint = 0.0 if unknown else min(1.0, chip.tint)
        ground = _mixed(palette.base().color(), palette.highlight().color(), tint)
        text = palette.text().color()
        if unknown:
            ground, text = QColor(NAN_COLOUR), QColor("white")
        elif _luminance_gap(ground, text) < 0.35:
            text = palette.highlightedText().color()
        strong = chip.current or chip.marked
        pen = QPen(palette.highlight().color() if strong else palette.mid().color())
        pen.setWidthF(2.5 if strong else 1.0)
        if chip.current:
            pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.setBrush(ground)
        radius = box.height() / 5
        painter.drawRoundedRect(box, radius, radius)
        painter.setPen(text)
        font = painter.font()
        font.setUnderline(chip.forced or chip.filled)
        painter.setFont(font)
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, chip.token)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Say what the chip under the mouse is."""
        index = self._at(event.position().toPoint())
        if index is not None:
            chip = self.chips[index]
            what = "forced" if chip.forced else "masked" if chip.filled else ""
            text = _(
                CHIP_WORDS[what, bool(chip.done)],
                id=chip.id,
                weight=probability(chip.tint),
                done=chip.done,
            )
            QToolTip.showText(event.globalPosition().toPoint(), text, self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Pick the chip."""
        index = self._at(event.position().toPoint())
        if index is not None:
            self.clicked.emit(index)

    def _at(self, point: QPoint) -> int | None:
        return next(
            (i for i, box in enumerate(self.boxes) if box.contains(point)), None
        )


def _mixed(low: QColor, high: QColor, share: float) -> QColor:
    ends = (
        (low.red(), high.red()),
        (low.green(), high.green()),
        (low.blue(), high.blue()),
    )
    return QColor(*(round(a + (b - a) * share) for a, b in ends))


def _luminance_gap(one: QColor, two: QColor) -> float:
    return abs(one.lightnessF() - two.lightnessF())
