"""How a chip of a token strip is painted; what recurs is kept painted."""

from functools import lru_cache
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QPaintEngine,
    QPainter,
    QPainterPath,
    QPalette,
    QPen,
    QPixmap,
)

from visformer.pictures.attention.strips import Chip
from visformer.pictures.words.modified_run import loss_share
from visformer.ui.look.theme import (
    CAPTION,
    LEGIBLE,
    WORD,
    contrast,
    fed_colour,
    loss_colour,
    sized,
)
from visformer.ui.widgets.colour_bar import NAN_COLOUR

TINTS = 256  # shades between no weight and the whole
LATER = 0.65  # opacity of tokens that are fed after the current step: just legible
KEPT = 256  # pictures of chips
WIDEST = 4096  # pixels of one: a wider chip is painted each time
REACH = 2  # pixels at most by which a frame reaches beyond its chip's box
CENTRE = Qt.AlignmentFlag.AlignCenter.value
EDGE = 2  # pixels around what is said below a token, for the frame
SIZED = 5  # fields of a look that a chip's size depends on


class ChipLook(NamedTuple):
    """What a chip is painted from: weights too alike to be told apart are one."""

    token: str
    below: str
    loss: float | None
    current: bool
    joins: tuple[bool, bool]  # the chips before and after it are of the same word
    shade: int | None  # of its weight; None: NaN
    strong: bool  # framed as the selection is
    fed: bool
    later: bool
    filled: bool


def look_of(chip: Chip, next: Chip | None) -> ChipLook:
    """Return what a chip before another one is painted from."""
    tint, current = chip.tint, chip.current
    return ChipLook(
        chip.token,
        chip.below,
        chip.loss,
        current,
        (chip.joins, next is not None and next.joins),
        round(TINTS * min(1.0, max(0.0, tint))) if tint == tint else None,
        current or chip.marked,
        bool(chip.fed),
        chip.later,
        chip.filled,
    )


class ChipPainter:
    """Paints chips in one font and one palette, on what a palette's windows are."""

    def __init__(self, font: QFont, palette: QPalette) -> None:
        self._palette = QPalette(palette)
        self._font, self._word_font = QFont(font), sized(font, WORD)
        self._caption_font = sized(font, CAPTION)
        self.body = QFontMetrics(self._font)
        self.word = QFontMetrics(self._word_font)
        self.caption = QFontMetrics(self._caption_font)
        self.below = self.caption.height() + EDGE  # the height of words below a token
        base, accent = palette.base().color(), palette.highlight().color()
        self._ends = base.rgb(), accent.rgb(), palette.text().color().rgb()
        self._kept: dict[tuple[object, ...], QPixmap] = {}
        self._below: dict[int | None, tuple[QColor | None, QColor]] = {}

    def paint(self, painter: QPainter, look: ChipLook, box: QRect, band: int) -> None:
        """Paint a chip; ``band``: the height of what is said below its token."""
        ratio = painter.device().devicePixelRatioF()
        # a strong one may touch its neighbour's frame
        pixels = painter.paintEngine().type() == QPaintEngine.Type.Raster
        if look.strong or box.width() > WIDEST or not pixels:
            self._paint_ground(painter, look, box)
            self._paint_words(painter, look, box, band)
        elif look.later and ratio.is_integer():  # until it is read it stays as it is
            self._paint_kept(painter, (look, band, ratio), look, box, band)
        else:
            key = look.shade, look.fed, look.later, look.joins, ratio
            self._paint_kept(painter, key, look, box, None)
            self._paint_words(painter, look, box, band)

    def _paint_kept(
        self,
        painter: QPainter,
        name: tuple[object, ...],
        look: ChipLook,
        box: QRect,
        band: int | None,
    ) -> None:
        """Paint a chip from its picture, made once; without words where band is None.

        ``name``: what the picture hangs on besides its size.
        """
        key = *name, box.width(), box.height()
        if key not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            ratio = painter.device().devicePixelRatioF()
            self._kept[key] = self._picture(look, box, band, ratio)
        painter.drawPixmap(box.x() - 1, box.y() - 1, self._kept[key])

    def _picture(
        self, look: ChipLook, box: QRect, band: int | None, ratio: float
    ) -> QPixmap:
        whole = box.adjusted(-1, -1, 1, 1)
        picture = QPixmap(whole.size() * ratio)
        picture.setDevicePixelRatio(ratio)
        picture.fill(self._palette.window().color())
        with QPainter(picture) as inside:
            inside.translate(-whole.x(), -whole.y())
            self._paint_ground(inside, look, box)
            if band is not None:
                self._paint_words(inside, look, box, band)
        return picture

    def _paint_words(
        self, painter: QPainter, look: ChipLook, box: QRect, band: int
    ) -> None:
        if look.later:
            painter.setOpacity(LATER)
        painter.setFont(self._face(look))
        painter.setPen(tinted(*self._ends, look.shade)[1])
        within = box.adjusted(0, 0, 0, -band) if band else box
        painter.drawText(within, CENTRE, look.token)
        if look.later:
            painter.setOpacity(1.0)
        if band:
            self._paint_below(painter, look, box, band)

    def _face(self, look: ChipLook) -> QFont:
        font = self._word_font if look.current else self._font
        if look.filled:
            font = QFont(font)
            font.setUnderline(True)
        return font

    def _paint_ground(self, painter: QPainter, look: ChipLook, box: QRect) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setOpacity(LATER if look.later else 1.0)
        painter.setPen(self._frame(look))
        painter.setBrush(tinted(*self._ends, look.shade)[0])
        painter.drawPath(outline(QRectF(box), box.height() / 5, look.joins))
        painter.setOpacity(1.0)

    def _frame(self, look: ChipLook) -> QPen:
        """Return the frame: of the selection, else of a token that was not chosen."""
        palette = self._palette
        pen = QPen((palette.highlight() if look.strong else palette.mid()).color())
        if look.fed and not look.strong:
            pen.setColor(fed_colour(palette))
        pen.setWidthF(2.5 if look.strong else 1.6 if look.fed else 1.0)
        return pen

    def _paint_below(
        self, painter: QPainter, look: ChipLook, box: QRect, band: int
    ) -> None:
        """Paint what the model says of the token, on the colour of its loss.

        Never faint: half transparent, words and colour cannot be told apart.
        """
        room = QRect(box.left(), box.bottom() - band, box.width(), band - EDGE)
        ground, text = self._colours_below(look.loss)
        if ground is not None:
            # “▁” may hang a pixel lower than its font says
            painter.fillRect(room.adjusted(EDGE, 0, -EDGE, 1), ground)
        painter.setPen(text)
        painter.setFont(self._caption_font)
        painter.drawText(room, CENTRE, look.below)

    def _colours_below(self, loss: float | None) -> tuple[QColor | None, QColor]:
        """Return the colour of a loss, if there is one, and that of text on it."""
        share = None if loss is None else round(TINTS * loss_share(loss))
        if share not in self._below:
            ground, text = None, fed_colour(self._palette)
            if share is not None:
                ground = loss_colour(self._palette, share / TINTS)
                text = readable_on(ground, self._palette.text().color())
            self._below[share] = ground, text
        return self._below[share]


def outline(box: QRectF, radius: float, joins: tuple[bool, bool]) -> QPainterPath:
    """Return a box whose corners are round but where it joins the one before or after.

    Of arcs: what Qt unites of several shapes (``simplified``) may lack half of them.
    """
    path, radius = QPainterPath(), min(radius, box.width() / 2)
    before, after = joins
    corners = (
        (box.topLeft(), QPointF(radius, radius), before),
        (box.topRight(), QPointF(-radius, radius), after),
        (box.bottomRight(), QPointF(-radius, -radius), after),
        (box.bottomLeft(), QPointF(radius, -radius), before),
    )
    for at, (corner, inwards, square) in enumerate(corners):
        arc = QRectF(0, 0, 2 * radius, 2 * radius)
        arc.moveCenter(corner + inwards)
        if at == 0:
            path.moveTo(corner if square else corner + QPointF(0, radius))
        if square:
            path.lineTo(corner)
        else:
            path.arcTo(arc, 180 - 90 * at, -90)
    path.closeSubpath()
    return path


@lru_cache(maxsize=4 * TINTS)
def tinted(low: int, high: int, text: int, shade: int | None) -> tuple[QColor, QColor]:
    """Return a shade between two colours, and that of text on it; neither is changed.

    Colours are given as ``QColor.rgb``; the shade None is that of NaN.
    """
    if shade is None:
        ground = QColor(NAN_COLOUR)
    else:
        ends = zip(QColor(low).getRgb()[:3], QColor(high).getRgb()[:3], strict=True)  # type: ignore[index]
        ground = QColor(*(round(a + (b - a) * shade / TINTS) for a, b in ends))
    return ground, readable_on(ground, QColor(text))


def readable_on(ground: QColor, text: QColor) -> QColor:
    """Return the colour of text on a ground: ``text``, or black or white."""
    if contrast(ground, text) >= LEGIBLE:
        return text
    ends = QColor("white"), QColor("black")
    return max(ends, key=lambda end: contrast(ground, end))
