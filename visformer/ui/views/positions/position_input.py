"""The Input page: embedding + position = input, and a position's fingerprint."""

import math
from dataclasses import replace

import numpy as np
from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QHBoxLayout, QWidget

from visformer.language import N_, _
from visformer.pictures.picture import Matrix
from visformer.pictures.position_lab import (
    distance_products,
    id_words,
    input_pictures,
    position_numbers,
    telling_position,
)
from visformer.pictures.positions import nothing_words
from visformer.pictures.words.absent import sides_of
from visformer.session.state import Session, State
from visformer.ui.layout import (
    LEAST_LINES,
    LEAST_WORDS,
    LeastColumn,
    TurningRow,
    fill,
    set_least,
)
from visformer.ui.look.theme import FONT_PALETTE, Dressed, letter_width
from visformer.ui.views.positions.curves import Plot, pens
from visformer.ui.views.view import View
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import chooser, titled, whole_field
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph, plain_label
from visformer.ui.window.large import present_whole
from visformer.values.arrays import Floats
from visformer.values.changes.position_change import change_table
from visformer.values.facts import SentenceSide
from visformer.words import position_words

SIDES: dict[SentenceSide, str] = {"source": N_("source"), "target": N_("target")}
REACH = 32  # largest distance shown, in both directions
PRESENTED_LINES = 10  # of text: the least height of a map that is presented
UNKNOWN = N_(
    "The sum is drawn once a sentence has been run and the table of this side is "
    "known. The window does not have a learned table of the target."
)
ADDS_UP = N_(
    "Every number on the left plus the one in the middle equals the one on the right; "
    "click a row for its position."
)


class PositionInput(Dressed, View):
    """Three maps that add up, and two curves of one position."""

    name, title = "input", N_("Input")
    dressed_at = FONT_PALETTE  # which pyqtgraph does not follow

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.side = chooser(_("side of the sentence"))
        self._fill_sides()
        self.side.currentIndexChanged.connect(self._choose_side)
        fingerprint = _("position whose fingerprint is drawn")
        self.position = whole_field(fingerprint, 0, 99, prefix=_("pos"))
        self.position.setKeyboardTracking(True)
        self.position.valueChanged.connect(self._draw_curves)
        self.about = paragraph(_("what is added"))
        names = _("embedding"), _("position"), _("embedding + position")
        self.maps = [HeatMap(name, stretch=math.inf) for name in names]
        for heat_map in self.maps:
            heat_map.clicked.connect(self._choose)
        # two curves: even and odd dimensions
        self._fingerprint = Plot(_("fingerprint of the chosen position"), 2)
        self._distance = Plot(_("dot products with the positions around it"), 1)
        self._titles = plain_label(), plain_label()
        self.ids = paragraph(_("tokens and their ids"))
        self.numbers = NumberTable(
            _("one token's vector, number by number"), least=3
        )  # the third one is the sum
        self._pictures: tuple[Matrix, ...] = ()
        self._lay_out()

    def _lay_out(self) -> None:
        side = titled(_("Si&de"), self.side)
        position = titled(_("&Position"), self.position)
        fields = side, self.side, position, self.position
        chosen, self._sum, both = QWidget(), QWidget(), QWidget()
        fill(QHBoxLayout(chosen), *fields)
        plots = [QWidget(), QWidget()]
        drawn = self._fingerprint, self._distance
        for plot, title, box in zip(drawn, self._titles, plots, strict=True):
            fill(LeastColumn(box), title, (plot.widget, 1))
        present_whole(self._sum)
        self.main = self._sum  # what is added, the sum, and one token's numbers
        fill(LeastColumn(self._sum), (TurningRow(*self.maps), 1), self.numbers)
        below = self.ids, (self._sum, 3), (TurningRow(*plots), 2)
        fill(LeastColumn(both), *below)
        line = TurningRow((chosen, 0), self.about)
        # the stretch takes the room where there are no pictures
        fill(LeastColumn(self), line, (both, 1), None)
        self._known = (*fields, both)  # hidden where no encodings are known
        self._fit()
        self._built = True

    def _dress(self) -> None:
        self._fit()
        self._draw_curves()

    def _fit(self) -> None:
        for heat_map in self.maps:
            set_least(heat_map)
        metrics = self.fontMetrics()
        self.about.setMinimumWidth(LEAST_WORDS * letter_width(metrics))
        for plot in (self._fingerprint, self._distance):
            plot.widget.setMinimumSize(
                30 * letter_width(metrics), 9 * metrics.lineSpacing()
            )

    def present(self, *, on: bool) -> None:
        """Leave the numbers room on a screen of large text."""
        for heat_map in self.maps:
            set_least(heat_map, PRESENTED_LINES if on else LEAST_LINES)

    def draw(self, state: State) -> None:
        self._state = state
        shown = state.visible
        if self._changed("sides", sides_of(shown), state.views.side):
            self._fill_sides()
        # the source's rows stay the same object from step to step
        rows = (
            shown.encoder_rows
            if shown is not None and self._side == "source"
            else shown
        )
        if self._changed("maps", state.positions, rows, self._side, state.model):
            self._draw_maps()

    def _fill_sides(self) -> None:
        """Offer the sides that the sentence has."""
        chosen = self._state.views.side
        sides = sides_of(self._state.visible)
        there = chosen if chosen in sides else sides[0]
        self.side.offer({side: _(SIDES[side]) for side in sides}, there)

    @property
    def _side(self) -> SentenceSide:
        side: SentenceSide = self.side.currentData()
        return side

    def _choose_side(self) -> None:
        self.session.set(views=replace(self._state.views, side=self._side))

    def _draw_maps(self) -> None:
        state = self._state
        pictures = input_pictures(state.visible, state.positions, self._side)
        self._pictures = pictures
        self.ids.setText(id_words(state.visible, self._side))
        for index, heat_map in enumerate(self.maps):
            heat_map.draw(pictures[index] if pictures else None)
        model = state.model
        known = model is None or model.known is not None
        for part in self._known:
            part.setVisible(known)
        unknown = _(UNKNOWN) if known else nothing_words(model)
        self.about.setText(_(ADDS_UP) if pictures else unknown)
        table = self._table()
        with QSignalBlocker(self.position):
            self.position.setRange(0, 0 if table is None else len(table) - 1)
            if state.visible is not None and self._changed("text", *self._sentence()):
                self.position.setValue(telling_position(state.visible, self._side))
        self._draw_curves()

    def _sentence(self) -> tuple[object, ...]:
        shown = self._state.visible
        return self._side, None if shown is None else shown.source

    def _table(self) -> Floats | None:
        table, shown = self._state.positions, self._state.visible
        if table is None or shown is None:
            return table
        return change_table(table, shown.intervention.positions)

    def _draw_numbers(self, position: int) -> None:
        """Write one token's vectors out, and mark its row in the maps."""
        shown, numbers = self._state.visible, None
        if shown is not None:
            made = self._pictures, shown, self._side
            numbers = position_numbers(*made, position)
        self.numbers.draw(numbers)
        self.numbers.setVisible(numbers is not None)
        for heat_map in self.maps:
            heat_map.mark(None, rows=() if numbers is None else (position,))

    def _choose(self, cell: MapCell | None) -> None:
        if cell is not None:
            self.position.setValue(cell[0])

    def _draw_curves(self) -> None:
        table, position = self._table(), self.position.value()
        self._draw_numbers(position)
        plots = {
            self._fingerprint: (
                _("dimension (dim): even ones solid, odd ones dashed"),
                _("value"),
            ),
            self._distance: (
                _("distance from {position}", position=position_words(position)),
                _("dot product"),
            ),
        }
        for plot, axes in plots.items():
            plot.dress(self, *axes)
        of_position, of_distance = self._titles
        named = position_words(position)
        of_position.setText(_("the encoding of {position}", position=named))
        of_distance.setText(
            _("how alike {position} and the positions around it are", position=named)
        )
        if table is None or position >= len(table):
            for curve in (*self._fingerprint.curves, *self._distance.curves):
                curve.clear()
            return
        colours = pens(self.palette(), thin=False)
        pen, dashed = colours[0], colours[len(colours) // 2 + 1]
        # a single line through both would be a blur
        curves = zip(self._fingerprint.curves, (pen, dashed), strict=True)
        for first, (curve, line) in enumerate(curves):
            dimensions = np.arange(first, table.shape[1], 2)
            curve.setData(dimensions, table[position, first::2], pen=line)
        (products,) = self._distance.curves
        products.setData(*distance_products(table, position, REACH), pen=pen)
