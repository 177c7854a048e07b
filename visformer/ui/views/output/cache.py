"""The Cache page: the keys and values that the decoder keeps, their sizes and costs."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QWidget

from visformer.language import N_, _
from visformer.pictures.cache import (
    KINDS_KEPT,
    PARTS,
    cache_maps,
    costs,
    kept_kinds,
    kept_words,
    map_name,
    sizes,
)
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, TurningRow, fill, set_least
from visformer.ui.look.theme import Dressed
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import chooser, titled
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.widgets.term_tips import TermTip
from visformer.ui.window.large import present_whole
from visformer.values.facts import Kind
from visformer.words import layer_words

STRETCH = 100.0  # a few rows of many columns still fill a map
LEAST_LINES = 9  # of text: the least height of a map


class CachePage(Dressed, View):
    """Four maps of what a head keeps, the sizes of all, and what it saves."""

    name, title = "cache", N_("Cache")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.about = paragraph(_("what is kept at this step"))
        self.layer = chooser(_("layer of the cache"))
        self.head = chooser(_("head of the cache"))
        self.layer.activated.connect(lambda at: session.set(kind=self._kind, layer=at))
        self.head.activated.connect(lambda at: session.set(kind=self._kind, head=at))
        self.maps = {
            (kind, letter): HeatMap(map_name(kind, letter), stretch=STRETCH)
            for kind in KINDS_KEPT
            for letter in PARTS.values()
        }
        counted = _("numbers that are kept, and their bytes")
        self.sizes = NumberTable(counted, least=3, hugs=True)
        self.costs = NumberTable(_("multiply-adds of this step"), hugs=True)
        self.counted = paragraph(_("how the numbers that are kept are counted"))
        self.cost = paragraph(_("multiply-adds with and without a cache"))
        for label in (self.about, self.counted):
            TermTip(label, session, "key", "value")
        self._lay_out()

    def _lay_out(self) -> None:
        title = titled(_("&Layer and head"), self.layer)
        line = fill(QHBoxLayout(), title, self.layer, self.head, None)
        parts = PARTS.values()
        kinds = ([self.maps[kind, part] for part in parts] for kind in KINDS_KEPT)
        self._maps = TurningRow(*(TurningRow(*pair) for pair in kinds))
        present_whole(self._maps)
        self._pictures = QWidget()
        numbers = self.counted, self.sizes, self.cost, self.costs
        below = fill(LeastColumn(self._pictures), line, (self._maps, 1), *numbers)
        for table in (self.sizes, self.costs):
            below.setAlignment(table, Qt.AlignmentFlag.AlignLeft)
        # the stretch takes the room where there are no pictures
        fill(LeastColumn(self), self.about, (self._pictures, 1), None)
        self.dress()

    def _dress(self) -> None:
        for heat_map in self.maps.values():
            set_least(heat_map, LEAST_LINES)

    def main_picture(self) -> QWidget | None:
        return self._maps if self._pictures.isVisibleTo(self) else None

    def draw(self, state: State) -> None:
        """Show what the run keeps at this step."""
        self._state, trace = state, state.visible
        if not self._changed("cache", trace, state.trace, state.layer, state.head):
            return
        self.about.setText(kept_words(trace))
        self._pictures.setVisible(bool(kept_kinds(trace)))
        if trace is None or not kept_kinds(trace):
            return
        layers, heads = trace.layers(self._kind), trace.heads(self._kind)
        at = min(state.layer, layers - 1), min(state.head, heads - 1)
        self.layer.offer({one: layer_words(one) for one in range(layers)}, at[0])
        titles = {one: _("head {head}", head=one + 1) for one in range(heads)}
        self.head.offer(titles, at[1])
        made = cache_maps(trace, state.layer, state.head)
        for (kind, letter), heat_map in self.maps.items():
            matrix = made.get((kind, letter))
            heat_map.setVisible(matrix is not None)
            if matrix is not None:
                rows = len((state.trace or trace).tokens(kind)[1])
                heat_map.draw(matrix, extent=(max(rows, 1), len(matrix.columns)))
                new = kind == "decoder" and len(trace) > 0
                heat_map.mark(None, rows=(len(trace) - 1,) if new else ())
        kept = self.sizes, self.counted, sizes(trace)
        made_with = self.costs, self.cost, costs(trace)
        for table, label, (numbers, words) in (kept, made_with):
            table.draw(numbers)
            label.setText(words)
            for part in (table, label):
                part.setVisible(bool(words))

    @property
    def _kind(self) -> Kind:
        """The kind in focus, or the first that is kept where it is the encoder's."""
        kinds = kept_kinds(self._state.visible)
        return self._state.kind if self._state.kind in kinds else kinds[0]
