"""How large the cells of a map are, and which labels have room around them."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QRect

LEAST = 120  # pixels of a map's sides: smaller ones stretch, or lose labels
ROWS_SHARE, COLUMNS_SHARE = 0.4, 0.35  # of the width and height, at most for labels
FEWEST = 5  # letters of a row's label below which it is left out


class MapRoom(NamedTuple):
    """Where the cells lie, and what stands around them, in pixels."""

    cells: QRect
    left: int  # the row labels' width; 0: there is no room for them
    above: int  # the column labels' height; 0: there is no room for them
    upright: bool  # no column label is turned
    brief: bool  # only marked columns have a label, and the axis has no title


def map_room(
    extent: tuple[int, int],
    whole: QRect,
    stretch: float,
    longest: tuple[int, int],
    type_size: tuple[int, int],
    *,
    numbered: bool,
) -> MapRoom:
    """Share ``whole`` out to cells and labels; ``longest``: the widest row and column.

    Where all labels would leave less than LEAST for the cells, columns are named by
    the marked one alone, then not at all; rows, cut short, then not at all.
    ``type_size``: a line's height and a letter's width; ``numbered``: the columns have
    numbers, which are never turned.
    """
    line, letter = type_size
    wide, high = whole.width(), whole.height()
    left = min(longest[0], int(wide * ROWS_SHARE), wide - line - LEAST)
    left = left if left >= min(longest[0], FEWEST * letter) else 0
    beside = line + left if left else 0
    inside = whole.adjusted(beside, 2 * line, 0, 0)
    pitch = square_cells(extent, inside, stretch).width() / extent[1]
    upright = numbered or longest[1] <= pitch
    above = line if upright else min(longest[1], int(high * COLUMNS_SHARE))
    brief = high - line - above < LEAST
    if brief:
        above = line if high - line >= LEAST else 0
    down = above if brief else line + above
    down = down or (line // 2 if left else 0)  # the first row's label begins higher
    cells = square_cells(extent, whole.adjusted(beside, down, 0, 0), stretch)
    return MapRoom(cells, left, above, upright, brief)


def square_cells(extent: tuple[int, int], within: QRect, stretch: float) -> QRect:
    """Return where ``extent`` (rows, columns) cells lie: at the top left of ``within``.

    They are square where the map is large enough so; ``stretch`` is the largest ratio
    of their sides otherwise.
    """
    rows, columns = extent
    wide, high = max(1, within.width()) / columns, max(1, within.height()) / rows
    across = min(wide, stretch * high) * columns
    down = min(high, stretch * wide) * rows
    across = max(across, min(LEAST, wide * columns))
    down = max(down, min(LEAST, high * rows))
    corner = within.topLeft()
    return QRect(corner.x(), corner.y(), max(1, int(across)), max(1, int(down)))
