"""The bars behind the numbers of a table: how long, where, in which colour."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QPalette

from visformer.pictures.codes import HIGH, LOW
from visformer.pictures.picture import Numbers
from visformer.ui.widgets.colour_map import colour_table
from visformer.values.arrays import Floats


def bar_shares(numbers: Numbers) -> Floats:
    """Return every number as a share of the largest one it is compared with.

    float32 [R, C] in [-1, 1], or NaN.
    """
    axis = {"row": 1, "column": 0, "all": None}[numbers.by]
    magnitude = np.abs(numbers.values)
    # next to a masked value no other bar would be visible
    magnitude = np.where(magnitude < 1e5, magnitude, np.float32(0))
    if not magnitude.size:
        return magnitude
    top = magnitude.max(axis, keepdims=True)
    if numbers.full:
        top = np.array(numbers.full, np.float32)[:, None]
    shares = np.sign(numbers.values) * magnitude / np.where(top > 0, top, 1)
    scaled: Floats = shares.astype(np.float32)
    return scaled


def bar_box(box: QRect, share: float, signed: bool) -> QRect:
    """Return a bar's place: from the middle if there are negative numbers."""
    inner = box.adjusted(1, 2, -2, -2)
    room = inner.width() // 2 if signed else inner.width()
    length = round(room * abs(share))
    start = inner.left() + (room if signed else 0)
    left = start - length if share < 0 else start
    return QRect(left, inner.top(), length, inner.height())


def bar_colour(palette: QPalette, share: float) -> QColor:
    """Return a heat map's colour of a share of its range, faint enough to read over."""
    code = LOW + round((HIGH - LOW) * share)
    red, green, blue, _ = colour_table(palette, signed=True)[code].tolist()
    return QColor(red, green, blue, 120)
