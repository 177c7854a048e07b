"""The Lab page of the Masks tab: change a mask, run again, see the effect."""

import math
from dataclasses import replace

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QGridLayout, QMenu, QPushButton, QWidget

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
from visformer.pictures.token_names import names
from visformer.pictures.words.leak_words import empty_row_words, leak_words
from visformer.session.runs import change_run, fixed_words
from visformer.session.state import Session, State
from visformer.ui.layout import Flow, LeastColumn, TurningRow, fill, set_least
from visformer.ui.look.theme import Dressed
from visformer.ui.views.view import View
from visformer.ui.widgets.both_runs import attention_maps, draw_both
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import chooser, titled, whole_field
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph, plain_tip
from visformer.ui.window.large import present_whole
from visformer.values.changes.mask_changes import Causal, HideSource, MaskedScore
from visformer.values.changes.run_change import RunChange
from visformer.values.changes.weight_changes import ScoreScale
from visformer.values.facts import KINDS
from visformer.words import KIND_NAMES, layer_words, masked_value_text, number

CAUSAL = {
    "own": N_("the model's own"),
    # i18n: the causal mask is
    "off": N_("off"),
    "moved": N_("diagonal moved by"),
}
FACTORS: dict[float | None, str] = {  # None: no scaling
    None: N_("no scaling"),
    2.0: N_("2 times the model's own"),
    0.5: N_("half the model's own"),
}


class MaskFields(QWidget):
    """What is changed in which layers; every choice changes the run at once."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._state = State()
        self.layers = chooser(_("layers in which the mask is changed"))
        self.layers.currentIndexChanged.connect(lambda _: self._change_layer())
        self.causal = chooser(_("causal mask"), CAUSAL)
        self.causal.activated.connect(lambda _: self._change_causal())
        moved = _("number of tokens by which the diagonal is moved")
        self.offset = whole_field(moved, -64, 64)
        self.offset.setKeyboardTracking(True)
        self.offset.setValue(1)
        self.offset.valueChanged.connect(lambda _: self._change_causal())
        self.masked_value = chooser(_("value of a masked score"))
        self.masked_value.activated.connect(lambda _: self._change_masked_value())
        self.scaling = chooser(_("scale of the scores"))
        self.scaling.activated.connect(lambda _: self._change_scale())
        self.hide_button = QPushButton(_("Hide source tokens"))
        self._menu = QMenu(self.hide_button)
        self._menu.aboutToShow.connect(self._list_tokens)
        self.hide_button.setMenu(self._menu)
        self.kind = chooser(_("kind of attention"))
        self.kind.activated.connect(lambda at: session.set(kind=self.kind.itemData(at)))
        self._lay_out()

    def _lay_out(self) -> None:
        fields = {
            _("&In"): (self.kind, self.layers),
            _("&Causal mask"): (self.causal, self.offset),
            _("&Masked score"): (self.masked_value,),
            _("Score &scale"): (self.scaling,),
        }
        groups = []
        for title, widgets in fields.items():
            group = QWidget()
            grid = QGridLayout(group)
            grid.setContentsMargins(0, 0, 0, 0)
            grid.setVerticalSpacing(0)
            grid.addWidget(titled(title, widgets[0]), 0, 0, 1, len(widgets))
            for at, widget in enumerate(widgets):
                grid.addWidget(widget, 1, at)
            groups.append(group)
        Flow(self, *groups, self.hide_button)

    @property
    def layer(self) -> int | None:
        """The layer in which changes hold; None: every layer."""
        layer: int | None = self.layers.currentData()
        return layer

    def draw(self, state: State) -> None:
        """Say what is changed in the chosen layers."""
        self._state = state
        kinds = KINDS if state.trace is None else state.trace.kinds
        self.kind.offer({kind: _(KIND_NAMES[kind]) for kind in kinds}, state.kind)
        self._draw_layers()
        change = state.intervention.one(Causal, layer=self.layer)
        name = "own" if change is None else "off" if change.offset is None else "moved"
        with QSignalBlocker(self.causal), QSignalBlocker(self.offset):
            self.causal.setCurrentIndex(self.causal.findData(name))
            if change is not None and change.offset is not None:
                self.offset.setValue(change.offset)
        self.offset.setVisible(name == "moved")
        self._draw_masked_value()
        self._draw_scale()

    def forbid(self, why: str) -> None:
        """Say why nothing can be changed; "": it can."""
        for box in (self.causal, self.offset, self.masked_value, self.scaling):
            box.setEnabled(not why)
            box.setToolTip(plain_tip(why))
        self.hide_button.setEnabled(not why and bool(self._tokens))
        self.hide_button.setToolTip(plain_tip(why))

    def _draw_layers(self) -> None:
        count = self._state.model.layers(self._state.kind) if self._state.model else 0
        layers: dict[int | None, str] = {None: _("all layers")}
        layers |= {layer: layer_words(layer) for layer in range(count)}
        chosen = self._state.views.mask_layer
        self.layers.offer(layers, chosen if chosen in layers else None)

    def _draw_masked_value(self) -> None:
        state = self._state
        run, own = state.baseline or state.visible, _("the model's own")
        if run is not None:
            text = masked_value_text(run.model.attention[state.kind].masked_value)
            own = _("the model's own, {value}", value=text)
        named: dict[float | None, str] = {
            None: own,
            0.0: _("score × mask (the wrong way: it leaks)"),
            -math.inf: "−∞",
        }
        chosen = state.intervention.masked_value
        if chosen is not None and chosen not in named:
            named[chosen] = masked_value_text(chosen)
        self.masked_value.offer(named, chosen)

    def _draw_scale(self) -> None:
        state = self._state
        chosen = state.intervention.one(ScoreScale, layer=self.layer)
        own = _("the model's own")
        if state.model is not None and state.kind in state.model.attention:
            scales = state.model.attention[state.kind].scales
            value = number(scales[self.layer or 0])
            own = _("the model's own, {value}", value=value)
        named: dict[float | str | None, str] = {"own": own}
        named |= {factor: _(title) for factor, title in FACTORS.items()}
        if chosen is not None and chosen.factor not in named:
            named[chosen.factor] = f"× {number(chosen.factor or 0)}"
        self.scaling.offer(named, "own" if chosen is None else chosen.factor)

    @property
    def _tokens(self) -> tuple[str, ...]:
        trace = self._state.visible
        return names(trace, "source") if trace is not None else ()

    def _list_tokens(self) -> None:
        """Fill the menu once it opens: a long source has thousands of entries."""
        tokens = self._tokens
        changes = self._state.intervention.of(HideSource, layer=self.layer)
        hidden = {change.token for change in changes}
        if len(self._menu.actions()) != len(tokens):
            self._menu.clear()
            for index in range(len(tokens)):
                action = self._menu.addAction("")
                action.setCheckable(True)
                action.triggered.connect(
                    lambda _checked, token=index: self._hide(token)
                )
        for index, action in enumerate(self._menu.actions()):
            text = tokens[index].replace("&", "&&")
            action.setText(f"{index + 1}  {text}")
            action.setChecked(index in hidden)

    # ---- what the user does ----------------------------------------------------

    def _change_layer(self) -> None:
        views = replace(self._state.views, mask_layer=self.layer)
        self._session.set(views=views)

    def _change_causal(self) -> None:
        name, offset = self.causal.currentData(), self.offset.value()
        change = Causal(None if name == "off" else offset, self.layer)
        if name != "own":
            self._session.set(step=leaking_step(self._state))
        self._change(change, own=name == "own")

    def _change_masked_value(self) -> None:
        value: float | None = self.masked_value.currentData()
        self._change(MaskedScore(value or 0.0), own=value is None)

    def _change_scale(self) -> None:
        factor = self.scaling.currentData()
        own = factor == "own"
        self._change(ScoreScale(None if own else factor, self.layer), own=own)

    def _hide(self, token: int) -> None:
        change = HideSource(token, self.layer)
        self._change(change, own=change in self._state.intervention)

    def _change(self, change: RunChange, *, own: bool) -> None:
        """Run with a change; or, where it is, with the model's own again."""
        before = self._state.intervention
        changed = before.without(change) if own else before.with_change(change)
        self._session.do(change_run, changed)


def leaking_step(state: State) -> int:
    """Return the step to look for leaks at: with one token nothing can leak."""
    if state.trace is None or state.step >= 2:
        return state.step
    return len(state.trace)


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
