"""HeatMap: one Matrix with its tokens, axes and colour bar, to explore and to save."""

from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from visformer.language import N_, _
from visformer.pictures.attention.gist import Gist
from visformer.pictures.picture import Matrix, Table
from visformer.ui.layout import SingleShot
from visformer.ui.look.icons import paint_sign
from visformer.ui.look.theme import (
    FONT_PALETTE_STYLE,
    Dressed,
    animation,
    gap,
    has_motion,
    hue,
    letter_width,
)
from visformer.ui.widgets.canvas import ZOOM_STEP, Canvas
from visformer.ui.widgets.cell_value import CellValue, description, is_inside
from visformer.ui.widgets.colour_bar import ColourBar, colour_table
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.labels import (
    LEAST,
    Caption,
    Labels,
    LongestLabels,
    MapRoom,
    are_numbers,
    axis_ink,
    labels_width,
    map_room,
    square_cells,
    title_font,
)
from visformer.ui.widgets.plain_label import (
    PlainLabel,
    plain_label,
    plain_tip,
    wrapped_height,
    write_in,
    written,
)
from visformer.values.facts import Kind

EMPTY = N_("Nothing to show yet.")


class MapMarks(NamedTuple):
    """What is marked in a map."""

    cell: tuple[int, int] | None
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    value: bool  # whether the cell's is written beside it


NO_CELLS = np.zeros((0, 0), np.float32)
NO_MARKS = MapMarks(None, (), (), value=True)


class HeatMap(Dressed, QWidget):
    """Draws a Matrix; reports the cell under the mouse and the cell clicked."""

    dressed_at = FONT_PALETTE_STYLE

    hovered = Signal(object)  # a MapCell or None
    clicked = Signal(object)  # a MapCell; None: beside the cells
    opened = Signal(object)  # the same, with a double click
    offer_taken = Signal()  # the range of colours that Matrix.offer names
    moved = Signal()  # the cells have room elsewhere: see ``span`` and ``left``

    def __init__(self, name: str, *, stretch: float = 1.0, gist: bool = False) -> None:
        """``name``: what a screen reader calls it.

        ``stretch``: the largest ratio of a cell's sides, 1 for square ones.

        ``gist``: the heading has room for one, so that it moves nothing.
        """
        super().__init__()
        self._stretch = stretch
        self._matrix: Matrix | None = None
        self._extent: tuple[int, int] | None = None
        self._longest: LongestLabels = (), ()
        self._room: tuple[object, ...] = ()  # what the places of all depend on
        self._held = False  # they are worked out later
        self.span = 0, 0  # first and last pixel from the top that cells have room in
        self.left = 0  # pixels before them, for the names of the rows
        self._shared: tuple[int, int] | None = None  # with maps beside this one
        self._names_rows = True
        # all that is seen of a matrix, so that it comes and goes at once
        sheet = self._sheet = QWidget(self)
        self.heading = MapHeading(sheet, gist=gist)
        self._column_axis = plain_label(parent=sheet)
        self._hint = plain_label(parent=self)
        for label in (self._column_axis, self._hint):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._hint.setWordWrap(True)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._row_axis = Caption(sheet)
        self.row_labels = Labels(Qt.Orientation.Vertical, sheet)
        self.column_labels = Labels(Qt.Orientation.Horizontal, sheet)
        self.bar = ColourBar(sheet)
        self.bar.offer_taken.connect(self.offer_taken)
        self.canvas = Canvas(sheet)
        self.canvas.hovered.connect(self.hovered)
        self.canvas.clicked.connect(self.clicked)
        self.canvas.opened.connect(self.opened)
        self.canvas.moved.connect(self._follow)
        self.new_row = NewRow(self.canvas)
        self.value = CellValue(sheet)
        self.marks = NO_MARKS
        self._words: tuple[object, ...] = ()  # beside the cells
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(120, 100)
        self.export = Export(self, self.table)
        self.dress()
        self.draw(None)

    @property
    def matrix(self) -> Matrix | None:
        return self._matrix

    def table(self) -> Table | None:
        return self._matrix.table if self._matrix is not None else None

    # ---- drawing ---------------------------------------------------------------

    def draw(
        self,
        matrix: Matrix | None,
        *,
        extent: tuple[int, int] | None = None,
        longest: LongestLabels = ((), ()),
    ) -> None:
        """Show a matrix; None shows that there is none.

        ``extent`` reserves space for this many rows and columns, ``longest`` for row
        and column labels, so that cells stay in place while rows are added.
        """
        before, self._held = self._matrix, False
        grown = has_grown(before, matrix)
        self.new_row.stop()
        self._sheet.setHidden(matrix is None)
        self._matrix, self._extent, self._longest = matrix, extent, longest
        empty = matrix is None or not matrix.values.size
        self._hint.setVisible(empty)
        if matrix is None:
            self.canvas.draw(NO_CELLS, None, colour_table(self.palette()))
            self._hint.setText(_(EMPTY))
            self._arrange()
            return
        self._hint.setText(matrix.note if empty else "")
        heading = matrix.sign, matrix.title, matrix.role, matrix.done
        axes = matrix.column_axis, matrix.column_role, matrix.row_axis, matrix.row_role
        if (heading, axes) != self._words:  # a step leaves them
            self._words = heading, axes
            self._write(matrix)
        self._paint_cells(matrix)
        self._arrange()
        self.canvas.set_border(matrix.border, matrix.framed)
        self.canvas.alarm(matrix.alarms)
        at, marks = matrix.marked or (), self.marks
        same = before is not None and before.marked == matrix.marked
        if not same or not (marks.cell is None or is_inside(matrix, marks.cell)):
            marks = MapMarks(matrix.marked, at[:1], at[1:], value=True)
        self._show(matrix, marks)  # others than its own are renewed by who set them
        if grown and self.isVisible():
            self.new_row.start(QRectF(0, len(matrix.rows) - 1, len(matrix.columns), 1))

    def stretch(self, most: float) -> None:
        """Let cells be up to this many times as wide as high, or as high as wide."""
        self._stretch = most
        self._arrange()

    def name_rows(self, named: bool) -> None:
        """Leave row labels out where those of the map to the left stand for them."""
        if named != self._names_rows:
            self._names_rows = named
            self._arrange()

    def share(self, span: tuple[int, int]) -> None:
        """Keep the cells between these pixels from the top, level with other maps."""
        if span != self._shared:
            self._shared = span
            self._arrange()

    def mark(
        self,
        cell: tuple[int, int] | None,
        *,
        rows: tuple[int, ...] = (),
        columns: tuple[int, ...] = (),
        value: bool = True,
    ) -> None:
        """Frame a cell and mark tokens on both axes; the image is left alone.

        ``value``: the cell's value is written beside it.
        """
        marks = MapMarks(cell, rows, columns, value)
        if self._matrix is not None and marks != self.marks:
            self._show(self._matrix, marks)

    def _show(self, matrix: Matrix, marks: MapMarks) -> None:
        self.marks, (cell, rows, columns, _value) = marks, marks
        self.canvas.mark(cell, rows, columns)
        self.row_labels.draw(
            matrix.rows, rows, current=matrix.current, role=matrix.row_role
        )
        self.column_labels.draw(
            matrix.columns, columns, current=matrix.most_read, role=matrix.column_role
        )
        self.setAccessibleDescription(description(matrix, cell))
        self._say_value()

    def _say_value(self) -> None:
        matrix, cell = self._matrix, self.marks.cell if self.marks.value else None
        if matrix is None or cell is None or not is_inside(matrix, cell):
            self.value.hide()
            return
        place = self.canvas.box(*cell).translated(self.canvas.pos())
        if self.canvas.geometry().intersects(place):
            self.value.draw(matrix, cell, place)
        else:
            self.value.hide()

    def _write(self, matrix: Matrix) -> None:
        """Write what the map and its axes are, in the hues of what these name."""
        self.heading.draw(matrix)
        self._column_axis.setText(matrix.column_axis)
        self._row_axis.set_text(matrix.row_axis, matrix.row_role)
        ink = axis_ink(self.palette(), matrix.column_role)
        write_in(self._column_axis, QPalette.ColorRole.PlaceholderText, ink)

    def _paint_cells(self, matrix: Matrix) -> None:
        colours = colour_table(self.palette(), signed=matrix.signed)
        bars = matrix.shade if matrix.bars else None
        shades = matrix.shade if bars is None else np.zeros_like(bars)
        values = None if matrix.boolean else matrix.values
        self.canvas.draw(shades, matrix.masked, colours, values, bars)
        self.canvas.draw_ahead(matrix.ahead)
        self.bar.draw(matrix, colours)

    # ---- where things are ------------------------------------------------------

    def sizeHint(self) -> QSize:
        side = 30 * letter_width(self.fontMetrics())
        return QSize(side, side)

    def _arrange(self) -> None:
        """Place every part; do nothing if nothing changed."""
        matrix = self._matrix
        if matrix is None:
            self._hint.setGeometry(self.rect())
            return
        rows, columns = self._extent or (len(matrix.rows), len(matrix.columns))
        extent = max(1, rows), max(1, columns)
        size, font = self.size(), self.font()
        names = self._longest[0] or matrix.rows, self._longest[1] or matrix.columns
        longest = (
            labels_width(font, written(names[0])) if self._names_rows else 0,
            labels_width(font, written(names[1])),
        )
        top = self.heading.place(size.width())
        bar = self.bar.needs(size.width())
        axes = matrix.row_axis, matrix.column_axis, are_numbers(matrix.columns)
        shape = self._stretch, self._shared
        room = (size, extent, longest, font, top, bar, axes, shape)
        if room != self._room:
            self._room = room
            self._place(extent, longest, numbered=axes[2])
        if not self._hint.isHidden():
            edge = gap(self) // 2
            self._hint.setGeometry(self.canvas.geometry().adjusted(edge, 0, -edge, 0))

    def _place(
        self, extent: tuple[int, int], longest: tuple[int, int], *, numbered: bool
    ) -> None:
        """Put the parts around the largest map that there is room for.

        Where labels would leave too little of it they are left out.
        """
        edge, top = gap(self) // 2, self.heading.height()
        metrics = self.fontMetrics()
        line, letter = metrics.height() + 2, letter_width(metrics)
        bar = self.bar.heightForWidth(self.width() - 2 * edge)
        bottom = self.height() - bar - 2 * edge
        whole = QRect(QPoint(edge, top), QPoint(self.width() - edge, bottom))
        sizes = longest, (line, letter)
        room = map_room(extent, whole, self._stretch, *sizes, numbered=numbered)
        span, start = (room.cells.y(), bottom), room.cells.y()
        room = self._levelled(room, extent, span, whole.right())
        top += room.cells.y() - start
        self.row_labels.setVisible(room.left > 0)
        self._row_axis.setVisible(room.left > 0)
        self.column_labels.setVisible(room.above > 0)
        self._column_axis.setHidden(room.brief)
        self.column_labels.upright = room.upright
        self.column_labels.brief = room.brief
        self._place_around(room, QPoint(edge, top), line)
        self.canvas.setGeometry(room.cells)
        right = self.width() - edge
        wanted = self.bar.wanted(right - edge)
        x = max(edge, min(room.cells.x(), right - wanted))
        self.bar.setGeometry(x, room.cells.bottom() + edge, right - x, bar)
        self.canvas.set_whole(*extent)
        self._follow()
        if (span, room.cells.x()) != (self.span, self.left):
            self.span, self.left = span, room.cells.x()
            self.moved.emit()

    def _levelled(
        self, room: MapRoom, extent: tuple[int, int], span: tuple[int, int], right: int
    ) -> MapRoom:
        """Keep the cells in the span that is shared, if that is large enough."""
        if self._shared is None:
            return room
        first, last = max(span[0], self._shared[0]), min(span[1], self._shared[1])
        if last - first < LEAST:
            return room
        within = QRect(QPoint(room.cells.x(), first), QPoint(right, last))
        return room._replace(cells=square_cells(extent, within, self._stretch))

    def _place_around(self, room: MapRoom, corner: QPoint, line: int) -> None:
        """Place labels and titles of the axes; ``corner`` is above and beside them.

        A title that is longer than its axis begins in that corner.
        """
        cells, over = room.cells, line // 2
        x, y, right = cells.x(), cells.y(), self.width() - corner.x()
        self.row_labels.overhang = self.column_labels.overhang = over
        self.column_labels.setGeometry(
            x - over, y - room.above, cells.width() + 2 * over, room.above
        )
        inner = corner.x() + (line if room.left else 0)
        self.row_labels.setGeometry(
            inner, y - over, x - inner, cells.height() + 2 * over
        )
        wide = self._column_axis.sizeHint().width()
        start = max(inner, min(x, right - wide))
        self._column_axis.setGeometry(start, corner.y(), right - start, line)
        high = max(
            cells.height(),
            min(self._row_axis.wanted(), cells.bottom() + 1 - corner.y()),
        )
        self._row_axis.setGeometry(corner.x(), y + cells.height() - high, line, high)

    def _follow(self) -> None:
        view = self.canvas.view
        self.row_labels.look_at(view.y(), view.height())
        self.column_labels.look_at(view.x(), view.width())
        self._say_value()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._sheet.setGeometry(self.rect())
        if not self._held:
            self._arrange()

    def hold(self, *, held: bool) -> None:
        """Place no part while held, or until ``draw``: size and matrix may change."""
        waited, self._held = self._held, held
        if waited and not held:
            self._arrange()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.hasFocus():
            painter = QPainter(self)
            painter.setPen(self.palette().color(QPalette.ColorRole.Highlight))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _dress(self) -> None:
        self._arrange()
        if self._matrix is not None:
            self._write(self._matrix)
            self._paint_cells(self._matrix)

    # ---- mouse and keys --------------------------------------------------------

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        actions = {
            Qt.Key.Key_Plus: lambda: self.canvas.zoom(ZOOM_STEP),
            Qt.Key.Key_Minus: lambda: self.canvas.zoom(1 / ZOOM_STEP),
            Qt.Key.Key_0: self.canvas.reset,
        }
        action = actions.get(Qt.Key(event.key()))
        if action is None:
            super().keyPressEvent(event)
        else:
            action()


SIDE = 0.7  # of a line


class KindSign(QWidget):
    """A full square, a lower triangle, or a square between two bars."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind: Kind | None = None
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.hide()

    def draw(self, kind: Kind | None) -> None:
        """Show the sign of a kind; None hides it."""
        if kind != self._kind:
            self._kind = kind
            self.setVisible(kind is not None)
            self.update()

    def sizeHint(self) -> QSize:
        side = round(SIDE * self.fontMetrics().height())
        return QSize(side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._kind is not None:
            ink = self.palette().color(QPalette.ColorRole.WindowText)
            paint_sign(QPainter(self), self._kind, QRectF(self.rect()), ink)


class GistLabel(PlainLabel):
    """The gist of a map, faint; the mouse may rest on it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setForegroundRole(QPalette.ColorRole.PlaceholderText)

    def draw(self, gist: Gist) -> None:
        """Write it, and say in the tip what its number is."""
        self.setText(gist.words)
        self.setToolTip(plain_tip("\n".join(filter(None, gist))))


LONG = 32  # letters of a gist that is long


class MapHeading(QWidget):
    """The sign of a kind and the title; beside or below it the gist; what was done."""

    def __init__(self, parent: QWidget, *, gist: bool) -> None:
        """``gist``: there is room for what ``say`` writes, so that it moves nothing."""
        super().__init__(parent)
        self._has_gist = gist
        self._sign, self.gist = KindSign(self), GistLabel(self)
        self.title, self.done = plain_label(parent=self), plain_label(parent=self)
        for label in (self.title, self.done):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.done.setWordWrap(True)
        self._placed: tuple[object, ...] = ()  # what all places follow from

    def draw(self, matrix: Matrix) -> None:
        """Write a matrix's title in the hue of what it names, and what was done."""
        self._sign.draw(matrix.sign)
        self.title.setText(matrix.title)
        self.done.setText(matrix.done)
        ink = hue(self.palette(), matrix.role)
        write_in(self.title, QPalette.ColorRole.WindowText, ink)

    def say(self, gist: Gist) -> None:
        """Write what there is to see."""
        self.gist.draw(gist)
        self.gist.setVisible(bool(gist.words))

    def place(self, width: int) -> int:
        """Place all parts in this width, in pixels; return the height that they take.

        The title is as large as it fits on one line; a long one wraps. The gist stands
        beside it, or below where most would be too long.
        """
        texts = self.title.text(), self.done.text(), self._sign.isHidden()
        placed = width, self.font(), *texts
        if placed != self._placed:
            self._placed = placed
            self.setGeometry(0, 0, width, self._place(width))
        return self.height()

    def _place(self, width: int) -> int:
        edge, text = gap(self) // 2, self.title.text()
        wide, body, left = width - 2 * edge, self.fontMetrics(), edge
        side = 0 if self._sign.isHidden() else self._sign.sizeHint().height()
        left += side + letter_width(body) if side else 0
        room = wide + edge - left
        face = title_font(self.font(), text, room)
        self.title.setFont(face)
        metrics = QFontMetrics(face)
        line, title = metrics.height() + 2, metrics.horizontalAdvance(text) + edge
        if self.title.wordWrap() != (title > room):
            self.title.setWordWrap(title > room)
        high = max(line, wrapped_height(metrics, text, room)) if title > room else line
        title = max(0, min(room, title))
        self._sign.setGeometry(edge, edge + (line - side) // 2, side, side)
        self.title.setGeometry(left, edge, title, high)
        off = metrics.ascent() - body.ascent()  # one baseline
        left += title + letter_width(body)
        place = QRect(left, edge + off, max(0, wide - left), body.height() + 2)
        if self._has_gist and place.width() < LONG * letter_width(body):
            place = QRect(edge, edge + high, wide, body.height() + 2)
            high += place.height()
        self.gist.setGeometry(place)
        done = wrapped_height(body, self.done.text(), wide)
        self.done.setGeometry(edge, edge + high, wide, done)
        return edge + high + done


GLOW_MS = 200
QUIET_MS = 40  # without another step: what comes faster does not glow
STRONGEST = 0.5  # opacity of the glow at its beginning


class NewRow(QWidget):
    """Lies over a row of cells; the row below it is painted and right already."""

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()
        self._cells = QRectF()
        self.quiet = SingleShot(self, self._glow, QUIET_MS)
        self.glow = animation(self, GLOW_MS, lambda _: self.update(), self.hide)

    def start(self, cells: QRectF) -> None:
        """Glow over ``cells`` of the canvas, unless pictures stand still."""
        self.stop()
        if has_motion():
            self._cells = cells
            self.quiet.start()

    def _glow(self) -> None:
        place = self._canvas.place(self._cells)
        if place.height() >= 2:
            self.setGeometry(place)
            self.show()
            self.glow.start()

    def stop(self) -> None:
        """End at once: another picture is there."""
        self.quiet.stop()
        if not self.isHidden():
            self.glow.stop()
            self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        time = float(self.glow.currentValue() or 0.0)
        if not time:
            return
        painter = QPainter(self)
        painter.setOpacity(STRONGEST * (1 - time))
        accent = self.palette().color(QPalette.ColorRole.Highlight)
        painter.fillRect(QRectF(0, 0, self.width() * time, self.height()), accent)


def has_grown(before: Matrix | None, now: Matrix | None) -> bool:
    """Tell whether a step has added the last row of a map."""
    if before is None or now is None or now.current is None:
        return False
    rows = len(now.rows)
    joined = len(before.rows) + 1 == rows == now.current + 1
    return joined and before.title == now.title
