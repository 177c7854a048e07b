"""The value of a cell, written large beside it."""

from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QWidget

from visformer.language import _, ngettext
from visformer.pictures.picture import AttentionRole, Matrix, named
from visformer.ui.look.theme import TITLE, gap, hue, sized
from visformer.ui.widgets.labels import short

QUERY, KEY = "\x00", "\x01"  # stand for two tokens while a sentence is cut at them

RolePiece = tuple[str, AttentionRole]


class CellValue(QWidget):
    """Lies over a heat map beside its marked cell, and ignores the mouse."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.value = ""
        self._pieces: tuple[RolePiece, ...] = ()
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def draw(self, matrix: Matrix, at: tuple[int, int], cell: QRect) -> None:
        """Say a cell's value and its tokens beside ``cell``, in the parent's pixels."""
        self.value, self._pieces = value_text(matrix, at), pieces(matrix, at)
        wide, high = self._room()
        parent = self.parentWidget()
        assert parent is not None
        room, off = parent.rect(), gap(self, 1)
        x, y = cell.right() + off, cell.bottom() + off
        if y + high > room.bottom():
            y = cell.top() - off - high
        corner = QPoint(max(0, min(x, room.width() - wide)), max(0, y))
        self.setGeometry(QRect(corner.x(), corner.y(), wide, high))
        self.show()
        self.raise_()
        self.update()

    def _large(self) -> QFont:
        font = sized(self.font(), TITLE, bold=True)
        font.setFeature(QFont.Tag("tnum"), 1)
        return font

    def _room(self) -> tuple[int, int]:
        body, large, edge = self.fontMetrics(), QFontMetrics(self._large()), gap(self)
        words = sum(body.horizontalAdvance(text) for text, _role in self._pieces)
        wide = max(words, large.horizontalAdvance(self.value)) + 2 * edge
        return wide, large.height() + body.height() + edge

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, palette, edge = QPainter(self), self.palette(), gap(self)
        role = QPalette.ColorRole
        painter.setBrush(palette.color(role.Base))
        painter.setPen(palette.color(role.Mid))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.setPen(palette.color(role.WindowText))
        painter.setFont(self._large())
        y = edge / 2 + painter.fontMetrics().ascent()
        painter.drawText(QPointF(edge, y), self.value)
        y = self.height() - edge / 2 - self.fontMetrics().descent()
        painter.setFont(self.font())
        x = float(edge)
        for text, kind in self._pieces:
            painter.setPen(hue(palette, kind))
            painter.drawText(QPointF(x, y), text)
            x += self.fontMetrics().horizontalAdvance(text)


def value_text(matrix: Matrix, at: tuple[int, int]) -> str:
    """Write the value of a cell, and that it is masked."""
    value = matrix.said(at)
    if matrix.masked is not None and matrix.masked[at]:
        return _("{value}, masked", value=value)
    return value


def pieces(matrix: Matrix, at: tuple[int, int]) -> tuple[RolePiece, ...]:
    """Say which cell it is, in pieces that each have a role."""
    row = _name(matrix.row_unit, matrix.rows[at[0]])
    column = _name(matrix.column_unit, matrix.columns[at[1]])
    if (matrix.row_role, matrix.column_role) == ("query", "key"):
        sentence = _("{query} reads {key}", query=QUERY, key=KEY)
    else:
        sentence = _("{row}, {column}", row=QUERY, column=KEY)
    roles: dict[str, RolePiece] = {
        QUERY: (row, matrix.row_role),
        KEY: (column, matrix.column_role),
    }
    found: list[RolePiece] = [("", "")]
    for letter in sentence:
        if letter in roles:
            found += [roles[letter], ("", "")]
        else:
            found[-1] = (found[-1][0] + letter, "")
    return tuple(piece for piece in found if piece[0])


def _name(unit: str, label: str) -> str:
    """Write a label as outside, but cut a token: all of it has no room."""
    full = named(unit, (label,))[0]
    return short(full) if full == label or unit else full


def is_inside(matrix: Matrix, cell: tuple[int, int]) -> bool:
    """Tell whether a matrix has a cell."""
    rows, columns = len(matrix.rows), len(matrix.columns)
    return 0 <= cell[0] < rows and 0 <= cell[1] < columns


def description(matrix: Matrix, cell: tuple[int, int] | None) -> str:
    """Describe the cell in focus for screen readers."""
    if cell is None or not matrix.values.size:
        return _(
            "{rows}, {columns}",
            rows=ngettext("{n} row", "{n} rows", len(matrix.rows)),
            columns=ngettext("{n} column", "{n} columns", len(matrix.columns)),
        )
    row, column = cell
    fields = {
        "row": named(matrix.row_unit, (matrix.rows[row],))[0],
        "column": named(matrix.column_unit, (matrix.columns[column],))[0],
        "value": matrix.said(cell),
    }
    if matrix.done:
        return _("{row}, {column}: {value} ({done})", done=matrix.done, **fields)
    return _("{row}, {column}: {value}", **fields)
