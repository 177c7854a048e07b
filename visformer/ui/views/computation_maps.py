"""The matrices of a stage, side by side, with the signs between them."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from visformer.pictures.computation.stage_picture import StageMap
from visformer.pictures.picture import Axis, Matrix
from visformer.ui.changed import Changed
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.plain_label import plain_label

MOST = 4  # matrices of a stage
STRETCH = 100.0  # a few tokens of many dimensions still fill the map


class StageMaps(QWidget):
    """Up to four heat maps; a mark shows in all maps that share its axis."""

    hovered = Signal(object)  # dict of axis to index, or None
    clicked = Signal(object)
    failed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[StageMap, ...] = ()
        self._changed = Changed()
        self.matrices: list[Matrix | None] = [None] * MOST
        self.maps: list[HeatMap] = []
        self._signs: list[QLabel] = []
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        for index in range(MOST):
            sign, heat_map = plain_label(""), HeatMap(stretch=STRETCH)
            sign.setAlignment(Qt.AlignmentFlag.AlignCenter)
            heat_map.hovered.connect(partial(self._hover, index))
            heat_map.clicked.connect(partial(self._click, index))
            heat_map.failed.connect(self.failed)
            row.addWidget(sign)
            row.addWidget(heat_map, 1)
            self._signs.append(sign)
            self.maps.append(heat_map)

    def draw(self, shown: tuple[StageMap, ...], marks: dict[Axis, int]) -> None:
        """Show matrices; one whose key is unchanged keeps its image."""
        self._shown = shown
        for index, (sign, heat_map) in enumerate(
            zip(self._signs, self.maps, strict=True)
        ):
            there = index < len(shown)
            heat_map.setVisible(there)
            sign.setVisible(there and bool(shown[index].sign))
            if not there:
                continue
            one = shown[index]
            sign.setText(one.sign)
            if self._changed(f"map {index}", *one.key):
                matrix = self.matrices[index] = one.make()
                heat_map.draw(matrix)
                heat_map.setAccessibleName(matrix.title)
            self._mark(heat_map, self.matrices[index], one, marks)

    def _mark(
        self,
        heat_map: HeatMap,
        matrix: Matrix | None,
        one: StageMap,
        marks: dict[Axis, int],
    ) -> None:
        if matrix is None:
            return
        sizes = len(matrix.rows), len(matrix.columns)
        row, column = (
            _inside(marks.get(axis), first, size)
            for axis, first, size in zip(one.axes, one.first, sizes, strict=True)
        )
        heat_map.mark(
            (row, column) if row is not None and column is not None else None,
            rows=() if row is None else (row,),
            columns=() if column is None else (column,),
        )

    def _at(self, index: int, at: MapCell | None) -> dict[Axis, int] | None:
        """Return the axes and indices of a place in a map."""
        if at is None or index >= len(self._shown):
            return None
        one = self._shown[index]
        pairs = zip(one.axes, at, one.first, strict=True)
        return {axis: place + first for axis, place, first in pairs}

    def _hover(self, index: int, at: MapCell | None) -> None:
        self.hovered.emit(self._at(index, at))

    def _click(self, index: int, at: MapCell | None) -> None:
        place = self._at(index, at)
        if place is not None:
            self.clicked.emit(place)


def _inside(index: int | None, first: int, size: int) -> int | None:
    """Return an index within the drawn part; None where it lies outside."""
    if index is None or not 0 <= index - first < size:
        return None
    return index - first
