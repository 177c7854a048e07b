"""Which cells of a map can be seen, and which of these are hidden by a mask."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRect, QRectF

from visformer.pictures.attention.mosaic import Mosaic, pooled
from visformer.pictures.codes import Bytes
from visformer.values.arrays import Bools

Run = tuple[int, int, int]  # first column, row, how many cells
MOST_HATCHED = 4_000  # rectangles


def hidden_runs(masked: Bools, view: QRectF) -> list[Run]:
    """Join adjacent visible hidden cells of a row; [] if there are too many."""
    top, left = math.floor(view.top()), math.floor(view.left())
    part = masked[top : math.ceil(view.bottom()), left : math.ceil(view.right())]
    edges = np.diff(np.pad(part, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    if len(rows) > MOST_HATCHED:
        return []
    ends = np.nonzero(edges == -1)[1]
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
    codes: Bytes, view: QRectF, width: int, height: int
) -> tuple[Bytes, QRectF]:
    """Cut out what is visible: about one cell per pixel at most, its largest."""
    top, left = math.floor(view.top()), math.floor(view.left())
    part = codes[top : math.ceil(view.bottom()), left : math.ceil(view.right())]
    rows = max(1, part.shape[0] // max(1, height))
    columns = max(1, part.shape[1] // max(1, width))
    rect = QRectF(left, top, part.shape[1], part.shape[0])
    if part.size == 0 or rows == columns == 1:
        return np.ascontiguousarray(part), rect
    reduced = pooled(part, (rows, columns))
    rect.setHeight(reduced.shape[0] * rows)
    rect.setWidth(reduced.shape[1] * columns)
    return np.ascontiguousarray(reduced), rect
