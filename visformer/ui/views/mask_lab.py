"""The Lab page of the Masks tab: change a mask, run again, see the effect."""

from __future__ import annotations

import math
from dataclasses import replace

from PySide6.QtCore import QEvent, QSignalBlocker, Qt
from PySide6.QtWidgets import (
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from visformer.language import N_, _
from visformer.pictures.mask_lab import (
    NO_DIFFERENCE,
    Runs,
    candidate_numbers,
    causal_of,
    compare,
    difference_picture,
    difference_words,
    empty_row_words,
    focused_query,
    hidden_of,
    leak_words,
    paint_picture,
    painted_layer,
    row_numbers,
    row_words,
    toggled,
    turned,
)
from visformer.pictures.position_lab import attention_pictures, text_words
from visformer.pictures.selection import AttentionCell
from visformer.session.live import fixed_words
from visformer.session.runs import change_run
from visformer.session.state import Session, State
from visformer.text import visible
from visformer.ui.views.both_runs import draw_both
from visformer.ui.views.view import View
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph
from visformer.values.facts import KINDS
from visformer.values.intervention import Causal, HideSource
from visformer.words import KIND_NAMES, layer_words, masked_value_text

CAUSAL = {
    "own": N_("the model's own"),
    "off": N_("off"),
    "moved": N_("diagonal moved by"),
}


class MaskLab(View):
    """Fields that change the masks of a run, and both runs side by side."""

    name, title = "lab", N_("Lab")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._runs: Runs | None = None
        self._leaks = ""
        self._fixed = ""  # why nothing can be changed
        self.layers = self._chooser(_("layers in which the mask is changed"))
        self.layers.activated.connect(lambda _: self._change_layer())
        self.causal = self._chooser(_("causal mask"))
        for name, title in CAUSAL.items():
            self.causal.addItem(_(title), name)
        self.causal.activated.connect(lambda _: self._change_causal())
        self.offset = QSpinBox()
        self.offset.setAccessibleName(
            _("number of tokens by which the diagonal is moved")
        )
        self.offset.setRange(-64, 64)
        self.offset.setValue(1)
        self.offset.valueChanged.connect(lambda _: self._change_causal())
        self.masked_value = self._chooser(_("value of a masked score"))
        self.masked_value.activated.connect(lambda _: self._change_masked_value())
        self.hide_button = QPushButton(_("Hide source tokens"))
        self._menu = QMenu(self.hide_button)
        self.hide_button.setMenu(self._menu)
        self.kind = self._chooser(_("kind of attention"))
        self.kind.activated.connect(self._choose_kind)
        self.mask_map, self.difference = HeatMap(), HeatMap()
        self.attention = [HeatMap(), HeatMap()]
        self.mask_map.clicked.connect(self._paint)
        self.text, self.leaks = paragraph(_("both translations")), paragraph(_("leaks"))
        self.row_words = paragraph(_("the row in words"))
        self.row, self.candidates = NumberTable(), NumberTable()
        self._lay_out()
        self._fit()

    def _chooser(self, name: str) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(name)
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        box.setSizeAdjustPolicy(policy)
        box.setMinimumContentsLength(9)
        return box

    def _lay_out(self) -> None:
        fields = {
            _("&In"): (self.kind, self.layers),
            _("&Causal mask"): (self.causal, self.offset),
            _("&Masked score"): (self.masked_value,),
        }
        line = QGridLayout()
        for at, (title, widgets) in enumerate(fields.items()):
            label = QLabel(title)
            label.setBuddy(widgets[0])
            line.addWidget(label, 0, at)
            beside = QHBoxLayout()
            for widget in widgets:
                beside.addWidget(widget)
            line.addLayout(beside, 1, at)
        line.addWidget(self.hide_button, 1, len(fields))
        maps = QGridLayout()
        places = (self.mask_map, *self.attention, self.difference)
        for index, heat_map in enumerate(places):
            heat_map.failed.connect(self.fail)
            maps.addWidget(heat_map, index // 2, index % 2)
            if heat_map is not self.mask_map:
                heat_map.hovered.connect(self._hover)
                heat_map.clicked.connect(self._lock)
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.text)
        column.addWidget(self.leaks)
        column.addLayout(maps, 1)
        column.addWidget(self.row_words)
        column.addWidget(self.row)
        column.addWidget(self.candidates)
        scroll = QScrollArea()
        scroll.setWidget(body)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(line)
        layout.addWidget(scroll, 1)

    # ---- drawing ---------------------------------------------------------------

    def draw(self, state: State) -> None:
        """Show both runs; the fields say what is changed."""
        self._state = state
        shown, selection = state.shown, state.selection
        runs = shown, state.baseline
        if self._changed("runs", *runs):
            self._runs = compare(state.baseline, shown)
        kind = (*runs, state.kind)
        if self._changed("fields", *kind, state.intervention, state.model):
            self._fill_fields()
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
            self.leaks.setText(" ".join(filter(None, (self._leaks, empty))))
        query = None if shown is None else focused_query(shown, selection)
        if self._changed("row", *head, query):
            self.row_words.setText(row_words(shown, selection))
            self.row.draw(row_numbers(shown, self._runs, selection))

    def _draw_mask(self) -> None:
        shown, selection = self._state.shown, self._state.selection
        layer = None
        if shown is not None:
            layer = painted_layer(shown, selection, self._layer)
        fixed = bool(self._fixed)
        if self._changed("mask", shown, selection.kind, layer, fixed):
            picture = paint_picture(shown, selection, layer, fixed=fixed)
            self.mask_map.draw(picture)

    def _draw_fixed(self) -> None:
        """Say why nothing can be changed, where that is so."""
        for box in (self.causal, self.offset, self.masked_value):
            box.setEnabled(not self._fixed)
            box.setToolTip(self._fixed)
        self.hide_button.setEnabled(not self._fixed and self._menu.actions() != [])
        self.hide_button.setToolTip(self._fixed)
        if self._changed("fixed", self._fixed):
            self._changed.forget("difference")

    def _draw_attention(self) -> None:
        state = self._state
        pictures = attention_pictures(state.shown, state.baseline, state.selection)
        draw_both(self.attention, pictures)

    def _draw_difference(self) -> None:
        difference = difference_picture(self._runs, self._state.selection)
        self.difference.draw(difference)
        self.difference.setVisible(difference is not None)
        texts = (
            text_words(self._state.trace, self._state.baseline),
            difference_words(self._runs),
        )
        self.text.setText(
            self._fixed or _(NO_DIFFERENCE)
            if difference is None
            else " ".join(filter(None, texts))
        )
        candidates = candidate_numbers(self._runs)
        self.candidates.draw(candidates)
        self.candidates.setVisible(candidates is not None)

    def changeEvent(self, event: QEvent) -> None:
        """Keep the cells visible below labels of the new size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "attention"):
            self._fit()

    def _fit(self) -> None:
        least = 12 * self.fontMetrics().lineSpacing()
        for heat_map in (self.mask_map, *self.attention, self.difference):
            heat_map.setMinimumHeight(least)

    def _fill_fields(self) -> None:
        state = self._state
        kinds = KINDS if state.trace is None else state.trace.kinds
        with QSignalBlocker(self.kind):
            if [self.kind.itemData(at) for at in range(self.kind.count())] != [*kinds]:
                self.kind.clear()
                for kind in kinds:
                    self.kind.addItem(_(KIND_NAMES[kind]), kind)
            self.kind.setCurrentIndex(self.kind.findData(state.kind))
        self._fill_layers()
        change = causal_of(state.intervention, self._layer)
        name = "own" if change is None else "off" if change.offset is None else "moved"
        with QSignalBlocker(self.causal), QSignalBlocker(self.offset):
            self.causal.setCurrentIndex(self.causal.findData(name))
            if change is not None and change.offset is not None:
                self.offset.setValue(change.offset)
        self.offset.setVisible(name == "moved")
        self._fill_masked()
        self._fill_tokens()

    def _fill_layers(self) -> None:
        count = self._state.model.layers(self._state.kind) if self._state.model else 0
        if self.layers.count() == count + 1:
            return
        chosen = self.layers.currentIndex()
        self.layers.clear()
        self.layers.addItem(_("all layers"), None)
        for layer in range(count):
            self.layers.addItem(layer_words(layer), layer)
        self.layers.setCurrentIndex(max(0, min(chosen, count)))

    def _fill_masked(self) -> None:
        state = self._state
        run, own = state.baseline or state.shown, _("the model's own")
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
        with QSignalBlocker(self.masked_value):
            self.masked_value.clear()
            for value, title in named.items():
                self.masked_value.addItem(title, value)
            self.masked_value.setCurrentIndex(list(named).index(chosen))

    def _fill_tokens(self) -> None:
        trace = self._state.shown
        tokens = trace.source if trace is not None else ()
        hidden = hidden_of(self._state.intervention, self._layer)
        if len(self._menu.actions()) != len(tokens):
            self._menu.clear()
            for index in range(len(tokens)):
                action = self._menu.addAction("")
                action.setCheckable(True)
                action.triggered.connect(
                    lambda _checked, token=index: self._hide(token)
                )
        for index, action in enumerate(self._menu.actions()):
            text = visible(tokens[index]).replace("&", "&&")
            action.setText(f"{index + 1}  {text}")
            action.setChecked(index in hidden)
        self.hide_button.setEnabled(bool(tokens))

    # ---- what the user does ----------------------------------------------------

    @property
    def _layer(self) -> int | None:
        layer: int | None = self.layers.currentData()
        return layer

    def _choose_kind(self, index: int) -> None:
        self.session.set(kind=self.kind.itemData(index))

    def _change_layer(self) -> None:
        self._fill_fields()
        self._draw_mask()

    def _change_causal(self) -> None:
        name, offset = self.causal.currentData(), self.offset.value()
        change = Causal(None if name == "off" else offset, self._layer)
        before = self._state.intervention
        changed = before.without(change) if name == "own" else before.with_mask(change)
        self.session.do(change_run, changed)

    def _change_masked_value(self) -> None:
        value: float | None = self.masked_value.currentData()
        changed = replace(self._state.intervention, masked_value=value)
        self.session.do(change_run, changed)

    def _hide(self, token: int) -> None:
        before, change = self._state.intervention, HideSource(token, self._layer)
        hidden = token in hidden_of(before, self._layer)
        changed = before.without(change) if hidden else before.with_mask(change)
        self.session.do(change_run, changed)

    def _paint(self, cell: MapCell | None) -> None:
        state = self._state
        if cell is not None and state.shown is not None and not self._fixed:
            change = turned(state.shown, state.selection, cell, self._layer)
            changed = toggled(state.intervention, state.baseline, change)
            self.session.do(change_run, changed)

    def _hover(self, cell: MapCell | None) -> None:
        hovered = None if cell is None else AttentionCell(self._state.kind, *cell)
        self.session.set(hovered=hovered)

    def _lock(self, cell: MapCell | None) -> None:
        if cell is not None:
            self.session.set(locked=AttentionCell(self._state.kind, *cell))
