"""The Importance page: what log p does without each head, layer and source token."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from visformer.files import short
from visformer.language import N_, _
from visformer.pictures.importance_maps import (
    agreement_words,
    importance_maps,
    importance_words,
    layer_numbers,
    patch_maps,
    patch_words,
    source_numbers,
)
from visformer.pictures.output import NOT_RUN, UNDECODED
from visformer.pictures.words.absent import no_output_words
from visformer.session.side_requests import (
    known_importance,
    measure_importance,
    measure_pairs,
)
from visformer.session.state import Session, State, is_open
from visformer.ui.layout import LeastColumn, TurningRow, fill, set_least
from visformer.ui.look.theme import Dressed
from visformer.ui.views.view import View
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import word_button
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph, plain_label
from visformer.ui.window.change_offers import asked_pairs
from visformer.ui.window.large import CHOOSES, present_whole
from visformer.values.facts import KINDS, Kind
from visformer.values.measured import Importance, ImportanceOfPairs
from visformer.values.reply import Reply

LINES = 15  # the least height of a map, in text
PATCHES = (
    *(N_("the encoder's stream in the other run"), N_("the other's in this encoder")),
    *(N_("the decoder's stream in the other run"), N_("the other's in this decoder")),
)
MAPS = N_("exact change"), N_("estimated change"), N_("what the estimate misses")


class ImportancePage(Dressed, View):
    """Maps of all heads, exact and estimated; layers and source tokens below them."""

    name, title = "importance", N_("Importance")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._known: Reply[Importance | ImportanceOfPairs] | None = None
        self._head: dict[Kind, tuple[int, int]] = {}  # the one that is looked at
        self.words = paragraph(_("which heads matter"))
        self.again = word_button(_("Measure"), _("Switch every head off in turn"))
        self.again.clicked.connect(lambda: session.do(measure_importance, again=True))
        self.over = word_button(
            _("Over a file…"), _("Mean and spread of each head over pairs of sentences")
        )
        self.over.clicked.connect(self._ask_pairs)
        self.back = word_button(_("This sentence"), _("Measure the run on screen"))
        self.back.clicked.connect(lambda: session.do(measure_pairs, ""))
        self.maps = tuple(
            tuple(self._map(kind, _(name)) for name in MAPS) for kind in KINDS
        )
        self._rows = [TurningRow(*maps) for maps in self.maps]
        self.agreement = paragraph(_("how good the estimate is"))
        self.layers = NumberTable(_("without a layer's heads"), least=3, hugs=True)
        self.source = NumberTable(_("without a source token"), least=1)
        tables = (
            _("Change with all heads of a layer off, in nats"),
            _("Change with a source token hidden from every query, in nats"),
        )
        self.captions = [*map(plain_label, tables)]
        self.patched_words = paragraph(_("what streams of another run do"))
        self.patched = [HeatMap(_(name), stretch=6) for name in PATCHES]
        halves = (self.patched[:2], self.patched[2:])
        self._patched = [TurningRow(*maps) for maps in halves]
        self._found = QWidget()
        tables_below = self.captions[0], self.layers, self.captions[1], self.source
        below = *tables_below, self.patched_words, *self._patched
        fill(LeastColumn(self._found), *self._rows, self.agreement, *below)
        buttons = self.again, self.back, self.over
        line = fill(QHBoxLayout(), (self.words, 1), *buttons)
        fill(LeastColumn(self), line, (self._found, 1), None)
        present_whole(self._rows[-1])
        self.dress()

    def _map(self, kind: Kind, name: str) -> HeatMap:
        made = HeatMap(name, stretch=3)
        made.setProperty(CHOOSES, True)
        made.clicked.connect(partial(self._look, kind))
        made.opened.connect(partial(self._open, kind))
        made.hovered.connect(partial(self._mark, kind))
        return made

    def _dress(self) -> None:
        self.words.setMinimumHeight(2 * self.fontMetrics().lineSpacing())
        for maps in (*self.maps, self.patched):
            for one in maps:
                set_least(one, LINES)

    def main_picture(self) -> QWidget | None:
        """Return the maps of cross-attention, or of the last kind that there is."""
        shown = [row for row in self._rows if not row.isHidden()]
        return shown[-1] if shown and not self._found.isHidden() else None

    # ---- drawing ---------------------------------------------------------------

    def draw(self, state: State) -> None:
        """Show what is known of the run on screen, or of the file."""
        self._state = state
        known = self._known = known_importance(state)
        made = None if known is None else known.value
        pairs = "" if known is None else known.about
        idle = not state.busy and state.opened is not None
        self.again.setVisible(idle and made is None and known is not None)
        self.back.setVisible(idle and bool(pairs))
        self.over.setVisible(idle and state.trace is not None)
        self._found.setVisible(made is not None)
        if made is None:
            self.words.setText(self._missing())
            self._changed.forget("words")
            return
        if self._changed("maps", made):
            found = dict(importance_maps(made))
            for kind, row, maps in zip(KINDS, self._rows, self.maps, strict=True):
                pictures = found.get(kind, ())
                row.setVisible(bool(pictures))
                for at, one in enumerate(maps):
                    one.setVisible(at < len(pictures))
                    if at < len(pictures):
                        one.draw(pictures[at])
            self._changed.forget("marks")
        # pairs stay measured while a recorded run of another model is on screen
        own = (state.trace is not None and is_open(state, state.trace)) or not pairs
        self._head = {state.kind: (state.layer, state.head)} if own else {}
        if self._changed("marks", self._head):
            self._mark()
        if self._changed("words", made):
            name = Path(pairs).name
            said = importance_words(made)
            self.words.setText(
                _("{file}: {said}", file=name, said=said) if name else said
            )
            agreement = agreement_words(made)
            self.agreement.setText(agreement)
            self.agreement.setVisible(bool(agreement))
            self._draw_tables(made, state)

    def _mark(self, over: Kind | None = None, cell: MapCell | None = None) -> None:
        """Frame the head that is looked at; under the mouse, in all maps of a kind."""
        for kind, maps in zip(KINDS, self.maps, strict=True):
            at = cell if kind == over and cell is not None else self._head.get(kind)
            for one in maps:
                one.mark(at, value=at is cell)

    def _draw_tables(self, made: Importance | ImportanceOfPairs, state: State) -> None:
        trace = state.trace
        of_run = isinstance(made, Importance)
        source = None
        if isinstance(made, Importance) and trace is not None:
            self.layers.draw(layer_numbers(made))
            source = source_numbers(made, trace)
        self.layers.setVisible(of_run)
        self.captions[0].setVisible(of_run)
        self._draw_patched(made, state)
        self.source.setVisible(source is not None)
        self.captions[1].setVisible(source is not None)
        if source is not None:
            self.source.draw(source)

    def _draw_patched(self, made: Importance | ImportanceOfPairs, state: State) -> None:
        """Show what streams of the run that is compared with do."""
        patched = made.patched if isinstance(made, Importance) else None
        for row in self._patched:
            row.setVisible(patched is not None)
        self.patched_words.setVisible(isinstance(made, Importance))
        if isinstance(made, Importance):
            other = None if state.compared is None else state.compared.trace
            said = patch_words(made, "" if other is None else short(other.source_text))
            self.patched_words.setText(said)
        if patched is not None and state.trace is not None:
            pictures = patch_maps(patched, state.trace)
            for one, picture in zip(self.patched, pictures, strict=True):
                one.draw(picture)

    def _missing(self) -> str:
        """Say why there is nothing to see."""
        state, known = self._state, self._known
        if state.trace is None:
            return _(NOT_RUN)
        if not state.trace.steps:
            return no_output_words(state.trace) or _(UNDECODED)
        if state.opened is None:
            return _("The measure follows once the model is open.")
        if known is None:
            return ""
        if state.busy:
            return _("Every head is switched off in turn; the tokens stay the same…")
        return known.reason or _("Stopped.")

    # ---- what the user does ----------------------------------------------------

    def _look(self, kind: Kind, cell: MapCell | None) -> None:
        if cell is not None:
            self.session.set(kind=kind, layer=cell.row, head=cell.column)

    def _open(self, kind: Kind, cell: MapCell | None) -> None:
        if cell is not None:
            self.session.set(
                kind=kind, layer=cell.row, head=cell.column, tab="attention"
            )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Turn to the head that is looked at; other keys are the window's."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.session.set(tab="attention")
        else:
            event.ignore()

    def _ask_pairs(self) -> None:
        if path := asked_pairs(self):
            self.session.do(measure_pairs, path)
