"""The colours of codes, safe for colour-blind users, and the bar that explains them."""

import math
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QImage,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from visformer.language import _
from visformer.pictures.colours import DARK, DARK_SIGNED, DARKEST, LIGHT, LIGHT_SIGNED
from visformer.pictures.colours import NAN_COLOUR as NAN_COLOUR
from visformer.pictures.picture import HIGH, LOW, MASKED, NAN, Bytes, Matrix
from visformer.ui.look.theme import letter_width
from visformer.ui.widgets.plain_label import cut_to_room, plain_tip, write_in

FEW = 1 << 14  # pixels of a small image


def nan_crosses() -> QBrush:
    """Return the pattern drawn over NaN, which does not rely on its colour."""
    return QBrush(QColor(255, 255, 255, 150), Qt.BrushStyle.DiagCrossPattern)


def colour_table(palette: QPalette, *, signed: bool = False) -> Bytes:
    """Return the colour of every code, uint8 [256, 4], red first.

    ``signed``: from minus to plus, with 0 in the middle.
    """
    base = palette.color(QPalette.ColorRole.Base)
    masked = palette.color(QPalette.ColorRole.AlternateBase)
    return _table(base.lightness() < 128, signed, masked.name())


@lru_cache(maxsize=16)
def _table(dark: bool, signed: bool, masked: str) -> Bytes:
    anchors = {
        (False, False): LIGHT,
        (True, False): DARK,
        (False, True): LIGHT_SIGNED,
        (True, True): DARK_SIGNED,
    }[dark, signed]
    stops = np.array([_rgba(name) for name in anchors])
    at = np.linspace(0, len(anchors) - 1, HIGH - LOW + 1)
    colours = np.empty((256, 4), np.uint8)
    for channel in range(4):
        ramp = np.interp(at, range(len(anchors)), stops[:, channel])
        colours[LOW : HIGH + 1, channel] = ramp.round()
    colours[MASKED], colours[NAN] = _rgba(masked), _rgba(NAN_COLOUR)
    colours.setflags(write=False)
    return colours


def image_of(codes: Bytes, colours: Bytes) -> QImage:
    """Return an image with a pixel for each of the codes [R, C]."""
    if not codes.size:
        return QImage()
    (high, wide), packed = codes.shape, _packed(colours.tobytes())
    form = QImage.Format
    if codes.size <= FEW:  # faster than Qt, which takes its table number by number
        pixels = packed.take(codes)
        return QImage(pixels.data, wide, high, 4 * wide, form.Format_RGB32).copy()
    cells = np.ascontiguousarray(codes)
    image = QImage(cells.data, wide, high, wide, form.Format_Indexed8)
    image.setColorTable(packed.tolist())
    return image.convertToFormat(form.Format_RGB32)


@lru_cache(maxsize=16)
def _packed(colours: bytes) -> NDArray[np.uint32]:
    table = np.frombuffer(colours, np.uint8).reshape(-1, 4)
    return table[:, [2, 1, 0, 3]].copy().view("<u4")[:, 0]


def inks(colours: Bytes, palette: QPalette) -> list[QColor]:
    """Return for every code whichever of text and base stands out on its colour.

    Relative luminance as in WCAG 2.1.
    """
    ends = [
        palette.color(role)
        for role in (QPalette.ColorRole.Text, QPalette.ColorRole.Base)
    ]
    dark, light = sorted(ends, key=QColor.lightness)
    return [light if one < DARKEST else dark for one in _luminance(colours.tobytes())]


@lru_cache(maxsize=16)
def _luminance(colours: bytes) -> tuple[float, ...]:
    shares = np.frombuffer(colours, np.uint8).reshape(-1, 4)[:, :3] / 255
    linear = np.where(
        shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4
    )
    return tuple((linear @ (0.2126, 0.7152, 0.0722)).tolist())


def _rgba(name: str) -> tuple[int, int, int, int]:
    colour = QColor(name)
    return colour.red(), colour.green(), colour.blue(), 255


RAMP = 12  # letters of the colours' width; less where there is no room
BREAK = re.compile("[,;，；]")  # where a scale's name is cut if it has no room


class ColourBar(QWidget):
    """Both ends in full, the scale in words, hidden and NaN cells, another scale.

    What has no room on the first line stands on a second one.
    """

    offer_taken = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._shown: tuple[object, ...] = ()
        self._ends, self._note, self._offered = ("", ""), "", ""
        self._table: Bytes | None = None
        self._keys: tuple[tuple[str, int], ...] = ()
        self._boolean = False
        self._widths: dict[str, int] = {}  # of texts; and of the offer, once measured
        self._offer_wide: int | None = None
        self._firsts: dict[int, float] = {}  # by width: see ``_first_line``
        self.offer = QPushButton(self)
        self.offer.setFlat(True)
        self.offer.setCursor(Qt.CursorShape.PointingHandCursor)
        self.offer.setVisible(False)
        self.offer.clicked.connect(self.offer_taken)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def draw(self, matrix: Matrix, table: Bytes) -> None:
        """Show the scale of a Matrix in these colours, and the other one it offers."""
        masked = matrix.masked is not None and bool(matrix.masked.any())
        unknown = bool(np.isnan(matrix.shade.max(initial=0)))
        ends, offer, boolean = matrix.ends, matrix.offer, matrix.boolean
        note = matrix.note if matrix.values.size else ""
        shown = (id(table), ends, note, masked, unknown, boolean, offer, matrix.bars)
        if shown == self._shown:
            return
        self._shown, self._table, self._ends, self._note = shown, table, ends, note
        self._firsts.clear()
        keys = (
            (_("may attend"), HIGH, boolean),
            ("NaN", NAN, unknown),
            (_("masked"), MASKED, masked or boolean),
        )
        self._boolean = boolean or matrix.bars
        self._keys = tuple((text, code) for text, code, is_there in keys if is_there)
        if offer != self._offered:
            self._offered, self._offer_wide = offer, None
            self.offer.setAccessibleName(offer)
        self.offer.setVisible(bool(offer))
        self.setToolTip(plain_tip(note))
        self._place_offer()
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        wide = 20 * letter_width(self.fontMetrics())
        return QSize(wide, self.heightForWidth(self.width() or wide))

    def heightForWidth(self, width: int) -> int:
        """Return the height in pixels: one line, or two."""
        return self._line() * (2 if self._is_second(width) else 1)

    def needs(self, width: int) -> tuple[int, int]:
        """Return the height, and as much of ``width`` as is used; see ``wanted``."""
        return self.heightForWidth(width), self.wanted(width)

    def wanted(self, room: int) -> int:
        """Return the width for as much of the scale's name as has room, with all else.

        ``room``: the largest width that there is.
        """
        first, offer = self._first_line(1 << 16), 0
        if self._offered:
            offer = self._offer_room()
            first += 0 if self._is_second(room) else offer
        said = self._said(room - first)
        return max(offer, math.ceil(first) + self._wide(said))

    def _said(self, room: float) -> str:
        """Return the scale's name, or its first part, or "": what has room."""
        parts = self._note, BREAK.split(self._note)[0], ""
        return next(part for part in parts if not part or self._wide(part) <= room)

    def _line(self) -> int:
        return self.fontMetrics().height() + 2

    def _wide(self, text: str) -> int:
        if text not in self._widths:
            self._widths[text] = self.fontMetrics().horizontalAdvance(text)
        return self._widths[text]

    def _ramp_room(self, width: int) -> float:
        """Return the width of the colours: the ends' numbers come first."""
        letter = letter_width(self.fontMetrics())
        numbers = sum(self._wide(end) for end in self._ends) + letter
        return max(2.0 * letter, min(RAMP * letter, width / 4, width - numbers))

    def _first_line(self, width: int) -> float:
        """Return how much of the first line the ends and the keys take."""
        if width not in self._firsts:
            self._firsts[width] = self._ends_and_keys(width)
        return self._firsts[width]

    def _ends_and_keys(self, width: int) -> float:
        letter = letter_width(self.fontMetrics())
        ends = self._ramp_room(width) + sum(self._wide(end) for end in self._ends)
        ends = 0 if self._boolean else ends
        keys = sum(self._wide(text) + 0.8 * self._line() for text, _ in self._keys)
        return ends + 2 * letter + keys + len(self._keys) * letter

    def _is_second(self, width: int) -> bool:
        first = self._first_line(width)
        return bool(self._offered) and first + self._offer_room() > width

    def _offer_room(self) -> int:
        if self._offer_wide is None:  # its edges come from the style sheet: slow
            self.offer.setText(self._offered)
            self._offer_wide = self.offer.sizeHint().width()
        return self._offer_wide

    def _place_offer(self) -> None:
        link = self.palette().color(QPalette.ColorRole.Link)
        write_in(self.offer, QPalette.ColorRole.ButtonText, link)
        whole = self._offer_room()
        line, wide = self._line(), min(whole, self.width())
        if wide < whole:
            room = wide - whole + self._wide(self._offered)
            brief = BREAK.split(self._offered)[0]
            self.offer.setText(cut_to_room(brief, self.fontMetrics(), room))
        else:
            self.offer.setText(self._offered)
        if self._is_second(self.width()):
            self.offer.setGeometry(0, line, wide, line)
        else:
            self.offer.setGeometry(round(self._first_line(self.width())), 0, wide, line)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_offer()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if "_widths" in self.__dict__:
            self._widths.clear()
            self._firsts.clear()
            self._offer_wide = None

    # ---- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._table is None:
            return
        painter = QPainter(self)
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        gap = letter_width(self.fontMetrics())
        x = 0.0 if self._boolean else self._scale(painter, self._table)
        for text, code in self._keys:
            x = self._key(painter, x, text, code) + gap
        if self.offer.isVisibleTo(self) and not self._is_second(self.width()):
            x = self.offer.geometry().right() + gap
        painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
        self._text(painter, x, self._said(self.width() - x))

    def _scale(self, painter: QPainter, table: Bytes) -> float:
        gap, line = letter_width(self.fontMetrics()), self._line()
        x = self._text(painter, 0, self._ends[0]) + gap / 2
        box = QRectF(x, line * 0.2, self._ramp_room(self.width()), line * 0.6)
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
        painter.drawImage(box, _ramp(table))
        painter.drawRect(box)
        return self._text(painter, box.right() + gap / 2, self._ends[1]) + gap

    def _key(self, painter: QPainter, x: float, text: str, code: int) -> float:
        if self._table is None:
            return x
        line = self._line()
        side = line * 0.6
        box = QRectF(x, line * 0.2, 1.2 * side, side)
        red, green, blue, _ = self._table[code].tolist()
        painter.fillRect(box, QBrush(QColor(red, green, blue)))
        if code == MASKED:
            hatch = QBrush(painter.pen().color(), Qt.BrushStyle.BDiagPattern)
            painter.fillRect(box, hatch)
        elif code == NAN:
            painter.fillRect(box, nan_crosses())
        painter.drawRect(box)
        return self._text(painter, box.right() + side / 3, text, cut=True)

    def _text(
        self, painter: QPainter, x: float, text: str, *, cut: bool = False
    ) -> float:
        """Write a text on the first line; return where it ends. Numbers are not cut."""
        room = max(0, int(self.width() - x))
        if cut:
            text = cut_to_room(text, self.fontMetrics(), room)
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextDontClip
        painter.drawText(QRectF(x, 0, room, self._line()), flags, text)
        return x + self._wide(text)


def _ramp(table: Bytes) -> QImage:
    row = table[LOW : HIGH + 1].tobytes()
    size = HIGH + 1 - LOW
    return QImage(row, size, 1, 4 * size, QImage.Format.Format_RGBA8888).copy()
