"""How large the cells of a map are."""

from __future__ import annotations

from PySide6.QtCore import QRect

LEAST = 120  # pixels of a map's sides: smaller ones stretch, or lose their labels


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
