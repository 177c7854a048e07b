"""The numbers of a heat map, written in its cells where they are large enough."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from visformer.pictures.codes import MASKED, Bytes
from visformer.ui.theme import CAPTION, sized
from visformer.values.arrays import Floats
from visformer.words import NOUGHT, decimals, share

LINES = 1.9  # of text that a cell's sides need: about 32 pixels at the usual size
MARGIN = 0.5  # of a letter, on both sides of a number
FAINT = 0.55  # opacity of 0, or nearly: the eye goes to the other numbers


def have_room(font: QFont, view: QRectF, room: QRectF) -> bool:
    """Tell whether cells are large enough for numbers."""
    wide, high = room.width() / view.width(), room.height() / view.height()
    return min(wide, high) >= LINES * QFontMetricsF(font).height()


def paint_digits(
    painter: QPainter,
    values: Floats,
    codes: Bytes,
    inks: list[QColor],
    view: QRectF,
    room: QRectF,
) -> None:
    """Write the numbers [R, C] of the visible cells, which ``have_room``.

    None is written where one is too wide. ``codes`` [R, C] index ``inks``; ``view`` is
    what is visible, in cells, and ``room`` where that is, in pixels.
    """
    if not values.size:
        return
    wide, high = room.width() / view.width(), room.height() / view.height()
    rows = range(max(0, math.floor(view.top())), _end(view.bottom(), values.shape[0]))
    first = max(0, math.floor(view.left()))
    last = _end(view.right(), values.shape[1])
    part = values[rows.start : rows.stop, first:last]
    font = sized(painter.font(), CAPTION)
    font.setFeature(QFont.Tag("tnum"), 1)
    metrics = QFontMetricsF(font)
    most = wide - 2 * MARGIN * metrics.averageCharWidth()
    for more in (1, 0):
        texts = _texts(part, more)
        widths = {text: metrics.horizontalAdvance(text) for text in set(texts)}
        if max(widths.values(), default=0.0) <= most:
            break
    else:
        return
    painter.setFont(font)
    down = (high + metrics.ascent() - metrics.descent()) / 2
    written = iter(texts)
    for row in rows:
        y = (row - view.y()) * high + down
        for column in range(first, last):
            text = next(written)
            code = codes[row, column]
            if code == MASKED:
                continue
            nought = not text.strip("~0.")
            painter.setPen(_faint(inks[code]) if nought else inks[code])
            x = (column + 0.5 - view.x()) * wide - widths[text] / 2
            painter.drawText(QPointF(x, y), text)


def _faint(ink: QColor) -> QColor:
    faint = QColor(ink)
    faint.setAlphaF(FAINT)
    return faint


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
        return ["0" if value == 0 else share(value) for value in numbers]
    count = more + (2 if largest < 1 else 1 if largest < 100 else 0)
    texts = [decimals(value, count) for value in numbers]
    nought = decimals(0, count), decimals(-0.0, count)
    pairs = zip(numbers, texts, strict=True)
    return [NOUGHT if text in nought and value else text for value, text in pairs]
