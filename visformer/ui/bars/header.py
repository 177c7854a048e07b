"""The line above: the model, what is known of it, opening, theme, device."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from visformer.engine.messages import Opened
from visformer.language import _, ngettext
from visformer.pictures.absent import facts_words
from visformer.session.state import State
from visformer.ui import theme
from visformer.ui.bars.about import AboutButton
from visformer.ui.widgets.chooser import chooser
from visformer.ui.widgets.plain_label import plain_label
from visformer.values.facts import KINDS, ModelFacts


class Header(QWidget):
    """Names the model on screen; theme and device are chosen here."""

    theme_chosen = Signal(str)
    device_chosen = Signal(str)

    def __init__(self, about: AboutButton, opener: QPushButton) -> None:
        super().__init__()
        self.model = plain_label(_("no model"))
        self._about = about
        self._opened: Opened | None = None  # whose devices are listed
        self.theme = chooser(_("Theme"), theme.NAMES)
        self.theme.activated.connect(
            lambda _: self.theme_chosen.emit(self.theme.currentData())
        )
        self.device = chooser(_("Device"), {})
        self.device.setPlaceholderText(_("device"))
        self.device.activated.connect(
            lambda _: self.device_chosen.emit(self.device.currentData())
        )
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        for part in (self.model, about, opener):
            row.addWidget(part)
        row.addStretch(1)
        row.addWidget(self.theme)
        row.addWidget(self.device)

    def draw(self, state: State) -> None:
        """Name the model on screen, and the devices that the open one could run on."""
        self._about.draw(state)
        model = state.model
        if model is not None and (model.known is None or model.kinds != KINDS):
            self.model.setText(facts_words(model))
        elif model is not None:
            self.model.setText(_model_words(model, recorded=state.recorded))
        if state.opened is not None and state.opened is not self._opened:
            self._opened = state.opened
            self._list_devices(state.opened)

    def _list_devices(self, opened: Opened) -> None:
        self.device.clear()
        for name in opened.devices:
            self.device.addItem(name, name)
        self.device.setCurrentText(opened.model.device)


def _model_words(model: ModelFacts, *, recorded: bool) -> str:
    config = model.config
    fields = {
        "name": model.name,
        "encoder": config.encoder_layers,
        "decoder": config.decoder_layers,
        "heads": ngettext("{n} head", "{n} heads", config.heads),
        "millions": f"{model.parameters / 1e6:.1f}",
        "device": model.device,
    }
    if recorded:
        return _(
            "model: {name}, {encoder}+{decoder} layers, {heads}, {millions} M, "
            "{device}, recorded",
            **fields,
        )
    return _(
        "model: {name}, {encoder}+{decoder} layers, {heads}, {millions} M, {device}",
        **fields,
    )
