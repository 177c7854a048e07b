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


def paint_pixels(
    painter: QPainter,
    colours: CellColours,
    corner: QPointF,
    pitch: tuple[float, float],
    part: QRect,
    *,
    ratio: float,
) -> None:
    """Paint as much of the cells [R, C] as lies in ``part``.

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
    across = (part.left(), part.width()), corner.x(), wide
    down = (part.top(), part.height()), corner.y(), high
    left, columns = _cells_at(*across, colours.shape[1], ratio)
    top, rows = _cells_at(*down, colours.shape[0], ratio)
    if rows.size and columns.size:
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
) -> tuple[int, NDArray[np.intp]]:
    """Return the first pixel of the screen that shows a cell, and the cell of each.

    ``room``: first pixel and number of pixels; ``count``: how many cells there are.
    """
    first, last = math.floor(room[0] * ratio), math.ceil(sum(room) * ratio)
    middles = (np.arange(first, last) + 0.5) / ratio
    at = np.floor((middles - corner) / pitch).astype(np.intp)
    inside = np.flatnonzero((at >= 0) & (at < count))
    start = first + int(inside[0]) if inside.size else first
    return start, read_only(at[inside])
