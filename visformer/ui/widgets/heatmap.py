"""HeatMap: one Matrix with its tokens, axes and colour bar, to explore and to save."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from visformer.language import N_, _, ngettext
from visformer.pictures.picture import Matrix, Table
from visformer.ui.widgets.canvas import ZOOM_STEP, Canvas
from visformer.ui.widgets.colour_map import NAN, codes, colour_table
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.labels import Caption, ColourBar, Labels, short
from visformer.ui.widgets.plain_label import plain_label, wrapped_height
from visformer.words import number

STRETCH = 4.0  # at most, of a cell's width to its height, or the reverse
EMPTY = N_("Nothing to show yet.")


class HeatMap(QWidget):
    """Draws a Matrix; reports the cell under the mouse and the cell clicked."""

    hovered = Signal(object)  # a MapCell or None
    clicked = Signal(object)  # a MapCell; None: beside the cells
    failed = Signal(str)

    def __init__(self, *, stretch: float = STRETCH) -> None:
        """``stretch``: the largest ratio of a cell's sides."""
        super().__init__()
        self._stretch = stretch
        self._matrix: Matrix | None = None
        self._extent: tuple[int, int] | None = None
        self._longest = ("", "")
        self._room: tuple[object, ...] = ()  # what the arrangement depends on
        self._focused = False
        labels = [plain_label(parent=self) for _ in range(4)]
        for label in labels:
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._title, self._column_axis, self._hint, self._done = labels
        self._hint.setWordWrap(True)
        self._done.setWordWrap(True)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        for label in (self._column_axis, self._hint):
            label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._row_axis = Caption(self)
        self._row_labels = Labels(Qt.Orientation.Vertical, self)
        self._column_labels = Labels(Qt.Orientation.Horizontal, self)
        self._bar = ColourBar(self)
        self.canvas = Canvas(self)
        self.canvas.hovered.connect(self.hovered)
        self.canvas.clicked.connect(self.clicked)
        self.canvas.moved.connect(self._follow)
        self._hint.raise_()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(120, 100)
        self.export = Export(self, self.table)
        self.export.failed.connect(self.failed)
        self._dress()
        self.draw(None)

    @property
    def matrix(self) -> Matrix | None:
        return self._matrix

    def table(self) -> Table | None:
        """Return the numbers on screen for export."""
        return self._matrix.table if self._matrix is not None else None

    # ---- drawing ---------------------------------------------------------------

    def draw(
        self,
        matrix: Matrix | None,
        *,
        extent: tuple[int, int] | None = None,
        longest: tuple[str, str] = ("", ""),
    ) -> None:
        """Show a matrix; None shows that there is none.

        ``extent`` reserves space for this many rows and columns, ``longest`` for a row
        and a column label, so that cells stay in place while rows are added.
        """
        self._matrix, self._extent, self._longest = matrix, extent, longest
        named = (self._title, self._done, self._column_axis, self._bar, self.canvas)
        for part in named:
            part.setVisible(matrix is not None)
        empty = matrix is None or not matrix.values.size
        self._hint.setVisible(empty)
        if matrix is None:
            self._hint.setText(_(EMPTY))
            self._row_labels.draw((), ())
            self._column_labels.draw((), ())
            self._row_axis.set_text("")
            self._arrange()
            return
        self._hint.setText(matrix.note if empty else "")
        self._title.setText(matrix.title)
        self._done.setText(matrix.done)
        self._column_axis.setText(matrix.column_axis)
        self._row_axis.set_text(matrix.row_axis)
        self._arrange()
        self._paint_cells(matrix)
        self.canvas.set_border(matrix.border)
        self.canvas.alarm(matrix.alarms)
        row, column = matrix.marked or (None, None)
        self.mark(
            matrix.marked,
            rows=() if row is None else (row,),
            columns=() if column is None else (column,),
        )

    def mark(
        self,
        cell: tuple[int, int] | None,
        *,
        rows: tuple[int, ...] = (),
        columns: tuple[int, ...] = (),
    ) -> None:
        """Frame a cell and mark tokens on both axes; the image is left alone."""
        if self._matrix is None:
            return
        self.canvas.mark(cell, rows, columns)
        self._row_labels.draw(self._matrix.rows, rows)
        self._column_labels.draw(self._matrix.columns, columns)
        self.setAccessibleDescription(_description(self._matrix, cell))

    def set_focused(self, focused: bool) -> None:
        """Frame the whole map as the one of several that has the focus."""
        if focused != self._focused:
            self._focused = focused
            self.update()

    def _paint_cells(self, matrix: Matrix) -> None:
        colours = colour_table(self.palette(), signed=matrix.signed)
        cell_codes = codes(matrix.shade, matrix.masked)
        self.canvas.draw(cell_codes, matrix.masked, colours)
        self._bar.draw(
            colours,
            matrix.ends,
            matrix.note if matrix.values.size else "",
            masked=matrix.masked is not None and bool(matrix.masked.any()),
            unknown=bool((cell_codes == NAN).any()),
            boolean=matrix.boolean,
        )

    # ---- where things are ------------------------------------------------------

    def sizeHint(self) -> QSize:
        """Thirty characters square."""
        side = 30 * self.fontMetrics().averageCharWidth()
        return QSize(side, side)

    def _arrange(self) -> None:
        """Place every part; do nothing if nothing changed."""
        matrix = self._matrix
        if matrix is None:
            self._hint.setGeometry(self.rect())
            self._room = ()
            return
        extent = self._extent or (len(matrix.rows), len(matrix.columns))
        longest = (
            self._width_of((self._longest[0], *matrix.rows)),
            self._width_of((self._longest[1], *matrix.columns)),
        )
        room = (self.size(), extent, longest, self.font(), matrix.done)
        if room != self._room:
            self._room = room
            self._place(extent, longest)

    def _width_of(self, labels: tuple[str, ...]) -> int:
        """Return the width of the widest label; only the longest few are measured."""
        metrics = self.fontMetrics()
        candidates = sorted({short(label) for label in labels}, key=len)[-3:]
        widest = max(
            (metrics.horizontalAdvance(text) for text in candidates), default=0
        )
        return widest + metrics.averageCharWidth()

    def _place(self, extent: tuple[int, int], longest: tuple[int, int]) -> None:
        rows, columns = max(1, extent[0]), max(1, extent[1])
        line = self.fontMetrics().height() + 2
        edge = 4
        left = edge + line + min(longest[0], int(self.width() * 0.4))
        width = max(1, self.width() - left - 2 * edge)
        self._column_labels.upright = longest[1] <= width / columns
        turned = min(longest[1], int(self.height() * 0.35))
        labels = line if self._column_labels.upright else turned
        done = wrapped_height(self.fontMetrics(), self._done.text(), self.width() - 8)
        top = edge + 2 * line + done + labels
        height = max(1, self.height() - top - line - 2 * edge)
        wide, high = width / columns, height / rows
        width = max(1, int(min(wide, self._stretch * high) * columns))
        height = max(1, int(min(high, self._stretch * wide) * rows))
        self._title.setGeometry(edge, edge, self.width() - 2 * edge, line)
        self._done.setGeometry(edge, edge + line, self.width() - 2 * edge, done)
        axis = QRect(left, edge + line + done, self.width() - left - edge, line)
        self._column_axis.setGeometry(axis)
        over = line // 2
        self._row_labels.overhang = self._column_labels.overhang = over
        across = QRect(left - over, top - labels, width + 2 * over, labels)
        self._column_labels.setGeometry(across)
        self._row_axis.setGeometry(edge, top, line, height)
        beside = QRect(edge + line, top - over, left - edge - line, height + 2 * over)
        self._row_labels.setGeometry(beside)
        self.canvas.setGeometry(left, top, width, height)
        self._hint.setGeometry(left + edge, top, width - 2 * edge, height)
        self._bar.setGeometry(
            left, top + height + edge, self.width() - left - edge, line
        )
        self.canvas.set_whole(rows, columns)
        self._follow()

    def _follow(self) -> None:
        view = self.canvas.view
        self._row_labels.look_at(view.y(), view.height())
        self._column_labels.look_at(view.x(), view.width())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the frame of the map that has the focus, ours or the keyboard's."""
        if not (self._focused or self.hasFocus()):
            return
        painter = QPainter(self)
        accent = self.palette().color(QPalette.ColorRole.Highlight)
        for wide in range(2 if self._focused else 1):
            painter.setPen(accent)
            painter.drawRect(self.rect().adjusted(wide, wide, -1 - wide, -1 - wide))

    def changeEvent(self, event: QEvent) -> None:
        """Follow palette, font and style."""
        super().changeEvent(event)
        kinds = (
            QEvent.Type.PaletteChange,
            QEvent.Type.FontChange,
            QEvent.Type.StyleChange,
        )
        if event.type() in kinds and hasattr(self, "canvas"):
            self._dress()

    def _dress(self) -> None:
        """Use the widget's palette and font."""
        bold = self.font()
        bold.setBold(True)
        self._title.setFont(bold)
        self._arrange()
        if self._matrix is not None:
            self._paint_cells(self._matrix)

    # ---- mouse and keys --------------------------------------------------------

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Report a click beside the cells."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Plus and minus zoom, 0 shows everything."""
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

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Offer to copy and to save what is on screen."""
        self.export.popup(event.globalPos())


def _description(matrix: Matrix, cell: tuple[int, int] | None) -> str:
    """Describe the cell in focus for screen readers."""
    if cell is None or not matrix.values.size:
        return _(
            "{rows}, {columns}",
            rows=ngettext("{n} row", "{n} rows", len(matrix.rows)),
            columns=ngettext("{n} column", "{n} columns", len(matrix.columns)),
        )
    row, column = cell
    fields = {
        "row": matrix.row_names[row],
        "column": matrix.column_names[column],
        "value": number(float(matrix.values[row, column])),
    }
    if matrix.done:
        return _("{row}, {column}: {value} ({done})", done=matrix.done, **fields)
    return _("{row}, {column}: {value}", **fields)
