"""The Lab page of the Masks tab: change a mask, run again, see the effect."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from visformer.language import N_, _, sentences
from visformer.pictures.comparison import (
    NO_DIFFERENCE,
    Runs,
    candidate_numbers,
    compare,
    compared_pictures,
    difference_picture,
    difference_words,
    text_words,
)
from visformer.pictures.mask_lab import (
    focused_query,
    paint_picture,
    painted_layer,
    row_numbers,
    row_words,
    toggled,
    turned,
)
from visformer.pictures.selection import AttentionCell
from visformer.pictures.words.leak_words import empty_row_words, leak_words
from visformer.session.runs import change_run, fixed_words
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, TurningRow, fill, set_least
from visformer.ui.look.theme import Dressed
from visformer.ui.views.masks.mask_fields import MaskFields
from visformer.ui.views.view import View
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.widgets.run_switch import attention_maps, draw_both
from visformer.ui.window.large import present_whole

LINES = 16  # the least height of a map, in text


class MaskLab(Dressed, View):
    """Fields that change the masks of a run, and both runs side by side."""

    name, title = "lab", N_("Lab")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._runs: Runs | None = None
        self._leaks = ""
        self._fixed = ""  # why nothing can be changed
        self.fields = MaskFields(session)
        self.mask_map = HeatMap(_("mask of the run on screen"))
        self.attention = attention_maps()
        self.difference = HeatMap(_("difference of the weights"))
        self.mask_map.clicked.connect(self._paint)
        self.text, self.leaks = paragraph(_("both translations")), paragraph(_("leaks"))
        self.row_words = paragraph(_("the row in words"))
        self.row = NumberTable(_("the row with and without the change"))
        self.candidates = NumberTable(_("the next token with and without the change"))
        self._lay_out()
        self.dress()

    def _lay_out(self) -> None:
        shown, baseline = self.attention
        # four in a row; or two, the mask beside the run that it made; or one
        maps = (self.mask_map, baseline), (shown, self.difference)
        for heat_map in (*self.attention, self.difference):
            heat_map.hovered.connect(self._hover)
            heat_map.clicked.connect(self._lock)
        self._maps = TurningRow(*(TurningRow(*pair) for pair in maps))
        present_whole(self._maps)
        above = self.fields, self.text, self.leaks
        below = self.row_words, self.row, self.candidates
        fill(LeastColumn(self), *above, (self._maps, 1), *below)

    # ---- drawing ---------------------------------------------------------------

    def main_picture(self) -> QWidget | None:
        """Return what both runs read; while there is one, the mask."""
        return self.mask_map if self.attention[1].isHidden() else self._maps

    def present(self, *, on: bool) -> None:
        """Show an audience both runs alone."""
        super().present(on=on)
        self._choose_maps()

    def _choose_maps(self) -> None:
        """Show all maps, or to an audience the two that are compared."""
        compared = self._for_all and not self.attention[1].isHidden()
        self.mask_map.setVisible(not compared)
        self.difference.setVisible(self.difference.matrix is not None and not compared)

    def found(self) -> str:
        return self.leaks.text() if self._state.intervention else ""

    def draw(self, state: State) -> None:
        self._state = state
        shown, selection = state.visible, state.selection
        runs = shown, state.baseline
        if self._changed("runs", *runs):
            self._runs = compare(state.baseline, shown)
        kind = (*runs, state.kind)
        changed = state.intervention, state.model, state.views.mask_layer
        if self._changed("fields", *kind, *changed):
            self.fields.draw(state)
        self._fixed = fixed_words(state)
        self._draw_fixed()
        self._draw_mask()
        head = (*kind, state.layer, state.head)
        if self._changed("attention", *head, state.scale):
            self._draw_attention()
        if self._changed("difference", *head, state.trace, state.busy):
            self._draw_difference()
        if self._changed("leaks", shown):
            self._leaks = leak_words(shown)
        if self._changed("leaks in words", shown, state.head):
            empty = empty_row_words(shown, state.head)
            self.leaks.setText(sentences((self._leaks, empty)))
        query = None if shown is None else focused_query(shown, selection)
        if self._changed("row", *head, query):
            self.row_words.setText(row_words(shown, selection))
            self.row.draw(row_numbers(shown, self._runs, selection))

    def _draw_mask(self) -> None:
        shown, selection = self._state.visible, self._state.selection
        layer = None
        if shown is not None:
            layer = painted_layer(shown, selection, self.fields.layer)
        fixed = bool(self._fixed)
        if self._changed("mask", shown, selection.kind, layer, fixed):
            picture = paint_picture(shown, selection, layer, fixed=fixed)
            self.mask_map.draw(picture)

    def _draw_fixed(self) -> None:
        self.fields.forbid(self._fixed)
        if self._changed("fixed", self._fixed):
            self._changed.forget("difference")

    def _draw_attention(self) -> None:
        state = self._state
        pictures = compared_pictures(state.visible, state.baseline, state.selection)
        draw_both(self.attention, pictures)
        self._choose_maps()

    def _draw_difference(self) -> None:
        difference = difference_picture(self._runs, self._state.selection)
        self.difference.draw(difference)
        self._choose_maps()
        texts = (
            text_words(self._state.trace, self._state.baseline),
            difference_words(self._runs),
        )
        self.text.setText(
            self._fixed or _(NO_DIFFERENCE) if difference is None else sentences(texts)
        )
        candidates = candidate_numbers(self._runs)
        self.candidates.draw(candidates)
        self.candidates.setVisible(candidates is not None)

    def _dress(self) -> None:
        for heat_map in (self.mask_map, *self.attention, self.difference):
            set_least(heat_map, LINES)

    # ---- what the user does ----------------------------------------------------

    def _paint(self, cell: MapCell | None) -> None:
        state = self._state
        if cell is not None and state.visible is not None and not self._fixed:
            change = turned(state.visible, state.selection, cell, self.fields.layer)
            changed = toggled(state.intervention, state.baseline, change)
            self.session.do(change_run, changed)

    def _hover(self, cell: MapCell | None) -> None:
        hovered = None if cell is None else AttentionCell(self._state.kind, *cell)
        self.session.set(hovered=hovered)

    def _lock(self, cell: MapCell | None) -> None:
        if cell is not None:
            self.session.set(locked=AttentionCell(self._state.kind, *cell))
