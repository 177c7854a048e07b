"""The matrices of a stage, side by side, with the signs between them."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from visformer.language import _
from visformer.pictures.computation.stage_picture import StageMap
from visformer.pictures.computation.subject import Room
from visformer.pictures.picture import Axis, Matrix, is_same
from visformer.ui.changed import Changed
from visformer.ui.layout import SingleShot
from visformer.ui.look.theme import (
    Dressed,
    animation,
    gap,
    has_motion,
    is_over,
    letter_width,
)
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.labels import longest
from visformer.ui.widgets.plain_label import plain_label
from visformer.ui.window.large import present_whole

STRETCH = 1000.0  # a few tokens of many dimensions still fill the map
SPACE = 2  # pixels between maps and the signs between them
LONGEST_SIGN = 7  # letters on one line
ABREAST, NARROWEST = 22, 18  # letters: the least width of maps for an audience
LINES, CHARACTERS = 13, 26  # the least height and width of a map, in text
# The same height where rows are compared with those above, by how many rows there are.
COMPARED_LINES = {2: 10, 3: 7}
MOST_PLACED = 3  # times in a row that maps are placed


class StageMaps(Dressed, QWidget):
    """Heat maps in a grid; a mark shows in all maps that share its axis."""

    hovered = Signal(object)  # dict of axis to index, or None
    clicked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[StageMap, ...] = ()
        self._columns = 0  # wanted; 0: as many as have room
        self._both = False  # whether rows are of two runs
        self._arranged: tuple[int, ...] = ()  # the maps in sight, and how many abreast
        self._rows: list[list[int]] = []  # maps beside each other
        self._for_all = False  # for an audience: one row, of what matters most
        self._arranging = False
        self._changed = Changed()
        self.matrices: list[Matrix | None] = []
        self.maps: list[HeatMap] = []
        self._signs: list[QLabel] = []
        self._marks: dict[Axis, int] = {}
        self.motion = ProductMotion(self, self._mark_all)
        present_whole(self)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(SPACE)
        self._built = True

    def draw(
        self,
        shown: tuple[StageMap, ...],
        marks: dict[Axis, int],
        *,
        columns: int = 0,
        both: bool = False,
    ) -> None:
        """Show matrices; one whose key or numbers are unchanged keeps its image.

        Maps that have none now let go of what they showed: weights of any model.
        """
        self._shown, self._columns, self._marks = shown, columns, marks
        self._both = both
        self.motion.stop()
        while len(self.maps) < len(shown):
            self._add()
        self._arrange()
        for index, heat_map in enumerate(self.maps[: len(shown)]):
            one = shown[index]
            self._signs[index].setText("\n".join(_lines(one.sign)))
            if self._changed(f"map {index}", *one.key):
                matrix = one.make()
                moved = self._changed(f"room {index}", *one.room)
                if moved or not is_same(matrix, self.matrices[index]):
                    self.matrices[index] = matrix
                    _draw(heat_map, matrix, one.room)
            self._mark(heat_map, self.matrices[index], one, marks)
        for index in range(len(shown), len(self.maps)):
            if self.matrices[index] is not None:
                self.matrices[index] = None
                self.maps[index].draw(None)
                self._changed.forget(f"map {index}", f"room {index}")
        self._name_rows()
        self._level()

    def _name_rows(self) -> None:
        """Name the rows of maps beside each other once, for an audience."""
        before: tuple[str, ...] = ()
        for index in self._in_sight():
            matrix = self.matrices[index]
            rows = () if matrix is None else (matrix.row_axis, *matrix.rows)
            self.maps[index].name_rows(not self._for_all or rows != before)
            before = rows

    def _level(self) -> None:
        """Begin and end maps beside each other at one height: a row is level in all."""
        for row in self._rows:
            spans = [self.maps[index].span for index in row]
            shared = max(first for first, _ in spans), min(last for _, last in spans)
            for index in row:
                self.maps[index].share(shared)
            if self._for_all:
                self._balance(row)

    def _balance(self, row: list[int]) -> None:
        """Make the cells of maps that are compared equally wide.

        The first one alone names the rows.
        """
        maps = [self.maps[index] for index in row]
        every = sum(one.width() - one.left for one in maps) // len(maps)
        compared = len({self._shown[index].axes for index in row}) == 1
        for column, one in enumerate(maps):
            share = max(1, every + one.left) if compared else 1
            if share != self._grid.columnStretch(2 * column + 1):
                self._grid.setColumnStretch(2 * column + 1, share)

    def run(self) -> None:
        """Run through the terms of the chosen number of each product's first one."""
        for at, (left, right, result) in enumerate(
            zip(self._shown, self._shown[1:], self._shown[2:], strict=False)
        ):
            product = right.sign.startswith("×") and result.sign.endswith("=")
            matrix = self.matrices[at]
            if not product or matrix is None or not self.isVisible():
                continue
            row = self._marks.get(left.axes[0], left.first[0]) - left.first[0]
            column = self._marks.get(right.axes[1], 0)
            sizes = len(matrix.rows), len(matrix.columns)
            if 0 <= row < sizes[0]:
                maps = self.maps[at], self.maps[at + 1]
                self.motion.run(maps, row, column, sizes[1])
            return

    def _mark_all(self) -> None:
        for heat_map, matrix, one in zip(
            self.maps, self.matrices, self._shown, strict=False
        ):
            self._mark(heat_map, matrix, one, self._marks)

    def _add(self) -> None:
        index = len(self.maps)
        sign, heat_map = (
            plain_label(""),
            HeatMap(_("a step of the computation"), stretch=STRETCH),
        )
        sign.setAlignment(Qt.AlignmentFlag.AlignCenter)
        heat_map.hovered.connect(lambda at: self.hovered.emit(self._at(index, at)))
        heat_map.clicked.connect(partial(self._click, index))
        heat_map.moved.connect(self._level)
        self._signs.append(sign)
        self.maps.append(heat_map)
        self.matrices.append(None)

    def present(self, *, on: bool) -> None:
        """Show an audience what matters most, or everything again."""
        self._for_all = on
        self._arrange()

    def _in_sight(self) -> list[int]:
        """Return the maps to show: all of them, or one row for an audience.

        Where not all have room in it, these are the results, or the last ones.
        """
        count = len(self._shown)
        if not self._for_all or count * self._each() <= self.width():
            return list(range(count))
        if self._both:  # the last of each run
            return [count - 1 - self._columns, count - 1]
        results = [at for at in range(count) if self._shown[at].sign.endswith("=")]
        each = self._least().width() + self._grid.spacing()
        room = max(1, self.width() // each)
        return (results or list(range(max(0, count - 2), count)))[-room:]

    def _arrange(self) -> None:
        """Put as many maps beside each other as have room, in rows of equal length.

        Where a map that comes into sight changes the width, they are placed again.
        """
        if self._arranging:
            return
        self._arranging = True
        try:
            for _time in range(MOST_PLACED):
                there, beside = self._wanted()
                signs = (bool(one.sign) for one in self._shown)
                arranged = (self._for_all, *there, beside, *signs)
                if arranged == self._arranged:
                    break
                self._arranged = arranged
                self._place(there, beside)
        finally:
            self._arranging = False

    def _wanted(self) -> tuple[list[int], int]:
        there = self._in_sight()
        each, count = self._each(), len(there)
        beside = self._columns or next(
            (n for n in _divisions(count) if n * each <= self.width()), 1
        )
        return there, count if self._for_all else beside

    def _place(self, there: list[int], beside: int) -> None:
        least, count, every = self._least(), len(there), max(1, beside)
        self._rows = [there[at : at + every] for at in range(0, count, every)]
        self._grid.setHorizontalSpacing(gap(self, 2) if self._for_all else SPACE)
        for index, heat_map in enumerate(self.maps):
            sign, shown = self._signs[index], index in there
            place = there.index(index) if shown else index
            row, column = divmod(place, every)
            self._grid.addWidget(sign, row, 2 * column)
            self._grid.addWidget(heat_map, row, 2 * column + 1)
            heat_map.setMinimumSize(least)
            heat_map.setVisible(shown)
            alone = self._for_all and count < len(self._shown)
            sign.setVisible(shown and bool(self._shown[index].sign) and not alone)
        for column in range(self._grid.columnCount() // 2):
            self._grid.setColumnStretch(2 * column + 1, int(column < beside))
        for row in range(self._grid.rowCount()):
            self._grid.setRowStretch(row, int(row * beside < count))
        self._name_rows()
        self._level()

    def _least(self) -> QSize:
        metrics = self.fontMetrics()
        width = max(200, CHARACTERS * letter_width(metrics))
        if self._for_all:  # its text is large already
            several = sum(one.sign.endswith("=") for one in self._shown) > 1
            letters = NARROWEST if several else ABREAST
            width = letters * letter_width(metrics)
        rows = -(-len(self._shown) // self._columns) if self._columns else 1
        lines = COMPARED_LINES.get(rows, LINES)
        return QSize(width, lines * metrics.lineSpacing())

    def _each(self) -> int:
        metrics = self.fontMetrics()
        words = (word for one in self._shown for word in _lines(one.sign))
        signs = (metrics.horizontalAdvance(word) for word in words)
        return self._least().width() + max(signs, default=0) + metrics.height()

    def minimumSizeHint(self) -> QSize:
        beside = 1 if self._for_all else max(1, self._columns)
        width = beside * self._each()
        return QSize(width, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _dress(self) -> None:
        self._arranged = ()
        self._arrange()

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
            value=is_over(heat_map),  # the words below have all maps' values
        )

    def _at(self, index: int, at: MapCell | None) -> dict[Axis, int] | None:
        if at is None or index >= len(self._shown):
            return None
        one = self._shown[index]
        pairs = zip(one.axes, at, one.first, strict=True)
        return {axis: place + first for axis, place, first in pairs}

    def _click(self, index: int, at: MapCell | None) -> None:
        place = self._at(index, at)
        if place is not None:
            self.clicked.emit(place)


def _draw(heat_map: HeatMap, matrix: Matrix, room: tuple[Room, Room]) -> None:
    """Draw a matrix with room for the rows and columns to come."""
    rows, columns = room
    heat_map.draw(
        matrix,
        extent=(
            max(rows.least, len(matrix.rows)),
            max(columns.least, len(matrix.columns)),
        ),
        longest=(longest(rows.names), longest(columns.names)),
    )
    heat_map.setAccessibleName(matrix.title)


def _lines(sign: str) -> list[str]:
    """Break a sign of words, so that it takes no width from the maps."""
    return sign.split() if len(sign) > LONGEST_SIGN else [sign]


def _inside(index: int | None, first: int, size: int) -> int | None:
    if index is None or not 0 <= index - first < size:
        return None
    return index - first


def _divisions(count: int) -> list[int]:
    """Return in how many columns so many maps may stand, the most first."""
    return [count, -(-count // 2), 1] if count > 1 else [1]


PRODUCT_MS = 240
AFTER_MS = 30  # by then the picture itself has been painted


class ProductMotion(QObject):
    """Marks the terms of one number of a product, one after the other."""

    def __init__(self, parent: QObject, done: Callable[[], None]) -> None:
        """``done`` marks what is marked while nothing moves."""
        super().__init__(parent)
        self._done = done
        self._maps: tuple[HeatMap, HeatMap] | None = None
        self._row = self._column = self._terms = self._at = 0
        self.running = animation(self, PRODUCT_MS, self._show, self._end)
        self.waiting = SingleShot(self, self.running.start, AFTER_MS)

    def run(
        self, maps: tuple[HeatMap, HeatMap], row: int, column: int, terms: int
    ) -> None:
        """Run through the terms of a row of the first map and a column of the second.

        Nothing happens where motion is not wanted.
        """
        self.stop()
        if terms > 1 and has_motion():
            self._maps, self._row, self._column = maps, row, column
            self._terms, self._at = terms, -1
            self.waiting.start()

    def stop(self) -> None:
        """Leave the marks to whoever draws next."""
        self.waiting.stop()
        self.running.stop()
        self._maps = None

    def _show(self, share: float) -> None:
        at = min(self._terms - 1, int(share * self._terms))
        if self._maps is None or at == self._at:
            return
        self._at = at
        left, right = self._maps
        left.mark((self._row, at), rows=(self._row,), columns=(at,), value=False)
        right.mark((at, self._column), rows=(at,), columns=(self._column,), value=False)

    def _end(self) -> None:
        self._maps = None
        self._done()
