"""The numbers of a heat map, written in its cells where they are large enough."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontInfo, QFontMetricsF, QPainter

from visformer.pictures.codes import MASKED, Bytes
from visformer.values.arrays import Floats
from visformer.words import NOUGHT, decimals, share

LEAST = 24, 18  # pixels: width and height of a cell that has room for a number
MARGIN = 3  # pixels on both sides of a number
OF_HEIGHT, LARGEST = 0.32, 2.5  # of a number: to its cell's height; to the body's size
SMALLEST = 0.6  # of the body's size, where text is made larger for an audience
PIXELS = 10  # of the smallest number


def have_room(view: QRectF, room: QRectF) -> bool:
    """Tell whether cells are large enough for numbers."""
    wide, high = room.width() / view.width(), room.height() / view.height()
    return wide >= LEAST[0] and high >= LEAST[1]


def paint_digits(
    painter: QPainter,
    values: Floats,
    codes: Bytes,
    inks: list[QColor],
    view: QRectF,
    room: QRectF,
) -> None:
    """Write the numbers [R, C] of the visible cells, which ``have_room``.

    Their size grows with the cells. What would be written as nearly 0 is left out, and
    all of them where one is too wide. ``codes`` [R, C] index ``inks``; ``view`` is what
    is visible, in cells, and ``room`` where that is, in pixels.
    """
    if not values.size:
        return
    wide, high = room.width() / view.width(), room.height() / view.height()
    rows = range(max(0, math.floor(view.top())), _end(view.bottom(), values.shape[0]))
    first = max(0, math.floor(view.left()))
    last = _end(view.right(), values.shape[1])
    part = values[rows.start : rows.stop, first:last]
    written = _fitting(painter.font(), part, wide, high)
    if written is None:
        return
    font, texts = written
    painter.setFont(font)
    metrics = QFontMetricsF(font)
    widths = {text: metrics.horizontalAdvance(text) for text in set(texts)}
    down = (high + metrics.ascent() - metrics.descent()) / 2
    each = iter(texts)
    for row in rows:
        y = (row - view.y()) * high + down
        for column in range(first, last):
            text, code = next(each), codes[row, column]
            if code == MASKED or text == NOUGHT:
                continue
            painter.setPen(inks[code])
            x = (column + 0.5 - view.x()) * wide - widths[text] / 2
            painter.drawText(QPointF(x, y), text)


def _fitting(
    body: QFont, part: Floats, wide: float, high: float
) -> tuple[QFont, list[str]] | None:
    """Return the largest font that fits, and all texts; None where none fits."""
    usual = QFontInfo(body).pixelSize()
    least = max(PIXELS, round(SMALLEST * usual))
    most = max(least, min(round(OF_HEIGHT * high), round(LARGEST * usual)))
    font = QFont(body)
    font.setFeature(QFont.Tag("tnum"), 1)
    font.setPixelSize(most)
    advance = QFontMetricsF(font).horizontalAdvance
    for more in (1, 0):
        texts = _texts(part, more)
        widest = max(map(advance, set(texts)), default=0.0)
        size = int(most * min(1.0, (wide - 2 * MARGIN) / max(1.0, widest)))
        if size >= least:
            font.setPixelSize(size)
            return font, texts
    return None


def _end(edge: float, count: int) -> int:
    return min(count, math.ceil(edge))


def _texts(values: Floats, more: int) -> list[str]:
    """Write numbers in few characters, all in one way; ``more`` decimals are added."""
    finite = values[np.isfinite(values)]
    numbers = values.ravel().tolist()
    if not finite.size or (finite == np.round(finite)).all():
        return [decimals(value, 0) for value in numbers]
    largest = float(np.abs(finite).max())
    if largest <= 1 and finite.min() >= 0:
        return [share(value) for value in numbers]
    count = more + (2 if largest < 1 else 1 if largest < 100 else 0)
    texts = [decimals(value, count) for value in numbers]
    nought = decimals(0, count), decimals(-0.0, count)
    pairs = zip(numbers, texts, strict=True)
    return [NOUGHT if text in nought and value else text for value, text in pairs]
