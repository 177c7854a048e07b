"""TreeCanvas: paints a beam search as a tree; reports the node under the mouse."""

from __future__ import annotations

import math
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from visformer.language import _
from visformer.pictures.beam_tree import GREY, BeamTree, Node, node_words
from visformer.ui.look.theme import FONT_PALETTE, Dressed, sized
from visformer.ui.widgets.plain_label import cut_to_room, plain_tip, written

COLUMN, BOX = 7.0, 4.6  # em: from step to step, and of that a token's box
LINE, WIDE, HIGH = 1.75, 2.8, 1.3  # em: from line to line, least and most; the box
THINNEST, WIDEST = 0.6, 6.0  # pixels of an edge of p 0 and p 1
FAINT = 0.4  # opacity of steps that are not yet stepped to
MOST_KEPT = 64  # columns whose pictures are kept
Hue = QPalette.ColorRole


class Grid(NamedTuple):
    """Where tokens stand, in pixels."""

    em: float
    left: float  # the room of the lines' names
    pitch: float  # from line to line

    def box(self, column: int, line: int) -> QRectF:
        """Return where a token stands; column -1 is that of the start."""
        x = self.left + (column + 1) * COLUMN * self.em
        y = (line + 1.5) * self.pitch - HIGH * self.em / 2
        return QRectF(x, y, BOX * self.em, HIGH * self.em)

    def column_at(self, x: float) -> int:
        """Return the column whose picture is at x: its edges, then its tokens."""
        between = (COLUMN - BOX) * self.em
        return math.floor((x - self.left + between) / (COLUMN * self.em)) - 1


class TreeCanvas(Dressed, QWidget):
    """Columns are steps; lines are beams by rank, below them what ended or was dropped.

    What led to the run on screen stands out.
    """

    dressed_at = FONT_PALETTE

    hovered = Signal(object)  # a Node or None
    clicked = Signal(object)  # a Node

    def __init__(self) -> None:
        super().__init__()
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.tree: BeamTree | None = None
        self.own: tuple[Node, ...] = ()
        self._current, self._shown = (
            -1,
            0,
        )  # columns: the step's, and how many there are
        self._under: Node | None = None
        self._pictures: dict[int, QPixmap] = {}  # of columns
        self.grid = Grid(1, 0, 1)
        self.dress()

    def draw(
        self, tree: BeamTree, own: tuple[Node, ...], current: int, shown: int
    ) -> None:
        """Show columns of a tree up to ``shown``, those after the current one faint.

        ``own`` are the nodes of the run on screen.
        """
        same = tree is self.tree
        self.tree, self.own = tree, own
        self._current, self._shown = current, shown
        if not same:
            self._under = None
        self._dress()

    def _dress(self) -> None:
        self.setMinimumSize(self.sizeHint())
        self._pictures.clear()
        self._lay_out()

    def go(self, current: int, shown: int) -> None:
        """Make another column the current one."""
        self._current, self._shown = current, shown
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def _lay_out(self) -> None:
        """Find out where tokens stand, with as much room between lines as there is."""
        em = self.fontMetrics().height()
        room = (self.height() - em / 2) / self._lines
        pitch = max(LINE * em, min(WIDE * em, room))
        grid = Grid(em, self.fontMetrics().horizontalAdvance(_("others")) + em, pitch)
        if grid != self.grid:
            self._pictures.clear()
        self.grid = grid
        self.update()

    @property
    def _lines(self) -> int:
        return 1 + (self.tree.lines if self.tree is not None else 8)

    @property
    def most(self) -> int:
        """The height that it can fill."""
        return round((self._lines * WIDE + 0.5) * self.fontMetrics().height())

    def sizeHint(self) -> QSize:
        em = self.fontMetrics().height()
        columns = 1 + (len(self.tree.columns) if self.tree is not None else 2)
        wide = self.fontMetrics().horizontalAdvance(_("others")) + em
        wide += round(columns * COLUMN * em)
        return QSize(wide, round((self._lines * LINE + 0.5) * em))

    # ---- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        tree = self.tree
        if tree is None:
            return
        painter, seen = QPainter(self), self.visibleRegion().boundingRect()
        first = max(-1, self.grid.column_at(seen.left()))
        last = min(self._shown - 1, self.grid.column_at(seen.right()))
        self._paint_current(painter)
        for column in range(first, last + 1):
            painter.setOpacity(FAINT if column > self._current else 1.0)
            at = self._corner(column)
            painter.drawPixmap(at, self._picture(tree, column))
            self._paint_number(painter, tree, column)
        painter.setOpacity(1.0)
        if self.hasFocus() and self._under is not None:
            painter.setPen(QPen(self._colour(Hue.Highlight), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.grid.box(self._under.step, self._under.line))
        self._paint_sides(painter, tree, seen)

    def _colour(self, role: QPalette.ColorRole) -> QColor:
        return self.palette().color(role)

    def _paint_current(self, painter: QPainter) -> None:
        """Tint the column of the current step."""
        if self._current >= 0:
            box, em = self.grid.box(self._current, 0), self.grid.em
            high = self._lines * self.grid.pitch
            tint = self._colour(Hue.Highlight)
            tint.setAlphaF(0.12)
            band = QRectF(box.x() - em / 2, 0, box.width() + em, high)
            painter.fillRect(band.toAlignedRect(), tint)

    def _paint_number(self, painter: QPainter, tree: BeamTree, column: int) -> None:
        if column >= 0:
            here = column == self._current
            painter.setFont(sized(self.font(), 1.0, bold=here))
            painter.setPen(
                self._colour(Hue.WindowText if here else Hue.PlaceholderText)
            )
            top = self.grid.box(column, -1)
            number = f"{tree.first + column + 1:,}"
            painter.drawText(top, Qt.AlignmentFlag.AlignCenter, number)
            painter.setFont(self.font())

    def _corner(self, column: int) -> QPointF:
        """Return where a column's picture stands: from the boxes before to its own."""
        return QPointF(math.floor(self.grid.box(column - 1, 0).right()) - 1, 0)

    def _picture(self, tree: BeamTree, column: int) -> QPixmap:
        """Return the edges and tokens of a column; strokes take long to paint."""
        kept = self._pictures.pop(column, None)
        if kept is None:
            size = QSize(math.ceil(COLUMN * self.grid.em) + 4, self.height())
            ratio = self.devicePixelRatioF()
            kept = QPixmap(size * ratio)
            kept.setDevicePixelRatio(ratio)
            kept.fill(Qt.GlobalColor.transparent)
            painter = QPainter(kept)
            painter.setFont(self.font())
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.translate(-self._corner(column))
            if column < 0:
                start = tree.search.given[-1]
                self._paint_node(
                    painter, tree, Node(-1, 0, 0, start, 1, 0, "kept"), own=True
                )
            else:
                self._paint_column(painter, tree, column)
            painter.end()
        self._pictures[column] = kept  # the newest last
        if len(self._pictures) > MOST_KEPT:
            del self._pictures[next(iter(self._pictures))]
        return kept

    def _paint_column(self, painter: QPainter, tree: BeamTree, column: int) -> None:
        """Paint a step's edges, what was dropped first, and its nodes."""
        own = self.own[column] if column < len(self.own) else None
        nodes = tree.columns[column]
        for node in sorted(nodes, key=lambda n: (n == own, n.fate not in GREY)):
            before, box = (
                self.grid.box(column - 1, node.beam),
                self.grid.box(column, node.line),
            )
            start = QPointF(before.right(), before.center().y())
            end = QPointF(box.left(), box.center().y())
            middle = (start.x() + end.x()) / 2
            path = QPainterPath(start)
            path.cubicTo(middle, start.y(), middle, end.y(), end.x(), end.y())
            pen = QPen(self._colour(self._ink(node, node == own)))
            pen.setWidthF(THINNEST + (WIDEST - THINNEST) * min(1.0, node.p))
            painter.strokePath(path, pen)
        for node in nodes:
            self._paint_node(painter, tree, node, own=node == own)

    def _ink(self, node: Node, own: bool) -> QPalette.ColorRole:
        if own:
            return Hue.Highlight
        return Hue.Mid if node.fate in GREY else Hue.PlaceholderText

    def _paint_node(
        self, painter: QPainter, tree: BeamTree, node: Node, *, own: bool
    ) -> None:
        """Paint a token: framed, twice where it ends a sentence, bare if dropped."""
        box = self.grid.box(node.step, node.line)
        radius = box.height() / 4
        if node.fate not in GREY:
            painter.setPen(self._colour(self._ink(node, own)))
            painter.setBrush(self._colour(Hue.AlternateBase if own else Hue.Base))
            painter.drawRoundedRect(box, radius, radius)
            if node.fate == "ended":
                inner = box.adjusted(2.5, 2.5, -2.5, -2.5)
                painter.drawRoundedRect(inner, radius, radius)
        grey = node.fate in (*GREY, "dead")
        painter.setPen(self._colour(Hue.PlaceholderText if grey else Hue.Text))
        (name,) = written((tree.name(node.id),))
        name = cut_to_room(name, self.fontMetrics(), box.width() - self.grid.em / 2)
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, name)

    def _paint_sides(self, painter: QPainter, tree: BeamTree, seen: QRect) -> None:
        """Name the lines at the left edge of what is seen."""
        wide, beams = self.grid.left - self.grid.em / 2, tree.search.beams
        painter.fillRect(
            QRectF(seen.left(), 0, wide, self.height()), self._colour(Hue.Window)
        )
        painter.setPen(self._colour(Hue.PlaceholderText))
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        for line in range(beams + 1):
            place = self.grid.box(-1, line)
            place.moveLeft(seen.left() + self.grid.em / 4)
            name = f"{line + 1}" if line < beams else _("others")
            painter.drawText(place, left, name)
        y = (beams + 1) * self.grid.pitch
        painter.setPen(self._colour(Hue.Mid))
        painter.drawLine(QPointF(seen.left(), y), QPointF(seen.right(), y))

    # ---- mouse and keys --------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk along the step's tokens, and go to one; other keys step."""
        key, tree = event.key(), self.tree
        ways = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if key in ways and tree is not None and 0 <= self._current < self._shown:
            nodes = sorted(tree.columns[self._current], key=lambda node: node.line)
            under = self._under
            at = nodes.index(under) + ways[Qt.Key(key)] if under in nodes else 0
            self._point(nodes[max(0, min(at, len(nodes) - 1))])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._under is not None:
            self.clicked.emit(self._under)
        else:
            super().keyPressEvent(event)

    def node_at(self, at: QPointF) -> Node | None:
        """Return the node at a point."""
        column = self.grid.column_at(at.x())
        if self.tree is None or not 0 <= column < self._shown:
            return None
        nodes = self.tree.columns[column]
        found = (n for n in nodes if self.grid.box(column, n.line).contains(at))
        return next(found, None)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(self.node_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        node = self.node_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and node is not None:
            self.clicked.emit(node)
        else:
            event.ignore()

    def leaveEvent(self, event: QEvent) -> None:
        self._point(None)

    def _point(self, node: Node | None) -> None:
        if node != self._under:
            self._under = node
            self.update()
            shape = Qt.CursorShape.PointingHandCursor
            self.setCursor(Qt.CursorShape.ArrowCursor if node is None else shape)
            self.hovered.emit(node)

    def event(self, event: QEvent) -> bool:
        """Tell in a tooltip what a node is."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            node = self.node_at(QPointF(event.pos()))
            if node is not None and self.tree is not None:
                tip = plain_tip(node_words(self.tree, node))
                QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)
