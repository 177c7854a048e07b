"""The line above: the model, the sentence, samples, presentation, the menu."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visformer.engine.messages import Opened
from visformer.language import _, ngettext
from visformer.pictures.words.about import about_text, count_words, watched_text
from visformer.pictures.words.absent import facts_words
from visformer.session.state import State
from visformer.ui.bars.source_line import SourceBox
from visformer.ui.layout import fill
from visformer.ui.look import icons, theme
from visformer.ui.look.theme import FONT_PALETTE, Dressed, letter_width
from visformer.ui.widgets.controls import tool_button
from visformer.ui.widgets.plain_label import cut_to_room, plain_tip
from visformer.values.facts import KINDS, ModelFacts
from visformer.values.trace import Trace

MOST_NAME = 20  # characters of a model's name for which there is room


class Header(Dressed, QWidget):
    """One row; what is opened and set stands in the menus of its two ends."""

    dressed_at = FONT_PALETTE

    device_chosen = Signal(str)

    def __init__(
        self, about: AboutButton, source: SourceBox, samples: QPushButton
    ) -> None:
        super().__init__()
        self._about = about
        self._opened: Opened | None = None  # whose devices are listed
        self._name = ""
        self.models = QMenu(self)  # of the model and of others
        self.model = _menu_button(self.models, _("Model: what it is, and others"))
        self.model.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self.device = QMenu(_("&Device"), self)
        self._devices = QActionGroup(self)
        self._devices.triggered.connect(
            lambda action: self.device_chosen.emit(action.data())
        )
        self.menu = QMenu(self)
        self.more = _menu_button(self.menu, _("Menu (F10)"))
        self.present = tool_button(_("Present (F5)"))
        self.go = tool_button(_("Translate (Enter)"), source.line.submit)
        after = self.go, samples, self.present, self.more
        self._row = fill(QHBoxLayout(self), self.model, about, (source, 1), *after)
        self.dress()

    def _dress(self) -> None:
        icons.dress(self.more, "menu")
        icons.dress(self.present, "present")
        icons.dress(self.go, "go")
        self._row.setSpacing(theme.gap(self))
        self._show_name()

    def _show_name(self) -> None:
        metrics = self.model.fontMetrics()
        room = MOST_NAME * letter_width(metrics)
        cut = cut_to_room(self._name, metrics, room)
        self.model.setText(cut.replace("&", "&&"))

    def draw(self, state: State) -> None:
        """Name the model on screen, and the devices that the open one could run on."""
        self._about.draw(state)
        model, words = state.model, _("no model")
        if model is not None and (model.known is None or model.kinds != KINDS):
            words = facts_words(model)
        elif model is not None:
            words = _model_words(model, recorded=state.recorded)
        name = model.name if model is not None else words
        tip = plain_tip(words)
        if (name, tip) != (self._name, self.model.toolTip()):
            self._name = name
            self.model.setToolTip(tip)
            self.model.setAccessibleDescription(words)
            self._show_name()
        if state.opened is not None and state.opened is not self._opened:
            self._opened = state.opened
            self._list_devices(state.opened)

    def _list_devices(self, opened: Opened) -> None:
        self.device.clear()
        for name in opened.devices:
            action = QAction(name, self._devices, checkable=True)
            action.setData(name)
            action.setChecked(name == opened.model.device)
            self.device.addAction(action)


def _menu_button(menu: QMenu, name: str) -> QToolButton:
    button = tool_button(name)
    button.setMenu(menu)
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    return button


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


COLUMNS, LINES = 100, 32


class AboutButton(QPushButton):
    """Says how many findings there are, and shows all that is known of the model."""

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self._window = window
        self.opened: Opened | None = None
        self.watched: Trace | None = None  # of a model that is not open
        self.setToolTip(_("What is known, assumed and unusual about this model"))
        self.clicked.connect(self._show)

    def draw(self, state: State) -> None:
        """Count the findings of the model; hide where there are none."""
        self.opened, trace = state.about, state.trace
        is_watched = trace is not None and trace.certificate is not None
        self.watched = trace if is_watched else None
        if self.watched is not None and self.watched.certificate is not None:
            self.setVisible(True)
            self.setText(count_words(self.watched.certificate.findings))
            return
        self.setVisible(state.about is not None and bool(state.about.findings))
        if state.about is not None:
            self.setText(count_words(state.about.findings))

    def _show(self) -> None:
        if self.watched is not None:
            name = self.watched.model.name
            show_about(self._window, name, watched_text(self.watched))
        elif self.opened is not None:
            name = self.opened.model.name
            show_about(self._window, name, about_text(self.opened))


def show_about(parent: QWidget, name: str, text: str) -> None:
    """Open a dialog on a model's sizes, assumptions and findings."""
    dialog = QDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(_("About {model}", model=name))
    page = QPlainTextEdit(text)
    page.setReadOnly(True)
    page.setTabChangesFocus(True)
    page.setAccessibleName(_("What is known about the model"))
    flags = Qt.TextInteractionFlag
    page.setTextInteractionFlags(
        flags.TextSelectableByMouse | flags.TextSelectableByKeyboard
    )
    kinds = QDialogButtonBox.StandardButton
    buttons = QDialogButtonBox(kinds.Close)
    buttons.button(kinds.Close).setText(_("Close"))
    copy = buttons.addButton(_("Copy all"), QDialogButtonBox.ButtonRole.ActionRole)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(text))
    buttons.rejected.connect(dialog.close)
    column = QVBoxLayout(dialog)
    column.addWidget(page)
    column.addWidget(buttons)
    metrics = dialog.fontMetrics()
    dialog.resize(
        min(letter_width(metrics) * COLUMNS, parent.width() * 19 // 20),
        min(metrics.height() * LINES, parent.height() * 19 // 20),
    )
    dialog.open()
