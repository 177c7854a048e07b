"""A row of token chips, tinted by attention; a click picks one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QToolButton, QToolTip, QWidget

from visformer.language import N_, _
from visformer.pictures.attention.strips import Chip
from visformer.pictures.teacher_forcing import loss_share
from visformer.ui import icons
from visformer.ui.theme import (
    CAPTION,
    LEGIBLE,
    WORD,
    contrast,
    fed_colour,
    loss_colour,
    sized,
)
from visformer.ui.widgets.colour_map import NAN_COLOUR
from visformer.ui.widgets.plain_tip import plain_tip
from visformer.words import number, probability

CHIP_WORDS = {  # by whether it is masked, and something was done to its weight
    (False, False): N_("id {id}, weight {weight}"),
    (False, True): N_("id {id}, weight {weight} ({done})"),
    (True, False): N_("id {id}, masked, weight {weight}"),
    (True, True): N_("id {id}, masked, weight {weight} ({done})"),
}
TINTS = 256  # shades between no weight and the whole
WIDTHS = 4096  # of texts that are kept
LATER = 0.45  # opacity of tokens that are fed after the current step


class TokenStrip(QScrollArea):
    """Chips side by side; scrolls to keep the current one visible.

    Its height does not change with what it shows: buttons at its ends scroll it.
    """

    clicked = Signal(int)

    def __init__(self, name: str, empty: str) -> None:
        super().__init__()
        self._row = _ChipRow(empty)
        self._row.clicked.connect(self.clicked)
        # only then is there room to scroll to
        self.horizontalScrollBar().rangeChanged.connect(lambda *_range: self._follow())
        self.setWidget(self._row)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._ends = (
            self._end("unfold", _("Earlier tokens"), -1),
            self._end("fold", _("Later tokens"), 1),
        )
        bar = self.horizontalScrollBar()
        bar.rangeChanged.connect(lambda *_range: self._show_ends())
        bar.valueChanged.connect(lambda _value: self._show_ends())
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
        told = _("This colour means that the weight is NaN (not a number).")
        if (told if unknown else "") != self._row.toolTip():
            self._row.setToolTip(told if unknown else "")
        self._fit()
        self._follow()

    def explain_clicks(self, words: str) -> None:
        """Say at each token what a click on it does; "" for nothing."""
        self._row.clicks = words

    def _follow(self) -> None:
        """Scroll to the current token."""
        row = self._row
        for chip, box in zip(row.chips, row.boxes, strict=True):
            if chip.current:
                self.ensureVisible(box.center().x(), 0, box.width(), 0)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and "_ends" in self.__dict__:
            for button, shape in zip(self._ends, ("unfold", "fold"), strict=True):
                icons.dress(button, shape)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._row.lay_out()
            self._fit()

    def resizeEvent(self, event: QEvent) -> None:
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._show_ends()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll sideways, whichever way the wheel turns."""
        bar, turn = self.horizontalScrollBar(), event.angleDelta()
        bar.setValue(bar.value() - (turn.y() or turn.x()))
        event.accept()

    def _end(self, shape: str, name: str, way: int) -> QToolButton:
        button = QToolButton(self)
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.setAutoFillBackground(True)
        button.setToolTip(name)
        button.setAccessibleName(name)
        button.clicked.connect(lambda: self._turn(way))
        icons.dress(button, shape)
        button.hide()
        return button

    def _turn(self, way: int) -> None:
        bar = self.horizontalScrollBar()
        bar.setValue(bar.value() + way * bar.pageStep() * 3 // 4)

    def _show_ends(self) -> None:
        """Show a button where more tokens lie."""
        bar, (left, right) = self.horizontalScrollBar(), self._ends
        wide = left.sizeHint().width()
        left.setGeometry(0, 0, wide, self.height())
        right.setGeometry(self.width() - wide, 0, wide, self.height())
        left.setVisible(bar.value() > bar.minimum())
        right.setVisible(bar.value() < bar.maximum())

    def _fit(self) -> None:
        self.setFixedHeight(self._row.sizeHint().height())


class _ChipRow(QWidget):
    clicked = Signal(int)

    def __init__(self, empty: str) -> None:
        super().__init__()
        self.clicks = ""  # what a click does, in words
        self.chips: tuple[Chip, ...] = ()
        self.boxes: list[QRect] = []
        self._looks: list[tuple[object, ...]] = []  # what is painted of each chip
        self._empty = empty
        self._height = 0  # of the row
        self._tall = False  # there was a large chip: its room stays
        self.setMouseTracking(True)
        self.lay_out()

    def set_chips(self, chips: tuple[Chip, ...]) -> None:
        """Show these chips; what stays the same is not painted again."""
        before, boxes, height = self._looks, self.boxes, self._height
        self.chips = chips
        self._looks = [self._look(chip) for chip in chips]
        self._place()
        if not (before and chips) or height != self._height:
            self.update()
            return
        old = tuple(zip(before, boxes, strict=True))
        new = tuple(zip(self._looks, self.boxes, strict=True))
        for at in range(max(len(old), len(new))):
            was, now = old[at : at + 1], new[at : at + 1]
            if was != now:
                for _look, box in (*was, *now):
                    self.update(box.adjusted(-2, -2, 2, 2))

    def lay_out(self) -> None:
        """Measure all chips in the font that there is now."""
        self._fonts()
        self._place()
        self.update()

    def _place(self) -> None:
        gap = self._body.height() // 4
        told = any(chip.below or chip.loss is not None for chip in self.chips)
        self._tall = self._tall or any(chip.current for chip in self.chips)
        self._band = self._caption.height() if told else 0
        room = self._word.height() if self._tall else 0
        self._height = max(2 * self._body.height(), room + gap) + self._band
        x, self.boxes = gap, []
        around = self._body.height() * 2 // 3
        body, word, below = self._widths
        for chip in self.chips:
            metrics = self._word if chip.current else self._body
            width = max(
                (body, word)[chip.current](chip.token or " "), below(chip.below)
            )
            width += around
            band = self._band_of(chip)
            high = metrics.height() + self._body.height() - gap
            high = min(high, self._height - self._band - gap) + band
            top = (self._height - high) // 2
            self.boxes.append(QRect(x, top, width, high))
            x += width + gap
        self.setMinimumWidth(x)

    def _look(self, chip: Chip) -> tuple[object, ...]:
        """Return what a chip is painted from: weights too alike to be told are one."""
        tint = None if math.isnan(chip.tint) else _shade(chip)
        kind = chip.current, chip.marked, chip.later, chip.filled, bool(chip.fed)
        return chip.token, chip.below, chip.loss, tint, kind

    def _band_of(self, chip: Chip) -> int:
        """Return the height of what is said below a token, in pixels."""
        return self._band if chip.below or chip.loss is not None else 0

    def _fonts(self) -> None:
        self._word_font = sized(self.font(), WORD)
        self._caption_font = sized(self.font(), CAPTION)
        self._body = QFontMetrics(self.font())
        self._word = QFontMetrics(self._word_font)
        self._caption = QFontMetrics(self._caption_font)
        fonts = self._body, self._word, self._caption
        self._widths = [_measured(metrics) for metrics in fonts]

    def sizeHint(self) -> QSize:
        """As wide as the chips, high enough for the largest."""
        width = self.boxes[-1].right() + self._body.height() if self.boxes else 0
        return QSize(width, self._height)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.chips:
            painter.setPen(self.palette().placeholderText().color())
            left = self.rect().adjusted(self.height() // 4, 0, 0, 0)
            painter.drawText(left, Qt.AlignmentFlag.AlignVCenter, self._empty)
        changed, palette = event.region(), self.palette()
        for chip, box in zip(self.chips, self.boxes, strict=True):
            if changed.intersects(box):
                painter.setOpacity(LATER if chip.later else 1.0)
                self._paint_chip(painter, palette, chip, box)

    def _paint_chip(
        self, painter: QPainter, palette: QPalette, chip: Chip, box: QRect
    ) -> None:
        text = palette.text().color()
        if math.isnan(chip.tint):
            ground = QColor(NAN_COLOUR)
            ink = _readable_on(ground, text)
        else:
            ends = palette.base().color().rgb(), palette.highlight().color().rgb()
            ground, ink = _tinted(*ends, text.rgb(), _shade(chip))
        painter.setPen(_frame(palette, chip))
        painter.setBrush(ground)
        radius = box.height() / 5
        painter.drawRoundedRect(box, radius, radius)
        font = self._word_font if chip.current else self.font()
        if chip.filled:
            font = QFont(font)
            font.setUnderline(True)
        painter.setFont(font)
        painter.setPen(ink)
        band = self._band_of(chip)
        within = box.adjusted(0, 0, 0, -band)
        painter.drawText(within, Qt.AlignmentFlag.AlignCenter, chip.token)
        if band:
            self._paint_below(painter, palette, chip, box)

    def _paint_below(
        self, painter: QPainter, palette: QPalette, chip: Chip, box: QRect
    ) -> None:
        """Paint what the model says of the token, on the colour of its loss.

        Never faint: half transparent, words and colour cannot be told apart.
        """
        painter.setOpacity(1.0)
        band = QRect(box.left(), box.bottom() - self._band, box.width(), self._band)
        text = fed_colour(palette)
        if chip.loss is not None:
            ground = loss_colour(palette, loss_share(chip.loss))
            painter.fillRect(band.adjusted(2, 0, -2, -2), ground)
            text = _readable_on(ground, palette.text().color())
        painter.setPen(text)
        painter.setFont(self._caption_font)
        painter.drawText(band, Qt.AlignmentFlag.AlignCenter, chip.below)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Say what the chip under the mouse is."""
        index = self._at(event.position().toPoint())
        if index is not None:
            lines = chip_words(self.chips[index]), self.clicks
            words = "\n".join(filter(None, lines))
            QToolTip.showText(event.globalPosition().toPoint(), plain_tip(words), self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Pick the chip."""
        index = self._at(event.position().toPoint())
        if index is not None:
            self.clicked.emit(index)

    def _at(self, point: QPoint) -> int | None:
        return next(
            (i for i, box in enumerate(self.boxes) if box.contains(point)), None
        )


def chip_words(chip: Chip) -> str:
    """Say what a chip is: its token's id and weight; who fed it, and its loss."""
    lines = [
        _(
            CHIP_WORDS[chip.filled, bool(chip.done)],
            id=chip.id,
            weight=probability(chip.tint),
            done=chip.done,
        ),
        chip.fed,
    ]
    if chip.loss is not None:
        lines.append(_("loss = −ln p = {loss} nats", loss=number(chip.loss)))
    return "\n".join(filter(None, lines))


def _measured(metrics: QFontMetrics) -> Callable[[str], int]:
    """Return what tells a text's width, which is measured once."""

    @lru_cache(WIDTHS)  # of the method itself it would load all of PySide's signatures
    def width(text: str) -> int:
        return metrics.horizontalAdvance(text)

    return width


def _shade(chip: Chip) -> int:
    """Return the shade of a chip's weight, which is a number."""
    return round(TINTS * min(1.0, chip.tint))


@lru_cache(maxsize=4 * TINTS)
def _tinted(low: int, high: int, text: int, shade: int) -> tuple[QColor, QColor]:
    """Return a shade between two colours, and that of text on it; neither is changed.

    Colours are given as ``QColor.rgb``.
    """
    ends = zip(QColor(low).getRgb()[:3], QColor(high).getRgb()[:3], strict=True)  # type: ignore[index]
    ground = QColor(*(round(a + (b - a) * shade / TINTS) for a, b in ends))
    return ground, _readable_on(ground, QColor(text))


def _frame(palette: QPalette, chip: Chip) -> QPen:
    """Return a chip's frame: of the selection, else of a token that was not chosen."""
    strong = chip.current or chip.marked
    pen = QPen(palette.highlight().color() if strong else palette.mid().color())
    if chip.fed and not strong:
        pen.setColor(fed_colour(palette))
    pen.setWidthF(2.5 if strong else 1.6 if chip.fed else 1.0)
    return pen


def _readable_on(ground: QColor, text: QColor) -> QColor:
    """Return the colour of text on a ground: ``text``, or black or white."""
    if contrast(ground, text) >= LEGIBLE:
        return text
    ends = QColor("white"), QColor("black")
    return max(ends, key=lambda end: contrast(ground, end))
