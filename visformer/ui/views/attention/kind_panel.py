"""KindPanel: one kind's attention as heat map, arcs or tinted text; one at a time."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from visformer.language import N_, _
from visformer.pictures.attention.arcs import arc_words
from visformer.pictures.attention.gist import Gist
from visformer.pictures.attention.maps import Marks
from visformer.pictures.attention.reading import Reading
from visformer.pictures.attention.tinted import tinted
from visformer.pictures.picture import Matrix, Table
from visformer.pictures.selection import Form, Look
from visformer.ui.layout import fill, scrolled
from visformer.ui.look.theme import TITLE, Dressed, gap, sized
from visformer.ui.views.attention.arc_map import ArcsCanvas
from visformer.ui.views.attention.running_text import RunningText
from visformer.ui.widgets.colour_bar import ColourBar, colour_table
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.heatmap import GistLabel, HeatMap, KindSign
from visformer.ui.widgets.labels import LEAST, LongestLabels
from visformer.ui.widgets.plain_label import paragraph, plain_label
from visformer.ui.window.large import can_be_large
from visformer.values.facts import Kind
from visformer.values.trace import Trace

PANEL_NAMES: dict[Form, str] = {
    "arcs": N_("{kind} attention as arcs"),
    "text": N_("{kind} attention as tinted text"),
}


class KindPanel(QStackedWidget):
    """Shows a Matrix in the form requested.

    ``hovered`` and ``clicked`` give a MapCell of the heat map, a SideToken of the other
    forms, or None. The other forms are built when first shown.
    """

    hovered = Signal(object)
    clicked = Signal(object)
    offer_taken = Signal()  # as HeatMap's

    def __init__(self, name: str, *, grows: bool) -> None:
        """``grows``: a step adds a row, which is then scrolled to."""
        super().__init__()
        self._grows = grows
        self.heat_map = HeatMap(_("{kind} attention", kind=name), gist=True)
        self.heat_map.hovered.connect(self.hovered)
        self.heat_map.clicked.connect(self.clicked)
        self.heat_map.offer_taken.connect(self.offer_taken)
        self.addWidget(self.heat_map)
        self._name = name
        self._panels: dict[Form, Panel] = {}
        self._form: Form = "map"
        self._matrix: Matrix | None = None
        self._rows = 0
        can_be_large(self)

    def panel(self, form: Form) -> Panel:
        """Return the arcs or the text."""
        if form not in self._panels:
            canvas = ArcsCanvas() if form == "arcs" else RunningText()
            panel = Panel(canvas, _(PANEL_NAMES[form], kind=self._name))
            canvas.pointed.connect(self.hovered)
            canvas.clicked.connect(self.clicked)
            panel.clicked.connect(self.clicked)
            panel.offer_taken.connect(self.offer_taken)
            self._panels[form] = panel
            self.addWidget(panel)
        return self._panels[form]

    def draw(
        self,
        matrix: Matrix | None,
        look: Look,
        *,
        extent: tuple[int, int] | None,
        longest: LongestLabels,
    ) -> None:
        """Show a matrix; ``mark`` says what is marked in it."""
        self._matrix, self._form = matrix, look.form
        if look.form == "map":
            self.heat_map.draw(matrix, extent=extent, longest=longest)
            self.setCurrentWidget(self.heat_map)
            return
        panel = self.panel(look.form)
        note = ""
        if matrix is not None and isinstance(panel.canvas, ArcsCanvas):
            panel.canvas.draw(matrix, look.mass, extent or (1, 1))
            note = arc_words(look, matrix)
        panel.draw(matrix, note)
        self.setCurrentWidget(panel)
        self._follow(panel, len(matrix.rows) if matrix is not None else 0)

    def _follow(self, panel: Panel, rows: int) -> None:
        grown = self._grows and rows != self._rows
        if grown and isinstance(panel.canvas, ArcsCanvas):
            y = round(panel.canvas.line_of(rows - 1))
            panel.area.ensureVisible(0, y, 0, 2 * self.fontMetrics().height())
        self._rows = rows

    def say(self, gist: Gist) -> None:
        """Write beside the title what there is to see."""
        (self.heat_map.heading if self._form == "map" else self.panel(self._form)).say(
            gist
        )

    def mark(self, trace: Trace, shown: Reading, marks: Marks, look: Look) -> None:
        """Mark tokens, and the cell in focus."""
        if self._form == "map":
            self.heat_map.mark(marks.cell, rows=marks.rows, columns=marks.columns)
            return
        canvas = self.panel(self._form).canvas
        if isinstance(canvas, ArcsCanvas):
            canvas.mark(marks, look.by)
        elif self._matrix is not None:
            canvas.draw(tinted(trace, shown, self._matrix, marks, look.by))


class Panel(Dressed, QWidget):
    """Title, what was done, the picture (scrolled if it is long), its key."""

    clicked = Signal(object)  # None: beside the picture
    offer_taken = Signal()  # the range of colours that Matrix.offer names

    def __init__(self, canvas: ArcsCanvas | RunningText, name: str) -> None:
        super().__init__()
        self.canvas = canvas
        self._matrix: Matrix | None = None
        self._title, self._gist = plain_label(), GistLabel()
        self._done, self._note = paragraph(name), paragraph(name)
        for label in (self._title, self._done, self._note):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._note.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._bar = ColourBar(self)
        self._bar.offer_taken.connect(self.offer_taken)
        self._bar.setVisible(isinstance(canvas, RunningText))
        self.area = scrolled(canvas)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._sign = KindSign()
        heading = self._sign, self._title, (self._gist, 1)
        self._heading = fill(QHBoxLayout(), *heading)
        parts = self._heading, self._done, (self.area, 1), self._note, self._bar
        fill(QVBoxLayout(self), *parts, spacing=2).setContentsMargins(4, 4, 4, 4)
        self.export = Export(self, self.table)
        self.setAccessibleName(name)
        self.dress()

    def draw(self, matrix: Matrix | None, note: str) -> None:
        """Show the words around the picture; ``note`` says how it is drawn."""
        self._matrix = matrix
        empty = matrix is None or not matrix.values.size
        self._title.setText(matrix.title if matrix is not None else "")
        self._sign.draw(matrix.sign if matrix is not None else None)
        self._done.setText(matrix.done if matrix is not None else "")
        self._done.setVisible(bool(self._done.text()))
        said = matrix.note if matrix is not None and empty else note
        self._note.setText(said if matrix is not None else _("Nothing to show yet."))
        self._note.setVisible(bool(self._note.text()))
        if matrix is not None:
            self._bar.draw(matrix, colour_table(self.palette(), signed=matrix.signed))

    def say(self, gist: Gist) -> None:
        """Write beside the title what there is to see."""
        self._gist.draw(gist)

    def table(self) -> Table | None:
        """Return the numbers behind the picture for export."""
        return self._matrix.table if self._matrix is not None else None

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(None)

    def _dress(self) -> None:
        self._heading.setSpacing(gap(self, 2))
        self._title.setFont(sized(self.font(), TITLE, bold=True))


AROUND = 9  # lines that title, labels and colour bar take around a map
TITLE_LINES = 4.7  # and the words around a small one, which has no labels
LARGE_SHARE = 0.5, 0.68  # of the width, the least and the most for the large picture
HIGH_SHARE = 0.6  # of the height, where the others stand below it
SMALL_SHARE = 0.5  # of the height beside it, at most, for the small pictures


class KindsPane(QWidget):
    """The focused kind large, the others small beside it, below them the heads.

    In a place that is higher than wide the small ones and the heads stand below. In the
    focused kind's place there may be its maps in two runs, as wide as there is room.
    """

    def __init__(
        self, panels: dict[Kind, QWidget], heads: QWidget, both: QWidget
    ) -> None:
        super().__init__()
        # a picture that is made large leaves its slot, and comes back to it
        self._slots = {kind: _Slot(self, panel) for kind, panel in panels.items()}
        self._heads, self._both = _Slot(self, heads), _Slot(self, both)
        self._both.hide()
        self._kinds: tuple[Kind, ...] = tuple(panels)
        self._focused: Kind = "cross"
        self._shape = (1, 1)
        self._folded = self._of_both = False

    def draw(
        self,
        kinds: tuple[Kind, ...],
        focused: Kind,
        shape: tuple[int, int],
        *,
        both: bool,
    ) -> None:
        """Arrange these kinds; ``shape``: rows and columns of the focused one.

        ``both``: it is shown in two runs.
        """
        wanted = kinds, focused, shape, both
        if wanted == (self._kinds, self._focused, self._shape, self._of_both):
            return
        anew = (kinds, both) != (self._kinds, self._of_both)
        self._kinds, self._focused, self._shape, self._of_both = wanted
        for kind, slot in self._slots.items():
            slot.setVisible(kind in kinds and not (both and kind == focused))
        self._both.setVisible(both)
        if anew:
            self.updateGeometry()
        self._place()

    def fold(self, folded: bool) -> None:
        """Leave one line to the heads, or their room."""
        if folded != self._folded:
            self._folded = folded
            self._place()

    def minimumSizeHint(self) -> QSize:
        line, off = self.fontMetrics().height(), gap(self)
        large = LEAST + AROUND * line
        others = len(self._kinds) > 1
        wide = large + (2 * (LEAST + 3 * off) if others else 0)
        heads = self._heads.sizeHint().height() if self._folded else 7 * line
        beside = LEAST + round(TITLE_LINES * line) + heads if others else 0
        return QSize(wide, max(large, beside))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def _place(self) -> None:
        whole, off = self.rect(), gap(self)
        line = self.fontMetrics().height()
        small = [kind for kind in self._kinds if kind != self._focused]
        if not self._of_both and whole.width() >= whole.height():
            least, most = (round(share * whole.width()) for share in LARGE_SHARE)
            cell = max(1, whole.height() - AROUND * line) / max(1, self._shape[0])
            wide = round(cell * self._shape[1]) + AROUND * line
            beside = len(small) * (LEAST + 3 * off)
            wide = max(least, min(most, wide, whole.width() - beside))
            large = QRect(0, 0, wide, whole.height())
            rest = QRect(wide + off, 0, whole.width() - wide - off, whole.height())
        else:
            high = round(HIGH_SHARE * whole.height())
            large = QRect(0, 0, whole.width(), high)
            rest = QRect(0, high + off, whole.width(), whole.height() - high - off)
        if self._of_both:
            self._both.setGeometry(large)
            for kind in small:  # in one row with the heads
                wide = min(rest.height(), rest.width() // (len(small) + 2))
                self._slots[kind].setGeometry(
                    QRect(rest.topLeft(), QSize(wide, rest.height()))
                )
                rest.setLeft(rest.left() + wide + off)
            self._heads.setGeometry(rest)
            return
        if self._focused in self._slots:
            self._slots[self._focused].setGeometry(large)
        heads = self._place_small(small, rest, round(TITLE_LINES * line))
        self._heads.setGeometry(heads)

    def _place_small(self, small: list[Kind], room: QRect, words: int) -> QRect:
        """Place the small pictures; return what is left for the heads."""
        off, header = gap(self), self._heads.sizeHint().height()
        if not small:
            return room
        wide = (room.width() - off * (len(small) - 1)) // len(small)
        most = round(SMALL_SHARE * room.height())
        high = min(wide + words, max(LEAST + words, most))
        stacked = (room.height() - header - off * len(small)) // len(small)
        above = self._folded and stacked >= LEAST + words  # one above the other
        if above:
            wide, high = room.width(), stacked
        elif self._folded:
            high = room.height() - header - off
        x, y = room.x(), room.y()
        for kind in small:
            self._slots[kind].setGeometry(x, y, wide, high)
            if above:
                y += high + off
            else:
                x += wide + off
        top = y if above else room.y() + high + off
        return QRect(room.x(), top, room.width(), room.bottom() - top + 1)


class _Slot(QWidget):
    """The place of one picture."""

    def __init__(self, parent: QWidget, picture: QWidget) -> None:
        super().__init__(parent)
        fill(QVBoxLayout(self), picture)
