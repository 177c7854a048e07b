"""TreeCanvas: paints a beam search as a tree; reports the node under the mouse."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
)
from PySide6.QtWidgets import QToolTip, QWidget

from visformer.language import _
from visformer.pictures.beam_tree import GREY, BeamTree, Node, node_words
from visformer.ui.look.theme import Dressed, sized
from visformer.ui.widgets.plain_label import cut_to_room, plain_tip, written

COLUMN, BOX = 7.0, 4.6  # em: from step to step, and of that a token's box
LINE, WIDE, HIGH = 1.75, 2.8, 1.3  # em: from line to line, least and most; the box
THINNEST, WIDEST = 0.6, 6.0  # pixels of an edge of p 0 and p 1
FAINT = 0.4  # opacity of steps that are not yet stepped to
Hue = QPalette.ColorRole


class TreeCanvas(Dressed, QWidget):
    """Columns are steps; lines are beams by rank, below them what ended or was dropped.

    What led to the run on screen stands out.
    """

    hovered = Signal(object)  # a Node or None
    clicked = Signal(object)  # a Node

    def __init__(self) -> None:
        super().__init__()
        self.setMouseTracking(True)
        self.tree: BeamTree | None = None
        self._own: tuple[Node, ...] = ()
        self._current, self._shown = (
            -1,
            0,
        )  # columns: the step's, and how many there are
        self._under: Node | None = None
        self.dress()

    def draw(
        self, tree: BeamTree, own: tuple[Node, ...], current: int, shown: int
    ) -> None:
        """Show columns of a tree up to ``shown``, those after the current one faint.

        ``own`` are the nodes of the run on screen.
        """
        resized = self.tree is None or tree.columns is not self.tree.columns
        self.tree, self._own = tree, own
        self._current, self._shown = current, shown
        if resized:
            self._under = None
            self._dress()
        self.update()

    def _dress(self) -> None:
        self.setMinimumSize(self.sizeHint())

    @property
    def most(self) -> int:
        """The height that it can fill."""
        lines = 1 if self.tree is None else self.tree.lines + 1
        return round((lines * WIDE + 0.5) * self._em)

    def sizeHint(self) -> QSize:
        tree, em = self.tree, self._em
        if tree is None:
            return QSize(round(20 * em), round(8 * em))
        wide = self._left + (len(tree.columns) + 1) * COLUMN * em
        return QSize(round(wide), round((tree.lines + 1) * LINE * em + em / 2))

    @property
    def _em(self) -> int:
        return self.fontMetrics().height()

    @property
    def _pitch(self) -> float:
        """From line to line, as far as there is room."""
        lines = 1 if self.tree is None else self.tree.lines + 1
        room = (self.height() - self._em / 2) / lines
        return max(LINE * self._em, min(WIDE * self._em, room))

    @property
    def _left(self) -> float:
        """The room of the lines' names."""
        return self.fontMetrics().horizontalAdvance(_("others")) + self._em

    def box(self, column: int, line: int) -> QRectF:
        """Return where a token stands; column -1 is that of the start."""
        em = self._em
        x = self._left + (column + 1) * COLUMN * em
        y = (line + 1.5) * self._pitch - HIGH * em / 2
        return QRectF(x, y, BOX * em, HIGH * em)

    # ---- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        tree = self.tree
        if tree is None:
            return
        painter, seen = QPainter(self), self.visibleRegion().boundingRect()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        wide = COLUMN * self._em
        first = max(-1, math.floor((seen.left() - self._left) / wide) - 1)
        last = min(self._shown, math.ceil((seen.right() - self._left) / wide))
        self._paint_current(painter)
        for column in range(max(0, first), last):
            painter.setOpacity(FAINT if column > self._current else 1.0)
            self._paint_edges(painter, tree, column)
        painter.setOpacity(1.0)
        painter.setPen(self._colour(Hue.Highlight))
        start = tree.name(tree.search.given[-1])
        self._paint_box(painter, self.box(-1, 0), start, own=True)
        for column in range(max(0, first), last):
            painter.setOpacity(FAINT if column > self._current else 1.0)
            self._paint_nodes(painter, tree, column)
        painter.setOpacity(1.0)
        self._paint_sides(painter, tree, seen)

    def _colour(self, role: QPalette.ColorRole) -> QColor:
        return self.palette().color(role)

    def _paint_current(self, painter: QPainter) -> None:
        """Tint the column of the current step."""
        if self._current < 0 or self.tree is None:
            return
        box = self.box(self._current, 0)
        high = (self.tree.lines + 1) * self._pitch
        band = QRectF(box.x() - self._em / 2, 0, box.width() + self._em, high)
        tint = self._colour(Hue.Highlight)
        tint.setAlphaF(0.12)
        painter.fillRect(band, tint)

    def _paint_edges(self, painter: QPainter, tree: BeamTree, column: int) -> None:
        """Hue what leads to a step's nodes, what was dropped first."""
        own = self._own[column] if column < len(self._own) else None
        nodes = sorted(
            tree.columns[column], key=lambda n: (n == own, n.fate not in GREY)
        )
        for node in nodes:
            before, box = self.box(column - 1, node.beam), self.box(column, node.line)
            start = QPointF(before.right(), before.center().y())
            end = QPointF(box.left(), box.center().y())
            middle = (start.x() + end.x()) / 2
            path = QPainterPath(start)
            path.cubicTo(middle, start.y(), middle, end.y(), end.x(), end.y())
            pen = QPen(self._colour(self._ink(node, node == own)))
            pen.setWidthF(THINNEST + (WIDEST - THINNEST) * min(1.0, node.p))
            painter.strokePath(path, pen)

    def _ink(self, node: Node, own: bool) -> QPalette.ColorRole:
        if own:
            return Hue.Highlight
        return Hue.Mid if node.fate in GREY else Hue.PlaceholderText

    def _paint_nodes(self, painter: QPainter, tree: BeamTree, column: int) -> None:
        own = self._own[column] if column < len(self._own) else None
        for node in tree.columns[column]:
            painter.setPen(self._colour(self._ink(node, node == own)))
            box, name = self.box(column, node.line), tree.name(node.id)
            self._paint_box(painter, box, name, own=node == own, fate=node.fate)
        number = f"{tree.first + column + 1:,}"
        here = column == self._current
        painter.setFont(sized(self.font(), 1.0, bold=here))
        painter.setPen(self._colour(Hue.WindowText if here else Hue.PlaceholderText))
        top = QRectF(self.box(column, 0))
        top.moveTop((self._pitch - HIGH * self._em) / 2)
        painter.drawText(top, Qt.AlignmentFlag.AlignCenter, number)
        painter.setFont(self.font())

    def _paint_box(
        self,
        painter: QPainter,
        box: QRectF,
        name: str,
        *,
        own: bool,
        fate: str = "kept",
    ) -> None:
        """Hue a token: framed, twice where it ends a sentence, bare if dropped."""
        radius = box.height() / 4
        if fate not in GREY:
            ground = self._colour(Hue.AlternateBase if own else Hue.Base)
            painter.setBrush(ground)
            painter.drawRoundedRect(box, radius, radius)
            if fate == "ended":
                painter.drawRoundedRect(
                    box.adjusted(2.5, 2.5, -2.5, -2.5), radius, radius
                )
        painter.setBrush(Qt.BrushStyle.NoBrush)
        grey = fate in (*GREY, "dead")
        painter.setPen(self._colour(Hue.PlaceholderText if grey else Hue.Text))
        room = box.width() - self._em / 2
        (shown,) = written((name,))
        text = cut_to_room(shown, self.fontMetrics(), room)
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def _paint_sides(self, painter: QPainter, tree: BeamTree, seen: QRect) -> None:
        """Name the lines at the left edge of what is seen."""
        side = QRectF(seen.left(), 0, self._left - self._em / 2, self.height())
        painter.fillRect(side, self._colour(Hue.Window))
        painter.setPen(self._colour(Hue.PlaceholderText))
        beams = tree.search.beams
        names = {line: f"{line + 1}" for line in range(beams)}
        names[beams] = _("others")
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        for line, name in names.items():
            box = self.box(0, line)
            place = QRectF(
                side.left() + self._em / 4, box.y(), side.width(), box.height()
            )
            painter.drawText(place, left, name)
        y = (beams + 1) * self._pitch
        painter.setPen(self._colour(Hue.Mid))
        painter.drawLine(QPointF(seen.left(), y), QPointF(seen.right(), y))

    # ---- mouse -----------------------------------------------------------------

    def node_at(self, at: QPointF) -> Node | None:
        """Return the node at a point."""
        if self.tree is None:
            return None
        column = math.floor((at.x() - self._left) / (COLUMN * self._em)) - 1
        if not 0 <= column < self._shown:
            return None
        nodes = self.tree.columns[column]
        found = (n for n in nodes if self.box(column, n.line).contains(at))
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
