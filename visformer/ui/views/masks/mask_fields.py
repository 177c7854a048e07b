"""The fields of the mask lab: where a change holds, and what is changed."""

from __future__ import annotations

import math
from dataclasses import replace

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QGridLayout, QMenu, QPushButton, QWidget

from visformer.language import N_, _
from visformer.pictures.token_names import names
from visformer.session.runs import change_run
from visformer.session.state import Session, State
from visformer.ui.layout import Flow
from visformer.ui.widgets.controls import chooser, titled, whole_field
from visformer.ui.widgets.plain_label import plain_tip
from visformer.values.changes.causal import Causal
from visformer.values.changes.hide_source import HideSource
from visformer.values.changes.masked_score import MaskedScore
from visformer.values.changes.run_change import RunChange
from visformer.values.changes.score_scale import ScoreScale
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
        self._draw_tokens()

    def forbid(self, why: str) -> None:
        """Say why nothing can be changed; "": it can."""
        for box in (self.causal, self.offset, self.masked_value, self.scaling):
            box.setEnabled(not why)
            box.setToolTip(plain_tip(why))
        self.hide_button.setEnabled(not why and self._menu.actions() != [])
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

    def _draw_tokens(self) -> None:
        trace = self._state.visible
        tokens = names(trace, "source") if trace is not None else ()
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
        self.hide_button.setEnabled(bool(tokens))

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
