"""The Cache page: the keys and values that the decoder keeps, their sizes and costs."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from visformer.language import N_, _
from visformer.pictures.cache import (
    KINDS_KEPT,
    PARTS,
    cache_maps,
    cost_table,
    cost_words,
    kept_words,
    size_table,
    size_words,
)
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, TurningRow, set_least
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import ComboBox
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.window.large import present_whole
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, layer_words

STRETCH = 100.0  # a few rows of many columns still fill a map
LEAST_LINES = 9  # of text: the least height of a map


class CachePage(View):
    """Four maps of what a head keeps, the sizes of all, and what it saves."""

    name, title = "cache", N_("Cache")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.about = paragraph(_("what is kept at this step"))
        self.choosers = {"layer": ComboBox(), "head": ComboBox()}
        self.choosers["layer"].setAccessibleName(_("layer of the cache"))
        self.choosers["head"].setAccessibleName(_("head of the cache"))
        self.choosers["layer"].activated.connect(self._choose_layer)
        self.choosers["head"].activated.connect(self._choose_head)
        self.maps = {
            (kind, letter): HeatMap(
                _("{part} of {kind}", part=letter, kind=_(KIND_NAMES[kind])),
                stretch=STRETCH,
            )
            for kind in KINDS_KEPT
            for letter in PARTS.values()
        }
        self.sizes = NumberTable(_("numbers that are kept, and their bytes"), least=3)
        self.costs = NumberTable(_("multiply-adds of this step"))
        self.counted = paragraph(_("how the numbers that are kept are counted"))
        self.cost = paragraph(_("multiply-adds with and without a cache"))
        self._lay_out()

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        title = QLabel(_("&Layer and head"))
        title.setBuddy(self.choosers["layer"])
        for widget in (title, *self.choosers.values()):
            line.addWidget(widget)
        line.addStretch(1)
        self._maps = TurningRow(*((heat_map, 1) for heat_map in self.maps.values()))
        present_whole(self._maps)
        self._pictures = QWidget()
        below = LeastColumn(self._pictures)
        below.setContentsMargins(0, 0, 0, 0)
        below.addLayout(line)
        below.addWidget(self._maps, 1)
        for part in (self.counted, self.sizes, self.cost, self.costs):
            below.addWidget(part)
        layout = LeastColumn(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.about)
        layout.addWidget(self._pictures, 1)
        layout.addStretch()  # takes the room where there are no pictures
        self._fit()

    def _fit(self) -> None:
        for heat_map in self.maps.values():
            set_least(heat_map, LEAST_LINES)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the size of the text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_maps"):
            self._fit()

    def main_picture(self) -> QWidget | None:
        """Return the maps, side by side."""
        return self._maps if self._pictures.isVisibleTo(self) else None

    def draw(self, state: State) -> None:
        """Show what the run keeps at this step."""
        self._state = state
        trace = state.visible
        if not self._changed("cache", trace, state.trace, state.layer, state.head):
            return
        self.about.setText(kept_words(trace))
        there = trace is not None and bool({*KINDS_KEPT} & {*trace.kinds})
        self._pictures.setVisible(there)
        if trace is None or not there:
            return
        self._draw_maps(trace)
        self.counted.setText(size_words(trace))
        self.sizes.draw(size_table(trace))
        costs = cost_table(trace)
        self.costs.draw(costs)
        self.costs.setVisible(costs is not None)
        self.cost.setText(cost_words(trace))
        self.cost.setVisible(costs is not None)

    def _draw_maps(self, trace: Trace) -> None:
        state = self._state
        kind = next(kind for kind in KINDS_KEPT if kind in trace.kinds)
        counts = trace.layers(kind), trace.heads(kind)
        titles = [layer_words, _head_words]
        chosen = state.layer, state.head
        boxes = zip(self.choosers.values(), titles, counts, chosen, strict=True)
        for box, title, count, at in boxes:
            if box.count() != count:
                box.clear()
                box.addItems([title(index) for index in range(count)])
            box.setCurrentIndex(min(at, count - 1))
        made = cache_maps(trace, *chosen)
        for (kept, letter), heat_map in self.maps.items():
            matrix = made.get((kept, letter))
            heat_map.setVisible(matrix is not None)
            if matrix is None:
                continue
            rows = len((state.trace or trace).tokens(kept)[1])
            heat_map.draw(matrix, extent=(max(rows, 1), len(matrix.columns)))
            new = kept == "decoder" and len(trace) > 0
            heat_map.mark(None, rows=(len(trace) - 1,) if new else ())

    def _choose_layer(self, index: int) -> None:
        self.session.set(kind=self._kind, layer=index)

    def _choose_head(self, index: int) -> None:
        self.session.set(kind=self._kind, head=index)

    @property
    def _kind(self) -> Kind:
        """The kind in focus, or the first that is kept where it is the encoder's."""
        trace = self._state.visible
        kinds = KINDS_KEPT if trace is None else trace.kinds
        kept = [kind for kind in KINDS_KEPT if kind in kinds]
        return self._state.kind if self._state.kind in kept else kept[0]


def _head_words(head: int) -> str:
    return _("head {head}", head=head + 1)
