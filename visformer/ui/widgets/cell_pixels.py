"""Cells as they are painted: each pixel has the colour of the cell at its centre."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRect, QRectF, QSizeF
from PySide6.QtGui import QImage, QPaintEngine, QPainter

from visformer.values.arrays import read_only

CellColours = NDArray[np.uint32]  # of each cell: 0xffRRGGBB
Indices = NDArray[np.intp]


def paint_pixels(
    painter: QPainter,
    colours: CellColours,
    corner: QPointF,
    pitch: tuple[float, float],
    part: QRect,
    *,
    room: QRect,
    ratio: float,
) -> None:
    """Paint as much of the cells [R, C] as lies in ``part`` of the ``room`` for them.

    ``corner``: where the first cell begins; ``pitch``: a cell's width and height, all
    in pixels of the painter, of which each has ``ratio`` x ``ratio`` on the screen.
    Qt's own scaling rounds by where painting is clipped: parts would not fit together.
    On what has no pixels, such as a page of a PDF, the cells are one image.
    """
    wide, high = pitch
    if painter.paintEngine().type() != QPaintEngine.Type.Raster:
        size = QSizeF(wide * colours.shape[1], high * colours.shape[0])
        painter.drawImage(QRectF(corner, size), image_of(colours))
        return
    part = part.intersected(room)
    across, down = (room.left(), room.right() + 1), (room.top(), room.bottom() + 1)
    at_x = _cells_at(across, corner.x(), wide, colours.shape[1], ratio)
    at_y = _cells_at(down, corner.y(), high, colours.shape[0], ratio)
    left, columns = _within(at_x, part.left(), part.right() + 1, ratio)
    top, rows = _within(at_y, part.top(), part.bottom() + 1, ratio)
    if rows.size and columns.size:
        if rows.size < colours.shape[0]:  # the smaller part first
            pixels = colours.take(rows, 0).take(columns, 1)
        else:
            pixels = colours.take(columns, 1).take(rows, 0)
        image = _image_on(pixels)
        image.setDevicePixelRatio(ratio)
        painter.drawImage(QPointF(left / ratio, top / ratio), image)


def image_of(colours: CellColours) -> QImage:
    """Return an image with a pixel for each cell."""
    return _image_on(colours).copy() if colours.size else QImage()


def _image_on(colours: CellColours) -> QImage:
    """Return an image that has its pixels in these very numbers."""
    (high, wide), form = colours.shape, QImage.Format.Format_RGB32
    return QImage(colours.data, wide, high, 4 * wide, form)


@lru_cache(maxsize=128)
def _cells_at(
    room: tuple[int, int], corner: float, pitch: float, count: int, ratio: float
) -> tuple[int, Indices]:
    """Return the first pixel of the screen that shows a cell, and the cell of each.

    ``room``: the first pixel and the one after the last; ``count``: of cells.
    """
    first, last = math.floor(room[0] * ratio), math.ceil(room[1] * ratio)
    middles = (np.arange(first, last) + 0.5) / ratio
    at = np.floor((middles - corner) / pitch).astype(np.intp)
    inside = np.flatnonzero((at >= 0) & (at < count))
    start = first + int(inside[0]) if inside.size else first
    return start, read_only(at[inside])


def _within(
    cells: tuple[int, Indices], first: int, end: int, ratio: float
) -> tuple[int, Indices]:
    """Cut out of ``_cells_at`` what lies from pixel ``first`` to ``end``."""
    start, at = cells
    skipped = max(0, math.floor(first * ratio) - start)
    return start + skipped, at[skipped : max(0, math.ceil(end * ratio) - start)]
