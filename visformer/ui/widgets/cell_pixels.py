"""Cells as they are painted: each pixel has the colour of the cell at its centre."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRect, QRectF, QSizeF
from PySide6.QtGui import QPaintEngine, QPainter

from visformer.pictures.codes import Bytes
from visformer.ui.widgets.colour_map import image_of
from visformer.values.arrays import read_only

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
