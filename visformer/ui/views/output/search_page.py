"""The Search page: a beam search as a tree, and the hypotheses that it finished."""

import math
from typing import NamedTuple

from PySide6.QtCore import (
    QEvent,
    QPointF,
    QRect,
    QRectF,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QFont,
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
from PySide6.QtWidgets import QHBoxLayout, QToolTip, QWidget

from visformer.language import N_, _
from visformer.pictures.beam_tree import (
    GREY,
    BeamTree,
    Hypothesis,
    Node,
    beam_tree,
    hypotheses,
    hypotheses_table,
    node_words,
    score_words,
)
from visformer.pictures.picture import Table
from visformer.session.searches import (
    beams_of,
    choose_beams,
    follow,
    no_search_words,
    search,
    wanted_search,
)
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, fill, scrolled
from visformer.ui.look.theme import FONT_PALETTE, Dressed, sized
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import titled, whole_field, word_button
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.plain_label import cut_to_room, paragraph, plain_tip, written
from visformer.ui.widgets.table_view import (
    RIGHT,
    Role,
    TableColumn,
    TableView,
    bold_font,
)
from visformer.ui.window.large import present_whole
from visformer.values.beam_search import BeamSearch

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


MOST_FIELD = 64  # in the field: of more, the lines could not be read
LEAST_LINES = 4  # of hypotheses that are in sight
TITLES = N_("score"), N_("sum of log p"), N_("length"), N_("hypothesis")


class SearchPage(Dressed, View):
    """What was kept and dropped at every step; a click shows the run of a history."""

    name, title = "search", N_("Search")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.beams = whole_field(_("number of beams"), 1, MOST_FIELD)
        self.beams.valueChanged.connect(lambda n: session.do(choose_beams, n))
        self.again = word_button(_("Search"), _("Search this sentence now"))
        self.again.clicked.connect(lambda: session.do(search, again=True))
        self.canvas = TreeCanvas()
        self.canvas.setAccessibleName(_("the beam search, step by step"))
        self.canvas.hovered.connect(self._tell)
        self.canvas.clicked.connect(self._go_to)
        self.area = scrolled(self.canvas)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        bar = self.area.horizontalScrollBar()
        bar.valueChanged.connect(lambda _value: self.canvas.update())
        self.about = paragraph(_("what the search does"))
        self._end: tuple[int, int, int] | None = None  # of the run on screen
        self.list = TableView(
            _("finished hypotheses, best first"),
            self._columns(),
            names=TableColumn("", lambda line: f"{self.list.items.index(line) + 1}"),
            least=LEAST_LINES,
            most=MOST_FIELD,
        )
        self.list.setSelectionMode(TableView.SelectionMode.NoSelection)
        self.list.export = Export(self.list, self._table)
        self.list.picked.connect(self._follow)
        self.how = paragraph(_("how hypotheses are ranked"))
        self._searched = QWidget()
        parts = (self.area, 3), self.how, (self.list, 1), None
        fill(LeastColumn(self._searched), *parts)
        beams = titled(_("&beams"), self.beams)
        line = fill(QHBoxLayout(), beams, self.beams, self.again, (self.about, 1))
        fill(LeastColumn(self), line, (self._searched, 1), None)
        present_whole(self.area)
        self.dress()

    def _dress(self) -> None:
        line = self.fontMetrics().lineSpacing()
        self.about.setMinimumHeight(2 * line)
        self.how.setMinimumHeight(2 * line)
        self.area.setMinimumHeight(8 * line)

    def main_picture(self) -> QWidget | None:
        return self.area if self._searched.isVisibleTo(self) else None

    # ---- drawing ---------------------------------------------------------------

    def draw(self, state: State) -> None:
        """Show the search that belongs to the run on screen, as far as it is known."""
        self._state = state
        found = self.found_search()
        with QSignalBlocker(self.beams):
            self.beams.setValue(beams_of(state))
        self._searched.setVisible(found is not None)
        if found is None or state.trace is None or state.visible is None:
            self.about.setText(self._missing())
            self.again.setVisible(not state.busy and wanted_search(state) is not None)
            self._changed.forget("step")
            return
        self.again.hide()
        tree = beam_tree(found, state.trace)
        ids = [step.id for step in state.trace.steps[tree.first :]]
        own = tree.along(ids)
        current = len(state.visible) - tree.first - 1
        whole = state.look.ahead or len(state.visible) == len(state.trace)
        shown = len(tree.columns) if whole else current + 1
        if self._changed("tree", tree, own, state.look.pieces):
            self.canvas.draw(tree, own, current, shown)
            bar = self.area.horizontalScrollBar().sizeHint().height()
            self.area.setMaximumHeight(self.canvas.most + bar)
        if self._changed("step", tree, current, shown):
            self.canvas.go(current, shown)
            self._see(current)
            self._tell(None)
        if self._changed("list", found, own):
            end = own[-1] if own and len(own) == len(ids) else None
            self._end = None if end is None else (end.step, end.beam, end.id)
            self.list.fill(hypotheses(found))
            self.how.setText(score_words(found))

    def _columns(self) -> tuple[TableColumn, ...]:
        """Return score, sum, length and text; the hypothesis of the run is bold."""
        looks = {Role.FontRole: self._font}
        *numbers, last = TITLES
        return (
            *(
                TableColumn(
                    *(_(title), lambda line, at=at: line.words[at], ("−0.0000e−00",)),
                    side=RIGHT,
                    looks=looks,
                )
                for at, title in enumerate(numbers)
            ),
            TableColumn(_(last), lambda line: line.text, looks=looks),
        )

    def _font(self, line: Hypothesis) -> QFont | None:
        return bold_font(self.list.font()) if line.one[:3] == self._end else None

    def _table(self) -> Table | None:
        return hypotheses_table(self.list.items) if self.list.items else None

    def found_search(self) -> BeamSearch | None:
        """Return the search of what is on screen, once it is known."""
        known, opened = self._state.search, self._state.opened
        wanted = wanted_search(self._state)
        if known is None or wanted is None or opened is None:
            return None
        return known.value if known.is_of((opened,), wanted) else None

    def _missing(self) -> str:
        """Say why there is no tree."""
        state, known = self._state, self._state.search
        none = no_search_words(state)
        if none or state.opened is None:
            return none or _("The search follows once the model is open.")
        if state.busy:
            return _("Searching…")
        return "" if known is None else known.reason or _("The search was stopped.")

    def _see(self, column: int) -> None:
        """Scroll to the current step."""
        box = self.canvas.grid.box(max(0, column), 0)
        bar, wide = self.area.horizontalScrollBar(), self.area.viewport().width()
        left, right = box.left() - box.width(), box.right() + box.width()
        if left < bar.value() or right > bar.value() + wide:
            bar.setValue(round(box.center().x() - wide / 2))

    # ---- what the user does ----------------------------------------------------

    def _tell(self, node: Node | None) -> None:
        """Describe the node pointed at."""
        tree = self.canvas.tree
        said = _("Click a token to see the run along its history; undo leads back.")
        self.about.setText(node_words(tree, node) if tree and node else said)

    def _go_to(self, node: Node) -> None:
        if self.canvas.tree is not None:
            self.session.do(follow, self.canvas.tree.history(node))

    def _follow(self, one: Hypothesis) -> None:
        found = self.found_search()
        if found is not None:
            self.session.do(follow, found.line_of(one.one).ids)
