"""KindPanel: one kind's attention as heat map, arcs or tinted text; one at a time."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget

from visformer.language import N_, _
from visformer.pictures.attention.arcs import arc_words
from visformer.pictures.attention.gist import Gist
from visformer.pictures.attention.maps import Marks
from visformer.pictures.attention.reading import Reading
from visformer.pictures.attention.tinted import tinted
from visformer.pictures.look import Form, Look
from visformer.pictures.picture import Matrix
from visformer.ui.large import can_be_large
from visformer.ui.widgets.arc_map import ArcsCanvas
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.label_text import LongestLabels
from visformer.ui.widgets.panel import Panel
from visformer.ui.widgets.running_text import RunningText
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
    failed = Signal(str)

    def __init__(self, name: str, *, grows: bool) -> None:
        """``grows``: a step adds a row, which is then scrolled to."""
        super().__init__()
        self._grows = grows
        self.heat_map = HeatMap(_("{kind} attention", kind=name), gist=True)
        self.heat_map.hovered.connect(self.hovered)
        self.heat_map.clicked.connect(self.clicked)
        self.heat_map.offer_taken.connect(self.offer_taken)
        self.heat_map.failed.connect(self.failed)
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
            panel.failed.connect(self.failed)
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
        """Scroll to the newest row of the arcs."""
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
