"""The notice: one sentence on what went wrong or is to be known."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from visformer.language import _
from visformer.session.state import State
from visformer.ui import icons
from visformer.ui.widgets.plain_label import plain_label
from visformer.ui.widgets.side_by_side import in_a_row


class Notice(QWidget):
    """Wraps its sentence; a long word in it never widens the window."""

    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.words = plain_label("")
        self.words.setMargin(4)
        self.words.setWordWrap(True)
        self.words.setMinimumWidth(1)  # otherwise that of the longest word
        flags = Qt.TextInteractionFlag
        self.words.setTextInteractionFlags(flags.TextSelectableByMouse)
        self._close = QToolButton()
        self._close.setAutoRaise(True)
        self._close.setToolTip(_("Close the message (Esc)"))
        self._close.setAccessibleName(_("Close the message (Esc)"))
        self._close.clicked.connect(self.closed)
        row = in_a_row(self.words, self._close, stretch=self.words)
        row.setContentsMargins(0, 0, 0, 0)
        self.setLayout(row)
        icons.dress(self._close, "close")
        self.hide()

    def changeEvent(self, event: QEvent) -> None:
        """Follow palette and font."""
        super().changeEvent(event)
        kinds = QEvent.Type.PaletteChange, QEvent.Type.FontChange
        if event.type() in kinds and "_close" in self.__dict__:
            icons.dress(self._close, "close")

    def text(self) -> str:
        return self.words.text()

    def draw(self, state: State, damage: str = "") -> None:
        """Show the error, or else what the engine or the run has to say.

        ``damage`` says why something could not be drawn.
        """
        sentence = state.error or damage or state.silence or state.notice
        if sentence != self.words.text() or self.isHidden() == bool(sentence):
            self.words.setText(sentence)
            self.setVisible(bool(sentence))
