"""Cells as they are painted: each pixel has the colour of the cell at its centre.

Where cells are large enough their numbers are written in them; marks are painted last.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRect, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontInfo,
    QFontMetricsF,
    QPaintEngine,
    QPainter,
    QPalette,
    QPen,
)

from visformer.pictures.attention.mosaic import Mosaic, pooled
from visformer.pictures.picture import MASKED, Bytes, codes
from visformer.ui.widgets.colour_bar import image_of
from visformer.values.arrays import Bools, Floats, read_only
from visformer.words import NOUGHT, decimals, share

Indices = NDArray[np.intp]


def paint_pixels(
    painter: QPainter,
    codes: Bytes,
    colours: Bytes,
    corner: QPointF,
    pitch: tuple[float, float],
    part: QRect,
    *,
    room: QRect,
    ratio: float,
) -> None:
    """Paint as much of the codes [R, C] as lies in ``part`` of the ``room`` for them.

    ``corner``: where the first cell begins; ``pitch``: a cell's width and height, all
    in pixels of the painter, of which each has ``ratio`` x ``ratio`` on the screen.
    Qt's own scaling rounds by where painting is clipped: parts would not fit together.
    On what has no pixels, such as a page of a PDF, the cells are one image.
    """
    wide, high = pitch
    if painter.paintEngine().type() != QPaintEngine.Type.Raster:
        size = QSizeF(wide * codes.shape[1], high * codes.shape[0])
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
        painter.drawImage(QRectF(corner, size), image_of(codes, colours))
        return
    part = part.intersected(room)
    across, down = (room.left(), room.right() + 1), (room.top(), room.bottom() + 1)
    at_x = _cells_at(*across, corner.x(), wide, ratio)
    at_y = _cells_at(*down, corner.y(), high, ratio)
    ends = part.left(), part.right() + 1
    left, columns = _within(at_x, across[0], ends, codes.shape[1], ratio)
    ends = part.top(), part.bottom() + 1
    top, rows = _within(at_y, down[0], ends, codes.shape[0], ratio)
    if rows.size and columns.size:
        if rows.size < codes.shape[0]:  # the smaller part first
            pixels = codes.take(rows, 0).take(columns, 1)
        else:
            pixels = codes.take(columns, 1).take(rows, 0)
        image = image_of(pixels, colours)
        image.setDevicePixelRatio(ratio)
        painter.drawImage(QPointF(left / ratio, top / ratio), image)


def first_pixel(edge: float, ratio: float) -> float:
    """Return where the first pixel begins whose centre lies behind an edge.

    Both in pixels of the painter. What lies between two such places covers just the
    pixels that the cells between the edges are painted in.
    """
    return math.ceil(edge * ratio - 0.5) / ratio


@lru_cache(maxsize=128)
def _cells_at(
    first: int, end: int, corner: float, pitch: float, ratio: float
) -> Indices:
    """Return the cell at each pixel of the screen, from ``first`` to ``end``.

    Below 0 are pixels before the first cell.
    """
    pixels = np.arange(math.floor(first * ratio), math.ceil(end * ratio))
    middles = (pixels + 0.5) / ratio
    return read_only(np.floor((middles - corner) / pitch).astype(np.intp))


def _within(
    cells: Indices, first: int, part: tuple[int, int], count: int, ratio: float
) -> tuple[int, Indices]:
    """Return the first pixel of a part that shows one of ``count`` cells, and those.

    ``cells``: those at the pixels from ``first`` on.
    """
    start = math.floor(first * ratio)
    left, right = (
        math.floor(part[0] * ratio) - start,
        math.ceil(part[1] * ratio) - start,
    )
    inside = cells.searchsorted((0, count))
    left, right = max(left, int(inside[0])), min(right, int(inside[1]))
    return start + left, cells[left : max(left, right)]


CellRun = tuple[int, int, int]  # first column, row, how many cells
MOST_HATCHED = 4_000  # rectangles


def in_sight(view: QRectF) -> tuple[slice, slice]:
    """Return which rows and columns can be seen, some of them in part."""
    rows = slice(math.floor(view.top()), math.ceil(view.bottom()))
    return rows, slice(math.floor(view.left()), math.ceil(view.right()))


def hidden_and_unknown(
    shade: Floats, masked: Bools | None, view: QRectF
) -> tuple[list[CellRun], list[CellRun]]:
    """Join visible cells of a row that are masked, and those that are NaN."""
    cut = in_sight(view)
    unknown = np.isnan(shade[cut])
    hidden = [] if masked is None else _runs(masked[cut] & ~unknown, cut)
    return hidden, _runs(unknown, cut)


def _runs(part: Bools, cut: tuple[slice, slice]) -> list[CellRun]:
    """Join adjacent cells of a row; [] if there are too many."""
    if not part.any():
        return []
    edges = np.diff(np.pad(part, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    if len(rows) > MOST_HATCHED:
        return []
    ends, (top, left) = np.nonzero(edges == -1)[1], (one.start for one in cut)
    runs = zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return [(left + start, top + row, end - start) for row, start, end in runs]


def changed_cells(
    before: NDArray[np.integer], now: NDArray[np.integer]
) -> list[QRectF]:
    """Return the rows, and the columns, that are new, gone or not as they were.

    Both are [R, C] of one map, of which either may have grown.
    """
    high, wide = (min(pair) for pair in zip(before.shape, now.shape, strict=True))
    rows, columns = (max(pair) for pair in zip(before.shape, now.shape, strict=True))
    differ = (before[:high, :wide] != now[:high, :wide]).any(1)
    at = np.flatnonzero(differ)
    parts = [
        QRectF(wide, 0, columns - wide, rows),
        QRectF(0, high, columns, rows - high),
    ]
    if at.size:
        first, last = int(at[0]), int(at[-1])
        parts.append(QRectF(0, first, columns, last + 1 - first))
    return [part for part in parts if not part.isEmpty()]


def new_parts(
    before: Mosaic, now: Mosaic, changed: NDArray[np.intp], grid: QRectF
) -> list[QRect]:
    """Return what is new in thumbnails that lie in ``grid``, in pixels.

    ``changed``: rows of the image that are not as before. Of all thumbnails it is the
    same rows, with those in between, and the columns that came or went.
    """
    (high, wide), parts = (now.height, now.width), []
    rows = np.zeros(high, bool)
    rows[changed % high] = True
    rows[slice(*sorted((before.filled[0], now.filled[0])))] = True
    at = np.flatnonzero(rows)
    across, down = grid.width() / now.heads, grid.height() / now.layers
    if at.size:
        first, last = int(at[0]) / high, (int(at[-1]) + 1) / high
        for layer in range(now.layers):
            y = grid.y() + down * (layer + first)
            parts.append(QRectF(grid.x(), y, grid.width(), down * (last - first)))
    first, last = (edge / wide for edge in sorted((before.filled[1], now.filled[1])))
    if first < last:
        for head in range(now.heads):
            x = grid.x() + across * (head + first)
            parts.append(QRectF(x, grid.y(), across * (last - first), grid.height()))
    return [part.toAlignedRect().adjusted(-1, -1, 1, 1) for part in parts]


def cells_in_sight(
    shade: Floats, masked: Bools | None, view: QRectF, width: int, height: int
) -> tuple[Bytes, QRectF]:
    """Return the codes of what is visible, and where it lies, in cells.

    That is about one cell per pixel at most, the largest of some; it is shown as masked
    where all of them are. ``width`` and ``height`` are in pixels.
    """
    cut = in_sight(view)
    part = shade[cut]
    rows = max(1, part.shape[0] // max(1, height))
    columns = max(1, part.shape[1] // max(1, width))
    hidden = None if masked is None else ~pooled(~masked[cut], (rows, columns))
    made = codes(np.ascontiguousarray(pooled(part, (rows, columns))), hidden)
    (top, left), (high, wide) = (one.start for one in cut), made.shape
    return made, QRectF(left, top, wide * columns, high * rows)


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
    shade: Floats,
    masked: Bools | None,
    inks: list[QColor],
    view: QRectF,
    room: QRectF,
) -> None:
    """Write the numbers [R, C] of the visible cells, which ``have_room``.

    Their size grows with the cells. A weight that would be written as nearly 0 is left
    out, and all of them where one is too wide. The codes of ``shade`` and ``masked``
    [R, C] index ``inks``; ``view`` is what is visible, in cells, and ``room`` where
    that is, in pixels.
    """
    if not values.size:
        return
    wide, high = room.width() / view.width(), room.height() / view.height()
    rows = range(max(0, math.floor(view.top())), _end(view.bottom(), values.shape[0]))
    first = max(0, math.floor(view.left()))
    last = _end(view.right(), values.shape[1])
    cut = np.s_[rows.start : rows.stop, first:last]
    written = _fitting(painter.font(), values[cut], wide, high)
    if written is None:
        return
    font, texts = written
    painter.setFont(font)
    metrics = QFontMetricsF(font)
    widths = {text: metrics.horizontalAdvance(text) for text in set(texts)}
    down = (high + metrics.ascent() - metrics.descent()) / 2
    hidden = None if masked is None else np.ascontiguousarray(masked[cut])
    of_cells = codes(np.ascontiguousarray(shade[cut]), hidden).ravel().tolist()
    each = zip(texts, of_cells, strict=True)
    for row in rows:
        y = (row - view.y()) * high + down
        for column in range(first, last):
            text, code = next(each)
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
    return [decimals(round(value, count) + 0.0, count) for value in numbers]


ALARM = "#c62828", "#ff8a80"  # on light and on dark grounds
BAR = 0.5  # opacity of a bar
DARK_BELOW = 128  # lightness of a ground


def _edged(painter: QPainter, palette: QPalette, colour: QColor) -> Iterator[None]:
    """Take a wide pen of the ground's colour, then a narrow one: seen on any cell."""
    for ink, wide in ((palette.color(QPalette.ColorRole.Base), 4), (colour, 2)):
        painter.setPen(QPen(ink, wide))
        yield


def paint_border(
    painter: QPainter, palette: QPalette, sides: tuple[bool, bool], corner: QPointF
) -> None:
    """Draw a line through ``corner`` from side to side, and one from top to bottom.

    ``sides``: whether each of them is there.
    """
    whole = painter.viewport()
    for _edge in _edged(painter, palette, palette.windowText().color()):
        if sides[0]:
            end = QPointF(whole.width(), corner.y())
            painter.drawLine(QPointF(0, corner.y()), end)
        if sides[1]:
            end = QPointF(corner.x(), whole.height())
            painter.drawLine(QPointF(corner.x(), 0), end)


def paint_frame(painter: QPainter, palette: QPalette, box: QRectF) -> None:
    """Frame some columns from top to bottom."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for _edge in _edged(painter, palette, palette.windowText().color()):
        painter.drawRect(box.adjusted(1, 1, -1, -1))


def paint_bars(painter: QPainter, palette: QPalette, places: list[QRectF]) -> None:
    """Paint bars, faint enough for numbers to be read over them."""
    colour = palette.color(QPalette.ColorRole.Highlight)
    colour.setAlphaF(BAR)
    for place in places:
        painter.fillRect(place.adjusted(0, 2, 0, -2), colour)


def paint_alarms(painter: QPainter, palette: QPalette, cells: list[QRectF]) -> None:
    """Frame each cell, and put a sign into it where there is room."""
    ground = palette.color(QPalette.ColorRole.Base)
    colour = QColor(ALARM[ground.lightness() < DARK_BELOW])
    painter.setBrush(Qt.BrushStyle.NoBrush)
    font = painter.font()
    sign = painter.fontMetrics().height()
    font.setBold(True)
    painter.setFont(font)
    frames = [cell.adjusted(1.5, 1.5, -1.5, -1.5) for cell in cells]
    for _edge in _edged(painter, palette, colour):
        painter.drawRects(frames)  # many at once, many times faster
    for cell in cells:
        if min(cell.width(), cell.height()) >= sign:
            spot = QRectF(0, 0, 0.8 * sign, sign)
            spot.moveCenter(cell.center())
            painter.fillRect(spot, ground)
            painter.drawText(spot, Qt.AlignmentFlag.AlignCenter, "!")


def paint_focus(
    painter: QPainter, palette: QPalette, bands: list[QRectF], cell: QRectF | None
) -> None:
    """Outline rows and columns, and frame the cell in focus."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    accent = palette.color(QPalette.ColorRole.Highlight)
    painter.setPen(QPen(accent, 1))
    painter.drawRects(bands)
    if cell is None:
        return
    for colour, wide in ((palette.color(QPalette.ColorRole.Base), 5), (accent, 3)):
        pen = QPen(colour, wide)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        painter.drawRect(cell)
