"""The drawer: what is not set every minute; its button says what of it is on."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFormLayout, QFrame, QWidget

from visformer.language import _
from visformer.pictures.breakpoints import Breakpoints
from visformer.pictures.words.modified_run import is_taught
from visformer.session.state import State
from visformer.ui.look import icons, theme
from visformer.ui.look.theme import FONT_PALETTE, Dressed
from visformer.ui.widgets.controls import titled, tool_button
from visformer.values.strategy import Strategy


class Drawer(Dressed, QFrame):
    """Named fields below one another, over the pictures while it is open.

    Opened by hand it is ready for typing in its first field.
    """

    dressed_at = FONT_PALETTE

    closed = Signal()  # with the focus in it, which goes elsewhere now

    def __init__(self, parent: QWidget, fields: Sequence[tuple[str, QWidget]]) -> None:
        super().__init__(parent)
        self.setAutoFillBackground(True)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName(_("how the run is made and played"))
        self.button = tool_button(
            _("Reference, sampling, limit, speed, breakpoints (Ctrl+D)")
        )
        self.button.setCheckable(True)
        self.button.setAccessibleName(_("how the run is made and played"))
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.toggled.connect(self._open)
        self._first = fields[0][1]
        self._form = QFormLayout(self)
        for name, field in fields:
            self._form.addRow(titled(name, field), field)
        self.dress()
        self.hide()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.raise_()

    def _dress(self) -> None:
        icons.dress(self.button, "settings")
        space = theme.gap(self, 2)
        self._form.setContentsMargins(space, space, space, space)
        self._form.setSpacing(theme.gap(self))

    def draw(self, state: State) -> None:
        """Say at the button what is not as usual."""
        self.button.setText(" · ".join(_in_use(state)))

    def _open(self, opened: bool) -> None:
        focused = self.isAncestorOf(self.window().focusWidget() or self.window())
        if focused and not opened:
            self.closed.emit()  # hidden, it would give the focus to any widget
        self.setVisible(opened)
        if opened:
            self._first.setFocus()

    def close_up(self) -> bool:
        """Close the drawer; tell whether it was open."""
        opened = self.button.isChecked()
        self.button.setChecked(False)
        return opened


def _in_use(state: State) -> list[str]:
    strategy, usual = state.wish.strategy, Strategy()
    words = []
    if strategy.name == "sample":
        if strategy.temperature != usual.temperature:
            words.append(f"T {strategy.temperature:g}")
        if strategy.top_k:
            words.append(f"k {strategy.top_k}")
        if strategy.top_p != usual.top_p:
            words.append(f"p {strategy.top_p:g}")
    if strategy.name == "beam":
        words.append(_("{n} beams", n=strategy.beams))
    if state.wish.limit is not None:
        words.append(_("limit {n}", n=state.wish.limit))
    if state.wish.reference and not is_taught(state.trace):  # the transport says it
        words.append(_("reference"))
    if state.breakpoints != Breakpoints():
        words.append(_("breakpoints"))
    return words
